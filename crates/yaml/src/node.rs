//! Values with their positions.

use std::sync::Arc;

use base64::Engine;

use crate::{Mapping, Span, Text, number, python_timestamp};

/// A value and its position. Clones share the content.
#[derive(Clone)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Position of the value's start.
    pub span: Span,
}

/// The values of YAML 1.1 with Ansible's tags.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `~` or an empty value.
    Null,
    /// `true`, `yes`, `on` and their opposites.
    Bool(bool),
    /// An integer that fits 64 bits.
    Int(i64),
    /// An integer that does not fit 64 bits, in decimal.
    BigInt(String),
    /// A floating-point number.
    Float(f64),
    /// Text of the project, which may be a template.
    String(Text),
    /// Text that is never a template: `!unsafe`, or data.
    Literal(Arc<str>),
    /// The ciphertext of an inline `!vault` string.
    Vault(Arc<str>),
    /// A date or time, as written.
    Timestamp(Arc<str>),
    /// Bytes (`!!binary`).
    Binary(Arc<[u8]>),
    /// A sequence.
    List(Arc<[Node]>),
    /// A mapping.
    Map(Arc<Mapping>),
}

impl Value {
    /// The type with its article, for messages: "a string", "a list".
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing (null)",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::BigInt(_) => "an integer",
            Self::Float(_) => "a floating-point number",
            Self::String(_) | Self::Literal(_) => "a string",
            Self::Vault(_) => "a vault-encrypted string",
            Self::Timestamp(_) => "a date",
            Self::Binary(_) => "binary data",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

impl Node {
    /// Merges this node over another. Mappings merge at every level; any other value replaces the lower one.
    pub fn merged_over(&self, low: &Node) -> Node {
        let (Some(below), Some(above)) = (low.as_map(), self.as_map()) else { return self.clone() };
        let mut merged: Mapping = (**below).clone();
        for (key, node) in above.iter() {
            let node = match below.get_key(key) {
                Some((_, former)) => node.merged_over(former),
                None => node.clone(),
            };
            merged.insert(key.clone(), node);
        }
        Node::map(merged, self.span.clone())
    }

    /// Creates a value at a position.
    pub fn new(value: Value, span: Span) -> Self {
        Self { value, span }
    }

    /// Creates a null at a position.
    pub fn null(span: Span) -> Self {
        Self::new(Value::Null, span)
    }

    /// Creates text of the project, which may be a template. Never pass data here, nor to [`Text::of_project`].
    #[expect(clippy::disallowed_methods, reason = "the caller answers for it: this method is on the same list")]
    pub fn of_project(text: impl Into<Arc<str>>, span: Span) -> Self {
        Self::new(Value::String(Text::of_project(text)), span)
    }

    /// Replaces this node's text. The result may be a template if this node's text may.
    #[expect(clippy::disallowed_methods, reason = "this node is the project's own text")]
    pub fn reworded(&self, text: impl Into<Arc<str>>) -> Self {
        match self.value {
            Value::String(_) => Self::of_project(text, self.span.clone()),
            _ => Self::literal(text, self.span.clone()),
        }
    }

    /// Creates text that is never a template.
    pub fn literal(text: impl Into<Arc<str>>, span: Span) -> Self {
        Self::new(Value::Literal(text.into()), span)
    }

    /// Creates a list at a position.
    pub fn list(items: Vec<Node>, span: Span) -> Self {
        Self::new(Value::List(items.into()), span)
    }

    /// Creates a mapping at a position.
    pub fn map(mapping: impl Into<Arc<Mapping>>, span: Span) -> Self {
        Self::new(Value::Map(mapping.into()), span)
    }

    /// The value's type with its article, for messages.
    pub fn kind(&self) -> &'static str {
        self.value.kind()
    }

    /// Whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The text of a string, template or not.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            Value::Literal(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self.value { Some(value) } else { None }
    }

    /// The value of an integer that fits 64 bits.
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(value) = self.value { Some(value) } else { None }
    }

    /// The value of a number, as floating point.
    pub fn as_float(&self) -> Option<f64> {
        match self.value {
            Value::Float(value) => Some(value),
            Value::Int(value) => Some(value as f64),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn as_list(&self) -> Option<&[Node]> {
        if let Value::List(items) = &self.value { Some(items) } else { None }
    }

    /// The mapping.
    pub fn as_map(&self) -> Option<&Arc<Mapping>> {
        if let Value::Map(mapping) = &self.value { Some(mapping) } else { None }
    }

    /// The value under a string key; `None` if this is not a mapping or lacks the key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.get(key)
    }

    /// A scalar as plain text, as Python's `str` shows it; `None` for lists, mappings and ciphertext.
    pub fn scalar_text(&self) -> Option<String> {
        Some(match &self.value {
            Value::Null => "None".to_owned(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Int(value) => value.to_string(),
            Value::BigInt(value) => value.clone(),
            Value::Float(value) => number::python_float(*value),
            Value::String(text) => text.to_string(),
            Value::Literal(text) => text.to_string(),
            Value::Timestamp(text) => python_timestamp(text, ' '),
            Value::Binary(_) | Value::Vault(_) | Value::List(_) | Value::Map(_) => return None,
        })
    }

    /// Marks every string, at any depth, as never being a template.
    pub fn into_literal(self) -> Self {
        let value = match self.value {
            Value::String(text) => Value::Literal(text.into()),
            Value::List(items) => Value::List(items.iter().cloned().map(Node::into_literal).collect()),
            Value::Map(mapping) => Value::Map(Arc::new(
                mapping.iter().map(|(key, value)| (key.clone(), value.clone().into_literal())).collect(),
            )),
            other => other,
        };
        Self { value, span: self.span }
    }

    /// Converts to JSON. Dates and ciphertext become strings, bytes become base64, and keys become text. Infinities and
    /// not-a-number become null, because JSON cannot express them.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::BigInt(text) => text.parse::<u64>().map_or_else(
                |_| text.parse::<f64>().map_or_else(|_| Json::String(text.clone()), Json::from),
                Json::from,
            ),
            Value::Float(value) => Json::from(*value),
            Value::String(text) => Json::String(text.to_string()),
            Value::Literal(text) | Value::Vault(text) => Json::String(text.to_string()),
            Value::Timestamp(text) => Json::String(python_timestamp(text, 'T')),
            Value::Binary(bytes) => Json::String(base64::engine::general_purpose::STANDARD.encode(bytes)),
            Value::List(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Map(mapping) => {
                Json::Object(mapping.iter().map(|(key, value)| (key.to_text(), value.to_json())).collect())
            }
        }
    }

    /// Converts a JSON value to data: its strings are never templates. Every part gets the same span.
    pub fn from_json(json: &serde_json::Value, span: &Span) -> Self {
        use serde_json::Value as Json;
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(value), _, _) => Value::Int(value),
                (None, Some(value), _) => Value::BigInt(value.to_string()),
                (None, None, value) => Value::Float(value.unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::Literal(text.as_str().into()),
            Json::Array(items) => Value::List(items.iter().map(|item| Self::from_json(item, span)).collect()),
            Json::Object(members) => Value::Map(Arc::new(
                members
                    .iter()
                    .map(|(key, value)| (crate::Key::string(key.as_str(), span.clone()), Self::from_json(value, span)))
                    .collect(),
            )),
        };
        Self { value, span: span.clone() }
    }
}

/// Compares values only; positions do not count.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} @ {}", self.value, self.span)
    }
}
