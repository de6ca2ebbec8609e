//! The base settings, for the lookup `config`.

use std::sync::OnceLock;

use tokio::sync::mpsc::UnboundedSender;
use windlass_template::Value;

use super::{Config, base, value_of};
use crate::output::Event;

/// The base settings, read when they are first asked for.
#[derive(Debug)]
pub(crate) struct BaseSettings {
    config: OnceLock<Result<Config, String>>,
    events: UnboundedSender<Event>,
}

impl BaseSettings {
    pub(crate) fn new(events: UnboundedSender<Event>) -> BaseSettings {
        BaseSettings { config: OnceLock::new(), events }
    }
}

impl windlass_template::Settings for BaseSettings {
    fn get(&self, name: &str) -> Option<Result<(Value, String), String>> {
        let setting = base().iter().find(|setting| setting.name == name)?;
        let config = self.config.get_or_init(|| Config::find().map_err(|error| error.to_string()));
        Some(config.as_ref().map_err(String::clone).and_then(|config| {
            let (value, origin) = value_of(setting, config).map_err(|error| error.message().to_owned())?;
            Ok((windlass_template::from_json(&value), origin.to_string()))
        }))
    }

    fn warn(&self, sentence: String) {
        let _ = self.events.send(Event::Warning(sentence));
    }
}
