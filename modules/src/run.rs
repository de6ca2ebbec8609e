//! Runs a module: arguments, check mode, the lock on an edited file, and the result in Ansible's format.

use serde_json::{Value, json};

use crate::host_lock::file::FileLock;
use crate::{Args, Check, Failure, Host, Map, Module, Outcome, Plan, secrets::Secrets};

/// Runs a module: validates the arguments, plans and, except in check mode, carries the plan out. Returns the result in
/// Ansible's format, failed or not.
pub fn run(module: &dyn Module, arguments: &Value, host: &Host) -> Value {
    let mut result = result(module, arguments, host);
    Secrets::of(module.spec(), arguments).mask(&mut result);
    result
}

fn result(module: &dyn Module, arguments: &Value, host: &Host) -> Value {
    match outcome(module, arguments, host) {
        Ok(outcome) => success(outcome),
        Err(failure) => {
            let mut result = Map::new();
            result.insert("changed".into(), false.into());
            result.insert("failed".into(), true.into());
            result.extend(failure.data);
            result.insert("msg".into(), failure.message.into());
            result.into()
        }
    }
}

fn outcome(module: &dyn Module, arguments: &Value, host: &Host) -> Result<Outcome, Failure> {
    let spec = module.spec();
    let args = Args::validate(spec, arguments, host)?;
    if host.check() && spec.check == Check::None {
        let mut outcome = Outcome::default();
        outcome.set("skipped", true);
        let name = match spec.collection {
            "ansible.builtin" => spec.name.to_owned(),
            collection => format!("{collection}.{}", spec.name),
        };
        outcome.set("msg", format!("remote module ({name}) does not support check mode"));
        return Ok(outcome);
    }
    // Held until the change is applied. Otherwise another task could replace the file after the plan was made, and this
    // task would undo its change.
    let _edited = match module.edits(&args).filter(|_| !host.check()) {
        Some(path) => Some(FileLock::take(&path, host)?),
        None => None,
    };
    let plan = module.plan(&args, host)?;
    let mut outcome = if host.check() { plan.outcome } else { carry_out(plan, host)? };
    outcome.warnings.splice(0..0, args.warnings().iter().cloned());
    Ok(outcome)
}

/// The result of a run that failed for this reason.
pub(crate) fn failed(message: impl Into<String>) -> Value {
    json!({ "changed": false, "failed": true, "msg": message.into() })
}

/// The result of a run whose module gave no answer, for this reason. The run may have changed the host.
pub(crate) fn interrupted(message: impl Into<String>) -> Value {
    let mut result = failed(message);
    if let Some(map) = result.as_object_mut() {
        map.insert(windlass_protocol::INTERRUPTED.to_owned(), true.into());
    }
    result
}

/// Carries a plan out.
pub(crate) fn carry_out(plan: Plan, host: &Host) -> Result<Outcome, Failure> {
    let mut outcome = plan.outcome;
    if let Some(apply) = plan.apply {
        apply(host, &mut outcome)?;
    }
    Ok(outcome)
}

fn success(outcome: Outcome) -> Value {
    let mut result = outcome.data;
    result.entry("changed").or_insert(outcome.changed.into());
    if !outcome.diff.is_empty() {
        let mut diffs: Vec<Value> = outcome.diff.iter().map(crate::Diff::to_json).collect();
        let diff = if diffs.len() == 1 { diffs.remove(0) } else { diffs.into() };
        result.insert("diff".into(), diff);
    }
    if !outcome.warnings.is_empty() {
        result.insert("warnings".into(), json!(outcome.warnings));
    }
    result.into()
}
