//! `assemble`: joins fragments of the project on the controller; fragments on a host are the module's work.

use windlass_template::{Read, Value};

use super::{ActionContext, Content, Failure};
use crate::outcome::TaskResult;

/// `assemble`: joins fragments on the controller and writes them like `copy`; with `remote_src` the host joins them.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    if context.flag("remote_src").unwrap_or(true) {
        let args = Value::from_pairs(context.args.iter().map(|(key, value)| (Value::from(&**key), value.clone())));
        return context.module("ansible.builtin.assemble", args, Vec::new()).await;
    }
    let src = context.text("src").unwrap_or_default();
    let folder = context.find("files", &src)?;
    let pattern = context.text("regexp").map(|text| windlass_python_regex::compile(&text, Default::default()));
    let pattern = pattern.transpose().map_err(|message| format!("Invalid Regexp: {message}"))?;
    let hidden = context.flag("ignore_hidden").unwrap_or(false);
    context.files.reads().note(Read::Folder(folder.clone()));
    let found = std::fs::read_dir(&folder)
        .map_err(|error| Failure::Failed(format!("Source ({}) is not a directory: {error}", folder.display())))?;
    let mut paths = Vec::new();
    for path in found.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
        let name = super::files::file_name(&path);
        let chosen = match &pattern {
            Some(pattern) => pattern.is_match(&name)?,
            None => true,
        };
        if chosen && !(hidden && name.starts_with('.')) {
            paths.push(path);
        }
    }
    paths.sort();
    let fragments = paths.iter().map(|path| Ok::<_, Failure>(context.files.bytes(path)?.0));
    let joined = windlass_modules::files::assemble::joined(fragments, context.text("delimiter").as_deref())?;
    let mut args = context.args.clone();
    for key in ["src", "regexp", "ignore_hidden", "delimiter", "decrypt"] {
        args.shift_remove(key);
    }
    // The module then returns the same keys as for a file of the host.
    args.insert("remote_src".into(), Value::from(true));
    super::files::written(context, args, Content::of_bytes(&src, joined)).await
}
