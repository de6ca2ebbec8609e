//! Selection of tasks by `--tags` and `--skip-tags`.

use crate::playbook::Task;

/// Tag of tasks that every selection includes; it cannot be written in YAML.
pub const UNSELECTED: &str = "\0";

/// The tag selection of a run.
#[derive(Debug, Clone)]
pub struct TagFilter {
    only: Vec<String>,
    skip: Vec<String>,
}

impl TagFilter {
    /// Selection by these tags; `only` is `all` by default.
    pub fn new(only: &[String], skip: &[String]) -> TagFilter {
        TagFilter { only: only.to_vec(), skip: skip.to_vec() }
    }

    /// Whether a task is selected. A block with a `loop` is, if one of its tasks is.
    pub fn selects_task(&self, task: &Task) -> bool {
        match &task.looped {
            Some(looped) => looped.block.tasks().iter().any(|task| self.selects(&task.tags)),
            None => self.selects(&task.tags),
        }
    }

    /// Whether something with these tags is selected.
    pub fn selects(&self, tags: &[String]) -> bool {
        let untagged = ["untagged".to_owned()];
        let own: &[String] = if tags.is_empty() { &untagged } else { tags };
        // The tag `untagged` counts as having no tags.
        let is_tagged = own != untagged;
        let has = |tag: &str| own.iter().any(|own| own == tag);
        let only = |tag: &str| self.only.iter().any(|only| only == tag);
        let skip = |tag: &str| self.skip.iter().any(|skip| skip == tag);
        if has(UNSELECTED) {
            return true;
        }
        let run = self.only.is_empty()
            || has("always")
            || (only("all") && !has("never"))
            || own.iter().any(|tag| only(tag))
            || (only("tagged") && is_tagged && !has("never"));
        let skipped = own.iter().any(|tag| skip(tag))
            || (skip("all") && (!has("always") || skip("always")))
            || (skip("tagged") && is_tagged);
        run && !skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(only: &[&str], skip: &[&str], tags: &[&str]) -> bool {
        let owned = |list: &[&str]| list.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        TagFilter::new(&owned(only), &owned(skip)).selects(&owned(tags))
    }

    #[test]
    fn never_runs_on_request_and_always_unless_skipped() {
        assert!(selects(&["all"], &[], &[]));
        assert!(!selects(&["all"], &[], &["never"]));
        assert!(selects(&["x"], &[], &["never", "x"]));
        assert!(selects(&["x"], &[], &["always"]));
        assert!(!selects(&["x"], &["always"], &["always"]));
        assert!(selects(&["untagged"], &[], &[]));
        assert!(!selects(&["tagged"], &[], &[]));
        assert!(selects(&["all"], &["all"], &["always"]));
        assert!(selects(&["untagged"], &[], &["untagged"]));
        assert!(!selects(&["tagged"], &[], &["untagged"]));
        assert!(selects(&["all"], &["tagged"], &["untagged"]));
    }
}
