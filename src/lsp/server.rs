//! The server: its state, and the answer to each message.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::io::{BufReader, Stdout, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Jobs, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use lsp_server::{ErrorCode, Message, Notification, Request, Response};
use lsp_types::{
    CodeActionParams, CompletionParams, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, GotoDefinitionParams, HoverParams, MessageType, PublishDiagnosticsParams,
    ReferenceParams, RenameParams, ShowMessageParams, TextDocumentPositionParams,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::documents::{Document, MOST_DOCUMENTS, path_of};
use super::names::Names;
use super::transport::{Incoming, Sender, oversized, read};
use super::worker::{Checked, Job, Load, start};
use super::{completion, definition, diagnostics, hover, rename};
use crate::error::{Error, Result};
use crate::lint::{Severity, root_of};
use crate::panics::survived;

/// Silence after a change before a document is checked, so that a burst of changes is checked once.
const QUIET: Duration = Duration::from_millis(200);

/// Longest time that further changes delay a check.
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// Longest time that a question about a document waits for the document's first check, on a large project.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum number of waiting questions; further ones are answered immediately.
const MOST_HELD: usize = 32;

/// Number of events that wait. A client that sends faster waits too.
const WAITING: usize = 4;

/// Something to handle.
#[derive(Debug)]
pub(super) enum Event {
    Incoming(Incoming),
    Checked(Box<Checked>),
}

/// State of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Running,
    ShutDown,
}

/// Result of a request.
type Answer = std::result::Result<Value, (ErrorCode, String)>;

/// Serves the client at standard input and output until it ends, and returns the exit code.
pub fn run(load: Load, severity: Severity) -> Result<u8> {
    let (events, received) = sync_channel(WAITING);
    let failed = |error: std::io::Error| Error::new(format!("the language server cannot go on: {error}"));
    let jobs = start(load, severity, events.clone()).map_err(failed)?;
    let reader = std::thread::Builder::new().name("input".to_owned());
    reader.spawn(move || read_all(&events)).map_err(failed)?;
    let mut server = Server {
        output: Sender(stdout()),
        jobs,
        phase: Phase::New,
        documents: BTreeMap::new(),
        names: Names::default(),
        changed: BTreeSet::new(),
        deadline: None,
        longest: None,
        is_checking: false,
        is_saved: false,
        shown: HashSet::new(),
        held: VecDeque::new(),
    };
    server.serve(&received).map_err(failed)
}

/// Reads messages up to the end of the input.
fn read_all(events: &SyncSender<Event>) {
    let mut input = BufReader::new(stdin().lock());
    loop {
        let incoming = read(&mut input);
        let is_end = matches!(incoming, Incoming::End);
        if events.send(Event::Incoming(incoming)).is_err() || is_end {
            return;
        }
    }
}

struct Server {
    output: Sender<Stdout>,
    jobs: Jobs<Job>,
    phase: Phase,
    /// Open documents by address.
    documents: BTreeMap<String, Document>,
    names: Names,
    /// Projects to check.
    changed: BTreeSet<PathBuf>,
    /// Time of the next check, and the latest one.
    deadline: Option<Instant>,
    longest: Option<Instant>,
    is_checking: bool,
    /// Whether something was saved since the last check.
    is_saved: bool,
    /// Problems that were shown.
    shown: HashSet<String>,
    /// Questions that wait for the first check of their document, and the time when each is answered without it.
    held: VecDeque<(Request, Instant)>,
}

impl Server {
    fn serve(&mut self, events: &Receiver<Event>) -> std::io::Result<u8> {
        loop {
            let check = self.deadline.filter(|_| !self.is_checking);
            let next = check.into_iter().chain(self.held.front().map(|(_, until)| *until)).min();
            let event = match next {
                Some(deadline) => events.recv_timeout(deadline.saturating_duration_since(Instant::now())),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let end = match event {
                Ok(event) => self.handle(event)?,
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    if check.is_some_and(|deadline| deadline <= now) {
                        self.check();
                    }
                    self.release(|_, _, until| until <= now)?;
                    None
                }
                Err(RecvTimeoutError::Disconnected) => Some(1),
            };
            if let Some(code) = end {
                return Ok(code);
            }
        }
    }

    /// Handles an event, and returns the exit code if it is the last one.
    fn handle(&mut self, event: Event) -> std::io::Result<Option<u8>> {
        match event {
            Event::Checked(checked) => {
                self.publish(*checked)?;
                // A check that failed answers for no document.
                let is_last = self.deadline.is_none();
                self.release(|server, request, _| is_last || !server.is_unchecked(request))?;
            }
            Event::Incoming(Incoming::End) => return Ok(Some(self.code())),
            Event::Incoming(Incoming::Malformed(reason)) => self.output.reject(&reason)?,
            Event::Incoming(Incoming::Oversized(size)) => self.show(oversized(size))?,
            Event::Incoming(Incoming::Message(Message::Request(request))) if self.must_wait(&request) => {
                self.held.push_back((request, Instant::now() + PATIENCE));
            }
            Event::Incoming(Incoming::Message(Message::Request(request))) => {
                if request.method == "shutdown" {
                    self.release(|_, _, _| true)?;
                }
                let response = self.respond(request);
                self.output.respond(response)?;
            }
            Event::Incoming(Incoming::Message(Message::Notification(notification))) => {
                if notification.method == "exit" {
                    return Ok(Some(self.code()));
                }
                self.notified(notification)?;
            }
            // The server sends no requests, so it expects no responses.
            Event::Incoming(Incoming::Message(Message::Response(_))) => {}
        }
        Ok(None)
    }

    /// Whether a question has no answer yet, because its document was never checked. Many editors ask right after they
    /// have opened a document.
    fn must_wait(&self, request: &Request) -> bool {
        let is_unknown = || {
            let given = params::<HoverParams>(request.params.clone()).ok();
            let at = given.map(|given| given.text_document_position_params);
            at.is_some_and(|at| {
                let answer = self.at(&at, |document, names| hover::hover(document, names, at.position));
                answer.is_ok_and(|answer| answer.is_null())
            })
        };
        self.phase == Phase::Running
            && request.method == "textDocument/hover"
            && (self.is_checking || self.deadline.is_some())
            && self.held.len() < MOST_HELD
            && self.is_unchecked(request)
            && survived(is_unknown).unwrap_or(false)
    }

    /// Whether the document of a question will be checked for the first time.
    fn is_unchecked(&self, request: &Request) -> bool {
        let uri = request.params["textDocument"]["uri"].as_str();
        let document = uri.and_then(|uri| self.documents.get(uri));
        document.is_some_and(|document| document.checked.is_none() && document.path.is_some() && !document.is_too_large)
    }

    /// Answers the held requests that need not wait any longer.
    fn release(&mut self, is_over: impl Fn(&Server, &Request, Instant) -> bool) -> std::io::Result<()> {
        for (request, until) in std::mem::take(&mut self.held) {
            if is_over(&*self, &request, until) {
                let response = self.respond(request);
                self.output.respond(response)?;
            } else {
                self.held.push_back((request, until));
            }
        }
        Ok(())
    }

    /// Exit code at the end: 0 after `shutdown`.
    fn code(&self) -> u8 {
        u8::from(self.phase != Phase::ShutDown)
    }

    fn respond(&mut self, request: Request) -> Response {
        let (id, method) = (request.id.clone(), request.method.clone());
        let answer = survived(|| self.answer(request)).unwrap_or_else(|| {
            Err((ErrorCode::InternalError, format!("`{method}` failed because of a bug in windlass")))
        });
        match answer {
            Ok(value) => Response::new_ok(id, value),
            Err((code, message)) => Response::new_err(id, code as i32, message),
        }
    }

    fn answer(&mut self, request: Request) -> Answer {
        match (self.phase, request.method.as_str()) {
            (Phase::New, "initialize") => {
                self.enter(&request.params);
                self.phase = Phase::Running;
                return Ok(capabilities());
            }
            (Phase::New, _) => {
                return Err((ErrorCode::ServerNotInitialized, "`initialize` must come first".to_owned()));
            }
            (Phase::ShutDown, _) | (Phase::Running, "initialize") => {
                return Err((ErrorCode::InvalidRequest, format!("`{}` comes too late", request.method)));
            }
            (Phase::Running, _) => {}
        }
        match request.method.as_str() {
            "shutdown" => {
                self.phase = Phase::ShutDown;
                Ok(Value::Null)
            }
            "textDocument/completion" => {
                let at = params::<CompletionParams>(request.params)?.text_document_position;
                self.at(&at, |document, names| completion::complete(document, names, at.position))
            }
            "textDocument/hover" => {
                let at = params::<HoverParams>(request.params)?.text_document_position_params;
                self.at(&at, |document, names| hover::hover(document, names, at.position))
            }
            "textDocument/definition" => {
                let at = params::<GotoDefinitionParams>(request.params)?.text_document_position_params;
                self.at(&at, |document, names| definition::define(document, names, at.position))
            }
            "textDocument/references" => {
                let wanted = params::<ReferenceParams>(request.params)?;
                self.at(&wanted.text_document_position, |document, names| rename::references(document, names, &wanted))
            }
            "textDocument/prepareRename" => {
                let at = params::<TextDocumentPositionParams>(request.params)?;
                self.at(&at, |document, names| rename::prepare(document, names, at.position))
            }
            "textDocument/rename" => {
                let wanted = params::<RenameParams>(request.params)?;
                let refuse = |message: String| (ErrorCode::RequestFailed, message);
                if self.documents.values().any(|document| document.checked != Some(document.version)) {
                    return Err(refuse("the last change is not checked yet: try again after its check".to_owned()));
                }
                let edit = rename::rename(&self.documents, &self.names, &wanted).map_err(refuse)?;
                serde_json::to_value(edit).map_err(|error| (ErrorCode::InternalError, error.to_string()))
            }
            "textDocument/codeAction" => {
                let wanted = params::<CodeActionParams>(request.params)?;
                let document = self.documents.get(wanted.text_document.uri.as_str());
                Ok(json!(document.map(|document| diagnostics::fixes(document, &wanted.range)).unwrap_or_default()))
            }
            other => Err((ErrorCode::MethodNotFound, format!("`{other}` is not supported"))),
        }
    }

    /// Answers with a value for a position in a document; null if it is not open.
    fn at<T: serde::Serialize>(
        &self,
        at: &TextDocumentPositionParams,
        answer: impl FnOnce(&Document, &Names) -> T,
    ) -> Answer {
        let document = self.documents.get(at.text_document.uri.as_str());
        let answer = document.map(|document| answer(document, &self.names));
        serde_json::to_value(answer).map_err(|error| (ErrorCode::InternalError, error.to_string()))
    }

    /// Enters the directory of the editor's workspace, where ansible.cfg is searched.
    fn enter(&self, params: &Value) {
        let folders = [&params["workspaceFolders"][0]["uri"], &params["rootUri"]];
        let uri = folders.into_iter().find(|uri| uri.is_string());
        let path = uri.and_then(|uri| serde_json::from_value(uri.clone()).ok()).as_ref().and_then(path_of);
        if let Some(path) = path.filter(|path| path.is_dir()) {
            // Without it, the settings of the directory where the editor started apply.
            let _ = std::env::set_current_dir(path);
        }
    }

    fn notified(&mut self, notification: Notification) -> std::io::Result<()> {
        if self.phase != Phase::Running {
            return Ok(());
        }
        let outcome = survived(|| self.apply(&notification.method, notification.params));
        match outcome {
            Some(Ok(problem)) => problem.map_or(Ok(()), |problem| self.show(problem)),
            Some(Err(error)) => Err(error),
            None => self.show(format!("`{}` failed because of a bug in windlass", notification.method)),
        }
    }

    /// Applies a notification, and returns a problem to show.
    fn apply(&mut self, method: &str, given: Value) -> std::io::Result<Option<String>> {
        match method {
            "textDocument/didOpen" => {
                let Ok(opened) = params::<DidOpenTextDocumentParams>(given) else { return Ok(invalid(method)) };
                let document = opened.text_document;
                if self.documents.len() >= MOST_DOCUMENTS && !self.documents.contains_key(document.uri.as_str()) {
                    let problem = format!("at most {MOST_DOCUMENTS} documents are checked: close some to check others");
                    return Ok(Some(problem));
                }
                let document = Document::new(document.uri, document.version, document.text);
                let uri = document.uri.as_str().to_owned();
                self.documents.insert(uri.clone(), document);
                self.changed_at(&uri)?;
            }
            "textDocument/didChange" => {
                let Ok(changed) = params::<DidChangeTextDocumentParams>(given) else { return Ok(invalid(method)) };
                let uri = changed.text_document.uri.as_str();
                let Some(document) = self.documents.get_mut(uri) else { return Ok(None) };
                if changed.content_changes.iter().any(|change| change.range.is_some()) {
                    return Ok(Some("changes must hold the whole document, as the server declares".to_owned()));
                }
                if let Some(change) = changed.content_changes.into_iter().next_back() {
                    document.change(changed.text_document.version, change.text);
                }
                self.changed_at(uri)?;
            }
            "textDocument/didClose" => {
                let Ok(closed) = params::<DidCloseTextDocumentParams>(given) else { return Ok(invalid(method)) };
                let uri = closed.text_document.uri;
                // Other documents are checked against the file from now on.
                self.changed_at(uri.as_str())?;
                self.documents.remove(uri.as_str());
                self.forget_projects();
                self.output.notify(
                    "textDocument/publishDiagnostics",
                    PublishDiagnosticsParams { uri, diagnostics: Vec::new(), version: None },
                )?;
            }
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => {
                self.is_saved = true;
                let uris: Vec<String> = self.documents.keys().cloned().collect();
                for uri in uris {
                    self.changed_at(&uri)?;
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Notes that the project of a document must be checked.
    fn changed_at(&mut self, uri: &str) -> std::io::Result<()> {
        let Some(document) = self.documents.get(uri) else { return Ok(()) };
        if document.is_too_large {
            return self.publish_one(uri);
        }
        let Some(path) = &document.path else { return Ok(()) };
        self.changed.insert(root_of(path));
        let now = Instant::now();
        let longest = *self.longest.get_or_insert(now + LONGEST_DELAY);
        self.deadline = Some(longest.min(now + QUIET));
        Ok(())
    }

    /// Forgets the names of projects in which no document is open.
    fn forget_projects(&mut self) {
        let paths = self.documents.values().filter_map(|document| document.path.as_deref());
        let roots: BTreeSet<PathBuf> = paths.map(root_of).collect();
        self.names.keep_only(|root: &Path| roots.contains(root));
    }

    /// Starts a check of the documents whose projects have changed.
    fn check(&mut self) {
        (self.deadline, self.longest) = (None, None);
        let changed = std::mem::take(&mut self.changed);
        let checked = || self.documents.values().filter(|document| !document.is_too_large);
        let files = || checked().filter_map(|document| Some((document.path.clone()?, document)));
        let wanted: Vec<(PathBuf, i32)> = files()
            .filter(|(path, _)| changed.contains(&root_of(path)))
            .map(|(path, document)| (path, document.version))
            .collect();
        if wanted.is_empty() {
            return;
        }
        let buffers = files().map(|(path, document)| (path, document.text.clone())).collect();
        let is_reload = std::mem::take(&mut self.is_saved);
        self.is_checking = self.jobs.send(Job { buffers, wanted, is_reload }).is_ok();
    }

    /// Sends the findings of a check.
    fn publish(&mut self, checked: Checked) -> std::io::Result<()> {
        self.is_checking = false;
        for problem in checked.problems {
            self.show(problem)?;
        }
        // A document that cannot be parsed defines nothing, which would spoil the findings of all others.
        let is_broken = checked.documents.iter().any(|document| document.is_broken);
        self.names.update(checked.indexes, !is_broken);
        self.forget_projects();
        if let Some(inventory) = checked.inventory {
            self.names.inventory = inventory;
            self.names.inventory_variables = checked.inventory_variables;
        }
        self.names.modules = checked.modules.into_iter().collect();
        self.names.roles = checked.roles;
        for of in checked.documents {
            let found = self.documents.iter_mut().find(|(_, document)| document.path.as_ref() == Some(&of.path));
            let Some((uri, document)) = found else { continue };
            let is_old = document.version != of.version;
            let is_known = document.checked == Some(of.version);
            if is_old || (is_broken && !of.is_broken && is_known) {
                continue;
            }
            document.findings = of.findings;
            document.checked = Some(of.version);
            let uri = uri.clone();
            self.publish_one(&uri)?;
        }
        Ok(())
    }

    fn publish_one(&mut self, uri: &str) -> std::io::Result<()> {
        let Some(document) = self.documents.get(uri) else { return Ok(()) };
        let params = PublishDiagnosticsParams {
            uri: document.uri.clone(),
            diagnostics: diagnostics::of_document(document),
            version: Some(document.version),
        };
        self.output.notify("textDocument/publishDiagnostics", params)
    }

    /// Shows a problem once.
    fn show(&mut self, message: String) -> std::io::Result<()> {
        const MOST: usize = 100;
        if self.shown.len() >= MOST {
            self.shown.clear();
        }
        if !self.shown.insert(message.clone()) {
            return Ok(());
        }
        let message = format!("windlass: {message}");
        self.output.notify("window/showMessage", ShowMessageParams { typ: MessageType::WARNING, message })
    }
}

/// Features of the server.
fn capabilities() -> Value {
    json!({
        "capabilities": {
            "positionEncoding": "utf-16",
            "textDocumentSync": {"openClose": true, "change": 1, "save": {"includeText": false}},
            "completionProvider": {"triggerCharacters": [".", ":", "|", " ", "-"]},
            "hoverProvider": true,
            "definitionProvider": true,
            "referencesProvider": true,
            "renameProvider": {"prepareProvider": true},
            "codeActionProvider": {"codeActionKinds": ["quickfix"]},
        },
        "serverInfo": {"name": "windlass", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn params<P: DeserializeOwned>(value: Value) -> std::result::Result<P, (ErrorCode, String)> {
    serde_json::from_value(value).map_err(|error| (ErrorCode::InvalidParams, error.to_string()))
}

fn invalid(method: &str) -> Option<String> {
    Some(format!("the parameters of `{method}` are invalid, so it was ignored"))
}
