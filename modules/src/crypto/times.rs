//! Times of certificates in options and results.

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

/// Formats a time as `YYYYMMDDHHMMSSZ`.
pub(super) fn shown(time: Timestamp) -> String {
    time.strftime("%Y%m%d%H%M%SZ").to_string()
}

/// Parses a time that is relative to now (`+1w2d`, `-30`) or absolute, with or without seconds and offset.
pub(super) fn moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    match text.split_at_checked(1)? {
        ("+", rest) => now.checked_add(span(rest)?).ok(),
        ("-", rest) => now.checked_sub(span(rest)?).ok(),
        _ => absolute(text),
    }
}

fn span(text: &str) -> Option<SignedDuration> {
    let units = [('w', 604_800), ('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];
    // Each unit may occur once, in this order. A trailing number without a unit means seconds.
    let (mut seconds, mut number, mut next) = (0i64, String::new(), 0);
    for character in text.chars() {
        if character.is_ascii_digit() {
            number.push(character);
            continue;
        }
        let unit = character.to_ascii_lowercase();
        let at = units.iter().position(|(name, _)| *name == unit).filter(|at| *at >= next)?;
        seconds = seconds.checked_add(number.parse::<i64>().ok()?.checked_mul(units.get(at)?.1)?)?;
        next = at + 1;
        number.clear();
    }
    if !number.is_empty() {
        seconds = seconds.checked_add(number.parse().ok().filter(|_| next < units.len())?)?;
    }
    (!text.is_empty()).then(|| SignedDuration::from_secs(seconds))
}

fn absolute(text: &str) -> Option<Timestamp> {
    let end = text.find(|character: char| !character.is_ascii_digit())?;
    let (digits, zone) = text.split_at_checked(end)?;
    let form = match digits.len() {
        14 => "%Y%m%d%H%M%S",
        12 => "%Y%m%d%H%M",
        _ => return None,
    };
    let time = DateTime::strptime(form, digits).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    if zone == "Z" {
        return Some(time);
    }
    let (sign, hours, minutes) = (zone.get(..1)?, zone.get(1..3)?, zone.get(3..)?);
    let offset = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok().filter(|_| minutes.len() == 2)? * 60;
    let offset = SignedDuration::from_secs(match sign {
        "+" => offset,
        "-" => -offset,
        _ => return None,
    });
    time.checked_sub(offset).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_relative_and_absolute_parsed() {
        let now: Timestamp = "2024-01-01T00:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("+1w2d", Some("20240110000000Z")),
            ("-1d", Some("20231231000000Z")),
            ("+90", Some("20240101000130Z")),
            ("+0s", Some("20240101000000Z")),
            ("20300102030405Z", Some("20300102030405Z")),
            ("203001020304Z", Some("20300102030400Z")),
            ("20300102030405+0100", Some("20300102020405Z")),
            ("+", None),
            ("+1d2w", None),
            ("soon", None),
            ("20301302030405Z", None),
        ] {
            assert_eq!(moment(text, now).map(shown).as_deref(), expected, "{text}");
        }
    }
}
