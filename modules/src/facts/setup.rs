//! `setup`: gathers facts about the host.

use std::time::Duration;

use serde_json::Value;

use super::{
    Facts, Root, account, clock, cmdline, distribution, dns, hardware, local, network, package_manager, platform,
    python, security, service_manager, ssh_host_keys, storage, subset, virtualization,
};
use crate::{Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec};

/// The `setup` module.
pub struct Setup;

/// Option for the groups of facts.
pub const GATHER_SUBSET: Opt = Opt::new(
    "gather_subset",
    Kind::List(&Kind::Str),
    "Groups of facts, or single facts that select their group: `all`, `min`, `hardware`, `network`, `virtual` and \
     others. A leading `!` excludes a group; `min` is always included, except with `!min`.",
)
.default("[\"all\"]");
/// Option for the facts to return.
pub const FILTER: Opt =
    Opt::new("filter", Kind::List(&Kind::Str), "Return only facts whose names match one of these shell patterns.")
        .default("[]");
/// Option for the folder of local facts.
pub const FACT_PATH: Opt =
    Opt::new("fact_path", Kind::Path, "Folder with local facts: files `*.fact` in JSON or INI format, or executable.")
        .default("\"/etc/ansible/facts.d\"");
/// Option for the time limit.
pub const GATHER_TIMEOUT: Opt = Opt::new(
    "gather_timeout",
    Kind::Int,
    "Seconds to wait for a single answer, for example of an unreachable file server.",
)
.default("10");

static SPEC: Spec = Spec {
    name: "setup",
    summary: "Gather facts about a host",
    description: &[
        "Gathers names, distribution, hardware, addresses, managers and environment of a host. Plays call this \
         module at their start unless `gather_facts` is false.",
        "Reads the facts from files and from the kernel. Needs no packages on the host and, apart from local facts, \
         starts almost no processes.",
    ],
    options: &[
        GATHER_SUBSET,
        FILTER,
        FACT_PATH,
        GATHER_TIMEOUT,
        Opt::new("_python", Kind::Str, "Python to report. Default: the host's `python3`."),
    ],
    examples: "- name: All facts\n  ansible.builtin.setup:\n\n- name: Addresses only\n  ansible.builtin.setup:\n    gather_subset:\n      - '!all'\n      - network\n    filter:\n      - ansible_*_ipv4*\n",
    returns: &[Return {
        name: "ansible_facts",
        kind: "dict",
        when: "success",
        doc: "Facts with the prefix `ansible_`.",
    }],
    ..Spec::EMPTY
}
.compiled();

impl Module for Setup {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let wanted = args.list("gather_subset");
        let limit = args.seconds("gather_timeout", 10).max(Duration::from_secs(1));
        let asked = || python::ask(args.str("_python").unwrap_or("python3"), limit, host);
        let facts = gather(&wanted, args.str("fact_path").unwrap_or_default(), limit, host, asked)?;
        let mut named = facts.prefixed();
        named.insert("gather_subset".into(), wanted.into());
        named.insert("module_setup".into(), true.into());
        let filter = args.list("filter");
        // An empty list or an empty pattern returns all facts.
        let is_all = filter.is_empty() || filter.iter().any(|pattern| matches!(*pattern, "" | "*"));
        let named = if is_all { named } else { filtered(named, &filter)? };
        Ok(Plan::unchanged().with("ansible_facts", named))
    }
}

fn gather(
    wanted: &[&str],
    fact_path: &str,
    limit: Duration,
    host: &Host,
    ask_python: impl Fn() -> Option<python::Asked>,
) -> Result<Facts, Failure> {
    let root = Root::host();
    let mut facts = Facts::default();
    let subsets = subset::select(wanted)?;
    let python = subsets.iter().any(|subset| subset.name == "python").then(ask_python).flatten();
    for subset in subsets {
        if host.cancelled() {
            return Err(Failure::new("Gathering facts was cancelled."));
        }
        match subset.name {
            "platform" => platform::collect(&root, &mut facts),
            "distribution" => distribution::collect(&root, &mut facts),
            "apparmor" => security::apparmor(&root, &mut facts),
            "caps" => security::capabilities(&root, &mut facts),
            "chroot" => security::chroot(&root, &mut facts),
            "cmdline" => cmdline::collect(&root, &mut facts),
            "date_time" => clock::collect(&mut facts),
            "dns" => dns::collect(&root, &mut facts),
            "env" => account::environment(host, &mut facts),
            "fibre_channel_wwn" => facts.set("fibre_channel_wwn", fibre_channel(&root)),
            "fips" => security::fips(&root, &mut facts),
            "iscsi" => facts.set("iscsi_iqn", initiator(&root)),
            "nvme" => facts.set("hostnqn", root.line("/etc/nvme/hostnqn").unwrap_or_default()),
            "loadavg" => clock::load_average(&mut facts),
            "local" => local::collect(fact_path, limit, host, &mut facts),
            "lsb" => distribution::lsb(&root, &mut facts),
            "pkg_mgr" => package_manager::collect(&root, &mut facts),
            // Python runs in parallel.
            "python" => {}
            "selinux" => security::selinux(&root, &mut facts),
            "service_mgr" => service_manager::collect(&root, &mut facts),
            "ssh_pub_keys" => ssh_host_keys::collect(&root, &mut facts),
            "systemd" => service_manager::systemd(&root, &mut facts),
            "user" => account::collect(&root, host, &mut facts),
            "hardware" => {
                hardware::collect(&root, &mut facts);
                storage::collect(&root, limit, &mut facts);
            }
            "network" => network::collect(&root, &mut facts),
            "virtual" => virtualization::collect(&root, &mut facts),
            // Facter and ohai are external programs.
            _ => {}
        }
    }
    python::collect(python, &mut facts);
    Ok(facts)
}

fn fibre_channel(root: &Root) -> Vec<String> {
    let hosts = root.names("/sys/class/fc_host");
    hosts
        .iter()
        .filter_map(|name| root.line(&format!("/sys/class/fc_host/{name}/port_name")))
        .map(|name| name.trim_start_matches("0x").to_owned())
        .collect()
}

fn initiator(root: &Root) -> String {
    let text = root.read("/etc/iscsi/initiatorname.iscsi").unwrap_or_default();
    let name = text.lines().find_map(|line| line.trim().strip_prefix("InitiatorName="));
    name.unwrap_or_default().to_owned()
}

/// The facts whose names match a pattern, with or without `ansible_`.
fn filtered(facts: Map, patterns: &[&str]) -> Result<Map, Failure> {
    let mut matchers = Vec::new();
    for pattern in patterns {
        let glob = globset::Glob::new(pattern)
            .map_err(|error| Failure::new(format!("The filter {pattern:?} is not a shell pattern: {error}.")))?;
        matchers.push((glob.compile_matcher(), pattern.starts_with("ansible_")));
    }
    let keeps = |name: &str| {
        matchers.iter().any(|(matcher, prefixed)| {
            matcher.is_match(name)
                || (!prefixed && name.strip_prefix("ansible_").is_some_and(|short| matcher.is_match(short)))
        })
    };
    Ok(facts.into_iter().filter(|(name, _): &(String, Value)| keeps(name)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(arguments: Value) -> Value {
        crate::run(&Setup, &arguments, &Host::alone())["ansible_facts"].take()
    }

    #[test]
    fn setup_facts_describe_this_machine() {
        let facts = facts(json!({}));
        assert_eq!(facts["ansible_system"], "Linux");
        assert_eq!(
            facts["ansible_kernel"].as_str().unwrap(),
            std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim()
        );
        assert!(facts["ansible_memtotal_mb"].as_u64().unwrap() > 0);
        assert!(facts["ansible_interfaces"].as_array().unwrap().contains(&json!("lo")));
        assert_eq!(facts["ansible_lo"]["ipv4"]["address"], "127.0.0.1");
        assert!(!facts["ansible_distribution"].as_str().unwrap().is_empty());
        assert!(!facts["ansible_mounts"].as_array().unwrap().is_empty());
        assert_eq!(facts["module_setup"], true);
        if let Some(python) = facts.get("ansible_python") {
            assert_eq!(python["version"]["major"], 3, "{python}");
            assert!(facts["ansible_python_version"].as_str().unwrap().starts_with("3."));
        }
    }

    #[test]
    fn filter_empty_returns_all() {
        let facts = facts(json!({ "gather_subset": ["!all"], "filter": "" }));
        assert!(facts.get("ansible_hostname").is_some());
    }

    #[test]
    fn filter_matches_with_and_without_prefix() {
        let facts = facts(json!({ "gather_subset": ["!all", "hardware"], "filter": ["*total_mb", "ansible_user_id"] }));
        let names: Vec<_> = facts.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(
            names.contains(&"ansible_memtotal_mb")
                && names.contains(&"ansible_swaptotal_mb")
                && names.contains(&"ansible_user_id")
        );
        assert_eq!(names.len(), 3);
    }
}
