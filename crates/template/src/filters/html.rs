//! Filters for HTML.

use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::limits;
use crate::python::regex::{Flags, Limits, compile};
use crate::python::text;

pub(super) fn escaped(value: &str) -> String {
    value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;").replace('"', "&#34;")
}

pub(super) fn escape(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(Value::from(escaped(&args.text())))
}

/// Rendered text is never treated as HTML, so nothing needs marking.
pub(super) fn safe(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(Value::from(args.text()))
}

pub(super) fn striptags(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut value = args.text();
    for (open, close) in [("<!--", "-->"), ("<", ">")] {
        while let Some(start) = value.find(open)
            && let Some(length) = value[start..].find(close)
        {
            value.replace_range(start..start + length + close.len(), "");
        }
    }
    let words: Vec<&str> = value.split_whitespace().collect();
    let plain = words.join(" ");
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&#34;", "\""), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", "\u{a0}")];
    let plain = named.iter().fold(plain, |text, (name, character)| text.replace(name, character));
    Ok(Value::from(plain.replace("&amp;", "&")))
}

pub(super) fn xmlattr(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut attributes = Vec::new();
    for (name, value) in args.pairs()? {
        if value.is_none() || crate::is_undefined(&value) {
            continue;
        }
        let name = text(&name);
        if name.contains(|character: char| character.is_whitespace() || "/>=".contains(character)) {
            return Err(args.failed(format!("'{name}' is not the name of an attribute")));
        }
        attributes.push(format!("{}=\"{}\"", escaped(&name), escaped(&text(&value))));
    }
    let joined = attributes.join(" ");
    let space = args.flag("autospace", true) && !joined.is_empty();
    Ok(Value::from(if space { format!(" {joined}") } else { joined }))
}

pub(super) fn urlize(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let limit = args.some("trim_url_limit").map(|_| args.size("trim_url_limit", 0)).transpose()?;
    let mut relations: Vec<String> =
        args.text_of("rel").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    if args.flag("nofollow", false) {
        relations.push("nofollow".to_owned());
    }
    relations.push("noopener".to_owned());
    relations.sort_unstable();
    relations.dedup();
    let target = args.text_of("target").map(|target| format!(" target=\"{}\"", escaped(&target))).unwrap_or_default();
    let attributes = format!(" rel=\"{}\"{target}", escaped(&relations.join(" ")));
    let shortened = |url: &str| match limit {
        Some(limit) if url.chars().count() > limit => url.chars().take(limit).collect::<String>() + "...",
        _ => url.to_owned(),
    };
    let failed = |reason: String| args.failed(reason);
    let words = compile(r"\s+", Flags::default()).map_err(failed)?;
    let value = escaped(&args.text());
    let mut out = String::new();
    let mut done = 0;
    limits::take(attributes.len().saturating_mul(value.split_whitespace().count()))?;
    for space in words.find_all(&value, Limits { proceed: limits::in_time, ..Limits::default() }).map_err(failed)? {
        out.push_str(&linked(&value[done..space.start()], &attributes, &shortened));
        out.push_str(space.group(0).unwrap_or_default());
        done = space.end();
    }
    out.push_str(&linked(&value[done..], &attributes, &shortened));
    Ok(Value::from(out))
}

/// Whether the text after the scheme begins with a name that ends in letters, `localhost` or a numeric address.
fn has_host(rest: &str) -> bool {
    let host = &rest[..rest.find(['/', '?', '#', ':']).unwrap_or(rest.len())];
    let last = host.rsplit('.').next().unwrap_or_default();
    let named = last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic());
    named || host.parse::<std::net::Ipv4Addr>().is_ok() || rest.starts_with('[')
}

/// Formats one word, as a link if it is an address.
fn linked(word: &str, attributes: &str, shortened: &dyn Fn(&str) -> String) -> String {
    let head_length = word.len() - word.trim_start_matches("&lt;").trim_start_matches('(').len();
    let (head, rest) = word.split_at(head_length);
    let middle = rest.trim_end_matches("&gt;").trim_end_matches([')', '.', ',']);
    let tail = &rest[middle.len()..];
    let is_url = ["http://", "https://"].iter().any(|scheme| middle.strip_prefix(scheme).is_some_and(has_host));
    let known = [".com", ".net", ".org", ".edu", ".gov", ".int", ".mil", ".info"];
    let is_bare = middle.starts_with("www.")
        || (!middle.contains('/')
            && !middle.contains('@')
            && known.iter().any(|end| middle.len() > end.len() && middle.ends_with(end)));
    let is_mail = middle.contains('@')
        && !middle.starts_with("www.")
        && !middle.contains(':')
        && middle
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && host.contains('.') && !host.ends_with('.'));
    let body = if is_url {
        format!("<a href=\"{middle}\"{attributes}>{}</a>", shortened(middle))
    } else if is_bare {
        format!("<a href=\"https://{middle}\"{attributes}>{}</a>", shortened(middle))
    } else if is_mail {
        let address = middle.strip_prefix("mailto:").unwrap_or(middle);
        format!("<a href=\"mailto:{address}\">{address}</a>")
    } else {
        middle.to_owned()
    };
    format!("{head}{body}{tail}")
}
