//! `package`: packages through the host's own package manager.

use super::{apk, apt, dnf, pacman, zypper};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    facts::{Root, os_family, package_manager_of},
};

/// The `package` module.
pub struct Package;

/// Specification of `package`.
pub static SPEC: Spec = Spec {
    name: "package",
    summary: "Manage packages with the host's package manager",
    description: &["Runs `apt`, `dnf`, `zypper`, `pacman` or `apk`, depending on the host."],
    options: &[
        Opt::new("name", Kind::List(&Kind::Str), "Names of the packages.")
            .address()
            .aliases(&["package", "pkg"])
            .default("[]"),
        Opt::new("state", Kind::Str, "`installed` and `removed` mean `present` and `absent`.")
            .default("\"present\"")
            .choices(&["present", "installed", "absent", "removed", "latest"]),
        Opt::new("use", Kind::Str, "Package manager to use. Default: detected.")
            .aliases(&["use_backend"])
            .default("\"auto\""),
        Opt::new("update_cache", Kind::Bool, "Update the package lists first.").aliases(&["update-cache"]),
        Opt::new("cache_valid_time", Kind::Int, "apt: update only lists older than this many seconds.").default("0"),
        Opt::new("update_cache_retries", Kind::Int, "apt: number of attempts to update the lists.").default("5"),
        Opt::new("update_cache_retry_max_delay", Kind::Int, "apt: longest pause between two attempts, in seconds.")
            .default("12"),
        Opt::new("default_release", Kind::Str, "apt: release to install packages from."),
        Opt::new("install_recommends", Kind::Bool, "apt: install recommended packages too."),
        Opt::new("purge", Kind::Bool, "apt: remove configuration files too.").default("false"),
        Opt::new("autoremove", Kind::Bool, "Remove dependencies that are no longer needed.").default("false"),
        Opt::new("lock_timeout", Kind::Int, "Seconds to wait for another process that holds the lock.").default("60"),
        Opt::new("dpkg_options", Kind::Str, "apt: options for dpkg, separated by commas.")
            .default("\"force-confdef,force-confold\""),
        Opt::new("allow_downgrade", Kind::Bool, "Allow replacing a version with an older one.").default("false"),
        Opt::new("allow_unauthenticated", Kind::Bool, "apt: accept unsigned packages.").default("false"),
        Opt::new("allow_change_held_packages", Kind::Bool, "apt: change packages that are on hold.").default("false"),
        Opt::new("force_apt_get", Kind::Bool, "No effect; accepted for compatibility.").default("false"),
        Opt::new("enablerepo", Kind::List(&Kind::Str), "dnf: additional repositories to enable.").default("[]"),
        Opt::new("disablerepo", Kind::List(&Kind::Str), "dnf: repositories to disable.").default("[]"),
        Opt::new("disable_gpg_check", Kind::Bool, "dnf: accept unsigned packages.").default("false"),
    ],
    examples: "- name: Install packages\n  ansible.builtin.package:\n    name: [socat, conntrack]\n    state: present\n",
    returns: &[Return {
        name: "results",
        kind: "list",
        when: "dnf",
        doc: "Action that was (or would be) taken for each package.",
    }],
    ..Spec::EMPTY
};

impl Module for Package {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let wanted = args.str("use").unwrap_or("auto").trim_start_matches("ansible.builtin.");
        let root = Root::host();
        let found = if matches!(wanted, "auto" | "") { package_manager_of(&root, &os_family(&root)) } else { wanted };
        if found == "apt" {
            return apt::plan(args, host);
        }
        if matches!(found, "dnf" | "dnf4" | "dnf5" | "yum" | "yum4") {
            return dnf::plan(args, found, host);
        }
        let module: &dyn Module = match found.trim_start_matches("community.general.") {
            "apk" => &apk::Apk,
            "pacman" => &pacman::Pacman,
            "zypper" => &zypper::Zypper,
            _ => {
                return Err(Failure::new(format!(
                    "Could not find a matching action for the \"{found}\" package manager. Known are apt, dnf, dnf5, yum, zypper, apk and pacman."
                )));
            }
        };
        let shared = ["name", "state", "update_cache"].into_iter();
        let given: Map = shared.filter_map(|key| Some((key.to_owned(), args.value(key)?.clone()))).collect();
        module.plan(&Args::validate(module.spec(), &given.into(), host)?, host)
    }
}
