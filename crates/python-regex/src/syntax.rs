//! Rewrites the syntax of Python's `re` into that of the crates regex and fancy-regex.

use std::iter::Peekable;
use std::str::Chars;

/// A pattern in the crates' syntax.
#[derive(Debug)]
pub(super) struct Translated {
    /// Variant for texts that do not end with a newline.
    pub(super) plain: String,
    /// Whether the pattern may end with a comment.
    pub(super) verbose: bool,
    /// Variant for texts that end with a newline, if it differs.
    pub(super) before_newline: Option<String>,
}

/// Repetition operators.
const REPEATS: [char; 3] = ['*', '+', '?'];

/// Placeholder for `$` while both variants share one text.
const END: char = '\u{10fffe}';

/// Rewrites a Python pattern; the error is the reason why it is invalid.
pub(super) fn translate(pattern: &str, multi_line: bool) -> Result<Translated, String> {
    let (body, inline) =
        Translator { rest: pattern.chars().peekable(), out: String::new(), groups: 0, asked: 0 }.run()?;
    let verbose = inline.contains('x');
    if !body.contains(END) {
        return Ok(Translated { plain: body, verbose, before_newline: None });
    }
    if multi_line || inline.contains('m') {
        return Ok(Translated { plain: body.replace(END, "$"), verbose, before_newline: None });
    }
    let before_newline = Some(body.replace(END, "(?=\\n?\\z)"));
    Ok(Translated { plain: body.replace(END, "\\z"), verbose, before_newline })
}

struct Translator<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    /// Number of capturing groups.
    groups: usize,
    /// Highest group that a condition, `(?(1)yes|no)`, refers to.
    asked: usize,
}

/// Place of an escape, which determines its meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Pattern,
    /// A character class such as `[a-z]`.
    Class,
}

impl Translator<'_> {
    /// Returns the rewritten pattern and the flags it switches on.
    fn run(mut self) -> Result<(String, String), String> {
        let mut inline = String::new();
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => self.escape(Within::Pattern)?,
                '[' => self.class()?,
                '$' => self.out.push(END),
                '{' => self.brace(),
                '}' => self.out.push_str("\\}"),
                ']' => self.out.push_str("\\]"),
                // Two in a row are only valid if the second makes the first lazy or possessive.
                '*' if self.out.ends_with(REPEATS) => {
                    return Err("a repetition is repeated".to_owned());
                }
                '(' if self.rest.peek() == Some(&'?') => inline.push_str(&self.group()?),
                other => {
                    self.groups += usize::from(other == '(');
                    self.out.push(other);
                }
            }
        }
        if self.asked > self.groups {
            return Err(format!("invalid group reference {}", self.asked));
        }
        Ok((self.out, inline))
    }

    /// Rewrites the text after `(?` and returns the flags it switches on.
    fn group(&mut self) -> Result<String, String> {
        let rest: String = self.rest.clone().skip(1).collect();
        if rest.starts_with('#') {
            for character in self.rest.by_ref() {
                if character == ')' {
                    break;
                }
            }
            return Ok(String::new());
        }
        let flags: String = rest.chars().take_while(|flag| flag.is_ascii_alphabetic() || *flag == '-').collect();
        let closed_by = rest[flags.len()..].chars().next();
        let are_flags = !flags.is_empty() && flags.chars().all(|flag| "aiLmsux-".contains(flag));
        if !are_flags || !matches!(closed_by, Some(')' | ':')) {
            // The crates accept more kinds of groups than Python. Some, such as recursive calls of a group, have no
            // limit there.
            if !["P<", "P=", ":", "=", "!", "<=", "<!", ">", "("].iter().any(|kind| rest.starts_with(kind)) {
                let known = if rest.starts_with(['P', '<']) { 2 } else { 1 };
                return Err(format!("unknown extension ?{}", rest.chars().take(known).collect::<String>()));
            }
            self.groups += usize::from(rest.starts_with("P<"));
            let asked = rest.strip_prefix('(').and_then(|asked| asked.split_once(')')?.0.parse().ok());
            self.asked = self.asked.max(asked.unwrap_or(0));
            self.out.push('(');
            return Ok(String::new());
        }
        // The crates always match by Unicode, so these three flags have no effect.
        let kept: String = flags.chars().filter(|flag| !"auL".contains(*flag)).collect();
        for _ in 0..flags.len() + 2 {
            self.rest.next();
        }
        match (kept.as_str(), closed_by) {
            ("" | "-", Some(')')) => {}
            ("" | "-", _) => self.out.push_str("(?:"),
            (kept, Some(')')) => self.out.push_str(&format!("(?{kept})")),
            (kept, _) => self.out.push_str(&format!("(?{kept}:")),
        }
        Ok(kept.split('-').next().unwrap_or_default().to_owned())
    }

    /// Rewrites a brace. `{2}`, `{2,}`, `{,2}` and `{1,2}` repeat; any other brace is a literal character.
    fn brace(&mut self) {
        let inside: String = self.rest.clone().take_while(|&character| character != '}').collect();
        let closed = self.rest.clone().nth(inside.chars().count()) == Some('}');
        let bounds: Vec<&str> = inside.split(',').collect();
        let numeric = bounds.iter().all(|bound| bound.bytes().all(|digit| digit.is_ascii_digit()));
        let bounded = bounds.len() == 2 || matches!(bounds.as_slice(), [count] if !count.is_empty());
        let repeats = closed && numeric && bounded;
        if !repeats {
            self.out.push_str("\\{");
            return;
        }
        for _ in 0..=inside.chars().count() {
            self.rest.next();
        }
        match inside.strip_prefix(',') {
            Some("") => self.out.push('*'),
            Some(most) => self.out.push_str(&format!("{{0,{most}}}")),
            None => self.out.push_str(&format!("{{{inside}}}")),
        }
    }

    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            match self.rest.next() {
                None => return Err("a character class is not closed by ']'".to_owned()),
                Some(']') if !first => break,
                Some('\\') => self.escape(Within::Class)?,
                Some('-') => {
                    let ends = matches!(self.rest.peek(), Some(']') | None);
                    let after_set =
                        ["\\d", "\\w", "\\s", "\\D", "\\W", "\\S"].iter().any(|set| self.out.ends_with(set));
                    self.out.push_str(if first || ends || after_set { "\\-" } else { "-" });
                }
                Some(character) => self.literal(character),
            }
            first = false;
        }
        self.out.push(']');
        Ok(())
    }

    fn escape(&mut self, within: Within) -> Result<(), String> {
        let Some(character) = self.rest.next() else {
            return Err("it ends with a single backslash".to_owned());
        };
        match character {
            'Z' if within == Within::Pattern => self.out.push_str("\\z"),
            'b' if within == Within::Class => self.out.push_str("\\x08"),
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => self.out.extend(['\\', character]),
            'A' | 'b' | 'B' if within == Within::Pattern => self.out.extend(['\\', character]),
            'n' | 't' | 'r' | 'f' | 'v' | 'a' => self.out.extend(['\\', character]),
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            '0'..='9' => self.number(character, within)?,
            letter if letter.is_ascii_alphabetic() => return Err(format!("'\\{letter}' means nothing in it")),
            other => self.literal(other),
        }
        Ok(())
    }

    /// Rewrites a backslash and digits: an octal code, or a reference to a group.
    fn number(&mut self, first: char, within: Within) -> Result<(), String> {
        let in_class = within == Within::Class;
        let mut digits = String::from(first);
        let most = if first == '0' || in_class { 3 } else { 2 };
        while let Some(&digit) = self.rest.peek()
            && digit.is_ascii_digit()
            && digits.len() < most
            && (first != '0' && !in_class || digit < '8')
        {
            digits.push(digit);
            self.rest.next();
        }
        let third = self.rest.peek().copied().filter(|digit| ('0'..'8').contains(digit));
        if let Some(third) = third
            && digits.len() == 2
            && ('1'..='3').contains(&first)
            && digits.chars().all(|digit| digit < '8')
        {
            digits.push(third);
            self.rest.next();
        }
        if first == '0' || in_class || digits.len() == 3 {
            let code = u32::from_str_radix(&digits, 8).map_err(|_| format!("'\\{digits}' is not an octal code"))?;
            self.out.push_str(&format!("\\x{{{code:x}}}"));
        } else {
            // The group keeps a digit that follows from becoming part of the number.
            self.out.push_str(&format!("(?:\\{digits})"));
        }
        Ok(())
    }

    fn code(&mut self, length: usize) -> Result<(), String> {
        let digits: String = self.rest.by_ref().take(length).collect();
        if digits.len() != length || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(format!("an escape by code needs {length} hexadecimal digits"));
        }
        self.out.push_str(&format!("\\x{{{digits}}}"));
        Ok(())
    }

    /// Appends a literal character.
    fn literal(&mut self, character: char) {
        if character.is_ascii_punctuation() || character == ' ' || character == '\n' || character == '\t' {
            self.out.push_str(&format!("\\x{:02x}", u32::from(character)));
        } else {
            self.out.push(character);
        }
    }
}
