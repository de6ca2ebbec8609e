//! Finds the files of a project and their kinds.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use windlass_yaml::Node;

use super::source::{Kind, SourceFile, role_of};
use super::workspace::Workspace;
use crate::error::{Error, Result};

/// Maximum size of a file to read, in bytes.
pub(crate) const LARGEST: u64 = 2 << 20;

/// Directories that belong to other tools.
const FOREIGN: [&str; 5] = ["node_modules", "__pycache__", "venv", "target", "site-packages"];

/// Extensions of files that may mention or document variables.
const TEXTS: [&str; 12] = ["py", "md", "rst", "ini", "cfg", "toml", "json", "sh", "conf", "service", "tf", "txt"];

/// Directory that contains the project of a path: the nearest one with a marker, or the path's own.
pub(crate) fn root_of(path: &Path) -> PathBuf {
    const MARKERS: [&str; 4] = [super::settings::FILE, "ansible.cfg", "galaxy.yml", ".git"];
    let absolute = crate::paths::absolute(path);
    let own =
        if absolute.is_dir() { absolute.clone() } else { absolute.parent().map(Path::to_owned).unwrap_or_default() };
    let marked = |folder: &&Path| MARKERS.iter().any(|marker| folder.join(marker).exists());
    own.ancestors().find(marked).unwrap_or(&own).to_owned()
}

/// Reads all files below a directory that matter, in the order of their names.
pub(super) fn read_all(
    root: &Path,
    excluded: &dyn Fn(&Path) -> bool,
    workspace: &mut Workspace,
) -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    collect(root, excluded, workspace.most_files(), &mut paths)?;
    let saved: HashSet<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let unsaved = workspace.buffers_below(root).filter(|path| !excluded(path) && !saved.contains(path));
    let unsaved: Vec<PathBuf> = unsaved.map(Path::to_owned).collect();
    paths.extend(unsaved);
    let here = std::env::current_dir().unwrap_or_default();
    let mut files: Vec<SourceFile> =
        paths.iter().filter_map(|path| read(path, &shown(path, &here), workspace)).collect();
    workspace.forget_others(root, &paths);
    for (index, file) in files.iter_mut().enumerate() {
        file.index = index;
    }
    Ok(files)
}

/// Path as shown: relative to the current directory if it is below that.
fn shown(path: &Path, here: &Path) -> PathBuf {
    path.strip_prefix(here).unwrap_or(path).to_owned()
}

fn collect(folder: &Path, excluded: &dyn Fn(&Path) -> bool, most: usize, paths: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = |error| Error::new(format!("{} cannot be read: {error}", folder.display()));
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        entries.push(entry.map_err(unreadable)?);
    }
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        // Links may lead out of the project or back into it.
        let Ok(kind) = entry.file_type() else { continue };
        if name.starts_with('.') || excluded(&path) {
            continue;
        }
        if kind.is_dir() {
            let is_foreign = FOREIGN.contains(&&*name) || path.join("pyvenv.cfg").exists();
            if !is_foreign {
                collect(&path, excluded, most, paths)?;
            }
        } else if kind.is_file() {
            if paths.len() == most {
                let message = format!("{} belongs to a project of more than {most} files", folder.display());
                return Err(Error::new(message + ": mark a smaller one with an ansible.cfg of its own"));
            }
            paths.push(path);
        }
    }
    Ok(())
}

/// Reads a file; `None` if it has nothing to check.
fn read(path: &Path, shown: &Path, workspace: &mut Workspace) -> Option<SourceFile> {
    let kind = kind_by_path(path)?;
    if let Some(text) = workspace.buffer(path) {
        return Some(parsed(path, shown, kind, text.to_owned()));
    }
    let metadata = path.metadata().ok()?;
    if metadata.len() > LARGEST {
        return None;
    }
    if let Some(file) = workspace.kept(path, &metadata) {
        return Some(file);
    }
    let bytes = windlass_bounds::read_up_to(path, LARGEST).ok()?;
    let file = parsed(path, shown, kind, String::from_utf8(bytes).ok()?);
    workspace.keep(path, &metadata, &file);
    Some(file)
}

/// Parses a text. Its content decides where the path does not.
fn parsed(path: &Path, shown: &Path, kind: Kind, text: String) -> SourceFile {
    let kind = if windlass_vault::is_encrypted(text.as_bytes()) { Kind::Text } else { kind };
    let mut file = SourceFile::new(shown.to_owned(), kind, text);
    file.role = role_of(path);
    if file.kind == Kind::OtherYaml {
        file.kind = match file.error {
            Some(_) if is_meant_as_playbook(file.text()) => Kind::Playbook,
            _ => kind_by_content(&file.node),
        };
    }
    file
}

/// Kind of a file whose text may be incomplete YAML; `None` if it cannot be determined.
pub(crate) fn likely_kind(path: &Path, text: &str) -> Option<Kind> {
    match kind_by_path(path) {
        Some(Kind::OtherYaml) => is_meant_as_playbook(text).then_some(Kind::Playbook),
        kind => kind,
    }
}

/// Kind of a file by its path; `None` for files that are not read. The content decides about YAML at other places.
fn kind_by_path(path: &Path) -> Option<Kind> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let folders: Vec<&str> = path.parent()?.iter().filter_map(|part| part.to_str()).collect();
    let role = role_of(path);
    // Only folders within the role, or the project, decide.
    let depth = role.as_ref().map_or(0, |role| role.iter().count());
    let inner = folders.get(depth..).unwrap_or_default();
    let has = |name: &str| inner.contains(&name);
    if matches!(extension, "j2" | "jinja2" | "jinja") {
        return Some(Kind::Template);
    }
    if has("templates") {
        return Some(Kind::Text);
    }
    if !matches!(extension, "yml" | "yaml") {
        let is_inventory = extension.is_empty() && !has("files");
        return (TEXTS.contains(&extension) || is_inventory || has("group_vars") || has("host_vars"))
            .then_some(Kind::Text);
    }
    let name = path.file_stem()?.to_str()?;
    if role.is_some() {
        return Some(match inner.first().copied() {
            Some("files") => Kind::Text,
            Some("tasks") => Kind::Tasks,
            Some("handlers") => Kind::Handlers,
            Some("defaults" | "vars") => Kind::RoleVars,
            Some("meta") if name == "argument_specs" => Kind::ArgumentSpecs,
            Some("meta") if name == "main" => Kind::Meta,
            _ => Kind::OtherYaml,
        });
    }
    Some(match folders.last().copied() {
        _ if folders.iter().any(|folder| matches!(*folder, "group_vars" | "host_vars")) => Kind::Vars,
        Some("files") => Kind::Text,
        _ => Kind::OtherYaml,
    })
}

/// Whether a text that is not valid YAML was written as a playbook.
fn is_meant_as_playbook(text: &str) -> bool {
    let mut entries = text.lines().filter_map(|line| line.strip_prefix("- ").or_else(|| line.strip_prefix("  ")));
    entries.any(|entry| entry.starts_with("hosts:") || entry.starts_with("import_playbook:"))
}

/// Kind of a YAML file by its content.
fn kind_by_content(node: &Node) -> Kind {
    let Some(items) = node.as_list().filter(|items| !items.is_empty()) else { return Kind::OtherYaml };
    let maps = || items.iter().filter_map(Node::as_map);
    let is_play = |key: &str| matches!(key, "hosts" | "import_playbook" | "ansible.builtin.import_playbook");
    if maps().count() == items.len() && maps().any(|map| map.keys().filter_map(|key| key.as_str()).any(is_play)) {
        return Kind::Playbook;
    }
    // A list of nothing but `include` may be a playbook too, but the checks are the same.
    let is_task = |key: &str| matches!(key, "block" | "include") || (crate::builtin::is_known(key) && key != "user");
    let is_task_list = maps().count() == items.len()
        && maps().all(|map| {
            map.keys().filter_map(|key| key.as_str()).any(is_task)
                && map.keys().all(|key| {
                    let key = key.as_str().unwrap_or_default();
                    is_task(key) || crate::playbook::keyword::is_keyword_anywhere(key) || key.starts_with("with_")
                })
        });
    if is_task_list { Kind::Tasks } else { Kind::OtherYaml }
}

/// Makes files that handlers include files of handlers.
pub(super) fn mark_handlers(files: &mut [SourceFile]) {
    let mut paths: HashSet<PathBuf> = HashSet::new();
    for file in files.iter() {
        let mut names = Vec::new();
        match file.kind {
            Kind::Handlers => included(&file.node, &mut names),
            Kind::Playbook => {
                let plays = file.node.as_list().unwrap_or_default();
                plays.iter().filter_map(|play| play.get("handlers")).for_each(|list| included(list, &mut names));
            }
            _ => {}
        }
        let folder = file.path.parent().unwrap_or(Path::new(""));
        let role = folder.parent().unwrap_or(folder);
        let folders = [folder.to_owned(), folder.join("handlers"), folder.join("tasks"), role.join("tasks")];
        paths.extend(names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))));
    }
    for file in files.iter_mut().filter(|file| matches!(file.kind, Kind::Tasks | Kind::OtherYaml)) {
        if paths.contains(&file.path) {
            file.kind = Kind::Handlers;
        }
    }
}

/// Names of the files that a list of handlers includes.
fn included(list: &Node, names: &mut Vec<String>) {
    for map in list.as_list().unwrap_or_default().iter().filter_map(Node::as_map) {
        for (key, value) in map.iter() {
            let word = crate::playbook::short_name(key.as_str().unwrap_or_default());
            if matches!(word, "include_tasks" | "import_tasks" | "include") {
                names.extend(value.as_str().or_else(|| value.get("file")?.as_str()).map(str::to_owned));
            }
        }
    }
}
