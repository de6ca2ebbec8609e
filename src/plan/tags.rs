//! Which tasks `--tags` and `--skip-tags` select.

/// The tag of what no selection leaves out; nobody can write it.
pub const UNSELECTED: &str = "\0";

/// The selection of one run.
#[derive(Debug, Clone)]
pub struct TagFilter {
    only: Vec<String>,
    skip: Vec<String>,
}

impl TagFilter {
    /// Selects by these; `only` is `all` by default.
    pub fn new(only: &[String], skip: &[String]) -> TagFilter {
        TagFilter { only: only.to_vec(), skip: skip.to_vec() }
    }

    /// Whether something with these tags is selected.
    pub fn selects(&self, tags: &[String]) -> bool {
        let untagged = ["untagged".to_owned()];
        let own: &[String] = if tags.is_empty() { &untagged } else { tags };
        // What is called `untagged` is as good as untagged.
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
    fn never_needs_to_be_asked_for_and_always_to_be_refused() {
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
