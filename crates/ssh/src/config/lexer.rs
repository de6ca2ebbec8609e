//! Lines of an ssh_config: a keyword followed by words, which may be quoted.

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Keyword in lower case.
    pub(super) keyword: String,
    /// The unparsed text after the keyword, for options that are commands.
    pub(super) rest: String,
    /// The words after the keyword.
    pub(super) words: Vec<String>,
}

/// Parses a line; `None` for blank lines and comments.
pub(super) fn line(text: &str) -> Result<Option<Line>, String> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let end = text.find(|character: char| character.is_whitespace() || character == '=').unwrap_or(text.len());
    let (keyword, rest) = text.split_at(end);
    // `Keyword=value`, `Keyword = value` and `Keyword value` are the same.
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim();
    Ok(Some(Line { keyword: keyword.to_lowercase(), rest: rest.to_owned(), words: words(rest)? }))
}

/// Splits words at white space. Quotes hold a word together; a backslash escapes a quote, a space or itself.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if matches!(characters.peek(), Some('"' | '\'' | '\\' | ' ')) => {
                word.get_or_insert_default().extend(characters.next());
            }
            '"' | '\'' if quote.is_none() => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            _ if quote == Some(character) => quote = None,
            _ if quote.is_none() && character.is_whitespace() => words.extend(word.take()),
            '#' if quote.is_none() && word.is_none() => break,
            _ => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err(format!("a quotation mark is not closed in `{text}`"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_split_into_keyword_and_words() {
        let found = line("  IdentityFile = \"~/my keys/id\"  other # why").unwrap().unwrap();
        assert_eq!(found.keyword, "identityfile");
        assert_eq!(found.words, ["~/my keys/id", "other"]);
        assert_eq!(line("Port=2222").unwrap().unwrap().words, ["2222"]);
        assert_eq!(line("# comment").unwrap(), None);
        assert!(line("User \"root").is_err());
    }

    #[test]
    fn command_option_kept_verbatim() {
        let found = line("ProxyCommand sh -c 'nc \"%h\" %p'").unwrap().unwrap();
        assert_eq!(found.rest, "sh -c 'nc \"%h\" %p'");
    }
}
