//! Python's `int()`, `float()` and `round()`.

use minijinja::Value;
use minijinja::value::ValueKind;

/// Reads text as `int(text, base)` does: surrounding space, a sign, underscores between digits, and a prefix that fits
/// the base. Base 0 takes the base from the prefix.
pub(crate) fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim_matches(char::is_whitespace);
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let prefix = digits.get(..2).map(str::to_ascii_lowercase);
    let prefix_base = match prefix.as_deref() {
        Some("0x") => Some(16),
        Some("0o") => Some(8),
        Some("0b") => Some(2),
        _ => None,
    };
    let (base, digits) = match (base, prefix_base) {
        (0, Some(found)) => (found, digits[2..].strip_prefix('_').unwrap_or(&digits[2..])),
        (0, None) => {
            let zeros_only = digits.chars().all(|digit| digit == '0' || digit == '_');
            if digits.starts_with('0') && !zeros_only {
                return None;
            }
            (10, digits)
        }
        (base, Some(found)) if base == found => (base, digits[2..].strip_prefix('_').unwrap_or(&digits[2..])),
        (base, _) if (2..=36).contains(&base) => (base, digits),
        _ => return None,
    };
    let plain = without_underscores(digits)?;
    let magnitude = i128::from_str_radix(&plain, base).ok()?;
    Some(if negative { -magnitude } else { magnitude })
}

/// Reads text as `float(text)` does.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(char::is_whitespace);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }),
        "nan" => Some(f64::NAN),
        lower if lower.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
            let number: f64 = without_underscores(unsigned)?.parse().ok()?;
            Some(if text.starts_with('-') { -number } else { number })
        }
        _ => None,
    }
}

/// `int(value)` for numbers and text; a float is truncated.
pub(crate) fn to_int(value: &Value) -> Option<i128> {
    match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        ValueKind::Number => float_to_int(f64::try_from(value.clone()).ok()?),
        ValueKind::String => parse_int(value.as_str()?, 10),
        _ => None,
    }
}

/// `float(value)` for numbers and text.
pub(crate) fn to_float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(if value.is_true() { 1.0 } else { 0.0 }),
        ValueKind::Number => as_float(value),
        ValueKind::String => parse_float(value.as_str()?),
        _ => None,
    }
}

/// The value of a number or boolean as a float.
pub(crate) fn as_float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(if value.is_true() { 1.0 } else { 0.0 }),
        // Convert through i128, because minijinja refuses integers that a float cannot represent exactly.
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(|number| number as f64),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        _ => None,
    }
}

/// Truncates a float; `None` if no integer can hold the result.
pub(crate) fn float_to_int(number: f64) -> Option<i128> {
    const LARGEST: f64 = 1.7e38;
    (number.abs() < LARGEST).then_some(number.trunc() as i128)
}

/// Converts an integer to the smallest kind of value that holds it.
pub(crate) fn integer(number: i128) -> Value {
    match i64::try_from(number) {
        Ok(small) => Value::from(small),
        Err(_) => Value::from(number),
    }
}

/// Converts decimal digits to the most exact value possible.
pub(crate) fn big_integer(digits: &str) -> Value {
    match digits.parse::<i128>() {
        Ok(number) => Value::from(number),
        Err(_) => Value::from(digits.parse::<f64>().unwrap_or(f64::INFINITY)),
    }
}

/// `round(number, digits)`: halves round to even, based on the exact binary value.
pub(crate) fn round(number: f64, digits: i32) -> f64 {
    if !number.is_finite() {
        return number;
    }
    if digits >= 0 {
        // Formatting rounds the exact value half to even, as Python does.
        format!("{number:.*}", digits.unsigned_abs() as usize).parse().unwrap_or(number)
    } else if digits < -f64::MAX_10_EXP {
        // Only the sign remains.
        number * 0.0
    } else {
        let scale = 10f64.powi(-digits);
        let quotient = number / scale;
        let rounded = quotient.round();
        let rounded = if (quotient - quotient.trunc()).abs() == 0.5 { 2.0 * (quotient / 2.0).round() } else { rounded };
        rounded * scale
    }
}

/// Removes the underscores that Python allows between digits; `None` for misplaced underscores or a sign.
fn without_underscores(digits: &str) -> Option<String> {
    let misplaced = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    if digits.is_empty()
        || misplaced
        || digits.starts_with(['+', '-'])
        || digits.contains("_.")
        || digits.contains("._")
    {
        return None;
    }
    Some(digits.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_parsed_like_python() {
        let cases = [
            (" 5 ", 10, Some(5)),
            ("1_000", 10, Some(1000)),
            ("1__0", 10, None),
            ("-0x1F", 16, Some(-31)),
            ("0b11", 0, Some(3)),
            ("012", 0, None),
            ("5.0", 10, None),
            ("", 10, None),
            ("+7", 10, Some(7)),
            ("+-7", 10, None),
        ];
        for (text, base, expected) in cases {
            assert_eq!(parse_int(text, base), expected, "{text}");
        }
    }

    #[test]
    fn halves_rounded_on_exact_value() {
        assert_eq!(round(2.675, 2), 2.67);
        assert_eq!(round(0.5, 0), 0.0);
        assert_eq!(round(1.5, 0), 2.0);
        assert_eq!(round(1250.0, -2), 1200.0);
    }
}
