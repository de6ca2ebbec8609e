//! Offload features of network devices, as in `ethtool --show-features`, from the kernel's ethtool netlink family.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::netlink::{self, Attributes};
use crate::Map;

/// Requests to the controller of generic netlink and to the ethtool family (linux/genetlink.h,
/// linux/ethtool_netlink.h).
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET_FEATURES: u8 = 11;
/// Length of the header of each message: command, version, two reserved bytes.
const GENERIC_HEADER: usize = 4;
/// Attributes in an answer about features.
const DEVICE: u16 = 1;
const DEVICE_NAME: u16 = 2;
const CHANGEABLE: u16 = 2;
const WANTED: u16 = 3;
const ACTIVE: u16 = 4;
const NEVER_CHANGED: u16 = 5;
const BITS: u16 = 3;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// Group names of older ethtool releases, with the kernel's features in each group.
const GROUPS: [(&str, &str, &str); 12] = [
    ("rx-checksumming", "rx-checksum", ""),
    ("tx-checksumming", "tx-checksum-", ""),
    ("scatter-gather", "tx-scatter-gather", ""),
    ("tcp-segmentation-offload", "tx-tcp", "-segmentation"),
    ("udp-fragmentation-offload", "tx-udp-fragmentation", ""),
    ("generic-segmentation-offload", "tx-generic-segmentation", ""),
    ("generic-receive-offload", "rx-gro", "="),
    ("large-receive-offload", "rx-lro", ""),
    ("rx-vlan-offload", "rx-vlan-hw-parse", ""),
    ("tx-vlan-offload", "tx-vlan-hw-insert", ""),
    ("ntuple-filters", "rx-ntuple-filter", ""),
    ("receive-hashing", "rx-hashing", ""),
];

/// Features of all devices by name; empty if the kernel lacks the family.
pub(super) fn all() -> BTreeMap<String, Map> {
    let messages = family().and_then(|family| netlink::ask_generic(family, netlink::DUMP, &[GET_FEATURES, 1, 0, 0]));
    messages.unwrap_or_default().iter().filter_map(|message| device(message)).collect()
}

/// Number of the ethtool family.
fn family() -> Option<u16> {
    let name = b"ethtool\0";
    let mut request = vec![GET_FAMILY, 1, 0, 0];
    request.extend(u16::try_from(GENERIC_HEADER + name.len()).ok()?.to_ne_bytes());
    request.extend(FAMILY_NAME.to_ne_bytes());
    request.extend(name);
    let messages = netlink::ask_generic(CONTROLLER, 0, &request)?;
    let id = find(messages.first()?.get(GENERIC_HEADER..)?, FAMILY_ID)?;
    Some(u16::from_ne_bytes(id.try_into().ok()?))
}

fn find(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    Attributes(attributes).find(|(kind, _)| *kind == wanted).map(|(_, bytes)| bytes)
}

/// Parses a feature set: each name, and whether it is set.
fn bits(set: Option<&[u8]>) -> Vec<(String, bool)> {
    let bits = set.and_then(|set| find(set, BITS)).unwrap_or_default();
    let bit = |bytes| {
        // Unused bits have an empty name.
        let name = find(bytes, BIT_NAME).filter(|name| name.len() > 1)?;
        Some((String::from_utf8_lossy(name).trim_end_matches('\0').to_owned(), find(bytes, BIT_VALUE).is_some()))
    };
    Attributes(bits).filter_map(|(_, bytes)| bit(bytes)).collect()
}

fn device(message: &[u8]) -> Option<(String, Map)> {
    let attributes = message.get(GENERIC_HEADER..)?;
    let name = find(find(attributes, DEVICE)?, DEVICE_NAME)?;
    let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
    // These attributes list only set bits.
    let names = |kind| bits(find(attributes, kind)).into_iter().map(|(name, _)| name).collect::<HashSet<String>>();
    let known = bits(find(attributes, CHANGEABLE));
    Some((name, formatted(&known, &names(WANTED), &names(ACTIVE), &names(NEVER_CHANGED))))
}

/// Formats features like ethtool: `on` or `off`, with notes on fixed or requested values.
fn formatted(
    known: &[(String, bool)],
    wanted: &HashSet<String>,
    active: &HashSet<String>,
    never_changed: &HashSet<String>,
) -> Map {
    let word = |is_on: bool| if is_on { "on" } else { "off" };
    let state = |name: &str, can_change: bool| -> Value {
        let is_on = active.contains(name);
        let more = match wanted.contains(name) {
            _ if !can_change || never_changed.contains(name) => String::new() + " [fixed]",
            is_wanted if is_wanted != is_on => format!(" [requested {}]", word(is_wanted)),
            _ => String::new(),
        };
        format!("{}{more}", word(is_on)).into()
    };
    let mut map = Map::new();
    let mut add = |name: &str, value: Value| map.insert(name.replace('-', "_"), value);
    let mut alone = HashSet::new();
    for (group, start, end) in GROUPS {
        let is_member = |name: &str| match end {
            "=" => name == start,
            _ => name.starts_with(start) && name.ends_with(end),
        };
        let members: Vec<_> = known.iter().filter(|(name, _)| is_member(name)).collect();
        match members[..] {
            [] => continue,
            // The group consists of this feature alone.
            [(name, can_change)] => {
                add(group, state(name, *can_change));
                alone.insert(name.as_str());
            }
            _ => {
                add(group, word(members.iter().any(|(name, _)| active.contains(name))).into());
            }
        }
    }
    for (name, can_change) in known.iter().filter(|(name, _)| !alone.contains(name.as_str())) {
        add(name, state(name, *can_change));
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_formatted_like_ethtool() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<HashSet<_>>();
        let known = [
            ("rx-checksum", true),
            ("rx-gro", true),
            ("rx-gro-hw", false),
            ("tx-checksum-ipv4", false),
            ("tx-checksum-sctp", true),
        ];
        let known = known.map(|(name, can_change)| (name.to_owned(), can_change));
        let map = formatted(
            &known,
            &set(&["rx-gro"]),
            &set(&["rx-checksum", "tx-checksum-sctp"]),
            &set(&["tx-checksum-sctp"]),
        );
        let expected = serde_json::json!({
            "rx_checksumming": "on [requested off]", "generic_receive_offload": "off [requested on]", "rx_gro_hw": "off [fixed]",
            "tx_checksumming": "on", "tx_checksum_ipv4": "off [fixed]", "tx_checksum_sctp": "on [fixed]",
        });
        assert_eq!(Value::from(map), expected);
    }

    #[test]
    fn features_of_loopback_device_read() {
        // Kernels before 5.7 lack this family.
        if let Some(loopback) = all().get("lo") {
            assert_eq!(loopback["highdma"], "on [fixed]");
        }
    }
}
