//! Follows a run from the client: prints its output and stores its journal.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::Client;
use super::cluster::{CONFIG_MAP, JOB, Namespace, POD};
use super::segment::{Segment, TOTAL};
use super::{LOOK, RUN, name_of};
use crate::error::{Error, Result};
use crate::journal::State;

/// Number of looks without news after which the pod itself is examined.
const LOOKS: u32 = 5;
/// Time without output, a running pod, or an answer of the API server, after which the client gives up.
const SILENCE: Duration = Duration::from_secs(600);

/// Receiver of the output of a run.
pub(crate) trait Followed {
    /// Prints a line of the output, which lacks its line end.
    fn line(&mut self, text: &str);
    /// Warns of a problem that does not end the wait.
    fn warn(&mut self, sentence: &str);
}

/// A run that is followed.
pub(crate) struct Follow<'a, F> {
    client: &'a Client,
    run: &'a str,
    state: &'a State,
    to: F,
    /// Number of the next segment.
    number: u32,
    output: Lines,
    journals: Journals,
    is_deleted: bool,
    /// Last sign of life.
    heard: Instant,
}

impl<'a, F: Followed> Follow<'a, F> {
    /// Begins with the first segment. Journals go to `state`, the output to `to`.
    pub(crate) fn new(client: &'a Client, run: &'a str, state: &'a State, to: F) -> Follow<'a, F> {
        let (output, journals) = (Lines::default(), Journals::default());
        Follow { client, run, state, to, number: 1, output, journals, is_deleted: false, heard: Instant::now() }
    }

    /// Follows the run to its end, and returns its exit code. May be called again after it was dropped.
    ///
    /// # Errors
    ///
    /// If the run was deleted, the cluster has given up on it, it shows no sign of life for ten minutes, its key cannot
    /// be read, or a journal cannot be stored. An API server that does not answer immediately, and a segment that the
    /// run has not written, are only reported.
    pub(crate) async fn until_end(&mut self) -> Result<u8> {
        let namespace = &self.client.namespace;
        let (client, run) = (self.client.clone(), self.run.to_owned());
        let seal = namespace.request(move |_| client.seal(&run)).await?;
        let mut looks = 0;
        self.heard = Instant::now();
        loop {
            if self.heard.elapsed() > SILENCE {
                return Err(self.silent());
            }
            let name = Segment::name(self.run, self.number);
            match namespace.request(move |namespace| namespace.get(CONFIG_MAP, &name)).await {
                Ok(Some(object)) => {
                    match Segment::of(&object, self.run, self.number, &seal) {
                        Some(segment) => {
                            self.take(&segment)?;
                            if let Some(code) = segment.end {
                                self.output.end(&mut self.to);
                                return Ok(code);
                            }
                        }
                        None => {
                            let name = Segment::name(self.run, self.number);
                            self.to.warn(&format!("the run has not written the ConfigMap {name}; it is skipped"));
                        }
                    }
                    self.number += 1;
                    looks = 0;
                    self.heard = Instant::now();
                    continue;
                }
                Ok(None) => {}
                Err(error) => self.to.warn(&format!("the run goes on, but cannot be seen: {}", error.message())),
            }
            let (client, run, key) = (self.client.clone(), self.run.to_owned(), seal.clone());
            if let Ok(Some((code, segments))) = namespace.request(move |_| client.exit_code(&run, &key)).await
                && segments < self.number
            {
                self.output.end(&mut self.to);
                return Ok(code);
            }
            looks += 1;
            if looks % LOOKS == 0 {
                self.examine().await?;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Prints the output of a segment, and stores its piece of a journal.
    fn take(&mut self, segment: &Segment) -> Result<()> {
        self.output.take(&segment.output, &mut self.to);
        match &segment.journal {
            Some((file, bytes)) => self.journals.add(self.state, file, bytes),
            None => Ok(()),
        }
    }

    /// Asks the pod to stop the run. Deletes a run that no pod has begun.
    pub(crate) async fn cancel(&mut self) -> Result<()> {
        let (client, run, labels) = (self.client.clone(), self.run.to_owned(), [format!("{RUN}={}", self.run)]);
        let has_output = self.number > 1;
        let cancelled = self.client.namespace.request(move |namespace| {
            let has_begun = |pod: &Value| pod["status"]["phase"] != "Pending";
            if has_output || namespace.list(POD, &labels)?.iter().any(has_begun) {
                return client.cancel(&run).map(|()| false);
            }
            client.delete(&run).map(|()| true)
        });
        self.is_deleted = cancelled.await?;
        Ok(())
    }

    /// Whether the run was deleted before a pod had begun it.
    pub(crate) fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// Reports why a run does not go on, if the cluster knows it.
    async fn examine(&mut self) -> Result<()> {
        let (name, labels) = (name_of(self.run), [format!("{RUN}={}", self.run)]);
        let both = move |namespace: &Namespace| Ok((namespace.get(JOB, &name)?, namespace.list(POD, &labels)?));
        let Ok((job, pods)) = self.client.namespace.request(both).await else { return Ok(()) };
        let Some(job) = job else {
            return Err(Error::new(format!("the run {} was deleted", self.run)));
        };
        if let Some(reason) = given_up(&job) {
            return Err(Error::new(format!("the cluster has given up the run {}: {reason}", self.run)));
        }
        if pods.iter().any(|pod| pod["status"]["phase"] == "Running") {
            // A pod that loses its lease ends by itself.
            self.heard = Instant::now();
        }
        pods.iter().filter_map(reason).for_each(|reason| self.to.warn(&reason));
        Ok(())
    }

    fn silent(&self) -> Error {
        let (run, seconds) = (self.run, SILENCE.as_secs());
        Error::new(format!(
            "the run {run} has shown no sign of life for {seconds} s, and may go on: `windlass engine attach {run}` follows it again"
        ))
    }
}

/// Reason for which the Job controller starts no further pod.
pub(super) fn given_up(job: &Value) -> Option<String> {
    let conditions = job["status"]["conditions"].as_array()?;
    let failed = conditions.iter().find(|one| one["type"] == "Failed" && one["status"] == "True")?;
    Some(failed["message"].as_str().unwrap_or("its pods failed").to_owned())
}

/// Reason for which a pod does not run.
fn reason(pod: &Value) -> Option<String> {
    let name = pod["metadata"]["name"].as_str()?;
    let status = &pod["status"];
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    let mut unscheduled = status["conditions"].as_array().into_iter().flatten();
    let unscheduled = unscheduled.find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
    let found = match (waiting["reason"].as_str(), unscheduled) {
        (Some("ContainerCreating" | "PodInitializing"), _) => return None,
        (Some(reason), _) => (reason, waiting["message"].as_str()),
        (None, Some(condition)) => (condition["reason"].as_str()?, condition["message"].as_str()),
        (None, None) => return None,
    };
    let message = found.1.map(|message| format!(": {message}")).unwrap_or_default();
    Some(format!("the pod {name} waits ({}){message}", found.0))
}

/// Output in lines.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], to: &mut impl Followed) {
        self.rest.extend_from_slice(bytes);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let after = self.rest.split_off(end);
        let complete = std::mem::replace(&mut self.rest, after);
        for line in complete.split_inclusive(|byte| *byte == b'\n') {
            to.line(&String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line)));
        }
    }

    fn end(&mut self, to: &mut impl Followed) {
        if !self.rest.is_empty() {
            to.line(&String::from_utf8_lossy(&std::mem::take(&mut self.rest)));
        }
    }
}

/// Journals as far as they have arrived, by file name.
#[derive(Default)]
struct Journals(BTreeMap<String, u64>);

impl Journals {
    fn add(&mut self, state: &State, file: &str, bytes: &[u8]) -> Result<()> {
        let fail = |error: std::io::Error| Error::new(format!("the journal of the run cannot be stored: {error}"));
        let total: u64 = self.0.values().sum();
        if total + bytes.len() as u64 > TOTAL {
            return Err(Error::new("the journal of the run is larger than runs may store"));
        }
        let path = state.fetched_file(file)?;
        let is_new = !self.0.contains_key(file);
        *self.0.entry(file.to_owned()).or_default() += bytes.len() as u64;
        append(&path, bytes, is_new).map_err(fail)
    }
}

/// Appends to a file that only its owner may read. A new one replaces what an earlier client has stored.
fn append(path: &Path, bytes: &[u8], is_new: bool) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.create(true).mode(0o600);
    let options = if is_new { options.write(true).truncate(true) } else { options.append(true) };
    options.open(path)?.write_all(bytes)
}
