//! Filters for URLs.

use minijinja::value::ValueKind;
use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::python::container::{dict, is_list, items};
use crate::python::time::{self, Clock};
use crate::python::{number, text};

/// Parts of a URL, with the names of `urlsplit`.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) scheme: String,
    pub(crate) netloc: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) fragment: String,
}

impl Parts {
    /// Splits a URL without decoding it.
    pub(crate) fn split(url: &str) -> Parts {
        let url = url.trim_start_matches(|character: char| character <= ' ');
        let url: String = url.chars().filter(|character| !matches!(character, '\t' | '\r' | '\n')).collect();
        let mut rest = url.as_str();
        let mut parts = Parts::default();
        if let Some((scheme, after)) = rest.split_once(':')
            && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        {
            parts.scheme = scheme.to_lowercase();
            rest = after;
        }
        if let Some(after) = rest.strip_prefix("//") {
            let end = after.find(['/', '?', '#']).unwrap_or(after.len());
            parts.netloc = after[..end].to_owned();
            rest = &after[end..];
        }
        if let Some((before, fragment)) = rest.split_once('#') {
            parts.fragment = fragment.to_owned();
            rest = before;
        }
        if let Some((before, query)) = rest.split_once('?') {
            parts.query = query.to_owned();
            rest = before;
        }
        parts.path = rest.to_owned();
        parts
    }

    fn credentials(&self) -> (Option<&str>, Option<&str>) {
        match self.netloc.rsplit_once('@') {
            None => (None, None),
            Some((user, _)) => match user.split_once(':') {
                Some((user, password)) => (Some(user), Some(password)),
                None => (Some(user), None),
            },
        }
    }

    fn host_and_port(&self) -> (Option<String>, Option<&str>) {
        let place = self.netloc.rsplit_once('@').map_or(self.netloc.as_str(), |(_, place)| place);
        let (host, port) = match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((host, after)) => (host, after.strip_prefix(':')),
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        (Some(host.to_lowercase()).filter(|host| !host.is_empty()), port.filter(|port| !port.is_empty()))
    }
}

pub(super) fn urlsplit(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let parts = Parts::split(args.string()?);
    let (username, password) = parts.credentials();
    let (hostname, port) = parts.host_and_port();
    let port = match port {
        None => Value::from(()),
        Some(port) => match port.parse::<u16>() {
            Ok(port) => Value::from(port),
            Err(_) => return Err(args.failed(format!("'{port}' is not a port"))),
        },
    };
    let all = [
        ("fragment", Value::from(parts.fragment.as_str())),
        ("hostname", Value::from(hostname)),
        ("netloc", Value::from(parts.netloc.as_str())),
        ("password", Value::from(password)),
        ("path", Value::from(parts.path.as_str())),
        ("port", port),
        ("query", Value::from(parts.query.as_str())),
        ("scheme", Value::from(parts.scheme.as_str())),
        ("username", Value::from(username)),
    ];
    match args.text_of("query").filter(|query| !query.is_empty()) {
        None => Ok(dict(all.into_iter().map(|(name, value)| (Value::from(name), value)))),
        Some(wanted) => match all.into_iter().find(|(name, _)| *name == wanted) {
            Some((_, value)) => Ok(value),
            None => Err(args.says(format!("urlsplit: unknown URL component: {wanted}"))),
        },
    }
}

/// Percent-encodes everything except letters, digits, `_.-~` and the characters in `safe`.
pub(crate) fn quoted(value: &str, safe: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        let character = char::from(byte);
        if byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) || (byte.is_ascii() && safe.contains(character)) {
            out.push(character);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

pub(super) fn urlencode(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.value();
    let pair = |key: &Value, value: &Value| {
        let encoded = |part: &Value| quoted(&text(part), "").replace("%20", "+");
        format!("{}={}", encoded(key), encoded(value))
    };
    let pairs: Vec<String> = match value.kind() {
        ValueKind::Map => args.pairs()?.iter().map(|(key, value)| pair(key, value)).collect(),
        _ if is_list(value) => {
            let mut pairs = Vec::new();
            for item in args.items()? {
                match items(&item).as_deref() {
                    Some([key, value]) => pairs.push(pair(key, value)),
                    _ => return Err(args.failed(format!("{} is not a pair", super::call::shown(&item)))),
                }
            }
            pairs
        }
        _ => return Ok(Value::from(quoted(&text(value), "/"))),
    };
    Ok(Value::from(pairs.join("&")))
}

pub(super) fn urldecode(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.string()?.replace('+', " ");
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%').then(|| after.get(..2)).flatten();
        match code.and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    Ok(Value::from(String::from_utf8_lossy(&bytes).into_owned()))
}

pub(super) fn strftime(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let seconds = match args.some("second") {
        None => None,
        Some(second) => match number::to_float(second) {
            Some(seconds) => Some(seconds),
            None => {
                let sentence = format!("Invalid value for epoch value ({})", text(second));
                return Err(args.says_of(sentence, "It is a number of seconds since 1970."));
            }
        },
    };
    time::format_seconds(&args.text(), seconds, Clock::of_flag(args.flag("utc", false)))
        .map(Value::from)
        .map_err(|reason| args.failed(reason))
}

pub(super) fn to_datetime(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let format = args.text_of("format").unwrap_or_else(|| "%Y-%m-%d %H:%M:%S".to_owned());
    crate::python::time::parse(&args.text(), &format).map_err(|reason| args.failed(reason))
}
