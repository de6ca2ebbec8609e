//! Reads YAML texts.

use std::sync::Arc;

use crate::{Error, ErrorKind, Node, Source, Span, Warning, compose, json, survive};

/// Treatment of a key that repeats in one mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DuplicateKeys {
    /// Warn and use the later value.
    #[default]
    Warn,
    /// Refuse the text.
    Error,
    /// Use the later value silently.
    Ignore,
}

/// Options for reading.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Treatment of duplicate keys.
    pub duplicate_keys: DuplicateKeys,
    /// Whether text may be a template; if not, every string is read as [`Value::Literal`].
    pub trusted: bool,
    /// Whether the text is parsed as JSON first, as Ansible does with every file.
    pub json: bool,
    /// Maximum size of a text, in bytes.
    pub max_bytes: usize,
    /// Maximum number of nodes after expanding aliases, so that a small text cannot fill the memory.
    pub max_nodes: u64,
    /// Maximum nesting.
    pub max_depth: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            duplicate_keys: DuplicateKeys::Warn,
            trusted: true,
            json: true,
            max_bytes: 256 << 20,
            max_nodes: 50_000_000,
            max_depth: 200,
        }
    }
}

/// Result of reading a text.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The documents; none if the text is empty.
    pub documents: Vec<Node>,
    /// Warnings about valid but surely unintended input.
    pub warnings: Vec<Warning>,
}

/// Reads a text with any number of documents.
pub fn parse(source: Arc<Source>, options: &Options) -> Result<Loaded, Error> {
    let start = Span::new(Arc::clone(&source), 1, 1);
    if source.text.len() > options.max_bytes {
        let message = format!("The text is larger than the limit of {} bytes.", options.max_bytes);
        return Err(Error::new(ErrorKind::Limit, message, Span { line: 0, column: 0, ..start }));
    }
    if options.json
        && let Some(document) = json::parse(&source, options)
    {
        return Ok(Loaded { documents: vec![document], warnings: Vec::new() });
    }
    // No text is known that still makes the library panic. If one turns up, it must not end a run.
    let composed = survive(|| compose::compose(&source, options)).unwrap_or_else(|| {
        let message = "The text is not valid YAML, in a way the reader cannot describe.";
        Err(Error::new(ErrorKind::Syntax, message, start.clone()))
    });
    composed.map_err(|error| if options.json { with_json_error(error, &source) } else { error })
}

/// A text that looks like JSON but is neither JSON nor YAML was meant to be JSON, so report its JSON error.
fn with_json_error(error: Error, source: &Arc<Source>) -> Error {
    if error.kind() != ErrorKind::Syntax || !source.text.trim_start().starts_with(['{', '[']) {
        return error;
    }
    match serde_json::from_str::<serde_json::Value>(&source.text) {
        Ok(_) => error,
        Err(json) => error.with_hint(Some(format!("It is not JSON either: {json}."))),
    }
}

/// Reads a text with exactly one document; an empty text is null. Drops warnings: use [`parse`] to show them.
pub fn load_one(source: Arc<Source>, options: &Options) -> Result<Node, Error> {
    parse(Arc::clone(&source), options)?.into_one(&source)
}

impl Loaded {
    /// The only document, or null if there is none.
    pub fn into_one(self, source: &Arc<Source>) -> Result<Node, Error> {
        let mut documents = self.documents.into_iter();
        let first = documents.next();
        if let Some(second) = documents.next() {
            let message = "A second document begins here, but this file must have only one.";
            return Err(Error::new(ErrorKind::Meaning, message, second.span)
                .with_hint(Some("Remove the extra `---` line or move what follows to a file of its own.".to_owned())));
        }
        Ok(first.unwrap_or_else(|| Node::null(Span::new(Arc::clone(source), 1, 1))))
    }
}

#[cfg(test)]
mod tests;
