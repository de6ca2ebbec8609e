//! `docker_network`: networks of Docker, and their containers.

use std::{net::IpAddr, thread, time::Duration};

use serde_json::{Value, json};

use super::{
    Differences, ENGINE_OPTIONS, REQUIRED_TOGETHER, Task,
    engine::{Request, Version, encoded},
    filled, labels, lookup, plan, report, texts, with_engine,
};
use crate::{Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec};

/// The `docker_network` module.
pub struct DockerNetwork;

const OWN: [Opt; 19] = [
    Opt::required("name", Kind::Str, "Name of the network.").aliases(&["network_name"]),
    Opt::new("config_from", Kind::Str, "Network to copy the configuration from."),
    Opt::new("config_only", Kind::Bool, "Create a configuration for other networks only."),
    Opt::new(
        "connected",
        Kind::List(&Kind::Str),
        "Containers to connect; all others are disconnected. An empty list changes nothing.",
    )
    .aliases(&["containers"])
    .default("[]"),
    Opt::new("state", Kind::Str, "`present` creates the network, `absent` disconnects its containers and removes it.")
        .default("\"present\"")
        .choices(&["present", "absent"]),
    Opt::new("driver", Kind::Str, "Driver of the network.").default("\"bridge\""),
    Opt::new("driver_options", Kind::Dict, "Options of the driver.").default("{}"),
    Opt::new("force", Kind::Bool, "Recreate the network even if nothing differs.").default("false"),
    Opt::new("appends", Kind::Bool, "Keep other containers connected.").aliases(&["incremental"]).default("false"),
    Opt::new("ipam_driver", Kind::Str, "Driver that assigns addresses (IPAM)."),
    Opt::new("ipam_driver_options", Kind::Dict, "Options of the IPAM driver."),
    Opt::new("ipam_config", Kind::List(&Kind::Dict), "Address ranges of the network.").options(&[
        Opt::new("subnet", Kind::Str, "Subnet, such as 10.1.0.0/16."),
        Opt::new("iprange", Kind::Str, "Part of the subnet from which containers get addresses."),
        Opt::new("gateway", Kind::Str, "Address of the engine in the network."),
        Opt::new("aux_addresses", Kind::Dict, "Reserved addresses, by name."),
    ]),
    Opt::new("enable_ipv4", Kind::Bool, "Enable IPv4."),
    Opt::new("enable_ipv6", Kind::Bool, "Enable IPv6."),
    Opt::new("internal", Kind::Bool, "Isolate the network from the outside."),
    Opt::new("labels", Kind::Dict, "Labels of the network; the values must be text.").default("{}"),
    Opt::new("scope", Kind::Str, "Scope of the network.").choices(&["local", "global", "swarm"]),
    Opt::new("attachable", Kind::Bool, "Allow standalone containers to connect to a swarm network."),
    Opt::new("ingress", Kind::Bool, "Use the network as the swarm's routing mesh."),
];
const OPTIONS: [Opt; OWN.len() + ENGINE_OPTIONS.len()] = with_engine(OWN);

static SPEC: Spec = Spec {
    name: "docker_network",
    collection: "community.docker",
    summary: "Manage Docker networks",
    description: &[
        "Creates and removes networks, and connects containers to them.",
        "A network cannot be changed in place. If it differs, the module disconnects its containers, recreates the \
         network, and reconnects only the containers in `connected`.",
    ],
    options: &OPTIONS,
    required_together: REQUIRED_TOGETHER,
    examples: "- name: A network\n  community.docker.docker_network:\n    name: backend\n    ipam_config:\n      - subnet: 10.5.0.0/24\n        gateway: 10.5.0.1\n\n\
               - name: One more container in it\n  community.docker.docker_network:\n    name: backend\n    connected: [db]\n    appends: true\n",
    returns: &[Return { name: "network", kind: "dict", when: "present", doc: "Network as Docker describes it." }],
    ..Spec::EMPTY
}
.compiled();

impl Module for DockerNetwork {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        plan(args, host, run)
    }
}

/// Requested properties.
struct Wanted {
    name: String,
    driver: String,
    driver_options: Map,
    labels: Map,
    ipam_config: Vec<Map>,
}

fn run(task: &mut Task, host: &Host) -> Result<(), Failure> {
    for (option, version) in [
        ("config_from", Version(1, 30)),
        ("config_only", Version(1, 30)),
        ("scope", Version(1, 30)),
        ("attachable", Version(1, 26)),
        ("enable_ipv4", Version(1, 47)),
    ] {
        task.needs_version(task.args.value(option).is_some(), option, version)?;
    }
    let wanted = Wanted::of(&task.args)?;
    let mut there = lookup::network(&task.engine, &wanted.name)?;
    let present = task.args.str("state") == Some("present");
    task.differences.add("exists", present, there.is_some());
    if !present {
        if let Some(network) = &there {
            remove(task, &wanted, network, host)?;
        }
        task.list_actions();
        report(task, Value::Null);
        return Ok(());
    }
    let mut connected: Vec<String> = task.args.list("connected").into_iter().map(str::to_owned).collect();
    if let Some(network) = there.as_ref().filter(|_| connected.is_empty()) {
        connected = members(network);
    }
    let mut differences = Differences::default();
    if let Some(network) = &there {
        compare(&task.args, &wanted, network, &mut differences);
    }
    if (task.args.bool("force") || !differences.is_empty())
        && let Some(network) = there.take()
    {
        remove(task, &wanted, &network, host)?;
    }
    if there.is_none() {
        there = create(task, &wanted)?;
    }
    connect(task, &wanted, there.as_ref(), &connected)?;
    if let Some(network) = there.as_ref().filter(|_| !task.args.bool("appends")) {
        for name in members(network).iter().filter(|name| !connected.contains(name)) {
            disconnect(task, &wanted, name)?;
        }
    }
    task.differences.extend(&differences);
    report(task, differences.names());
    if task.lists_actions() {
        task.list_actions();
    }
    let network = lookup::network(&task.engine, &wanted.name)?;
    task.data.insert("network".into(), network.unwrap_or_default());
    Ok(())
}

impl Wanted {
    fn of(args: &Args) -> Result<Wanted, Failure> {
        let ipam_config: Vec<Map> = args
            .value("ipam_config")
            .and_then(Value::as_array)
            .map(|pools| pools.iter().filter_map(Value::as_object).cloned().collect())
            .unwrap_or_default();
        for pool in &ipam_config {
            let subnet = pool.get("subnet").and_then(Value::as_str).unwrap_or("None");
            if !is_cidr(subnet) {
                return Err(Failure::new(format!("\"{subnet}\" is not a valid CIDR")));
            }
        }
        // A configuration-only network has no driver of its own.
        let driver = if args.bool("config_only") { "null" } else { args.str("driver").unwrap_or("bridge") };
        Ok(Wanted {
            name: args.required("name")?.to_owned(),
            driver: driver.to_owned(),
            driver_options: filled(args, "driver_options").map(texts).unwrap_or_default(),
            labels: labels(args.value("labels"), "labels")?.unwrap_or_default(),
            ipam_config,
        })
    }
}

/// Names of the containers in a network.
fn members(network: &Value) -> Vec<String> {
    let containers = network["Containers"].as_object().into_iter().flatten();
    containers.filter_map(|(_, container)| Some(container["Name"].as_str()?.to_owned())).collect()
}

fn compare(args: &Args, wanted: &Wanted, network: &Value, differences: &mut Differences) {
    let mut differs = |name: &str, value: Option<&Value>, there: &Value, otherwise: Value| {
        let shown = if there.is_null() { otherwise } else { there.clone() };
        if let Some(value) = value.filter(|value| **value != shown) {
            differences.add(name, value.clone(), shown);
        }
    };
    differs("config_only", args.value("config_only"), &network["ConfigOnly"], false.into());
    differs("config_from", args.value("config_from"), &network["ConfigFrom"]["Network"], "".into());
    if !wanted.driver.is_empty() {
        differs("driver", Some(&json!(wanted.driver)), &network["Driver"], Value::Null);
    }
    compare_map("driver_options", &wanted.driver_options, &network["Options"], differences);
    let ipam = &network["IPAM"];
    if let Some(driver) = args.str("ipam_driver").filter(|driver| !driver.is_empty() && ipam["Driver"] != **driver) {
        differences.add("ipam_driver", driver, ipam.clone());
    }
    if let Some(options) = args.value("ipam_driver_options") {
        let there = ipam["Options"].as_object().cloned().unwrap_or_default();
        if options.as_object() != Some(&there) {
            differences.add("ipam_driver_options", options.clone(), there);
        }
    }
    compare_pools(wanted, &ipam["Config"], differences);
    for (option, key) in [
        ("enable_ipv4", "EnableIPv4"),
        ("enable_ipv6", "EnableIPv6"),
        ("internal", "Internal"),
        ("scope", "Scope"),
        ("attachable", "Attachable"),
        ("ingress", "Ingress"),
    ] {
        let otherwise = if option == "scope" { Value::Null } else { false.into() };
        let there = if network[key].is_null() { otherwise } else { network[key].clone() };
        if let Some(value) = args.value(option).filter(|value| **value != there) {
            differences.add(option, value.clone(), there);
        }
    }
    compare_map("labels", &wanted.labels, &network["Labels"], differences);
}

/// Requires every requested entry to exist.
fn compare_map(name: &str, wanted: &Map, there: &Value, differences: &mut Differences) {
    if wanted.is_empty() {
        return;
    }
    let Some(entries) = there.as_object().filter(|entries| !entries.is_empty()) else {
        return differences.add(name, wanted.clone(), there.clone());
    };
    for (key, value) in wanted.iter().filter(|(key, value)| entries.get(*key) != Some(value)) {
        differences.add(format!("{name}.{key}"), value.clone(), entries.get(key).cloned().unwrap_or_default());
    }
}

fn compare_pools(wanted: &Wanted, there: &Value, differences: &mut Differences) {
    if wanted.ipam_config.is_empty() {
        return;
    }
    let pools: Vec<Map> = there
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .map(|pool| pool.iter().map(|(key, value)| (pool_key(key), value.clone())).collect())
        .collect();
    if pools.is_empty() {
        let shown: Vec<Value> = wanted.ipam_config.iter().map(whole).collect();
        return differences.add("ipam_config", shown, there.clone());
    }
    for (index, pool) in wanted.ipam_config.iter().enumerate() {
        let same = |key: &str, value: &Value, there: &Map| {
            normalized(key, value) == there.get(key).map(|other| normalized(key, other)).unwrap_or_default()
        };
        let fits = |there: &&Map| {
            pool.iter().filter(|(_, value)| !value.is_null()).all(|(key, value)| same(key, value, there))
        };
        let found = pools.iter().find(fits).cloned().unwrap_or_default();
        for (key, value) in pool.iter().filter(|(key, value)| !value.is_null() && !same(key, value, &found)) {
            differences.add(
                format!("ipam_config[{index}].{key}"),
                value.clone(),
                found.get(key).cloned().unwrap_or_default(),
            );
        }
    }
}

/// All keys of an address range, as the task's options name them.
fn whole(pool: &Map) -> Value {
    let keys = ["subnet", "iprange", "gateway", "aux_addresses"];
    keys.into_iter().map(|key| (key.to_owned(), pool.get(key).cloned().unwrap_or_default())).collect()
}

fn pool_key(key: &str) -> String {
    if key == "AuxiliaryAddresses" { "aux_addresses".to_owned() } else { key.to_lowercase() }
}

/// Normalises the spelling of an address for comparison.
fn normalized(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("subnet" | "iprange", Value::String(text)) => match text.split_once('/') {
            Some((address, length)) => format!("{}/{length}", plain_address(address)).into(),
            None => value.clone(),
        },
        ("gateway", Value::String(text)) => plain_address(text).into(),
        ("aux_addresses", Value::Object(all)) => {
            all.iter().map(|(name, address)| (name.clone(), normalized("gateway", address))).collect()
        }
        _ => value.clone(),
    }
}

/// An address in its shortest form; other text stays unchanged.
pub(super) fn plain_address(text: &str) -> String {
    text.parse::<IpAddr>().map_or_else(|_| text.to_owned(), |address| address.to_string())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(length) = length.parse::<u8>() else { return false };
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => length <= 32,
        Ok(IpAddr::V6(_)) => length <= 128,
        Err(_) => false,
    }
}

/// Creates the network and returns it; `None` in check mode.
fn create(task: &mut Task, wanted: &Wanted) -> Result<Option<Value>, Failure> {
    let args = &task.args;
    let mut data = json!({
        "Name": wanted.name, "Driver": wanted.driver, "Options": wanted.driver_options, "IPAM": null, "CheckDuplicate": null,
        "Labels": wanted.labels,
    });
    for (option, key) in [
        ("config_only", "ConfigOnly"),
        ("enable_ipv6", "EnableIPv6"),
        ("enable_ipv4", "EnableIPv4"),
        ("scope", "Scope"),
        ("attachable", "Attachable"),
        ("ingress", "Ingress"),
    ] {
        if let Some(value) = args.value(option) {
            data[key] = value.clone();
        }
    }
    if let Some(other) = args.filled("config_from") {
        data["ConfigFrom"] = json!({ "Network": other });
    }
    if args.bool("internal") {
        data["Internal"] = true.into();
    }
    let pools: Vec<Value> = wanted
        .ipam_config
        .iter()
        .map(|pool| {
            json!({
                "Subnet": pool.get("subnet"), "IPRange": pool.get("iprange"), "Gateway": pool.get("gateway"),
                "AuxiliaryAddresses": pool.get("aux_addresses"),
            })
        })
        .collect();
    let options = args.value("ipam_driver_options");
    if args.str("ipam_driver").is_some() || options.is_some() || !pools.is_empty() {
        data["IPAM"] = json!({ "Driver": args.str("ipam_driver"), "Config": pools, "Options": options });
    }
    let mut made = None;
    if !task.check {
        let answer = task.engine.call(Request::post("/networks/create").json(&data))?;
        task.warn_of(&answer["Warning"]);
        made = lookup::network_by_id(&task.engine, answer["Id"].as_str().unwrap_or_default())?;
    }
    task.act(format!("Created network {} with driver {}", wanted.name, wanted.driver));
    Ok(made)
}

fn remove(task: &mut Task, wanted: &Wanted, network: &Value, host: &Host) -> Result<(), Failure> {
    for name in members(network) {
        disconnect(task, wanted, &name)?;
    }
    if !task.check {
        task.engine.call(Request::delete(format!("/networks/{}", encoded(&wanted.name))))?;
        // A swarm removes a network with a delay.
        while network["Scope"] == "swarm" && lookup::network(&task.engine, &wanted.name)?.is_some() {
            host.check_cancelled()?;
            thread::sleep(Duration::from_millis(100));
        }
    }
    task.act(format!("Removed network {}", wanted.name));
    Ok(())
}

fn connect(task: &mut Task, wanted: &Wanted, network: Option<&Value>, connected: &[String]) -> Result<(), Failure> {
    let inside = network.map(members).unwrap_or_default();
    for name in connected.iter().filter(|name| !inside.contains(name)) {
        if lookup::container(&task.engine, name)?.is_none() {
            continue;
        }
        if !task.check {
            let data = json!({ "Container": name, "EndpointConfig": null });
            task.engine.call(Request::post(format!("/networks/{}/connect", encoded(&wanted.name))).json(&data))?;
        }
        task.act(format!("Connected container {name}"));
        task.differences.add(format!("connected.{name}"), true, false);
    }
    Ok(())
}

fn disconnect(task: &mut Task, wanted: &Wanted, name: &str) -> Result<(), Failure> {
    if !task.check {
        let data = json!({ "Container": name, "Force": true });
        task.engine.call(Request::post(format!("/networks/{}/disconnect", encoded(&wanted.name))).json(&data))?;
    }
    task.act(format!("Disconnected container {name}"));
    task.differences.add(format!("connected.{name}"), false, true);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_ranges_equal_in_any_notation() {
        let wanted = |subnet: &str| Wanted {
            name: "n".into(),
            driver: "bridge".into(),
            driver_options: Map::new(),
            labels: Map::new(),
            ipam_config: vec![Map::from_iter([("subnet".to_owned(), json!(subnet))])],
        };
        let there = json!([{ "Subnet": "fdd1:ac8c:557:7ce2::/64", "Gateway": "fdd1:ac8c:557:7ce2::1" }]);
        let names = |subnet: &str| {
            let mut differences = Differences::default();
            compare_pools(&wanted(subnet), &there, &mut differences);
            differences.names()
        };
        assert_eq!(names("fdd1:ac8c:0557:7ce2::/64"), json!([]));
        assert_eq!(names("fdd1:ac8c:0557:7ce3::/64"), json!(["ipam_config[0].subnet"]));
        assert!(is_cidr("10.0.0.0/8") && !is_cidr("10.0.0.0") && !is_cidr("10.0.0.0/40"));
    }
}
