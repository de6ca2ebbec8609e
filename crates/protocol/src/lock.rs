//! The lock on a host, which keeps two runs from changing it at the same time.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Access that a request needs to its host. One run may change a host at a time, or any number may read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Locking {
    /// The request only reads.
    Shared,
    /// The request may change the host.
    Exclusive,
}

/// Terms on which a run locks a host. Sent once on a connection, ahead of its first request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockTerms {
    /// The run, in hex digits chosen at random. Executors of one run never wait for each other.
    pub run: String,
    /// Description of the run, shown to runs that wait for it.
    pub holder: Holder,
    /// Seconds to wait for another run; 0 fails immediately.
    pub wait: u64,
    /// The controller's part in a run of several processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Random words of executors that the run has lost on this host. They end before the first request begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// A process of a run that has several. Whoever replaces it has the same number and a higher token, and each host
/// refuses requests with a lower token than it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Number of its part: 0 for the process that leads.
    pub number: u32,
    /// Upper 32 bits: number of leads that the run has had. Lower 32 bits: number of processes that have held this part
    /// under the present lead.
    pub token: u64,
}

/// Holder of a lock. Written on the host by one controller and shown by another, so it is untrusted data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// User who started the run.
    pub user: String,
    /// Machine it was started on.
    pub machine: String,
    /// Process id on that machine.
    pub pid: u32,
    /// The verb and its playbooks, without options.
    pub command: String,
    /// Start time, by the clock of that machine.
    pub since: String,
}

/// Maximum number of characters shown of each text of a holder.
const LONGEST: usize = 200;

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Holder::default() {
            return formatter.write_str("a run that has not recorded its name");
        }
        let shown = |text: &str| -> String { text.chars().filter(|c| !is_control(*c)).take(LONGEST).collect() };
        let (user, machine, command, since) =
            (shown(&self.user), shown(&self.machine), shown(&self.command), shown(&self.since));
        write!(formatter, "{user}@{machine} (process {}), `{command}`, since {since}", self.pid)
    }
}

/// Whether a terminal would interpret a character or reorder the text around it.
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
