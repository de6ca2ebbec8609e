use std::path::Path;

use super::{
    super::quorum::Verdict,
    node::{self, Api, Files},
    planes::{self, Purpose},
    tool::Tool,
};
use crate::{Args, Failure, Host, Outcome, Plan};

/// `state: upgrade`. `kubeadm upgrade` may be repeated after an interruption: upgraded parts stay as they are.
pub(super) fn plan(tool: Tool, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let version = format!("v{}", args.required("version")?.trim_start_matches('v'));
    let own = tool.release(host)?;
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
    let pods = pod_version();
    let moved = !control_plane || pods.as_deref() == Some(version.as_str());
    let first = args.bool("first");
    if first {
        let cluster = match node::ask_patiently(&tool, host)? {
            Api::Answers(cluster) => cluster,
            Api::Silent(reason) => {
                return Err(Failure::new(format!(
                    "The API server does not answer ({reason}), so the cluster is not upgraded."
                )));
            }
        };
        if moved && cluster.version.as_deref() == Some(version.as_str()) && files.unfinished.is_none() {
            return Ok(Plan::unchanged().with("action", "none").with("version", version));
        }
    } else if moved && control_plane && files.unfinished.is_none() {
        return Ok(Plan::unchanged().with("action", "none").with("version", version));
    }
    // The upgrade replaces the static pods, including a stacked etcd member.
    let verdict = if control_plane { planes::verdict(&tool, args, Purpose::Restart, host)? } else { Verdict::Allowed };
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
        if !skip.is_empty() {
            words.push(format!("--skip-phases={skip}"));
        }
        if !ignored.is_empty() {
            words.push(format!("--ignore-preflight-errors={ignored}"));
        }
        tool.run(&words, host, outcome)?;
        if !control_plane {
            // On a worker, only the kubelet's configuration is rewritten, often with the same content.
            outcome.changed = before != std::fs::read("/var/lib/kubelet/config.yaml").ok();
        }
        match pod_version().filter(|_| control_plane) {
            Some(now) if now != wanted => Err(Failure::new(format!(
                "kubeadm upgrade ended well, but kube-apiserver's manifest names {now}, not {wanted}."
            ))),
            _ => Ok(()),
        }
    };
    verdict.apply(args.bool("allow_unsafe"), || {
        Ok(Plan::change(apply).with("action", "upgrade").with("version", version).with("version_before", pods))
    })
}

/// Version of the node's API server, from the image in its manifest.
fn pod_version() -> Option<String> {
    image_version(&std::fs::read_to_string("/etc/kubernetes/manifests/kube-apiserver.yaml").ok()?)
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
}
