//! Comments that suppress rules: `# lint: skip RULE` and ansible-lint's `# noqa: RULE`.

use super::finding::Finding;
use super::rule::Rule;
use super::source::SourceFile;

/// Markers of such comments.
const MARKERS: [&str; 2] = ["lint: skip", "noqa"];

/// Whether a comment on the line of a finding, or on the first line of its task, suppresses it.
pub(super) fn is_suppressed(file: &SourceFile, finding: &Finding) -> bool {
    let lines = [Some(finding.place.line), finding.task_line];
    lines.into_iter().flatten().filter_map(|line| file.source.line(line)).any(|line| suppresses(line, finding.rule))
}

/// Whether a comment in the line suppresses the rule. Without names, it suppresses all rules.
fn suppresses(line: &str, rule: &'static Rule) -> bool {
    let Some((_, comment)) = line.split_once('#') else { return false };
    let after = |marker: &&str| comment.split_once(*marker).map(|(_, rest)| rest);
    let Some(names) = MARKERS.iter().find_map(after) else { return false };
    let names = names.trim_start_matches([':', ' ']);
    let mut names = names.split([' ', ',']).filter(|name| !name.is_empty()).peekable();
    names.peek().is_none() || names.any(|name| name == rule.id || Rule::named(name) == Some(rule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::rule::{NAME_MISSING, NO_CHANGED_WHEN};

    #[test]
    fn comments_name_rules_in_both_styles() {
        assert!(suppresses("- command: x # noqa: no-changed-when name[missing]", &NAME_MISSING));
        assert!(suppresses("- command: x # lint: skip no-changed-when", &NO_CHANGED_WHEN));
        assert!(suppresses("- command: x # noqa", &NO_CHANGED_WHEN));
        assert!(!suppresses("- command: x # noqa: name-missing", &NO_CHANGED_WHEN));
        assert!(!suppresses("- command: noqa", &NO_CHANGED_WHEN));
    }
}
