//! Settings of the run, for the lookup `config`.

use std::fmt::Debug;

use minijinja::Value;

/// Source of the settings.
pub trait Settings: Debug + Send + Sync {
    /// A setting by Ansible's name, with its origin. `None` if it does not exist; the error is a sentence if it is
    /// unreadable.
    fn get(&self, name: &str) -> Option<Result<(Value, String), String>>;

    /// A plugin's setting, with its origin. Variables of the host take precedence: `variable` looks one up.
    fn of_plugin(
        &self,
        plugin: (&str, &str),
        name: &str,
        variable: &dyn Fn(&str) -> Option<Value>,
    ) -> Option<Result<(Value, String), String>>;

    /// Warns the user.
    fn warn(&self, sentence: String);

    /// Warns the user about a deprecation.
    fn deprecated(&self, sentence: String);
}
