//! Fields of a form, from specifications in the shape of Ansible's role argument specs.
//!
//! A value becomes data of its type, and the code that checks a role's arguments checks it. It is never a template.

use serde_json::{Map, Value as Json, json};
use windlass_template::Compat;
use windlass_yaml::Node;

use crate::action::argument_problems;
use crate::error::{Error, Result, did_you_mean};
use crate::outcome::is_protected;
use crate::playbook::is_identifier;

/// Keys of a specification.
const KEYS: &[&str] = &["choices", "default", "description", "elements", "no_log", "options", "required", "type"];
/// Types of values.
const TYPES: &[&str] = &["bool", "dict", "float", "int", "list", "path", "raw", "str"];
/// Maximum depth of a value. Readers of JSON refuse very deep records.
const DEPTH: usize = 50;
/// Start of the names of fields with variables.
pub(super) const PREFIX: &str = "variable.";

/// Author of a specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The configuration of the pages, whose keys are checked and whose defaults are values.
    Configuration,
    /// A role, whose defaults are a description: what the role does without a value.
    Role,
}

/// Form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    /// One item a line.
    List,
    /// JSON.
    Mapping,
}

/// A variable of a form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    kind: Kind,
    elements: Kind,
    choices: Vec<Json>,
    default: Option<Json>,
    origin: Origin,
    is_required: bool,
    /// Whether the value is secret.
    pub(super) is_secret: bool,
    description: String,
    spec: Json,
}

impl Field {
    /// The field of a variable with this specification.
    pub(super) fn of(name: &Node, spec: &Node, origin: Origin) -> Result<Field> {
        let text = name.as_str().unwrap_or_default();
        check_name(text, name)?;
        let empty = std::sync::Arc::default();
        let map = match spec.as_map() {
            Some(map) => map,
            None if spec.is_null() => &empty,
            None => {
                let message = format!("the specification of `{text}` is a mapping, not {}", spec.kind());
                return Err(Error::parse(message, &spec.span));
            }
        };
        if origin == Origin::Configuration
            && let Some(key) = map.keys().find(|key| !KEYS.contains(&key.to_text().as_str()))
        {
            let message = format!("a variable has no key `{}`", key.to_text());
            return Err(Error::parse(message, &key.span).maybe_hint(did_you_mean(&key.to_text(), KEYS.iter().copied())));
        }
        let kind = |key: &str| map.get(key).map_or(Ok(Kind::Text), |node| kind(node, origin));
        let flag = |key: &str| match map.get(key) {
            None => Ok(false),
            Some(node) => {
                node.as_bool().ok_or_else(|| Error::parse(format!("`{key}` is `true` or `false`"), &node.span))
            }
        };
        let choices = match map.get("choices") {
            None => Vec::new(),
            Some(node) => {
                let items = node.as_list().ok_or_else(|| Error::parse("`choices` is a list", &node.span))?;
                items.iter().map(Node::to_json).collect()
            }
        };
        if origin == Origin::Configuration {
            flag("no_log")?;
        }
        let json = Node::map(std::sync::Arc::clone(map), spec.span.clone()).to_json();
        let field = Field {
            name: text.to_owned(),
            kind: kind("type")?,
            elements: kind("elements")?,
            choices,
            default: map.get("default").filter(|node| !node.is_null()).map(Node::to_json),
            origin,
            is_required: flag("required")?,
            is_secret: is_secret(&json),
            description: description(map.get("description")),
            spec: json,
        };
        if let Some(node) = map.get("default").filter(|_| origin == Origin::Configuration) {
            field.check_default(node)?;
        }
        Ok(field)
    }

    /// Fails if the default is a template, or no value of this type.
    fn check_default(&self, node: &Node) -> Result<()> {
        let Some(default) = &self.default else { return Ok(()) };
        if self.is_secret {
            return Err(Error::parse(
                "a secret variable has no default: every reader of the form would see it",
                &node.span,
            ));
        }
        if default.to_string().contains("{{") || default.to_string().contains("{%") {
            let message = "the default of a form is data, and no template is evaluated in it";
            return Err(Error::parse(message, &node.span));
        }
        self.value(Some(&self.text(default)))
            .map(|_| ())
            .map_err(|problems| Error::parse(format!("the default does not fit: {}", problems.join("; ")), &node.span))
    }

    /// The value that a text of the form stands for; `None` if the variable is not set. Fails with sentences.
    pub(super) fn value(&self, given: Option<&str>) -> std::result::Result<Option<Json>, Vec<String>> {
        let given = given.unwrap_or_default().replace("\r\n", "\n");
        if let Some(choice) = self.choices.iter().find(|choice| self.is_choice() && self.text(choice) == given.trim()) {
            return Ok(Some(choice.clone()));
        }
        let value = match given.trim().is_empty() {
            true => None,
            false => Some(convert(&given, self.kind, self.elements)),
        };
        let problems = match (&value, self.kind) {
            (Some(Json::String(_)), Kind::Mapping) => vec![format!("`{}` is not a JSON object", self.name)],
            (Some(value), _) if is_deeper(value, DEPTH) => {
                vec![format!("`{}` has more than {DEPTH} levels", self.name)]
            }
            (value, _) => {
                let mut problems = self.problems(value.as_ref());
                if problems.is_empty() && !value.as_ref().is_none_or(|value| fits(value, self.kind, self.elements)) {
                    problems.push(format!("`{}` has a text that is not a value of its type", self.name));
                }
                problems
            }
        };
        match problems.is_empty() {
            true => Ok(value),
            // The sentences about a value contain it.
            false if self.is_secret && value.is_some() => {
                Err(vec![format!("the value of `{}` does not match its specification", self.name)])
            }
            false => Err(problems),
        }
    }

    /// Whether a value is one of the choices that the form offers.
    fn is_choice(&self) -> bool {
        !matches!(self.kind, Kind::Boolean | Kind::List | Kind::Mapping)
    }

    fn problems(&self, value: Option<&Json>) -> Vec<String> {
        let mut spec = Map::new();
        spec.insert(self.name.clone(), self.spec.clone());
        let value = value.map(windlass_template::from_json);
        argument_problems(&windlass_template::from_json(&Json::Object(spec)), Compat::default(), &|_| Ok(value.clone()))
    }

    /// The field for its page, with the text that was given, or else the default.
    pub(super) fn shown(&self, given: Option<&str>) -> Json {
        let default = self.default.as_ref().filter(|_| !self.is_secret);
        let initial = default.filter(|_| self.origin == Origin::Configuration).map(|value| self.text(value));
        let value = given.map(str::to_owned).or(initial).filter(|_| !self.is_secret).unwrap_or_default();
        let options: Vec<String> = match (self.kind, self.choices.is_empty()) {
            (Kind::Boolean, _) => vec!["true".to_owned(), "false".to_owned()],
            (Kind::List | Kind::Mapping, _) | (_, true) => Vec::new(),
            (_, false) => self.choices.iter().map(|choice| self.text(choice)).collect(),
        };
        json!({
            "name": format!("{PREFIX}{}", self.name),
            "label": self.name,
            "description": self.description,
            "kind": self.form(),
            "choices": super::choices(options.iter().map(String::as_str), &value),
            "one_of": self.choices.iter().map(|choice| self.text(choice)).collect::<Vec<_>>(),
            "value": value,
            "required": self.is_required,
            "default": default.filter(|_| self.origin == Origin::Role).map(|value| self.text(value)),
        })
    }

    /// Element of the form, and the explanation of its content.
    fn form(&self) -> &'static str {
        match self.kind {
            Kind::Boolean => "choice",
            Kind::List => "lines",
            Kind::Mapping => "json",
            _ if !self.choices.is_empty() => "choice",
            _ if self.is_secret => "secret",
            Kind::Integer | Kind::Number => "number",
            Kind::Text => "text",
        }
    }

    /// A value as the form writes it.
    fn text(&self, value: &Json) -> String {
        match value {
            Json::String(text) => text.clone(),
            Json::Array(items) if self.kind == Kind::List => {
                items.iter().map(|item| self.text(item)).collect::<Vec<_>>().join("\n")
            }
            other => other.to_string(),
        }
    }
}

/// Fails if a name is not a valid name of a variable, or names a variable of connections.
fn check_name(name: &str, node: &Node) -> Result<()> {
    if !is_identifier(name) {
        return Err(Error::parse(format!("`{name}` is not a name of a variable"), &node.span));
    }
    if chooses_connection(name) {
        let message = format!("`{name}` cannot be set by a form: it chooses connections or programs");
        return Err(Error::parse(message, &node.span));
    }
    Ok(())
}

fn chooses_connection(name: &str) -> bool {
    name.starts_with("ansible_") || is_protected(name)
}

/// Whether a form may set a variable of this name.
pub(super) fn may_set(name: &str) -> bool {
    is_identifier(name) && !chooses_connection(name)
}

/// Whether a specification has `no_log` at any depth. A value that is unclear counts as true.
fn is_secret(spec: &Json) -> bool {
    match spec {
        Json::Object(map) => {
            map.iter().any(|(key, value)| (key == "no_log" && *value != Json::Bool(false)) || is_secret(value))
        }
        Json::Array(items) => items.iter().any(is_secret),
        _ => false,
    }
}

/// Whether a value has more than this number of levels.
fn is_deeper(value: &Json, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else { return true };
    match value {
        Json::Array(items) => items.iter().any(|item| is_deeper(item, left)),
        Json::Object(map) => map.values().any(|item| is_deeper(item, left)),
        _ => false,
    }
}

/// Whether every part of the value has been converted to its type: no text remains where another type is required.
fn fits(value: &Json, kind: Kind, elements: Kind) -> bool {
    match (kind, value) {
        (Kind::Text, _) => true,
        (Kind::List, Json::Array(items)) => items.iter().all(|item| fits(item, elements, Kind::Text)),
        (_, value) => !value.is_string(),
    }
}

fn kind(node: &Node, origin: Origin) -> Result<Kind> {
    Ok(match node.as_str().unwrap_or_default() {
        "str" | "path" | "raw" => Kind::Text,
        "int" => Kind::Integer,
        "float" => Kind::Number,
        "bool" => Kind::Boolean,
        "list" => Kind::List,
        "dict" => Kind::Mapping,
        _ if origin == Origin::Role => Kind::Text,
        other => {
            return Err(Error::parse(format!("`{other}` is not a type: {}", TYPES.join(", ")), &node.span)
                .maybe_hint(did_you_mean(other, TYPES.iter().copied())));
        }
    })
}

fn description(node: Option<&Node>) -> String {
    let Some(node) = node else { return String::new() };
    let lines = node.as_list().unwrap_or(std::slice::from_ref(node));
    lines.iter().filter_map(Node::as_str).collect::<Vec<_>>().join(" ")
}

/// A text as data of its type. One that cannot be converted stays a text, which its specification refuses.
fn convert(text: &str, kind: Kind, elements: Kind) -> Json {
    let as_text = || Json::String(text.to_owned());
    let trimmed = text.trim();
    match kind {
        Kind::Text => as_text(),
        Kind::Integer => trimmed.parse::<i64>().map_or_else(|_| as_text(), Json::from),
        Kind::Number => {
            trimmed.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map_or_else(as_text, Json::Number)
        }
        Kind::Boolean => match trimmed {
            "true" => true.into(),
            "false" => false.into(),
            _ => as_text(),
        },
        Kind::List => {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            lines.map(|line| convert(line, elements, Kind::Text)).collect()
        }
        Kind::Mapping => serde_json::from_str::<Map<String, Json>>(trimmed).map_or_else(|_| as_text(), Json::Object),
    }
}
