use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{Args, Host, Map, Spec};

/// A built-in module.
pub trait Module: Sync {
    /// What it is called, takes and returns.
    fn spec(&self) -> &'static Spec;

    /// Reads what the host has and decides what would change. Nothing may be changed here; the change goes into the plan.
    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure>;

    /// The file that the module reads, changes and writes again. No other executor of this user edits it meanwhile; a path that does not exist
    /// may stand for something else that only one may edit at a time.
    fn edits(&self, args: &Args) -> Option<PathBuf> {
        let _ = args;
        None
    }

    /// The user that must run nothing when the module runs, because it removes the account.
    fn removes<'a>(&self, arguments: &'a Value) -> Option<&'a str> {
        let _ = arguments;
        None
    }
}

type Apply = Box<dyn FnOnce(&Host, &mut Outcome) -> Result<(), Failure>>;

/// What a module would do, with the means to do it.
#[must_use]
pub struct Plan {
    pub(crate) outcome: Outcome,
    pub(crate) apply: Option<Apply>,
}

impl Plan {
    /// Nothing to do.
    pub fn unchanged() -> Plan {
        Plan { outcome: Outcome::default(), apply: None }
    }

    /// A change, carried out by `apply` unless only a prediction is asked for. `apply` may add to the outcome or correct it.
    pub fn change(apply: impl FnOnce(&Host, &mut Outcome) -> Result<(), Failure> + 'static) -> Plan {
        Plan { outcome: Outcome { changed: true, ..Outcome::default() }, apply: Some(Box::new(apply)) }
    }

    /// A plan whose steps ask the host between them what has become of it. They are gone through once: for good, or in check mode
    /// only to tell, which they find out by [`Host::check`].
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

    /// The same plan, and something more to do after its change, if it has one.
    pub fn and_then(mut self, more: impl FnOnce(&Host, &mut Outcome) -> Result<(), Failure> + 'static) -> Plan {
        if let Some(apply) = self.apply.take() {
            self.apply = Some(Box::new(move |host, outcome| {
                apply(host, outcome)?;
                more(host, outcome)
            }));
        }
        self
    }

    /// One plan of several that are carried out in order. It has their diffs and warnings, but none of their
    /// keys.
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

    /// The keys of the result so far.
    pub fn data(&self) -> &Map {
        &self.outcome.data
    }

    /// Whether there is something to carry out.
    pub fn is_change(&self) -> bool {
        self.apply.is_some()
    }

    /// The task does not apply here, for this reason; used by modules that cannot predict in check mode.
    pub fn skipped(reason: impl Into<String>) -> Plan {
        Plan::unchanged().with("skipped", true).with("msg", reason.into())
    }

    /// With a key of the result, as it is before (and, unless `apply` replaces it, after) the change.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Plan {
        self.outcome.data.insert(key.to_owned(), value.into());
        self
    }

    /// With all these keys of the result.
    pub fn with_all(mut self, data: Map) -> Plan {
        self.outcome.data.extend(data);
        self
    }

    /// With a difference to show; compute it only if [`Host::diff`] says so.
    pub fn with_diff(mut self, diff: impl Into<Option<Diff>>) -> Plan {
        self.outcome.diff.extend(diff.into());
        self
    }

    /// With a warning for the user.
    pub fn with_warning(mut self, sentence: impl Into<String>) -> Plan {
        self.outcome.warnings.push(sentence.into());
        self
    }
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Whether the host is (or would be) different now.
    pub changed: bool,
    /// The result's keys.
    pub data: Map,
    /// What changed, for `--diff`.
    pub diff: Vec<Diff>,
    /// Sentences for the user.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// Sets a key of the result.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.data.insert(key.to_owned(), value.into());
    }
}

/// One difference: texts before and after, or one that is ready to be shown.
#[derive(Debug, Default, Clone)]
pub struct Diff {
    /// Content before.
    pub before: Value,
    /// Content after.
    pub after: Value,
    /// What `before` is, usually a path.
    pub before_header: Option<String>,
    /// What `after` is.
    pub after_header: Option<String>,
    /// A text shown as it is, instead of the two.
    pub prepared: Option<String>,
    /// Why the contents are not there: `dst_larger` and `src_larger` with the limit, `dst_binary`, `src_binary`.
    pub notices: Vec<(&'static str, u64)>,
}

impl Diff {
    /// Two contents of one thing.
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

    /// As Ansible's results have it.
    pub fn to_json(&self) -> Value {
        if let Some(prepared) = &self.prepared {
            return json!({ "prepared": prepared });
        }
        if !self.notices.is_empty() {
            return self.notices.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
        }
        let mut map = Map::new();
        // Of what cannot differ there may be a head alone.
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

/// Why a module failed: a sentence, and keys of the result that help to understand it.
#[derive(Debug)]
pub struct Failure {
    /// A whole sentence: what failed, on what, why.
    pub message: String,
    /// Further keys, such as `rc` and `stderr`.
    pub data: Map,
}

impl Failure {
    /// A failure with this sentence.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), data: Map::new() }
    }

    /// With a key of the result.
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
