//! Identity of a host: its kernel, its names and its architecture.

use std::{ffi::CStr, time::Duration};

use super::{Facts, Root, probe};

fn text(value: &CStr) -> String {
    value.to_string_lossy().into_owned()
}

/// Kernel, host names and architecture.
pub(crate) fn collect(root: &Root, facts: &mut Facts) {
    let kernel = rustix::system::uname();
    let nodename = text(kernel.nodename());
    let machine = text(kernel.machine());
    facts.set("system", text(kernel.sysname()));
    facts.set("kernel", text(kernel.release()));
    facts.set("kernel_version", text(kernel.version()));
    facts.set("machine", machine.as_str());
    let bits = if machine.contains("64") || machine == "s390x" { "64" } else { "32" };
    facts.set("userspace_bits", bits);
    let old_intel = matches!(machine.as_str(), "i386" | "i486" | "i586" | "i686");
    let architecture = if old_intel { "i386" } else { machine.as_str() };
    facts.set("architecture", architecture);
    if machine == "x86_64" || old_intel {
        facts.set("userspace_architecture", if bits == "64" { "x86_64" } else { "i386" });
    }
    let fqdn = fqdn(root, &nodename);
    facts.set("hostname", nodename.split('.').next().unwrap_or_default());
    facts.set("domain", fqdn.split_once('.').map(|(_, domain)| domain).unwrap_or_default());
    facts.set("fqdn", fqdn.as_str());
    facts.set("nodename", nodename);
    if let Some(id) = root.line("/var/lib/dbus/machine-id").or_else(|| root.line("/etc/machine-id")) {
        facts.set("machine_id", id);
    }
}

/// The fully qualified name: resolves the name to an address and the address back to names, and takes the first with a
/// dot.
pub(crate) fn fqdn(root: &Root, nodename: &str) -> String {
    let hosts = root.read("/etc/hosts").unwrap_or_default();
    if let Some(name) = in_hosts(&hosts, nodename) {
        return name;
    }
    // Only a name missing from the hosts file is worth a process: getent queries DNS as the host is configured.
    let answer =
        root.program("getent").and_then(|getent| probe::ask(&getent, &["hosts", nodename], Duration::from_secs(5)));
    answer
        .and_then(|answer| answer.stdout.split_whitespace().skip(1).find(|name| name.contains('.')).map(str::to_owned))
        .unwrap_or_else(|| nodename.to_owned())
}

fn in_hosts(hosts: &str, nodename: &str) -> Option<String> {
    let entries: Vec<Vec<&str>> = hosts
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().split_whitespace().collect())
        .filter(|words: &Vec<&str>| words.len() > 1)
        .collect();
    let address = entries.iter().find(|words| words.iter().skip(1).any(|name| *name == nodename))?.first()?;
    // Resolvers answer an address by its first line.
    let mut names = entries.iter().find(|words| words.first() == Some(address))?.iter().skip(1);
    let canonical = names.clone().next()?;
    Some((*names.find(|name| name.contains('.')).unwrap_or(canonical)).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fqdn_read_from_hosts_file() {
        let hosts = "127.0.0.1 localhost\n10.0.0.5 web1.example.com web1 # ours\n10.0.0.6 web2\n";
        assert_eq!(in_hosts(hosts, "web1").as_deref(), Some("web1.example.com"));
        assert_eq!(in_hosts(hosts, "web2").as_deref(), Some("web2"));
        assert_eq!(in_hosts("127.0.0.1 localhost vm\n", "vm").as_deref(), Some("localhost"));
        assert_eq!(in_hosts(hosts, "db1"), None);
        let renamed = "10.0.0.7 node1\n10.0.0.7 cp1.example.com cp1\n";
        assert_eq!(in_hosts(renamed, "cp1").as_deref(), Some("node1"));
    }
}
