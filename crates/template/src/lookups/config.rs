//! `config`: the settings of the run, by Ansible's names.

use minijinja::Value;

use super::call::{Answer, Call};
use crate::python::{repr, type_name};

pub(super) fn config(call: &Call<'_>) -> Answer {
    let missing = call.text("on_missing", "error");
    if !matches!(missing.as_str(), "error" | "skip" | "warn") {
        return Err(call.error(format!("takes error, warn or skip for on_missing, not '{missing}'")));
    }
    if call.option("plugin_type").is_some() != call.option("plugin_name").is_some() {
        return Err(call.error("takes plugin_type and plugin_name together, not one without the other"));
    }
    if call.option("plugin_type").is_some() {
        return Err(call.error("knows the settings of the engine only, not those of plugins"));
    }
    let with_origin = call.flag("show_origin", false);
    let settings = call.context.engine().options().settings.as_ref();
    let mut answers = Vec::new();
    for term in call.terms {
        let Some(name) = term.as_str() else {
            return Err(call.error(format!("takes names of settings, not {}, a {}", repr(term), type_name(term))));
        };
        match settings.and_then(|settings| settings.get(name)) {
            Some(Ok((value, origin))) if with_origin => answers.push(Value::from(vec![value, Value::from(origin)])),
            Some(Ok((value, _))) => answers.push(value),
            Some(Err(reason)) => return Err(call.error(format!("cannot read the setting '{name}': {reason}"))),
            None if missing == "error" => return Err(call.error(format!("knows no setting '{name}'"))),
            None if missing == "warn" => {
                let sentence = format!("Skipping {name}: No config definition exists for '{name}'.");
                settings.into_iter().for_each(|settings| settings.warn(sentence.clone()));
            }
            None => {}
        }
    }
    Ok(answers)
}
