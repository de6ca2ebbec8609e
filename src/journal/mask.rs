//! Masks secrets in values before they are written.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::output::Secrets;

/// Masks the secrets in a text.
pub(super) fn text(text: &str, secrets: &Secrets) -> String {
    secrets.mask(text)
}

/// Masks every text of a mapping, including keys. Returns true if one contained a secret.
pub(super) fn map(fields: &mut Map<String, Value>, secrets: &Secrets) -> bool {
    let mut found = false;
    for field in fields.values_mut() {
        found |= value(field, secrets);
    }
    if fields.keys().any(|key| matches!(secrets.masked(key), Cow::Owned(_))) {
        *fields = std::mem::take(fields).into_iter().map(|(key, field)| (text(&key, secrets), field)).collect();
        found = true;
    }
    found
}

fn value(value: &mut Value, secrets: &Secrets) -> bool {
    match value {
        Value::String(shown) => {
            let Cow::Owned(masked) = secrets.masked(shown) else { return false };
            *shown = masked;
            true
        }
        Value::Array(items) => items.iter_mut().fold(false, |found, item| self::value(item, secrets) | found),
        Value::Object(fields) => map(fields, secrets),
        Value::Number(number) => {
            let Cow::Owned(masked) = secrets.masked(&number.to_string()) else { return false };
            *value = Value::String(masked);
            true
        }
        Value::Null | Value::Bool(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_with_quotes_in_nested_value_is_masked_whole() {
        let secrets = Secrets::default();
        secrets.add("pa\"ss\\word");
        let mut fields =
            Map::from_iter([("a".to_owned(), json!([{"b": "x pa\"ss\\word y"}])), ("n".to_owned(), json!(1))]);
        assert!(map(&mut fields, &secrets));
        assert_eq!(Value::Object(fields), json!({"a": [{"b": "x ******** y"}], "n": 1}));
    }
}
