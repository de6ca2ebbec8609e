//! `comment`: formats text as a comment of some language.

use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::limits;

pub(super) fn comment(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let style = args.text_of("style").unwrap_or_else(|| "plain".to_owned());
    let (beginning, decoration, end) = match style.as_str() {
        "plain" => ("", "# ", ""),
        "erlang" => ("", "% ", ""),
        "c" => ("", "// ", ""),
        "cblock" => ("/*", " * ", " */"),
        "xml" => ("<!--", " - ", "-->"),
        other => return Err(args.error(format!("knows the styles plain, erlang, c, cblock and xml, not '{other}'"))),
    };
    let option = |name: &str, default: &str| args.text_of(name).unwrap_or_else(|| default.to_owned());
    let newline = option("newline", "\n");
    let decoration = option("decoration", decoration);
    let beginning = option("beginning", beginning);
    let end = option("end", end);
    let edge = decoration.trim_end();
    let (prefix, postfix) = (option("prefix", edge), option("postfix", edge));
    let (prefix_count, postfix_count) = (args.size("prefix_count", 1)?, args.size("postfix_count", 1)?);
    let lines = (prefix.len() + newline.len()).saturating_mul(prefix_count)
        + (postfix.len() + newline.len()).saturating_mul(postfix_count);
    limits::text(lines)?;
    let mut out = String::new();
    if !beginning.is_empty() {
        out.push_str(&format!("{beginning}{newline}"));
    }
    if !prefix.is_empty() {
        let line = if prefix == newline { newline.clone() } else { format!("{prefix}{newline}") };
        out.push_str(&line.repeat(prefix_count));
    }
    limits::take(decoration.len().saturating_mul(args.string()?.matches(&newline).count()))?;
    let body = format!("{decoration}{}", args.string()?.replace(&newline, &format!("{newline}{decoration}")));
    out.push_str(&body.replace(&format!("{decoration}{newline}"), &format!("{}{newline}", decoration.trim_end())));
    for _ in 0..postfix_count {
        out.push_str(&newline);
        out.push_str(&postfix);
    }
    if !end.is_empty() {
        out.push_str(&format!("{newline}{end}"));
    }
    Ok(Value::from(out))
}
