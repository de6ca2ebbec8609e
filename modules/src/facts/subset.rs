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

const fn subset(
    name: &'static str,
    minimal: bool,
    also: &'static [&'static str],
    needs: &'static [&'static str],
) -> Subset {
    Subset { name, also, needs, minimal }
}

/// All groups, in the order in which they are gathered.
pub(crate) const SUBSETS: &[Subset] = &[
    subset("platform", true, &["system", "kernel", "kernel_version", "machine", "architecture", "machine_id"], &[]),
    subset(
        "distribution",
        true,
        &["distribution_version", "distribution_release", "distribution_major_version", "os_family"],
        &[],
    ),
    subset("apparmor", true, &[], &[]),
    subset("caps", true, &["system_capabilities", "system_capabilities_enforced"], &[]),
    subset("chroot", false, &["is_chroot"], &[]),
    subset("cmdline", true, &[], &[]),
    subset("date_time", true, &[], &[]),
    subset("dns", true, &[], &[]),
    subset("env", true, &[], &[]),
    subset("fibre_channel_wwn", false, &[], &[]),
    subset("fips", true, &[], &[]),
    subset("iscsi", false, &[], &[]),
    subset("nvme", false, &[], &[]),
    subset("loadavg", false, &[], &[]),
    subset("local", true, &[], &[]),
    subset("lsb", true, &[], &[]),
    subset("pkg_mgr", true, &[], &["distribution"]),
    subset("python", true, &["python_version"], &[]),
    subset("selinux", true, &[], &[]),
    subset("service_mgr", true, &[], &["platform", "distribution"]),
    subset(
        "ssh_pub_keys",
        true,
        &[
            "ssh_host_pub_keys",
            "ssh_host_key_dsa_public",
            "ssh_host_key_rsa_public",
            "ssh_host_key_ecdsa_public",
            "ssh_host_key_ed25519_public",
        ],
        &[],
    ),
    subset("systemd", false, &[], &[]),
    subset(
        "user",
        true,
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
    subset("hardware", false, &["processor", "processor_cores", "processor_count", "mounts", "devices"], &["platform"]),
    subset(
        "network",
        false,
        &["interfaces", "default_ipv4", "default_ipv6", "all_ipv4_addresses", "all_ipv6_addresses"],
        &["distribution", "platform"],
    ),
    subset(
        "virtual",
        false,
        &["virtualization_type", "virtualization_role", "virtualization_tech_guest", "virtualization_tech_host"],
        &[],
    ),
    subset("facter", false, &[], &[]),
    subset("ohai", false, &[], &[]),
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
