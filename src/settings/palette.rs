//! Colours of the output, configurable under `[colors]`.

use serde_json::Value;

use super::{Config, base, value_of};
use crate::error::{Error, Result};

/// Category of a text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// The terminal's default.
    Plain,
    /// Unchanged result.
    Ok,
    /// Changed result.
    Changed,
    /// Skipped task.
    Skip,
    /// Included file.
    Included,
    /// Failure.
    Error,
    /// Unreachable host.
    Unreachable,
    /// Warnings.
    Warn,
    /// Deprecations.
    Deprecated,
    /// Output of `-v`.
    Verbose,
    /// Background jobs.
    Debug,
    /// Added lines.
    DiffAdd,
    /// Removed lines.
    DiffRemove,
    /// Line numbers in diffs.
    DiffLines,
}

/// Setting and default of each colour, in the order of [`Color`].
const SETTINGS: &[(Color, &str, &str)] = &[
    (Color::Plain, "", ""),
    (Color::Ok, "COLOR_OK", "0;32"),
    (Color::Changed, "COLOR_CHANGED", "0;33"),
    (Color::Skip, "COLOR_SKIP", "0;36"),
    (Color::Included, "COLOR_INCLUDED", "0;36"),
    (Color::Error, "COLOR_ERROR", "0;31"),
    (Color::Unreachable, "COLOR_UNREACHABLE", "1;31"),
    (Color::Warn, "COLOR_WARN", "1;35"),
    (Color::Deprecated, "COLOR_DEPRECATE", "0;35"),
    (Color::Verbose, "COLOR_VERBOSE", "0;34"),
    (Color::Debug, "COLOR_DEBUG", "1;30"),
    (Color::DiffAdd, "COLOR_DIFF_ADD", "0;32"),
    (Color::DiffRemove, "COLOR_DIFF_REMOVE", "0;31"),
    (Color::DiffLines, "COLOR_DIFF_LINES", "0;36"),
];

/// Names of colours with their terminal codes.
const NAMES: &[(&str, &str)] = &[
    ("black", "0;30"),
    ("blue", "0;34"),
    ("bright blue", "1;34"),
    ("bright cyan", "1;36"),
    ("bright gray", "0;37"),
    ("bright green", "1;32"),
    ("bright magenta", "1;35"),
    ("bright purple", "1;35"),
    ("bright red", "1;31"),
    ("bright yellow", "1;33"),
    ("cyan", "0;36"),
    ("dark gray", "1;30"),
    ("green", "0;32"),
    ("magenta", "0;35"),
    ("normal", "0"),
    ("purple", "0;35"),
    ("red", "0;31"),
    ("white", "1;37"),
    ("yellow", "0;33"),
];

/// Terminal codes of all colours.
#[derive(Debug, Clone)]
pub struct Palette(Vec<String>);

impl Default for Palette {
    fn default() -> Palette {
        Palette(SETTINGS.iter().map(|(_, _, code)| (*code).to_owned()).collect())
    }
}

impl Palette {
    /// Colours from the settings. Fails for an unknown colour.
    pub fn of(config: &Config) -> Result<Palette> {
        let mut palette = Palette::default();
        for (code, (_, name, _)) in palette.0.iter_mut().zip(SETTINGS) {
            let Some(setting) = base().iter().find(|setting| setting.name == *name) else { continue };
            let Value::String(wanted) = value_of(setting, config)?.0 else { continue };
            *code = code_of(&wanted)
                .ok_or_else(|| Error::usage(format!("the setting {name} has an unknown colour: '{wanted}'")))?;
        }
        Ok(palette)
    }

    /// Terminal code of a colour.
    pub(crate) fn code(&self, color: Color) -> &str {
        self.0.get(color as usize).map_or("", String::as_str)
    }
}

/// Code of a named or numbered colour: `color12`, `rgb255`, `gray7`.
fn code_of(name: &str) -> Option<String> {
    if let Some((_, code)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some((*code).to_owned());
    }
    let number = |text: &str| text.parse::<u32>().ok();
    let index = match (name.strip_prefix("color"), name.strip_prefix("rgb"), name.strip_prefix("gray")) {
        (Some(color), ..) => number(color)?,
        (_, Some(parts), _) => {
            let digits: Vec<u32> = parts.chars().map(|digit| digit.to_digit(6)).collect::<Option<_>>()?;
            let [red, green, blue] = digits.as_slice() else { return None };
            16 + 36 * red + 6 * green + blue
        }
        (_, _, Some(gray)) => 232 + number(gray)?,
        _ => return None,
    };
    Some(format!("38;5;{index}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_have_names_and_numbers() {
        assert_eq!(code_of("bright red").as_deref(), Some("1;31"));
        assert_eq!(code_of("rgb520").as_deref(), Some("38;5;208"));
        assert_eq!(code_of("gray3").as_deref(), Some("38;5;235"));
        assert_eq!(code_of("mauve"), None);
    }

    #[test]
    fn every_colour_has_its_own_setting() {
        for (index, (color, name, code)) in SETTINGS.iter().enumerate() {
            assert_eq!((*color as usize, Palette::default().code(*color)), (index, *code));
            assert!(name.is_empty() || base().iter().any(|setting| setting.name == *name));
        }
    }
}
