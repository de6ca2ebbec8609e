//! `kube`: waits for conditions, values, rollouts and deletions. Queries once a second, because `kubectl wait` fails
//! immediately if an object is missing or the API server does not answer.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{
    kubectl::{Kubectl, Target, failure},
    objects,
};
use crate::{Args, Failure, Host, Plan};

/// `wait` changes nothing. In check mode it checks once, because waiting for skipped changes would never end.
pub(super) fn plan(client: Kubectl, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let target = Target::of(args)?;
    let condition = args.required("for")?.to_owned();
    let limit = args.seconds("timeout", 300);
    if host.check() {
        return Ok(Plan::unchanged().with("resources", client.get(args, host).unwrap_or_default()));
    }
    let deadline = Instant::now() + limit;
    let condition = Condition::parse(&condition);
    let all = args.bool("all");
    let named = args.filled("name").is_some();
    if let Condition::Rollout = condition {
        return rollout(&client, &target, limit, host);
    }
    let mut last = String::new();
    loop {
        host.check_cancelled()?;
        // A temporarily silent API server, as during a start of the cluster, is retried.
        let answer = client.ask(&target.get(), host)?;
        if answer.success() {
            let found = objects::of_json(&answer.stdout_text())?;
            match condition.unmet(&found, named || all) {
                None => return Ok(Plan::unchanged().with("resources", found)),
                Some(unmet) => last = unmet,
            }
        } else {
            last.clear();
            last.push_str(answer.stderr_text().lines().next_back().unwrap_or("the API server did not answer"));
        }
        if Instant::now() >= deadline {
            return Err(Failure::new(format!(
                "{} was not {condition} within {} seconds: {last}.",
                target.shown,
                limit.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn rollout(client: &Kubectl, target: &Target, limit: Duration, host: &Host) -> Result<Plan, Failure> {
    let timeout = format!("--timeout={}s", limit.as_secs());
    let mut words = vec!["rollout", "status"];
    words.extend(target.words.iter().map(String::as_str));
    words.push(&timeout);
    let output = client.command(&words, host).live().run(host)?;
    if !output.success() {
        return Err(failure(&words, &output));
    }
    Ok(Plan::unchanged().with("stdout", output.stdout_text()))
}

/// Condition to wait for.
#[derive(Debug, PartialEq, Eq)]
enum Condition {
    /// The objects are gone.
    Delete,
    /// A rollout is complete (`kubectl rollout status`).
    Rollout,
    /// A condition of the status has this value.
    Status { name: String, value: String },
    /// A field has this value; an empty value means any but null.
    Path { path: Vec<String>, value: String },
}

impl std::fmt::Display for Condition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Condition::Delete => write!(formatter, "gone"),
            Condition::Rollout => write!(formatter, "rolled out"),
            Condition::Status { name, value } if value.eq_ignore_ascii_case("true") => write!(formatter, "{name}"),
            Condition::Status { name, value } => write!(formatter, "{name}={value}"),
            Condition::Path { path, value } => write!(formatter, "at .{} {value:?}", path.join(".")),
        }
    }
}

impl Condition {
    /// Parses `Ready`, `Ready=False`, `condition=Ready`, `delete`, `rollout`, `jsonpath={.status.phase}=Running`.
    fn parse(text: &str) -> Condition {
        match text {
            "delete" => return Condition::Delete,
            "rollout" => return Condition::Rollout,
            _ => {}
        }
        if let Some(rest) = text.strip_prefix("jsonpath=") {
            let rest = rest.replace('\'', "");
            let (path, value) = match rest.split_once("}=") {
                Some((path, value)) => (path.trim_start_matches('{'), value),
                None => rest.split_once('=').unwrap_or((rest.as_str(), "")),
            };
            let path = path.trim_matches(['{', '}', '.']).split('.').map(str::to_owned).collect();
            return Condition::Path { path, value: value.trim_matches('"').to_owned() };
        }
        let text = text.strip_prefix("condition=").unwrap_or(text);
        let (name, value) = text.split_once('=').unwrap_or((text, "True"));
        Condition::Status { name: name.to_owned(), value: value.to_owned() }
    }

    /// Describes the first object that does not meet the condition. At least one object must exist, unless waiting for
    /// deletion.
    fn unmet(&self, found: &[Value], expected: bool) -> Option<String> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or("it").to_owned();
        if *self == Condition::Delete {
            return found.first().map(|object| format!("{} is still there", name(object)));
        }
        if found.is_empty() {
            return Some(if expected { "it does not exist" } else { "none exists" }.to_owned());
        }
        found.iter().find_map(|object| match self {
            Condition::Status { name: wanted, value } => {
                let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
                let condition = conditions
                    .iter()
                    .find(|condition| condition["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case(wanted)));
                match condition {
                    Some(condition)
                        if condition["status"].as_str().is_some_and(|status| status.eq_ignore_ascii_case(value)) =>
                    {
                        None
                    }
                    Some(condition) => {
                        let reason = ["message", "reason", "status"]
                            .iter()
                            .find_map(|key| condition[*key].as_str().filter(|text| !text.is_empty()));
                        Some(format!("{}: {}", name(object), reason.unwrap_or("not yet")))
                    }
                    None => Some(format!("{} has no condition {wanted} yet", name(object))),
                }
            }
            Condition::Path { path, value } => {
                let at = path.iter().fold(object, |at, key| &at[key]);
                let text = at.as_str().map_or_else(|| at.to_string(), str::to_owned);
                let met = if value.is_empty() { !at.is_null() } else { text == *value };
                (!met).then(|| format!("{} has {text} there", name(object)))
            }
            Condition::Delete | Condition::Rollout => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_parsed_in_kubectl_notation() {
        let status = |name: &str, value: &str| Condition::Status { name: name.into(), value: value.into() };
        assert_eq!(Condition::parse("Ready"), status("Ready", "True"));
        assert_eq!(Condition::parse("condition=Available=False"), status("Available", "False"));
        assert_eq!(Condition::parse("jsonpath='{.status.phase}'=Running").to_string(), "at .status.phase \"Running\"");
        assert_eq!(Condition::parse("delete"), Condition::Delete);
    }

    #[test]
    fn condition_unmet_by_one_object_reported() {
        let node = |name: &str, ready: &str| json!({ "metadata": { "name": name }, "status": { "conditions": [{ "type": "Ready", "status": ready, "message": "network not ready" }] } });
        let ready = Condition::parse("Ready");
        assert_eq!(ready.unmet(&[node("a", "True"), node("b", "True")], true), None);
        assert_eq!(
            ready.unmet(&[node("a", "True"), node("b", "False")], true).as_deref(),
            Some("b: network not ready")
        );
        assert_eq!(ready.unmet(&[], false).as_deref(), Some("none exists"));
        assert_eq!(Condition::Delete.unmet(&[], false), None);
        let running = Condition::parse("jsonpath={.status.phase}=Running");
        assert_eq!(
            running.unmet(&[json!({ "metadata": { "name": "p" }, "status": { "phase": "Running" } })], true),
            None
        );
        assert!(
            running.unmet(&[json!({ "metadata": { "name": "p" }, "status": { "phase": "Pending" } })], true).is_some()
        );
    }
}
