//! A program at a terminal whose screen is interpreted.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::terminal::open_terminal;

/// Lines that have left the screen and are kept.
const KEPT: usize = 1000;

/// A running program with its terminal.
pub(crate) struct Screen {
    child: Child,
    keys: File,
    shown: Arc<Mutex<Shown>>,
    reader: std::thread::JoinHandle<()>,
}

struct Shown {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

/// Outcome of a program.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Rows of the screen, without empty ones.
    pub(crate) rows: Vec<String>,
    /// Everything that was written.
    pub(crate) bytes: String,
}

/// Streams of the program that are the terminal; the others stay as the command has them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    All,
    /// Standard input and standard error.
    Stderr,
}

impl Screen {
    /// Starts a command in a session of its own, whose terminal has this size.
    pub(crate) fn start(command: Command, rows: u16, columns: u16) -> Screen {
        Screen::start_at(command, At::All, rows, columns)
    }

    pub(crate) fn start_at(mut command: Command, at: At, rows: u16, columns: u16) -> Screen {
        let (keys, side) = open_terminal();
        tcsetwinsize(&side, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        command.stdin(Stdio::from(side.try_clone().unwrap())).stderr(Stdio::from(side.try_clone().unwrap()));
        if at == At::All {
            command.stdout(Stdio::from(side.try_clone().unwrap()));
        }
        let child = command.spawn().unwrap();
        // The command holds copies of the terminal, which would keep it open.
        drop((command, side));
        let parser = vt100::Parser::new(cells(rows), cells(columns), KEPT);
        let shown = Arc::new(Mutex::new(Shown { parser, bytes: Vec::new() }));
        let (mut screen, written) = (keys.try_clone().unwrap(), Arc::clone(&shown));
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The terminal reports the program's end as an error.
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                let mut shown = written.lock().unwrap();
                shown.parser.process(&buffer[..count]);
                shown.bytes.extend_from_slice(&buffer[..count]);
            }
        });
        Screen { child, keys, shown, reader }
    }

    /// Rows that are not empty, the last one at the end.
    pub(crate) fn rows(&self) -> Vec<String> {
        rows(&self.shown.lock().unwrap().parser)
    }

    /// The last row that is not empty.
    pub(crate) fn last(&self) -> String {
        self.rows().pop().unwrap_or_default()
    }

    /// Waits until the last row contains a text, and returns that row.
    pub(crate) fn wait_for_last(&self, text: &str) -> String {
        self.wait(text, |screen| Some(screen.last()).filter(|row| row.contains(text)))
    }

    /// Waits until a row contains a text.
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait(text, |screen| screen.rows().iter().any(|row| row.contains(text)).then_some(()));
    }

    /// Waits for a state of the screen.
    pub(crate) fn wait<T>(&self, what: &str, state: impl Fn(&Screen) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = state(self) {
                return found;
            }
            assert!(start.elapsed() < Duration::from_secs(90), "{what:?} was not shown:\n{}", self.rows().join("\n"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        self.shown.lock().unwrap().parser.screen_mut().set_size(cells(rows), cells(columns));
        tcsetwinsize(&self.keys, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Whether the terminal passes keys immediately and without an echo.
    pub(crate) fn passes_keys(&self) -> bool {
        let modes = tcgetattr(&self.keys).unwrap().local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Letter of the program's state in /proc: `T` if it is stopped.
    pub(crate) fn state(&self) -> String {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        text.rsplit(')').next().unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
    }

    /// Waits for the end of the program.
    pub(crate) fn end(mut self) -> Ended {
        let status = self.child.wait().unwrap();
        self.reader.join().unwrap();
        let shown = self.shown.lock().unwrap();
        let bytes = String::from_utf8_lossy(&shown.bytes).into_owned();
        Ended { status, rows: rows(&shown.parser), bytes }
    }
}

fn cells(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn rows(parser: &vt100::Parser) -> Vec<String> {
    let screen = parser.screen();
    screen.rows(0, screen.size().1.get()).map(|row| row.trim_end().to_owned()).filter(|row| !row.is_empty()).collect()
}
