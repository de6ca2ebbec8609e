//! Handlers that a task notifies.

use minijinja::value::ValueKind;
use windlass_template::{Context, Value};
use windlass_yaml::Node;

use super::execute::TaskOnHost;
use crate::action::Failure;
use crate::vars::given;

impl TaskOnHost {
    /// The names in `notify`, as written.
    fn names_to_notify(&self) -> Vec<Node> {
        let around = self.task.frame.chain().map(|frame| &frame.keywords);
        // The nearest `notify` counts: the task's own, or that of the closest enclosing block.
        let nearest =
            std::iter::once(&self.task.keywords).chain(around).find(|keywords| keywords.get("notify").is_some());
        nearest.map(|keywords| keywords.list("notify")).unwrap_or_default()
    }

    /// Whether a name in `notify` has to be rendered.
    pub(super) fn has_templates_to_notify(&self) -> bool {
        self.names_to_notify().iter().any(|node| node.as_str().is_none_or(super::shard::is_template))
    }

    /// Fails if a name in `notify` is undefined, so that the task does not start and then cannot notify.
    pub(super) fn check_notify(&self, context: &Context) -> Result<(), Failure> {
        for node in self.names_to_notify() {
            if let Some(error) = given(context, &node).err().filter(windlass_template::Error::is_undefined) {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Renders the names in `notify` and adds them to `names`.
    pub(super) fn notified(&self, context: &Context, names: &mut Vec<String>) {
        for node in self.names_to_notify() {
            match given(context, &node) {
                Ok(value) => names.extend(value.iter().flat_map(texts)),
                Err(error) => {
                    self.warn(format!("notify of the task at {} cannot be evaluated: {error}", self.task.span));
                }
            }
        }
    }

    /// Names in `notify` before the task runs. [`TaskOnHost::notified`] reports the errors of those that cannot be
    /// rendered.
    pub(super) fn expected_notifications(&self, context: &Context) -> Vec<String> {
        let values = self.names_to_notify().into_iter().filter_map(|node| given(context, &node).ok()?);
        values.flat_map(|value| texts(&value)).collect()
    }
}

/// Texts of a value: of each of its items, or of itself.
fn texts(value: &Value) -> Vec<String> {
    match value.kind() {
        ValueKind::Seq => value.try_iter().into_iter().flatten().map(|name| windlass_template::text(&name)).collect(),
        _ => vec![windlass_template::text(value)],
    }
}
