//! `debug`, `fail`, `assert`: actions that never leave the controller.

use minijinja::value::ValueKind;
use windlass_modules::{Kind, Opt, Return, Spec};
use windlass_template::Value;
use windlass_yaml::{Node, Value as Yaml};

use super::{ActionContext, Failure};
use crate::outcome::TaskResult;

pub(super) static DEBUG: Spec = Spec {
    name: "debug",
    summary: "Print a message or a variable",
    description: &["Runs only on the controller. Without `msg` and `var` it prints `Hello world!`."],
    options: &[
        Opt::new("msg", Kind::Raw, "Message to print: a text, a list or a mapping.").default("\"Hello world!\""),
        Opt::new(
            "var",
            Kind::Str,
            "Name of a variable, or an expression without braces. An undefined variable is reported without failing \
             the task.",
        ),
        Opt::new("verbosity", Kind::Int, "Minimum verbosity at which to print, as the number of `-v`.").default("0"),
    ],
    examples: "- name: Show the host's address\n  ansible.builtin.debug:\n    msg: \"{{ inventory_hostname }} is at {{ ansible_host }}\"\n\n\
               - name: Show all variables of the host, only with -vv\n  ansible.builtin.debug:\n    var: hostvars[inventory_hostname]\n    verbosity: 2\n",
    mutually_exclusive: &[&["msg", "var"]],
    returns: &[
        Return { name: "msg", kind: "raw", when: "without `var`", doc: "The message." },
        Return { name: "(the name in `var`)", kind: "raw", when: "with `var`", doc: "The value." },
    ],
    ..Spec::EMPTY
};

pub(super) static FAIL: Spec = Spec {
    name: "fail",
    lists_unknown: true,
    summary: "Fail with a message",
    description: &["Fails on every host that reaches it. With `when`, it stops hosts in an unsupported state."],
    options: &[Opt::new("msg", Kind::Raw, "Why.").default("\"Failed as requested from task\"")],
    examples: "- name: Reject unsupported releases\n  ansible.builtin.fail:\n    msg: \"{{ ansible_distribution_release }} is too old\"\n  \
               when: ansible_distribution_major_version is version('11', '<')\n",
    returns: &[Return { name: "msg", kind: "raw", when: "always", doc: "The message." }],
    ..Spec::EMPTY
};

pub(super) static ASSERT: Spec = Spec {
    name: "assert",
    summary: "Fail unless conditions hold",
    description: &[
        "Conditions are expressions as in `when`. The first false one fails the task and is part of the result.",
    ],
    options: &[
        Opt::required("that", Kind::Raw, "A condition, or a list of conditions which must all hold."),
        Opt::new("fail_msg", Kind::Raw, "Message if a condition is false.")
            .aliases(&["msg"])
            .default("\"Assertion failed\""),
        Opt::new("success_msg", Kind::Raw, "Message if all conditions hold.").default("\"All assertions passed\""),
        Opt::new("quiet", Kind::Bool, "Print no result without `-v`.").default("false"),
    ],
    examples: "- name: Check that the number of etcd members is odd\n  ansible.builtin.assert:\n    that:\n      - groups['etcd'] | length is odd\n      \
               - etcd_version is defined\n    fail_msg: etcd needs one, three or five members\n",
    returns: &[
        Return { name: "assertion", kind: "str", when: "failure", doc: "The false condition." },
        Return { name: "evaluated_to", kind: "bool", when: "failure", doc: "Its value, `false`." },
        Return { name: "msg", kind: "raw", when: "always", doc: "`fail_msg` or `success_msg`." },
    ],
    ..Spec::EMPTY
};

/// Message of an action: a text, or a list of texts.
fn message(context: &ActionContext, name: &str) -> Result<Option<Value>, Failure> {
    let Some(value) = context.arg(name) else { return Ok(None) };
    let is_text = |value: &Value| value.kind() == ValueKind::String;
    let is_list = value.kind() == ValueKind::Seq && value.try_iter().into_iter().flatten().all(|item| is_text(&item));
    if !is_text(value) && !is_list {
        return Err(Failure::Failed(format!(
            "{name} must be a text or a list of texts, not {}.",
            windlass_template::type_name(value)
        )));
    }
    Ok(Some(value.clone()))
}

/// Result keys that decide the outcome of a task.
const VERDICTS: &[&str] = &["failed_when_result", "rc", "results", "skipped", "unreachable"];

/// `debug`: prints a message or a variable.
pub(super) async fn debug(context: &ActionContext) -> Result<TaskResult, Failure> {
    let verbosity = match context.arg("verbosity") {
        None => 0,
        Some(value) => crate::vars::number(value)
            .ok_or_else(|| Failure::Failed(format!("verbosity must be a number, not `{value}`")))?,
    };
    if verbosity > u64::from(context.world.run.settings.verbosity) {
        let skipped = TaskResult::new().with("skipped_reason", "Verbosity threshold not met.").with("skipped", true);
        return Ok(skipped.with("failed", false).with("changed", false));
    }
    let mut result = TaskResult::new().always_shown();
    // `var` is not rendered beforehand, so that an undefined variable can be reported.
    if let Some(node) = context.task.args.get("var") {
        let mut name = context.context.render_to_string(node)?;
        let is_template = node.as_str().is_some_and(|text| text.contains("{{") || text.contains("{%"));
        let value = match is_template || !context.world.run.settings.compat.renders_debug_var() {
            true => context.context.evaluate(node),
            false => context.context.render(&node.reworded(format!("{{{{ {name} }}}}"))),
        };
        let value = match value {
            Ok(value) => value,
            Err(error) if error.is_undefined() => Value::from(match context.world.run.settings.verbosity {
                0 => "VARIABLE IS NOT DEFINED!".to_owned(),
                _ => format!("VARIABLE IS NOT DEFINED!: {error}"),
            }),
            Err(error) => return Err(error.into()),
        };
        // Data must not choose a key that decides the outcome.
        if is_template && VERDICTS.contains(&name.as_str()) {
            name = node.scalar_text().unwrap_or_default();
        }
        result.set(&name, value);
    } else {
        result.set("msg", context.args.get("msg").cloned().unwrap_or_else(|| Value::from("Hello world!")));
    }
    result.set("changed", false);
    result.set("failed", false);
    Ok(result)
}

/// `fail`: fails with a message.
pub(super) async fn fail(context: &ActionContext) -> Result<TaskResult, Failure> {
    let message = context.arg("msg").cloned().unwrap_or_else(|| Value::from("Failed as requested from task"));
    Ok(TaskResult::new().with("changed", false).with("failed", true).with("msg", message))
}

/// `assert`: fails if one of its conditions is false.
pub(super) async fn assert(context: &ActionContext) -> Result<TaskResult, Failure> {
    let Some(that) = context.task.args.get("that") else { return Err("missing required arguments: that".into()) };
    let fail_message = message(context, "fail_msg")?;
    let success_message = message(context, "success_msg")?;
    let quiet = context.flag("quiet").unwrap_or(false);
    let renders = context.world.run.settings.compat.renders_assertions();
    // A template may produce the whole list.
    let written = that.as_list().map(<[Node]>::to_vec).or_else(|| context.context.list_of_project(that));
    let conditions = match written {
        Some(list) => list,
        None => match context.context.render(that) {
            // Text in a list that a template produced is data, and data is never evaluated as a condition.
            Ok(value) if value.kind() == minijinja::value::ValueKind::Seq => {
                let items = value.try_iter().into_iter().flatten();
                items.map(|item| Node::from_json(&windlass_template::to_json(&item), &that.span)).collect()
            }
            Ok(value) if renders && value.kind() == ValueKind::Bool => {
                vec![Node::new(Yaml::Bool(value.is_true()), that.span.clone())]
            }
            _ => vec![that.clone()],
        },
    };
    for condition in &conditions {
        let holds = match renders && that.as_list().is_none() {
            true => context.context.condition_with_delimiters(condition)?,
            false => context.context.condition(condition)?,
        };
        if !holds {
            let message = fail_message.unwrap_or_else(|| Value::from("Assertion failed"));
            let assertion = match condition.as_bool() {
                Some(constant) => Value::from(constant),
                None => Value::from(condition.scalar_text().unwrap_or_default()),
            };
            let mut result = TaskResult::new().with("changed", false).with("failed", true);
            if !quiet {
                result = result.always_shown();
            }
            result.set("evaluated_to", false);
            result.set("assertion", assertion);
            result.set("msg", message);
            return Ok(result);
        }
    }
    let mut result = TaskResult::unchanged();
    result.set("msg", success_message.unwrap_or_else(|| Value::from("All assertions passed")));
    if !quiet {
        result = result.always_shown();
    }
    Ok(result)
}
