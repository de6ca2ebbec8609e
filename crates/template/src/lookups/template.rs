//! `template`: renders a template file.

use std::path::Path;

use minijinja::Value;
use windlass_yaml::Text;

use super::call::{Answer, Call};
use crate::python::container::pairs;
use crate::python::text;
use crate::{TemplateOptions, Variable};

pub(super) fn template(call: &Call<'_>) -> Answer {
    call.texts().iter().map(|term| one(call, term)).collect()
}

fn options(call: &Call<'_>, path: &Path) -> TemplateOptions {
    let mut options = TemplateOptions::default();
    let set = |target: &mut String, name: &str| {
        if let Some(value) = call.option(name) {
            *target = text(value);
        }
    };
    set(&mut options.variable.0, "variable_start_string");
    set(&mut options.variable.1, "variable_end_string");
    set(&mut options.comment.0, "comment_start_string");
    set(&mut options.comment.1, "comment_end_string");
    // The lookup accepts no other options; the action `template` accepts more.
    if !call.context.engine().options().compat.lacks_trim_blocks_of_lookup() {
        options.trim_blocks = call.flag("trim_blocks", options.trim_blocks);
    }
    options.search_paths = path.parent().map(Path::to_path_buf).into_iter().collect();
    for directory in call.directories() {
        options.search_paths.extend([directory.join("templates"), directory]);
    }
    options
}

fn one(call: &Call<'_>, term: &str) -> Result<Value, crate::Error> {
    let path = call.need_file("templates", term)?;
    let content = call.read(&path)?;
    let mut variables = crate::about::of_template(call.context, &path, term, None);
    if let Some(given) = call.option("template_vars") {
        for (name, value) in pairs(given).unwrap_or_default() {
            variables.insert(text(&name).into(), Variable::Data(value));
        }
    }
    let context = call.context.with(variables);
    let options = options(call, &path);
    let starts = [&options.block.0, &options.variable.0, &options.comment.0];
    // Unlike the action, the lookup keeps a text unchanged if nothing in it is evaluated.
    let is_plain =
        !content.starts_with(crate::header::MARK) && !starts.iter().any(|start| content.contains(start.as_str()));
    #[expect(clippy::disallowed_methods, reason = "the lookup names the file as a template")]
    let written = Text::of_project(content.as_str());
    let rendered = if is_plain { content } else { context.template(&written, &path.to_string_lossy(), &options)? };
    // Text that is not converted is marked to stay text.
    let run = context.engine().options();
    let may_convert = run.compat.converts_template_lookups();
    let converts = may_convert && call.flag("convert_data", true);
    if may_convert && (!converts || (run.jinja2_native && !call.flag("jinja2_native", false))) {
        return Ok(Value::from_safe_string(rendered));
    }
    let data = rendered.trim_start();
    if converts
        && (data.starts_with('{') || data.starts_with('['))
        && let Ok(value) = crate::python::json::load(data)
    {
        return Ok(value);
    }
    Ok(Value::from(rendered))
}
