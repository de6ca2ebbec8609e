//! Numbers as Python reads and writes them.

/// Formats a float as Python's `repr` does: the shortest digits that read back the same, with an exponent from `1e+16`
/// up and below 0.0001 (`1e-05`).
pub fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// An integer of any size, read from digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Small(i64),
    /// Decimal digits, with a sign when negative.
    Big(String),
}

/// Reads digits of a base; `None` if there are none or one of them is invalid.
pub(crate) fn whole(negative: bool, digits: &str, base: u32) -> Option<Whole> {
    if digits.is_empty() {
        return None;
    }
    let mut number = Decimal::default();
    for digit in digits.chars() {
        number.multiply_add(base, digit.to_digit(base)?);
    }
    Some(number.finish(negative))
}

/// Reads `12:30:45`: digits of base 60, of which the first may have any size.
pub(crate) fn sexagesimal(negative: bool, text: &str) -> Option<Whole> {
    let mut number = Decimal::default();
    for (index, part) in text.split(':').enumerate() {
        if index > 0 {
            number.multiply_add(60, 0);
        }
        let mut digits = Decimal::default();
        for digit in part.chars() {
            digits.multiply_add(10, digit.to_digit(10)?);
        }
        number.add(&digits);
    }
    Some(number.finish(negative))
}

/// A natural number in limbs of nine decimal digits, lowest limb first.
#[derive(Default)]
struct Decimal(Vec<u32>);

impl Decimal {
    const LIMB: u64 = 1_000_000_000;

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = (product % Self::LIMB) as u32;
            carry = product / Self::LIMB;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn add(&mut self, other: &Self) {
        let mut carry = 0u64;
        for index in 0..self.0.len().max(other.0.len()) {
            let sum = u64::from(self.0.get(index).copied().unwrap_or(0))
                + u64::from(other.0.get(index).copied().unwrap_or(0))
                + carry;
            let limb = (sum % Self::LIMB) as u32;
            carry = sum / Self::LIMB;
            match self.0.get_mut(index) {
                Some(slot) => *slot = limb,
                None => self.0.push(limb),
            }
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn finish(&self, negative: bool) -> Whole {
        let mut text = String::new();
        for (index, limb) in self.0.iter().rev().enumerate() {
            text += &if index == 0 { limb.to_string() } else { format!("{limb:09}") };
        }
        if text.is_empty() {
            text.push('0');
        }
        if negative && text != "0" {
            text.insert(0, '-');
        }
        text.parse().map_or_else(|_| Whole::Big(text), Whole::Small)
    }
}

/// Reads an integer literal of Python source (`10`, `-5`, `0x1f`, `1_000`) and returns it in decimal. Inventory values
/// follow the same rules: leading zeros are refused.
pub(crate) fn python_int_literal(text: &str) -> Option<String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, body, prefixed) = match lower.get(..2) {
        Some("0x") => (16, lower.get(2..)?, true),
        Some("0o") => (8, lower.get(2..)?, true),
        Some("0b") => (2, lower.get(2..)?, true),
        _ => (10, lower.as_str(), false),
    };
    let underscores_fit = !body.ends_with('_') && !body.contains("__") && (prefixed || !body.starts_with('_'));
    let clean = body.replace('_', "");
    let leading_zero = base == 10 && clean.starts_with('0') && clean.bytes().any(|byte| byte != b'0');
    if !underscores_fit || leading_zero {
        return None;
    }
    Some(match whole(negative, &clean, base)? {
        Whole::Small(value) => value.to_string(),
        Whole::Big(text) => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_formatted_like_python() {
        for (value, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (-2.5e-10, "-2.5e-10"),
            (1e100, "1e+100"),
            (-0.0, "-0.0"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(python_float(value), text);
        }
    }

    #[test]
    fn integers_of_any_size_parsed() {
        assert_eq!(whole(false, "ffffffffffffffff", 16), Some(Whole::Big("18446744073709551615".into())));
        assert_eq!(whole(true, "9223372036854775808", 10), Some(Whole::Small(i64::MIN)));
        assert_eq!(whole(false, "100000000000000000000", 10), Some(Whole::Big("100000000000000000000".into())));
        assert_eq!(whole(false, "9", 8), None);
        assert_eq!(sexagesimal(false, "12:30:45"), Some(Whole::Small(45045)));
        assert_eq!(sexagesimal(true, "1:0"), Some(Whole::Small(-60)));
    }

    #[test]
    fn python_integer_literals_parsed() {
        assert_eq!(python_int_literal("0x1F").as_deref(), Some("31"));
        assert_eq!(python_int_literal("-1_000").as_deref(), Some("-1000"));
        assert_eq!(python_int_literal("00").as_deref(), Some("0"));
        for text in ["08", "", "1__0", "_1", "1_", "1a"] {
            assert_eq!(python_int_literal(text), None, "{text}");
        }
    }
}
