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
    let wanted = Wanted::of(args)?;
    let service = args.str("service").unwrap_or("etcd.service").to_owned();
    let limit = args.seconds("wait", 120);
    let override_it = args.bool("allow_unsafe");
    let active = Command::new("systemctl").args(["is-active", "--quiet", &service]).run(host)?.success();
    let restart = |client: Client| Plan::change(move |host, _| apply_restart(&client, &wanted, &service, limit, host));
    // A member that is down cannot reduce the majority further.
    if !active {
        return Ok(restart(client.clone()));
    }
    let reason = match client.observe(host) {
        Ok(observed) => match refuse_restart(&observed, &Wanted::of(args)?) {
            None => return Ok(restart(client.clone())),
            Some(reason) => reason,
        },
        Err(_) if without_majority(client, host)? => return Ok(restart(client.clone())),
        Err(failure) => format!(
            "Refusing to restart etcd: no member answers, so nobody knows whether the others have a majority ({}). Check `endpoints` and \
             the certificates.",
            failure.message
        ),
    };
    Verdict::Refused(reason).apply(override_it, || Ok(restart(client.clone())))
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

fn apply_restart(client: &Client, wanted: &Wanted, service: &str, limit: Duration, host: &Host) -> Result<(), Failure> {
    let deadline = Instant::now() + limit;
    let command = Command::new("systemctl").args(["restart", service]);
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
