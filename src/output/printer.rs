//! The way to the terminal: colours, and secrets masked in text that is no event.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::log::Log;
use super::palette::{Color, Palette};
use super::printable::printable;
use super::secrets::Secrets;

/// Writes lines, coloured and masked.
#[derive(Debug, Clone)]
pub struct Printer {
    color: bool,
    palette: Arc<Palette>,
    secrets: Secrets,
    /// Whether text is masked. Text that callbacks render from events is not, because events are masked before.
    masks: bool,
    /// Sentences that are said once, whoever says them.
    said: Arc<Mutex<HashSet<String>>>,
    log: Option<Arc<Log>>,
    /// How many `-v` there are for the terminal, and for the log file.
    verbosity: (u8, u8),
}

impl Printer {
    /// A printer that masks these secrets.
    pub fn new(color: bool, secrets: Secrets) -> Printer {
        Printer {
            color,
            palette: Arc::default(),
            secrets,
            masks: true,
            said: Arc::default(),
            log: None,
            verbosity: (0, 0),
        }
    }

    /// A printer for text that is rendered from masked events.
    pub(super) fn without_masking(&self) -> Printer {
        Printer { masks: false, ..self.clone() }
    }

    /// The text with secrets masked and control characters escaped.
    fn safe(&self, text: &str) -> String {
        let masked = if self.masks { self.secrets.masked(text) } else { Cow::Borrowed(text) };
        printable(&masked).into_owned()
    }

    /// With the colours of the settings.
    pub fn with_palette(mut self, palette: &Palette) -> Printer {
        self.palette = Arc::new(palette.clone());
        self
    }

    /// Shows this much, and logs as much (`log_verbosity`) whatever is shown.
    pub fn with_verbosity(mut self, shown: u8, logged: Option<u8>) -> Printer {
        self.verbosity = (shown, logged.unwrap_or(shown));
        self
    }

    /// Writes everything that is shown into this file, too (`log_path`).
    pub fn with_log(mut self, path: &Path) -> Printer {
        match Log::open(path) {
            Ok(log) => self.log = Some(Arc::new(log)),
            Err(error) => {
                self.warning(&format!(
                    "log file at '{}' is not writeable and we cannot create it, aborting: {error}",
                    path.display()
                ));
            }
        }
        self
    }

    /// The secrets it masks.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// A text in a colour, if colours are used.
    pub fn paint(&self, text: &str, color: Color) -> String {
        if !self.color || color == Color::Plain || text.is_empty() {
            return text.to_owned();
        }
        let lines: Vec<String> =
            text.split('\n').map(|line| format!("\u{1b}[{}m{line}\u{1b}[0m", self.palette.code(color))).collect();
        lines.join("\n")
    }

    /// A line on standard output.
    pub fn line(&self, text: &str, color: Color) {
        let text = self.safe(text);
        self.logged(&text);
        written("standard output", writeln!(std::io::stdout().lock(), "{}", self.paint(&text, color)));
    }

    /// Whether lines that need this many `-v` go anywhere.
    pub fn wants(&self, level: u8) -> bool {
        self.verbosity.0 >= level || (self.log.is_some() && self.verbosity.1 >= level)
    }

    /// A line that needs this many `-v`.
    pub fn verbose(&self, level: u8, text: &str) {
        if self.verbosity.0 >= level {
            self.line(text, Color::Verbose);
        } else if self.verbosity.1 >= level {
            self.logged(&self.safe(text));
        }
    }

    /// A line on standard error or standard output.
    pub fn line_to(&self, stderr: bool, text: &str, color: Color) {
        if stderr { self.error_line(text, color) } else { self.line(text, color) }
    }

    /// A title with stars to the width of 79, at least three.
    pub fn banner(&self, text: &str) {
        self.line(&banner(text), Color::Plain);
    }

    /// A warning; what has been said already is not said again.
    pub fn warning(&self, sentence: &str) {
        let text = format!("[WARNING]: {sentence}");
        if self.is_new(&text) {
            self.error_line(&text, Color::Warn);
        }
    }

    /// What will not work any more one day, and how such sentences are switched off.
    pub fn deprecation(&self, sentence: &str) {
        let text = format!("[DEPRECATION WARNING]: {sentence}");
        if self.is_new(&text) {
            self.warning(
                "Deprecation warnings can be disabled by setting `deprecation_warnings=False` in ansible.cfg.",
            );
            self.error_line(&text, Color::Deprecated);
        }
    }

    /// What went wrong and where; what every host would say again is said once.
    pub fn report(&self, report: &str, stderr: bool) {
        let text = format!("[ERROR]: {}\n", report.trim_end());
        if self.is_new(&text) {
            self.line_to(stderr, &text, Color::Error);
        }
    }

    /// The warnings in a result.
    pub(super) fn result_warnings(&self, result: &Value) {
        let warnings = result.get("warnings").and_then(Value::as_array);
        warnings.into_iter().flatten().filter_map(Value::as_str).for_each(|warning| self.warning(warning));
    }

    fn is_new(&self, text: &str) -> bool {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned())
    }

    fn logged(&self, text: &str) {
        if let Some(log) = &self.log {
            log.write(text);
        }
    }

    /// A line on standard output that has its colours already.
    pub fn line_as_is(&self, text: &str) {
        let text = if self.masks { self.secrets.masked(text) } else { Cow::Borrowed(text) };
        self.logged(&text);
        written("standard output", writeln!(std::io::stdout().lock(), "{text}"));
    }

    /// A question on standard output, without the end of a line.
    pub fn prompt(&self, text: &str) {
        let mut output = std::io::stdout().lock();
        written("standard output", write!(output, "{}", self.safe(text)).and_then(|()| output.flush()));
    }

    /// A line on standard error.
    pub fn error_line(&self, text: &str, color: Color) {
        let text = self.safe(text);
        self.logged(&text);
        written("standard error", writeln!(std::io::stderr().lock(), "{}", self.paint(&text, color)));
    }
}

/// Whether something that had to be shown or logged could not be written.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Whether output was lost: the exit code must not be that of a success.
pub fn has_failed() -> bool {
    FAILED.load(Ordering::Acquire)
}

/// Notes that output could not be written, and reports it once where that is still possible.
///
/// A broken pipe is no failure: the reader has seen enough, and the run is not stopped half-way for it.
pub(super) fn written(to: &str, outcome: std::io::Result<()>) {
    let Err(error) = outcome else { return };
    if error.kind() != std::io::ErrorKind::BrokenPipe && !FAILED.swap(true, Ordering::AcqRel) {
        let _ = writeln!(
            std::io::stderr().lock(),
            "[ERROR]: {to} cannot be written: {error}. The run goes on; what it prints from here on may be lost."
        );
    }
}

/// A title with stars to the width of 79, at least three.
pub(super) fn banner(text: &str) -> String {
    let width = text.chars().filter(|c| !c.is_control()).count();
    format!("\n{text} {}", "*".repeat(79usize.saturating_sub(width).max(3)))
}
