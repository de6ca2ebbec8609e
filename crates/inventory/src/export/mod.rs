//! Output of `ansible-inventory`: `--list`, `--host` and `--graph`.

mod json;
mod toml;

use std::collections::HashSet;
use std::sync::Arc;

use windlass_yaml::emit::{DumpOptions, Item, dump};
use windlass_yaml::{Key, Mapping, Node, Span, Value, python_str};

pub use json::to_json;
pub use toml::to_toml;

use crate::change::set_variables;
use crate::{Error, Group, Host, HostName, Inventory, Layer, LayerOrigin};

/// Selects the variables to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variables {
    /// Every host has all its variables, as in a run.
    #[default]
    Merged,
    /// Hosts and groups have only their own variables, so that the result is an inventory again (`--export`).
    Own,
}

/// The profile that `--list` names in its JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// None, as before ansible-core 2.19.
    None,
    /// The profile's name; texts that are never templates are marked.
    #[default]
    Legacy,
}

/// The whole inventory in the JSON form of `--list`, which is also the form of inventory scripts.
pub fn list(inventory: &Inventory, variables: Variables, profile: Profile) -> Result<Node, Error> {
    let hosts = inventory.matching("all")?.hosts;
    let available = hosts.iter().collect();
    let mut lister = Lister { inventory, available, variables, profile, seen: HashSet::new(), result: Mapping::new() };
    if let Some(all) = inventory.group("all") {
        lister.group(all)?;
    }
    let mut result = lister.result;
    let mut hostvars = Mapping::new();
    for host in hosts.iter().filter_map(|name| inventory.host(name)) {
        let vars = host_variables(inventory, host, variables)?;
        if !vars.is_empty() {
            hostvars.insert_str(&host.name, map(shown_values(vars, profile)));
        }
    }
    let mut meta = Mapping::new();
    meta.insert_str("hostvars", map(hostvars));
    if profile == Profile::Legacy {
        meta.insert_str("profile", text("inventory_legacy"));
    }
    result.insert_str("_meta", map(meta));
    Ok(map(result))
}

struct Lister<'i> {
    inventory: &'i Inventory,
    available: HashSet<&'i HostName>,
    variables: Variables,
    profile: Profile,
    seen: HashSet<&'i str>,
    result: Mapping,
}

impl<'i> Lister<'i> {
    /// Writes the descendants of a group, then the group.
    fn group(&mut self, group: &'i Group) -> Result<(), Error> {
        let mut shown = Mapping::new();
        if &*group.name != "all" {
            let hosts = self.inventory.direct_hosts_of_group(&group.name).into_iter();
            let hosts = hosts.filter(|host| self.available.contains(&host.name));
            insert_unless_empty(&mut shown, "hosts", hosts.map(|host| text(&host.name)).collect());
        }
        let mut children = Vec::new();
        for child in self.inventory.children_of_group(&group.name) {
            children.push(text(&child.name));
            if self.seen.insert(&child.name) {
                self.group(child)?;
            }
        }
        insert_unless_empty(&mut shown, "children", children);
        if self.variables == Variables::Own {
            let vars = group_variables(self.inventory, group)?;
            if !vars.is_empty() {
                shown.insert_str("vars", map(shown_values(vars, self.profile)));
            }
        }
        if !shown.is_empty() {
            self.result.insert_str(&group.name, map(shown));
        }
        Ok(())
    }
}

fn insert_unless_empty(mapping: &mut Mapping, key: &str, items: Vec<Node>) {
    if !items.is_empty() {
        mapping.insert_str(key, Node::list(items, Span::none()));
    }
}

/// The whole inventory in the form of a YAML inventory, as for `--list --yaml`.
pub fn nested_list(inventory: &Inventory, variables: Variables) -> Result<Node, Error> {
    let hosts = inventory.matching("all")?.hosts;
    let mut nester = Nester {
        inventory,
        variables,
        available: hosts.iter().collect(),
        seen_groups: HashSet::new(),
        seen_hosts: HashSet::new(),
    };
    let mut result = Mapping::new();
    if let Some(all) = inventory.group("all") {
        nester.group(all, &mut result)?;
    }
    Ok(map(result))
}

struct Nester<'i> {
    inventory: &'i Inventory,
    variables: Variables,
    available: HashSet<&'i HostName>,
    seen_groups: HashSet<&'i str>,
    seen_hosts: HashSet<&'i str>,
}

impl<'i> Nester<'i> {
    fn group(&mut self, group: &'i Group, result: &mut Mapping) -> Result<(), Error> {
        let mut shown = Mapping::new();
        let mut children = Mapping::new();
        for child in self.inventory.children_of_group(&group.name) {
            // The content of a group is only written at its first occurrence.
            if self.seen_groups.contains(&*child.name) {
                children.insert_str(&child.name, map(Mapping::new()));
            } else {
                self.group(child, &mut children)?;
                self.seen_groups.insert(&child.name);
            }
        }
        let mut hosts = Mapping::new();
        if &*group.name != "all" {
            for host in self.inventory.direct_hosts_of_group(&group.name) {
                if self.available.contains(&host.name) {
                    let first = self.seen_hosts.insert(&host.name);
                    let vars =
                        if first { host_variables(self.inventory, host, self.variables)? } else { Mapping::new() };
                    hosts.insert_str(&host.name, map(vars));
                }
            }
        }
        let vars = match self.variables {
            Variables::Own => group_variables(self.inventory, group)?,
            Variables::Merged => Mapping::new(),
        };
        for (section, entries) in [("children", children), ("hosts", hosts), ("vars", vars)] {
            if !entries.is_empty() {
                shown.insert_str(section, map(entries));
            }
        }
        if !shown.is_empty() {
            result.insert_str(&group.name, map(shown));
        }
        Ok(())
    }
}

/// The whole inventory in the form of a TOML inventory, as for `--list --toml`.
pub fn flat_list(inventory: &Inventory, variables: Variables) -> Result<Node, Error> {
    let hosts = inventory.matching("all")?.hosts;
    let available = hosts.iter().collect();
    let mut flattener = Flattener { inventory, available, variables, seen: HashSet::new(), result: Mapping::new() };
    if let Some(all) = inventory.group("all") {
        flattener.group(all)?;
    }
    Ok(map(flattener.result))
}

struct Flattener<'i> {
    inventory: &'i Inventory,
    available: HashSet<&'i HostName>,
    variables: Variables,
    seen: HashSet<&'i HostName>,
    result: Mapping,
}

impl<'i> Flattener<'i> {
    /// Writes a group, then its descendants. A host's variables are only written at its first occurrence.
    fn group(&mut self, group: &'i Group) -> Result<(), Error> {
        // A group precedes its descendants, although its content is only known after them.
        self.result.insert_str(&group.name, map(Mapping::new()));
        let mut children = Vec::new();
        for child in self.inventory.children_of_group(&group.name) {
            if &*child.name == "ungrouped" && self.inventory.direct_hosts_of_group("ungrouped").is_empty() {
                continue;
            }
            if &*group.name != "all" {
                children.push(text(&child.name));
            }
            self.group(child)?;
        }
        let mut hosts = Mapping::new();
        if &*group.name != "all" {
            for host in self.inventory.direct_hosts_of_group(&group.name) {
                if self.available.contains(&host.name) {
                    let vars = if self.seen.insert(&host.name) {
                        host_variables(self.inventory, host, self.variables)?
                    } else {
                        Mapping::new()
                    };
                    hosts.insert_str(&host.name, map(vars));
                }
            }
        }
        let mut shown = Mapping::new();
        insert_unless_empty(&mut shown, "children", children);
        let vars = match self.variables {
            Variables::Own => group_variables(self.inventory, group)?,
            Variables::Merged => Mapping::new(),
        };
        for (section, entries) in [("hosts", hosts), ("vars", vars)] {
            if !entries.is_empty() {
                shown.insert_str(section, map(entries));
            }
        }
        if shown.is_empty() {
            self.result.remove(&group.name);
        } else {
            self.result.insert_str(&group.name, map(shown));
        }
        Ok(())
    }
}

/// Variables of the single host that a pattern matches, as for `--host`. The limit does not apply.
pub fn host(inventory: &Inventory, pattern: &str, variables: Variables) -> Result<Node, Error> {
    let hosts = inventory.matching_without_limit(pattern)?.hosts;
    match hosts.as_slice() {
        [name] => {
            let host = inventory.host(name).ok_or_else(|| Error::UnknownHost { name: name.to_string() })?;
            Ok(map(host_variables(inventory, host, variables)?))
        }
        [] => Err(Error::UnknownHost { name: pattern.to_owned() }),
        _ => Err(Error::Pattern {
            pattern: pattern.to_owned(),
            reason: format!("matches {} hosts, but only one can be shown", hosts.len()),
        }),
    }
}

/// The groups and hosts below a group as a tree, as for `--graph`, with or without variables.
pub fn graph(inventory: &Inventory, group: &str, variables: Option<Variables>) -> Result<String, Error> {
    let Some(group) = inventory.group(group) else {
        let reason = "is not the name of a group, and only groups can be shown as a tree".to_owned();
        return Err(Error::Pattern { pattern: group.to_owned(), reason });
    };
    let mut lines = Vec::new();
    graph_group(inventory, group, variables, 0, &mut lines)?;
    Ok(lines.join("\n"))
}

fn graph_group(
    inventory: &Inventory,
    group: &Group,
    variables: Option<Variables>,
    depth: usize,
    lines: &mut Vec<String>,
) -> Result<(), Error> {
    lines.push(graph_line(&format!("@{}:", group.name), depth));
    for child in inventory.children_of_group(&group.name) {
        graph_group(inventory, child, variables, depth + 1, lines)?;
    }
    if &*group.name != "all" {
        for host in inventory.direct_hosts_of_group(&group.name) {
            lines.push(graph_line(&host.name, depth + 1));
            if let Some(variables) = variables {
                graph_variables(inventory, &host_variables(inventory, host, variables)?, depth + 2, lines)?;
            }
        }
    }
    if variables.is_some() {
        graph_variables(inventory, &group_variables(inventory, group)?, depth + 1, lines)?;
    }
    Ok(())
}

fn graph_line(name: &str, depth: usize) -> String {
    if depth == 0 { name.to_owned() } else { format!("{}--{name}", "  |".repeat(depth)) }
}

fn graph_variables(inventory: &Inventory, vars: &Mapping, depth: usize, lines: &mut Vec<String>) -> Result<(), Error> {
    let mut shown = Vec::new();
    for (key, value) in vars.iter() {
        shown.push((key.to_text(), python_str(&decrypted(inventory, value)?)));
    }
    shown.sort();
    lines.extend(shown.into_iter().map(|(name, value)| graph_line(&format!("{{{name} = {value}}}"), depth)));
    Ok(())
}

/// Replaces ciphertext in a value with its plain text.
fn decrypted(inventory: &Inventory, node: &Node) -> Result<Node, Error> {
    let value = match &node.value {
        Value::Vault(ciphertext) => {
            let plain =
                inventory.files.decrypt(ciphertext).map_err(|error| Error::at(&node.span, error.to_string()))?;
            Value::Literal(plain.into())
        }
        Value::List(items) => {
            Value::List(items.iter().map(|item| decrypted(inventory, item)).collect::<Result<_, Error>>()?)
        }
        Value::Map(mapping) => {
            let entries = mapping.iter().map(|(key, value)| Ok((key.clone(), decrypted(inventory, value)?)));
            Value::Map(Arc::new(entries.collect::<Result<_, Error>>()?))
        }
        _ => return Ok(node.clone()),
    };
    Ok(Node::new(value, node.span.clone()))
}

fn host_variables(inventory: &Inventory, host: &Host, variables: Variables) -> Result<Mapping, Error> {
    let mut layers = inventory.layers(host)?;
    for layer in &mut layers {
        // Hosts of one range share variables here but not in Ansible, and YAML aliases would show it.
        if layer.origin == LayerOrigin::HostInventory {
            layer.vars = Arc::new(layer.vars.iter().map(|(key, value)| (key.clone(), unshared(value))).collect());
        }
    }
    if variables == Variables::Own {
        layers.retain(Layer::is_of_host);
        return Ok(merge(&layers, inventory.merge_hashes));
    }
    let mut merged = Arc::new(merge(&layers, inventory.merge_hashes));
    set_variables(&mut merged, inventory.extra_vars.iter(), inventory.merge_hashes);
    Ok(Arc::unwrap_or_clone(merged))
}

fn unshared(node: &Node) -> Node {
    let value = match &node.value {
        Value::List(items) => Value::List(items.iter().map(unshared).collect()),
        Value::Map(mapping) => {
            Value::Map(Arc::new(mapping.iter().map(|(key, value)| (key.clone(), unshared(value))).collect()))
        }
        _ => return node.clone(),
    };
    Node::new(value, node.span.clone())
}

fn group_variables(inventory: &Inventory, group: &Group) -> Result<Mapping, Error> {
    let mut vars = merge(&inventory.layers_of_group(&group.name)?, inventory.merge_hashes);
    if group.priority != 1 {
        vars.insert_str("ansible_group_priority", Node::new(Value::Int(group.priority), Span::none()));
    }
    Ok(vars)
}

/// Merges layers into one mapping. Later layers win; with `hashes`, dictionaries are merged.
pub fn merge(layers: &[Layer], hashes: bool) -> Mapping {
    let Some((first, others)) = layers.split_first() else { return Mapping::new() };
    let mut merged = Arc::clone(&first.vars);
    for layer in others {
        set_variables(&mut merged, layer.vars.iter(), hashes);
    }
    Arc::unwrap_or_clone(merged)
}

fn map(mapping: Mapping) -> Node {
    Node::map(mapping, Span::none())
}

fn text(text: &str) -> Node {
    Node::literal(text, Span::none())
}

fn shown_values(vars: Mapping, profile: Profile) -> Mapping {
    match profile {
        Profile::Legacy if vars.values().any(has_literal) => wrapped_values(&vars),
        Profile::None | Profile::Legacy => vars,
    }
}

fn has_literal(node: &Node) -> bool {
    match &node.value {
        Value::Literal(_) => true,
        Value::List(items) => items.iter().any(has_literal),
        Value::Map(mapping) => mapping.values().any(has_literal),
        _ => false,
    }
}

/// Marks text that is never a template, so that readers of the inventory do not expand it.
fn wrapped_values(vars: &Mapping) -> Mapping {
    vars.iter().map(|(key, value)| (key.clone(), wrapped(value))).collect()
}

fn wrapped(node: &Node) -> Node {
    let value = match &node.value {
        Value::Literal(literal) => {
            let key = Key::string("__ansible_unsafe", node.span.clone());
            Value::Map(Arc::new(Mapping::from(vec![(key, Node::literal(Arc::clone(literal), node.span.clone()))])))
        }
        Value::List(items) => Value::List(items.iter().map(wrapped).collect()),
        Value::Map(mapping) => Value::Map(Arc::new(wrapped_values(mapping))),
        _ => return node.clone(),
    };
    Node::new(value, node.span.clone())
}

/// Formats a value like `ansible-inventory --yaml`.
pub fn to_yaml(node: &Node) -> Result<String, Error> {
    let options = DumpOptions { allow_unicode: true, ..DumpOptions::default() };
    Ok(dump(&Item::with_aliases(node), &options)?)
}
