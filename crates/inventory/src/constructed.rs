//! `constructed`: variables and groups for hosts of earlier sources, computed by expressions.

use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, Span, Value, python_str};

use crate::export::merge;
use crate::load::Loader;
use crate::model::HostId;
use crate::names::safe_name;
use crate::plugin::Candidate;
use crate::{Error, Expressions, Inventory};

/// Reads a `constructed` configuration and applies it.
pub(crate) fn read(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    let configuration = source.configuration(loader, "constructed")?;
    let expressions = loader.expressions(&configuration.span)?;
    let use_extra_vars = match configuration.get("use_extra_vars") {
        Some(_) => flag(&configuration, "use_extra_vars", false),
        None => loader.options.use_extra_vars,
    };
    let constructed = Constructed {
        expressions,
        compose: entries(&configuration, "compose")?,
        groups: entries(&configuration, "groups")?,
        keyed: keyed_groups(&configuration, flag(&configuration, "leading_separator", true))?,
        strict: flag(&configuration, "strict", false),
        use_vars_plugins: flag(&configuration, "use_vars_plugins", false),
        extra_vars: use_extra_vars.then(|| Arc::clone(&loader.options.extra_vars)),
    };
    for host in 0..loader.inventory.hosts.len() {
        constructed.host(&mut loader.inventory, host)?;
    }
    loader.inventory.forget_layers();
    Ok(true)
}

fn flag(configuration: &Node, name: &str, default: bool) -> bool {
    configuration.get(name).map_or(default, |node| node.truth() == Some(true))
}

fn entries(configuration: &Node, name: &str) -> Result<Arc<Mapping>, Error> {
    match configuration.get(name) {
        Some(node) if !node.is_null() => {
            let message = format!("`{name}` must be a mapping of names and expressions, but this is {}.", node.kind());
            node.as_map().map(Arc::clone).ok_or_else(|| Error::at(&node.span, message))
        }
        _ => Ok(Arc::default()),
    }
}

/// An entry of `keyed_groups`.
struct Keyed {
    key: Node,
    prefix: String,
    separator: String,
    /// Text between the prefix and the rest.
    joint: String,
    parent: Option<Node>,
    default_value: Option<String>,
    /// Whether a key without a value keeps its separator.
    trailing_separator: bool,
}

fn keyed_groups(configuration: &Node, leading_separator: bool) -> Result<Vec<Keyed>, Error> {
    let Some(node) = configuration.get("keyed_groups").filter(|node| !node.is_null()) else { return Ok(Vec::new()) };
    let message = |node: &Node| format!("`keyed_groups` must be a list of mappings, but this is {}.", node.kind());
    let items = node.as_list().ok_or_else(|| Error::at(&node.span, message(node)))?;
    let mut keyed = Vec::new();
    for item in items {
        item.as_map().filter(|map| !map.is_empty()).ok_or_else(|| Error::at(&item.span, message(item)))?;
        let text = |name: &str| item.get(name).filter(|node| !node.is_null()).map(python_str);
        if text("default_value").is_some() && text("trailing_separator").is_some() {
            let message = "`default_value` and `trailing_separator` exclude each other.";
            return Err(Error::at(&item.span, message));
        }
        let (prefix, separator) =
            (text("prefix").unwrap_or_default(), text("separator").unwrap_or_else(|| "_".to_owned()));
        let joint = if prefix.is_empty() && !leading_separator { String::new() } else { separator.clone() };
        keyed.push(Keyed {
            key: item.get("key").cloned().ok_or_else(|| Error::at(&item.span, "A keyed group needs a `key`."))?,
            prefix,
            separator,
            joint,
            parent: item.get("parent_group").filter(|node| !node.is_null()).cloned(),
            default_value: text("default_value"),
            trailing_separator: item.get("trailing_separator").and_then(Node::as_bool) != Some(false),
        });
    }
    Ok(keyed)
}

struct Constructed {
    expressions: Arc<dyn Expressions>,
    compose: Arc<Mapping>,
    groups: Arc<Mapping>,
    keyed: Vec<Keyed>,
    strict: bool,
    use_vars_plugins: bool,
    extra_vars: Option<Arc<Mapping>>,
}

impl Constructed {
    fn host(&self, inventory: &mut Inventory, id: HostId) -> Result<(), Error> {
        let Some(name) = inventory.host_at(id).map(|host| Arc::clone(&host.name)) else { return Ok(()) };
        let mut variables = self.variables(inventory, id)?;
        let with_extra = |variables: &Arc<Mapping>| match &self.extra_vars {
            Some(extra) if !extra.is_empty() => {
                let mut all = Mapping::clone(variables);
                all.extend(extra.iter().map(|(key, value)| (key.clone(), value.clone())));
                Arc::new(all)
            }
            _ => Arc::clone(variables),
        };
        if !self.compose.is_empty() {
            let seen = with_extra(&variables);
            for (key, expression) in self.compose.iter() {
                let what = || format!("The variable `{}` of the host `{name}` cannot be composed", key.to_text());
                if let Some(value) = self.tried(self.expressions.evaluate(expression, &seen), expression, what)? {
                    inventory.give(id, &Arc::new(Mapping::from(vec![(key.clone(), value)])));
                }
            }
            variables = self.variables(inventory, id)?;
        }
        for (key, condition) in self.groups.iter() {
            let group = safe_name(&key.to_text());
            let what = || format!("It cannot be decided whether the host `{name}` is in the group `{group}`");
            if self.tried(self.expressions.holds(condition, &variables), condition, what)? == Some(true) {
                let group = inventory.ensure_group(&group, &key.span);
                inventory.join_at(id, group, &key.span);
            }
        }
        let seen = with_extra(&variables);
        for keyed in &self.keyed {
            self.keyed(inventory, id, &name, keyed, &seen)?;
        }
        Ok(())
    }

    /// Result of an expression; without `strict`, a failure is ignored.
    fn tried<T>(
        &self,
        result: Result<T, String>,
        at: &Node,
        what: impl FnOnce() -> String,
    ) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(reason) if self.strict => Err(Error::at(&at.span, format!("{}: {reason}", what()))),
            Err(_) => Ok(None),
        }
    }

    /// Variables of a host from the sources read so far.
    fn variables(&self, inventory: &mut Inventory, id: HostId) -> Result<Arc<Mapping>, Error> {
        let Some(host) = inventory.host_at(id) else { return Ok(Arc::default()) };
        let groups = inventory.sorted_groups(host);
        let mut variables = Mapping::new();
        if self.use_vars_plugins {
            variables = merge(&inventory.layers(host)?, inventory.merge_hashes);
        } else {
            for group in groups.iter().filter_map(|group| inventory.group_at(*group)) {
                variables.extend(group.variables.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            variables.extend(host.variables.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        let literal = |text: &str| Node::literal(text, Span::none());
        let mut names: Vec<&str> =
            groups.iter().filter_map(|group| inventory.group_at(*group)).map(|group| &*group.name).collect();
        names.retain(|name| *name != "all");
        names.sort_unstable();
        variables.insert_str("inventory_hostname", literal(&host.name));
        variables.insert_str("inventory_hostname_short", literal(host.short_name()));
        variables.insert_str("group_names", Node::list(names.into_iter().map(literal).collect(), Span::none()));
        if let (Some(file), Some(directory)) = (host.inventory_file(), host.inventory_dir()) {
            variables.insert_str("inventory_file", literal(&file.to_string_lossy()));
            variables.insert_str("inventory_dir", literal(&directory.to_string_lossy()));
        }
        Ok(Arc::new(variables))
    }

    fn keyed(
        &self,
        inventory: &mut Inventory,
        id: HostId,
        host: &str,
        keyed: &Keyed,
        variables: &Arc<Mapping>,
    ) -> Result<(), Error> {
        let what = || format!("No group can be made for the host `{host}`");
        let Some(key) = self.tried(self.expressions.evaluate(&keyed.key, variables), &keyed.key, what)? else {
            return Ok(());
        };
        let is_empty = |node: &Node| node.is_null() || node.as_str() == Some("");
        let or_default = |node: &Node| match &keyed.default_value {
            Some(default) if is_empty(node) => default.clone(),
            _ => python_str(node),
        };
        let names: Vec<String> = match &key.value {
            Value::List(items) => items.iter().map(or_default).collect(),
            Value::Map(entries) => {
                entries.iter().map(|(name, value)| keyed.pair(name, value, is_empty(value))).collect()
            }
            _ if is_empty(&key) && keyed.default_value.is_some() => vec![or_default(&key)],
            Value::String(_) | Value::Literal(_) if !is_empty(&key) => vec![or_default(&key)],
            Value::Null | Value::String(_) | Value::Literal(_) | Value::Bool(false) | Value::Int(0) => {
                let nothing = Err("The key has no value".to_owned());
                self.tried::<()>(nothing, &keyed.key, what)?;
                Vec::new()
            }
            _ => {
                let message = format!(
                    "The key of a keyed group must give a string, a list or a mapping, but for the host `{host}` it gave {}.",
                    key.kind()
                );
                return Err(Error::at(&keyed.key.span, message));
            }
        };
        if names.is_empty() {
            return Ok(());
        }
        let parent = match &keyed.parent {
            None => None,
            Some(template) => {
                let Some(parent) = self.tried(self.expressions.render(template, variables), template, what)? else {
                    return Ok(());
                };
                parent.scalar_text().filter(|name| !parent.is_null() && !name.is_empty()).map(|name| safe_name(&name))
            }
        };
        let span = &keyed.key.span;
        for name in names {
            let name = safe_name(&format!("{}{}{name}", keyed.prefix, keyed.joint));
            if name.is_empty() {
                let message = format!("For the host `{host}` the key gives a group an empty name.");
                return Err(Error::at(span, message).with_hint("Give it a `default_value` or a `prefix`."));
            }
            let group = inventory.ensure_group(&name, span);
            inventory.join_at(id, group, span);
            if let Some(parent) = &parent {
                let parent = inventory.ensure_group(parent, span);
                inventory.try_link_at(parent, group, span)?;
            }
        }
        Ok(())
    }
}

impl Keyed {
    /// Group name for an entry of a mapping.
    fn pair(&self, name: &Key, value: &Node, is_empty: bool) -> String {
        let (name, separator) = (name.to_text(), &self.separator);
        match &self.default_value {
            Some(default) if is_empty => format!("{name}{separator}{default}"),
            None if is_empty && !self.trailing_separator => name,
            _ => format!("{name}{separator}{}", python_str(value)),
        }
    }
}
