//! Security features of the kernel: AppArmor, SELinux, FIPS mode, chroot(2), capabilities(7).

use serde_json::json;

use super::{Facts, Root};

/// `apparmor`.
pub(crate) fn apparmor(root: &Root, facts: &mut Facts) {
    let status = if root.exists("/sys/kernel/security/apparmor") { "enabled" } else { "disabled" };
    facts.set("apparmor", json!({ "status": status }));
}

/// `selinux`, from selinuxfs and the configuration.
pub(crate) fn selinux(root: &Root, facts: &mut Facts) {
    facts.set("selinux_python_present", true);
    let Some(enforcing) = root.line("/sys/fs/selinux/enforce") else {
        return facts.set("selinux", json!({ "status": "disabled" }));
    };
    let configuration = super::distribution::assignments(&root.read("/etc/selinux/config").unwrap_or_default());
    let configured = |key: &str| configuration.get(key).cloned().unwrap_or_else(|| "unknown".to_owned());
    let version = root.line("/sys/fs/selinux/policyvers").and_then(|text| text.parse::<u32>().ok());
    facts.set(
        "selinux",
        json!({
            "status": "enabled",
            "policyvers": version.map_or(json!("unknown"), |version| json!(version)),
            "config_mode": configured("SELINUX"),
            "mode": if enforcing == "1" { "enforcing" } else { "permissive" },
            "type": configured("SELINUXTYPE"),
        }),
    );
}

/// `fips`.
pub(crate) fn fips(root: &Root, facts: &mut Facts) {
    facts.set("fips", root.line("/proc/sys/crypto/fips_enabled").as_deref() == Some("1"));
}

/// `is_chroot`.
pub(crate) fn chroot(root: &Root, facts: &mut Facts) {
    facts.set("is_chroot", is_chroot(root));
}

/// Whether this root differs from that of process 1.
pub(crate) fn is_chroot(root: &Root) -> bool {
    let identity = |path: &str| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(root.path(path)).ok().map(|metadata| (metadata.dev(), metadata.ino()))
    };
    match (identity("/"), identity("/proc/1/root/.")) {
        (Some(here), Some(first)) => here != first,
        (Some((_, inode)), None) => inode != 2 && inode != 128 && inode != 256,
        _ => false,
    }
}

/// Names of the kernel's capabilities, by number.
const CAPABILITIES: &[&str] = &[
    "cap_chown",
    "cap_dac_override",
    "cap_dac_read_search",
    "cap_fowner",
    "cap_fsetid",
    "cap_kill",
    "cap_setgid",
    "cap_setuid",
    "cap_setpcap",
    "cap_linux_immutable",
    "cap_net_bind_service",
    "cap_net_broadcast",
    "cap_net_admin",
    "cap_net_raw",
    "cap_ipc_lock",
    "cap_ipc_owner",
    "cap_sys_module",
    "cap_sys_rawio",
    "cap_sys_chroot",
    "cap_sys_ptrace",
    "cap_sys_pacct",
    "cap_sys_admin",
    "cap_sys_boot",
    "cap_sys_nice",
    "cap_sys_resource",
    "cap_sys_time",
    "cap_sys_tty_config",
    "cap_mknod",
    "cap_lease",
    "cap_audit_write",
    "cap_audit_control",
    "cap_setfcap",
    "cap_mac_override",
    "cap_mac_admin",
    "cap_syslog",
    "cap_wake_alarm",
    "cap_block_suspend",
    "cap_audit_read",
    "cap_perfmon",
    "cap_bpf",
    "cap_checkpoint_restore",
];

/// `system_capabilities`: the executor's capabilities, unless it has all of them (then nothing is enforced).
pub(crate) fn capabilities(root: &Root, facts: &mut Facts) {
    let status = root.read("/proc/self/status").unwrap_or_default();
    let Some(effective) =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
    else {
        facts.set("system_capabilities_enforced", "N/A");
        return facts.set("system_capabilities", Vec::<String>::new());
    };
    let known = root
        .line("/proc/sys/kernel/cap_last_cap")
        .and_then(|last| last.parse::<usize>().ok())
        .map_or(CAPABILITIES.len(), |last| last + 1);
    let known = known.min(CAPABILITIES.len());
    let all = (1u64 << known) - 1;
    if effective & all == all {
        facts.set("system_capabilities_enforced", "False");
        return facts.set("system_capabilities", Vec::<String>::new());
    }
    let missing: Vec<&str> = names(!effective & all);
    // Writes a nearly complete set as all capabilities minus the missing ones, split at commas like Ansible.
    let list: Vec<String> = if missing.len() < 8 {
        format!("ep {}-ep", missing.join(",")).split(',').map(str::to_owned).collect()
    } else {
        names(effective & all).into_iter().map(str::to_owned).collect()
    };
    facts.set("system_capabilities_enforced", "True");
    facts.set("system_capabilities", list);
}

fn names(set: u64) -> Vec<&'static str> {
    CAPABILITIES.iter().enumerate().filter(|(number, _)| set >> number & 1 == 1).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::root::tests::tree, *};

    #[test]
    fn selinux_enforcing_reported() {
        let (_folder, root) = tree(&[
            ("/sys/fs/selinux/enforce", "1"),
            ("/sys/fs/selinux/policyvers", "33"),
            ("/etc/selinux/config", "# comment\nSELINUX=enforcing\nSELINUXTYPE=targeted\n"),
        ]);
        let mut facts = Facts::default();
        selinux(&root, &mut facts);
        let wanted = json!({"status": "enabled", "policyvers": 33, "config_mode": "enforcing", "mode": "enforcing", "type": "targeted"});
        assert_eq!(facts.value("selinux"), Some(&wanted));
    }

    #[test]
    fn capabilities_missing_some_listed() {
        let (_folder, root) = tree(&[
            ("/proc/self/status", "Name:\tx\nCapEff:\t000001fffcffffff\n"),
            ("/proc/sys/kernel/cap_last_cap", "40\n"),
        ]);
        let mut facts = Facts::default();
        capabilities(&root, &mut facts);
        assert_eq!(facts.value("system_capabilities"), Some(&json!(["ep cap_sys_resource", "cap_sys_time-ep"])));
    }
}
