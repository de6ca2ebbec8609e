//! `state: init` of `kubeadm`: creates the cluster on its first node, and repeats an interrupted creation.

use std::path::Path;

use super::{
    decide::{self, Step},
    node::{self, Files, Unfinished},
    tokens,
    tool::{Tool, phase_options},
};
use crate::{Args, Failure, Host, Plan};

/// `state: init`.
pub(super) fn plan(tool: Tool, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let files = Files::read(Path::new("/"), &tool.cert_dir);
    let api = if files.unfinished.is_none() && decide::needs_api(&files) {
        Some(node::ask_patiently(&tool, host)?)
    } else {
        None
    };
    let (again, reason) = match decide::init(&files, api.as_ref()) {
        Step::Nothing => {
            let plan =
                Plan::unchanged().with("action", "none").with("initialized", true).with("node", tool.node.as_str());
            return Ok(plan.with("ca_cert_hash", tool.ca_cert_hash()));
        }
        Step::Refuse(sentence) => return Err(Failure::new(sentence)),
        Step::Fresh => (false, "nothing of a cluster is on this node"),
        Step::Again(reason) | Step::FinishControlPlane(reason) | Step::FinishWorker(reason) => (true, reason),
    };
    let skip = args.list("skip_phases").join(",");
    let ignored = if again { "all".to_owned() } else { args.list("ignore_preflight_errors").join(",") };
    let upload = args.bool("upload_certs");
    let extra = ["node_name", "cri_socket"]
        .map(|name| args.str(name).map(|value| format!("--{}={value}", name.replace('_', "-"))));
    let apply = move |host: &Host, outcome: &mut crate::Outcome| {
        let config = tool.config()?;
        let mut words = vec!["init".to_owned()];
        match &config {
            Some((path, _)) => words.extend(["--config".to_owned(), path.clone()]),
            None => {
                words.extend(extra.into_iter().flatten());
                words.push(format!("--cert-dir={}", tool.cert_dir));
            }
        }
        if upload {
            words.push("--upload-certs".into());
        }
        words.extend(phase_options(&skip, &ignored));
        let unfinished = Unfinished::begin("init")?;
        let output = tool.run(&words, host, outcome)?;
        // kubeadm's own token would be valid for a day.
        if !tool.configuration.as_deref().unwrap_or_default().contains("bootstrapTokens:") {
            tokens::delete_printed(&tool, &output.stdout_text(), host)?;
        }
        unfinished.finish()?;
        outcome.set("initialized", true);
        outcome.set("ca_cert_hash", tool.ca_cert_hash());
        Ok(())
    };
    Ok(Plan::change(apply).with("action", if again { "repair" } else { "init" }).with("reason", reason))
}
