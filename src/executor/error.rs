use crate::connection;

/// Why a request has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The host cannot be reached; nothing was run.
    #[error("{message}")]
    Unreachable {
        /// A whole sentence.
        message: String,
    },
    /// The connection broke while the task ran: it may have been done wholly, in part or not at all. It is never repeated by itself.
    #[error("{message}")]
    Indeterminate {
        /// A whole sentence.
        message: String,
        /// Whether the host was restarted meanwhile, if that could be found out.
        rebooted: Option<bool>,
    },
    /// The executor broke the protocol or a limit. The host is not used any more in this run.
    #[error(
        "{host} is not used any more in this run: its executor {reason}. Whether the task was done is not known. Find out what answers on that host before you use it again"
    )]
    Violation {
        /// The host's name.
        host: String,
        /// The end of a sentence that begins with the executor.
        reason: String,
    },
    /// The host answered with something that is no result; the module may have been run.
    #[error("the host answered {module} with {kind} instead of a mapping, so whether the task was done is not known")]
    NoResult {
        /// The module.
        module: String,
        /// The kind of the value.
        kind: &'static str,
    },
    /// A request before this one in its sequence has failed; nothing was run.
    #[error("a task before this one has failed")]
    NotRun,
    /// The other user's executor could not be started; nothing was run.
    #[error("{message}")]
    Become {
        /// A whole sentence.
        message: String,
    },
    /// A file on the controller could not be read or written.
    #[error("{message}")]
    Controller {
        /// A whole sentence.
        message: String,
    },
    /// A bare command did not end in time. Nobody on the host watches it, so its end is asked for and not known.
    #[error(
        "the command on {host} did not end within {seconds} s; it was sent SIGTERM and its connection was closed, but it may still run there"
    )]
    TimedOut {
        /// The host's name.
        host: String,
        /// The limit.
        seconds: u64,
    },
}

impl Error {
    /// The host counts as unreachable (`ignore_unreachable`, exit code 4).
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Indeterminate { .. } | Self::Violation { .. })
    }

    pub(super) fn unreachable(error: &connection::Error) -> Self {
        Self::Unreachable { message: error.to_string() }
    }
}
