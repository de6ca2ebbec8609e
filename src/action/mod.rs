//! The controller's half of a task. Most modules need none: their arguments go to the host as they are.
//!
//! A new action is one file and one line in [`ACTIONS`].

mod assemble;
mod async_status;
mod context;
mod control;
mod files;
mod foreign;
mod include_vars;
mod inventory;
mod module;
mod pause;
mod raw;
mod reboot;
mod set_fact;
mod validate;

use std::pin::Pin;

use crate::foreign::{Origin, Resolution};
use crate::strategy::TaskResult;

pub use context::{ActionContext, Content, Failure};

/// What an action comes to: a result, or the host could not be reached, which is a result too.
pub type ActionFuture<'a> = Pin<Box<dyn Future<Output = Result<TaskResult, Failure>> + Send + 'a>>;

type Run = for<'a> fn(&'a ActionContext) -> ActionFuture<'a>;

/// Actions by their short names.
const ACTIONS: &[(&str, Run)] = &[
    ("add_host", |context| Box::pin(inventory::add_host(context))),
    ("assemble", |context| Box::pin(assemble::run(context))),
    ("async_status", |context| Box::pin(async_status::run(context))),
    ("assert", |context| Box::pin(control::assert(context))),
    ("copy", |context| Box::pin(files::copy(context))),
    ("debug", |context| Box::pin(control::debug(context))),
    ("fail", |context| Box::pin(control::fail(context))),
    ("fetch", |context| Box::pin(files::fetch(context))),
    ("gather_facts", |context| Box::pin(module::gather_facts(context))),
    ("group_by", |context| Box::pin(inventory::group_by(context))),
    ("include_vars", |context| Box::pin(include_vars::run(context))),
    ("pause", |context| Box::pin(pause::run(context))),
    ("raw", |context| Box::pin(raw::run(context))),
    ("reboot", |context| Box::pin(reboot::run(context))),
    ("script", |context| Box::pin(files::script(context))),
    ("set_fact", |context| Box::pin(set_fact::run(context))),
    ("template", |context| Box::pin(files::template(context))),
    ("unarchive", |context| Box::pin(files::unarchive(context))),
    ("validate_argument_spec", |context| Box::pin(validate::run(context))),
    ("wait_for_connection", |context| Box::pin(reboot::wait_for_connection(context))),
];

/// What the strategy does itself.
const ENGINE: &[&str] = &["meta", "include_tasks", "import_tasks", "include_role", "import_role", "import_playbook"];

/// Actions whose task runs once for all hosts, on the first.
pub fn runs_once(action: &str) -> bool {
    matches!(action, "add_host" | "pause")
}

/// Actions that wait for nothing.
pub fn is_immediate(action: &str) -> bool {
    let here =
        ["add_host", "assert", "debug", "fail", "group_by", "include_vars", "set_fact", "validate_argument_spec"];
    here.contains(&action)
}

/// Whether a task with this action may be a job of its own (`async`): those that are a module and no more.
pub fn supports_async(action: &str) -> bool {
    let dispatchers = ["command", "dnf", "package", "service", "shell", "uri", "yum"];
    dispatchers.contains(&action) || !ACTIONS.iter().any(|(name, _)| *name == action)
}

/// The answer for a job that was started, with the types of the line of Ansible that is followed.
pub fn started(mut result: TaskResult, compat: windlass_template::Compat) -> TaskResult {
    async_status::started_and_finished(&mut result, compat);
    result
}

/// Whether an action is one request and nothing else, so that others may be sent behind it.
pub fn is_one_request(action: &str) -> bool {
    ["copy", "script", "template", "unarchive"].contains(&action)
        || (!ENGINE.contains(&action) && !ACTIONS.iter().any(|(name, _)| *name == action))
}

/// Runs the action of a task for one item on one host.
pub fn run(context: &ActionContext) -> ActionFuture<'_> {
    let action = ACTIONS.iter().find(|(name, _)| *name == context.action);
    match (context.modules.resolve(&context.task.action, &context.task.collections()), action) {
        // A module of the project with the name of an action is only what the action runs on the host.
        (Resolution::Foreign(module), None) => Box::pin(async move { foreign::run(context, &module).await }),
        (Resolution::Foreign(module), Some(_)) if module.origin != Origin::Project => {
            Box::pin(async move { foreign::run(context, &module).await })
        }
        (_, Some((_, run))) => run(context),
        _ => Box::pin(module::run(context)),
    }
}

/// Whether a name is something that the strategy does itself.
pub fn is_engine(name: &str) -> bool {
    ENGINE.contains(&crate::playbook::short_name(name))
}

/// Whether a name is one of our actions or modules, short or fully qualified.
pub fn is_known(name: &str) -> bool {
    let short = crate::playbook::short_name(name);
    ENGINE.contains(&short)
        || ACTIONS.iter().any(|(action, _)| *action == short)
        || windlass_modules::registry::find(name).is_some()
}

/// The short names of all actions and modules.
pub fn names() -> impl Iterator<Item = &'static str> {
    let modules = windlass_modules::registry::MODULES.iter().map(|module| module.spec().name);
    ENGINE.iter().copied().chain(ACTIONS.iter().map(|(name, _)| *name)).chain(modules)
}
