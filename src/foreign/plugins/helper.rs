//! The Python process that evaluates plugins: started when the first one is used, ended with the run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value as Json, json};

/// What runs in the process.
const PROGRAM: &str = include_str!("helper.py");

/// How the process is started.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// The Python.
    pub(super) python: PathBuf,
    /// Folders in which it finds packages: ansible-core and collections.
    pub(super) paths: Vec<PathBuf>,
    /// Folders of collections.
    pub(super) collections: Vec<PathBuf>,
    /// The folder of the playbook.
    pub(super) basedir: PathBuf,
}

/// The process.
#[derive(Debug)]
pub(super) struct Helper {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What the plugin said instead of an answer.
pub(super) struct Refusal {
    pub(super) message: String,
    /// It ran into something undefined.
    pub(super) undefined: bool,
}

impl Refusal {
    fn new(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), undefined: false }
    }
}

impl Helper {
    /// Starts the process.
    pub(super) fn start(setup: &Setup) -> Result<Helper, Refusal> {
        let python = setup.python.display();
        let refuse = |error: &dyn std::fmt::Display| Refusal::new(format!("{python} cannot be started: {error}"));
        let mut child = Command::new(&setup.python)
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| refuse(&error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(refuse(&"it has no standard streams"));
        };
        let mut helper = Helper { child, input, output: BufReader::new(output) };
        helper.send(&json!({ "paths": setup.paths, "collections": setup.collections, "basedir": setup.basedir }))?;
        Ok(helper)
    }

    /// Asks for something; questions that come back meanwhile are answered by `answer`.
    pub(super) fn ask(
        &mut self,
        request: &Json,
        answer: &mut dyn FnMut(&Json) -> Result<Json, String>,
    ) -> Result<Json, Refusal> {
        self.send(request)?;
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line);
            if !matches!(read, Ok(1..)) {
                let status = self.child.wait().map(|status| status.to_string()).unwrap_or_default();
                return Err(Refusal::new(format!("the Python process that runs it has ended ({status})")));
            }
            let reply: Json = serde_json::from_str(&line)
                .map_err(|error| Refusal::new(format!("its answer cannot be read: {error}")))?;
            if let Some(question) = reply.get("ask") {
                let reply = match answer(question) {
                    Ok(value) => json!({ "value": value }),
                    Err(message) => json!({ "error": message }),
                };
                self.send(&reply)?;
                continue;
            }
            return match (reply.get("value"), reply.get("error").and_then(Json::as_str)) {
                (_, Some(message)) => Err(Refusal {
                    message: message.to_owned(),
                    undefined: reply.get("undefined").and_then(Json::as_bool).unwrap_or(false),
                }),
                (Some(value), None) => Ok(value.clone()),
                (None, None) => Err(Refusal::new("it gave no answer")),
            };
        }
    }

    /// Whether it can be asked again.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn send(&mut self, message: &Json) -> Result<(), Refusal> {
        let mut line = message.to_string();
        line.push('\n');
        let written = self.input.write_all(line.as_bytes()).and_then(|()| self.input.flush());
        written.map_err(|error| Refusal::new(format!("the Python process that runs it is gone: {error}")))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It waits for nothing but requests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
