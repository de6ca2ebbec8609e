//! The journal of a run: tasks sent to each host, their results, notifications, and handlers that ran.
//!
//! Each run has one file, `runs/ID.PROJECT.jsonl` in the state directory, with one JSON record a line. Records are
//! appended as things happen and fsynced in groups. The first record is the [`Header`] with the version of the format;
//! all others have their kind under `t` ([`Record`]):
//!
//! | `t` | Record |
//! |---|---|
//! | `run` | version, run, user, machine, command line, playbooks, inventory sources, tags, limit, variable hashes |
//! | `file` | a file of the project or inventory that was read, with its SHA-256 |
//! | `play` | start of a play; its hosts in order if the order is random |
//! | `sent` | a task is about to be sent to a host; without a later `done` it is unknown whether it ran |
//! | `item` | result of one item of a loop |
//! | `done` | result of a task on a host |
//! | `alive` | a sign of life, once a second |
//! | `end` | end of the run, with its exit code |
//!
//! `done` is written only after the answer has arrived. Results are masked. One that contains a secret, or belongs to a
//! `no_log` task, is withheld or marked and never restored. Notified handlers are kept in a separate ledger
//! (`handlers/`), which outlives the journals. A resumed run repeats the run, but takes outcomes from the journal
//! ([`Replay`]) where it can.
//!
//! The files are read as hostile data: bounded, typed, and never evaluated.

mod fingerprint;
mod follow;
mod forecast;
mod former;
mod inputs;
mod ledger;
mod limit;
mod line;
mod lines;
mod log;
mod mask;
mod object;
mod reader;
mod record;
mod recorder;
mod replay;
mod resume;
mod retention;
mod state;

pub use follow::Follower;
pub use forecast::Alike;
pub use inputs::Inputs;
pub(crate) use inputs::new_salt;
pub(crate) use inputs::shown_arguments;
pub(crate) use inputs::{former_limit_patterns, limit_patterns, list_inventory};
pub(crate) use ledger::is_same;
pub use ledger::{Ledger, Pending, PlayKey};
pub(crate) use lines::{Lines, Read};
pub(crate) use mask::Given;
pub use object::ObjectText;
pub use reader::{Damage, Journal, read, read_file, read_header};
pub(crate) use reader::{FILE, LINE, read_outline};
pub use record::{
    Alive, At, Done, End, FileRead, Header, InputKind, ItemDone, PlayStart, Record, Sent, Status, VERSION, Withheld,
};
pub(crate) use recorder::{Carried, Place, Recorder, Recording, Spot, Start, Traits};
pub use replay::{Replay, Step};
pub(crate) use replay::{Restored, SentBefore};
pub use resume::{Resumed, differences, family, is_run_of, resumed_by, unfinished};
pub(crate) use resume::{cannot_resume, has_begun, resumed_although};
pub use retention::{expire, expired};
pub(crate) use state::new_run;
pub use state::{RunFile, State, looks_like_run};
