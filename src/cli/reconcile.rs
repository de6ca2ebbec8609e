//! `windlass reconcile`: keeps a cluster as its inventory describes it.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use super::session::{self, block_on};
use crate::error::{Error, Result};
use crate::http::Http;
use crate::journal::State;
use crate::output::{Printer, table};
use crate::planned::Document;
use crate::reconcile::{
    Decision, Drift, Evidence, Finding, Health, Memory, Now, Policy, Repair, Store, decide, machines, metrics,
};
use crate::settings::{Color, Config, Settings};
use crate::signals::until_signal;

/// Maximum size of a captured output, in bytes.
const OUTPUT: u64 = 128 << 20;
/// Seconds that a webhook may be silent.
const WEBHOOK: u64 = 10;
/// Exit code of a run with an unreachable host and no failed one.
const UNREACHABLE: u8 = 4;
/// Playbook that connects to a host and changes nothing.
const REACH: &str = "- hosts: '{{ reconcile_node }}'
  gather_facts: false
  tags: [always]
  tasks: [{name: Connect to the host, ansible.builtin.ping: }]
";
/// Maximum number of lines printed about one round.
const SHOWN: usize = 20;

/// Keep a cluster as its inventory describes it
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes with --once: 0 healthy and no drift, 2 otherwise, 1 the cluster could not be observed.

Examples:
  windlass reconcile -i inventory/mycluster --once                     # look once, change nothing
  windlass reconcile -i inventory/mycluster --policy reconcile.yml     # look and repair
  windlass reconcile -i inventory/mycluster --pause                    # stop repairs, keep checking
  windlass reconcile -i inventory/mycluster -- -e @secrets.yml         # options for all runs"
)]
pub(super) struct Arguments {
    /// Inventory file or directory; repeatable
    #[arg(short, long, required = true, value_name = "SOURCE")]
    inventory: Vec<String>,
    /// Policy: what to repair and when [default: repair nothing, look every 10 minutes]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Folder with verify.yml, cluster.yml and replace_node.yml
    #[arg(long, value_name = "DIR", default_value = "playbooks")]
    playbooks: PathBuf,
    /// Make one round and exit
    #[arg(long)]
    once: bool,
    /// Pause repairs until --unpause; a running repair continues
    #[arg(long, conflicts_with_all = ["unpause", "status", "once"])]
    pause: bool,
    /// Allow repairs again
    #[arg(long, conflicts_with_all = ["status", "once"])]
    unpause: bool,
    /// Show earlier repairs, and whether repairs are paused
    #[arg(long, conflicts_with = "once")]
    status: bool,
    /// Print the output of all runs
    #[arg(short, long)]
    verbose: bool,
    /// Options for all runs of playbooks, after `--`
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// Runs the subcommand.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let settings = Settings::from_config(&Config::find()?)?;
    let printer = session::printer(&settings);
    let store = Store::open(State::of(&settings)?.root(), &arguments.inventory)?;
    if arguments.pause || arguments.unpause {
        let user = std::env::var("USER").unwrap_or_default();
        store.pause(arguments.pause, &format!("{} {user}", time(seconds())))?;
    }
    if arguments.pause || arguments.unpause || arguments.status {
        show(&store, &printer)?;
        return Ok(0);
    }
    let policy = arguments.policy.as_deref().map(Policy::read).transpose()?.unwrap_or_default();
    let _lock = store.lock()?;
    let memory = store.read()?;
    let beside = arguments.policy.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let machines = crate::paths::absolute(&beside.join("machines.yml"));
    block_on(Reconciler { arguments, policy, printer, store, memory, machines }.rounds())
}

/// Prints the memory of an inventory.
fn show(store: &Store, printer: &Printer) -> Result<()> {
    let line = |text: &str| printer.line(text, Color::Plain);
    line(&match store.paused() {
        Some(note) => format!("repairs are paused since {note}"),
        None => "repairs are not paused".to_owned(),
    });
    let memory = store.read()?;
    let code = |repair: &Repair| repair.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let rows = memory.repairs().iter().rev().map(|repair| [time(repair.at), repair.what.clone(), code(repair)]);
    table(["STARTED", "REPAIR", "EXIT CODE"].map(str::to_owned), rows).iter().for_each(|text| line(text));
    Ok(())
}

struct Reconciler {
    arguments: Arguments,
    policy: Policy,
    printer: Printer,
    store: Store,
    memory: Memory,
    /// Inventory of machines that took the place of others.
    machines: PathBuf,
}

impl Reconciler {
    /// Makes rounds until a signal arrives, or one.
    async fn rounds(mut self) -> Result<u8> {
        loop {
            let begun = Instant::now();
            let code = match self.round().await {
                Err(error) if error.is_interruption() => return Err(error),
                Err(error) if self.arguments.once => return Err(error),
                // A daemon outlives a round that fails.
                Err(error) => {
                    self.printer.error_line(&format!("[ERROR]: {error}"), Color::Error);
                    self.report(None, &Decision::Report(error.message().to_owned()))?;
                    1
                }
                Ok(code) => code,
            };
            if self.arguments.once {
                return Ok(code);
            }
            let rest = self.policy.interval.saturating_sub(begun.elapsed());
            if let Err((signal, _)) = until_signal(tokio::time::sleep(rest)).await {
                self.say(&format!("{}: ended between two rounds", signal.name));
                return Ok(signal.code);
            }
        }
    }

    async fn round(&mut self) -> Result<u8> {
        let (mut health, mut drift) = self.observe().await?;
        let now = Now { seconds: seconds(), is_paused: self.store.paused().is_some() };
        let mut decision = decide(&self.policy, &mut self.memory, &health, &drift, now);
        if let Decision::Replace(node, Evidence::Unreached) = &decision
            && !self.is_unreachable(node).await?
        {
            decision = Decision::Report(format!("{node} is reached again"));
        }
        self.report(Some((&health, &drift)), &decision)?;
        let repaired = match &decision {
            Decision::Rest | Decision::Report(_) => None,
            Decision::Apply => Some(self.repair("apply".to_owned(), None).await),
            Decision::Replace(node, _) => Some(self.repair(format!("replace {node}"), Some(node)).await),
        };
        if let Some(outcome) = repaired {
            match outcome {
                Err(error) if error.is_interruption() => return Err(error),
                Err(error) => self.printer.error_line(&format!("[ERROR]: the repair failed: {error}"), Color::Error),
                Ok(code) => self.say(&format!("the repair ended with {code}")),
            }
            (health, drift) = self.observe().await?;
            let code = self.memory.repairs().last().and_then(|repair| repair.code);
            let result = if code == Some(0) { "repaired" } else { "the repair failed" };
            self.report(Some((&health, &drift)), &Decision::Report(result.to_owned()))?;
        }
        Ok(if health.healthy && drift == Drift::Tasks(Vec::new()) { 0 } else { 2 })
    }

    /// Reads the cluster's health, and what `cluster.yml` would change.
    async fn observe(&self) -> Result<(Health, Drift)> {
        let report = self.store.file("verify.json");
        let _ = std::fs::remove_file(&report);
        let given = json!({"verify_report": report, "verify_drift": false}).to_string();
        let mut command = self.playbook("playbook", "verify.yml")?;
        command.args(["--no-journal", "-e", &given]);
        let (code, output) = self.captured(command).await?;
        let health = Health::take(&report).map_err(|error| {
            self.last_lines(&output);
            Error::new(format!("verify.yml ended with {code} and wrote no report")).hint(error.message().to_owned())
        })?;
        let mut command = self.playbook("plan", "cluster.yml")?;
        command.args(["--format", "json"]);
        let (code, output) = self.captured(command).await?;
        let drift = match (code, serde_json::from_slice::<Document>(&output)) {
            (0, Ok(plan)) => Drift::of(&plan),
            (_, Ok(plan)) => Drift::Unknown(failure(&plan).unwrap_or_else(|| format!("the plan ended with {code}"))),
            (_, Err(_)) => Drift::Unknown(format!("`windlass plan` ended with {code} and printed no plan")),
        };
        Ok((health, drift))
    }

    /// Whether a connection to a host fails. A report is older, and may have other causes.
    async fn is_unreachable(&self, node: &str) -> Result<bool> {
        let path = self.store.file("reach.yml");
        std::fs::write(&path, REACH)
            .map_err(|error| Error::new(format!("{} cannot be written: {error}", path.display())))?;
        let mut command = self.own("playbook")?;
        command.arg(&path).args(&self.arguments.options);
        command.args(["--no-journal", "-e", &json!({"reconcile_node": node}).to_string()]);
        let (code, _) = self.captured(command).await?;
        Ok(code == UNREACHABLE)
    }

    /// Makes a repair, which counts before it begins.
    async fn repair(&mut self, what: String, node: Option<&str>) -> Result<u8> {
        self.memory.add(Repair { at: seconds(), what, code: None });
        self.store.write(&self.memory)?;
        let code = match node {
            Some(node) => self.replace(node).await?,
            None => self.run(self.playbook("playbook", "cluster.yml")?).await?,
        };
        self.memory.finish(code);
        self.store.write(&self.memory)?;
        Ok(code)
    }

    /// Replaces a node's machine.
    async fn replace(&self, node: &str) -> Result<u8> {
        let program = self.policy.machines.as_deref();
        let program = program.ok_or_else(|| Error::new("the policy names no program for machines"))?;
        machines::release(program, node)?;
        let machine = machines::acquire(program, node)?;
        machines::record(&self.machines, node, &machine)?;
        self.say(&format!("{node} becomes {}, as {} records", machine.ansible_host, self.machines.display()));
        let mut command = self.own("inventory")?;
        command.args(["--host", node]);
        let (_, output) = self.captured(command).await?;
        let found: Value = serde_json::from_slice(&output).unwrap_or_default();
        // A host_vars file of the node would win, and the run would go to the old address.
        if let Some((name, _)) =
            machine.variables().iter().find(|(name, value)| found.get(name.as_str()) != Some(value))
        {
            return Err(Error::new(format!("another file sets `{name}` of {node} with higher precedence"))
                .hint("find it by `windlass explain var`, and keep addresses in the inventory file"));
        }
        let mut command = self.playbook("playbook", "replace_node.yml")?;
        let given = json!({"node": node, "allow_ungraceful_removal": true, "skip_confirmation": true}).to_string();
        command.args(["-e", &given]);
        self.run(command).await
    }

    /// A run of one of the playbooks.
    fn playbook(&self, verb: &str, name: &str) -> Result<Command> {
        let path = self.arguments.playbooks.join(name);
        if !path.is_file() {
            return Err(Error::usage(format!("the playbook `{}` does not exist", path.display()))
                .hint("run the command in a project that `windlass init kubernetes` made, or give --playbooks"));
        }
        let mut command = self.own(verb)?;
        command.arg(path).args(&self.arguments.options);
        Ok(command)
    }

    /// Inventory sources of all runs.
    fn inventories(&self) -> impl Iterator<Item = String> {
        let machines = self.machines.is_file().then(|| self.machines.display().to_string());
        self.arguments.inventory.iter().cloned().chain(machines)
    }

    /// This program with a subcommand and the inventory.
    fn own(&self, verb: &str) -> Result<Command> {
        let mut command = Command::new(super::child::own_program()?);
        command.arg(verb).args(self.inventories().flat_map(|source| ["-i".to_owned(), source]));
        // Signals of the terminal go to this process alone, which passes them on once.
        command.stdin(Stdio::null()).process_group(0);
        Ok(command)
    }

    /// Runs a command that prints to the terminal.
    async fn run(&self, mut command: Command) -> Result<u8> {
        let mut child = command.spawn().map_err(super::child::cannot_start)?;
        let status = self.wait(&mut child, async |child| child.wait().await).await?;
        Ok(super::child::code_of(status))
    }

    /// Runs a command and returns its exit code and output.
    async fn captured(&self, mut command: Command) -> Result<(u8, Vec<u8>)> {
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(super::child::cannot_start)?;
        let mut output = Vec::new();
        let mut pipe = child.stdout.take().map(|pipe| pipe.take(OUTPUT + 1));
        let status = self
            .wait(&mut child, async |child| {
                if let Some(pipe) = &mut pipe {
                    pipe.read_to_end(&mut output).await?;
                }
                // A run that prints more blocks, so it is stopped.
                if output.len() as u64 > OUTPUT {
                    child.start_kill()?;
                }
                child.wait().await
            })
            .await?;
        if self.arguments.verbose {
            super::stdout::print(&String::from_utf8_lossy(&output))?;
        }
        Ok((super::child::code_of(status), output))
    }

    /// Waits for a run. A signal, or the end of its time, stops it as Ctrl-C would.
    async fn wait(
        &self,
        child: &mut Child,
        work: impl AsyncFnOnce(&mut Child) -> std::io::Result<ExitStatus>,
    ) -> Result<ExitStatus> {
        let limited = until_signal(tokio::time::timeout(self.policy.run_timeout, work(child))).await;
        let (error, _handler) = match limited {
            Ok(Ok(status)) => {
                return status.map_err(|error| Error::new(format!("a run cannot be waited for: {error}")));
            }
            Ok(Err(_)) => {
                let limit = self.policy.run_timeout.as_secs();
                (Error::new(format!("the run did not end within {limit} s (`run_timeout`), and was stopped")), None)
            }
            Err((_, handler)) => (Error::interrupted(), Some(handler)),
        };
        super::child::stop(child).await;
        Err(error)
    }

    /// Prints a line with the time.
    fn say(&self, text: &str) {
        self.printer.line(&format!("{} {text}", time(seconds())), Color::Plain);
    }

    fn last_lines(&self, output: &[u8]) {
        let text = String::from_utf8_lossy(output);
        let lines: Vec<&str> = text.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(SHOWN)).for_each(|line| self.printer.line(line, Color::Plain));
    }

    /// Reports what a round saw and decided: lines, metrics, and the webhook if that differs from the last report.
    fn report(&mut self, found: Option<(&Health, &Drift)>, decision: &Decision) -> Result<()> {
        let next = match decision {
            Decision::Rest => "nothing to do".to_owned(),
            Decision::Report(why) => why.clone(),
            Decision::Apply => "running cluster.yml".to_owned(),
            Decision::Replace(node, Evidence::Unreached) => format!("replacing {node}, which does not answer"),
            Decision::Replace(node, Evidence::NotReady) => format!("replacing {node}, which is not Ready"),
        };
        let findings = found.map(|(health, _)| health.findings()).unwrap_or_default();
        let tasks = match found {
            Some((_, Drift::Tasks(tasks))) => tasks.as_slice(),
            _ => &[],
        };
        let state = match found {
            None => "not observed".to_owned(),
            Some((health, drift)) => {
                let health = if health.healthy { "healthy" } else { "not healthy" };
                let drift = match drift.count() {
                    None => "unknown drift".to_owned(),
                    Some(1) => "drift in 1 task".to_owned(),
                    Some(count) => format!("drift in {count} tasks"),
                };
                format!("{health}, {drift}")
            }
        };
        self.say(&format!("{state}; {next}"));
        let shown = |finding: &Finding| {
            let host = if finding.host.is_empty() { String::new() } else { format!(" {}", finding.host) };
            format!("  {}{host}: {}", finding.check, finding.text)
        };
        let lines = findings.iter().map(shown).chain(tasks.iter().map(|task| format!("  would change {task}")));
        lines.take(SHOWN).for_each(|line| self.printer.line(&line, Color::Plain));
        let is_paused = self.store.paused().is_some();
        if let Some(path) = &self.policy.metrics {
            let text = metrics(&self.policy, &self.memory, found, is_paused, seconds());
            crate::reconcile::replace(path, &text, 0o644)?;
        }
        let report = json!({"state": state, "next": next, "findings": findings, "drift": tasks, "paused": is_paused});
        self.post(report);
        self.store.write(&self.memory)
    }

    /// Sends a report that differs from the last one. A webhook that fails gets it again after the next round.
    fn post(&mut self, report: Value) {
        let Some(url) = &self.policy.webhook else { return };
        let text = report.to_string();
        if text == self.memory.reported {
            return;
        }
        let mut body = Map::new();
        body.insert("time".to_owned(), time(seconds()).into());
        body.insert("inventory".to_owned(), self.arguments.inventory.join(" ").into());
        body.extend(report.as_object().cloned().unwrap_or_default());
        match (Http { timeout: WEBHOOK, limit: None }).post(url, &Value::Object(body)) {
            Ok(()) => self.memory.reported = text,
            Err(error) => self.printer.error_line(&format!("[WARNING]: {error}"), Color::Warn),
        }
    }
}

/// First failure of a plan.
fn failure(plan: &Document) -> Option<String> {
    let failed = |part: &crate::planned::Part| part.status == crate::planned::Status::Failed;
    plan.tasks.iter().find_map(|task| {
        let part = task.parts.iter().find(|part| failed(part))?;
        let reason = part.reason.as_deref().unwrap_or("failed");
        Some(format!("{} on {}: {reason}", task.task, task.hosts.join(", ")))
    })
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A time in UTC.
fn time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.unwrap_or_default().to_string()
}
