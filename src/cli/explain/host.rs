//! `windlass explain host`.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use windlass_inventory::{LayerOrigin, Membership};
use windlass_ssh::{ConfigFiles, Reached};
use windlass_yaml::Span;

use super::value::MASK;
use super::{Explainer, Explanation, Numbered, place, table};
use crate::connection::{Kind, ssh_destination};
use crate::error::{Error, Result};
use crate::settings::{Origin, Settings};
use crate::strategy::explain::facts_unknown;
use crate::vars::{Choice, ConnectionVariables, Source, TaskScope, connection_choices};

/// A property of the connection, with the source of its value.
struct Property {
    name: &'static str,
    value: Json,
    source: String,
    span: Option<Span>,
}

/// Connection of the host in some plays.
struct Way {
    plays: Vec<(usize, String)>,
    reached: Vec<Property>,
    escalated: Vec<Property>,
    /// Reason why the connection cannot be resolved.
    problem: Option<String>,
}

impl Explainer<'_> {
    /// Explains the host: its groups, the files with its variables, its connection and its become user.
    pub(super) fn about_host(&mut self, plays: Vec<Numbered>, playbook: Option<&Path>) -> Result<Explanation> {
        let host = Arc::clone(&self.host);
        let mut ways: Vec<Way> = Vec::new();
        match playbook {
            None => {
                let mut world = self.run.world().successor();
                facts_unknown(&mut world);
                let scope = Arc::new(TaskScope::of_host(&Arc::new(world), &host));
                let context = self.session.shared.run.engine.scope(Arc::clone(&scope) as _);
                let settings = &self.session.shared.run.settings;
                let found = connection_choices(&host, &context, &|_| None, settings);
                ways.push(self.way(&scope, found));
            }
            Some(path) => {
                for (index, (number, entered)) in plays.iter().enumerate().filter(|(_, (_, play))| play.has(&host)) {
                    let mut entered = entered.clone();
                    entered.without_facts();
                    self.at_end(&plays, index, &mut entered)?;
                    let scope = entered.scope(&host, None);
                    let found = entered.connection(&host, None).map(|(found, choices, _)| (found, choices));
                    let mut way = self.way(&scope, found);
                    way.plays.push((*number, entered.name.clone()));
                    let json = way.to_json();
                    match ways.iter_mut().find(|other| other.to_json() == json) {
                        Some(other) => other.plays.append(&mut way.plays),
                        None => ways.push(way),
                    }
                }
                if ways.is_empty() {
                    let message = format!("`{host}` is in no play of {}", path.display());
                    return Err(Error::usage(message).hint("`windlass playbook --list-hosts` lists the hosts of plays"));
                }
            }
        }
        Ok(self.about(&ways))
    }

    fn about(&self, ways: &[Way]) -> Explanation {
        let world = self.run.world();
        let inventory = &world.inventory;
        let mut lines = Vec::new();
        let host = inventory.host(&self.host);
        let span = host.map(|host| host.span());
        lines.push(format!("{}  {}", self.host, self.places.optional(span)));
        let memberships = host.map(|host| inventory.memberships(host)).unwrap_or_default();
        let mut groups = Vec::new();
        let mut rows = Vec::new();
        for (group, reasons) in &memberships {
            let mut shown = Vec::new();
            for reason in reasons {
                let (text, via, span) = self.reason(reason);
                rows.push(vec![if shown.is_empty() { group.name().to_string() } else { String::new() }, text.clone()]);
                shown.push(json!({"reason": text, "via": via, "place": place::json(span)}));
            }
            groups.push(json!({"name": &**group.name(), "priority": group.priority(), "reasons": shown}));
        }
        lines.push("groups, later ones win".to_owned());
        match rows.is_empty() {
            true => lines.push("  none: the inventory does not have this host".to_owned()),
            false => lines.extend(table(&rows, 2)),
        }
        let layers = world.given_to(&self.host);
        let mut files = Vec::new();
        let mut rows = Vec::new();
        let mut shown: Vec<&Path> = Vec::new();
        for layer in layers.iter().rev() {
            if let LayerOrigin::GroupFile { path, .. } | LayerOrigin::HostFile { path, .. } = &layer.origin {
                // A file beside both inventory and playbook counts twice.
                if shown.contains(&&**path) {
                    continue;
                }
                shown.push(path);
            }
            let first = layer.vars.keys().next().map(|key| &key.span);
            let file = first.map(|span| self.places.path(Path::new(&span.source.name))).unwrap_or_default();
            let origin = layer.origin.to_string();
            files.push(
                json!({"layer": origin, "file": first.map(|span| &span.source.name), "variables": layer.vars.len()}),
            );
            let count = layer.vars.len();
            let noun = if count == 1 { "variable" } else { "variables" };
            rows.push(vec![origin, format!("{count} {noun}"), file]);
        }
        if !rows.is_empty() {
            lines.push("variables, later ones win".to_owned());
            lines.extend(table(&rows, 2));
        }
        for way in ways {
            if !way.plays.is_empty() {
                let plays: Vec<String> = way.plays.iter().map(|(number, name)| format!("{number} '{name}'")).collect();
                lines.push(format!("in {} {}", if plays.len() == 1 { "play" } else { "plays" }, plays.join(", ")));
            }
            for (title, properties) in [("reached", &way.reached), ("become", &way.escalated)] {
                if properties.is_empty() {
                    continue;
                }
                lines.push(title.to_owned());
                let row = |one: &Property| {
                    let value = one.value.as_str().map_or_else(|| one.value.to_string(), str::to_owned);
                    let at = one.span.as_ref().map(|span| format!(", {}", self.places.span(span))).unwrap_or_default();
                    vec![one.name.to_owned(), value, format!("{}{at}", one.source)]
                };
                lines.extend(table(&properties.iter().map(row).collect::<Vec<_>>(), 2));
            }
            lines.extend(way.problem.iter().map(|problem| format!("  problem: {problem}")));
        }
        let json = json!({
            "host": &*self.host,
            "place": place::json(span),
            "groups": groups,
            "variables": files,
            "connections": ways.iter().map(Way::to_json_with_plays).collect::<Vec<_>>(),
        });
        Explanation { lines, json }
    }

    /// A reason for people, the child that leads to the group, and the position.
    fn reason<'m>(&self, reason: &Membership<'m>) -> (String, Option<String>, Option<&'m Span>) {
        match reason {
            Membership::Direct(Some(span)) => (format!("named at {}", self.places.span(span)), None, Some(*span)),
            Membership::Direct(None) => ("named by its source".to_owned(), None, None),
            Membership::Child(child, span) => {
                let at = span.map(|span| format!(", {}", self.places.span(span))).unwrap_or_default();
                (format!("contains {}{at}", child.name()), Some(child.name().to_string()), *span)
            }
            Membership::Parentless(child) => {
                let text = format!("contains {}, which no other group contains", child.name());
                (text, Some(child.name().to_string()), None)
            }
            Membership::Ungrouped => ("no other group has the host".to_owned(), None, None),
        }
    }

    fn way(&self, scope: &TaskScope, found: Result<(ConnectionVariables, Vec<Choice>)>) -> Way {
        let mut way = Way { plays: Vec::new(), reached: Vec::new(), escalated: Vec::new(), problem: None };
        let (found, choices) = match found {
            Ok(found) => found,
            Err(error) => {
                way.problem = Some(error.to_string());
                return way;
            }
        };
        let from = |name: &str| self.source(scope, &choices, name);
        way.reached.push(property("connection", found.target.kind.name().into(), from("ansible_connection")));
        if found.target.kind == Kind::Exec {
            way.reached.push(property("command", found.target.exec.join(" ").into(), from("ansible_host")));
        }
        if found.target.kind == Kind::Ssh {
            match self.over_ssh(&found, &from) {
                Ok(properties) => way.reached.extend(properties),
                Err(error) => way.problem = Some(error.to_string()),
            }
        }
        way.escalated.push(property("become", found.become_user.is_some().into(), from("ansible_become")));
        if let Some(user) = &found.become_user {
            let own = |suffix: &str| format!("ansible_{}_{suffix}", user.method.name());
            // The variable is `ansible_become_NAME`, or `ansible_METHOD_NAME`.
            let from = |suffix: &str| match choices.iter().any(|choice| choice.name == own(suffix)) {
                true => self.source(scope, &choices, &own(suffix)),
                false => self.source(scope, &choices, &format!("ansible_become_{suffix}")),
            };
            way.escalated.push(property("method", user.method.name().into(), from("method")));
            way.escalated.push(property("user", user.user.as_str().into(), from("user")));
            for (name, value) in [("exe", &user.exe), ("flags", &user.flags)] {
                way.escalated.extend(value.as_deref().map(|value| property(name, value.into(), from(name))));
            }
            let password = user.password.as_ref();
            way.escalated.extend(password.map(|_| property("password", MASK.into(), from("password"))));
        }
        way
    }

    /// Properties of an SSH connection: variables and settings first, then SSH arguments, ssh_config and defaults.
    fn over_ssh(
        &self,
        found: &ConnectionVariables,
        from: &dyn Fn(&str) -> (String, Option<Span>),
    ) -> Result<Vec<Property>> {
        let target = &found.target;
        let (destination, settings) = ssh_destination(target);
        let resolve = |settings: &windlass_ssh::Settings| {
            windlass_ssh::reached(&destination, settings).map_err(|error| Error::new(error.to_string()))
        };
        let full = resolve(&settings)?;
        let without_files = windlass_ssh::Settings { config_files: ConfigFiles::None, ..settings.clone() };
        let plain = resolve(&windlass_ssh::Settings { arguments: Vec::new(), ..without_files.clone() })?;
        let without_files = resolve(&without_files).unwrap_or_else(|_| plain.clone());
        let arguments = || {
            let names = ["ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args"];
            let given = names.iter().map(|name| (*name, from(name))).find(|(_, (source, _))| source != "default");
            given.map_or_else(|| ("SSH options of the command line".to_owned(), None), |(_, source)| source)
        };
        // Files that `-F` names count as ssh_config too.
        let of = |is_same: &dyn Fn(&Reached, &Reached) -> bool, default: &str| {
            if !is_same(&without_files, &plain) {
                arguments()
            } else if !is_same(&full, &without_files) {
                ("ssh_config".to_owned(), None)
            } else {
                (default.to_owned(), None)
            }
        };
        let is_given = |name: &str| from(name).0 != "default";
        let address = match is_given("ansible_host") {
            true => from("ansible_host"),
            false => ("name of the host".to_owned(), None),
        };
        let mut properties = vec![property("address", target.host.as_str().into(), address)];
        if full.host != target.host {
            properties.push(property("host name", full.host.as_str().into(), of(&|a, b| a.host == b.host, "default")));
        }
        let port = match target.port {
            Some(_) => from("ansible_port"),
            None => of(&|a, b| a.port == b.port, "default of SSH"),
        };
        properties.push(property("port", full.port.into(), port));
        let user = match target.user {
            Some(_) => from("ansible_user"),
            None => of(&|a, b| a.user == b.user, "user who runs windlass"),
        };
        properties.push(property("user", full.user.as_str().into(), user));
        let keys: Vec<String> = full.keys.iter().map(|key| key.display().to_string()).collect();
        let source = match &target.private_key_file {
            Some(_) => from("ansible_private_key_file"),
            None => of(&|a, b| a.keys == b.keys, "default of SSH"),
        };
        properties.push(property("key", keys.join(", ").into(), source));
        if let Some(agent) = &full.agent {
            let source = of(&|a, b| a.agent == b.agent, "SSH_AUTH_SOCK");
            properties.push(property("agent", agent.display().to_string().into(), source));
        }
        if target.password.is_some() {
            properties.push(property("password", MASK.into(), from("ansible_password")));
        }
        match (&full.jump, &full.command) {
            (Some(jump), _) => {
                let source = of(&|a, b| a.jump == b.jump, "default");
                properties.push(property("jump host", jump.as_str().into(), source));
            }
            (None, Some(command)) => {
                let source = of(&|a, b| a.command == b.command, "default");
                properties.push(property("proxy command", command.as_str().into(), source));
            }
            (None, None) => {}
        }
        Ok(properties)
    }

    /// Source of a connection variable's value.
    fn source(&self, scope: &TaskScope, choices: &[Choice], name: &str) -> (String, Option<Span>) {
        let default = || ("default".to_owned(), None);
        let Some(choice) = choices.iter().find(|choice| choice.name == name) else { return default() };
        match &choice.source {
            Source::Variable(name) => {
                let definition = scope.definitions(name).into_iter().next();
                let span = definition.as_ref().and_then(|definition| definition.span.clone());
                let level = definition.map(|found| place::level(found.level, scope.world(), scope.host()));
                (format!("{name}, {}", level.unwrap_or_else(|| "set by the engine".to_owned())), span)
            }
            Source::Keyword(name, span) => (format!("keyword {name}"), Some(span.clone())),
            Source::Setting => self.setting(name).map_or_else(default, |source| (source, None)),
        }
    }

    /// Source of the setting behind a connection variable; `None` for a default.
    fn setting(&self, variable: &str) -> Option<String> {
        let (settings, before): (&Settings, &Settings) = (&self.session.shared.run.settings, self.configured);
        let (now, then) = (&settings.connect, &before.connect);
        let (now_become, then_become) = (&settings.r#become, &before.r#become);
        let (name, is_same) = match variable {
            "ansible_connection" => ("transport", now.transport == then.transport),
            "ansible_port" => ("remote_port", now.remote_port == then.remote_port),
            "ansible_user" => ("remote_user", now.remote_user == then.remote_user),
            "ansible_private_key_file" => ("private_key_file", now.private_key_file == then.private_key_file),
            "ansible_password" => ("connection_password_file", now.password == then.password),
            "ansible_ssh_args" => ("ssh_args", now.ssh_args == then.ssh_args),
            "ansible_ssh_common_args" => ("ssh_common_args", now.ssh_common_args == then.ssh_common_args),
            "ansible_ssh_extra_args" => ("ssh_extra_args", now.ssh_extra_args == then.ssh_extra_args),
            "ansible_become" => ("become", now_become.enabled == then_become.enabled),
            "ansible_become_method" => ("become_method", now_become.method == then_become.method),
            "ansible_become_user" => ("become_user", now_become.user == then_become.user),
            "ansible_become_exe" => ("become_exe", now_become.exe == then_become.exe),
            "ansible_become_flags" => ("become_flags", now_become.flags == then_become.flags),
            "ansible_become_password" => ("become_password_file", now_become.password == then_become.password),
            _ => return None,
        };
        if !is_same {
            return Some("command line".to_owned());
        }
        match self.config.origin(name) {
            Origin::Default => None,
            Origin::Environment(variable) => Some(format!("environment variable {variable}")),
            Origin::File(file) => Some(format!("setting {name}, {}", self.places.path(&file))),
        }
    }
}

fn property(name: &'static str, value: Json, (source, span): (String, Option<Span>)) -> Property {
    Property { name, value, source, span }
}

impl Way {
    fn to_json(&self) -> Json {
        let one = |property: &Property| {
            json!({
                "name": property.name,
                "value": property.value,
                "source": property.source,
                "place": place::json(property.span.as_ref()),
            })
        };
        let all = |list: &[Property]| list.iter().map(one).collect::<Vec<_>>();
        json!({"reached": all(&self.reached), "become": all(&self.escalated), "problem": self.problem})
    }

    fn to_json_with_plays(&self) -> Json {
        let mut json = self.to_json();
        if let Some(map) = json.as_object_mut() {
            let play = |(number, name): &(usize, String)| json!({"number": number, "name": name});
            map.insert("plays".to_owned(), self.plays.iter().map(play).collect());
        }
        json
    }
}
