//! Inventories as trees, and the pages of hosts.

use std::collections::{BTreeMap, HashSet};

use hyper::StatusCode;
use serde_json::{Value as Json, json};
use windlass_inventory::{Host, Inventory};

use super::cluster::{Cluster, Loaded};
use super::{View, address, choices};
use crate::error::Result;
use crate::html::Html;
use crate::http::server::{Answer, Request};
use crate::output::clipped;
use crate::vars::secrecy::{MASK, secret_node};

/// Maximum number of groups and of names of hosts on a page.
const GROUPS: usize = 2000;
const HOSTS: usize = 20_000;
/// Maximum depth of a tree of groups.
const DEPTH: usize = 20;
/// Maximum number of variables of a host.
const VARIABLES: usize = 2000;
/// Maximum length of a value, in characters.
const VALUE: usize = 4000;
/// Maximum number of runs on the page of a host.
const RUNS: usize = 50;

/// A tree of groups while it is built.
struct Tree<'a> {
    inventory: &'a Inventory,
    /// Groups that are in the tree already: a group may have several parents.
    shown: HashSet<&'a str>,
    hosts_left: usize,
    groups_left: usize,
}

impl<'a> Tree<'a> {
    fn of(inventory: &'a Inventory) -> Json {
        let mut tree = Tree { inventory, shown: HashSet::new(), hosts_left: HOSTS, groups_left: GROUPS };
        let root = tree.group("all", 0);
        let is_cut = tree.hosts_left == 0 || tree.groups_left == 0;
        json!({"groups": [root], "is_cut": is_cut})
    }

    fn group(&mut self, name: &'a str, depth: usize) -> Json {
        if !self.shown.insert(name) {
            return json!({"name": name, "again": true});
        }
        let count = self.inventory.hosts_of_group(name).len();
        let direct = self.inventory.direct_hosts_of_group(name);
        let hosts: Vec<Json> = direct.iter().take(self.hosts_left).map(|host| link(host)).collect();
        self.hosts_left -= hosts.len();
        let mut children = Vec::new();
        for child in self.inventory.children_of_group(name) {
            if depth + 1 >= DEPTH || self.groups_left == 0 {
                break;
            }
            self.groups_left -= 1;
            children.push(self.group(child.name(), depth + 1));
        }
        json!({"name": name, "count": count, "hosts": hosts, "groups": children, "is_open": depth < 2})
    }
}

fn link(host: &Host) -> Json {
    json!({"label": &**host.name(), "href": address::host(host.name())})
}

impl View<'_> {
    /// An inventory: its groups as a tree, or the hosts that a search finds.
    pub(super) fn inventory(&self, request: &Request) -> Result<Html> {
        let wanted = request.value("cluster").unwrap_or_default();
        let cluster = self.pages.clusters.iter().find(|cluster| cluster.name == wanted).or(self.pages.clusters.first());
        let Some(cluster) = cluster else {
            let sentence = "No inventory was given: start windlass serve with -i.";
            return self.render("message", "/inventory", json!({"title": "Inventory", "sentence": sentence}));
        };
        let loaded = cluster.loaded();
        let query = request.value("q").unwrap_or_default();
        let mut page = json!({
            "title": "Inventory",
            "cluster": cluster.name,
            "clusters": choices(self.pages.clusters.iter().map(|other| other.name.as_str()), &cluster.name),
            "query": query,
            "read": loaded.at,
            "warnings": loaded.warnings,
        });
        match &loaded.inventory {
            Err(problem) => page["problem"] = problem.as_str().into(),
            Ok(inventory) if query.is_empty() => page["tree"] = Tree::of(inventory),
            Ok(inventory) => {
                let word = query.to_lowercase();
                let hosts = inventory.hosts().filter(|host| host.name().to_lowercase().contains(&word));
                page["found"] = hosts.take(HOSTS).map(link).collect();
            }
        }
        self.render("inventory", "/inventory", page)
    }

    /// A host: its groups, its variables as they are written, and the runs that touched it.
    pub(super) fn host(&self, request: &Request) -> Result<Answer> {
        let name = request.value("name").unwrap_or_default();
        let mut parts = Vec::new();
        for cluster in &self.pages.clusters {
            let loaded = cluster.loaded();
            parts.extend(self.part(cluster, &loaded, name));
        }
        let runs = self.pages.index.runs();
        let touched = runs.iter().filter_map(|run| Some((run, run.outcome(name)?)));
        let rows: Vec<Json> = touched
            .take(RUNS)
            .map(|(run, outcome)| {
                json!({
                    "href": address::run(&run.file.run),
                    "run": run.file.run,
                    "title": run.title(),
                    "result": run.result(),
                    "outcome": outcome.word(),
                    "recap": run.summary.as_ref().and_then(|summary| summary.tally.find(name)),
                })
            })
            .collect();
        if rows.is_empty() && parts.is_empty() {
            return self.message(StatusCode::NOT_FOUND, "No inventory has this host, and no recorded run touched it.");
        }
        let more = (rows.len() == RUNS).then(|| address::runs_of(name));
        let page = json!({"title": name, "name": name, "parts": parts, "runs": rows, "more": more});
        Ok(self.html(StatusCode::OK, self.render("host", "", page)?))
    }

    /// The host in one inventory; `None` if that lacks it.
    fn part(&self, cluster: &Cluster, loaded: &Loaded, name: &str) -> Option<Json> {
        let inventory = match &loaded.inventory {
            Ok(inventory) => inventory,
            Err(problem) => return Some(json!({"cluster": cluster.name, "problem": problem})),
        };
        let host = inventory.host(name).filter(|host| !host.is_implicit() && &**host.name() == name)?;
        let groups: Vec<&str> = inventory.groups_of(host).into_iter().map(|group| &**group.name()).collect();
        let mut part = json!({"cluster": cluster.name, "groups": groups, "read": loaded.at});
        match variables(inventory, host) {
            Ok(rows) => {
                part["variables_left_out"] = rows.len().saturating_sub(VARIABLES).into();
                part["variables"] = rows.into_iter().take(VARIABLES).collect();
            }
            Err(problem) => part["problem"] = problem.into(),
        }
        Some(part)
    }
}

/// Variables of a host as written, by name, each with the place whose value wins.
fn variables(inventory: &Inventory, host: &Host) -> std::result::Result<Vec<Json>, String> {
    let layers = inventory.layers(host).map_err(|error| error.to_string())?;
    let mut found: BTreeMap<&str, Json> = BTreeMap::new();
    for layer in &layers {
        for (name, node) in layer.vars.string_entries() {
            let secret = secret_node(name, node);
            let value = if secret.is_some() { MASK.to_owned() } else { text(&node.to_json()) };
            let span = &node.span;
            let place = match span.is_located() {
                true => format!("{}:{}", span.source.name, span.line),
                false => span.source.name.clone(),
            };
            let former = found.get(name).map_or(0, |row| row["replaces"].as_u64().unwrap_or_default() + 1);
            let row = json!({
                "name": name, "value": value, "secret": secret, "origin": layer.origin.to_string(), "place": place,
                "replaces": former,
            });
            found.insert(name, row);
        }
    }
    Ok(found.into_values().collect())
}

/// A value as text, cut if it is long.
fn text(value: &Json) -> String {
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Array(_) | Json::Object(_) => serde_json::to_string_pretty(value).unwrap_or_default(),
        other => other.to_string(),
    };
    clipped(&text, VALUE)
}
