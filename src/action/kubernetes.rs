//! Modules of `kubernetes.core` whose input may be files of the project.

use std::path::PathBuf;

use minijinja::value::ValueKind;
use windlass_template::Value;
use windlass_yaml::{Options, Source};

use super::files::value_of;
use super::{ActionContext, Failure};
use crate::connection::Kind;
use crate::outcome::TaskResult;

/// Resolves files of the project that the arguments name, renders templates, and runs the module.
pub(super) async fn run(context: &ActionContext, module: &str) -> Result<TaskResult, Failure> {
    let mut args = context.args.clone();
    // On other hosts, paths belong to the host.
    if context.connection.target.kind == Kind::Local {
        if let Some(path) = context.arg("kubeconfig").filter(|value| value.kind() == ValueKind::String) {
            args.insert("kubeconfig".into(), kubeconfig(context, &windlass_template::text(path))?);
        }
        if let Some(src) = context.text("src").filter(|src| !src.contains("://")) {
            args.insert("src".into(), Value::from(context.find("files", &src)?.display().to_string()));
        }
    }
    if let Some(template) = context.arg("template").filter(|_| !args.contains_key("resource_definition")) {
        let items = match template.kind() {
            ValueKind::Seq => template.try_iter().into_iter().flatten().collect(),
            _ => vec![template.clone()],
        };
        let rendered = items.iter().map(|item| rendered(context, item).map(Value::from));
        args.insert("resource_definition".into(), Value::from(rendered.collect::<Result<Vec<_>, _>>()?));
        // The rendered template replaced `src`; a task that sets both must still fail.
        if !context.args.contains_key("src") {
            args.shift_remove("template");
        }
    }
    context.module(module, value_of(args), Vec::new()).await
}

/// Path of a kubeconfig in the project, or the content of one in a vault.
fn kubeconfig(context: &ActionContext, paths: &str) -> Result<Value, Failure> {
    let found = paths.split(':').filter(|path| !path.is_empty()).map(|path| context.find("files", path));
    let found: Vec<PathBuf> = found.collect::<Result<_, _>>()?;
    if let [path] = found.as_slice() {
        let (bytes, is_decrypted) = context.files.bytes(path)?;
        if is_decrypted {
            let source = Source::secret(path.display().to_string(), String::from_utf8_lossy(&bytes));
            let options = Options { trusted: false, ..Options::default() };
            let config = windlass_yaml::load_one(source, &options).map_err(|error| error.to_string())?;
            return Ok(windlass_template::from_json(&config.to_json()));
        }
    }
    let found: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    Ok(Value::from(found.join(":")))
}

/// Renders a template given as a path, or as a mapping with a path and options.
fn rendered(context: &ActionContext, item: &Value) -> Result<String, Failure> {
    let option = |name: &str| item.get_attr(name).ok().filter(|value| !value.is_none() && !value.is_undefined());
    let name = match item.kind() {
        ValueKind::String => windlass_template::text(item),
        ValueKind::Map => option("path").map(|path| windlass_template::text(&path)).unwrap_or_default(),
        _ => return Err("a template is a path, or a mapping with path and options".into()),
    };
    if name.is_empty() {
        return Err("Please specify path for template.".into());
    }
    let option: &dyn Fn(&str) -> Option<Value> = match item.kind() {
        ValueKind::Map => &option,
        _ => &|_| None,
    };
    super::template::rendered(context, &name, None, option).map(|(text, _)| text)
}
