//! Results of hosts: JSON becomes data of the controller, and only facts have an effect.

use windlass::outcome::{Effect, FactNames, HostResult, TaskResult};
use windlass_template::Value;

/// Feeds one answer.
pub fn check(data: &[u8]) {
    let Ok(answer) = serde_json::from_slice::<Value>(data) else { return };
    let Some(read) = HostResult::read(&answer, FactNames::Any) else { return };
    assert!(read.warnings().iter().all(|warning| !warning.is_empty() && warning.chars().count() < 1000));
    let result = TaskResult::from(read);
    assert!(result.effects().iter().all(|effect| matches!(effect, Effect::Facts(_))), "{:?}", result.effects());
    assert!(!result.is_secret() && !result.is_always_shown() && !result.is_given_up() && result.report().is_none());
    for (key, _) in result.iter() {
        let internal = ["_ansible_", "_windlass_", "_include_vars_"].iter().any(|prefix| key.starts_with(prefix));
        assert!(!internal && **key != *"add_host" && **key != *"ansible_included_var_files", "{key} stays");
    }
    let _ = (result.changed(), result.failed(), result.is_skipped(), result.is_unreachable(), result.exits_badly());
    let _ = (result.to_value(), result.to_json());
    let _ = result.with_lines().only(&["stdout_lines"]);
}
