//! The service manager, by which `service` selects a module, and systemd's version.

use std::time::Duration;

use super::{Facts, Root, probe};

/// `service_mgr`.
pub(crate) fn collect(root: &Root, facts: &mut Facts) {
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
}
