//! Tests of ansible.utils for addresses.

use std::net::{Ipv4Addr, ToSocketAddrs};

use minijinja::State;

use crate::filters::call::{Arguments, Verdict};
use crate::filters::network::address::Network;
use crate::filters::network::{listed, parse_hardware};

fn address(args: &Arguments) -> Option<Network> {
    Network::parse_address(&args.text())
}

fn network(args: &Arguments) -> Option<Network> {
    Network::parse_strict(&args.text())
}

fn other(args: &Arguments) -> Result<Option<Network>, minijinja::Error> {
    Ok(Network::parse_strict(&args.need_text("network")?))
}

pub(super) fn in_network(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(matches!((network(args), other(args)?), (Some(inner), Some(outer)) if outer.contains(&inner)))
}

pub(super) fn subnet_of(state: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    in_network(state, args)
}

pub(super) fn supernet_of(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(matches!((network(args), other(args)?), (Some(outer), Some(inner)) if outer.contains(&inner)))
}

/// Number of networks that contain the value.
fn matches(args: &Arguments) -> Result<usize, minijinja::Error> {
    let networks = listed(args.need("networks")?);
    let inner = network(args);
    let contains = |outer: &String| {
        inner.is_some_and(|inner| Network::parse_strict(outer).is_some_and(|outer| outer.contains(&inner)))
    };
    Ok(networks.iter().filter(|outer| contains(outer)).count())
}

pub(super) fn in_any_network(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(matches(args)? > 0)
}

pub(super) fn in_one_network(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(matches(args)? == 1)
}

pub(super) fn ip(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(network(args).is_some())
}

pub(super) fn ip_address(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(address(args).is_some())
}

pub(super) fn ipv4(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(network(args).is_some_and(|network| !network.is_v6))
}

pub(super) fn ipv4_address(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(address(args).is_some_and(|address| !address.is_v6))
}

pub(super) fn ipv4_netmask(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let mask = args.text().parse::<Ipv4Addr>().map(u32::from);
    Ok(mask.is_ok_and(|bits| bits.leading_ones() + bits.trailing_zeros() == 32 || bits == 0))
}

pub(super) fn ipv4_hostmask(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let mask = args.text().parse::<Ipv4Addr>().map(u32::from);
    Ok(mask.is_ok_and(|bits| bits.leading_zeros() + bits.trailing_ones() == 32 && bits != u32::MAX))
}

pub(super) fn ipv6(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(network(args).is_some_and(|network| network.is_v6))
}

pub(super) fn ipv6_address(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(address(args).is_some_and(|address| address.is_v6))
}

fn within(args: &Arguments, networks: &[&str]) -> Verdict {
    Ok(address(args).is_some_and(|address| address.is_in(networks)))
}

pub(super) fn ipv6_ipv4_mapped(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    within(args, &["::ffff:0:0/96"])
}

pub(super) fn ipv6_sixtofour(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    within(args, &["2002::/16"])
}

pub(super) fn ipv6_teredo(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    within(args, &["2001::/32"])
}

pub(super) fn loopback(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(address(args).is_some_and(|address| address.is_loopback()))
}

pub(super) fn multicast(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(address(args).is_some_and(|address| address.is_multicast()))
}

/// The address, or the IPv4 address that it maps.
fn unmapped(args: &Arguments) -> Option<Network> {
    let address = address(args)?;
    Some(match address.is_in(&["::ffff:0:0/96"]) {
        true => Network::host(false, address.address & 0xffff_ffff),
        false => address,
    })
}

pub(super) fn private(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    // Shared address space is neither private nor public, and 6to4 is not private.
    let neither = |address: &Network| address.is_in(&["100.64.0.0/10", "2002::/16"]);
    Ok(unmapped(args).is_some_and(|address| !address.is_global() && !neither(&address)))
}

pub(super) fn public(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(unmapped(args).is_some_and(|address| address.is_global() || address.is_in(&["2002::/16"])))
}

pub(super) fn reserved(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    const RESERVED: [&str; 16] = [
        "240.0.0.0/4",
        "::/8",
        "100::/8",
        "200::/7",
        "400::/6",
        "800::/5",
        "1000::/4",
        "4000::/3",
        "6000::/3",
        "8000::/3",
        "a000::/3",
        "c000::/3",
        "e000::/4",
        "f000::/5",
        "f800::/6",
        "fe00::/9",
    ];
    within(args, &RESERVED)
}

pub(super) fn unspecified(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(address(args).is_some_and(|address| address.address == 0))
}

pub(super) fn mac(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(parse_hardware(&args.text()).is_some_and(|bytes| bytes.len() == 6))
}

pub(super) fn resolvable(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok((args.text().as_str(), 0).to_socket_addrs().is_ok_and(|mut found| found.next().is_some()))
}
