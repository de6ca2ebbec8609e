//! Output independent of the stdout callback: warnings, questions, live output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::masked::Masked;
use super::palette::Color;
use super::printer::Printer;
use super::{Event, Output};
use crate::settings::Settings;

/// Maximum number of hosts in a line about running tasks.
const WAITED_FOR: usize = 5;

/// Seconds as `1h2m3s`.
fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Prints warnings, questions and live output.
pub(super) struct Screen {
    printer: Printer,
    deprecations: bool,
    live: bool,
    /// Interval of lines about running tasks.
    interval: Duration,
    /// Label and start of each host's running task.
    running: BTreeMap<Arc<str>, (String, Instant)>,
}

impl Screen {
    pub(super) fn new(printer: Printer, settings: &Settings, live: bool) -> Screen {
        let printer = printer.with_verbosity(settings.verbosity, settings.log_verbosity);
        let interval = settings.progress_interval.unwrap_or_default();
        Screen { printer, deprecations: settings.deprecation_warnings, live, interval, running: BTreeMap::new() }
    }

    /// Lists the tasks that a signal stops, with their hosts.
    fn interrupted(&self, signal: &str) {
        let say = |text: &str| self.printer.error_line(text, Color::Error);
        if self.running.is_empty() {
            return say(&format!("[ERROR]: {signal}: the run ends here. No task was running."));
        }
        say(&format!("[ERROR]: {signal}: the run ends here. Stopping:"));
        for (host, (task, since)) in &self.running {
            say(&format!("  {host}: {task} (for {} s; it may be half done)", since.elapsed().as_secs()));
        }
    }
}

impl Output for Screen {
    fn wants_live(&self) -> bool {
        self.live
    }

    fn tick(&mut self) {
        let mut slow: Vec<_> = self.running.iter().filter(|(_, (_, since))| since.elapsed() >= self.interval).collect();
        if slow.is_empty() {
            return;
        }
        slow.sort_by_key(|(_, (_, since))| *since);
        let one = |(host, (task, since)): &(&Arc<str>, &(String, Instant))| {
            format!("{host} {} ({task})", duration(since.elapsed().as_secs()))
        };
        let shown: Vec<String> = slow.iter().take(WAITED_FOR).map(one).collect();
        let more = slow.len().saturating_sub(WAITED_FOR);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        self.printer.error_line(&format!("[WAITING]: {}{rest}", shown.join(", ")), Color::Verbose);
    }

    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::HostStart { host, name, .. } => {
                self.running.insert(Arc::clone(host), (name.clone(), Instant::now()));
            }
            Event::Result(result) if result.item.is_none() => {
                self.running.remove(&result.name);
            }
            Event::Interrupted { signal } => self.interrupted(signal),
            Event::Warning(sentence) => self.printer.warning(sentence),
            Event::Deprecation(sentence) if self.deprecations => self.printer.deprecation(sentence),
            Event::Notice(text) => self.printer.line(text, Color::Plain),
            Event::Verbose { level, text } => self.printer.verbose(*level, text),
            Event::Banner(text) => self.printer.banner(text),
            Event::Prompt { text, .. } => self.printer.prompt(text),
            Event::Live { host, bytes } if self.live => {
                for line in String::from_utf8_lossy(bytes).lines() {
                    self.printer.error_line(&format!("[{host}] {line}"), Color::Verbose);
                }
            }
            _ => {}
        }
    }
}
