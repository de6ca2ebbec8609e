//! `windlass doctor`: checks this machine, and suggests how to fix problems.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, mpsc};
use std::time::{Duration, Instant};

use clap::Args;
use windlass_inventory::Inventory;
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
use crate::vars::{Answers, FindPython, Run, World, connection_variables};

/// Check this machine and this project: settings, inventory, keys, journal, Python, the lab.
///
/// Reads only, and contacts no host. Programs that are sources of the inventory or of vault passwords run, and so does
/// `Match exec` of ssh_config; lookups that run programs or write files do not. Each line that is not `ok` names
/// its remedy. Exits with 1 if a line is a `problem`; `note` marks something missing that only some runs need.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass doctor\n  windlass doctor -i inventory/production")]
pub(super) struct Arguments {
    #[command(flatten)]
    inventory: super::options::InventoryOptions,
}

/// Subject of findings about the inventory.
const INVENTORY: &str = "inventory";

/// Subject of findings about keys of hosts.
const KEYS: &str = "host keys";

/// Maximum number of hosts whose keys are looked up, because each reads ssh_config and known_hosts again.
const CHECKED: usize = 200;

/// Deadline for looking up the keys of all hosts: `Match exec` of ssh_config runs programs.
const KEYS_DEADLINE: Duration = Duration::from_secs(10);

/// Remedy for keys that took longer.
const SLOW: &str = "shorten the commands of `Match exec` in ssh_config";

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// Everything works.
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
            passive: true,
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
            let remedy = "fix it, then try `windlass inventory --graph`";
            (Finding::problem(INVENTORY, error.to_string(), remedy), None)
        }
        (Ok(_), Some(warning)) => {
            let remedy = "`windlass inventory --graph` shows the groups and hosts that it has";
            (Finding::problem(INVENTORY, warning.clone(), remedy), None)
        }
        (Ok(inventory), None) => {
            let count = inventory.hosts().count();
            let chosen = within_limit(&inventory).len();
            let limit = settings.inventory.limit.as_deref().unwrap_or_default();
            let finding = match count {
                0 => Finding::problem(
                    INVENTORY,
                    format!("`{sources}` has no hosts"),
                    "add hosts, as `windlass init inventory` does",
                ),
                _ if chosen == 0 => Finding::problem(
                    INVENTORY,
                    format!("the limit `{limit}` leaves none of the {count} hosts in `{sources}`"),
                    "`windlass inventory --graph` shows the groups and hosts that it has",
                ),
                _ if chosen < count => Finding::ok(
                    INVENTORY,
                    format!("{chosen} of {count} hosts in `{sources}` within the limit `{limit}`"),
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
                answers: Answers::default(),
            };
            (finding, Some(Arc::new(World::new(Arc::new(run), Arc::new(inventory)))))
        }
    }
}

/// Hosts of the inventory within `--limit`.
fn within_limit(inventory: &Inventory) -> Vec<Arc<str>> {
    inventory.matching("all").map(|found| found.hosts).unwrap_or_default()
}

fn journal(settings: &Settings) -> Finding {
    const SUBJECT: &str = "journal";
    match State::of(settings) {
        Ok(state) => {
            let root = state.root();
            // The first run creates the directory, so its nearest existing ancestor must be writable.
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
    if !settings.connect.host_key_checking {
        return Finding::problem(
            KEYS,
            "host_key_checking is off: anybody may answer for a host",
            "remove it from ansible.cfg and the environment",
        );
    }
    match windlass_bounds::read_text(file) {
        Ok(text) => {
            let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).count();
            Finding::ok(KEYS, format!("{lines} in `{}`", file.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Finding::note(
            KEYS,
            format!("`{}` does not exist", file.display()),
            "`windlass hostkeys pin -i INVENTORY` adds the keys of its hosts",
        ),
        Err(error) => Finding::problem(
            KEYS,
            format!("`{}` cannot be read: {error}", file.display()),
            "make it a readable file of yours",
        ),
    }
}

/// Hosts of the inventory whose keys known_hosts lacks; `None` if none is reached over SSH with checked keys.
fn keys_of_hosts(world: &Arc<World>) -> Option<Finding> {
    const LISTED: usize = 3;
    let mut names = within_limit(&world.inventory);
    names.truncate(CHECKED);
    let count = names.len();
    let (sender, receiver) = mpsc::channel();
    let world = Arc::clone(world);
    let look = move || {
        let mut found = names.iter().map(|name| has_keys(&world, name).map(|has| (Arc::clone(name), has)));
        // Nobody receives after the deadline.
        _ = found.try_for_each(|one| sender.send(one));
    };
    // Templates nest deeper than the usual stack of a thread allows.
    std::thread::Builder::new().stack_size(16 << 20).spawn(look).ok()?;
    let end = Instant::now() + KEYS_DEADLINE;
    let looked_at: Vec<Option<(Arc<str>, bool)>> =
        std::iter::from_fn(|| receiver.recv_timeout(end.saturating_duration_since(Instant::now())).ok()).collect();
    let left = count - looked_at.len();
    let checked = looked_at.iter().flatten().count();
    let mut unknown: Vec<String> =
        looked_at.iter().flatten().filter(|(_, has)| !has).map(|(name, _)| format!("`{name}`")).collect();
    let late = format!("{left} of {count} hosts were not looked at within {} s", KEYS_DEADLINE.as_secs());
    if unknown.is_empty() {
        let text = match checked {
            1 => "known_hosts has the key of the only host that is checked".to_owned(),
            _ => format!("known_hosts has keys of all {checked} hosts that are checked"),
        };
        return match left {
            0 => (checked > 0).then(|| Finding::ok(KEYS, text)),
            _ => Some(Finding::note(KEYS, late, SLOW)),
        };
    }
    let more = unknown.len().saturating_sub(LISTED);
    unknown.truncate(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let late = if left > 0 { format!("; {late}") } else { String::new() };
    let text = format!("known_hosts has none of {}{more}{late}", unknown.join(", "));
    Some(Finding::note(KEYS, text, "`windlass hostkeys pin -i INVENTORY` shows and adds them"))
}

/// Whether known_hosts has keys of a host; `None` if its keys are not checked, or if only a run can resolve its
/// connection.
fn has_keys(world: &Arc<World>, name: &Arc<str>) -> Option<bool> {
    let context = world.host_context(name);
    let target = connection_variables(name, &context, &|_| None, &world.run.settings).ok()?.target;
    let is_unchecked = matches!(target.host_key_checking, Some(HostKeyChecking::No | HostKeyChecking::AcceptNew));
    if target.kind != Kind::Ssh || is_unchecked {
        return None;
    }
    let (destination, settings) = ssh_destination(&target);
    Some(windlass_ssh::reached(&destination, &settings).ok()?.known_keys > 0)
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
