//! `kube`: labels, annotations and taints of existing objects. Only missing or different ones are set.

use serde_json::{Value, json};

use super::kubectl::{Kubectl, Target};
use crate::{Args, Diff, Failure, Host, Map, Plan};

/// Missing marks of an object, as arguments of `kubectl label`, `annotate` and `taint`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    labels: Vec<String>,
    annotations: Vec<String>,
    taints: Vec<String>,
}

/// Plans labels, annotations and taints of the objects in the arguments.
pub(super) fn plan(client: Kubectl, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let kind = args.str("kind").unwrap_or_default().to_owned();
    let taints = args.list("taints");
    let empty = Map::new();
    let wanted = |name: &str| args.value(name).and_then(Value::as_object).unwrap_or(&empty);
    let found = client.get(args, host)?;
    if found.is_empty() {
        let what = args.str("name").or(args.str("label_selector")).unwrap_or_default();
        return Err(Failure::new(format!("There is no {kind} {what} to mark.")));
    }
    if let Some(taint) = taints.iter().find(|taint| Taint::parse(taint).is_none()) {
        return Err(Failure::new(format!(
            "`{taint}` is not a taint: write key=value:Effect or key:Effect, or key- to remove it."
        )));
    }
    let mut commands: Vec<Vec<String>> = Vec::new();
    for object in &found {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let changes = changes(object, wanted("labels"), wanted("annotations"), &taints);
        let namespace = object["metadata"]["namespace"].as_str().map(|namespace| format!("--namespace={namespace}"));
        for (verb, words) in [("label", changes.labels), ("annotate", changes.annotations), ("taint", changes.taints)] {
            if words.is_empty() {
                continue;
            }
            let mut command = vec![verb.to_owned(), kind.clone(), name.clone()];
            command.extend(words);
            command.push("--overwrite".into());
            command.extend(namespace.clone());
            commands.push(command);
        }
    }
    if commands.is_empty() {
        return Ok(Plan::unchanged().with("resources", found));
    }
    let shown: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
    let before: Vec<Value> = found.iter().map(marks).collect();
    let target = Target::of(args)?;
    let plan = Plan::change(move |host, outcome| {
        for command in &commands {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            client.run(&words, host)?;
        }
        outcome.set("resources", client.find(&target, host)?);
        outcome.set("stdout", shown.join("\n"));
        Ok(())
    });
    let plan = plan.with("resources", found.clone());
    Ok(if host.diff() {
        let after: Vec<Value> =
            found.iter().map(|object| marked(object, wanted("labels"), wanted("annotations"), &taints)).collect();
        plan.with_diff(Diff::of(&kind, json!(before), json!(after)))
    } else {
        plan
    })
}

fn marks(object: &Value) -> Value {
    json!({
        "name": object["metadata"]["name"],
        "labels": object["metadata"]["labels"],
        "annotations": object["metadata"]["annotations"],
        "taints": object["spec"]["taints"],
    })
}

/// The marks after the change.
fn marked(object: &Value, labels: &Map, annotations: &Map, taints: &[&str]) -> Value {
    let mut after = marks(object);
    for (key, wanted) in [("labels", labels), ("annotations", annotations)] {
        let mut map = after[key].as_object().cloned().unwrap_or_default();
        for (name, value) in wanted {
            match text(value) {
                Some(text) => _ = map.insert(name.clone(), text.into()),
                None => _ = map.remove(name),
            }
        }
        after[key] = map.into();
    }
    let mut list = after["taints"].as_array().cloned().unwrap_or_default();
    for taint in taints.iter().filter_map(|taint| Taint::parse(taint)) {
        list.retain(|known| !taint.is(known));
        if !taint.remove {
            list.push(json!({ "key": taint.key, "value": taint.value, "effect": taint.effect }));
        }
    }
    after["taints"] = list.into();
    after
}

/// A label value as text; `None` removes the label.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn changes(object: &Value, labels: &Map, annotations: &Map, taints: &[&str]) -> Changes {
    let lacking = |has: &Value, wanted: &Map| {
        let one = |(name, value): (&String, &Value)| match (has[name].as_str(), text(value)) {
            (Some(has), Some(wanted)) if has == wanted => None,
            (_, Some(wanted)) => Some(format!("{name}={wanted}")),
            (Some(_), None) => Some(format!("{name}-")),
            (None, None) => None,
        };
        wanted.iter().filter_map(one).collect()
    };
    let has = object["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let taints = taints.iter().filter(|written| {
        Taint::parse(written).is_some_and(|taint| match has.iter().find(|known| taint.is(known)) {
            Some(known) => taint.remove || known["value"].as_str().unwrap_or_default() != taint.value,
            None => !taint.remove,
        })
    });
    Changes {
        labels: lacking(&object["metadata"]["labels"], labels),
        annotations: lacking(&object["metadata"]["annotations"], annotations),
        taints: taints.map(|taint| (*taint).to_owned()).collect(),
    }
}

/// A taint in kubectl's syntax: `key=value:Effect`; a trailing `-` removes it.
#[derive(Debug, PartialEq, Eq)]
struct Taint<'a> {
    key: &'a str,
    value: &'a str,
    effect: &'a str,
    remove: bool,
}

impl<'a> Taint<'a> {
    fn parse(text: &'a str) -> Option<Taint<'a>> {
        let (body, remove) = text.strip_suffix('-').map_or((text, false), |body| (body, true));
        let (name, effect) = body.split_once(':').unwrap_or((body, ""));
        let (key, value) = name.split_once('=').unwrap_or((name, ""));
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) || (remove && effect.is_empty());
        (!key.is_empty() && known).then_some(Taint { key, value, effect, remove })
    }

    /// Compares by key and effect. A taint to remove may omit the effect.
    fn is(&self, known: &Value) -> bool {
        known["key"] == self.key && (self.effect.is_empty() || known["effect"] == self.effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_differ_are_set() {
        let node = json!({
            "metadata": { "name": "n1", "labels": { "disk": "ssd", "old": "x" }, "annotations": { "a": "1" } },
            "spec": { "taints": [{ "key": "node-role.kubernetes.io/master", "effect": "NoSchedule" }, { "key": "db", "value": "yes", "effect": "NoExecute" }] },
        });
        let labels = json!({ "disk": "ssd", "zone": 3, "old": null, "never": null });
        let annotations = json!({ "a": "2" });
        let taints = ["node-role.kubernetes.io/master-", "db=yes:NoExecute", "db=no:NoSchedule", "gone:NoSchedule-"];
        let found = changes(&node, labels.as_object().unwrap(), annotations.as_object().unwrap(), &taints);
        assert_eq!(found.labels, ["zone=3", "old-"]);
        assert_eq!(found.annotations, ["a=2"]);
        assert_eq!(found.taints, ["node-role.kubernetes.io/master-", "db=no:NoSchedule"]);
        let after = marked(&node, labels.as_object().unwrap(), annotations.as_object().unwrap(), &taints);
        assert_eq!(after["labels"], json!({ "disk": "ssd", "zone": "3" }));
        assert_eq!(after["taints"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn taint_without_effect_valid_only_for_removal() {
        assert_eq!(
            Taint::parse("a=b:NoSchedule"),
            Some(Taint { key: "a", value: "b", effect: "NoSchedule", remove: false })
        );
        assert_eq!(Taint::parse("a-"), Some(Taint { key: "a", value: "", effect: "", remove: true }));
        assert_eq!(Taint::parse("a=b"), None);
        assert_eq!(Taint::parse("a:Sometimes"), None);
    }
}
