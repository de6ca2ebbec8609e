//! `ipaddr`, `ipv4`, `ipv6` and `ipwrap`.

use minijinja::value::ValueKind;
use minijinja::{State, Value};

use super::address::Network;
use crate::filters::call::{Arguments, Outcome};
use crate::python::container::{is_list, list};
use crate::python::number::{self, integer};
use crate::python::{text, truth};

/// Query about one address.
struct Question<'q> {
    network: Network,
    /// Address as given.
    given: &'q str,
    /// Whether the address was given with a prefix.
    has_prefix: bool,
}

type Answer = Result<Value, String>;

fn none() -> Answer {
    Ok(Value::from(()))
}

fn text_answer(text: impl Into<String>) -> Answer {
    Ok(Value::from(text.into()))
}

/// The address as given, if the condition holds.
fn given_if(question: &Question<'_>, holds: bool) -> Answer {
    if holds { text_answer(question.given) } else { none() }
}

/// Queries by name. If a query does not apply, the answer is `none`, in a few cases `false`.
const QUERIES: &[(&str, fn(&Question<'_>) -> Answer)] = &[
    ("", |q| text_answer(if q.has_prefix { q.network.cidr() } else { q.network.ip() })),
    ("6to4", six_to_four),
    ("address", address),
    ("address/prefix", address_prefix),
    ("bool", |_| Ok(Value::from(true))),
    ("broadcast", |q| match q.network.broadcast().filter(|_| q.network.size() > 2) {
        Some(broadcast) => text_answer(q.network.show(broadcast)),
        None => none(),
    }),
    ("cidr", |q| text_answer(q.network.cidr())),
    ("first_usable", |q| match usable(q)? {
        Some((first, _)) => text_answer(q.network.show(first)),
        None => none(),
    }),
    ("gateway", address_prefix),
    ("gw", address_prefix),
    ("host", host),
    ("host/prefix", address_prefix),
    ("hostmask", |q| text_answer(q.network.show(q.network.host_mask()))),
    ("hostnet", address_prefix),
    ("int", |q| match q.has_prefix {
        true => text_answer(format!("{}/{}", q.network.address, q.network.prefix)),
        false => Ok(unsigned(q.network.address)),
    }),
    ("ip", address),
    ("ip/prefix", |q| match is_host(&q.network) && q.network.size() > 1 {
        true => text_answer(q.network.cidr()),
        false => none(),
    }),
    ("ip_netmask", |q| match is_host(&q.network) && q.network.size() > 1 {
        true => text_answer(format!("{} {}", q.network.ip(), q.network.show(q.network.net_mask()))),
        false => none(),
    }),
    ("ipv4", to_v4),
    ("ipv6", to_v6),
    ("last_usable", |q| match usable(q)? {
        Some((_, last)) => text_answer(q.network.show(last)),
        None => none(),
    }),
    ("link-local", |q| given_if(q, q.network.is_in(&["169.254.0.0/16", "fe80::/10"]))),
    ("lo", |q| given_if(q, q.network.is_loopback())),
    ("loopback", |q| given_if(q, q.network.is_loopback())),
    ("multicast", |q| given_if(q, q.network.is_multicast())),
    ("net", |q| match q.network.size() > 1 && q.network.address == q.network.first() {
        true => text_answer(q.network.cidr()),
        false => none(),
    }),
    ("netmask", |q| text_answer(q.network.show(q.network.net_mask()))),
    ("network", |q| text_answer(q.network.show(q.network.first()))),
    ("network/prefix", |q| text_answer(q.network.subnet().cidr())),
    ("network_id", |q| text_answer(q.network.show(q.network.first()))),
    ("network_netmask", |q| {
        text_answer(format!("{} {}", q.network.show(q.network.first()), q.network.show(q.network.net_mask())))
    }),
    ("network_wildcard", |q| {
        text_answer(format!("{} {}", q.network.show(q.network.first()), q.network.show(q.network.host_mask())))
    }),
    ("next_usable", |q| neighbour(q, q.network.address.checked_add(1))),
    ("peer", peer),
    ("prefix", |q| Ok(Value::from(q.network.prefix))),
    ("previous_usable", |q| neighbour(q, q.network.address.checked_sub(1))),
    ("private", |q| given_if(q, !q.network.is_global())),
    ("public", |q| given_if(q, is_public(&q.network))),
    ("range_usable", |q| match usable(q)? {
        Some((first, last)) => text_answer(format!("{}-{}", q.network.show(first), q.network.show(last))),
        None => none(),
    }),
    ("revdns", |q| text_answer(reverse_name(&q.network))),
    ("router", address_prefix),
    ("size", |q| Ok(unsigned(q.network.size()))),
    ("size_usable", |q| {
        Ok(match q.network.size() {
            1 => Value::from(0),
            2 => Value::from(2),
            size => unsigned(size - 2),
        })
    }),
    ("subnet", |q| text_answer(q.network.subnet().cidr())),
    ("type", |q| text_answer(kind(&q.network))),
    ("unicast", |q| given_if(q, !q.network.is_multicast())),
    ("v4", to_v4),
    ("v6", to_v6),
    ("version", |q| Ok(Value::from(q.network.version()))),
    ("wildcard", |q| text_answer(q.network.show(q.network.host_mask()))),
    ("wrap", |q| {
        text_answer(match (q.network.is_v6, q.has_prefix) {
            (true, true) => format!("[{}]/{}", q.network.ip(), q.network.prefix),
            (true, false) => format!("[{}]", q.network.ip()),
            (false, true) => q.network.cidr(),
            (false, false) => q.network.ip(),
        })
    }),
];

fn unsigned(number: u128) -> Value {
    i128::try_from(number).map_or_else(|_| Value::from(number), integer)
}

/// `address` for the address of a host, `network` for the first address of a network.
fn kind(network: &Network) -> &'static str {
    if network.size() == 1 || network.address != network.first() { "address" } else { "network" }
}

fn is_host(network: &Network) -> bool {
    network.size() == 1 || network.address != network.first() || network.broadcast().is_none()
}

fn address(question: &Question<'_>) -> Answer {
    let network = &question.network;
    if is_host(network) || network.is_v6 { text_answer(network.ip()) } else { none() }
}

fn address_prefix(question: &Question<'_>) -> Answer {
    let network = &question.network;
    let edge = network.address == network.first() || network.broadcast() == Some(network.address);
    if network.size() > 2 && edge { Ok(Value::from(false)) } else { text_answer(network.cidr()) }
}

fn host(question: &Question<'_>) -> Answer {
    if is_host(&question.network) { text_answer(question.network.cidr()) } else { none() }
}

/// The usable addresses, if any; an error without a prefix.
fn usable(question: &Question<'_>) -> Result<Option<(u128, u128)>, String> {
    match question.has_prefix {
        true => Ok(question.network.usable()),
        false => Err(format!("'{}' is an address, but a network is needed", question.given)),
    }
}

fn neighbour(question: &Question<'_>, address: Option<u128>) -> Answer {
    match (usable(question)?, address) {
        (Some((first, last)), Some(address)) if (first..=last).contains(&address) => {
            text_answer(question.network.show(address))
        }
        _ => none(),
    }
}

fn peer(question: &Question<'_>) -> Answer {
    usable(question)?;
    let network = &question.network;
    match (network.size(), network.address % 4) {
        (2, _) => text_answer(network.show(network.address ^ 1)),
        (4, 1 | 2) => text_answer(network.show(network.address ^ 3)),
        (4, _) => Err(format!("'{}' is the network's or the broadcast address and has no peer", question.given)),
        _ => Err(format!("'{}' is not a network of two hosts", question.given)),
    }
}

fn to_v4(question: &Question<'_>) -> Answer {
    let network = &question.network;
    if !network.is_v6 {
        return text_answer(question.given);
    }
    // Both the mapped form (`::ffff:a.b.c.d`) and the old compatible form (`::a.b.c.d`).
    match network.address >> 32 {
        0 | 0xffff => {
            let v4 = Network {
                is_v6: false,
                address: network.address & 0xffff_ffff,
                prefix: network.prefix.saturating_sub(96),
            };
            text_answer(v4.cidr())
        }
        _ => Ok(Value::from(false)),
    }
}

fn to_v6(question: &Question<'_>) -> Answer {
    let network = &question.network;
    if network.is_v6 {
        return text_answer(question.given);
    }
    let mapped = Network { is_v6: true, address: network.address | (0xffff << 32), prefix: network.prefix + 96 };
    text_answer(mapped.cidr())
}

fn six_to_four(question: &Question<'_>) -> Answer {
    let network = &question.network;
    if network.is_v6 {
        let plain = !question.has_prefix || network.address != network.first();
        return if plain && network.is_in(&["2002::/16"]) {
            text_answer(question.given)
        } else {
            Ok(Value::from(false))
        };
    }
    if network.is_multicast() || network.size() > 1 && network.address == network.first() {
        return Ok(Value::from(false));
    }
    let (high, low) = (network.address >> 16, network.address & 0xffff);
    text_answer(format!("2002:{high:04x}:{low:04x}::1/48"))
}

fn is_public(network: &Network) -> bool {
    let bits = network.address;
    let hosts = bits & bits.wrapping_add(1) == 0;
    let inverted = Network { prefix: 0, ..*network }.host_mask() ^ bits;
    let mask = inverted & inverted.wrapping_add(1) == 0;
    !network.is_multicast() && network.is_global() && !network.is_loopback() && !hosts && !mask
}

fn reverse_name(network: &Network) -> String {
    match network.is_v6 {
        true => {
            let digits: Vec<String> =
                format!("{:032x}", network.address).chars().rev().map(|digit| digit.to_string()).collect();
            format!("{}.ip6.arpa.", digits.join("."))
        }
        false => {
            let shown = network.ip();
            let parts: Vec<&str> = shown.split('.').rev().collect();
            format!("{}.in-addr.arpa.", parts.join("."))
        }
    }
}

/// Reads an address from a value, and whether it had a prefix.
pub(crate) fn read(value: &Value, version: Option<u32>) -> Option<(Network, String, bool)> {
    let shown = text(value);
    if !truth(value) || value.kind() == ValueKind::Bool {
        return None;
    }
    if shown.bytes().all(|digit| digit.is_ascii_digit()) {
        let number = shown.parse::<u128>().ok()?;
        let is_v6 = version == Some(6) || number > u128::from(u32::MAX);
        let network = Network::host(is_v6, number);
        return Some((network, network.cidr(), false));
    }
    if let Some(network) = Network::parse(&shown) {
        return Some((network, shown.clone(), shown.contains('/')));
    }
    let (address, prefix) = shown.split_once('/')?;
    let (address, prefix) = (address.parse::<u128>().ok()?, prefix.parse::<u32>().ok()?);
    let network = Network { is_v6: address > u128::from(u32::MAX) || prefix > 32, address, prefix };
    (prefix <= 128).then(|| (network, network.cidr(), true))
}

/// Answers a query about one value.
fn ask(value: &Value, query: &Value, version: Option<u32>) -> Answer {
    let Some((network, given, has_prefix)) = read(value, version) else {
        return Ok(Value::from(false));
    };
    let name = text(query);
    let question = Question { network, given: &given, has_prefix };
    let known = QUERIES.iter().find(|(known, _)| *known == name);
    if version.is_some_and(|version| version != network.version()) {
        return Ok(Value::from(false));
    }
    if let Some((_, answer)) = known {
        return answer(&question);
    }
    if let Some(index) = number::parse_int(&name, 10) {
        if network.size() == 1 {
            return text_answer(if has_prefix { network.cidr() } else { network.ip() });
        }
        let address = match u128::try_from(index) {
            Ok(index) => network.first().checked_add(index),
            Err(_) => (network.last() + 1).checked_sub(index.unsigned_abs()),
        };
        return match address.filter(|address| (network.first()..=network.last()).contains(address)) {
            Some(address) => text_answer(format!("{}/{}", network.show(address), network.prefix)),
            None => Ok(Value::from(false)),
        };
    }
    match Network::parse(&name) {
        Some(range) => given_if(&question, range.contains(&network)),
        None => Err(format!("there is no query '{name}'")),
    }
}

fn answer(args: &Arguments, version: Option<u32>) -> Outcome {
    let query = args.get("query").cloned().unwrap_or_else(|| Value::from(""));
    let failed = |reason: String| args.failed(reason);
    let value = args.value();
    if !is_list(value) && value.as_str().is_none() && !value.is_integer() && value.kind() != ValueKind::Bool {
        return Err(args.unsuitable("an address or a list of addresses"));
    }
    let version = match args.integer("version")? {
        Some(version) if version != 0 => u32::try_from(version).ok(),
        _ => version,
    };
    answers(value, &query, version).map_err(failed)
}

/// The answer for one address. For a list, all answers other than `none` and `false`.
fn answers(value: &Value, query: &Value, version: Option<u32>) -> Answer {
    if !is_list(value) {
        return ask(value, query, version);
    }
    let mut found = Vec::new();
    for item in value.try_iter().into_iter().flatten() {
        let answer = answers(&item, query, version)?;
        if truth(&answer) {
            found.push(answer);
        }
    }
    Ok(list(found))
}

pub(in crate::filters) fn ipaddr(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    answer(args, None)
}

pub(in crate::filters) fn ipv4(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    answer(args, Some(4))
}

pub(in crate::filters) fn ipv6(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    answer(args, Some(6))
}

/// Puts IPv6 addresses in brackets and keeps everything else.
pub(in crate::filters) fn ipwrap(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let wrap = |value: &Value| match ask(value, &Value::from("wrap"), None) {
        Ok(wrapped) if truth(&wrapped) => wrapped,
        _ => value.clone(),
    };
    let value = args.value();
    match is_list(value) {
        true => Ok(list(args.items()?.iter().map(wrap).collect())),
        false if value.as_str().is_some() || value.kind() == ValueKind::Bool => Ok(wrap(value)),
        false => Err(args.unsuitable("an address or a list of addresses")),
    }
}
