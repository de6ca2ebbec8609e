//! Virtualization: technologies that the host is a guest of or a host for, by traces in `/proc`, `/sys` and `/run`. The
//! first one found decides `virtualization_type`.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Facts, Root};

/// Hints collected so far: the first one decides type and role, and all are listed.
#[derive(Default)]
struct Hints {
    first: Option<(String, &'static str)>,
    guest: BTreeSet<String>,
    host: BTreeSet<String>,
}

impl Hints {
    fn guest(&mut self, name: &str) {
        self.guest.insert(name.to_owned());
        self.first.get_or_insert_with(|| (name.to_owned(), "guest"));
    }

    fn host(&mut self, name: &str) {
        self.host.insert(name.to_owned());
        self.first.get_or_insert_with(|| (name.to_owned(), "host"));
    }
}

/// `virtualization_*`.
pub(crate) fn collect(root: &Root, facts: &mut Facts) {
    let mut hints = Hints::default();
    container(root, &mut hints);
    machine(root, &mut hints);
    let (kind, role) = hints.first.unwrap_or_else(|| ("NA".to_owned(), "NA"));
    facts.set("virtualization_type", kind);
    facts.set("virtualization_role", role);
    facts.set("virtualization_tech_guest", json!(hints.guest));
    facts.set("virtualization_tech_host", json!(hints.host));
}

fn container(root: &Root, hints: &mut Hints) {
    for line in root.read("/proc/1/cgroup").unwrap_or_default().lines() {
        let docker = line
            .split_once("/docker")
            .is_some_and(|(_, rest)| rest.starts_with('/') || rest.starts_with('-') && rest.contains(".scope"));
        if docker {
            hints.guest("docker");
        }
        if line.contains("/lxc/") || line.contains("/machine.slice/machine-lxc") {
            hints.guest("lxc");
        }
        if line.contains("/system.slice/containerd.service") {
            hints.guest("containerd");
        }
    }
    for variable in root.read("/proc/1/environ").unwrap_or_default().split('\0') {
        match variable.strip_prefix("container=") {
            Some("lxc") => hints.guest("lxc"),
            Some("podman") => hints.guest("podman"),
            _ => {}
        }
        if variable.strip_prefix("container=").is_some_and(|value| !value.is_empty()) {
            hints.guest("container");
        }
    }
    if root.exists("/proc/vz") && !root.exists("/proc/lve") {
        if root.exists("/proc/bc") { hints.host("openvz") } else { hints.guest("openvz") }
    }
    let manager = root.line("/run/systemd/container");
    if let Some(manager) = &manager {
        hints.guest(manager);
    }
    if root.exists("/.dockerenv") || root.exists("/.dockerinit") {
        hints.guest("docker");
    }
    if manager.is_some()
        || ["docker", "lxc", "podman", "openvz", "containerd"].iter().any(|name| hints.guest.contains(*name))
    {
        hints.guest("container");
    }
    if root.exists("/proc/xen") {
        let control = root.read("/proc/xen/capabilities").is_some_and(|text| text.contains("control_d"));
        if control { hints.host("xen") } else { _ = hints.first.get_or_insert_with(|| ("xen".to_owned(), "guest")) }
    }
}

fn machine(root: &Root, hints: &mut Hints) {
    let firmware = |file: &str| root.line(&format!("/sys/devices/virtual/dmi/id/{file}")).unwrap_or_default();
    let (product, vendor, bios) = (firmware("product_name"), firmware("sys_vendor"), firmware("bios_vendor"));
    match product.as_str() {
        "KVM" | "KVM Server" | "Bochs" | "AHV" | "CloudStack KVM Hypervisor" => hints.guest("kvm"),
        "OpenStack Compute" | "OpenStack Nova" => hints.guest("openstack"),
        product if product.starts_with("VMware") => hints.guest("VMware"),
        _ => {}
    }
    match vendor.as_str() {
        "oVirt" => hints.guest("oVirt"),
        "Red Hat" if firmware("product_family") == "RHV" => hints.guest("RHV"),
        "Red Hat" if product == "RHEV Hypervisor" => hints.guest("RHEV"),
        _ => {}
    }
    match bios.as_str() {
        "Xen" => hints.guest("xen"),
        "innotek GmbH" => hints.guest("virtualbox"),
        "Amazon EC2" | "DigitalOcean" | "Hetzner" | "Linode" => hints.guest("kvm"),
        _ => {}
    }
    match vendor.as_str() {
        "QEMU" | "Amazon EC2" | "DigitalOcean" | "Google" | "Scaleway" | "Nutanix" => hints.guest("kvm"),
        "KubeVirt" => hints.guest("KubeVirt"),
        "Microsoft Corporation" => hints.guest("VirtualPC"),
        "Parallels Software International Inc." => hints.guest("parallels"),
        "OpenStack Foundation" => hints.guest("openstack"),
        _ => {}
    }
    for line in root.read("/proc/cpuinfo").unwrap_or_default().lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        match key.trim() {
            "model name" if value.contains("QEMU Virtual CPU") => hints.guest("kvm"),
            "machine" if value.contains("CHRP IBM pSeries (emulated by qemu)") => hints.guest("kvm"),
            "vendor_id" if value.contains("User Mode Linux") => hints.guest("uml"),
            "vendor_id" if value.contains("PowerVM Lx86") => hints.guest("powervm_lx86"),
            "vendor_id" if value.contains("IBM/S390") => hints.guest("ibm_systemz"),
            _ => {}
        }
    }
    let modules = root.read("/proc/modules").unwrap_or_default();
    let loaded = |name: &str| modules.lines().any(|line| line.split(' ').next() == Some(name));
    if loaded("kvm") {
        hints.host("kvm");
    }
    if loaded("vboxdrv") {
        hints.host("virtualbox");
    }
    if loaded("virtio") {
        hints.host.insert("kvm".to_owned());
        hints.first.get_or_insert_with(|| ("kvm".to_owned(), "guest"));
    }
    if root.exists("/dev/kvm") {
        hints.host("kvm");
    }
}

#[cfg(test)]
mod tests {
    use super::{super::root::tests::tree, *};

    fn of(files: &[(&str, &str)]) -> (String, String) {
        let (_folder, root) = tree(files);
        let mut facts = Facts::default();
        collect(&root, &mut facts);
        let text = |key: &str| facts.text(key).unwrap_or_default().to_owned();
        (text("virtualization_type"), text("virtualization_role"))
    }

    #[test]
    fn container_guest_and_host_distinguished() {
        let pair = |kind: &str, role: &str| (kind.to_owned(), role.to_owned());
        assert_eq!(of(&[]), pair("NA", "NA"));
        assert_eq!(of(&[("/sys/devices/virtual/dmi/id/sys_vendor", "QEMU\n"), ("/dev/kvm", "")]), pair("kvm", "guest"));
        assert_eq!(of(&[("/dev/kvm", "")]), pair("kvm", "host"));
        assert_eq!(of(&[("/run/systemd/container", "systemd-nspawn\n")]), pair("systemd-nspawn", "guest"));
        assert_eq!(of(&[("/proc/1/cgroup", "0::/system.slice/docker-12ab.scope\n")]), pair("docker", "guest"));
    }
}
