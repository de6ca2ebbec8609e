//! `config`: settings of the run, by Ansible's names.

use minijinja::Value;

use super::call::{Answer, Call};
use crate::python::{repr, type_name};

pub(super) fn config(call: &Call<'_>) -> Answer {
    let missing = call.text("on_missing", "error");
    if !matches!(missing.as_str(), "error" | "skip" | "warn") {
        return Err(call.error(format!("takes no '{missing}' for on_missing; valid values are: error, warn, skip")));
    }
    if call.option("plugin_type").is_some() != call.option("plugin_name").is_some() {
        return Err(call.error("takes plugin_type and plugin_name together, not one without the other"));
    }
    let plugin = call.option("plugin_type").map(|_| (call.text("plugin_type", ""), call.text("plugin_name", "")));
    let variable = |name: &str| call.context.variable(name).ok().flatten().filter(|value| !value.is_none());
    let with_origin = call.flag("show_origin", false);
    let settings = call.context.engine().options().settings.as_ref();
    let mut answers = Vec::new();
    for term in call.terms {
        let Some(name) = term.as_str() else {
            let message =
                format!("takes names of settings. Invalid setting identifier: {}, a {}", repr(term), type_name(term));
            return Err(call.error(message));
        };
        let found = settings.and_then(|settings| match &plugin {
            None => settings.get(name),
            Some((kind, plugin)) => settings.of_plugin((kind, plugin), name, &variable),
        });
        match found {
            Some(Ok((value, origin))) if with_origin => answers.push(Value::from(vec![value, Value::from(origin)])),
            Some(Ok((value, _))) => answers.push(value),
            Some(Err(reason)) => return Err(call.error(format!("cannot read the setting '{name}': {reason}"))),
            None if missing == "error" => {
                let of = plugin
                    .as_ref()
                    .map_or_else(String::new, |(kind, plugin)| format!(" of the {kind} plugin {plugin}"));
                return Err(
                    call.error(format!("was asked for an Invalid setting '{name}'{of}: Unable to find setting {name}"))
                );
            }
            None if missing == "warn" => {
                let sentence = format!("Skipping {name}: No config definition exists for '{name}'.");
                settings.into_iter().for_each(|settings| settings.warn(sentence.clone()));
            }
            None => {}
        }
    }
    Ok(answers)
}
