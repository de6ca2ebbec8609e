//! The host as a module sees it during one run: modes, environment, contents of the controller, cancellation.
//!
//! [`Sink`] separates it from the connection, so that a test runs a module without a controller.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use windlass_protocol::{Event, Stream};

use crate::{Failure, foreign::Store};

/// Receiver of a run's events and source of its contents: the controller's connection, or nothing in a test.
pub trait Sink: Send + Sync {
    /// Sends an event with its bytes.
    fn event(&self, event: Event, blob: &[u8]);

    /// Bytes of a content of the controller. Requests them if they did not come with the task.
    fn content(&self, index: usize) -> Result<Box<dyn Read>, Failure>;

    /// Like [`Sink::content`], for a caller that stores the whole content. The bytes may come from another host; if
    /// that fails, the caller must begin again.
    fn whole_content(&self, index: usize) -> Result<Box<dyn Read>, Failure> {
        self.content(index)
    }

    /// Whether another host began to send this content and failed, so that the controller must send it.
    fn has_failed_peer(&self, _index: usize) -> bool {
        false
    }

    /// Keeps a content, now stored in this file, so that other hosts can fetch it.
    fn keep_content(&self, _index: usize, _file: &File) {}
}

/// Sink for a run without a controller: drops events and has no contents.
struct NoController;

impl Sink for NoController {
    fn event(&self, _event: Event, _blob: &[u8]) {}

    fn content(&self, index: usize) -> Result<Box<dyn Read>, Failure> {
        Err(Failure::new(format!("there is no controller to ask for content number {index}")))
    }
}

/// A file of the controller, as described in the request.
pub type Content = windlass_protocol::Content;

/// The host during one run of a module.
pub struct Host {
    pub(crate) check: bool,
    pub(crate) dry_run: bool,
    pub(crate) diff: bool,
    pub(crate) max_diff: u64,
    /// Name by which the task calls the module.
    pub(crate) written: Option<String>,
    pub(crate) stream: bool,
    /// The run is a job that outlives the connection.
    pub(crate) detached: bool,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) contents: Vec<Content>,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) sink: Arc<dyn Sink>,
    /// Modules that the controller has sent.
    pub(crate) store: Arc<Store>,
}

impl Host {
    /// The host for a single run, which changes it and reports no differences.
    pub fn new(sink: Arc<dyn Sink>) -> Host {
        Host {
            check: false,
            dry_run: false,
            diff: false,
            written: None,
            max_diff: crate::files::difference::MAX_DIFF,
            stream: false,
            detached: false,
            environment: BTreeMap::new(),
            contents: Vec::new(),
            cancelled: Arc::default(),
            sink,
            store: Arc::default(),
        }
    }

    /// The host for a single run without a controller: events are dropped, contents are missing.
    pub fn alone() -> Host {
        Host::new(Arc::new(NoController))
    }

    /// The same host for work that the cancellation of this run does not stop. Contents stay behind.
    pub(crate) fn beside(&self) -> Host {
        Host {
            check: self.check,
            dry_run: self.dry_run,
            diff: self.diff,
            max_diff: self.max_diff,
            written: self.written.clone(),
            stream: self.stream,
            detached: self.detached,
            environment: self.environment.clone(),
            contents: Vec::new(),
            cancelled: Arc::default(),
            sink: self.sink.clone(),
            store: self.store.clone(),
        }
    }

    /// Sets check mode, in which the module only predicts.
    pub fn with_check(mut self, check: bool) -> Host {
        self.check = check;
        self
    }

    /// Reports differences.
    pub fn with_diff(mut self, diff: bool) -> Host {
        self.diff = diff;
        self
    }

    /// Marks the whole run as a prediction.
    pub fn with_dry_run(mut self, dry_run: bool) -> Host {
        self.dry_run = dry_run;
        self
    }

    /// Sets the name by which the task calls the module.
    pub fn with_name(mut self, written: &str) -> Host {
        self.written = Some(written.to_owned());
        self
    }

    /// Sets the environment of all processes that the task starts.
    pub fn with_environment(mut self, environment: BTreeMap<String, String>) -> Host {
        self.environment = environment;
        self
    }

    /// Sets the controller's contents.
    pub fn with_contents(mut self, contents: Vec<Content>) -> Host {
        self.contents = contents;
        self
    }

    /// Passes on the output of running commands live.
    pub fn with_stream(mut self, stream: bool) -> Host {
        self.stream = stream;
        self
    }

    /// Sets another size limit for texts in diffs; 0 removes it.
    pub fn with_max_diff(mut self, bytes: Option<u64>) -> Host {
        match bytes {
            None => {}
            Some(0) => self.max_diff = u64::MAX - 1,
            Some(bytes) => self.max_diff = bytes,
        }
        self
    }

    /// Whether the module must only predict.
    pub fn check(&self) -> bool {
        self.check
    }

    /// Whether earlier tasks of the run were only predicted too (`--check`), so that a missing object may be one they
    /// would have created. With `check_mode` on a single task, a missing object is really missing.
    pub fn dry_run(&self) -> bool {
        self.dry_run
    }

    /// Whether to report differences.
    pub fn diff(&self) -> bool {
        self.diff
    }

    /// Largest text, in bytes, to show in a diff.
    pub fn max_diff(&self) -> u64 {
        self.max_diff
    }

    /// Environment of all processes that the task starts.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// A variable from the task's environment, otherwise from the executor's own.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned().or_else(|| std::env::var(name).ok())
    }

    /// Whether the controller has cancelled this run; long loops check it regularly.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Fails if the controller has cancelled this run, for `?` in long loops.
    pub fn check_cancelled(&self) -> Result<(), Failure> {
        if self.cancelled() { Err(Failure::new("The run was cancelled.")) } else { Ok(()) }
    }

    /// Metadata of a controller's content. Its hash shows whether the bytes are needed at all.
    pub fn content(&self, index: usize) -> Result<&Content, Failure> {
        self.contents
            .get(index)
            .ok_or_else(|| Failure::new(format!("the controller sent no content number {index} with this task")))
    }

    /// The bytes of a controller's content.
    pub fn read_content(&self, index: usize) -> Result<Box<dyn Read>, Failure> {
        self.content(index)?;
        self.sink.content(index)
    }

    /// Passes the whole content to `store`, which writes it to a file and returns that file. `store` is called again if
    /// another host failed to send the content.
    pub(crate) fn store_content<T>(
        &self,
        index: usize,
        mut store: impl FnMut(&mut dyn Read) -> Result<T, Failure>,
        file: impl FnOnce(&mut T) -> &mut File,
    ) -> Result<T, Failure> {
        self.content(index)?;
        let mut stored = match store(&mut *self.sink.whole_content(index)?) {
            Err(_) if self.sink.has_failed_peer(index) => store(&mut *self.sink.content(index)?),
            stored => stored,
        }?;
        self.sink.keep_content(index, file(&mut stored));
        Ok(stored)
    }

    /// Passes on output of a running process, if the controller wants it live.
    pub fn output(&self, stream: Stream, bytes: &[u8]) {
        if self.stream {
            self.sink.event(Event::Output { stream }, bytes);
        }
    }

    /// Sends a piece of a file to the controller (`fetch`).
    pub fn send_file_data(&self, bytes: &[u8]) {
        self.sink.event(Event::FileData, bytes);
    }

    /// Sends a warning to the user immediately.
    pub fn warn(&self, sentence: impl Into<String>) {
        self.sink.event(Event::Warning { message: sentence.into() }, &[]);
    }
}
