//! The package manager, by which `package` selects a module.

use super::{Facts, Root, distribution};

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
pub(crate) fn collect(root: &Root, facts: &mut Facts) {
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

#[cfg(test)]
mod tests {
    use super::{super::root::tests::tree, *};

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
