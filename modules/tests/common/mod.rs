//! Controller's end of a session with a real executor process.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use windlass_protocol::{Become, BecomeMethod, Event, Hello, Reply, Request, ToExecutor, read_frame, write_frame};

/// Asserts that a process has been killed. The kernel ends a killed process only once it gets a CPU, which on a busy
/// machine can be after its killer has gone on.
pub(crate) fn assert_killed(pid: &str) {
    let start = Instant::now();
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z") {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "still running: {stat}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) struct Session {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: BufReader<ChildStdout>,
    pub(crate) hello: Hello,
}

pub(crate) struct Answer {
    pub(crate) result: Value,
    pub(crate) events: Vec<(Event, Vec<u8>)>,
}

impl Session {
    pub(crate) fn start() -> Session {
        Session::of(Command::new(env!("CARGO_BIN_EXE_windlass-executor")).args(["serve", "word"]))
    }

    pub(crate) fn of(command: &mut Command) -> Session {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "windlass-begin-word\n");
        let Some((Reply::<Value>::Hello(hello), _)) = read_frame(&mut output).unwrap() else { panic!("no greeting") };
        Session { child, input, output, hello }
    }

    pub(crate) fn send(&mut self, message: &ToExecutor<Value>, blob: &[u8]) {
        write_frame(self.input.as_mut().unwrap(), message, blob).unwrap();
    }

    pub(crate) fn next(&mut self) -> (Reply<Value>, Vec<u8>) {
        read_frame(&mut self.output).unwrap().expect("the executor ended")
    }

    /// The answer to a running request, with its events.
    pub(crate) fn answer(&mut self, id: u64) -> Answer {
        let mut events = Vec::new();
        loop {
            match self.next() {
                (Reply::Event { id: of, event }, blob) if of == id => events.push((event, blob)),
                (Reply::Done { id: of, result, .. }, _) if of == id => return Answer { result, events },
                (other, _) => panic!("unexpected: {other:?}"),
            }
        }
    }

    pub(crate) fn run(&mut self, request: Request<Value>) -> Answer {
        let id = request.id;
        self.send(&ToExecutor::Run(request), &[]);
        self.answer(id)
    }

    /// Closes the connection and waits for the executor to end.
    pub(crate) fn close(mut self) -> i32 {
        drop(self.input.take());
        self.child.wait().unwrap().code().unwrap()
    }
}

pub(crate) fn request(id: u64, module: &str, args: Value) -> Request<Value> {
    Request { id, ..Request::new(module, args) }
}

pub(crate) fn shell(id: u64, text: &str) -> Request<Value> {
    request(id, "shell", json!({ "_raw_params": text }))
}

pub(crate) fn become_user(method: &str, user: &str) -> Become {
    Become {
        method: BecomeMethod::named(method).unwrap(),
        user: user.into(),
        exe: None,
        flags: None,
        password: None,
        timeout: 30,
    }
}
