//! Actions that only choose a module: `gather_facts`, `package`, `service`, and modules without a part on the
//! controller.

use super::files::value_of;
use super::{ActionContext, Failure};
use crate::outcome::{Arguments, TaskResult};

/// Runs a module that has no part on the controller.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    // The shell expands variables itself. Ansible refuses this option of `command` before the module runs.
    if context.action == "shell" && context.args.contains_key("expand_argument_vars") {
        let written = &context.task.action;
        return Err(format!("Unsupported parameters for ({written}) module: expand_argument_vars").into());
    }
    let chosen = match context.action.as_str() {
        "service" => service(context).await?,
        _ => None,
    };
    let (module, mut args) = chosen.unwrap_or_else(|| (context.task_module(), context.args.clone()));
    if context.action == "setup" {
        name_python(context, &mut args);
    }
    context.module(&module, value_of(args), Vec::new()).await
}

/// Passes the configured Python to `setup`, so that its facts describe that one.
fn name_python(context: &ActionContext, args: &mut Arguments) {
    if let Some(python) = super::foreign::named_python(context) {
        args.insert("_python".into(), python.into());
    }
}

/// `service`: selects the module with `module_defaults` of its own, if the host uses it.
async fn service(context: &ActionContext) -> Result<Option<(String, Arguments)>, Failure> {
    let mut chosen = context.chosen(&["systemd", "sysvinit"], &context.args, "service_mgr").await?;
    if let Some((module, args)) = &mut chosen
        && module.ends_with("systemd")
    {
        args.retain(|name, _| !matches!(&**name, "args" | "arguments" | "pattern" | "runlevel" | "sleep"));
    }
    Ok(chosen)
}

/// Modules that `package` can select.
pub const PACKAGE_MANAGERS: &[&str] = &["apk", "apt", "dnf", "dnf5", "pacman", "yum", "zypper"];

/// `package`: the variable `ansible_package_use` may select the manager.
pub(super) async fn package(context: &ActionContext) -> Result<TaskResult, Failure> {
    let mut args = context.args.clone();
    let told = context.context.variable("ansible_package_use")?;
    if let Some(manager) = told.filter(|_| context.text("use").is_none_or(|given| given == "auto")) {
        args.insert("use".into(), manager);
    }
    let chosen = context.chosen(PACKAGE_MANAGERS, &args, "pkg_mgr").await?;
    let (module, args) = chosen.unwrap_or_else(|| (context.task_module(), args));
    context.module(&module, value_of(args), Vec::new()).await
}

/// `gather_facts`: runs the `setup` module.
pub(super) async fn gather_facts(context: &ActionContext) -> Result<TaskResult, Failure> {
    let mut args = context.with_defaults_of("setup", &context.args)?;
    args.shift_remove("parallel");
    name_python(context, &mut args);
    context.module("ansible.builtin.setup", value_of(args), Vec::new()).await
}

impl ActionContext {
    /// Module named by the task, as written.
    fn task_module(&self) -> String {
        match windlass_modules::registry::find(&self.task.action) {
            Some(_) => self.task.action.clone(),
            None => self.action.clone(),
        }
    }
}
