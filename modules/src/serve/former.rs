//! Executors that this run has lost on this host: all that they still run ends before anything else begins.
//!
//! A connection may break without the executor noticing, and a stopped task takes some seconds to end. The controller
//! names each lost executor by its random word, which is the last argument of that process, of its executors of other
//! users, and of their guards. Processes of other users may carry the word without right, also as arguments of programs
//! that change the user, such as `su`. So they delay requests, and only processes that this user has started and still
//! has prevent them.

use std::{
    collections::VecDeque,
    fs,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use windlass_guard::Process;
use windlass_protocol::{Event, Request};

use super::session::{Route, Session};
use crate::lock::lock;
use crate::run::failed;

/// Time for a lost executor to stop what it runs, before it is killed and its guard does so.
const IN_ORDER: Duration = Duration::from_secs(6);
/// Longest wait. The guards of suspended executors of other users need most of it.
const LONGEST: Duration = Duration::from_secs(25);
/// Interval between looks whether they have ended.
const PAUSE: Duration = Duration::from_millis(100);
/// Length of a word, in hex digits.
const WORD: usize = 32;

/// Requests that wait for the end of lost executors.
#[derive(Default)]
pub(super) struct Former(Mutex<State>);

#[derive(Default)]
enum State {
    /// Nothing is left.
    #[default]
    Gone,
    /// Something may be left; with the requests that wait, in order of arrival.
    Ends(VecDeque<(Request<Value>, Vec<u8>)>),
    /// Something with these words does not end; with what to say of it.
    Stays(Vec<String>, String),
}

impl Former {
    /// Ends lost executors with these words, which come once, ahead of all requests.
    pub(super) fn end(&self, session: &Arc<Session>, words: &[String]) {
        let is_word = |word: &&String| word.len() == WORD && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let words: Vec<String> = words.iter().filter(is_word).cloned().collect();
        if words.is_empty() {
            return;
        }
        let mut state = lock(&self.0);
        *state = State::Ends(VecDeque::new());
        let (waiting, own) = (Arc::clone(session), words.clone());
        if let Err(error) = thread::Builder::new().name("former".into()).spawn(move || wait(&waiting, &own)) {
            let message = format!("Nothing was run: the executor could not start a thread: {error}.");
            *state = State::Stays(words, message);
        }
    }

    /// Returns the request if nothing is left. Otherwise it was refused, or waits.
    pub(super) fn admit(
        &self,
        session: &Session,
        request: Request<Value>,
        blob: Vec<u8>,
    ) -> Option<(Request<Value>, Vec<u8>)> {
        let mut state = lock(&self.0);
        match &mut *state {
            State::Gone => return Some((request, blob)),
            State::Ends(queue) => {
                session.enter(request.id, Route::Locked);
                queue.push_back((request, blob));
            }
            // Somebody may have ended it, as the message advises.
            State::Stays(words, _) if Left::of(words).own == 0 => {
                *state = State::Gone;
                return Some((request, blob));
            }
            State::Stays(_, message) => {
                session.enter(request.id, Route::Locked);
                refuse(session, request.id, message);
            }
        }
        None
    }

    /// Removes a waiting request; false if it waits no longer.
    pub(super) fn cancel(&self, session: &Session, id: u64) -> bool {
        let State::Ends(queue) = &mut *lock(&self.0) else { return false };
        let place = queue.iter().position(|(request, _)| request.id == id);
        let Some((request, _)) = place.and_then(|place| queue.remove(place)) else { return false };
        session.done(id, failed(format!("The {} action was cancelled.", request.module)), &[]);
        true
    }

    /// Drops waiting requests, at the end of the session.
    pub(super) fn close(&self) {
        if let State::Ends(queue) = &mut *lock(&self.0) {
            queue.clear();
        }
    }
}

/// Waits until nothing is left, then passes the waiting requests on.
fn wait(session: &Arc<Session>, words: &[String]) {
    let (began, mut is_known) = (Instant::now(), false);
    let refusal = loop {
        let left = Left::of(words);
        let waited = began.elapsed();
        if left.own == 0 && left.others == 0 {
            break None;
        }
        if waited >= LONGEST {
            break Some(left);
        }
        if waited >= IN_ORDER {
            left.executors.iter().for_each(|executor| executor.kill());
        }
        if !is_known
            && let State::Ends(queue) = &*lock(&session.former.0)
            && let Some((request, _)) = queue.front()
        {
            is_known = true;
            let message = "The task waits for the end of what a lost connection left running on this host.".to_owned();
            session.event(request.id, Event::Warning { message }, &[]);
        }
        thread::sleep(PAUSE);
    };
    // The state stays locked, so that new requests do not overtake waiting ones.
    let mut state = lock(&session.former.0);
    let State::Ends(queue) = std::mem::take(&mut *state) else { return };
    let seconds = LONGEST.as_secs();
    match refusal {
        Some(Left { own: 1.., process, .. }) => {
            let message = format!(
                "Nothing was run: process {process}, which a lost connection left on this host, has not ended within \
                 {seconds} s. Look at it there, and end it."
            );
            queue.iter().for_each(|(request, _)| refuse(session, request.id, &message));
            *state = State::Stays(words.to_vec(), message);
        }
        others => {
            if let (Some(Left { process, .. }), Some((request, _))) = (others, queue.front()) {
                let message = format!(
                    "Process {process} of another user, which a lost connection left on this host, has not ended \
                     within {seconds} s. The task runs beside it."
                );
                session.event(request.id, Event::Warning { message }, &[]);
            }
            queue.into_iter().for_each(|(request, blob)| session.admit(request, blob));
        }
    }
}

fn refuse(session: &Session, id: u64, message: &str) {
    session.event(id, Event::Refused { message: message.to_owned() }, &[]);
    session.done(id, failed(message), &[]);
}

/// Processes that lost executors have left.
#[derive(Default)]
struct Left {
    /// Number of processes that this user has started and still has.
    own: usize,
    /// Number of processes of other users.
    others: usize,
    /// Executors of this user.
    executors: Vec<Process>,
    /// Id of one of them; of this user, if there is one.
    process: i32,
}

impl Left {
    /// Finds the processes that have one of these words among their arguments.
    fn of(words: &[String]) -> Left {
        let (own, verb) = (rustix::process::geteuid().as_raw(), std::env::args().nth(1).unwrap_or_default());
        let mut left = Left::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // Before its arguments are read, so that a signal never reaches another process.
            let Some(process) = Process::of(id) else { continue };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            if !words.iter().any(|word| line.contains(word.as_str())) {
                continue;
            }
            if !belongs_to(own, &fs::read_to_string(entry.path().join("status")).unwrap_or_default()) {
                left.others += 1;
                left.process = if left.own == 0 { id } else { left.process };
                continue;
            }
            (left.own, left.process) = (left.own + 1, id);
            let mut arguments = line.trim_end_matches('\0').split('\0');
            let is_executor = arguments.nth(1) == Some(verb.as_str());
            let is_last = arguments.next_back().is_some_and(|last| words.iter().any(|word| word == last));
            if is_executor && is_last {
                left.executors.push(process);
            }
        }
        left
    }
}

/// Whether the real and the effective user of a process are this one, by its `status` (proc_pid_status(5)). Anybody can
/// start a setuid program, whose real user remains theirs.
fn belongs_to(user: u32, status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut ids = line.split_ascii_whitespace().map(str::parse);
    (ids.next(), ids.next()) == (Some(Ok(user)), Some(Ok(user)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setuid_program_of_another_user_is_not_our_own_process() {
        let status = |ids: &str| format!("Name:\tx\nUid:\t{ids}\t0\t0\nGid:\t0\t0\t0\t0\n");
        assert!(belongs_to(0, &status("0\t0")));
        assert!(!belongs_to(0, &status("1000\t0")));
        assert!(!belongs_to(0, "Name:\tUid\n"));
    }
}
