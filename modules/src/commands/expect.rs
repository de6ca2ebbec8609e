//! `expect`: runs a command and answers its prompts.

use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
    os::{fd::AsFd, unix::process::ExitStatusExt},
    process::Child,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process_group},
    termios::{LocalModes, Termios},
};
use serde_json::Value;
use windlass_protocol::Stream;
use windlass_python_regex::{Flags, Pattern, compile};

use super::execution::{self, CHDIR, CREATES, REMOVES, check_directory};
use crate::{Args, Check, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Spec, process, terminal};

/// The `expect` module.
pub struct Expect;

static SPEC: Spec = Spec {
    name: "expect",
    summary: "Run a command and answer its prompts",
    description: &[
        "Runs the command on a separate terminal. Whenever the output matches a regular expression of `responses`, \
         types the answer. A list answers successive matches in order.",
        "Uses no shell; run `/bin/bash -c \"...\"` for one. Stops the command if no expected prompt appears within \
         `timeout` seconds.",
    ],
    options: &[
        Opt::required("command", Kind::Str, "Command to run."),
        CREATES,
        REMOVES,
        CHDIR,
        Opt::required("responses", Kind::Dict, "Answers by regular expression."),
        Opt::new("timeout", Kind::Raw, "Seconds to wait for the next prompt or the end; null waits forever.")
            .default("30"),
        Opt::new("echo", Kind::Bool, "Include typed answers in the output.").default("false"),
    ],
    check: Check::None,
    examples: "- name: Answer a question\n  ansible.builtin.expect:\n    command: passwd ada\n    responses:\n      (?i)password: \"{{ password }}\"\n  no_log: true\n",
    returns: execution::RETURNS,
    ..Spec::EMPTY
}
.compiled();

impl Module for Expect {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let text = args.required("command")?.to_owned();
        let timeout = match args.value("timeout") {
            None => None,
            Some(value) => Some(seconds(value)?),
        };
        let rules = rules(args)?;
        if text.trim().is_empty() {
            return Err(Failure::new("no command given").with("rc", 256));
        }
        let shown = Value::from(text.as_str());
        check_directory(args, &shown)?;
        if let Some(mut answer) = execution::not_needed(args, host, &shown)? {
            // A terminal has a single output stream.
            answer.outcome.data.retain(|key, _| key != "msg" && key != "stderr");
            return Ok(answer);
        }
        let words = super::split(&text)?;
        let (echo, directory) = (args.bool("echo"), args.str("chdir").map(str::to_owned));
        Ok(Plan::change(move |host, outcome| {
            let command = command(&words, directory.as_deref(), host)?;
            let started = execution::Started::now();
            let arrange = |settings: &mut Termios| settings.local_modes.set(LocalModes::ECHO, echo);
            let (child, control) = terminal::spawn(command, arrange)
                .map_err(|error| Failure::new(format!("{text} could not be started: {}.", process::reason(&error))))?;
            let mut dialogue = Dialogue { child, control, timeout, output: Vec::new(), pending: String::new() };
            let rc = dialogue.run(rules, host)?;
            let said = String::from_utf8_lossy(&dialogue.output).trim_end_matches(['\r', '\n']).to_owned();
            let mut data = started.ended();
            data.insert("cmd".into(), text.as_str().into());
            data.insert("stdout".into(), said.into());
            data.insert("rc".into(), rc.map_or(Value::Null, Value::from));
            finish(rc, data, outcome)
        }))
    }
}

fn finish(rc: Option<i32>, data: Map, outcome: &mut Outcome) -> Result<(), Failure> {
    let message = match rc {
        Some(0) => {
            outcome.data.extend(data);
            return Ok(());
        }
        Some(_) => "non-zero return code",
        None => "command exceeded timeout",
    };
    let mut failure = Failure { message: message.to_owned(), data };
    failure.data.insert("changed".into(), true.into());
    Err(failure)
}

fn seconds(value: &Value) -> Result<Duration, Failure> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.map(Duration::from_secs).ok_or_else(|| {
        Failure::new(format!("argument 'timeout' cannot be converted to an int: {value} is not a number of seconds."))
    })
}

/// The program and its arguments, found through the task's environment.
fn command(words: &[String], directory: Option<&str>, host: &Host) -> Result<std::process::Command, Failure> {
    let (program, rest) = words.split_first().map_or(("", &[][..]), |(program, rest)| (program.as_str(), rest));
    let found = process::find(host, program)
        .ok_or_else(|| Failure::new(format!("The command was not found or was not executable: {program}.")))?;
    let mut command = std::process::Command::new(found);
    command.args(rest).envs(host.environment());
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    Ok(command)
}

/// A prompt and its answers.
struct Rule {
    question: String,
    pattern: Arc<Pattern>,
    answers: Answers,
}

enum Answers {
    Always(String),
    InTurn(std::vec::IntoIter<String>),
}

fn rules(args: &Args) -> Result<Vec<Rule>, Failure> {
    let Some(Value::Object(responses)) = args.value("responses") else { return Ok(Vec::new()) };
    let line = |value: &Value| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null => "None".to_owned(),
            Value::Bool(value) => (if *value { "True" } else { "False" }).to_owned(),
            other => other.to_string(),
        };
        format!("{}\n", text.trim_end_matches('\n'))
    };
    let rules = responses.iter().map(|(question, answer)| {
        let pattern = compile(&format!("(?s){question}"), Flags::default()).map_err(|message| {
            Failure::new(format!("responses has a question that is not a regular expression: {message}."))
        })?;
        let answers = match answer {
            Value::Array(items) => Answers::InTurn(items.iter().map(line).collect::<Vec<_>>().into_iter()),
            other => Answers::Always(line(other)),
        };
        Ok(Rule { question: question.clone(), pattern, answers })
    });
    rules.collect()
}

/// A running command and its output so far.
struct Dialogue {
    child: Child,
    control: File,
    timeout: Option<Duration>,
    output: Vec<u8>,
    /// Output that has not matched a prompt yet.
    pending: String,
}

impl Dialogue {
    /// Answers prompts until the command ends. Returns the exit status; `None` if the command had to be stopped.
    fn run(&mut self, mut rules: Vec<Rule>, host: &Host) -> Result<Option<i32>, Failure> {
        let mut waiting = Instant::now();
        let mut buffer = vec![0; 16 << 10];
        loop {
            host.check_cancelled()?;
            if self.timeout.is_some_and(|timeout| waiting.elapsed() >= timeout) {
                return Ok(None);
            }
            if !self.ready()? {
                continue;
            }
            let count = match self.control.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Linux reports this error once no process holds the terminal open.
                Err(_) => 0,
            };
            if count == 0 {
                break;
            }
            let bytes = buffer.get(..count).unwrap_or_default();
            host.output(Stream::Stdout, bytes);
            self.output.extend_from_slice(bytes);
            self.pending.push_str(&String::from_utf8_lossy(bytes));
            while let Some((index, end)) = first_question(&rules, &self.pending)? {
                self.pending.drain(..end);
                if let Some(rule) = rules.get_mut(index) {
                    self.answer(rule)?;
                }
                waiting = Instant::now();
            }
        }
        let status = self.child.wait();
        let status = status.map_err(|error| Failure::new(format!("The process could not be awaited: {error}.")))?;
        Ok(Some(status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(-1)))
    }

    fn answer(&mut self, rule: &mut Rule) -> Result<(), Failure> {
        let text = match &mut rule.answers {
            Answers::Always(text) => text.clone(),
            Answers::InTurn(rest) => rest.next().ok_or_else(|| {
                let said = String::from_utf8_lossy(&self.output).into_owned();
                Failure::new(format!("No remaining responses for '{}', output was '{said}'", rule.question))
            })?,
        };
        // The command may have ended; its exit status shows that.
        let _ = self.control.write_all(text.as_bytes());
        Ok(())
    }

    fn ready(&self) -> Result<bool, Failure> {
        let tick = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        match poll(&mut [PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN)], Some(&tick)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(Failure::new(format!("The output of the process could not be read: {error}."))),
        }
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // The command leads its own session, and thus a process group.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::HUP);
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// The first prompt in the output, and its end position.
fn first_question(rules: &[Rule], text: &str) -> Result<Option<(usize, usize)>, Failure> {
    let mut first: Option<(usize, usize, usize)> = None;
    for (index, rule) in rules.iter().enumerate() {
        let found = rule.pattern.find_at(text, 0).map_err(Failure::new)?;
        if let Some(found) = found.filter(|found| first.is_none_or(|(start, ..)| found.start() < start)) {
            first = Some((found.start(), index, found.end()));
        }
    }
    // An empty match would be answered forever.
    Ok(first.filter(|(_, _, end)| *end > 0).map(|(_, index, end)| (index, end)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(arguments: Value) -> Value {
        crate::run(&Expect, &arguments, &Host::alone())
    }

    #[test]
    fn prompts_answered_in_order() {
        let script = "sh -c 'printf \"Name? \"; read a; printf \"Name? \"; read b; printf \"Sure (y/n)? \"; read c; echo $a-$b-$c'";
        let result = run(json!({"command": script, "responses": {"Name\\?": ["ada", "bob"], "(?i)sure": true}}));
        assert_eq!(result["rc"], 0, "{result}");
        assert_eq!(result["stdout"], "Name? Name? Sure (y/n)? ada-bob-True");
        let short = run(json!({"command": script, "responses": {"Name\\?": ["ada"]}}));
        assert!(short["msg"].as_str().unwrap().starts_with("No remaining responses for 'Name\\?'"), "{short}");
    }

    #[test]
    fn command_without_expected_prompt_stopped() {
        let result = run(json!({"command": "sh -c 'echo here; read x'", "responses": {"never": "y"}, "timeout": 1}));
        assert_eq!((&result["msg"], &result["rc"]), (&json!("command exceeded timeout"), &Value::Null));
        assert_eq!(result["stdout"], "here");
        let failed = run(json!({"command": "sh -c 'exit 3'", "responses": {}}));
        assert_eq!((&failed["msg"], &failed["rc"]), (&json!("non-zero return code"), &json!(3)));
    }

    #[test]
    fn typed_answers_shown_with_echo() {
        let arguments = |echo: bool| json!({"command": "sh -c 'printf Q; read x; echo done'", "responses": {"Q": "typed"}, "echo": echo});
        assert_eq!(run(arguments(true))["stdout"], "Qtyped\r\ndone");
        assert_eq!(run(arguments(false))["stdout"], "Qdone");
        for bad in [
            json!({"command": " ", "responses": {}}),
            json!({"command": "no-such-program", "responses": {}}),
            json!({"command": "true", "responses": {"(": "x"}}),
        ] {
            assert_eq!(run(bad)["failed"], true);
        }
    }
}
