use std::{
    collections::BTreeMap,
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use windlass_protocol::{Event, Stream};

use crate::{Failure, foreign::Store};

/// Where a run's events go and its contents come from: the connection to the controller, or nothing in a test.
pub trait Sink: Send + Sync {
    /// Sends an event with its bytes.
    fn event(&self, event: Event, blob: &[u8]);

    /// The bytes of a content of the controller, asked for if they have not travelled along.
    fn content(&self, index: usize) -> Result<Box<dyn Read>, Failure>;
}

/// A sink for a run without a controller: events are dropped and there are no contents.
struct NoController;

impl Sink for NoController {
    fn event(&self, _event: Event, _blob: &[u8]) {}

    fn content(&self, index: usize) -> Result<Box<dyn Read>, Failure> {
        Err(Failure::new(format!("there is no controller to ask for content number {index}")))
    }
}

/// A file of the controller, as the request describes it.
pub type Content = windlass_protocol::Content;

/// The host as one run of a module sees it.
pub struct Host {
    pub(crate) check: bool,
    pub(crate) dry_run: bool,
    pub(crate) diff: bool,
    pub(crate) max_diff: u64,
    /// What the task calls the module.
    pub(crate) written: Option<String>,
    pub(crate) stream: bool,
    /// It is a job that outlives the connection.
    pub(crate) detached: bool,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) contents: Vec<Content>,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) sink: Arc<dyn Sink>,
    /// Modules that were sent.
    pub(crate) store: Arc<Store>,
}

impl Host {
    /// A host for one run.
    pub fn new(sink: Arc<dyn Sink>, check: bool, diff: bool) -> Host {
        Host {
            check,
            dry_run: false,
            diff,
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

    /// A host for one run without a controller: events are dropped, contents are missing.
    pub fn alone(check: bool, diff: bool) -> Host {
        Host::new(Arc::new(NoController), check, diff)
    }

    /// The whole run is a prediction.
    pub fn with_dry_run(mut self, dry_run: bool) -> Host {
        self.dry_run = dry_run;
        self
    }

    /// With the name by which the task calls the module.
    pub fn with_name(mut self, written: &str) -> Host {
        self.written = Some(written.to_owned());
        self
    }

    /// With the environment the task sets for every process it starts.
    pub fn with_environment(mut self, environment: BTreeMap<String, String>) -> Host {
        self.environment = environment;
        self
    }

    /// With files of the controller.
    pub fn with_contents(mut self, contents: Vec<Content>) -> Host {
        self.contents = contents;
        self
    }

    /// Passes the output of running commands on as it comes.
    pub fn with_stream(mut self, stream: bool) -> Host {
        self.stream = stream;
        self
    }

    /// With another limit for texts that diffs are made of; 0 is none.
    pub fn with_max_diff(mut self, bytes: Option<u64>) -> Host {
        match bytes {
            None => {}
            Some(0) => self.max_diff = u64::MAX - 1,
            Some(bytes) => self.max_diff = bytes,
        }
        self
    }

    /// Only a prediction is asked for.
    pub fn check(&self) -> bool {
        self.check
    }

    /// Earlier tasks of the run were only predicted too (`--check`): something that is missing may be what they would have made. With
    /// `check_mode` on a task alone, what is missing is missing.
    pub fn dry_run(&self) -> bool {
        self.dry_run
    }

    /// Differences are to be reported.
    pub fn diff(&self) -> bool {
        self.diff
    }

    /// How large a text may be that a diff is made of.
    pub fn max_diff(&self) -> u64 {
        self.max_diff
    }

    /// The environment the task sets for every process it starts.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// A variable of the task's environment or else of the executor's own.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned().or_else(|| std::env::var(name).ok())
    }

    /// The controller has given up on this run; long loops look now and then.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// A failure if the controller has given up on this run, for `?` in long loops.
    pub fn check_cancelled(&self) -> Result<(), Failure> {
        if self.cancelled() { Err(Failure::new("The run was cancelled.")) } else { Ok(()) }
    }

    /// What is known of a content of the controller: its hash tells whether its bytes are needed at all.
    pub fn content(&self, index: usize) -> Result<&Content, Failure> {
        self.contents
            .get(index)
            .ok_or_else(|| Failure::new(format!("the controller sent no content number {index} with this task")))
    }

    /// The bytes of a content of the controller.
    pub fn read_content(&self, index: usize) -> Result<Box<dyn Read>, Failure> {
        self.content(index)?;
        self.sink.content(index)
    }

    /// Passes output of a running process on, if the controller wants it live.
    pub fn output(&self, stream: Stream, bytes: &[u8]) {
        if self.stream {
            self.sink.event(Event::Output { stream }, bytes);
        }
    }

    /// Sends a piece of a file to the controller (`fetch`).
    pub fn send_file_data(&self, bytes: &[u8]) {
        self.sink.event(Event::FileData, bytes);
    }

    /// Tells the user something at once.
    pub fn warn(&self, sentence: impl Into<String>) {
        self.sink.event(Event::Warning { message: sentence.into() }, &[]);
    }
}
