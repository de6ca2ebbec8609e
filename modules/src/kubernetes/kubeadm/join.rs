//! `state: join` of `kubeadm`: joins a node, repeats an interrupted join, or adds missing parts.

use std::path::Path;

use serde_json::json;

use super::{
    super::configuration::{Secret, api_version},
    decide::{self, Step},
    node::{self, Files, KUBELET, Unfinished},
    tool::{Tool, phase_options},
};
use crate::{Args, Failure, Host, Outcome, Plan};

/// `state: join`.
pub(super) fn plan(tool: Tool, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let control_plane = args.bool("control_plane");
    let files = Files::read(Path::new("/"), &tool.cert_dir);
    let api = if control_plane && decide::needs_api(&files) { Some(node::ask_patiently(&tool, host)?) } else { None };
    let step = decide::join(&files, control_plane, api.as_ref());
    let (action, reason) = match &step {
        Step::Nothing => {
            return Ok(Plan::unchanged().with("action", "none").with("joined", true).with("node", tool.node.as_str()));
        }
        Step::Refuse(sentence) => return Err(Failure::new(sentence.as_str())),
        Step::Fresh => ("join", "nothing of a cluster is on this node"),
        Step::Again(reason) => ("repair", *reason),
        Step::FinishControlPlane(reason) | Step::FinishWorker(reason) => ("finish", *reason),
    };
    let wanted = Wanted::of(args, control_plane);
    if tool.configuration.is_none() && args.str("config").is_none() {
        wanted.check(&step)?;
    }
    let skip = args.list("skip_phases").join(",");
    let node = tool.node.clone();
    let ignored = if step == Step::Fresh { args.list("ignore_preflight_errors").join(",") } else { "all".to_owned() };
    let apply = move |host: &Host, outcome: &mut Outcome| {
        let unfinished = Unfinished::begin("join")?;
        if matches!(step, Step::FinishWorker(_) | Step::FinishControlPlane(_)) {
            record_runtime(&tool, host)?;
        }
        match step {
            Step::FinishWorker(_) => remove_bootstrap()?,
            step => {
                let (path, _secret) = match tool.config()? {
                    Some((path, secret)) => (path, secret),
                    None => {
                        let secret = wanted.configuration(&tool, host)?;
                        (secret.path(), Some(secret))
                    }
                };
                let mut words = vec!["join".to_owned()];
                if matches!(step, Step::FinishControlPlane(_)) {
                    words.extend(["phase", "control-plane-join", "all"].map(str::to_owned));
                }
                words.extend(["--config".to_owned(), path]);
                if !matches!(step, Step::FinishControlPlane(_)) {
                    words.extend(phase_options(&skip, &ignored));
                }
                tool.run(&words, host, outcome)?;
                // Only a complete join removes this file.
                let _ = std::fs::remove_file("/etc/kubernetes/bootstrap-kubelet.conf");
            }
        }
        unfinished.finish()?;
        outcome.set("joined", true);
        Ok(())
    };
    Ok(Plan::change(apply).with("action", action).with("reason", reason).with("node", node))
}

/// Records the container runtime of a registered node, which kubeadm reads at upgrades. A join may have ended before.
fn record_runtime(tool: &Tool, host: &Host) -> Result<(), Failure> {
    let Some(socket) = &tool.cri_socket else { return Ok(()) };
    let note = format!("kubeadm.alpha.kubernetes.io/cri-socket={socket}");
    let output = tool.ask(KUBELET, &["annotate", "--overwrite", "node", &tool.node, &note], host)?;
    match output.success() {
        true => Ok(()),
        false => Err(output.failure(&["kubectl annotate node".to_owned(), tool.node.clone()])),
    }
}

/// Removes a bootstrap file that is no longer needed.
fn remove_bootstrap() -> Result<(), Failure> {
    match std::fs::remove_file("/etc/kubernetes/bootstrap-kubelet.conf") {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("bootstrap-kubelet.conf could not be removed: {error}.")))
        }
        _ => Ok(()),
    }
}

/// Facts about the cluster to join, without a configuration file.
struct Wanted {
    endpoint: Option<String>,
    token: Option<String>,
    hashes: Vec<String>,
    certificate_key: Option<String>,
    address: Option<String>,
    control_plane: bool,
}

impl Wanted {
    fn of(args: &Args, control_plane: bool) -> Wanted {
        let text = |name: &str| args.str(name).map(str::to_owned);
        Wanted {
            endpoint: text("api_endpoint"),
            token: text("token"),
            hashes: args.list("ca_cert_hash").into_iter().map(str::to_owned).collect(),
            certificate_key: text("certificate_key"),
            address: text("advertise_address"),
            control_plane,
        }
    }

    fn check(&self, step: &Step) -> Result<(), Failure> {
        let missing: Vec<&str> = [
            ("api_endpoint", self.endpoint.is_none()),
            ("token", self.token.is_none()),
            ("ca_cert_hash", self.hashes.is_empty()),
            ("certificate_key", self.control_plane && self.certificate_key.is_none()),
        ]
        .into_iter()
        .filter_map(|(name, missing)| missing.then_some(name))
        .collect();
        if missing.is_empty() || matches!(step, Step::FinishWorker(_)) {
            return Ok(());
        }
        Err(Failure::new(format!("To join without a configuration file, kubeadm also needs {}.", missing.join(", "))))
    }

    fn configuration(&self, tool: &Tool, host: &Host) -> Result<Secret, Failure> {
        let mut registration = json!({ "name": tool.node });
        if let Some(socket) = &tool.cri_socket {
            registration["criSocket"] = json!(socket);
        }
        let mut configuration = json!({
            "apiVersion": api_version(&tool.release(host)?),
            "kind": "JoinConfiguration",
            "caCertPath": format!("{}/ca.crt", tool.cert_dir),
            "discovery": {
                "bootstrapToken": { "apiServerEndpoint": self.endpoint, "token": self.token, "caCertHashes": self.hashes }
            },
            "nodeRegistration": registration,
        });
        if self.control_plane {
            let mut plane = json!({ "certificateKey": self.certificate_key });
            if let Some(address) = &self.address {
                plane["localAPIEndpoint"] = json!({ "advertiseAddress": address });
            }
            configuration["controlPlane"] = plane;
        }
        Secret::write(&configuration.to_string())
    }
}
