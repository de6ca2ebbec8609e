//! The lock on a host: two runs cannot change one host at once.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a request uses the host. A host is changed by one run at a time; any number may read it meanwhile that nobody changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Locking {
    /// It only reads.
    Shared,
    /// It may change something.
    Exclusive,
}

/// On which terms a run locks a host. Sent once on a connection, ahead of its first request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockTerms {
    /// The run, in hex digits chosen at random. Executors of one run never wait for each other.
    pub run: String,
    /// Who it is, for others that wait.
    pub holder: Holder,
    /// Seconds to wait for another run; 0 fails at once.
    pub wait: u64,
}

/// Whoever holds a lock. Written on the host by one controller and shown by another, so it is data that nobody vouches for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The user who started the run.
    pub user: String,
    /// The machine it was started on.
    pub machine: String,
    /// Its process there.
    pub pid: u32,
    /// The verb and its playbooks, without options.
    pub command: String,
    /// When it began, by the clock of that machine.
    pub since: String,
}

/// The longest part of a holder that is shown.
const LONGEST: usize = 200;

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Holder::default() {
            return formatter.write_str("a run that has not written who it is");
        }
        let shown = |text: &str| -> String { text.chars().filter(|c| !is_control(*c)).take(LONGEST).collect() };
        let (user, machine, command, since) =
            (shown(&self.user), shown(&self.machine), shown(&self.command), shown(&self.since));
        write!(formatter, "{user}@{machine} (process {}), `{command}`, since {since}", self.pid)
    }
}

/// Whether a terminal would act on a character, or show the text around it in another order.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_with_control_characters_is_shown_without_them() {
        let holder = Holder {
            user: "anna\x1b[2J\r\u{202e}".into(),
            machine: "laptop".into(),
            pid: 7,
            command: "playbook site.yml".into(),
            since: "today".into(),
        };
        assert_eq!(holder.to_string(), "anna[2J@laptop (process 7), `playbook site.yml`, since today");
    }
}
