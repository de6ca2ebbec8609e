//! Names of the package and service managers, by which `package` and `service` select a module; systemd's version.

use std::time::Duration;

use super::{Facts, Root, distribution, probe};

/// Package managers by program; if several are installed, the last one counts.
const PACKAGE_MANAGERS: &[(&str, &str)] = &[
    ("/usr/bin/rpm-ostree", "atomic_container"),
    ("/usr/bin/apt-get", "apt"),
    ("/usr/bin/zypper", "zypper"),
    ("/usr/sbin/urpmi", "urpmi"),
    ("/usr/bin/pacman", "pacman"),
    ("/bin/opkg", "opkg"),
    ("/usr/pkg/bin/pkgin", "pkgin"),
    ("/sbin/apk", "apk"),
    ("/usr/bin/emerge", "portage"),
    ("/usr/bin/xbps-install", "xbps"),
    ("/usr/bin/swupd", "swupd"),
    ("/usr/sbin/sorcery", "sorcery"),
];

/// `pkg_mgr`.
pub(crate) fn package_manager(root: &Root, facts: &mut Facts) {
    let family = facts.text("os_family").map_or_else(
        || {
            let mut own = Facts::default();
            distribution::collect(root, &mut own);
            own.text("os_family").unwrap_or_default().to_owned()
        },
        str::to_owned,
    );
    facts.set("pkg_mgr", package_manager_of(root, &family));
}

/// The package manager of a host in this family.
pub(crate) fn package_manager_of(root: &Root, family: &str) -> &'static str {
    match family {
        "RedHat" if root.exists("/run/ostree-booted") => "atomic_container",
        "RedHat" => {
            let program = ["/usr/bin/dnf", "/usr/bin/microdnf"].into_iter().find(|path| root.exists(path));
            match program.map(|path| root.real_path(path)) {
                Some(Some(real)) if real == "/usr/bin/dnf5" => "dnf5",
                Some(_) => "dnf",
                None if root.exists("/usr/bin/yum") => "yum",
                None => "unknown",
            }
        }
        "Debian" => "apt",
        _ => {
            let installed = PACKAGE_MANAGERS.iter().rfind(|(path, _)| root.exists(path));
            match installed.map(|(_, name)| *name) {
                Some("apt") if family == "Altlinux" => "apt_rpm",
                Some(name) => name,
                None => "unknown",
            }
        }
    }
}

/// `service_mgr`.
pub(crate) fn service_manager(root: &Root, facts: &mut Facts) {
    let name = service_manager_of(root);
    facts.set("service_mgr", name);
}

/// The service manager: the name of process 1 or, if that is inconclusive, an installed one.
pub(crate) fn service_manager_of(root: &Root) -> String {
    let first = root.line("/proc/1/comm").or_else(|| root.link_name("/sbin/init"));
    if let Some(first) = first.filter(|name| name != "init" && !name.ends_with("sh")) {
        return match first.as_str() {
            "procd" => "openwrt_init".to_owned(),
            "runit-init" => "runit".to_owned(),
            "svscan" => "svc".to_owned(),
            "openrc-init" => "openrc".to_owned(),
            _ => first,
        };
    }
    let systemctl = root.program("systemctl").is_some();
    let name = if systemd_runs(root) {
        "systemd"
    } else if root.program("initctl").is_some() && root.exists("/etc/init") {
        "upstart"
    } else if root.exists("/sbin/openrc") {
        "openrc"
    } else if systemctl && root.link_name("/sbin/init").as_deref() == Some("systemd") {
        "systemd"
    } else if root.exists("/etc/init.d") {
        "sysvinit"
    } else if root.exists("/etc/dinit.d") {
        "dinit"
    } else {
        "service"
    };
    name.to_owned()
}

/// Whether systemd is the running init system.
pub(crate) fn systemd_runs(root: &Root) -> bool {
    let canaries = ["/run/systemd/system", "/dev/.run/systemd", "/dev/.systemd"];
    root.program("systemctl").is_some() && canaries.iter().any(|path| root.exists(path))
}

/// `systemd`: version and features.
pub(crate) fn systemd(root: &Root, facts: &mut Facts) {
    if !systemd_runs(root) {
        return;
    }
    let Some(program) = root.program("systemctl") else { return };
    let Some(answer) = probe::ask(&program, &["--version"], Duration::from_secs(5)) else { return };
    let mut lines = answer.stdout.lines();
    let version = lines.next().and_then(|line| line.split(' ').nth(1)?.parse::<u32>().ok());
    if let Some(version) = version {
        facts.set("systemd", serde_json::json!({ "version": version, "features": lines.next().unwrap_or_default() }));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::root::tests::tree, *};

    #[test]
    fn service_manager_from_process_one_or_installed_files() {
        let (_folder, root) = tree(&[("/proc/1/comm", "systemd\n")]);
        assert_eq!(service_manager_of(&root), "systemd");
        let (_folder, root) = tree(&[("/proc/1/comm", "init\n"), ("/sbin/openrc", "")]);
        assert_eq!(service_manager_of(&root), "openrc");
        let (_folder, root) =
            tree(&[("/proc/1/comm", "bash\n"), ("/usr/bin/systemctl", ""), ("/run/systemd/system/x", "")]);
        assert_eq!(service_manager_of(&root), "systemd");
        let (_folder, root) = tree(&[("/proc/1/comm", "sh\n"), ("/etc/init.d/cron", "")]);
        assert_eq!(service_manager_of(&root), "sysvinit");
    }

    #[test]
    fn package_manager_of_family_preferred_over_others() {
        let (_folder, root) = tree(&[("/usr/bin/apt-get", ""), ("/usr/bin/zypper", "")]);
        assert_eq!(package_manager_of(&root, "Debian"), "apt");
        assert_eq!(package_manager_of(&root, "Suse"), "zypper");
        let (_folder, root) = tree(&[("/usr/bin/dnf", "")]);
        assert_eq!(package_manager_of(&root, "RedHat"), "dnf");
        let (_folder, root) = tree(&[("/sbin/apk", "")]);
        assert_eq!(package_manager_of(&root, "Alpine"), "apk");
        assert_eq!(package_manager_of(&root, "Flatcar"), "apk");
    }
}
