//! Rewords parser errors as sentences and adds advice on common mistakes.

use std::sync::Arc;

use crate::{Error, ErrorKind, Source, Span};

/// Converts a parser error.
pub(crate) fn explain(error: &libyaml_safer::Error, source: &Arc<Source>) -> Error {
    let Some(mark) = error.problem_mark() else {
        return unreadable_character(source)
            .unwrap_or_else(|| Error::new(ErrorKind::Syntax, sentence(error.problem()), place(source, 0, 0)));
    };
    // The parser notices a line without a colon only at the start of the next line.
    if error.problem().contains("could not find expected ':'")
        && let Some(context) = error.context_mark()
    {
        let message = "This line is neither `key: value` nor a list item nor the continuation of a text.";
        let advice = "Put a colon behind the key, or indent the line as deep as the text it belongs to.";
        return Error::new(ErrorKind::Syntax, message, place(source, context.line, context.column))
            .with_hint(Some(advice.to_owned()));
    }
    // Behind the last line there is nothing to show; the collection that lacks its end began at the context.
    let is_at_end = mark.line > 0 && source.text.split('\n').skip(mark.line as usize).all(str::is_empty);
    let mark = error.context_mark().filter(|_| is_at_end).unwrap_or(mark);
    let span = place(source, mark.line, mark.column);
    let mut message = match error.context() {
        Some(context) => sentence(&format!("{context}, {}", error.problem())),
        None => sentence(error.problem()),
    };
    if let Some(context) = error.context_mark().filter(|context| context.line != mark.line) {
        message.pop();
        message += &format!(" (it began at line {}).", context.line + 1);
    }
    let advice = if source.is_secret() {
        None
    } else {
        advice(error.problem(), &span, error.context_mark().map(|mark| place(source, mark.line, mark.column)))
    };
    Error::new(ErrorKind::Syntax, message, span).with_hint(advice)
}

fn place(source: &Arc<Source>, line: u64, column: u64) -> Span {
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).saturating_add(1);
    Span::new(Arc::clone(source), number(line), number(column))
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}

/// The first character that YAML does not allow.
fn unreadable_character(source: &Arc<Source>) -> Option<Error> {
    for (line, text) in source.text.split('\n').enumerate() {
        let found = text.chars().enumerate().find(|(_, c)| {
            !matches!(c, '\t' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        });
        if let Some((column, character)) = found {
            let message = format!("The control character U+{:04X} is not allowed in YAML.", u32::from(character));
            let advice = "Remove it, or write it as an escape inside double quotes.";
            return Some(
                Error::new(ErrorKind::Syntax, message, place(source, line as u64, column as u64))
                    .with_hint(Some(advice.to_owned())),
            );
        }
    }
    None
}

/// Advice on a collection used as a key, which is nearly always a template without quotes.
pub(crate) fn for_collection_key(span: &Span) -> Option<String> {
    let line = span.source.line(span.line).filter(|_| !span.source.is_secret())?;
    let before: String = line.chars().take(span.column.saturating_sub(1) as usize).collect();
    unquoted_template(line)
        .or_else(|| before.ends_with('{').then(|| "A template must be in quotes, here too: \"{{ ... }}\".".to_owned()))
}

fn advice(problem: &str, span: &Span, context: Option<Span>) -> Option<String> {
    let line = span.source.line(span.line).unwrap_or_default();
    let before = context.as_ref().and_then(|context| context.source.line(context.line)).unwrap_or_default();
    tabs(line, problem)
        .or_else(|| unquoted_template(line))
        .or_else(|| unquoted_template(before))
        .or_else(|| broken_quotes(line))
        .or_else(|| broken_quotes(before))
        .or_else(|| missing_space(line))
        .or_else(|| previous_line_lacks_space(span))
        .or_else(|| colon_in_value(line))
        .or_else(|| special_start(problem, line))
        .or_else(|| unknown_escape(problem))
        .or_else(|| unclosed(problem))
        .or_else(|| indentation(problem))
}

fn tabs(line: &str, problem: &str) -> Option<String> {
    let indentation: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    (indentation.contains('\t') || (problem.contains("cannot start any token") && line.contains('\t')))
        .then(|| "There is a tab in this line. YAML is indented with spaces only: replace the tab.".to_owned())
}

/// `key: {{ value }}` and `- {{ value }}`.
fn unquoted_template(line: &str) -> Option<String> {
    let value = value_of(line);
    if !value.starts_with("{{") {
        return None;
    }
    let prefix = line.strip_suffix(value).unwrap_or_default().trim_start();
    let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
    let quoted =
        if value.contains('"') && !value.contains('\'') { format!("'{value}'") } else { format!("\"{quoted}\"") };
    Some(format!("A value that begins with a template must be in quotes: {prefix}{quoted}"))
}

/// The part of a line after its `- ` and `key: `.
fn value_of(line: &str) -> &str {
    let mut rest = line.trim();
    while let Some(item) = rest.strip_prefix("- ") {
        rest = item.trim_start();
    }
    match rest.split_once(": ") {
        Some((key, value)) if !key.starts_with(['{', '"', '\'', '[']) => value.trim_start(),
        _ => rest,
    }
}

/// `"foo" in bar` and `"foo" in "bar"`.
fn broken_quotes(line: &str) -> Option<String> {
    let value = value_of(line);
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = value.get(1..)?;
    let end = inner.find(quote)?;
    let after = inner.get(end + 1..)?.trim();
    if after.is_empty() || after.starts_with([':', '#', ',', '}', ']', quote]) {
        return None;
    }
    if value.len() > 1 && value.ends_with(quote) && quote == '\'' && !after.contains(' ') {
        return Some("The value is in single quotes, and a single quote inside it must be doubled: ''.".to_owned());
    }
    let other = if quote == '"' { '\'' } else { '"' };
    let fix = if value.contains(other) {
        "put the whole value in quotes and double or escape the quotes inside it".to_owned()
    } else {
        format!("put the whole value in the other quotes: {other}{value}{other}")
    };
    Some(format!("The value begins with a quoted part and goes on after it; {fix}"))
}

/// `key:value` where `key: value` is meant.
fn missing_space(line: &str) -> Option<String> {
    let content = line.trim().trim_start_matches("- ");
    let (key, rest) = content.split_once(':')?;
    let plain_key = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let lacks = rest.chars().next().is_some_and(|c| !c.is_whitespace() && c != '/' && c != ':' && c != '\\');
    (plain_key && lacks).then(|| format!("A space is missing after the colon: {key}: {rest}"))
}

/// A line without that space is read as text; the parser reports the line after it.
fn previous_line_lacks_space(span: &Span) -> Option<String> {
    let number =
        (1..span.line).rev().find(|number| span.source.line(*number).is_some_and(|line| !line.trim().is_empty()))?;
    let line = span.source.line(number)?;
    missing_space(line).map(|advice| format!("In line {number}: {advice}"))
}

/// `msg: this: that`.
fn colon_in_value(line: &str) -> Option<String> {
    let value = value_of(line);
    let unquoted = !value.starts_with(['"', '\'', '{', '[', '|', '>', '&', '*', '!']);
    if value == line.trim() || !unquoted || !(value.contains(": ") || value.ends_with(':')) {
        return None;
    }
    let quoted =
        if value.contains('\'') { format!("\"{}\"", value.replace('"', "\\\"")) } else { format!("'{value}'") };
    Some(format!("The value contains a colon followed by a space, so it must be in quotes: {quoted}"))
}

fn special_start(problem: &str, line: &str) -> Option<String> {
    if !problem.contains("cannot start any token") {
        return None;
    }
    let first = value_of(line).chars().next()?;
    matches!(first, '%' | '@' | '`').then(|| format!("A value cannot begin with `{first}` unless it is in quotes."))
}

fn unknown_escape(problem: &str) -> Option<String> {
    problem.contains("unknown escape character").then(|| {
        "In double quotes a backslash begins an escape. Double it, or use single quotes, where it stands for itself."
            .to_owned()
    })
}

fn unclosed(problem: &str) -> Option<String> {
    let brackets = problem.contains("expected ',' or ']'") || problem.contains("expected ',' or '}'");
    (brackets || problem.contains("unexpected end of stream"))
        .then(|| "A quote or bracket is opened but never closed.".to_owned())
}

fn indentation(problem: &str) -> Option<String> {
    let about_blocks = problem.contains("did not find expected key")
        || problem.contains("did not find expected '-' indicator")
        || problem.contains("not allowed in this context")
        || problem.contains("expected <document start>");
    about_blocks.then(|| {
        "Check the indentation of this line and of the lines above it: what belongs together begins in the same column."
            .to_owned()
    })
}
