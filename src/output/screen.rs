//! Output independent of the stdout callback: warnings, questions, live output, and who is waited for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::footer::{self, Follow, Progress};
use super::lines::TaskLines;
use super::masked::Masked;
use super::printer::Printer;
use super::{Event, Output};
use crate::settings::{Color, Live, Progress as Shown, Settings, Show};

/// Interval at which the silence of a run is measured.
const WATCH: Duration = Duration::from_secs(1);

/// Prints warnings, questions and live output. Shows who is waited for: in a footer at a terminal, or in lines.
pub(super) struct Screen {
    printer: Printer,
    deprecations: bool,
    live: bool,
    /// Silence after which a line names the running tasks; `None` prints none.
    patience: Option<Duration>,
    has_footer: bool,
    progress: Arc<Mutex<Progress>>,
    lines: TaskLines,
    /// Whether live output stands below the title of its task, which only printed results have.
    titles: bool,
}

impl Screen {
    pub(super) fn new(printer: Printer, settings: &Settings, lines: &TaskLines) -> Screen {
        let printer = printer.with_verbosity(settings.verbosity, settings.output.log_verbosity);
        let patience = settings.output.progress_interval.filter(|_| settings.output.progress != Shown::None);
        let deprecations = settings.deprecation_warnings;
        let follow = match settings.output.live {
            Live::All => Follow::All,
            Live::Slowest => Follow::Longest,
            Live::None => Follow::Nobody,
        };
        let live = follow != Follow::Nobody;
        let progress = Arc::new(Mutex::new(Progress::following(follow)));
        let titles = settings.output.show.is_some_and(|show| show != Show::All);
        Screen { printer, deprecations, live, patience, has_footer: false, progress, lines: lines.clone(), titles }
    }

    /// Shows output of a running command.
    fn show_live(&self, host: &str, bytes: &[u8]) {
        let task = self.progress().running().get(host).map(|running| running.id());
        if let Some(task) = task.filter(|_| self.titles) {
            self.lines.print_title(task, &self.printer);
        }
        for line in String::from_utf8_lossy(bytes).lines() {
            self.printer.live_line(host, line);
            self.lines.count_live(host);
        }
    }

    /// Adds the footer, if there is a terminal for it.
    pub(super) fn with_footer(mut self) -> Screen {
        self.has_footer = footer::start(&self.progress, &self.printer);
        self
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the tasks that a signal stops, with their hosts.
    fn interrupted(&self, signal: &str) {
        let say = |text: &str| self.printer.error_line(text, Color::Error);
        // Printing draws the footer, which locks the progress.
        let stopped: Vec<String> = self
            .progress()
            .running()
            .iter()
            .map(|(host, task)| {
                let state = match task.waits_for_lock {
                    true => "it waited for the lock of the host and did not begin",
                    false => "it may be half done",
                };
                format!("  {host}: {} (for {} s; {state})", task.name, task.since.elapsed().as_secs())
            })
            .collect();
        if stopped.is_empty() {
            return say(&format!("[ERROR]: {signal}: the run ends here. No task was running."));
        }
        say(&format!("[ERROR]: {signal}: the run ends here. Stopping:"));
        stopped.iter().for_each(|line| say(line));
    }
}

impl Output for Screen {
    fn wants_live(&self) -> bool {
        // The footer's keys can switch live output on.
        self.live || self.has_footer
    }

    fn interval(&self) -> Option<Duration> {
        if self.has_footer { Some(footer::TICK) } else { self.patience.map(|_| WATCH) }
    }

    fn tick(&mut self) {
        if self.has_footer {
            return footer::redraw();
        }
        if self.patience.is_some_and(|patience| footer::silence() >= patience) && !footer::is_asking() {
            let report = self.progress().report();
            report.into_iter().for_each(|line| self.printer.error_line(&line, Color::Verbose));
        }
    }

    fn event(&mut self, event: &Masked) {
        self.progress().event(event);
        match &**event {
            Event::Interrupted { signal } => self.interrupted(signal),
            Event::Warning(sentence) => self.printer.warning(sentence),
            Event::Deprecation(sentence) if self.deprecations => self.printer.deprecation(sentence),
            Event::Notice(text) => self.printer.line(text, Color::Plain),
            Event::Verbose { level, text } => self.printer.verbose(*level, text),
            Event::Banner(text) => self.printer.banner(text),
            Event::Printed { host: Some(host), line } => self.printer.live_line(host, line),
            Event::Printed { host: None, line } => self.printer.error_line(line, Color::Plain),
            Event::Prompt { text, .. } => self.printer.prompt(text),
            Event::Live { host, bytes } if self.progress().follows(host) => self.show_live(host, bytes),
            Event::HostStart { host, .. } => self.lines.forget_live(host),
            Event::Retry { host, .. } => self.lines.forget_live(host),
            Event::End if self.has_footer => footer::end_footer(),
            _ => {}
        }
    }
}
