//! The controller's half of a task. Most modules need none: their arguments go to the host unchanged.
//!
//! A new action is one file and one line in [`ACTIONS`].

mod arguments;
mod assemble;
mod async_status;
mod context;
mod control;
mod defaults;
mod engine;
mod files;
mod foreign;
mod hashes;
mod include_vars;
mod inventory;
mod kubernetes;
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

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::LazyLock;

use windlass_modules::kubernetes::{core as cluster, variables as cluster_variables};
use windlass_modules::{Opt, Spec, archive, commands, files as file_modules, http, registry, system};

use crate::error::did_you_mean;
use crate::foreign::{Origin, Resolution};
use crate::outcome::TaskResult;

pub use arguments::checked;
pub use context::{ActionContext, Content, Failure};
pub use defaults::{Arguments, module_defaults};
pub(crate) use engine::{INCLUDE_ROLE, INCLUDE_TASKS, META_ACTIONS};
pub(crate) use validate::problems as argument_problems;

/// Future of an action's result. [`Failure`] includes unreachable hosts.
pub type ActionFuture<'a> = Pin<Box<dyn Future<Output = Result<TaskResult, Failure>> + Send + 'a>>;

/// Property of an action that the strategy, the journal or the output depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trait {
    /// Runs once for all hosts, on the first one.
    RunsOnce,
    /// Runs only on the controller.
    OnController,
    /// Runs only on the controller and completes without waiting for anything.
    Immediate,
    /// Has no effect but its result.
    OnlyReports,
    /// Sets the variables that its arguments name.
    SetsArguments,
    /// Is exactly one request to the host, so that others may be sent behind it.
    OneRequest,
    /// May be a background job (`async`): merely runs a module.
    Background,
    /// Is repeated by a resumed run instead of restored, because that is cheap and yields current values.
    RepeatedOnResume,
    /// Has no `failed` in a result that was skipped, as with Ansible's action plugin.
    SkipsBare,
}

use Trait::*;

/// An action with its documentation. One that runs the module of its own name shares the module's spec.
struct Action {
    spec: &'static Spec,
    run: for<'a> fn(&'a ActionContext) -> ActionFuture<'a>,
    traits: &'static [Trait],
    refuse: fn(&Arguments) -> Result<(), Failure>,
}

impl Action {
    const fn new(spec: &'static Spec, run: for<'a> fn(&'a ActionContext) -> ActionFuture<'a>) -> Action {
        Action { spec, run, traits: &[], refuse: |_| Ok(()) }
    }

    const fn with(self, traits: &'static [Trait]) -> Action {
        Action { traits, ..self }
    }

    /// Adds a check of the arguments that precedes the check against the spec.
    const fn refusing(self, refuse: fn(&Arguments) -> Result<(), Failure>) -> Action {
        Action { refuse, ..self }
    }

    fn has(&self, one: Trait) -> bool {
        self.traits.contains(&one)
    }
}

const ACTIONS: &[Action] = &[
    Action::new(&inventory::ADD_HOST, |context| Box::pin(inventory::add_host(context))).with(&[
        RunsOnce,
        Immediate,
        RepeatedOnResume,
    ]),
    Action::new(&file_modules::assemble::SPEC, |context| Box::pin(assemble::run(context))),
    Action::new(&commands::async_status::SPEC, |context| Box::pin(async_status::run(context))),
    Action::new(&control::ASSERT, |context| Box::pin(control::assert(context))).with(&[Immediate, OnlyReports]),
    Action::new(&file_modules::copy::SPEC, |context| Box::pin(files::copy(context)))
        .with(&[OneRequest])
        .refusing(files::refuse_nothing),
    Action::new(&control::DEBUG, |context| Box::pin(control::debug(context))).with(&[Immediate, OnlyReports]),
    Action::new(&control::FAIL, |context| Box::pin(control::fail(context))).with(&[Immediate, OnlyReports]),
    Action::new(&file_modules::fetch::SPEC, |context| Box::pin(files::fetch(context))),
    Action::new(&module::GATHER_FACTS, |context| Box::pin(module::gather_facts(context))).with(&[RepeatedOnResume]),
    Action::new(&inventory::GROUP_BY, |context| Box::pin(inventory::group_by(context)))
        .with(&[Immediate, RepeatedOnResume]),
    Action::new(&include_vars::SPEC, |context| Box::pin(include_vars::run(context)))
        .with(&[Immediate, RepeatedOnResume])
        .refusing(include_vars::refuse),
    Action::new(&cluster::helm::release::SPEC, |context| Box::pin(kubernetes::run(context, "kubernetes.core.helm")))
        .with(&[OneRequest, Background]),
    Action::new(&cluster::helm::repository::SPEC, |context| {
        Box::pin(kubernetes::run(context, "kubernetes.core.helm_repository"))
    })
    .with(&[OneRequest, Background]),
    Action::new(&cluster::k8s::SPEC, |context| Box::pin(kubernetes::run(context, "kubernetes.core.k8s")))
        .with(&[OneRequest, Background]),
    Action::new(&cluster::k8s_drain::SPEC, |context| Box::pin(kubernetes::run(context, "kubernetes.core.k8s_drain")))
        .with(&[OneRequest, Background]),
    Action::new(&cluster::k8s_info::SPEC, |context| Box::pin(kubernetes::run(context, "kubernetes.core.k8s_info")))
        .with(&[OneRequest, Background]),
    Action::new(&system::package::SPEC, |context| Box::pin(module::package(context))).with(&[Background]),
    Action::new(&pause::SPEC, |context| Box::pin(pause::run(context))).with(&[RunsOnce, OnController]),
    Action::new(&raw::SPEC, |context| Box::pin(raw::run(context))),
    Action::new(&reboot::REBOOT, |context| Box::pin(reboot::run(context))),
    Action::new(&commands::script::SPEC, |context| Box::pin(files::script(context))).with(&[OneRequest, SkipsBare]),
    Action::new(&set_fact::SPEC, |context| Box::pin(set_fact::run(context))).with(&[Immediate, SetsArguments]),
    Action::new(&set_stats::SPEC, |context| Box::pin(set_stats::run(context))).with(&[Immediate, RepeatedOnResume]),
    Action::new(&file_modules::synchronize::SPEC, |context| Box::pin(synchronize::run(context))),
    Action::new(&template::SPEC, |context| Box::pin(template::run(context))).with(&[OneRequest]),
    Action::new(&archive::unarchive::SPEC, |context| Box::pin(files::unarchive(context)))
        .with(&[OneRequest, SkipsBare]),
    Action::new(&http::uri::SPEC, |context| Box::pin(uri::run(context))).with(&[OneRequest, Background]),
    Action::new(&validate::SPEC, |context| Box::pin(validate::run(context))).with(&[Immediate]),
    Action::new(&cluster_variables::SPEC, |context| Box::pin(variables::run(context))).with(&[Immediate]),
    Action::new(&reboot::WAIT_FOR_CONNECTION, |context| Box::pin(reboot::wait_for_connection(context))),
];

fn action(name: &str) -> Option<&'static Action> {
    static BY_NAME: LazyLock<HashMap<String, &Action>> =
        LazyLock::new(|| by_name(ACTIONS.iter().map(|action| (action.spec, action))));
    BY_NAME.get(name).copied()
}

/// Indexes entries by all names they answer to; the first entry for a name counts.
fn by_name<T>(all: impl Iterator<Item = (&'static Spec, T)>) -> HashMap<String, T>
where
    T: Copy,
{
    let mut found = HashMap::new();
    for (spec, thing) in all {
        for name in spec.all_names() {
            found.entry(name).or_insert(thing);
        }
    }
    found
}

fn has(action: &str, one: Trait) -> bool {
    self::action(action).is_some_and(|action| action.has(one))
}

/// Whether the task runs once for all hosts, on the first one.
pub fn runs_once(action: &str) -> bool {
    has(action, RunsOnce)
}

/// Whether the action runs only on the controller.
pub fn is_here(action: &str) -> bool {
    has(action, OnController) || is_immediate(action)
}

/// Whether the action completes without waiting for anything.
pub fn is_immediate(action: &str) -> bool {
    has(action, Immediate)
}

/// Whether the action has no effect but its result.
pub fn only_reports(action: &str) -> bool {
    has(action, OnlyReports)
}

/// Whether the action sets the variables that its arguments name.
pub fn sets_arguments(action: &str) -> bool {
    has(action, SetsArguments)
}

/// Whether a resumed run repeats the action instead of restoring its result.
pub fn is_repeated_on_resume(action: &str) -> bool {
    // A module without a row, which `gather_facts` runs.
    has(action, RepeatedOnResume) || action == "setup"
}

/// Whether a skipped result of the action has no `failed`.
pub fn skips_bare(action: &str) -> bool {
    has(action, SkipsBare)
}

/// Whether a task with this action may be a background job (`async`): only plain modules and actions that merely run
/// one.
pub fn supports_async(action: &str) -> bool {
    merely_runs_module(action, Background)
}

/// Result of starting a background job, with the types of the emulated release.
pub fn started(mut result: TaskResult, compat: windlass_template::Compat) -> TaskResult {
    async_status::started_and_finished(&mut result, compat);
    result
}

/// Whether an action is exactly one request, so that others may be sent behind it.
pub fn is_one_request(action: &str) -> bool {
    !is_engine(action) && merely_runs_module(action, OneRequest)
}

/// Whether an action has the trait, as all modules without an action have it.
fn merely_runs_module(action: &str, one: Trait) -> bool {
    self::action(action).is_none_or(|row| row.has(one))
}

/// Name by which arguments give an action its option `dest` or `path`, the place of its change.
pub fn target(action: &str, has: impl Fn(&str) -> bool) -> Option<&'static str> {
    let options = spec(action).map_or(&[][..], |spec| spec.options);
    ["dest", "path"].into_iter().find_map(|name| {
        let aliases = options.iter().find(|option| option.name == name).map_or(&[][..], |option| option.aliases);
        std::iter::once(name).chain(aliases.iter().copied()).find(|name| has(name))
    })
}

/// Whether the action's result may contain facts, which later tasks see as variables.
pub fn sets_facts(action: &str) -> bool {
    spec(action).is_some_and(|spec| spec.returns.iter().any(|value| value.name == "ansible_facts"))
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

/// Whether the strategy carries the action out itself.
pub fn is_engine(name: &str) -> bool {
    engine::SPECS.iter().any(|spec| spec.answers_to(name))
}

/// Whether part of the action runs on the controller.
pub fn is_action(spec: &Spec) -> bool {
    let named = |other: &Spec| other.name == spec.name && other.collection == spec.collection;
    ACTIONS.iter().any(|action| named(action.spec)) || engine::SPECS.iter().any(|page| named(page))
}

/// Short names of the actions that have a part on the controller.
pub fn controller_actions() -> impl Iterator<Item = &'static str> {
    ACTIONS.iter().map(|action| action.spec.name)
}

/// Everything a task may name, each once: engine actions, other actions, modules.
pub fn specs() -> impl Iterator<Item = &'static Spec> {
    static ALL: LazyLock<Vec<&'static Spec>> = LazyLock::new(|| {
        let modules = registry::all().map(|module| module.spec()).filter(|spec| !is_action(spec));
        engine::SPECS.iter().copied().chain(ACTIONS.iter().map(|action| action.spec)).chain(modules).collect()
    });
    ALL.iter().copied()
}

/// Spec of an action or module by its short or qualified name.
pub fn spec(name: &str) -> Option<&'static Spec> {
    static BY_NAME: LazyLock<HashMap<String, &Spec>> = LazyLock::new(|| by_name(specs().map(|spec| (spec, spec))));
    BY_NAME.get(name).copied()
}

/// Suggestion for a name that none of the options has.
pub fn closest_option(options: &'static [Opt], name: &str) -> Option<String> {
    let shown = options.iter().filter(|option| !option.name.starts_with('_'));
    did_you_mean(name, shown.flat_map(|option| std::iter::once(option.name).chain(option.aliases.iter().copied())))
}

/// Whether a name is a built-in action or module, short or qualified.
pub fn is_known(name: &str) -> bool {
    spec(name).is_some()
}

/// Short names of all actions and modules.
pub fn names() -> impl Iterator<Item = &'static str> {
    specs().map(|spec| spec.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_action_under_its_full_name_supports_async_and_goes_ahead() {
        for name in ["k8s", "kubernetes.core.k8s", "kubernetes.core.helm"] {
            assert!(supports_async(name) && is_one_request(name), "{name}");
        }
        assert!(!supports_async("copy") && !is_one_request("fetch"));
    }
}
