//! Template files: their header, their newlines, and what they include.

use std::sync::Arc;

use minijinja::Value;
use windlass_yaml::{Source, Span};

use crate::compile;
use crate::context::Context;
use crate::engine::{Compat, TemplateOptions};
use crate::error::Error;
use crate::operators::shown_as;

const HEADER: &str = "#jinja2:";

impl Context {
    /// Renders the text of a template file. A header `#jinja2: option: value, ...` in its first line changes the
    /// options; the newlines at its end are kept; other templates are included from the search paths.
    pub fn template(&self, text: &str, name: &str, options: &TemplateOptions) -> Result<String, Error> {
        let (body, options) = header(text, options)?;
        let starts = [&options.block.0, &options.variable.0, &options.comment.0];
        // ansible-core 2.18, and any line where there is a header, also make the newlines of a text anew in which nothing is evaluated.
        let as_it_is = self.inner().compat() == Compat::V2_19 && body.len() == text.len();
        if as_it_is && !starts.iter().any(|start| body.contains(start.as_str())) {
            return Ok(body.to_owned());
        }
        let options = Arc::new(options);
        let render = || -> Result<String, Error> {
            let compiled = compile::file(body, &options)?;
            let value = self.inner().render_file(&compiled, &options)?;
            if value.is_none() {
                return Ok(String::new());
            }
            let value = restore_newlines(
                Value::from(shown_as(&value, self.inner().compat() == Compat::V2_18)?),
                body,
                &options.newline_sequence,
            );
            Ok(value.as_str().unwrap_or_default().to_owned())
        };
        render().map_err(|error| {
            let line = error.line().unwrap_or(1) + u32::from(body.len() < text.len());
            let span = Span::new(Source::new(name, text), line, 1);
            self.inner().suggest(error.with_span(&span).with_expression(name))
        })
    }
}

/// Splits the header from a template and applies it.
pub(crate) fn header<'a>(text: &'a str, options: &TemplateOptions) -> Result<(&'a str, TemplateOptions), Error> {
    let mut options = options.clone();
    let Some(rest) = text.strip_prefix(HEADER) else { return Ok((text, options)) };
    let Some((line, body)) = rest.split_once('\n') else {
        return Err(Error::syntax(format!("The line that starts with `{HEADER}` must end with a newline.")));
    };
    for pair in line.split(',') {
        let Some((key, value)) = pair.split_once(':') else {
            return Err(Error::syntax(format!(
                "failed to parse jinja2 override '{}': in the line `{HEADER}` it is not of the form `option: value`.",
                pair.trim()
            )));
        };
        apply(&mut options, key.trim(), value.trim())?;
    }
    Ok((body, options))
}

fn apply(options: &mut TemplateOptions, key: &str, value: &str) -> Result<(), Error> {
    let wrong =
        |what: &str| Error::syntax(format!("The option `{key}` in the line `{HEADER}` needs {what}, not `{value}`."));
    let flag = || match value {
        "True" | "true" | "1" => Ok(true),
        "False" | "false" | "0" => Ok(false),
        _ => Err(wrong("True or False")),
    };
    let text = || {
        let quote = value.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
        let inner = quote.and_then(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        inner.map(|inner| inner.replace("\\n", "\n").replace("\\r", "\r")).ok_or_else(|| wrong("a string in quotes"))
    };
    match key {
        "trim_blocks" => options.trim_blocks = flag()?,
        "lstrip_blocks" => options.lstrip_blocks = flag()?,
        "newline_sequence" => options.newline_sequence = text()?,
        "block_start_string" => options.block.0 = text()?,
        "block_end_string" => options.block.1 = text()?,
        "variable_start_string" => options.variable.0 = text()?,
        "variable_end_string" => options.variable.1 = text()?,
        "comment_start_string" => options.comment.0 = text()?,
        "comment_end_string" => options.comment.1 = text()?,
        "line_statement_prefix" => options.line_statement_prefix = Some(text()?),
        "line_comment_prefix" => options.line_comment_prefix = Some(text()?),
        // Newlines at the end are kept in any case.
        "keep_trailing_newline" => {
            flag()?;
        }
        _ => return Err(Error::syntax(format!("There is no option `{key}` for the line `{HEADER}`."))),
    }
    Ok(())
}

/// Puts back the newlines at the end that reading the template took away.
pub(crate) fn restore_newlines(value: Value, source: &str, newline: &str) -> Value {
    let Some(text) = value.as_str() else { return value };
    let count = |text: &str| text.len() - text.trim_end_matches('\n').len();
    let (wanted, found) = (count(source), count(text));
    if wanted > found { Value::from(format!("{text}{}", newline.repeat(wanted - found))) } else { value }
}
