//! Splits the text of `command` into words like Python's `shlex`, which Ansible uses. Nothing in it is expanded.

use crate::Failure;

/// Splits a command line like Python's `shlex.split`. In double quotes, a backslash escapes only a double quote and
/// itself.
pub fn split(text: &str) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '\'' => {
                let current = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some('\'') => break,
                        Some(other) => current.push(other),
                        None => return Err(unclosed(text)),
                    }
                }
            }
            '"' => {
                let current = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some('"') => break,
                        Some('\\') => match characters.next() {
                            Some(escaped @ ('"' | '\\')) => current.push(escaped),
                            Some(other) => current.extend(['\\', other]),
                            None => return Err(unclosed(text)),
                        },
                        Some(other) => current.push(other),
                        None => return Err(unclosed(text)),
                    }
                }
            }
            '\\' => match characters.next() {
                Some(escaped) => word.get_or_insert_default().push(escaped),
                None => {
                    return Err(Failure::new(format!(
                        "The command ends with a backslash that escapes nothing: {text}"
                    )));
                }
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

fn unclosed(text: &str) -> Failure {
    Failure::new(format!("A quotation mark is not closed in the command: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_escapes_split_like_shlex() {
        assert_eq!(
            split(r#"a "b c" 'd "e"' f\ g "\$h \" \\" ''"#).unwrap(),
            ["a", "b c", "d \"e\"", "f g", "\\$h \" \\", ""]
        );
        assert_eq!(split("  \n ").unwrap(), Vec::<String>::new());
        assert_eq!(split("a # b").unwrap(), ["a", "#", "b"]);
    }

    #[test]
    fn open_quote_fails() {
        assert!(split("echo 'it").unwrap_err().message.contains("not closed"));
        assert!(split("echo \"it").is_err());
        assert!(split("echo \\").is_err());
    }
}
