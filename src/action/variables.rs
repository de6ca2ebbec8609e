//! `windlass.kubernetes.variables`: collects the inventory's settings for `windlass_modules::kubernetes::variables` to
//! check.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use minijinja::value::ValueKind;
use windlass_inventory::Layer;
use windlass_modules::kubernetes::variables::{Given, Setting, Table, names_of_roles};
use windlass_template::{Value, text, to_json};
use windlass_yaml::Mapping;

use super::{ActionContext, Failure};
use crate::outcome::TaskResult;
use crate::output::Event;
use crate::vars::World;

/// Checks the settings of all hosts together.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let argument = |name: &str| context.text(name).ok_or_else(|| format!("missing required arguments: {name}"));
    let path = context.find("files", &argument("table")?)?;
    let (bytes, _) = context.files.bytes(&path)?;
    let fault = |failure: windlass_modules::Failure| Failure::Failed(failure.message);
    let table = Table::read(&path.display().to_string(), &String::from_utf8_lossy(&bytes)).map_err(fault)?;
    let names = names_of_roles(Path::new(&argument("roles")?)).map_err(fault)?;
    let own = context.arg("own").filter(|own| own.kind() == ValueKind::Seq);
    let own: Vec<String> =
        own.and_then(|own| own.try_iter().ok()).into_iter().flatten().map(|name| text(&name)).collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let given = settings(&context.world)?;
    // A template that needs a running play, or fails, is checked as written.
    let evaluate = |name: &str, setting: &Setting| {
        let value = context.world.host_context(&Arc::from(setting.host.as_str())).variable(name);
        value.ok().flatten().map(|value| to_json(&value))
    };
    let judgement = table.judge(&given, &names, &own, &evaluate);
    let listed = |items: &[String]| items.iter().map(|item| Value::from(item.as_str())).collect::<Value>();
    let not_needed = listed(&judgement.not_needed);
    if !judgement.refusals.is_empty() {
        let sentences = judgement.refusals.join("\n- ");
        return Ok(TaskResult::failure(format!(
            "The inventory sets variables that would have no effect:\n- {sentences}\nIn Windlass' repository, docs/kubespray-variables.md \
             has the state of every variable of Kubespray."
        ))
        .with("refusals", listed(&judgement.refusals))
        .with("not_needed", not_needed));
    }
    if !judgement.not_needed.is_empty() {
        let _ = context.events.send(Event::Warning(format!(
            "The roles do not need these variables of Kubespray and ignore them: {}.",
            judgement.not_needed.join(", ")
        )));
    }
    Ok(TaskResult::unchanged().with("not_needed", not_needed))
}

/// Settings by name, each with its position and value.
type Settings = HashMap<String, (String, serde_json::Value)>;

/// Settings of the inventory and of `-e` that are in effect for at least one host.
fn settings(world: &World) -> Result<Given, Failure> {
    let mut given = Given::new();
    let mut extra = Settings::new();
    lay(&mut extra, &world.run.extra_vars);
    // Hosts in the same groups share those layers. A group's setting stays in the map until a host is found that does
    // not override it.
    let mut of_groups: HashMap<Vec<usize>, Settings> = HashMap::new();
    let mut first = None;
    for host in world.inventory.hosts() {
        let name: &str = host.name();
        first = first.or(Some(name));
        let layers = world.inventory.layers(host).map_err(|error| error.to_string())?;
        let (own_layers, group_layers): (Vec<&Layer>, Vec<&Layer>) =
            layers.iter().partition(|layer| layer.is_of_host());
        let mut own = Settings::new();
        for layer in own_layers {
            lay(&mut own, &layer.vars);
        }
        let key = group_layers.iter().map(|layer| Arc::as_ptr(&layer.vars).addr()).collect();
        let open = of_groups.entry(key).or_insert_with(|| {
            let mut settings = Settings::new();
            for layer in group_layers {
                lay(&mut settings, &layer.vars);
            }
            settings.retain(|name, _| !extra.contains_key(name));
            settings
        });
        for (variable, setting) in open.extract_if(|variable, _| !own.contains_key(variable)) {
            record(&mut given, variable, setting, name);
        }
        for (variable, setting) in own {
            if !extra.contains_key(&variable) {
                record(&mut given, variable, setting, name);
            }
        }
    }
    for (variable, setting) in extra {
        record(&mut given, variable, setting, first.unwrap_or("localhost"));
    }
    Ok(given)
}

/// Overrides settings with variables of higher precedence, except Ansible's own.
fn lay(settings: &mut Settings, vars: &Mapping) {
    for (key, node) in vars.iter() {
        if let Some(name) = key.as_str().filter(|name| !name.starts_with("ansible_")) {
            settings.insert(name.to_owned(), (key.span.to_string(), node.to_json()));
        }
    }
}

fn record(given: &mut Given, variable: String, (place, written): (String, serde_json::Value), host: &str) {
    let settings = given.entry(variable).or_default();
    if !settings.iter().any(|setting| setting.written == written) {
        settings.push(Setting { place, written, host: host.to_owned() });
    }
}
