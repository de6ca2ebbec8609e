//! Writes JUnit files.

use super::printable::{is_directional, printable};

/// A task on a host.
pub(crate) struct TestCase<'a> {
    /// Class of the case.
    pub(crate) class: String,
    /// Name of the case.
    pub(crate) name: String,
    /// Duration in seconds.
    pub(crate) seconds: f64,
    /// Outcome of the task.
    pub(crate) outcome: &'a Outcome,
}

/// Outcome of a test case.
pub(crate) enum Outcome {
    /// Passed, with its output.
    Passed(String),
    /// Skipped, with the reason.
    Skipped(String),
    /// Failed.
    Failed {
        /// Message of the failure.
        message: String,
        /// Output.
        output: String,
    },
}

/// A JUnit file with one suite.
pub(crate) fn xml<'a>(suite: &str, cases: impl Iterator<Item = TestCase<'a>>) -> String {
    let (mut body, mut count, mut errors, mut skipped, mut total) = (String::new(), 0, 0, 0, 0.0);
    for case in cases {
        count += 1;
        total += case.seconds;
        let (class, name, time) = (escaped(&case.class), escaped(&case.name), case.seconds);
        body.push_str(&format!("\t\t<testcase classname=\"{class}\" name=\"{name}\" time=\"{time:.6}\">\n"));
        match case.outcome {
            Outcome::Passed(output) => {
                body.push_str(&format!("\t\t\t<system-out>{}</system-out>\n", escaped(output)));
            }
            Outcome::Skipped(reason) => {
                skipped += 1;
                body.push_str(&format!("\t\t\t<skipped>{}</skipped>\n", escaped(reason)));
            }
            Outcome::Failed { message, output } => {
                errors += 1;
                let (message, output) = (escaped(message), escaped(output));
                body.push_str(&format!("\t\t\t<error message=\"{message}\" type=\"error\">{output}</error>\n"));
            }
        }
        body.push_str("\t\t</testcase>\n");
    }
    let name = escaped(suite);
    format!(
        "<?xml version=\"1.0\" ?>\n<testsuites disabled=\"0\" errors=\"{errors}\" failures=\"0\" tests=\"{count}\" time=\"{total:.6}\">\n\
         \t<testsuite disabled=\"0\" errors=\"{errors}\" failures=\"0\" name=\"{name}\" skipped=\"{skipped}\" tests=\"{count}\" time=\"{total:.6}\">\n\
         {body}\t</testsuite>\n</testsuites>\n"
    )
}

/// Text escaped for XML. Characters that XML cannot represent become the replacement character.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' | '\r' => escaped.push(c),
            c if is_directional(c) => escaped.push_str(&printable(&c.to_string())),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_invalid_in_xml_replaced() {
        assert_eq!(escaped("<a href=\"x\">\u{1b}&"), "&lt;a href=&quot;x&quot;&gt;\u{fffd}&amp;");
    }
}
