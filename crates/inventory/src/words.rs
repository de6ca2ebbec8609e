//! Splits a line into words as a POSIX shell does, with their columns.

/// A word and its columns.
#[derive(Debug, PartialEq)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// Column in the line of each character of `text`, counting from 0.
    pub(crate) columns: Vec<usize>,
    /// Column of the word's start.
    pub(crate) column: usize,
}

/// Reason why a line cannot be split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unfinished {
    pub(crate) message: &'static str,
    pub(crate) column: usize,
}

/// Splits a line and removes quotes and backslashes. An unquoted `#` begins a comment, even inside a word.
pub(crate) fn split(line: &str) -> Result<Vec<Word>, Unfinished> {
    let mut words = Vec::new();
    let mut current: Option<Word> = None;
    let mut characters = line.chars().enumerate();
    while let Some((column, character)) = characters.next() {
        if character.is_whitespace() {
            words.extend(current.take());
            continue;
        }
        if character == '#' {
            break;
        }
        let word = current.get_or_insert_with(|| Word { text: String::new(), columns: Vec::new(), column });
        match character {
            '\\' => {
                let (column, escaped) = characters
                    .next()
                    .ok_or(Unfinished { message: "a backslash stands at the end of the line", column })?;
                word.push(escaped, column);
            }
            '\'' | '"' => quoted(character, column, &mut characters, word)?,
            _ => word.push(character, column),
        }
    }
    words.extend(current);
    Ok(words)
}

fn quoted(
    quote: char,
    start: usize,
    characters: &mut impl Iterator<Item = (usize, char)>,
    word: &mut Word,
) -> Result<(), Unfinished> {
    let unclosed = Unfinished { message: "a quote is opened but never closed", column: start };
    loop {
        match characters.next().ok_or(unclosed)? {
            (_, character) if character == quote => return Ok(()),
            (column, '\\') if quote == '"' => {
                let (next_column, next) = characters.next().ok_or(unclosed)?;
                if !matches!(next, '"' | '\\') {
                    word.push('\\', column);
                }
                word.push(next, next_column);
            }
            (column, character) => word.push(character, column),
        }
    }
}

impl Word {
    fn push(&mut self, character: char, column: usize) {
        self.text.push(character);
        self.columns.push(column);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        split(line).unwrap().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn line_split_like_a_shell() {
        assert_eq!(texts("a b='c d' \"e\"f # g"), ["a", "b=c d", "ef"]);
        assert_eq!(texts(r#"a="x\"y\z" b=\' c=''"#), ["a=x\"y\\z", "b='", "c="]);
        assert_eq!(texts("a b=c#d"), ["a", "b=c"]);
        assert_eq!(texts("a '' b"), ["a", "", "b"]);
        assert!(split("a b='c").is_err());
        assert!(split("a b\\").is_err());
    }

    #[test]
    fn split_words_keep_their_columns() {
        let words = split("web  port='80'").unwrap();
        assert_eq!(words[1].column, 5);
        assert_eq!(words[1].columns[5], 11);
    }
}
