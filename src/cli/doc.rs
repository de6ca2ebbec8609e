//! `windlass doc`: documentation of modules and actions, generated from their specs, and pages about plugins, roles and
//! keywords.

mod descriptions;
mod plugins;
mod roles;
mod schema;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};
use windlass_modules::{Check, Kind, Opt, Spec};

use crate::builtin;
use crate::error::{Error, Result, did_you_mean, similar};
use crate::output::{Printer, Secrets, aligned};
use crate::playbook::Files;
use crate::settings::{Color, Config, Settings};

/// Show documentation of modules, plugins, roles and keywords
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass doc copy                      # show a module
  windlass doc --snippet copy            # print a task to fill in
  windlass doc -t filter --list          # list all filters
  windlass doc --schema > playbook.json  # write a schema for an editor")]
pub(super) struct Arguments {
    /// Names of modules, plugins, roles or keywords
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Type of the named plugins: `module`, `role`, `keyword`, `filter`, `test`, `lookup` and others
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "module")]
    kind: String,
    /// List all names of the type with a summary
    #[arg(short, long)]
    list: bool,
    /// List all names of the type with their files
    #[arg(short = 'F', long)]
    list_files: bool,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
    /// Print a task with all options as a template
    #[arg(short, long, conflicts_with_all = ["list", "list_files", "entry_point"])]
    snippet: bool,
    /// Print all documentation as one JSON document
    #[arg(long)]
    metadata_dump: bool,
    /// Print the JSON schema of playbooks or task files, for editors
    #[arg(long, value_name = "FILE", value_enum, num_args = 0..=1, default_missing_value = "playbook")]
    schema: Option<schema::File>,
    /// With --metadata-dump: continue after errors
    #[arg(long)]
    no_fail_on_errors: bool,
    /// Show only this entry point of a role
    #[arg(short, long, value_name = "NAME")]
    entry_point: Option<String>,
    /// Search path for roles, separated by colons
    #[arg(short, long, value_name = "PATH", value_delimiter = ':')]
    roles_path: Vec<PathBuf>,
    /// Search for roles in this directory [default: current directory]
    #[arg(long, value_name = "DIR")]
    playbook_dir: Option<PathBuf>,
    /// Increase verbosity
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    if arguments.metadata_dump {
        return metadata();
    }
    if let Some(file) = arguments.schema {
        return print_schema(arguments, file);
    }
    match arguments.kind.as_str() {
        "module" => {}
        "role" => return role_pages(arguments),
        kind if plugins::TYPES.contains(&kind) => return plugin_pages(arguments),
        kind => {
            let known = plugins::TYPES.iter().copied().chain(["module", "role"]);
            let all: Vec<&str> = known.collect();
            let message = format!("`{kind}` is not a plugin type; there are {}", all.join(", "));
            return Err(Error::argument(message).maybe_hint(did_you_mean(kind, all)));
        }
    }
    if arguments.list || arguments.list_files {
        let mut lines: Vec<(String, &str)> =
            builtin::specs().flat_map(|spec| spec.full_names().map(|name| (name, spec.summary))).collect();
        lines.sort();
        return list(arguments, lines.into_iter());
    }
    if arguments.names.is_empty() {
        return Err(Error::usage("Incorrect options passed: name a module, or use --list to see them all"));
    }
    let mut all = Map::new();
    for wanted in &arguments.names {
        let Some(spec) = builtin::spec(wanted) else {
            not_found(wanted, suggestion("module", wanted, builtin::names()));
            continue;
        };
        if arguments.json {
            all.insert(wanted.clone(), as_json(spec));
        } else if arguments.snippet {
            super::stdout::print(&as_snippet(spec))?;
        } else {
            super::stdout::print(&as_text(spec))?;
        }
    }
    if arguments.json {
        super::stdout::print(&(crate::output::nice_json(&all.into()) + "\n"))?;
    }
    Ok(0)
}

/// Lists names with summaries, in columns or as JSON. `--list-files` prints the file, which is this program.
fn list<'a>(arguments: &Arguments, entries: impl Iterator<Item = (String, &'a str)>) -> Result<u8> {
    let program = std::env::current_exe().unwrap_or_default().display().to_string();
    let shown = |summary: &str| if arguments.list_files { program.clone() } else { summary.to_owned() };
    let entries: Vec<(String, String)> = entries
        .filter(|(name, _)| arguments.names.is_empty() || arguments.names.iter().any(|wanted| name.starts_with(wanted)))
        .map(|(name, summary)| (name, shown(summary)))
        .collect();
    let text = if arguments.json {
        let map: Map<String, Value> = entries.into_iter().map(|(name, summary)| (name, summary.into())).collect();
        crate::output::nice_json(&map.into()) + "\n"
    } else {
        let rows: Vec<Vec<String>> = entries.into_iter().map(|(name, summary)| vec![name, summary]).collect();
        aligned(&rows, usize::MAX).iter().map(|line| format!("{line}\n")).collect()
    };
    super::stdout::print(&text)?;
    Ok(0)
}

/// Warns about an unknown name; the others are still shown.
fn not_found(name: &str, hint: Option<String>) {
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    Printer::plain(Secrets::default()).error_line(&format!("[WARNING]: {name} was not found{hint}"), Color::Warn);
}

/// Suggests the type that has an unknown name, otherwise the nearest name of the type itself, and finally of another.
fn suggestion<'a>(kind: &str, wanted: &str, own: impl Iterator<Item = &'a str>) -> Option<String> {
    let see = |kind: &str, name: &str| match kind {
        "module" => format!("see `windlass doc {name}`"),
        _ => format!("see `windlass doc -t {kind} {name}`"),
    };
    if kind != "module" && builtin::spec(wanted).is_some() {
        return Some(see("module", wanted));
    }
    let others: Vec<(&str, Vec<plugins::Plugin>)> = ["keyword", "filter", "test", "lookup"]
        .into_iter()
        .filter(|other| *other != kind)
        .map(|other| (other, plugins::of_type(other)))
        .collect();
    if let Some((other, _)) = others.iter().find(|(_, plugins)| plugins::find(plugins, wanted).is_some()) {
        return Some(see(other, wanted));
    }
    let near_other = || {
        others.iter().find_map(|(other, plugins)| {
            let names = plugins.iter().flat_map(plugins::Plugin::names);
            Some(see(other, similar(wanted, names)?))
        })
    };
    did_you_mean(wanted, own).or_else(near_other)
}

fn plugin_pages(arguments: &Arguments) -> Result<u8> {
    let kind = arguments.kind.as_str();
    let plugins = plugins::of_type(kind);
    if arguments.list || arguments.list_files {
        if kind == "keyword" && !arguments.json {
            let lines = plugins.iter().map(|plugin| format!("{}: {}\n", plugin.name, plugin.summary));
            super::stdout::print(&lines.collect::<String>())?;
            return Ok(0);
        }
        return list(arguments, plugins.iter().map(|plugin| (plugin.name.clone(), plugin.summary)));
    }
    if arguments.names.is_empty() {
        return Err(Error::usage(format!("Incorrect options passed: name a {kind}, or use --list to see them all")));
    }
    let mut all = Map::new();
    for wanted in &arguments.names {
        let Some(plugin) = plugins::find(&plugins, wanted) else {
            not_found(wanted, suggestion(kind, wanted, plugins.iter().flat_map(plugins::Plugin::names)));
            continue;
        };
        if arguments.json {
            all.insert(wanted.clone(), plugin.json());
        } else if kind == "keyword" {
            super::stdout::print(&plugin.keyword())?;
        } else {
            super::stdout::print(&plugin.text(kind))?;
        }
    }
    if arguments.json {
        super::stdout::print(&(crate::output::nice_json(&all.into()) + "\n"))?;
    }
    Ok(0)
}

/// Prints the schema, including modules of the project.
fn print_schema(arguments: &Arguments, file: schema::File) -> Result<u8> {
    let settings = Settings::from_config(&Config::find()?)?;
    let base = arguments.playbook_dir.clone().unwrap_or_else(|| settings.playbook_dir.clone());
    let mut roles = arguments.roles_path.clone();
    roles.push(base.join("roles"));
    roles.extend(settings.code.roles_path.iter().cloned());
    let of_roles = roles.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let mut folders: Vec<PathBuf> = of_roles.map(|role| role.path().join("library")).collect();
    folders.push(base.join("library"));
    folders.extend(settings.code.library.iter().cloned());
    let schema = schema::schema(file, &schema::modules_in(&folders));
    super::stdout::print(&format!("{schema}\n"))?;
    Ok(0)
}

fn role_pages(arguments: &Arguments) -> Result<u8> {
    let settings = Settings::from_config(&Config::find()?)?;
    let files = Arc::new(Files::new(windlass_vault::Secrets::new(), settings.duplicate_keys));
    let base = arguments.playbook_dir.clone().unwrap_or_else(|| settings.playbook_dir.clone());
    let mut folders = arguments.roles_path.clone();
    folders.push(base.join("roles"));
    folders.extend(settings.code.roles_path.iter().cloned());
    let roles = roles::all(&folders, &files)?;
    let mut all = Map::new();
    for wanted in &arguments.names {
        if !roles.iter().any(|role| role.name == *wanted) {
            not_found(wanted, did_you_mean(wanted, roles.iter().map(|role| role.name.as_str())));
        }
    }
    let chosen = |role: &&roles::RoleDoc| arguments.names.is_empty() || arguments.names.contains(&role.name);
    if !arguments.list && !arguments.list_files && arguments.names.is_empty() {
        return Err(Error::usage("Incorrect options passed: name a role, or use --list to see them all"));
    }
    for role in roles.iter().filter(chosen) {
        let entry_point = arguments.entry_point.as_deref();
        match (arguments.list || arguments.list_files, arguments.json) {
            (true, true) => drop(all.insert(role.name.clone(), role.listed_json())),
            (true, false) => super::stdout::print(&role.listed())?,
            (false, true) => drop(all.insert(role.name.clone(), role.json(entry_point)?)),
            (false, false) => super::stdout::print(&role.text(entry_point)?)?,
        }
    }
    if arguments.json {
        super::stdout::print(&(crate::output::nice_json(&all.into()) + "\n"))?;
    }
    Ok(0)
}

/// Prints all documentation.
fn metadata() -> Result<u8> {
    let mut all = Map::new();
    let pages: Map<String, Value> =
        builtin::specs().flat_map(|spec| spec.full_names().map(|name| (name, as_json(spec)))).collect();
    all.insert("module".into(), pages.into());
    for kind in plugins::TYPES {
        let pages: Map<String, Value> =
            plugins::of_type(kind).iter().map(|plugin| (plugin.name.clone(), plugin.json())).collect();
        all.insert((*kind).into(), pages.into());
    }
    super::stdout::print(&(crate::output::nice_json(&json!({"all": all})) + "\n"))?;
    Ok(0)
}

/// Options that a user can set, under the names to display.
fn shown(spec: &Spec) -> impl Iterator<Item = (&'static str, &'static Opt)> {
    let free_form = spec.free_form;
    spec.options.iter().filter_map(move |option| match Some(option.name) == free_form {
        true => Some(("free_form", option)),
        false => (!option.name.starts_with('_')).then_some((option.name, option)),
    })
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
    options(shown(spec), 0, &mut text);
    if let Some(others) = spec.others {
        text.push_str(&format!("\n- (any other name)\n{}\n", wrapped(others, 8)));
    }
    if !spec.examples.is_empty() {
        text.push_str(&format!("\nEXAMPLES:\n\n{}\n", spec.examples.trim_end()));
    }
    text.push_str("\nRETURN VALUES:\n");
    if spec.returns.is_empty() {
        text.push_str("\n  Only the values that every task returns, such as `changed`.\n");
    }
    for value in spec.returns {
        text.push_str(&format!("\n- {} ({}, {})\n{}\n", value.name, value.kind, value.when, wrapped(value.doc, 8)));
    }
    text.push('\n');
    text
}

fn options(list: impl Iterator<Item = (&'static str, &'static Opt)>, depth: usize, text: &mut String) {
    for (name, option) in list {
        let indent = " ".repeat(depth * 8);
        text.push_str(&format!(
            "\n{indent}{} {name}\n{}\n",
            if option.required { '=' } else { '-' },
            wrapped(option.doc, depth * 8 + 8)
        ));
        let mut details = vec![format!("type: {}", option.kind.name())];
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
        if !option.options.is_empty() {
            let inner: Vec<_> = option.options.iter().map(|option| (option.name, option)).collect();
            options(inner.into_iter(), depth + 1, text);
        }
    }
}

/// A task with all options as comments.
fn as_snippet(spec: &Spec) -> String {
    let mut text = format!("- name: {}\n  {}:\n", spec.summary, spec.name);
    for (name, option) in shown(spec) {
        let required = if option.required { "(required) " } else { "" };
        let doc = wrapped(&format!("{required}{}", option.doc), 31);
        let comment = doc.trim_start().replace(&format!("\n{}", " ".repeat(31)), &format!("\n{}# ", " ".repeat(29)));
        text.push_str(&format!("      {:<22} # {comment}\n", format!("{name}:")));
    }
    text
}

/// One page in the format of `ansible-doc --json`.
fn as_json(spec: &Spec) -> Value {
    let support = match spec.check {
        Check::Full => "full",
        Check::Partial => "partial",
        Check::None => "none",
    };
    let returns: Map<String, Value> = spec
        .returns
        .iter()
        .map(|value| {
            let entry = json!({"description": value.doc, "returned": value.when, "type": value.kind});
            (value.name.to_owned(), entry)
        })
        .collect();
    json!({
        "doc": {
            "attributes": {"check_mode": {"description": "Can predict its changes in check mode.", "support": support}},
            "author": ["Windlass"],
            "collection": spec.collection,
            "description": spec.description,
            "has_action": builtin::is_action(spec),
            "module": spec.name,
            "options": options_json(shown(spec)),
            "plugin_name": format!("{}.{}", spec.collection, spec.name),
            "short_description": spec.summary,
        },
        "examples": spec.examples,
        "metadata": null,
        "return": if returns.is_empty() { Value::Null } else { returns.into() },
    })
}

/// Options as JSON; absent attributes are omitted.
fn options_json(list: impl Iterator<Item = (&'static str, &'static Opt)>) -> Value {
    let mut map = Map::new();
    for (name, option) in list {
        let mut entry = Map::new();
        entry.insert("description".into(), json!([option.doc]));
        entry.insert("type".into(), option.kind.name().into());
        if option.required {
            entry.insert("required".into(), true.into());
        }
        if !option.aliases.is_empty() {
            entry.insert("aliases".into(), json!(option.aliases));
        }
        if !option.choices.is_empty() {
            entry.insert("choices".into(), json!(option.choices));
        }
        if let Some(default) = option.default.and_then(|text| serde_json::from_str(text).ok()) {
            entry.insert("default".into(), default);
        }
        if let Kind::List(inner) = &option.kind {
            entry.insert("elements".into(), inner.name().into());
        }
        if !option.options.is_empty() {
            let inner: Vec<_> = option.options.iter().map(|option| (option.name, option)).collect();
            entry.insert("suboptions".into(), options_json(inner.into_iter()));
        }
        map.insert(name.to_owned(), entry.into());
    }
    map.into()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_name_has_a_page() {
        let mut pages = 0;
        for spec in builtin::specs() {
            for name in spec.full_names().chain([spec.name.to_owned()]) {
                assert!(builtin::is_known(&name), "{name} is not accepted");
                assert!(
                    builtin::spec(&name).is_some_and(|found| std::ptr::eq(found, spec)),
                    "{name} has another's page"
                );
            }
            let text = as_text(spec);
            assert!(
                !spec.summary.is_empty() && !spec.description.is_empty(),
                "{} does not say what it does",
                spec.name
            );
            assert!(text.contains("EXAMPLES:"), "{} has no example", spec.name);
            assert!(
                spec.options.iter().all(|option| !option.doc.is_empty()),
                "{} has an option without a word",
                spec.name
            );
            let defaults = spec.options.iter().filter_map(|option| Some((option, option.default?)));
            for (option, default) in defaults {
                assert!(
                    serde_json::from_str::<Value>(default).is_ok(),
                    "{}: {} defaults to no JSON",
                    spec.name,
                    option.name
                );
            }
            pages += 1;
        }
        assert!(pages > 60);
    }

    #[test]
    fn examples_are_yaml_that_names_the_module() {
        for spec in builtin::specs() {
            let source = windlass_yaml::Source::new(spec.name, spec.examples);
            let tasks = windlass_yaml::load_one(source, &windlass_yaml::Options::default()).unwrap();
            let named = |task: &windlass_yaml::Node| spec.full_names().any(|name| task.get(&name).is_some());
            assert!(tasks.as_list().unwrap().iter().any(named), "no example of {} names it", spec.name);
        }
    }

    #[test]
    fn json_has_the_shape_of_ansible_doc() {
        let page = as_json(builtin::spec("debug").unwrap());
        assert_eq!(page["doc"]["options"]["verbosity"]["default"], json!(0));
        assert_eq!(page["doc"]["options"]["var"].get("default"), None);
        assert_eq!(page["doc"]["plugin_name"], "ansible.builtin.debug");
        assert_eq!(page["doc"]["has_action"], json!(true));
        let command = as_json(builtin::spec("ansible.legacy.command").unwrap());
        assert_eq!(command["doc"]["options"]["free_form"]["type"], "str");
        assert_eq!(command["return"]["rc"]["type"], "int");
    }

    #[test]
    fn snippet_contains_all_options() {
        let snippet = as_snippet(builtin::spec("assert").unwrap());
        assert!(snippet.starts_with("- name: Fail unless conditions hold\n  assert:\n"), "{snippet}");
        assert!(snippet.contains("      that:                  # (required) A condition"), "{snippet}");
    }
}
