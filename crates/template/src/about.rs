//! Variables that describe a template to itself.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use minijinja::Value;
use windlass_yaml::{Node, Span};

use crate::python::time::{self, Clock};
use crate::{Context, Variable, Variables};

/// Variables that only a template sees: its requested path, its real path, its owner and its destination.
pub fn of_template(context: &Context, path: &Path, asked: &str, destination: Option<&str>) -> Variables {
    let metadata = path.metadata().ok();
    let owner = metadata.as_ref().map(MetadataExt::uid).unwrap_or_default();
    let (seconds, nanos) = metadata.as_ref().map(|found| (found.mtime(), found.mtime_nsec())).unwrap_or_default();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut variables: Variables = [
        ("template_host", Value::from(host.trim())),
        ("template_path", Value::from(asked)),
        ("template_fullpath", Value::from(path.to_string_lossy())),
        ("template_uid", Value::from(name_of("/etc/passwd", owner))),
        ("template_mtime", time::from_seconds(seconds, nanos)),
        ("template_run_date", time::now(Clock::Local)),
        ("template_destpath", Value::from(destination)),
    ]
    .into_iter()
    .map(|(name, value)| (Arc::from(name), Variable::Data(value)))
    .collect();
    let name = "ansible_managed";
    if matches!(context.variable(name), Ok(None)) {
        let span = Span::synthetic("the setting ansible_managed");
        let text = managed(&context.engine().options().managed, path);
        // The setting may be a template, but a file name inserted into it must not become one.
        #[expect(clippy::disallowed_methods, reason = "the setting is the project's own text")]
        let text = match path.to_string_lossy().contains('{') {
            true => Node::literal(text, span),
            false => Node::of_project(text, span),
        };
        variables.insert(Arc::from(name), Variable::Text(text));
    }
    variables
}

/// The current time, as a date without an offset.
pub fn now() -> Value {
    time::now(Clock::Local)
}

/// Expands the setting `ansible_managed`. Times refer to the template's last change; `{file}`, `{host}` and `{uid}`
/// are variables of the template; a doubled brace stands for a single one.
fn managed(setting: &str, path: &Path) -> String {
    let variables =
        [("{file}", "{{ template_path }}"), ("{host}", "{{ template_host }}"), ("{uid}", "{{ template_uid }}")];
    let mut text = String::new();
    let mut rest = setting;
    while let Some(start) = rest.find(['{', '}']) {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        let (written, shown) = [("{{", "{"), ("}}", "}")]
            .into_iter()
            .chain(variables)
            .find(|(written, _)| rest.starts_with(written))
            .unwrap_or((&rest[..1], &rest[..1]));
        text.push_str(shown);
        rest = &rest[written.len()..];
    }
    text.push_str(rest);
    let changed = path.metadata().map(|found| found.mtime() as f64).ok();
    time::format_seconds(&text, changed, Clock::Local).unwrap_or(text)
}

/// The name for a numeric id in a table such as /etc/passwd, or the number.
pub(crate) fn name_of(table: &str, id: u32) -> String {
    let id = id.to_string();
    let content = windlass_bounds::read_text(table).unwrap_or_default();
    let line = content.lines().find(|line| line.split(':').nth(2) == Some(&id));
    line.and_then(|line| line.split(':').next()).map_or(id.clone(), str::to_owned)
}
