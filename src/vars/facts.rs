//! Facts, and the names they must never set.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use indexmap::{IndexMap, IndexSet};
use minijinja::value::ValueKind;
use windlass_protocol::BecomeMethod;
use windlass_template::Value;

use super::world::Values;
use crate::connection::Kind;

/// Fact that records that facts were gathered.
const GATHERED: &str = "_ansible_facts_gathered";

/// Facts that only a run knows.
#[derive(Debug, Clone)]
struct Unknown {
    value: Value,
    /// Names that the inventory sets. Most likely no fact has them.
    given: Arc<HashSet<Arc<str>>>,
}

impl Unknown {
    fn has(&self, name: &str) -> bool {
        is_gathered_name(name) && (!self.given.contains(name) || COMMON.contains(&name.trim_start_matches("ansible_")))
    }
}

/// Facts that every host has, without the prefix `ansible_`.
const COMMON: &[&str] = &[
    "all_ipv4_addresses",
    "all_ipv6_addresses",
    "architecture",
    "bios_version",
    "cmdline",
    "date_time",
    "default_ipv4",
    "default_ipv6",
    "devices",
    "distribution",
    "distribution_file_variety",
    "distribution_major_version",
    "distribution_release",
    "distribution_version",
    "dns",
    "domain",
    "effective_user_id",
    "env",
    "form_factor",
    "fqdn",
    "hostname",
    "interfaces",
    "kernel",
    "kernel_version",
    "local",
    "lsb",
    "machine",
    "machine_id",
    "memfree_mb",
    "memory_mb",
    "memtotal_mb",
    "mounts",
    "nodename",
    "os_family",
    "pkg_mgr",
    "processor",
    "processor_cores",
    "processor_count",
    "processor_vcpus",
    "product_name",
    "python",
    "python_version",
    "selinux",
    "service_mgr",
    "swaptotal_mb",
    "system",
    "system_vendor",
    "uptime_seconds",
    "user_dir",
    "user_id",
    "user_shell",
    "virtualization_role",
    "virtualization_type",
];

/// Facts of one host under full names (`ansible_hostname`, `services`).
#[derive(Debug, Clone, Default)]
pub struct Facts {
    values: Values,
    /// Names that only modules of the project reported. A host may have chosen them, so as variables they yield to
    /// whatever the project sets.
    free: IndexSet<Arc<str>>,
    /// Python found for modules of each become user; `None` is the login user. A host may be reached by SSH and, in
    /// another task, be this machine: what it answers there must not choose a program here.
    pythons: IndexMap<(Kind, Option<String>), String>,
    /// Value of all other facts, if they are only known during a run.
    unknown: Option<Unknown>,
    namespaced: OnceLock<Value>,
}

impl Facts {
    /// Fact with this full name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let unknown = || self.unknown.as_ref().filter(|unknown| unknown.has(name)).map(|unknown| &unknown.value);
        self.values.get(name).or_else(unknown)
    }

    /// Makes all facts that have no value unknown, for this reason. `given` are names that the inventory sets.
    pub fn set_unknown(&mut self, reason: &str, given: HashSet<Arc<str>>) {
        self.unknown = Some(Unknown { value: windlass_template::unknown(reason), given: Arc::new(given) });
        self.namespaced = OnceLock::new();
    }

    /// Adds facts that a host reported, replacing facts of the same name.
    pub fn extend(&mut self, facts: &HostFacts) {
        for (name, value) in &facts.kept {
            if !facts.free.contains(name) {
                self.free.swap_remove(name);
            } else if !self.values.contains_key(name) || !FactNames::BUILT_IN.allow(name, value) {
                self.free.insert(Arc::clone(name));
            }
        }
        self.add(facts.kept.iter().cloned());
    }

    /// Adds facts set by the project (`set_fact` with `cacheable`), under any name.
    pub fn set(&mut self, facts: impl IntoIterator<Item = (Arc<str>, Value)>) {
        for (name, value) in facts {
            self.free.swap_remove(&name);
            self.add([(name, value)]);
        }
    }

    /// Fact that outranks the inventory as a variable.
    pub fn ranked(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|_| !self.free.contains(name))
    }

    /// Fact that is a variable only if the project sets none of this name.
    pub fn free(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|_| self.free.contains(name))
    }

    /// Names of the facts that are variables only if the project sets none of their name.
    pub fn free_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.free.iter()
    }

    /// Records that facts were gathered, not only set.
    pub fn set_gathered(&mut self) {
        self.add([(Arc::from(GATHERED), Value::from(true))]);
    }

    /// Records the Python found for modules of a user over this kind of connection.
    pub fn set_python(&mut self, kind: Kind, user: Option<&str>, path: &str) {
        self.pythons.insert((kind, user.map(str::to_owned)), path.to_owned());
        self.add([(Arc::from("discovered_interpreter_python"), Value::from(path))]);
    }

    /// Python found for modules of a user over this kind of connection. A path reported by one user is never used for
    /// another.
    pub fn python(&self, kind: Kind, user: Option<&str>) -> Option<&str> {
        let mut known = self.pythons.iter();
        known.find(|((there, known), _)| *there == kind && known.as_deref() == user).map(|(_, path)| path.as_str())
    }

    fn add(&mut self, facts: impl IntoIterator<Item = (Arc<str>, Value)>) {
        self.values.extend(facts);
        self.namespaced = OnceLock::new();
    }

    /// All facts with their full names.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.values.iter()
    }

    /// Whether facts were gathered, not only set.
    pub fn are_gathered(&self) -> bool {
        self.get(GATHERED).is_some_and(super::truth)
    }

    /// Removes all facts.
    pub fn clear(&mut self) {
        *self = Facts::default();
    }

    /// Whether no facts are known.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.unknown.is_none()
    }

    /// Full names of all facts.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.values.keys()
    }

    /// Value of `ansible_facts`, with names that lack the prefix `ansible_`.
    pub fn namespaced(&self) -> Value {
        if let Some(unknown) = &self.unknown {
            return unknown.value.clone();
        }
        let make = || {
            Value::from_pairs(self.values.iter().map(|(name, value)| {
                let short = if &**name == "ansible_local" {
                    "ansible_local"
                } else {
                    name.strip_prefix("ansible_").unwrap_or(name)
                };
                let short = if short == "ansible_local" { "local" } else { short };
                (Value::from(short), value.clone())
            }))
        };
        self.namespaced.get_or_init(make).clone()
    }
}

/// Whether gathering may set a variable of this name, rather than the inventory, the engine or a failed task.
fn is_gathered_name(name: &str) -> bool {
    let is_other =
        ["ansible_failed_", "ansible_index_var", "ansible_loop", "ansible_managed", "ansible_group_priority"];
    name.starts_with("ansible_") && !is_protected(name) && !is_other.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether `setup` reports this fact. The host chooses the names of network interfaces, so a fact of an unknown name
/// has to look as theirs do: anything else could be an option that a lookup plugin reads from a variable.
fn is_gathered(name: &str, value: &Value) -> bool {
    let is_of_interface = |key: Value| key.as_str().is_some_and(windlass_modules::facts::is_of_interface);
    let is_interface =
        || value.kind() == ValueKind::Map && value.try_iter().is_ok_and(|mut keys| keys.all(is_of_interface));
    name.strip_prefix("ansible_").is_some_and(windlass_modules::facts::is_known)
        || (is_gathered_name(name) && is_interface())
}

/// Whether a host must never set this name: it concerns the connection, the user or programs that run.
///
/// Code that reads such a variable asserts that its name is protected.
pub(crate) fn is_protected(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "ansible_host",
        "ansible_port",
        "ansible_async_dir",
        "ansible_user",
        "ansible_password",
        "ansible_connection",
        "ansible_shell_type",
        "ansible_shell_executable",
        "ansible_remote_tmp",
        "ansible_delegated_vars",
        "ansible_facts",
        "hostvars",
        "groups",
        "group_names",
        "inventory_hostname",
        "environment",
        "vars",
        "omit",
        "lookup",
        "query",
        "q",
        "now",
        "role_path",
        "ansible_limit",
        "ansible_private_key_file",
        "ansible_timeout",
        "ansible_pipelining",
        "ansible_check_mode",
        "ansible_diff_mode",
        "ansible_interpreter_python_fallback",
        "ansible_package_use",
        "ansible_syslog_facility",
        "incus_become_method",
        "lxd_become_method",
    ];
    const PREFIXES: &[&str] = &[
        "ansible_become",
        "ansible_python_module_",
        "ansible_ssh_",
        "ansible_scp_",
        "ansible_sftp_",
        "ansible_host_key",
        "ansible_connection",
        "ansible_docker_",
        "ansible_podman_",
        "ansible_kubectl_",
        "ansible_oc_",
        "ansible_chroot_",
        "ansible_lxd_",
        "ansible_incus_",
        "windlass_",
    ];
    // These facts describe the host's own keys, not the connection.
    if name.starts_with("ansible_ssh_host_key_") && !name.ends_with("checking") {
        return false;
    }
    let after = |method: BecomeMethod| name.strip_prefix("ansible_")?.strip_prefix(method.name());
    if BecomeMethod::ALL.into_iter().filter_map(after).any(|rest| rest.starts_with('_')) {
        return true;
    }
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || (name.starts_with("ansible_") && name.ends_with("_interpreter"))
}

/// Names of facts that a module may report. Facts of built-in modules outrank inventory variables, so a host with free
/// choice of their names could set any variable of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactNames {
    /// Any name, as in Ansible: modules that are not built in. Such facts yield to variables of the project.
    Any,
    /// Names that built-in modules report: a job may run any module. Such facts yield too.
    OfJob,
    /// These names, and names with one of these prefixes.
    Known(&'static [&'static str], &'static [&'static str]),
}

impl FactNames {
    /// Names that any built-in module reports.
    pub(super) const BUILT_IN: FactNames = FactNames::Known(
        &["aggregate_mounts", "gather_subset", "module_setup", "mount_points", "packages", "services"],
        &["ansible_", "facter_", "getent_", "ohai_"],
    );

    /// Fact names of a module, given by its short or qualified name.
    pub fn of_module(name: &str) -> FactNames {
        if name == windlass_modules::foreign::NAME || windlass_modules::registry::find(name).is_none() {
            return FactNames::Any;
        }
        match name.rsplit('.').next().unwrap_or(name) {
            "setup" => FactNames::Known(&["gather_subset", "module_setup"], &["ansible_", "facter_", "ohai_"]),
            "hostname" => FactNames::Known(windlass_modules::facts::OF_HOSTNAME, &[]),
            "getent" => FactNames::Known(&[], &["getent_"]),
            "mount_facts" => FactNames::Known(&["aggregate_mounts", "mount_points"], &[]),
            "package_facts" => FactNames::Known(&["packages"], &[]),
            "service_facts" => FactNames::Known(&["services"], &[]),
            "async_status" => FactNames::OfJob,
            _ => FactNames::Known(&[], &[]),
        }
    }

    pub(super) fn allow(self, name: &str, value: &Value) -> bool {
        match self {
            FactNames::Any => true,
            FactNames::OfJob => FactNames::BUILT_IN.allow(name, value),
            FactNames::Known(names, beginnings) => {
                let begins = || beginnings.iter().any(|beginning| name.starts_with(beginning));
                names.contains(&name) || (begins() && (!name.starts_with("ansible_") || is_gathered(name, value)))
            }
        }
    }

    /// Whether facts of these names yield to variables of the project.
    fn are_free(self) -> bool {
        matches!(self, FactNames::Any | FactNames::OfJob)
    }
}

/// Facts from a host or cache, without any that would change the connection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostFacts {
    kept: Vec<(Arc<str>, Value)>,
    /// Names among them that yield to variables of the project.
    free: IndexSet<Arc<str>>,
    dropped: Vec<String>,
    unexpected: Vec<String>,
}

impl HostFacts {
    /// Reads `ansible_facts` of a host's answer; `names` limits the facts. Only a mapping contains any.
    pub fn of_host(facts: &Value, names: FactNames) -> HostFacts {
        let mut read = HostFacts::accepted(facts, names);
        if names.are_free() {
            read.free = read.kept.iter().map(|(name, _)| Arc::clone(name)).collect();
        }
        read
    }

    fn accepted(facts: &Value, names: FactNames) -> HostFacts {
        let mut read = HostFacts::default();
        for key in facts.try_iter().into_iter().flatten() {
            let Some(name) = key.as_str() else { continue };
            let Ok(value) = facts.get_item(&key) else { continue };
            if is_protected(name) {
                read.dropped.push(name.to_owned());
            // The action itself records which Python was found, and the engine whether facts were gathered.
            } else if !["discovered_interpreter_", "_ansible_", "_windlass_"].iter().any(|own| name.starts_with(own)) {
                match names.allow(name, &value) {
                    true => read.kept.push((Arc::from(name), value)),
                    false => read.unexpected.push(name.to_owned()),
                }
            }
        }
        read
    }

    /// Reads a host's facts from a cache. They came from the host, so they are not trusted more. The cache knows which
    /// are `free`, unless ansible-core wrote it; then all are that no built-in module reports.
    pub fn of_cache(facts: &Value, free: Option<HashSet<String>>) -> HostFacts {
        let mut read = HostFacts::accepted(facts, FactNames::Any);
        let is_free = |name: &str, value: &Value| match &free {
            Some(free) => free.contains(name),
            None => !FactNames::BUILT_IN.allow(name, value),
        };
        read.free =
            read.kept.iter().filter(|(name, value)| is_free(name, value)).map(|(name, _)| Arc::clone(name)).collect();
        if facts.get_attr(GATHERED).is_ok_and(|gathered| super::truth(&gathered)) {
            read.kept.push((Arc::from(GATHERED), Value::from(true)));
        }
        read
    }

    /// Facts that another process of the run accepted, and the names among them that yield to variables of the project.
    pub fn of_worker(facts: &Value, free: &[String]) -> HostFacts {
        let mut read = HostFacts::accepted(facts, FactNames::Any);
        read.free = free.iter().map(|name| Arc::from(name.as_str())).collect();
        read
    }

    /// Names of the facts that yield to variables of the project.
    pub fn free(&self) -> impl Iterator<Item = &str> {
        self.free.iter().map(|name| &**name)
    }

    /// Names of dropped facts that would change the connection.
    pub fn dropped(&self) -> &[String] {
        &self.dropped
    }

    /// Names of dropped facts that the module should not report.
    pub fn unexpected(&self) -> &[String] {
        &self.unexpected
    }

    /// Names of the accepted facts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(|(name, _)| &**name)
    }

    /// The accepted facts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.kept.iter().map(|(name, value)| (&**name, value))
    }

    /// Whether no fact was accepted.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_cannot_redirect_its_own_connection() {
        let facts = Value::from_pairs([
            ("ansible_host", "evil"),
            ("ansible_python_interpreter", "/tmp/x"),
            ("ansible_interpreter_python_fallback", "/tmp/x"),
            ("ansible_doas_exe", "/tmp/x"),
            ("ansible_hostname", "web1"),
            ("ansible_ssh_host_key_rsa_public", "AAAA"),
        ]);
        let read = HostFacts::of_host(&facts, FactNames::of_module("ansible.builtin.setup"));
        assert_eq!(read.names().collect::<Vec<_>>(), ["ansible_hostname", "ansible_ssh_host_key_rsa_public"]);
        let dropped =
            ["ansible_host", "ansible_python_interpreter", "ansible_interpreter_python_fallback", "ansible_doas_exe"];
        assert_eq!(read.dropped(), dropped);
    }

    #[test]
    fn a_gathered_fact_is_no_option_of_a_lookup_plugin() {
        let interface = Value::from_pairs([("device", "lo")]);
        let facts = Value::from_pairs([
            ("ansible_hashi_vault_url", Value::from("https://evil.example")),
            ("ansible_hashi_vault_proxies", Value::from_pairs([("device", "lo"), ("http", "http://evil.example")])),
            ("ansible_managed", Value::from("x")),
            ("ansible_loop", interface.clone()),
            ("ansible_os_family", Value::from("Debian")),
            ("ansible_br_lan", interface),
        ]);
        let read = HostFacts::of_host(&facts, FactNames::of_module("setup"));
        assert_eq!(read.names().collect::<Vec<_>>(), ["ansible_os_family", "ansible_br_lan"]);
        assert_eq!(
            read.unexpected(),
            ["ansible_hashi_vault_url", "ansible_hashi_vault_proxies", "ansible_managed", "ansible_loop"]
        );
    }

    #[test]
    fn module_of_the_project_cannot_say_where_other_hosts_connect() {
        let facts = Value::from_pairs([("windlass_peer_address", "192.0.2.1"), ("colour", "red")]);
        let read = HostFacts::of_host(&facts, FactNames::of_module("a_module_of_the_project"));
        assert_eq!(read.names().collect::<Vec<_>>(), ["colour"]);
    }

    #[test]
    fn facts_of_a_module_of_the_project_yield_to_its_variables_also_from_a_cache() {
        let reported = Value::from_pairs([("bin_dir", "/tmp/evil"), ("colour", "red")]);
        let mut facts = Facts::default();
        facts.set([(Arc::from("colour"), Value::from("blue"))]);
        assert_eq!(facts.ranked("colour"), Some(&Value::from("blue")));
        facts.extend(&HostFacts::of_host(&reported, FactNames::Any));
        assert_eq!((facts.ranked("bin_dir"), facts.ranked("colour")), (None, None));
        assert_eq!(facts.free("bin_dir"), Some(&Value::from("/tmp/evil")));
        let cached = HostFacts::of_cache(&reported, Some(HashSet::from(["colour".to_owned()])));
        assert_eq!(cached.free().collect::<Vec<_>>(), ["colour"]);
    }

    #[test]
    fn names_that_begin_like_facts_of_a_built_in_module_are_others() {
        let facts = Value::from_pairs([("packages", "x"), ("packages_dir", "/tmp/evil"), ("services_x", "x")]);
        let read = HostFacts::of_host(&facts, FactNames::of_module("package_facts"));
        assert_eq!(read.names().collect::<Vec<_>>(), ["packages"]);
        let of_job = HostFacts::of_host(&facts, FactNames::of_module("async_status"));
        assert_eq!(of_job.free().collect::<Vec<_>>(), ["packages"]);
        let cached_by_others = HostFacts::of_cache(&facts, None);
        assert_eq!(cached_by_others.free().collect::<Vec<_>>(), ["packages_dir", "services_x"]);
    }

    #[test]
    fn python_found_as_one_user_is_not_used_for_another_or_on_this_machine() {
        let mut facts = Facts::default();
        facts.set_python(Kind::Ssh, Some("deploy"), "/home/deploy/bin/python3");
        assert_eq!(facts.python(Kind::Ssh, Some("deploy")), Some("/home/deploy/bin/python3"));
        assert_eq!((facts.python(Kind::Ssh, None), facts.python(Kind::Ssh, Some("root"))), (None, None));
        assert_eq!(facts.python(Kind::Local, Some("deploy")), None);
    }

    #[test]
    fn module_without_such_facts_sets_no_variable_of_a_role() {
        let facts = Value::from_pairs([("bin_dir", "/tmp/evil"), ("services", "x"), ("ansible_os_family", "Debian")]);
        let kept =
            |module| HostFacts::of_host(&facts, FactNames::of_module(module)).names().map(str::to_owned).collect();
        let of_module: [Vec<String>; 4] =
            ["ansible.builtin.command", "setup", "ansible.builtin.service_facts", "a_module_of_the_project"].map(kept);
        let all = vec!["bin_dir", "services", "ansible_os_family"];
        assert_eq!(of_module, [vec![], vec!["ansible_os_family"], vec!["services"], all]);
    }
}
