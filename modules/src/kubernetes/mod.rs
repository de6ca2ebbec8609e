//! Modules for what a Kubernetes cluster is made of: kubeadm, etcd, its objects and its images.
//!
//! What a tool prints is read by pure functions over text, which the tests feed with what the real tools printed.

mod certificate;
mod configuration;
mod deadline;
mod quorum;

use crate::{Host, Plan, process};

pub mod core;
pub mod etcd;
pub mod image;
pub mod kube;
pub mod kubeadm;
pub mod variables;

/// In a dry run, a program that is not there yet (an earlier task would have brought it) leaves only a guess: that something changes.
fn guess_without(program: &str, host: &Host) -> Option<Plan> {
    (host.dry_run() && process::find(host, program).is_none()).then(|| {
        Plan::change(|_, _| Ok(())).with_warning(format!(
            "{program} is not on this host yet, so what it would find is unknown; a change is assumed."
        ))
    })
}
