//! Requests of a run of several processes, which run once, whichever process sends them.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use windlass_protocol::{Event, Flight, Holder, INTERRUPTED, Request};

use super::session::Session;
use crate::host_lock::flight::Entry;
use crate::process::reason;
use crate::run::{failed, interrupted};

/// Longest wait for a request of a lost process that still runs; also how long a request may outlive its connection.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 60);
/// Interval between checks whether that request has ended.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval between signs of life to the controller during the wait.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Runs a request, unless another process of the run has run it or has replaced its sender.
pub(super) fn once(
    session: &Session,
    mut request: Request<Value>,
    is_cancelled: impl Fn() -> bool,
    run: impl FnOnce(Request<Value>) -> Value,
) -> Value {
    let (Some(flight), Some(flights)) = (request.flight.take(), session.gate.flights()) else { return run(request) };
    let id = request.id;
    let began = Instant::now();
    let mut beat = None::<Instant>;
    loop {
        let entry = match flights {
            Ok(flights) => flights.enter(&flight).map_err(|error| reason(&error)),
            Err(reason) => Err(reason.clone()),
        };
        match entry {
            Ok(Entry::Runs(begun)) => {
                if beat.is_some() {
                    session.event(id, Event::LockTaken, &[]);
                }
                let result = run(request);
                // A stopped request may have changed the host, so its result is unknown. One that exceeded its time
                // limit has a result.
                let is_known = result.get(INTERRUPTED).is_none() || result.get("timedout").is_some();
                if let Ok(flights) = flights.as_ref()
                    && is_known
                {
                    flights.land(begun, &result);
                }
                return result;
            }
            Ok(Entry::Done(result)) => return result,
            Ok(Entry::Replaced) => {
                return failed("The task was not run: another process of the run has replaced the one that sent it.");
            }
            Ok(Entry::Unknown(why)) => return unknown(session, id, why),
            Ok(Entry::Busy) if is_cancelled() || session.gate.is_lost() => {
                return interrupted(format!("The {} action was cancelled.", request.module));
            }
            Ok(Entry::Busy) if began.elapsed() >= LONGEST => return unknown(session, id, "it still runs"),
            Ok(Entry::Busy) => {
                if beat.is_none_or(|beat| beat.elapsed() >= HEARTBEAT) {
                    beat = Some(Instant::now());
                    session.event(id, waiting(session, began.elapsed()), &[]);
                }
                thread::sleep(PAUSE);
            }
            Err(why) if must_know(&flight) => return unknown(session, id, &why),
            Err(why) => {
                session.event(id, Event::Warning { message: format!("The task may run twice: {why}.") }, &[]);
                return run(request);
            }
        }
    }
}

/// Whether a lost process may have sent the request, and running it twice could do harm.
fn must_know(flight: &Flight) -> bool {
    flight.former.is_some_and(|former| !former.repeats)
}

fn unknown(session: &Session, id: u64, why: &str) -> Value {
    let message =
        format!("A process of the run was lost when this task may have run, and its result is unknown: {why}.");
    session.event(id, Event::Unknown { message: message.clone() }, &[]);
    interrupted(message)
}

fn waiting(session: &Session, waited: Duration) -> Event {
    let holder = session.gate.terms().map(|terms| terms.holder).unwrap_or_default();
    let command = format!("a task that a lost process of {} has sent", holder.command);
    let left = LONGEST.saturating_sub(waited).as_secs();
    Event::LockWait { holder: Holder { command, ..holder }, waited: waited.as_secs(), left }
}
