//! Netlink queries for addresses and routes, without a process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};

const GET_ADDRESSES: u16 = 22;
const GET_ROUTES: u16 = 26;
const REQUEST: u16 = 1;
pub(super) const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Flag of an answer: the listed objects changed meanwhile, so that some may be missing (netlink(7)).
const INTERRUPTED: u16 = 0x10;
/// Maximum number of attempts to list objects that change meanwhile.
const ATTEMPTS: usize = 5;
const HEADER: usize = 16;
/// Padded length of the family headers of address and route messages.
const ADDRESS_HEADER: usize = 8;
const ROUTE_HEADER: usize = 12;
/// Mask that removes the flags for nesting and byte order from an attribute's type.
const KIND: u16 = 0x3fff;
const LOCAL_TABLE: u8 = 255;
const LOCAL_TYPE: u8 = 2;

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Index of the interface.
    pub(crate) interface: u32,
    pub(crate) address: IpAddr,
    /// Whether the address is the other end of a point-to-point link.
    pub(crate) peer: bool,
    /// Length of the network part.
    pub(crate) prefix: u8,
    /// Broadcast address, if any.
    pub(crate) broadcast: Option<IpAddr>,
    /// Scope: `global`, `site`, `link` or `host`.
    pub(crate) scope: &'static str,
    /// Whether another address of the same network comes first on this interface.
    pub(crate) secondary: bool,
    /// Label of the address, usually the interface's name.
    pub(crate) label: Option<String>,
}

/// The route of a packet.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// Index of the outgoing interface.
    pub(crate) interface: Option<u32>,
    /// Source address.
    pub(crate) source: Option<IpAddr>,
    /// The next hop.
    pub(crate) gateway: Option<IpAddr>,
}

/// All addresses of the host, in the kernel's order.
pub(crate) fn addresses() -> Option<Vec<Address>> {
    let messages = ask(GET_ADDRESSES, DUMP, &[0; ADDRESS_HEADER])?;
    Some(messages.iter().filter_map(|message| address(message)).collect())
}

/// The route to a destination.
pub(crate) fn way_to(destination: IpAddr) -> Option<Way> {
    let (family, bytes): (u8, Vec<u8>) = match destination {
        IpAddr::V4(address) => (2, address.octets().to_vec()),
        IpAddr::V6(address) => (10, address.octets().to_vec()),
    };
    let mut body = vec![0u8; ROUTE_HEADER];
    body.splice(0..2, [family, u8::try_from(bytes.len() * 8).unwrap_or(0)]);
    body.extend(u16::try_from(bytes.len() + 4).unwrap_or(0).to_ne_bytes());
    body.extend(1u16.to_ne_bytes());
    body.extend(&bytes);
    let messages = ask(GET_ROUTES, 0, &body)?;
    messages.iter().find_map(|message| way(message))
}

/// Addresses and networks that are local to this host, from the local routing table.
pub(crate) fn locally_reachable(family: AddressFamily) -> Option<Vec<String>> {
    let mut body = [0u8; ROUTE_HEADER];
    body[0] = u8::try_from(family.as_raw()).ok()?;
    let bits = if family == AddressFamily::INET6 { 128 } else { 32 };
    let messages = ask(GET_ROUTES, DUMP, &body)?;
    let mut found: Vec<String> = Vec::new();
    for message in &messages {
        let (Some(&[family, length, _, _, table, _, _, kind]), Some(attributes)) =
            (message.get(..8).and_then(|head| head.first_chunk()), message.get(ROUTE_HEADER..))
        else {
            continue;
        };
        if table != LOCAL_TABLE || kind != LOCAL_TYPE || family != body[0] {
            continue;
        }
        let Some(destination) = Attributes(attributes).find(|(kind, _)| *kind == 1).and_then(|(_, bytes)| ip(bytes))
        else {
            continue;
        };
        let text = if length == bits { destination.to_string() } else { format!("{destination}/{length}") };
        if !found.contains(&text) {
            found.push(text);
        }
    }
    Some(found)
}

fn ask(kind: u16, flags: u16, body: &[u8]) -> Option<Vec<Vec<u8>>> {
    ask_by(None, kind, flags, body)
}

/// Sends a generic netlink request to the family with this number.
pub(super) fn ask_generic(family: u16, flags: u16, body: &[u8]) -> Option<Vec<Vec<u8>>> {
    ask_by(Some(netlink::GENERIC), family, flags, body)
}

/// Sends one request and collects the bodies of the answers. Repeats a list that failed or was interrupted, up to
/// [`ATTEMPTS`].
fn ask_by(protocol: Option<Protocol>, kind: u16, flags: u16, body: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let answer = ask_once(protocol, kind, flags, body);
        let is_last = flags & DUMP == 0 || answer.as_ref().is_some_and(|(_, is_whole)| *is_whole);
        last = answer.map(|(answers, _)| answers).or(last);
        if is_last {
            break;
        }
    }
    last
}

/// Like [`ask_by`], without repetition. Returns also whether nothing changed meanwhile.
fn ask_once(protocol: Option<Protocol>, kind: u16, flags: u16, body: &[u8]) -> Option<(Vec<Vec<u8>>, bool)> {
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, protocol).ok()?;
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(u32::try_from(HEADER + body.len()).ok()?.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((REQUEST | flags).to_ne_bytes());
    request.extend(1u32.to_ne_bytes());
    request.extend(0u32.to_ne_bytes());
    request.extend(body);
    retry_on_intr(|| send(&socket, &request, SendFlags::empty())).ok()?;
    let mut answers = Answers { bodies: Vec::new(), is_whole: true };
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        let (length, _) = retry_on_intr(|| recv(&socket, &mut buffer[..], RecvFlags::empty())).ok()?;
        let has_ended = answers.add(buffer.get(..length).filter(|part| !part.is_empty())?)?;
        if has_ended || flags & DUMP == 0 {
            return Some((answers.bodies, answers.is_whole));
        }
    }
}

/// Answers to one request.
struct Answers {
    bodies: Vec<Vec<u8>>,
    /// Whether nothing is missing.
    is_whole: bool,
}

impl Answers {
    /// Adds the messages of one datagram. Returns whether the last one is among them; `None` after an error.
    fn add(&mut self, mut rest: &[u8]) -> Option<bool> {
        while let Some(header) = rest.get(..HEADER) {
            let size = u32::from_ne_bytes(header.get(..4)?.try_into().ok()?) as usize;
            let [kind, flags] = [4..6, 6..8].map(|place| header.get(place).and_then(|bytes| bytes.try_into().ok()));
            let body = rest.get(HEADER..size)?;
            self.is_whole &= u16::from_ne_bytes(flags?) & INTERRUPTED == 0;
            match u16::from_ne_bytes(kind?) {
                DONE => {
                    // An error ends a list too.
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    self.is_whole &= code >= 0;
                    return Some(true);
                }
                ERROR => return None,
                _ => self.bodies.push(body.to_vec()),
            }
            rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(false)
    }
}

/// Attributes at the end of a message, as pairs of type and bytes.
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = u16::from_ne_bytes(self.0.get(..2)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(self.0.get(2..4)?.try_into().ok()?) & KIND;
        let bytes = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, bytes))
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

fn address(message: &[u8]) -> Option<Address> {
    let &[_, prefix, flags, scope, ..] = message else { return None };
    let interface = u32::from_ne_bytes(message.get(4..8)?.try_into().ok()?);
    let (mut own, mut other, mut broadcast, mut label) = (None, None, None, None);
    for (kind, bytes) in Attributes(message.get(ADDRESS_HEADER..)?) {
        match kind {
            1 => other = ip(bytes),
            2 => own = ip(bytes),
            3 => label = Some(String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()),
            4 => broadcast = ip(bytes),
            _ => {}
        }
    }
    Some(Address {
        interface,
        address: own.or(other)?,
        peer: own.is_some() && other.is_some() && own != other,
        prefix,
        broadcast,
        scope: match scope {
            200 => "site",
            253 => "link",
            254 => "host",
            _ => "global",
        },
        secondary: flags & 1 != 0,
        label,
    })
}

fn way(message: &[u8]) -> Option<Way> {
    let mut way = Way::default();
    for (kind, bytes) in Attributes(message.get(ROUTE_HEADER..)?) {
        match kind {
            4 => way.interface = bytes.try_into().ok().map(u32::from_ne_bytes),
            5 => way.gateway = ip(bytes),
            7 => way.source = ip(bytes),
            // An IPv4 destination behind an IPv6 next hop: family, then address.
            18 => way.gateway = bytes.get(2..).and_then(ip),
            _ => {}
        }
    }
    way.interface.map(|_| way)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_that_changed_meanwhile_or_ended_by_an_error_is_not_whole() {
        let message = |kind: u16, flags: u16, body: [u8; 4]| {
            let head = [20u32.to_ne_bytes().as_slice(), &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8]].concat();
            [head, body.to_vec()].concat()
        };
        let add = |messages: [Vec<u8>; 2]| {
            let mut answers = Answers { bodies: Vec::new(), is_whole: true };
            let has_ended = answers.add(&messages.concat());
            (has_ended, answers.bodies.len(), answers.is_whole)
        };
        let end = |code: i32| message(DONE, 0, code.to_ne_bytes());
        assert_eq!(add([message(20, 0, [1; 4]), end(0)]), (Some(true), 1, true));
        assert_eq!(add([message(20, INTERRUPTED, [1; 4]), end(0)]), (Some(true), 1, false));
        assert_eq!(add([message(20, 0, [1; 4]), end(-16)]), (Some(true), 1, false));
        assert_eq!(add([message(20, 0, [1; 4]), message(20, 0, [1; 4])]), (Some(false), 2, true));
        assert_eq!(add([message(20, 0, [1; 4]), message(ERROR, 0, [1; 4])]).0, None);
    }

    #[test]
    fn addresses_include_loopback() {
        let addresses = addresses().unwrap();
        let loopback = addresses.iter().find(|address| address.address == IpAddr::from([127, 0, 0, 1])).unwrap();
        assert_eq!(loopback.prefix, 8);
        assert_eq!(loopback.scope, "host");
        assert_eq!(loopback.label.as_deref(), Some("lo"));
        assert!(locally_reachable(AddressFamily::INET).unwrap().contains(&"127.0.0.0/8".to_owned()));
        assert_eq!(way_to(IpAddr::from([127, 0, 0, 1])).unwrap().source, Some(IpAddr::from([127, 0, 0, 1])));
    }
}
