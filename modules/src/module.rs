//! The contract of a module: [`Module`] plans, a [`Plan`] predicts and changes, a [`Failure`] explains.
//!
//! A plan holds both the prediction and the closure that changes the host, so check mode and a real run make the same
//! decisions.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{Args, Host, Map, Spec};

/// A built-in module.
pub trait Module: Sync {
    /// Name, options and results of the module.
    fn spec(&self) -> &'static Spec;

    /// Reads the host and decides on the changes. Must not change anything itself; changes go into the plan.
    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure>;

    /// The file that the module reads, changes and writes. No other executor of this user edits it meanwhile. A path
    /// that does not exist may name another resource for exclusive use.
    fn edits(&self, args: &Args) -> Option<PathBuf> {
        let _ = args;
        None
    }

    /// The user whose account the module removes, and whose executor must therefore be idle.
    fn removes<'a>(&self, arguments: &'a Value) -> Option<&'a str> {
        let _ = arguments;
        None
    }
}

type Apply = Box<dyn FnOnce(&Host, &mut Outcome) -> Result<(), Failure>>;

/// The changes of a module, and the closure that applies them.
#[must_use]
pub struct Plan {
    pub(crate) outcome: Outcome,
    pub(crate) apply: Option<Apply>,
}

impl Plan {
    /// A plan without changes.
    pub fn unchanged() -> Plan {
        Plan { outcome: Outcome::default(), apply: None }
    }

    /// A plan with a change, which `apply` carries out except in check mode. `apply` may extend or correct the outcome.
    pub fn change(apply: impl FnOnce(&Host, &mut Outcome) -> Result<(), Failure> + 'static) -> Plan {
        Plan { outcome: Outcome { changed: true, ..Outcome::default() }, apply: Some(Box::new(apply)) }
    }

    /// A plan whose steps read the host's state in between. The steps run once: in check mode, which they detect by
    /// [`Host::check`], they only predict.
    pub fn steps(
        host: &Host,
        steps: impl FnOnce(&Host, &mut Outcome) -> Result<(), Failure> + 'static,
    ) -> Result<Plan, Failure> {
        let mut plan = Plan::unchanged();
        if host.check() {
            steps(host, &mut plan.outcome)?;
        } else {
            plan.apply = Some(Box::new(steps));
        }
        Ok(plan)
    }

    /// The same plan, with an additional step after its change, if it has one.
    pub fn and_then(mut self, more: impl FnOnce(&Host, &mut Outcome) -> Result<(), Failure> + 'static) -> Plan {
        if let Some(apply) = self.apply.take() {
            self.apply = Some(Box::new(move |host, outcome| {
                apply(host, outcome)?;
                more(host, outcome)
            }));
        }
        self
    }

    /// Joins plans to one that carries them out in order. It has their diffs and warnings, but none of their keys.
    pub fn sequence(plans: Vec<Plan>) -> Plan {
        let mut all = Plan::unchanged();
        let mut steps = Vec::new();
        for plan in plans {
            all.outcome.changed |= plan.outcome.changed;
            all.outcome.diff.extend(plan.outcome.diff);
            all.outcome.warnings.extend(plan.outcome.warnings);
            steps.extend(plan.apply);
        }
        if !steps.is_empty() {
            all.apply = Some(Box::new(move |host, outcome| {
                for step in steps {
                    host.check_cancelled()?;
                    let mut own = Outcome::default();
                    step(host, &mut own)?;
                    outcome.warnings.extend(own.warnings);
                }
                Ok(())
            }));
        }
        all
    }

    /// Result keys so far.
    pub fn data(&self) -> &Map {
        &self.outcome.data
    }

    /// Whether the plan has a change.
    pub fn is_change(&self) -> bool {
        self.apply.is_some()
    }

    /// Skips the task for this reason; for modules that cannot predict in check mode.
    pub fn skipped(reason: impl Into<String>) -> Plan {
        Plan::unchanged().with("skipped", true).with("msg", reason.into())
    }

    /// Adds a result key with its value before the change. It stays the same afterwards unless `apply` replaces it.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Plan {
        self.outcome.data.insert(key.to_owned(), value.into());
        self
    }

    /// Adds result keys.
    pub fn with_all(mut self, data: Map) -> Plan {
        self.outcome.data.extend(data);
        self
    }

    /// Adds a difference. Compute it only if [`Host::diff`] is true.
    pub fn with_diff(mut self, diff: impl Into<Option<Diff>>) -> Plan {
        self.outcome.diff.extend(diff.into());
        self
    }

    /// Adds a warning for the user.
    pub fn with_warning(mut self, sentence: impl Into<String>) -> Plan {
        self.outcome.warnings.push(sentence.into());
        self
    }
}

/// Outcome of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Whether the host was (or would be) changed.
    pub changed: bool,
    /// Result keys.
    pub data: Map,
    /// Differences for `--diff`.
    pub diff: Vec<Diff>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// Sets a key of the result.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.data.insert(key.to_owned(), value.into());
    }
}

/// A difference: texts before and after, or a prepared text.
#[derive(Debug, Default, Clone)]
pub struct Diff {
    /// Content before.
    pub before: Value,
    /// Content after.
    pub after: Value,
    /// Name of `before`, usually a path.
    pub before_header: Option<String>,
    /// Label of `after`, such as its path.
    pub after_header: Option<String>,
    /// Prepared text to show instead of `before` and `after`.
    pub prepared: Option<String>,
    /// Reasons for missing contents: `dst_larger` and `src_larger` with the limit, `dst_binary`, `src_binary`.
    pub notices: Vec<(&'static str, u64)>,
}

impl Diff {
    /// The difference between two contents of one object.
    pub fn of(name: &str, before: impl Into<Value>, after: impl Into<Value>) -> Diff {
        Diff {
            before: before.into(),
            after: after.into(),
            before_header: Some(name.to_owned()),
            after_header: Some(name.to_owned()),
            prepared: None,
            notices: Vec::new(),
        }
    }

    /// The difference in the format of Ansible's results.
    pub fn to_json(&self) -> Value {
        if let Some(prepared) = &self.prepared {
            return json!({ "prepared": prepared });
        }
        if !self.notices.is_empty() {
            return self.notices.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
        }
        let mut map = Map::new();
        // A header may be present without its content.
        for (key, side) in [("before", &self.before), ("after", &self.after)] {
            if !side.is_null() {
                map.insert(key.into(), side.clone());
            }
        }
        if let Some(header) = &self.before_header {
            map.insert("before_header".into(), header.as_str().into());
        }
        if let Some(header) = &self.after_header {
            map.insert("after_header".into(), header.as_str().into());
        }
        map.into()
    }
}

/// Failure of a module: a message, and result keys that explain it.
#[derive(Debug)]
pub struct Failure {
    /// Complete message: failed operation, object and reason.
    pub message: String,
    /// Additional keys, such as `rc` and `stderr`.
    pub data: Map,
}

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), data: Map::new() }
    }

    /// Adds a result key.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Failure {
        self.data.insert(key.to_owned(), value.into());
        self
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::new(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        Failure::new(message)
    }
}
