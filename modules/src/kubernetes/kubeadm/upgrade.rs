//! `state: upgrade` of `kubeadm`. The images of a control plane's static pods, which kubeadm replaces one by one, show
//! whether an upgrade was completed.

use std::path::Path;

use super::{
    super::quorum::Verdict,
    node::{self, Api, Files},
    planes::{Purpose, Request},
    tool::{Tool, phase_options},
};
use crate::{Args, Failure, Host, Outcome, Plan};

/// `state: upgrade`. `kubeadm upgrade` may be repeated after an interruption: upgraded parts stay as they are.
pub(super) fn plan(tool: Tool, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let version = format!("v{}", args.required("version")?.trim_start_matches('v'));
    // In check mode, an earlier task would have installed the other kubeadm.
    let own = if host.dry_run() { version.clone() } else { tool.release(host)? };
    if own != version {
        return Err(Failure::new(format!(
            "kubeadm on this host is {own}, but the node is to move to {version}. Install kubeadm {version} first."
        )));
    }
    let files = Files::read(Path::new("/"), &tool.cert_dir);
    if !files.kubelet {
        return Err(Failure::new("This node is not a member of a cluster, so there is nothing to upgrade."));
    }
    let control_plane = args.bool("control_plane") || args.bool("first") || files.control_plane_pods() > 0;
    let running = pod_versions(Path::new(MANIFESTS));
    let moved = !control_plane || all_have(&running, &version);
    let (first, repeat) = (args.bool("first"), args.bool("repeat"));
    if first {
        let cluster = match node::ask_patiently(&tool, host)? {
            Api::Answers(cluster) => cluster,
            Api::Silent(reason) => {
                return Err(Failure::new(format!(
                    "The API server does not answer ({reason}), so the cluster is not upgraded."
                )));
            }
        };
        if moved && !repeat && cluster.version.as_deref() == Some(version.as_str()) && files.unfinished.is_none() {
            return Ok(Plan::unchanged().with("action", "none").with("version", version));
        }
    } else if moved && !repeat && control_plane && files.unfinished.is_none() {
        return Ok(Plan::unchanged().with("action", "none").with("version", version));
    }
    // The upgrade replaces the static pods, including a stacked etcd member.
    let mut request = Request::of(&tool, args, Purpose::Restart);
    let verdict = if control_plane { request.judge(host)? } else { Verdict::Allowed };
    let skip = args.list("skip_phases").join(",");
    let ignored = args.list("ignore_preflight_errors").join(",");
    let wanted = version.clone();
    let apply = move |host: &Host, outcome: &mut Outcome| {
        let before = std::fs::read("/var/lib/kubelet/config.yaml").ok();
        let mut words = if first {
            vec!["upgrade".to_owned(), "apply".to_owned(), wanted.clone(), "--yes".to_owned()]
        } else {
            vec!["upgrade".to_owned(), "node".to_owned()]
        };
        let configuration = tool.config()?;
        if let Some((path, _secret)) = &configuration {
            words.push(format!("--config={path}"));
        }
        words.extend(phase_options(&skip, &ignored));
        request.alone(host, || tool.run(&words, host, outcome))?;
        if !control_plane {
            // On a worker, only the kubelet's configuration is rewritten, often with the same content.
            outcome.changed = before != std::fs::read("/var/lib/kubelet/config.yaml").ok();
        }
        let others = pod_versions(Path::new(MANIFESTS)).into_iter().find(|(_, now)| now.as_deref() != Some(&wanted));
        match others.filter(|_| control_plane) {
            Some((pod, now)) => Err(Failure::new(format!(
                "kubeadm upgrade succeeded, but the manifest of {pod} names {}, not {wanted}.",
                now.as_deref().unwrap_or("no version")
            ))),
            None => Ok(()),
        }
    };
    verdict.apply(args.bool("allow_unsafe"), || {
        let before = running.into_iter().next().and_then(|(_, version)| version);
        Ok(Plan::change(apply).with("action", "upgrade").with("version", version).with("version_before", before))
    })
}

const MANIFESTS: &str = "/etc/kubernetes/manifests";

/// Versions of the node's control plane, from the images in its manifests. kubeadm replaces one after the other, the
/// scheduler last.
fn pod_versions(manifests: &Path) -> Vec<(&'static str, Option<String>)> {
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]
        .map(|pod| {
            let manifest = std::fs::read_to_string(manifests.join(pod).with_extension("yaml"));
            (pod, manifest.ok().as_deref().and_then(image_version))
        })
        .to_vec()
}

fn all_have(pods: &[(&str, Option<String>)], version: &str) -> bool {
    pods.iter().all(|(_, found)| found.as_deref() == Some(version))
}

fn image_version(manifest: &str) -> Option<String> {
    let image = manifest.lines().find_map(|line| line.trim().trim_start_matches("- ").strip_prefix("image:"))?;
    let (_, tag) = image.trim().split('@').next()?.rsplit_once(':')?;
    Some(tag.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_server_version_read_from_manifest() {
        let manifest = "spec:\n  containers:\n  - command:\n    - kube-apiserver\n    image: k8s.gcr.io/kube-apiserver:v1.20.2\n    imagePullPolicy: IfNotPresent\n";
        assert_eq!(image_version(manifest).as_deref(), Some("v1.20.2"));
        assert_eq!(image_version("spec: {}\n"), None);
    }

    #[test]
    fn control_plane_interrupted_half_way_has_not_moved() {
        let folder = tempfile::tempdir().unwrap();
        let write = |pod: &str, version: &str| {
            let manifest = format!("spec:\n  containers:\n  - image: registry.k8s.io/{pod}:{version}\n");
            std::fs::write(folder.path().join(pod).with_extension("yaml"), manifest).unwrap();
        };
        write("kube-apiserver", "v1.21.0");
        write("kube-controller-manager", "v1.21.0");
        assert!(!all_have(&pod_versions(folder.path()), "v1.21.0"));
        write("kube-scheduler", "v1.20.3");
        assert!(!all_have(&pod_versions(folder.path()), "v1.21.0"));
        write("kube-scheduler", "v1.21.0");
        assert!(all_have(&pod_versions(folder.path()), "v1.21.0"));
    }
}
