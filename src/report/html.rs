//! A report as one HTML page that needs no network.

use indexmap::IndexMap;
use serde_json::{Map, Value as Json, json};

use super::millis;
use super::model::{HostRecap, Report};
use super::outcome::{Kind, Outcome};
use crate::error::Result;
use crate::html::{Design, Html, NAVIGATION};
use crate::output::Secrets;

const DESIGN: Design = Design {
    templates: &[("report", include_str!("report.html")), NAVIGATION],
    style: include_str!("report.css"),
    script: include_str!("report.js"),
};

/// Maximum number of outcomes on the page. Skipped and unchanged ones are left out first.
const ROWS: usize = 20_000;
/// Maximum number of failures with their texts at the top.
const FAILURES: usize = 500;
/// Maximum number of bars in the timeline.
const BARS: usize = 20_000;
/// Width of the timeline in its own units.
const WIDTH: f64 = 1000.0;
/// Maximum number of tasks listed as the slowest.
const SLOWEST: usize = 20;

const COUNTS: [&str; 7] = ["ok", "changed", "unreachable", "failed", "skipped", "rescued", "ignored"];
const KINDS: [Kind; 7] =
    [Kind::Failed, Kind::Unreachable, Kind::Rescued, Kind::Ignored, Kind::Changed, Kind::Ok, Kind::Skipped];

/// Links of a report to the pages around it. Without any, the report stands alone.
#[derive(Default)]
pub(crate) struct Around {
    /// Pages with `href`, `label` and `current`.
    pub(crate) navigation: Vec<Json>,
    /// Address of the page that shows the run while it lasts.
    pub(crate) live: Option<String>,
    /// Address of a host's page.
    pub(crate) host: Option<fn(&str) -> String>,
    /// Values to mask, in addition to those that the run masked.
    pub(crate) secrets: Secrets,
}

/// The report as an HTML page.
pub fn html(report: &Report) -> Result<String> {
    page(report, &Around::default()).map(|html| html.text)
}

/// The report as an HTML page with links.
pub(crate) fn page(report: &Report, around: &Around) -> Result<Html> {
    let shown = shown(&report.tasks);
    let rows: Vec<Json> = shown.iter().map(|(id, task)| row(*id, task)).collect();
    let failures: Vec<Json> = report.failures().take(FAILURES).map(|(id, task)| row(id, task)).collect();
    let failures_left_out = report.failures().count() - failures.len();
    let (lanes, span, bars_left_out) = lanes(report);
    let host = |recap: &HostRecap| {
        let mut value = json!(recap);
        value["href"] = around.host.map(|address| address(&recap.host)).into();
        value
    };
    let page = json!({
        "navigation": around.navigation,
        "live": around.live,
        "title": report.title(),
        "made_by": env!("CARGO_PKG_VERSION"),
        "report": {
            "run": report.run,
            "result": report.result,
            "check": report.check,
            "hosts": report.hosts.iter().map(host).collect::<Vec<_>>(),
            "unanswered": report.unanswered,
        },
        "head": head(report),
        "is_running": report.result == "running",
        "counts": COUNTS,
        "kinds": KINDS,
        "failures": failures,
        "failures_left_out": failures_left_out,
        "lanes": lanes,
        "span": span,
        "bars_left_out": bars_left_out,
        "slowest": report.slowest(SLOWEST).iter().map(|(id, task)| brief(*id, task)).collect::<Vec<_>>(),
        "changes": changes(&shown),
        "groups": groups(&shown, rows),
        "left_out": report.left_out + report.tasks.len() - shown.len(),
    });
    DESIGN.render("report", page, &around.secrets)
}

/// Outcomes that the page shows, in their order, with their numbers.
fn shown(tasks: &[Outcome]) -> Vec<(usize, &Outcome)> {
    let mut ranked: Vec<(usize, &Outcome)> = tasks.iter().enumerate().collect();
    if ranked.len() > ROWS {
        ranked.sort_by_key(|(index, task)| (task.status, *index));
        ranked.truncate(ROWS);
        ranked.sort_by_key(|(index, _)| *index);
    }
    ranked
}

fn head(report: &Report) -> Vec<(&'static str, String)> {
    let code = report.code.map(|code| format!("exit code {code}")).unwrap_or_default();
    let mut rows = report.times().to_vec();
    rows.insert(0, ("Run", report.run.clone()));
    rows.push(("Result", code));
    rows.extend(report.request());
    rows.extend([("Directory", report.directory.clone()), ("Command", shell_words::join(&report.command))]);
    rows.retain(|(_, value)| !value.is_empty());
    rows
}

/// The parts of an outcome that tables show.
fn brief(id: usize, task: &Outcome) -> Json {
    json!({"id": id, "host": task.host, "task": task.task, "place": task.place, "time": task.took.map(millis)})
}

/// An outcome as the template needs it.
fn row(id: usize, task: &Outcome) -> Json {
    let mut value = with_lines(json!(task), task.diff.as_deref());
    value.insert("id".to_owned(), id.into());
    value.insert("time".to_owned(), task.took.map(millis).into());
    value.insert("is_failure".to_owned(), task.status.is_failure().into());
    let items = task.items.iter().map(|item| {
        let mut value = with_lines(json!(item), item.diff.as_deref());
        value.insert("time".to_owned(), item.took.map(millis).into());
        value.insert("is_bad".to_owned(), item.status.is_bad().into());
        Json::Object(value)
    });
    value.insert("items".to_owned(), items.collect());
    Json::Object(value)
}

/// Adds the lines of a difference with their classes.
fn with_lines(value: Json, diff: Option<&str>) -> Map<String, Json> {
    let line = |line: &str| {
        let class = match line.as_bytes().first() {
            Some(b'+') => "add",
            Some(b'-') => "remove",
            _ => "",
        };
        json!({"text": line, "class": class})
    };
    let mut map = match value {
        Json::Object(map) => map,
        _ => Map::new(),
    };
    map.insert("diff_lines".to_owned(), diff.unwrap_or_default().lines().map(line).collect());
    map
}

/// Key of a task: play, name and place.
fn key(task: &Outcome) -> (u32, &str, Option<&str>) {
    (task.play_number, &task.task, task.place.as_deref())
}

/// Changed tasks with the hosts that they changed.
fn changes(shown: &[(usize, &Outcome)]) -> Vec<Json> {
    let mut found: IndexMap<_, Vec<Json>> = IndexMap::new();
    for (id, task) in shown.iter().filter(|(_, task)| task.status == Kind::Changed) {
        found.entry(key(task)).or_default().push(json!({"id": id, "host": task.host}));
    }
    let change = |((_, task, place), hosts)| json!({"task": task, "place": place, "hosts": hosts});
    found.into_iter().map(change).collect()
}

/// Tasks with their outcomes on all hosts.
fn groups(shown: &[(usize, &Outcome)], rows: Vec<Json>) -> Vec<Json> {
    let mut found: IndexMap<_, Vec<(&Outcome, Json)>> = IndexMap::new();
    for ((_, task), row) in shown.iter().zip(rows) {
        found.entry(key(task)).or_default().push((task, row));
    }
    let mut last = None;
    let group = |((play, name, place), rows): ((u32, &str, Option<&str>), Vec<(&Outcome, Json)>)| {
        let count = |kind: Kind| (kind.word(), rows.iter().filter(|(task, _)| task.status == kind).count());
        let counts: Vec<_> = KINDS.into_iter().map(count).filter(|(_, count)| *count > 0).collect();
        let first = rows.first().map(|(task, _)| *task);
        json!({
            "task": name,
            "place": place,
            "play": first.map(|task| &task.play),
            "new_play": last.replace(play) != Some(play),
            "action": first.map(|task| &task.action),
            "handler": first.is_some_and(|task| task.handler),
            "counts": counts,
            "rows": rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>(),
        })
    };
    found.into_iter().map(group).collect()
}

/// Bars of the timeline by host, the time they span, and the number of those not drawn.
#[expect(clippy::cast_precision_loss, reason = "durations are far below 2^52 milliseconds")]
fn lanes(report: &Report) -> (Vec<Json>, String, usize) {
    let mut timed: Vec<(usize, &Outcome, u64, u64)> = Vec::new();
    for (id, task) in report.tasks.iter().enumerate() {
        if let (Some(start), Some(took), false) = (task.start, task.took, task.restored || task.status == Kind::Skipped)
        {
            timed.push((id, task, start, took));
        }
    }
    let left_out = timed.len().saturating_sub(BARS);
    if left_out > 0 {
        timed.sort_by_key(|(id, _, _, took)| (std::cmp::Reverse(*took), *id));
        timed.truncate(BARS);
    }
    timed.sort_by_key(|(id, ..)| *id);
    let first = timed.iter().map(|(_, _, start, _)| *start).min().unwrap_or_default();
    let end = |start: u64, took: u64| start.saturating_add(took).saturating_sub(first);
    let span = timed.iter().map(|(_, _, start, took)| end(*start, *took)).max().unwrap_or_default().max(1);
    let mut lanes: IndexMap<&str, Vec<Json>> = IndexMap::new();
    for (id, task, start, took) in timed {
        let at = |time: u64| (time as f64 / span as f64 * WIDTH * 100.0).round() / 100.0;
        let x = at(start - first);
        let width = (at(took)).clamp(0.5, (WIDTH - x).max(0.5));
        let title = format!("{}: {}, {}", task.task, task.status.word(), millis(took));
        let bar = json!({"id": id, "status": task.status, "x": x, "width": width, "title": title});
        lanes.entry(&task.host).or_default().push(bar);
    }
    lanes.sort_keys();
    let lanes = lanes.into_iter().map(|(host, bars)| json!({"host": host, "bars": bars})).collect();
    (lanes, millis(span), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_parts_of_page_cannot_end_their_elements() {
        for text in [DESIGN.style, DESIGN.script] {
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
    }
}
