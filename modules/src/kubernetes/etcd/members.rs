//! Adds, promotes and removes members.

use std::time::{Duration, Instant};

use super::{
    super::quorum::{Change, Kind, judge},
    client::Client,
    cluster::{self, Member, Observed, Wanted, list},
    lock::Lock,
};
use crate::{Args, Failure, Host, Plan};

/// Longest wait for stable connections between the members.
const SETTLED: Duration = Duration::from_secs(20);

/// `state: member_add`.
pub(super) fn plan_add(client: &Client, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let name = args.required("name")?.to_owned();
    let peers: Vec<String> = args.list("peer_urls").into_iter().map(str::to_owned).collect();
    let known = client.members(host)?;
    if let Some(member) = known.iter().find(|member| member.peer_urls.iter().any(|url| peers.contains(url))) {
        if !member.name.is_empty() && member.name != name {
            return Err(Failure::new(format!(
                "The etcd member at {} is called {}, not {name}. Remove it first, or give this one another address.",
                member.peer_urls.join(", "),
                member.name
            )));
        }
        return Ok(Plan::unchanged().with("members", list(&known, None)));
    }
    if let Some(member) = known.iter().find(|member| member.name == name) {
        return Err(Failure::new(format!(
            "etcd member {name} exists already, at {}. Remove it before it is added at {}.",
            member.peer_urls.join(", "),
            peers.join(", ")
        )));
    }
    let observed = client.observe_members(host, known)?;
    let learner = args.bool("learner");
    let verdict = judge(Kind::Etcd, &observed.standings(), if learner { Change::AddLearner } else { Change::Add });
    let client = client.clone();
    let limit = args.seconds("wait", 120).min(SETTLED);
    let before = list(&observed.members, None);
    let override_it = args.bool("allow_unsafe");
    verdict.apply(override_it, || {
        Ok(Plan::change(move |host, outcome| {
            let lock = Lock::take(&client, client.longest() + limit, host)?;
            if !override_it {
                let change = if learner { Change::AddLearner } else { Change::Add };
                judge(Kind::Etcd, &lock.observe()?.standings(), change).check(false)?;
                lock.renew()?;
            }
            let urls = format!("--peer-urls={}", peers.join(","));
            let mut words = vec!["member", "add", &name, &urls];
            if learner {
                words.push("--learner");
            }
            let answer = add(&client, &words, limit, host)?;
            // etcdctl 3.4 returns the whole list; for later versions, the list is queried again.
            let members = cluster::members(&answer).or_else(|_| client.members(host))?;
            outcome.set("members", list(&members, None));
            Ok(())
        })
        .with("members", before))
    })
}

/// Adds a member. Retries because etcd refuses until its members have been connected for five seconds.
fn add(client: &Client, words: &[&str], limit: Duration, host: &Host) -> Result<String, Failure> {
    let deadline = Instant::now() + limit;
    loop {
        match client.run(host, words) {
            Err(failure) if failure.message.contains("unhealthy cluster") && Instant::now() < deadline => {
                host.check_cancelled()?;
                std::thread::sleep(Duration::from_secs(1));
            }
            result => return result,
        }
    }
}

/// `state: member_promote`. The learner has to run and to have caught up; `wait` limits the time for that.
pub(super) fn plan_promote(client: &Client, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let wanted = Wanted::of(args)?;
    let observed = client.observe(host)?;
    let Some((at, learner)) = observed.find(&wanted).next() else {
        return Err(Failure::new(format!(
            "No etcd member is called {wanted}, so none can be promoted. The cluster has {}.",
            observed.called()
        )));
    };
    if !learner.learner {
        return Ok(Plan::unchanged().with("members", list(&observed.members, None)));
    }
    let id = learner.id;
    let before = list(&observed.members, None);
    let override_it = args.bool("allow_unsafe");
    let limit = args.seconds("wait", 120);
    let client = client.clone();
    judge(Kind::Etcd, &observed.standings(), Change::Promote(at)).apply(override_it, || {
        Ok(Plan::change(move |host, outcome| {
            let deadline = Instant::now() + limit;
            loop {
                match promote(&client, id, override_it, host) {
                    Ok(()) => break,
                    Err(failure) if Instant::now() >= deadline => return Err(failure),
                    Err(_) => {
                        host.check_cancelled()?;
                        std::thread::sleep(Duration::from_secs(1));
                    }
                }
            }
            outcome.set("members", list(&client.members(host)?, None));
            Ok(())
        })
        .with("members", before))
    })
}

/// Promotes a learner if it answers. etcd itself checks only what the learner received, not whether it still runs.
fn promote(client: &Client, id: u64, override_it: bool, host: &Host) -> Result<(), Failure> {
    let lock = Lock::take(client, client.longest(), host)?;
    let observed = lock.observe()?;
    let Some((at, learner)) = observed.members.iter().enumerate().find(|(_, member)| member.id == id) else {
        return Err(Failure::new("The learner was removed during the wait for it."));
    };
    if !learner.learner {
        return Ok(());
    }
    if !client.serves(host, &learner.client_urls)? {
        return Err(Failure::new(format!(
            "The learner {} is not promoted, because it does not run or does not answer. Start it first.",
            learner.called()
        )));
    }
    judge(Kind::Etcd, &observed.standings(), Change::Promote(at)).check(override_it)?;
    if !override_it {
        lock.renew()?;
    }
    client.run(host, &["member", "promote", &learner.id()]).map(|_| ())
}

/// `state: member_remove`, for one or more members.
pub(super) fn plan_remove(client: &Client, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let wanted = Wanted::of(args)?;
    let observed = client.observe(host)?;
    let leaving: Vec<usize> = observed.find(&wanted).map(|(at, _)| at).collect();
    if leaving.is_empty() {
        return Ok(Plan::unchanged().with("members", list(&observed.members, None)));
    }
    let override_it = args.bool("allow_unsafe");
    let verdict = judge(Kind::Etcd, &observed.standings(), Change::Remove(&leaving));
    let before = list(&observed.members, Some(&observed.health));
    let targets = order(&observed, &leaving);
    let client = client.clone();
    verdict
        .apply(override_it, || {
            Ok(Plan::change(move |host, outcome| {
                let staying = client.without(&targets);
                let lock = Lock::take(&staying, client.longest(), host)?;
                for (number, target) in targets.iter().enumerate() {
                    // A member may have failed, or another task may have removed some, since the last check.
                    let observed = lock.observe()?;
                    let rest: Vec<usize> = observed.positions(targets.get(number..).unwrap_or_default());
                    if !observed.members.iter().any(|member| member.id == target.id) {
                        continue;
                    }
                    judge(Kind::Etcd, &observed.standings(), Change::Remove(&rest)).check(override_it)?;
                    if !override_it {
                        lock.renew()?;
                    }
                    staying.run(host, &["member", "remove", &target.id()])?;
                }
                let rest: Vec<Member> = client.without(&targets).members(host).unwrap_or_default();
                outcome.set("members", list(&rest, None));
                Ok(())
            })
            .with("members", before.clone()))
        })
        .map_err(|failure| failure.with("members", before))
}

/// Order of removal. Members that do not answer go first, because removing them lowers the required majority at no
/// cost.
fn order(observed: &Observed, leaving: &[usize]) -> Vec<Member> {
    let mut targets: Vec<Member> = leaving.iter().filter_map(|at| observed.members.get(*at)).cloned().collect();
    targets.sort_by_key(|member| member.healthy(&observed.health));
    targets
}
