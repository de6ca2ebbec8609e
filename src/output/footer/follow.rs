//! Choice of the hosts whose running commands are shown.

use std::sync::Arc;

/// Hosts whose live output is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Follow {
    #[default]
    Nobody,
    All,
    /// The host that has worked longest, whichever that is.
    Longest,
    One(Arc<str>),
}

impl Follow {
    /// The next choice in the order that a key goes through.
    pub(super) fn next(&self) -> Follow {
        match self {
            Follow::Nobody => Follow::All,
            Follow::All => Follow::Longest,
            Follow::Longest | Follow::One(_) => Follow::Nobody,
        }
    }

    /// Whether output of `host` is shown while `longest` has worked longest.
    pub(super) fn includes(&self, host: &str, longest: Option<&str>) -> bool {
        match self {
            Follow::Nobody => false,
            Follow::All => true,
            Follow::Longest => longest == Some(host),
            Follow::One(chosen) => **chosen == *host,
        }
    }
}

impl std::fmt::Display for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Follow::Nobody => f.write_str("Showing no output of running commands."),
            Follow::All => f.write_str("Showing the output of all hosts."),
            Follow::Longest => f.write_str("Showing the output of the host that has worked longest."),
            Follow::One(host) => write!(f, "Showing the output of {host}."),
        }
    }
}
