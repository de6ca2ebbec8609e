//! Reports of a recorded run, and the comparison of two.
//!
//! A [`Report`] is built from a journal, which is hostile data: everything in it is bounded, typed, and escaped by the
//! renderers for the format that they write.

mod compare;
mod html;
mod junit;
mod markdown;
mod model;
mod otlp;
mod outcome;
mod place;
mod summary;
mod text;

pub use compare::{Comparison, Difference, compare};
pub use html::html;
pub(crate) use html::{Around, page};
pub use junit::junit;
pub use markdown::markdown;
pub use model::{HostRecap, Report, Unanswered};
pub(crate) use model::{instant, result_of, result_of_ended, title, to_second};
pub use otlp::otlp;
pub(crate) use otlp::otlp_requests;
pub use outcome::{Item, Kind, Outcome};
pub(crate) use place::split;
pub use summary::{Summary, Tally};
pub use text::Text;
pub(crate) use text::{label as item_label, message};

/// Version of the JSON format.
pub const VERSION: u32 = 1;

/// The report as JSON, indented, with control characters escaped.
pub fn json(report: &Report) -> String {
    let value = serde_json::to_value(report).unwrap_or_default();
    crate::output::nice_json_as_is(&value) + "\n"
}

/// A duration for people: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`.
fn duration(seconds: f64) -> String {
    if seconds < 10.0 {
        return format!("{seconds:.1} s");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive, and casts saturate")]
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// A duration in milliseconds for people.
#[expect(clippy::cast_precision_loss, reason = "durations are far below 2^52 milliseconds")]
pub(crate) fn millis(took: u64) -> String {
    duration(took as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        let shown: Vec<String> = [0.04, 9.94, 59.6, 185.0, 7800.0].into_iter().map(duration).collect();
        assert_eq!(shown, ["0.0 s", "9.9 s", "1 min 0 s", "3 min 5 s", "2 h 10 min"]);
    }
}
