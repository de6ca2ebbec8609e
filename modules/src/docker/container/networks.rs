//! Networks of a container.

use serde_json::{Value, json};

use super::super::{
    Task,
    compare::{Shape, Strictness, matches},
    engine::{Engine, Request, encoded},
    network::plain_address,
};
use super::{Container, fields::Comparisons};
use crate::{Args, Failure, Map};

/// Keys of an entry of `networks`, and the engine's names of keys that are sent unchanged.
const KEYS: &[&str] = &["name", "ipv4_address", "ipv6_address", "aliases", "links", "mac_address"];

/// Requested networks: the entries of `networks` with their ids.
pub(super) fn wanted(args: &Args, engine: &Engine) -> Result<Option<Vec<Map>>, Failure> {
    let Some(given) = args.value("networks").and_then(Value::as_array) else { return Ok(None) };
    let mut all = Vec::new();
    for entry in given {
        let mut network: Map =
            KEYS.iter().map(|key| ((*key).to_owned(), entry.get(*key).cloned().unwrap_or_default())).collect();
        if let Some(links) = entry["links"].as_array().filter(|links| !links.is_empty()) {
            let pair = |link: &Value| {
                let link = link.as_str().unwrap_or_default();
                let (name, alias) = link.split_once(':').unwrap_or((link, link));
                json!([name, alias])
            };
            network.insert("links".into(), links.iter().map(pair).collect());
        }
        if let Some(address) = entry["mac_address"].as_str() {
            network.insert("mac_address".into(), address.replace('-', ":").into());
        }
        let name = entry["name"].as_str().unwrap_or_default();
        network.insert("id".into(), id_of(engine, name)?.into());
        all.push(network);
    }
    Ok(Some(all))
}

fn id_of(engine: &Engine, name: &str) -> Result<String, Failure> {
    let filters = json!({ "name": [name] });
    let found = engine
        .call(Request::get("/networks").query("filters", filters))
        .map_err(|error| Failure::new(format!("Error getting network id for {name} - {error}")))?;
    let network = found.as_array().into_iter().flatten().find(|network| network["Name"] == name);
    network.and_then(|network| network["Id"].as_str()).map(str::to_owned).ok_or_else(|| {
        Failure::new(format!("Parameter error: network named {name} could not be found. Does it exist?"))
    })
}

/// An entry without our internal keys.
pub(super) fn parameters(network: &Map) -> Map {
    network
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "name" | "id"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// An entry in the engine's format.
pub(super) fn endpoint(network: &Map) -> Value {
    let text = |key: &str| network.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut endpoint = Map::new();
    if let Some(links) = network.get("links").and_then(Value::as_array) {
        let mut links = link_texts(links);
        links.sort();
        endpoint.insert("Links".into(), links.into());
    }
    if let Some(aliases) =
        network.get("aliases").filter(|aliases| aliases.as_array().is_some_and(|all| !all.is_empty()))
    {
        endpoint.insert("Aliases".into(), aliases.clone());
    }
    if let Some(address) = text("mac_address") {
        endpoint.insert("MacAddress".into(), address.into());
    }
    let addresses: Map = [("ipv4_address", "IPv4Address"), ("ipv6_address", "IPv6Address")]
        .into_iter()
        .filter_map(|(option, key)| Some((key.to_owned(), text(option)?.into())))
        .collect();
    if !addresses.is_empty() {
        endpoint.insert("IPAMConfig".into(), addresses.into());
    }
    endpoint.into()
}

fn link_texts(links: &[Value]) -> Vec<String> {
    let text =
        |link: &Value| format!("{}:{}", link[0].as_str().unwrap_or_default(), link[1].as_str().unwrap_or_default());
    links.iter().map(text).collect()
}

/// Connects the container to its networks, and disconnects it from others if requested.
pub(super) fn update(
    task: &mut Task,
    container: Container,
    wanted: Option<&[Map]>,
    comparisons: &Comparisons,
    created: bool,
    legacy: &mut Vec<Value>,
) -> Result<Container, Failure> {
    let strictness = comparisons.get("networks");
    let connected = container.raw["NetworkSettings"]["Networks"].as_object().cloned().unwrap_or_default();
    let mut changed = false;
    if strictness != Strictness::Ignore || created {
        let differing: Vec<(&Map, Value)> = wanted
            .into_iter()
            .flatten()
            .filter_map(|network| difference(network, &connected).map(|there| (network, there)))
            .collect();
        if !differing.is_empty() {
            let shown: Vec<Value> =
                differing.iter().map(|(network, there)| json!({ "parameter": network, "container": there })).collect();
            legacy.push(json!({ "network_differences": shown }));
        }
        for (network, there) in differing {
            let name = network.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let id = network.get("id").and_then(Value::as_str).unwrap_or_default();
            task.differences.add(format!("network.{name}"), network.clone(), there.clone());
            if !there.is_null() {
                disconnect(task, &container.id(), &name, id)?;
            }
            task.act(json!({ "added_to_network": name, "network_parameters": network }));
            if !task.check {
                let data = json!({ "Container": container.id(), "EndpointConfig": endpoint(network) });
                task.engine
                    .call(Request::post(format!("/networks/{}/connect", encoded(id))).json(&data))
                    .map_err(|error| Failure::new(format!("Error connecting container to network {name} - {error}")))?;
            }
            changed = true;
        }
    }
    if let Some(wanted) = wanted.filter(|_| strictness == Strictness::Strict) {
        let is_wanted =
            |name: &str| wanted.iter().any(|network| network.get("name").is_some_and(|known| known == name));
        let extra: Vec<Value> = connected
            .iter()
            .filter(|(name, _)| !is_wanted(name))
            .map(|(name, network)| json!({ "name": name, "id": network["NetworkID"] }))
            .collect();
        if !extra.is_empty() {
            legacy.push(json!({ "purge_networks": extra }));
        }
        for network in extra {
            let name = network["name"].as_str().unwrap_or_default().to_owned();
            task.differences.add(format!("network.{name}"), Value::Null, network);
            disconnect(task, &container.id(), &name, &name)?;
            changed = true;
        }
    }
    if changed { Container::find(&task.engine, &container.id()) } else { Ok(container) }
}

fn disconnect(task: &mut Task, container: &str, name: &str, network: &str) -> Result<(), Failure> {
    task.act(json!({ "removed_from_network": name }));
    if !task.check {
        let data = json!({ "Container": container });
        task.engine
            .call(Request::post(format!("/networks/{}/disconnect", encoded(network))).json(&data))
            .map_err(|error| Failure::new(format!("Error disconnecting container from network {name} - {error}")))?;
    }
    Ok(())
}

/// The actual connection if it differs from the requested one: null if not connected, `None` if nothing differs.
fn difference(network: &Map, connected: &Map) -> Option<Value> {
    let name = network.get("name").and_then(Value::as_str)?;
    let Some(there) = connected.get(name) else { return Some(Value::Null) };
    let text = |key: &str| network.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let addresses = &there["IPAMConfig"];
    let other_address = |option: &str, key: &str| {
        text(option)
            .is_some_and(|wanted| plain_address(wanted) != plain_address(addresses[key].as_str().unwrap_or_default()))
    };
    let lacks = |option: &str, wanted: Value, key: &str| {
        let given = network.get(option).and_then(Value::as_array).is_some_and(|all| !all.is_empty());
        given && !matches(&wanted, &there[key], Strictness::Subset, Shape::Set)
    };
    let aliases = network.get("aliases").cloned().unwrap_or_default();
    let links = network.get("links").and_then(Value::as_array).map(|links| link_texts(links)).unwrap_or_default();
    let differs = other_address("ipv4_address", "IPv4Address")
        || other_address("ipv6_address", "IPv6Address")
        || lacks("aliases", aliases, "Aliases")
        || lacks("links", links.into(), "Links")
        || text("mac_address").is_some_and(|wanted| there["MacAddress"] != wanted);
    differs.then(|| {
        json!({
            "name": name, "ipv4_address": addresses["IPv4Address"], "ipv6_address": addresses["IPv6Address"],
            "aliases": there["Aliases"], "links": there["Links"], "mac_address": there["MacAddress"],
        })
    })
}
