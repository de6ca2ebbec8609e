//! Calls of kubectl: its connection options, and the selection of objects by kind, name and selectors.

use serde_json::Value;

use super::objects;
use crate::{
    Args, Failure, Host, Plan,
    process::{Command, Output},
};

/// Kubeconfig of the cluster's administrator on a control plane.
const ADMIN: &str = "/etc/kubernetes/admin.conf";

/// Settings of kubectl calls.
#[derive(Clone)]
pub(in crate::kubernetes) struct Kubectl {
    program: String,
    options: Vec<String>,
    request_timeout: i64,
}

impl Kubectl {
    pub(in crate::kubernetes) fn of(args: &Args) -> Kubectl {
        let mut options = Vec::new();
        let mut add = |option: &str, value: Option<String>| {
            if let Some(value) = value {
                options.push(format!("--{option}={value}"));
            }
        };
        let text = |name: &str| args.filled(name).map(str::to_owned);
        add("kubeconfig", text("kubeconfig"));
        add("context", text("context"));
        add("server", text("server"));
        add("v", args.int("log_level").filter(|level| *level > 0).map(|level| level.to_string()));
        Kubectl {
            program: args.str("kubectl").unwrap_or("kubectl").to_owned(),
            options,
            request_timeout: args.int("request_timeout").unwrap_or(30).max(1),
        }
    }

    /// In a dry run, predicts a change if the cluster does not exist yet, because an earlier task may be about to
    /// create it.
    pub(in crate::kubernetes) fn guess(&self, host: &Host) -> Option<Plan> {
        if let Some(guess) = super::super::guess_without(&self.program, host) {
            return Some(guess);
        }
        let given = self.options.iter().find_map(|option| option.strip_prefix("--kubeconfig="));
        let missing = given.filter(|path| host.dry_run() && !std::path::Path::new(path).exists())?;
        Some(Plan::change(|_, _| Ok(())).with_warning(format!(
            "{missing} is not on this host yet, so the cluster cannot be queried; a change is assumed."
        )))
    }

    /// Builds a kubectl command without a time limit.
    pub(super) fn command(&self, words: &[&str], host: &Host) -> Command {
        let mut command = Command::new(&self.program).plain_locale().args(words.iter().copied()).args(&self.options);
        let own =
            self.options.iter().any(|option| option.starts_with("--kubeconfig") || option.starts_with("--server"));
        if !own && host.variable("KUBECONFIG").is_none() && std::path::Path::new(ADMIN).exists() {
            command = command.arg(format!("--kubeconfig={ADMIN}"));
        }
        command
    }

    /// Runs a short query or change with a deadline for the answer.
    pub(in crate::kubernetes) fn ask(&self, words: &[&str], host: &Host) -> Result<Output, Failure> {
        self.command(words, host).arg(format!("--request-timeout={}s", self.request_timeout)).run(host)
    }

    /// Like `ask`, with standard input.
    pub(in crate::kubernetes) fn send(&self, words: &[&str], input: String, host: &Host) -> Result<Output, Failure> {
        self.command(words, host).arg(format!("--request-timeout={}s", self.request_timeout)).input(input).run(host)
    }

    /// Like `ask`, and fails if the command fails.
    pub(super) fn run(&self, words: &[&str], host: &Host) -> Result<Output, Failure> {
        let output = self.ask(words, host)?;
        if output.success() { Ok(output) } else { Err(failure(words, &output)) }
    }

    /// Reads the objects that the arguments name.
    pub(super) fn get(&self, args: &Args, host: &Host) -> Result<Vec<Value>, Failure> {
        self.find(&Target::of(args)?, host)
    }

    /// Reads the objects of a target.
    pub(super) fn find(&self, target: &Target, host: &Host) -> Result<Vec<Value>, Failure> {
        let output = self.run(&target.get(), host)?;
        objects::of_json(&output.stdout_text())
    }
}

/// The failure of a kubectl command, with kubectl's message.
pub(super) fn failure(words: &[&str], output: &Output) -> Failure {
    let shown = words.iter().take_while(|word| !word.starts_with('-')).copied().collect::<Vec<_>>().join(" ");
    Failure::new(format!("kubectl {shown} failed: {}", output.message()))
        .with("rc", output.rc)
        .with("stdout", output.stdout_text())
        .with("stderr", output.stderr_text())
}

/// Selects objects by kind, and by name or selectors.
pub(super) struct Target {
    pub(super) words: Vec<String>,
    pub(super) shown: String,
}

impl Target {
    pub(super) fn of(args: &Args) -> Result<Target, Failure> {
        let Some(kind) = args.filled("kind") else {
            return Err(Failure::new("Say which objects are meant: kind, and name or label_selector."));
        };
        let mut words = vec![kind.to_owned()];
        let mut shown = kind.to_owned();
        if let Some(name) = args.filled("name") {
            words.push(name.to_owned());
            shown = format!("{kind}/{name}");
        }
        if let Some(namespace) = args.filled("namespace") {
            words.push(format!("--namespace={namespace}"));
        }
        if let Some(selector) = args.filled("label_selector") {
            words.push(format!("--selector={selector}"));
            shown = format!("{shown} with {selector}");
        }
        if let Some(selector) = args.filled("field_selector") {
            words.push(format!("--field-selector={selector}"));
        }
        if args.bool("all_namespaces") {
            words.push("--all-namespaces".into());
        }
        Ok(Target { words, shown })
    }

    /// The kubectl arguments that read the objects.
    pub(super) fn get(&self) -> Vec<&str> {
        let mut words = vec!["get"];
        words.extend(self.words.iter().map(String::as_str));
        words.extend(["--ignore-not-found", "-o", "json"]);
        words
    }
}
