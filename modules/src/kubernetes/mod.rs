//! Kubernetes modules: kubeadm, etcd, objects and images.
//!
//! Pure functions parse the output of the tools. The tests feed them with recorded output of the real tools.

mod certificate;
mod configuration;
mod deadline;
mod quorum;
mod turn;

use crate::{Host, Plan, process};

pub mod core;
pub mod etcd;
pub mod image;
pub mod kube;
pub mod kubeadm;
pub mod kubelet_certificates;
pub mod variables;

/// In a dry run, predicts a change if the program is missing, because an earlier task may be about to install it.
fn guess_without(program: &str, host: &Host) -> Option<Plan> {
    (host.dry_run() && process::find(host, program).is_none()).then(|| {
        Plan::change(|_, _| Ok(())).with_warning(format!(
            "{program} is not on this host yet, so what it would find is unknown; a change is assumed."
        ))
    })
}
