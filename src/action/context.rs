use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use indexmap::IndexMap;
use sha1::{Digest as _, Sha1};
use windlass_modules::{has_secrets, invocation, secret_values};
use windlass_protocol::{Delivery, Detached, Request};
use windlass_template::{Compat, Context, Value, from_json, to_json};

use crate::connection::{Kind, Target};
use crate::executor::{Call, Listener, Pool, Received, Source, TaskEvent};
use crate::foreign::Modules;
use crate::outcome::{HostResult, TaskResult};
use crate::output::{Event, Events, Secrets, Spending};
use crate::playbook::{Files, Task};
use crate::strategy::Ahead;
use crate::vars::{ConnectionVariables, World};

/// Why an action has no ordinary result.
#[derive(Debug)]
pub enum Failure {
    /// The host could not be reached, or was lost; a sentence.
    Unreachable(String),
    /// The task failed; a sentence.
    Failed(String),
    /// The task failed for something that would end a run elsewhere.
    Error(Box<crate::error::Error>),
    /// A template of the task cannot be evaluated.
    Evaluation(Box<windlass_template::Error>),
}

impl Failure {
    /// The result it stands for. Up to 2.18, the message is Ansible's own sentence where playbooks compare it; the report
    /// tells the rest.
    pub fn into_result(self, compat: Compat) -> TaskResult {
        match self {
            Failure::Unreachable(message) => {
                TaskResult::new().with("changed", false).with("unreachable", true).with("msg", message)
            }
            Failure::Failed(message) => TaskResult::failure(message),
            Failure::Error(error) => TaskResult::failure(error.what_and_where()).with_advice(error.advice()),
            Failure::Evaluation(error) => match error.sentence() {
                Some(sentence) if compat == Compat::V2_18 => {
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

/// Everything an action may use: one task, one item, one host.
pub struct ActionContext {
    /// The action's short name.
    pub action: String,
    /// The task.
    pub task: Arc<Task>,
    /// The host the task is for.
    pub host: Arc<str>,
    /// The variables.
    pub context: Context,
    /// What is known of all hosts.
    pub world: Arc<World>,
    /// The arguments, rendered.
    pub args: IndexMap<Arc<str>, Value>,
    /// How the host (or the one it is delegated to) is reached.
    pub connection: ConnectionVariables,
    /// Predict only.
    pub check: bool,
    /// Report differences.
    pub diff: bool,
    /// The environment of the task's processes.
    pub environment: BTreeMap<String, String>,
    /// Seconds the action may take; 0 is no limit.
    pub timeout: u64,
    /// `async`: the module runs on by itself, at most so many seconds; 0 is no such run.
    pub detach: u64,
    /// The result is not shown.
    pub no_log: bool,
    /// The project's files.
    pub files: Arc<Files>,
    /// Modules that are not ours.
    pub modules: Arc<Modules>,
    /// Connections and executors.
    pub pool: Arc<Pool<Value>>,
    /// Where events go.
    pub events: Events,
    /// What must never be shown.
    pub secrets: Secrets,
    /// The task is done before earlier ones have answered.
    pub ahead: Option<Arc<Ahead>>,
}

/// A file of the controller on its way to a host.
pub struct Content {
    /// What the request says of it.
    pub description: windlass_protocol::Content,
    /// Where its bytes are.
    pub source: Source,
}

/// Up to this size a content travels with its request; above, only if the host does not have it already.
const INLINE_LIMIT: u64 = 128 << 10;

impl Content {
    /// Bytes that the controller made.
    pub fn of_bytes(name: &str, bytes: Vec<u8>) -> Content {
        let description = windlass_protocol::Content {
            name: name.to_owned(),
            size: bytes.len() as u64,
            sha1: hex::encode(Sha1::digest(&bytes)),
            mode: 0o644,
            delivery: if bytes.len() as u64 <= INLINE_LIMIT { Delivery::Inline } else { Delivery::OnDemand },
        };
        Content { description, source: Source::Bytes(bytes.into()) }
    }

    /// A file, which is read now if it is small or a vault to be decrypted, and hashed piece by piece if it is large.
    pub fn of_file(path: &Path, files: &Files, decrypt: bool) -> Result<Content, Failure> {
        use std::os::unix::fs::PermissionsExt as _;
        let fail = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
        let metadata = std::fs::metadata(path).map_err(fail)?;
        let mode = metadata.permissions().mode() & 0o7777;
        let decrypt = decrypt && is_vault(path).map_err(fail)?;
        if decrypt || metadata.len() <= INLINE_LIMIT {
            let bytes = if decrypt { files.bytes(path)?.0 } else { windlass_bounds::read(path).map_err(fail)? };
            let mut content = Content::of_bytes(&path.display().to_string(), bytes);
            content.description.mode = mode;
            return Ok(content);
        }
        let mut file = std::fs::File::open(path).map_err(fail)?;
        let mut hasher = Sha1::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = std::io::Read::read(&mut file, &mut buffer).map_err(fail)?;
            if count == 0 {
                break;
            }
            hasher.update(buffer.get(..count).unwrap_or_default());
        }
        let description = windlass_protocol::Content {
            name: path.display().to_string(),
            size: metadata.len(),
            sha1: hex::encode(hasher.finalize()),
            mode,
            delivery: Delivery::OnDemand,
        };
        Ok(Content { description, source: Source::File(path.to_owned()) })
    }
}

impl ActionContext {
    /// An argument.
    pub fn arg(&self, name: &str) -> Option<&Value> {
        self.args.get(name).filter(|value| !value.is_none())
    }

    /// An argument as text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.arg(name).map(windlass_template::text)
    }

    /// An argument as a boolean.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.arg(name).map(crate::vars::truth)
    }

    /// Sends a module to the host with these arguments.
    pub async fn module(&self, name: &str, args: Value, contents: Vec<Content>) -> Result<TaskResult, Failure> {
        Ok(self.module_with_file(name, args, contents, None).await?.0)
    }

    /// Sends a module to the host; a file it sends back is received in this folder.
    pub async fn module_with_file(
        &self,
        name: &str,
        args: Value,
        contents: Vec<Content>,
        folder: Option<PathBuf>,
    ) -> Result<(TaskResult, Option<Received>), Failure> {
        let detached = if self.detach == 0 { None } else { Some(self.detached()?) };
        self.send(&self.connection, name, args, contents, folder, detached).await
    }

    /// Sends a module to the host without becoming another user.
    pub(crate) async fn module_as_login_user(&self, name: &str, args: Value) -> Result<TaskResult, Failure> {
        let connection = ConnectionVariables { become_user: None, ..self.connection.clone() };
        self.module_on(&connection, name, args, Vec::new()).await
    }

    /// Sends a module where this connection leads.
    pub(crate) async fn module_on(
        &self,
        connection: &ConnectionVariables,
        name: &str,
        args: Value,
        contents: Vec<Content>,
    ) -> Result<TaskResult, Failure> {
        Ok(self.send(connection, name, args, contents, None, None).await?.0)
    }

    /// Runs a module on this machine, as the user who runs this program.
    pub(crate) async fn module_here(&self, name: &str, args: Value) -> Result<TaskResult, Failure> {
        let here = ConnectionVariables {
            target: Target::new("localhost", Kind::Local),
            become_user: None,
            async_dir: self.connection.async_dir.clone(),
        };
        self.module_on(&here, name, args, Vec::new()).await
    }

    /// Asks for a job of this task, or removes its file.
    pub(crate) async fn job(&self, job: &str, mode: &str) -> Result<TaskResult, Failure> {
        let directory = self.connection.async_dir.as_str();
        let args = [("jid", job), ("mode", mode), ("_async_dir", directory)];
        let args = Value::from_pairs(args.map(|(name, value)| (name, Value::from(value))));
        let (answer, _) =
            self.send(&self.connection, "ansible.builtin.async_status", args, Vec::new(), None, None).await?;
        Ok(super::async_status::shaped(answer, self.world.run.settings.compat))
    }

    /// What the executor has to know of a job.
    fn detached(&self) -> Result<Detached, Failure> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| format!("the system has no random numbers: {error}"))?;
        Ok(Detached {
            job: format!("j{}", u64::from_le_bytes(random) % 1_000_000_000_000),
            directory: self.connection.async_dir.clone(),
            limit: self.detach,
        })
    }

    async fn send(
        &self,
        connection: &ConnectionVariables,
        name: &str,
        args: Value,
        contents: Vec<Content>,
        folder: Option<PathBuf>,
        detached: Option<Detached>,
    ) -> Result<(TaskResult, Option<Received>), Failure> {
        let (descriptions, sources): (Vec<_>, Vec<_>) =
            contents.into_iter().map(|content| (content.description, content.source)).unzip();
        // A second request of the same task goes like any other, and so does one that goes elsewhere.
        let is_own = std::ptr::eq(connection, &self.connection);
        let ahead = self.ahead.as_ref().filter(|ahead| is_own && ahead.is_undecided());
        let (turn, follows) = match ahead {
            None => (None, false),
            Some(ahead) => match ahead.admit(self, name, &args) {
                None => return Err("it has to wait for what is under way".into()),
                Some((turn, follows)) => (Some(turn), follows),
            },
        };
        if let Some(spec) = super::spec(name).filter(|spec| has_secrets(spec)) {
            secret_values(spec, &to_json(&args), &mut |text| self.secrets.reveal(text.as_bytes()));
        }
        let is_told = self.world.run.settings.verbosity > 2;
        let invocation = is_told.then(|| super::spec(name)).flatten().map(|spec| invocation(spec, &to_json(&args)));
        let request = Request {
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
            contents: descriptions,
            stream: !self.no_log,
            detached,
            turn,
            // The pool knows on which terms hosts are locked.
            lock: None,
        };
        let target = Arc::new(connection.target.clone());
        let (events, host) = (self.events.clone(), Arc::clone(&self.host));
        let listener: Listener = Box::new(move |event| {
            let _ = match event {
                TaskEvent::Output { bytes, .. } => events.send(Event::Live { host: host.to_string(), bytes }),
                TaskEvent::Warning(sentence) | TaskEvent::Silent(sentence) => {
                    events.send(Event::Warning(format!("{host}: {sentence}")))
                }
            };
        });
        let departure = ahead.map(|ahead| ahead.departure());
        let call = Call { request, sources, receive_into: folder, listener: Some(listener), departure, follows };
        let began = Instant::now();
        let answer = self.pool.run(&target, call).await;
        if let (Err(crate::executor::Error::NotRun), Some(ahead)) = (&answer, ahead) {
            ahead.refuse();
        }
        let completed = answer?;
        if self.world.run.settings.takes_times() {
            let _ = self.events.send(Event::Spent {
                host: Arc::clone(&self.host),
                task: Arc::clone(&self.task),
                start: began,
                on: Spending::Request(completed.cost),
            });
        }
        let Some(answer) = HostResult::read(&completed.result) else {
            return Err(Failure::Failed(format!(
                "the result of {name} on {} is no mapping but {}, so nothing is known of what it did",
                connection.target.name,
                windlass_template::type_name(&completed.result)
            )));
        };
        for sentence in answer.warnings() {
            let _ = self.events.send(Event::Warning(format!("{}: {sentence}", connection.target.name)));
        }
        let mut result = TaskResult::from(answer).with_lines();
        if let Some(invocation) = invocation.filter(|_| result.get("invocation").is_none()) {
            result.set("invocation", from_json(&invocation));
        }
        Ok((result, completed.received))
    }

    /// Finds a file of the project: in the role's folder of that kind, beside the task, beside the playbook.
    pub fn find(&self, kind: &str, name: &str) -> Result<PathBuf, Failure> {
        let path = Path::new(name);
        if path.is_absolute() || name.starts_with('~') {
            let path = crate::settings::expand_home(name);
            // A file that is not the project's may be one that a task before this one makes.
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

/// Whether a file begins as a vault does.
fn is_vault(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(std::fs::File::open(path)?, 64), &mut start)?;
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
