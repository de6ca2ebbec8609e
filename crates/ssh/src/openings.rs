//! Limits on the connections that a [`Connector`](crate::Connector) opens at the same time, and on their rate within
//! one network.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};

/// Maximum number of simultaneous key exchanges and logins. They cost processor time here, and a server that many hosts
/// share refuses more.
const AT_ONCE: usize = 64;
/// Maximum number of connections that open through one jump host at the same time. They share one login there, which
/// MaxStartups counts once. Half of the turns are left for hosts that do not depend on it.
const THROUGH_JUMP_HOST: usize = 32;
/// Maximum number of connections that open through equal ProxyCommands at the same time. `ssh -W` logs in to the jump
/// host each time, and sshd refuses at random from ten unfinished logins on (MaxStartups 10:30:100).
const THROUGH_COMMAND: usize = 8;
/// Time without a first byte from the server after which a connection gives its turn to others, so that dead hosts do
/// not delay them.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same time for a server that has answered, and may look up a name or wait for PAM, and for the login of a
/// ProxyCommand.
const LONG_PATIENCE: Duration = Duration::from_secs(5);
/// Connections that may open within one network without a pause.
const BURST: u32 = 64;
/// Time between two further connections to a network. A router has to resolve each new address, and firewalls treat
/// faster connections as an attack.
const INTERVAL: Duration = Duration::from_millis(4);

/// Turns of the connections that are being opened.
#[derive(Debug)]
pub(crate) struct Openings {
    turns: Arc<Semaphore>,
    /// Places of each jump host.
    behind: Mutex<HashMap<Network, Arc<Semaphore>>>,
    /// For each network, when its next connection would be due without a burst.
    due: Mutex<HashMap<Network, Instant>>,
}

impl Default for Openings {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(AT_ONCE)), behind: Mutex::default(), due: Mutex::default() }
    }
}

/// Turns that a connection holds while it opens.
#[derive(Debug, Default)]
pub(crate) struct Places {
    turn: Option<OwnedSemaphorePermit>,
    behind: Option<OwnedSemaphorePermit>,
    /// Whether the connection keeps its turns for LONG_PATIENCE even before the first answer.
    is_patient: bool,
}

/// Hosts to which connections share a path through the network.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Network {
    /// The first 24 bits of an IPv4 address.
    V4([u8; 3]),
    /// The first 64 bits of an IPv6 address.
    V6([u16; 4]),
    /// The hosts behind a jump host.
    Behind(String),
    /// The hosts that a ProxyCommand leads to, by its text with tokens.
    Command(String),
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                Self::V4([a, b, c])
            }
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

impl Openings {
    /// Waits until another connection may be opened to a network.
    pub(crate) async fn pace(&self, network: Network) {
        let now = Instant::now();
        let start = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let next = due.entry(network).or_insert(now);
            let start = (*next).max(now);
            *next = start + INTERVAL;
            start
        };
        // After a period without connections, a network may use its whole burst again.
        if let Some(start) = start.checked_sub(INTERVAL * BURST).filter(|start| *start > now) {
            sleep_until(start).await;
        }
    }

    /// Waits for a place among the connections that open through a jump host.
    pub(crate) async fn through(&self, jump: Network, places: &mut Places) {
        places.is_patient = matches!(jump, Network::Command(_));
        let most = if places.is_patient { THROUGH_COMMAND } else { THROUGH_JUMP_HOST };
        let behind = {
            let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
            behind.entry(jump).or_insert_with(|| Arc::new(Semaphore::new(most))).clone()
        };
        // Fails only if the semaphore is closed, which never happens.
        places.behind = behind.acquire_owned().await.ok();
    }

    /// Waits for a turn among all connections that open.
    pub(crate) async fn turn(&self, places: &mut Places) {
        places.turn = Arc::clone(&self.turns).acquire_owned().await.ok();
    }
}

impl Places {
    /// Awaits a step of opening a connection. Gives the turns back once the server is silent. `heard` returns the
    /// number of bytes received.
    pub(crate) async fn keep_while_heard<T>(&mut self, work: impl Future<Output = T>, heard: impl Fn() -> u64) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            let before = heard();
            let patience = if before == 0 && !self.is_patient { PATIENCE } else { LONG_PATIENCE };
            if let Ok(done) = timeout(patience, &mut work).await {
                return done;
            }
            if heard() == before {
                break;
            }
        }
        (self.turn, self.behind) = (None, None);
        work.await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;

    fn network(address: &str) -> Network {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[tokio::test(start_paused = true)]
    async fn network_gets_a_burst_and_then_a_bounded_rate() {
        let (openings, began) = (Openings::default(), Instant::now());
        for _ in 0..=BURST {
            openings.pace(network("10.0.0.1")).await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..250 {
            openings.pace(network("::ffff:10.0.0.2")).await;
        }
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        openings.pace(network("10.0.1.1")).await;
        openings.pace(Network::Behind("bastion:22".into())).await;
        openings.pace(network("fd00::1")).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }

    /// Opens a connection whose server is silent after its first bytes.
    async fn open(openings: &Openings, jump: Option<Network>, heard: u64, silence: Duration) {
        let mut places = Places::default();
        if let Some(jump) = jump {
            openings.through(jump, &mut places).await;
        }
        openings.turn(&mut places).await;
        places.keep_while_heard(tokio::time::sleep(silence), || heard).await;
    }

    /// Time that a connection to another server waits behind `count` such connections.
    async fn waited(count: usize, jump: Option<Network>, heard: u64) -> Duration {
        let (openings, began) = (Openings::default(), Instant::now());
        let hour = Duration::from_secs(3600);
        let silent = (0..count).map(|_| open(&openings, jump.clone(), heard, hour)).collect();
        let other = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            open(&openings, jump.clone(), 0, Duration::ZERO).await;
            began.elapsed()
        };
        tokio::select! {
            waited = other => waited,
            () = futures_all(silent) => hour,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_servers_hold_up_no_other() {
        assert_eq!(waited(3 * AT_ONCE, None, 0).await, 3 * PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn servers_that_are_slow_after_their_banner_hold_up_no_other() {
        assert_eq!(waited(3 * AT_ONCE, None, 21).await, 3 * LONG_PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn servers_that_answer_keep_their_turn() {
        let (openings, began) = (Openings::default(), Instant::now());
        let busy = (0..2 * AT_ONCE).map(|_| async {
            let mut places = Places::default();
            openings.turn(&mut places).await;
            let work = tokio::time::sleep(Duration::from_secs(60));
            places.keep_while_heard(work, || began.elapsed().as_secs()).await;
        });
        futures_all(busy.collect()).await;
        assert_eq!(began.elapsed().as_secs(), 120);
    }

    #[tokio::test(start_paused = true)]
    async fn jump_host_has_a_limit_of_its_own_and_leaves_turns_to_others() {
        let jump = || Some(Network::Behind("bastion:22".into()));
        assert_eq!(waited(THROUGH_JUMP_HOST, jump(), 0).await, PATIENCE);
        let command = || Some(Network::Command("ssh -W %h:%p bastion".into()));
        assert_eq!(waited(THROUGH_COMMAND, command(), 0).await, LONG_PATIENCE);
        let openings = Openings::default();
        let hour = Duration::from_secs(3600);
        let behind = (0..2 * AT_ONCE).map(|_| open(&openings, jump(), 0, hour)).collect();
        tokio::select! {
            biased;
            () = futures_all(behind) => panic!("they are silent"),
            () = open(&openings, None, 0, Duration::ZERO) => {}
        }
    }

    /// Waits for all futures on this task.
    async fn futures_all(futures: Vec<impl Future<Output = ()>>) {
        let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
        std::future::poll_fn(|context| {
            futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
            if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}
