//! The view of a run while it lasts: a page, and the events that keep it up to date.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use serde_json::{Value as Json, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::index::Run;
use super::watch::Watch;
use super::{LIVE, STREAMS, View, address};
use crate::error::Result;
use crate::html::make_harmless;
use crate::http::server::{Answer, Content};
use crate::journal::RunFile;
use crate::output::Secrets;
use crate::report;

/// Time between two looks at a journal.
const LOOK: Duration = Duration::from_millis(500);
/// Time without an event after which an empty one finds out whether the client is still there.
const QUIET: Duration = Duration::from_secs(15);
/// Events that wait for the client.
const AHEAD: usize = 4;

impl View<'_> {
    /// The state of a run now. A script keeps it up to date.
    pub(super) fn live(&self, run: &Run) -> Result<Answer> {
        let mut watch = Watch::of(&run.file)?;
        let problem = watch.read().err().map(|error| error.to_string());
        let mut state = watch.changes().unwrap_or_default();
        // Collects the changes of all hosts, because a page without a script follows no events.
        while let Some(more) = watch.changes() {
            if let (Some(hosts), Json::Array(more)) = (state["hosts"].as_array_mut(), &more["hosts"]) {
                hosts.extend(more.iter().cloned());
            }
        }
        let result = run.result();
        let page = json!({
            "navigation": self.navigation(""),
            "title": format!("{}: {result}", run.title()),
            "run": run.file.run,
            "name": run.title(),
            "result": result,
            "state": state,
            "problem": problem,
            "report": address::run(&run.file.run),
            "events": (result == "running").then(|| address::events(&run.file.run)),
            "cancel": self.cancel_of(&run.file.run),
            "referrer": self.referrer(),
        });
        Ok(self.html(StatusCode::OK, LIVE.render("live", page, &self.pages.secrets)?))
    }

    /// The changes of a run until its end, as server-sent events.
    pub(super) fn events(&self, run: Run) -> Answer {
        let Ok(permit) = Arc::clone(&self.pages.streams).try_acquire_owned() else {
            let refusal = format!("{STREAMS} views of running runs are open, which is the limit; close one of them");
            return Answer::sentence(StatusCode::SERVICE_UNAVAILABLE, &refusal);
        };
        let (sender, events) = mpsc::channel(AHEAD);
        let stream = Stream { file: run.file, secrets: self.pages.secrets.clone(), sender, _permit: permit };
        tokio::task::spawn_blocking(move || stream.run());
        Answer {
            status: StatusCode::OK,
            media_type: "text/event-stream; charset=utf-8".to_owned(),
            headers: Vec::new(),
            content: Content::Stream(events),
        }
    }
}

/// A client that watches a run. It has a thread, which ends soon after the client has gone.
struct Stream {
    file: RunFile,
    secrets: Secrets,
    sender: mpsc::Sender<Vec<u8>>,
    _permit: OwnedSemaphorePermit,
}

/// The client is gone.
struct Gone;

impl Stream {
    fn run(self) {
        let outcome = match Watch::of(&self.file) {
            Ok(mut watch) => self.follow(&mut watch),
            Err(error) => self.problem(&error.to_string()),
        };
        // Nobody is left to hear of an error.
        drop(outcome);
    }

    fn follow(&self, watch: &mut Watch) -> std::result::Result<(), Gone> {
        let mut last = Instant::now();
        loop {
            // Asked before the journal is read: a run that ends in between is then complete.
            let is_alive = self.file.is_alive();
            if let Err(error) = watch.read() {
                return self.problem(error.message());
            }
            while let Some(changes) = watch.changes() {
                self.send("state", changes)?;
                last = Instant::now();
            }
            let code = watch.end().map(|end| end.code);
            if code.is_some() || !is_alive {
                let result = report::result_of(code, is_alive);
                return self.send("end", json!({"result": result, "code": code}));
            }
            if last.elapsed() >= QUIET {
                self.write(b": the run lasts\n\n".to_vec())?;
                last = Instant::now();
            }
            std::thread::sleep(LOOK);
            if self.sender.is_closed() {
                return Err(Gone);
            }
        }
    }

    fn problem(&self, sentence: &str) -> std::result::Result<(), Gone> {
        self.send("problem", json!({"sentence": sentence}))
    }

    /// Sends an event. JSON has no line breaks, so no value can begin another event.
    fn send(&self, kind: &str, mut value: Json) -> std::result::Result<(), Gone> {
        make_harmless(&mut value, &self.secrets);
        self.write(format!("event: {kind}\ndata: {value}\n\n").into_bytes())
    }

    fn write(&self, bytes: Vec<u8>) -> std::result::Result<(), Gone> {
        self.sender.blocking_send(bytes).map_err(|_| Gone)
    }
}
