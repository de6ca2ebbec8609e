//! `key=value` arguments: they are split or refused, and text beside the options of `command` stays unchanged.

use windlass::playbook::arguments::parse;
use windlass_yaml::{Node, Span};

/// Feeds one input.
pub fn check(text: &str) {
    let node = Node::of_project(text, Span::none());
    let options = parse(text, false, &node);
    let free = parse(text, true, &node);
    assert_eq!(options.is_ok(), free.is_ok(), "{text:?}");
    if let Ok(map) = free
        && map.len() == 1
        && let Some(raw) = map.get("_raw_params").and_then(|node| node.as_str())
        && !raw.is_empty()
    {
        let again =
            parse(raw, true, &node).map(|map| map.get("_raw_params").and_then(|n| n.as_str().map(str::to_owned)));
        assert_eq!(again.ok().flatten().as_deref(), Some(raw), "{text:?}");
    }
}
