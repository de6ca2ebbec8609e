//! Resolution of host names.
//!
//! Uses the host's own program instead of the C library's lookup where possible: in a static binary, the lookup may
//! load modules named in `nsswitch.conf` and crash.

use std::{
    io::{self, Read},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Longest time for a lookup.
const DEADLINE: Duration = Duration::from_secs(30);

/// The addresses of a host name, best first; empty if the name is unknown.
pub(crate) fn addresses(name: &str, deadline: Duration) -> io::Result<Vec<IpAddr>> {
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let local = std::fs::read_to_string("/etc/hosts").map(|text| from_hosts(&text, name)).unwrap_or_default();
    if !local.is_empty() {
        return Ok(local);
    }
    if name.eq_ignore_ascii_case("localhost") {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    match from_name_services(name, deadline.min(DEADLINE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok((name, 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default())
        }
        other => other,
    }
}

fn from_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let found = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    });
    found.collect()
}

/// Queries `getent`, which uses all name services of the host's configuration.
fn from_name_services(name: &str, deadline: Duration) -> io::Result<Vec<IpAddr>> {
    let started = Instant::now();
    let mut child = Command::new("getent")
        .args(["ahosts", "--", name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    while child.try_wait()?.is_none() {
        if started.elapsed() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the address of {name} was not found in time"),
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut text = String::new();
    if let Some(output) = &mut child.stdout {
        output.read_to_string(&mut text)?;
    }
    let mut found: Vec<IpAddr> = Vec::new();
    for address in text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_and_hosts_file_names_resolved() {
        let hosts = "127.0.0.1 localhost\n10.0.0.7\tdb.example db # the database\n::1 localhost\nnonsense here\n";
        assert_eq!(from_hosts(hosts, "DB").len(), 1);
        assert_eq!(from_hosts(hosts, "localhost").len(), 2);
        assert!(from_hosts(hosts, "database").is_empty());
        assert_eq!(addresses("[::1]", DEADLINE).unwrap(), [IpAddr::V6(Ipv6Addr::LOCALHOST)]);
        assert_eq!(addresses("10.1.2.3", DEADLINE).unwrap().len(), 1);
        assert!(addresses("localhost", DEADLINE).unwrap().contains(&Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn unknown_name_without_address() {
        assert!(addresses("no-such-host.invalid", DEADLINE).unwrap().is_empty());
    }
}
