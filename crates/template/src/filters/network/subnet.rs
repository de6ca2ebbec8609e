//! Subnets, and arithmetic with addresses.

use minijinja::{State, Value};

use super::address::Network;
use super::hardware;
use super::ipaddr::read;
use crate::filters::call::{Arguments, Outcome, shown};
use crate::python::container::{dict, is_list, list};
use crate::python::number::{self, integer};
use crate::python::text;

/// Maximum number of addresses; more are surely a mistake.
const MOST_ADDRESSES: u128 = 1 << 20;

fn network(args: &Arguments, value: &Value) -> Result<Network, minijinja::Error> {
    read(value, None)
        .map(|(network, _, _)| network)
        .ok_or_else(|| args.failed(format!("{} is not an IP address or network", shown(value))))
}

fn no() -> Outcome {
    Ok(Value::from(false))
}

pub(in crate::filters) fn ipsubnet(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let Some((value, _, _)) = read(args.value(), None) else {
        return no();
    };
    let value = value.subnet();
    let query = args.text_of("query").unwrap_or_default();
    if query.is_empty() {
        return Ok(Value::from(value.cidr()));
    }
    if !query.bytes().all(|digit| digit.is_ascii_digit()) {
        let range = network(args, &Value::from(query.as_str()))?.subnet();
        if !range.contains(&value) {
            return Err(args.failed(format!("{} is not in the network {}", value.cidr(), range.cidr())));
        }
        let index = (value.address - range.address) >> (value.bits() - value.prefix).min(127);
        return Ok(Value::from((index + 1).to_string()));
    }
    let Some(prefix) = query.parse::<u32>().ok().filter(|prefix| *prefix <= value.bits()) else {
        return no();
    };
    let index = match args.some("index") {
        None => None,
        Some(index) => Some(number::to_int(index).ok_or_else(|| args.wrong("index", "an integer", index))?),
    };
    if value.size() == 1 {
        // Networks around one address, from the wanted prefix to the narrowest.
        let count = i128::from(value.prefix) - i128::from(prefix);
        let index = index.unwrap_or(0);
        let place = if index < 0 { count + index } else { index };
        return match u32::try_from(place) {
            Ok(place) if i128::from(place) < count => {
                Ok(Value::from(value.with_prefix(prefix + place).subnet().cidr()))
            }
            _ => no(),
        };
    }
    let Some(more) = prefix.checked_sub(value.prefix) else {
        return match index {
            None => Err(args.failed(format!("/{prefix} is larger than {}", value.cidr()))),
            Some(0) => Ok(Value::from(value.with_prefix(prefix).cidr())),
            Some(_) => no(),
        };
    };
    let count = 1u128.checked_shl(more).unwrap_or(u128::MAX);
    let Some(index) = index else {
        return Ok(Value::from(count.to_string()));
    };
    let place = match u128::try_from(index) {
        Ok(place) => Some(place),
        Err(_) => count.checked_sub(index.unsigned_abs()),
    };
    match place.filter(|place| *place < count) {
        Some(place) => {
            let offset = place.checked_shl(value.bits() - prefix).unwrap_or(0);
            Ok(Value::from(Network { address: value.address + offset, prefix, ..value }.cidr()))
        }
        None => no(),
    }
}

pub(in crate::filters) fn ipmath(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let start = network(args, args.value())?;
    let amount = args.integer("amount")?.ok_or_else(|| args.error("needs the argument 'amount'"))?;
    let moved = i128::try_from(start.address).ok().and_then(|address| address.checked_add(amount));
    let address = match moved {
        Some(moved) => u128::try_from(moved).ok(),
        None => start.address.checked_add_signed(amount),
    };
    match address.filter(|address| start.is_v6 || *address <= u128::from(u32::MAX)) {
        Some(address) => Ok(Value::from(start.show(address))),
        None => Err(args.failed(format!("{} plus {amount} is not an address", start.ip()))),
    }
}

pub(in crate::filters) fn nthhost(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let Some((value, _, _)) = read(args.value(), None) else {
        return no();
    };
    let Some(index) = args.some("query").and_then(number::to_int).filter(|index| *index != 0) else {
        return no();
    };
    let address = match u128::try_from(index) {
        Ok(index) => value.first().checked_add(index),
        Err(_) => (value.last() + 1).checked_sub(index.unsigned_abs()),
    };
    match address.filter(|address| (value.first()..=value.last()).contains(address)) {
        Some(address) => Ok(Value::from(value.show(address))),
        None => no(),
    }
}

fn usable_neighbour(args: &Arguments, direction: i128) -> Outcome {
    let Some((value, _, _)) = read(args.value(), None) else {
        return no();
    };
    let offset = args.integer("offset")?.ok_or_else(|| args.error("needs the argument 'offset'"))?;
    let address = value.address.checked_add_signed(offset.saturating_mul(direction));
    Ok(match (value.usable(), address) {
        (Some((first, last)), Some(address)) if (first..=last).contains(&address) => Value::from(value.show(address)),
        _ => Value::from(()),
    })
}

pub(in crate::filters) fn next_nth_usable(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    usable_neighbour(args, 1)
}

pub(in crate::filters) fn previous_nth_usable(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    usable_neighbour(args, -1)
}

pub(in crate::filters) fn usable_range(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let shown = args.text();
    let value = Network::parse_strict(&shown)
        .ok_or_else(|| args.failed(format!("'{shown}' is not a network, or has bits set beyond its prefix")))?;
    if value.size() > MOST_ADDRESSES {
        return Err(args.failed(format!("{shown} has {} addresses, too many to list", value.size())));
    }
    let addresses = (value.first()..=value.last()).map(|address| Value::from(value.show(address))).collect();
    let count = integer(i128::try_from(value.size()).unwrap_or(i128::MAX));
    Ok(dict([(Value::from("usable_ips"), list(addresses)), (Value::from("number_of_ips"), count)]))
}

pub(in crate::filters) fn cidr_merge(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let networks: Vec<Network> =
        args.list()?.iter().map(|value| network(args, value).map(|found| found.subnet())).collect::<Result<_, _>>()?;
    match args.text_of("action").as_deref() {
        None | Some("merge") => Ok(list(merged(networks).iter().map(|network| Value::from(network.cidr())).collect())),
        Some("span") => {
            let (Some(first), Some(last)) =
                (networks.iter().min_by_key(|net| net.first()), networks.iter().max_by_key(|net| net.last()))
            else {
                return Ok(Value::from(()));
            };
            if networks.iter().any(|network| network.is_v6 != first.is_v6) {
                return Err(args.failed("IPv4 and IPv6 networks have no common span"));
            }
            let mut span = *first;
            while !span.contains(last) {
                span = span.with_prefix(span.prefix - 1).subnet();
            }
            Ok(Value::from(span.cidr()))
        }
        Some(other) => Err(args.error(format!("knows the actions 'merge' and 'span', not '{other}'"))),
    }
}

/// The smallest list of networks with the same addresses.
fn merged(mut networks: Vec<Network>) -> Vec<Network> {
    networks.sort_by_key(|network| (network.is_v6, network.first(), network.prefix));
    let mut kept: Vec<Network> = Vec::new();
    for network in networks {
        if kept.last().is_some_and(|last| last.contains(&network)) {
            continue;
        }
        kept.push(network);
        // Two halves make one network, which may be half of a larger one.
        while let [.., one, other] = kept.as_slice()
            && one.is_v6 == other.is_v6
            && one.prefix == other.prefix
            && one.prefix > 0
            && one.with_prefix(one.prefix - 1).first() == one.first()
            && other.with_prefix(other.prefix - 1).first() == one.first()
        {
            let whole = one.with_prefix(one.prefix - 1);
            kept.truncate(kept.len() - 2);
            kept.push(whole);
        }
    }
    kept
}

pub(in crate::filters) fn network_in_network(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (Some((outer, _, _)), Some((inner, _, _))) = (read(args.value(), None), read(args.need("test")?, None)) else {
        return no();
    };
    Ok(Value::from(outer.contains(&inner)))
}

pub(in crate::filters) fn network_in_usable(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (Some((outer, _, _)), Some((inner, _, _))) = (read(args.value(), None), read(args.need("test")?, None)) else {
        return no();
    };
    let (first, last) = outer.usable().unwrap_or((outer.address, outer.address));
    Ok(Value::from(outer.is_v6 == inner.is_v6 && first <= inner.first() && inner.last() <= last))
}

pub(in crate::filters) fn reduce_on_network(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let outer = network(args, args.need("network")?)?;
    let mut kept = Vec::new();
    for value in args.list()? {
        if outer.contains(&network(args, &value)?) {
            kept.push(value);
        }
    }
    Ok(list(kept))
}

pub(in crate::filters) fn slaac(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (Some((value, _, _)), Some(mac)) = (read(args.value(), Some(6)), args.text_of("query")) else {
        return no();
    };
    let Some(mac) = hardware::parse(&mac).filter(|mac| mac.len() == 6 && value.is_v6) else {
        return no();
    };
    let identifier = [mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]];
    let interface = identifier.iter().fold(0u128, |number, byte| (number << 8) | u128::from(*byte));
    Ok(Value::from(value.show(value.first() | interface)))
}

fn need_address(args: &Arguments) -> Result<Network, minijinja::Error> {
    let shown = args.text();
    Network::parse_address(&shown).ok_or_else(|| args.failed(format!("'{shown}' is not an IP address")))
}

pub(in crate::filters) fn ipv6form(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let address = need_address(args)?;
    let groups = |wide: bool| {
        let group = |index: u32| (address.address >> (112 - 16 * index)) & 0xffff;
        let shown =
            (0..8).map(|index| if wide { format!("{:04x}", group(index)) } else { format!("{:x}", group(index)) });
        shown.collect::<Vec<_>>().join(":")
    };
    Ok(Value::from(match args.need_text("format")?.as_str() {
        _ if !address.is_v6 => address.ip(),
        "expand" => groups(true),
        "compress" => address.ip(),
        "x509" => groups(false),
        other => return Err(args.error(format!("knows the formats expand, compress and x509, not '{other}'"))),
    }))
}

pub(in crate::filters) fn ipcut(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let address = need_address(args)?;
    let amount = args.integer("amount")?.ok_or_else(|| args.error("needs the argument 'amount'"))?;
    let bits: Vec<char> = match address.is_v6 {
        true => format!("{:0128b}", address.address).chars().collect(),
        false => format!("{:032b}", address.address).chars().collect(),
    };
    let count = usize::try_from(amount.unsigned_abs()).unwrap_or(usize::MAX).min(bits.len());
    let cut = if amount < 0 { &bits[bits.len() - count..] } else { &bits[..count] };
    let number = |part: &[char]| u32::from_str_radix(&part.iter().collect::<String>(), 2).unwrap_or_default();
    let parts: Vec<String> = match address.is_v6 {
        true => cut.chunks(16).map(|part| format!("{:x}", number(part))).collect(),
        false => cut.chunks(8).map(|part| number(part).to_string()).collect(),
    };
    Ok(Value::from(parts.join(if address.is_v6 { ":" } else { "." })))
}

pub(in crate::filters) fn ip4_hex(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let shown = args.text();
    let Some(address) = Network::parse_address(&shown).filter(|address| !address.is_v6) else {
        return Err(args.failed(format!("'{shown}' is not an IPv4 address")));
    };
    let delimiter = args.get("delimiter").map(text).unwrap_or_default();
    let bytes: Vec<String> =
        (0..4).map(|index| format!("{:02x}", (address.address >> (24 - 8 * index)) & 0xff)).collect();
    Ok(Value::from(bytes.join(&delimiter)))
}

/// Networks from a list or from a single text.
pub(crate) fn listed(value: &Value) -> Vec<String> {
    match is_list(value) {
        true => value.try_iter().into_iter().flatten().map(|item| text(&item)).collect(),
        false => vec![text(value)],
    }
}
