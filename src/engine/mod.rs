//! Runs in a Kubernetes cluster ([docs/how-to/engine.md](../../docs/how-to/engine.md)).
//!
//! The client sends a copy of the project and creates a Job. Its pod runs the same command line and stores the output
//! and the journal as numbered ConfigMaps, the segments. The client prints them; it may leave and come back. If the pod
//! is lost, the next one resumes the run from the stored journal. A Lease lets only one pod of a run work at a time.
//! With `--shards`, this pod leads, and further pods are its workers (`src/shards`).
//!
//! Everything read from the cluster is data: bounded in size, printed with control characters escaped, and stored apart
//! from the journals of this machine, where it can be shown but decides nothing. What a run has not sealed with its key
//! is not its own, and is skipped.

mod client;
mod cluster;
mod follow;
mod lease;
mod objects;
mod pod;
mod project;
mod seal;
mod segment;
mod worker;
mod workers;

use std::time::Duration;

pub(crate) use client::{Client, Request};
pub(crate) use follow::{Follow, Followed};
pub(crate) use pod::{Place, run as run_in_pod};
pub(crate) use project::{Input, KNOWN_HOSTS, PLACE};
pub(crate) use worker::{Place as WorkerPlace, run as run_worker};

/// Label of every object of a run, with the id of the run as its value.
const RUN: &str = "windlass.dev/run";
/// Label and value of every object that Windlass makes.
const MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "windlass");
/// Label of the pods of a run: `lead` or `worker`.
const PART: &str = "windlass.dev/part";
/// Annotation of a Job: its command line, without secrets.
const COMMAND: &str = "windlass.dev/command";
/// Annotation of a Job: the SHA-256 of the packed project.
const PROJECT: &str = "windlass.dev/project-sha256";
/// Annotation of a segment: the file name of the journal that it continues.
const JOURNAL: &str = "windlass.dev/journal";
/// Annotation with the exit code, on the last segment of a run.
const END: &str = "windlass.dev/end";

/// Annotation of each object that a run stores: its authentication code, which requires the run's key.
const SEAL: &str = "windlass.dev/seal";

/// Folders of the pod: of the mounted project and its secrets, and of everything that the run writes.
const INPUT: &str = "/input";
const WORK: &str = "/work";
/// Folder of the mounted keys of a worker.
const KEYS: &str = "/keys";
/// Port at which the lead awaits its workers.
const PORT: u16 = 7433;

/// Interval at which the client looks for news, and the pod for output.
const LOOK: Duration = Duration::from_secs(1);
/// Interval at which the pod renews its lease.
const RENEW: Duration = Duration::from_secs(5);
/// Time without a renewal after which the pod stops its run.
const GIVE_UP: Duration = Duration::from_secs(15);
/// Time without a renewal after which another pod takes the run over.
const EXPIRE: Duration = Duration::from_secs(30);
/// Time that a stopped run has to end before it is killed. With [`GIVE_UP`], it ends before [`EXPIRE`].
const STOP: Duration = Duration::from_secs(10);
/// Time for one request to the API server.
const REQUEST: Duration = Duration::from_secs(10);

/// Name of the input that holds the command line: a list of words as JSON.
const COMMAND_LINE: &str = "command";
/// Name of the input that contains the key of the run's authentication codes.
const SEAL_KEY: &str = "seal";

/// Name of the objects of a run.
fn name_of(run: &str) -> String {
    format!("windlass-{run}")
}
