//! The timer callback: prints the duration of the playbook.

use std::time::Instant;

use super::callbacks::Setup;
use super::masked::Masked;
use super::printer::Printer;
use super::{Event, Output};
use crate::settings::Color;

/// Prints the duration at the end.
pub(super) struct Timer {
    printer: Printer,
    start: Instant,
}

impl Timer {
    pub(super) fn new(setup: &Setup<'_>) -> Timer {
        Timer { printer: setup.printer.clone(), start: Instant::now() }
    }
}

impl Output for Timer {
    fn event(&mut self, event: &Masked) {
        if let Event::Recap(_) = &**event {
            let seconds = self.start.elapsed().as_secs();
            self.printer.banner("PLAYBOOK RECAP");
            let text = format!(
                "Playbook run took {} days, {} hours, {} minutes, {} seconds\n\r",
                seconds / 86_400,
                seconds / 3600 % 24,
                seconds / 60 % 60,
                seconds % 60
            );
            self.printer.line(&text, Color::Plain);
        }
    }
}
