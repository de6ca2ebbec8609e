//! The way to the terminal: colours, and secrets masked by value.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;

use super::log::Log;
use super::palette::{Color, Palette};

/// Values that must never be shown.
#[derive(Debug, Clone, Default)]
pub struct Secrets(Arc<RwLock<Vec<String>>>);

impl Secrets {
    /// Masks a value from now on. Very short ones are left out: masking them would garble everything and hide nothing.
    pub fn add(&self, secret: &str) {
        let is_new = |part: &&str, known: &[String]| part.len() >= 4 && !known.iter().any(|known| known == part);
        let parts = || std::iter::once(secret.trim()).chain(secret.lines().map(str::trim));
        // Every task adds the passwords of its connection again.
        if !parts().any(|part| is_new(&part, &self.0.read().unwrap_or_else(PoisonError::into_inner))) {
            return;
        }
        let mut secrets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for part in parts() {
            if is_new(&part, &secrets) {
                secrets.push(part.to_owned());
            }
        }
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// The text with every secret masked.
    pub fn mask(&self, text: &str) -> String {
        let secrets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut masked = text.to_owned();
        for secret in secrets.iter().filter(|secret| text.contains(secret.as_str())) {
            masked = masked.replace(secret.as_str(), "********");
        }
        masked
    }
}

/// Writes lines, coloured and masked.
#[derive(Debug, Clone)]
pub struct Printer {
    color: bool,
    palette: Arc<Palette>,
    secrets: Secrets,
    /// Sentences that are said once, whoever says them.
    said: Arc<Mutex<HashSet<String>>>,
    log: Option<Arc<Log>>,
    /// How many `-v` there are for the terminal, and for the log file.
    verbosity: (u8, u8),
}

impl Printer {
    /// A printer that masks these secrets.
    pub fn new(color: bool, secrets: Secrets) -> Printer {
        Printer { color, palette: Arc::default(), secrets, said: Arc::default(), log: None, verbosity: (0, 0) }
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

    /// A line on standard output. A reader that has gone away is no reason to stop a run half-way.
    pub fn line(&self, text: &str, color: Color) {
        let text = printable(&self.secrets.mask(text));
        self.logged(&text);
        let _ = writeln!(std::io::stdout().lock(), "{}", self.paint(&text, color));
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
            self.logged(&printable(&self.secrets.mask(text)));
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
        let text = self.secrets.mask(text);
        self.logged(&text);
        let _ = writeln!(std::io::stdout().lock(), "{text}");
    }

    /// A question on standard output, without the end of a line.
    pub fn prompt(&self, text: &str) {
        let mut output = std::io::stdout().lock();
        let _ = write!(output, "{}", printable(&self.secrets.mask(text))).and_then(|()| output.flush());
    }

    /// A line on standard error.
    pub fn error_line(&self, text: &str, color: Color) {
        let text = printable(&self.secrets.mask(text));
        self.logged(&text);
        let _ = writeln!(std::io::stderr().lock(), "{}", self.paint(&text, color));
    }
}

/// A title with stars to the width of 79, at least three.
pub(super) fn banner(text: &str) -> String {
    let width = text.chars().filter(|c| !c.is_control()).count();
    format!("\n{text} {}", "*".repeat(79usize.saturating_sub(width).max(3)))
}

/// A text whose control characters cannot drive the terminal.
fn printable(text: &str) -> String {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    if text.chars().all(harmless) {
        return text.to_owned();
    }
    text.chars().map(|c| if harmless(c) { c.to_string() } else { c.escape_default().to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_wherever_it_stands() {
        let secrets = Secrets::default();
        secrets.add("hunter2");
        assert_eq!(secrets.mask("{\"msg\": \"hunter2!\"}"), "{\"msg\": \"********!\"}");
    }
}
