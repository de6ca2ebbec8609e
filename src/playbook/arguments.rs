//! Parses `key=value` arguments and free text.

use windlass_yaml::{Key, Mapping, Node, Value};

use crate::error::{Error, Result};

/// Options recognised inside the free text of `command` and similar actions; everything else stays unchanged.
const RAW_OPTIONS: &[&str] =
    &["creates", "removes", "chdir", "executable", "warn", "stdin", "stdin_add_newline", "strip_empty_ends"];

/// Parses the text of `module: text`; `written` is its node. For actions with free text, words that are not options
/// stay together under `_raw_params`.
pub fn parse(text: &str, free_text: bool, written: &Node) -> Result<Mapping> {
    let span = &written.span;
    let mut map = Mapping::new();
    let mut raw: Vec<&str> = Vec::new();
    let pieces = split(text).map_err(|message| Error::parse(message, span))?;
    for piece in pieces {
        let word = piece.trim_matches([' ', '\n']);
        match option_of(word) {
            Some((key, value)) if !free_text || RAW_OPTIONS.contains(&key) => {
                let key = Key { value: written.reworded(key).value, span: span.clone() };
                map.insert(key, written.reworded(unquote(value)));
            }
            _ => raw.push(piece),
        }
    }
    let text = raw.concat();
    // The line break at the end of a text block is part of it.
    let text = text.trim_start_matches([' ', '\n']).trim_end_matches(' ');
    if !text.is_empty() {
        map.insert(Key::string("_raw_params", span.clone()), written.reworded(text));
    }
    Ok(map)
}

/// Splits `key=value` at the first `=` that is neither escaped nor inside a template. The key may contain templates.
fn option_of(word: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    let mut before = '\0';
    for (at, character) in word.char_indices() {
        match (before, character) {
            ('{', '{') => depth += 1,
            ('}', '}') => depth = depth.saturating_sub(1),
            ('\\', _) => {}
            (_, '=') if depth == 0 && at > 0 => return Some((word.get(..at)?, word.get(at + 1..)?)),
            _ => {}
        }
        before = character;
    }
    None
}

/// Splits at blanks outside quotes and outside `{{ }}`, `{% %}` and `{# #}`. Every piece keeps the blanks that follow
/// it, so that joining the pieces restores free text.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let bytes = text.as_bytes();
    let mut pieces = Vec::new();
    let (mut start, mut at, mut depth) = (0, 0, 0usize);
    let mut quote: Option<u8> = None;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        match (quote, byte) {
            // A line continuation: neither the backslash nor the line break belongs to a piece. YAML may have turned
            // the line break into a blank.
            (None, b'\\') if depth == 0 && at == start && matches!(next, None | Some(b' ' | b'\n')) => {
                while matches!(bytes.get(at + 1), Some(b' ' | b'\n')) {
                    at += 1;
                }
                start = at + 1;
            }
            (_, b'\\') => at += 1,
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') if depth == 0 => quote = Some(byte),
            (None, b'{') if matches!(next, Some(b'{' | b'%' | b'#')) => {
                depth += 1;
                at += 1;
            }
            (None, b'}' | b'%' | b'#') if depth > 0 && next == Some(b'}') => {
                depth -= 1;
                at += 1;
            }
            (None, b' ' | b'\n') if depth == 0 => {
                while matches!(bytes.get(at + 1), Some(b' ' | b'\n')) {
                    at += 1;
                }
                pieces.push(text.get(start..=at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if quote.is_some() || depth > 0 {
        return Err(format!("a quote or a template is opened here and not closed: {text}"));
    }
    pieces.extend(text.get(start..).filter(|rest| !rest.is_empty()));
    Ok(pieces)
}

/// Removes one pair of quotes and decodes Python's string escapes. `\=` is kept.
fn unquote(value: &str) -> String {
    let inner =
        ['\'', '"'].iter().find_map(|quote| value.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote)));
    let mut rest = inner.unwrap_or(value);
    let mut text = String::with_capacity(rest.len());
    while let Some(at) = rest.find('\\') {
        text.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at..).unwrap_or_default();
        let (character, length) = escape(rest).unwrap_or(('\\', 1));
        text.push(character);
        rest = rest.get(length..).unwrap_or_default();
    }
    text + rest
}

/// Decodes the escape at the start of the text, and returns its character and length. Octal escapes are left alone:
/// `\1` is used in regular expressions.
fn escape(text: &str) -> Option<(char, usize)> {
    let hexadecimal = |digits: usize| {
        let code = u32::from_str_radix(text.get(2..2 + digits)?, 16).ok()?;
        Some((char::from_u32(code)?, 2 + digits))
    };
    let character = match text.chars().nth(1)? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'v' => '\x0b',
        quoted @ ('\\' | '\'' | '"') => quoted,
        'x' => return hexadecimal(2),
        'u' => return hexadecimal(4),
        'U' => return hexadecimal(8),
        _ => return None,
    };
    Some((character, 2))
}

/// Arguments of an action written as a mapping, a text or nothing.
pub fn of_node(action: &str, node: &Node) -> Result<Mapping> {
    match &node.value {
        Value::Map(map) => Ok((**map).clone()),
        Value::Null => Ok(Mapping::new()),
        Value::String(_) | Value::Literal(_) | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            let text = node.scalar_text().unwrap_or_default();
            parse(&text, takes_free_text(action), node)
        }
        // `meta` and `include_vars` report a list themselves.
        _ => Err(Error::parse(format!("unexpected parameter type in action: {}", node.kind()), &node.span)),
    }
}

/// Splits `action: module arguments` or `action: {module: ..., ...}`.
pub fn split_action(node: &Node) -> Result<(String, Node)> {
    match &node.value {
        Value::String(_) | Value::Literal(_) => {
            let (name, rest) = split_name(node.as_str().unwrap_or_default().trim());
            Ok((name.to_owned(), node.reworded(rest.trim())))
        }
        Value::Map(map) => {
            let Some((module, name)) = map.get("module").and_then(|module| Some((module, module.as_str()?))) else {
                return Err(Error::parse("an action given as a mapping needs the key 'module'", &node.span));
            };
            let mut args = (**map).clone();
            args.remove("module");
            let (name, rest) = split_name(name.trim());
            for (key, value) in parse(rest, takes_free_text(name), module)?.iter() {
                args.insert(key.clone(), value.clone());
            }
            Ok((name.to_owned(), Node::map(args, node.span.clone())))
        }
        _ => Err(Error::parse(format!("an action must be a text or a mapping, not {}", node.kind()), &node.span)),
    }
}

/// Splits an action into its name, which may be a template, and the rest.
fn split_name(text: &str) -> (&str, &str) {
    let template = if text.starts_with("{{") { text.find("}}").map_or(0, |end| end + 2) } else { 0 };
    let end = text.get(template..).and_then(|rest| rest.find(char::is_whitespace)).map(|end| template + end);
    text.split_at_checked(end.unwrap_or(text.len())).unwrap_or((text, ""))
}

/// Whether an action keeps free text unchanged.
pub fn takes_free_text(action: &str) -> bool {
    matches!(super::model::short_name(action), "command" | "shell" | "script" | "raw")
}

#[cfg(test)]
mod tests {
    use windlass_yaml::Span;

    use super::*;

    fn typed() -> Node {
        Node::literal("", Span::none())
    }

    fn parsed(text: &str, free_text: bool) -> Vec<(String, String)> {
        let map = parse(text, free_text, &typed()).unwrap();
        map.iter().map(|(key, node)| (key.to_text(), node.as_str().unwrap().to_owned())).collect()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn free_text_keeps_its_quoting_and_loses_its_options() {
        assert_eq!(
            parsed("echo 'a  b'  chdir=/tmp  x=1", true),
            [pair("chdir", "/tmp"), pair("_raw_params", "echo 'a  b'  x=1")]
        );
    }

    #[test]
    fn values_may_hold_templates_with_blanks() {
        assert_eq!(
            parsed("path={{ a | default('x y') }} mode='0644'", false),
            [pair("path", "{{ a | default('x y') }}"), pair("mode", "0644")]
        );
    }

    #[test]
    fn key_can_be_a_template() {
        assert_eq!(
            parsed("{{ 'a' + b if c == d else e }}={{ f }}", false),
            [pair("{{ 'a' + b if c == d else e }}", "{{ f }}")]
        );
    }

    #[test]
    fn continued_lines_joined() {
        for text in ["tool --one \\\n  --two", "tool --one \\ --two", "tool \\ --one --two", "tool --one --two \\"] {
            assert_eq!(parsed(text, true), [pair("_raw_params", "tool --one --two")], "{text:?}");
        }
        assert_eq!(parsed("grep a\\ b", true), [pair("_raw_params", "grep a\\ b")]);
    }

    #[test]
    fn unclosed_quote_fails() {
        assert!(parse("path='x", false, &typed()).is_err());
    }

    #[test]
    fn joined_words_split_again() {
        let pieces = [
            "a", "b", "1", "/x", "ü", "-", "_", ".", ",", "=", " ", "  ", "{{ y }}", "{% z %}", "\\t", "\n", "\"", "#",
            "%",
        ];
        // A fixed generator makes failures reproducible.
        let mut state = 31u64;
        let mut next = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..5_000 {
            let mut text = String::new();
            let mut wanted = Vec::new();
            for index in 0..next(5) + 1 {
                let value: String = (0..next(8)).map(|_| pieces[next(pieces.len())]).collect();
                let quoted = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                text.push_str(&format!("{}key{index}=\"{quoted}\"", " ".repeat(next(3) + 1)));
                wanted.push((format!("key{index}"), value));
            }
            assert_eq!(parsed(&text, false), wanted, "{text}");
            // Free text stays unchanged, whatever it contains.
            let free = text.trim();
            assert_eq!(parsed(free, true), [pair("_raw_params", free)]);
        }
    }

    #[test]
    fn arbitrary_texts_split_or_refused() {
        let pieces = [
            "'", "\"", "\\", "{{", "}}", "{%", "%}", "{#", "#}", "=", " ", "\n", "a", "ü", "x=1", "\\u12", "chdir=",
            "\t",
        ];
        let mut state = 32u64;
        let mut next = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let text: String = (0..next(12)).map(|_| pieces[next(pieces.len())]).collect();
            let whole = parse(&text, false, &typed());
            assert_eq!(whole.is_ok(), parse(&text, true, &typed()).is_ok(), "{text:?}");
        }
    }
}
