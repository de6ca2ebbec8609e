//! Options of modules against their specifications.

use std::collections::HashSet;

use windlass_modules::{Kind, Opt, Spec, type_fault};
use windlass_yaml::{Key, Mapping, Node, Span, Value};

use crate::action::PACKAGE_MANAGERS;
use crate::error::nearest;
use crate::foreign::Resolution;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::{MODULE_OPTION, PLAINTEXT_SECRET};
use crate::lint::source::{SourceFile, is_dynamic, is_template, place_of};
use crate::lint::walk::{Action, Task};

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let defaults = modules_with_defaults(context);
    for task in &context.tree.tasks {
        let Some(action) = &task.action else { continue };
        // A module of the project may have replaced the built-in one.
        let is_native = matches!(context.modules.resolve(&action.name, &[]), Resolution::Native);
        let Some(spec) = crate::builtin::spec(&action.name).filter(|_| is_native) else { continue };
        let has_defaults = defaults.iter().any(|name| spec.answers_to(name) || name.starts_with("group/"));
        let mut check = Options { task, spec, findings };
        check.names(action);
        // `service` and `package` pass their options to the module of the host, which may need fewer.
        if !has_defaults && !action.has_template && !matches!(spec.name, "service" | "package") {
            check.combinations(action);
        }
    }
}

/// Modules for which some `module_defaults` add options.
fn modules_with_defaults(context: &Context<'_>) -> HashSet<String> {
    let entries = context.tree.entries.iter().map(|entry| entry.map);
    let maps = entries.chain(context.tree.tasks.iter().map(|task| task.map));
    let defaults = maps.filter_map(|map| map.get("module_defaults"));
    let found: Vec<&Node> = defaults.collect();
    found.iter().filter_map(|node| node.as_map()).flat_map(|map| map.keys()).map(Key::to_text).collect()
}

/// Check of one task.
struct Options<'a, 'p> {
    task: &'a Task<'p>,
    spec: &'static Spec,
    findings: &'a mut Vec<Finding>,
}

impl Options<'_, '_> {
    fn report(&mut self, span: &Span, message: String, hint: Option<String>) {
        let file: &SourceFile = self.task.file;
        // Values of `args` may stand in another file through an alias or import.
        if span.source.name == file.source.name {
            let finding = Finding::new(&MODULE_OPTION, file, place_of(span), message).help(hint);
            self.findings.push(finding.within(self.task.line()));
        }
    }

    /// Checks the names and values of the given options.
    fn names(&mut self, action: &Action) {
        let free = action.args.get("_raw_params");
        if let Some(text) = free.filter(|_| self.spec.free_form.is_none() && self.spec.option("_raw_params").is_none())
            && self.spec.others.is_none()
            && !is_dynamic(text)
        {
            let message = format!("`{}` takes no free text", self.spec.name);
            let help = format!("name the options, as in `windlass doc {}`", self.spec.name);
            self.report(&text.span, message, Some(help));
        }
        let options = options_of(self.spec);
        let takes_others = self.spec.others.is_some() && self.spec.name != "package";
        self.level(&options, takes_others, &action.args, "");
    }

    fn level(&mut self, options: &[&'static Opt], takes_others: bool, given: &Mapping, path: &str) {
        for (key, value) in given.iter() {
            let name = key.to_text();
            if is_template(&name) || (path.is_empty() && name == "_raw_params") {
                continue;
            }
            let Some(option) = options.iter().copied().find(|option| option.is_called(&name)) else {
                if !takes_others {
                    let hint = crate::builtin::closest_option(options.iter().copied(), &name);
                    let message = format!("`{}` has no option `{path}{name}`", self.spec.name);
                    self.report(&key.span, message, hint);
                }
                continue;
            };
            self.value(option, value, path);
        }
    }

    fn value(&mut self, option: &'static Opt, value: &Node, path: &str) {
        if value.is_null() {
            return;
        }
        let name = format!("{path}{}", option.name);
        if option.no_log {
            self.secret(option, value, &name);
        }
        if !is_dynamic(value)
            && let Some(reason) = type_fault(&option.kind, &value.to_json())
        {
            let reason = if option.no_log { String::new() } else { format!(": {reason}") };
            let message = format!("`{name}` of `{}` must be {}{reason}", self.spec.name, kind_of(&option.kind));
            self.report(&value.span, message, None);
            return;
        }
        if !option.choices.is_empty() {
            self.choices(option, value, &name);
        }
        if option.options.is_empty() {
            return;
        }
        let inner = format!("{name}.");
        let options: Vec<&Opt> = option.options.iter().collect();
        match &value.value {
            Value::Map(map) => self.level(&options, false, map, &inner),
            Value::List(items) => {
                for map in items.iter().filter_map(Node::as_map) {
                    self.level(&options, false, map, &inner);
                }
            }
            _ => {}
        }
    }

    fn choices(&mut self, option: &Opt, value: &Node, name: &str) {
        let is_list = matches!(option.kind, Kind::List(_));
        for item in value.as_list().unwrap_or(std::slice::from_ref(value)) {
            let Some(text) = item.scalar_text().filter(|_| !is_dynamic(item)) else { continue };
            let words: Vec<&str> = if is_list { text.split(',').map(str::trim).collect() } else { vec![text.trim()] };
            for word in words.into_iter().filter(|word| !is_choice(option, item, word)) {
                let shown = if option.no_log { "the secret value".to_owned() } else { format!("`{word}`") };
                let message =
                    format!("`{name}` of `{}` cannot be {shown}, only {}", self.spec.name, option.choices.join(", "));
                let hint = nearest(word, (word.chars().count() / 3).max(1), option.choices.iter().copied());
                self.report(&item.span, message, hint);
            }
        }
    }

    /// Reports a secret in clear text.
    fn secret(&mut self, option: &Opt, value: &Node, name: &str) {
        // `*`, `!` and the like lock a password and are not secret.
        let is_word = |text: &str| text.chars().filter(|c| c.is_ascii_alphanumeric()).count() > 2;
        let is_literal = value.as_str().is_some_and(|text| !is_template(text) && is_word(text));
        if !is_literal || option.kind == Kind::Bool || value.span.source.name != self.task.file.source.name {
            return;
        }
        let message = format!("`{name}` of `{}` is a secret in clear text", self.spec.name);
        let help = "move it into a variable that `windlass vault encrypt_string` encrypts".to_owned();
        let finding = Finding::new(&PLAINTEXT_SECRET, self.task.file, place_of(&value.span), message).help(help);
        self.findings.push(finding.within(self.task.line()));
    }

    /// Checks which options are given together.
    fn combinations(&mut self, action: &Action) {
        let spec = self.spec;
        let free = action.args.get("_raw_params");
        if free.is_some_and(is_dynamic) && spec.free_form.is_none() {
            return;
        }
        let given = |name: &str| {
            let is_free = spec.free_form == Some(name) && free.is_some();
            let option = spec.option(name);
            let names = option.map_or(vec![name], |option| [&[option.name], option.aliases].concat());
            let has_default = option.is_some_and(|option| option.default.is_some_and(|json| json != "null"));
            is_free || has_default || names.iter().any(|name| action.args.get(name).is_some_and(|node| !node.is_null()))
        };
        let literal = |name: &str| {
            let option = spec.option(name)?;
            let names = [&[option.name], option.aliases].concat();
            names.iter().find_map(|name| action.args.get(name)).filter(|node| !is_dynamic(node))
        };
        let has_templated_key = action.args.keys().any(|key| is_template(&key.to_text()));
        if has_templated_key {
            return;
        }
        let mut messages = Vec::new();
        for option in spec.options.iter().filter(|option| option.required && option.default.is_none()) {
            if !given(option.name) {
                messages.push(format!("`{}` needs the option `{}`", spec.name, shown(option.name)));
            }
        }
        for set in spec.required_one_of.iter().filter(|set| !set.iter().any(|name| given(name))) {
            messages.push(format!("`{}` needs one of the options {}", spec.name, list(set)));
        }
        for set in spec.mutually_exclusive {
            let both: Vec<&str> =
                set.iter().copied().filter(|name| literal(name).is_some_and(|node| !node.is_null())).collect();
            if both.len() > 1 {
                messages.push(format!("`{}` takes only one of the options {}", spec.name, list(&both)));
            }
        }
        for set in spec.required_together {
            let count = set.iter().filter(|name| given(name)).count();
            if count > 0 && count < set.len() {
                messages.push(format!("`{}` needs all of the options {} or none", spec.name, list(set)));
            }
        }
        for (option, value, needed) in spec.required_if {
            let is_so = literal(option).and_then(Node::scalar_text).is_some_and(|text| text == *value);
            for name in needed.iter().filter(|name| is_so && !given(name)) {
                messages.push(format!("`{}` with `{option}: {value}` needs the option `{name}`", spec.name));
            }
        }
        for message in messages {
            self.report(&action.span, message, None);
        }
    }
}

/// Options of a module. `package` also has the options of the package managers' modules, of which the host has one.
fn options_of(spec: &'static Spec) -> Vec<&'static Opt> {
    let managers = if spec.name == "package" { PACKAGE_MANAGERS } else { &[] };
    let of_managers = managers.iter().filter_map(|name| crate::builtin::spec(name)).flat_map(|spec| spec.options);
    spec.options.iter().chain(of_managers).collect()
}

/// Whether a value is among the choices of its option. A boolean stands for all its words.
fn is_choice(option: &Opt, node: &Node, word: &str) -> bool {
    let is_word_of = |truth: bool, choice: &str| match truth {
        true => matches!(choice, "yes" | "true" | "True" | "on"),
        false => matches!(choice, "no" | "false" | "False" | "off"),
    };
    option.choices.contains(&word)
        || node.as_bool().is_some_and(|truth| option.choices.iter().any(|choice| is_word_of(truth, choice)))
}

/// Name of an option in messages.
fn shown(name: &str) -> &str {
    if name == "_raw_params" { "cmd" } else { name }
}

fn list(names: &[&str]) -> String {
    let mut shown: Vec<String> = names.iter().map(|name| format!("`{}`", shown(name))).collect();
    // Free text and the option that holds it have one name.
    shown.dedup();
    shown.join(", ")
}

fn kind_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Str | Kind::Path => "a text",
        Kind::Int => "an integer",
        Kind::Float => "a number",
        Kind::Bool => "a boolean",
        Kind::List(_) => "a list",
        Kind::Dict => "a mapping",
        Kind::Bytes => "a size such as `10M`",
        Kind::Json => "JSON",
        Kind::Raw => "a value",
    }
}
