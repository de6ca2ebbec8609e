//! `wait_for`: until a port, a file or the connections of a port are as they shall be.

use std::{
    io::{ErrorKind, Read},
    net::{IpAddr, SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use windlass_python_regex::{Flags, Pattern, compile};

use super::{
    connections::{self, STATES},
    resolve::addresses,
};
use crate::{
    Args, Check, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec, files::info::describe, process::reason,
    text::Text,
};

/// The `wait_for` module.
pub struct WaitFor;

static SPEC: Spec = Spec {
    name: "wait_for",
    summary: "Wait until a port, a file or connections are as they shall be",
    description: &[
        "Waits on the host itself until a port answers or no longer does, until a file is there, holds a text or is gone, or until a port has no \
         connections any more. With neither `port` nor `path` it just lets `timeout` pass.",
        "It changes nothing. It fails when `timeout` is over.",
    ],
    options: &[
        Opt::new("host", Kind::Str, "The name or address whose port is looked at.").default("\"127.0.0.1\""),
        Opt::new("timeout", Kind::Int, "How many seconds to wait at most, with `delay`.").default("300"),
        Opt::new("connect_timeout", Kind::Int, "How many seconds one connection may take.").default("5"),
        Opt::new("delay", Kind::Int, "How many seconds to let pass before the first look.").default("0"),
        Opt::new("port", Kind::Int, "The port."),
        Opt::new(
            "active_connection_states",
            Kind::List(&Kind::Str),
            "The states in which a connection counts for `drained`.",
        )
        .default(r#"["ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2", "SYN_RECV", "SYN_SENT", "TIME_WAIT"]"#),
        Opt::new("path", Kind::Path, "The file."),
        Opt::new("search_regex", Kind::Str, "What the file, or what the port sends, must hold; a regular expression of Python."),
        Opt::new(
            "state",
            Kind::Str,
            "`started`: the port answers. `stopped`: it does not. `drained`: it has no connections. `present`: the file is there. `absent`: \
             it is not. `started` and `present` mean the same, and so do `stopped` and `absent`.",
        )
        .choices(&["absent", "drained", "present", "started", "stopped"])
        .default("\"started\""),
        Opt::new("exclude_hosts", Kind::List(&Kind::Str), "Hosts whose connections do not count for `drained`."),
        Opt::new("sleep", Kind::Int, "How many seconds pass between two looks.").default("1"),
        Opt::new("msg", Kind::Str, "The message of a failure, instead of the usual."),
    ],
    check: Check::None,
    examples: "- name: The API server answers\n  ansible.builtin.wait_for:\n    port: 6443\n    timeout: 120\n\n\
               - name: The installation has ended\n  ansible.builtin.wait_for:\n    path: /var/log/install.log\n    search_regex: 'finished in (\\d+)s'\n",
    returns: &[
        Return { name: "elapsed", kind: "int", when: "always", doc: "How many seconds it took." },
        Return { name: "state", kind: "str", when: "success", doc: "What was waited for." },
        Return { name: "port", kind: "int", when: "success", doc: "The port." },
        Return { name: "path", kind: "str", when: "success", doc: "The file." },
        Return { name: "search_regex", kind: "str", when: "success", doc: "The pattern." },
        Return { name: "match_groups", kind: "list", when: "success", doc: "The groups of the match." },
        Return { name: "match_groupdict", kind: "dict", when: "success", doc: "The named groups of the match." },
    ],
    ..Spec::EMPTY
};

impl Module for WaitFor {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let wait = Wait::of(args)?;
        let started = Instant::now();
        let seconds = || started.elapsed().as_secs();
        let groups = wait.run(started, host).map_err(|failure| failure.with("elapsed", seconds()))?;
        let mut data = Map::new();
        data.insert("state".into(), args.required("state")?.into());
        for name in ["port", "search_regex", "path"] {
            data.insert(name.into(), args.value(name).cloned().unwrap_or_default());
        }
        data.insert("match_groups".into(), groups.all.into());
        data.insert("match_groupdict".into(), groups.named.into());
        data.insert("elapsed".into(), seconds().into());
        if let Some(path) = args.str("path") {
            // As ever where a result has a path, `state` is then what is there.
            data.extend(describe(Path::new(path)));
        }
        Ok(Plan::unchanged().with_all(data))
    }
}

/// The groups of a match; none if nothing was searched for.
#[derive(Default)]
struct Groups {
    all: Vec<Value>,
    named: Map,
}

enum Target<'a> {
    Nothing,
    Port(u16),
    Path(&'a Path),
}

struct Wait<'a> {
    target: Target<'a>,
    host: &'a str,
    state: &'a str,
    search: Option<(Arc<Pattern>, &'a str)>,
    timeout: Duration,
    connect_timeout: Duration,
    delay: Duration,
    sleep: Duration,
    /// The kernel's numbers of the states that count.
    states: Vec<&'static str>,
    exclude: Vec<&'a str>,
    msg: Option<&'a str>,
}

impl<'a> Wait<'a> {
    fn of(args: &'a Args) -> Result<Wait<'a>, Failure> {
        let refuse = |message: String| Err(Failure::new(message).with("elapsed", 0));
        let state = args.required("state")?;
        let target = match (args.int("port").filter(|port| *port != 0), args.str("path")) {
            (Some(_), Some(_)) => return refuse("port and path parameter can not both be passed to wait_for".into()),
            (Some(port), None) => match u16::try_from(port) {
                Ok(port) => Target::Port(port),
                Err(_) => return refuse(format!("port must be between 1 and 65535, not {port}")),
            },
            (None, Some(_)) if matches!(state, "stopped" | "drained") => {
                return refuse(format!("state={state} should only be used for checking a port in the wait_for module"));
            }
            (None, Some(path)) => Target::Path(Path::new(path)),
            (None, None) if state == "drained" => return refuse("state=drained needs a port".into()),
            (None, None) => Target::Nothing,
        };
        if args.value("exclude_hosts").is_some() && state != "drained" {
            return refuse("exclude_hosts should only be with state=drained".into());
        }
        let mut states = Vec::new();
        for name in args.list("active_connection_states") {
            match STATES.iter().find(|(known, _)| *known == name) {
                Some((_, number)) => states.push(*number),
                None => return refuse(format!("unknown active_connection_state ({name}) defined")),
            }
        }
        let flags = Flags { multi_line: true, ..Flags::default() };
        let search = match args.str("search_regex") {
            None => None,
            Some(text) => match compile(text, flags) {
                Ok(pattern) => Some((pattern, text)),
                Err(message) => return refuse(format!("Invalid regular expression: {message}.")),
            },
        };
        let seconds = |name: &str| args.seconds(name, 0);
        Ok(Wait {
            host: args.required("host")?,
            timeout: seconds("timeout"),
            connect_timeout: seconds("connect_timeout"),
            delay: seconds("delay"),
            sleep: seconds("sleep"),
            exclude: args.list("exclude_hosts"),
            msg: args.str("msg"),
            target,
            state,
            search,
            states,
        })
    }

    fn run(&self, started: Instant, host: &Host) -> Result<Groups, Failure> {
        pause(self.delay, host)?;
        let end = started + self.timeout;
        if let Target::Nothing = self.target {
            // The delay does not count here.
            pause(self.timeout, host)?;
            return Ok(Groups::default());
        }
        while Instant::now() < end {
            if let Some(groups) = self.look(end, host)? {
                return Ok(groups);
            }
            pause(self.sleep.min(end.saturating_duration_since(Instant::now())), host)?;
        }
        Err(Failure::new(self.msg.map_or_else(|| self.complaint(), str::to_owned)))
    }

    fn complaint(&self) -> String {
        let name = self.host;
        let search = self.search.as_ref().map(|(_, text)| format!("search string {text} in "));
        match (&self.target, self.state) {
            (Target::Port(port), "absent" | "stopped") => format!("Timeout when waiting for {name}:{port} to stop."),
            (Target::Port(port), "drained") => format!("Timeout when waiting for {name}:{port} to drain"),
            (Target::Port(port), _) => format!("Timeout when waiting for {}{name}:{port}", search.unwrap_or_default()),
            (Target::Path(path), "absent") => format!("Timeout when waiting for {} to be absent.", path.display()),
            (Target::Path(path), _) => {
                format!("Timeout when waiting for {}{}", search.unwrap_or_else(|| "file ".to_owned()), path.display())
            }
            (Target::Nothing, _) => String::new(),
        }
    }

    /// Whether all is as it shall be, and the groups of the match if there is one.
    fn look(&self, end: Instant, host: &Host) -> Result<Option<Groups>, Failure> {
        let done = |reached: bool| Ok(reached.then(Groups::default));
        match (&self.target, self.state) {
            (Target::Nothing, _) => done(true),
            (Target::Path(path), "absent") => done(path.symlink_metadata().is_err()),
            (Target::Path(path), _) => self.look_at_file(path),
            (Target::Port(port), "drained") => done(self.is_drained(*port)?),
            (Target::Port(port), "absent" | "stopped") => done(self.connect(*port, end).is_none()),
            (Target::Port(port), _) => match (self.connect(*port, end), &self.search) {
                (None, _) => Ok(None),
                (Some(_), None) => done(true),
                (Some(stream), Some((pattern, _))) => listen(stream, pattern, end, host),
            },
        }
    }

    fn look_at_file(&self, path: &Path) -> Result<Option<Groups>, Failure> {
        match path.metadata() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let usual = format!("Failed to stat {}, {}", path.display(), reason(&error));
                return Err(Failure::new(self.msg.map_or(usual, str::to_owned)));
            }
        }
        let Some((pattern, _)) = &self.search else { return Ok(Some(Groups::default())) };
        match std::fs::read(path) {
            Ok(bytes) => search(pattern, bytes),
            // It may become readable.
            Err(_) => Ok(None),
        }
    }

    fn connect(&self, port: u16, end: Instant) -> Option<TcpStream> {
        let limit =
            || self.connect_timeout.min(end.saturating_duration_since(Instant::now())).max(Duration::from_millis(1));
        let found = addresses(self.host, limit()).ok()?;
        found.into_iter().find_map(|address| TcpStream::connect_timeout(&SocketAddr::new(address, port), limit()).ok())
    }

    fn is_drained(&self, port: u16) -> Result<bool, Failure> {
        let known = |name: &str| {
            let found = addresses(name, self.connect_timeout);
            found.map_err(|error| Failure::new(format!("The address of {name} was not found: {error}.")))
        };
        let ours = known(self.host)?;
        let mut excluded: Vec<IpAddr> = Vec::new();
        for name in &self.exclude {
            excluded.extend(known(name)?);
        }
        let everywhere = ours.iter().any(IpAddr::is_unspecified);
        Ok(!connections::all().iter().any(|connection| {
            connection.port == port
                && self.states.contains(&connection.state.as_str())
                && !excluded.contains(&connection.remote)
                && (everywhere || ours.contains(&connection.local))
        }))
    }
}

/// Searches what a port sends.
fn listen(mut stream: TcpStream, pattern: &Pattern, end: Instant, host: &Host) -> Result<Option<Groups>, Failure> {
    let mut heard = Vec::new();
    let mut buffer = vec![0; 4096];
    loop {
        host.check_cancelled()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let _ = stream.set_read_timeout(Some(left.min(Duration::from_millis(500))));
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(count) => {
                heard.extend_from_slice(buffer.get(..count).unwrap_or_default());
                if let Some(groups) = search(pattern, heard.clone())? {
                    return Ok(Some(groups));
                }
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(_) => return Ok(None),
        }
    }
}

fn search(pattern: &Pattern, bytes: Vec<u8>) -> Result<Option<Groups>, Failure> {
    let text = Text::of(bytes).text;
    let Some(matched) = pattern.find_at(&text, 0)? else { return Ok(None) };
    let mut groups = Groups::default();
    for (number, name) in pattern.group_names().into_iter().enumerate().skip(1) {
        let value = Value::from(matched.group(number));
        if let Some(name) = name {
            groups.named.insert(name.to_owned(), value.clone());
        }
        groups.all.push(value);
    }
    Ok(Some(groups))
}

/// Lets time pass, but not when nobody waits any more.
fn pause(length: Duration, host: &Host) -> Result<(), Failure> {
    let end = Instant::now() + length;
    loop {
        host.check_cancelled()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(200)));
    }
}
