//! The controller's half of a task. Most modules need none: their arguments go to the host unchanged.
//!
//! A new action is one file and one line in [`ACTIONS`], and its spec with its traits in [`crate::builtin`].

mod ahead;
mod arguments;
mod assemble;
mod async_status;
mod context;
mod control;
mod defaults;
mod files;
mod foreign;
mod hashes;
mod include_vars;
mod inventory;
mod kubernetes;
mod lock_wait;
mod module;
mod pause;
mod python;
mod raw;
mod reboot;
mod set_fact;
mod set_stats;
mod synchronize;
mod template;
mod uri;
mod validate;
mod variables;

use std::pin::Pin;
use std::sync::LazyLock;

use windlass_modules::kubernetes::{core as cluster, variables as cluster_variables};
use windlass_modules::{Spec, archive, commands, files as file_modules, http, system};

use crate::builtin::{self, ByName, by_name};
use crate::foreign::{Origin, Resolution};
use crate::outcome::{Arguments, TaskResult};

pub use ahead::Ahead;
pub(crate) use ahead::{Lane, departed};
pub use arguments::checked;
pub use context::{ActionContext, Content, Failure};
pub use defaults::module_defaults;
pub use module::PACKAGE_MANAGERS;
pub(crate) use validate::problems as argument_problems;

/// Future of an action's result. [`Failure`] includes unreachable hosts.
pub type ActionFuture<'a> = Pin<Box<dyn Future<Output = Result<TaskResult, Failure>> + Send + 'a>>;

/// An action with its documentation. One that runs the module of its own name shares the module's spec.
struct Action {
    spec: &'static Spec,
    run: for<'a> fn(&'a ActionContext) -> ActionFuture<'a>,
    refuse: fn(&Arguments) -> Result<(), Failure>,
}

impl Action {
    const fn new(spec: &'static Spec, run: for<'a> fn(&'a ActionContext) -> ActionFuture<'a>) -> Action {
        Action { spec, run, refuse: |_| Ok(()) }
    }

    /// Adds a check of the arguments that precedes the check against the spec.
    const fn refusing(self, refuse: fn(&Arguments) -> Result<(), Failure>) -> Action {
        Action { refuse, ..self }
    }
}

const ACTIONS: &[Action] = &[
    Action::new(&builtin::ADD_HOST, |context| Box::pin(inventory::add_host(context))),
    Action::new(&file_modules::assemble::SPEC, |context| Box::pin(assemble::run(context))),
    Action::new(&commands::async_status::SPEC, |context| Box::pin(async_status::run(context))),
    Action::new(&builtin::ASSERT, |context| Box::pin(control::assert(context))),
    Action::new(&file_modules::copy::SPEC, |context| Box::pin(files::copy(context))).refusing(files::refuse_nothing),
    Action::new(&builtin::DEBUG, |context| Box::pin(control::debug(context))),
    Action::new(&builtin::FAIL, |context| Box::pin(control::fail(context))),
    Action::new(&file_modules::fetch::SPEC, |context| Box::pin(files::fetch(context))),
    Action::new(&builtin::GATHER_FACTS, |context| Box::pin(module::gather_facts(context))),
    Action::new(&builtin::GROUP_BY, |context| Box::pin(inventory::group_by(context))),
    Action::new(&builtin::INCLUDE_VARS, |context| Box::pin(include_vars::run(context))).refusing(include_vars::refuse),
    Action::new(&cluster::helm::release::SPEC, |context| Box::pin(kubernetes::run(context, "kubernetes.core.helm"))),
    Action::new(&cluster::helm::repository::SPEC, |context| {
        Box::pin(kubernetes::run(context, "kubernetes.core.helm_repository"))
    }),
    Action::new(&cluster::k8s::SPEC, |context| Box::pin(kubernetes::run(context, "kubernetes.core.k8s"))),
    Action::new(&cluster::k8s_drain::SPEC, |context| Box::pin(kubernetes::run(context, "kubernetes.core.k8s_drain"))),
    Action::new(&cluster::k8s_info::SPEC, |context| Box::pin(kubernetes::run(context, "kubernetes.core.k8s_info"))),
    Action::new(&system::package::SPEC, |context| Box::pin(module::package(context))),
    Action::new(&builtin::PAUSE, |context| Box::pin(pause::run(context))),
    Action::new(&builtin::RAW, |context| Box::pin(raw::run(context))),
    Action::new(&builtin::REBOOT, |context| Box::pin(reboot::run(context))),
    Action::new(&commands::script::SPEC, |context| Box::pin(files::script(context))),
    Action::new(&builtin::SET_FACT, |context| Box::pin(set_fact::run(context))),
    Action::new(&builtin::SET_STATS, |context| Box::pin(set_stats::run(context))),
    Action::new(&file_modules::synchronize::SPEC, |context| Box::pin(synchronize::run(context))),
    Action::new(&builtin::TEMPLATE, |context| Box::pin(template::run(context))),
    Action::new(&archive::unarchive::SPEC, |context| Box::pin(files::unarchive(context))),
    Action::new(&http::uri::SPEC, |context| Box::pin(uri::run(context))),
    Action::new(&builtin::VALIDATE_ARGUMENT_SPEC, |context| Box::pin(validate::run(context))),
    Action::new(&cluster_variables::SPEC, |context| Box::pin(variables::run(context))),
    Action::new(&builtin::WAIT_FOR_CONNECTION, |context| Box::pin(reboot::wait_for_connection(context))),
];

fn action(name: &str) -> Option<&'static Action> {
    static BY_NAME: LazyLock<ByName<&Action>> =
        LazyLock::new(|| by_name(ACTIONS.iter().map(|action| (action.spec, action))));
    BY_NAME.get(name).copied()
}

/// Result of starting a background job, with the types of the emulated release.
pub fn started(mut result: TaskResult, compat: windlass_template::Compat) -> TaskResult {
    async_status::started_and_finished(&mut result, compat);
    result
}

/// Runs the action of a task for one item on one host.
pub fn run(context: &ActionContext) -> ActionFuture<'_> {
    let action = action(&context.action);
    match (context.modules.resolve(&context.task.action, &context.task.collections()), action) {
        // A project's module with the name of an action replaces only the module that the action runs.
        (Resolution::Foreign(module), None) => Box::pin(async move { foreign::run(context, &module).await }),
        (Resolution::Foreign(module), Some(_)) if module.origin != Origin::Project => {
            Box::pin(async move { foreign::run(context, &module).await })
        }
        (_, Some(action)) => (action.run)(context),
        _ => Box::pin(module::run(context)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_actions_have_functions() {
        assert!(ACTIONS.iter().map(|action| action.spec.name).eq(builtin::controller_actions()));
    }
}
