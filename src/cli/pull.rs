//! `windlass pull`: fetches a repository and runs its playbook on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use super::options::{SecretOptions, words};
use crate::error::{Error, Result};
use crate::journal::shown_arguments;
use crate::output::{Printer, Secrets};
use crate::settings::{Color, Config, Settings, expand_home};

/// Fetch a repository and run its playbook on this machine
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass pull -U https://example.com/infra.git                     # run HOSTNAME.yml or local.yml
  windlass pull -U https://example.com/infra.git -C stable site.yml  # choose branch and playbook
  windlass pull -U https://example.com/infra.git -o -s 300           # for cron: only after changes")]
pub(super) struct Arguments {
    /// Playbooks in the repository [default: HOSTNAME.yml or local.yml]
    #[arg(value_name = "PLAYBOOK")]
    playbooks: Vec<PathBuf>,
    /// URL of the repository (required)
    #[arg(short = 'U', long, value_name = "URL")]
    url: Option<String>,
    /// Branch, tag or commit to check out [default: the repository's default branch]
    #[arg(short = 'C', long, value_name = "VERSION")]
    checkout: Option<String>,
    /// Directory to check out to [default: ~/.ansible/pull/HOSTNAME]
    #[arg(short = 'd', long = "directory", value_name = "DIR")]
    dest: Option<String>,
    /// Module that fetches the repository: git, subversion, hg or bzr
    #[arg(short, long, default_value = "git", value_name = "NAME")]
    module_name: String,
    /// Run the playbook only if the repository has changed
    #[arg(short, long)]
    only_if_changed: bool,
    /// Run the playbook even if fetching fails
    #[arg(short, long)]
    force: bool,
    /// Discard local changes in the directory
    #[arg(long)]
    clean: bool,
    /// Fetch the full history instead of the newest commit
    #[arg(long)]
    full: bool,
    /// Remove the directory after the run
    #[arg(long)]
    purge: bool,
    /// Wait a random time below this many seconds first, to spread the load of many machines [default: 0]
    #[arg(short, long, value_name = "SECONDS")]
    sleep: Option<String>,
    /// Accept an unknown host key of the repository's server
    #[arg(long)]
    accept_host_key: bool,
    /// Accept keys missing from known_hosts for hosts that the playbook connects to
    #[arg(long)]
    accept_new_host_keys: bool,
    /// Run only commits signed with a trusted key
    #[arg(long)]
    verify_commit: bool,
    /// Check out the newest commits of submodules
    #[arg(long)]
    track_subs: bool,
    /// Inventory file, directory or script, or host names with a comma: `a,b,`; repeatable
    #[arg(short, long, visible_alias = "inventory-file", value_name = "SOURCE")]
    inventory: Vec<String>,
    /// Limit the run to hosts that match this pattern, or that @FILE lists [default: this machine's names]
    #[arg(short, long, value_name = "PATTERN", allow_hyphen_values = true)]
    limit: Option<String>,
    /// Run only tasks with these tags, separated by commas; repeatable
    #[arg(short, long, value_name = "TAGS")]
    tags: Vec<String>,
    /// Skip tasks with these tags, separated by commas; repeatable
    #[arg(long, value_name = "TAGS")]
    skip_tags: Vec<String>,
    /// Variables: `key=value`, YAML, JSON or @FILE; repeatable
    #[arg(short, long, value_name = "VARS")]
    extra_vars: Vec<String>,
    /// Predict changes without making them
    #[arg(long)]
    check: bool,
    /// Show differences in changed files
    #[arg(long)]
    diff: bool,
    /// Delete cached facts before the run
    #[arg(long)]
    flush_cache: bool,
    /// Increase verbosity, up to -vvvv
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Search path for modules, separated by colons, before all others
    #[arg(short = 'M', long, value_name = "PATH")]
    module_path: Vec<String>,
    /// Private key for the repository
    #[arg(long, visible_alias = "key-file", value_name = "FILE")]
    private_key: Option<String>,
    #[command(flatten)]
    secrets: SecretOptions,
}

/// Modules that can fetch a repository.
const FETCHING: &[&str] = &["git", "subversion", "hg", "bzr"];

/// Runs the subcommand.
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
        Some(dest) => crate::paths::absolute(&expand_home(dest)),
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
    say(&shown_arguments(std::env::args(), &Secrets::of_process()).join(" "));
    sleep(most, &printer);
    let (code, changed) = fetch(arguments, url, &dest, &names)?;
    // The failure may be a bad signature of the fetched commit, which must not run.
    if code != 0 && (!arguments.force || arguments.verify_commit) {
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

/// Ansible's directory for this user.
fn home() -> PathBuf {
    expand_home(&std::env::var("ANSIBLE_HOME").unwrap_or_else(|_| "~/.ansible".to_owned()))
}

/// Names of this machine: the full host name and its first part.
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

/// Command that runs this program with another subcommand.
fn own(verb: &str) -> Result<Command> {
    let mut command = Command::new(super::child::own_program()?);
    command.arg(verb).args(["-c", "local"]);
    Ok(command)
}

/// Pattern of the names that this machine may have in an inventory.
fn own_limit(names: &[String]) -> String {
    format!("localhost,{},127.0.0.1", names.join(","))
}

/// Updates the directory with the repository's module. Returns the exit code, and whether anything changed.
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
    let mut child = child.map_err(super::child::cannot_start)?;
    // The output is printed immediately.
    let mut changed = false;
    if let Some(output) = child.stdout.take() {
        use std::io::{BufRead as _, BufReader};
        for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
            super::stdout::print(&format!("{line}\n"))?;
            changed |= ["| CHANGED =>", "\"changed\": true", "changed: True"].iter().any(|word| line.contains(word));
        }
    }
    let status = child.wait().map_err(|error| Error::new(format!("the repository cannot be fetched: {error}")))?;
    Ok((super::child::code_of(status), changed))
}

/// Adds existing inventories to a command.
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
    // The machine is its own host, so concurrent pulls must wait for each other unless the user chose otherwise.
    if std::env::var_os("WINDLASS_LOCK").is_none() {
        command.args(["--lock", "wait"]);
    }
    inventory(&mut command, arguments, "");
    command.args((0..arguments.verbose).map(|_| "-v"));
    command.args(["-l", arguments.limit.as_deref().unwrap_or(&own_limit(names))]);
    let lists = [
        ("-e", &arguments.extra_vars),
        ("-t", &arguments.tags),
        ("--skip-tags", &arguments.skip_tags),
        ("-M", &arguments.module_path),
    ];
    for (option, values) in lists {
        command.args(values.iter().flat_map(|value| [option, value]));
    }
    command.args(words(arguments.secrets.given()));
    let flags = [
        ("-C", arguments.check),
        ("-D", arguments.diff),
        ("--flush-cache", arguments.flush_cache),
        ("--accept-new-host-keys", arguments.accept_new_host_keys),
    ];
    command.args(flags.iter().filter(|(_, given)| *given).map(|(flag, _)| *flag));
    let status = command.args(playbooks).status();
    status.map(super::child::code_of).map_err(super::child::cannot_start)
}

/// Playbooks to run: those given, or the first existing one of the default names.
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
