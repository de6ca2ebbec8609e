//! Values encrypted by `!vault` within the text of a YAML file.

use std::sync::LazyLock;

use regex::Regex;

/// The tag, with the mark of a block; the envelope follows in lines of its own.
static TAG: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"!vault(-encrypted)?[ \t]+[|>][-+0-9]*[ \t]*(#.*)?$").ok());

/// Whether a text may have encrypted values.
pub(super) fn may_have(text: &str) -> bool {
    text.contains("!vault") && text.contains("$ANSIBLE_VAULT;")
}

/// The text with each envelope replaced, by other lines with its indentation. `change` gets the envelope and the number
/// of its first line. Only block scalars are found, the form that `encrypt_string` prints.
pub(super) fn replaced<E>(text: &str, mut change: impl FnMut(&str, usize) -> Result<String, E>) -> Result<String, E> {
    let mut changed = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n').enumerate().peekable();
    while let Some((_, line)) = lines.next() {
        changed.push_str(line);
        let is_tagged = TAG.as_ref().is_some_and(|tag| tag.is_match(line.trim_end_matches(['\r', '\n'])));
        let Some(&(number, first)) = lines.peek().filter(|(_, first)| is_tagged && is_header(first)) else { continue };
        let indent = first.get(..first.len() - first.trim_start().len()).unwrap_or_default();
        let mut envelope = String::new();
        while let Some((index, line)) = lines.next_if(|(index, line)| *index == number || is_body(line, indent)) {
            debug_assert!(index >= number);
            envelope.push_str(line.trim());
            envelope.push('\n');
        }
        let end = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
        for line in change(&envelope, number + 1)?.lines() {
            changed.extend([indent, line, end]);
        }
    }
    Ok(changed)
}

fn is_header(line: &str) -> bool {
    line.starts_with([' ', '\t']) && line.trim_start().starts_with("$ANSIBLE_VAULT;")
}

fn is_body(line: &str, indent: &str) -> bool {
    let digits = line.strip_prefix(indent).map(str::trim_end).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_replaced_where_they_are_and_the_rest_kept() {
        let text = "# !vault | of a comment\na: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\n  63\nb: 12\nlist:\n  - !vault |-  # why\n      \
                    $ANSIBLE_VAULT;1.2;AES256;x\n      64\nc: '!vault'\n";
        let mut seen = Vec::new();
        let changed = replaced(text, |envelope, line| {
            seen.push((envelope.to_owned(), line));
            Ok::<_, ()>("new\nlines\n".to_owned())
        });
        let expected = "# !vault | of a comment\na: !vault |\n  new\n  lines\nb: 12\nlist:\n  - !vault |-  # why\n      new\n      lines\n\
                        c: '!vault'\n";
        assert_eq!(changed.as_deref(), Ok(expected));
        let seen: Vec<_> = seen.iter().map(|(envelope, line)| (envelope.as_str(), *line)).collect();
        assert_eq!(seen, [("$ANSIBLE_VAULT;1.1;AES256\n6162\n63\n", 3), ("$ANSIBLE_VAULT;1.2;AES256;x\n64\n", 9)]);
    }

    #[test]
    fn lines_end_as_in_the_rest_of_the_file() {
        let text = "a: !vault |\r\n  $ANSIBLE_VAULT;1.1;AES256\r\n  6162\r\nb: 1\r\n";
        let changed = replaced(text, |_, _| Ok::<_, ()>("new\nlines\n".to_owned()));
        assert_eq!(changed.as_deref(), Ok("a: !vault |\r\n  new\r\n  lines\r\nb: 1\r\n"));
    }
}
