//! Snapshots, which are kept only after verification.

use std::path::Path;

use super::{client::Client, cluster::snapshot_status};
use crate::{
    Args, Failure, Host, Outcome, Plan,
    process::{self, Command},
};

/// `state: snapshot`.
pub(super) fn plan(client: Client, args: &Args) -> Result<Plan, Failure> {
    let path = args.required("path")?.to_owned();
    let folder = Path::new(&path).parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        return Err(Failure::new(format!("The folder {} for the snapshot does not exist.", folder.display())));
    }
    Ok(Plan::change(move |host, outcome| take_snapshot(&client, &path, host, outcome)))
}

fn take_snapshot(client: &Client, path: &str, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
    // A snapshot comes from one member: the first healthy one.
    let health = client.health(host, &client.endpoints)?;
    let Some(endpoint) = health.iter().find(|endpoint| endpoint.health) else {
        let errors: Vec<String> =
            health.iter().map(|endpoint| format!("{}: {}", endpoint.endpoint, endpoint.error)).collect();
        return Err(Failure::new(format!(
            "No etcd member is healthy, so no snapshot was taken ({}).",
            errors.join("; ")
        )));
    };
    // The snapshot is renamed only after verification, so that a bad one never replaces an older good one.
    let draft = format!("{path}.unverified");
    let one = client.at(&endpoint.endpoint);
    let result = one.run(host, &["snapshot", "save", &draft]).and_then(|_| {
        let utility = process::find(host, "etcdutl");
        let program = utility.map_or_else(|| client.program.clone(), |path| path.to_string_lossy().into_owned());
        let checked = Command::new(program)
            .plain_locale()
            .variable("ETCDCTL_API", "3")
            .args(["snapshot", "status", &draft, "-w", "json"]);
        snapshot_status(&checked.check_run(host)?.stdout_text())
    });
    let mut status = match result {
        Ok(status) => status,
        Err(failure) => {
            let _ = std::fs::remove_file(&draft);
            return Err(failure);
        }
    };
    std::fs::rename(&draft, path)
        .map_err(|error| Failure::new(format!("The snapshot could not be renamed to {path}: {error}.")))?;
    status.insert("path".into(), path.into());
    status.insert("endpoint".into(), endpoint.endpoint.as_str().into());
    outcome.set("snapshot", status);
    Ok(())
}
