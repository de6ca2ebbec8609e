//! Label selectors, applied to a definition.

use serde_json::Value;

/// Whether the labels of a definition match all selectors: `a=b`, `a!=b`, `a in (b, c)`, `a notin (b)`, `a`, `!a`.
pub(super) fn fit(definition: &Value, selectors: &[&str]) -> bool {
    let labels = &definition["metadata"]["labels"];
    labels.is_object() && selectors.iter().all(|selector| fits(labels, selector))
}

fn fits(labels: &Value, selector: &str) -> bool {
    let selector = selector.trim();
    let label = |key: &str| labels.get(key.trim()).map(|value| value.as_str().unwrap_or_default());
    let set = |word: &str| {
        let (key, rest) = selector.split_once(word)?;
        let values = rest.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(label(key).is_some_and(|value| values.split(',').any(|one| one.trim() == value)))
    };
    if let Some(found) = set(" notin ") {
        return !found;
    }
    if let Some(found) = set(" in ") {
        return found;
    }
    if let Some((key, value)) = selector.split_once("!=") {
        return label(key) != Some(value.trim());
    }
    if let Some((key, value)) = selector.split_once('=') {
        return label(key) == Some(value.trim_start_matches('=').trim());
    }
    match selector.strip_prefix('!') {
        Some(key) => label(key).is_none(),
        None => label(selector).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_matched_against_labels() {
        let object = json!({ "metadata": { "labels": { "app": "web", "tier": "front" } } });
        for yes in
            ["app=web", "app == web", "app!=db", "app in (db, web)", "app notin (db)", "app", "!other", "other!=x"]
        {
            assert!(fit(&object, &[yes]), "{yes}");
        }
        for no in ["app=db", "app!=web", "app in (db)", "app notin (web)", "other", "!app"] {
            assert!(!fit(&object, &[no]), "{no}");
        }
        assert!(!fit(&object, &["app=web", "tier=back"]) && !fit(&json!({ "metadata": {} }), &["!a"]));
    }
}
