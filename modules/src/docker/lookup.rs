//! Finds containers, networks and images by name or id.

use serde_json::{Value, json};

use super::{
    engine::{ApiError, Engine, Patience, Request, Version, encoded, in_path},
    image_names::{DEFAULT_REGISTRY, split_registry, split_tag},
    login,
};
use crate::{Failure, Host};

/// Engines from this API version on connect a new container to several networks.
pub(super) const SEVERAL_NETWORKS: Version = Version(1, 44);

/// A container by its name or the beginning of its id, as `inspect` shows it.
pub(super) fn container(engine: &Engine, name: &str) -> Result<Option<Value>, Failure> {
    let all = engine
        .call(
            Request::get("/containers/json").query("limit", -1).query("all", 1).query("size", 0).query("trunc_cmd", 0),
        )
        .map_err(|error| Failure::new(format!("Error retrieving container list: {error}")))?;
    let wanted = if name.starts_with('/') { name.to_owned() } else { format!("/{name}") };
    let is_it = |container: &&Value| {
        let named = container["Names"].as_array().is_some_and(|names| names.iter().any(|name| *name == *wanted));
        named || container["Id"].as_str().is_some_and(|id| id.starts_with(name))
    };
    match all.as_array().into_iter().flatten().find(is_it).and_then(|found| found["Id"].as_str()) {
        Some(id) => container_by_id(engine, id),
        None => Ok(None),
    }
}

/// A container by its id.
pub(super) fn container_by_id(engine: &Engine, id: &str) -> Result<Option<Value>, Failure> {
    unless_missing(engine.call(Request::get(format!("/containers/{}/json", encoded(id)))))
        .map_err(|error| Failure::new(format!("Error inspecting container: {error}")))
}

/// A network by its name or the beginning of its id.
pub(super) fn network(engine: &Engine, name: &str) -> Result<Option<Value>, Failure> {
    let all = engine
        .call(Request::get("/networks"))
        .map_err(|error| Failure::new(format!("Error retrieving network list: {error}")))?;
    let is_it =
        |network: &&Value| network["Name"] == *name || network["Id"].as_str().is_some_and(|id| id.starts_with(name));
    match all.as_array().into_iter().flatten().find(is_it).and_then(|found| found["Id"].as_str()) {
        Some(id) => network_by_id(engine, id),
        None => Ok(None),
    }
}

/// A network by its id.
pub(super) fn network_by_id(engine: &Engine, id: &str) -> Result<Option<Value>, Failure> {
    unless_missing(engine.call(Request::get(format!("/networks/{}", encoded(id)))))
        .map_err(|error| Failure::new(format!("Error inspecting network: {error}")))
}

/// An image by its hash.
pub(super) fn image_by_id(engine: &Engine, id: &str) -> Result<Option<Value>, Failure> {
    unless_missing(engine.call(Request::get(format!("/images/{}/json", in_path(id)))))
        .map_err(|error| Failure::new(format!("Error inspecting image ID {id} - {error}")))
}

/// An image by its name and tag (or digest).
pub(super) fn image(engine: &Engine, name: &str, tag: &str) -> Result<Option<Value>, Failure> {
    if name.is_empty() {
        return Ok(None);
    }
    let mut found = images_named(engine, name, tag)?;
    if found.is_empty() {
        // Images of Docker Hub have several names, and engines list only one of them.
        let (registry, short) = split_registry(name)?;
        if registry == DEFAULT_REGISTRY {
            let mut others = vec![short.to_owned()];
            others.extend(short.strip_prefix("library/").map(str::to_owned));
            others.push(format!("{registry}/{short}"));
            if !short.contains('/') {
                others.push(format!("{registry}/library/{short}"));
            }
            for other in others {
                found = images_named(engine, &other, tag)?;
                if !found.is_empty() {
                    break;
                }
            }
        }
    }
    match found.as_slice() {
        [] => Ok(None),
        [one] => unless_missing(
            engine.call(Request::get(format!("/images/{}/json", in_path(one["Id"].as_str().unwrap_or_default())))),
        )
        .map_err(|error| Failure::new(format!("Error inspecting image {name}:{tag} - {error}"))),
        _ => Err(Failure::new(format!("Daemon returned more than one result for {name}:{tag}"))),
    }
}

fn images_named(engine: &Engine, name: &str, tag: &str) -> Result<Vec<Value>, Failure> {
    let filters = json!({ "reference": [name] });
    let answer = engine
        .call(Request::get("/images/json").query("only_ids", 0).query("all", 0).query("filters", filters))
        .map_err(|error| Failure::new(format!("Error searching for image {name} - {error}")))?;
    let Value::Array(found) = answer else { return Ok(Vec::new()) };
    if tag.is_empty() {
        return Ok(found);
    }
    let (tagged, digested) = (format!("{name}:{tag}"), format!("{name}@{tag}"));
    let has = |image: &Value, key: &str, wanted: &str| {
        image[key].as_array().is_some_and(|names| names.iter().any(|name| name == wanted))
    };
    let is_it = |image: &Value| has(image, "RepoTags", &tagged) || has(image, "RepoDigests", &digested);
    Ok(found.into_iter().find(|image| is_it(image)).into_iter().collect())
}

/// Pulls an image. Returns the image, and whether it was already present.
pub(super) fn pull(
    engine: &Engine,
    name: &str,
    tag: &str,
    platform: Option<&str>,
    host: &Host,
) -> Result<(Value, bool), Failure> {
    let before = image(engine, name, tag)?;
    let (repository, own_tag) = split_tag(name);
    let (registry, _) = split_registry(repository)?;
    let tag_or = if tag.is_empty() { own_tag.unwrap_or("latest") } else { tag };
    let mut request = Request::post("/images/create").query("tag", tag_or).query("fromImage", repository);
    if let Some(platform) = platform {
        request = request.query("platform", platform);
    }
    if let Some(login) = login::for_registry(registry, host)? {
        request = request.header("X-Registry-Auth", login);
    }
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("Error pulling image {name}:{tag} - {error}"));
    for message in engine.progress(request.patience(Patience::Endless)).map_err(|error| failed(&error))? {
        host.check_cancelled()?;
        let message = message.map_err(|error| failed(&error))?;
        if let Some(error) = message.get("error").filter(|error| !error.is_null()) {
            return Err(Failure::new(match message.get("errorDetail") {
                Some(detail) => format!(
                    "Error pulling {name} - code: {} message: {}",
                    super::plain_text(&detail["code"]),
                    super::plain_text(&detail["message"])
                ),
                None => format!("Error pulling {name} - {}", super::plain_text(error)),
            }));
        }
    }
    let now = image(engine, name, tag)?;
    let same = match (&before, &now) {
        (Some(before), Some(now)) => without_metadata(before) == without_metadata(now),
        (before, now) => before.is_none() && now.is_none(),
    };
    Ok((now.unwrap_or_default(), same))
}

fn without_metadata(image: &Value) -> Value {
    let mut image = image.clone();
    if let Some(map) = image.as_object_mut() {
        map.remove("Metadata");
    }
    image
}

fn unless_missing(answer: Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}
