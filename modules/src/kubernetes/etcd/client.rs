//! Runs etcdctl.

use std::time::Duration;

use serde_json::Value;

use super::cluster::{self, Health, Member, Observed};
use crate::{Args, Failure, Host, process::Command};

/// Invocation of etcdctl.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) program: String,
    pub(super) endpoints: Vec<String>,
    credentials: Vec<String>,
    timeout: i64,
}

impl Client {
    pub(super) fn of(args: &Args) -> Client {
        let credentials = ["cacert", "cert", "key"]
            .into_iter()
            .filter_map(|name| Some(format!("--{name}={}", args.str(name)?)))
            .collect();
        Client {
            program: args.str("etcdctl").unwrap_or("etcdctl").to_owned(),
            endpoints: args.list("endpoints").into_iter().map(str::to_owned).collect(),
            credentials,
            timeout: args.int("timeout").unwrap_or(10).max(1),
        }
    }

    /// The client of members in pods of control planes, with kubeadm's certificates in `folder`.
    pub(super) fn stacked(program: &str, folder: &str, endpoints: Vec<String>) -> Client {
        let file = |option: &str, name: &str| format!("--{option}={folder}/{name}");
        Client {
            program: program.to_owned(),
            endpoints,
            credentials: vec![
                file("cacert", "ca.crt"),
                file("cert", "healthcheck-client.crt"),
                file("key", "healthcheck-client.key"),
            ],
            timeout: 5,
        }
    }

    /// Longest time of a command that changes the cluster.
    pub(super) fn longest(&self) -> Duration {
        2 * Duration::from_secs(self.timeout.unsigned_abs())
    }

    pub(super) fn command(&self, endpoints: &[String]) -> Command {
        Command::new(&self.program)
            .plain_locale()
            .variable("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", endpoints.join(",")))
            .args(&self.credentials)
            .arg(format!("--command-timeout={}s", self.timeout))
            .args(["-w", "json"])
    }

    /// Runs a command that must succeed.
    pub(super) fn run(&self, host: &Host, words: &[&str]) -> Result<String, Failure> {
        self.finish(self.command(&self.endpoints), host, words)
    }

    /// Runs a command that reads standard input and must succeed.
    pub(super) fn feed(&self, host: &Host, words: &[&str], input: &str) -> Result<String, Failure> {
        self.finish(self.command(&self.endpoints).input(input), host, words)
    }

    fn finish(&self, command: Command, host: &Host, words: &[&str]) -> Result<String, Failure> {
        let output = command.args(words.iter().copied()).run(host)?;
        if output.success() {
            return Ok(output.stdout_text());
        }
        let error = output.stderr_text();
        let reason = error
            .lines()
            .rev()
            .find(|line| line.starts_with("Error"))
            .or_else(|| error.lines().next_back())
            .unwrap_or_default();
        let message = format!("etcdctl {} failed at {}: {reason}", words.join(" "), self.endpoints.join(", "));
        Err(Failure::new(message).with("rc", output.rc).with("stdout", output.stdout_text()).with("stderr", error))
    }

    pub(super) fn members(&self, host: &Host) -> Result<Vec<Member>, Failure> {
        cluster::members(&self.run(host, &["member", "list"])?)
    }

    /// Health of the given endpoints. An unhealthy endpoint is a valid answer, not a failure.
    pub(super) fn health(&self, host: &Host, endpoints: &[String]) -> Result<Vec<Health>, Failure> {
        if endpoints.is_empty() {
            return Ok(Vec::new());
        }
        let output = self.command(endpoints).args(["endpoint", "health"]).run(host)?;
        cluster::health(&output.stdout_text()).map_err(|failure| {
            let error = output.stderr_text();
            let reason = error.lines().next_back().unwrap_or_default();
            Failure::new(format!("{} etcdctl printed: {reason}", failure.message)).with("stderr", error.as_str())
        })
    }

    /// Members, and the health of each.
    pub(super) fn observe(&self, host: &Host) -> Result<Observed, Failure> {
        let members = self.members(host)?;
        self.observe_members(host, members)
    }

    /// Health of members from an earlier query.
    pub(super) fn observe_members(&self, host: &Host, members: Vec<Member>) -> Result<Observed, Failure> {
        let urls: Vec<String> = members.iter().flat_map(|member| member.client_urls.clone()).collect();
        let health = self.health(host, &urls)?;
        Ok(Observed { members, health })
    }

    /// Answers of `endpoint status`, which works on learners and without a majority.
    pub(super) fn statuses(&self, host: &Host, endpoints: &[String]) -> Result<Vec<Value>, Failure> {
        if endpoints.is_empty() {
            return Ok(Vec::new());
        }
        let output = self.command(endpoints).args(["endpoint", "status"]).run(host)?;
        Ok(serde_json::from_str(output.stdout_text().trim()).unwrap_or_default())
    }

    /// Whether a member runs at one of these addresses.
    pub(super) fn serves(&self, host: &Host, endpoints: &[String]) -> Result<bool, Failure> {
        Ok(!self.statuses(host, endpoints)?.is_empty())
    }

    /// The client restricted to one address.
    pub(super) fn at(&self, endpoint: &str) -> Client {
        Client { endpoints: vec![endpoint.to_owned()], ..self.clone() }
    }

    /// The client restricted to the addresses that reach a majority.
    pub(super) fn healthy(&self, host: &Host) -> Client {
        let health = self.health(host, &self.endpoints).unwrap_or_default();
        let answers = |url: &&String| health.iter().any(|endpoint| endpoint.health && endpoint.endpoint == **url);
        Client { endpoints: self.endpoints.iter().filter(answers).cloned().collect(), ..self.clone() }
    }

    /// The client without the addresses of leaving members, unless none would remain.
    pub(super) fn without(&self, leaving: &[Member]) -> Client {
        let leaves = |url: &&String| !leaving.iter().any(|member| member.client_urls.contains(url));
        let others: Vec<String> = self.endpoints.iter().filter(leaves).cloned().collect();
        Client { endpoints: if others.is_empty() { self.endpoints.clone() } else { others }, ..self.clone() }
    }
}
