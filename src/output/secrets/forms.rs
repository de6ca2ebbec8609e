//! Forms in which a secret may appear in a text: literal and encoded.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// Minimum length of a secret to search for inside longer base64 data, in bytes.
const EMBEDDED: usize = 6;

/// Line lengths at which programs wrap base64.
const WRAPPED: [usize; 2] = [64, 76];

/// Length of a secret in bytes from which only its most common forms are searched for, to save memory.
const LONG: usize = 8 << 10;

/// All forms of a secret.
pub(super) fn of(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([secret.to_owned()]);
    if secret.len() > LONG {
        forms.extend([in_json(secret), STANDARD_NO_PAD.encode(secret)]);
        return forms;
    }
    escaped(secret, &mut forms);
    quoted(secret, &mut forms);
    percent_encoded(secret, &mut forms);
    in_base64(secret.as_bytes(), &mut forms);
    let hex = hex::encode(secret);
    forms.insert(hex.to_ascii_uppercase());
    forms.insert(hex);
    forms
}

/// Escapes of JSON, Python, YAML and XML.
fn escaped(secret: &str, forms: &mut BTreeSet<String>) {
    let json = in_json(secret);
    let ascii = in_ascii(&json);
    // JSON within JSON occurs in the arguments of a request.
    forms.extend([in_json(&json), in_json(&ascii), json.replace('/', "\\/"), json, ascii]);
    let python = secret.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
    forms.insert(python.replace('\'', "\\'"));
    forms.insert(python);
    let markup = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for (double, single) in [("&quot;", "&apos;"), ("&#34;", "&#39;"), ("&quot;", "&#x27;"), ("&quot;", "'")] {
        forms.insert(markup.replace('"', double).replace('\'', single));
    }
}

/// Quotes of shells, and of YAML.
fn quoted(secret: &str, forms: &mut BTreeSet<String>) {
    forms.insert(secret.replace('\'', "'\\''"));
    forms.insert(secret.replace('\'', "'\"'\"'"));
    forms.insert(secret.replace('\'', "''"));
    let mut within_double = String::with_capacity(secret.len());
    let mut bare = String::with_capacity(secret.len());
    for c in secret.chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            within_double.push('\\');
        }
        if c.is_ascii()
            && !c.is_ascii_alphanumeric()
            && !matches!(c, '_' | '-' | '.' | '/' | '@' | ':' | '%' | '+' | ',')
        {
            bare.push('\\');
        }
        within_double.push(c);
        bare.push(c);
    }
    forms.extend([within_double, bare]);
}

/// Percent-encodings of browsers, forms and Python's `quote` and `quote_plus`.
fn percent_encoded(secret: &str, forms: &mut BTreeSet<String>) {
    for kept in ["", "/", "!'()*", "/!$&'()*+,;=:@", "!$&'()*+,;="] {
        let upper = percent(secret, kept);
        forms.insert(lower_escapes(&upper));
        if secret.contains(' ') {
            let form = upper.replace("%20", "+");
            forms.insert(lower_escapes(&form));
            forms.insert(form);
        }
        forms.insert(upper);
    }
}

fn percent(secret: &str, kept: &str) -> String {
    let mut text = String::with_capacity(secret.len() * 3);
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.as_bytes().contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Lower-cases the hexadecimal digits of percent escapes.
fn lower_escapes(text: &str) -> String {
    let mut parts = text.split('%');
    let mut lower = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        lower.push('%');
        lower.push_str(&digits.to_ascii_lowercase());
        lower.push_str(rest);
    }
    lower
}

fn in_base64(secret: &[u8], forms: &mut BTreeSet<String>) {
    let mut add = |text: String| {
        forms.insert(text.replace('+', "-").replace('/', "_"));
        forms.insert(text);
    };
    let alone = STANDARD.encode(secret);
    for width in WRAPPED {
        if alone.len() > width {
            alone.as_bytes().chunks(width).for_each(|line| add(String::from_utf8_lossy(line).into_owned()));
        }
    }
    add(STANDARD_NO_PAD.encode(secret));
    add(alone);
    // Tools that encode a line also encode its end.
    add(STANDARD.encode([secret, b"\n"].concat()));
    if secret.len() < EMBEDDED {
        return;
    }
    for before in 0..3 {
        let encoded = STANDARD_NO_PAD.encode([vec![0; before], secret.to_vec()].concat());
        // Characters that mix in bits of neighbouring bytes are left out.
        let first = (before * 8).div_ceil(6);
        let last = (before + secret.len()) * 8 / 6;
        add(encoded.get(first..last).unwrap_or_default().to_owned());
    }
}

fn in_json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default().to_owned()
}

fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_found_within_anything_encoded_as_base64() {
        let forms = of("p\"ss\\w/rd?~");
        for before in ["", "a", "ab", "abc"] {
            for after in ["", "x", "xy", "xyz"] {
                let text = STANDARD.encode(format!("{before}p\"ss\\w/rd?~{after}"));
                let is_found = forms.iter().any(|form| text.contains(form.as_str()));
                assert!(is_found, "{before}|{after}: {text}");
            }
        }
    }

    #[test]
    fn forms_include_json_urls_shells_and_python() {
        let forms = of("a b'\"\\é/");
        for form in [
            "a b'\\\"\\\\é/",
            "a b'\\\"\\\\\\u00e9/",
            "a%20b%27%22%5C%C3%A9%2F",
            "a+b%27%22%5c%c3%a9/",
            "a b'\"'\"'\"\\é/",
            "a b'\\''\"\\é/",
            "a b''\"\\é/",
        ] {
            assert!(forms.contains(form), "{form} is not among {forms:#?}");
        }
    }
}
