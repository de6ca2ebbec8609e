//! TCP connections of the host, from the kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Connection states, with the kernel's codes.
pub(super) const STATES: &[(&str, &str)] = &[
    ("ESTABLISHED", "01"),
    ("SYN_SENT", "02"),
    ("SYN_RECV", "03"),
    ("FIN_WAIT1", "04"),
    ("FIN_WAIT2", "05"),
    ("TIME_WAIT", "06"),
];

/// A TCP connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) local: IpAddr,
    pub(super) port: u16,
    pub(super) remote: IpAddr,
    /// The kernel's code of the state.
    pub(super) state: String,
}

/// All TCP connections of the host.
pub(super) fn all() -> Vec<Connection> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = tables.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    texts.flat_map(|text| text.lines().filter_map(parse).collect::<Vec<_>>()).collect()
}

fn parse(line: &str) -> Option<Connection> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, port) = fields.next()?.split_once(':')?;
    let (remote, _) = fields.next()?.split_once(':')?;
    Some(Connection {
        local: address(local)?,
        port: u16::from_str_radix(port, 16).ok()?,
        remote: address(remote)?,
        state: fields.next()?.to_owned(),
    })
}

/// Parses an address. Each group of four bytes is a number in the host's byte order.
fn address(text: &str) -> Option<IpAddr> {
    let mut bytes = Vec::with_capacity(16);
    for at in (0..text.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    if let Ok(four) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(Ipv4Addr::from(four).into());
    }
    Some(IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?)).to_canonical())
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use super::*;

    #[test]
    fn kernel_connection_lines_parsed() {
        let connection = parse("   1: 0100007F:1F90 0200000A:C350 01 00000000:00000000 00:00000000 0 0 0").unwrap();
        assert_eq!((connection.local.to_string().as_str(), connection.port), ("127.0.0.1", 8080));
        assert_eq!((connection.remote.to_string().as_str(), connection.state.as_str()), ("10.0.0.2", "01"));
        let mapped = "1: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000001000000:C350 06";
        let connection = parse(mapped).unwrap();
        assert_eq!(
            (connection.local.to_string().as_str(), connection.remote.to_string().as_str()),
            ("127.0.0.1", "::1")
        );
        assert_eq!(parse("  sl  local_address rem_address   st"), None);
    }
}
