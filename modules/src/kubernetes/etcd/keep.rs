//! Stops and restarts members without losing the majority.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    super::{
        deadline::run_within,
        quorum::{Change, Kind, Verdict, judge},
    },
    client::Client,
    cluster::{Observed, Wanted, list},
    lock::Lock,
};
use crate::{Args, Failure, Host, Plan, process::Command};

/// `state: can_stop`. Changes nothing; fails if the members that stay would have no majority.
pub(super) fn plan_can_stop(client: &Client, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let wanted = Wanted::of(args)?;
    let override_it = args.bool("allow_unsafe");
    let observed = match client.observe(host) {
        Ok(observed) => observed,
        Err(failure) => return unanswered(args, &wanted, failure),
    };
    let leaving: Vec<usize> = observed.find(&wanted).map(|(at, _)| at).collect();
    let verdict = judge(Kind::Etcd, &observed.standings(), Change::Stop(&leaving));
    let whole = verdict == Verdict::WholeCluster;
    let members = list(&observed.members, Some(&observed.health));
    verdict
        .apply(override_it, || Ok(Plan::unchanged().with("whole_cluster", whole).with("members", members.clone())))
        .map_err(|failure| failure.with("members", members))
}

/// Decides from the caller's list of members, because no member answers.
fn unanswered(args: &Args, wanted: &Wanted, failure: Failure) -> Result<Plan, Failure> {
    let expected = args.list("expected");
    let whole = !expected.is_empty() && expected.iter().all(|name| wanted.names.iter().any(|wanted| wanted == name));
    let plan = Plan::unchanged().with("whole_cluster", whole).with("members", json!([]));
    if whole {
        return Ok(plan);
    }
    let reason = format!(
        "Refusing to stop {wanted}: no etcd member answers, so nobody knows whether the others have a majority ({}). First bring the \
         members back.",
        failure.message
    );
    Verdict::Refused(reason).apply(args.bool("allow_unsafe"), || Ok(plan))
}

/// `state: restarted`: restarts one member and waits until it is healthy.
pub(super) fn plan_restart(client: &Client, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let member = Own { wanted: Wanted::of(args)?, service: args.str("service").unwrap_or("etcd.service").to_owned() };
    let limit = args.seconds("wait", 120);
    let override_it = args.bool("allow_unsafe");
    let restart = member.judge(client, host)?;
    let client = client.clone();
    let plan = Plan::change(move |host, _| {
        let lock = Lock::take(&client, limit, host)?;
        // Another member may have failed, or may be restarting, since the first judgement.
        match member.judge(lock.pinned(), host)? {
            Restart::Allowed if !override_it => lock.renew()?,
            Restart::Refused(reason) => Verdict::Refused(reason).check(override_it)?,
            Restart::Allowed | Restart::Harmless => {}
        }
        apply_restart(&client, &member, limit, host)
    });
    match restart {
        Restart::Refused(reason) => Verdict::Refused(reason).apply(override_it, || Ok(plan)),
        Restart::Allowed | Restart::Harmless => Ok(plan),
    }
}

/// The member on this host.
struct Own {
    wanted: Wanted,
    service: String,
}

/// Judgement of a restart.
enum Restart {
    /// The others are a majority.
    Allowed,
    /// The member is down, or no majority exists.
    Harmless,
    Refused(String),
}

impl Own {
    fn judge(&self, client: &Client, host: &Host) -> Result<Restart, Failure> {
        // A member that is down cannot reduce the majority further.
        if !Command::new("systemctl").args(["is-active", "--quiet", &self.service]).run(host)?.success() {
            return Ok(Restart::Harmless);
        }
        Ok(match client.observe(host) {
            Ok(observed) => refuse_restart(&observed, &self.wanted).map_or(Restart::Allowed, Restart::Refused),
            Err(_) if without_majority(client, host)? => Restart::Harmless,
            Err(failure) => Restart::Refused(format!(
                "Refusing to restart etcd: no member answers, so nobody knows whether the others have a majority ({}). Check `endpoints` \
                 and the certificates.",
                failure.message
            )),
        })
    }
}

/// Whether members run without a majority, so that nothing can be lost. Such members answer only `endpoint status`.
fn without_majority(client: &Client, host: &Host) -> Result<bool, Failure> {
    let healthy = client.health(host, &client.endpoints)?.iter().any(|endpoint| endpoint.health);
    Ok(!healthy && client.serves(host, &client.endpoints)?)
}

fn refuse_restart(observed: &Observed, wanted: &Wanted) -> Option<String> {
    let Some((at, _)) = observed.find(wanted).next() else {
        return Some(format!(
            "Refusing to restart etcd: no member is called {wanted}; the cluster has {}. Set `name` or `peer_urls` of the member on this host.",
            observed.called()
        ));
    };
    match judge(Kind::Etcd, &observed.standings(), Change::Restart(at)) {
        Verdict::Refused(reason) => Some(reason),
        Verdict::Allowed | Verdict::WholeCluster => None,
    }
}

fn apply_restart(client: &Client, member: &Own, limit: Duration, host: &Host) -> Result<(), Failure> {
    let Own { wanted, service } = member;
    let deadline = Instant::now() + limit;
    let command = Command::new("systemctl").args(["restart", service.as_str()]);
    let words = command.words();
    let output = run_within(command, host, limit)?;
    if !output.success() {
        return Err(output.failure(&words));
    }
    loop {
        let seen = client
            .observe(host)
            .map(|observed| observed.find(wanted).next().is_some_and(|(_, member)| member.healthy(&observed.health)));
        let reason = match seen {
            Ok(true) => return Ok(()),
            Ok(false) => "it does not answer as a member".to_owned(),
            Err(failure) => failure.message,
        };
        if Instant::now() >= deadline {
            return Err(Failure::new(format!(
                "etcd was restarted, but {wanted} was not healthy within {} seconds ({reason}). Look at the journal of {service} before \
                 another member is restarted.",
                limit.as_secs()
            )));
        }
        host.check_cancelled()?;
        std::thread::sleep(Duration::from_secs(1));
    }
}
