//! Writes to the terminal: adds colours, and masks secrets in text that is not an event.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::Value;
use unicode_width::UnicodeWidthChar;

use super::footer::{self, Stream};
use super::log::Log;
use super::printable::printable;
use super::secrets::Secrets;
use crate::settings::{Color, Palette};

/// Number of messages remembered. Hosts choose messages, so there may be any number of them.
const REMEMBERED: usize = 1 << 16;

/// Maximum number of warnings shown for one result, and their size in bytes.
const WARNINGS: usize = 100;
const WARNING_BYTES: usize = 64 << 10;

/// Prints lines with colours and masked secrets.
#[derive(Debug, Clone)]
pub struct Printer {
    color: bool,
    palette: Arc<Palette>,
    secrets: Secrets,
    /// Whether text is masked. Text that callbacks render is not, because their events are masked before.
    masks: bool,
    /// Hashes of messages already printed, which are not repeated.
    said: Arc<Mutex<HashSet<u64>>>,
    log: Option<Arc<Log>>,
    /// Verbosity of the terminal, and of the log file.
    verbosity: (u8, u8),
}

impl Printer {
    /// A printer without colours that masks these secrets.
    pub fn plain(secrets: Secrets) -> Printer {
        Printer::new(false, secrets)
    }

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

    /// A printer for text rendered from masked events.
    pub(super) fn without_masking(&self) -> Printer {
        Printer { masks: false, ..self.clone() }
    }

    /// Masks secrets and escapes control characters.
    fn safe(&self, text: &str) -> String {
        let masked = if self.masks { self.secrets.masked(text) } else { Cow::Borrowed(text) };
        printable(&masked).into_owned()
    }

    /// Uses the colours of the settings.
    pub fn with_palette(mut self, palette: &Palette) -> Printer {
        self.palette = Arc::new(palette.clone());
        self
    }

    /// Sets the verbosity of the terminal, and of the log (`log_verbosity`) if it differs.
    pub fn with_verbosity(mut self, shown: u8, logged: Option<u8>) -> Printer {
        self.verbosity = (shown, logged.unwrap_or(shown));
        self
    }

    /// Copies all output to this file (`log_path`).
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

    /// Secrets that it masks.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Colours a text, if colours are enabled.
    pub fn paint(&self, text: &str, color: Color) -> String {
        if !self.color || color == Color::Plain || text.is_empty() {
            return text.to_owned();
        }
        let lines: Vec<String> = text.split('\n').map(|line| painted(line, self.palette.code(color))).collect();
        lines.join("\n")
    }

    /// Prints a line of a running command on standard error, after the name of its host in a colour of its own.
    pub(super) fn live_line(&self, host: &str, line: &str) {
        self.line_after(host, line, Color::Verbose, Stream::Stderr);
    }

    /// Prints a line of a run, after the name of its cluster in a colour of its own.
    pub(crate) fn line_of(&self, cluster: &str, line: &str, is_error: bool) {
        self.line_after(cluster, line, Color::Plain, if is_error { Stream::Stderr } else { Stream::Stdout });
    }

    fn line_after(&self, name: &str, line: &str, color: Color, stream: Stream) {
        let (name, line) = (self.safe(&format!("[{name}]")), self.safe(line));
        self.logged(&format!("{name} {line}"));
        let name = if self.color { painted(&name, code_of_host(&name)) } else { name };
        show(stream, &format!("{name} {}\n", self.paint(&line, color)));
    }

    /// Prints a line on standard output.
    pub fn line(&self, text: &str, color: Color) {
        let text = self.safe(text);
        self.logged(&text);
        show(Stream::Stdout, &format!("{}\n", self.paint(&text, color)));
    }

    /// Whether lines of this verbosity are printed or logged.
    pub fn wants(&self, level: u8) -> bool {
        self.verbosity.0 >= level || (self.log.is_some() && self.verbosity.1 >= level)
    }

    /// Prints a line at this verbosity.
    pub fn verbose(&self, level: u8, text: &str) {
        if self.verbosity.0 >= level {
            self.line(text, Color::Verbose);
        } else if self.verbosity.1 >= level {
            self.logged(&self.safe(text));
        }
    }

    /// Prints a line on standard error or standard output.
    pub(super) fn line_to(&self, stream: Stream, text: &str, color: Color) {
        match stream {
            Stream::Stdout => self.line(text, color),
            Stream::Stderr => self.error_line(text, color),
        }
    }

    /// Prints a title padded with at least three stars to the columns of the terminal, or to 79.
    pub fn banner(&self, text: &str) {
        self.line(&banner(text), Color::Plain);
    }

    /// Prints a warning, unless it was printed before.
    pub fn warning(&self, sentence: &str) {
        let text = format!("[WARNING]: {sentence}");
        if self.is_new(&text) {
            self.error_line(&text, Color::Warn);
        }
    }

    /// Prints a deprecation, followed by how to disable them.
    pub fn deprecation(&self, sentence: &str) {
        let text = format!("[DEPRECATION WARNING]: {sentence}");
        if self.is_new(&text) {
            self.warning(
                "Deprecation warnings can be disabled by setting `deprecation_warnings=False` in ansible.cfg.",
            );
            self.error_line(&text, Color::Deprecated);
        }
    }

    /// Prints an error report once, even if every host reports it.
    pub(super) fn report(&self, report: &str, stream: Stream) {
        let text = format!("[ERROR]: {}\n", report.trim_end());
        if self.is_new(&text) {
            self.line_to(stream, &text, Color::Error);
        }
    }

    /// Prints the place of a failure once, even if every host fails there.
    pub(super) fn excerpt(&self, place: &str, stream: Stream) {
        let text = place.trim_end();
        if self.is_new(text) {
            self.line_to(stream, text, Color::Error);
        }
    }

    /// Prints the warnings in a result, up to [`WARNINGS`] of [`WARNING_BYTES`] altogether.
    pub(super) fn result_warnings(&self, result: &Value) {
        let warnings = result.get("warnings").and_then(Value::as_array);
        let (mut shown, mut bytes, mut left_out) = (0, 0, 0);
        for warning in warnings.into_iter().flatten().filter_map(Value::as_str) {
            if shown < WARNINGS && bytes + warning.len() <= WARNING_BYTES {
                shown += 1;
                bytes += warning.len();
                self.warning(warning);
            } else {
                left_out += 1;
            }
        }
        if left_out > 0 {
            self.warning(&format!(
                "{left_out} more warnings of this task are not shown; a result may show {WARNINGS} of {} KiB",
                WARNING_BYTES >> 10
            ));
        }
    }

    fn is_new(&self, text: &str) -> bool {
        // Keyed at random, so that no host can make two messages look equal.
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= REMEMBERED {
            said.clear();
        }
        said.insert(KEYS.hash_one(text))
    }

    fn logged(&self, text: &str) {
        if let Some(log) = &self.log {
            log.write(text);
        }
    }

    /// Prints a line that already contains colours.
    pub fn line_as_is(&self, text: &str) {
        let text = if self.masks { self.secrets.masked(text) } else { Cow::Borrowed(text) };
        self.logged(&text);
        show(Stream::Stdout, &format!("{text}\n"));
    }

    /// Prints a question on standard output without a line end.
    pub fn prompt(&self, text: &str) {
        show(Stream::Stdout, &self.safe(text));
    }

    /// Prints text of a plugin, which need not end with a line end.
    pub(super) fn text(&self, stream: Stream, text: &str) {
        let text = self.safe(text);
        self.logged(text.strip_suffix('\n').unwrap_or(&text));
        show(stream, &text);
    }

    /// Prints a line on standard error.
    pub fn error_line(&self, text: &str, color: Color) {
        let text = self.safe(text);
        self.logged(&text);
        show(Stream::Stderr, &format!("{}\n", self.paint(&text, color)));
    }
}

fn painted(text: &str, code: &str) -> String {
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Whether writing to the output or the log has failed.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Whether output was lost. The exit code must then not be 0.
pub fn has_failed() -> bool {
    FAILED.load(Ordering::Acquire)
}

/// Records a failure to write output, and reports the first one if possible.
///
/// A broken pipe is not a failure: the reader has seen enough, and the run must not stop half-way.
pub(super) fn written(to: &str, outcome: std::io::Result<()>) {
    let Err(error) = outcome else { return };
    if error.kind() != std::io::ErrorKind::BrokenPipe && !FAILED.swap(true, Ordering::AcqRel) {
        let _ =
            writeln!(std::io::stderr().lock(), "[ERROR]: {to} cannot be written: {error}. Further output may be lost.");
    }
}

/// A title padded with at least three stars to the columns of the terminal, or to 79.
pub(super) fn banner(text: &str) -> String {
    // Ansible counts cells; a line end within a name has none.
    let width: usize = text.chars().filter_map(UnicodeWidthChar::width).sum();
    format!("\n{text} {}", "*".repeat(footer::columns().saturating_sub(width).max(3)))
}

/// Writes text to a standard stream.
fn show(stream: Stream, text: &str) {
    let name = match stream {
        Stream::Stdout => "standard output",
        Stream::Stderr => "standard error",
    };
    written(name, footer::write(stream, text));
}

/// Terminal codes for names of hosts. Red stays for failures.
const HOSTS: [&str; 6] = ["0;36", "0;35", "0;33", "0;32", "1;34", "1;36"];

/// Terminal code for the name of a host, the same in every run. Consecutive numbers differ.
fn code_of_host(name: &str) -> &'static str {
    let hash = name.bytes().fold(0usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    HOSTS[hash % HOSTS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_hosts_have_different_colours() {
        let names: Vec<String> = (1..40).map(|number| format!("node{number}")).collect();
        assert!(names.windows(2).all(|pair| code_of_host(&pair[0]) != code_of_host(&pair[1])));
    }
}
