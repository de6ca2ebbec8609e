//! Details of connections for `-vvv` and `-vvvv`: prints events of `tracing` with their host.

use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::printer::Printer;

/// Verbosity for events of connections, and for the full start script of the executor.
const DEBUG: u8 = 3;
const TRACE: u8 = 4;

/// Prints `tracing` events of this program.
struct Details(Printer);

/// Prints details of connections from now on, if the verbosity asks for them.
pub(crate) fn print_details(printer: &Printer) {
    if printer.wants(DEBUG) {
        // Only the first call in a process has an effect; there is no other.
        let _ = tracing::subscriber::set_global_default(Details(printer.clone()));
    }
}

fn verbosity_of(level: Level) -> u8 {
    if level == Level::TRACE { TRACE } else { DEBUG }
}

impl Subscriber for Details {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with("windlass")
            && self.0.wants(verbosity_of(*metadata.level()))
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let host = line.host.map(|host| format!("<{host}> ")).unwrap_or_default();
        self.0.verbose(verbosity_of(*event.metadata().level()), &format!("{host}{}{}", line.message, line.fields));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Text of an event.
#[derive(Default)]
struct Line {
    host: Option<String>,
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "host" => self.host = Some(value.to_owned()),
            name => {
                let _ = write!(self.fields, "; {name}: {value}");
            }
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => {
                let _ = write!(self.fields, "; {name}: {value:?}");
            }
        }
    }
}
