//! Normalizes answers about services: removes values that a service generates, and empty values in its descriptions,
//! which are the majority.

use serde_json::Value as Json;

use crate::text;

/// Keys of results with descriptions by a service.
const DESCRIPTIONS: [&str; 6] = ["container", "containers", "image", "images", "network", "volume"];

/// Generated names, times, sizes of this machine's programs, and values that are always the same.
const HANDED_OUT: [&str; 21] = [
    "Created",
    "CreatedAt",
    "FinishedAt",
    "GraphDriver",
    "HostnamePath",
    "HostsPath",
    "IPPrefixLen",
    "Log",
    "LogPath",
    "MaskedPaths",
    "Pid",
    "ReadonlyPaths",
    "ResolvConfPath",
    "RunningFor",
    "Size",
    "StartedAt",
    "Status",
    "duration",
    "managedFields",
    "resourceVersion",
    "uid",
];

/// Replaces generated names and times.
pub(crate) fn steady(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, replacement) in [
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
        (r"\b[0-9a-f]{64}\b", "HASH"),
        (r"\b[0-9a-f]{12}(\b|_)", "SHORT$1"),
        (r"/(run|tmp)/(\.windlass-[0-9a-f]+|ansible\w{8}|tmp\w{8}\.yml)", "TEMPORARY"),
        (r"\bwl-c\d+\b", "OWN"),
        (r"\bone-[b-z2-9]{5}\b", "one-RANDOM"),
        (r"\b(10\.96|172\.(1[7-9]|2\d|3[01])|192\.168)\.\d+\.\d+(/\d+)?", "ADDRESS"),
        (r"\b02:42(:[0-9a-f]{2}){4}\b", "HARDWARE"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "MOMENT"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4} \w+", "MOMENT"),
        (r#"LAST DEPLOYED: [^\\"]*"#, "LAST DEPLOYED: MOMENT"),
    ] {
        text = text::replaced(&text, pattern, replacement);
    }
    text
}

/// Shortens the descriptions in a result, and sorts concurrent actions.
pub(crate) fn described(result: Json) -> Json {
    let Json::Object(entries) = kept(result) else { return Json::Null };
    let cut = |(key, value): (String, Json)| {
        let value = match key.as_str() {
            "actions" if value[0].get("what").is_some() => sorted(value),
            "stderr" => value.as_str().unwrap_or_default().lines().collect(),
            key if DESCRIPTIONS.contains(&key) => told(value),
            _ => value,
        };
        let value = if key.starts_with("stderr") { sorted(value) } else { value };
        (key, value)
    };
    Json::Object(entries.into_iter().map(cut).collect())
}

/// Removes values that a service generates.
fn kept(value: Json) -> Json {
    match value {
        Json::Object(entries) => {
            let entries = entries.into_iter().filter(|(key, _)| !HANDED_OUT.contains(&key.as_str()));
            Json::Object(entries.map(|(key, value)| (key, kept(value))).collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(kept).collect()),
        other => other,
    }
}

/// Normalizes a description. Docker turns mappings into unordered lists, and keys mappings by generated names.
fn told(value: Json) -> Json {
    match value {
        Json::Object(entries) => {
            let entries = entries.into_iter().map(|(key, value)| {
                let value = told(value);
                let value = match (key.as_str(), value) {
                    ("Binds" | "Env" | "Mounts", list) => sorted(list),
                    ("Containers", Json::Object(all)) => sorted(all.into_iter().map(|(_, one)| one).collect()),
                    (_, other) => other,
                };
                (key, value)
            });
            Json::Object(entries.filter(|(_, value)| !is_empty(value)).collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(told).collect()),
        other => other,
    }
}

fn sorted(value: Json) -> Json {
    match value {
        Json::Array(mut items) => {
            items.sort_by_key(Json::to_string);
            Json::Array(items)
        }
        other => other,
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Bool(given) => !given,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(entries) => entries.is_empty(),
    }
}
