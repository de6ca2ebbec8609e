//! `package`: packages, whatever package manager the host has.

use super::{apk, apt, dnf, pacman, zypper};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    facts::{Root, os_family, package_manager_of},
};

/// The `package` module.
pub struct Package;

/// What the module takes and returns.
pub static SPEC: Spec = Spec {
    name: "package",
    summary: "Manage packages with the host's package manager",
    description: &["Does what `apt`, `dnf`, `zypper`, `pacman` or `apk` does, whichever the host has."],
    options: &[
        Opt::new("name", Kind::List(&Kind::Str), "Packages.").aliases(&["package", "pkg"]).default("[]"),
        Opt::new("state", Kind::Str, "`installed` and `removed` mean `present` and `absent`.")
            .default("\"present\"")
            .choices(&["present", "installed", "absent", "removed", "latest"]),
        Opt::new("use", Kind::Str, "The package manager, if it is not to be found out.")
            .aliases(&["use_backend"])
            .default("\"auto\""),
        Opt::new("update_cache", Kind::Bool, "Read the lists of packages anew first.").aliases(&["update-cache"]),
        Opt::new("cache_valid_time", Kind::Int, "apt: only if they are older than this many seconds.").default("0"),
        Opt::new("update_cache_retries", Kind::Int, "apt: how often to try.").default("5"),
        Opt::new("update_cache_retry_max_delay", Kind::Int, "apt: the longest pause between two tries.").default("12"),
        Opt::new("default_release", Kind::Str, "apt: the release to take packages from."),
        Opt::new("install_recommends", Kind::Bool, "apt: whether recommended packages come along."),
        Opt::new("purge", Kind::Bool, "apt: remove configuration files too.").default("false"),
        Opt::new("autoremove", Kind::Bool, "Remove packages that came along and are not needed any more.")
            .default("false"),
        Opt::new("lock_timeout", Kind::Int, "Seconds to wait for another process that holds a lock.").default("60"),
        Opt::new("dpkg_options", Kind::Str, "apt: options for dpkg.").default("\"force-confdef,force-confold\""),
        Opt::new("allow_downgrade", Kind::Bool, "Install older versions over newer ones.").default("false"),
        Opt::new("allow_unauthenticated", Kind::Bool, "apt: accept packages that are not signed.").default("false"),
        Opt::new("allow_change_held_packages", Kind::Bool, "apt: change packages that are on hold.").default("false"),
        Opt::new("force_apt_get", Kind::Bool, "Accepted for old playbooks.").default("false"),
        Opt::new("enablerepo", Kind::List(&Kind::Str), "dnf: repositories to use too.").default("[]"),
        Opt::new("disablerepo", Kind::List(&Kind::Str), "dnf: repositories not to use.").default("[]"),
        Opt::new("disable_gpg_check", Kind::Bool, "dnf: accept packages that are not signed.").default("false"),
    ],
    examples: "- name: Install packages\n  ansible.builtin.package:\n    name: [socat, conntrack]\n    state: present\n",
    returns: &[Return {
        name: "results",
        kind: "list",
        when: "dnf",
        doc: "What was (or would be) done to which package.",
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
