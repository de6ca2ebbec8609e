//! `wait_for`: waits for a port, a file or connections.

use std::{
    io::{ErrorKind, Read, Seek, SeekFrom},
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
    Args, Check, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    files::{info::describe, way},
    process::reason,
    text::Text,
};

/// Bytes at the end of a file that are searched.
const LARGEST: u64 = 64 << 20;
/// Bytes that a port sent last and that are searched.
const LARGEST_ANSWER: usize = 1 << 20;

/// The `wait_for` module.
pub struct WaitFor;

static SPEC: Spec = Spec {
    name: "wait_for",
    summary: "Wait for a port, a file or connections",
    description: &[
        "Waits on the host until a port answers or stops answering, or has no more connections. With `path`, waits \
         until a file exists, contains a text or is removed. Without `port` and `path`, only waits for `timeout`.",
        "Changes nothing. Fails when `timeout` is over.",
    ],
    options: &[
        Opt::new("host", Kind::Str, "Name or address of the host to check.").default("\"127.0.0.1\""),
        Opt::new("timeout", Kind::Int, "Seconds to wait before failing, including `delay`.").default("300"),
        Opt::new("connect_timeout", Kind::Int, "Seconds to wait for a single connection.").default("5"),
        Opt::new("delay", Kind::Int, "Seconds to wait before the first check.").default("0"),
        Opt::new("port", Kind::Int, "Port to check."),
        Opt::new(
            "active_connection_states",
            Kind::List(&Kind::Str),
            "With `drained`: states in which a connection counts.",
        )
        .default(r#"["ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2", "SYN_RECV", "SYN_SENT", "TIME_WAIT"]"#),
        Opt::new("path", Kind::Path, "Path of the file to check."),
        Opt::new(
            "search_regex",
            Kind::Str,
            "Python regular expression that must match the content of the file or the data sent by the port.",
        ),
        Opt::new(
            "state",
            Kind::Str,
            "`started` and `present` wait for an answering port or an existing file, `stopped` and `absent` for the \
             opposite, `drained` until the port has no connections.",
        )
        .choices(&["absent", "drained", "present", "started", "stopped"])
        .default("\"started\""),
        Opt::new("exclude_hosts", Kind::List(&Kind::Str), "With `drained`: hosts whose connections do not count."),
        Opt::new("sleep", Kind::Int, "Seconds between two checks.").default("1"),
        Opt::new("msg", Kind::Str, "Custom failure message."),
    ],
    check: Check::None,
    examples: "- name: The API server answers\n  ansible.builtin.wait_for:\n    port: 6443\n    timeout: 120\n\n\
               - name: The installation has ended\n  ansible.builtin.wait_for:\n    path: /var/log/install.log\n    search_regex: 'finished in (\\d+)s'\n",
    returns: &[
        Return { name: "elapsed", kind: "int", when: "always", doc: "Duration in seconds." },
        Return { name: "state", kind: "str", when: "success", doc: "Requested state." },
        Return { name: "port", kind: "int", when: "success", doc: "Requested port." },
        Return { name: "path", kind: "str", when: "success", doc: "Path of the file." },
        Return { name: "search_regex", kind: "str", when: "success", doc: "Value of `search_regex`." },
        Return { name: "match_groups", kind: "list", when: "success", doc: "Capture groups of the match." },
        Return { name: "match_groupdict", kind: "dict", when: "success", doc: "Named groups of the match." },
    ],
    ..Spec::EMPTY
}
.compiled();

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
            // As in other results with a path, `state` then describes the file. A link that leads nowhere is absent.
            let path = Path::new(path);
            match path.exists() {
                true => data.extend(describe(path)),
                false => _ = data.insert("state".into(), "absent".into()),
            }
        }
        Ok(Plan::unchanged().with_all(data))
    }
}

/// Groups of a match; empty without a search.
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
    /// The kernel's codes of the states that count.
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
            // The delay is not included here.
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

    /// Checks the condition. Returns the groups of the match once it is met.
    fn look(&self, end: Instant, host: &Host) -> Result<Option<Groups>, Failure> {
        let done = |reached: bool| Ok(reached.then(Groups::default));
        match (&self.target, self.state) {
            (Target::Nothing, _) => done(true),
            // A link that leads nowhere counts as absent.
            (Target::Path(path), "absent") => done(path.metadata().is_err()),
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
        // A log may be larger than memory, and what is waited for comes last.
        let end = || {
            let mut file = way::open(path)?;
            let start = file.metadata()?.len().saturating_sub(LARGEST);
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.take(LARGEST).read_to_end(&mut bytes).map(|_| bytes)
        };
        match end() {
            Ok(bytes) => search(pattern, bytes),
            // The file may become readable later.
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

/// Searches the data that a port sends.
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
                heard.drain(..heard.len().saturating_sub(LARGEST_ANSWER));
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

/// Sleeps, and fails if the run is cancelled meanwhile.
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
