//! How many connections a [`Connector`](crate::Connector) opens at once, and how fast within one network.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout};

/// Key exchanges and logins at once. They cost processor time here, and a server that many hosts share refuses more.
const AT_ONCE: usize = 64;
/// A server that is silent for so long waits outside of its turn, so that dead hosts hold nobody up.
const PATIENCE: Duration = Duration::from_secs(1);
/// Connections that a network gets at once.
const BURST: u32 = 64;
/// Time between two connections to a network after those. A router has to ask for each new address, and firewalls take
/// faster ones for an attack.
const INTERVAL: Duration = Duration::from_millis(4);

/// Turns of the connections that are being opened.
#[derive(Debug)]
pub(crate) struct Openings {
    turns: Semaphore,
    /// For each network, when its next connection would be due without a burst.
    due: Mutex<HashMap<Network, Instant>>,
}

impl Default for Openings {
    fn default() -> Self {
        Self { turns: Semaphore::new(AT_ONCE), due: Mutex::default() }
    }
}

/// Hosts that share a line from here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Network {
    /// The first 24 bits of an IPv4 address.
    V4([u8; 3]),
    /// The first 64 bits of an IPv6 address.
    V6([u16; 4]),
    /// The hosts behind a jump host.
    Behind(String),
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
        // A network that was left alone has its whole burst again.
        if let Some(start) = start.checked_sub(INTERVAL * BURST).filter(|start| *start > now) {
            sleep_until(start).await;
        }
    }

    /// Runs the part of a connection that needs a turn. `has_answered` is true once the server has spoken.
    pub(crate) async fn in_turn<T>(&self, work: impl Future<Output = T>, has_answered: impl Fn() -> bool) -> T {
        let turn = self.turn().await;
        let mut work = std::pin::pin!(work);
        if let Ok(done) = timeout(PATIENCE, &mut work).await {
            return done;
        }
        let _kept = turn.filter(|_| has_answered());
        work.await
    }

    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // Fails only if the semaphore is closed, which never happens.
        self.turns.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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

    #[tokio::test(start_paused = true)]
    async fn silent_servers_hold_up_no_other() {
        let (openings, began) = (Openings::default(), Instant::now());
        let hour = Duration::from_secs(3600);
        let silent = (0..3 * AT_ONCE).map(|_| openings.in_turn(tokio::time::sleep(hour), || false));
        let others = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            openings.in_turn(async {}, || false).await;
            began.elapsed()
        };
        let silent: Vec<_> = silent.collect();
        let mut silent = std::pin::pin!(futures_all(silent));
        let waited = tokio::select! {
            waited = others => waited,
            () = &mut silent => hour,
        };
        assert_eq!(waited, 3 * PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn servers_that_answer_keep_their_turn() {
        let (openings, began) = (Openings::default(), Instant::now());
        let minute = Duration::from_secs(60);
        let busy = (0..2 * AT_ONCE).map(|_| openings.in_turn(async { tokio::time::sleep(minute).await }, || true));
        futures_all(busy.collect()).await;
        assert_eq!(began.elapsed().as_secs(), 120);
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
