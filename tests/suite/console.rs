//! The console at a terminal: history of earlier sessions, and completion.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::terminal::open_terminal;
use rustix::termios::{Winsize, tcsetwinsize};

/// A console at its own terminal.
struct Console {
    child: Child,
    keys: File,
    shown: std::sync::mpsc::Receiver<u8>,
}

impl Console {
    fn open(folder: &Path) -> Console {
        let (keys, side) = open_terminal();
        tcsetwinsize(&side, Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["console", "-i", "hosts"])
            .current_dir(folder)
            .env("HOME", folder)
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env_remove("ANSIBLE_CONFIG")
            .stdin(Stdio::from(side.try_clone().unwrap()))
            .stdout(Stdio::from(side.try_clone().unwrap()))
            .stderr(Stdio::from(side))
            .spawn()
            .unwrap();
        let mut screen = keys.try_clone().unwrap();
        let (sender, shown) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            // The terminal reports the program's end as an error.
            while screen.read_exact(&mut byte).is_ok() && sender.send(byte[0]).is_ok() {}
        });
        Console { child, keys, shown }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads the screen until it shows a text.
    fn wait_for(&self, text: &str) {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            let Ok(byte) = self.shown.recv_timeout(Duration::from_secs(60)) else {
                panic!("{text:?} was not shown, only {:?}", String::from_utf8_lossy(&seen));
            };
            seen.push(byte);
        }
    }

    fn end(mut self) {
        self.press("exit\r");
        self.wait_for("Ansible-console was exited.");
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn console_completes_names_and_keeps_history() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hosts"), "[web]\nfront1 ansible_connection=local\n[db]\nback1\n").unwrap();
    let mut console = Console::open(folder.path());
    console.wait_for("all (2)");
    // Completes a group, a module and its option.
    console.press("cd we\t\r");
    console.wait_for("web (1)");
    console.press("debu\tms\tcomplete\r");
    console.wait_for("\"msg\": \"complete\"");
    // Ctrl-C discards the typed line, and the console continues.
    console.wait_for("web (1)");
    console.press("never\x03");
    console.wait_for("web (1)");
    console.end();

    let kept = std::fs::read_to_string(folder.path().join(".ansible-console_history")).unwrap();
    assert!(kept.contains("cd web\ndebug msg=complete\n") || kept.contains("cd web \ndebug msg=complete\n"), "{kept}");

    let mut console = Console::open(folder.path());
    console.wait_for("all (2)");
    // Up: `exit`, and before it the module.
    console.press("\x1b[A\x1b[A\r");
    console.wait_for("\"msg\": \"complete\"");
    console.wait_for("all (2)");
    // End of input.
    console.press("\x04");
    console.wait_for("Ansible-console was exited.");
    assert!(console.child.wait().unwrap().success());
}
