//! The frames that one request allows its host to send.

use windlass_protocol::{Delivery, Event, Request};

/// Number of times a module may read a content: for its checksum, for a diff, and to write it.
const READINGS: u8 = 8;
/// Maximum number of warnings shown for one request.
const WARNINGS: usize = 100;
/// Maximum number of warnings shown for one host in a run.
pub(super) const HOST_WARNINGS: usize = 1000;
/// Maximum size of all warnings shown for one request, in bytes.
const WARNING_BYTES: usize = 64 << 10;

/// State of the frames that one request still allows.
#[derive(Debug)]
pub(super) struct Expected {
    /// Remaining reads allowed for each content.
    contents: Vec<u8>,
    output: bool,
    file: bool,
    turn: bool,
    lock: bool,
    flight: bool,
    other_user: bool,
    /// Whether lost executors may be in the way.
    follows: bool,
    warnings: usize,
    warning_bytes: usize,
    left_out: u64,
}

impl Expected {
    /// Frames that this request allows; `file` permits sending a file, and `follows` lost executors in the way.
    pub(super) fn of<V>(request: &Request<V>, file: bool, follows: bool) -> Self {
        let readings = |delivery| if delivery == Delivery::OnDemand { READINGS } else { 0 };
        Self {
            contents: request.contents.iter().map(|content| readings(content.delivery)).collect(),
            output: request.stream,
            file,
            turn: request.turn.is_some(),
            lock: request.lock.is_some() || request.flight.is_some(),
            flight: request.flight.is_some(),
            other_user: request.become_user.is_some(),
            follows,
            warnings: 0,
            warning_bytes: 0,
            left_out: 0,
        }
    }

    /// Checks that the event is allowed now. The error is the rest of a sentence whose subject is the executor.
    pub(super) fn admit(&mut self, event: &Event) -> Result<(), String> {
        let allowed = match event {
            Event::Output { .. } => self.output,
            Event::FileData => self.file,
            Event::NotRun => self.turn,
            Event::BecomeFailed { .. } => self.other_user,
            Event::Unknown { .. } => self.flight,
            Event::Refused { .. } => self.follows,
            Event::Warning { .. } => true,
            Event::LockWait { .. } | Event::LockTaken | Event::LockRefused { .. } => self.lock,
            Event::NeedContent { content, .. } => {
                return match self.contents.get_mut(*content) {
                    None => Err(format!("asked for content {content}, which this task does not have")),
                    Some(0) => Err(format!("asked for content {content} more often than any module needs it")),
                    Some(left) => {
                        *left -= 1;
                        Ok(())
                    }
                };
            }
        };
        let what = match event {
            Event::Output { .. } => "sent output that was not asked for",
            Event::FileData => "sent a file that was not asked for",
            Event::LockWait { .. } | Event::LockTaken | Event::LockRefused { .. } => {
                "reported a lock for a task that needs none"
            }
            Event::Unknown { .. } | Event::Refused { .. } => "did not run a task that it has to run",
            Event::NotRun => "skipped a task as if one before it had failed, although none was sent before it",
            _ => "reported a failed `become` of a task without `become`",
        };
        if allowed { Ok(()) } else { Err(what.to_owned()) }
    }

    /// Whether another warning of this length is shown, if the host has not used up its own limit. Hidden warnings are
    /// counted.
    pub(super) fn shows_warning(&mut self, length: usize, host_may: bool) -> bool {
        let shown = host_may && self.warnings < WARNINGS && self.warning_bytes + length <= WARNING_BYTES;
        if shown {
            self.warnings += 1;
            self.warning_bytes += length;
        } else {
            self.left_out += 1;
        }
        shown
    }

    /// Notice of the warnings that were not shown.
    pub(super) fn left_out(&self) -> Option<String> {
        let count = self.left_out;
        (count > 0).then(|| {
            format!(
                "{count} more warnings of this task are not shown; a task may show {WARNINGS} of {} KiB, a host {HOST_WARNINGS} in a run",
                WARNING_BYTES >> 10
            )
        })
    }
}
