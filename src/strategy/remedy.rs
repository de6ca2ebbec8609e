//! Remedies that a person is shown below a failure, found by its message and by what the task reads.

use std::collections::BTreeSet;

use windlass_template::Context;

use super::display::Display;
use crate::outcome::TaskResult;
use crate::playbook::is_identifier;
use crate::settings::FailureForm;

/// Beginning of the message of a command that check mode has skipped.
const SKIPPED: &str = "Command would have run if not in check mode";

impl Display<'_> {
    /// Probable remedy for a failure; `None` in output for scripts, which is Ansible's.
    pub(super) fn remedy(&self, result: &TaskResult) -> Option<String> {
        if !self.is_for_a_person() {
            return None;
        }
        let message = result.text("msg").unwrap_or_default();
        if result.is_unreachable() && message.contains(" was refused: offered ") {
            return Some("try `-u USER`, `--private-key` or `-k`".to_owned());
        }
        let is_apt = self.task.short_action() == "apt" && message.starts_with("No package matching");
        if is_apt && self.task.args.get("update_cache").is_none() {
            return Some("`update_cache: true` fetches the lists of packages first".to_owned());
        }
        self.skipped_in_check_mode()
            .map(|name| format!("`{name}` was skipped in check mode; `windlass plan` treats it as unknown"))
    }

    /// Whether the output is for a person.
    fn is_for_a_person(&self) -> bool {
        self.shared.run.settings.output.failures == FailureForm::Readable || self.shared.run.settings.plans
    }

    /// Name of a variable that the task reads, and that holds the result of a command which check mode has not run.
    fn skipped_in_check_mode(&self) -> Option<String> {
        let settings = &self.shared.run.settings;
        if !settings.check || settings.plans {
            return None;
        }
        let context = self.world.host_context(self.host);
        self.names_read().into_iter().find(|name| is_skipped(&context, name))
    }

    /// Identifiers in the task's conditions and arguments as written.
    fn names_read(&self) -> BTreeSet<String> {
        let conditions = self.task.when.iter().map(|node| node.to_json().to_string());
        let arguments = self.task.args.iter().map(|(_, node)| node.to_json().to_string());
        let loops = self.task.keyword("loop").map(|node| node.to_json().to_string());
        let text: Vec<String> = conditions.chain(arguments).chain(loops).collect();
        let words = text.iter().flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || c == '_')));
        words.filter(|word| is_identifier(word)).map(str::to_owned).collect()
    }

    /// Message of a failure under `no_log` that has no secret: the name of an undefined variable that the task reads.
    pub(super) fn undefined_name(&self, result: &TaskResult) -> Option<String> {
        if !self.is_for_a_person() {
            return None;
        }
        let message = result.text("msg")?;
        let name = message.split(" is undefined").next()?.rsplit_once('\'')?.0.rsplit('\'').next()?;
        let is_certain = message.contains(&format!("'{name}' is undefined")) && self.names_read().contains(name);
        is_certain.then(|| format!("'{name}' is undefined"))
    }
}

fn is_skipped(context: &Context, name: &str) -> bool {
    let Ok(Some(value)) = context.variable(name) else { return false };
    let field = |key: &str| value.get_attr(key).ok().filter(|field| !field.is_undefined());
    field("skipped").is_some_and(|skipped| skipped.is_true())
        && field("msg").is_some_and(|message| windlass_template::text(&message).starts_with(SKIPPED))
}
