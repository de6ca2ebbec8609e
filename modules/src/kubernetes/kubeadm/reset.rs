use std::path::Path;

use super::{
    node::{Files, MARKER},
    tool::Tool,
};
use crate::{Args, Failure, Host, Outcome, Plan};

/// `state: reset`. A node that has nothing of a cluster is left alone.
pub(super) fn plan(tool: Tool, args: &Args) -> Result<Plan, Failure> {
    let files = Files::read(Path::new("/"), &tool.cert_dir);
    if files.untouched() && !files.kubelet_config && !files.authority {
        return Ok(Plan::unchanged().with("action", "none").with("joined", false).with("initialized", false));
    }
    let skip = args.list("skip_phases").join(",");
    let ignored = args.list("ignore_preflight_errors").join(",");
    let apply = move |host: &Host, outcome: &mut Outcome| {
        let mut words = vec!["reset".to_owned(), "--force".to_owned(), format!("--cert-dir={}", tool.cert_dir)];
        if let Some(socket) = &tool.cri_socket {
            words.push(format!("--cri-socket={socket}"));
        }
        if !skip.is_empty() {
            words.push(format!("--skip-phases={skip}"));
        }
        if !ignored.is_empty() {
            words.push(format!("--ignore-preflight-errors={ignored}"));
        }
        tool.run(&words, host, outcome)?;
        let _ = std::fs::remove_file(MARKER);
        outcome.set("joined", false);
        outcome.set("initialized", false);
        Ok(())
    };
    Ok(Plan::change(apply).with("action", "reset"))
}
