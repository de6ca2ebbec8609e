//! Warnings about unknown tags and variables whose names resemble known ones.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_inventory::{Inventory, Layer};
use windlass_yaml::{Mapping, Node, Span};

use super::session::Session;
use crate::error::{did_you_mean, misspelling};
use crate::lint::is_template;
use crate::loader::argument_specs;
use crate::plan::TagFilter;
use crate::playbook::{Play, Role, Task};
use crate::settings::Settings;
use crate::strategy::notifications;

/// Maximum number and size of files to search for a name, in bytes.
const FILES: usize = 5000;
const BYTES: u64 = 1 << 20;
/// Maximum number of hosts whose variables are looked at.
const HOSTS: usize = 1000;
/// Maximum depth of directories to search: of roles, and beside playbooks, whose tasks and templates have folders.
const DEPTH: usize = 6;
const BESIDE: usize = 3;

/// Warnings for selected tags that no task has, but that resemble the tag of a task. Other unknown tags may belong to
/// files that are included later, so they are reported only if no file can be.
pub(super) fn tags<'a>(plays: impl Iterator<Item = &'a Play>, settings: &Settings) -> Vec<String> {
    let tasks: Vec<_> = plays.flat_map(Play::all_tasks).collect();
    let known: BTreeSet<&str> = tasks.iter().flat_map(|task| task.tags.iter().map(|tag| &**tag)).collect();
    let special = ["all", "tagged", "untagged", "always", "never"];
    let is_unknown = |tag: &&str| !known.contains(tag) && !special.contains(tag);
    let hint = |tag: &str| did_you_mean(tag, known.iter().copied());
    let filter = TagFilter::new(&settings.tags, &settings.skip_tags);
    let may_include = |task: &&Arc<Task>| (task.is_include() || is_template(&task.action)) && filter.selects_task(task);
    let only = || settings.tags.iter().map(String::as_str);
    let selects_nothing =
        !settings.tags.is_empty() && only().all(|tag| is_unknown(&tag)) && !tasks.iter().any(may_include);
    let named = |tag: &str| format!("`{tag}`{}", hint(tag).map(|hint| format!(" ({hint})")).unwrap_or_default());
    let nothing = selects_nothing.then(|| match settings.tags.as_slice() {
        [tag] => {
            format!("no task has the tag `{tag}`{}", hint(tag).map(|hint| format!(": {hint}")).unwrap_or_default())
        }
        _ => format!("no task has one of the tags {}", only().map(named).collect::<Vec<_>>().join(", ")),
    });
    // Short words are near others by accident.
    let is_long = |tag: &&str| tag.chars().count() > 4;
    let chosen = only().filter(|_| !selects_nothing).chain(settings.skip_tags.iter().map(String::as_str));
    let near = chosen.filter(is_long).filter(is_unknown);
    nothing
        .into_iter()
        .chain(near.filter_map(|tag| Some(format!("no task has the tag `{tag}`: {}", hint(tag)?))))
        .collect()
}

/// Warnings for tasks that notify what no handler of their play is called. Once such a task changes something, the run
/// ends. Plays whose handlers only a run knows are left out.
pub(super) fn handlers<'a>(plays: impl Iterator<Item = &'a Play>, settings: &Settings) -> Vec<String> {
    let filter = TagFilter::new(&settings.tags, &settings.skip_tags);
    let mut found = Vec::new();
    for play in plays.filter(|_| settings.error_on_missing_handler) {
        let tasks = play.all_tasks();
        let mut known = BTreeSet::new();
        for handler in tasks.iter().filter(|task| task.handler) {
            known.extend(notifications(handler, handler.name.as_ref().and_then(Node::scalar_text).as_deref()));
        }
        let brings_handlers = |task: &&Arc<Task>| task.is_include() || is_template(&task.action);
        if tasks.iter().any(brings_handlers) || known.iter().any(|name| is_template(name)) {
            continue;
        }
        for node in tasks
            .iter()
            .filter(|task| task.handler || filter.selects_task(task))
            .filter_map(|task| task.keyword("notify"))
        {
            for node in node.as_list().unwrap_or(std::slice::from_ref(node)) {
                let Some(name) = node.as_str().filter(|name| !is_template(name) && !known.contains(*name)) else {
                    continue;
                };
                let hint = did_you_mean(name, known.iter().map(String::as_str)).map(|hint| format!(": {hint}"));
                let hint = hint.unwrap_or_default();
                let sentence = format!(
                    "no handler of the play has the name or topic `{name}`, which the task at {} notifies{hint}",
                    node.span
                );
                if !found.contains(&sentence) {
                    found.push(sentence);
                }
            }
        }
    }
    found
}

/// Warnings for variables of `-e`, of the inventory and of the playbooks that nothing reads, but that resemble a
/// variable of a role.
pub(super) fn variables<'a>(plays: impl Iterator<Item = &'a Play>, session: &Session) -> Vec<String> {
    let plays: Vec<&Play> = plays.collect();
    let roles: Vec<&Role> = plays.iter().flat_map(|play| &play.roles).map(|role| &**role).collect();
    let of_role = |role: &&Role| {
        let specified = options_of(&role.path, session);
        names(&role.defaults).chain(names(&role.vars)).chain(specified).collect::<Vec<_>>()
    };
    let known: BTreeSet<String> = roles.iter().flat_map(of_role).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let written = of_plays(&plays);
    let of_inventory = of_inventory(&session.world.inventory);
    let extra_vars = &session.shared.run.extra_vars;
    let given = || of_inventory.iter().chain(std::iter::once(extra_vars)).chain(&written).map(|vars| &**vars);
    let wanted: BTreeMap<String, &Span> =
        given().flat_map(Mapping::keys).map(|key| (key.to_text(), &key.span)).collect();
    let is_unknown = |name: &str| !known.contains(name) && !name.starts_with("ansible_") && name.chars().count() > 4;
    let near = wanted.iter().filter(|(name, _)| is_unknown(name)).filter_map(|(name, span)| {
        let hint = misspelling(name, known.iter().map(String::as_str))?;
        Some((name, span, hint))
    });
    let is_read_by_variable = |name: &str| {
        given().flat_map(Mapping::values).any(|node| has_word(node.to_json().to_string().as_bytes(), name))
    };
    let unread = near.filter(|(name, ..)| !is_read_by_variable(name) && !is_in_files(name, &roles, &plays, session));
    let in_playbook = |name: &str| written.iter().any(|vars| vars.contains_key(name));
    unread
        .map(|(name, span, hint)| {
            let place = if in_playbook(name) { format!(", which {span} sets") } else { String::new() };
            format!("no role of the playbook has the variable `{name}`{place}: {hint}")
        })
        .collect()
}

/// Variables that the argument specification of a role names. The run reports a file that cannot be read.
fn options_of(role: &Path, session: &Session) -> Vec<String> {
    let specs = argument_specs(role, &session.shared.files).ok().flatten();
    let entries = specs.as_ref().and_then(Node::as_map).into_iter().flat_map(|map| map.values());
    entries.filter_map(|entry| entry.get("options")?.as_map()).flat_map(|options| names(options)).collect()
}

/// Variables that plays, blocks and tasks write, and parameters of roles.
fn of_plays(plays: &[&Play]) -> Vec<Arc<Mapping>> {
    let mut found: Vec<Arc<Mapping>> = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |vars: &Arc<Mapping>| {
        if !vars.is_empty() && seen.insert(Arc::as_ptr(vars)) {
            found.push(Arc::clone(vars));
        }
    };
    for play in plays {
        add(&play.frame.vars);
        play.roles.iter().for_each(|role| add(&role.params));
        for task in play.all_tasks() {
            add(&task.vars);
            task.frame.chain().for_each(|frame| add(&frame.vars));
        }
    }
    found
}

/// Variables of groups and of at most [`HOSTS`] hosts, also from files. The run reports those that cannot be read.
fn of_inventory(inventory: &Inventory) -> Vec<Arc<Mapping>> {
    let of_groups = inventory.groups().filter_map(|group| inventory.layers_of_group(group.name()).ok());
    let of_hosts = inventory.hosts().take(HOSTS).filter_map(|host| inventory.layers(host).ok());
    of_groups
        .chain(of_hosts.map(|layers| layers.into_iter().filter(Layer::is_of_host).collect()))
        .flat_map(|layers: Vec<Layer>| layers.into_iter().map(|layer| layer.vars))
        .collect()
}

fn names(vars: &Mapping) -> impl Iterator<Item = String> {
    vars.keys().map(windlass_yaml::Key::to_text)
}

/// Whether a file of the roles or beside the playbooks reads a variable. Also true if there are too many to search.
fn is_in_files(word: &str, roles: &[&Role], plays: &[&Play], session: &Session) -> bool {
    // Roles beside these may be included under a condition.
    let folders: BTreeSet<&Path> = roles.iter().filter_map(|role| role.path.parent()).collect();
    let beside: BTreeSet<&Path> = plays.iter().map(|play| play.dir.as_path()).collect();
    let given = &session.shared.run.settings.inventory.sources;
    let sources = given.iter().chain(session.world.inventory.included_sources());
    let sources: HashSet<PathBuf> = sources.filter_map(|source| fs::canonicalize(source).ok()).collect();
    let mut left = FILES;
    let reads = |path: &Path, text: &[u8]| {
        !defines_variables(path, text) && !fs::canonicalize(path).is_ok_and(|path| sources.contains(&path))
    };
    folders.into_iter().any(|folder| is_below(word, folder, DEPTH, &mut left, &|_, _| true))
        || beside.into_iter().any(|folder| is_below(word, folder, BESIDE, &mut left, &reads))
}

/// Whether a file beside a playbook is one of variables or an inventory: YAML whose first line begins no list.
fn defines_variables(path: &Path, text: &[u8]) -> bool {
    let is_yaml = path.extension().is_some_and(|end| end == "yml" || end == "yaml" || end == "json");
    let mut lines = text.lines().map_while(Result::ok);
    let first = lines.find(|line| !line.trim().is_empty() && !line.starts_with('#') && !line.starts_with("---"));
    is_yaml && first.is_some_and(|line| !line.trim_start().starts_with(['-', '[']))
}

/// Whether a file below a folder that `reads` variables has the word.
fn is_below(word: &str, folder: &Path, depth: usize, left: &mut usize, reads: &dyn Fn(&Path, &[u8]) -> bool) -> bool {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if kind.is_dir() && !is_hidden && depth > 1 && is_below(word, &entry.path(), depth - 1, left, reads) {
            return true;
        }
        if kind.is_file() {
            let Some(rest) = left.checked_sub(1) else { return true };
            *left = rest;
            let is_small = entry.metadata().is_ok_and(|metadata| metadata.len() <= BYTES);
            if is_small && fs::read(entry.path()).is_ok_and(|text| has_word(&text, word) && reads(&entry.path(), &text))
            {
                return true;
            }
        }
    }
    false
}

/// Whether a text has the word other than as the key of a mapping, which sets a variable and reads none.
fn has_word(text: &[u8], word: &str) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    memchr::memmem::find_iter(text, word.as_bytes()).any(|start| {
        let before = start.checked_sub(1).and_then(|at| text.get(at));
        let after = text.get(start + word.len()..).unwrap_or_default();
        let is_quote = |byte: &u8| matches!(byte, b'"' | b'\'');
        let key =
            after.split_at_checked(1).filter(|(first, _)| first.iter().all(is_quote)).map_or(after, |(_, rest)| rest);
        !is_part(before) && !is_part(after.first()) && !key.starts_with(b":")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inventory_beside_a_playbook_reads_no_variable() {
        let of = |name: &str, text: &str| defines_variables(Path::new(name), text.as_bytes());
        assert!(of("hosts.yml", "---\n# hosts\nweb:\n  hosts:") && of("prod.json", "{\"app_prot\": 1}"));
        assert!(!of("site.yml", "---\n- hosts: all") && !of("app.conf", "port: {{ app_prot }}"));
    }

    #[test]
    fn word_found_only_as_a_whole() {
        assert!(has_word(b"{{ app_port }}", "app_port") && has_word(b"app_port", "app_port"));
        assert!(!has_word(b"app_port: 1", "app_port") && !has_word(b"{\"app_port\": 1}", "app_port"));
        assert!(has_word(b"vars['app_port']", "app_port") && has_word(b"app_port: {{ app_port }}", "app_port"));
        assert!(!has_word(b"app_ports my_app_port", "app_port") && !has_word(b"", "app_port"));
    }
}
