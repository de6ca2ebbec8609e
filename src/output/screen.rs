//! What is shown whatever callback writes the standard output: warnings, questions, output as it comes.

use super::palette::Color;
use super::printer::Printer;
use super::{Event, Output};
use crate::settings::Settings;

/// The screen.
pub(super) struct Screen {
    printer: Printer,
    deprecations: bool,
    live: bool,
}

impl Screen {
    pub(super) fn new(printer: Printer, settings: &Settings, live: bool) -> Screen {
        let printer = printer.with_verbosity(settings.verbosity, settings.log_verbosity);
        Screen { printer, deprecations: settings.deprecation_warnings, live }
    }
}

impl Output for Screen {
    fn event(&mut self, event: &Event) {
        match event {
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
