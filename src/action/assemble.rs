use windlass_template::Value;

use super::{ActionContext, Content, Failure};
use crate::strategy::TaskResult;

/// `assemble`: fragments of the controller are joined here and written like a copy; fragments of the host are joined there.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    if context.flag("remote_src").unwrap_or(true) {
        let args = Value::from_pairs(context.args.iter().map(|(key, value)| (Value::from(&**key), value.clone())));
        return context.module("ansible.builtin.assemble", args, Vec::new()).await;
    }
    let Some(src) = context.text("src") else { return Err("src and dest are required".into()) };
    let folder = context.find("files", &src)?;
    let pattern = match context.text("regexp") {
        None => None,
        Some(text) => Some(
            regex::Regex::new(&text).map_err(|error| Failure::Failed(format!("Invalid Regexp ({text}): {error}")))?,
        ),
    };
    let hidden = context.flag("ignore_hidden").unwrap_or(false);
    let mut entries: Vec<_> = std::fs::read_dir(&folder)
        .map_err(|error| Failure::Failed(format!("Source ({}) is not a directory: {error}", folder.display())))?
        .flatten()
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| pattern.as_ref().is_none_or(|regex| regex.is_match(name)) && !(hidden && name.starts_with('.')))
        .collect();
    entries.sort();
    let delimiter = context.text("delimiter").map(|text| text.replace("\\n", "\n"));
    let mut joined: Vec<u8> = Vec::new();
    for (index, name) in entries.iter().enumerate() {
        let (bytes, _) = context.files.bytes(&folder.join(name))?;
        if index > 0 && joined.last() != Some(&b'\n') {
            joined.push(b'\n');
        }
        if let Some(delimiter) = delimiter.as_ref().filter(|_| index > 0) {
            joined.extend_from_slice(delimiter.as_bytes());
            if !delimiter.ends_with('\n') {
                joined.push(b'\n');
            }
        }
        joined.extend_from_slice(&bytes);
    }
    let mut args = context.args.clone();
    for key in ["src", "regexp", "ignore_hidden", "delimiter", "remote_src", "decrypt"] {
        args.shift_remove(key);
    }
    super::files::copy_content(context, args, Content::of_bytes(&src, joined)).await
}
