//! Hosts of a new inventory.

use std::fmt::Write as _;
use std::str::FromStr;

use clap::Args;

/// A host of a new inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// Name in the inventory.
    name: String,
    /// Address, if the name is not enough to reach the host.
    address: Option<String>,
}

/// How the hosts are logged in to.
#[derive(Debug, Args)]
pub(super) struct Login {
    /// User to log in as; users other than root become root with sudo
    #[arg(long, value_name = "USER", value_parser = user)]
    user: Option<String>,
}

/// Characters of a name or an address that need no quotes in YAML and mean nothing to a shell.
fn is_plain(text: &str, others: &[char]) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(&c))
}

fn user(text: &str) -> Result<String, String> {
    match is_plain(text, &['_', '-', '.']) {
        true => Ok(text.to_owned()),
        false => Err("a user's name has letters, digits, `_`, `-` and `.` only".to_owned()),
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        let (name, address) = match text.split_once('=') {
            Some((name, address)) => (name, Some(address)),
            None => (text, None),
        };
        if !is_plain(name, &['-', '.', '_']) {
            return Err(format!(
                "`{name}` cannot be the name of a host: it has letters, digits, `-`, `.` and `_` only"
            ));
        }
        // An IPv6 address may begin with a colon.
        if let Some(address) = address.filter(|address| !is_plain(address.trim_start_matches(':'), &['-', '.', ':'])) {
            return Err(format!("`{address}` cannot be the address of `{name}`: give an IP address or a DNS name"));
        }
        Ok(Host { name: name.to_owned(), address: address.map(str::to_owned) })
    }
}

impl Host {
    /// Line for the host in an inventory in YAML.
    fn line(&self, indent: usize) -> String {
        match &self.address {
            Some(address) => format!("{:indent$}{}: {{ansible_host: \"{address}\"}}\n", "", self.name),
            None => format!("{:indent$}{}:\n", "", self.name),
        }
    }
}

impl Login {
    /// The variables of all hosts, in YAML; nothing where the defaults of SSH are right.
    fn vars(&self) -> String {
        match self.user.as_deref() {
            None => String::new(),
            Some("root") => "  vars:\n    ansible_user: root\n".to_owned(),
            Some(user) => format!("  vars:\n    ansible_user: {user}\n    ansible_become: true\n"),
        }
    }
}

/// An inventory of the hosts; of this machine if there are none.
pub(super) fn inventory(hosts: &[Host], login: &Login) -> String {
    if hosts.is_empty() {
        return "---\nall:\n  hosts:\n    localhost: {ansible_connection: local}\n".to_owned();
    }
    let lines: String = hosts.iter().map(|host| host.line(4)).collect();
    format!("---\nall:\n  hosts:\n{lines}{}", login.vars())
}

/// An inventory of a cluster, with Kubespray's groups.
pub(super) fn cluster(planes: &[Host], workers: &[Host], login: &Login) -> String {
    let mut text = String::from("---\nall:\n  hosts:\n");
    let mut known: Vec<&Host> = Vec::new();
    for host in planes.iter().chain(workers) {
        if !known.iter().any(|other| other.name == host.name) {
            text += &host.line(4);
            known.push(host);
        }
    }
    text += &login.vars();
    text += "  children:\n";
    // An even number of members tolerates no more failures than one member fewer.
    let members = planes.len() - usize::from(planes.len().is_multiple_of(2));
    let nodes = if workers.is_empty() { planes } else { workers };
    for (group, hosts) in [("kube_control_plane", planes), ("etcd", &planes[..members]), ("kube_node", nodes)] {
        let names: Vec<String> = hosts.iter().map(|host| format!("{}: ", host.name)).collect();
        let _ = writeln!(text, "    {group}:\n      hosts: {{{}}}", names.join(", "));
    }
    text + "    k8s_cluster:\n      children: {kube_control_plane: , kube_node: }\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(words: &[&str]) -> Vec<Host> {
        words.iter().map(|word| word.parse().unwrap()).collect()
    }

    #[test]
    fn host_with_yaml_or_shell_text_is_refused() {
        for word in ["a: b", "", "=1", "a=", "a={}", "a=$(id)", "-a", "a b", "a=1 2", "{{x}}"] {
            assert!(word.parse::<Host>().is_err(), "{word}");
        }
    }

    #[test]
    fn cluster_with_an_even_number_of_control_planes_has_an_odd_etcd() {
        let text = cluster(&hosts(&["a=192.0.2.1", "b"]), &hosts(&["c=::1"]), &Login { user: Some("ops".into()) });
        assert_eq!(
            text,
            "---\nall:\n  hosts:\n    a: {ansible_host: \"192.0.2.1\"}\n    b:\n    c: {ansible_host: \"::1\"}\n  vars:\n    \
             ansible_user: ops\n    ansible_become: true\n  children:\n    kube_control_plane:\n      hosts: {a: , b: }\n    etcd:\n      \
             hosts: {a: }\n    kube_node:\n      hosts: {c: }\n    k8s_cluster:\n      children: {kube_control_plane: , kube_node: }\n"
        );
    }

    #[test]
    fn cluster_without_workers_runs_pods_on_its_control_planes() {
        let text = cluster(&hosts(&["a", "b", "c"]), &[], &Login { user: None });
        assert_eq!(text.matches("{a: , b: , c: }").count(), 3, "{text}");
    }
}
