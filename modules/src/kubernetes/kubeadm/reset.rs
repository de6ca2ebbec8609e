//! `state: reset` of `kubeadm`.

use std::path::Path;

use super::{
    super::quorum::Verdict,
    node::{Files, MARKER},
    planes::{Purpose, Request},
    tool::{Tool, phase_options},
};
use crate::{Args, Failure, Host, Outcome, Plan};

/// `state: reset`. Leaves a node without cluster files alone, and refuses a control plane that others need.
pub(super) fn plan(tool: Tool, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let files = Files::read(Path::new("/"), &tool.cert_dir);
    if files.untouched() && !files.kubelet_config && !files.authority {
        return Ok(Plan::unchanged().with("action", "none").with("joined", false).with("initialized", false));
    }
    // A node with an unfinished init or join is not yet a control plane that others rely on.
    let mut request = Request::of(&tool, args, Purpose::Stop);
    let serves = files.unfinished.is_none() && files.control_plane_pods() > 0;
    let verdict = if serves { request.judge(host)? } else { Verdict::Allowed };
    let skip = args.list("skip_phases").join(",");
    let ignored = args.list("ignore_preflight_errors").join(",");
    let apply = move |host: &Host, outcome: &mut Outcome| {
        let mut words = vec!["reset".to_owned(), "--force".to_owned(), format!("--cert-dir={}", tool.cert_dir)];
        if let Some(socket) = &tool.cri_socket {
            words.push(format!("--cri-socket={socket}"));
        }
        words.extend(phase_options(&skip, &ignored));
        request.alone(host, || tool.run(&words, host, outcome))?;
        let _ = std::fs::remove_file(MARKER);
        outcome.set("joined", false);
        outcome.set("initialized", false);
        Ok(())
    };
    verdict.apply(args.bool("allow_unsafe"), || Ok(Plan::change(apply).with("action", "reset")))
}
