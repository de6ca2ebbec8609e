//! Handlers of a run: what the ledgers learn of them, and handlers that earlier runs left.

use std::sync::{Arc, PoisonError};

use super::super::ledger::{Entry, Event, Pending, PlayKey};
use super::super::log::Lane;
use super::super::mask;
use super::{Carried, Place, Recorder, line};
use crate::output::MASK;

impl Recorder {
    /// Warning that names the handlers that no later run will know, if writing failed.
    pub(crate) fn forgotten(&self) -> Option<String> {
        self.log.failure().filter(|_| !self.check)?;
        let notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting: Vec<String> =
            notified.keys().map(|(host, _, handler)| format!("'{}' on {host}", self.secrets.mask(handler))).collect();
        waiting.sort_unstable();
        (!waiting.is_empty()).then(|| {
            format!(
                "These handlers were notified, have not run, and are not remembered, because the journal could not be \
                 written: {}",
                waiting.join(", ")
            )
        })
    }

    /// Appends to the ledger of the file that contains the play. A dry run has no ledgers.
    pub(super) fn note(&self, play: &PlayKey, event: &Event) -> u64 {
        let Some(number) = self.ledgers.get(&play.file).filter(|_| !self.check) else { return 0 };
        line(event).map_or(0, |line| self.log.append(Lane::Handlers(*number), &line))
    }

    pub(super) fn is_notified(&self, place: &Place, host: &str, handler: &str) -> bool {
        let key = (host.to_owned(), place.play.clone(), handler.to_owned());
        self.notified.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&key)
    }

    /// Remembers a notification. Returns whether it is the first of this handler on the host.
    pub(super) fn remember_notification(&self, place: &Place, host: &str, handler: &str) -> bool {
        let key = (host.to_owned(), place.play.clone(), handler.to_owned());
        let address = Arc::clone(&place.address);
        self.notified.lock().unwrap_or_else(PoisonError::into_inner).insert(key, address).is_none()
    }

    pub(super) fn entry(&self, place: &Place, host: &str, handler: &str) -> Entry {
        Entry {
            task: format!("{} ({})", place.at().task, place.at().path),
            when: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            ..self.named((host, &place.address), &place.play, handler)
        }
    }

    /// Records that a task sent behind a failed one was not run.
    pub(crate) fn not_run(&self, place: &Place, host: &str) {
        let sent = place.sent.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        sent.iter().for_each(|handler| _ = self.note(&place.play, &Event::Not(self.entry(place, host, handler))));
    }

    /// Takes over pending handlers of earlier runs.
    pub(crate) fn carry(&self, pending: &[Pending]) {
        let mut carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        for one in pending {
            // From now on they belong to this run.
            let entry =
                Entry { task: one.task.clone(), origin: one.origin.clone(), when: one.when.clone(), ..self.left(one) };
            let play = one.play_key();
            self.note(&play, &Event::Notified(entry));
            let is_former = |run: &String| self.former.as_ref().is_some_and(|former| former.run == *run);
            let replay = self.replay.as_ref().filter(|_| one.certain && is_former(&one.run) && is_former(&one.origin));
            let notified = replay.and_then(|replay| replay.notified(&one.host, &one.handler));
            let handler = Carried { handler: one.handler.clone(), notified };
            carried.entry((one.host.clone(), play)).or_default().push(handler);
        }
    }

    /// Handlers of earlier runs for a host in a play.
    pub(crate) fn carried(&self, host: &str, play: &PlayKey) -> Vec<Carried> {
        let mut carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        carried.remove(&(host.to_owned(), play.clone())).unwrap_or_default()
    }

    /// Takes back handlers that a play does not have. A later play may have the same name.
    pub(crate) fn keep(&self, host: &str, play: &PlayKey, handlers: Vec<Carried>) {
        let mut carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        carried.insert((host.to_owned(), play.clone()), handlers);
    }

    /// Warning about handlers that the run took over and that no play has run on their hosts, if there are any.
    pub(crate) fn unreached(&self) -> Option<String> {
        let carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        let left = |((host, play), left): (&(String, PlayKey), &Vec<Carried>)| {
            let names: Vec<&str> = left.iter().map(|left| left.handler.as_str()).collect();
            format!("{host}: '{}' of play '{}'", self.secrets.mask(&names.join("', '")), play.name)
        };
        let mut lines: Vec<String> = carried.iter().map(left).collect();
        lines.sort_unstable();
        (!lines.is_empty()).then(|| {
            format!(
                "These pending handlers have not run, because the run reached no play on these hosts that has them:\n  \
                 {}\nThey stay pending. If a play or handler has another name now, do what the handlers stand for, then \
                 discard them with --pending-handlers skip.",
                lines.join("\n  ")
            )
        })
    }

    /// Whether the resumed run notified a handler on a host again, after what has been restored.
    pub(crate) fn is_notified_later(&self, host: &str, handler: &str) -> bool {
        let replay = self.replay.as_ref();
        replay.is_some_and(|replay| replay.is_notified_later(host, &mask::text(handler, &self.secrets)))
    }

    /// Records that a notified handler has run on a host with this address.
    pub(crate) fn ran(&self, host: (&str, &str), play: &PlayKey, handler: &str) {
        let key = (host.0.to_owned(), play.clone(), handler.to_owned());
        if self.settled.lock().unwrap_or_else(PoisonError::into_inner).remove(&key) {
            return;
        }
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        notified.remove(&key);
        let entry = self.named(host, play, handler);
        // A handler that has the same name in the ledger still has to run.
        let is_like = |name: &String| mask::text(name, &self.secrets) == entry.handler;
        if entry.handler != handler && notified.keys().any(|(on, of, name)| on == host.0 && of == play && is_like(name))
        {
            return;
        }
        self.note(play, &Event::Ran(entry));
    }

    /// Records that a handler has run on a host, before the batch settles it.
    pub(super) fn ran_early(&self, place: &Place, host: &str, handler: &str) {
        self.ran((host, &place.address), &place.play, handler);
        let key = (host.to_owned(), place.play.clone(), handler.to_owned());
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// Discards the notifications of a handler that the play does not have: it can never run. A name with a mask may
    /// be that of another handler.
    pub(crate) fn unknown(&self, play: &PlayKey, handler: &str) {
        if mask::text(handler, &self.secrets).contains(MASK) {
            return;
        }
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        for ((host, ..), address) in notified.extract_if(|(_, of, name), _| of == play && name == handler) {
            self.note(play, &Event::Dismissed(self.named((&host, &address), play, handler)));
        }
    }

    /// Records that the user discarded these handlers.
    pub(crate) fn dismiss(&self, pending: &[Pending]) {
        for one in pending {
            self.note(&one.play_key(), &Event::Dismissed(self.left(one)));
        }
    }

    /// Entry of a handler that an earlier run left, with the address that its host had.
    pub(super) fn left(&self, one: &Pending) -> Entry {
        self.named((&one.host, &one.address), &one.play_key(), &one.handler)
    }

    pub(super) fn named(&self, (host, address): (&str, &str), play: &PlayKey, handler: &str) -> Entry {
        Entry {
            host: host.to_owned(),
            address: address.to_owned(),
            play: play.name.to_string(),
            handler: mask::text(handler, &self.secrets),
            run: self.run.run.clone(),
            ..Entry::default()
        }
    }
}
