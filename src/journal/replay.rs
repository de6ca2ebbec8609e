//! Restores outcomes of an earlier run instead of repeating its tasks.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::object::ObjectText;
use super::reader::Journal;
use super::record::{At, Done, ItemDone, Record, Withheld};

/// Actions that must not be repeated merely to obtain their results.
const UNREPEATABLE: &[&str] =
    &["command", "shell", "raw", "script", "expect", "ansible.windows.win_command", "ansible.windows.win_shell"];

/// Outcomes of a run, by position and host.
///
/// The tasks of a host form a sequence. The first task without a successful outcome ends the replay of its host. All
/// later tasks run, even if the earlier run did them in `always` after the failure.
#[derive(Debug, Default)]
pub struct Replay {
    /// Each with its place among the records.
    done: HashMap<(At, String), (usize, Done)>,
    /// Tasks that one host ran for all.
    once: HashMap<At, (usize, Done)>,
    /// Places of the last notifications among the records, by host and handler; also of those that are doubtful.
    notified: HashMap<(String, String), usize>,
    items: HashMap<(At, String), BTreeMap<u32, ItemDone>>,
    /// Tasks that were sent after their last outcome, if they have one.
    sent: HashMap<(At, String), Sending>,
    orders: HashMap<u32, Vec<String>>,
    /// Whether a run of several processes ended in order.
    several: Option<bool>,
    state: Mutex<State>,
}

/// A task that was sent and whose outcome is missing.
#[derive(Debug, Clone, Copy)]
struct Sending {
    /// Whether a run of one process sent it, whose results hosts do not keep.
    alone: bool,
    /// A time before that.
    since: SystemTime,
}

#[derive(Debug, Default)]
struct State {
    /// Task at which a host's replay ended.
    left: HashMap<String, At>,
    /// Place of the last outcome that a host's replay has passed, among the records.
    reached: HashMap<String, usize>,
    replayed: usize,
}

/// Decision about a task on a host.
#[derive(Debug)]
pub enum Step {
    /// Restore it: its outcome, the outcomes of its items, and its place among the records. Only results that later
    /// tasks may read are there.
    Done(Box<Done>, Vec<ItemDone>, usize),
    /// Repeat it, because the journal lacks its result.
    Again(Withheld),
    /// The host's replay has ended; true if the task was sent before, with an unknown outcome.
    Run(bool),
}

/// Knowledge of the resumed run, which had several processes, about a task that it sent to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentBefore {
    /// It had the result, or a run of one process sent the task. The user knows that it runs again.
    Known,
    /// It sent the task, after `since`. `repeats` if its user knows that the result is missing.
    Unknown { since: SystemTime, repeats: bool },
}

/// Decision about a task, as the strategy needs it.
pub(crate) enum Restored {
    /// Use this outcome, from this place among the records.
    Done(Box<Done>, Vec<ItemDone>, usize),
    /// Run the task.
    Run,
}

impl Replay {
    /// Collects the outcomes of a journal; the last one for each position counts.
    pub fn new(journal: &Journal) -> Replay {
        let several = (journal.header.leads > 0).then_some(journal.end.is_some());
        let mut replay = Replay { several, ..Replay::default() };
        // Tasks without an outcome may have notified their handlers.
        let mut doubtful: HashMap<(At, String), Vec<(usize, &String)>> = HashMap::new();
        for (place, record) in journal.records.iter().enumerate() {
            match record {
                Record::Done(done) => {
                    if done.once {
                        replay.once.insert(done.at.clone(), (place, Done::clone(done)));
                    }
                    for handler in &done.notify {
                        replay.notified.insert((done.host.clone(), handler.clone()), place);
                    }
                    let key = (done.at.clone(), done.host.clone());
                    replay.sent.remove(&key);
                    doubtful.remove(&key);
                    replay.done.insert(key, (place, Done::clone(done)));
                }
                Record::Item(item) => {
                    let items = replay.items.entry((item.at.clone(), item.host.clone())).or_default();
                    items.insert(item.index, ItemDone::clone(item));
                }
                Record::Sent(sent) => {
                    let notified = sent.notify.iter().map(|handler| (place, handler));
                    doubtful.entry((sent.at.clone(), sent.host.clone())).or_default().extend(notified);
                    let since = SystemTime::UNIX_EPOCH + Duration::from_millis(sent.since.unwrap_or_default());
                    let sending = replay.sent.entry((sent.at.clone(), sent.host.clone()));
                    // The first attempt may have reached the host, and not the last one.
                    sending.or_insert(Sending { alone: sent.alone, since }).alone = sent.alone;
                }
                Record::Play(play) if !play.order.is_empty() => _ = replay.orders.insert(play.play, play.order.clone()),
                Record::Play(_) | Record::Run(_) | Record::File(_) | Record::Alive(_) | Record::End(_) => {}
            }
        }
        for ((_, host), notified) in doubtful {
            for (place, handler) in notified {
                let last = replay.notified.entry((host.clone(), handler.clone())).or_default();
                *last = place.max(*last);
            }
        }
        replay
    }

    /// Decides about a task on a host. `once` means that one host runs it for all. A handler of which only outcomes of
    /// the earlier run have notified the host has the place of the last of them: that run may have run it behind the
    /// task that failed.
    pub fn step(&self, at: &At, host: &str, once: bool, notified: Option<usize>) -> Step {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (at.clone(), host.to_owned());
        let found = self.done.get(&key).or_else(|| self.once.get(at).filter(|_| once));
        let found = found.filter(|(_, done)| is_final(done));
        let has_left = state.left.contains_key(host);
        let is_behind = |(place, done): &&(usize, Done)| {
            notified.is_some_and(|notified| *place > notified) && (!done.status.failed || done.status.ignored)
        };
        let Some((place, done)) = found.filter(|found| !has_left || is_behind(found)) else {
            let unknown = !has_left && self.sent.contains_key(&key);
            state.left.entry(host.to_owned()).or_insert_with(|| at.clone());
            return Step::Run(unknown);
        };
        if !has_left {
            state.reached.insert(host.to_owned(), *place);
        }
        let items = match self.items_of(done) {
            Ok(items) => items,
            Err(reason) => return Step::Again(reason),
        };
        if let Some(reason) = done.withheld
            && (done.kept || reason == Withheld::Again)
        {
            return Step::Again(reason);
        }
        state.replayed += 1;
        let mut done = Box::new(done.clone());
        if !done.kept {
            done.result = ObjectText::default();
        }
        Step::Done(done, items, *place)
    }

    /// Whether a resumed run sent a task, and had its result, if one of them had several processes.
    pub(crate) fn sent_before(&self, at: &At, host: &str) -> Option<SentBefore> {
        let has_ended = self.several?;
        let key = (at.clone(), host.to_owned());
        match (self.sent.get(&key), self.done.get(&key)) {
            (Some(Sending { alone: true, .. }), _) => Some(SentBefore::Known),
            (Some(Sending { since, .. }), _) => Some(SentBefore::Unknown { since: *since, repeats: has_ended }),
            (None, Some((_, done))) if !done.status.unreachable => Some(SentBefore::Known),
            (None, Some(_)) => Some(SentBefore::Unknown { since: SystemTime::UNIX_EPOCH, repeats: true }),
            (None, None) => None,
        }
    }

    /// Whether the outcome of a task that a resumed run of several processes sent is unknown.
    pub(crate) fn is_unknown(&self, at: &At, host: &str) -> bool {
        matches!(self.sent_before(at, host), Some(SentBefore::Unknown { repeats: false, .. }))
    }

    /// Items of a completed loop, with results that a later task may read; or the reason why they cannot be restored.
    fn items_of(&self, done: &Done) -> Result<Vec<ItemDone>, Withheld> {
        let Some(count) = done.items.filter(|count| *count > 0) else { return Ok(Vec::new()) };
        let known = self.items.get(&(done.at.clone(), done.host.clone()));
        let mut items = Vec::new();
        for index in 0..count {
            // A loop with missing items is repeated.
            let item = known.and_then(|items| items.get(&index)).ok_or(Withheld::Size)?;
            if let Some(reason) = item.withheld
                && (done.kept || reason == Withheld::Again)
            {
                return Err(reason);
            }
            let mut item = item.clone();
            if !done.kept {
                item.result = ObjectText::default();
            }
            items.push(item);
        }
        Ok(items)
    }

    /// Outcome of a task on a host, or on the one that ran it for all.
    pub(super) fn outcome(&self, at: &At, host: &str) -> Option<&Done> {
        self.done.get(&(at.clone(), host.to_owned())).or_else(|| self.once.get(at)).map(|(_, done)| done)
    }

    /// Successful outcome of an item in the loop where the host's replay ended.
    pub fn item(&self, at: &At, host: &str, index: u32) -> Option<&ItemDone> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.left.get(host) != Some(at) {
            return None;
        }
        let item = self.items.get(&(at.clone(), host.to_owned()))?.get(&index)?;
        let is_good = !item.status.failed && !item.status.unreachable && item.withheld.is_none();
        is_good.then_some(item)
    }

    /// Restored items of the loop in which the host's replay ended: their number from the first item to the first gap,
    /// and their number in all.
    pub fn items_done(&self, at: &At, host: &str) -> (usize, usize) {
        let recorded = self.items.get(&(at.clone(), host.to_owned()));
        let good: Vec<u32> = recorded
            .into_iter()
            .flat_map(BTreeMap::keys)
            .copied()
            .filter(|index| self.item(at, host, *index).is_some())
            .collect();
        let first = (0..).zip(&good).take_while(|(place, index)| place == *index).count();
        (first, good.len())
    }

    /// Whether the replay of a host continues.
    pub fn is_replaying(&self, host: &str) -> bool {
        !self.state.lock().unwrap_or_else(PoisonError::into_inner).left.contains_key(host)
    }

    /// Place of the last notification of a handler among the records.
    pub fn notified(&self, host: &str, handler: &str) -> Option<usize> {
        self.notified.get(&(host.to_owned(), handler.to_owned())).copied()
    }

    /// Whether the run notified a handler again after the last outcome that its replay has passed.
    pub fn is_notified_later(&self, host: &str, handler: &str) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.left.contains_key(host) {
            return false;
        }
        let last = self.notified.get(&(host.to_owned(), handler.to_owned()));
        last.is_some_and(|last| state.reached.get(host).is_none_or(|reached| last > reached))
    }

    /// Order of a play's hosts, if it was random.
    pub fn order(&self, play: u32) -> Option<&[String]> {
        self.orders.get(&play).map(Vec::as_slice)
    }

    /// Number of outcomes restored since the last call.
    pub fn take_count(&self) -> usize {
        std::mem::take(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).replayed)
    }

    /// Tasks that cannot be restored although later tasks need their results, and that are not safe to repeat.
    pub fn unrepeatable(&self) -> Vec<String> {
        let mut found = Vec::new();
        let all = self.done.values().map(|(_, done)| done);
        for done in all.filter(|done| is_final(done) && UNREPEATABLE.contains(&done.action.as_str())) {
            let withheld = done.withheld.filter(|_| done.kept).or_else(|| self.items_of(done).err());
            if let Some(reason) = withheld.filter(|reason| *reason != Withheld::Again) {
                found.push(sentence(&done.at, &done.host, reason));
            }
        }
        for ((at, host), items) in &self.items {
            let is_open = !self.done.get(&(at.clone(), host.clone())).is_some_and(|(_, done)| is_final(done));
            let withheld = items.values().filter(|item| !item.status.failed && !item.status.skipped);
            let withheld = withheld.filter(|item| UNREPEATABLE.contains(&item.action.as_str()));
            if let Some(reason) = withheld.filter_map(|item| item.withheld).next().filter(|_| is_open) {
                found.push(sentence(at, host, reason));
            }
        }
        found.sort();
        found.dedup();
        found
    }
}

fn sentence(at: &At, host: &str, reason: Withheld) -> String {
    format!("{} on {host} would have to run a second time: {}", at.task, reason.reason())
}

/// Whether a run can continue from an outcome.
fn is_final(done: &Done) -> bool {
    let status = done.status;
    (!status.unreachable || status.ignored) && (!status.failed || status.ignored || done.rescuable)
}

#[cfg(test)]
mod tests {
    use super::super::record::{Header, Sent, Status};
    use super::*;

    fn at(path: &str) -> At {
        At { path: path.into(), ..At::default() }
    }

    fn done(path: &str, host: &str) -> Done {
        Done { at: at(path), host: host.to_owned(), action: "command".to_owned(), ..Done::default() }
    }

    fn replay(done: Vec<Done>) -> Replay {
        let records = done.into_iter().map(|done| Record::Done(Box::new(done))).collect();
        Replay::new(&Journal { header: Header::default(), records, end: None, alive: None })
    }

    #[test]
    fn first_task_without_outcome_ends_replay_of_host() {
        let replay = replay(vec![done("0.0", "a"), done("0.2", "a"), done("0.1", "b")]);
        assert!(matches!(replay.step(&at("0.0"), "a", false, None), Step::Done(..)));
        assert!(matches!(replay.step(&at("0.1"), "a", false, None), Step::Run(false)));
        assert!(
            matches!(replay.step(&at("0.2"), "a", false, None), Step::Run(false)),
            "what ran after the failure is run again"
        );
        assert!(matches!(replay.step(&at("0.1"), "b", false, None), Step::Done(..)));
        assert_eq!(replay.take_count(), 2);
    }

    #[test]
    fn failure_restored_only_if_run_continued() {
        let failed = |path: &str| Done { status: Status { failed: true, ..Status::default() }, ..done(path, path) };
        let ignored = Done { status: Status { failed: true, ignored: true, ..Status::default() }, ..done("1", "1") };
        let replay = replay(vec![failed("0"), ignored, Done { rescuable: true, ..failed("2") }]);
        assert!(matches!(replay.step(&at("0"), "0", false, None), Step::Run(_)));
        assert!(matches!(replay.step(&at("1"), "1", false, None), Step::Done(..)));
        assert!(matches!(replay.step(&at("2"), "2", false, None), Step::Done(..)));
    }

    #[test]
    fn task_run_once_not_repeated_by_other_host() {
        let replay = replay(vec![Done { once: true, ..done("0", "b") }]);
        assert!(matches!(replay.step(&at("0"), "a", true, None), Step::Done(..)));
    }

    #[test]
    fn last_attempt_decides_whether_a_task_was_sent() {
        let failed = Done { status: Status { failed: true, ..Status::default() }, ..done("0", "a") };
        let failed = || Record::Done(Box::new(failed.clone()));
        let sent = |alone| Record::Sent(Sent { at: at("0"), host: "a".to_owned(), alone, ..Sent::default() });
        let journal =
            |records| Journal { header: Header { leads: 1, ..Header::default() }, records, end: None, alive: None };
        let before = |records| Replay::new(&journal(records)).sent_before(&at("0"), "a");
        assert_eq!(before(vec![sent(false), failed()]), Some(SentBefore::Known));
        let again = vec![sent(false), failed(), sent(false)];
        assert!(matches!(before(again.clone()), Some(SentBefore::Unknown { repeats: false, .. })));
        assert!(matches!(Replay::new(&journal(again)).step(&at("0"), "a", false, None), Step::Run(true)));
        assert_eq!(before(vec![sent(false), sent(true)]), Some(SentBefore::Known), "by a run of one process");
        assert_eq!(before(Vec::new()), None);
    }

    #[test]
    fn masked_result_never_restored_and_command_not_repeated() {
        let masked = Done { withheld: Some(Withheld::Masked), kept: true, ..done("0", "a") };
        let unneeded = Done { withheld: Some(Withheld::NoLog), ..done("1", "a") };
        let replay = replay(vec![masked, unneeded]);
        assert_eq!(replay.unrepeatable().len(), 1);
        assert!(matches!(replay.step(&at("0"), "a", false, None), Step::Again(Withheld::Masked)));
        assert!(matches!(replay.step(&at("1"), "a", false, None), Step::Done(..)));
    }
}
