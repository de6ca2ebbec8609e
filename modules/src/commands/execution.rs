//! Common code of `command`, `shell` and `script`: file conditions, execution, and result keys.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use jiff::Zoned;
use serde_json::Value;

use crate::{
    Args, Failure, Host, Kind, Map, Opt, Outcome, Plan, Return,
    process::{Command, KEEP, Output},
};

pub(super) const CHDIR: Opt = Opt::new("chdir", Kind::Path, "Directory to run the command in.");
pub(super) const CREATES: Opt =
    Opt::new("creates", Kind::Path, "Path or glob pattern; if it exists, the command is skipped.");
pub(super) const REMOVES: Opt =
    Opt::new("removes", Kind::Path, "Path or glob pattern; if it does not exist, the command is skipped.");
pub(super) const STDIN: Opt = Opt::new("stdin", Kind::Str, "Standard input of the command.");
pub(super) const STDIN_ADD_NEWLINE: Opt =
    Opt::new("stdin_add_newline", Kind::Bool, "Append a newline to `stdin`.").default("true");
pub(super) const STRIP_EMPTY_ENDS: Opt =
    Opt::new("strip_empty_ends", Kind::Bool, "Remove trailing newlines from stdout and stderr.").default("true");

pub(super) const RETURNS: &[Return] = &[
    Return {
        name: "cmd",
        kind: "raw",
        when: "always",
        doc: "Command that was run: a list of words, or a text for a shell.",
    },
    Return { name: "rc", kind: "int", when: "always", doc: "Exit status; negative if a signal ended the command." },
    Return { name: "stdout", kind: "str", when: "always", doc: "Standard output." },
    Return { name: "stderr", kind: "str", when: "always", doc: "Standard error." },
    Return { name: "stdout_lines", kind: "list", when: "always", doc: "Standard output as lines." },
    Return { name: "stderr_lines", kind: "list", when: "always", doc: "Standard error as lines." },
    Return { name: "start", kind: "str", when: "the command was run", doc: "Start time." },
    Return { name: "end", kind: "str", when: "the command was run", doc: "End time." },
    Return { name: "delta", kind: "str", when: "the command was run", doc: "Duration." },
    Return {
        name: "msg",
        kind: "str",
        when: "always",
        doc: "Reason for skipping the command, or message about an exit status other than 0.",
    },
];

/// A command ready to run.
pub(super) struct Execution {
    pub(super) shown: Value,
    pub(super) command: Command,
    pub(super) strip: bool,
}

/// Base directory of relative paths.
pub(super) fn base(args: &Args) -> PathBuf {
    let current = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    args.str("chdir").map(|directory| current.join(directory)).unwrap_or(current)
}

/// The plan that skips the command because of `creates` or `removes`.
pub(super) fn not_needed(args: &Args, host: &Host, shown: &Value) -> Result<Option<Plan>, Failure> {
    let would = if host.check() { "Would" } else { "Did" };
    let answer = |msg: String, stdout: String| {
        let mut data = skeleton(shown);
        data.insert("rc".into(), 0.into());
        data.insert("stdout".into(), stdout.into());
        data.insert("msg".into(), msg.into());
        Plan::unchanged().with_all(data)
    };
    let exists = |pattern: &str| crate::files::glob::any(&base(args).join(pattern));
    if let Some(creates) = args.filled("creates")
        && exists(creates)
    {
        let msg = format!("{would} not run command since '{creates}' exists");
        return Ok(Some(answer(msg, format!("skipped, since {creates} exists"))));
    }
    if let Some(removes) = args.filled("removes")
        && !exists(removes)
    {
        let msg = format!("{would} not run command since '{removes}' does not exist");
        return Ok(Some(answer(msg, format!("skipped, since {removes} does not exist"))));
    }
    Ok(None)
}

/// Fails if `chdir` is not a directory.
pub(super) fn check_directory(args: &Args, shown: &Value) -> Result<(), Failure> {
    let Some(directory) = args.str("chdir") else { return Ok(()) };
    if Path::new(directory).is_dir() {
        return Ok(());
    }
    let mut failure =
        Failure::new(format!("Unable to change directory before execution: {directory} is not a directory."));
    failure.data = skeleton(shown);
    Err(failure)
}

/// The plan to run the command. Check mode skips it without `creates` or `removes`, because its effect is unknown.
pub(super) fn plan(args: &Args, execution: Execution, host: &Host) -> Plan {
    let mut data = skeleton(&execution.shown);
    data.insert("rc".into(), 0.into());
    data.insert("msg".into(), "Command would have run if not in check mode".into());
    if host.check() && args.str("creates").is_none() && args.str("removes").is_none() {
        return Plan::unchanged().with_all(data).with("skipped", true);
    }
    Plan::change(move |host, outcome| run(execution, host, outcome)).with_all(data)
}

/// Runs the command and adds its output to the result.
pub(super) fn run(execution: Execution, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
    let started = Started::now();
    let output = execution.command.live().run(host).map_err(|mut failure| {
        // A command that failed to start is shown as one text, without output.
        let words = execution.shown.as_array().map(|words| words.iter().filter_map(Value::as_str));
        let shown = words.map(|words| Value::from(shell_words::join(words)));
        failure.data.insert("cmd".into(), shown.unwrap_or_else(|| execution.shown.clone()));
        failure
    })?;
    let mut data = skeleton(&execution.shown);
    let (rc, overlong, is_success) = (output.rc, output.overlong, output.success());
    data.insert("rc".into(), rc.into());
    insert_output(&mut data, output, execution.strip);
    data.extend(started.ended());
    if let Some(size) = overlong {
        // Truncated output is a failure, because a playbook would mistake it for the complete output.
        data.insert("changed".into(), true.into());
        let message = format!(
            "The command was run, and its output of {size} bytes is too long: at most {KEEP} bytes of stdout and of stderr fit into a \
             result. Only the beginning and the end are kept. Let the command write to a file (`> FILE` with the shell module), \
             and fetch that or pick out what is needed on the host."
        );
        return Err(Failure { message, data });
    }
    if !is_success {
        data.insert("changed".into(), true.into());
        data.insert("msg".into(), "non-zero return code".into());
        return Err(Failure { message: "non-zero return code".into(), data });
    }
    outcome.data.extend(data);
    Ok(())
}

/// Start of a command.
pub(super) struct Started(Zoned, Instant);

impl Started {
    pub(super) fn now() -> Started {
        Started(Zoned::now(), Instant::now())
    }

    /// Result keys for start, end and duration.
    pub(super) fn ended(&self) -> Map {
        let (took, ended) = (self.1.elapsed(), Zoned::now());
        let (seconds, micros) = (took.as_secs(), took.subsec_micros());
        let delta = format!("{}:{:02}:{:02}.{micros:06}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let keys = [("start", moment(&self.0)), ("end", moment(&ended)), ("delta", delta)];
        keys.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect()
    }
}

fn insert_output(data: &mut Map, output: Output, strip: bool) {
    let (stdout, stderr) = output.into_texts();
    for (key, mut text) in [("stdout", stdout), ("stderr", stderr)] {
        if strip {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        data.insert(key.to_owned(), text.into());
    }
}

fn moment(when: &Zoned) -> String {
    when.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

/// Result keys that are always present.
fn skeleton(shown: &Value) -> Map {
    let mut data = Map::new();
    data.insert("cmd".into(), shown.clone());
    for key in ["stdout", "stderr"] {
        data.insert(key.into(), "".into());
    }
    for key in ["rc", "start", "end", "delta"] {
        data.insert(key.into(), Value::Null);
    }
    data.insert("msg".into(), "".into());
    data
}

/// The bytes of `stdin`, if given.
pub(super) fn input(args: &Args) -> Option<Vec<u8>> {
    let mut text = args.str("stdin")?.to_owned();
    if args.bool("stdin_add_newline") {
        text.push('\n');
    }
    Some(text.into_bytes())
}
