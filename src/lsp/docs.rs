//! Documentation as Markdown.

use std::fmt::Write as _;

use windlass_modules::{Check, Opt, Spec};

use crate::pages::summary;
use crate::playbook::keyword::{is_keyword_anywhere, places};

/// Page of a module.
pub(super) fn module(spec: &Spec) -> String {
    let mut text = format!("**{}.{}**: {}\n", spec.collection, spec.name, spec.summary);
    for paragraph in spec.description {
        let _ = write!(text, "\n{paragraph}\n");
    }
    text.push('\n');
    for option in spec.options.iter().filter(|option| !option.name.starts_with('_')) {
        let required = if option.required { ", required" } else { "" };
        let _ = writeln!(text, "- `{}` ({}{required}): {}", option.name, option.kind.name(), option.doc);
    }
    if let Some(others) = spec.others {
        let _ = writeln!(text, "- others: {others}");
    }
    let check = match spec.check {
        Check::Full => "predicted",
        Check::Partial => "predicted in some cases",
        Check::None => "skipped",
    };
    let _ = write!(text, "\nIn check mode: {check}.\n\n```yaml\n{}\n```\n", spec.examples.trim());
    text
}

/// Page of an option.
pub(super) fn option(spec: &Spec, option: &Opt) -> String {
    let required = if option.required { ", required" } else { "" };
    let mut text = format!("`{}` of `{}` ({}{required})\n\n", option.name, spec.name, option.kind.name());
    text.push_str(option.doc);
    text.push('\n');
    if !option.choices.is_empty() {
        let choices: Vec<String> = option.choices.iter().map(|choice| format!("`{choice}`")).collect();
        let _ = write!(text, "\nChoices: {}\n", choices.join(", "));
    }
    if let Some(default) = option.default {
        let _ = write!(text, "\nDefault: `{default}`\n");
    }
    if !option.aliases.is_empty() {
        let aliases: Vec<String> = option.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        let _ = write!(text, "\nAliases: {}\n", aliases.join(", "));
    }
    text
}

/// Page of a keyword.
pub(super) fn keyword(name: &str) -> Option<String> {
    if !is_keyword_anywhere(name) {
        return None;
    }
    let places = places(name).join(", ");
    Some(format!("`{name}`, a keyword of: {places}\n\n{}\n", summary("keyword", name)))
}

/// Page of a filter, test or lookup.
pub(super) fn plugin(kind: &str, name: &str) -> Option<String> {
    let short = name.strip_prefix("ansible.builtin.").unwrap_or(name);
    let text = summary(kind, short);
    (!text.is_empty()).then(|| format!("`{short}`, a {kind}\n\n{text}\n"))
}
