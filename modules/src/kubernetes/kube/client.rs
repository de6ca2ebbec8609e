use serde_json::Value;

use super::objects;
use crate::{
    Args, Failure, Host, Plan,
    process::{Command, Output},
};

/// The file with which a node's administrator reaches its cluster.
const ADMIN: &str = "/etc/kubernetes/admin.conf";

/// How kubectl is called.
#[derive(Clone)]
pub(super) struct Client {
    program: String,
    options: Vec<String>,
    request_timeout: i64,
}

impl Client {
    pub(super) fn of(args: &Args) -> Client {
        let mut options = Vec::new();
        let mut add = |option: &str, value: Option<String>| {
            if let Some(value) = value {
                options.push(format!("--{option}={value}"));
            }
        };
        let text = |name: &str| args.str(name).filter(|value| !value.is_empty()).map(str::to_owned);
        add("kubeconfig", text("kubeconfig"));
        add("context", text("context"));
        add("server", text("server"));
        add("v", args.int("log_level").filter(|level| *level > 0).map(|level| level.to_string()));
        Client {
            program: args.str("kubectl").unwrap_or("kubectl").to_owned(),
            options,
            request_timeout: args.int("request_timeout").unwrap_or(30).max(1),
        }
    }

    /// In a dry run, a cluster that an earlier task would have made cannot be asked.
    pub(super) fn guess(&self, host: &Host) -> Option<Plan> {
        if let Some(guess) = super::super::guess_without(&self.program, host) {
            return Some(guess);
        }
        let given = self.options.iter().find_map(|option| option.strip_prefix("--kubeconfig="));
        let missing = given.filter(|path| host.dry_run() && !std::path::Path::new(path).exists())?;
        Some(Plan::change(|_, _| Ok(())).with_warning(format!(
            "{missing} is not on this host yet, so the cluster cannot be asked; a change is assumed."
        )))
    }

    /// A command of kubectl. It speaks to the API server for as long as the command needs.
    pub(super) fn command(&self, words: &[&str], host: &Host) -> Command {
        let mut command = Command::new(&self.program).plain_locale().args(words.iter().copied()).args(&self.options);
        let own =
            self.options.iter().any(|option| option.starts_with("--kubeconfig") || option.starts_with("--server"));
        if !own && host.variable("KUBECONFIG").is_none() && std::path::Path::new(ADMIN).exists() {
            command = command.arg(format!("--kubeconfig={ADMIN}"));
        }
        command
    }

    /// A short question or change, with a deadline for the answer.
    pub(super) fn ask(&self, words: &[&str], host: &Host) -> Result<Output, Failure> {
        self.command(words, host).arg(format!("--request-timeout={}s", self.request_timeout)).run(host)
    }

    /// One that must succeed.
    pub(super) fn run(&self, words: &[&str], host: &Host) -> Result<Output, Failure> {
        let output = self.ask(words, host)?;
        if output.success() { Ok(output) } else { Err(failure(words, &output)) }
    }

    /// The objects that the arguments speak of.
    pub(super) fn get(&self, args: &Args, host: &Host) -> Result<Vec<Value>, Failure> {
        self.find(&Target::of(args)?, host)
    }

    /// These objects.
    pub(super) fn find(&self, target: &Target, host: &Host) -> Result<Vec<Value>, Failure> {
        let output = self.run(&target.get(), host)?;
        objects::of_json(&output.stdout_text())
    }
}

/// The failure of a kubectl command, in its own words.
pub(super) fn failure(words: &[&str], output: &Output) -> Failure {
    let error = output.stderr_text();
    let said = if error.trim().is_empty() { output.stdout_text() } else { error.clone() };
    let shown = words.iter().take_while(|word| !word.starts_with('-')).copied().collect::<Vec<_>>().join(" ");
    Failure::new(format!("kubectl {shown} failed: {}", said.trim()))
        .with("rc", output.rc)
        .with("stdout", output.stdout_text())
        .with("stderr", error)
}

/// Objects by kind, and by name or selectors.
pub(super) struct Target {
    pub(super) words: Vec<String>,
    pub(super) shown: String,
}

impl Target {
    pub(super) fn of(args: &Args) -> Result<Target, Failure> {
        let Some(kind) = args.str("kind").filter(|kind| !kind.is_empty()) else {
            return Err(Failure::new("Say which objects are meant: kind, and name or label_selector."));
        };
        let mut words = vec![kind.to_owned()];
        let mut shown = kind.to_owned();
        if let Some(name) = args.str("name").filter(|name| !name.is_empty()) {
            words.push(name.to_owned());
            shown = format!("{kind}/{name}");
        }
        let option = |name: &str| args.str(name).filter(|value| !value.is_empty());
        if let Some(namespace) = option("namespace") {
            words.push(format!("--namespace={namespace}"));
        }
        if let Some(selector) = option("label_selector") {
            words.push(format!("--selector={selector}"));
            shown = format!("{shown} with {selector}");
        }
        if let Some(selector) = option("field_selector") {
            words.push(format!("--field-selector={selector}"));
        }
        if args.bool("all_namespaces") {
            words.push("--all-namespaces".into());
        }
        Ok(Target { words, shown })
    }

    /// The words of a command that reads them.
    pub(super) fn get(&self) -> Vec<&str> {
        let mut words = vec!["get"];
        words.extend(self.words.iter().map(String::as_str));
        words.extend(["--ignore-not-found", "-o", "json"]);
        words
    }
}
