//! Actual and expected state of a container, and their differences.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::{
    Differences,
    compare::{Shape, Strictness, items, matches},
    platform::Platform,
};
use super::fields::{Change, Comparisons, FIELDS, Field, Place};
use super::mounts;
use crate::{Args, Failure, Map};

/// Context of a comparison, apart from the options.
pub(super) struct Surroundings<'a> {
    pub(super) args: &'a Args,
    /// Image of the existing container.
    pub(super) container_image: Option<&'a Value>,
    /// Image whose defaults are expected.
    pub(super) image: Option<&'a Value>,
    /// Platform of the engine, if needed.
    pub(super) engine: &'a Platform,
}

/// Differences between the requested values and a container, for the fields that need this kind of change.
pub(super) fn compare(
    values: &Map,
    container: &Value,
    comparisons: &Comparisons,
    around: &Surroundings<'_>,
    change: Change,
) -> Result<Differences, Failure> {
    let expected = expected(values, around)?;
    let mut differences = Differences::default();
    for field in FIELDS.iter().filter(|field| field.change == change) {
        // Image and networks are compared elsewhere.
        if matches!(field.name, "image" | "networks") {
            continue;
        }
        let Some(wanted) = expected.get(field.name) else { continue };
        let actual = actual(field, container, around);
        let strictness = comparisons.get(field.name);
        if is_same(field, wanted, &actual, strictness) {
            continue;
        }
        if field.name == "labels" && strictness == Strictness::Strict {
            refuse_labels_of_image(around)?;
        }
        differences.add(field.name, sorted(field.shape, wanted), sorted(field.shape, &actual));
    }
    Ok(differences)
}

fn is_same(field: &Field, wanted: &Value, there: &Value, strictness: Strictness) -> bool {
    if field.name == "platform" && strictness != Strictness::Ignore {
        let parse = |value: &Value| Platform::parse(value.as_str().unwrap_or_default(), &Platform::default());
        return match (parse(wanted), parse(there)) {
            (Ok(wanted), Ok(there)) => wanted == there,
            _ => wanted == there,
        };
    }
    // The engine replaces `default` with the actual mode.
    let is_default = field.name == "network_mode" && wanted == "default" && there == "bridge";
    is_default || matches(wanted, there, strictness, field.shape)
}

fn labels_of(image: Option<&Value>) -> Map {
    image.and_then(|image| image["Config"]["Labels"].as_object()).cloned().unwrap_or_default()
}

/// With `image_label_mismatch: fail`, fails for labels from the image, which cannot be removed.
fn refuse_labels_of_image(around: &Surroundings<'_>) -> Result<(), Failure> {
    if around.args.str("image_label_mismatch") != Some("fail") {
        return Ok(());
    }
    let wanted = around.args.value("labels");
    let extra: Vec<String> = labels_of(around.image)
        .keys()
        .filter(|key| wanted.is_none_or(|wanted| wanted.get(key.as_str()).is_none()))
        .map(|key| format!("\"{key}\""))
        .collect();
    if extra.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "Some labels should be removed but are present in the base image. You can set image_label_mismatch to 'ignore' to ignore this error. Labels: {}",
        extra.join(", ")
    )))
}

/// Expected state of a container with these values and its image.
fn expected(values: &Map, around: &Surroundings<'_>) -> Result<Map, Failure> {
    let mut expected = values.clone();
    let config = around.image.map(|image| &image["Config"]);
    let of_image = |key: &str| config.map(|config| config[key].clone()).unwrap_or_default();
    if let Some(command) = values.get("command").and_then(Value::as_array)
        && command.is_empty()
        && of_image("Cmd").as_array().is_some_and(|words| !words.is_empty())
    {
        expected.insert("command".into(), of_image("Cmd"));
    }
    expected.insert("env".into(), environment(&of_image("Env"), values.get("env")));
    if let Some(labels) = values.get("labels").and_then(Value::as_object) {
        let ignored = around.args.str("image_label_mismatch") != Some("fail");
        let mut all = if ignored { labels_of(around.image) } else { Map::new() };
        all.extend(labels.clone());
        expected.insert("labels".into(), all.into());
    }
    if let Some(platform) = values.get("platform").and_then(Value::as_str) {
        let platform = Platform::parse(platform, around.engine)
            .map_err(|error| Failure::new(format!("Error while parsing platform parameer: {error}")))?;
        expected.insert("platform".into(), platform.to_string().into());
    }
    let mut volumes = of_image("Volumes").as_object().cloned().unwrap_or_default();
    let given = values.get("volumes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    volumes.extend(given.filter(|text| mounts::is_nameless(text)).map(|text| (text.to_owned(), json!({}))));
    expected.remove("volumes");
    if !volumes.is_empty() {
        expected.insert("volumes".into(), volumes.into());
    }
    expected.entry("volume_binds").or_insert_with(|| json!([]));
    let mut ports: BTreeSet<String> =
        of_image("ExposedPorts").as_object().into_iter().flat_map(Map::keys).map(|port| with_protocol(port)).collect();
    ports
        .extend(values.get("ports").map(items).unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned));
    expected.insert("exposed_ports".into(), ports.into_iter().collect());
    Ok(expected)
}

fn with_protocol(port: &str) -> String {
    if port.contains('/') { port.to_owned() } else { format!("{port}/tcp") }
}

fn environment(image: &Value, wanted: Option<&Value>) -> Value {
    let mut all = Map::new();
    let lines = image.as_array().into_iter().flatten().chain(wanted.and_then(Value::as_array).into_iter().flatten());
    for line in lines.filter_map(Value::as_str) {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        all.insert(name.to_owned(), value.into());
    }
    all.iter().map(|(name, value)| Value::from(format!("{name}={}", value.as_str().unwrap_or_default()))).collect()
}

/// Actual value of a field.
fn actual(field: &Field, container: &Value, around: &Surroundings<'_>) -> Value {
    let (config, host) = (&container["Config"], &container["HostConfig"]);
    let value = match field.place {
        Place::Config(key) => config[key].clone(),
        Place::Host(key) => host[key].clone(),
        Place::Own => match field.name {
            "interactive" => (config["OpenStdin"] == true).into(),
            "detach" => (!(config["AttachStderr"] == true && config["AttachStdout"] == true)).into(),
            "log_driver" => host["LogConfig"]["Type"].clone(),
            "log_options" => host["LogConfig"]["Config"].clone(),
            "restart_policy" => host["RestartPolicy"]["Name"].clone(),
            "restart_retries" => host["RestartPolicy"]["MaximumRetryCount"].clone(),
            "platform" => platform(container, around),
            "mounts" => match host["Mounts"].as_array() {
                Some(all) => all.iter().map(mounts::there).collect(),
                None => Value::Null,
            },
            "volumes" => config["Volumes"].clone(),
            "volume_binds" => host["Binds"].clone(),
            "published_ports" => host["PortBindings"].clone(),
            "publish_all_ports" => host["PublishAllPorts"].clone(),
            "exposed_ports" => exposed(&config["ExposedPorts"]),
            _ => Value::Null,
        },
    };
    if field.name == "healthcheck" && (value.is_null() || value["Test"] == json!(["NONE"])) {
        return json!({ "Test": ["NONE"] });
    }
    value
}

fn platform(container: &Value, around: &Surroundings<'_>) -> Value {
    let text = |image: &Value, key: &str| image[key].as_str().unwrap_or_default().to_owned();
    match around.container_image.or(around.image) {
        Some(image) if ["Os", "Architecture", "Variant"].iter().any(|key| !text(image, key).is_empty()) => {
            let (system, architecture, variant) =
                (text(image, "Os"), text(image, "Architecture"), text(image, "Variant"));
            Platform::of_image(&system, &architecture, &variant, around.engine).to_string().into()
        }
        _ => container["Platform"].clone(),
    }
}

/// Lists exposed ports individually, although the engine may report a range.
fn exposed(ports: &Value) -> Value {
    let mut all = Vec::new();
    for port in ports.as_object().into_iter().flat_map(Map::keys) {
        let full = with_protocol(port);
        let (numbers, protocol) = full.split_once('/').unwrap_or((&full, "tcp"));
        let range = numbers
            .split_once('-')
            .and_then(|(first, last)| Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?)));
        match range {
            Some((first, last)) => all.extend((first..=last).map(|number| format!("{number}/{protocol}"))),
            None => all.push(full.clone()),
        }
    }
    all.into()
}

/// Sorts values whose order is irrelevant, for a readable diff.
fn sorted(shape: Shape, value: &Value) -> Value {
    if value.is_null() || !matches!(shape, Shape::Set | Shape::Maps) {
        return value.clone();
    }
    let key = |item: &Value| match item.as_object() {
        Some(map) => {
            let mut pairs: Vec<(String, String)> =
                map.iter().map(|(key, value)| (key.clone(), super::super::plain_text(value))).collect();
            pairs.sort();
            pairs
        }
        None => vec![(super::super::plain_text(item), String::new())],
    };
    let mut all = items(value);
    all.sort_by_cached_key(key);
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_of_ports_listed_and_impossible_one_left_as_it_is() {
        assert_eq!(exposed(&json!({"80-82/udp": {}})), json!(["80/udp", "81/udp", "82/udp"]));
        assert_eq!(exposed(&json!({"0-4294967295/tcp": {}})), json!(["0-4294967295/tcp"]));
    }
}
