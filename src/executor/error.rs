//! Errors of requests. They distinguish whether nothing was run or the task may have run.

use crate::connection;

/// Reason why a request has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The host is unreachable; nothing was run.
    #[error("{message}")]
    Unreachable {
        /// A complete sentence.
        message: String,
    },
    /// The connection broke during the task, which may have run wholly, in part or not at all. It is never repeated
    /// automatically.
    #[error("{message}")]
    Indeterminate {
        /// A complete sentence.
        message: String,
        /// Whether the host was restarted meanwhile, if that is known.
        rebooted: Option<bool>,
    },
    /// The executor broke the protocol or a limit. The host is excluded from the rest of the run.
    #[error(
        "{host} is excluded from this run: its executor {reason}. It is unknown whether the task ran. Check which \
         program answers on that host before using it again"
    )]
    Violation {
        /// The host's name.
        host: String,
        /// The rest of a sentence whose subject is the executor.
        reason: String,
    },
    /// The host's answer is not a mapping; the module may have run.
    #[error("the host answered {module} with {kind} instead of a mapping, so it is unknown whether the task ran")]
    NoResult {
        /// Name of the module.
        module: String,
        /// Type of the value.
        kind: &'static str,
    },
    /// An earlier request of its sequence failed; nothing was run.
    #[error("an earlier task has failed")]
    NotRun,
    /// The become user's executor failed to start; nothing was run.
    #[error("{message}")]
    Become {
        /// A complete sentence.
        message: String,
    },
    /// A file on the controller is unreadable or unwritable.
    #[error("{message}")]
    Controller {
        /// A complete sentence.
        message: String,
    },
    /// A bare command exceeded its timeout. Nothing on the host supervises it, so its end may remain unconfirmed.
    #[error(
        "the command on {host} did not end within {seconds} s; {}",
        if *.ended { "it was stopped" } else { "Windlass sent SIGTERM and SIGKILL, but it may still run there" }
    )]
    TimedOut {
        /// The host's name.
        host: String,
        /// The timeout.
        seconds: u64,
        /// Whether all processes of the command are known to have ended.
        ended: bool,
    },
}

impl Error {
    /// Whether the host counts as unreachable (`ignore_unreachable`, exit code 4).
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Indeterminate { .. } | Self::Violation { .. })
    }

    pub(super) fn unreachable(error: &connection::Error) -> Self {
        Self::Unreachable { message: error.to_string() }
    }
}
