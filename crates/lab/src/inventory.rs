//! Writes the lab as an Ansible inventory with Kubespray's group names.

use std::fmt::Write;
use std::str::FromStr;

use crate::Error;
use crate::state::{Node, State};

/// Format of an inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Ansible's INI format.
    #[default]
    Ini,
    /// Ansible's YAML format.
    Yaml,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "ini" => Ok(Self::Ini),
            "yaml" => Ok(Self::Yaml),
            _ => Err(Error::Invalid(format!("The inventory format `{text}` is neither ini nor yaml."))),
        }
    }
}

/// Number of hosts for the control plane and etcd. Three if possible, because two cannot outvote a lost one.
const CONTROL_PLANES: usize = 3;

/// Writes the inventory.
pub(crate) fn write(state: &State, format: Format) -> String {
    match format {
        Format::Ini => ini(state),
        Format::Yaml => yaml(state),
    }
}

fn control_planes(nodes: &[Node]) -> &[Node] {
    let count = if nodes.len() < CONTROL_PLANES { 1 } else { CONTROL_PLANES };
    nodes.get(..count).unwrap_or_default()
}

/// Variables of all hosts. The lab has its own known_hosts file, so that the user's stays unchanged.
fn variables(state: &State) -> [(&'static str, String); 3] {
    let known_hosts = state.known_hosts();
    [
        ("ansible_user", "root".to_owned()),
        ("ansible_ssh_private_key_file", state.private_key().display().to_string()),
        (
            "ansible_ssh_common_args",
            format!("-o UserKnownHostsFile={} -o StrictHostKeyChecking=yes", known_hosts.display()),
        ),
    ]
}

/// Variables of one host, including its name as an etcd member.
fn host_variables(state: &State, node: &Node) -> Vec<(&'static str, String)> {
    let mut variables = vec![("ansible_host", node.address.to_string()), ("ip", node.address.to_string())];
    if control_planes(&state.nodes).contains(node) {
        variables.push(("etcd_member_name", format!("etcd{}", node.number)));
    }
    variables
}

fn ini(state: &State) -> String {
    let mut text = String::from("[all]\n");
    for node in &state.nodes {
        let variables = host_variables(state, node).into_iter().map(|(name, value)| format!(" {name}={value}"));
        let _ = writeln!(text, "{}{}", node.name, variables.collect::<String>());
    }
    text.push_str("\n[all:vars]\n");
    for (name, value) in variables(state) {
        let value = if value.contains(' ') { format!("'{value}'") } else { value };
        let _ = writeln!(text, "{name}={value}");
    }
    let planes = control_planes(&state.nodes);
    for (group, members) in [("kube_control_plane", planes), ("etcd", planes), ("kube_node", &state.nodes)] {
        let _ = writeln!(text, "\n[{group}]");
        for node in members {
            let _ = writeln!(text, "{}", node.name);
        }
    }
    text.push_str("\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n");
    text
}

fn yaml(state: &State) -> String {
    let mut text = String::from("all:\n  vars:\n");
    for (name, value) in variables(state) {
        let _ = writeln!(text, "    {name}: {value}");
    }
    text.push_str("  hosts:\n");
    for node in &state.nodes {
        let _ = writeln!(text, "    {}:", node.name);
        for (name, value) in host_variables(state, node) {
            let _ = writeln!(text, "      {name}: {value}");
        }
    }
    text.push_str("  children:\n");
    let planes = control_planes(&state.nodes);
    for (group, members) in [("kube_control_plane", planes), ("etcd", planes), ("kube_node", &state.nodes)] {
        let _ = writeln!(text, "    {group}:\n      hosts:");
        for node in members {
            let _ = writeln!(text, "        {}:", node.name);
        }
    }
    text.push_str("    k8s_cluster:\n      children:\n        kube_control_plane:\n        kube_node:\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn state(nodes: usize) -> State {
        let options = Options { directory: "/lab".into(), nodes, ..Options::default() };
        State::new(&options, "/cache/base".into())
    }

    #[test]
    fn ini_has_kubesprays_groups() {
        assert_eq!(
            write(&state(2), Format::Ini),
            "\
[all]
node1 ansible_host=10.97.0.11 ip=10.97.0.11 etcd_member_name=etcd1
node2 ansible_host=10.97.0.12 ip=10.97.0.12

[all:vars]
ansible_user=root
ansible_ssh_private_key_file=/lab/id_ed25519
ansible_ssh_common_args='-o UserKnownHostsFile=/lab/known_hosts -o StrictHostKeyChecking=yes'

[kube_control_plane]
node1

[etcd]
node1

[kube_node]
node1
node2

[k8s_cluster:children]
kube_control_plane
kube_node
"
        );
    }

    #[test]
    fn yaml_inventory_matches_ini() {
        assert_eq!(
            write(&state(1), Format::Yaml),
            "\
all:
  vars:
    ansible_user: root
    ansible_ssh_private_key_file: /lab/id_ed25519
    ansible_ssh_common_args: -o UserKnownHostsFile=/lab/known_hosts -o StrictHostKeyChecking=yes
  hosts:
    node1:
      ansible_host: 10.97.0.11
      ip: 10.97.0.11
      etcd_member_name: etcd1
  children:
    kube_control_plane:
      hosts:
        node1:
    etcd:
      hosts:
        node1:
    kube_node:
      hosts:
        node1:
    k8s_cluster:
      children:
        kube_control_plane:
        kube_node:
"
        );
    }

    #[test]
    fn etcd_members_are_one_or_three() {
        let members = |nodes| control_planes(&state(nodes).nodes).len();
        assert_eq!([1, 2, 3, 4, 5].map(members), [1, 1, 3, 3, 3]);
    }
}
