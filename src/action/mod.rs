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

/// An action with its documentation. One that runs the module of its own name shares the module's spec.
struct Action {
    spec: &'static Spec,
    run: for<'a> fn(&'a ActionContext) -> ActionFuture<'a>,
}

const ACTIONS: &[Action] = &[
    Action { spec: &inventory::ADD_HOST, run: |context| Box::pin(inventory::add_host(context)) },
    Action { spec: &file_modules::assemble::SPEC, run: |context| Box::pin(assemble::run(context)) },
    Action { spec: &commands::async_status::SPEC, run: |context| Box::pin(async_status::run(context)) },
    Action { spec: &control::ASSERT, run: |context| Box::pin(control::assert(context)) },
    Action { spec: &file_modules::copy::SPEC, run: |context| Box::pin(files::copy(context)) },
    Action { spec: &control::DEBUG, run: |context| Box::pin(control::debug(context)) },
    Action { spec: &control::FAIL, run: |context| Box::pin(control::fail(context)) },
    Action { spec: &file_modules::fetch::SPEC, run: |context| Box::pin(files::fetch(context)) },
    Action { spec: &module::GATHER_FACTS, run: |context| Box::pin(module::gather_facts(context)) },
    Action { spec: &inventory::GROUP_BY, run: |context| Box::pin(inventory::group_by(context)) },
    Action { spec: &include_vars::SPEC, run: |context| Box::pin(include_vars::run(context)) },
    Action {
        spec: &cluster::helm::release::SPEC,
        run: |context| Box::pin(kubernetes::run(context, "kubernetes.core.helm")),
    },
    Action {
        spec: &cluster::helm::repository::SPEC,
        run: |context| Box::pin(kubernetes::run(context, "kubernetes.core.helm_repository")),
    },
    Action { spec: &cluster::k8s::SPEC, run: |context| Box::pin(kubernetes::run(context, "kubernetes.core.k8s")) },
    Action {
        spec: &cluster::k8s_drain::SPEC,
        run: |context| Box::pin(kubernetes::run(context, "kubernetes.core.k8s_drain")),
    },
    Action {
        spec: &cluster::k8s_info::SPEC,
        run: |context| Box::pin(kubernetes::run(context, "kubernetes.core.k8s_info")),
    },
    Action { spec: &system::package::SPEC, run: |context| Box::pin(module::package(context)) },
    Action { spec: &pause::SPEC, run: |context| Box::pin(pause::run(context)) },
    Action { spec: &raw::SPEC, run: |context| Box::pin(raw::run(context)) },
    Action { spec: &reboot::REBOOT, run: |context| Box::pin(reboot::run(context)) },
    Action { spec: &commands::script::SPEC, run: |context| Box::pin(files::script(context)) },
    Action { spec: &set_fact::SPEC, run: |context| Box::pin(set_fact::run(context)) },
    Action { spec: &set_stats::SPEC, run: |context| Box::pin(set_stats::run(context)) },
    Action { spec: &file_modules::synchronize::SPEC, run: |context| Box::pin(synchronize::run(context)) },
    Action { spec: &template::SPEC, run: |context| Box::pin(template::run(context)) },
    Action { spec: &archive::unarchive::SPEC, run: |context| Box::pin(files::unarchive(context)) },
    Action { spec: &http::uri::SPEC, run: |context| Box::pin(uri::run(context)) },
    Action { spec: &validate::SPEC, run: |context| Box::pin(validate::run(context)) },
    Action { spec: &cluster_variables::SPEC, run: |context| Box::pin(variables::run(context)) },
    Action { spec: &reboot::WAIT_FOR_CONNECTION, run: |context| Box::pin(reboot::wait_for_connection(context)) },
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

/// Whether the task runs once for all hosts, on the first one.
pub fn runs_once(action: &str) -> bool {
    matches!(action, "add_host" | "pause")
}

/// Whether the action runs only on the controller.
pub fn is_here(action: &str) -> bool {
    action == "pause" || is_immediate(action)
}

/// Whether the action completes without waiting for anything.
pub fn is_immediate(action: &str) -> bool {
    let here = [
        "add_host",
        "assert",
        "debug",
        "fail",
        "group_by",
        "include_vars",
        "set_fact",
        "set_stats",
        "validate_argument_spec",
        "windlass.kubernetes.variables",
    ];
    here.contains(&action)
}

/// Whether a task with this action may be a background job (`async`): only plain modules and actions that merely run
/// one.
pub fn supports_async(action: &str) -> bool {
    let dispatchers = [
        "command",
        "dnf",
        "helm",
        "helm_repository",
        "k8s",
        "k8s_drain",
        "k8s_info",
        "package",
        "service",
        "shell",
        "uri",
        "yum",
    ];
    dispatchers.contains(&action) || self::action(action).is_none()
}

/// Result of starting a background job, with the types of the emulated release.
pub fn started(mut result: TaskResult, compat: windlass_template::Compat) -> TaskResult {
    async_status::started_and_finished(&mut result, compat);
    result
}

/// Whether an action is exactly one request, so that others may be sent behind it.
pub fn is_one_request(action: &str) -> bool {
    ["copy", "helm", "helm_repository", "k8s", "k8s_drain", "k8s_info", "script", "template", "unarchive", "uri"]
        .contains(&action)
        || (!is_engine(action) && self::action(action).is_none())
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
