//! `windlass doc`: what modules do, take and return, read from the modules themselves.

use clap::Args;
use serde_json::{Value, json};
use windlass_modules::{Check, Kind, Opt, Spec};

use crate::error::{Error, Result, did_you_mean};

/// Show the documentation of modules.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The modules
    #[arg(value_name = "MODULE")]
    modules: Vec<String>,
    /// List all modules
    #[arg(short, long)]
    list: bool,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

/// Runs the verb.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    if arguments.list {
        let mut specs: Vec<&Spec> = windlass_modules::registry::MODULES.iter().map(|module| module.spec()).collect();
        specs.sort_by_key(|spec| (spec.collection, spec.name));
        let name = |spec: &Spec| format!("{}.{}", spec.collection, spec.name);
        let text = if arguments.json {
            let map: serde_json::Map<String, Value> =
                specs.iter().map(|spec| (name(spec), spec.summary.into())).collect();
            crate::output::nice_json(&map.into()) + "\n"
        } else {
            specs.iter().map(|spec| format!("{:<40} {}\n", name(spec), spec.summary)).collect()
        };
        super::print(&text)?;
        return Ok(0);
    }
    if arguments.modules.is_empty() {
        return Err(Error::usage("which module? `windlass doc --list` shows them all"));
    }
    let mut all = serde_json::Map::new();
    for wanted in &arguments.modules {
        let Some(module) = windlass_modules::registry::find(wanted) else {
            return Err(Error::new(format!("there is no module {wanted}"))
                .maybe_hint(did_you_mean(wanted, crate::action::names())));
        };
        let spec = module.spec();
        if arguments.json {
            all.insert(format!("{}.{}", spec.collection, spec.name), as_json(spec));
        } else {
            super::print(&as_text(spec))?;
        }
    }
    if arguments.json {
        super::print(&(crate::output::nice_json(&all.into()) + "\n"))?;
    }
    Ok(0)
}

fn as_text(spec: &Spec) -> String {
    let mut text = format!("> MODULE {}.{}\n\n  {}\n", spec.collection, spec.name, spec.summary);
    for paragraph in spec.description {
        text.push_str(&format!("\n{}\n", wrapped(paragraph, 2)));
    }
    let check = match spec.check {
        Check::Full => "predicts exactly",
        Check::Partial => "predicts in some cases and is skipped in others",
        Check::None => "is skipped",
    };
    text.push_str(&format!("\n  In check mode it {check}.\n\nOPTIONS (= is mandatory):\n"));
    options(spec.options, 0, &mut text);
    if !spec.examples.is_empty() {
        text.push_str(&format!("\nEXAMPLES:\n\n{}\n", spec.examples.trim_end()));
    }
    if !spec.returns.is_empty() {
        text.push_str("\nRETURN VALUES:\n");
        for value in spec.returns {
            text.push_str(&format!("\n- {} ({}, {})\n{}\n", value.name, value.kind, value.when, wrapped(value.doc, 8)));
        }
    }
    text.push('\n');
    text
}

fn options(list: &[Opt], depth: usize, text: &mut String) {
    for option in list.iter().filter(|option| !option.name.starts_with('_')) {
        let indent = " ".repeat(depth * 8);
        text.push_str(&format!(
            "\n{indent}{} {}\n{}\n",
            if option.required { '=' } else { '-' },
            option.name,
            wrapped(option.doc, depth * 8 + 8)
        ));
        let mut details = vec![format!("type: {}", kind(&option.kind))];
        if !option.aliases.is_empty() {
            details.push(format!("aliases: {}", option.aliases.join(", ")));
        }
        if !option.choices.is_empty() {
            details.push(format!("choices: {}", option.choices.join(", ")));
        }
        if let Some(default) = option.default {
            details.push(format!("default: {default}"));
        }
        for detail in details {
            text.push_str(&format!("{indent}        {detail}\n"));
        }
        options(option.options, depth + 1, text);
    }
}

fn as_json(spec: &Spec) -> Value {
    json!({
        "doc": {
            "module": spec.name,
            "collection": spec.collection,
            "short_description": spec.summary,
            "description": spec.description,
            "options": options_json(spec.options),
        },
        "examples": spec.examples,
        "return": spec.returns.iter().map(|value| (value.name.to_owned(), json!({"type": value.kind, "returned": value.when, "description": value.doc}))).collect::<serde_json::Map<_, _>>(),
    })
}

fn options_json(list: &[Opt]) -> Value {
    let mut map = serde_json::Map::new();
    for option in list.iter().filter(|option| !option.name.starts_with('_')) {
        let default: Value = option.default.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        let mut entry = json!({"description": option.doc, "type": kind(&option.kind), "required": option.required, "aliases": option.aliases, "choices": option.choices, "default": default});
        if let (Kind::List(inner), Some(entry)) = (&option.kind, entry.as_object_mut()) {
            entry.insert("elements".into(), kind(inner).into());
        }
        if let (false, Some(entry)) = (option.options.is_empty(), entry.as_object_mut()) {
            entry.insert("suboptions".into(), options_json(option.options));
        }
        map.insert(option.name.to_owned(), entry);
    }
    map.into()
}

fn kind(kind: &Kind) -> &'static str {
    match kind {
        Kind::Str => "str",
        Kind::Int => "int",
        Kind::Float => "float",
        Kind::Bool => "bool",
        Kind::Path => "path",
        Kind::List(_) => "list",
        Kind::Dict => "dict",
        Kind::Bytes => "bytes",
        Kind::Json => "json",
        Kind::Raw => "raw",
    }
}

/// A paragraph, indented and wrapped at 79 columns.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > 79 {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.iter().map(|line| format!("{}{line}", " ".repeat(indent))).collect::<Vec<_>>().join("\n")
}
