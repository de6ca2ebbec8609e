//! Keys while a footer is shown: pause, hosts at work, live output, end of the run.
//!
//! The terminal passes each key immediately and echoes none, except while something is asked, while the program is
//! stopped or in the background, and after the footer.

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpgrp, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::sync::watch;

use super::{IS_ACTIVE, Progress, QUESTIONS, end_footer, locked, redraw};
use crate::settings::Color;

/// Interval at which the state of the terminal is compared with what it should be.
const WATCH: Duration = Duration::from_millis(100);

/// The terminal's usual mode, while ours is in force.
static USUAL: Mutex<Option<Termios>> = Mutex::new(None);
/// Whether our mode is in force. The footer reads this, because it must not wait for the lock.
static ARE_READ: AtomicBool = AtomicBool::new(false);
/// Whether the run pauses before its next task.
static PAUSED: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// Value of a special key that a terminal does not have.
const DISABLED: u8 = 0;
/// Ctrl-\ as a key.
const QUIT: u8 = 0x1c;

const HELP: &str = "Keys: p pause before the next task and continue, h hosts at work, 1 to 9 output of a host in that list, \
                    l output of all hosts, of the slowest, of none, q end the run, ? this help";

/// Waits while the user has paused the run.
pub async fn until_continued() {
    // The sender lives as long as the program.
    let _ = PAUSED.subscribe().wait_for(|paused| !paused).await;
}

/// Whether the user has paused the run.
pub(super) fn is_paused() -> bool {
    *PAUSED.borrow()
}

/// Starts to read keys, if standard input is a terminal.
pub(super) fn start() {
    static READER: Once = Once::new();
    if io::stdin().is_terminal() {
        // A thread of its own, because reading a terminal blocks. It ends with the program.
        READER.call_once(|| drop(std::thread::Builder::new().name("keys".to_owned()).spawn(read)));
    }
}

fn usual() -> MutexGuard<'static, Option<Termios>> {
    USUAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program in the background that touches the terminal is stopped.
fn is_foreground() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}

/// Whether the terminal passes keys to this module now.
pub(super) fn are_read() -> bool {
    ARE_READ.load(Ordering::Relaxed)
}

/// Whether keys are for this module.
fn are_ours() -> bool {
    let is_running = || locked().as_ref().is_some_and(|footer| footer.progress().is_running());
    IS_ACTIVE.load(Ordering::Acquire) && QUESTIONS.load(Ordering::Acquire) == 0 && is_foreground() && is_running()
}

/// Passes keys immediately and without an echo if they are ours; otherwise restores the usual mode.
fn settle(usual: &mut Option<Termios>) {
    match (are_ours(), &usual) {
        (true, None) => enter(usual),
        (false, Some(_)) => restore(usual),
        _ => {}
    }
}

/// Signals keep their keys, except for SIGQUIT: it would end the program without restoring the mode.
fn enter(usual: &mut Option<Termios>) {
    let Ok(mode) = tcgetattr(io::stdin()) else { return };
    let mut own = mode.clone();
    own.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    own.special_codes[SpecialCodeIndex::VMIN] = 1;
    own.special_codes[SpecialCodeIndex::VTIME] = 0;
    own.special_codes[SpecialCodeIndex::VQUIT] = DISABLED;
    if tcsetattr(io::stdin(), OptionalActions::Now, &own).is_ok() {
        *usual = Some(mode);
        ARE_READ.store(true, Ordering::Relaxed);
    }
}

fn restore(usual: &mut Option<Termios>) {
    ARE_READ.store(false, Ordering::Relaxed);
    if let Some(mode) = usual.take()
        && is_foreground()
    {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &mode);
    }
}

/// Gives the terminal its usual mode back.
pub(super) fn leave() {
    restore(&mut usual());
}

/// Like [`leave`], in a panic: gives up if this very thread has the lock.
pub(super) fn try_to_leave() {
    if let Ok(mut usual) = USUAL.try_lock() {
        restore(&mut usual);
    }
}

fn read() {
    let wait = Timespec { tv_sec: 0, tv_nsec: WATCH.subsec_nanos().into() };
    let mut last = 0;
    loop {
        settle(&mut usual());
        let stdin = io::stdin();
        let is_ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&wait)).is_ok_and(|count| count > 0);
        if !is_ready {
            continue;
        }
        let mut bytes = [0; 64];
        let count = {
            let usual = usual();
            // Only with our mode in force are these keys for us; a question reads the others.
            if usual.is_none() || !is_foreground() { None } else { Some(rustix::io::read(&stdin, &mut bytes)) }
        };
        match (count, bytes) {
            (None, _) => std::thread::sleep(WATCH),
            // The terminal is gone, so nobody could continue a paused run.
            (Some(Ok(0) | Err(_)), _) => {
                PAUSED.send_replace(false);
                return;
            }
            // Several bytes in one read are pasted text or the sequence of a special key.
            (Some(Ok(1)), [key, ..]) => last = pressed(key, last),
            (Some(Ok(_)), _) => last = 0,
        }
    }
}

/// Acts on a key, and returns it.
fn pressed(key: u8, last: u8) -> u8 {
    match key {
        b'p' => {
            let paused = !PAUSED.send_replace(!is_paused());
            say(&[if paused { "Pausing before the next task; p continues." } else { "Continuing." }.to_owned()]);
            redraw();
        }
        b'q' if last == b'q' => drop(kill_process(getpid(), Signal::INT)),
        b'q' => say(&["Press q again to end the run. Running tasks are stopped, as by Ctrl-C.".to_owned()]),
        QUIT => {
            end_footer();
            let _ = kill_process(getpid(), Signal::QUIT);
        }
        b'h' => say(&with_progress(Progress::at_work)),
        b'l' => say(&with_progress(|progress| vec![progress.follow(None)])),
        b'1'..=b'9' => say(&with_progress(|progress| vec![progress.follow(Some(usize::from(key - b'0')))])),
        b'?' => say(&[HELP.to_owned()]),
        _ => {}
    }
    key
}

fn with_progress(ask: impl FnOnce(&mut Progress) -> Vec<String>) -> Vec<String> {
    locked().as_ref().map(|footer| ask(&mut footer.progress())).unwrap_or_default()
}

fn say(lines: &[String]) {
    let printer = locked().as_ref().map(|footer| footer.printer.clone());
    printer.iter().for_each(|printer| lines.iter().for_each(|line| printer.error_line(line, Color::Verbose)));
}
