//! Identity of a host: kernel, names, architecture, kernel command line, SSH host keys, and resolv.conf(5).

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
    let mut names =
        entries.iter().filter(|words| words.first() == Some(address)).flat_map(|words| words.iter().skip(1));
    let canonical = names.clone().next()?;
    Some((*names.find(|name| name.contains('.')).unwrap_or(canonical)).to_owned())
}

/// `cmdline` and `proc_cmdline`: words of the kernel command line; words without a value become `true`.
pub(crate) fn command_line(root: &Root, facts: &mut Facts) {
    let Some(line) = root.line("/proc/cmdline") else { return };
    let mut once = crate::Map::new();
    let mut all = crate::Map::new();
    for word in shell_words::split(&line).unwrap_or_else(|_| line.split_whitespace().map(str::to_owned).collect()) {
        match word.split_once('=') {
            Some((key, value)) => {
                once.insert(key.to_owned(), value.into());
                match all.get_mut(key) {
                    Some(serde_json::Value::Array(values)) => values.push(value.into()),
                    Some(earlier) => *earlier = serde_json::json!([earlier.clone(), value]),
                    None => _ = all.insert(key.to_owned(), value.into()),
                }
            }
            None => {
                once.insert(word.clone(), true.into());
                all.insert(word, true.into());
            }
        }
    }
    facts.set("cmdline", once);
    facts.set("proc_cmdline", all);
}

/// `ssh_host_key_*_public`.
pub(crate) fn ssh_host_keys(root: &Root, facts: &mut Facts) {
    for folder in ["/etc/ssh", "/etc/openssh", "/etc"] {
        let mut found = false;
        for kind in ["dsa", "rsa", "ecdsa", "ed25519"] {
            let Some(line) = root.line(&format!("{folder}/ssh_host_{kind}_key.pub")) else { continue };
            let mut words = line.split_whitespace();
            if let (Some(key_type), Some(key)) = (words.next(), words.next()) {
                facts.set(&format!("ssh_host_key_{kind}_public"), key);
                facts.set(&format!("ssh_host_key_{kind}_public_keytype"), key_type);
                found = true;
            }
        }
        if found {
            return;
        }
    }
}

/// `dns`, from resolv.conf.
pub(crate) fn dns(root: &Root, facts: &mut Facts) {
    facts.set("dns", resolv_conf(&root.read("/etc/resolv.conf").unwrap_or_default()));
}

fn resolv_conf(text: &str) -> crate::Map {
    let mut dns = crate::Map::new();
    for line in text.lines() {
        if line.starts_with(['#', ';']) {
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(key) = words.next() else { continue };
        match key {
            "nameserver" => {
                let servers = dns.entry("nameservers").or_insert_with(|| Vec::<String>::new().into());
                if let Some(servers) = servers.as_array_mut() {
                    servers.extend(words.map(serde_json::Value::from));
                }
            }
            "domain" => {
                if let Some(domain) = words.next() {
                    dns.insert("domain".into(), domain.into());
                }
            }
            "search" | "sortlist" => {
                dns.insert(key.to_owned(), words.collect::<Vec<_>>().into());
            }
            "options" => {
                // Only the last line of options counts.
                let mut options = crate::Map::new();
                for word in words {
                    let (name, value) = word.split_once(':').unwrap_or((word, ""));
                    let value = if value.is_empty() { true.into() } else { serde_json::Value::from(value) };
                    options.insert(name.to_owned(), value);
                }
                dns.insert("options".into(), options.into());
            }
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use super::{super::root::tests::tree, *};

    #[test]
    fn fqdn_read_from_hosts_file() {
        let hosts = "127.0.0.1 localhost\n10.0.0.5 web1.example.com web1 # ours\n10.0.0.6 web2\n";
        assert_eq!(in_hosts(hosts, "web1").as_deref(), Some("web1.example.com"));
        assert_eq!(in_hosts(hosts, "web2").as_deref(), Some("web2"));
        assert_eq!(in_hosts("127.0.0.1 localhost vm\n", "vm").as_deref(), Some("localhost"));
        assert_eq!(in_hosts(hosts, "db1"), None);
    }

    #[test]
    fn resolv_conf_and_kernel_command_line_parsed() {
        let dns = resolv_conf(
            "# made\nnameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch a.example b.example\noptions ndots:2 rotate\n",
        );
        assert_eq!(
            serde_json::Value::from(dns),
            serde_json::json!({"nameservers": ["10.0.0.1", "10.0.0.2"], "search": ["a.example", "b.example"], "options": {"ndots": "2", "rotate": true}})
        );
        let (_folder, root) = tree(&[("/proc/cmdline", "root=UUID=ab ro console=tty0 console=ttyS0\n")]);
        let mut facts = Facts::default();
        command_line(&root, &mut facts);
        assert_eq!(
            facts.value("cmdline"),
            Some(&serde_json::json!({"root": "UUID=ab", "ro": true, "console": "ttyS0"}))
        );
        assert_eq!(
            facts.value("proc_cmdline").and_then(|all| all.get("console")),
            Some(&serde_json::json!(["tty0", "ttyS0"]))
        );
    }
}
