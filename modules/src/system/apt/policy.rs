//! `policy-rc.d`, the file by which Debian keeps services from starting.

use crate::{
    Failure,
    files::{attributes::Attributes, mode::Mode},
    system::config_file,
};

/// Keeps services from starting while packages are installed, and restores the old policy.
pub(super) struct Policy {
    before: Option<String>,
    set: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl Policy {
    pub(super) fn set(answer: Option<i64>) -> Result<Policy, Failure> {
        let Some(answer) = answer else { return Ok(Policy { before: None, set: false }) };
        let before = std::fs::read_to_string(POLICY).ok();
        put(&format!("#!/bin/sh\nexit {answer}\n"))?;
        Ok(Policy { before, set: true })
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if !self.set {
            return;
        }
        let _ = match &self.before {
            Some(before) => put(before).is_ok(),
            None => std::fs::remove_file(POLICY).is_ok(),
        };
    }
}

/// Replaces the policy atomically, because dpkg may run it at any time.
fn put(text: &str) -> Result<(), Failure> {
    let attributes = Attributes::default().with_mode(Some(Mode::Bits(0o755)));
    config_file::replace_with(POLICY, text, attributes)
}
