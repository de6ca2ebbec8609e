//! Distribution of large contents: the first hosts get one from the controller, and pass it on to the others.
//!
//! Hosts gain no power over each other. A receiver compares every byte with the hash from the controller, and asks the
//! controller for all that a sender does not deliver. A sender chooses the port at which it listens, and nothing else:
//! the address is the one that the controller itself uses, or the inventory's.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::Notify;
use windlass_protocol::{Become, OFFER, Offer, Peer, Request, Secret, TICKET};

use super::call::{self, Allowed, Call};
use super::live::Live;

/// Maximum number of hosts that get the same content from the controller at once.
const FROM_HERE: usize = 2;
/// Maximum number of hosts that one host sends to at once.
const UPLOADS: usize = 2;
/// Number of failed transfers after which a sender is no longer used.
const SENDER_FAILURES: u32 = 2;
/// Number of failed transfers, before any success, after which the run stops using hosts as senders: they do not reach
/// each other.
const RUN_FAILURES: u32 = 3;
/// Time in which some host must get a source, plus a second for each MiB. Then the controller sends to one more host: a
/// host that never finishes must not stop the others.
const PATIENCE: Duration = Duration::from_secs(60);
/// Seconds for a sender to prepare a transfer.
const OFFER_DEADLINE: u64 = 10;

/// Contents that the hosts of a run pass on to each other.
pub(super) struct Peers<V> {
    /// Port at which hosts listen; 0 is any free one.
    port: u16,
    allowed: Allowed,
    contents: Mutex<HashMap<String, Arc<Distribution<V>>>>,
    failures: AtomicU32,
    has_succeeded: AtomicBool,
}

/// Part of one executor in the distribution.
pub(super) struct Member<V> {
    pub(super) peers: Arc<Peers<V>>,
    /// Address by which other hosts reach it, if that is known.
    pub(super) address: Option<IpAddr>,
    /// Whether a transfer to it has failed.
    has_failed: AtomicBool,
    /// Transfers from it that failed, of any content.
    failures: AtomicU32,
}

/// State of one content.
struct Distribution<V> {
    state: Mutex<State<V>>,
    changed: Notify,
}

struct State<V> {
    /// Hosts that the controller is sending to.
    from_here: usize,
    /// When a host last got a source.
    granted: Instant,
    senders: Vec<Arc<Sender<V>>>,
}

/// A host that has received the content.
struct Sender<V> {
    live: Weak<Live<V>>,
    /// User whose executor has it.
    user: Option<Become>,
    address: IpAddr,
    uploads: AtomicU32,
}

/// Source of a content for one host.
pub(super) struct Supply<V> {
    /// The host that sends it; `None` means the controller.
    pub(super) peer: Option<Peer>,
    /// Occupies the source until the receiver is done.
    pub(super) share: Share<V>,
}

/// Occupies the source of a content while one host receives it.
pub(super) struct Share<V> {
    distribution: Option<Arc<Distribution<V>>>,
    sender: Option<Arc<Sender<V>>>,
    /// Executor of the sender, which would end in the middle of the transfer if the pool replaced it.
    live: Option<Arc<Live<V>>>,
}

/// The source that a host gets at this moment.
enum Choice<V> {
    Here(Share<V>),
    Sender(Arc<Sender<V>>, Share<V>),
    /// None yet; for this time at most.
    Wait(Duration),
}

impl<V: Serialize + DeserializeOwned + Send + Sync + 'static> Peers<V> {
    pub(super) fn new(port: u16, allowed: Allowed) -> Peers<V> {
        Peers {
            port,
            allowed,
            contents: Mutex::default(),
            failures: AtomicU32::new(0),
            has_succeeded: AtomicBool::new(false),
        }
    }

    pub(super) fn member(self: &Arc<Self>, address: Option<IpAddr>) -> Member<V> {
        Member { peers: Arc::clone(self), address, has_failed: AtomicBool::new(false), failures: AtomicU32::new(0) }
    }

    /// Chooses the source of a content for a host, and waits while all are occupied.
    async fn supply(&self, receiver: &Live<V>, address: IpAddr, sha256: &str, size: u64) -> Supply<V> {
        let patience = PATIENCE + Duration::from_secs(size >> 20);
        let distribution = Arc::clone(lock(&self.contents).entry(sha256.to_owned()).or_default());
        loop {
            let changed = distribution.changed.notified();
            tokio::pin!(changed);
            // Registered before the look at the state, so that no change is missed.
            changed.as_mut().enable();
            if self.is_hopeless() {
                return Supply::unlimited();
            }
            match distribution.choose(receiver, address, patience) {
                Choice::Here(share) => return Supply { peer: None, share },
                Choice::Sender(sender, share) => match self.offer(&sender, sha256).await {
                    Some(peer) => return Supply { peer: Some(peer), share },
                    None => distribution.remove(&sender),
                },
                Choice::Wait(time) => drop(tokio::time::timeout(time, changed).await),
            }
        }
    }

    /// Makes a host listen for one receiver. Returns nothing if it no longer has the content.
    ///
    /// Boxed, because it is part of another request and so of its own future.
    fn offer<'a>(
        &'a self,
        sender: &'a Sender<V>,
        sha256: &'a str,
    ) -> Pin<Box<dyn Future<Output = Option<Peer>> + Send + 'a>> {
        Box::pin(async move {
            let live = sender.live.upgrade().filter(|live| !live.is_closed())?;
            let (ticket, key) = (random::<TICKET>()?, Secret::new(random::<32>()?));
            let address = SocketAddr::new(sender.address, self.port);
            let offer = Offer { sha256: sha256.to_owned(), address, ticket: ticket.clone(), key: key.clone() };
            let call = Call::new(Request {
                timeout: OFFER_DEADLINE,
                become_user: sender.user.clone(),
                ..Request::new(OFFER, serde_json::from_value(json!(offer)).ok()?)
            });
            let completed = call::make(&live, call, self.allowed, "another host").await.ok()?;
            let result = serde_json::to_value(&completed.result).ok()?;
            let port = result.get("port")?.as_u64().and_then(|port| u16::try_from(port).ok())?;
            let address = SocketAddr::new(sender.address, port);
            is_acceptable(port, self.port).then_some(Peer { address, ticket, key })
        })
    }
}

impl<V> Peers<V> {
    /// Whether the hosts do not reach each other.
    fn is_hopeless(&self) -> bool {
        !self.has_succeeded.load(Ordering::Relaxed) && self.failures.load(Ordering::Relaxed) >= RUN_FAILURES
    }
}

impl<V> Supply<V> {
    /// The controller, which sends to any number of hosts at once.
    fn unlimited() -> Supply<V> {
        Supply { peer: None, share: Share { distribution: None, sender: None, live: None } }
    }
}

impl<V: Serialize + DeserializeOwned + Send + Sync + 'static> Member<V> {
    /// Chooses the source of a content that this executor needs.
    pub(super) async fn supply(&self, live: &Live<V>, sha256: &str, size: u64) -> Supply<V> {
        match self.address {
            Some(address) if !self.has_failed.load(Ordering::Relaxed) => {
                self.peers.supply(live, address, sha256, size).await
            }
            _ => Supply::unlimited(),
        }
    }

    /// Makes an executor that has received a content a sender of it.
    pub(super) fn has_received(&self, live: &Arc<Live<V>>, sha256: &str, user: Option<&Become>) {
        let Some(address) = self.address else { return };
        let distribution = Arc::clone(lock(&self.peers.contents).entry(sha256.to_owned()).or_default());
        let mut state = lock(&distribution.state);
        // The same content may have arrived before, for another file.
        let is_known =
            |sender: &Arc<Sender<V>>| sender.live.as_ptr() == Arc::as_ptr(live) && sender.user.as_ref() == user;
        if !state.senders.iter().any(is_known) {
            state.senders.push(Arc::new(Sender {
                live: Arc::downgrade(live),
                user: user.cloned(),
                address,
                uploads: AtomicU32::new(0),
            }));
        }
        drop(state);
        distribution.changed.notify_waiters();
    }

    /// Counts a transfer from another host that failed.
    pub(super) fn has_lost(&self, share: &Share<V>) {
        let Share { sender: Some(_), live, .. } = share else { return };
        self.has_failed.store(true, Ordering::Relaxed);
        self.peers.failures.fetch_add(1, Ordering::Relaxed);
        if let Some(sender) = live.as_ref().and_then(|live| live.member.as_ref()) {
            sender.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that hosts reach each other.
    pub(super) fn has_taken(&self, share: &Share<V>) {
        if share.sender.is_some() {
            self.peers.has_succeeded.store(true, Ordering::Relaxed);
        }
    }
}

impl<V> Default for Distribution<V> {
    fn default() -> Self {
        let state = State { from_here: 0, granted: Instant::now(), senders: Vec::new() };
        Distribution { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl<V: Serialize + DeserializeOwned + Send + 'static> Distribution<V> {
    fn choose(self: &Arc<Self>, receiver: *const Live<V>, address: IpAddr, patience: Duration) -> Choice<V> {
        let mut state = lock(&self.state);
        let is_usable = |member: &Member<V>| member.failures.load(Ordering::Relaxed) < SENDER_FAILURES;
        state.senders.retain(|sender| {
            let live = sender.live.upgrade().filter(|live| !live.is_closed());
            live.is_some_and(|live| live.member.as_ref().is_some_and(is_usable))
        });
        let mut usable = state
            .senders
            .iter()
            .filter(|sender| sender.live.as_ptr() != receiver)
            // The loopback address of one host is another machine for the next.
            .filter(|sender| sender.address.is_loopback() == address.is_loopback())
            .peekable();
        let has_senders = usable.peek().is_some();
        let free = usable.min_by_key(|sender| sender.uploads.load(Ordering::Relaxed));
        let free = free.filter(|sender| (sender.uploads.load(Ordering::Relaxed) as usize) < UPLOADS).cloned();
        let left = patience.checked_sub(state.granted.elapsed()).filter(|left| !left.is_zero());
        let distribution = Some(Arc::clone(self));
        if let Some(sender) = free {
            sender.uploads.fetch_add(1, Ordering::Relaxed);
            state.granted = Instant::now();
            let share = Share { distribution, sender: Some(Arc::clone(&sender)), live: sender.live.upgrade() };
            return Choice::Sender(sender, share);
        }
        match left {
            Some(left) if has_senders || state.from_here >= FROM_HERE => Choice::Wait(left),
            _ => {
                state.from_here += 1;
                state.granted = Instant::now();
                Choice::Here(Share { distribution, sender: None, live: None })
            }
        }
    }
}

impl<V> Distribution<V> {
    fn remove(&self, sender: &Arc<Sender<V>>) {
        lock(&self.state).senders.retain(|other| !Arc::ptr_eq(other, sender));
        self.changed.notify_waiters();
    }
}

impl<V> Drop for Share<V> {
    fn drop(&mut self) {
        let Some(distribution) = &self.distribution else { return };
        match &self.sender {
            None => lock(&distribution.state).from_here -= 1,
            Some(sender) => drop(sender.uploads.fetch_sub(1, Ordering::Relaxed)),
        }
        distribution.changed.notify_waiters();
    }
}

/// Whether a sender may name this port. It must not make others connect to a service of the system.
fn is_acceptable(port: u16, configured: u16) -> bool {
    if configured == 0 { port >= 1024 } else { port == configured }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Random bytes in hex; nothing if the system has none.
fn random<const LENGTH: usize>() -> Option<String> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn sender_cannot_name_port_of_service() {
        for (port, configured, is_right) in
            [(40000, 0, true), (22, 0, false), (0, 0, false), (443, 443, true), (22, 443, false), (0, 443, false)]
        {
            assert_eq!(is_acceptable(port, configured), is_right, "{port}, {configured}");
        }
    }

    #[test]
    fn hosts_that_never_finish_do_not_stop_others() {
        let distribution = Arc::<Distribution<Value>>::default();
        let choose = |patience| distribution.choose(std::ptr::null(), IpAddr::from([192, 0, 2, 1]), patience);
        let occupied: Vec<_> = (0..FROM_HERE).map(|_| choose(PATIENCE)).collect();
        assert!(occupied.iter().all(|choice| matches!(choice, Choice::Here(_))));
        assert!(matches!(choose(PATIENCE), Choice::Wait(left) if left <= PATIENCE));
        let one_more = choose(Duration::ZERO);
        assert!(matches!(one_more, Choice::Here(_)));
        assert!(matches!(choose(PATIENCE), Choice::Wait(_)), "one host at a time");
        drop((occupied, one_more));
        assert_eq!(lock(&distribution.state).from_here, 0);
    }
}
