//! Definitions of roles, files, handlers, variables, hosts and groups.

use std::path::{Path, PathBuf};

use lsp_types::{Location, Position, Range, Uri};

use super::documents::{Document, uri_of};
use super::expression::{Expression, Word};
use super::names::Names;
use super::outline::{At, Cursor};
use super::scope::Scope;
use super::text::Lines;
use crate::lint::{Kind, Spot, is_template, likely_kind, role_of};
use crate::playbook::{On, short_name};

/// Answers a request at a position.
pub(super) fn define(document: &Document, names: &Names, position: Position) -> Vec<Location> {
    let lines = Lines::new(&document.text);
    let (row, offset) = lines.place(position);
    let Some(path) = document.path.as_deref() else { return Vec::new() };
    let kind = likely_kind(path, &document.text);
    let variable = |name: &str| spots(names.of(Some(path)).and_then(|index| index.variables.get(name)));
    if let Some(found) = Expression::at(kind, &lines, row, offset) {
        let is_name = found.word == Word::Name;
        return if is_name { variable(found.text.split('.').next().unwrap_or_default()) } else { Vec::new() };
    }
    if kind == Some(Kind::Template) {
        return Vec::new();
    }
    let Some(cursor) = Cursor::new(&lines, row, offset) else { return Vec::new() };
    let scope = Scope::of(kind, &lines, &cursor);
    if matches!(scope, Scope::Variables) && cursor.path.is_empty() && cursor.at == At::Word {
        return variable(cursor.word());
    }
    let word = cursor.word();
    if word.is_empty() || is_template(word) {
        return Vec::new();
    }
    match target(scope, &cursor) {
        Some(Target::Role) => role(names, path, word),
        Some(Target::Handler) => {
            let handlers = names.of(Some(path)).map(|index| &index.handlers);
            let plain = word.split_once(" : ").map_or(word, |(_, name)| name);
            spots(handlers.and_then(|handlers| handlers.get(word).or_else(|| handlers.get(plain))))
        }
        Some(Target::File(folder)) => files(path, folder, word),
        Some(Target::Host) => {
            let found = names.inventory.get(term(&cursor, offset)).and_then(Option::as_ref);
            found.and_then(of_spot).into_iter().collect()
        }
        None => Vec::new(),
    }
}

/// Object that a value names.
enum Target {
    Role,
    Handler,
    /// A host or group in a pattern.
    Host,
    /// A file, with the folder of a role or playbook that is searched for it.
    File(&'static str),
}

fn target(scope: Scope<'_>, cursor: &Cursor<'_>) -> Option<Target> {
    if let (Scope::On(On::Role), At::Word, true) = (scope, &cursor.at, cursor.is_item && !cursor.has_key) {
        return Some(Target::Role);
    }
    let key = cursor.key()?;
    match scope {
        Scope::On(_) | Scope::PlayOrTask if matches!(key, "hosts" | "delegate_to") => Some(Target::Host),
        Scope::On(On::Role) => matches!(key, "role" | "name").then_some(Target::Role),
        Scope::Options(spec, _) => match (spec.name, key) {
            ("include_role" | "import_role", "name" | "role") => Some(Target::Role),
            ("include_tasks" | "import_tasks", "file") => Some(Target::File("tasks")),
            ("include_vars", "file") => Some(Target::File("vars")),
            ("template", "src") => Some(Target::File("templates")),
            (_, "src") => Some(Target::File("files")),
            _ => of_key(key),
        },
        Scope::On(_) | Scope::PlayOrTask | Scope::ValueOf(..) => of_key(key),
        _ => None,
    }
}

fn of_key(key: &str) -> Option<Target> {
    match short_name(key) {
        "notify" => Some(Target::Handler),
        "include_tasks" | "import_tasks" => Some(Target::File("tasks")),
        "import_playbook" => Some(Target::File(".")),
        "include_vars" | "vars_files" => Some(Target::File("vars")),
        "script" => Some(Target::File("files")),
        _ => None,
    }
}

/// The name in a host pattern such as `web:&db` that an offset in the line is in.
fn term<'t>(cursor: &Cursor<'t>, offset: usize) -> &'t str {
    let is_end = |character: char| ",:;&!'\"[]".contains(character) || character.is_whitespace();
    let (before, after) = cursor.line.split_at_checked(offset).unwrap_or_default();
    let start = before.char_indices().rev().find(|(_, character)| is_end(*character));
    let start = start.map_or(0, |(index, character)| index + character.len_utf8()).max(cursor.word.start);
    let end = offset + after.find(is_end).unwrap_or(after.len());
    cursor.line.get(start..end).unwrap_or_default()
}

fn spots(found: Option<&Vec<Spot>>) -> Vec<Location> {
    found.into_iter().flatten().filter_map(of_spot).collect()
}

fn of_spot(spot: &Spot) -> Option<Location> {
    let at = |character| Position { line: spot.line, character };
    Some(Location { uri: uri_of(&spot.path)?, range: Range { start: at(spot.start), end: at(spot.end) } })
}

/// Start of a file.
fn start_of(path: &Path) -> Option<Location> {
    let uri: Uri = uri_of(path)?;
    Some(Location { uri, range: Range::default() })
}

/// The tasks of a role, or other files of it if it has none.
fn role(names: &Names, path: &Path, name: &str) -> Vec<Location> {
    let Some(folder) = names.role(Some(path), name) else { return Vec::new() };
    let candidates = ["tasks/main.yml", "tasks/main.yaml", "meta/main.yml", "meta/main.yaml", "defaults/main.yml"];
    let found = candidates.iter().map(|file| folder.join(file)).find(|file| file.is_file());
    found.iter().filter_map(|file| start_of(file)).collect()
}

/// A file, searched where a run searches it: in the folder of the role, and beside the document.
fn files(document: &Path, folder: &str, name: &str) -> Vec<Location> {
    // In free text, options may follow the name of the file.
    let name = name.split_whitespace().next().unwrap_or_default();
    let role = role_of(document);
    let beside = document.parent().map(Path::to_owned);
    let places = role.iter().chain(&beside).flat_map(|base| [base.join(folder), base.clone()]);
    let candidates = places.map(|place| crate::paths::without_parents(&crate::paths::absolute(&place.join(name))));
    let found: Option<PathBuf> = candidates.into_iter().find(|path| path.is_file());
    found.iter().filter_map(|path| start_of(path)).collect()
}
