//! IP addresses and their networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of either version and the prefix length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Network {
    pub(crate) is_v6: bool,
    /// Address as a number.
    pub(crate) address: u128,
    pub(crate) prefix: u32,
}

impl Network {
    /// Creates a single address.
    pub(crate) fn host(is_v6: bool, address: u128) -> Network {
        Network { is_v6, address, prefix: if is_v6 { 128 } else { 32 } }
    }

    /// Parses `address`, `address/prefix` or, for IPv4, `address/netmask` and `address/hostmask`.
    pub(crate) fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let mut network = match address.parse::<IpAddr>().ok()? {
            IpAddr::V4(address) => Network::host(false, u128::from(u32::from(address))),
            IpAddr::V6(address) => Network::host(true, u128::from(address)),
        };
        if let Some(prefix) = prefix {
            network.prefix = match prefix.parse::<u32>() {
                Ok(length) if prefix.bytes().all(|digit| digit.is_ascii_digit()) => length,
                _ if !network.is_v6 => mask_length(prefix.parse::<Ipv4Addr>().ok()?)?,
                _ => return None,
            };
        }
        (network.prefix <= network.bits()).then_some(network)
    }

    /// Parses a network whose address is its first, as Python's `ip_network` requires.
    pub(crate) fn parse_strict(text: &str) -> Option<Network> {
        Network::parse(text).filter(|network| network.address == network.first())
    }

    /// Parses an address without a prefix.
    pub(crate) fn parse_address(text: &str) -> Option<Network> {
        if text.contains('/') { None } else { Network::parse(text) }
    }

    /// Bits of an address: 32 or 128.
    pub(crate) fn bits(&self) -> u32 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// IP version: 4 or 6.
    pub(crate) fn version(&self) -> u32 {
        if self.is_v6 { 6 } else { 4 }
    }

    /// Bits that distinguish hosts of the network.
    pub(crate) fn host_mask(&self) -> u128 {
        match self.bits() - self.prefix {
            128 => u128::MAX,
            width => (1 << width) - 1,
        }
    }

    fn all_ones(&self) -> u128 {
        if self.is_v6 { u128::MAX } else { u128::from(u32::MAX) }
    }

    /// Netmask as a number.
    pub(crate) fn net_mask(&self) -> u128 {
        self.all_ones() & !self.host_mask()
    }

    /// First address of the network.
    pub(crate) fn first(&self) -> u128 {
        self.address & !self.host_mask()
    }

    /// Last address of the network.
    pub(crate) fn last(&self) -> u128 {
        self.address | self.host_mask()
    }

    /// Number of addresses. The number for `::/0` does not fit and is one too small.
    pub(crate) fn size(&self) -> u128 {
        self.host_mask().saturating_add(1)
    }

    /// Broadcast address; networks of one or two addresses have none.
    pub(crate) fn broadcast(&self) -> Option<u128> {
        (self.bits() - self.prefix > 1).then_some(self.last())
    }

    /// First and last address that hosts may have.
    pub(crate) fn usable(&self) -> Option<(u128, u128)> {
        match self.size() {
            0 | 1 => None,
            2 => Some((self.first(), self.last())),
            _ => Some((self.first() + 1, self.last() - 1)),
        }
    }

    /// The network, with its first address as the address.
    pub(crate) fn subnet(&self) -> Network {
        Network { address: self.first(), ..*self }
    }

    /// The same address with another prefix.
    pub(crate) fn with_prefix(&self, prefix: u32) -> Network {
        Network { prefix, ..*self }
    }

    /// Whether the other network is part of this one.
    pub(crate) fn contains(&self, other: &Network) -> bool {
        self.is_v6 == other.is_v6 && self.first() <= other.first() && other.last() <= self.last()
    }

    /// Formats an address of this version.
    pub(crate) fn show(&self, address: u128) -> String {
        match u32::try_from(address) {
            Ok(address) if !self.is_v6 => Ipv4Addr::from(address).to_string(),
            _ => Ipv6Addr::from(address).to_string(),
        }
    }

    /// Formats the address.
    pub(crate) fn ip(&self) -> String {
        self.show(self.address)
    }

    /// Formats `address/prefix`.
    pub(crate) fn cidr(&self) -> String {
        format!("{}/{}", self.ip(), self.prefix)
    }

    /// Whether the address is in one of these networks.
    pub(crate) fn is_in(&self, networks: &[&str]) -> bool {
        let address = Network::host(self.is_v6, self.address);
        networks.iter().filter_map(|network| Network::parse(network)).any(|network| network.contains(&address))
    }

    /// Whether the address is a multicast address.
    pub(crate) fn is_multicast(&self) -> bool {
        self.is_in(&["224.0.0.0/4", "ff00::/8"])
    }

    /// Whether the address is a loopback address.
    pub(crate) fn is_loopback(&self) -> bool {
        self.is_in(&["127.0.0.0/8", "::1/128"])
    }

    /// Whether the address is globally reachable, according to IANA's registries of special addresses.
    pub(crate) fn is_global(&self) -> bool {
        const NOT_GLOBAL: [&str; 26] = [
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "240.0.0.0/4",
            "255.255.255.255/32",
            "::1/128",
            "::/128",
            "::ffff:0:0/96",
            "64:ff9b:1::/48",
            "100::/64",
            "2001::/23",
            "2001:db8::/32",
            "2002::/16",
            "3fff::/20",
            "5f00::/16",
            "fc00::/7",
            "fe80::/10",
        ];
        const GLOBAL_AFTER_ALL: [&str; 7] = [
            "192.0.0.9/32",
            "192.0.0.10/32",
            "2001:1::1/128",
            "2001:1::2/128",
            "2001:3::/32",
            "2001:4:112::/48",
            "2001:20::/28",
        ];
        !self.is_in(&NOT_GLOBAL) || self.is_in(&GLOBAL_AFTER_ALL)
    }
}

/// Prefix length of a netmask or hostmask.
pub(crate) fn mask_length(mask: Ipv4Addr) -> Option<u32> {
    let bits = u32::from(mask);
    if bits.leading_ones() + bits.trailing_zeros() == 32 {
        return Some(bits.leading_ones());
    }
    (bits == 0 || bits.leading_zeros() + bits.trailing_ones() == 32).then_some(bits.leading_zeros())
}
