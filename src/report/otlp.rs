//! A report as traces of OpenTelemetry: an `ExportTraceServiceRequest` in the JSON encoding of OTLP 1.
//!
//! The ids of the trace and its spans follow from the id of the run, so a run that is exported twice is one trace.
//! Attributes have the names of the semantic conventions where these have one, and begin with `windlass.` otherwise.

use indexmap::IndexMap;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::model::{Report, instant};
use super::outcome::{Item, Kind, Outcome};

/// Maximum number of spans. Beyond it, outcomes at the end of the run are left out.
const SPANS: usize = 200_000;
/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u8 = 1;
/// `STATUS_CODE_ERROR`. Spans without a failure have no status, as the specification asks of instrumentations.
const ERROR: u8 = 2;
const TRACE_BYTES: usize = 16;
const SPAN_BYTES: usize = 8;

/// The report as one request of OTLP, on one line.
pub fn otlp(report: &Report) -> String {
    request(report, spans(report)).to_string() + "\n"
}

/// The report as requests of OTLP of at most `size` spans each.
pub(crate) fn otlp_requests(report: &Report, size: usize) -> Vec<Value> {
    let all = spans(report);
    all.chunks(size.max(1)).map(|part| request(report, part.to_vec())).collect()
}

fn request(report: &Report, spans: Vec<Value>) -> Value {
    let resource = json!({"attributes": attributes(vec![
        ("service.name", "windlass".into()),
        ("service.version", text(&report.windlass)),
        ("host.name", text(&report.machine)),
        ("user.name", text(&report.user)),
        ("process.command_args", list(&report.command)),
    ])});
    let scope = json!({"name": "windlass", "version": report.windlass});
    let scope_spans = json!([{"scope": scope, "spans": spans}]);
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": scope_spans}]})
}

/// A span before it is written.
struct Span {
    /// Path below the run, from which its id follows; empty for the run.
    path: Vec<String>,
    name: String,
    /// Start and end in milliseconds since 1970.
    time: (u64, u64),
    attributes: Vec<(&'static str, Value)>,
    /// Message of a failure.
    error: Option<String>,
}

impl Span {
    fn new(path: Vec<String>, name: &str, time: (u64, u64)) -> Span {
        Span { path, name: name.to_owned(), time, attributes: Vec::new(), error: None }
    }

    /// Extends the span so that it encloses another one.
    fn enclose(&mut self, (start, end): (u64, u64)) {
        self.time = (self.time.0.min(start), self.time.1.max(end));
    }

    /// Marks the span as failed; the first message stays.
    fn fail(&mut self, kind: Kind, message: &str) {
        if self.error.is_none() {
            self.error = Some(message.to_owned());
            self.attributes.push(("error.type", kind.word().into()));
        }
    }

    fn written(self, run: &str) -> Value {
        let parent = self.path.split_last().map(|(_, above)| id::<SPAN_BYTES>(run, above)).unwrap_or_default();
        let mut span = json!({
            "traceId": id::<TRACE_BYTES>(run, &[]),
            "spanId": id::<SPAN_BYTES>(run, &self.path),
            "parentSpanId": parent,
            "name": self.name,
            "kind": INTERNAL,
            "startTimeUnixNano": nanoseconds(self.time.0),
            "endTimeUnixNano": nanoseconds(self.time.1),
            "attributes": attributes(self.attributes),
        });
        if let Some(message) = self.error {
            span["status"] = json!({"code": ERROR, "message": message});
        }
        span
    }
}

/// Spans of the run, its plays, tasks, hosts and items, parents first.
fn spans(report: &Report) -> Vec<Value> {
    let start = instant(&report.started).unwrap_or_default();
    let mut run =
        Span::new(Vec::new(), &report.title(), (start, start.saturating_add(report.took.unwrap_or_default())));
    run.attributes = of_run(report);
    let mut groups: IndexMap<Vec<String>, Span> = IndexMap::new();
    let mut leaves = Vec::new();
    let mut left_out = report.left_out;
    // An outcome of the resumed run belongs to the trace of that run.
    let own = report.tasks.iter().enumerate().filter(|(_, outcome)| !outcome.restored);
    for (number, outcome) in own {
        let Some(time) = span_of(outcome.start, outcome.took) else { continue };
        // Times are rounded to milliseconds, so an item may seem to begin before its task.
        let of_items = outcome.items.iter().filter_map(|item| span_of(item.start, item.took));
        let time = of_items.fold(time, |(start, end), item| (start.min(item.0), end.max(item.1)));
        if leaves.len() + outcome.items.len() + groups.len() + 4 > SPANS {
            left_out += 1;
            continue;
        }
        let play = vec![outcome.play_number.to_string()];
        let at = format!("{} {}", outcome.task, outcome.place.as_deref().unwrap_or_default());
        let task = vec![outcome.play_number.to_string(), at];
        let host = [task.clone(), vec![format!("{number} {}", outcome.host)]].concat();
        for (path, name) in [(play, &outcome.play), (task, &outcome.task)] {
            let group = groups.entry(path.clone()).or_insert_with(|| {
                let mut span = Span::new(path.clone(), name, time);
                span.attributes = if path.len() == 1 { vec![("windlass.play", text(name))] } else { of_task(outcome) };
                span
            });
            group.enclose(time);
            if outcome.status.is_failure() {
                group.fail(outcome.status, &format!("{} on {}", outcome.status.word(), outcome.host));
            }
        }
        run.enclose(time);
        leaves.push(of_host(outcome, host.clone(), time));
        leaves.extend(outcome.items.iter().enumerate().filter_map(|(index, item)| of_item(item, index, &host)));
    }
    if report.result != "ok" && report.result != "running" {
        run.error = Some(format!("the run is {}", report.result));
        run.attributes.push(("error.type", report.result.into()));
    }
    if left_out > 0 {
        run.attributes.push(("windlass.left_out", number(left_out as u64)));
    }
    let mut all = vec![run];
    all.extend(groups.into_values());
    all.extend(leaves);
    all.sort_by_key(|span| span.path.len());
    all.into_iter().map(|span| span.written(&report.run)).collect()
}

fn of_run(report: &Report) -> Vec<(&'static str, Value)> {
    let result = match report.result {
        "ok" => "success",
        "failed" => "failure",
        "interrupted" => "cancellation",
        "killed" => "error",
        _ => "",
    };
    let mut attributes = vec![
        ("cicd.pipeline.name", text(&report.title())),
        ("cicd.pipeline.run.id", text(&report.run)),
        ("windlass.check", report.check.into()),
        ("windlass.playbooks", list(&report.playbooks)),
        ("windlass.inventory", list(&report.inventory)),
    ];
    if !result.is_empty() {
        attributes.push(("cicd.pipeline.result", result.into()));
    }
    attributes.extend(report.code.map(|code| ("process.exit.code", number(code.into()))));
    attributes
}

fn of_task(outcome: &Outcome) -> Vec<(&'static str, Value)> {
    let mut attributes = vec![
        ("cicd.pipeline.task.name", text(&outcome.task)),
        ("windlass.action", text(&outcome.action)),
        ("windlass.handler", outcome.handler.into()),
    ];
    if let Some((file, line)) = outcome.place.as_deref().and_then(|place| place.rsplit_once(':')) {
        attributes.push(("code.file.path", text(file)));
        attributes.extend(line.parse().ok().map(|line| ("code.line.number", number(line))));
    }
    attributes
}

fn of_host(outcome: &Outcome, path: Vec<String>, time: (u64, u64)) -> Span {
    let mut span = Span::new(path, &outcome.host, time);
    span.attributes = vec![
        ("host.name", text(outcome.delegate.as_deref().unwrap_or(&outcome.host))),
        ("windlass.host", text(&outcome.host)),
        ("windlass.status", outcome.status.word().into()),
        ("windlass.changed", outcome.changed.into()),
    ];
    if outcome.status.is_bad() {
        span.fail(outcome.status, outcome.message.as_deref().unwrap_or_default());
    }
    span
}

fn of_item(item: &Item, index: usize, host: &[String]) -> Option<Span> {
    let path = [host, &[index.to_string()]].concat();
    let mut span = Span::new(path, &item.label, span_of(item.start, item.took)?);
    span.attributes = vec![("windlass.item", text(&item.label)), ("windlass.status", item.status.word().into())];
    if item.status.is_bad() {
        span.fail(item.status, item.message.as_deref().unwrap_or_default());
    }
    Some(span)
}

/// Start and end; `None` for what was not timed.
fn span_of(start: Option<u64>, took: Option<u64>) -> Option<(u64, u64)> {
    let start = start?;
    Some((start, start.saturating_add(took.unwrap_or_default())))
}

/// Hexadecimal id of a trace or span.
fn id<const BYTES: usize>(run: &str, path: &[String]) -> String {
    let mut hash = Sha256::new();
    for part in std::iter::once(run).chain(path.iter().map(String::as_str)) {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().get(..BYTES).map(hex::encode).unwrap_or_default()
}

/// 64-bit numbers are texts in JSON of protocol buffers.
fn nanoseconds(milliseconds: u64) -> String {
    milliseconds.saturating_mul(1_000_000).to_string()
}

fn number(value: u64) -> Value {
    json!({"number": value.to_string()})
}

fn text(value: &str) -> Value {
    value.into()
}

fn list(values: &[String]) -> Value {
    values.into()
}

/// Attributes as OTLP writes them: each value names its type.
fn attributes(pairs: Vec<(&'static str, Value)>) -> Value {
    let typed = |value: Value| match value {
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Array(values) => {
            let values: Vec<Value> = values.into_iter().map(|value| json!({"stringValue": value})).collect();
            json!({"arrayValue": {"values": values}})
        }
        Value::Object(mut number) => json!({"intValue": number.remove("number")}),
        value => json!({"stringValue": value}),
    };
    pairs.into_iter().map(|(key, value)| json!({"key": key, "value": typed(value)})).collect()
}
