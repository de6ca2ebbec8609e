//! Python's `template.format(...)`: fields in braces with paths, conversions and nested format fields.

use minijinja::Value;
use minijinja::formatting::{FormatStyle, format as format_values};
use minijinja::value::ValueKind;

use super::container::step;
use crate::limits;

use super::{python_class, repr, text, type_name};

/// Formats the values. The error is a reason.
pub(crate) fn format(template: &str, positional: &[Value], named: &[(String, Value)]) -> Result<String, String> {
    let mut filled = Filled { positional, named, numbering: None };
    filled.text(template, 2)
}

/// Values, and the numbering of unnamed fields.
struct Filled<'v> {
    positional: &'v [Value],
    named: &'v [(String, Value)],
    /// `None` before the first field. Then the next automatic number, or `Some(None)` if the fields have explicit
    /// numbers.
    numbering: Option<Option<usize>>,
}

impl Filled<'_> {
    /// Formats a template or a nested format. `depth` is the remaining depth of fields; formats of nested fields have
    /// none.
    fn text(&mut self, template: &str, depth: usize) -> Result<String, String> {
        let mut out = String::with_capacity(template.len());
        let mut rest = template;
        while let Some(start) = rest.find(['{', '}']) {
            out.push_str(&rest[..start]);
            let (brace, behind) = rest[start..].split_at(1);
            if let Some(behind) = behind.strip_prefix(brace) {
                out.push_str(brace);
                rest = behind;
                continue;
            }
            if brace == "}" {
                return Err("Single '}' encountered in format string".to_owned());
            }
            if behind.is_empty() {
                return Err("Single '{' encountered in format string".to_owned());
            }
            let end = end_of_field(behind).ok_or("expected '}' before end of string")?;
            out.push_str(&self.field(&behind[..end], depth)?);
            limits::text(out.len()).map_err(|error| error.message().to_owned())?;
            rest = &behind[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Formats the text between two braces: `name!conversion:format`.
    fn field(&mut self, field: &str, depth: usize) -> Result<String, String> {
        let (name, conversion, format) = parts(field)?;
        let value = self.value(name)?;
        let value = match conversion {
            None => value,
            Some("s") => Value::from(text(&value)),
            Some("r") => Value::from(repr(&value)),
            Some("a") => Value::from(ascii(&repr(&value))),
            Some(other) => return Err(format!("Unknown conversion specifier {other}")),
        };
        let format = match (format.contains(['{', '}']), depth) {
            (false, _) => format.to_owned(),
            (true, 0 | 1) => return Err("Max string recursion exceeded".to_owned()),
            (true, _) => self.text(format, depth - 1)?,
        };
        if format.is_empty() { Ok(text(&value)) } else { shaped(&value, &format) }
    }

    /// Value of `name.attribute[key]`.
    fn value(&mut self, path: &str) -> Result<Value, String> {
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (name, mut rest) = path.split_at(end);
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let mut value = if is_number {
            let index = self.index(name)?;
            let missing = || format!("Replacement index {index} out of range for positional args tuple");
            self.positional.get(index).cloned().ok_or_else(missing)?
        } else {
            let found = self.named.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone()).ok_or_else(|| repr(&Value::from(name)))?
        };
        while !rest.is_empty() {
            let found;
            (found, rest) = match rest.strip_prefix('[') {
                Some(inner) => {
                    let (key, rest) = inner.split_once(']').ok_or("Missing ']' in format string")?;
                    let index = key.parse::<i64>().ok().filter(|index| *index >= 0);
                    let found = step(&value, &index.map_or_else(|| Value::from(key), Value::from));
                    (found.ok_or_else(|| repr(&Value::from(key)))?, rest)
                }
                None => {
                    let inner =
                        rest.strip_prefix('.').ok_or("Only '.' or '[' may follow ']' in format field specifier")?;
                    let (name, rest) = inner.split_at(inner.find(['.', '[']).unwrap_or(inner.len()));
                    if name.is_empty() {
                        return Err("Empty attribute in format string".to_owned());
                    }
                    let found = crate::methods::attribute(&value, name).or_else(|| step(&value, &Value::from(name)));
                    let missing = || format!("'{}' object has no attribute '{name}'", type_name(&value));
                    (found.ok_or_else(missing)?, rest)
                }
            };
            value = found;
        }
        Ok(value)
    }

    /// Index of a field, explicit or automatic.
    fn index(&mut self, written: &str) -> Result<usize, String> {
        let switched = |from: &str, to: &str| Err(format!("cannot switch from {from} to {to}"));
        let (manual, automatic) = ("manual field specification", "automatic field numbering");
        if written.is_empty() {
            let next = match self.numbering {
                Some(None) => return switched(manual, automatic),
                Some(Some(next)) => next,
                None => 0,
            };
            self.numbering = Some(Some(next + 1));
            return Ok(next);
        }
        if matches!(self.numbering, Some(Some(_))) {
            return switched(automatic, manual);
        }
        self.numbering = Some(None);
        written.parse().map_err(|_| "Too many decimal digits in format string".to_owned())
    }
}

/// Position of the brace that closes a field.
fn end_of_field(text: &str) -> Option<usize> {
    let mut open = 0usize;
    for (index, character) in text.char_indices() {
        match character {
            '{' => open += 1,
            '}' if open == 0 => return Some(index),
            '}' => open -= 1,
            _ => {}
        }
    }
    None
}

/// Name, conversion and format of a field; text in brackets belongs to the name.
fn parts(field: &str) -> Result<(&str, Option<&str>, &str), String> {
    let mut in_brackets = false;
    let end = field.find(|character: char| {
        match character {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
        !in_brackets && matches!(character, '!' | ':')
    });
    let Some(end) = end else { return Ok((field, None, "")) };
    let (name, rest) = field.split_at(end);
    match rest.strip_prefix('!') {
        None => Ok((name, None, &rest[1..])),
        Some(rest) => {
            let (conversion, format) = rest.split_once(':').unwrap_or((rest, ""));
            match conversion.chars().count() {
                1 => Ok((name, Some(conversion), format)),
                0 => Err("unmatched '{' in format spec".to_owned()),
                _ => Err("expected ':' after conversion specifier".to_owned()),
            }
        }
    }
}

/// Formats a value with a non-empty format. minijinja lacks `%`, `n` and a sign before the padding.
fn shaped(value: &Value, format: &str) -> Result<String, String> {
    limits::widths(std::iter::once(format)).map_err(|error| error.message().to_owned())?;
    if !matches!(value.kind(), ValueKind::String | ValueKind::Number | ValueKind::Bool) {
        return Err(format!("unsupported format string passed to {}.__format__", python_class(value)));
    }
    let plain = |value: &Value, format: &str| {
        format_values(FormatStyle::StrFormat, &format!("{{:{format}}}"), std::slice::from_ref(value))
            .map_err(|error| error.detail().unwrap_or("the format does not fit its value").to_owned())
    };
    let is_text = value.kind() == ValueKind::String;
    let (place, body) = Place::of(format);
    let kind = body.chars().last().filter(|kind| !is_text && matches!(kind, '%' | 'n'));
    if is_text || (kind.is_none() && place.align != Some('=')) {
        return plain(value, format);
    }
    let number = match kind {
        Some('%') => {
            let number = super::number::to_float(value).ok_or("the format does not fit its value")?;
            plain(&Value::from(number * 100.0), &format!("{}f", &body[..body.len() - 1]))? + "%"
        }
        Some(_) => plain(value, &format!("{}{}", &body[..body.len() - 1], if value.is_integer() { "d" } else { "g" }))?,
        None => plain(value, &body)?,
    };
    Ok(place.put(&number))
}

/// Alignment of a number within its width.
struct Place {
    fill: char,
    align: Option<char>,
    width: usize,
}

impl Place {
    /// Alignment in a format, and the format without it.
    fn of(format: &str) -> (Place, String) {
        let is_align = |character: &char| "<>=^".contains(*character);
        let characters: Vec<char> = format.chars().collect();
        let (fill, align, mut at) = match (characters.first(), characters.get(1)) {
            (Some(fill), Some(align)) if is_align(align) => (*fill, Some(*align), 2),
            (Some(align), _) if is_align(align) => (' ', Some(*align), 1),
            _ => (' ', None, 0),
        };
        let mut place = Place { fill, align, width: 0 };
        let mut body = String::new();
        while let Some(sign) = characters.get(at).filter(|character| "+- z#".contains(**character)) {
            body.push(*sign);
            at += 1;
        }
        if characters.get(at) == Some(&'0') && place.align.is_none() {
            (place.fill, place.align) = ('0', Some('='));
        }
        while let Some(digit) = characters.get(at).and_then(|character| character.to_digit(10)) {
            place.width = place.width.saturating_mul(10).saturating_add(digit as usize);
            at += 1;
        }
        body.extend(&characters[at..]);
        (place, body)
    }

    fn put(&self, number: &str) -> String {
        let missing = self.width.saturating_sub(number.chars().count());
        let fill = |count: usize| String::from(self.fill).repeat(count);
        match self.align {
            Some('<') => number.to_owned() + &fill(missing),
            Some('^') => fill(missing / 2) + number + &fill(missing - missing / 2),
            Some('=') => {
                let digits = number.trim_start_matches(['+', '-', ' ']);
                format!("{}{}{digits}", &number[..number.len() - digits.len()], fill(missing))
            }
            _ => fill(missing) + number,
        }
    }
}

/// Escapes characters outside ASCII.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let code = u32::from(character);
        match code {
            0..=0x7f => out.push(character),
            0x80..=0xff => out += &format!("\\x{code:02x}"),
            0x100..=0xffff => out += &format!("\\u{code:04x}"),
            _ => out += &format!("\\U{code:08x}"),
        }
    }
    out
}
