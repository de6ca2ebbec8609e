//! The facts that background jobs may report.
//!
//! A job's result does not say which module it ran, and a host could lie about that. So the run remembers the jobs that
//! it has started.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::FactNames;

/// Names of facts by host and job.
#[derive(Debug, Default)]
pub struct Jobs(Mutex<HashMap<(String, String), FactNames>>);

impl Jobs {
    /// Remembers a job that starts on a host.
    pub(crate) fn start(&self, host: &str, job: &str, names: FactNames) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert((host.to_owned(), job.to_owned()), names);
    }

    /// Names of the facts that a job may report; [`FactNames::OfJob`] for a job that another run started. `job` is the
    /// id that the run has chosen; the host has added a dot and a process id.
    pub(crate) fn names(&self, host: &str, job: &str) -> FactNames {
        let job = job.split('.').next().unwrap_or(job);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(host.to_owned(), job.to_owned())).copied().unwrap_or(FactNames::OfJob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_reports_facts_of_its_own_module_only() {
        let jobs = Jobs::default();
        jobs.start("web1", "j1", FactNames::Any);
        jobs.start("web1", "j2", FactNames::of_module("command"));
        assert_eq!(jobs.names("web1", "j1.4711"), FactNames::Any);
        assert_eq!(jobs.names("web1", "j2.4712"), FactNames::Known(&[], &[]));
        for (host, job) in [("web2", "j1.4711"), ("web1", "j3.1"), ("web1", "")] {
            assert_eq!(jobs.names(host, job), FactNames::OfJob);
        }
    }
}
