//! Misspelt variables of connections. Nothing reads them, so a host is reached in another way than intended.

use std::collections::HashSet;

use windlass_yaml::{Key, Node};

use crate::error::nearest;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::MISSPELT_CONNECTION;
use crate::lint::source::{Kind, SourceFile, place_of};

/// Variables with which a host is reached.
const KNOWN: &[&str] = &[
    "ansible_async_dir",
    "ansible_become",
    "ansible_become_exe",
    "ansible_become_flags",
    "ansible_become_method",
    "ansible_become_pass",
    "ansible_become_password",
    "ansible_become_user",
    "ansible_command_timeout",
    "ansible_connect_timeout",
    "ansible_connection",
    "ansible_control_path",
    "ansible_control_path_dir",
    "ansible_host",
    "ansible_host_key_checking",
    "ansible_network_os",
    "ansible_password",
    "ansible_pipelining",
    "ansible_port",
    "ansible_private_key_file",
    "ansible_python_interpreter",
    "ansible_remote_tmp",
    "ansible_scp_if_ssh",
    "ansible_shell_executable",
    "ansible_shell_type",
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_executable",
    "ansible_ssh_extra_args",
    "ansible_ssh_host",
    "ansible_ssh_host_key_checking",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_ssh_pipelining",
    "ansible_ssh_port",
    "ansible_ssh_private_key_file",
    "ansible_ssh_private_key_passphrase",
    "ansible_ssh_retries",
    "ansible_ssh_timeout",
    "ansible_ssh_transfer_method",
    "ansible_ssh_user",
    "ansible_timeout",
    "ansible_user",
];

/// Prefixes of variables that plugins of their own read.
const OF_PLUGINS: &[&str] = &[
    "ansible_chroot_",
    "ansible_doas_",
    "ansible_docker_",
    "ansible_httpapi_",
    "ansible_incus_",
    "ansible_kubectl_",
    "ansible_lxd_",
    "ansible_netconf_",
    "ansible_network_",
    "ansible_oc_",
    "ansible_paramiko_",
    "ansible_persistent_",
    "ansible_podman_",
    "ansible_psrp_",
    "ansible_su_",
    "ansible_sudo_",
    "ansible_winrm_",
];

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut reported: HashSet<(usize, &str)> = HashSet::new();
    for file in context.files.iter().filter(|file| matches!(file.kind, Kind::Vars | Kind::RoleVars)) {
        for key in file.node.as_map().into_iter().flat_map(|map| map.keys()) {
            one(context, file, key, &mut reported, findings);
        }
    }
    let entries = context.tree.entries.iter().map(|entry| (entry.file, entry.map));
    for (file, map) in entries.chain(context.tree.tasks.iter().map(|task| (task.file, task.map))) {
        for key in map.get("vars").and_then(Node::as_map).into_iter().flat_map(|vars| vars.keys()) {
            one(context, file, key, &mut reported, findings);
        }
    }
    let Some(inventory) = context.inventory else { return };
    for key in inventory.variables().flat_map(|variables| variables.keys()) {
        if let Some(file) = context.file_of(&key.span) {
            one(context, file, key, &mut reported, findings);
        }
    }
}

/// Reports a variable once for each file.
fn one<'p>(
    context: &Context<'_>,
    file: &SourceFile,
    key: &'p Key,
    reported: &mut HashSet<(usize, &'p str)>,
    findings: &mut Vec<Finding>,
) {
    let Some(name) = key.as_str().filter(|name| name.starts_with("ansible_") && !KNOWN.contains(name)) else { return };
    let is_fact = name.strip_prefix("ansible_").is_some_and(windlass_modules::facts::is_known);
    let is_of_plugin = name.ends_with("_interpreter") || OF_PLUGINS.iter().any(|prefix| name.starts_with(prefix));
    if is_fact || is_of_plugin {
        return;
    }
    let limit = (name.chars().count() / 6).clamp(1, 2);
    if let Some(hint) = nearest(name, limit, KNOWN.iter().copied())
        && !is_read(context, name)
        && reported.insert((file.index, name))
    {
        let message = format!("no connection reads the variable `{name}`");
        findings.push(Finding::new(&MISSPELT_CONNECTION, file, place_of(&key.span), message).help(hint));
    }
}

/// Whether a template reads a variable, which then has a purpose of its own.
fn is_read(context: &Context<'_>, name: &str) -> bool {
    let uses = context.parsed.iter().filter_map(|parsed| (*parsed.uses).as_ref().ok());
    uses.flat_map(|uses| &uses.names).any(|found| found.name == name)
}
