//! The header of a template, `#jinja2: option: value, ...`: a first line that changes the options for the rest.

use minijinja::value::ValueKind;
use windlass_yaml::PythonLiteral;

use crate::classic;
use crate::compat::Compat;
use crate::engine::TemplateOptions;
use crate::error::Error;

/// Prefix of the line.
pub(crate) const MARK: &str = "#jinja2:";

/// Known options.
const OPTIONS: [&str; 12] = [
    "block_end_string",
    "block_start_string",
    "comment_end_string",
    "comment_start_string",
    "keep_trailing_newline",
    "line_comment_prefix",
    "line_statement_prefix",
    "lstrip_blocks",
    "newline_sequence",
    "trim_blocks",
    "variable_end_string",
    "variable_start_string",
];

/// Splits the header from a template and applies it.
pub(crate) fn split<'a>(
    text: &'a str,
    options: &TemplateOptions,
    compat: Compat,
    tell: &dyn Fn(String),
) -> Result<(&'a str, TemplateOptions), Error> {
    let mut options = options.clone();
    let Some(rest) = text.strip_prefix(MARK) else { return Ok((text, options)) };
    let Some((line, body)) = rest.split_once('\n') else {
        return Err(Error::syntax(format!("The line that starts with `{MARK}` must end with a newline.")));
    };
    for pair in line.split(',') {
        let Some((key, value)) = pair.split_once(':') else {
            return Err(Error::syntax(format!(
                "failed to parse jinja2 override '{}': in the line `{MARK}` it is not of the form `option: value`.",
                pair.trim()
            )));
        };
        let key = key.trim();
        if compat.accepts_any_header() && !OPTIONS.contains(&key) {
            tell(format!("Could not find Jinja2 environment setting to override: '{key}'"));
            continue;
        }
        apply(&mut options, key, value.trim(), compat)?;
    }
    let TemplateOptions { block, variable, comment, .. } = &options;
    let are_different = block.0 != variable.0 && variable.0 != comment.0 && comment.0 != block.0;
    if !are_different && !compat.accepts_any_header() {
        return Err(Error::syntax("Block, variable and comment start strings must be different."));
    }
    Ok((body, options))
}

fn apply(options: &mut TemplateOptions, key: &str, written: &str, compat: Compat) -> Result<(), Error> {
    let wrong = |what: &str| {
        Error::syntax(format!("The option `{key}` in the line `{MARK}` must be {what} instead of `{written}`."))
    };
    // Values cannot contain a comma, because commas separate the options.
    let value = PythonLiteral::read(written)
        .and_then(classic::alone)
        .ok_or_else(|| wrong("a literal of Python, such as True or '[['"))?;
    let flag = || match value.kind() == ValueKind::Bool || compat.accepts_any_header() {
        true => Ok(value.is_true()),
        false => Err(wrong("True or False")),
    };
    let text = || value.as_str().map(str::to_owned).ok_or_else(|| wrong("a string in quotes"));
    let prefix = || if value.is_none() { Ok(None) } else { text().map(Some) };
    match key {
        "trim_blocks" => options.trim_blocks = flag()?,
        "lstrip_blocks" => options.lstrip_blocks = flag()?,
        "newline_sequence" => {
            options.newline_sequence = text()?;
            let is_newline = matches!(options.newline_sequence.as_str(), "\n" | "\r\n" | "\r");
            if !is_newline && !compat.accepts_any_header() {
                return Err(wrong(r"one of ('\n', '\r\n', '\r')"));
            }
        }
        "block_start_string" => options.block.0 = text()?,
        "block_end_string" => options.block.1 = text()?,
        "variable_start_string" => options.variable.0 = text()?,
        "variable_end_string" => options.variable.1 = text()?,
        "comment_start_string" => options.comment.0 = text()?,
        "comment_end_string" => options.comment.1 = text()?,
        "line_statement_prefix" => options.line_statement_prefix = prefix()?,
        "line_comment_prefix" => options.line_comment_prefix = prefix()?,
        "keep_trailing_newline" => options.keep_trailing_newline = flag()?,
        _ => return Err(Error::syntax(format!("There is no option `{key}` for the line `{MARK}`."))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_option_refused() {
        let opened = |line: &str| {
            let text = format!("{MARK} variable_start_string: {line}\nx");
            split(&text, &TemplateOptions::default(), Compat::V2_18, &|_| {}).map(|(_, options)| options.variable.0)
        };
        assert_eq!(opened("'[' '['").unwrap(), "[[");
        assert!(opened("b'['").is_err());
    }
}
