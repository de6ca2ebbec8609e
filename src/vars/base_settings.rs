//! Base settings for the lookup `config`.

use std::sync::OnceLock;

use windlass_template::Value;

use crate::output::{Event, Events};
use crate::settings::{Config, Setting, base, of_plugins, of_variable, value_of};

/// Base settings, read on first use.
#[derive(Debug)]
pub(crate) struct BaseSettings {
    config: OnceLock<Result<Config, String>>,
    events: Events,
}

impl BaseSettings {
    pub(crate) fn new(events: Events) -> BaseSettings {
        BaseSettings { config: OnceLock::new(), events }
    }
}

impl BaseSettings {
    fn read(&self, setting: &Setting) -> Result<(Value, String), String> {
        let config = self.config.get_or_init(|| Config::find().map_err(|error| error.to_string()));
        let config = config.as_ref().map_err(String::clone)?;
        let (value, origin) = value_of(setting, config).map_err(|error| error.message().to_owned())?;
        Ok((windlass_template::from_json(&value), origin.to_string()))
    }
}

impl windlass_template::Settings for BaseSettings {
    fn get(&self, name: &str) -> Option<Result<(Value, String), String>> {
        let setting = base().iter().find(|setting| setting.name == name)?;
        Some(self.read(setting))
    }

    fn of_plugin(
        &self,
        (kind, plugin): (&str, &str),
        name: &str,
        variable: &dyn Fn(&str) -> Option<Value>,
    ) -> Option<Result<(Value, String), String>> {
        let short = plugin.strip_prefix("ansible.builtin.").unwrap_or(plugin);
        let mut settings = of_plugins().iter().filter(|entry| (entry.kind, entry.plugin) == (kind, short));
        let setting = settings.find(|entry| entry.setting.name == name).map(|entry| &entry.setting)?;
        // Of several variables the last one counts.
        let set = setting.vars.iter().rev().find_map(|name| Some((*name, variable(name)?)));
        Some(match set {
            Some((variable, value)) => {
                let text = windlass_template::text(&value);
                match value.as_str().map(|text| of_variable(setting, text)) {
                    None => Ok((value, format!("var: {variable}"))),
                    Some(Some(typed)) => Ok((windlass_template::from_json(&typed), format!("var: {variable}"))),
                    Some(None) => Err(format!(
                        "the variable {variable} sets it to '{text}', which is not of type {}",
                        setting.kind
                    )),
                }
            }
            None => self.read(setting),
        })
    }

    fn warn(&self, sentence: String) {
        let _ = self.events.send(Event::Warning(sentence));
    }

    fn deprecated(&self, sentence: String) {
        let _ = self.events.send(Event::Deprecation(sentence));
    }
}
