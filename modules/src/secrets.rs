//! Masks secrets among a module's arguments in its result.

use serde_json::Value;

use crate::{Map, Opt, Spec};

/// Ansible's replacement for a secret.
pub(crate) const SECRET: &str = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER";
/// Replacement for a secret inside a longer text.
const STARS: &str = "********";
/// Shorter secrets are masked only as a whole text: inside other texts they would match by chance.
const SHORTEST: usize = 4;
/// Minimum length of a token in place of a user, in bytes.
const TOKEN: usize = 20;

/// Secret texts among a task's arguments: values of secret options, and passwords in addresses.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    texts: Vec<String>,
}

impl Secrets {
    pub(crate) fn of(spec: &Spec, given: &Value) -> Secrets {
        let mut texts = Vec::new();
        if let Some(given) = given.as_object() {
            collect(spec.options, given, &mut texts);
        }
        texts.retain(|text| !text.is_empty());
        // Longest first, because one secret may be part of another.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.dedup();
        Secrets { texts }
    }

    /// Masks the secrets in all texts of a result, and keeps its structure.
    pub(crate) fn mask(&self, value: &mut Value) {
        if self.texts.is_empty() {
            return;
        }
        match value {
            Value::String(text) => self.mask_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.mask(item)),
            _ => {}
        }
    }

    pub(crate) fn mask_text(&self, text: &mut String) {
        for secret in &self.texts {
            if text == secret {
                *text = SECRET.to_owned();
            } else if secret.len() >= SHORTEST && text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), STARS);
            }
        }
    }
}

fn collect(options: &[Opt], given: &Map, texts: &mut Vec<String>) {
    for option in options {
        for value in std::iter::once(&option.name).chain(option.aliases).filter_map(|name| given.get(*name)) {
            if option.no_log {
                leaves(value, &mut |text| texts.push(text.to_owned()));
            } else if option.address {
                leaves(value, &mut |text| texts.extend(passwords(text)));
            }
            for inside in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
                if let (Value::Object(map), false) = (inside, option.options.is_empty()) {
                    collect(option.options, map, texts);
                }
            }
        }
    }
}

fn leaves(value: &Value, visit: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, visit)),
        Value::Object(map) => map.values().for_each(|item| leaves(item, visit)),
        _ => {}
    }
}

/// Whether the user of a URL is a token, which has letters and digits and is longer than names are.
pub fn is_token(user: &[u8]) -> bool {
    user.len() >= TOKEN
        && user.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
        && user.iter().any(u8::is_ascii_digit)
        && user.iter().any(u8::is_ascii_alphabetic)
}

/// The passwords of all addresses in a text, both encoded and decoded.
fn passwords(text: &str) -> Vec<String> {
    let written = ranges(text).into_iter().filter_map(|range| text.get(range));
    written.flat_map(|password| [password.to_owned(), decoded(password)]).collect()
}

/// A text with the passwords of its addresses masked.
pub(crate) fn without_passwords(text: &str) -> String {
    let mut masked = text.to_owned();
    for range in ranges(text).into_iter().rev() {
        masked.replace_range(range, STARS);
    }
    masked
}

/// Ranges of passwords in `scheme://user:password@server`, and of tokens in `scheme://token@server`.
fn ranges(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("://")) {
        let start = from + at + 3;
        let rest = text.get(start..).unwrap_or_default();
        let ends =
            |character: char| matches!(character, '/' | '?' | '#' | '"' | '\'' | ']') || character.is_whitespace();
        let authority = rest.split(ends).next().unwrap_or_default();
        if let Some((info, _)) = authority.rsplit_once('@') {
            let (user, password) = info.split_once(':').unwrap_or((info, ""));
            if is_token(user.as_bytes()) {
                ranges.push(start..start + user.len());
            }
            if !password.is_empty() {
                ranges.push(start + info.len() - password.len()..start + info.len());
            }
        }
        from = start + authority.len();
    }
    ranges
}

/// Decodes percent escapes.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        match (first, pair) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Kind, registry};

    const OPTIONS: &[Opt] = &[
        Opt::new("password", Kind::Str, "").aliases(&["pass"]).secret(),
        Opt::new("repo", Kind::Str, "").address(),
        Opt::new("users", Kind::List(&Kind::Dict), "").options(&[Opt::new("token", Kind::Str, "").secret()]),
    ];

    fn masked(given: Value, mut result: Value) -> Value {
        Secrets::of(&Spec { options: OPTIONS, ..Spec::EMPTY }, &given).mask(&mut result);
        result
    }

    #[test]
    fn secret_arguments_masked_in_result() {
        let given = json!({ "pass": "hunter22", "users": [{ "token": "t0ken" }] });
        let result =
            json!({ "msg": "login with hunter22 failed", "whole": "hunter22", "list": [{ "a": "x t0ken" }], "rc": 1 });
        let expected =
            json!({ "msg": "login with ******** failed", "whole": SECRET, "list": [{ "a": "x ********" }], "rc": 1 });
        assert_eq!(masked(given, result), expected);
    }

    #[test]
    fn short_secret_masked_only_as_whole_text() {
        let result = masked(json!({ "pass": "a" }), json!({ "msg": "state", "given": "a" }));
        assert_eq!(result, json!({ "msg": "state", "given": SECRET }));
    }

    #[test]
    fn url_passwords_masked_encoded_and_decoded() {
        let given = json!({ "repo": "deb [signed-by=/k] https://me:p%40ssword@h:1/x stable; http://h2/a:b@c" });
        let result = json!({ "cmd": "git clone https://me:p%40ssword@h:1/x", "stderr": "bad p@ssword", "url": "http://h2/a:b@c" });
        let expected =
            json!({ "cmd": "git clone https://me:********@h:1/x", "stderr": "bad ********", "url": "http://h2/a:b@c" });
        assert_eq!(masked(given, result), expected);
        assert_eq!(without_passwords("a https://u:p@h/x, ftp://h"), "a https://u:********@h/x, ftp://h");
        assert_eq!(without_passwords("https://ghp_0123456789abcdefABCD@h/x"), "https://********@h/x");
        assert_eq!(
            without_passwords("https://ghp_0123456789abcdefABCD:x-oauth-basic@h/x"),
            "https://********:********@h/x"
        );
        for user in ["git", "user-with-a-very-long-name", "u:"] {
            let url = format!("https://{user}@h/x");
            assert_eq!(without_passwords(&url), url);
        }
    }

    /// Names that resemble secrets but are harmless.
    const HARMLESS: &[&str] = &[
        "accept_hostkey",
        "accept_newhostkey",
        "add_keys_to_agent",
        "authority_key_identifier",
        "auto_import_keys",
        "certificate_key_path",
        "fail_key",
        "gpgcakey",
        "gpgkey",
        "host_key_algorithms",
        "key_options",
        "keyring",
        "keyserver",
        "nopassword",
        "pass_credentials",
        "passno",
        "return_private_key_data",
        "strict_host_key_checking",
        "subject_key_identifier",
        "update_password",
        "password_lock",
        "token_ttl",
        // Public keys and names of entries.
        "key",
        // Paths.
        "client_key",
        "key_file",
        "private_key",
        "private_key_format",
        "sslclientkey",
    ];
    /// Prefixes and suffixes of harmless names: paths, properties and days.
    const HARMLESS_PARTS: &[&str] =
        &["ssh_key_", "generate_ssh_key", "password_expire_", "_path", "key_identifier", "key_usage"];

    fn undeclared(options: &'static [Opt], module: &str, found: &mut Vec<String>) {
        for option in options {
            let sounds = ["pass", "token", "secret", "key", "credential"].iter().any(|part| option.name.contains(part));
            let harmless = HARMLESS.contains(&option.name)
                || HARMLESS_PARTS.iter().any(|part| option.name.starts_with(part) || option.name.ends_with(part))
                || option.name.starts_with("create_")
                || option.kind == Kind::Bool;
            if sounds && !harmless && !option.no_log {
                found.push(format!("{module}: {}", option.name));
            }
            undeclared(option.options, module, found);
        }
    }

    #[test]
    fn options_that_sound_secret_are_declared_so() {
        let mut found = Vec::new();
        for module in registry::all() {
            undeclared(module.spec().options, module.spec().name, &mut found);
        }
        assert_eq!(found, Vec::<String>::new(), "declare them with .secret(), or list them as harmless");
    }
}
