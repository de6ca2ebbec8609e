//! Output independent of the stdout callback: warnings, questions, live output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::masked::Masked;
use super::palette::Color;
use super::printer::Printer;
use super::{Event, Output};
use crate::settings::Settings;

/// Prints warnings, questions and live output.
pub(super) struct Screen {
    printer: Printer,
    deprecations: bool,
    live: bool,
    /// Label and start of each host's running task.
    running: BTreeMap<Arc<str>, (String, Instant)>,
}

impl Screen {
    pub(super) fn new(printer: Printer, settings: &Settings, live: bool) -> Screen {
        let printer = printer.with_verbosity(settings.verbosity, settings.log_verbosity);
        Screen { printer, deprecations: settings.deprecation_warnings, live, running: BTreeMap::new() }
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
