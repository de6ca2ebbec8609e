//! Requests for foreign modules, and the arguments in each protocol's format.

use serde_json::{Map, Value};

use crate::Failure;

/// Protocol that passes arguments to a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Packed Python module; our driver reads the arguments from standard input.
    Python,
    /// Arguments are inserted in the module's text.
    JsonInText,
    /// The module gets the path of a JSON file.
    JsonFile,
    /// The module gets the path of a file with `key=value`.
    KeyValueFile,
}

/// A request to run a foreign module, which is the first content.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) module: String,
    pub(super) protocol: Protocol,
    /// File name of the module.
    pub(super) file: String,
    /// Dotted name of the module in Python.
    pub(super) python_name: String,
    /// Limit of open files; 0 leaves the default.
    pub(super) open_files: u64,
    /// Interpreter and options; empty if the module runs itself.
    pub(super) interpreter: Vec<String>,
    /// Pythons to try instead, in this order.
    pub(super) candidates: Vec<String>,
    /// Whether to suppress the warning about a detected Python.
    pub(super) silent: bool,
    pub(super) arguments: Map<String, Value>,
}

impl Request {
    pub(super) fn read(arguments: &Value) -> Result<Request, Failure> {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let words = |key: &str| -> Vec<String> {
            let list = arguments.get(key).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let protocol = match text("protocol").as_str() {
            "python" => Protocol::Python,
            "json_in_text" => Protocol::JsonInText,
            "json_file" => Protocol::JsonFile,
            "key_value_file" => Protocol::KeyValueFile,
            other => return Err(Failure::new(format!("The executor does not know the module protocol '{other}'."))),
        };
        Ok(Request {
            module: text("module"),
            protocol,
            file: Some(text("file")).filter(|name| !name.is_empty() && !name.contains('/')).unwrap_or("module".into()),
            python_name: text("python_name"),
            open_files: arguments.get("open_files").and_then(Value::as_u64).unwrap_or(0),
            interpreter: words("interpreter"),
            candidates: words("candidates"),
            silent: arguments.get("silent").and_then(Value::as_bool).unwrap_or(false),
            arguments: arguments.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default(),
        })
    }
}

/// The text of a script with its arguments inserted.
pub(super) fn filled_in(text: &[u8], arguments: &Map<String, Value>) -> Vec<u8> {
    let json = Value::Object(arguments.clone()).to_string();
    let of = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let systems = arguments.get("_ansible_selinux_special_fs").and_then(Value::as_array).into_iter().flatten();
    let systems: Vec<&str> = systems.filter_map(Value::as_str).collect();
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let replacements = [
        ("\"<<ANSIBLE_VERSION>>\"", quoted(&of("_ansible_version"))),
        ("\"<<INCLUDE_ANSIBLE_MODULE_COMPLEX_ARGS>>\"", quoted(&json)),
        ("<<SELINUX_SPECIAL_FILESYSTEMS>>", systems.join(",")),
        ("<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>", json.clone()),
        ("syslog.LOG_USER", format!("syslog.{}", of("_ansible_syslog_facility"))),
    ];
    let mut bytes = text.to_vec();
    for (mark, value) in replacements {
        bytes = replaced(&bytes, mark.as_bytes(), value.as_bytes());
    }
    bytes
}

fn replaced(bytes: &[u8], mark: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(start) = rest.windows(mark.len()).position(|window| window == mark) {
        let (before, after) = rest.split_at(start);
        out.extend_from_slice(before);
        out.extend_from_slice(value);
        rest = after.get(mark.len()..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// `key=value` pairs in shell quotes, with values in Python's notation.
pub(super) fn key_values(arguments: &Map<String, Value>) -> String {
    let pair = |(key, value): (&String, &Value)| format!("{key}={} ", quoted(&python_text(value)));
    arguments.iter().map(pair).collect()
}

/// Quotes a word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%_-+=:,./".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\"'\"'"))
}

/// A value in the notation of Python's `str`.
pub(crate) fn python_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => python_repr(other),
    }
}

/// A value in the notation of Python's `repr`.
pub(crate) fn python_repr(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
            let escaped = text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r");
            let escaped = if quote == '\'' { escaped.replace('\'', "\\'") } else { escaped };
            format!("{quote}{escaped}{quote}")
        }
        Value::Array(items) => format!("[{}]", list(items.iter().map(python_repr).collect())),
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| {
                format!("{}: {}", python_repr(&Value::String(key.clone())), python_repr(value))
            };
            format!("{{{}}}", list(map.iter().map(pair).collect()))
        }
    }
}
