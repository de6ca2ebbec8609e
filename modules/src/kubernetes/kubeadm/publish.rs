//! The configuration that a cluster stores about itself: kubeadm's, and the address for nodes that join.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::tool::Tool;
use crate::{Failure, Host, Outcome, process::Command};

const CONFIG: [&str; 7] = ["-n", "kube-system", "get", "configmap", "kubeadm-config", "-o", "jsonpath={.data}"];
const INFO: [&str; 8] = ["-n", "kube-public", "get", "configmap", "cluster-info", "--ignore-not-found", "-o", "json"];

/// The configuration and the address, stored by the first control plane.
pub(super) struct Publication {
    /// Kubeconfig of the administrator.
    pub(super) admin: String,
    /// `host:port` of the API server for nodes that join.
    pub(super) endpoint: String,
}

impl Publication {
    /// The object `cluster-info` with the new address, if it has another one.
    pub(super) fn outdated(&self, tool: &Tool, host: &Host) -> Result<Option<Value>, Failure> {
        let output = tool.ask(&self.admin, &INFO, host)?;
        if !output.success() {
            return Err(output.failure(&["kubectl get configmap cluster-info".to_owned()]));
        }
        let Ok(mut info) = serde_json::from_slice::<Value>(&output.stdout) else { return Ok(None) };
        let Some(before) = info["data"]["kubeconfig"].as_str() else { return Ok(None) };
        let after = with_server(before, &self.endpoint);
        if after == before {
            return Ok(None);
        }
        info["data"]["kubeconfig"] = after.into();
        Ok(Some(info))
    }

    /// Stores the configuration and the address; returns whether that changed them. Tries again until
    /// [`Tool::api_limit`] is over, because the load balancer may still route to an API server that stops.
    pub(super) fn publish(
        &self,
        tool: &Tool,
        config: &str,
        host: &Host,
        outcome: &mut Outcome,
    ) -> Result<bool, Failure> {
        let deadline = Instant::now() + tool.api_limit;
        loop {
            match self.store(tool, config, host, outcome) {
                Err(_) if Instant::now() < deadline => {
                    host.check_cancelled()?;
                    std::thread::sleep(Duration::from_secs(1));
                }
                result => return result,
            }
        }
    }

    fn store(&self, tool: &Tool, config: &str, host: &Host, outcome: &mut Outcome) -> Result<bool, Failure> {
        let before = tool.ask(&self.admin, &CONFIG, host)?.stdout;
        let words = ["init", "phase", "upload-config", "kubeadm", "--config", config].map(str::to_owned);
        tool.run(&words, host, outcome)?;
        let changed = before != tool.ask(&self.admin, &CONFIG, host)?.stdout;
        let Some(info) = self.outdated(tool, host)? else { return Ok(changed) };
        let words = ["--kubeconfig", &self.admin, "--request-timeout=10s", "replace", "-f", "-"];
        Command::new(&tool.kubectl).plain_locale().args(words).input(info.to_string()).check_run(host)?;
        Ok(true)
    }
}

/// A kubeconfig with another address of its servers.
fn with_server(kubeconfig: &str, endpoint: &str) -> String {
    let line = |line: &str| match line.split_once("server: https://") {
        Some((indent, _)) if indent.trim().is_empty() => format!("{indent}server: https://{endpoint}\n"),
        _ => line.to_owned(),
    };
    kubeconfig.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_replaced_in_kubeconfig() {
        let before = "clusters:\n- cluster:\n    server: https://old:6443\n  name: \"\"\nkind: Config\n";
        let after = with_server(before, "10.0.0.9:8443");
        assert_eq!(after, before.replace("old:6443", "10.0.0.9:8443"));
        assert_eq!(with_server(&after, "10.0.0.9:8443"), after);
    }
}
