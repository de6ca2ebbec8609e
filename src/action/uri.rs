//! `uri`: a request's body may come from files of the project.

use indexmap::IndexMap;
use windlass_template::Value;

use super::files::value_of;
use super::{ActionContext, Content, Failure};
use crate::outcome::TaskResult;

/// Attaches files that are not on the host: `src`, and the files of a form.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    if context.check {
        return Ok(TaskResult::given_up("This action (uri) does not support check mode."));
    }
    let mut args = context.args.clone();
    let mut contents = Vec::new();
    if !context.flag("remote_src").unwrap_or(false) {
        if let Some(src) = context.text("src") {
            let path = context.find("files", &src)?;
            args.insert("_content".into(), Value::from(contents.len()));
            contents.push(context.content_of(&path, true)?);
        }
        if context.text("body_format").is_some_and(|format| format == "form-multipart")
            && let Some(body) = context.arg("body")
        {
            args.insert("body".into(), form(context, body, &mut contents)?);
        }
    }
    context.module("ansible.builtin.uri", value_of(args), contents).await
}

/// Attaches a form's files as contents of the request.
fn form(context: &ActionContext, body: &Value, contents: &mut Vec<Content>) -> Result<Value, Failure> {
    if body.kind() != minijinja::value::ValueKind::Map {
        return Ok(body.clone());
    }
    let mut fields: IndexMap<String, Value> = IndexMap::new();
    for (name, field) in pairs(body) {
        let file = match field.kind() {
            minijinja::value::ValueKind::Map => pairs(&field).collect::<IndexMap<_, _>>(),
            _ => IndexMap::new(),
        };
        let has = |key: &str| file.get(key).is_some_and(|value| !value.is_none());
        let field = match file.get("filename").filter(|_| has("filename") && !has("content")) {
            None => field,
            Some(filename) => {
                let path = context.find("files", &windlass_template::text(filename))?;
                let index = Value::from(contents.len());
                contents.push(context.content_of(&path, true)?);
                Value::from_pairs(file.into_iter().chain([("_content".to_owned(), index)]))
            }
        };
        fields.insert(name, field);
    }
    Ok(Value::from_pairs(fields))
}

fn pairs(map: &Value) -> impl Iterator<Item = (String, Value)> {
    let keys = map.try_iter().into_iter().flatten();
    keys.filter_map(|key| Some((windlass_template::text(&key), map.get_item(&key).ok()?)))
}
