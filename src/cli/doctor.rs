//! `windlass doctor`: checks this machine, and suggests how to fix problems.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use clap::Args;
use windlass_ssh::HostKeyChecking;

use super::options::VaultOptions;
use super::session;
use crate::connection::{Kind, ssh_destination};
use crate::error::Result;
use crate::executor::Image;
use crate::foreign::AnsibleCore;
use crate::journal::State;
use crate::outcome::Jobs;
use crate::output::{Printer, Secrets};
use crate::settings::{Color, Config, Settings};
use crate::vars::{FindPython, Run, World, connection_variables};

/// Check this machine and this project: settings, inventory, keys, journal, Python, the lab.
///
/// Reads only, and contacts no host; `Match exec` of ssh_config runs its commands. Each line that is not `ok` names
/// its remedy. Exits with 1 if a line is a `problem`; `note` marks a lack that only some runs notice.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass doctor\n  windlass doctor -i inventory/production")]
pub(super) struct Arguments {
    #[command(flatten)]
    inventory: super::options::InventoryOptions,
}

/// Subject of findings about the inventory.
const INVENTORY: &str = "inventory";

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// It works.
    Ok,
    /// Only some runs need it.
    Note,
    /// Runs fail.
    Problem,
}

/// A line of the report.
#[derive(Debug)]
struct Finding {
    weight: Weight,
    subject: &'static str,
    text: String,
    /// Remedy; empty if it works.
    remedy: String,
}

impl Finding {
    fn ok(subject: &'static str, text: impl Into<String>) -> Finding {
        Finding { weight: Weight::Ok, subject, text: text.into(), remedy: String::new() }
    }

    fn note(subject: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { weight: Weight::Note, subject, text: text.into(), remedy: remedy.into() }
    }

    fn problem(subject: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { weight: Weight::Problem, subject, text: text.into(), remedy: remedy.into() }
    }
}

/// Runs the verb.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let (config, mut settings, configuration) = configuration()?;
    arguments.inventory.apply(&mut settings);
    let printer = session::printer(&settings);
    let mut findings = vec![executors(), configuration];
    findings.extend(paths(&config));
    let (inventory, world) = inventory(&settings);
    findings.extend([inventory, journal(&settings)]);
    match std::env::var_os("HOME").map(PathBuf::from) {
        Some(home) => {
            findings.extend(keys(&home.join(".ssh")));
            findings.push(known_hosts(&home.join(".ssh/known_hosts"), &settings));
            findings.extend(world.and_then(|world| keys_of_hosts(&world)));
        }
        None => {
            findings.push(Finding::problem("home", "HOME is not set", "set HOME: keys and known_hosts lie below it"))
        }
    }
    findings.push(agent());
    findings.push(ansible_core());
    findings.extend(lab());
    findings.iter().for_each(|finding| print(finding, &printer));
    Ok(u8::from(findings.iter().any(|finding| finding.weight == Weight::Problem)))
}

fn print(finding: &Finding, printer: &Printer) {
    let (word, color) = match finding.weight {
        Weight::Ok => ("ok", Color::Ok),
        Weight::Note => ("note", Color::Skip),
        Weight::Problem => ("problem", Color::Error),
    };
    printer.line(&format!("{word:8} {:13} {}", finding.subject, finding.text), color);
    if !finding.remedy.is_empty() {
        printer.line(&format!("{:22} -> {}", "", finding.remedy), Color::Plain);
    }
}

/// Processors of hosts for which this program has an executor.
fn executors() -> Finding {
    let mut architectures: Vec<&str> = Image::embedded().iter().map(|image| image.architecture).collect();
    architectures.dedup();
    Finding::ok("executor", format!("for hosts with {}", architectures.join(" and ")))
}

/// Settings for the other checks, and the finding about them. The defaults replace invalid ones.
fn configuration() -> Result<(Config, Settings, Finding)> {
    let read = Config::find().and_then(|config| Ok((Settings::from_config(&config)?, config)));
    match read {
        Ok((settings, config)) => {
            let finding = settings_in_force(&settings, config.warnings.first());
            Ok((config, settings, finding))
        }
        Err(error) => {
            let remedy = "correct it; until then, the lines below hold for the default settings";
            let finding = Finding::problem("settings", error.to_string(), remedy);
            let config = Config::empty();
            let settings = Settings::from_config(&config)?;
            Ok((config, settings, finding))
        }
    }
}

/// Paths that settings name and that do not exist.
fn paths(config: &Config) -> Vec<Finding> {
    let remedy = |name: &str| format!("create it, or correct `{name}`; `windlass config dump` shows where it is set");
    let text = |name: &str, path: &Path| format!("`{name}` names `{}`, which does not exist", path.display());
    let mut findings = Vec::new();
    for name in ["roles_path", "library"] {
        let missing = config.paths(name).into_iter().flatten().filter(|path| !path.is_dir());
        findings.extend(missing.map(|path| Finding::note("paths", text(name, &path), remedy(name))));
    }
    for name in ["private_key_file", "vault_password_file"] {
        let missing = config.path_of(name).filter(|path| !path.exists());
        findings.extend(missing.map(|path| Finding::problem("paths", text(name, &path), remedy(name))));
    }
    findings
}

fn settings_in_force(settings: &Settings, warning: Option<&String>) -> Finding {
    if let Some(warning) = warning {
        return Finding::problem(
            "settings",
            warning.clone(),
            "`chmod o-w .` lets it count, and so does naming it: `ANSIBLE_CONFIG=ansible.cfg`",
        );
    }
    if !settings.unsupported.is_empty() {
        return Finding::note(
            "settings",
            format!("without effect: {}", settings.unsupported.join(", ")),
            "remove or correct them; `windlass config dump --only-changed` lists what is in force",
        );
    }
    match &settings.config_file {
        Some(file) => Finding::ok("settings", format!("from `{}`", file.display())),
        None => Finding::ok("settings", "defaults; there is no ansible.cfg"),
    }
}

/// The finding about an inventory that is not configured or does not exist.
fn absent_inventory(settings: &Settings) -> Option<Finding> {
    if settings.inventory.sources.is_empty() && !Path::new("/etc/ansible/hosts").exists() {
        return Some(Finding::note(
            INVENTORY,
            "none is configured, and `/etc/ansible/hosts` does not exist",
            "`windlass init inventory` writes `hosts.yml`; name it with -i, or by `inventory` in ansible.cfg",
        ));
    }
    // Hosts of the command line are separated by commas.
    let is_missing = |source: &&String| !source.contains(',') && !crate::settings::expand_home(source).exists();
    let missing = settings.inventory.sources.iter().find(is_missing)?;
    Some(Finding::problem(
        INVENTORY,
        format!("`{}` does not exist", crate::paths::absolute(Path::new(missing)).display()),
        "correct -i or the setting `inventory`, or write `hosts.yml` with `windlass init inventory`",
    ))
}

/// The finding about the inventory, and a run with it if it can be read.
fn inventory(settings: &Settings) -> (Finding, Option<Arc<World>>) {
    if let Some(finding) = absent_inventory(settings) {
        return (finding, None);
    }
    // Without questions: files and programs with passwords suffice for most inventories.
    let mut unasked = settings.clone();
    unasked.vault.ask_pass = false;
    unasked.vault.ids.retain(|id| !id.rsplit('@').next().is_some_and(|source| source.starts_with("prompt")));
    let secrets = VaultOptions::default().secrets(&unasked).unwrap_or_default();
    let engine = windlass_template::Engine::new(
        &windlass_template::LIBRARY,
        windlass_template::Options {
            compat: settings.compat,
            playbook_dir: settings.playbook_dir.clone(),
            secrets,
            ..windlass_template::Options::default()
        },
    );
    let files = crate::playbook::Files::new(windlass_vault::Secrets::new(), settings.duplicate_keys);
    let plugins = session::plugins_without_tasks(settings, files);
    let mut warnings = Vec::new();
    let loaded = session::inventory(settings, &engine, plugins, &Arc::default(), &mut |text| warnings.push(text));
    let sources = settings.inventory.sources.join("`, `");
    match (loaded, warnings.first()) {
        (Err(error), _) => {
            let remedy = "mend it, then try `windlass inventory --graph`";
            (Finding::problem(INVENTORY, error.to_string(), remedy), None)
        }
        (Ok(_), Some(warning)) => {
            let remedy = "`windlass inventory --graph` shows the groups and hosts that it has";
            (Finding::problem(INVENTORY, warning.clone(), remedy), None)
        }
        (Ok(inventory), None) => {
            let count = inventory.hosts().count();
            let finding = match count {
                0 => Finding::problem(
                    INVENTORY,
                    format!("`{sources}` has no hosts"),
                    "add hosts, as `windlass init inventory` does",
                ),
                1 => Finding::ok(INVENTORY, format!("1 host in `{sources}`")),
                _ => Finding::ok(INVENTORY, format!("{count} hosts in `{sources}`")),
            };
            let python: FindPython = Box::new(|| "python3".to_owned());
            let run = Run {
                settings: Arc::new(settings.clone()),
                engine,
                secrets: Secrets::default(),
                extra_vars: Arc::default(),
                python: LazyLock::new(python),
                jobs: Jobs::default(),
            };
            (finding, Some(Arc::new(World::new(Arc::new(run), Arc::new(inventory)))))
        }
    }
}

fn journal(settings: &Settings) -> Finding {
    const SUBJECT: &str = "journal";
    match State::of(settings) {
        Ok(state) => {
            let root = state.root();
            // It is made by the first run, so the directory that exists decides.
            let existing = root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
            match rustix::fs::access(existing, rustix::fs::Access::WRITE_OK) {
                Ok(()) => Finding::ok(SUBJECT, format!("in `{}`", root.display())),
                Err(error) => Finding::problem(
                    SUBJECT,
                    format!("`{}` cannot be written: {error}", existing.display()),
                    "set WINDLASS_JOURNAL_DIR to a directory of yours, or run with --no-journal",
                ),
            }
        }
        Err(error) => Finding::problem(SUBJECT, error.message().to_owned(), "set WINDLASS_JOURNAL_DIR"),
    }
}

/// Private keys that SSH offers by default.
fn keys(directory: &Path) -> Vec<Finding> {
    const SUBJECT: &str = "SSH keys";
    let names = ["id_ed25519", "id_ecdsa", "id_rsa"];
    let existing: Vec<PathBuf> = names.iter().map(|name| directory.join(name)).filter(|path| path.is_file()).collect();
    if existing.is_empty() {
        let text = format!("`{}` has none of {}", directory.display(), names.join(", "));
        return vec![Finding::note(
            SUBJECT,
            text,
            "`ssh-keygen -t ed25519` makes one; an agent, passwords (-k) and other files work too",
        )];
    }
    let open = |path: &&PathBuf| path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    match existing.iter().find(open) {
        Some(path) => vec![Finding::problem(
            SUBJECT,
            format!("other users may read `{}`", path.display()),
            format!("chmod 600 {}", shell_words::quote(&path.to_string_lossy())),
        )],
        None => {
            let shown: Vec<String> = existing.iter().map(|path| format!("`{}`", path.display())).collect();
            vec![Finding::ok(SUBJECT, shown.join(", "))]
        }
    }
}

fn known_hosts(file: &Path, settings: &Settings) -> Finding {
    const SUBJECT: &str = "host keys";
    if !settings.connect.host_key_checking {
        return Finding::problem(
            SUBJECT,
            "host_key_checking is off: anybody may answer for a host",
            "remove it from ansible.cfg and the environment",
        );
    }
    match windlass_bounds::read_text(file) {
        Ok(text) => {
            let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).count();
            Finding::ok(SUBJECT, format!("{lines} in `{}`", file.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Finding::note(
            SUBJECT,
            format!("`{}` does not exist", file.display()),
            "`windlass hostkeys pin -i INVENTORY` adds the keys of its hosts",
        ),
        Err(error) => Finding::problem(
            SUBJECT,
            format!("`{}` cannot be read: {error}", file.display()),
            "make it a readable file of yours",
        ),
    }
}

/// Hosts of the inventory whose keys known_hosts lacks; `None` if none is reached over SSH with checked keys.
fn keys_of_hosts(world: &Arc<World>) -> Option<Finding> {
    // Each host reads ssh_config and known_hosts again.
    const CHECKED: usize = 200;
    const LISTED: usize = 3;
    let mut checked = 0;
    let mut unknown = Vec::new();
    for host in world.inventory.hosts().take(CHECKED) {
        let name = host.name();
        // A connection that only a run can resolve is left to it.
        let context = world.host_context(name);
        let Ok(found) = connection_variables(name, &context, &|_| None, &world.run.settings) else { continue };
        let checking = found.target.host_key_checking;
        if found.target.kind != Kind::Ssh || matches!(checking, Some(HostKeyChecking::No | HostKeyChecking::AcceptNew))
        {
            continue;
        }
        let (destination, settings) = ssh_destination(&found.target);
        let Ok(reached) = windlass_ssh::reached(&destination, &settings) else { continue };
        checked += 1;
        unknown.extend((reached.known_keys == 0).then(|| format!("`{name}`")));
    }
    if unknown.is_empty() {
        let text = format!("known_hosts has keys of all {checked} hosts that are checked");
        return (checked > 0).then(|| Finding::ok("host keys", text));
    }
    let more = unknown.len().saturating_sub(LISTED);
    unknown.truncate(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text = format!("known_hosts has none of {}{more}", unknown.join(", "));
    Some(Finding::note("host keys", text, "`windlass hostkeys pin -i INVENTORY` shows and adds them"))
}

fn agent() -> Finding {
    const SUBJECT: &str = "SSH agent";
    match std::env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty()).map(PathBuf::from) {
        None => Finding::note(SUBJECT, "none", "keys with a passphrase need one: `eval $(ssh-agent) && ssh-add`"),
        Some(socket) => match UnixStream::connect(&socket) {
            Ok(_) => Finding::ok(SUBJECT, format!("at `{}`", socket.display())),
            Err(error) => Finding::problem(
                SUBJECT,
                format!("`{}` does not answer: {error}", socket.display()),
                "unset SSH_AUTH_SOCK, or start an agent: `eval $(ssh-agent) && ssh-add`",
            ),
        },
    }
}

fn ansible_core() -> Finding {
    const SUBJECT: &str = "ansible-core";
    match AnsibleCore::find() {
        Some(core) => Finding::ok(SUBJECT, format!("{} in `{}`", core.version, core.package.display())),
        None => Finding::note(
            SUBJECT,
            "not installed",
            "only modules and plugins in Python that import Ansible's own code need it: `pip install ansible-core`",
        ),
    }
}

fn lab() -> Vec<Finding> {
    let missing = windlass_lab::missing(windlass_lab::Base::ToBuild);
    if missing.is_empty() {
        return vec![Finding::ok("lab", "this machine can start throwaway hosts")];
    }
    missing.into_iter().map(|missing| Finding::note("lab", missing.what, missing.remedy)).collect()
}
