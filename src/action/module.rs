use windlass_modules::facts::setup;
use windlass_modules::{Kind, Opt, Return, Spec};
use windlass_template::Value;

use super::{ActionContext, Failure};
use crate::strategy::TaskResult;

pub(super) static GATHER_FACTS: Spec = Spec {
    name: "gather_facts",
    summary: "Gather facts about a host, as plays do at their start",
    description: &["The task that plays begin with unless `gather_facts` is false. It calls `setup`."],
    options: &[
        setup::GATHER_SUBSET,
        setup::FILTER,
        setup::FACT_PATH,
        setup::GATHER_TIMEOUT,
        Opt::new("parallel", Kind::Bool, "Accepted: there is one module of facts."),
    ],
    examples: "- name: What the package has changed\n  ansible.builtin.gather_facts:\n    gather_subset: [\"!all\", network]\n",
    returns: &[Return {
        name: "ansible_facts",
        kind: "dict",
        when: "success",
        doc: "The facts, with `ansible_` before their names.",
    }],
    ..Spec::EMPTY
};

/// A module without a part on the controller.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    // The shell expands its arguments itself; Ansible refuses the option of `command` before the module sees it.
    if context.action == "shell" && context.args.contains_key("expand_argument_vars") {
        let written = &context.task.action;
        return Err(format!("Unsupported parameters for ({written}) module: expand_argument_vars").into());
    }
    let args = Value::from_pairs(context.args.iter().map(|(key, value)| (Value::from(&**key), value.clone())));
    context.module(&context.task_module(), args, Vec::new()).await
}

/// `package`: the manager may be told by a variable of the host.
pub(super) async fn package(context: &ActionContext) -> Result<TaskResult, Failure> {
    let mut args = context.args.clone();
    let told = context.context.variable("ansible_package_use")?;
    if let Some(manager) = told.filter(|_| context.text("use").is_none_or(|given| given == "auto")) {
        args.insert("use".into(), manager);
    }
    let args = Value::from_pairs(args.iter().map(|(key, value)| (Value::from(&**key), value.clone())));
    context.module(&context.task_module(), args, Vec::new()).await
}

/// `gather_facts`: the `setup` module.
pub(super) async fn gather_facts(context: &ActionContext) -> Result<TaskResult, Failure> {
    let args = context.args.iter().filter(|(key, _)| &***key != "parallel");
    let args = Value::from_pairs(args.map(|(key, value)| (Value::from(&**key), value.clone())));
    let mut result = context.module("ansible.builtin.setup", args, Vec::new()).await?;
    if let Some(facts) = result.get("ansible_facts") {
        let pairs = facts.try_iter().into_iter().flatten();
        let pairs = pairs.filter_map(|key| facts.get_item(&key).ok().map(|value| (key, value)));
        let mark = [(Value::from(crate::vars::GATHERED), Value::from(true))];
        result.set("ansible_facts", Value::from_pairs(pairs.chain(mark).collect::<Vec<_>>()));
    }
    Ok(result)
}

impl ActionContext {
    /// The module the task names, as it was written.
    fn task_module(&self) -> String {
        match windlass_modules::registry::find(&self.task.action) {
            Some(_) => self.task.action.clone(),
            None => self.action.clone(),
        }
    }
}
