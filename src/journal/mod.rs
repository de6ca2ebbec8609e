//! The journal of a run: tasks sent to each host, their results, notifications, and handlers that ran.
//!
//! One file a run, `runs/ID.PROJECT.jsonl` in the state directory: a line of JSON a record, appended as things happen and fsynced in
//! groups. The first record is the [`Header`] with the version of the format; every other has its kind under `t` ([`Record`]):
//!
//! | `t` | Record |
//! |---|---|
//! | `run` | version, run, user, machine, command line, playbooks, inventory sources, limit, tags, hashes of extra variables |
//! | `file` | a file of the project or the inventory that was read, with its SHA-256 |
//! | `play` | a play begins; its hosts in order where the order is random |
//! | `sent` | a task is about to be sent to a host; without a later `done` it is unknown whether it ran |
//! | `item` | one item of a loop has its result |
//! | `done` | a task on a host has its result |
//! | `end` | the run ended, and how |
//!
//! `done` is written only once the answer has arrived. Results are masked; one that held a secret, or stood under
//! `no_log`, is withheld or marked and never restored. Handlers that were notified are kept in a ledger of their own (`handlers/`), which
//! outlives the journals. A resumed run repeats the run and takes outcomes from the journal ([`Replay`]) instead of hosts.
//!
//! The files are read as hostile data: bounded, typed, and never evaluated.

mod inputs;
mod ledger;
mod log;
mod mask;
mod reader;
mod record;
mod recorder;
mod replay;
mod resume;
mod retention;
mod state;

pub use inputs::Inputs;
pub use ledger::{Ledger, Pending};
pub use reader::{Damage, Journal, read, read_file};
pub use record::{At, Done, End, FileRead, Header, ItemDone, PlayStart, Record, Sent, Status, VERSION, Withheld};
pub(crate) use recorder::{Place, Recorder, Start};
pub(crate) use replay::Restored;
pub use replay::{Replay, Step};
pub use resume::{differences, unfinished};
pub use retention::expire;
pub use state::{RunFile, State, looks_like_run};
