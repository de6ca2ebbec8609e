//! Builds a task from YAML: its keywords, action and arguments.

use std::sync::Arc;

use windlass_template::{PluginKind, Variable};
use windlass_yaml::{Mapping, Node, Span, Value};

use super::inclusion;
use super::load::{Loader, TaskFile};
use crate::error::{Error, Result, did_you_mean};
use crate::foreign::Resolution;
use crate::playbook::keyword::unknown;
use crate::playbook::{Item, Keywords, On, Task, arguments, checked, collections_of, is_keyword, is_variable_name};
use crate::vars::secrecy;

/// The words of a task, by their kind.
struct Words {
    keywords: Keywords,
    /// Words that name an action, with their arguments.
    actions: Vec<(String, Node)>,
    /// Lookup of `with_...`, with its terms.
    with_lookup: Option<(String, Node)>,
}

/// Sentence about a task with several modules, given with the places of their names.
pub(crate) fn several_modules(places: &[(&str, &Span)]) -> String {
    let named: Vec<_> = places.iter().map(|(name, span)| format!("{name} (line {})", span.line)).collect();
    format!("a task can have only one module, but this one has several: {}", named.join(", "))
}

impl Loader {
    pub(super) fn task(&self, entry: &Node, map: &Mapping, from: &TaskFile<'_>) -> Result<Vec<Item>> {
        let on = if from.handlers { On::Handler } else { On::Task };
        let Words { mut keywords, mut actions, with_lookup } = self.words(map, on)?;
        self.modules.check_groups(keywords.get("module_defaults"))?;
        for name in ["action", "local_action"] {
            if let Some(node) = keywords.get(name).cloned() {
                if name == "local_action" {
                    keywords.set("delegate_to", Node::literal("localhost", node.span.clone()));
                }
                actions.push(arguments::split_action(&node)?);
            }
        }
        let collections = collections_of(&keywords, from.frame);
        let (action, value) = self.the_action(actions, on, entry, &collections)?;
        let (mut args, args_template) = all_arguments(&action, &value, &keywords)?;
        self.drop_removed_option(&action, &mut args, &value);
        // Names of tasks may show the arguments of `set_fact` and `add_host` as written.
        secrecy::learn(&self.world.run.secrets, |name| args.get(name).cloned().map(Variable::Text));
        let vars = keywords.vars()?;
        // Ansible does not count these two as variables of a task.
        self.warn_of_reserved_names(vars.keys().filter(|key| !matches!(key.as_str(), Some("tags" | "when"))));
        let tags = self.tags_under(&keywords, from.frame, &vars)?;
        let when: Vec<Node> = from.when.iter().cloned().chain(keywords.list("when")).collect();
        let register = match keywords.get("register") {
            None => None,
            Some(node) => Some(variable_name(node)?),
        };
        let listen = keywords.list("listen").iter().filter_map(Node::scalar_text).collect();
        let task = Task {
            id: Task::next_id(),
            name: keywords.get("name").cloned(),
            action,
            args: Arc::new(args),
            args_template,
            vars,
            when: when.into(),
            tags,
            with_lookup,
            register,
            listen,
            frame: Arc::clone(from.frame),
            handler: from.handlers,
            looped: None,
            span: entry.span.clone(),
            keywords,
        };
        let of_role = matches!(task.short_action(), "import_role" | "include_role");
        if from.handlers && of_role {
            let message = format!("Using '{}' as a handler is not supported.", task.action);
            return Err(Error::parse(message, &task.span).hint("put the tasks of the role among its own handlers"));
        }
        checked::end_role(&task)?;
        if let Some(control) = task.keywords.get("loop_control") {
            checked::parallel_action(&task.action, control)?;
        }
        if matches!(task.short_action(), "import_tasks" | "import_role" | "include_tasks" | "include_role") {
            inclusion::arguments(&task)?;
        }
        match task.short_action() {
            "import_tasks" => self.import_tasks(&task, from).map(|item| vec![item]),
            "import_role" => self.import_role(&task, from),
            "include_tasks" | "include_role" => {
                inclusion::keywords(&task)?;
                Ok(vec![Item::Task(Arc::new(task))])
            }
            _ => Ok(vec![Item::Task(Arc::new(task))]),
        }
    }

    /// Drops `warn` of `command` and `shell`, which Ansible had until 2.13 and which only chose what it printed.
    fn drop_removed_option(&self, action: &str, args: &mut Mapping, place: &Node) {
        if matches!(crate::playbook::short_name(action), "command" | "shell") && args.remove("warn").is_some() {
            let place = &place.span;
            self.files.warn(format!("`warn` of `{action}` was removed from Ansible and means nothing ({place})"));
        }
    }

    /// Sorts the words of a task.
    fn words(&self, map: &Mapping, on: On) -> Result<Words> {
        let mut actions = Vec::new();
        let mut with_lookup = None;
        let keywords = Keywords::read(map, on, |word, node| {
            if let Some(lookup) = word.strip_prefix("with_").filter(|lookup| !lookup.is_empty()) {
                let terms = map.get(word).cloned().unwrap_or_else(|| node.clone());
                self.check_lookup(lookup, on, node)?;
                let first = map.keys().find(|key| key.as_str().is_some_and(|key| key == "loop" || key == word));
                let is_second = first.and_then(|key| key.as_str()) == Some("loop")
                    && map.get("loop").is_some_and(|node| !node.is_null());
                if with_lookup.is_some() || is_second {
                    return Err(Error::parse(format!("duplicate loop in task: {lookup}"), &node.span)
                        .hint("a task can have only one `loop` or `with_...`")
                        .generic());
                }
                if terms.is_null() {
                    return Err(
                        Error::parse(format!("you must specify a value when using {word}"), &node.span).generic()
                    );
                }
                with_lookup = Some((lookup.to_owned(), terms));
            } else {
                let value = map.get(word).cloned().unwrap_or_else(|| node.clone());
                actions.push((word.to_owned(), Node { span: node.span.clone(), ..value }));
            }
            Ok(())
        })?;
        // With both `with_...` and `loop`, the lookup gets the value of `loop`.
        if let (Some((_, terms)), Some(node)) = (&mut with_lookup, keywords.get("loop").filter(|node| !node.is_null()))
        {
            *terms = node.clone();
        }
        Ok(Words { keywords, actions, with_lookup })
    }

    /// Fails if the lookup of `with_...` is unknown. Lookups of collections are searched when they are used.
    fn check_lookup(&self, lookup: &str, on: On, node: &Node) -> Result<()> {
        let short = crate::playbook::short_name(lookup);
        let names = || windlass_template::lookups::LOOKUPS.iter().flat_map(|lookup| lookup.names()).copied();
        let is_ours = names().any(|name| name == short);
        let is_theirs = || match &self.world.run.engine.options().plugins {
            Some(plugins) => plugins.provides(PluginKind::Lookup, lookup, false).unwrap_or(true),
            None => false,
        };
        if short.contains('.') || is_ours || is_theirs() {
            return Ok(());
        }
        let hint = did_you_mean(short, names().filter(|name| !name.contains('.')));
        let message =
            format!("'with_{lookup}' is not a valid attribute for a {}: there is no lookup '{lookup}'", on.title());
        Err(Error::parse(message, &node.span).maybe_hint(hint))
    }

    /// The only key of a task that is not a keyword.
    fn the_action(
        &self,
        mut actions: Vec<(String, Node)>,
        on: On,
        entry: &Node,
        collections: &[String],
    ) -> Result<(String, Node)> {
        let known = |name: &str| !matches!(self.modules.resolve(name, collections), Resolution::Unknown(_));
        let one_known = actions.len() > 1 && actions.iter().filter(|(name, _)| known(name)).count() == 1;
        if let Some((name, node)) = actions.iter().find(|(name, _)| one_known && !known(name)) {
            let action = actions.iter().find(|(name, _)| known(name));
            return Err(match action.filter(|(action, value)| value.is_null() && has_option(action, name)) {
                Some((action, _)) => unknown(name, on, node)
                    .hint(format!("`{name}` is an option of `{action}`: indent it below `{action}:`")),
                None => unknown(name, on, node),
            });
        }
        if actions.len() > 1 {
            let key = |name: &str| Some(&entry.as_map()?.get_entry(name)?.0.span);
            let places: Vec<_> =
                actions.iter().map(|(name, node)| (&**name, key(name).unwrap_or(&node.span))).collect();
            let place = places.get(1).map_or(&entry.span, |(_, span)| span);
            return Err(Error::parse(several_modules(&places), place));
        }
        let Some((name, node)) = actions.pop() else {
            return Err(Error::parse(
                "this task has no module: add a key with the module's name and its arguments",
                &entry.span,
            ));
        };
        if name.contains("{{") {
            return Ok((name, node));
        }
        if let Resolution::Unknown(reason) = self.modules.resolve(&name, collections) {
            if crate::playbook::short_name(&name) == "include" {
                let successor = successor_of_include(&node, entry);
                self.warn_of_include(successor, &node.span);
                return Ok((successor.to_owned(), node));
            }
            let error = Error::parse(format!("there is no module or action '{name}'"), &node.span);
            let keyword =
                crate::playbook::keyword::KEYWORDS.iter().map(|(word, _)| *word).filter(|word| is_keyword(word, on));
            return Err(error.maybe_hint(reason.or_else(|| self.modules.suggestion(&name, keyword))));
        }
        Ok((name, node))
    }
}

/// The action for which `include` stood in Ansible: a file with a fixed name was read before the play ran, unless the
/// task had a loop, and any other file during the play.
fn successor_of_include(file: &Node, task: &Node) -> &'static str {
    let is_looped = |map: &Arc<Mapping>| {
        map.string_entries().any(|(key, node)| (key == "loop" && !node.is_null()) || key.starts_with("with_"))
    };
    let name = file.as_map().map_or(Some(file), |map| map.get("_raw_params").or_else(|| map.get("file")));
    let is_template = name.and_then(Node::scalar_text).is_none_or(|name| name.contains("{{"));
    if is_template || task.as_map().is_some_and(is_looped) { "include_tasks" } else { "import_tasks" }
}

/// Whether a built-in module has an option of this name.
fn has_option(module: &str, option: &str) -> bool {
    crate::builtin::spec(module).is_some_and(|spec| spec.options.iter().any(|known| known.name == option))
}

/// Arguments of an action, completed by the keyword `args`; a template that is evaluated to further ones.
fn all_arguments(action: &str, value: &Node, keywords: &Keywords) -> Result<(Mapping, Option<Node>)> {
    let mut args = arguments::of_node(action, value)?;
    let mut template = None;
    if let Some(extra) = keywords.get("args") {
        match &extra.value {
            Value::Map(map) => {
                for (key, node) in map.iter() {
                    if args.get_key(key).is_none() {
                        args.insert(key.clone(), node.clone());
                    }
                }
            }
            Value::String(_) => template = Some(extra.clone()),
            _ => return Err(Error::parse(format!("args must be a mapping, not {}", extra.kind()), &extra.span)),
        }
    }
    if let Some(reserved) = args.keys().find(|key| key.as_str().is_some_and(|key| key.starts_with("_ansible_"))) {
        return Err(Error::parse(
            format!("the argument '{}' is reserved for internal use only.", reserved.to_text()),
            &reserved.span,
        ));
    }
    Ok((args, template))
}

/// Checks the name of a variable.
pub(super) fn variable_name(node: &Node) -> Result<Arc<str>> {
    let text = node.scalar_text().unwrap_or_default();
    if is_variable_name(&text) {
        Ok(text.into())
    } else {
        Err(Error::parse(
            format!(
                "Invalid variable name in 'register': a variable's name has letters, digits and `_`, no digit first, and is not '{text}'"
            ),
            &node.span,
        ))
    }
}
