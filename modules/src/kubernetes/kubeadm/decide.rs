//! Rules from a node's state to the next step. They neither read nor change anything.

use super::node::{Api, Files};

/// The next step, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The node is already in the requested state.
    Nothing,
    /// Run the whole operation on an untouched node.
    Fresh,
    /// Repeat the whole operation after an interruption: kubeadm keeps existing certificates and keys.
    Again(&'static str),
    /// Run only the last phases of a join as control plane.
    FinishControlPlane(&'static str),
    /// Run only the last phases of a join as worker.
    FinishWorker(&'static str),
    /// Impossible in this state; the message names the remedy.
    Refuse(String),
}

/// Whether the rules need the API server's answer.
pub(super) fn needs_api(files: &Files) -> bool {
    files.admin && files.kubelet && files.kubelet_config && files.control_plane_pods() == 3
}

/// Decides for the first control plane. `api` is present if [`needs_api`] returned true.
pub(super) fn init(files: &Files, api: Option<&Api>) -> Step {
    if files.unfinished.as_deref() == Some("join") {
        return Step::Refuse(
            "An interrupted kubeadm join is on this node, so it cannot become the first control plane; reset it first."
                .into(),
        );
    }
    if files.untouched() {
        return Step::Fresh;
    }
    if files.unfinished.is_some() {
        return Step::Again("an earlier kubeadm init was interrupted here");
    }
    if files.kubelet && !files.admin && files.control_plane_pods() == 0 {
        return Step::Refuse(
            "This node is a worker of a cluster already (it has kubelet.conf, but nothing of a control plane); reset it before kubeadm init."
                .into(),
        );
    }
    match api {
        None => Step::Again("parts of a control plane are missing on this node"),
        // A kubelet registers its node in an empty cluster too, but cannot label it as a control plane.
        Some(Api::Answers(cluster))
            if files.applied && !cluster.configured && !cluster.labelled && !cluster.joinable =>
        {
            Step::Refuse(
                "This node was a control plane of a cluster, but its API server has none of that cluster's objects: etcd has lost its data. \
                 Nothing was changed. Look at what is left with playbooks/recover.yml --check, and restore a backup with \
                 playbooks/restore.yml; to begin a new cluster, reset the node first."
                    .into(),
            )
        }
        Some(Api::Answers(cluster)) if !cluster.configured => {
            Step::Again("kubeadm has not stored its configuration in the cluster yet")
        }
        Some(Api::Answers(cluster)) if !cluster.node => Step::Again("this node is not registered in its cluster"),
        Some(Api::Answers(cluster)) if !cluster.labelled => {
            Step::Again("this node is not marked as a control plane yet")
        }
        Some(Api::Answers(cluster)) if !cluster.joinable => {
            Step::Again("other nodes cannot join yet: cluster-info is missing")
        }
        Some(Api::Answers(_)) => Step::Nothing,
        Some(Api::Silent(reason)) => Step::Refuse(format!(
            "This node is an initialised control plane, but its API server does not answer ({reason}). Nothing was changed. Look at the \
             kubelet's journal, at the containers of kube-apiserver, and at etcd."
        )),
    }
}

/// Decides for a further node. `api` is present if the node joins as control plane and [`needs_api`] returned true.
pub(super) fn join(files: &Files, control_plane: bool, api: Option<&Api>) -> Step {
    if files.unfinished.as_deref() == Some("init") {
        return Step::Refuse(
            "An interrupted kubeadm init is on this node, so it cannot join; finish the init or reset the node first."
                .into(),
        );
    }
    if files.untouched() {
        return Step::Fresh;
    }
    if !files.kubelet {
        return Step::Again("an earlier kubeadm join was interrupted before the node was registered");
    }
    if !control_plane {
        return match files.unfinished.is_some() || files.bootstrap {
            true => Step::FinishWorker("an earlier kubeadm join was interrupted after the node was registered"),
            false => Step::Nothing,
        };
    }
    if files.control_plane_pods() == 0 && !files.admin {
        return Step::Refuse(
            "This node is a member as a worker already; reset it before it joins as a control plane.".into(),
        );
    }
    match api {
        None => Step::Again("parts of a control plane are missing on this node"),
        Some(Api::Answers(cluster)) if !cluster.node => Step::Again("this node is not registered in its cluster"),
        Some(Api::Answers(cluster)) if !cluster.labelled || !cluster.listed => {
            Step::FinishControlPlane("an earlier kubeadm join was interrupted after the node was registered")
        }
        Some(Api::Answers(_)) if files.unfinished.is_some() || files.bootstrap => {
            Step::FinishControlPlane("an earlier kubeadm join was interrupted at its very end")
        }
        Some(Api::Answers(_)) => Step::Nothing,
        // Until the node's own etcd member and API server run, only a repetition can succeed.
        Some(Api::Silent(_)) if files.unfinished.is_some() => {
            Step::Again("an earlier kubeadm join was interrupted, and the API server does not answer")
        }
        Some(Api::Silent(reason)) => Step::Refuse(format!(
            "This node is a control plane, but the API server does not answer ({reason}). Nothing was changed. Look at the kubelet's \
             journal and at the containers of kube-apiserver."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::node::Cluster, *};

    fn complete() -> Files {
        Files {
            unfinished: None,
            admin: true,
            kubelet: true,
            bootstrap: false,
            kubelet_config: true,
            authority: true,
            applied: true,
            manifests: ["kube-apiserver", "kube-controller-manager", "kube-scheduler"].map(str::to_owned).to_vec(),
        }
    }

    fn answers() -> Cluster {
        Cluster { configured: true, node: true, labelled: true, listed: true, joinable: true, version: None }
    }

    #[test]
    fn finished_control_plane_unchanged() {
        let api = Api::Answers(answers());
        assert!(needs_api(&complete()));
        assert_eq!(init(&complete(), Some(&api)), Step::Nothing);
        assert_eq!(join(&complete(), true, Some(&api)), Step::Nothing);
        assert_eq!(init(&Files::default(), None), Step::Fresh);
        assert_eq!(join(&Files::default(), true, None), Step::Fresh);
    }

    #[test]
    fn interrupted_init_repeated() {
        let half = Files { kubelet: false, manifests: Vec::new(), ..complete() };
        assert!(!needs_api(&half));
        assert!(matches!(init(&half, None), Step::Again(_)));
        let marked = Files { unfinished: Some("init".into()), ..complete() };
        assert!(matches!(init(&marked, Some(&Api::Answers(answers()))), Step::Again(_)));
        let without_configuration = Api::Answers(Cluster { configured: false, ..answers() });
        assert!(matches!(init(&complete(), Some(&without_configuration)), Step::Again(_)));
    }

    #[test]
    fn control_plane_over_an_empty_etcd_refused() {
        let empty = Api::Answers(Cluster { node: true, listed: true, ..Cluster::default() });
        assert!(
            matches!(init(&complete(), Some(&empty)), Step::Refuse(sentence) if sentence.contains("playbooks/restore.yml"))
        );
        let foreign = Files { applied: false, ..complete() };
        assert!(matches!(init(&foreign, Some(&empty)), Step::Again(_)));
    }

    #[test]
    fn finished_node_with_silent_api_server_refused() {
        let silent = Api::Silent("connection refused".into());
        assert!(
            matches!(init(&complete(), Some(&silent)), Step::Refuse(sentence) if sentence.contains("connection refused"))
        );
        assert!(matches!(join(&complete(), true, Some(&silent)), Step::Refuse(_)));
    }

    #[test]
    fn interrupted_join_repeated_before_and_finished_after_registration() {
        let early = Files { bootstrap: true, kubelet: false, admin: false, ..complete() };
        assert!(matches!(join(&early, true, None), Step::Again(_)));
        let late = Api::Answers(Cluster { labelled: false, listed: false, ..answers() });
        assert!(matches!(join(&complete(), true, Some(&late)), Step::FinishControlPlane(_)));
        let worker = Files { kubelet: true, kubelet_config: true, bootstrap: true, ..Files::default() };
        assert!(matches!(join(&worker, false, None), Step::FinishWorker(_)));
        assert_eq!(join(&Files { bootstrap: false, ..worker.clone() }, false, None), Step::Nothing);
    }

    #[test]
    fn node_of_another_kind_refused() {
        let worker = Files { kubelet: true, kubelet_config: true, ..Files::default() };
        assert!(matches!(init(&worker, None), Step::Refuse(sentence) if sentence.contains("worker")));
        assert!(matches!(join(&worker, true, None), Step::Refuse(sentence) if sentence.contains("worker")));
        let joining = Files { unfinished: Some("join".into()), ..Files::default() };
        assert!(matches!(init(&joining, None), Step::Refuse(_)));
    }
}
