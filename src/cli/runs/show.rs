//! `windlass runs show`: the result of one run, its hosts, its failures, and how to continue it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use indexmap::IndexSet;
use serde_json::Value;

use super::{rerun, result};
use crate::error::{Error, Result, did_you_mean};
use crate::journal::{At, Done, ItemDone, Journal, Ledger, ObjectText, Record, RunFile, State, Withheld};
use crate::output::{Printer, clipped, first_line, table};
use crate::report::{Kind, item_label, to_second};
use crate::settings::Color;

/// Maximum length of a message, in characters.
const MESSAGE: usize = 400;

/// Prints a run.
pub(super) fn show(state: &State, run: &RunFile, journal: &Journal, printer: &Printer) {
    let line = |text: String| printer.line(&text, Color::Plain);
    let header = &journal.header;
    line(format!("run        {}", run.run));
    line(format!("result     {}", result(run, journal.end.as_ref().map(|end| end.code), header.check)));
    line(format!("started    {} by {} on {}", to_second(&header.started), header.user, header.machine));
    if let Some(end) = &journal.end {
        line(format!("ended      {}", to_second(&end.ended)));
    }
    if let Some(former) = &header.resumes {
        line(format!("resumes    {former}"));
    }
    line(format!("command    {}", header.argv.join(" ")));
    line(format!("playbooks  {}", header.playbooks.join(" ")));
    line(format!("journal    {}", run.path.display()));
    line("hosts".to_owned());
    hosts(journal).into_iter().for_each(|row| line(format!("  {row}")));
    let is_running = journal.end.is_none() && run.is_alive();
    let pending = Ledger::all(state).into_iter().filter(|one| one.run == run.run);
    for (title, lines) in [
        ("failures", failures(journal)),
        (if is_running { "running now" } else { "stopped at" }, unanswered(journal)),
        (
            "pending handlers",
            pending.map(|one| format!("  {}: '{}' of play '{}'", one.host, one.handler, one.play)).collect(),
        ),
    ] {
        if !lines.is_empty() {
            line(title.to_owned());
            lines.into_iter().for_each(line);
        }
    }
    let is_over = journal.end.as_ref().is_some_and(|end| end.code == 0);
    if !is_over && !is_running && !header.check {
        line(format!("continue   {}", rerun::resuming(journal)));
    }
}

/// Prints the tasks of a host, or those whose name or place contains a text: arguments and results.
pub(super) fn tasks(journal: &Journal, host: Option<&str>, task: Option<&str>, printer: &Printer) -> Result<()> {
    let wanted =
        |of: &str, at: &At| host.is_none_or(|host| host == of) && task.is_none_or(|task| at.task.contains(task));
    let done: HashMap<(&str, &At), &Done> =
        journal.outcomes().into_iter().map(|done| ((done.host.as_str(), &done.at), done)).collect();
    let mut items: HashMap<(&str, &At), Vec<&ItemDone>> = HashMap::new();
    let mut args: HashMap<(&str, &At), &ObjectText> = HashMap::new();
    let mut order: IndexSet<(&str, &At)> = IndexSet::new();
    for record in &journal.records {
        let key: (&str, &At) = match record {
            Record::Sent(sent) => (&sent.host, &sent.at),
            Record::Done(done) => (&done.host, &done.at),
            Record::Item(item) => (&item.host, &item.at),
            _ => continue,
        };
        if !wanted(key.0, key.1) {
            continue;
        }
        order.insert(key);
        match record {
            Record::Sent(sent) if !sent.args.is_empty() => _ = args.insert(key, &sent.args),
            Record::Item(item) => items.entry(key).or_default().push(item),
            _ => {}
        }
    }
    if order.is_empty() {
        return Err(nothing(journal, host, task));
    }
    let line = |text: String| printer.line(&text, Color::Plain);
    let result = |result: &ObjectText, withheld: Option<Withheld>| match withheld.filter(|_| result.is_empty()) {
        Some(why) => why.reason().to_owned(),
        None => result.as_str().to_owned(),
    };
    for key in order {
        let how = done.get(&key).map_or("no answer", |done| Kind::of(done.status, done.rescuable).word());
        line(format!("{}: {}: {how}", key.0, key.1.task));
        args.get(&key).into_iter().for_each(|args| line(format!("  arguments  {}", args.as_str())));
        for item in items.get(&key).into_iter().flatten() {
            let label = item_label(&item.result.read(), item.index);
            line(format!("  item {label}  {}", result(&item.result, item.withheld)));
        }
        let whole = done.get(&key).filter(|done| done.items.is_none());
        whole.into_iter().for_each(|done| line(format!("  result     {}", result(&done.result, done.withheld))));
    }
    Ok(())
}

/// Error for a host or a task that the run did not have.
fn nothing(journal: &Journal, host: Option<&str>, task: Option<&str>) -> Error {
    let run = &journal.header.run;
    let hosts: BTreeSet<&str> = journal.outcomes().into_iter().map(|done| done.host.as_str()).collect();
    match (host, task) {
        (Some(host), _) if !hosts.contains(host) => {
            Error::usage(format!("the run {run} has no result of `{host}`")).maybe_hint(did_you_mean(host, hosts))
        }
        (_, task) => {
            let task = task.unwrap_or_default();
            Error::usage(format!("no task of the run {run} has `{task}` in its name or place"))
        }
    }
}

/// Table of the hosts with their counts, as in the recap of a run.
fn hosts(journal: &Journal) -> Vec<String> {
    let mut hosts: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for done in journal.outcomes() {
        let [ok, changed, skipped, failed] = hosts.entry(&done.host).or_default();
        match Kind::of(done.status, done.rescuable) {
            Kind::Failed | Kind::Unreachable => *failed += 1,
            Kind::Skipped => *skipped += 1,
            Kind::Rescued => {}
            Kind::Ignored | Kind::Changed | Kind::Ok => {
                *ok += 1;
                *changed += usize::from(done.status.changed);
            }
        }
    }
    let cells = |(host, counts): (&str, [usize; 4])| {
        let [ok, changed, skipped, failed] = counts.map(|count| count.to_string());
        [host.to_owned(), ok, changed, skipped, failed]
    };
    let heading = ["HOST", "OK", "CHANGED", "SKIPPED", "FAILED"].map(str::to_owned);
    table(heading, hosts.into_iter().map(cells))
}

/// A line for each failure, also of those that did not count.
fn failures(journal: &Journal) -> Vec<String> {
    // The first failed item of each loop.
    let mut items: HashMap<(&str, &At), &ItemDone> = HashMap::new();
    for record in &journal.records {
        if let Record::Item(item) = record
            && (item.status.failed || item.status.unreachable)
        {
            items.entry((&item.host, &item.at)).or_insert(item);
        }
    }
    let mut lines = Vec::new();
    for done in journal.outcomes() {
        let kind = Kind::of(done.status, done.rescuable);
        if !kind.is_bad() {
            continue;
        }
        let how = if kind.is_failure() { String::new() } else { format!(" ({})", kind.word()) };
        let message = match items.get(&(done.host.as_str(), &done.at)) {
            Some(item) => {
                let label = item_label(&item.result.read(), item.index);
                format!("item {label}: {}", message(&item.result, item.withheld))
            }
            None => message(&done.result, done.withheld),
        };
        lines.push(format!("  {}: {}{how}: {message}", done.host, done.at.task));
    }
    lines
}

fn message(result: &ObjectText, withheld: Option<Withheld>) -> String {
    match withheld.filter(|_| result.is_empty()) {
        Some(why) => why.reason().to_owned(),
        None => clipped(&first_line(&Value::Object(result.read())), MESSAGE),
    }
}

/// Tasks without an answer: they run, or a signal has stopped them.
fn unanswered(journal: &Journal) -> Vec<String> {
    let done: HashSet<(&str, &At)> =
        journal.outcomes().into_iter().map(|done: &Done| (done.host.as_str(), &done.at)).collect();
    let sent = journal.records.iter().filter_map(|record| match record {
        Record::Sent(sent) => Some(sent),
        _ => None,
    });
    let open = sent.filter(|sent| !done.contains(&(sent.host.as_str(), &sent.at)));
    open.map(|sent| format!("  {}: {}", sent.host, sent.at.task)).collect()
}
