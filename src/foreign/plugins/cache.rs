//! The cache plugin in Python, which keeps facts between runs. Nothing that it does ends the run: without it, facts are
//! gathered as if there were no cache.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::{Value as Json, json};

use super::helper::{Helper, Refusal};
use super::lasting::Lasting;
use super::{PythonPlugins, is_plugin_name};
use crate::error::did_you_mean;

/// Time for one request. The process answers earlier, with the hosts that are done, if single ones are fast enough.
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);

/// Hosts of one request, and bytes of their facts, which only a single host may exceed.
const REQUEST_HOSTS: usize = 1000;
const REQUEST_SIZE: usize = 8 << 20;

/// Number of hosts that a warning names.
const NAMES: usize = 3;

/// The cache plugin of a run.
#[derive(Debug, Default)]
pub(super) struct Cache {
    name: String,
    /// Configured directories (`cache_plugins`).
    folders: Vec<PathBuf>,
    process: Mutex<Lasting>,
}

impl Cache {
    pub(super) fn new(name: String, folders: Vec<PathBuf>) -> Cache {
        Cache { name, folders, process: Mutex::default() }
    }
}

/// Hosts for which something failed, by operation and reason.
#[derive(Default)]
struct Failures(IndexMap<(&'static str, String), Vec<Arc<str>>>);

impl Failures {
    fn add(&mut self, operation: &'static str, host: &Arc<str>, reason: &str) {
        self.0.entry((operation, reason.to_owned())).or_default().push(Arc::clone(host));
    }

    /// One sentence for each kind of failure, with its effect.
    fn sentences(self, plugin: &str, effect: &str) -> impl Iterator<Item = String> {
        self.0.into_iter().map(move |((operation, reason), mut hosts)| {
            hosts.sort_unstable();
            let names = hosts.iter().take(NAMES).map(|host| &**host).collect::<Vec<_>>().join(", ");
            let more = match hosts.len().saturating_sub(NAMES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let reason = reason.trim_end_matches('.');
            format!("The cache plugin `{plugin}` cannot {operation} the facts of {names}{more}: {reason}. {effect}")
        })
    }
}

impl PythonPlugins {
    /// Passes the facts of hosts that the cache plugin has to `found`. Returns problems as warnings.
    pub(crate) fn read_facts(&self, hosts: &[Arc<str>], found: &mut dyn FnMut(&Arc<str>, Json)) -> Vec<String> {
        let mut failures = Failures::default();
        let mut failed = None;
        let keys: Vec<Arc<str>> = hosts.iter().filter(|host| is_key(host)).cloned().collect();
        let mut left = keys.as_slice();
        while !left.is_empty() {
            let asked = left.get(..REQUEST_HOSTS).unwrap_or(left);
            let answer = match self.ask_cache(&json!({ "do": "read cache", "hosts": asked })) {
                Ok(answer) => answer,
                Err(reason) => {
                    failed = Some(reason);
                    break;
                }
            };
            let (done, later) = left.split_at(done(&answer, asked.len()));
            for host in done {
                let text = answer.get("facts").and_then(|facts| facts.get(&**host)).and_then(Json::as_str);
                match text.map(serde_json::from_str::<Json>) {
                    Some(Ok(facts)) => found(host, facts),
                    Some(Err(error)) => failures.add("read", host, &error.to_string()),
                    None => {}
                }
                if let Some(reason) = error_of(&answer, host) {
                    failures.add("read", host, reason);
                }
            }
            left = later;
        }
        let effect = "They count as not gathered.";
        failures.sentences(&self.cache.name, effect).chain(failed).collect()
    }

    /// Stores the facts of hosts, and removes the entries of hosts without any. Returns problems as warnings.
    pub(crate) fn write_facts(&self, entries: &mut dyn Iterator<Item = (Arc<str>, Option<Json>)>) -> Vec<String> {
        let mut failures = Failures::default();
        let mut failed = None;
        let mut waiting: VecDeque<(Arc<str>, Option<String>)> = VecDeque::new();
        let length = |(_, facts): &(Arc<str>, Option<String>)| facts.as_ref().map_or(0, String::len);
        loop {
            let mut size: usize = waiting.iter().map(length).sum();
            while size < REQUEST_SIZE
                && waiting.len() < REQUEST_HOSTS
                && let Some((host, facts)) = entries.next()
            {
                if !is_key(&host) {
                    if facts.is_some() {
                        failures.add("store", &host, "plugins use the name as a file name, which it cannot be");
                    }
                    continue;
                }
                let entry = (host, facts.map(|facts| facts.to_string()));
                size += length(&entry);
                waiting.push_back(entry);
            }
            if waiting.is_empty() {
                break;
            }
            let answer = match self.ask_cache(&json!({ "do": "write cache", "entries": waiting })) {
                Ok(answer) => answer,
                Err(reason) => {
                    failed = Some(reason);
                    break;
                }
            };
            for (host, facts) in waiting.drain(..done(&answer, waiting.len())) {
                if let Some(reason) = error_of(&answer, &host) {
                    failures.add(if facts.is_some() { "store" } else { "remove" }, &host, reason);
                }
            }
        }
        let effect = "The next run may find older ones.";
        failures.sentences(&self.cache.name, effect).chain(failed).collect()
    }

    /// Ends the process of the cache plugin, which may have something left to store.
    pub(crate) fn end_cache(&self) -> Result<(), String> {
        let process = std::mem::take(&mut *self.cache.process.lock().unwrap_or_else(PoisonError::into_inner));
        let Lasting::Running(helper) = process else { return Ok(()) };
        helper.finish().map_err(|error| format!("The process of the cache plugin `{}`: {error}.", self.cache.name))
    }

    fn start_cache(&self) -> Result<Lasting, String> {
        let name = &self.cache.name;
        if !is_plugin_name(name) {
            return Err(
                "cannot be used: this is not the name of a plugin, such as `community.general.redis`".to_owned()
            );
        }
        if self.modules.ansible_core().is_none() {
            return Err(format!("needs ansible-core, but {}", self.modules.without_core()));
        }
        let folders = self.folders("cache_plugins", &self.cache.folders);
        if let Some(reason) = self.without_plugin("cache", "cache plugin", &folders, name) {
            let suggestion = did_you_mean(name, ["jsonfile", "memory", "community.general.redis"]);
            let suggestion = suggestion.map(|sentence| format!(" ({sentence})")).unwrap_or_default();
            return Err(format!("cannot be used: {reason}{suggestion}"));
        }
        let setup = self.setup().map_err(|problem| format!("cannot be used: {problem}"))?;
        let refuse = |refusal: Refusal| {
            format!("cannot be started by {}: {}", setup.python.display(), refusal.message.trim_end_matches('.'))
        };
        let mut helper = Helper::start(&setup.within(REQUEST_DEADLINE)).map_err(refuse)?;
        let request = json!({ "do": "start cache", "name": name, "folders": folders });
        helper.ask(&request, &mut super::no_questions).map_err(refuse)?;
        Ok(Lasting::Running(helper))
    }

    fn ask_cache(&self, request: &Json) -> Result<Json, String> {
        let Cache { name, process, .. } = &self.cache;
        let sentence = |reason: &str| {
            format!("The cache plugin `{name}` {reason}. This run gathers facts and stores them nowhere.")
        };
        let start = || self.start_cache().map_err(|reason| sentence(&reason));
        let refuse = |refusal: Refusal| sentence(&format!("failed: {}", refusal.message.trim_end_matches('.')));
        let answer = self.ask_lasting(&format!("cache plugin {name}"), process, start, request, refuse)?;
        Ok(answer.unwrap_or_default())
    }
}

/// Whether a plugin may use the name of a host as a key, and so as the name of a file.
fn is_key(host: &str) -> bool {
    !host.contains(['/', '\0']) && ![".", ".."].contains(&host)
}

/// Number of hosts that the process has finished, of those in the request.
fn done(answer: &Json, asked: usize) -> usize {
    let done = answer.get("done").and_then(Json::as_u64).and_then(|done| usize::try_from(done).ok());
    done.unwrap_or(asked).clamp(1, asked)
}

fn error_of<'a>(answer: &'a Json, host: &str) -> Option<&'a str> {
    answer.get("errors")?.get(host)?.as_str()
}
