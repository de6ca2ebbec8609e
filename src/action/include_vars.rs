//! `include_vars`: selects files of the project whose variables join the host's. The strategy stores the variables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_template::{Value, Variable};
use windlass_yaml::{Mapping, Node, Span};

use super::{ActionContext, Failure};
use crate::outcome::{Arguments, Effect, IncludedVars, TaskResult, size_of_json};
use crate::vars::secrecy;

/// Fails like Ansible on unknown arguments, and on a mix of arguments for files and folders.
pub(super) fn refuse(args: &Arguments) -> Result<(), Failure> {
    const OF_FILES: &[&str] = &["file", "_raw_params"];
    const OF_FOLDERS: &[&str] =
        &["dir", "depth", "files_matching", "ignore_files", "extensions", "ignore_unknown_extensions"];
    const OF_BOTH: &[&str] = &["name", "hash_behaviour"];
    let is_one = |name: &str| [OF_FILES, OF_FOLDERS, OF_BOTH].iter().any(|names| names.contains(&name));
    if let Some(unknown) = args.keys().find(|name| !is_one(name)) {
        return Err(format!("{unknown} is not a valid option in include_vars").into());
    }
    let has = |names: &[&str]| args.keys().any(|name| names.contains(&&**name));
    if has(OF_FILES) && has(OF_FOLDERS) {
        return Err("You are mixing file only and dir only arguments, these are incompatible".into());
    }
    Ok(())
}

/// `include_vars`: the variables stay templates, rendered where they are used. The strategy reads the effect's files
/// from the project's cache.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    match read(context) {
        Err(failure @ (Failure::Failed(_) | Failure::Error(_))) => {
            let result = failure.into_result(context.world.run.settings.compat);
            let message = result.get("msg").cloned().unwrap_or_default();
            Ok(result
                .with("ansible_facts", Value::from_pairs(std::iter::empty::<(Value, Value)>()))
                .with("ansible_included_var_files", Value::from(Vec::<Value>::new()))
                .with("message", message))
        }
        result => result,
    }
}

const NO_FILE: &str = "Could not find file on the Ansible Controller.\nIf you are using a module and expect the file to exist on the \
                       remote, see the remote_src option";

fn read(context: &ActionContext) -> Result<TaskResult, Failure> {
    let files = match context.text("dir") {
        Some(dir) => files_of_dir(context, &dir)?,
        None => {
            let Some(name) = context.text("file").or_else(|| context.text("_raw_params")) else {
                return Err(NO_FILE.into());
            };
            if name.trim().is_empty() {
                return Err(NO_FILE.into());
            }
            vec![context.find("vars", name.trim())?]
        }
    };
    let mut read = Mapping::new();
    for file in &files {
        let found: Arc<Mapping> = context.files.variables(file)?;
        for (key, node) in found.iter() {
            read.insert(key.clone(), node.clone());
        }
    }
    secrecy::learn(&context.secrets, |name| read.get(name).cloned().map(Variable::Text));
    let size = read.values().map(|value| size_of_json(&value.to_json())).sum();
    let shown = shown(context, read);
    let listed: Value = files.iter().map(|file| Value::from(file.display().to_string())).collect();
    let mut result = TaskResult::unchanged().with("ansible_included_var_files", listed);
    // Variables from a vault are hidden in the result.
    let is_hidden = |bytes: Vec<u8>| windlass_vault::is_encrypted(&bytes) || windlass_vault::is_age(&bytes);
    let secret = |file: &PathBuf| windlass_bounds::read(file).is_ok_and(is_hidden);
    if files.iter().any(secret) {
        result = result.secret();
    }
    let merge = context.text("hash_behaviour").as_deref() == Some("merge");
    let name = context.text("name");
    match &name {
        Some(name) => result.set("ansible_facts", Value::from_pairs([(Value::from(name.as_str()), shown)])),
        None => result.set("ansible_facts", shown),
    }
    Ok(result.with_effect(Effect::IncludedVars(IncludedVars { files, name, merge, size })))
}

/// The result's view of the variables, rendered if the task registers it. A value that cannot be rendered yet stays as
/// written.
fn shown(context: &ActionContext, read: Mapping) -> Value {
    if context.task.register.is_none() {
        return windlass_template::from_json(&Node::map(read, Span::none()).to_json());
    }
    let vars = read.string_entries().map(|(name, node)| (Arc::from(name), Variable::Text(node.clone()))).collect();
    let with_all = context.context.with(vars);
    let rendered =
        |node: &Node| with_all.render(node).unwrap_or_else(|_| windlass_template::from_json(&node.to_json()));
    Value::from_pairs(read.iter().map(|(key, node)| (Value::from(key.to_text()), rendered(node))))
}

fn files_of_dir(context: &ActionContext, dir: &str) -> Result<Vec<PathBuf>, Failure> {
    let Ok(folder) = context.find("vars", dir) else {
        let around = context.context.search_paths();
        let folder = around.first().map_or_else(|| PathBuf::from(dir), |around| around.join(dir));
        return Err(format!("{} directory does not exist", folder.display()).into());
    };
    if !folder.is_dir() {
        return Err(format!("{} is not a directory", folder.display()).into());
    }
    let list = |name: &str| -> Vec<String> {
        let value = context.arg(name);
        value
            .map(|value| value.try_iter().into_iter().flatten().map(|item| windlass_template::text(&item)).collect())
            .unwrap_or_default()
    };
    let mut extensions = list("extensions");
    if extensions.is_empty() {
        extensions = ["yaml", "yml", "json"].map(str::to_owned).to_vec();
    }
    let ignored = list("ignore_files");
    let depth = context.arg("depth").and_then(crate::vars::number).unwrap_or(0);
    let mut files = Vec::new();
    walk(&folder, 1, depth, &mut files)
        .map_err(|error| Failure::Failed(format!("{} cannot be read: {error}", folder.display())))?;
    let matching = match context.text("files_matching") {
        None => None,
        Some(pattern) => {
            let compiled = windlass_python_regex::compile(&pattern, Default::default());
            Some(compiled.map_err(|message| format!("files_matching is not a valid regular expression: {message}"))?)
        }
    };
    let ignores_extensions = context.flag("ignore_unknown_extensions").unwrap_or(false);
    if let Some(other) = files.iter().filter(|_| !ignores_extensions && matching.is_none()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        !ignored.iter().any(|ignored| *ignored == name) && !extensions.iter().any(|known| *known == extension)
    }) {
        let extensions = extensions.join(", ");
        return Err(format!("{} does not have a valid extension: {extensions}", other.display()).into());
    }
    files.retain(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned()).unwrap_or_default();
        extensions.contains(&extension)
            && !ignored.contains(&name)
            && matching.as_ref().is_none_or(|regex| regex.is_match(&name).unwrap_or(false))
    });
    Ok(files)
}

fn walk(folder: &Path, level: u64, depth: u64, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?.into_iter().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if depth == 0 || level < depth {
                walk(&path, level + 1, depth, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}
