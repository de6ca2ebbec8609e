//! Signals that end a run: SIGINT, SIGTERM and SIGHUP. SIGQUIT ends a run immediately, but not an editor.

use std::future::poll_fn;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::watch;

use crate::output::Question;

/// A signal that ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal {
    /// Name with its prefix, such as `SIGTERM`.
    pub(crate) name: &'static str,
    /// Exit code of a run ended by it: Ansible's 99 for SIGINT, otherwise the one a shell reports.
    pub(crate) code: u8,
}

impl Signal {
    /// Signal that ended a process, if it is one of those handled here.
    pub(crate) fn of(status: ExitStatus) -> Option<Signal> {
        let number = status.signal()?;
        ALL.into_iter().chain([QUIT]).find(|(_, kind)| kind.as_raw_value() == number).map(|(signal, _)| signal)
    }
}

const TERM: Signal = Signal { name: "SIGTERM", code: 143 };

const ALL: [(Signal, SignalKind); 3] = [
    (Signal { name: "SIGINT", code: 99 }, SignalKind::interrupt()),
    (TERM, SignalKind::terminate()),
    (Signal { name: "SIGHUP", code: 129 }, SignalKind::hangup()),
];

const QUIT: (Signal, SignalKind) = (Signal { name: "SIGQUIT", code: 131 }, SignalKind::quit());

/// Whether a signal ended a run with this exit code.
pub(crate) fn is_signal(code: u8) -> bool {
    ALL.iter().any(|(signal, _)| signal.code == code)
}

/// Stream of signals. Signals ignored since the start of the program (`nohup`) stay ignored.
pub(crate) struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    /// Starts listening. Must be called within the runtime.
    pub(crate) fn listen() -> Signals {
        Signals::to(ALL)
    }

    /// Like [`Signals::listen`], also to SIGQUIT, for work that must clean up whatever ends it.
    pub(crate) fn listen_with_quit() -> Signals {
        Signals::to(ALL.into_iter().chain([QUIT]))
    }

    fn to(all: impl IntoIterator<Item = (Signal, SignalKind)>) -> Signals {
        let ignored = ignored();
        let heeded = all.into_iter().filter(|(_, kind)| ignored >> (kind.as_raw_value() - 1) & 1 == 0);
        Signals(heeded.filter_map(|(found, kind)| Some((found, signal(kind).ok()?))).collect())
    }

    /// Waits for the first signal of the program, and notes it.
    pub(crate) async fn first(&mut self) -> Signal {
        let first = self.next().await;
        ARRIVED.send_replace(Some(first));
        windlass_bounds::interrupt();
        first
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let arrived =
                |(signal, stream): &mut (Signal, Stream)| stream.poll_recv(context).is_ready().then_some(*signal);
            self.0.iter_mut().find_map(arrived).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Keeps the footer away while the program is stopped (Ctrl-Z), when the terminal belongs to a shell. Must be called
/// within the runtime.
pub(crate) fn hide_footer_while_stopped() {
    let number = rustix::process::Signal::TSTP.as_raw();
    if !crate::output::has_footer() || ignored() >> (number - 1) & 1 == 1 {
        return;
    }
    let Ok(mut stops) = signal(SignalKind::from_raw(number)) else { return };
    tokio::spawn(async move {
        while stops.recv().await.is_some() {
            let _hidden = Question::begin();
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
        }
    });
}

/// Signals ignored at the start of this process, as bits. They are read once, before handlers change them.
fn ignored() -> u64 {
    static FIRST: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *FIRST.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default()
    })
}

/// First signal that arrived. Work that blocked its thread meanwhile, to wait for a program, reads it here afterwards.
static ARRIVED: LazyLock<watch::Sender<Option<Signal>>> = LazyLock::new(|| watch::Sender::new(None));

/// Waits for the first signal, unless it has arrived.
pub(crate) async fn arrived() -> Signal {
    let mut arrived = ARRIVED.subscribe();
    match arrived.wait_for(Option::is_some).await.map(|signal| *signal) {
        Ok(Some(signal)) => signal,
        _ => std::future::pending().await,
    }
}

/// Ends this run as SIGTERM would.
pub(crate) fn terminate() {
    ARRIVED.send_if_modified(|arrived| {
        let is_first = arrived.is_none();
        *arrived = arrived.or(Some(TERM));
        is_first
    });
    windlass_bounds::interrupt();
}

/// The first signal, if one has arrived.
pub(crate) fn first() -> Option<Signal> {
    *ARRIVED.borrow()
}

/// A signal that arrived before any work could handle it.
pub(crate) fn missed() -> Option<Signal> {
    first().filter(|_| !WAS_HANDLED.load(Ordering::Acquire))
}

/// Number of running [`until_signal`] calls, which end their work themselves.
static HANDLERS: AtomicUsize = AtomicUsize::new(0);
/// Whether [`until_signal`] was ever called.
static WAS_HANDLED: AtomicBool = AtomicBool::new(false);

/// Whether a handler has taken the signal, so that the work ends by itself.
static WAS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether the running work handles signals itself, or has handled the first one and is ending.
pub(crate) fn is_handled() -> bool {
    HANDLERS.load(Ordering::Acquire) > 0 || WAS_TAKEN.load(Ordering::Acquire)
}

/// Guard that prevents signals from ending the program until their handler is done.
pub(crate) struct Handler(());

impl Handler {
    fn new() -> Handler {
        HANDLERS.fetch_add(1, Ordering::AcqRel);
        WAS_HANDLED.store(true, Ordering::Release);
        Handler(())
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        HANDLERS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs work until it is done or a signal arrives, which drops it. Work does not start after a signal. The caller keeps
/// the handler during cleanup.
pub(crate) async fn until_signal<T>(work: impl Future<Output = T>) -> Result<T, (Signal, Handler)> {
    let handler = Handler::new();
    tokio::select! {
        biased;
        signal = arrived() => {
            WAS_TAKEN.store(true, Ordering::Release);
            Err((signal, handler))
        }
        outcome = work => Ok(outcome),
    }
}
