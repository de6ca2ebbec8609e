//! Template files: newlines and includes.

use std::sync::Arc;

use minijinja::Value;
use windlass_yaml::{Source, Span, Text};

use crate::compile;
use crate::context::Context;
use crate::engine::TemplateOptions;
use crate::error::Error;
use crate::header;
use crate::operators::shown_as;

impl Context {
    /// Renders the text of a template file. A first line `#jinja2: option: value, ...` changes the options. Newlines at
    /// the end are kept. The search paths apply to included templates.
    pub fn template(&self, text: &Text, name: &str, options: &TemplateOptions) -> Result<String, Error> {
        let given = options;
        let compat = self.inner().compat();
        let (body, options) = header::split(text, given, compat, &|sentence| self.inner().warn(sentence))?;
        let starts = [&options.block.0, &options.variable.0, &options.comment.0];
        // If the file has a header, every version normalizes newlines even if nothing is evaluated.
        let as_it_is = !compat.normalizes_plain_files() && body.len() == text.len();
        if as_it_is && !starts.iter().any(|start| body.contains(start.as_str())) {
            return Ok(body.to_owned());
        }
        let newline = if compat.restores_newlines_of_header() { &options } else { given }.newline_sequence.clone();
        let options = Arc::new(options);
        let render = || -> Result<String, Error> {
            let compiled = compile::file(body, &options)?;
            let value = self.inner().render_file(&compiled, &options)?;
            let rendered = match value.is_none() {
                true if !compat.restores_newlines_of_nothing() => return Ok(String::new()),
                true => Value::from(""),
                false => Value::from(shown_as(&value, compat.prints_tuples())?),
            };
            Ok(restore_newlines(rendered, body, &newline).as_str().unwrap_or_default().to_owned())
        };
        render().map_err(|error| {
            let line = error.line().unwrap_or(1) + u32::from(body.len() < text.len());
            let span = Span::new(Source::new(name, &**text), line, 1);
            self.inner().suggest(error.with_span(&span).with_expression(name))
        })
    }
}

/// Restores newlines at the end that reading the template removed.
pub(crate) fn restore_newlines(value: Value, source: &str, newline: &str) -> Value {
    let Some(text) = value.as_str() else { return value };
    let count = |text: &str| text.len() - text.trim_end_matches('\n').len();
    let (wanted, found) = (count(source), count(text));
    if wanted > found { Value::from(format!("{text}{}", newline.repeat(wanted - found))) } else { value }
}
