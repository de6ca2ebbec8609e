//! Groups of facts and their selection by `gather_subset`, with the names and exclusions of Ansible's `setup`.

use std::collections::BTreeSet;

use crate::Failure;

/// A group of facts that is gathered together.
#[derive(Debug)]
pub(crate) struct Subset {
    /// Name in `gather_subset`.
    pub(crate) name: &'static str,
    /// Facts of the group that also select it.
    pub(crate) also: &'static [&'static str],
    /// Groups that this one needs.
    pub(crate) needs: &'static [&'static str],
    /// Whether the group belongs to `min`.
    pub(crate) minimal: bool,
}

type Names = &'static [&'static str];

/// A group of the minimum, which `!min` excludes.
const fn minimal(name: &'static str, also: Names, needs: Names) -> Subset {
    Subset { name, also, needs, minimal: true }
}

/// A group that `min` leaves out.
const fn further(name: &'static str, also: Names, needs: Names) -> Subset {
    Subset { name, also, needs, minimal: false }
}

/// All groups, in the order in which they are gathered.
pub(crate) const SUBSETS: &[Subset] = &[
    minimal("platform", &["system", "kernel", "kernel_version", "machine", "architecture", "machine_id"], &[]),
    minimal(
        "distribution",
        &["distribution_version", "distribution_release", "distribution_major_version", "os_family"],
        &[],
    ),
    minimal("apparmor", &[], &[]),
    minimal("caps", &["system_capabilities", "system_capabilities_enforced"], &[]),
    further("chroot", &["is_chroot"], &[]),
    minimal("cmdline", &[], &[]),
    minimal("date_time", &[], &[]),
    minimal("dns", &[], &[]),
    minimal("env", &[], &[]),
    further("fibre_channel_wwn", &[], &[]),
    minimal("fips", &[], &[]),
    further("iscsi", &[], &[]),
    further("nvme", &[], &[]),
    further("loadavg", &[], &[]),
    minimal("local", &[], &[]),
    minimal("lsb", &[], &[]),
    minimal("pkg_mgr", &[], &["distribution"]),
    minimal("python", &["python_version"], &[]),
    minimal("selinux", &[], &[]),
    minimal("service_mgr", &[], &["platform", "distribution"]),
    minimal(
        "ssh_pub_keys",
        &[
            "ssh_host_pub_keys",
            "ssh_host_key_dsa_public",
            "ssh_host_key_rsa_public",
            "ssh_host_key_ecdsa_public",
            "ssh_host_key_ed25519_public",
        ],
        &[],
    ),
    further("systemd", &[], &[]),
    minimal(
        "user",
        &[
            "user_id",
            "user_uid",
            "user_gid",
            "user_gecos",
            "user_dir",
            "user_shell",
            "real_user_id",
            "effective_user_id",
            "effective_group_ids",
        ],
        &[],
    ),
    further("hardware", &["processor", "processor_cores", "processor_count", "mounts", "devices"], &["platform"]),
    further(
        "network",
        &["interfaces", "default_ipv4", "default_ipv6", "all_ipv4_addresses", "all_ipv6_addresses"],
        &["distribution", "platform"],
    ),
    further(
        "virtual",
        &["virtualization_type", "virtualization_role", "virtualization_tech_guest", "virtualization_tech_host"],
        &[],
    ),
    further("facter", &[], &[]),
    further("ohai", &[], &[]),
];

/// The groups that a `gather_subset` selects, in order: the minimum and the requested groups, without the excluded
/// ones. A group requested by name is never excluded.
pub(crate) fn select(wanted: &[&str]) -> Result<Vec<&'static Subset>, Failure> {
    let wanted = if wanted.is_empty() { &["all"] } else { wanted };
    let mut add: BTreeSet<&str> = SUBSETS.iter().filter(|subset| subset.minimal).map(|subset| subset.name).collect();
    let mut drop: BTreeSet<&str> = BTreeSet::new();
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for word in wanted {
        match *word {
            "all" => add.extend(SUBSETS.iter().map(|subset| subset.name)),
            "min" => {}
            "!all" => drop.extend(SUBSETS.iter().filter(|subset| !subset.minimal).map(|subset| subset.name)),
            "!min" => drop.extend(SUBSETS.iter().filter(|subset| subset.minimal).map(|subset| subset.name)),
            // An unknown group may be excluded, but not requested.
            word if word.starts_with('!') => {
                drop.extend(SUBSETS.iter().map(|subset| subset.name).filter(|name| word.get(1..) == Some(name)));
            }
            name => {
                let subset = SUBSETS.iter().find(|subset| subset.name == name || subset.also.contains(&name));
                named.insert(subset.ok_or_else(|| unknown(name))?.name);
            }
        }
    }
    let mut chosen: BTreeSet<&str> = add.difference(&drop).copied().collect();
    chosen.extend(named);
    let needed: Vec<&str> = SUBSETS
        .iter()
        .filter(|subset| chosen.contains(subset.name))
        .flat_map(|subset| subset.needs.iter().copied())
        .collect();
    chosen.extend(needed);
    Ok(SUBSETS.iter().filter(|subset| chosen.contains(subset.name)).collect())
}

fn unknown(name: &str) -> Failure {
    let mut allowed: BTreeSet<&str> =
        SUBSETS.iter().flat_map(|subset| subset.also.iter().copied().chain([subset.name])).collect();
    allowed.extend(["all", "min"]);
    let allowed: Vec<&str> = allowed.into_iter().collect();
    Failure::new(format!("Bad subset '{name}' given to Ansible. gather_subset options allowed: {}", allowed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &[&str]) -> Vec<&'static str> {
        select(wanted).unwrap().into_iter().map(|subset| subset.name).collect()
    }

    #[test]
    fn subset_all_with_exclusion_omits_group() {
        assert_eq!(names(&[]).len(), SUBSETS.len());
        assert!(!names(&["all", "!hardware"]).contains(&"hardware"));
        assert!(names(&["all", "!hardware"]).contains(&"network"));
        assert!(!names(&["all", "!network"]).contains(&"network"));
    }

    #[test]
    fn subset_min_included_unless_excluded() {
        assert!(
            names(&["!all"]).iter().all(|name| SUBSETS.iter().any(|subset| subset.name == *name && subset.minimal))
        );
        assert!(names(&["!all", "network"]).contains(&"distribution"));
        assert!(names(&["network"]).contains(&"user"));
        assert!(!names(&["network"]).contains(&"hardware"));
        assert!(names(&["!all", "!min"]).is_empty());
    }

    #[test]
    fn subset_exclusions_alone_keep_min_named_group_never_excluded() {
        assert_eq!(names(&["!hardware"]), names(&["min"]));
        assert_eq!(names(&["!all", "!min", "fips", "!fips"]), ["fips"]);
    }

    #[test]
    fn subset_single_fact_selects_group_and_dependencies() {
        assert_eq!(names(&["!all", "!min", "pkg_mgr"]), ["distribution", "pkg_mgr"]);
        assert_eq!(names(&["!all", "!min", "default_ipv4"]), ["platform", "distribution", "network"]);
        assert_eq!(names(&["!all", "!min", "mounts"]), ["platform", "hardware"]);
    }

    #[test]
    fn subset_unknown_group_refused_with_list() {
        let failure = select(&["hardwear"]).unwrap_err();
        assert!(
            failure.message.starts_with("Bad subset 'hardwear' given to Ansible. gather_subset options allowed: all, ")
        );
    }
}
