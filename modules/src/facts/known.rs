//! Names of the facts that `setup` reports. Other names exist only for network interfaces, where the host chooses them.

/// Facts that `hostname` reports.
pub const OF_HOSTNAME: &[&str] = &["ansible_domain", "ansible_fqdn", "ansible_hostname", "ansible_nodename"];

/// Keys of the fact of a network interface, or of a further name of its addresses.
const OF_INTERFACES: &[&str] = &[
    "active",
    "all_slaves_active",
    "device",
    "features",
    "id",
    "interfaces",
    "ipv4",
    "ipv4_secondaries",
    "ipv6",
    "lacp_rate",
    "macaddress",
    "miimon",
    "mode",
    "module",
    "mtu",
    "pciid",
    "perm_macaddress",
    "primary",
    "promisc",
    "slaves",
    "speed",
    "stp",
    "type",
];

/// Names without `ansible_`, sorted.
const NAMES: &[&str] = &[
    "all_ipv4_addresses",
    "all_ipv6_addresses",
    "apparmor",
    "architecture",
    "bios_date",
    "bios_vendor",
    "bios_version",
    "board_asset_tag",
    "board_name",
    "board_serial",
    "board_vendor",
    "board_version",
    "chassis_asset_tag",
    "chassis_serial",
    "chassis_vendor",
    "chassis_version",
    "cmdline",
    "date_time",
    "default_ipv4",
    "default_ipv6",
    "device_links",
    "devices",
    "distribution",
    "distribution_file_parsed",
    "distribution_file_path",
    "distribution_file_search_string",
    "distribution_file_variety",
    "distribution_major_version",
    "distribution_minor_version",
    "distribution_release",
    "distribution_version",
    "dns",
    "domain",
    "effective_group_id",
    "effective_user_id",
    "env",
    "fibre_channel_wwn",
    "fips",
    "flags",
    "form_factor",
    "fqdn",
    "hostname",
    "hostnqn",
    "interfaces",
    "is_chroot",
    "iscsi_iqn",
    "kernel",
    "kernel_version",
    "loadavg",
    "local",
    "locally_reachable_ips",
    "lsb",
    "lvm",
    "machine",
    "machine_id",
    "memfree_mb",
    "memory_mb",
    "memtotal_mb",
    "mounts",
    "nodename",
    "os_family",
    "pkg_mgr",
    "proc_cmdline",
    "processor",
    "processor_cores",
    "processor_count",
    "processor_nproc",
    "processor_threads_per_core",
    "processor_vcpus",
    "product_name",
    "product_serial",
    "product_uuid",
    "product_version",
    "python",
    "python_version",
    "real_group_id",
    "real_user_id",
    "selinux",
    "selinux_python_present",
    "service_mgr",
    "ssh_host_key_dsa_public",
    "ssh_host_key_dsa_public_keytype",
    "ssh_host_key_ecdsa_public",
    "ssh_host_key_ecdsa_public_keytype",
    "ssh_host_key_ed25519_public",
    "ssh_host_key_ed25519_public_keytype",
    "ssh_host_key_rsa_public",
    "ssh_host_key_rsa_public_keytype",
    "swapfree_mb",
    "swaptotal_mb",
    "system",
    "system_capabilities",
    "system_capabilities_enforced",
    "system_vendor",
    "systemd",
    "uptime_seconds",
    "user_dir",
    "user_gecos",
    "user_gid",
    "user_id",
    "user_shell",
    "user_uid",
    "userspace_architecture",
    "userspace_bits",
    "virtualization_role",
    "virtualization_tech_guest",
    "virtualization_tech_host",
    "virtualization_type",
];

/// Whether `setup` reports a fact of this name, given without `ansible_`. The facts of network interfaces, which are
/// mappings, have other names.
pub fn is_known(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

/// Whether the fact of a network interface may have this key.
pub fn is_of_interface(key: &str) -> bool {
    OF_INTERFACES.binary_search(&key).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(NAMES.is_sorted() && OF_INTERFACES.is_sorted());
    }
}
