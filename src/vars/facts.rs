//! Facts of a host during a run.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use indexmap::{IndexMap, IndexSet};
use minijinja::value::{Enumerator, Object};
use windlass_template::Value;

use super::world::Values;
use crate::connection::Kind;
use crate::outcome::{FactNames, GATHERED, HostFacts, is_gathered_name, truth};

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

/// Value of `ansible_facts` of which a run knows more.
#[derive(Debug)]
struct Partly {
    known: Value,
    /// Value of all other facts.
    unknown: Value,
}

impl Object for Partly {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let known = self.known.get_item(key).ok().filter(|value| !value.is_undefined());
        Some(known.unwrap_or_else(|| self.unknown.clone()))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.known.try_iter().into_iter().flatten().collect())
    }
}

/// Full names of the facts that evaluations have read. All states of a host's facts share them.
#[derive(Debug, Clone, Default)]
struct Reads(Arc<Mutex<BTreeSet<Arc<str>>>>);

impl Reads {
    fn note<'a>(&self, names: impl IntoIterator<Item = &'a Arc<str>>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(names.into_iter().cloned());
    }

    fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}

/// Value of `ansible_facts` that notes what is read of it.
#[derive(Debug)]
struct Noted {
    facts: Value,
    /// Full names by those in `facts`.
    names: IndexMap<Arc<str>, Arc<str>>,
    reads: Reads,
}

impl Object for Noted {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let found = self.facts.get_item(key).ok().filter(|value| !value.is_undefined());
        self.reads.note(key.as_str().and_then(|name| self.names.get(name)));
        found
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.facts.try_iter().into_iter().flatten().collect())
    }
}

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
    /// Facts that were read, for plans.
    reads: Option<Reads>,
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

    /// Replaces the reason why facts without a value are unknown, if they are.
    pub fn explain_unknown(&mut self, reason: &str) {
        if let Some(unknown) = &mut self.unknown {
            unknown.value = windlass_template::unknown(reason);
            self.namespaced = OnceLock::new();
        }
    }

    /// Adds facts that a host reported, replacing facts of the same name.
    pub fn extend(&mut self, facts: &HostFacts) {
        for (name, value) in facts.entries() {
            if !facts.is_free(name) {
                self.free.swap_remove(name);
            } else if !self.values.contains_key(name) || !FactNames::BUILT_IN.allow(name, value) {
                self.free.insert(Arc::clone(name));
            }
        }
        self.add(facts.entries().iter().cloned());
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
        self.note(name);
        self.get(name).filter(|_| !self.free.contains(name))
    }

    /// Fact that ranks below all variables of the project, as facts of its own modules do.
    pub fn free(&self, name: &str) -> Option<&Value> {
        self.free.get(name).and_then(|name| {
            self.note(name);
            self.values.get(name)
        })
    }

    /// Notes from now on which facts evaluations read.
    pub fn note_reads(&mut self) {
        self.reads.get_or_insert_default();
        self.namespaced = OnceLock::new();
    }

    /// Notes that a fact was read, if it exists.
    pub fn note(&self, name: &str) {
        if let Some(reads) = &self.reads {
            reads.note(self.values.get_key_value(name).map(|(name, _)| name));
        }
    }

    /// Whether a fact was read; always if that is not noted.
    pub fn was_read(&self, name: &str) -> bool {
        self.reads.as_ref().is_none_or(|reads| reads.has(name))
    }

    /// Names of the facts that rank below all variables of the project.
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
        self.get(GATHERED).is_some_and(truth)
    }

    /// Removes all facts.
    pub fn clear(&mut self) {
        *self = Facts { reads: self.reads.take(), ..Facts::default() };
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
        if let Some(unknown) = self.unknown.as_ref().filter(|_| self.values.is_empty()) {
            return unknown.value.clone();
        }
        let make = || {
            let short = |name: &Arc<str>| name.strip_prefix("ansible_").unwrap_or(name).to_owned();
            let known =
                Value::from_pairs(self.values.iter().map(|(name, value)| (Value::from(short(name)), value.clone())));
            let known = match &self.reads {
                Some(reads) => {
                    let names = self.values.keys().map(|name| (Arc::from(short(name)), Arc::clone(name))).collect();
                    Value::from_object(Noted { facts: known, names, reads: reads.clone() })
                }
                None => known,
            };
            match &self.unknown {
                Some(unknown) => Value::from_object(Partly { known, unknown: unknown.value.clone() }),
                None => known,
            }
        };
        self.namespaced.get_or_init(make).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_named_like_another_with_its_prefix_replaces_nothing() {
        let reported = Value::from_pairs([("ansible_local", "own"), ("ansible_ansible_local", "other")]);
        let mut facts = Facts::default();
        facts.extend(&HostFacts::of_host(&reported, FactNames::Any));
        let namespaced = facts.namespaced();
        assert_eq!(namespaced.get_attr("local").unwrap(), Value::from("own"));
        assert_eq!(namespaced.get_attr("ansible_local").unwrap(), Value::from("other"));
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
    fn facts_that_evaluations_read_are_noted() {
        let reported = Value::from_pairs([("ansible_kernel", "6"), ("ansible_fqdn", "a"), ("ansible_machine", "b")]);
        let mut facts = Facts::default();
        assert!(facts.was_read("ansible_kernel"), "nothing is noted");
        facts.note_reads();
        facts.extend(&HostFacts::of_host(&reported, FactNames::Any));
        assert!(!facts.was_read("ansible_kernel"));
        facts.ranked("ansible_kernel");
        assert_eq!(facts.namespaced().get_attr("fqdn").unwrap(), Value::from("a"));
        let later = facts.clone();
        assert!(later.was_read("ansible_kernel") && later.was_read("ansible_fqdn"));
        assert!(!later.was_read("ansible_machine"));
        assert_eq!(later.namespaced().try_iter().unwrap().count(), 3);
        assert!(!facts.was_read("ansible_machine"), "names alone");
        windlass_template::to_json(&later.namespaced());
        assert!(facts.was_read("ansible_machine"), "all values");
    }

    #[test]
    fn python_found_as_one_user_is_not_used_for_another_or_on_this_machine() {
        let mut facts = Facts::default();
        facts.set_python(Kind::Ssh, Some("deploy"), "/home/deploy/bin/python3");
        assert_eq!(facts.python(Kind::Ssh, Some("deploy")), Some("/home/deploy/bin/python3"));
        assert_eq!((facts.python(Kind::Ssh, None), facts.python(Kind::Ssh, Some("root"))), (None, None));
        assert_eq!(facts.python(Kind::Local, Some("deploy")), None);
    }
}
