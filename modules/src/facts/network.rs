//! Network interfaces, their addresses and the default routes, from netlink and `/sys/class/net`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net::AddressFamily;
use serde_json::{Value, json};

use super::{
    Facts, Root, features,
    netlink::{self, Address},
};
use crate::Map;

/// Public addresses whose routes determine the default interface; no packet is sent to them.
const FAR_AWAY: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(8, 8, 8, 8), Ipv6Addr::new(0x2404, 0x6800, 0x400a, 0x800, 0, 0, 0, 0x1012));

/// `interfaces`, a fact per interface, `default_ipv4`, `default_ipv6` and the lists of addresses.
pub(crate) fn collect(root: &Root, facts: &mut Facts) {
    let addresses = netlink::addresses().unwrap_or_else(|| from_proc(root));
    let names = root.names("/sys/class/net");
    let mut interfaces = Map::new();
    let mut features = features::all();
    for name in names.iter().filter(|name| root.path("/sys/class/net").join(name).is_dir()) {
        let mut interface = interface(root, name);
        if let Some(features) = features.remove(name) {
            interface.insert("features".into(), features.into());
        }
        interfaces.insert(name.clone(), interface.into());
    }
    let index =
        |name: &str| root.line(&format!("/sys/class/net/{name}/ifindex")).and_then(|text| text.parse::<u32>().ok());
    let numbers: Vec<(u32, String)> = names.iter().filter_map(|name| Some((index(name)?, name.clone()))).collect();
    let name_of = |number: u32| numbers.iter().find(|(index, _)| *index == number).map(|(_, name)| name.as_str());

    let (mut four, mut six) = (Vec::<String>::new(), Vec::<String>::new());
    // Primary addresses come first, because they define the interface's own entry.
    let (secondary, primary): (Vec<&Address>, Vec<&Address>) = addresses.iter().partition(|address| address.secondary);
    for address in primary.into_iter().chain(secondary) {
        let Some(device) = name_of(address.interface) else { continue };
        let text = address.address.to_string();
        match address.address {
            IpAddr::V4(own) => {
                if !text.starts_with("127.") {
                    four.push(text);
                }
                add_four(&mut interfaces, device, own, address);
            }
            IpAddr::V6(_) => {
                if text != "::1" {
                    six.push(text.clone());
                }
                let entry = json!({ "address": text, "prefix": address.prefix.to_string(), "scope": address.scope });
                push(&mut interfaces, device, "ipv6", entry);
            }
        }
    }
    facts.set("default_ipv4", default_way(FAR_AWAY.0.into(), &addresses, &interfaces, &name_of));
    facts.set("default_ipv6", default_way(FAR_AWAY.1.into(), &addresses, &interfaces, &name_of));
    facts.set("all_ipv4_addresses", four);
    facts.set("all_ipv6_addresses", six);
    facts.set(
        "locally_reachable_ips",
        json!({ "ipv4": netlink::locally_reachable(AddressFamily::INET).unwrap_or_default(), "ipv6": netlink::locally_reachable(AddressFamily::INET6).unwrap_or_default() }),
    );
    facts.set("interfaces", interfaces.keys().map(|name| name.replace(':', "_")).collect::<Vec<_>>());
    for (name, value) in interfaces {
        facts.set(&name.replace(':', "_"), value);
    }
}

fn network_of(own: Ipv4Addr, prefix: u8) -> (Ipv4Addr, Ipv4Addr) {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    (Ipv4Addr::from(mask), Ipv4Addr::from(u32::from(own) & mask))
}

fn four_facts(own: Ipv4Addr, address: &Address) -> Map {
    let prefix = if address.peer { 32 } else { address.prefix };
    let (netmask, network) = network_of(own, prefix);
    let broadcast =
        address.broadcast.filter(|_| !address.peer).map(|broadcast| broadcast.to_string()).unwrap_or_default();
    let mut map = Map::new();
    map.insert("address".into(), own.to_string().into());
    map.insert("broadcast".into(), broadcast.into());
    map.insert("netmask".into(), netmask.to_string().into());
    map.insert("network".into(), network.to_string().into());
    map.insert("prefix".into(), prefix.to_string().into());
    map
}

fn add_four(interfaces: &mut Map, device: &str, own: Ipv4Addr, address: &Address) {
    let label = address.label.as_deref().unwrap_or(device);
    let entry = Value::from(four_facts(own, address));
    if label != device {
        interfaces.entry(label.to_owned()).or_insert_with(|| Map::new().into());
    }
    let has_one = interfaces.get(label).is_some_and(|interface| interface.get("ipv4").is_some());
    if address.secondary || has_one {
        push(interfaces, label, "ipv4_secondaries", entry.clone());
        if address.secondary && label != device {
            push(interfaces, device, "ipv4_secondaries", entry);
        }
    } else if let Some(interface) = interfaces.get_mut(label).and_then(Value::as_object_mut) {
        interface.insert("ipv4".into(), entry);
    }
}

fn push(interfaces: &mut Map, name: &str, key: &str, entry: Value) {
    if let Some(interface) = interfaces.get_mut(name).and_then(Value::as_object_mut)
        && let Some(list) = interface.entry(key.to_owned()).or_insert_with(|| json!([])).as_array_mut()
    {
        list.push(entry);
    }
}

fn default_way<'a>(
    to: IpAddr,
    addresses: &[Address],
    interfaces: &Map,
    name_of: &dyn Fn(u32) -> Option<&'a str>,
) -> Map {
    let mut map = Map::new();
    let Some(way) = netlink::way_to(to) else { return map };
    let Some(device) = way.interface.and_then(name_of) else { return map };
    if let Some(gateway) = way.gateway {
        map.insert("gateway".into(), gateway.to_string().into());
    }
    map.insert("interface".into(), device.into());
    let Some(source) = way.source else { return map };
    map.insert("address".into(), source.to_string().into());
    let Some(address) = addresses.iter().find(|address| address.address == source) else { return map };
    match source {
        IpAddr::V4(own) => {
            map.extend(four_facts(own, address));
            map.insert("alias".into(), address.label.as_deref().unwrap_or(device).into());
        }
        IpAddr::V6(_) => {
            map.insert("prefix".into(), address.prefix.to_string().into());
            map.insert("scope".into(), address.scope.into());
        }
    }
    let of = |key: &str| interfaces.get(device).and_then(|interface| interface.get(key)).cloned();
    map.insert("macaddress".into(), of("macaddress").unwrap_or_else(|| "00:00:00:00:00:00".into()));
    map.insert("mtu".into(), of("mtu").unwrap_or(Value::Null));
    map.insert("type".into(), of("type").unwrap_or_else(|| "unknown".into()));
    map
}

/// Facts of an interface from sysfs.
fn interface(root: &Root, name: &str) -> Map {
    let folder = format!("/sys/class/net/{name}");
    let line = |file: &str| root.line(&format!("{folder}/{file}"));
    let number = |file: &str| line(file).and_then(|text| text.parse::<i64>().ok());
    let mut map = Map::new();
    map.insert("device".into(), name.into());
    if let Some(address) = line("address").filter(|address| address != "00:00:00:00:00:00") {
        map.insert("macaddress".into(), address.into());
    }
    if let Some(mtu) = number("mtu") {
        map.insert("mtu".into(), mtu.into());
    }
    if let Some(state) = line("operstate") {
        map.insert("active".into(), (state != "down").into());
    }
    if let Some(module) = root.real_path(&format!("{folder}/device/driver/module")) {
        map.insert("module".into(), module.rsplit('/').next().unwrap_or_default().into());
    }
    if let Some(kind) = line("type") {
        let kind = match kind.as_str() {
            "1" => "ether",
            "32" => "infiniband",
            "512" => "ppp",
            "772" => "loopback",
            "65534" => "tunnel",
            _ => "unknown",
        };
        map.insert("type".into(), kind.into());
    }
    if root.exists(&format!("{folder}/bridge")) {
        map.insert("type".into(), "bridge".into());
        map.insert("interfaces".into(), root.names(&format!("{folder}/brif")).into());
        map.insert("id".into(), line("bridge/bridge_id").unwrap_or_default().into());
        map.insert("stp".into(), (line("bridge/stp_state").as_deref() == Some("1")).into());
    }
    if root.exists(&format!("{folder}/bonding")) {
        let first = |file: &str| {
            line(file).and_then(|text| text.split_whitespace().next().map(str::to_owned)).unwrap_or_default()
        };
        map.insert("type".into(), "bonding".into());
        let slaves = line("bonding/slaves").unwrap_or_default();
        map.insert("slaves".into(), slaves.split_whitespace().collect::<Vec<_>>().into());
        for key in ["mode", "miimon", "lacp_rate"] {
            map.insert(key.to_owned(), first(&format!("bonding/{key}")).into());
        }
        if let Some(primary) = line("bonding/primary") {
            map.insert("primary".into(), primary.into());
            if let Some(all) = line("bonding/all_slaves_active") {
                map.insert("all_slaves_active".into(), (all == "1").into());
            }
        }
    }
    if root.exists(&format!("{folder}/bonding_slave")) {
        map.insert("perm_macaddress".into(), line("bonding_slave/perm_hwaddr").unwrap_or_default().into());
    }
    if let Some(device) = root.link_name(&format!("{folder}/device")) {
        map.insert("pciid".into(), device.into());
    }
    if let Some(speed) = number("speed") {
        map.insert("speed".into(), speed.into());
    }
    if let Some(flags) = line("flags").and_then(|text| i64::from_str_radix(text.trim_start_matches("0x"), 16).ok()) {
        map.insert("promisc".into(), (flags & 0x100 != 0).into());
    }
    map
}

/// Reads `/proc/net` where a sandbox forbids netlink; it provides IPv6 addresses and local IPv4 addresses.
fn from_proc(root: &Root) -> Vec<Address> {
    let table = root.read("/proc/net/if_inet6").unwrap_or_default();
    let six = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[address, interface, prefix, scope, flags, label] = words.as_slice() else { return None };
        Some(Address {
            interface: u32::from_str_radix(interface, 16).ok()?,
            address: Ipv6Addr::from(u128::from_str_radix(address, 16).ok()?).into(),
            peer: false,
            prefix: u8::from_str_radix(prefix, 16).ok()?,
            broadcast: None,
            scope: match scope {
                "10" => "host",
                "20" => "link",
                "40" => "site",
                _ => "global",
            },
            secondary: u8::from_str_radix(flags, 16).ok()? & 1 != 0,
            label: Some(label.to_owned()),
        })
    });
    six.collect()
}

#[cfg(test)]
mod tests {
    use super::{super::root::tests::tree, *};

    #[test]
    fn interface_alias_and_secondary_address_listed() {
        let mut interfaces = Map::new();
        interfaces.insert("eth0".into(), json!({ "device": "eth0" }));
        let address = |text: &str, secondary: bool, label: &str| Address {
            interface: 2,
            address: text.parse().unwrap(),
            peer: false,
            prefix: 24,
            broadcast: None,
            scope: "global",
            secondary,
            label: Some(label.to_owned()),
        };
        for (text, secondary, label) in
            [("10.0.0.5", false, "eth0"), ("10.0.0.6", true, "eth0"), ("10.0.0.7", true, "eth0:1")]
        {
            add_four(&mut interfaces, "eth0", text.parse().unwrap(), &address(text, secondary, label));
        }
        assert_eq!(interfaces["eth0"]["ipv4"]["network"], "10.0.0.0");
        assert_eq!(interfaces["eth0"]["ipv4"]["netmask"], "255.255.255.0");
        assert_eq!(interfaces["eth0"]["ipv4_secondaries"][0]["address"], "10.0.0.6");
        assert_eq!(interfaces["eth0"]["ipv4_secondaries"][1]["address"], "10.0.0.7");
        assert_eq!(interfaces["eth0:1"]["ipv4_secondaries"][0]["address"], "10.0.0.7");
    }

    #[test]
    fn bridge_ports_listed() {
        let (_folder, root) = tree(&[
            ("/sys/class/net/br0/address", "02:00:00:00:00:01\n"),
            ("/sys/class/net/br0/mtu", "1500\n"),
            ("/sys/class/net/br0/operstate", "up\n"),
            ("/sys/class/net/br0/type", "1\n"),
            ("/sys/class/net/br0/bridge/bridge_id", "8000.020000000001\n"),
            ("/sys/class/net/br0/bridge/stp_state", "0\n"),
            ("/sys/class/net/br0/brif/veth1/port_no", "0x1\n"),
        ]);
        let bridge = Value::from(interface(&root, "br0"));
        assert_eq!(bridge["type"], "bridge");
        assert_eq!(bridge["interfaces"], json!(["veth1"]));
        assert_eq!(bridge["stp"], false);
        assert_eq!(bridge["active"], true);
    }
}
