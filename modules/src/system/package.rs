//! `package`: packages through the host's own package manager.

use super::{apk, apt, dnf, pacman, zypper};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    facts::{Root, os_family, package_manager_of},
};

/// The `package` module.
pub struct Package;

/// Specification of `package`.
pub static SPEC: Spec = Spec {
    name: "package",
    summary: "Manage packages with the host's package manager",
    description: &["Runs `apt`, `dnf`, `zypper`, `pacman` or `apk`, depending on the host."],
    // Neither defaults nor choices: the package manager's module has its own.
    options: &[
        Opt::new("name", Kind::List(&Kind::Str), "Names of the packages.").address().aliases(&["package", "pkg"]),
        Opt::new(
            "state",
            Kind::Str,
            "`present` installs, `absent` removes, `latest` also upgrades. Package managers may have further states.",
        ),
        Opt::new("use", Kind::Str, "Package manager to use. Default: detected."),
        Opt::new("update_cache", Kind::Bool, "Update the package lists first.").aliases(&["update-cache"]),
        Opt::new("deb", Kind::Str, "apt: package file on the host, or its URL.").address(),
        Opt::new("list", Kind::Str, "dnf: only list packages."),
    ],
    others: Some("Further options of the package manager's module."),
    examples: "- name: Install packages\n  ansible.builtin.package:\n    name: [socat, conntrack]\n    state: present\n",
    returns: &[Return {
        name: "results",
        kind: "list",
        when: "dnf",
        doc: "Action that was (or would be) taken for each package.",
    }],
    ..Spec::EMPTY
}
.compiled();

impl Module for Package {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let wanted = args.str("use").unwrap_or("auto").trim_start_matches("ansible.builtin.");
        let root = Root::host();
        let found = if matches!(wanted, "auto" | "") { package_manager_of(&root, &os_family(&root)) } else { wanted };
        let module: &dyn Module = match found.trim_start_matches("community.general.") {
            "apt" => &apt::Apt,
            "dnf" | "dnf4" | "dnf5" | "yum" | "yum4" => &dnf::Dnf,
            "apk" => &apk::Apk,
            "pacman" => &pacman::Pacman,
            "zypper" => &zypper::Zypper,
            _ => {
                return Err(Failure::new(format!(
                    "Could not find a matching action for the \"{found}\" package manager. Known are apt, dnf, dnf5, yum, zypper, apk and pacman."
                )));
            }
        };
        let spec = module.spec();
        let mut given = args.without("use");
        if spec.name == "dnf" && args.value("use_backend").is_none() {
            given["use_backend"] = found.into();
        }
        let called = if spec.collection == "ansible.builtin" { "ansible.legacy" } else { spec.collection };
        module.plan(&Args::validate_as(&format!("{called}.{}", spec.name), spec, &given, host)?, host)
    }
}
