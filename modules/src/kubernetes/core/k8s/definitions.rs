//! The objects of a task: from a mapping, list, text, file or URL, or from `kind` and `name` alone.

use std::{io::Read, path::Path, time::Duration};

use serde_json::{Value, json};

use super::super::documents;
use crate::{
    Args, Failure, Host,
    files::way,
    http::{
        client::{Client as Http, Service},
        exchange::{Follow, Request},
    },
    process::reason,
};

/// Largest text to read as definitions.
const MAX_TEXT: u64 = 64 << 20;

/// All definitions, completed from the arguments. Lists are replaced by their items.
pub(super) fn of(args: &Args, host: &Host) -> Result<Vec<Value>, Failure> {
    let refuse = |why: String| Failure::new(format!("Failed to load resource definition: {}", why.trim()));
    let given = match (args.value("resource_definition"), args.str("src")) {
        (Some(definition), _) if !is_empty(definition) => of_value(definition).map_err(refuse)?,
        (_, Some(src)) if !src.is_empty() => documents(src, &text_of(src, host).map_err(refuse)?).map_err(refuse)?,
        _ => vec![json!({})],
    };
    let is_alone = args.value("resource_definition").is_none_or(is_empty) && args.filled("src").is_none();
    if is_alone && args.filled("kind").is_none() && args.str("state") == Some("present") {
        return Err(Failure::new(
            "Failed to create object: The `items` field in the body must be populated when calling methods on a ResourceList",
        ));
    }
    let mut all = Vec::new();
    for mut definition in given.into_iter().filter(|definition| is_alone || !is_empty(definition)) {
        complete(&mut definition, args).map_err(refuse)?;
        let list = definition["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
        let Some(kind) = list else {
            all.push(definition);
            continue;
        };
        let items = definition["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        for mut item in items {
            if let Some(item) = item.as_object_mut() {
                item.entry("kind").or_insert_with(|| kind.clone().into());
                item.entry("apiVersion").or_insert_with(|| definition["apiVersion"].clone());
            }
            complete(&mut item, args).map_err(refuse)?;
            all.push(item);
        }
    }
    Ok(all)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn of_value(definition: &Value) -> Result<Vec<Value>, String> {
    match definition {
        Value::String(text) => documents("the definition", text),
        Value::Array(items) => {
            let mut all = Vec::new();
            for item in items {
                match item {
                    Value::String(text) => all.extend(documents("the definition", text)?),
                    other => all.push(other.clone()),
                }
            }
            Ok(all)
        }
        other => Ok(vec![other.clone()]),
    }
}

/// Fills in what the definition leaves out from the arguments.
fn complete(definition: &mut Value, args: &Args) -> Result<(), String> {
    let shown = definition.to_string().chars().take(60).collect::<String>();
    let wrong = || format!("an object must be a mapping, not {shown}");
    let map = definition.as_object_mut().ok_or_else(wrong)?;
    for (key, option) in [("kind", "kind"), ("apiVersion", "api_version")] {
        if map.get(key).is_none_or(Value::is_null) {
            map.insert(key.into(), args.str(option).into());
        }
    }
    let metadata = map.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    let metadata = metadata.as_object_mut().ok_or("metadata of an object must be a mapping")?;
    for (key, option) in [("namespace", "namespace"), ("name", "name"), ("generateName", "generate_name")] {
        if let Some(value) = args.filled(option) {
            metadata.entry(key).or_insert_with(|| value.into());
        }
    }
    Ok(())
}

/// Reads the text of a file on the host, or of a URL.
fn text_of(src: &str, host: &Host) -> Result<String, String> {
    let bytes = if src.starts_with("http://") || src.starts_with("https://") {
        fetch(src, host)?
    } else {
        way::read(Path::new(src)).map_err(|error| format!("{src} could not be read: {}.", reason(&error)))?
    };
    String::from_utf8(bytes).map_err(|_| format!("{src} is not UTF-8."))
}

fn fetch(url: &str, host: &Host) -> Result<Vec<u8>, String> {
    let service =
        Service { agent_name: "windlass".into(), timeout: Duration::from_secs(30), verify: true, ..Service::default() };
    let client = Http::of_service(service, host).map_err(|failure| failure.message)?;
    let request = Request { method: "GET".into(), url: url.into(), follow: Follow::All, ..Request::default() };
    let response = client.send(&request, host).map_err(|error| format!("{error}."))?;
    if response.status != 200 {
        return Err(format!("{url} could not be fetched: {}.", response.message));
    }
    let mut bytes = Vec::new();
    response.body.take(MAX_TEXT).read_to_end(&mut bytes).map_err(|error| format!("{url}: {}.", reason(&error)))?;
    Ok(bytes)
}
