//! Callbacks in Python. Each gets the events of a run as calls of the methods that Ansible calls, in Ansible's order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::callbacks::{CALLBACKS, Ids};
use super::document::value_of;
use super::event::path_of;
use super::footer::Stream;
use super::masked::{Masked, Shown};
use super::printer::Printer;
use super::{Event, JobState, Output, Recap, ResultEvent, Status};
use crate::error::{Error, Result, did_you_mean};
use crate::foreign::{CallbackEvent, Launch, PythonCallback, PythonPlugins, Reply};
use crate::playbook::Task;
use crate::settings::Settings;

/// Keywords of a task that its stand-in has, as written.
const KEYWORDS: &[&str] = &[
    "any_errors_fatal",
    "become",
    "become_method",
    "become_user",
    "changed_when",
    "check_mode",
    "connection",
    "debugger",
    "delay",
    "delegate_facts",
    "delegate_to",
    "diff",
    "environment",
    "failed_when",
    "ignore_errors",
    "ignore_unreachable",
    "loop",
    "loop_control",
    "no_log",
    "notify",
    "poll",
    "remote_user",
    "retries",
    "run_once",
    "throttle",
    "timeout",
    "until",
];

/// Keywords whose literals a task with `no_log` hides, like its arguments.
const HIDDEN: &[&str] = &["environment", "loop"];

/// Time spent in each callback, and the number of its events.
pub(super) type Costs = Arc<Mutex<Vec<(String, Duration, u64)>>>;

/// The callbacks in Python of a run.
pub(super) struct PythonCallbacks {
    /// Masks and escapes what they print.
    printer: Printer,
    /// The callback that writes the standard output, if it is in Python.
    stdout: Option<String>,
    /// Whether callbacks in the folders of the project run although no setting names them.
    finds_own: bool,
    /// Names in `callbacks_enabled` that are not built in.
    enabled: Vec<String>,
    /// Options of the command line, which callbacks read.
    about: Value,
    plugins: Option<Arc<PythonPlugins>>,
    has_started: bool,
    running: Vec<PythonCallback>,
    /// Writes the standard output where `stdout` cannot.
    usual: Option<Box<dyn Output>>,
    /// Whether `stdout` runs.
    replaces_usual: bool,
    costs: Costs,
    ids: Ids,
    no_log: bool,
    play: Value,
    tasks: HashMap<u64, Value>,
}

/// A call of a method of all callbacks.
struct Call {
    method: &'static str,
    arguments: Value,
    named: Value,
    task: Option<u64>,
}

impl Call {
    fn new(method: &'static str, arguments: Value) -> Call {
        Call { method, arguments, named: json!({}), task: None }
    }

    fn about(self, task: u64) -> Call {
        Call { task: Some(task), ..self }
    }

    fn named(self, named: Value) -> Call {
        Call { named, ..self }
    }
}

impl PythonCallbacks {
    /// Callbacks; `usual` writes the standard output where `stdout` cannot.
    pub(super) fn new(
        printer: &Printer,
        settings: &Settings,
        stdout: Option<&str>,
        usual: Option<Box<dyn Output>>,
    ) -> PythonCallbacks {
        PythonCallbacks {
            printer: printer.clone(),
            stdout: stdout.map(str::to_owned),
            finds_own: settings.output.own_callbacks,
            enabled: Vec::new(),
            about: json!({ "cli": options(settings), "columns": super::footer::columns() }),
            plugins: None,
            has_started: false,
            running: Vec::new(),
            usual,
            replaces_usual: false,
            costs: Costs::default(),
            ids: Ids::new(),
            no_log: settings.no_log,
            play: Value::Null,
            tasks: HashMap::new(),
        }
    }

    /// Adds a name of `callbacks_enabled`.
    pub(super) fn enable(&mut self, name: &str) {
        if self.stdout.as_deref() != Some(name) && !self.enabled.iter().any(|known| known == name) {
            self.enabled.push(name.to_owned());
        }
    }

    /// Where it writes what the callbacks cost.
    pub(super) fn costs(&self) -> Costs {
        Arc::clone(&self.costs)
    }

    /// Starts the callbacks, once the playbooks and their roles are read, whose folders may have some.
    fn start(&mut self) {
        let Some(plugins) = self.plugins.clone().filter(|_| !self.has_started) else { return };
        self.has_started = true;
        let own = self.finds_own.then(|| plugins.own_callbacks(self.stdout.as_deref(), &self.enabled));
        let mut launches = own.unwrap_or_default();
        let is_known = |launches: &[Launch], name: &str| launches.iter().any(|launch| launch.name == name);
        if let Some(name) = self.stdout.clone().filter(|name| !is_known(&launches, name)) {
            launches.push(Launch { name, enabled: false, stdout: true });
        }
        for name in self.enabled.clone() {
            if !is_known(&launches, &name) {
                launches.push(Launch { name, enabled: true, stdout: false });
            }
        }
        // The one that writes the standard output gets each event first.
        launches.sort_by_key(|launch| !launch.stdout);
        launches.retain(|launch| match plugins.without_callback(&launch.name) {
            Some(reason) => {
                let reason = reason.trim_end_matches('.');
                self.printer.warning(&format!("Skipping callback plugin '{}', unable to load: {reason}", launch.name));
                false
            }
            None => true,
        });
        if launches.is_empty() {
            return;
        }
        for (launch, (reply, callback)) in launches.iter().zip(plugins.start_callbacks(&launches, &self.about)) {
            print(&self.printer, &reply);
            if let Some(error) = reply.error {
                let error = error.trim_end_matches('.');
                self.printer.warning(&format!("Failed to load callback plugin '{}': {error}", launch.name));
            }
            if let Some(callback) = callback {
                self.replaces_usual |= launch.stdout;
                self.running.push(callback);
            }
        }
    }

    fn call(&mut self, call: &Call) {
        let event = CallbackEvent {
            method: call.method,
            arguments: &call.arguments,
            named: &call.named,
            task: call.task.and_then(|id| Some((id, self.tasks.get(&id)?))),
            play: Some(&self.play).filter(|play| !play.is_null()),
        };
        let mut left = Vec::with_capacity(self.running.len());
        for mut callback in std::mem::take(&mut self.running) {
            if !callback.wants(call.method) {
                left.push(callback);
                continue;
            }
            let reply = callback.call(&event);
            let is_stdout = self.stdout.as_deref() == Some(callback.name());
            match settle(&self.printer, &self.costs, callback, call.method, reply) {
                Some(callback) => left.push(callback),
                None => self.replaces_usual &= !is_stdout,
            }
        }
        self.running = left;
    }

    /// Ends the callbacks in order. They may wait for threads that send their last events.
    fn end(&mut self) {
        for mut callback in std::mem::take(&mut self.running) {
            let name = callback.name().to_owned();
            let reply = callback.end();
            note(&self.costs, &callback);
            let outcome = reply.and_then(|reply| {
                print(&self.printer, &reply);
                callback.finish()
            });
            if let Err(error) = outcome {
                self.printer.warning(&format!("the callback plugin '{name}' did not end: {error}"));
            }
        }
    }

    /// Remembers a task, with its name on the host where it starts first.
    fn learn(&mut self, event: &Masked, task: &Task, label: &str) {
        let about = self.described(event, task, label);
        if self.tasks.get(&task.id) != Some(&about) {
            self.running.iter_mut().for_each(|callback| callback.forget(task.id));
            self.tasks.insert(task.id, about);
        }
    }

    /// A task as data for its stand-in. Arguments and keywords are those written, masked; a task with `no_log` has no
    /// arguments, environment or items.
    fn described(&self, event: &Masked, task: &Task, label: &str) -> Value {
        let hidden = task.may_be_hidden(self.no_log);
        let arguments = task.args.iter().filter(|_| !hidden).map(|(key, node)| (key.to_text(), node.to_json()));
        let mut fields = Map::new();
        for name in KEYWORDS.iter().filter(|name| !(hidden && HIDDEN.contains(name))) {
            if let Some(node) = task.keyword(name) {
                fields.insert((*name).to_owned(), node.to_json());
            }
        }
        let role = task.frame.role();
        let name = role.and_then(|role| label.strip_prefix(&role.name)?.strip_prefix(" : ")).unwrap_or(label);
        fields.insert("name".to_owned(), if task.name.is_some() { name.into() } else { "".into() });
        fields.insert("action".to_owned(), task.action.as_str().into());
        fields.insert("args".to_owned(), arguments.collect::<Map<_, _>>().into());
        fields.insert("tags".to_owned(), json!(&*task.tags));
        fields.insert("when".to_owned(), task.when.iter().map(windlass_yaml::Node::to_json).collect());
        fields.insert("register".to_owned(), json!(task.register));
        fields.insert("listen".to_owned(), json!(task.listen));
        if let Some((lookup, terms)) = &task.with_lookup {
            fields.insert("loop_with".to_owned(), lookup.as_str().into());
            if !hidden {
                fields.insert("loop".to_owned(), terms.to_json());
            }
        }
        let mut about = json!({
            "id": task.id,
            "uuid": self.ids.task(task),
            "label": label,
            "path": path_of(task),
            "resolved": resolved(&task.action),
            "role": role.map(|role| json!({ "name": role.name, "path": role.path, "collection": role.collection() })),
        });
        let mut fields = Value::Object(fields);
        event.mask_json(&mut fields);
        about["fields"] = fields;
        about
    }

    fn learn_unless_known(&mut self, event: &Masked, task: &Arc<Task>) {
        if !self.tasks.contains_key(&task.id) {
            self.learn(event, task, &event.label_of(task));
        }
    }

    /// Calls for an event, in Ansible's order.
    fn calls(&mut self, event: &Masked) -> Vec<Call> {
        match &**event {
            Event::PlaybookStart { path, plays, .. } => {
                let folder = crate::paths::absolute(std::path::Path::new(path));
                let folder = folder.parent().map(|folder| folder.display().to_string());
                let playbook = json!({ "path": path, "folder": folder, "plays": plays });
                vec![Call::new("v2_playbook_on_start", json!([["playbook", playbook]]))]
            }
            Event::PlayStart { name, path, check, batch, hosts } => {
                let id = self.ids.play(*batch);
                let fields = json!({ "name": name, "hosts": &**hosts, "check_mode": check });
                self.play = json!({ "id": id, "uuid": id, "label": name, "path": path, "fields": fields });
                let context = self.about["cli"].clone();
                vec![
                    Call::new("set_play_context", json!([["context", context]])),
                    Call::new("v2_playbook_on_play_start", json!([["play", id]])),
                ]
            }
            Event::NoHostsMatched => vec![Call::new("v2_playbook_on_no_hosts_matched", json!([]))],
            Event::NoHostsLeft => vec![Call::new("v2_playbook_on_no_hosts_remaining", json!([]))],
            Event::TaskStart { task, name, .. } => {
                self.learn(event, task, name);
                let arguments = json!([["task", task.id]]);
                let call = match task.handler {
                    true => Call::new("v2_playbook_on_handler_task_start", arguments),
                    false => {
                        Call::new("v2_playbook_on_task_start", arguments).named(json!({ "is_conditional": false }))
                    }
                };
                vec![call.about(task.id)]
            }
            Event::HostStart { host, task, .. } => {
                self.learn_unless_known(event, task);
                vec![Call::new("v2_runner_on_start", json!([["host", &**host], ["task", task.id]])).about(task.id)]
            }
            Event::Notified { host, handler } => {
                self.learn_unless_known(event, handler);
                let arguments = json!([["task", handler.id], ["host", &**host]]);
                vec![Call::new("v2_playbook_on_notify", arguments).about(handler.id)]
            }
            Event::Result(result) => {
                self.learn_unless_known(event, &result.task);
                of_result(result)
            }
            Event::IncludeResult(result) => {
                self.learn_unless_known(event, &result.task);
                let items = included_items(result);
                items.into_iter().chain(of_result(result)).collect()
            }
            Event::Retry { of, host, result, .. } => {
                self.learn_unless_known(event, of);
                let result = json!({
                    "host": host, "task": of.id, "result": result.json(), "status": "ok", "fields": {},
                });
                vec![Call::new("v2_runner_retry", json!([["result", result]])).about(of.id)]
            }
            Event::Job { task, host, id, state } => {
                self.learn_unless_known(event, task);
                vec![of_job(task, host, id, state)]
            }
            Event::Included { task, what, hosts, item } => {
                self.learn_unless_known(event, task);
                let is_role = task.short_action() == "include_role";
                let vars = item.as_ref().map_or_else(|| json!({}), |item| json!({ "_ansible_item_label": item }));
                let included =
                    json!({ "what": what, "vars": vars, "hosts": hosts, "task": task.id, "is_role": is_role });
                vec![Call::new("v2_playbook_on_include", json!([["include", included]])).about(task.id)]
            }
            Event::Recap(recap) => vec![of_recap(recap)],
            _ => Vec::new(),
        }
    }

    /// Does for a callback in Python what `default` does for the standard output: prints warnings of results.
    fn print_warnings(&self, event: &Masked) {
        if let Event::Result(result) = &**event
            && self.replaces_usual
            && result.result.has("warnings")
        {
            self.printer.result_warnings(result.result.json());
        }
    }
}

impl Output for PythonCallbacks {
    fn plugins(&mut self, plugins: &Arc<PythonPlugins>) -> Result<()> {
        if let Some(name) = &self.stdout
            && let Some(reason) = plugins.without_callback(name)
        {
            let error = Error::new(format!("Could not load '{name}' callback plugin."));
            let names = CALLBACKS.iter().map(|callback| callback.name);
            return Err(error.hint(did_you_mean(name, names).unwrap_or(reason)));
        }
        self.plugins = Some(Arc::clone(plugins));
        Ok(())
    }

    fn event(&mut self, event: &Masked) {
        if let Event::PlaybookStart { .. } = &**event {
            self.start();
        }
        if !self.running.is_empty() {
            self.print_warnings(event);
            for call in self.calls(event) {
                self.call(&call);
            }
        }
        if let Some(usual) = self.usual.as_mut().filter(|_| !self.replaces_usual) {
            usual.event(event);
        }
        if let Event::End = &**event {
            self.end();
        }
    }
}

/// Handles the reply to an event. Returns the callback, unless it is given up.
fn settle(
    printer: &Printer,
    costs: &Costs,
    callback: PythonCallback,
    method: &str,
    reply: std::result::Result<Reply, String>,
) -> Option<PythonCallback> {
    let name = callback.name();
    match reply {
        Ok(reply) => {
            print(printer, &reply);
            if let Some(error) = &reply.error {
                let error = error.trim_end_matches('.');
                printer.warning(&format!("Callback dispatch '{method}' failed for plugin '{name}': {error}"));
            }
            Some(callback)
        }
        Err(reason) => {
            printer.warning(&format!(
                "the callback plugin '{name}' gets no more events, because {method} failed: {}",
                reason.trim_end_matches('.')
            ));
            note(costs, &callback);
            None
        }
    }
}

fn note(costs: &Costs, callback: &PythonCallback) {
    let (spent, events) = callback.cost();
    let mut costs = costs.lock().unwrap_or_else(PoisonError::into_inner);
    costs.push((callback.name().to_owned(), spent, events));
}

fn print(printer: &Printer, reply: &Reply) {
    for (is_error, text) in &reply.printed {
        printer.text(if *is_error { Stream::Stderr } else { Stream::Stdout }, text);
    }
}

/// Calls for a result of a task or of an item.
fn of_result(event: &ResultEvent<Shown>) -> Vec<Call> {
    let is_item = event.item.is_some();
    let result = |status: &str| {
        let mut value = value_of(event);
        if let Some(map) = value.as_object_mut() {
            map.remove("action");
            map.remove("failed");
            map.remove("skipped");
            if let Some(label) = &event.item {
                let item = label_value(map, label);
                map.entry("_ansible_item_label").or_insert(item);
            }
        }
        let ignored = matches!(event.status, Status::Failed { ignored: true });
        let fields = json!({ "ignore_errors": ignored.then_some(true) });
        json!({ "host": &*event.name, "task": event.task.id, "result": value, "status": status, "fields": fields })
    };
    let call = |method, status| Call::new(method, json!([["result", result(status)]])).about(event.task.id);
    let has_diff = event.diff && (is_item || event.result.has("diff"));
    match (event.status, is_item) {
        (Status::Ok, _) => {
            let method = if is_item { "v2_runner_item_on_ok" } else { "v2_runner_on_ok" };
            let diff = has_diff.then(|| call("v2_on_file_diff", "ok"));
            diff.into_iter().chain([call(method, "ok")]).collect()
        }
        (Status::Failed { .. } | Status::Unreachable { .. }, true) => vec![call("v2_runner_item_on_failed", "failed")],
        (Status::Failed { ignored }, false) => {
            vec![call("v2_runner_on_failed", "failed").named(json!({ "ignore_errors": ignored }))]
        }
        (Status::Unreachable { .. }, false) => vec![call("v2_runner_on_unreachable", "unreachable")],
        (Status::Skipped, true) => vec![call("v2_runner_item_on_skipped", "skipped")],
        (Status::Skipped, false) => vec![call("v2_runner_on_skipped", "skipped")],
    }
}

/// Value of an item's label: the item itself, unless `loop_control` labels it.
fn label_value(result: &Map<String, Value>, label: &str) -> Value {
    let name = result.get("ansible_loop_var").and_then(Value::as_str).unwrap_or("item");
    let is_labelled = |item: &&Value| windlass_template::text(&windlass_template::from_json(item)) == label;
    result.get(name).filter(is_labelled).cloned().unwrap_or_else(|| label.into())
}

/// Calls for the items of an include in a loop. Those that were skipped or failed have events of their own.
fn included_items(event: &ResultEvent<Shown>) -> Vec<Call> {
    let items = event.result.json().get("results").and_then(Value::as_array).into_iter().flatten();
    let is = |item: &Value, key: &str| item.get(key).and_then(Value::as_bool).unwrap_or(false);
    items
        .filter(|item| event.looped && !is(item, "skipped") && !is(item, "failed"))
        .map(|item| {
            let mut value = item.clone();
            if let Some(map) = value.as_object_mut() {
                let name = map.get("ansible_loop_var").and_then(Value::as_str).unwrap_or("item");
                let label = map.get(name).cloned().unwrap_or_default();
                map.entry("_ansible_item_label").or_insert(label);
            }
            let result = json!({
                "host": &*event.name, "task": event.task.id, "result": value, "status": "ok", "fields": {},
            });
            Call::new("v2_runner_item_on_ok", json!([["result", result]])).about(event.task.id)
        })
        .collect()
}

fn of_job(task: &Task, host: &str, id: &str, state: &JobState) -> Call {
    let (method, status) = match state {
        JobState::Polled { .. } => ("v2_runner_on_async_poll", "ok"),
        JobState::Ok => ("v2_runner_on_async_ok", "ok"),
        JobState::Failed => ("v2_runner_on_async_failed", "failed"),
    };
    let mut result = json!({ "ansible_job_id": id });
    if let JobState::Polled { started, finished } = state {
        result["started"] = started.as_str().into();
        result["finished"] = finished.as_str().into();
    }
    let result = json!({ "host": host, "task": task.id, "result": result, "status": status, "fields": {} });
    Call::new(method, json!([["result", result]])).about(task.id)
}

fn of_recap(recap: &Recap) -> Call {
    let hosts: Map<String, Value> =
        recap.hosts.iter().map(|(host, stats)| (host.to_string(), stats.to_json())).collect();
    let mut custom: Map<String, Value> =
        recap.custom.hosts.iter().map(|(host, values)| (host.clone(), json!(values))).collect();
    if !recap.custom.run.is_empty() {
        custom.insert("_run".to_owned(), json!(recap.custom.run));
    }
    let stats = json!({ "hosts": hosts, "custom": custom });
    Call::new("v2_playbook_on_stats", json!([["stats", stats]]))
}

/// Qualified name of an action.
fn resolved(action: &str) -> String {
    if action.contains('.') { action.to_owned() } else { format!("ansible.builtin.{action}") }
}

/// Options of the command line under the names that ansible-core gives them.
fn options(settings: &Settings) -> Value {
    json!({
        "check": settings.check,
        "check_mode": settings.check,
        "diff": settings.diff,
        "verbosity": settings.verbosity,
        "forks": settings.forks,
        "inventory": settings.inventory.sources,
        "subset": settings.inventory.limit,
        "tags": if settings.tags.is_empty() { vec!["all".to_owned()] } else { settings.tags.clone() },
        "skip_tags": settings.skip_tags,
        "start_at_task": settings.start_at_task,
        "remote_user": settings.connect.remote_user,
        "extra_vars": [],
        "args": [],
    })
}
