//! Statements and comments marked at the start of a line.

use std::borrow::Cow;

use crate::engine::TemplateOptions;

/// Rewrites line statements as blocks and removes line comments, if the options define their prefixes.
pub(super) fn rewrite<'a>(text: &'a str, options: &TemplateOptions) -> Cow<'a, str> {
    let (statement, comment) = (options.line_statement_prefix.as_deref(), options.line_comment_prefix.as_deref());
    if statement.is_none() && comment.is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let start = line.trim_start_matches([' ', '\t']);
        // The longer prefix wins: `##` may start a comment while `#` starts a statement.
        let is_comment = comment.is_some_and(|prefix| start.starts_with(prefix));
        if is_comment {
            out.push_str(&line[line.trim_end_matches('\n').len()..]);
            continue;
        }
        match statement.and_then(|prefix| start.strip_prefix(prefix)) {
            Some(code) => {
                let code = code.trim();
                let code = code.strip_suffix(':').unwrap_or(code);
                // The newline belongs to the tag, so it is not printed and lines keep their numbers.
                out.push_str(&format!("{} {code}\n+{}", options.block.0, options.block.1));
            }
            None => match comment.and_then(|prefix| line.find(prefix)) {
                Some(position) => {
                    out.push_str(line[..position].trim_end_matches([' ', '\t']));
                    out.push_str(&line[line.trim_end_matches('\n').len()..]);
                }
                None => out.push_str(line),
            },
        }
    }
    Cow::Owned(out)
}
