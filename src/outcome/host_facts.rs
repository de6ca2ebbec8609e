//! Facts that a host reports, and the names that it must never set.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexSet;
use minijinja::value::ValueKind;
use windlass_protocol::BecomeMethod;
use windlass_template::Value;

use super::truth;

/// Fact that records that facts were gathered.
pub(crate) const GATHERED: &str = "_ansible_facts_gathered";

/// Whether gathering may set a variable of this name, rather than the inventory, the engine or a failed task.
pub(crate) fn is_gathered_name(name: &str) -> bool {
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
    pub(crate) const BUILT_IN: FactNames = FactNames::Known(
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

    pub(crate) fn allow(self, name: &str, value: &Value) -> bool {
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

    /// Reads a host's facts from a cache. They came from the host, so they pass the same checks. The cache lists the
    /// facts that are `free`. In a cache that ansible-core wrote, all facts are free that no built-in module reports.
    pub fn of_cache(facts: &Value, free: Option<HashSet<String>>) -> HostFacts {
        let mut read = HostFacts::accepted(facts, FactNames::Any);
        let is_free = |name: &str, value: &Value| match &free {
            Some(free) => free.contains(name),
            None => !FactNames::BUILT_IN.allow(name, value),
        };
        read.free =
            read.kept.iter().filter(|(name, value)| is_free(name, value)).map(|(name, _)| Arc::clone(name)).collect();
        if facts.get_attr(GATHERED).is_ok_and(|gathered| truth(&gathered)) {
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

    /// Drops facts of other names. If facts of these names yield to variables of the project, all remaining facts do
    /// from now on; otherwise, each keeps its precedence.
    pub(crate) fn limit(&mut self, names: FactNames) {
        self.kept.retain(|(name, value)| names.allow(name, value));
        if names.are_free() {
            self.free.extend(self.kept.iter().map(|(name, _)| Arc::clone(name)));
        }
    }

    /// The accepted facts, with names that can be shared.
    pub(crate) fn entries(&self) -> &[(Arc<str>, Value)] {
        &self.kept
    }

    /// Whether a fact yields to variables of the project.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        self.free.contains(name)
    }

    /// Gives an accepted fact another value.
    pub(crate) fn replace(&mut self, name: &str, value: &Value) {
        let found = self.kept.iter_mut().filter(|(known, _)| &**known == name);
        found.for_each(|(_, known)| *known = value.clone());
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
    fn facts_of_a_worker_are_limited_to_its_task() {
        let facts = Value::from_pairs([("colour", "red"), ("ansible_os_family", "Debian")]);
        let limited = |names| {
            let mut facts = HostFacts::of_worker(&facts, &[]);
            facts.limit(names);
            let owned = |name: &str| name.to_owned();
            (facts.names().map(owned).collect::<Vec<_>>(), facts.free().map(owned).collect::<Vec<_>>())
        };
        let (all, os) =
            (vec!["colour".to_owned(), "ansible_os_family".to_owned()], vec!["ansible_os_family".to_owned()]);
        assert_eq!(limited(FactNames::of_module("command")), (vec![], vec![]));
        assert_eq!(limited(FactNames::of_module("setup")), (os, vec![]));
        assert_eq!(limited(FactNames::of_module("a_module_of_the_project")), (all.clone(), all));
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
