//! Reserved names of variables, which Ansible warns about.

use windlass_template::Compat;
use windlass_template::uses::is_global;
use windlass_yaml::{Key, Span};

use crate::playbook::keyword::is_keyword_anywhere;

/// Names that Ansible also reserves: a function that Windlass lacks, and internal names of keywords.
const OTHERS: &[&str] = &["async_val", "lipsum", "loop_with", "with_"];

/// Keywords without a warning; `vars` is also the name of a variable.
const ALLOWED: &[&str] = &["gather_subset", "import_playbook", "listen", "role", "user", "vars"];

fn is_reserved(name: &str) -> bool {
    let is_taken = OTHERS.contains(&name) || is_keyword_anywhere(name) || is_global(name);
    is_taken && !ALLOWED.contains(&name)
}

/// Warning for a reserved variable name; `None` if the name is free.
pub(crate) fn warning(name: &str, span: &Span, compat: Compat) -> Option<String> {
    if !is_reserved(name) || (name == "omit" && compat.allows_variable_omit()) {
        return None;
    }
    Some(match (compat.warns_of_reserved_names_only(), span.is_located()) {
        (true, _) => format!("Found variable using reserved name: {name}"),
        (_, true) => format!("Found variable using reserved name '{name}'. It is set at {span}."),
        (_, false) => format!("Found variable using reserved name '{name}'."),
    })
}

/// Warnings for reserved names among these keys.
pub(crate) fn warnings<'a>(names: impl Iterator<Item = &'a Key>, compat: Compat) -> impl Iterator<Item = String> {
    names.filter_map(move |key| warning(key.as_str()?, &key.span, compat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_warn() {
        assert!(OTHERS.iter().chain(&["become", "hosts", "lookup", "omit", "tags"]).all(|name| is_reserved(name)));
        assert!(!ALLOWED.iter().any(|name| is_reserved(name)));
        assert_eq!(warning("ports", &Span::none(), Compat::V2_19), None);
        assert_eq!(
            warning("port", &Span::none(), Compat::V2_19).as_deref(),
            Some("Found variable using reserved name 'port'.")
        );
    }
}
