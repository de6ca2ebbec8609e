//! `windlass fleet`: one command for several clusters. Each has an inventory, a run and an output of its own.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, CommandFactory as _};
use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::session::{self, block_on};
use crate::error::{Error, Result};
use crate::output::{Printer, table};
use crate::own_program::SESSION;
use crate::settings::{Color, Config, Settings};
use crate::signals::{self, until_signal};

/// Maximum length of a line that is printed as one, in bytes.
const LINE: u64 = 64 << 10;
/// Time to read the rest of a run's output after its end: a program that it left behind may hold the pipe.
const REST: Duration = Duration::from_secs(2);
/// Part of the command that stands for the name of the cluster.
const NAME: &str = "{cluster}";

/// Run a command for several clusters, each with its own inventory
#[derive(Debug, Args)]
#[command(after_help = "Exit code: the highest of all runs.

Examples:
  windlass fleet -i inventory/eu -i inventory/us playbook playbooks/verify.yml
  windlass fleet -i inventory/eu -i inventory/us -p 1 --fail-fast playbook playbooks/upgrade.yml
  windlass fleet -i inventory/eu -i us=us/hosts.yml plan playbooks/cluster.yml -o {cluster}.plan")]
pub(super) struct Arguments {
    /// Inventory of a cluster; its name is that of its folder or file, unless it is given; repeatable
    #[arg(short, long, required = true, value_name = "[NAME=]SOURCE")]
    inventory: Vec<String>,
    /// Maximum number of clusters at the same time
    #[arg(short, long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u16).range(1..))]
    parallel: u16,
    /// Begin with no further cluster after a run has failed
    #[arg(long)]
    fail_fast: bool,
    /// Also write the output of each run to NAME.log in this folder
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Do not print the output of the runs
    #[arg(short, long)]
    quiet: bool,
    /// Any command that reads an inventory, with its options; {cluster} becomes the name of the cluster
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A cluster and its inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) source: String,
}

/// How a cluster's run ended.
enum End {
    Exit { code: u8, after: Duration },
    Stopped,
}

/// State that the runs share.
struct Fleet {
    arguments: Arguments,
    printer: Printer,
    has_failed: AtomicBool,
}

/// Gives a run that this program has started for a fleet or a page a session of its own.
pub(super) fn enter_session() {
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().to_string());
    if parent.is_some() && std::env::var(SESSION).ok() == parent {
        // An error means that it has one already.
        let _ = rustix::process::setsid();
    }
}

/// Runs the subcommand.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let settings = Settings::from_config(&Config::find()?)?;
    let clusters = clusters(&arguments.inventory)?;
    check(&arguments.command)?;
    if let Some(folder) = &arguments.logs {
        let made = std::fs::create_dir_all(folder);
        made.map_err(|error| Error::new(format!("the folder {} cannot be created: {error}", folder.display())))?;
    }
    let slots = Arc::new(Semaphore::new(arguments.parallel.into()));
    let printer = session::printer(&settings);
    let fleet = Arc::new(Fleet { arguments, printer, has_failed: AtomicBool::new(false) });
    block_on(async {
        let mut runs = JoinSet::new();
        for (index, cluster) in clusters.iter().cloned().enumerate() {
            let Ok(Ok(slot)) = until_signal(Arc::clone(&slots).acquire_owned()).await else { break };
            if fleet.arguments.fail_fast && fleet.has_failed.load(Ordering::Acquire) {
                break;
            }
            let fleet = Arc::clone(&fleet);
            runs.spawn(async move {
                let _slot = slot;
                (index, fleet.run(&cluster).await)
            });
        }
        let mut ends = runs.join_all().await;
        ends.sort_by_key(|(index, _)| *index);
        let ends: Vec<End> = ends.into_iter().map(|(_, end)| end).collect();
        fleet.report(&clusters, &ends);
        let codes = ends.iter().map(|end| if let End::Exit { code, .. } = end { *code } else { 0 });
        Ok(signals::first().map_or(codes.max().unwrap_or(0), |signal| signal.code))
    })
}

impl Fleet {
    /// Runs the command for a cluster.
    async fn run(self: &Arc<Self>, cluster: &Cluster) -> End {
        let begun = Instant::now();
        let code = match self.exit_code(cluster).await {
            Ok(Some(code)) => code,
            Ok(None) => return End::Stopped,
            Err(error) => {
                self.printer.error_line(&format!("[ERROR]: {}: {error}", cluster.name), Color::Error);
                1
            }
        };
        self.has_failed.fetch_or(code != 0, Ordering::AcqRel);
        End::Exit { code, after: begun.elapsed() }
    }

    /// Runs the command for a cluster and returns its exit code; `None` if a signal stopped it.
    async fn exit_code(self: &Arc<Self>, cluster: &Cluster) -> Result<Option<u8>> {
        let log = self.log(cluster)?;
        let start = windlass_guard::start();
        let mut child = self.command(cluster)?.spawn().map_err(super::child::cannot_start)?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let _watched = group.map(|group| start.watch_group(group));
        let outputs = [
            child.stdout.take().map(|pipe| self.copy(cluster, pipe, &log, false)),
            child.stderr.take().map(|pipe| self.copy(cluster, pipe, &log, true)),
        ];
        let ended = until_signal(child.wait()).await;
        if ended.is_err() {
            super::child::stop(&mut child).await;
        }
        let mut is_lost = false;
        for output in outputs.into_iter().flatten() {
            is_lost |= matches!(timeout(REST, output).await, Ok(Ok(Err(_))));
        }
        let status = match ended {
            Ok(status) => status.map_err(|error| Error::new(format!("a run cannot be waited for: {error}")))?,
            Err(_) => return Ok(None),
        };
        // Lost output is not a success.
        Ok(Some(super::child::code_of(status).max(u8::from(is_lost))))
    }

    /// The command with a cluster's name and inventory. In a session of its own, it cannot ask at the terminal. Signals
    /// reach it only through this program, so that they end it once and in order.
    fn command(&self, cluster: &Cluster) -> Result<Command> {
        let words: Vec<String> = self.arguments.command.iter().map(|word| word.replace(NAME, &cluster.name)).collect();
        // Options of further commands may follow `--`.
        let (own, rest) = words.split_at(words.iter().position(|word| word == "--").unwrap_or(words.len()));
        let mut command = Command::new(super::child::own_program()?);
        command.args(own).args(["-i", &cluster.source]).args(rest).stdin(Stdio::null());
        command.env(SESSION, std::process::id().to_string());
        // A cluster without hosts, because its inventory cannot be read, is not a success.
        command.env("ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED", "true");
        if !self.arguments.quiet {
            // This program logs the lines that it prints, with the cluster's name.
            command.env("ANSIBLE_LOG_PATH", "");
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        Ok(command)
    }

    fn log(&self, cluster: &Cluster) -> Result<Option<Arc<Mutex<File>>>> {
        let Some(folder) = &self.arguments.logs else { return Ok(None) };
        let path = folder.join(format!("{}.log", cluster.name));
        let file = File::create(&path);
        let file =
            file.map_err(|error| Error::new(format!("the log {} cannot be written: {error}", path.display())))?;
        Ok(Some(Arc::new(Mutex::new(file))))
    }

    /// Prints and logs the lines of a run. Fails at the end if the log could not be written.
    fn copy(
        self: &Arc<Self>,
        cluster: &Cluster,
        pipe: impl AsyncRead + Send + Unpin + 'static,
        log: &Option<Arc<Mutex<File>>>,
        is_error: bool,
    ) -> JoinHandle<std::io::Result<()>> {
        let (fleet, name, log) = (Arc::clone(self), cluster.name.clone(), log.clone());
        tokio::spawn(async move {
            let mut reader = BufReader::new(pipe);
            let mut written = Ok(());
            let mut line = Vec::new();
            while (&mut reader).take(LINE).read_until(b'\n', &mut line).await? > 0 {
                if let (Some(log), Ok(())) = (&log, &written) {
                    written = log.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
                    if let Err(error) = &written {
                        let sentence = format!("[ERROR]: the log of {name} cannot be written: {error}");
                        fleet.printer.error_line(&sentence, Color::Error);
                    }
                }
                if !fleet.arguments.quiet {
                    fleet.printer.line_of(&name, String::from_utf8_lossy(&line).trim_end_matches('\n'), is_error);
                }
                line.clear();
            }
            written
        })
    }

    /// Prints how each run ended. The last clusters may have none.
    fn report(&self, clusters: &[Cluster], ends: &[End]) {
        let rows = clusters.iter().enumerate().map(|(index, cluster)| {
            let (result, time) = match ends.get(index) {
                Some(End::Exit { code: 0, after }) => ("ok".to_owned(), format!("{} s", after.as_secs())),
                Some(End::Exit { code, after }) => (format!("exit code {code}"), format!("{} s", after.as_secs())),
                Some(End::Stopped) => ("stopped".to_owned(), String::new()),
                None => ("not started".to_owned(), String::new()),
            };
            [cluster.name.clone(), result, time]
        });
        let lines = table(["CLUSTER", "RESULT", "TIME"].map(str::to_owned), rows);
        self.printer.line("", Color::Plain);
        lines.iter().for_each(|line| self.printer.line(line, Color::Plain));
    }
}

/// The clusters of the options, each with a name and a folder of its own.
fn clusters(given: &[String]) -> Result<Vec<Cluster>> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for cluster in named(given, None)? {
        let own = folder(&cluster.source);
        let overlaps = |other: &&Cluster| match (&own, folder(&other.source)) {
            (Some(own), Some(other)) => own.starts_with(&other) || other.starts_with(own),
            _ => false,
        };
        if let Some(other) = clusters.iter().find(overlaps) {
            return Err(Error::usage(format!(
                "the inventories of `{}` and `{}` are in one folder, where the runs write files of their cluster",
                other.name, cluster.name
            ))
            .hint("keep each inventory in a folder of its own"));
        }
        clusters.push(cluster);
    }
    Ok(clusters)
}

/// Clusters from their inventories. An inventory that suggests no name gets the name `other`. Fails if a source does
/// not exist or two clusters have one name.
pub(super) fn named(given: &[String], other: Option<&str>) -> Result<Vec<Cluster>> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for word in given {
        let cluster = cluster(word, other)?;
        if !cluster.source.contains(',') && !Path::new(&cluster.source).exists() {
            return Err(Error::usage(format!(
                "the inventory `{}` of the cluster `{}` does not exist",
                cluster.source, cluster.name
            )));
        }
        if clusters.iter().any(|other| other.name == cluster.name) {
            return Err(Error::usage(format!("two clusters have the name `{}`", cluster.name))
                .hint("give one of them another name: `-i NAME=SOURCE`"));
        }
        clusters.push(cluster);
    }
    Ok(clusters)
}

fn cluster(word: &str, other: Option<&str>) -> Result<Cluster> {
    let is_name = |text: &str| {
        !text.is_empty()
            && !text.starts_with(['.', '-'])
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if let Some((name, source)) = word.split_once('=').filter(|_| !Path::new(word).exists()) {
        if !is_name(name) {
            return Err(Error::usage(format!("`{name}` is not a cluster name: use letters, digits, `.`, `_` and `-`")));
        }
        return Ok(Cluster { name: name.to_owned(), source: source.to_owned() });
    }
    let path = crate::paths::absolute(Path::new(word));
    let is_usual = |stem: &str| ["hosts", "inventory"].contains(&stem);
    let own = if path.is_dir() { path.file_name() } else { path.file_stem() };
    let own = own.and_then(|name| name.to_str()).filter(|name| path.is_dir() || !is_usual(name));
    let of_folder = || path.parent()?.file_name()?.to_str();
    match own.or_else(of_folder).filter(|name| is_name(name) && !word.contains(',')).or(other) {
        Some(name) => Ok(Cluster { name: name.to_owned(), source: word.to_owned() }),
        None => Err(Error::usage(format!("the cluster of the inventory `{word}` has no name"))
            .hint("give it a name: `-i NAME=SOURCE`")),
    }
}

/// Folder of an inventory, in which runs write files of their cluster.
pub(super) fn folder(source: &str) -> Option<PathBuf> {
    let path = Path::new(source).canonicalize().ok()?;
    if path.is_dir() { Some(path) } else { path.parent().map(Path::to_owned) }
}

/// Refuses commands that read no inventory.
fn check(command: &[String]) -> Result<()> {
    let has_inventory = |command: &clap::Command| command.get_arguments().any(|it| it.get_short() == Some('i'));
    let verb = command.first().map(String::as_str).unwrap_or_default();
    let known = super::Cli::command();
    let found = known.find_subcommand(verb).filter(|found| !found.is_hide_set() && verb != "fleet");
    match found {
        Some(found) if has_inventory(found) || found.get_subcommands().any(has_inventory) => Ok(()),
        Some(_) => Err(Error::usage(format!("`windlass {verb}` reads no inventory"))),
        None => Err(Error::usage(format!("`{verb}` is not a command for a fleet"))
            .hint("write a command without `windlass`, such as `playbook playbooks/verify.yml`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(word: &str) -> String {
        cluster(word, None).map_or_else(|error| error.message().to_owned(), |cluster| cluster.name)
    }

    #[test]
    fn cluster_named_after_its_folder_or_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(path("eu")).unwrap();
        assert_eq!(named(&path("eu")), "eu");
        assert_eq!(named(&path("eu/hosts.yml")), "eu");
        assert_eq!(named(&path("eu/inventory.ini")), "eu");
        assert_eq!(named(&path("us.yml")), "us");
        assert_eq!(named(&format!("prod={}", path("eu"))), "prod");
        assert_eq!(named("a/b=x"), "`a/b` is not a cluster name: use letters, digits, `.`, `_` and `-`");
        assert_eq!(named("web1,web2"), "the cluster of the inventory `web1,web2` has no name");
    }

    #[test]
    fn command_without_inventory_refused() {
        let check = |words: &[&str]| check(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        for words in [&["playbook", "site.yml"][..], &["adhoc", "all"], &["bundle", "create"], &["hostkeys", "scan"]] {
            assert!(check(words).is_ok(), "{words:?}");
        }
        for words in [&["vault", "view"][..], &["fleet"], &["site.yml"], &["__guard"]] {
            assert!(check(words).is_err(), "{words:?}");
        }
    }
}
