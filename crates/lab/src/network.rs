//! The bridge between the hosts and this machine. It has no routing or address translation, so the hosts cannot reach
//! anything else.

use crate::Error;
use crate::command::run;
use crate::options::Network;
use crate::wait::Deadline;

/// Marks a bridge as created by a lab, so that a foreign link with the same name is never touched.
const ALIAS: &str = "windlass-lab";

const SECONDS_FOR_LINKS: u64 = 20;

/// Name of this machine's end of a host's link; systemd-nspawn derives it from the machine name.
pub(crate) fn link_of(bridge: &str, number: usize) -> String {
    format!("vb-{}", machine_name(bridge, number))
}

/// Name of a host in systemd-nspawn.
pub(crate) fn machine_name(bridge: &str, number: usize) -> String {
    format!("{bridge}-{number}")
}

/// Fails if anything but a lab uses the name or the addresses.
pub(crate) fn check(bridge: &str, network: Network) -> Result<(), Error> {
    if let Some(description) = find(bridge)? {
        if !is_ours(&description) {
            return Err(Error::Invalid(format!(
                "This machine has a network link named {bridge} that no lab made. Choose another name with --bridge."
            )));
        }
        return Ok(());
    }
    let overlapping = run("look for routes", "ip", &["-4", "route", "show", "root", &network.to_string()])?;
    if let Some(route) = overlapping.lines().next() {
        return Err(Error::Invalid(format!(
            "The network {network} is in use on this machine (route `{}`). Choose another with --network.",
            route.trim()
        )));
    }
    Ok(())
}

/// Creates the bridge if it is missing.
pub(crate) fn create(bridge: &str, network: Network) -> Result<(), Error> {
    if find(bridge)?.is_some() {
        return Ok(());
    }
    let doing = format!("create the bridge {bridge}");
    // A fixed address keeps the bridge from adopting each new port's, which would invalidate the hosts' neighbour
    // tables.
    let [a, b, c] = network.prefix();
    let hardware = format!("02:77:6c:{a:02x}:{b:02x}:{c:02x}");
    run(&doing, "ip", &["link", "add", "name", bridge, "address", &hardware, "type", "bridge"])?;
    run(&doing, "ip", &["link", "set", "dev", bridge, "alias", ALIAS])?;
    run(&doing, "ip", &["address", "add", &format!("{}/24", network.gateway()), "dev", bridge])?;
    run(&doing, "ip", &["link", "set", "dev", bridge, "up"])?;
    Ok(())
}

/// Removes a host's link, if it has one. Its name is free again for the next start.
pub(crate) fn cut(link: &str) -> Result<(), Error> {
    if find(link)?.is_none() || run("remove a link", "ip", &["link", "delete", "dev", link]).is_ok() {
        return Ok(());
    }
    // The kernel removes a dead host's link itself, with a delay. Losing that race is not an error.
    let deadline = Deadline::new(format!("the network link {link} to disappear"), SECONDS_FOR_LINKS);
    while find(link)?.is_some() {
        deadline.pause(String::new)?;
    }
    Ok(())
}

/// Removes the bridge and all links in it.
pub(crate) fn remove(bridge: &str) -> Result<(), Error> {
    let Some(description) = find(bridge)? else { return Ok(()) };
    // A crash between creating and marking the bridge leaves it empty and unmarked, but the lab's record claims it.
    let ports = run("list the links of the bridge", "ip", &["-o", "link", "show", "master", bridge])?;
    if !is_ours(&description) && !ports.trim().is_empty() {
        return Ok(());
    }
    for port in ports.lines().filter_map(link_name) {
        cut(port)?;
    }
    run(&format!("remove the bridge {bridge}"), "ip", &["link", "delete", "dev", bridge])?;
    Ok(())
}

/// The name in a line of `ip -o link show`: `7: vb-windlass0-1@if2: <...`.
fn link_name(line: &str) -> Option<&str> {
    line.split(": ").nth(1)?.split('@').next()
}

/// Output of `ip` about a link; `None` if it does not exist.
fn find(link: &str) -> Result<Option<String>, Error> {
    let all = run("list network links", "ip", &["-o", "link", "show"])?;
    Ok(all.lines().find(|line| link_name(line) == Some(link)).map(str::to_owned))
}

fn is_ours(description: &str) -> bool {
    description.split('\\').any(|part| part.trim() == format!("alias {ALIAS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_name_excludes_its_peer() {
        assert_eq!(link_name("7: vb-windlass0-1@if2: <BROADCAST> mtu 1500"), Some("vb-windlass0-1"));
        assert_eq!(link_name("4: eth0: <BROADCAST> mtu 1500"), Some("eth0"));
        assert_eq!(link_name(""), None);
    }

    #[test]
    fn only_marked_links_are_ours() {
        assert!(is_ours("5: windlass0: <UP> mtu 1500\\    link/ether 02:77:6c:0a:61:00\\    alias windlass-lab"));
        assert!(!is_ours("5: windlass0: <UP> mtu 1500\\    link/ether 02:77:6c:0a:61:00"));
    }

    #[test]
    fn host_links_fit_into_the_kernels_fifteen_characters() {
        assert_eq!(link_of("windlass0", 50).len(), 15);
    }
}
