//! Replacement texts of `re.sub`: `\1`, `\g<1>`, `\g<name>` and escapes.

use super::{Match, Pattern};

/// A parsed replacement text.
#[derive(Clone, Debug)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Group(usize),
}

impl Template {
    /// Parses a replacement text; a group that the pattern lacks is an error.
    pub fn parse(text: &str, pattern: &Pattern) -> Result<Template, String> {
        let fail = |reason: String| format!("the replacement '{text}' is not valid: {reason}");
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            if character != '\\' {
                literal.push(character);
                continue;
            }
            let group = match rest.next() {
                None => return Err(fail("it ends with a single backslash".to_owned())),
                Some('g') => {
                    if rest.next() != Some('<') {
                        return Err(fail("'\\g' needs a group in angle brackets, as in '\\g<1>'".to_owned()));
                    }
                    let name: String = rest.by_ref().take_while(|&character| character != '>').collect();
                    let number = name.parse().ok().or_else(|| pattern.group_number(&name));
                    number.ok_or_else(|| fail(format!("the pattern has no group named '{name}'")))?
                }
                Some(first @ '1'..='9') => {
                    let mut digits = String::from(first);
                    while let Some(&digit) = rest.peek()
                        && digit.is_ascii_digit()
                        && digits.len() < 3
                    {
                        let octal = digits.len() == 2 && digits.chars().all(|d| d < '8') && first <= '3' && digit < '8';
                        if digits.len() == 2 && !octal {
                            break;
                        }
                        digits.push(digit);
                        rest.next();
                    }
                    if digits.len() == 3 {
                        literal.extend(u32::from_str_radix(&digits, 8).ok().and_then(char::from_u32));
                        continue;
                    }
                    digits.parse().map_err(|_| fail(format!("'\\{digits}' is not a group")))?
                }
                Some('0') => {
                    let mut code = 0;
                    for _ in 0..2 {
                        let Some(digit) = rest.peek().and_then(|digit| digit.to_digit(8)) else { break };
                        code = code * 8 + digit;
                        rest.next();
                    }
                    literal.extend(char::from_u32(code));
                    continue;
                }
                Some(escaped) => {
                    match escaped {
                        'n' => literal.push('\n'),
                        't' => literal.push('\t'),
                        'r' => literal.push('\r'),
                        'a' => literal.push('\u{7}'),
                        'b' => literal.push('\u{8}'),
                        'f' => literal.push('\u{c}'),
                        'v' => literal.push('\u{b}'),
                        '\\' => literal.push('\\'),
                        letter if letter.is_ascii_alphabetic() => {
                            return Err(fail(format!("'\\{letter}' means nothing here")));
                        }
                        other => {
                            literal.push('\\');
                            literal.push(other);
                        }
                    }
                    continue;
                }
            };
            if group > pattern.group_count() {
                return Err(fail(format!("the pattern has no group {group}")));
            }
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
            pieces.push(Piece::Group(group));
        }
        pieces.push(Piece::Text(literal));
        Ok(Template { pieces })
    }

    /// Appends the replacement for one match. A group that did not take part yields nothing.
    pub fn expand(&self, matched: &Match<'_>, out: &mut String) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Group(group) => out.push_str(matched.group(*group).unwrap_or_default()),
            }
        }
    }
}
