//! The settings of the run, for the lookup `config`.

use std::fmt::Debug;

use minijinja::Value;

/// What knows the settings.
pub trait Settings: Debug + Send + Sync {
    /// A setting by Ansible's name, and what made it so; `None` if there is none of that name, a sentence if it cannot be read.
    fn get(&self, name: &str) -> Option<Result<(Value, String), String>>;

    /// A setting of a plugin, of that kind and name, and what made it so. The variables of the host go first: `variable` looks one up.
    fn of_plugin(
        &self,
        plugin: (&str, &str),
        name: &str,
        variable: &dyn Fn(&str) -> Option<Value>,
    ) -> Option<Result<(Value, String), String>>;

    /// Says something to the user.
    fn warn(&self, sentence: String);

    /// Says that something will not work any more one day.
    fn deprecated(&self, sentence: String);
}
