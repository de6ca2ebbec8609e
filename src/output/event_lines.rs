//! `--events`: JSON lines for programs that follow a run. docs/reference/events.md describes them.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::{Map, Value, json};

use super::event::path_of;
use super::failures::first_line;
use super::json::python_json_as_is;
use super::masked::{Masked, Shown};
use super::printer::written;
use super::{Event, JobState, Output, ResultEvent, Status};
use crate::error::{Error, Result};
use crate::settings::EventsTo;

/// Version of the format.
pub const EVENTS_VERSION: u32 = 1;

impl EventsTo {
    /// Opens the destination. `None` if nobody reads it any more.
    fn open(&self) -> Result<Option<Box<dyn Write + Send>>> {
        let (path, options) = match self {
            EventsTo::Descriptor(1) => return Ok(Some(Box::new(std::io::stdout()))),
            EventsTo::Descriptor(2) => return Ok(Some(Box::new(std::io::stderr()))),
            EventsTo::Descriptor(number) => (PathBuf::from(format!("/dev/fd/{number}")), OpenOptions::new()),
            EventsTo::File(path) => {
                let mut options = OpenOptions::new();
                options.create(true).truncate(true);
                (path.clone(), options)
            }
        };
        match self.open_at(&path, options) {
            Ok(file) => Ok(Some(Box::new(file))),
            // A closed reader stops no run, as with standard output.
            Err(error) if matches!(self, EventsTo::Descriptor(_)) && is_without_reader(&path, &error) => Ok(None),
            Err(error) => Err(self.failure(&path, &error)),
        }
    }

    fn open_at(&self, path: &Path, mut options: OpenOptions) -> std::io::Result<File> {
        match self {
            EventsTo::Descriptor(_) => options.append(true),
            EventsTo::File(_) => options.write(true),
        };
        // Opening a pipe without a reader would wait for one.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let file = options.custom_flags(flags).open(path)?;
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
        Ok(file)
    }

    fn failure(&self, path: &Path, error: &std::io::Error) -> Error {
        let is_socket = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
        match self {
            EventsTo::Descriptor(number) if is_socket => {
                Error::usage(format!("--events cannot write to descriptor {number}, which is a socket"))
                    .hint("pass the end of a pipe, or a file")
            }
            EventsTo::Descriptor(number) => Error::usage(format!(
                "--events cannot write to descriptor {number}: {error}"
            ))
            .hint(format!("open it for the command, such as `{number}>events.jsonl`; a file is named ./{number}")),
            EventsTo::File(path) => {
                let error = Error::new(format!("the events cannot be written to {}: {error}", path.display()));
                let is_pipe = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
                if is_pipe { error.hint("start the reader of the pipe first") } else { error }
            }
        }
    }
}

fn is_without_reader(path: &Path, error: &std::io::Error) -> bool {
    let is_pipe = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
    is_pipe && error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
}

/// Writes events as they arrive. A slow reader delays the run within the limits of the queue, as with standard output.
pub(super) struct EventLines {
    /// `None` once the reader has gone away or writing has failed.
    file: Option<Box<dyn Write + Send>>,
    plays: u32,
}

impl EventLines {
    pub(super) fn new(to: &EventsTo, check: bool) -> Result<EventLines> {
        let mut lines = EventLines { file: to.open()?, plays: 0 };
        let about = json!({
            "version": EVENTS_VERSION,
            "windlass": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "check": check,
        });
        lines.write("start", about);
        Ok(lines)
    }

    fn write(&mut self, event: &str, fields: Value) {
        let Some(file) = &mut self.file else { return };
        let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
        let mut line = Map::new();
        line.insert("event".to_owned(), event.into());
        line.insert("time".to_owned(), time.into());
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        let text = python_json_as_is(&Value::Object(line)) + "\n";
        if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.flush()) {
            self.file = None;
            if error.kind() != ErrorKind::BrokenPipe {
                written("the stream of events", Err(error));
            }
        }
    }

    fn result(&mut self, event: &ResultEvent<Shown>, name: String) {
        let (status, ignored) = match event.status {
            Status::Ok if event.result.changed() => ("changed", false),
            Status::Ok => ("ok", false),
            Status::Skipped => ("skipped", false),
            Status::Failed { ignored } => ("failed", ignored),
            Status::Unreachable { ignored } => ("unreachable", ignored),
        };
        let mut fields = json!({
            "task": event.task.id,
            "name": name,
            "host": &*event.name,
            "status": status,
            "changed": event.result.changed(),
            "ignored": ignored,
            "no_log": event.no_log,
        });
        let mut add = |key: &str, value: Value| fields[key] = value;
        if *event.host != *event.name {
            add("label", event.host.as_str().into());
        }
        if matches!(status, "failed" | "unreachable") {
            add("message", first_line(event.result.json()).into());
        }
        if let Some(report) = &event.report {
            add("report", report.as_str().into());
        }
        if let Some(item) = &event.item {
            add("item", item.as_str().into());
        }
        add("result", shown(event.result.json(), event.looped));
        self.write(if event.item.is_some() { "item" } else { "result" }, fields);
    }
}

/// A result without internal keys, arguments, and items, which have lines of their own.
fn shown(result: &Value, looped: bool) -> Value {
    let entries = result.as_object().into_iter().flatten();
    let kept =
        entries.filter(|(key, _)| !key.starts_with('_') && *key != "invocation" && !(looped && *key == "results"));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

impl Output for EventLines {
    fn event(&mut self, event: &Masked) {
        if self.file.is_none() {
            return;
        }
        match &**event {
            Event::Recorded { run } => self.write("journal", json!({"run": run})),
            Event::PlaybookStart { path, .. } => self.write("playbook", json!({"path": path})),
            Event::PlayStart { name, path, check, .. } => {
                let play = self.plays;
                self.plays += 1;
                self.write("play", json!({"play": play, "name": name, "place": path, "check": check}));
            }
            Event::NoHostsMatched => self.write("no_hosts", json!({"reason": "matched"})),
            Event::NoHostsLeft => self.write("no_hosts", json!({"reason": "left"})),
            Event::TaskStart { task, name, check, .. } => {
                let fields = json!({
                    "task": task.id,
                    "name": name,
                    "action": task.action,
                    "place": path_of(task),
                    "handler": task.handler,
                    "check": check,
                });
                self.write("task", fields);
            }
            Event::HostStart { host, name, handler, .. } => {
                self.write("host", json!({"host": &**host, "name": name, "handler": handler}));
            }
            Event::Result(result) => self.result(result, event.label_of(&result.task)),
            Event::Rescued { host, task } => self.write("rescued", json!({"host": &**host, "task": task})),
            Event::Retry { host, task, left, result, .. } => {
                let result = shown(result.json(), false);
                self.write("retry", json!({"host": host, "name": task, "left": left, "result": result}));
            }
            Event::Job { host, id, state, .. } => {
                let state = match state {
                    JobState::Polled { .. } => "polled",
                    JobState::Ok => "ok",
                    JobState::Failed => "failed",
                };
                self.write("job", json!({"host": host, "id": id, "state": state}));
            }
            Event::Included { task, what, hosts, item } => {
                self.write("included", json!({"task": task.id, "what": what, "hosts": hosts, "item": item}));
            }
            Event::Live { host, bytes } => {
                self.write("output", json!({"host": host, "text": String::from_utf8_lossy(bytes)}));
            }
            Event::Warning(text) => self.write("warning", json!({"text": text})),
            Event::Deprecation(text) => self.write("deprecation", json!({"text": text})),
            Event::Prompt { text, .. } => self.write("prompt", json!({"text": text})),
            Event::Interrupted { signal } => self.write("interrupted", json!({"signal": signal})),
            Event::Recap(recap) => {
                let hosts = recap.hosts.iter().map(|(host, stats)| (host.to_string(), stats.to_json()));
                self.write("recap", json!({"hosts": hosts.collect::<Map<_, _>>()}));
            }
            Event::Error { message, place } => self.write("error", json!({"message": message, "place": place})),
            Event::Exit { code } => self.write("end", json!({"code": code})),
            Event::Spent { .. }
            | Event::Lock { .. }
            | Event::Notified { .. }
            | Event::Forecast(_)
            | Event::Notice(_)
            | Event::Printed { .. }
            | Event::Verbose { .. }
            | Event::IncludeResult(_)
            | Event::Banner(_)
            | Event::End => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_name_a_descriptor() {
        assert_eq!(EventsTo::of("3"), EventsTo::Descriptor(3));
        for text in ["./3", "+3", "3.jsonl", "-", ""] {
            assert_eq!(EventsTo::of(text), EventsTo::File(PathBuf::from(text)));
        }
    }

    #[test]
    fn pipe_without_reader_is_no_error() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let number = std::os::fd::AsRawFd::as_raw_fd(&writer);
        let mut lines = EventLines::new(&EventsTo::of(&number.to_string()), false).unwrap();
        lines.write("x", Value::Null);
        assert!(lines.file.is_none());
    }
}
