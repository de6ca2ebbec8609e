//! `template`: renders on the controller, and writes on the host like `copy`.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use windlass_template::{TemplateOptions, Value, about};
use windlass_yaml::Text;

use super::files::{copy_content, file_name};
use super::{ActionContext, Content, Failure};
use crate::outcome::TaskResult;

/// Options consumed by rendering; the others are passed to `copy`.
const OWN: [&str; 11] = [
    "src",
    "newline_sequence",
    "block_start_string",
    "block_end_string",
    "variable_start_string",
    "variable_end_string",
    "comment_start_string",
    "comment_end_string",
    "trim_blocks",
    "lstrip_blocks",
    "output_encoding",
];

pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let (src, dest) = (context.text("src").unwrap_or_default(), context.text("dest").unwrap_or_default());
    let (rendered, path) = rendered(context, &src, Some(&dest), &|name| context.arg(name).cloned())?;
    let mut args = context.args.clone();
    for key in OWN {
        args.shift_remove(key);
    }
    args.insert("_original_basename".into(), Value::from(file_name(&path)));
    let encoding = context.text("output_encoding").unwrap_or_default();
    let bytes = windlass_template::encode(&rendered, &encoding).map_err(|error| format!("output_encoding: {error}"))?;
    let mut content = Content::of_bytes(&path.display().to_string(), bytes);
    content.description.mode = std::fs::metadata(&path).map_or(0o644, |metadata| metadata.mode() & 0o7777);
    copy_content(context, args, content).await
}

/// Renders a template of the project, with the options of its task. Returns the text and the template's path.
pub(super) fn rendered(
    context: &ActionContext,
    name: &str,
    dest: Option<&str>,
    option: &dyn Fn(&str) -> Option<Value>,
) -> Result<(String, PathBuf), Failure> {
    let options = options_of(option);
    if !matches!(options.newline_sequence.as_str(), "\n" | "\r" | "\r\n") {
        return Err(r"newline_sequence needs to be one of: \n, \r or \r\n".into());
    }
    let path = context.find("templates", name)?;
    let (bytes, _) = context.files.bytes(&path)?;
    #[expect(clippy::disallowed_methods, reason = "the task names the file as a template")]
    let text = String::from_utf8(bytes)
        .map(Text::of_project)
        .map_err(|_| Failure::Failed(format!("Template source files must be utf-8 encoded: {}", path.display())))?;
    let path = crate::paths::absolute(&path);
    let variables = about::of_template(&context.context, &path, name, dest);
    let rendered = context.context.with(variables).template(&text, &path.display().to_string(), &options)?;
    Ok((rendered, path))
}

/// The line ending; accepts escapes such as `
/// ` as well as the characters themselves.
fn newline_sequence(option: &dyn Fn(&str) -> Option<Value>) -> String {
    let given = option("newline_sequence").map(|value| windlass_template::text(&value));
    given.map_or_else(|| "\n".to_owned(), |text| text.replace("\\n", "\n").replace("\\r", "\r"))
}

/// Template settings from options of these names.
fn options_of(option: &dyn Fn(&str) -> Option<Value>) -> TemplateOptions {
    let text = |name: &str, usual: &str| {
        option(name).map_or_else(|| usual.to_owned(), |value| windlass_template::text(&value))
    };
    let flag = |name: &str| option(name).map(|value| crate::outcome::truth(&value));
    TemplateOptions {
        trim_blocks: flag("trim_blocks").unwrap_or(true),
        lstrip_blocks: flag("lstrip_blocks").unwrap_or(false),
        newline_sequence: newline_sequence(option),
        block: (text("block_start_string", "{%"), text("block_end_string", "%}")),
        variable: (text("variable_start_string", "{{"), text("variable_end_string", "}}")),
        comment: (text("comment_start_string", "{#"), text("comment_end_string", "#}")),
        ..TemplateOptions::default()
    }
}
