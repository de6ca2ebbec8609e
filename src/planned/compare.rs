//! Compares a recorded plan with a new one.

use std::collections::BTreeMap;
use std::path::Path;

use super::document::{Document, Planned};
use super::text::Layout;

/// Maximum number of lines of an entry that differs.
const LINES: usize = 30;

/// Describes each difference of facts and planned changes between a recorded plan and a new one.
pub fn differences(recorded: &Document, new: &Document) -> Vec<String> {
    let mut found = Vec::new();
    facts(recorded, new, &mut found);
    tasks(recorded, new, &mut found);
    if found.is_empty() && (recorded.totals != new.totals || recorded.hosts != new.hosts) {
        found.push("the number of tasks that change nothing differs".to_owned());
    }
    found
}

fn facts(recorded: &Document, new: &Document, found: &mut Vec<String>) {
    let empty = BTreeMap::new();
    let hosts = recorded.facts.keys().chain(new.facts.keys().filter(|host| !recorded.facts.contains_key(*host)));
    for host in hosts {
        let (then, now) = (recorded.facts.get(host).unwrap_or(&empty), new.facts.get(host).unwrap_or(&empty));
        let names = then.keys().chain(now.keys().filter(|name| !then.contains_key(*name)));
        for name in names.filter(|name| then.get(*name) != now.get(*name)) {
            found.push(match (then.contains_key(name), now.contains_key(name)) {
                (true, true) => format!("{host}: the fact `{name}` has another value"),
                (true, false) => format!("{host}: the fact `{name}` is missing"),
                (false, _) => format!("{host}: the fact `{name}` is new"),
            });
        }
    }
}

/// A task on one host, numbered among the runs of the same task there.
type Key<'a> = (&'a str, &'a str, &'a str, &'a str, usize);

fn by_host(document: &Document) -> BTreeMap<Key<'_>, &Planned> {
    let mut found = BTreeMap::new();
    let mut runs: BTreeMap<(&str, &str, &str, &str), usize> = BTreeMap::new();
    for task in &document.tasks {
        for host in &task.hosts {
            let of_task = (host.as_str(), task.play.as_str(), task.place.as_str(), task.task.as_str());
            let number = runs.entry(of_task).or_default();
            let (host, play, place, name) = of_task;
            found.insert((host, play, place, name, *number), task);
            *number += 1;
        }
    }
    found
}

fn tasks(recorded: &Document, new: &Document, found: &mut Vec<String>) {
    let (then, now) = (by_host(recorded), by_host(new));
    for (key, task) in &then {
        let (host, .., name, _) = key;
        match now.get(key) {
            None => found.push(format!("{host}: '{name}' was planned and is no longer needed")),
            Some(other) if !is_equal(task, other) => {
                let text = format!("{host}: '{name}' would do something else than planned");
                found.push(format!("{text}\n    planned:{}\n    now:{}", entry(task), entry(other)));
            }
            Some(_) => {}
        }
    }
    for (host, .., name, _) in now.keys().filter(|key| !then.contains_key(*key)) {
        found.push(format!("{host}: '{name}' is not part of the plan"));
    }
}

/// An entry below the difference that it causes.
fn entry(task: &Planned) -> String {
    let layout = Layout { whole: false, directory: Path::new("") };
    let lines = super::text::entry(task, &layout);
    let lines = if lines.is_empty() { vec!["changes something".to_owned()] } else { lines };
    lines.iter().take(LINES).fold(String::new(), |text, line| text + "\n      " + line)
}

fn is_equal(one: &Planned, other: &Planned) -> bool {
    one.status == other.status && one.ran == other.ran && one.notifies == other.notifies && one.parts == other.parts
}
