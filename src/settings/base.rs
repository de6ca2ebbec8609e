//! All base settings of ansible-core and all settings of Windlass: names, types, defaults, sources, effects.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use super::config::{Config, Origin};
use super::{expand_home, is_true};
use crate::error::{Error, Result};

/// One base setting.
#[derive(Debug)]
pub struct Setting {
    /// Name of the setting.
    pub name: &'static str,
    /// Type of the value: `boolean`, `integer`, `float`, `string`, `list`, `path`, `pathspec`, `pathlist` and others.
    pub kind: &'static str,
    /// Permitted values; empty if any is.
    pub choices: Vec<&'static str>,
    default: Value,
    /// Environment variables that set the setting.
    pub env: Vec<&'static str>,
    /// Sections and keys of ansible.cfg that set the setting.
    pub ini: Vec<(&'static str, &'static str)>,
    /// Variables of plays that set the setting.
    pub vars: Vec<&'static str>,
    /// Description.
    pub doc: &'static str,
    /// Effect in Windlass.
    pub effect: Effect,
}

/// Effect of a setting in Windlass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A field of `Settings` follows it.
    Used,
    /// Safe to ignore: the setting concerns Python, temporary files and processes that do not exist here.
    Ignored,
    /// None, so a value other than the default causes a warning.
    None,
}

/// One setting of ansible-core per line: name, type with choices, default as JSON, environment variables, keys of
/// ansible.cfg, variables, description, effect (`used`, `ignored` or nothing).
const TABLE: &str = include_str!("base.tsv");

/// The settings of Windlass, in the same columns.
const OWN: &str = include_str!("windlass.tsv");

/// All base settings and all settings of Windlass, sorted.
pub fn base() -> &'static [Setting] {
    static SETTINGS: OnceLock<Vec<Setting>> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let mut settings: Vec<Setting> = TABLE.lines().chain(OWN.lines()).filter_map(read).collect();
        settings.sort_by_key(|setting| setting.name);
        settings
    })
}

/// The settings of Windlass.
#[cfg(test)]
pub(super) fn own() -> impl Iterator<Item = &'static Setting> {
    base().iter().filter(|setting| setting.is_own())
}

pub(super) fn read(line: &'static str) -> Option<Setting> {
    let mut fields = line.split('\t');
    let words = |text: &'static str| text.split(',').filter(|word| !word.is_empty());
    let name = fields.next()?;
    let (kind, choices) = fields.next().map(|text| text.split_once(':').unwrap_or((text, "")))?;
    Some(Setting {
        name,
        kind,
        choices: choices.split('|').filter(|choice| !choice.is_empty()).collect(),
        default: serde_json::from_str(fields.next()?).ok()?,
        env: words(fields.next()?).collect(),
        ini: words(fields.next()?).filter_map(|text| text.split_once('.')).collect(),
        vars: words(fields.next()?).collect(),
        doc: fields.next().unwrap_or_default(),
        effect: match fields.next() {
            Some("used") => Effect::Used,
            Some("ignored") => Effect::Ignored,
            _ => Effect::None,
        },
    })
}

impl Setting {
    /// Default value with its type.
    pub fn default(&self) -> Value {
        match &self.default {
            Value::String(text) if matches!(self.kind, "path" | "pathspec" | "tmppath") => {
                let home = std::env::var("ANSIBLE_HOME").unwrap_or_else(|_| "~/.ansible".to_owned());
                let text = text.replace("{HOME}", &home);
                typed(self.kind, &text, None).unwrap_or(Value::Null)
            }
            Value::Number(number) if self.kind.starts_with("str") => number.to_string().into(),
            Value::Bool(value) if self.kind.starts_with("str") => (if *value { "True" } else { "False" }).into(),
            other => other.clone(),
        }
    }

    /// Default as written in the table, with `~/.ansible` for the home directory.
    pub fn written_default(&self) -> Value {
        match &self.default {
            Value::String(text) => Value::from(text.replace("{HOME}", "~/.ansible")),
            other => other.clone(),
        }
    }

    /// Whether the setting is one of Windlass.
    pub fn is_own(&self) -> bool {
        self.ini.iter().any(|(section, _)| *section == "windlass")
    }

    /// Whether the setting is internal to ansible-core.
    pub fn is_internal(&self) -> bool {
        self.name.starts_with('_') || self.doc.starts_with("Internal")
    }
}

/// Current value of the base setting with this name.
pub fn base_value(name: &str, config: &Config) -> Result<Value> {
    let setting = base().iter().find(|setting| setting.name == name);
    setting.map_or(Ok(Value::Null), |setting| value_of(setting, config).map(|(value, _)| value))
}

/// Current value of a setting, with its origin. Fails if the value has the wrong type.
pub fn value_of(setting: &Setting, config: &Config) -> Result<(Value, Origin)> {
    Ok(set_value(setting, config)?.unwrap_or_else(|| (setting.default(), Origin::Default)))
}

/// Like [`value_of`], but `None` if the default applies.
pub(super) fn set_value(setting: &Setting, config: &Config) -> Result<Option<(Value, Origin)>> {
    let Some((text, origin)) = config.lookup_with_origin(&setting.env, &setting.ini) else { return Ok(None) };
    let folder = match &origin {
        Origin::File(file) => file.parent(),
        Origin::Default | Origin::Environment(_) => None,
    };
    // An empty environment variable does not set a number.
    if text.is_empty()
        && matches!(origin, Origin::Environment(_))
        && matches!(setting.kind, "integer" | "int" | "float")
    {
        return Ok(None);
    }
    let Setting { name, kind, .. } = setting;
    let value = typed(kind, &text, folder).ok_or_else(|| {
        Error::usage(format!(
            "Config '{name}' from '{origin}' has an invalid value: Invalid value provided for '{kind}': '{text}'"
        ))
    })?;
    // The choices of Windlass' own settings are types, which check them.
    if !setting.choices.is_empty() && !setting.is_own() {
        let given: Vec<&str> = match &value {
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            other => other.as_str().into_iter().collect(),
        };
        if let Some(wrong) = given.iter().find(|given| !setting.choices.contains(given)) {
            let choices = setting.choices.join(", ");
            return Err(Error::usage(format!(
                "Invalid value '{wrong}' for config '{name}' (from {origin}). Valid values are: {choices}"
            )));
        }
    }
    Ok(Some((value, origin)))
}

/// Value of a setting given by a variable of a play.
pub(crate) fn of_variable(setting: &Setting, text: &str) -> Option<Value> {
    typed(setting.kind, text, None)
}

/// Converts the text of a setting to its type; relative paths are based on `folder`.
pub(super) fn typed(kind: &str, text: &str, folder: Option<&Path>) -> Option<Value> {
    let path = |text: &str| {
        let current = std::env::current_dir().unwrap_or_default();
        let path = expand_home(&text.trim().replace("{{CWD}}", &current.display().to_string()));
        let path = if path.is_absolute() { path } else { folder.unwrap_or(&current).join(path) };
        Value::from(normal(&path))
    };
    let parts = |separator: char| text.split(separator).map(str::trim).filter(|part| !part.is_empty());
    Some(match kind {
        "boolean" | "bool" => Value::from(is_true(text)),
        "integer" | "int" => Value::from(text.trim().parse::<i64>().ok()?),
        "float" => Value::from(text.trim().parse::<f64>().ok()?),
        "list" => parts(',').collect(),
        "pathspec" => parts(':').map(path).collect(),
        "pathlist" => parts(',').map(path).collect(),
        "path" | "tmppath" if text.is_empty() => Value::Null,
        "path" | "tmppath" => path(text),
        "none" => Value::Null,
        _ => Value::from(text),
    })
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<std::path::Component<'_>> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if parts.len() > 1 => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.iter().collect::<std::path::PathBuf>().display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        assert_eq!(base().len(), TABLE.lines().chain(OWN.lines()).count());
        assert!(TABLE.lines().chain(OWN.lines()).all(|line| line.split('\t').count() == 8));
        assert!(base().iter().all(|setting| !setting.doc.is_empty() && !setting.kind.is_empty()));
    }

    #[test]
    fn values_have_the_types_of_their_settings() {
        assert_eq!(typed("list", "a, b,", None).unwrap(), serde_json::json!(["a", "b"]));
        assert_eq!(
            typed("pathspec", "roles:../x", Some(Path::new("/p/q"))).unwrap(),
            serde_json::json!(["/p/q/roles", "/p/x"])
        );
        assert_eq!(typed("integer", "many", None), None);
    }
}
