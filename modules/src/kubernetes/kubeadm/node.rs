//! State of a node for the rules in `decide`: its files, the API server's view of it, and the marker that survives an
//! interrupted operation.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::tool::Tool;
use crate::{Failure, Host};

/// Marker file that records an unfinished change of the node.
pub(super) const MARKER: &str = "/etc/kubernetes/.windlass-unfinished";
/// Kubeconfig of the cluster's administrator; only control planes have it.
pub(super) const ADMIN: &str = "/etc/kubernetes/admin.conf";
/// Kubeconfig of the node's kubelet.
pub(super) const KUBELET: &str = "/etc/kubernetes/kubelet.conf";
/// Settings with which the control plane has served, which the role `control_plane` records.
const APPLIED: &str = "/etc/kubernetes/kubeadm-config.applied.yaml";
/// Bytes read of a file that another program has written.
const FILE_LIMIT: u64 = 1 << 20;

/// State of the node's files. A file counts only if it has content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files {
    /// Operation that was begun and not finished: `init` or `join`.
    pub(super) unfinished: Option<String>,
    /// The administrator's kubeconfig exists.
    pub(super) admin: bool,
    /// The kubelet's kubeconfig exists.
    pub(super) kubelet: bool,
    /// The kubelet's bootstrap kubeconfig exists, which only a complete join removes.
    pub(super) bootstrap: bool,
    /// The kubelet's configuration exists.
    pub(super) kubelet_config: bool,
    /// The certificate of the cluster's CA exists.
    pub(super) authority: bool,
    /// The control plane has served with settings of the role `control_plane`.
    pub(super) applied: bool,
    /// Names of static pods, without `.yaml`.
    pub(super) manifests: Vec<String>,
}

impl Files {
    /// Reads the files below a root directory, which is `/` on a host.
    pub(super) fn read(root: &Path, cert_dir: &str) -> Files {
        let at = |path: &str| root.join(path.trim_start_matches('/'));
        let filled = |path: &str| fs::metadata(at(path)).is_ok_and(|metadata| metadata.len() > 0);
        let mut manifests: Vec<String> = fs::read_dir(at("/etc/kubernetes/manifests"))
            .map(|entries| {
                entries
                    .flatten()
                    .filter_map(|entry| Some(entry.file_name().to_string_lossy().strip_suffix(".yaml")?.to_owned()))
                    .collect()
            })
            .unwrap_or_default();
        manifests.sort();
        Files {
            unfinished: fs::read_to_string(at(MARKER)).ok().map(|text| text.trim().to_owned()),
            admin: filled(ADMIN),
            kubelet: filled(KUBELET),
            bootstrap: filled("/etc/kubernetes/bootstrap-kubelet.conf"),
            kubelet_config: filled("/var/lib/kubelet/config.yaml"),
            authority: filled(&format!("{cert_dir}/ca.crt")),
            applied: has_release(&at(APPLIED)),
            manifests,
        }
    }

    /// The node has no files of a cluster.
    pub(super) fn untouched(&self) -> bool {
        self.unfinished.is_none() && !self.admin && !self.kubelet && !self.bootstrap && self.control_plane_pods() == 0
    }

    /// Number of the control plane's three static pods on the node; other static pods do not count.
    pub(super) fn control_plane_pods(&self) -> usize {
        let wanted = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
        wanted.iter().filter(|name| self.manifests.iter().any(|found| found == *name)).count()
    }
}

/// Whether settings of kubeadm name a release. The record of a control plane that another tool created does not.
fn has_release(path: &Path) -> bool {
    let mut text = Vec::new();
    File::open(path).is_ok_and(|file| file.take(FILE_LIMIT).read_to_end(&mut text).is_ok())
        && text.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"kubernetesVersion:"))
}

/// State of the node and the cluster according to the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    /// kubeadm has stored its configuration in the cluster.
    pub(super) configured: bool,
    /// The node is registered.
    pub(super) node: bool,
    /// The node is labelled as a control plane.
    pub(super) labelled: bool,
    /// The node is listed in ClusterStatus, which releases before 1.22 keep; true if no ClusterStatus exists.
    pub(super) listed: bool,
    /// Nodes can join, because the cluster's public information exists.
    pub(super) joinable: bool,
    /// Version in the cluster's configuration.
    pub(super) version: Option<String>,
}

/// Outcome of querying the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Api {
    /// The API server answered.
    Answers(Cluster),
    /// The API server did not answer; contains kubectl's message.
    Silent(String),
}

/// Queries the API server with a kubeconfig of the node.
pub(super) fn ask(tool: &Tool, host: &Host) -> Result<Api, Failure> {
    let output = tool.ask(ADMIN, &["get", "node", &tool.node, "--ignore-not-found", "-o", "json"], host)?;
    if !output.success() {
        let error = output.stderr_text();
        return Ok(Api::Silent(error.lines().next_back().unwrap_or("no answer").to_owned()));
    }
    let mut cluster = Cluster { listed: true, ..Cluster::default() };
    if let Ok(node) = serde_json::from_slice::<Value>(&output.stdout) {
        cluster.node = true;
        cluster.labelled = is_control_plane(&node);
    }
    let words = ["-n", "kube-system", "get", "configmap", "kubeadm-config", "--ignore-not-found", "-o", "json"];
    let output = tool.ask(ADMIN, &words, host)?;
    if let Ok(config) = serde_json::from_slice::<Value>(&output.stdout) {
        let data = |key: &str| config["data"][key].as_str();
        cluster.configured = data("ClusterConfiguration").is_some();
        cluster.version = data("ClusterConfiguration")
            .and_then(|text| super::super::configuration::top_value(text, "kubernetesVersion"));
        cluster.listed = data("ClusterStatus").is_none_or(|status| in_cluster_status(status, &tool.node));
    }
    let words = ["-n", "kube-public", "get", "configmap", "cluster-info", "--ignore-not-found", "-o", "name"];
    cluster.joinable = !tool.ask(ADMIN, &words, host)?.stdout_text().trim().is_empty();
    Ok(Api::Answers(cluster))
}

/// Queries until the API server answers or [`Tool::api_limit`] is over, because a node has no API server
/// shortly after its boot.
pub(super) fn ask_patiently(tool: &Tool, host: &Host) -> Result<Api, Failure> {
    let deadline = Instant::now() + tool.api_limit;
    loop {
        match ask(tool, host)? {
            Api::Silent(reason) if Instant::now() >= deadline => return Ok(Api::Silent(reason)),
            Api::Silent(_) => {
                host.check_cancelled()?;
                std::thread::sleep(Duration::from_secs(2));
            }
            answer => return Ok(answer),
        }
    }
}

/// Whether the node is a control plane. Releases before 1.24 also set the label `master`, and those before 1.20 only
/// that one.
pub(super) fn is_control_plane(node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    ["control-plane", "master"].iter().any(|role| labels.get(format!("node-role.kubernetes.io/{role}")).is_some())
}

fn in_cluster_status(status: &str, node: &str) -> bool {
    let mut endpoints = status.lines().skip_while(|line| !line.starts_with("apiEndpoints:")).skip(1);
    endpoints.any(|line| line.strip_prefix("  ").and_then(|line| line.strip_suffix(':')) == Some(node))
}

/// The marker file. It is removed when the change is finished, and stays after an interruption.
pub(super) struct Unfinished;

impl Unfinished {
    /// Writes the marker and flushes it to disk before the change begins.
    pub(super) fn begin(what: &str) -> Result<Unfinished, Failure> {
        let write = || -> std::io::Result<()> {
            let path = PathBuf::from(MARKER);
            let folder = path.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(folder)?;
            let mut file = File::create(&path)?;
            file.write_all(what.as_bytes())?;
            file.sync_all()?;
            File::open(folder)?.sync_all()
        };
        write()
            .map_err(|error| Failure::new(format!("{MARKER} could not be written, so nothing was begun: {error}.")))?;
        Ok(Unfinished)
    }

    /// Removes the marker after a complete change.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match fs::remove_file(MARKER) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::new(format!("{MARKER} could not be removed: {error}.")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_files_read() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Files::read(folder.path(), "/etc/kubernetes/pki").untouched());
        for path in
            ["etc/kubernetes/manifests/kube-apiserver.yaml", "etc/kubernetes/admin.conf", "etc/kubernetes/pki/ca.crt"]
        {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let files = Files::read(folder.path(), "/etc/kubernetes/pki");
        assert!(files.admin && files.authority && !files.kubelet && !files.untouched());
        assert_eq!(files.control_plane_pods(), 1);

        let record = folder.path().join("etc/kubernetes/kubeadm-config.applied.yaml");
        fs::write(&record, "# Of somebody else\n").unwrap();
        assert!(!Files::read(folder.path(), "/etc/kubernetes/pki").applied);
        fs::write(&record, "kind: ClusterConfiguration\nkubernetesVersion: v1.36.4\n").unwrap();
        assert!(Files::read(folder.path(), "/etc/kubernetes/pki").applied);
    }

    #[test]
    fn control_plane_recognised_by_label_and_list() {
        let status = "apiEndpoints:\n  art1:\n    advertiseAddress: 10.98.0.11\n    bindPort: 6443\n  art2:\n    advertiseAddress: 10.98.0.12\n    bindPort: 6443\napiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterStatus\n";
        assert!(
            in_cluster_status(status, "art2")
                && !in_cluster_status(status, "art3")
                && !in_cluster_status(status, "advertiseAddress")
        );
        let node = serde_json::json!({"metadata": {"labels": {"node-role.kubernetes.io/master": ""}}});
        assert!(is_control_plane(&node));
        assert!(!is_control_plane(&serde_json::json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}})));
    }
}
