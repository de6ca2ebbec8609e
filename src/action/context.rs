//! [`ActionContext`], everything that an action may use: arguments, variables, files of the project, and the way to the
//! host. Every request for a module leaves through its `send`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use indexmap::IndexMap;
use sha1::{Digest as _, Sha1};
use windlass_modules::{has_secrets, invocation, secret_values};
use windlass_protocol::{Delivery, Detached, Request};
use windlass_template::{Compat, Context, Read, Value, from_json, to_json};

use super::ahead::Ahead;
use super::hashes::{self, Hashes, Senders};
use super::lock_wait::LockWait;
use crate::connection::{Kind, Target};
use crate::executor::{Call, Flights, Listener, Lock, Pool, Received, Source, TaskEvent};
use crate::foreign::{Modules, PythonPlugins};
use crate::outcome::{FactNames, HostResult, TaskResult};
use crate::output::{Event, Events, Secrets, Spending};
use crate::playbook::{Files, Task, short_name};
use crate::vars::{ConnectionVariables, World};

/// Parts of a request that most requests lack.
#[derive(Default)]
pub(super) struct Outgoing<'a> {
    /// Connection to use instead of the task's own.
    pub(super) over: Option<&'a ConnectionVariables>,
    /// Contents of files for the module.
    pub(super) contents: Vec<Content>,
    /// Folder for a file that the module sends back.
    pub(super) folder: Option<PathBuf>,
    /// Job that the module runs in.
    pub(super) detached: Option<Detached>,
    /// Job whose state the module reports.
    pub(super) job: Option<&'a str>,
}

/// Reason why an action has no ordinary result.
#[derive(Debug)]
pub enum Failure {
    /// The host is unreachable or the connection was lost; holds the message.
    Unreachable(String),
    /// The task failed; holds the message.
    Failed(String),
    /// The task failed with an error that elsewhere ends a run.
    Error(Box<crate::error::Error>),
    /// A template of the task failed to evaluate.
    Evaluation(Box<windlass_template::Error>),
    /// The request was to be sent ahead and has to wait for those under way. The task is repeated in its turn.
    Postponed,
}

/// Message of a postponed request. Nobody sees it, because its outcome is dropped.
pub(super) const POSTPONED: &str = "it has to wait for the requests under way";

impl Failure {
    /// Converts the failure to a result. Details that `msg` lacks, such as the position in a file, become the error
    /// report.
    pub fn into_result(self, compat: Compat) -> TaskResult {
        match self {
            Failure::Unreachable(message) => {
                TaskResult::new().with("changed", false).with("unreachable", true).with("msg", message)
            }
            Failure::Failed(message) => TaskResult::failure(message),
            Failure::Postponed => TaskResult::failure(POSTPONED),
            Failure::Error(error) => TaskResult::failure(error.what_and_where()).with_advice(error.advice()),
            Failure::Evaluation(error) => match error.sentence() {
                Some(sentence) if compat.fails_with_bare_sentences() => {
                    TaskResult::failure(sentence).with_report(error.report()).bare()
                }
                _ => TaskResult::failure(error.to_string()).with_report(error.report()),
            },
        }
    }
}

impl From<windlass_template::Error> for Failure {
    fn from(error: windlass_template::Error) -> Failure {
        Failure::Evaluation(Box::new(error))
    }
}

impl From<crate::error::Error> for Failure {
    fn from(error: crate::error::Error) -> Failure {
        Failure::Error(Box::new(error))
    }
}

impl From<crate::executor::Error> for Failure {
    fn from(error: crate::executor::Error) -> Failure {
        if error.is_unreachable() {
            Failure::Unreachable(error.to_string())
        } else {
            Failure::Failed(error.to_string())
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Failed(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        Failure::Failed(message.to_owned())
    }
}

/// Context of an action: one task, one item, one host.
#[derive(Clone)]
pub struct ActionContext {
    /// Short name of the action.
    pub action: String,
    /// Task that the action belongs to.
    pub task: Arc<Task>,
    /// Host that the task is for, also when it is delegated.
    pub host: Arc<str>,
    /// Variables of the task.
    pub context: Context,
    /// State of all hosts.
    pub world: Arc<World>,
    /// Rendered arguments.
    pub args: IndexMap<Arc<str>, Value>,
    /// Connection variables of the host, or of the one the task is delegated to.
    pub connection: ConnectionVariables,
    /// Whether to predict changes only (check mode).
    pub check: bool,
    /// Whether to report differences (`diff`).
    pub diff: bool,
    /// Environment of the task's processes.
    pub environment: BTreeMap<String, String>,
    /// Time limit of the action in seconds; 0 means none.
    pub timeout: u64,
    /// Time limit of a background job (`async`) in seconds; 0 means no job.
    pub detach: u64,
    /// Whether the result is hidden.
    pub no_log: bool,
    /// Files of the project.
    pub files: Arc<Files>,
    /// Finder of modules that are not built in.
    pub modules: Arc<Modules>,
    /// Plugins in Python.
    pub plugins: Arc<PythonPlugins>,
    /// Connections and executors.
    pub pool: Arc<Pool<Value>>,
    /// Sender of events to the output.
    pub events: Events,
    /// Values to mask in the output.
    pub secrets: Secrets,
    /// Set if the task is sent ahead of earlier answers.
    pub ahead: Option<Arc<Ahead>>,
    /// Identities of its requests, in a run of several processes.
    pub flights: Option<Flights>,
    /// Time that the action waits for locks, measured if the task has a time limit.
    pub(crate) lock_wait: Option<Arc<LockWait>>,
}

/// A file of the controller that a request transfers to a host.
pub struct Content {
    /// Metadata sent with the request.
    pub description: windlass_protocol::Content,
    /// Source of the bytes.
    pub source: Source,
}

/// Contents up to this size in bytes travel with their request. Larger ones are sent only if the host lacks them.
const INLINE_LIMIT: u64 = 128 << 10;

impl Content {
    /// Content made of bytes in memory.
    pub fn of_bytes(name: &str, bytes: Vec<u8>) -> Content {
        let description = windlass_protocol::Content {
            name: name.to_owned(),
            size: bytes.len() as u64,
            sha1: hex::encode(Sha1::digest(&bytes)),
            // It may be a template or decrypted, so hosts must not pass it on.
            sha256: None,
            mode: 0o644,
            delivery: if bytes.len() as u64 <= INLINE_LIMIT { Delivery::Inline } else { Delivery::OnDemand },
        };
        Content { description, source: Source::Bytes(bytes.into()) }
    }

    /// Content of a file. Small files and vaults to decrypt are read into memory; large files are hashed in chunks.
    fn of_file(path: &Path, files: &Files, decrypt: bool, senders: Senders) -> Result<Content, Failure> {
        use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
        let fail = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
        let metadata = std::fs::metadata(path).map_err(fail)?;
        if metadata.file_type().is_fifo() {
            // The file is read twice, for its hash and for its content. Each read of a pipe would get only a part.
            return Err(Failure::Failed(format!("{} cannot be sent: it is a pipe", path.display())));
        }
        let mode = metadata.permissions().mode() & 0o7777;
        let decrypt = decrypt && is_vault(path).map_err(fail)?;
        if decrypt || metadata.len() <= INLINE_LIMIT {
            let bytes = if decrypt { files.bytes(path)?.0 } else { windlass_bounds::read(path).map_err(fail)? };
            let mut content = Content::of_bytes(&path.display().to_string(), bytes);
            content.description.mode = mode;
            return Ok(content);
        }
        // Other hosts must not wait meanwhile.
        let hashes = tokio::task::block_in_place(|| hashes::of_file(path, &metadata, senders));
        let Hashes { sha1, sha256 } = hashes.map_err(fail)?;
        let description = windlass_protocol::Content {
            name: path.display().to_string(),
            size: metadata.len(),
            sha1,
            sha256,
            mode,
            delivery: Delivery::OnDemand,
        };
        Ok(Content { description, source: Source::File(path.to_owned()) })
    }
}

impl ActionContext {
    /// Content of a file of the project.
    pub fn content_of(&self, path: &Path, decrypt: bool) -> Result<Content, Failure> {
        self.files.reads().note(Read::File(path.to_owned()));
        self.content_made(path, decrypt)
    }

    /// Content of a file that is not an input of the run, such as one that a plugin has made.
    pub(super) fn content_made(&self, path: &Path, decrypt: bool) -> Result<Content, Failure> {
        let senders = match self.world.run.settings.connect.peer_transfer {
            true => Senders::Hosts,
            false => Senders::Controller,
        };
        Content::of_file(path, &self.files, decrypt, senders)
    }

    /// Argument by name; `None` if it is absent or null.
    pub fn arg(&self, name: &str) -> Option<&Value> {
        self.args.get(name).filter(|value| !value.is_none())
    }

    /// Argument as text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.arg(name).map(windlass_template::text)
    }

    /// Argument as a boolean.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.arg(name).map(crate::outcome::truth)
    }

    /// Runs a module on the host with these arguments.
    pub async fn module(&self, name: &str, args: Value, contents: Vec<Content>) -> Result<TaskResult, Failure> {
        Ok(self.module_with_file(name, args, contents, None).await?.0)
    }

    /// Runs a module on the host. A file that it sends back is stored in `folder`.
    pub async fn module_with_file(
        &self,
        name: &str,
        args: Value,
        contents: Vec<Content>,
        folder: Option<PathBuf>,
    ) -> Result<(TaskResult, Option<Received>), Failure> {
        let detached = if self.detach == 0 { None } else { Some(self.detached()?) };
        self.send(name, args, Outgoing { contents, folder, detached, ..Outgoing::default() }).await
    }

    /// Runs a module on the host as the login user, without become.
    pub(crate) async fn module_as_login_user(&self, name: &str, args: Value) -> Result<TaskResult, Failure> {
        let connection = ConnectionVariables { become_user: None, ..self.connection.clone() };
        self.module_on(&connection, name, args, Vec::new()).await
    }

    /// Runs a module over another connection.
    pub(crate) async fn module_on(
        &self,
        connection: &ConnectionVariables,
        name: &str,
        args: Value,
        contents: Vec<Content>,
    ) -> Result<TaskResult, Failure> {
        let outgoing = Outgoing { over: Some(connection), contents, ..Outgoing::default() };
        Ok(self.send(name, args, outgoing).await?.0)
    }

    /// Runs a module on the controller as its current user.
    pub(crate) async fn module_here(&self, name: &str, args: Value) -> Result<TaskResult, Failure> {
        let here = ConnectionVariables {
            target: Target::new("localhost", Kind::Local),
            become_user: None,
            async_dir: self.connection.async_dir.clone(),
        };
        self.module_on(&here, name, args, Vec::new()).await
    }

    /// Queries the state of a background job, or removes its status file, depending on `mode`.
    pub(crate) async fn job(&self, job: &str, mode: &str) -> Result<TaskResult, Failure> {
        let directory = self.connection.async_dir.as_str();
        let args = [("jid", job), ("mode", mode), ("_async_dir", directory)];
        let args = Value::from_pairs(args.map(|(name, value)| (name, Value::from(value))));
        let outgoing = Outgoing { job: Some(job), ..Outgoing::default() };
        let (answer, _) = self.send("ansible.builtin.async_status", args, outgoing).await?;
        Ok(super::async_status::shaped(answer, self.world.run.settings.compat))
    }

    /// Job id, time limit and directory for the executor.
    fn detached(&self) -> Result<Detached, Failure> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| format!("the system provides no random numbers: {error}"))?;
        Ok(Detached {
            job: format!("j{}", u64::from_le_bytes(random) % 1_000_000_000_000),
            directory: self.connection.async_dir.clone(),
            limit: self.detach,
            lock: String::new(),
        })
    }

    /// Sends a request for a module.
    pub(super) async fn send(
        &self,
        name: &str,
        args: Value,
        outgoing: Outgoing<'_>,
    ) -> Result<(TaskResult, Option<Received>), Failure> {
        let Outgoing { over: other, contents, folder, detached, job } = outgoing;
        let (descriptions, sources): (Vec<_>, Vec<_>) =
            contents.into_iter().map(|content| (content.description, content.source)).unzip();
        // Only the task's first request over its own connection is sent ahead.
        let ahead = self.ahead.as_ref().filter(|ahead| other.is_none() && ahead.is_undecided());
        let connection = other.unwrap_or(&self.connection);
        let (turn, follows) = match ahead {
            None => (None, false),
            Some(ahead) => match ahead.admit(self, name, &args) {
                None => return Err(Failure::Postponed),
                Some((turn, follows)) => (Some(turn), follows),
            },
        };
        if let Some(spec) = crate::builtin::spec(name).filter(|spec| has_secrets(spec)) {
            secret_values(spec, &to_json(&args), &mut |text| self.secrets.reveal(text.as_bytes()));
        }
        let is_told = self.world.run.settings.verbosity > 2;
        let invocation =
            is_told.then(|| crate::builtin::spec(name)).flatten().map(|spec| invocation(spec, &to_json(&args)));
        let (target, jobs) = (Arc::new(connection.target.clone()), &self.world.run.jobs);
        if let Some(detached) = &detached {
            jobs.start(&target.name, &detached.job, FactNames::of_module(name));
        }
        let facts = job.map_or_else(|| FactNames::of_module(name), |job| jobs.names(&target.name, job));
        let mut request = Request { turn, detached, ..self.request(connection, name, args, descriptions) };
        // Modules that only read a host may run twice. A job has a file of its own.
        let flights = self.flights.as_ref().filter(|_| {
            !self.check && turn.is_none() && request.detached.is_none() && !Lock::is_reading(short_name(name))
        });
        request.flight = flights.map(|flights| Box::new(flights.next()));
        let step = flights.map_or(0, |flights| flights.task.step);
        let departure = ahead.map(|ahead| ahead.departure());
        let listener = Some(self.listener());
        let call = Call { request, sources, receive_into: folder, listener, departure, follows, step };
        let began = Instant::now();
        let answer = self.pool.run(&target, call).await;
        if let (Err(crate::executor::Error::NotRun), Some(ahead)) = (&answer, ahead) {
            ahead.refuse();
        }
        let completed = answer?;
        if self.world.run.settings.output.takes_times() {
            let _ = self.events.send(Event::Spent {
                host: Arc::clone(&self.host),
                task: Arc::clone(&self.task),
                start: began,
                on: Spending::Request(completed.cost),
            });
        }
        let mut result = self.read(name, facts, &target.name, &completed.result)?;
        if let Some(invocation) = invocation.filter(|_| result.get("invocation").is_none()) {
            result.set("invocation", from_json(&invocation));
        }
        Ok((result, completed.received))
    }

    /// Request for a module that is sent immediately, outside of any sequence.
    fn request(
        &self,
        connection: &ConnectionVariables,
        name: &str,
        args: Value,
        contents: Vec<windlass_protocol::Content>,
    ) -> Request<Value> {
        Request {
            id: 0,
            module: name.to_owned(),
            args,
            check: self.check,
            dry_run: self.check && self.world.run.settings.check,
            diff: self.diff,
            max_diff: Some(self.world.run.settings.max_diff_size).filter(|_| self.diff),
            environment: self.environment.clone(),
            timeout: self.timeout,
            become_user: connection.become_user.clone(),
            contents,
            stream: !self.no_log && !self.task.only_reads(),
            detached: None,
            turn: None,
            // The pool sets the lock's terms.
            lock: None,
            flight: None,
        }
    }

    /// Passes on what the host sends before its answer.
    pub(super) fn listener(&self) -> Listener {
        let (events, host) = (self.events.clone(), Arc::clone(&self.host));
        let lock_wait = self.lock_wait.clone();
        Box::new(move |event| {
            if let (TaskEvent::Lock { waits }, Some(lock_wait)) = (&event, &lock_wait) {
                lock_wait.note(*waits);
            }
            let _ = match event {
                TaskEvent::Output { bytes, .. } => events.send(Event::Live { host: host.to_string(), bytes }),
                TaskEvent::Lock { waits } => events.send(Event::Lock { host: Arc::clone(&host), waits }),
                TaskEvent::Warning(sentence) | TaskEvent::Silent(sentence) => {
                    events.send(Event::Warning(format!("{host}: {sentence}")))
                }
            };
        })
    }

    /// Result of the module `name` from what `host` answered.
    pub(super) fn result(&self, host: &str, name: &str, answer: &Value) -> Result<TaskResult, Failure> {
        self.read(name, FactNames::of_module(name), host, answer)
    }

    /// Result of a module that may report these facts.
    fn read(&self, name: &str, facts: FactNames, host: &str, answer: &Value) -> Result<TaskResult, Failure> {
        let Some(answer) = HostResult::read(answer, facts) else {
            return Err(Failure::Failed(format!(
                "{name} on {host} returned {} instead of a mapping, so its effects are unknown",
                windlass_template::type_name(answer)
            )));
        };
        for sentence in answer.warnings() {
            let _ = self.events.send(Event::Warning(format!("{host}: {sentence}")));
        }
        Ok(TaskResult::from(answer).with_lines())
    }

    /// Finds a file of the project: in the role's folder `kind`, beside the task, or beside the playbook.
    pub fn find(&self, kind: &str, name: &str) -> Result<PathBuf, Failure> {
        let path = Path::new(name);
        if path.is_absolute() || name.starts_with('~') {
            let path = crate::settings::expand_home(name);
            // An earlier task may create a file outside of the project.
            match self.context.search_paths().iter().any(|folder| path.starts_with(folder)) {
                true => windlass_template::reads_project(),
                false => windlass_template::reads_outside(),
            }
            return if path.exists() { Ok(path) } else { Err(Failure::Failed(not_found(name, &[]))) };
        }
        windlass_template::reads_project();
        let mut tried = Vec::new();
        for folder in self.context.search_paths() {
            for candidate in [folder.join(kind).join(name), folder.join(name)] {
                if candidate.exists() {
                    return Ok(candidate);
                }
                if !tried.contains(&candidate) {
                    tried.push(candidate);
                }
            }
        }
        Err(Failure::Failed(not_found(name, &tried)))
    }
}

/// Whether a file starts with a vault header.
fn is_vault(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(windlass_bounds::open(path)?, 64), &mut start)?;
    Ok(windlass_vault::is_encrypted(&start))
}

fn not_found(name: &str, tried: &[PathBuf]) -> String {
    let shown: String = tried.iter().map(|path| format!("\n\t{}", path.display())).collect();
    let searched = if tried.is_empty() { String::new() } else { format!("\nSearched in:{shown}") };
    format!(
        "Could not find or access '{name}'{searched} on the Ansible Controller.\n\
         If you are using a module and expect the file to exist on the remote, see the remote_src option"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decrypted_and_rendered_contents_are_not_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = vec![b'x'; hashes::PASSED_ON as usize];
        let (plain, vault) = (folder.path().join("plain"), folder.path().join("vault"));
        std::fs::write(&plain, &bytes).unwrap();
        let secret = windlass_vault::Secret::new("default", "harbour");
        std::fs::write(&vault, windlass_vault::encrypt(&bytes, &secret).unwrap()).unwrap();
        let mut secrets = windlass_vault::Secrets::new();
        secrets.push(secret);
        let files = Files::new(secrets, windlass_yaml::DuplicateKeys::Ignore);
        let of_file = |path| Content::of_file(path, &files, true, Senders::Hosts).unwrap().description;
        assert!(of_file(&plain).sha256.is_some());
        let decrypted = of_file(&vault);
        assert_eq!((decrypted.size, decrypted.sha256), (hashes::PASSED_ON, None));
        std::fs::write(&plain, &bytes[1..]).unwrap();
        assert_eq!(of_file(&plain).sha256, None, "too small");
        assert_eq!(Content::of_bytes("rendered", bytes).description.sha256, None);
    }

    #[test]
    fn changed_file_gets_new_hashes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let hashes = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            hashes::of_file(file.path(), &file.path().metadata().unwrap(), Senders::Controller).unwrap().sha1
        };
        assert_ne!(hashes("first"), hashes("other"));
    }
}
