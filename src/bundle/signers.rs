//! Files of allowed signers, as ssh-keygen(1) describes them.

use std::path::Path;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use ssh_key::{HashAlg, PublicKey, public::KeyData};

use super::signature::NAMESPACE;
use crate::error::{Error, Result};

/// A line: `PATTERNS [OPTIONS] KEYTYPE KEY [COMMENT]`.
struct Line {
    principals: String,
    options: Vec<(String, String)>,
    key: PublicKey,
}

/// Finds the line that trusts a key for bundles. Returns the key and the identity of its owner.
pub(super) fn find(text: &str, file: &Path, signer: &KeyData, wanted: Option<&str>) -> Result<(PublicKey, String)> {
    let fingerprint = signer.fingerprint(HashAlg::Sha256);
    let mut reason = format!("`{}` does not have the key {fingerprint} that signed the bundle", file.display());
    for (number, line) in
        text.lines().enumerate().filter(|(_, line)| !matches!(line.trim().chars().next(), None | Some('#')))
    {
        let Ok(line) = parse(line.trim()) else {
            // Lines in another form, such as lines for certificates, trust nobody here.
            continue;
        };
        if line.key.key_data() != signer {
            continue;
        }
        let at = format!("`{}` line {}", file.display(), number + 1);
        match line.refusal(wanted) {
            None => return Ok((line.key, wanted.unwrap_or(&line.principals).to_owned())),
            Some(refusal) => reason = format!("{at} has the key {fingerprint}, but {refusal}"),
        }
    }
    Err(Error::new(reason).hint("check who made the bundle before you trust another key"))
}

/// Splits a line. Options may have quoted values with spaces.
fn parse(line: &str) -> Result<Line, ()> {
    let (principals, rest) = word(line).ok_or(())?;
    let principals = principals.trim_matches('"').to_owned();
    if let Ok(key) = PublicKey::from_openssh(rest) {
        return Ok(Line { principals, options: Vec::new(), key });
    }
    let (options, rest) = word(rest).ok_or(())?;
    let key = PublicKey::from_openssh(rest).map_err(drop)?;
    Ok(Line { principals, options: split(options), key })
}

/// The first word outside of quotes, and the rest.
fn word(text: &str) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    let end = text.find(|c: char| {
        is_quoted ^= c == '"';
        c.is_whitespace() && !is_quoted
    })?;
    Some((text.get(..end)?, text.get(end..)?.trim_start()))
}

/// Options, separated by commas outside of quotes.
fn split(options: &str) -> Vec<(String, String)> {
    let mut is_quoted = false;
    let parts = options.split(|c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    let option = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.to_ascii_lowercase(), value.trim_matches('"').to_owned())
    };
    parts.map(option).collect()
}

impl Line {
    /// Reason why the line does not trust its key for this identity and for bundles, now.
    fn refusal(&self, wanted: Option<&str>) -> Option<String> {
        if let Some(wanted) = wanted.filter(|wanted| !matches(&self.principals, wanted)) {
            return Some(format!("not for the identity `{wanted}`"));
        }
        for (name, value) in &self.options {
            let refusal = match name.as_str() {
                "namespaces" if matches(value, NAMESPACE) => None,
                "namespaces" => Some(format!("not for the namespace `{NAMESPACE}`")),
                "valid-after" => match time(value) {
                    Some(start) if Timestamp::now() >= start => None,
                    _ => Some(format!("it is valid only after `{value}`")),
                },
                "valid-before" => match time(value) {
                    Some(end) if Timestamp::now() < end => None,
                    _ => Some(format!("it is valid only before `{value}`")),
                },
                other => Some(format!("its option `{other}` is not supported")),
            };
            if refusal.is_some() {
                return refusal;
            }
        }
        None
    }
}

/// Whether a list of patterns with `*`, `?` and `!` matches a name.
fn matches(patterns: &str, name: &str) -> bool {
    let mut is_matched = false;
    for pattern in patterns.split(',') {
        let (is_negated, pattern) = pattern.strip_prefix('!').map_or((false, pattern), |rest| (true, rest));
        if wildcard(pattern.as_bytes(), name.as_bytes()) {
            if is_negated {
                return false;
            }
            is_matched = true;
        }
    }
    is_matched
}

fn wildcard(pattern: &[u8], name: &[u8]) -> bool {
    // Position to continue from if the newest `*` has to match one byte more.
    let mut retry = None;
    let (mut at, mut of) = (0, 0);
    while of < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at, of));
                at += 1;
            }
            Some(c) if *c == b'?' || Some(c) == name.get(of) => (at, of) = (at + 1, of + 1),
            _ => match retry {
                Some((star, start)) => {
                    retry = Some((star, start + 1));
                    (at, of) = (star + 1, start + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|c| *c == b'*')
}

/// A time as `YYYYMMDD[HHMM[SS]]`, in the local time zone, or in UTC with the ending `Z`.
fn time(text: &str) -> Option<Timestamp> {
    let (digits, zone) = match text.strip_suffix(['Z', 'z']) {
        Some(digits) => (digits, TimeZone::UTC),
        None => (text, TimeZone::system()),
    };
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let padded = format!("{digits:0<14}");
    let part = |from: usize, to: usize| padded.get(from..to).and_then(|digits| digits.parse::<i16>().ok());
    let small = |from: usize| part(from, from + 2).and_then(|number| i8::try_from(number).ok());
    let civil = DateTime::new(part(0, 4)?, small(4)?, small(6)?, small(8)?, small(10)?, small(12)?, 0).ok()?;
    civil.to_zoned(zone).map(|zoned: Zoned| zoned.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    fn found(line: &str, wanted: Option<&str>) -> Result<String, String> {
        let key = PublicKey::from_openssh(KEY).map_err(|error| error.to_string())?;
        let found = find(line, Path::new("signers"), key.key_data(), wanted);
        found.map(|(_, identity)| identity).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn key_is_found_for_its_identity_only() {
        let line = format!("# team\n\nops@example.com,*@build.example.com {KEY} comment\n");
        assert_eq!(found(&line, Some("ops@example.com")).unwrap(), "ops@example.com");
        assert_eq!(found(&line, Some("a@build.example.com")).unwrap(), "a@build.example.com");
        assert!(found(&line, Some("dev@example.com")).unwrap_err().contains("not for the identity `dev@example.com`"));
        assert!(found("", None).unwrap_err().contains("does not have the key SHA256:"));
    }

    #[test]
    fn options_limit_a_key() {
        let of = |options: &str| found(&format!("ops {options} {KEY}"), None);
        assert!(of("namespaces=\"git,windlass-*\"").is_ok());
        assert!(of("namespaces=\"git\"").unwrap_err().contains("not for the namespace"));
        assert!(of("valid-after=\"20200101\",valid-before=\"29990101Z\"").is_ok());
        assert!(of("valid-before=\"20200101120000\"").unwrap_err().contains("only before"));
        assert!(of("cert-authority").unwrap_err().contains("`cert-authority` is not supported"));
    }

    #[test]
    fn negated_pattern_excludes() {
        assert!(matches("*,!dev", "ops"));
        assert!(!matches("*,!dev", "dev"));
        assert!(wildcard(b"a*b?d*", b"aXXbcd"));
        assert!(!wildcard(b"a*b?d", b"aXXbd"));
    }
}
