//! Handlers that a task notifies.

use minijinja::value::ValueKind;
use windlass_template::{Context, Value};
use windlass_yaml::Node;

use super::execute::TaskOnHost;
use crate::action::Failure;
use crate::vars::given;

/// Maximum length of a handler's name in `notify`, in bytes.
const NAME: usize = 1 << 10;
/// Maximum number of names in a list of `notify`.
const NAMES: usize = 10_000;
/// Maximum number of names in a task's `notify` that no handler has. One of them ends the run, unless a setting
/// forgives it.
const UNKNOWN: usize = 100;

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
        let mut left_out = 0;
        for node in self.names_to_notify() {
            match given(context, &node) {
                Ok(value) => left_out += value.map_or(0, |value| self.add_names(&value, names)),
                Err(error) => {
                    self.warn(format!("notify of the task at {} cannot be evaluated: {error}", self.task.span));
                }
            }
        }
        if left_out > 0 {
            self.warn(format!("notify of the task at {} has {left_out} more names; they are left out", self.task.span));
        }
    }

    /// Names in `notify` before the task runs. [`TaskOnHost::notified`] reports the errors of those that cannot be
    /// rendered.
    pub(super) fn expected_notifications(&self, context: &Context) -> Vec<String> {
        let mut names = Vec::new();
        let values = self.names_to_notify().into_iter().filter_map(|node| given(context, &node).ok()?);
        values.for_each(|value| _ = self.add_names(&value, &mut names));
        names
    }

    /// The same without names that no handler of the play has.
    pub(super) fn expected_handlers(&self, context: &Context) -> Vec<String> {
        let mut names = self.expected_notifications(context);
        names.retain(|name| self.is_handler(name));
        names
    }

    /// Whether a handler of the play has the name. Without knowledge of the handlers, each name counts.
    fn is_handler(&self, name: &str) -> bool {
        self.handlers.as_ref().is_none_or(|handlers| handlers.has(name))
    }

    /// Adds the texts of a value: of each of its items, or of itself. A host may have chosen them, so each is cut, and
    /// only some of those that no handler has are added. Returns the number of the others.
    fn add_names(&self, value: &Value, names: &mut Vec<String>) -> usize {
        let mut unknown = names.iter().filter(|name| !self.is_handler(name)).count();
        let mut left_out = 0;
        let mut add = |text: String| {
            let name = self.cut(text);
            if names.contains(&name) {
                return;
            }
            let is_known = self.is_handler(&name);
            unknown += usize::from(!is_known);
            match is_known || unknown <= UNKNOWN {
                true => names.push(name),
                false => left_out += 1,
            }
        };
        match value.kind() {
            ValueKind::Seq => {
                let mut all = value.try_iter().into_iter().flatten();
                all.by_ref().take(NAMES).for_each(|name| add(windlass_template::text(&name)));
                left_out + all.count()
            }
            _ => {
                add(windlass_template::text(value));
                left_out
            }
        }
    }

    /// A name, or the start of one that is too long to be a handler's.
    fn cut(&self, name: String) -> String {
        let Some(more) = name.len().checked_sub(NAME).filter(|more| *more > 0) else { return name };
        // Masked first: a cut secret would not be found.
        let name = self.shared.secrets.mask(&name);
        let start = name.get(..name.floor_char_boundary(NAME)).unwrap_or_default();
        format!("{start}... ({more} bytes more)")
    }
}
