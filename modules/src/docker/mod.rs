//! Docker: networks, volumes, images, containers, and Compose projects.
//!
//! All modules except Compose, which runs a program, call the engine through [`engine::Engine`]. Each module is one
//! function over a [`Task`], also in check mode: it consults [`Task::check`] before every change.

mod address;
mod compare;
mod engine;
mod image_names;
mod login;
mod lookup;
mod platform;
mod socket;

pub mod compose;
pub mod container;
pub mod image;
pub mod network;
pub mod volume;

use serde_json::{Value, json};

use self::engine::{Engine, Version};
use crate::{Args, Failure, Host, Kind, Map, Opt, Outcome, Plan};

/// Options for the connection to the engine, common to all modules.
const ENGINE_OPTIONS: [Opt; 11] = [
    Opt::new(
        "docker_host",
        Kind::Str,
        "Address of the engine: `unix:///path` or `tcp://host:port`. Default: `DOCKER_HOST`, otherwise \
         `unix:///var/run/docker.sock`.",
    )
    .aliases(&["docker_url"]),
    Opt::new("tls_hostname", Kind::Str, "Name in the engine's certificate. Default: `DOCKER_TLS_HOSTNAME`."),
    Opt::new(
        "api_version",
        Kind::Str,
        "API version. Default: `DOCKER_API_VERSION`; `auto` negotiates with the engine.",
    )
    .aliases(&["docker_api_version"]),
    Opt::new("timeout", Kind::Int, "Seconds to wait for an answer. Default: `DOCKER_TIMEOUT`, otherwise 60."),
    Opt::new("ca_path", Kind::Path, "File with trusted CA certificates. Default: `ca.pem` in `DOCKER_CERT_PATH`.")
        .aliases(&["ca_cert", "tls_ca_cert", "cacert_path"]),
    Opt::new(
        "client_cert",
        Kind::Path,
        "Client certificate for authentication. Default: `cert.pem` in `DOCKER_CERT_PATH`.",
    )
    .aliases(&["tls_client_cert", "cert_path"]),
    Opt::new("client_key", Kind::Path, "Key of the client certificate. Default: `key.pem` in `DOCKER_CERT_PATH`.")
        .aliases(&["tls_client_key", "key_path"]),
    Opt::new("tls", Kind::Bool, "Use TLS without verifying the engine's certificate. Default: `DOCKER_TLS`."),
    Opt::new(
        "use_ssh_client",
        Kind::Bool,
        "No effect, because SSH connections are not supported; accepted for compatibility.",
    )
    .default("false"),
    Opt::new(
        "validate_certs",
        Kind::Bool,
        "Use TLS and verify the engine's certificate. Default: `DOCKER_TLS_VERIFY`.",
    )
    .aliases(&["tls_verify"]),
    Opt::new("debug", Kind::Bool, "Include the performed actions in the result.").default("false"),
];

/// Joins a module's own options and the engine options.
const fn with_engine<const OWN: usize, const ALL: usize>(own: [Opt; OWN]) -> [Opt; ALL] {
    assert!(OWN + ENGINE_OPTIONS.len() == ALL, "the length of the list of options");
    let mut all = [ENGINE_OPTIONS[0]; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < OWN { own[at] } else { ENGINE_OPTIONS[at - OWN] };
        at += 1;
    }
    all
}

/// Requirements among the engine options.
const REQUIRED_TOGETHER: &[&[&str]] = &[&["client_cert", "client_key"]];

/// A running task. All changes go through it, so check mode runs the same code without them.
struct Task {
    args: Args,
    engine: Engine,
    check: bool,
    diff: bool,
    changed: bool,
    /// Actions that were (or would be) performed.
    actions: Vec<Value>,
    differences: Differences,
    data: Map,
    warnings: Vec<String>,
}

impl Task {
    fn start(args: Args, host: &Host) -> Result<Task, Failure> {
        let engine = Engine::connect(&args, host)?;
        Ok(Task {
            args,
            engine,
            check: host.check(),
            diff: host.diff(),
            changed: false,
            actions: Vec::new(),
            differences: Differences::default(),
            data: Map::new(),
            warnings: Vec::new(),
        })
    }

    /// Adds the actions so far to the result.
    fn list_actions(&mut self) {
        self.data.insert("actions".into(), self.actions.clone().into());
    }

    /// Records an action that is (or would be) performed.
    fn act(&mut self, action: impl Into<Value>) {
        self.actions.push(action.into());
        self.changed = true;
    }

    /// Whether the result lists the actions.
    fn lists_actions(&self) -> bool {
        self.check || self.args.bool("debug")
    }

    /// Fails if an option is used that the engine does not support yet.
    fn needs_version(&self, used: bool, option: &str, version: Version) -> Result<(), Failure> {
        if !used || self.engine.version() >= version {
            return Ok(());
        }
        Err(Failure::new(format!(
            "Docker API version is {}. Minimum version required is {version} to set {option} option.",
            self.engine.version()
        )))
    }

    /// Passes on the engine's warnings.
    fn warn_of(&mut self, answer: &Value) {
        let said = match answer {
            Value::Array(sentences) => sentences.iter().filter_map(Value::as_str).collect(),
            Value::String(sentence) if !sentence.is_empty() => vec![sentence.as_str()],
            _ => Vec::new(),
        };
        self.warnings.extend(said.into_iter().map(|sentence| format!("Docker warning: {sentence}")));
    }

    fn finish(self, outcome: &mut Outcome) {
        outcome.changed = self.changed;
        outcome.data.extend(self.data);
        outcome.warnings.extend(self.warnings);
    }
}

/// The plan of a task whose steps need an engine.
fn plan(args: &Args, host: &Host, steps: fn(&mut Task, &Host) -> Result<(), Failure>) -> Result<Plan, Failure> {
    let args = args.clone();
    Plan::steps(host, move |host, outcome| {
        let mut task = Task::start(args, host)?;
        steps(&mut task, host)?;
        task.finish(outcome);
        Ok(())
    })
}

/// Differences between existing and requested properties.
#[derive(Debug, Default)]
struct Differences(Vec<Difference>);

#[derive(Debug, Clone)]
struct Difference {
    name: String,
    wanted: Value,
    there: Value,
}

impl Differences {
    fn add(&mut self, name: impl Into<String>, wanted: impl Into<Value>, there: impl Into<Value>) {
        self.0.push(Difference { name: name.into(), wanted: wanted.into(), there: there.into() });
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn extend(&mut self, more: &Differences) {
        self.0.extend(more.0.iter().cloned());
    }

    fn names(&self) -> Value {
        self.0.iter().map(|difference| difference.name.as_str()).collect()
    }

    /// The differences for `--diff`.
    fn before_and_after(&self) -> [(String, Value); 2] {
        let side = |value: fn(&Difference) -> &Value| -> Value {
            self.0.iter().map(|difference| (difference.name.clone(), value(difference).clone())).collect()
        };
        [("before".to_owned(), side(|found| &found.there)), ("after".to_owned(), side(|found| &found.wanted))]
    }
}

/// Reports differences in the format that networks and volumes share.
fn report(task: &mut Task, names: Value) {
    if !(task.diff || task.lists_actions()) {
        return;
    }
    let mut diff = Map::new();
    if !names.is_null() {
        diff.insert("differences".into(), names);
    }
    if task.diff {
        diff.extend(task.differences.before_and_after());
    }
    task.data.insert("diff".into(), diff.into());
}

/// Labels in the engine's format; all values must be text.
fn labels(given: Option<&Value>, option: &str) -> Result<Option<Map>, Failure> {
    let Some(Value::Object(given)) = given else { return Ok(None) };
    let mut labels = Map::new();
    for (key, value) in given {
        let text = match value {
            Value::Bool(_) => None,
            Value::Number(number) if number.is_f64() => None,
            value => Some(plain_text(value)),
        };
        let text = text.ok_or_else(|| {
            Failure::new(format!(
                "The value {} for '{key}' of {option} is not a string or something than can be safely converted to a string!",
                plain_text(value)
            ))
        })?;
        labels.insert(key.clone(), text.into());
    }
    Ok(Some(labels))
}

/// A value as Python writes it.
fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => "None".to_owned(),
        other => other.to_string(),
    }
}

/// A mapping with all values as text. Booleans are lower case, as Go reads them.
fn texts(given: &Map) -> Map {
    let text = |value: &Value| match value {
        Value::Bool(value) => value.to_string(),
        other => plain_text(other),
    };
    given.iter().map(|(key, value)| (key.clone(), json!(text(value)))).collect()
}

/// A mapping that was given and is not empty.
fn filled<'a>(args: &'a Args, name: &str) -> Option<&'a Map> {
    args.value(name).and_then(Value::as_object).filter(|map| !map.is_empty())
}
