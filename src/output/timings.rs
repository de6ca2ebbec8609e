//! `--timings`: prints a per-task breakdown of time at the end.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use indexmap::IndexMap;

use super::masked::Masked;
use super::printer::Printer;
use super::python::Costs;
use super::{Event, Output, Spending};
use crate::error::Result;
use crate::executor::Cost;
use crate::foreign::PythonPlugins;
use crate::settings::Color;

const HEADINGS: [&str; 10] =
    ["connect", "template", "wire", "module", "wait", "trips", "sent", "received", "total", "task"];

/// Sums the times that hosts spent on each task.
pub(super) struct Timings {
    printer: Printer,
    tasks: IndexMap<u64, Row>,
    /// Start of each host's running task, and how much of its time is accounted for.
    running: HashMap<Arc<str>, (Instant, Duration)>,
    /// Time spent in callbacks in Python.
    callbacks: Costs,
    /// The other plugins in Python, which know what they cost.
    plugins: Option<Arc<PythonPlugins>>,
}

/// Sums over the hosts of a task, except for the total, which is wall-clock time.
#[derive(Default)]
struct Row {
    name: String,
    connect: Duration,
    template: Duration,
    wire: Duration,
    module: Duration,
    wait: Duration,
    round_trips: u64,
    sent: u64,
    received: u64,
    /// Hosts that run the task now, since when the first of them does, and the total before that.
    running: usize,
    began: Option<Instant>,
    before: Duration,
    total: Duration,
}

impl Row {
    fn add(&mut self, cost: &Cost) -> Duration {
        let module = Duration::from_micros(cost.spent.ran);
        let wire = cost.total.saturating_sub(module + Duration::from_micros(cost.spent.waited));
        self.connect += cost.connect;
        self.wire += wire;
        self.module += module;
        self.round_trips += cost.round_trips;
        self.sent += cost.sent;
        self.received += cost.received;
        cost.connect + wire + module
    }

    fn cells(&self) -> [String; 10] {
        [
            milliseconds(self.connect),
            milliseconds(self.template),
            milliseconds(self.wire),
            milliseconds(self.module),
            milliseconds(self.wait),
            self.round_trips.to_string(),
            self.sent.to_string(),
            self.received.to_string(),
            milliseconds(self.total),
            self.name.clone(),
        ]
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

impl Timings {
    pub(super) fn new(printer: &Printer, callbacks: Costs) -> Timings {
        Timings { printer: printer.clone(), tasks: IndexMap::new(), running: HashMap::new(), callbacks, plugins: None }
    }

    fn show(&mut self) {
        let mut all = Row { name: "all tasks".to_owned(), ..Row::default() };
        for row in self.tasks.values() {
            all.connect += row.connect;
            all.template += row.template;
            all.wire += row.wire;
            all.module += row.module;
            all.wait += row.wait;
            all.round_trips += row.round_trips;
            all.sent += row.sent;
            all.received += row.received;
            all.total += row.total;
        }
        self.printer.banner("TIMINGS");
        self.printer.line("milliseconds, added up over all hosts, except for the total; bytes", Color::Plain);
        let rows: Vec<[String; 10]> = std::iter::once(HEADINGS.map(str::to_owned))
            .chain(self.tasks.values().chain([&all]).map(Row::cells))
            .collect();
        for [name @ .., task] in &rows {
            let line: String = name.iter().map(|cell| format!("{cell:>10} ")).collect();
            self.printer.line(&format!("{line} {task}"), Color::Plain);
        }
        // Tasks do not wait for callbacks.
        let callbacks = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner);
        self.show_plugins("callbacks in Python, beside the tasks", ["events", "callback"], &callbacks);
        let others = self.plugins.as_ref().map(|plugins| plugins.costs()).unwrap_or_default();
        self.show_plugins("vars and cache plugins in Python", ["calls", "plugin"], &others);
    }

    /// Prints the cost of plugins in Python.
    fn show_plugins(&self, title: &str, [count, name]: [&str; 2], costs: &[(String, Duration, u64)]) {
        if costs.is_empty() {
            return;
        }
        self.printer.line(&format!("\n{title}; milliseconds with their start"), Color::Plain);
        self.printer.line(&format!("{:>10} {count:>10}  {name}", "time"), Color::Plain);
        for (name, spent, count) in costs {
            self.printer.line(&format!("{:>10} {count:>10}  {name}", milliseconds(*spent)), Color::Plain);
        }
    }
}

impl Output for Timings {
    fn plugins(&mut self, plugins: &Arc<PythonPlugins>) -> Result<()> {
        self.plugins = Some(Arc::clone(plugins));
        Ok(())
    }

    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::TaskStart { task, name, .. } => {
                self.tasks.entry(task.id).or_insert_with(|| Row { name: name.clone(), ..Row::default() });
            }
            Event::HostStart { host, task, .. } => {
                if let Some(row) = self.tasks.get_mut(&task.id) {
                    if row.running == 0 {
                        (row.began, row.before) = (Some(Instant::now()), row.total);
                    }
                    row.running += 1;
                }
                self.running.insert(Arc::clone(host), (Instant::now(), Duration::ZERO));
            }
            Event::Spent { host, task, on, .. } => {
                let Some(row) = self.tasks.get_mut(&task.id) else { return };
                let known = match on {
                    Spending::Template(time) => {
                        row.template += *time;
                        *time
                    }
                    Spending::Request(cost) => row.add(cost),
                };
                if let Some((_, accounted)) = self.running.get_mut(host) {
                    *accounted += known;
                }
            }
            Event::Result(result) if result.item.is_none() => {
                let Some((since, accounted)) = self.running.remove(&result.name) else { return };
                let Some(row) = self.tasks.get_mut(&result.task.id) else { return };
                row.wait += since.elapsed().saturating_sub(accounted);
                row.running = row.running.saturating_sub(1);
                row.total = row.before + row.began.unwrap_or(since).elapsed();
            }
            Event::End => self.show(),
            _ => {}
        }
    }
}
