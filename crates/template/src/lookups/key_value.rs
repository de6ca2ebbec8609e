//! Parses options within a term, the older syntax: `term option=value option='a value'`.

/// Returns the text before the options, and the options. Quotes keep spaces together.
pub(super) fn parse(text: &str) -> (String, Vec<(String, String)>) {
    let mut words = Vec::new();
    let mut options = Vec::new();
    for word in split(text) {
        match word.split_once('=') {
            Some((name, value)) if is_name(name) => options.push((name.to_owned(), unquoted(value))),
            _ => words.push(word),
        }
    }
    (words.join(" "), options)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Splits into words and keeps quoted text together.
fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for character in text.chars() {
        match quote {
            Some(open) if character == open => quote = None,
            None if character == '"' || character == '\'' => quote = Some(character),
            None if character.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            _ => {}
        }
        word.push(character);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn unquoted(value: &str) -> String {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote)))
        .unwrap_or(value)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_parsed_after_the_term() {
        let (term, options) = parse("a key file=x.csv delimiter=',' note='two words'");
        assert_eq!(term, "a key");
        let expected = [("file", "x.csv"), ("delimiter", ","), ("note", "two words")];
        assert_eq!(options, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
