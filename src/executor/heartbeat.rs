//! Hosts that stop answering: a request that nothing is heard of is asked about, named, and given up after a deadline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a host may be silent while a request is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// After this time the user learns which host is waited for.
    pub quiet: Duration,
    /// After this time the host counts as lost; `None` waits for ever.
    pub lost: Option<Duration>,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self::lost_after(Some(Duration::from_secs(120)))
    }
}

impl Heartbeat {
    /// Names a silent host after 15 s at the latest and gives it up after this time.
    pub fn lost_after(lost: Option<Duration>) -> Self {
        let quiet = Duration::from_secs(15);
        Self { quiet: lost.map_or(quiet, |lost| quiet.min(lost / 2)), lost }
    }
}

/// The clock of one connection, in milliseconds since it began.
#[derive(Debug)]
pub(super) struct Pulse {
    began: Instant,
    /// When this side last stopped to hold up what the host sends; the far future while it does.
    free: AtomicU64,
    /// When the host last took a part of a large frame.
    taken: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { began: Instant::now(), free: AtomicU64::new(0), taken: AtomicU64::new(0) }
    }
}

impl Pulse {
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The host took a part of a large frame.
    pub(super) fn took(&self) {
        self.taken.store(self.now(), Ordering::Relaxed);
    }

    /// Waits for something of this side while the host is not read: the host is not to blame for that time.
    pub(super) async fn holding<T>(&self, wait: impl Future<Output = T>) -> T {
        let before = self.free.swap(u64::MAX, Ordering::Relaxed);
        let since = self.now();
        let value = wait.await;
        let now = self.now();
        self.free.store(if now > since { now } else { before }, Ordering::Relaxed);
        value
    }

    /// How long the host has been silent about a request that was last heard of then.
    fn silence(&self, heard: &AtomicU64) -> Duration {
        let last = [heard, &self.free, &self.taken].map(|time| time.load(Ordering::Relaxed)).into_iter().max();
        Duration::from_millis(self.now().saturating_sub(last.unwrap_or_default()))
    }

    /// Asks about a request while nothing is heard of it, and ends when it counts as lost; `quiet` hears once of each long silence.
    pub(super) async fn lost(
        &self,
        limits: Heartbeat,
        heard: &AtomicU64,
        ping: impl Fn(),
        quiet: impl Fn(),
    ) -> Duration {
        let pause = limits.quiet / 2;
        let mut is_named = false;
        loop {
            let silence = self.silence(heard);
            if let Some(lost) = limits.lost.filter(|lost| silence >= *lost) {
                return lost;
            }
            if silence < limits.quiet {
                is_named = false;
            } else if !std::mem::replace(&mut is_named, true) {
                quiet();
            }
            if silence >= pause {
                ping();
            }
            let next = if silence < pause { pause - silence } else { pause };
            let next = limits.lost.map_or(next, |lost| next.min(lost.saturating_sub(silence)));
            sleep(next.max(Duration::from_millis(10))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick() -> Heartbeat {
        Heartbeat { quiet: Duration::from_millis(200), lost: Some(Duration::from_secs(1)) }
    }

    #[tokio::test]
    async fn a_silent_host_is_named_once_and_lost_at_the_deadline() {
        let (pulse, heard) = (Pulse::default(), AtomicU64::new(0));
        let (pings, named) = (AtomicU64::new(0), AtomicU64::new(0));
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let lost = pulse.lost(quick(), &heard, || count(&pings), || count(&named)).await;
        assert!(lost == Duration::from_secs(1) && pulse.now() >= 1000);
        assert_eq!(named.load(Ordering::Relaxed), 1);
        assert!(pings.load(Ordering::Relaxed) >= 1);
    }

    #[tokio::test]
    async fn a_host_that_answers_is_never_lost() {
        let (pulse, heard) = (Pulse::default(), AtomicU64::new(0));
        let ping = || heard.store(pulse.now(), Ordering::Relaxed);
        let watch = pulse.lost(quick(), &heard, ping, || {});
        assert!(tokio::time::timeout(Duration::from_secs(3), watch).await.is_err());
    }

    #[tokio::test]
    async fn time_in_which_the_host_was_not_read_does_not_count() {
        let (pulse, heard) = (Pulse::default(), AtomicU64::new(0));
        pulse.holding(sleep(Duration::from_millis(1500))).await;
        let watch = pulse.lost(quick(), &heard, || {}, || {});
        assert!(tokio::time::timeout(Duration::from_millis(500), watch).await.is_err());
    }
}
