//! Callback plugins in Python. Each runs in a process of its own, so one that hangs or ends takes no other with it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::{Value as Json, json};

use super::helper::{Helper, Refusal, Setup};
use super::{PythonPlugins, is_plugin_name, python_files};

/// Time that a callback gets for one event.
const EVENT_DEADLINE: Duration = Duration::from_secs(60);

static NEEDS_ENABLED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^\s+CALLBACK_NEEDS_(?:ENABLED|WHITELIST)\s*=\s*True\b").expect("a constant expression")
});
static IS_STDOUT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?m)^\s+CALLBACK_TYPE\s*=\s*['"]stdout['"]"#).expect("a constant expression"));

/// A callback plugin to start.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Name of the callback, as enabled or from its file name.
    pub name: String,
    /// Whether `callbacks_enabled` names it.
    pub enabled: bool,
    /// Whether the callback writes the standard output.
    pub stdout: bool,
}

/// A running callback plugin.
#[derive(Debug)]
pub struct PythonCallback {
    name: String,
    helper: Helper,
    /// Methods that the plugin implements; `None` if it may implement any.
    methods: Option<HashSet<String>>,
    /// Ids of the tasks that its process knows.
    tasks: HashSet<u64>,
    /// Id of the play that its process knows.
    play: Option<String>,
    spent: Duration,
    events: u64,
}

/// An event for callbacks.
#[derive(Debug)]
pub struct CallbackEvent<'a> {
    /// Method to call.
    pub method: &'static str,
    /// Arguments of the method: pairs of a kind and data.
    pub arguments: &'a Json,
    /// Named arguments of the method.
    pub named: &'a Json,
    /// The task that it is about, with its data.
    pub task: Option<(u64, &'a Json)>,
    /// The play that it belongs to.
    pub play: Option<&'a Json>,
}

/// Answer of a plugin to an event.
#[derive(Debug, Default)]
pub struct Reply {
    /// Texts that the plugin printed, each with whether it went to standard error.
    pub printed: Vec<(bool, String)>,
    /// Error of the plugin.
    pub error: Option<String>,
    /// Whether the plugin has disabled itself.
    pub disabled: bool,
}

impl Reply {
    fn of(answer: &Json) -> Reply {
        let text = |pair: &Json| Some((pair.get(0)?.as_str()? == "err", pair.get(1)?.as_str()?.to_owned()));
        Reply {
            printed: answer.get("printed").and_then(Json::as_array).into_iter().flatten().filter_map(text).collect(),
            error: answer.get("why").and_then(Json::as_str).map(str::to_owned),
            disabled: answer.get("disabled").and_then(Json::as_bool).unwrap_or(false),
        }
    }
}

impl PythonPlugins {
    /// Directories of callback plugins known so far: of the project, of its roles, and the configured ones.
    fn callback_folders(&self) -> Vec<PathBuf> {
        let mut folders = self.modules.callback_folders();
        // Playbooks add theirs when they are read.
        let own = self.basedir.join("callback_plugins");
        if own.is_dir() && !folders.contains(&own) {
            folders.insert(0, own);
        }
        folders
    }

    /// Whether a file of the project or of the settings is a callback of this name.
    pub fn has_own_callback(&self, name: &str) -> bool {
        let file = format!("{name}.py");
        !name.contains('/') && self.callback_folders().iter().any(|folder| folder.join(&file).is_file())
    }

    /// Reason why there is no callback of this name; `None` if there is one that ansible-core can load.
    pub fn without_callback(&self, name: &str) -> Option<String> {
        if !is_plugin_name(name) {
            return Some("this is not the name of a plugin, such as `community.general.slack`".to_owned());
        }
        if self.modules.ansible_core().is_none() && self.has_own_callback(name) {
            return Some(format!("callbacks in Python need ansible-core, but {}", self.modules.without_core()));
        }
        self.without_plugin("callback", "callback", &self.callback_folders(), name)
    }

    /// Callbacks in the known directories. Leaves out those that are not set and whose source shows that they need to
    /// be enabled or write the standard output.
    pub fn own_callbacks(&self, stdout: Option<&str>, enabled: &[String]) -> Vec<Launch> {
        let mut seen = HashSet::new();
        let files = self.callback_folders().iter().flat_map(|folder| python_files(folder)).collect::<Vec<_>>();
        let launches = files.into_iter().filter_map(|file| {
            let name = file.file_stem()?.to_str()?.to_owned();
            if name.starts_with('_') || !seen.insert(name.clone()) {
                return None;
            }
            let launch = Launch { enabled: enabled.contains(&name), stdout: stdout == Some(name.as_str()), name };
            if launch.enabled || launch.stdout {
                return Some(launch);
            }
            let text = windlass_bounds::read_text(&file).unwrap_or_default();
            (!NEEDS_ENABLED.is_match(&text) && !IS_STDOUT.is_match(&text)).then_some(launch)
        });
        launches.collect()
    }

    /// Starts callbacks, all at the same time. Each result has the callback's output, also if it has not started.
    pub fn start_callbacks(&self, launches: &[Launch], about: &Json) -> Vec<(Reply, Option<PythonCallback>)> {
        let setup = match self.setup() {
            Ok(setup) => setup,
            Err(problem) => {
                let failed = || Reply { error: Some(problem.to_owned()), ..Reply::default() };
                return launches.iter().map(|_| (failed(), None)).collect();
            }
        };
        let setup = setup.within(EVENT_DEADLINE);
        let folders = self.callback_folders();
        std::thread::scope(|scope| {
            let (setup, folders) = (&setup, &folders);
            let started: Vec<_> = launches
                .iter()
                .map(|launch| scope.spawn(move || PythonCallback::start(launch, setup, folders, about)))
                .collect();
            started.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
        })
    }
}

impl PythonCallback {
    fn start(launch: &Launch, setup: &Setup, folders: &[PathBuf], about: &Json) -> (Reply, Option<PythonCallback>) {
        let since = Instant::now();
        let mut request = json!({
            "do": "start callback", "name": launch.name, "enabled": launch.enabled, "stdout": launch.stdout,
            "folders": folders,
        });
        if let (Some(request), Some(about)) = (request.as_object_mut(), about.as_object()) {
            request.extend(about.clone());
        }
        let failed = |refusal: Refusal| (Reply { error: Some(refusal.message), ..Reply::default() }, None);
        let mut helper = match Helper::start(setup) {
            Ok(helper) => helper,
            Err(refusal) => return failed(refusal),
        };
        let answer = match helper.ask(&request, &mut super::no_questions) {
            Ok(answer) => answer,
            Err(refusal) => return failed(refusal),
        };
        let mut reply = Reply::of(&answer);
        match answer.get("state").and_then(Json::as_str) {
            Some("started") => {}
            // Ansible does not mention a callback that is not enabled.
            Some("idle") => return (reply, None),
            Some("missing") => {
                reply.error = Some("ansible-core does not find it".to_owned());
                return (reply, None);
            }
            _ => return (reply, None),
        }
        let methods = answer.get("methods").and_then(Json::as_array);
        let methods = methods.map(|names| names.iter().filter_map(Json::as_str).map(str::to_owned).collect());
        let callback = PythonCallback {
            name: launch.name.clone(),
            helper,
            methods,
            tasks: HashSet::new(),
            play: None,
            spent: since.elapsed(),
            events: 0,
        };
        (reply, Some(callback))
    }

    /// Name of the callback.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Time spent in the plugin, and the number of events that it received.
    pub fn cost(&self) -> (Duration, u64) {
        (self.spent, self.events)
    }

    /// Whether the callback implements a method.
    pub fn wants(&self, method: &str) -> bool {
        self.methods.as_ref().is_none_or(|methods| methods.contains(method))
    }

    /// Calls the plugin with an event. After an error its process cannot be used any more.
    pub fn call(&mut self, event: &CallbackEvent<'_>) -> Result<Reply, String> {
        let mut request = json!({
            "do": "event", "method": event.method, "arguments": event.arguments, "named": event.named,
        });
        if let Some((play, id)) = event.play.and_then(|play| Some((play, play.get("id")?.as_str()?)))
            && self.play.as_deref() != Some(id)
        {
            request["play"] = play.clone();
            self.play = Some(id.to_owned());
        }
        if let Some((id, task)) = event.task
            && self.tasks.insert(id)
        {
            request["task"] = task.clone();
        }
        self.events += 1;
        self.ask(&request)
    }

    /// Forgets a task, whose data has changed.
    pub fn forget(&mut self, task: u64) {
        self.tasks.remove(&task);
    }

    /// Lets the plugin do the work that it deferred to its end. The reply contains what it printed.
    pub fn end(&mut self) -> Result<Reply, String> {
        self.ask(&json!({ "do": "end" }))
    }

    /// Waits for the end of its process.
    pub fn finish(self) -> Result<(), String> {
        self.helper.finish().map_err(|error| error.to_string())
    }

    fn ask(&mut self, request: &Json) -> Result<Reply, String> {
        let since = Instant::now();
        let answer = self.helper.ask(request, &mut super::no_questions);
        self.spent += since.elapsed();
        match answer {
            Ok(answer) => Ok(Reply::of(&answer)),
            // Its code ended with an exception that its process survives, such as `SystemExit`.
            Err(refusal) if self.helper.is_alive() => Ok(Reply { error: Some(refusal.message), ..Reply::default() }),
            Err(refusal) => Err(refusal.message),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_of_a_callback_takes_no_memory_once_it_is_printed() {
        let program = concat!(
            "import ctypes, os, sys\n",
            include_str!("callbacks.py"),
            "printed = Printed()\n",
            "for _ in range(8):\n",
            "    os.write(1, b'x' * (4 << 20))\n",
            "    assert [len(text) for _, text in printed.take()] == [4 << 20]\n",
            "os._exit(0 if os.fstat(printed.streams[0][1]).st_blocks * 512 < 8 << 20 else 3)\n",
        );
        match std::process::Command::new("python3").args(["-c", program]).status() {
            Ok(status) => assert_eq!(status.code(), Some(0)),
            Err(_) => windlass_testing::lacks("python3"),
        }
    }
}
