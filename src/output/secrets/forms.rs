//! Forms in which a secret may appear in a text: literal and encoded.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// Minimum length of a secret to search for inside longer base64 data, in bytes.
const EMBEDDED: usize = 5;

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
    forms.extend([secret.to_uppercase(), secret.to_lowercase()]);
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
    forms.extend([true, false].map(|allows_unicode| in_yaml(secret, allows_unicode)));
    // JSON within JSON occurs in the arguments of a request.
    forms.extend([in_json(&json), in_json(&ascii), json.replace('/', "\\/")]);
    for json in [json, ascii] {
        // Go's encoder escapes what HTML would take for elements; Jinja's `tojson` also escapes apostrophes.
        let safe = json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
        let safest = safe.replace('\'', "\\u0027");
        forms.extend([in_json(&safe), in_json(&safest), safe, safest, json]);
    }
    // `repr`, `ascii`, and `repr` of bytes.
    let is_printable = |c: char| c.is_ascii_graphic() || c.escape_debug().eq([c]);
    let of_bytes: String = secret.bytes().map(char::from).collect();
    for python in [
        in_python(secret, is_printable),
        in_python(secret, |c| c.is_ascii() && !c.is_ascii_control()),
        in_python(&of_bytes, |c| c.is_ascii() && !c.is_ascii_control()),
    ] {
        forms.insert(python.replace('\'', "\\'"));
        forms.insert(python);
    }
    let markup = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for (double, single) in [("&quot;", "&apos;"), ("&#34;", "&#39;"), ("&quot;", "&#x27;"), ("&quot;", "'")] {
        forms.insert(markup.replace('"', double).replace('\'', single));
    }
}

/// Quotes of shells, of YAML, and of regular expressions.
fn quoted(secret: &str, forms: &mut BTreeSet<String>) {
    // A command line that was split into words has lost its quotes. A comment would be missing in the form.
    let has_comment = secret.split_whitespace().any(|word| word.starts_with('#'));
    if let Ok(words) = shell_words::split(secret)
        && !has_comment
    {
        forms.insert(words.join(" "));
    }
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
    // `regex_escape`, for Python and for `posix_basic`.
    for special in ["()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}", "].[^$*\\"] {
        let escape = |c: char| special.contains(c).then_some('\\').into_iter().chain([c]);
        forms.insert(secret.chars().flat_map(escape).collect());
    }
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

/// A text between double quotes of YAML, as PyYAML writes it.
fn in_yaml(secret: &str, allows_unicode: bool) -> String {
    const SHORT: &[(char, char)] = &[
        ('\0', '0'),
        ('\u{7}', 'a'),
        ('\u{8}', 'b'),
        ('\t', 't'),
        ('\n', 'n'),
        ('\u{b}', 'v'),
        ('\u{c}', 'f'),
        ('\r', 'r'),
        ('\u{1b}', 'e'),
        ('"', '"'),
        ('\\', '\\'),
        ('\u{85}', 'N'),
        ('\u{a0}', '_'),
        ('\u{2028}', 'L'),
        ('\u{2029}', 'P'),
    ];
    let is_kept = |c: char| match c {
        '"' | '\\' | '\u{2028}' | '\u{2029}' | '\u{feff}' => false,
        ' '..='~' => true,
        _ => allows_unicode && matches!(c, '\u{a0}'..='\u{fffd}'),
    };
    let mut text = String::with_capacity(secret.len());
    for c in secret.chars() {
        let short = SHORT.iter().find(|(of, _)| *of == c);
        let _ = match (u32::from(c), short) {
            _ if is_kept(c) => write!(text, "{c}"),
            (_, Some((_, short))) => write!(text, "\\{short}"),
            (code @ ..=0xff, _) => write!(text, "\\x{code:02X}"),
            (code @ ..=0xffff, _) => write!(text, "\\u{code:04X}"),
            (code, _) => write!(text, "\\U{code:08X}"),
        };
    }
    text
}

/// A text between quotes of Python, in which quotes are not escaped.
fn in_python(secret: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(secret.len());
    for c in secret.chars() {
        let _ = match (c, u32::from(c)) {
            ('\\', _) => write!(text, "\\\\"),
            ('\n', _) => write!(text, "\\n"),
            ('\r', _) => write!(text, "\\r"),
            ('\t', _) => write!(text, "\\t"),
            _ if is_kept(c) => write!(text, "{c}"),
            (_, code @ ..=0xff) => write!(text, "\\x{code:02x}"),
            (_, code @ ..=0xffff) => write!(text, "\\u{code:04x}"),
            (_, code) => write!(text, "\\U{code:08x}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use windlass_template::{Value, Variable};

    use super::*;

    #[test]
    fn secret_is_found_within_anything_encoded_as_base64() {
        for secret in ["p\"ss\\w/rd?~", "ab9dE"] {
            let forms = of(secret);
            for before in ["", "a", "ab", "abc"] {
                for after in ["", "x", "xy", "xyz"] {
                    let text = STANDARD.encode(format!("{before}{secret}{after}"));
                    let is_found = forms.iter().any(|form| text.contains(form.as_str()));
                    assert!(is_found, "{before}|{after}: {text}");
                }
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

    #[test]
    fn forms_include_escapes_of_python() {
        let forms = of("pässwörd\u{7}\u{a0}'");
        for form in
            ["pässwörd\\x07\\xa0'", "p\\xe4ssw\\xf6rd\\x07\\xa0\\'", "p\\xc3\\xa4ssw\\xc3\\xb6rd\\x07\\xc2\\xa0'"]
        {
            assert!(forms.contains(form), "{form} is not among {forms:#?}");
        }
    }

    /// Filters of templates that encode a text, with arguments in parentheses.
    const FILTERS: &[&str] = &[
        "tojson",
        "to_json",
        "to_json(ensure_ascii=false)",
        "to_nice_json",
        "to_yaml",
        "to_yaml(allow_unicode=false)",
        "to_nice_yaml",
        "to_yaml(default_style='\"')",
        "to_yaml(default_style=\"'\")",
        "quote",
        "urlencode",
        "b64encode",
        "regex_escape",
        "regex_escape('posix_basic')",
        "escape",
        "upper",
        "lower",
        "split('in no secret') | string",
    ];

    /// Texts of characters that some format escapes, always the same ones.
    fn texts() -> Vec<String> {
        let letters: Vec<char> =
            "ab09\"'\\`$&<>%?/+=:;,#!@[](){}|*~^- üß漢\u{1f511}\t\u{7}\u{1b}\u{7f}\u{a0}".chars().collect();
        let mut state = 1_u32;
        let mut random = |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as usize % below
        };
        (0..200)
            .map(|_| format!("x{}z", (0..8 + random(24)).map(|_| letters[random(letters.len())]).collect::<String>()))
            .collect()
    }

    #[test]
    fn secret_is_masked_whatever_filter_encodes_it() {
        let engine = windlass_template::Engine::new(&windlass_template::LIBRARY, windlass_template::Options::default());
        for text in texts() {
            let secrets = super::super::Secrets::default();
            secrets.add_password(&text);
            let scope = indexmap::IndexMap::from([("secret".into(), Variable::Data(Value::from(text.as_str())))]);
            let context = engine.scope(std::sync::Arc::new(scope));
            for filter in FILTERS {
                #[expect(clippy::disallowed_methods, reason = "a constant: what it works on is a variable")]
                let template = windlass_yaml::Node::of_project(
                    format!("{{{{ secret | {filter} }}}}"),
                    windlass_yaml::Span::none(),
                );
                let encoded = context.render_to_string(&template).unwrap();
                let masked = secrets.mask(&encoded);
                let rest = masked.replace("********", "");
                assert!(masked.contains("********"), "{filter} of {text}: {encoded}");
                assert!(!rest.contains(char::is_alphanumeric), "{filter} of {text}: {masked}");
            }
        }
    }
}
