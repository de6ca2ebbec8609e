//! The types of plain scalars in YAML 1.1, as PyYAML resolves them.

use std::sync::Arc;

use crate::number::{self, Whole};
use crate::{Text, Value};

/// Type that a plain scalar resolves to.
#[derive(Debug, PartialEq)]
pub(crate) enum Resolved {
    Value(Value),
    /// `<<`: as a key, merges mappings.
    Merge,
    /// `=`: text as a key, meaningless as a value.
    DefaultValue,
    /// The text has the shape of the named type but is not a valid value of it, such as the date 2024-13-45.
    Invalid(&'static str),
}

/// Resolves a plain scalar.
pub(crate) fn plain(text: &str) -> Resolved {
    let Some(&first) = text.as_bytes().first() else { return Resolved::Value(Value::Null) };
    match first {
        b'~' if text == "~" => Resolved::Value(Value::Null),
        b'<' if text == "<<" => Resolved::Merge,
        b'=' if text == "=" => Resolved::DefaultValue,
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' => Resolved::Value(word(text)),
        b'0'..=b'9' | b'+' | b'-' | b'.' => number_or_date(text),
        _ => Resolved::Value(string(text)),
    }
}

/// A string scalar. If the file is not trusted, its reader turns it into data.
#[expect(clippy::disallowed_methods, reason = "the parser reads the project's files")]
fn string(text: &str) -> Value {
    Value::String(Text::of_project(text))
}

fn word(text: &str) -> Value {
    boolean(text)
        .map_or_else(|| if matches!(text, "null" | "Null" | "NULL") { Value::Null } else { string(text) }, Value::Bool)
}

/// Reads a YAML 1.1 boolean in lower case, title case or capitals.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn number_or_date(text: &str) -> Resolved {
    if looks_like_float(text) {
        return float_value(text).map_or(Resolved::Invalid("a number"), |value| Resolved::Value(Value::Float(value)));
    }
    if looks_like_int(text) {
        return int_value(text).map_or(Resolved::Invalid("an integer"), Resolved::Value);
    }
    match timestamp(text) {
        Some(true) => Resolved::Value(Value::Timestamp(Arc::from(text))),
        Some(false) => Resolved::Invalid("a date"),
        None => Resolved::Value(string(text)),
    }
}

/// A cursor over the bytes of a scalar; it consumes runs of a character class.
struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        match self.0.split_first() {
            Some((&byte, rest)) if wanted(byte) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn run(&mut self, wanted: impl Fn(u8) -> bool) -> usize {
        let mut count = 0;
        while self.take(&wanted) {
            count += 1;
        }
        count
    }

    fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    fn rest_is(&self, words: &[&str]) -> bool {
        words.iter().any(|word| word.as_bytes() == self.0)
    }
}

fn digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

fn digit_or_underscore(byte: u8) -> bool {
    digit(byte) || byte == b'_'
}

fn sign(byte: u8) -> bool {
    byte == b'+' || byte == b'-'
}

/// Whether the rest is `e+10`, sign included, or nothing.
fn exponent_or_end(mut scan: Scan<'_>) -> bool {
    if scan.is_done() {
        return true;
    }
    scan.take(|byte| byte == b'e' || byte == b'E') && scan.take(sign) && scan.run(digit) > 0 && scan.is_done()
}

fn looks_like_float(text: &str) -> bool {
    let mut scan = Scan(text.as_bytes());
    let signed = scan.take(sign);
    if scan.take(|byte| byte == b'.') {
        if scan.rest_is(&["inf", "Inf", "INF"]) {
            return true;
        }
        if signed {
            return false;
        }
        if scan.rest_is(&["nan", "NaN", "NAN"]) {
            return true;
        }
        if !scan.take(digit) {
            return false;
        }
        scan.run(digit_or_underscore);
        return exponent_or_end(scan);
    }
    if !scan.take(digit) {
        return false;
    }
    scan.run(digit_or_underscore);
    if scan.take(|byte| byte == b'.') {
        scan.run(digit_or_underscore);
        return exponent_or_end(scan);
    }
    sixties(&mut scan) > 0 && scan.take(|byte| byte == b'.') && {
        scan.run(digit_or_underscore);
        scan.is_done()
    }
}

/// Consumes repeated `:30` groups.
fn sixties(scan: &mut Scan<'_>) -> usize {
    let mut count = 0;
    while let [b':', tail @ ..] = scan.0 {
        scan.0 = match tail {
            [b'0'..=b'5', b'0'..=b'9', rest @ ..] | [b'0'..=b'9', rest @ ..] => rest,
            _ => break,
        };
        count += 1;
    }
    count
}

fn looks_like_int(text: &str) -> bool {
    let mut scan = Scan(text.as_bytes());
    scan.take(sign);
    if scan.take(|byte| byte == b'0') {
        if scan.is_done() {
            return true;
        }
        if scan.take(|byte| byte == b'b') {
            return scan.run(|byte| matches!(byte, b'0' | b'1' | b'_')) > 0 && scan.is_done();
        }
        if scan.take(|byte| byte == b'x') {
            return scan.run(|byte| byte.is_ascii_hexdigit() || byte == b'_') > 0 && scan.is_done();
        }
        return scan.run(|byte| matches!(byte, b'0'..=b'7' | b'_')) > 0 && scan.is_done();
    }
    if !scan.take(digit) {
        return false;
    }
    scan.run(digit_or_underscore);
    sixties(&mut scan);
    scan.is_done()
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Reads an integer as `!!int` does; `None` if the text is not one.
pub(crate) fn int_value(text: &str) -> Option<Value> {
    let clean = text.replace('_', "");
    let (negative, digits) = split_sign(&clean);
    let whole = if digits == "0" {
        Some(Whole::Small(0))
    } else if let Some(binary) = digits.strip_prefix("0b") {
        number::whole(negative, binary, 2)
    } else if let Some(hexadecimal) = digits.strip_prefix("0x") {
        number::whole(negative, hexadecimal, 16)
    } else if digits.starts_with('0') {
        number::whole(negative, digits, 8)
    } else if digits.contains(':') {
        number::sexagesimal(negative, digits)
    } else {
        number::whole(negative, digits, 10)
    }?;
    Some(match whole {
        Whole::Small(value) => Value::Int(value),
        Whole::Big(text) => Value::BigInt(text),
    })
}

/// Reads a number as `!!float` does; `None` if the text is not one.
pub(crate) fn float_value(text: &str) -> Option<f64> {
    let clean = text.replace('_', "").to_lowercase();
    let (negative, digits) = split_sign(&clean);
    let value = match digits {
        ".inf" => f64::INFINITY,
        ".nan" => f64::NAN,
        _ if digits.contains(':') => {
            let mut total = 0.0;
            let mut base = 1.0;
            for part in digits.rsplit(':') {
                total += part.parse::<f64>().ok()? * base;
                base *= 60.0;
            }
            total
        }
        _ => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

/// Reads a boolean as `!!bool` does, which knows fewer words than Ansible (`boolean`).
pub(crate) fn bool_value(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "yes" | "true" | "on" => Some(true),
        "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// A date with an optional time.
#[derive(Debug, PartialEq)]
struct Moment {
    year: u32,
    month: u32,
    day: u32,
    time: Option<Time>,
}

#[derive(Debug, PartialEq)]
struct Time {
    hour: u32,
    minute: u32,
    second: u32,
    microsecond: u32,
    /// Minutes east of Greenwich.
    zone: Option<i32>,
}

impl Moment {
    fn exists(&self) -> bool {
        let leap = self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        let last = match self.month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 if leap => 29,
            2 => 28,
            _ => return false,
        };
        let time_exists = self.time.as_ref().is_none_or(|time| {
            let zone_exists = time.zone.is_none_or(|zone| zone.abs() < 24 * 60);
            time.hour < 24 && time.minute < 60 && time.second < 60 && zone_exists
        });
        self.year >= 1 && (1..=last).contains(&self.day) && time_exists
    }
}

/// `None` if a text does not have the shape of a date or time; otherwise whether that date and time exist.
pub(crate) fn timestamp(text: &str) -> Option<bool> {
    moment(text).map(|moment| moment.exists())
}

/// Formats a YAML date or time as Python's `isoformat` does. `separator` stands between date and time: `T`, or a space
/// as in `str`. Other text is returned unchanged.
pub fn python_timestamp(text: &str, separator: char) -> String {
    let Some(Moment { year, month, day, time }) = moment(text) else { return text.to_owned() };
    let mut written = format!("{year:04}-{month:02}-{day:02}");
    let Some(Time { hour, minute, second, microsecond, zone }) = time else { return written };
    written += &format!("{separator}{hour:02}:{minute:02}:{second:02}");
    if microsecond > 0 {
        written += &format!(".{microsecond:06}");
    }
    if let Some(zone) = zone {
        let sign = if zone < 0 { '-' } else { '+' };
        written += &format!("{sign}{:02}:{:02}", zone.abs() / 60, zone.abs() % 60);
    }
    written
}

/// A comparable point in time. As in Python, dates, times without a zone and times with a zone are never equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Instant {
    Date(i64),
    Local(i64),
    Zoned(i64),
}

/// Converts a YAML date to days since 1970, and a time to microseconds.
pub(crate) fn instant(text: &str) -> Option<Instant> {
    let Moment { year, month, day, time } = moment(text)?;
    // Years start in March here, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (i64::from(year), month - 3) } else { (i64::from(year) - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + i64::from((153 * month + 2) / 5 + day) - 719_469;
    let Some(Time { hour, minute, second, microsecond, zone }) = time else { return Some(Instant::Date(days)) };
    let seconds = days * 86_400 + i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
    let microseconds = seconds * 1_000_000 + i64::from(microsecond);
    Some(match zone {
        Some(zone) => Instant::Zoned(microseconds - i64::from(zone) * 60_000_000),
        None => Instant::Local(microseconds),
    })
}

/// `2001-12-14`, `2001-12-14t21:59:43.10-05:00` and its looser forms.
fn moment(text: &str) -> Option<Moment> {
    let mut scan = Scan(text.as_bytes());
    let year = digits(&mut scan, 4, 4)?;
    literal(&mut scan, b'-')?;
    let month = digits(&mut scan, 1, 2)?;
    literal(&mut scan, b'-')?;
    let day = digits(&mut scan, 1, 2)?;
    if scan.is_done() {
        // A date without a time needs two digits for month and day.
        return (text.len() == 10).then_some(Moment { year, month, day, time: None });
    }
    if !scan.take(|byte| byte == b'T' || byte == b't') && scan.run(blank) == 0 {
        return None;
    }
    let hour = digits(&mut scan, 1, 2)?;
    literal(&mut scan, b':')?;
    let minute = digits(&mut scan, 2, 2)?;
    literal(&mut scan, b':')?;
    let second = digits(&mut scan, 2, 2)?;
    let microsecond = fraction(&mut scan);
    let zone = zone(&mut scan)?;
    scan.is_done().then_some(Moment { year, month, day, time: Some(Time { hour, minute, second, microsecond, zone }) })
}

/// Reads `.5`; only the first six digits count.
fn fraction(scan: &mut Scan<'_>) -> u32 {
    if !scan.take(|byte| byte == b'.') {
        return 0;
    }
    let start = scan.0;
    let count = scan.run(digit);
    start
        .iter()
        .take(count)
        .chain(std::iter::repeat(&b'0'))
        .take(6)
        .fold(0, |sum, byte| sum * 10 + u32::from(byte - b'0'))
}

/// Reads ` Z`, `+1`, `-05:30` or nothing, in minutes; `None` for anything else.
fn zone(scan: &mut Scan<'_>) -> Option<Option<i32>> {
    let blanks = scan.run(blank);
    if scan.is_done() {
        // A plain scalar cannot end in blanks.
        return (blanks == 0).then_some(None);
    }
    if scan.take(|byte| byte == b'Z') {
        return Some(Some(0));
    }
    let negative = scan.0.first() == Some(&b'-');
    scan.take(sign).then_some(())?;
    let hours = digits(scan, 1, 2)?;
    let minutes = if scan.take(|byte| byte == b':') { digits(scan, 2, 2)? } else { 0 };
    let offset = i32::try_from(hours * 60 + minutes).ok()?;
    Some(Some(if negative { -offset } else { offset }))
}

fn blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn literal(scan: &mut Scan<'_>, wanted: u8) -> Option<()> {
    scan.take(|byte| byte == wanted).then_some(())
}

fn digits(scan: &mut Scan<'_>, least: usize, most: usize) -> Option<u32> {
    let mut value = 0;
    let mut count = 0;
    while count < most
        && let Some((&byte, rest)) = scan.0.split_first()
        && digit(byte)
    {
        value = value * 10 + u32::from(byte - b'0');
        scan.0 = rest;
        count += 1;
    }
    (count >= least).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        match plain(text) {
            Resolved::Value(value) => value,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn equal_timestamps_are_one_key() {
        let day = Some(Instant::Date(19_724));
        assert_eq!(
            (instant("2024-01-02"), instant("1970-01-01"), instant("24-01-02")),
            (day, Some(Instant::Date(0)), None)
        );
        let moment = instant("2024-01-02 03:04:05.5Z");
        assert_eq!(moment, Some(Instant::Zoned(1_704_164_645_500_000)));
        for same in ["2024-01-02  3:04:05.50 Z", "2024-01-02T04:04:05.5+01:00", "2024-1-1t22:34:05.5-4:30"] {
            assert_eq!(instant(same), moment, "{same}");
        }
        assert_ne!(instant("2024-01-02 03:04:05.5"), moment);
        let keys = "{2024-01-02 03:04:05.5Z: a, 2024-01-02: b, 2024-01-02  3:04:05.5Z: c}";
        let read = crate::load_one(crate::Source::new("x.yml", keys), &crate::Options::default()).unwrap();
        assert_eq!(read.as_map().unwrap().values().filter_map(crate::Node::as_str).collect::<Vec<_>>(), ["c", "b"]);
    }

    #[test]
    fn scalars_are_typed_as_in_yaml_1_1() {
        for text in ["yes", "Yes", "YES", "on", "true", "True", "TRUE", "On", "ON"] {
            assert_eq!(value(text), Value::Bool(true), "{text}");
        }
        for text in
            ["y", "n", "Y", "N", "yEs", "tRUE", "nULL", "0o644", "08", "1e3", "1.5e3", "+.nan", "1:60", "-", "."]
        {
            assert_eq!(value(text), string(text), "{text}");
        }
        for (text, number) in [
            ("0", 0),
            ("0644", 420),
            ("-0644", -420),
            ("0x1F", 31),
            ("0b11", 3),
            ("1_000", 1000),
            ("12:30", 750),
            ("12:30:45", 45045),
            ("-1:30", -90),
            ("+12", 12),
            ("0_", 0),
            ("00", 0),
        ] {
            assert_eq!(value(text), Value::Int(number), "{text}");
        }
        for (text, number) in
            [("1.0e+3", 1000.0), ("1.10", 1.1), ("-.inf", f64::NEG_INFINITY), ("1:30.5", 90.5), (".5", 0.5)]
        {
            assert_eq!(value(text), Value::Float(number), "{text}");
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(value(text), Value::Null, "{text}");
        }
    }

    #[test]
    fn nonexistent_date_refused() {
        for text in
            ["2024-01-02", "2024-02-29", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43", "2001-1-1 1:00:00Z"]
        {
            assert_eq!(value(text), Value::Timestamp(text.into()), "{text}");
        }
        for text in ["2024-13-45", "2023-02-29", "2001-12-14 24:00:00"] {
            assert_eq!(plain(text), Resolved::Invalid("a date"), "{text}");
        }
        for text in ["2024-1-2", "20240102", "2024-01-02x"] {
            assert!(matches!(value(text), Value::String(_) | Value::Int(_)), "{text}");
        }
    }

    #[test]
    fn dates_formatted_like_python() {
        for (text, written) in [
            ("2024-01-02", "2024-01-02"),
            ("2001-12-14t21:59:43.10-05:00", "2001-12-14T21:59:43.100000-05:00"),
            ("2001-1-1 1:00:00Z", "2001-01-01T01:00:00+00:00"),
            ("2001-12-14 21:59:43", "2001-12-14T21:59:43"),
            ("not a date", "not a date"),
        ] {
            assert_eq!(python_timestamp(text, 'T'), written);
        }
    }

    #[test]
    fn underscores_alone_are_invalid_integers() {
        assert_eq!(plain("0x_"), Resolved::Invalid("an integer"));
        assert_eq!(plain("0b_"), Resolved::Invalid("an integer"));
    }
}
