//! Facts cached between runs, in files of our own or by a plugin in Python. A cache of either kind is trusted no more
//! than a host: it provides data, but no variable that chooses a connection.

mod files;

use std::sync::Arc;

use serde_json::Value as Json;

use self::files::Files;
use super::{Facts, World};
use crate::foreign::PythonPlugins;
use crate::outcome::{FactNames, HostFacts};
use crate::settings::{FactCaching, Settings};

/// Key that lists the facts which yield to variables of the project. Without it, ansible-core wrote the facts, or all
/// have names that built-in modules report.
const FREE: &str = "_windlass_free";

/// A cache of facts.
#[derive(Debug)]
pub struct FactCache<'a> {
    store: Store<'a>,
}

/// Keeps the facts of hosts as JSON.
#[derive(Debug)]
enum Store<'a> {
    Files(Files<'a>),
    Plugin(&'a PythonPlugins),
}

impl Store<'_> {
    /// Passes the facts of hosts that have some to `found`. Returns problems as warnings.
    fn read(&self, hosts: &[Arc<str>], found: &mut dyn FnMut(&Arc<str>, Json)) -> Vec<String> {
        match self {
            Store::Files(files) => files.read(hosts, found),
            Store::Plugin(plugins) => plugins.read_facts(hosts, found),
        }
    }

    /// Stores the facts of hosts, and removes the entries of hosts without any. Returns problems as warnings.
    fn write(&self, entries: &mut dyn Iterator<Item = (Arc<str>, Option<Json>)>) -> Vec<String> {
        match self {
            Store::Files(files) => files.write(entries),
            Store::Plugin(plugins) => plugins.write_facts(entries),
        }
    }
}

impl FactCache<'_> {
    /// The cache that the settings enable, if any.
    pub fn of<'a>(settings: &'a Settings, plugins: &'a PythonPlugins) -> Option<FactCache<'a>> {
        let store = match &settings.facts.cache {
            FactCaching::Memory => return None,
            FactCaching::Files { folder, prefix, timeout } => {
                Store::Files(Files::new(folder, prefix, *timeout, settings.compat))
            }
            FactCaching::Plugin { .. } => Store::Plugin(plugins),
        };
        Some(FactCache { store })
    }

    /// Passes the facts of all hosts to `found`, except expired ones. They came from the hosts, so they are not trusted
    /// more than their answers. Returns problems as warnings.
    pub fn load(&self, world: &World, found: &mut dyn FnMut(&Arc<str>, HostFacts)) -> Vec<String> {
        self.store.read(&hosts_of(world), &mut |host, kept| {
            if let Json::Object(mut facts) = kept {
                let free = facts.shift_remove(FREE).and_then(|names| serde_json::from_value(names).ok());
                let facts = facts.into_iter().filter_map(|(name, value)| Some((name, plain(value)?))).collect();
                found(host, HostFacts::of_cache(&windlass_template::from_json(&Json::Object(facts)), free));
            }
        })
    }

    /// Saves the facts of all hosts whose facts have changed. Returns problems as warnings.
    pub fn update(&self, before: &World, after: &World) -> Vec<String> {
        let mut changed = after.hosts.iter().filter_map(|(host, state)| {
            let former = before.hosts.get(host).map(|former| &former.facts);
            let is_same = match former {
                Some(former) => Arc::ptr_eq(former, &state.facts),
                None => state.facts.is_empty(),
            };
            (!is_same).then(|| (Arc::clone(host), (!state.facts.is_empty()).then(|| stored(&state.facts))))
        });
        self.store.write(&mut changed)
    }

    /// Removes the facts of all hosts. Returns problems as warnings.
    pub fn flush(&self, world: &World) -> Vec<String> {
        self.store.write(&mut hosts_of(world).into_iter().map(|host| (host, None)))
    }
}

/// Names of the hosts of the inventory, and of the implicit localhost.
fn hosts_of(world: &World) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = world.inventory.hosts().map(|host| Arc::clone(host.name())).collect();
    if !names.iter().any(|name| &**name == "localhost") {
        names.push(Arc::from("localhost"));
    }
    names
}

/// Facts as they are stored.
fn stored(facts: &Facts) -> Json {
    let entries = || facts.names().filter_map(|name| Some((name, facts.get(name)?)));
    let mut stored: serde_json::Map<String, Json> =
        entries().map(|(name, value)| (name.to_string(), windlass_template::to_json(value))).collect();
    let has_free = facts.free_names().next().is_some();
    if has_free || entries().any(|(name, value)| !FactNames::BUILT_IN.allow(name, value)) {
        stored.insert(FREE.to_owned(), facts.free_names().map(|name| Json::from(&**name)).collect());
    }
    Json::Object(stored)
}

/// Removes ansible-core's annotations of origin and type from a value. Ciphertext is dropped.
fn plain(value: Json) -> Option<Json> {
    match value {
        Json::Array(items) => Some(items.into_iter().filter_map(plain).collect()),
        Json::Object(mut fields) => {
            if let Some(text) = fields.remove("__ansible_unsafe") {
                return Some(text);
            }
            if fields.contains_key("__ansible_vault") {
                return None;
            }
            let Some(kind) = fields.remove("__ansible_type") else {
                return Some(fields.into_iter().filter_map(|(name, value)| Some((name, plain(value)?))).collect());
            };
            match (fields.remove("value"), fields.remove("iso8601")) {
                (Some(value), _) => plain(value),
                (None, Some(Json::String(time))) if kind == "AnsibleSerializableDateTime" => {
                    Some(time.replacen('T', " ", 1).into())
                }
                (None, time) => time,
            }
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{FREE, FactNames, Facts, HostFacts, plain, stored};

    #[test]
    fn free_facts_named_like_those_of_built_in_modules_stay_free() {
        let reported = windlass_template::from_json(&json!({"packages": "evil"}));
        let mut facts = Facts::default();
        facts.extend(&HostFacts::of_host(&reported, FactNames::Any));
        assert_eq!(stored(&facts)[FREE], json!(["packages"]));
    }

    #[test]
    fn annotations_of_ansible_core_dropped() {
        let origin = json!({"path": "/x.yml", "line_num": 4, "col_num": 9, "__ansible_type": "Origin"});
        let kept = json!({
            "number": {"value": 1, "tags": [origin], "__ansible_type": "_AnsibleTaggedInt"},
            "list": {"value": [{"value": "x", "tags": [origin], "__ansible_type": "_AnsibleTaggedStr"}, null], "__ansible_type": "_AnsibleTaggedList"},
            "date": {"value": {"iso8601": "2020-01-01", "__ansible_type": "AnsibleSerializableDate"}, "__ansible_type": "_AnsibleTaggedDate"},
            "time": {"iso8601": "2020-01-01T10:00:00", "__ansible_type": "AnsibleSerializableDateTime"},
            "secret": {"ciphertext": "$ANSIBLE_VAULT", "__ansible_type": "EncryptedString"},
            "older": {"__ansible_unsafe": "{{ x }}"},
        });
        let facts = json!({"number": 1, "list": ["x", null], "date": "2020-01-01", "time": "2020-01-01 10:00:00", "older": "{{ x }}"});
        assert_eq!(plain(kept), Some(facts));
    }
}
