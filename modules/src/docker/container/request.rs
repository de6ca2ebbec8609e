//! Request bodies that create and change a container.

use serde_json::{Value, json};

use super::fields::{Change, FIELDS, Place};
use super::mounts;
use crate::Map;

/// Body of the create request.
pub(super) fn create(values: &Map, image: &str) -> Map {
    let mut data = Map::new();
    let mut host = Map::new();
    for field in FIELDS {
        let Some(value) = values.get(field.name) else { continue };
        match field.place {
            Place::Config(key) => _ = data.insert(key.to_owned(), value.clone()),
            Place::Host(key) => _ = host.insert(key.to_owned(), value.clone()),
            Place::Own => {}
        }
    }
    attach(values, &mut data);
    if let Some(driver) = values.get("log_driver") {
        let options = values.get("log_options").cloned().unwrap_or_else(|| json!({}));
        host.insert("LogConfig".into(), json!({ "Type": driver, "Config": options }));
    }
    if let Some(platform) = values.get("platform") {
        data.insert("platform".into(), platform.clone());
    }
    if let Some(policy) = restart_policy(values) {
        host.insert("RestartPolicy".into(), policy);
    }
    if let Some(all) = values.get("mounts").and_then(Value::as_array) {
        host.insert("Mounts".into(), all.iter().map(mounts::request).collect());
    }
    if let Some(volumes) = values.get("volumes").and_then(Value::as_array) {
        // Volumes with a name or path are binds.
        let nameless = volumes.iter().filter_map(Value::as_str).filter(|text| mounts::is_nameless(text));
        data.insert("Volumes".into(), nameless.map(|text| (text.to_owned(), json!({}))).collect());
    }
    if let Some(binds) = values.get("volume_binds") {
        host.insert("Binds".into(), binds.clone());
    }
    let ports = values.get("ports").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    data.insert("ExposedPorts".into(), ports.map(|port| (port.to_owned(), json!({}))).collect());
    if let Some(published) = values.get("published_ports") {
        host.insert("PortBindings".into(), published.clone());
    }
    if values.get("publish_all_ports") == Some(&Value::Bool(true)) {
        host.insert("PublishAllPorts".into(), true.into());
    }
    if !host.is_empty() {
        data.insert("HostConfig".into(), host.into());
    }
    data.insert("Image".into(), image.into());
    data
}

/// Attaches the streams if the task waits for the container's end.
fn attach(values: &Map, data: &mut Map) {
    let interactive = values.get("interactive").cloned().unwrap_or_default();
    let attached = values.get("detach") != Some(&Value::Bool(true));
    let both = attached && interactive == true;
    data.insert("AttachStdout".into(), attached.into());
    data.insert("AttachStderr".into(), attached.into());
    data.insert("AttachStdin".into(), both.into());
    data.insert("StdinOnce".into(), both.into());
    data.insert("OpenStdin".into(), interactive);
}

fn restart_policy(values: &Map) -> Option<Value> {
    let name = values.get("restart_policy")?;
    Some(json!({ "Name": name, "MaximumRetryCount": values.get("restart_retries") }))
}

/// Body of the request that changes an existing container.
pub(super) fn update(values: &Map) -> Map {
    let mut data = Map::new();
    for field in FIELDS.iter().filter(|field| field.change == Change::InPlace) {
        if let (Place::Host(key), Some(value)) = (field.place, values.get(field.name)) {
            data.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(policy) = restart_policy(values) {
        data.insert("RestartPolicy".into(), policy);
    }
    data
}
