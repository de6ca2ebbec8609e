//! `published_ports` and `exposed_ports`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, Ipv6Addr},
};

use serde_json::{Value, json};

use super::super::{engine::Engine, lookup};
use crate::{Args, Failure, Map};

/// The published ports in the engine's format: addresses and ports of the host for each port of the container.
pub(super) fn published(args: &Args, engine: &Engine) -> Result<Option<Map>, Failure> {
    if args.value("published_ports").is_none() {
        return Ok(None);
    }
    let mut bindings: BTreeMap<usize, (String, Vec<Binding>)> = BTreeMap::new();
    for text in args.list("published_ports") {
        if text == "all" {
            return Err(Failure::new(
                "Specifying \"all\" in published_ports is no longer allowed. Set publish_all_ports to \"true\" instead to randomly assign port mappings for those not specified by published_ports.",
            ));
        }
        for (port, binding) in parse(text)? {
            match bindings.values_mut().find(|(known, _)| *known == port) {
                Some((_, all)) => all.push(binding),
                None => {
                    bindings.insert(bindings.len(), (port, vec![binding]));
                }
            }
        }
    }
    let unnamed = bindings.values().any(|(_, all)| all.iter().any(|binding| binding.address.is_none()));
    let usual = if unnamed { default_address(args, engine)? } else { String::new() };
    let form =
        |binding: &Binding| json!({ "HostIp": binding.address.as_ref().unwrap_or(&usual), "HostPort": binding.port });
    Ok(Some(bindings.into_values().map(|(port, all)| (port, all.iter().map(form).collect())).collect()))
}

/// Exposed ports, including the published ones, as `port/protocol`.
pub(super) fn exposed(args: &Args, published: Option<&Map>) -> Result<Vec<String>, Failure> {
    let mut all: BTreeSet<(u32, String)> = BTreeSet::new();
    for text in args.list("exposed_ports") {
        let text = text.trim();
        let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        for port in
            range(ports).ok_or_else(|| Failure::new(format!("Cannot parse port range '{ports}' of exposed_ports.")))?
        {
            all.insert((port, protocol.to_owned()));
        }
    }
    for key in published.into_iter().flat_map(Map::keys) {
        if let Some((port, protocol)) = key.split_once('/')
            && let Ok(port) = port.parse()
        {
            all.insert((port, protocol.to_owned()));
        }
    }
    Ok(all.into_iter().map(|(port, protocol)| format!("{port}/{protocol}")).collect())
}

/// Address and port of the host. Without an address, the default applies; an empty port means any.
#[derive(Debug, PartialEq, Eq)]
struct Binding {
    address: Option<String>,
    port: String,
}

/// Parses an entry `[[address:]port:]port[/protocol]`, in which ports may be ranges.
fn parse(text: &str) -> Result<Vec<(String, Binding)>, Failure> {
    let parts = split(text)?;
    let Some((last, before)) = parts.split_last() else { return Ok(Vec::new()) };
    let (ports, protocol) = last.split_once('/').unwrap_or((last, "tcp"));
    let ranged = |ports: &str| -> Result<Vec<u32>, Failure> {
        let kind = if ports.contains('-') { "port range" } else { "port" };
        range(ports).ok_or_else(|| Failure::new(format!("Invalid {kind}: \"{ports}\"")))
    };
    let inside = ranged(ports)?;
    let (address, outside) = match before {
        [] => (None, None),
        [outside] => (None, Some(outside.as_str())),
        [address, outside] => (Some(host_address(address)?), Some(outside.as_str()).filter(|ports| !ports.is_empty())),
        _ => {
            return Err(Failure::new(format!(
                "Invalid port description \"{text}\" - expected 1 to 3 colon-separated parts, but got {}. Maybe you forgot to use square brackets ([...]) around an IPv6 address?",
                parts.len()
            )));
        }
    };
    let outside: Vec<String> = match outside {
        None => vec![String::new(); inside.len()],
        // For a single port, the engine chooses a port from the range.
        Some(ports) if inside.len() == 1 => vec![ports.to_owned()],
        Some(ports) => ranged(ports)?.into_iter().map(|port| port.to_string()).collect(),
    };
    let pairs = inside.into_iter().zip(outside);
    Ok(pairs
        .map(|(inside, port)| (format!("{inside}/{protocol}"), Binding { address: address.clone(), port }))
        .collect())
}

/// Splits at colons outside of brackets.
fn split(text: &str) -> Result<Vec<String>, Failure> {
    let mut parts = vec![String::new()];
    let mut inside = false;
    for character in text.chars() {
        match character {
            ':' if !inside => parts.push(String::new()),
            other => {
                inside = (inside || other == '[') && other != ']';
                if let Some(part) = parts.last_mut() {
                    part.push(other);
                }
            }
        }
    }
    if inside {
        return Err(Failure::new(format!(
            "The port description \"{text}\" has an opening \"[\" without a closing \"]\"."
        )));
    }
    Ok(parts)
}

fn host_address(text: &str) -> Result<String, Failure> {
    let plain = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(plain) = plain
        && plain.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
    {
        // An address with a zone keeps its brackets, as the engine expects.
        return Ok(if plain.contains('%') { text } else { plain }.to_owned());
    }
    if text.parse::<Ipv4Addr>().is_ok() {
        return Ok(text.to_owned());
    }
    Err(Failure::new(format!(
        "Bind addresses for published ports must be IPv4 or IPv6 addresses, not hostnames. Use the dig lookup to resolve hostnames. (Found hostname: {text})"
    )))
}

fn range(text: &str) -> Option<Vec<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last <= 65535).then(|| (first..=last).collect())
}

/// Address of ports without one: the task's, otherwise from the first network that sets one.
fn default_address(args: &Args, engine: &Engine) -> Result<String, Failure> {
    if let Some(address) = args.str("default_host_ip") {
        return Ok(address.to_owned());
    }
    for name in args
        .value("networks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|network| network["name"].as_str())
    {
        let Some(network) = lookup::network(engine, name)? else {
            return Err(Failure::new(format!("Cannot inspect the network '{name}' to determine the default IP")));
        };
        let address = network["Options"]["com.docker.network.bridge.host_binding_ipv4"].as_str().unwrap_or_default();
        if network["Driver"] == "bridge" && !address.is_empty() {
            return Ok(address.to_owned());
        }
    }
    Ok("0.0.0.0".to_owned())
}

/// Fails if `default_host_ip` is not an address.
pub(super) fn check_default_address(args: &Args) -> Result<(), Failure> {
    let Some(address) = args.filled("default_host_ip") else { return Ok(()) };
    let plain = address.trim_start_matches('[').trim_end_matches(']');
    if address.parse::<Ipv4Addr>().is_ok() || plain.parse::<Ipv6Addr>().is_ok() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "The value of default_host_ip must be an empty string, an IPv4 address, or an IPv6 address. Got \"{address}\" instead."
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let form = |(port, binding): (String, Binding)| {
            format!("{port} {} {}", binding.address.unwrap_or_else(|| "-".into()), binding.port)
        };
        parse(text).unwrap().into_iter().map(form).collect()
    }

    #[test]
    fn published_ports_parsed() {
        assert_eq!(shown("80"), ["80/tcp - "]);
        assert_eq!(shown("8080:80/udp"), ["80/udp - 8080"]);
        assert_eq!(shown("8000-8010:80"), ["80/tcp - 8000-8010"]);
        assert_eq!(shown("8000-8001:80-81"), ["80/tcp - 8000", "81/tcp - 8001"]);
        assert_eq!(shown("127.0.0.1::80"), ["80/tcp 127.0.0.1 "]);
        assert_eq!(shown("[::1]:8080:80"), ["80/tcp ::1 8080"]);
        for wrong in ["name:1:2", "a", "2-1", "1:2:3:4", "[::1:80", "70000"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
