//! Names that mean something to playbooks or templates already. Ansible warns of variables that have them.

use windlass_template::Compat;
use windlass_yaml::{Key, Span};

/// Keywords and the functions of templates, sorted. `vars` is missing, because it is also the name of a variable.
const NAMES: &[&str] = &[
    "action",
    "always",
    "any_errors_fatal",
    "args",
    "async",
    "async_val",
    "become",
    "become_exe",
    "become_flags",
    "become_method",
    "become_user",
    "block",
    "changed_when",
    "check_mode",
    "collections",
    "connection",
    "cycler",
    "debugger",
    "delay",
    "delegate_facts",
    "delegate_to",
    "dict",
    "diff",
    "environment",
    "fact_path",
    "failed_when",
    "force_handlers",
    "gather_facts",
    "gather_timeout",
    "handlers",
    "hosts",
    "ignore_errors",
    "ignore_unreachable",
    "joiner",
    "lipsum",
    "local_action",
    "lookup",
    "loop",
    "loop_control",
    "loop_with",
    "max_fail_percentage",
    "module_defaults",
    "name",
    "namespace",
    "no_log",
    "notify",
    "now",
    "omit",
    "order",
    "poll",
    "port",
    "post_tasks",
    "pre_tasks",
    "q",
    "query",
    "range",
    "register",
    "remote_user",
    "rescue",
    "retries",
    "roles",
    "run_once",
    "serial",
    "strategy",
    "tags",
    "tasks",
    "throttle",
    "timeout",
    "undef",
    "until",
    "vars_files",
    "vars_prompt",
    "when",
    "with_",
];

/// What is told about a variable of that name, if it is such a name.
pub(crate) fn warning(name: &str, span: &Span, compat: Compat) -> Option<String> {
    // `omit` was an ordinary variable once.
    if NAMES.binary_search(&name).is_err() || (name == "omit" && compat == Compat::V2_18) {
        return None;
    }
    Some(match (compat, span.is_located()) {
        (Compat::V2_18, _) => format!("Found variable using reserved name: {name}"),
        (_, true) => format!("Found variable using reserved name '{name}'. It is set at {span}."),
        (_, false) => format!("Found variable using reserved name '{name}'."),
    })
}

/// What is told about some variables.
pub(crate) fn warnings<'a>(names: impl Iterator<Item = &'a Key>, compat: Compat) -> impl Iterator<Item = String> {
    names.filter_map(move |key| warning(key.as_str()?, &key.span, compat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_can_be_searched() {
        assert!(NAMES.is_sorted());
        assert_eq!(warning("ports", &Span::none(), Compat::V2_19), None);
        assert_eq!(
            warning("port", &Span::none(), Compat::V2_19).as_deref(),
            Some("Found variable using reserved name 'port'.")
        );
    }
}
