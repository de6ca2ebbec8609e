//! `windlass pull`: fetches a repository and runs a playbook of it on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::error::{Error, Result};
use crate::output::{Color, Printer};
use crate::settings::{Config, Settings, expand_home};

/// Fetch a repository and run a playbook of it on this machine.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The playbooks; that of this machine's name, or local.yml, if none is given
    #[arg(value_name = "PLAYBOOK")]
    playbooks: Vec<PathBuf>,
    /// The repository
    #[arg(short = 'U', long, value_name = "URL")]
    url: Option<String>,
    /// A branch, a tag or a commit of it
    #[arg(short = 'C', long, value_name = "VERSION")]
    checkout: Option<String>,
    /// The folder it is fetched to
    #[arg(short = 'd', long = "directory", value_name = "DIR")]
    dest: Option<String>,
    /// The module that fetches it: git, subversion, hg or bzr
    #[arg(short, long, default_value = "git", value_name = "NAME")]
    module_name: String,
    /// Run nothing if the repository has not changed
    #[arg(short, long)]
    only_if_changed: bool,
    /// Run also if the repository cannot be fetched
    #[arg(short, long)]
    force: bool,
    /// Throw changes in the folder away
    #[arg(long)]
    clean: bool,
    /// Fetch the whole history
    #[arg(long)]
    full: bool,
    /// Remove the folder afterwards
    #[arg(long)]
    purge: bool,
    /// Wait up to so many seconds first, by chance, so that not all machines ask at once
    #[arg(short, long, value_name = "SECONDS")]
    sleep: Option<String>,
    /// Accept the key of a server that is not known
    #[arg(long)]
    accept_host_key: bool,
    /// Accept the keys of hosts that known_hosts does not name, if the playbook reaches others
    #[arg(long)]
    accept_new_host_keys: bool,
    /// Run only what a trusted key has signed
    #[arg(long)]
    verify_commit: bool,
    /// Take the newest commits of submodules
    #[arg(long)]
    track_subs: bool,
    /// An inventory file, folder or script, or hosts with a comma: `a,b,`
    #[arg(short, long, visible_alias = "inventory-file", value_name = "SOURCE")]
    inventory: Vec<String>,
    /// Only these hosts: a pattern, or @FILE
    #[arg(short, long, value_name = "PATTERN", allow_hyphen_values = true)]
    limit: Option<String>,
    /// Only tasks with these tags
    #[arg(short, long, value_name = "TAGS")]
    tags: Vec<String>,
    /// No tasks with these tags
    #[arg(long, value_name = "TAGS")]
    skip_tags: Vec<String>,
    /// Variables: `key=value`, YAML, JSON or @FILE
    #[arg(short, long, value_name = "VARS")]
    extra_vars: Vec<String>,
    /// Predict only; change nothing
    #[arg(long)]
    check: bool,
    /// Show what changes in files
    #[arg(long)]
    diff: bool,
    /// Forget cached facts
    #[arg(long)]
    flush_cache: bool,
    /// Show more
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Search modules in these folders first (separated by colons)
    #[arg(short = 'M', long, value_name = "PATH")]
    module_path: Vec<String>,
    /// The key for the repository
    #[arg(long, visible_alias = "key-file", value_name = "FILE")]
    private_key: Option<String>,
    /// Read the login password from a file
    #[arg(long, visible_alias = "conn-pass-file", value_name = "FILE")]
    connection_password_file: Option<String>,
    /// Ask for the password to become with
    #[arg(short = 'K', long)]
    ask_become_pass: bool,
    /// Read the password to become with from a file
    #[arg(long, visible_alias = "become-pass-file", value_name = "FILE")]
    become_password_file: Option<String>,
    /// A vault identity: `label@source`, the source being `prompt`, a file or a program
    #[arg(long, value_name = "ID")]
    vault_id: Vec<String>,
    /// Ask for the vault password
    #[arg(short = 'J', long, visible_alias = "ask-vault-pass")]
    ask_vault_password: bool,
    /// A file or program with the vault password
    #[arg(long, visible_alias = "vault-pass-file", value_name = "FILE")]
    vault_password_file: Vec<String>,
}

/// The modules that fetch.
const FETCHING: &[&str] = &["git", "subversion", "hg", "bzr"];

/// Runs the verb.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let Some(url) = &arguments.url else {
        return Err(Error::usage("URL for repository not specified, use -h for help"));
    };
    if !FETCHING.contains(&arguments.module_name.as_str()) {
        return Err(Error::usage(format!(
            "Unsupported repo module {}, choices are {}",
            arguments.module_name,
            FETCHING.join(",")
        )));
    }
    let settings = Settings::from_config(&Config::find()?)?;
    let printer = super::session::printer(&settings);
    let names = names();
    let dest = match &arguments.dest {
        Some(dest) => crate::vars::absolute(&expand_home(dest)),
        None => home().join("pull").join(names.first().map_or("localhost", String::as_str)),
    };
    if dest.exists() && !dest.is_dir() {
        return Err(Error::usage(format!("{} is not a valid or accessible directory.", dest.display())));
    }
    let most = match &arguments.sleep {
        Some(text) => text.parse().map_err(|_| Error::usage(format!("{text} is not a number.")))?,
        None => 0,
    };
    let say = |text: &str| printer.line(text, Color::Plain);
    say(&format!("Starting Ansible Pull at {}", jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S")));
    say(&std::env::args().collect::<Vec<_>>().join(" "));
    sleep(most, &printer);
    let (code, changed) = fetch(arguments, url, &dest, &names)?;
    if code != 0 && !arguments.force {
        return Ok(code);
    }
    if code != 0 {
        printer.warning("Unable to update repository. Continuing with (forced) run of playbook.");
    } else if arguments.only_if_changed && !changed {
        say("Repository has not changed, quitting.");
        return Ok(0);
    }
    let Some(playbooks) = playbooks(&arguments.playbooks, &dest, &names, &printer) else {
        return Err(Error::usage("Could not find a playbook to run."));
    };
    let code = play(arguments, &playbooks, &dest, &names)?;
    if arguments.purge
        && let Err(error) = std::fs::remove_dir_all(&dest)
    {
        printer.error_line(&format!("[ERROR]: Failed to remove {}: {error}", dest.display()), Color::Error);
    }
    Ok(code)
}

/// Ansible's folder of this user.
fn home() -> PathBuf {
    expand_home(&std::env::var("ANSIBLE_HOME").unwrap_or_else(|_| "~/.ansible".to_owned()))
}

/// This machine's names, as it says them itself: the whole one, and its first part.
fn names() -> Vec<String> {
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut names = vec![node.clone()];
    names.extend(node.split_once('.').map(|(short, _)| short.to_owned()));
    names
}

fn sleep(most: u64, printer: &Printer) {
    let mut bytes = [0; 8];
    // Without a source of randomness it does not wait.
    if most == 0 || getrandom::fill(&mut bytes).is_err() {
        return;
    }
    let seconds = u64::from_le_bytes(bytes) % most;
    if seconds > 0 {
        printer.line(&format!("Sleeping for {seconds} seconds..."), Color::Plain);
        std::thread::sleep(std::time::Duration::from_secs(seconds));
    }
}

/// This program again, with another verb.
fn own(verb: &str) -> Result<Command> {
    let program = std::env::current_exe()
        .map_err(|error| Error::new(format!("the program cannot find itself, to start again: {error}")))?;
    let mut command = Command::new(program);
    command.arg(verb).args(["-c", "local"]);
    Ok(command)
}

/// The hosts that this machine may be in an inventory.
fn own_limit(names: &[String]) -> String {
    format!("localhost,{},127.0.0.1", names.join(","))
}

/// Brings the folder to the repository's version with the module for it: the exit code, and whether that changed something.
fn fetch(arguments: &Arguments, url: &str, dest: &Path, names: &[String]) -> Result<(u8, bool)> {
    let is_git = arguments.module_name == "git";
    let named = if matches!(arguments.module_name.as_str(), "git" | "bzr") { "name" } else { "repo" };
    let version = if matches!(arguments.module_name.as_str(), "git" | "bzr") { "version" } else { "revision" };
    let yes = |given: bool, option: &'static str| given.then(|| (option, "yes".to_owned()));
    let options = [
        Some((named, url.to_owned())),
        Some(("dest", dest.display().to_string())),
        arguments.checkout.clone().map(|text| (version, text)),
        yes(is_git && arguments.accept_host_key, "accept_hostkey"),
        arguments.private_key.clone().filter(|_| is_git).map(|file| ("key_file", file)),
        yes(is_git && arguments.verify_commit, "verify_commit"),
        yes(is_git && arguments.track_subs, "track_submodules"),
        Some(("depth", "1".to_owned())).filter(|_| is_git && !arguments.full),
        yes(arguments.module_name == "subversion" && !arguments.full, "export"),
        yes(arguments.clean, "force"),
    ];
    let options: serde_json::Map<_, _> =
        options.into_iter().flatten().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let mut command = own("adhoc")?;
    inventory(&mut command, arguments, "localhost,");
    command.args((0..arguments.verbose).map(|_| "-v"));
    command.args(["-m", &arguments.module_name, "-a", &serde_json::Value::from(options).to_string()]);
    command.args(["all", "-l", &own_limit(names)]);
    command.args(arguments.module_path.iter().flat_map(|path| ["-M", path]));
    command.args(arguments.extra_vars.iter().flat_map(|vars| ["-e", vars]));
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| Error::new(format!("the program cannot start itself again: {error}")))?;
    // What it prints is shown as it comes, and kept to see whether something has changed.
    let mut printed = String::new();
    if let Some(output) = child.stdout.take() {
        use std::io::{BufRead as _, BufReader};
        for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
            super::print(&format!("{line}\n"))?;
            printed.push_str(&line);
            printed.push('\n');
        }
    }
    let status = child.wait().map_err(|error| Error::new(format!("the repository cannot be fetched: {error}")))?;
    let changed = ["| CHANGED =>", "\"changed\": true", "changed: True"].iter().any(|word| printed.contains(word));
    Ok((code_of(status), changed))
}

/// The inventories that are there already.
fn inventory(command: &mut Command, arguments: &Arguments, usual: &str) {
    let mut given = arguments.inventory.iter().filter(|one| one.contains(',') || Path::new(one).exists()).peekable();
    if given.peek().is_none() && !usual.is_empty() {
        command.args(["-i", usual]);
    }
    command.args(given.flat_map(|one| ["-i", one]));
}

/// Runs the playbooks.
fn play(arguments: &Arguments, playbooks: &[PathBuf], dest: &Path, names: &[String]) -> Result<u8> {
    std::env::set_current_dir(dest)
        .map_err(|error| Error::new(format!("{} cannot be entered: {error}", dest.display())))?;
    let mut command = own("playbook")?;
    // A machine that configures itself is its own host: two pulls wait for each other, unless the user chose otherwise.
    if std::env::var_os("WINDLASS_LOCK").is_none() {
        command.args(["--lock", "wait"]);
    }
    inventory(&mut command, arguments, "");
    command.args((0..arguments.verbose).map(|_| "-v"));
    command.args(["-l", arguments.limit.as_deref().unwrap_or(&own_limit(names))]);
    let lists = [
        ("--vault-password-file", &arguments.vault_password_file),
        ("--vault-id", &arguments.vault_id),
        ("-e", &arguments.extra_vars),
        ("-t", &arguments.tags),
        ("--skip-tags", &arguments.skip_tags),
        ("-M", &arguments.module_path),
    ];
    for (option, values) in lists {
        command.args(values.iter().flat_map(|value| [option, value]));
    }
    let files = [
        ("--become-password-file", &arguments.become_password_file),
        ("--connection-password-file", &arguments.connection_password_file),
    ];
    command.args(files.iter().filter_map(|(option, file)| Some([*option, file.as_deref()?])).flatten());
    let flags = [
        ("-K", arguments.ask_become_pass),
        ("-J", arguments.ask_vault_password),
        ("-C", arguments.check),
        ("-D", arguments.diff),
        ("--flush-cache", arguments.flush_cache),
        ("--accept-new-host-keys", arguments.accept_new_host_keys),
    ];
    command.args(flags.iter().filter(|(_, given)| *given).map(|(flag, _)| *flag));
    let status = command.args(playbooks).status();
    status.map(code_of).map_err(|error| Error::new(format!("the program cannot start itself again: {error}")))
}

fn code_of(status: std::process::ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// The playbooks to run: those given, or the first of the machine's names and local.yml that is there.
fn playbooks(given: &[PathBuf], dest: &Path, names: &[String], printer: &Printer) -> Option<Vec<PathBuf>> {
    let usual: Vec<PathBuf> =
        names.iter().map(String::as_str).chain(["local"]).map(|name| format!("{name}.yml").into()).collect();
    let wanted = if given.is_empty() { usual.as_slice() } else { given };
    let (there, missing): (Vec<PathBuf>, Vec<PathBuf>) =
        wanted.iter().map(|path| dest.join(path)).partition(|path| path.is_file());
    if (given.is_empty() && there.is_empty()) || (!given.is_empty() && !missing.is_empty()) {
        let missing: Vec<String> =
            missing.iter().map(|path| format!("{}: File does not exist", path.display())).collect();
        printer.warning(&missing.join("\n"));
        return None;
    }
    Some(if given.is_empty() { there.into_iter().take(1).collect() } else { there })
}
