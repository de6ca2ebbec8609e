//! Built-in actions and modules by name: their specs, and the properties of actions on which other folders depend.
//!
//! It knows nothing of their code. So the reader of playbooks, the search for modules, the output and the journal can
//! ask for a name without the folder that runs it.

mod engine;
mod specs;

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use windlass_modules::kubernetes::{core as cluster, variables as cluster_variables};
use windlass_modules::{Opt, Spec, archive, commands, files as file_modules, http, registry, system};

pub(crate) use engine::{INCLUDE_ROLE, INCLUDE_TASKS, MetaAction};
pub(crate) use specs::*;

use crate::error::did_you_mean;

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
    traits: &'static [Trait],
}

impl Action {
    fn has(&self, one: Trait) -> bool {
        self.traits.contains(&one)
    }
}

/// Actions with a part on the controller. `action::ACTIONS` has the functions.
const ACTIONS: &[Action] = &[
    Action { spec: &ADD_HOST, traits: &[RunsOnce, Immediate, RepeatedOnResume] },
    Action { spec: &file_modules::assemble::SPEC, traits: &[] },
    Action { spec: &commands::async_status::SPEC, traits: &[] },
    Action { spec: &ASSERT, traits: &[Immediate, OnlyReports] },
    Action { spec: &file_modules::copy::SPEC, traits: &[OneRequest] },
    Action { spec: &DEBUG, traits: &[Immediate, OnlyReports] },
    Action { spec: &FAIL, traits: &[Immediate, OnlyReports] },
    Action { spec: &file_modules::fetch::SPEC, traits: &[] },
    Action { spec: &GATHER_FACTS, traits: &[RepeatedOnResume] },
    Action { spec: &GROUP_BY, traits: &[Immediate, RepeatedOnResume] },
    Action { spec: &INCLUDE_VARS, traits: &[Immediate, RepeatedOnResume] },
    Action { spec: &cluster::helm::release::SPEC, traits: &[OneRequest, Background] },
    Action { spec: &cluster::helm::repository::SPEC, traits: &[OneRequest, Background] },
    Action { spec: &cluster::k8s::SPEC, traits: &[OneRequest, Background] },
    Action { spec: &cluster::k8s_drain::SPEC, traits: &[OneRequest, Background] },
    Action { spec: &cluster::k8s_info::SPEC, traits: &[OneRequest, Background] },
    Action { spec: &system::package::SPEC, traits: &[Background] },
    Action { spec: &PAUSE, traits: &[RunsOnce, OnController] },
    Action { spec: &RAW, traits: &[] },
    Action { spec: &REBOOT, traits: &[] },
    Action { spec: &commands::script::SPEC, traits: &[OneRequest, SkipsBare] },
    Action { spec: &SET_FACT, traits: &[Immediate, SetsArguments] },
    Action { spec: &SET_STATS, traits: &[Immediate, RepeatedOnResume] },
    Action { spec: &file_modules::synchronize::SPEC, traits: &[] },
    Action { spec: &TEMPLATE, traits: &[OneRequest] },
    Action { spec: &archive::unarchive::SPEC, traits: &[OneRequest, SkipsBare] },
    Action { spec: &http::uri::SPEC, traits: &[OneRequest, Background] },
    Action { spec: &VALIDATE_ARGUMENT_SPEC, traits: &[Immediate] },
    Action { spec: &cluster_variables::SPEC, traits: &[Immediate] },
    Action { spec: &WAIT_FOR_CONNECTION, traits: &[] },
];

fn action(name: &str) -> Option<&'static Action> {
    static BY_NAME: LazyLock<ByName<&Action>> =
        LazyLock::new(|| by_name(ACTIONS.iter().map(|action| (action.spec, action))));
    BY_NAME.get(name).copied()
}

/// Index by name. Each task on each host looks up its action several times.
pub(crate) type ByName<T> = HashMap<String, T, RandomState>;

/// Indexes entries by all names they answer to; the first entry for a name counts.
pub(crate) fn by_name<T>(all: impl Iterator<Item = (&'static Spec, T)>) -> ByName<T>
where
    T: Copy,
{
    let mut found = ByName::default();
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
pub(crate) fn runs_once(action: &str) -> bool {
    has(action, RunsOnce)
}

/// Whether the action runs only on the controller.
pub(crate) fn is_here(action: &str) -> bool {
    has(action, OnController) || is_immediate(action)
}

/// Whether the action completes without waiting for anything.
pub(crate) fn is_immediate(action: &str) -> bool {
    has(action, Immediate)
}

/// Whether the action has no effect but its result.
pub(crate) fn only_reports(action: &str) -> bool {
    has(action, OnlyReports)
}

/// Whether the action sets the variables that its arguments name.
pub(crate) fn sets_arguments(action: &str) -> bool {
    has(action, SetsArguments)
}

/// Whether a resumed run repeats the action instead of restoring its result.
pub(crate) fn is_repeated_on_resume(action: &str) -> bool {
    // A module without a row, which `gather_facts` runs.
    has(action, RepeatedOnResume) || action == "setup"
}

/// Whether a skipped result of the action has no `failed`.
pub(crate) fn skips_bare(action: &str) -> bool {
    has(action, SkipsBare)
}

/// Whether a task with this action may be a background job (`async`): only plain modules and actions that merely run
/// one.
pub(crate) fn supports_async(action: &str) -> bool {
    merely_runs_module(action, Background)
}

/// Whether an action is exactly one request, so that others may be sent behind it.
pub(crate) fn is_one_request(action: &str) -> bool {
    !is_engine(action) && merely_runs_module(action, OneRequest)
}

/// Whether an action has the trait, as all modules without an action have it.
fn merely_runs_module(action: &str, one: Trait) -> bool {
    self::action(action).is_none_or(|row| row.has(one))
}

/// Name by which arguments give an action its option `dest` or `path`, the place of its change.
pub(crate) fn target(action: &str, has: impl Fn(&str) -> bool) -> Option<&'static str> {
    let options = spec(action).map_or(&[][..], |spec| spec.options);
    ["dest", "path"].into_iter().find_map(|name| {
        let aliases = options.iter().find(|option| option.name == name).map_or(&[][..], |option| option.aliases);
        std::iter::once(name).chain(aliases.iter().copied()).find(|name| has(name))
    })
}

/// Whether the action's result may contain facts, which later tasks see as variables.
pub(crate) fn sets_facts(action: &str) -> bool {
    spec(action).is_some_and(|spec| spec.returns.iter().any(|value| value.name == "ansible_facts"))
}

/// Whether the strategy carries the action out itself.
pub(crate) fn is_engine(name: &str) -> bool {
    engine::SPECS.iter().any(|spec| spec.answers_to(name))
}

/// Whether part of the action runs on the controller.
pub(crate) fn is_action(spec: &Spec) -> bool {
    let named = |other: &Spec| other.name == spec.name && other.collection == spec.collection;
    ACTIONS.iter().any(|action| named(action.spec)) || engine::SPECS.iter().any(|page| named(page))
}

/// Short names of the actions that have a part on the controller.
pub(crate) fn controller_actions() -> impl Iterator<Item = &'static str> {
    ACTIONS.iter().map(|action| action.spec.name)
}

/// Everything a task may name, each once: engine actions, other actions, modules.
pub(crate) fn specs() -> impl Iterator<Item = &'static Spec> {
    static ALL: LazyLock<Vec<&'static Spec>> = LazyLock::new(|| {
        let modules = registry::all().map(|module| module.spec()).filter(|spec| !is_action(spec));
        engine::SPECS.iter().copied().chain(ACTIONS.iter().map(|action| action.spec)).chain(modules).collect()
    });
    ALL.iter().copied()
}

/// Spec of an action or module by its short or qualified name.
pub(crate) fn spec(name: &str) -> Option<&'static Spec> {
    static BY_NAME: LazyLock<ByName<&Spec>> = LazyLock::new(|| by_name(specs().map(|spec| (spec, spec))));
    BY_NAME.get(name).copied()
}

/// Suggestion for a name that none of the options has.
pub(crate) fn closest_option(options: impl IntoIterator<Item = &'static Opt>, name: &str) -> Option<String> {
    let shown = options.into_iter().filter(|option| !option.name.starts_with('_'));
    did_you_mean(name, shown.flat_map(|option| std::iter::once(option.name).chain(option.aliases.iter().copied())))
}

/// Whether a name is a built-in action or module, short or qualified.
pub(crate) fn is_known(name: &str) -> bool {
    spec(name).is_some()
}

/// Short names of all actions and modules.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
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
