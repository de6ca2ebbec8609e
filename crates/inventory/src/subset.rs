//! `windlass.group`: the hosts of one group of other sources, as if these had no others. So each of several clusters in
//! one inventory gets an inventory of its own.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexSet;
use windlass_yaml::{Key, Node, Source, Span, Value};

use crate::change::PRIORITY;
use crate::load::{Loader, absolute};
use crate::model::{ALL, GroupId, HostId};
use crate::plugin::Candidate;
use crate::step::{Statements, Step};
use crate::{Error, Inventory};

/// Name of the plugin.
pub(crate) const NAME: &str = "windlass.group";
const OPTIONS: [&str; 3] = ["plugin", "group", "sources"];

/// Content of a file that configures the plugin.
struct Configuration<'c> {
    group: (&'c str, &'c Span),
    /// Paths, or lists of hosts.
    sources: Vec<(String, Span)>,
}

impl Configuration<'_> {
    /// Checks a document; paths of sources start at the folder of its file.
    fn of<'c>(document: &'c Node, file: &Path) -> Result<Configuration<'c>, Error> {
        let mut options = document.as_map().into_iter().flat_map(|options| options.keys());
        if let Some(unknown) = options.find(|key| !key.as_str().is_some_and(|name| OPTIONS.contains(&name))) {
            let message = format!("The plugin `{NAME}` has no option `{}`.", unknown.to_text());
            return Err(Error::at(&unknown.span, message).with_hint("Its options are `group` and `sources`."));
        }
        let missing = |name| Error::at(&document.span, format!("A configuration of `{NAME}` needs `{name}`."));
        let group = document.get("group").ok_or_else(|| missing("group"))?;
        let given = document.get("sources").ok_or_else(|| missing("sources"))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let mut sources = Vec::new();
        for node in given.as_list().unwrap_or(std::slice::from_ref(given)) {
            let source = text(node)?;
            let path = if source.starts_with("~/") { absolute(Path::new(source)) } else { folder.join(source) };
            let is_list = source.contains(',') && !path.exists();
            let place = if is_list { source.to_owned() } else { path.display().to_string() };
            sources.push((place, node.span.clone()));
        }
        Ok(Configuration { group: (text(group)?, &group.span), sources })
    }
}

/// Sources that a file includes with the plugin `windlass.group`: paths, or lists of hosts. `None` if the file's text
/// does not configure this plugin.
pub fn sources_included_by(file: &Path, text: &str) -> Option<Vec<String>> {
    let source = Source::new(file.display().to_string(), text);
    let document = windlass_yaml::load_one(source, &windlass_yaml::Options::default()).ok()?;
    document.get("plugin").filter(|plugin| plugin.as_str() == Some(NAME))?;
    let sources = Configuration::of(&document, file).map(|configuration| configuration.sources).unwrap_or_default();
    Some(sources.into_iter().map(|(source, _)| source).collect())
}

/// Reads a configuration of the plugin.
pub(crate) fn read(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    let Ok(document) = source.document(loader) else { return Ok(false) };
    if document.get("plugin").and_then(Node::as_str) != Some(NAME) {
        return Ok(false);
    }
    // A directory that is included may have the folders of clusters in it, and so this file.
    if loader.is_included {
        return Ok(true);
    }
    let Configuration { group: (name, span), sources } = Configuration::of(&document, &source.path)?;
    for (source, span) in &sources {
        let path = Path::new(source);
        let text = if path.is_file() { windlass_bounds::read_text(path).unwrap_or_default() } else { String::new() };
        if sources_included_by(path, &text).is_some() {
            let message = format!("`{source}` is a file of `{NAME}` itself, and these do not include each other.");
            return Err(Error::at(span, message).with_hint("Name the sources with the hosts."));
        }
    }
    let mut whole = loader.included(&sources)?;
    loader.inventory.replaced_names.append(&mut whole.replaced_names);
    let Some(id) = whole.groups.get_index_of(&*whole.group_names.usable(name)) else {
        let message = format!("The sources have no group `{name}`.");
        return Err(Error::at(span, message).with_hint(groups_with_hosts(&whole)));
    };
    let hosts = if id == ALL { (0..whole.hosts.len()).collect() } else { whole.hosts_below(id) };
    if hosts.is_empty() {
        return Err(Error::at(span, format!("The group `{name}` has no hosts in the sources.")));
    }
    loader.apply(statements(&whole, &hosts), &source.path).map(|()| true)
}

fn text(node: &Node) -> Result<&str, Error> {
    let text = node.as_str().filter(|text| !text.is_empty());
    text.ok_or_else(|| Error::at(&node.span, format!("This must be a text, but it is {}.", node.kind())))
}

fn groups_with_hosts(whole: &Inventory) -> String {
    let has_hosts = |(id, _): &(GroupId, &Arc<str>)| *id != ALL && !whole.hosts_below(*id).is_empty();
    let names: Vec<String> =
        whole.groups.keys().enumerate().filter(has_hosts).map(|(_, name)| name.to_string()).collect();
    format!("Groups with hosts: {}.", names.join(", "))
}

/// The statements that make an inventory of these hosts, in the order of the sources, because many playbooks treat the
/// first host of a group specially. All groups stay, as playbooks may ask for empty ones.
fn statements(whole: &Inventory, hosts: &IndexSet<HostId>) -> Statements {
    let mut steps = Vec::new();
    for (name, group) in &whole.groups {
        steps.push(Step::Group { name: Arc::clone(name), span: group.span.clone() });
        let variable = |(key, value): (&Key, &Node)| Step::GroupVariable {
            group: Arc::clone(name),
            key: key.clone(),
            value: value.clone(),
        };
        steps.extend(group.variables.iter().map(variable));
        if group.priority != 1 {
            let priority = Node::new(Value::Int(group.priority), group.span.clone());
            steps.push(variable((&Key::string(PRIORITY, group.span.clone()), &priority)));
        }
    }
    for (_, host) in whole.hosts.values().enumerate().filter(|(id, _)| hosts.contains(id)) {
        steps.push(Step::Host { name: Arc::clone(&host.name), span: host.span.clone() });
        steps.push(Step::HostVariables { host: Arc::clone(&host.name), variables: Arc::clone(&host.variables) });
    }
    let places = whole.places.as_deref();
    for (id, group) in whole.groups.values().enumerate() {
        let members = group.hosts.iter().filter(|host| hosts.contains(*host));
        steps.extend(members.filter_map(|member| Some((*member, whole.host_at(*member)?))).map(|(member, host)| {
            let place = places.and_then(|places| places.members.get(&(id, member)));
            let (group, host, span) = (Arc::clone(&group.name), Arc::clone(&host.name), place.unwrap_or(&host.span));
            Step::Member { group, host, span: span.clone() }
        }));
        let children = group.children.iter().filter_map(|child| Some((*child, whole.group_at(*child)?)));
        steps.extend(children.map(|(child, found)| Step::Child {
            parent: Arc::clone(&group.name),
            child: Arc::clone(&found.name),
            span: places.and_then(|places| places.children.get(&(id, child))).unwrap_or(&found.span).clone(),
        }));
    }
    Statements { steps, warnings: Vec::new() }
}
