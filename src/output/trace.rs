//! `--trace FILE`: writes a timeline of every host in Chrome's trace event format.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::masked::Masked;
use super::printer::written;
use super::{Event, Output, Spending};
use crate::error::{Error, Result};

/// Writes the file as events arrive. Every host is a process of the trace. Its tasks are one row; their parts are on
/// other rows, because tasks sent ahead overlap.
pub(super) struct Trace {
    path: PathBuf,
    file: BufWriter<File>,
    start: Instant,
    hosts: HashMap<Arc<str>, usize>,
    /// Running tasks of hosts.
    running: HashMap<Arc<str>, (String, Instant)>,
    written: u64,
    broken: bool,
}

impl Trace {
    pub(super) fn new(path: &Path) -> Result<Trace> {
        let file = File::create(path)
            .map_err(|error| Error::new(format!("the trace {} cannot be written: {error}", path.display())))?;
        Ok(Trace {
            path: path.to_owned(),
            file: BufWriter::new(file),
            start: Instant::now(),
            hosts: HashMap::new(),
            running: HashMap::new(),
            written: 0,
            broken: false,
        })
    }

    fn write(&mut self, entry: &Value) {
        let before = if self.written == 0 { "[" } else { "," };
        let text = entry.to_string();
        self.written += 1;
        self.note(|file| writeln!(file, "{before}{text}"));
    }

    fn note(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) {
        if self.broken {
            return;
        }
        if let Err(error) = write(&mut self.file) {
            self.broken = true;
            written(&format!("the trace {}", self.path.display()), Err(error));
        }
    }

    /// Process number of a host.
    fn process(&mut self, host: &Arc<str>) -> usize {
        if let Some(process) = self.hosts.get(host) {
            return *process;
        }
        let process = self.hosts.len() + 1;
        self.hosts.insert(Arc::clone(host), process);
        self.write(&json!({"ph": "M", "name": "process_name", "pid": process, "tid": 1, "args": {"name": &**host}}));
        process
    }

    fn at(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.start).as_micros()).unwrap_or(u64::MAX)
    }

    /// Writes a part of a task, which may overlap with parts of other tasks.
    fn part(&mut self, host: &Arc<str>, task: &str, what: &str, from: Instant, time: Duration, more: Value) {
        if time.is_zero() {
            return;
        }
        let process = self.process(host);
        let (begin, end) = (self.at(from), self.at(from + time));
        let id = self.written;
        let mut entry = |phase: &str, ts: u64, args: &Value| {
            self.write(&json!({
                "ph": phase, "cat": what, "name": format!("{what}: {task}"), "id": id, "pid": process, "tid": 1, "ts": ts, "args": args
            }));
        };
        entry("b", begin, &more);
        entry("e", end, &Value::Null);
    }
}

impl Output for Trace {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::HostStart { host, name, .. } => {
                self.running.insert(Arc::clone(host), (name.clone(), Instant::now()));
            }
            Event::Spent { host, task, start, on } => {
                let name = event.label_of(task);
                match on {
                    Spending::Template(time) => self.part(host, &name, "template", *start, *time, Value::Null),
                    Spending::Request(cost) => {
                        self.part(host, &name, "connect", *start, cost.connect, Value::Null);
                        let sent = *start + cost.connect;
                        let counts =
                            json!({"round_trips": cost.round_trips, "sent": cost.sent, "received": cost.received});
                        self.part(host, &name, "request", sent, cost.total, counts);
                        // The exact time on the host is unknown, so both directions are assumed to take equally long.
                        let (waited, ran) =
                            (Duration::from_micros(cost.spent.waited), Duration::from_micros(cost.spent.ran));
                        let way = cost.total.saturating_sub(waited + ran) / 2;
                        self.part(host, &name, "module", sent + way + waited, ran, Value::Null);
                    }
                }
            }
            Event::Result(result) if result.item.is_none() => {
                let Some((name, since)) = self.running.remove(&result.name) else { return };
                let process = self.process(&result.name);
                let time = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
                let status = format!("{:?}", result.status);
                let at = self.at(since);
                self.write(&json!({
                    "ph": "X", "cat": "task", "name": name, "pid": process, "tid": 1, "ts": at, "dur": time, "args": {"status": status}
                }));
            }
            Event::End => {
                let end = if self.written == 0 { "[]" } else { "]" };
                self.note(|file| writeln!(file, "{end}").and_then(|()| file.flush()));
            }
            _ => {}
        }
    }
}
