//! `windlass bundle create`: lets a playbook compute the needs of an inventory, and creates the bundle.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::{Value, json};

use super::show::size;
use super::{line, private_key};
use crate::bundle::{self, Bundle, Encoding, Plan, Request};
use crate::error::{Error, Result};
use crate::output::Printer;

/// Create a bundle for an inventory.
///
/// Run it in the project that has the playbooks and roles, as `windlass init kubernetes` writes it. No host is
/// connected to: the roles' own lists are evaluated on this machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass bundle create -i inventory/prod --sign ~/.ssh/id_ed25519 prod.bundle
  windlass bundle create -i inventory/prod -e kube_version=1.35.8 --since prod.bundle next.bundle
  windlass bundle create -i inventory/prod --arch amd64,arm64 prod.bundle")]
pub(super) struct Arguments {
    /// The bundle to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Inventory file, directory or script; repeatable
    #[arg(short, long, value_name = "SOURCE", required = true)]
    inventory: Vec<String>,
    /// Variables: `key=value`, YAML, JSON or @FILE; repeatable
    #[arg(short, long, value_name = "VARS")]
    extra_vars: Vec<String>,
    /// Leave out what this bundle has already
    #[arg(long, value_name = "OLD")]
    since: Option<PathBuf>,
    /// Private key in OpenSSH's format to sign with; without one, the bundle is unsigned
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// Name of the bundle [default: the inventory's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Architectures of the hosts, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "amd64", value_parser = ["amd64", "arm64"])]
    arch: Vec<String>,
    /// Leave out images that `image_archives` lacks, instead of reading them from their registries
    #[arg(long)]
    without_images: bool,
    /// Do not add Windlass itself
    #[arg(long)]
    without_windlass: bool,
    /// Playbook that lists the needs
    #[arg(long, value_name = "PLAYBOOK", default_value = "playbooks/bundle.yml")]
    playbook: PathBuf,
    /// Seconds to wait for an answer of a download site
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Vault identity as `label@source`; the source is `prompt`, a file or an executable; repeatable
    #[arg(long, value_name = "ID")]
    vault_id: Vec<String>,
    /// Read the vault password from a file, or from an executable's output; repeatable
    #[arg(long, value_name = "FILE")]
    vault_password_file: Vec<String>,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<()> {
    let since = arguments.since.as_deref().map(Bundle::open).transpose()?;
    let key = arguments.sign.as_deref().map(private_key).transpose()?;
    let name = match &arguments.name {
        Some(name) => name.clone(),
        None => arguments.inventory.first().map(|source| name_of(source)).unwrap_or_default(),
    };
    let program = match arguments.without_windlass {
        true => None,
        false => Some(super::super::child::own_program()?),
    };
    let request = Request {
        name,
        plan: plan(arguments)?,
        program,
        since: since.as_ref(),
        key,
        architectures: arguments.arch.clone(),
        without_images: arguments.without_images,
        timeout: arguments.timeout,
    };
    let report = &mut |url: &str| line(printer, &format!("adding {url}"));
    let manifest = bundle::create(&request, &arguments.file, report)?;
    let own: Vec<_> = manifest.files.iter().filter(|file| file.encoding != Encoding::Base).collect();
    for left in &manifest.left_out {
        line(printer, &format!("left out: {} {}: {}", left.kind, left.name, left.reason));
    }
    let written = std::fs::metadata(&arguments.file).map(|found| found.len()).unwrap_or_default();
    let contents = own.iter().map(|file| file.size).sum();
    let count = format!("{} of {} files", own.len(), manifest.files.len());
    let file = arguments.file.display();
    line(printer, &format!("created {file}: {count}, {} in {}", size(contents), size(written)));
    if request.key.is_none() {
        line(printer, "unsigned: sign it with `windlass bundle sign`");
    }
    Ok(())
}

/// Runs the playbook that lists the needs.
fn plan(arguments: &Arguments) -> Result<Plan> {
    if !arguments.playbook.is_file() {
        return Err(Error::usage(format!("the playbook `{}` does not exist here", arguments.playbook.display()))
            .hint("run the command in a project that `windlass init kubernetes` made, or name one with --playbook"));
    }
    let folder = tempfile::tempdir().map_err(|error| Error::new(format!("no temporary directory: {error}")))?;
    let answer = folder.path().join("plan.json");
    let variables = json!({"bundle_plan": answer, "bundle_architectures": arguments.arch});
    let mut command = Command::new(super::super::child::own_program()?);
    command.arg("playbook").arg(&arguments.playbook).arg("--no-journal");
    for (option, values) in [
        ("-i", &arguments.inventory),
        ("-e", &arguments.extra_vars),
        ("--vault-id", &arguments.vault_id),
        ("--vault-password-file", &arguments.vault_password_file),
    ] {
        command.args(values.iter().flat_map(|value| [option, value.as_str()]));
    }
    command.args(["-e", &variables.to_string()]);
    let events = folder.path().join("events.jsonl");
    let output = command.arg("--events").arg(&events).stdin(Stdio::null()).output();
    let output = output.map_err(super::super::child::cannot_start)?;
    let failed = !output.status.success();
    let reasons = if failed { reasons(&events) } else { Vec::new() };
    // Without a reason, the output is all that is known. Otherwise, only its warnings matter.
    if failed && reasons.is_empty() {
        super::super::stdout::print(&String::from_utf8_lossy(&output.stdout))?;
    }
    if reasons.is_empty() {
        let _ = std::io::stderr().write_all(&output.stderr);
    }
    if failed {
        let failure = format!("nothing was written, because `{}` failed", arguments.playbook.display());
        let reasons = reasons.iter().map(|reason| format!("\n  {reason}")).collect::<String>();
        let mark = if reasons.is_empty() { "" } else { ":" };
        return Err(Error::new(format!("{failure}{mark}{reasons}")));
    }
    let bytes = windlass_bounds::read(&answer).map_err(|error| {
        Error::new(format!("`{}` wrote no list of needs: {error}", arguments.playbook.display()))
            .hint("use the playbook of this release")
    })?;
    Plan::parse(&bytes)
}

/// Messages of the failures that ended a run, from its events. Hosts may fail alike.
fn reasons(events: &Path) -> Vec<String> {
    let lines = windlass_bounds::read(events).unwrap_or_default();
    let mut found: Vec<(Value, String)> = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { continue };
        let place = json!([event["host"], event["task"]]);
        let has_failed =
            matches!(event["status"].as_str(), Some("failed" | "unreachable")) && event["ignored"] == false;
        match event["event"].as_str() {
            Some("error") => {}
            Some("result") if has_failed => {}
            Some("rescued") => {
                found.retain(|(failed, _)| *failed != place);
                continue;
            }
            _ => continue,
        }
        let message = event["message"].as_str().unwrap_or_default().to_owned();
        if !message.is_empty() && found.iter().all(|(_, other)| *other != message) {
            found.push((place, message));
        }
    }
    found.into_iter().map(|(_, message)| message).collect()
}

/// Name of an inventory: its directory, or the directory of its file.
fn name_of(source: &str) -> String {
    let path = crate::paths::absolute(Path::new(source));
    let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
    let name = folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "bundle".to_owned())
}
