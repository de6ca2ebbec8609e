//! Detects hosts that stop answering: a silent request is pinged, reported, and abandoned after a deadline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Limits on the silence of a host while a request is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Silence after which the host is reported to the user.
    pub quiet: Duration,
    /// Silence after which the host counts as lost; `None` waits forever.
    pub lost: Option<Duration>,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self::lost_after(Some(Duration::from_secs(120)))
    }
}

impl Heartbeat {
    /// Reports a silent host after at most 15 s, and abandons it after `lost`.
    pub fn lost_after(lost: Option<Duration>) -> Self {
        let quiet = Duration::from_secs(15);
        Self { quiet: lost.map_or(quiet, |lost| quiet.min(lost / 2)), lost }
    }

    /// Warning about a host that is silent, without its name.
    pub(super) fn warning(&self, module: &str) -> String {
        let until = self.lost.map(|lost| format!(" and is given up after {} s", lost.as_secs()));
        let until = until.unwrap_or_default();
        format!("no answer for {} s; {module} is in flight{until}", self.quiet.as_secs())
    }
}

/// A watch that wakes up this much too late shows that the control machine itself was busy, as with templates on all
/// threads, or stopped. An answer of the host may wait to be read meanwhile.
const LATE: Duration = Duration::from_secs(1);

/// Clock of one connection, in milliseconds since it started.
#[derive(Debug)]
pub(super) struct Pulse {
    began: Instant,
    /// Time at which this side last resumed reading from the host; the far future while reading is paused.
    free: AtomicU64,
    /// Time at which the host last accepted or sent a part of a large frame.
    moved: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { began: Instant::now(), free: AtomicU64::new(0), moved: AtomicU64::new(0) }
    }
}

impl Pulse {
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records that the host accepted or sent a part of a large frame.
    pub(super) fn moves(&self) {
        self.moved.store(self.now(), Ordering::Relaxed);
    }

    /// Awaits `wait` with reading from the host paused; that time does not count as silence.
    pub(super) async fn holding<T>(&self, wait: impl Future<Output = T>) -> T {
        let before = self.free.swap(u64::MAX, Ordering::Relaxed);
        let since = self.now();
        let value = wait.await;
        let now = self.now();
        self.free.store(if now > since { now } else { before }, Ordering::Relaxed);
        value
    }

    /// Silence of the host about a request whose last frame arrived at `heard`.
    fn silence(&self, heard: &AtomicU64) -> Duration {
        let last = [heard, &self.free, &self.moved].map(|time| time.load(Ordering::Relaxed)).into_iter().max();
        Duration::from_millis(self.now().saturating_sub(last.unwrap_or_default()))
    }

    /// Pings a silent request, and returns when the host counts as lost. Calls `quiet` once for each long silence.
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
            let wake = Instant::now() + next.max(Duration::from_millis(10));
            sleep_until(wake).await;
            if wake.elapsed() >= LATE {
                self.resume();
            }
        }
    }

    /// Records that this side could not read until now, unless reading is paused.
    fn resume(&self) {
        let now = self.now();
        let _ = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| (free < now).then_some(now));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    fn quick() -> Heartbeat {
        Heartbeat { quiet: Duration::from_millis(200), lost: Some(Duration::from_secs(1)) }
    }

    #[tokio::test]
    async fn silent_host_reported_once_and_lost_at_deadline() {
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
    async fn answering_host_never_lost() {
        let (pulse, heard) = (Pulse::default(), AtomicU64::new(0));
        let ping = || heard.store(pulse.now(), Ordering::Relaxed);
        let watch = pulse.lost(quick(), &heard, ping, || {});
        assert!(tokio::time::timeout(Duration::from_secs(3), watch).await.is_err());
    }

    #[tokio::test]
    async fn time_of_a_busy_controller_not_counted() {
        let (pulse, heard) = (Pulse::default(), AtomicU64::new(0));
        let watch = pulse.lost(quick(), &heard, || heard.store(pulse.now(), Ordering::Relaxed), || {});
        let busy = async {
            sleep(Duration::from_millis(10)).await;
            std::thread::sleep(Duration::from_millis(2500));
            sleep(Duration::from_millis(500)).await;
        };
        tokio::select! {
            _ = watch => panic!("the host counts as lost"),
            () = busy => {}
        }
    }

    #[tokio::test]
    async fn time_without_reading_not_counted() {
        let (pulse, heard) = (Pulse::default(), AtomicU64::new(0));
        pulse.holding(sleep(Duration::from_millis(1500))).await;
        let watch = pulse.lost(quick(), &heard, || {}, || {});
        assert!(tokio::time::timeout(Duration::from_millis(500), watch).await.is_err());
    }
}
