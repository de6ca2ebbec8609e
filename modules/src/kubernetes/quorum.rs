//! Rules that protect the majority of a cluster when members are added, promoted, removed, stopped or restarted.
//!
//! Every path that changes etcd members or control planes calls [`judge`]. It is a pure function of the members'
//! conditions, which the modules observe.

use crate::{Failure, Plan};

/// Condition of a member, as seen from the querying host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// A voter that answered. An etcd member answers only while it reaches a majority.
    Healthy,
    /// A voter that did not answer: killed, partitioned or too slow.
    Unhealthy,
    /// A voter that was announced and has never run. It still counts in the majority.
    Unstarted,
    /// A member without a vote.
    Learner,
}

/// A member's name in messages, and its condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) name: String,
    pub(crate) condition: Condition,
}

impl Standing {
    fn votes(&self) -> bool {
        self.condition != Condition::Learner
    }

    fn healthy(&self) -> bool {
        self.condition == Condition::Healthy
    }
}

/// Kind of the counted members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Etcd members vote. A member that is down still counts in the majority until it is removed.
    Etcd,
    /// Control planes do not vote, so one that is down does not count. A majority of the others has to serve.
    ControlPlane,
}

/// Requested change. Numbers are indices of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// Add a voter, which counts before it runs.
    Add,
    /// Add a member without a vote.
    AddLearner,
    /// Promote a running learner to a voter.
    Promote(usize),
    /// Remove members from the list.
    Remove(&'a [usize]),
    /// Stop members permanently but keep them on the list, as a reset of their hosts does.
    Stop(&'a [usize]),
    /// Stop a member and start it again.
    Restart(usize),
}

/// Outcome of a judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The majority survives.
    Allowed,
    /// No member would remain, so the caller means to remove the whole cluster.
    WholeCluster,
    /// The majority would be lost; the message has the count and the remedy.
    Refused(String),
}

impl Verdict {
    /// Fails with the refusal, unless it is overridden; the plan then warns of the risk.
    pub(crate) fn apply(
        self,
        override_it: bool,
        plan: impl FnOnce() -> Result<Plan, Failure>,
    ) -> Result<Plan, Failure> {
        match self {
            Verdict::Refused(reason) if override_it => Ok(plan()?.with_warning(overridden(&reason))),
            verdict => verdict.check(override_it).and_then(|()| plan()),
        }
    }

    /// Fails with the refusal, unless it is overridden.
    pub(crate) fn check(self, override_it: bool) -> Result<(), Failure> {
        match self {
            Verdict::Refused(reason) if !override_it => Err(Failure::new(format!(
                "{reason} To continue anyway, set `allow_unsafe` (in the roles the variable `allow_unsafe_quorum`)."
            ))
            .with("refused", true)),
            _ => Ok(()),
        }
    }
}

/// Warning that accompanies an overridden refusal.
fn overridden(reason: &str) -> String {
    format!(
        "`allow_unsafe` overrides a refusal. Without a majority nothing can be read or written until members are brought back, and what \
         only the lost members had is gone. The refusal was: {reason}"
    )
}

/// Number of voters that must agree.
pub(crate) fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// Judges a change of a cluster.
pub(crate) fn judge(kind: Kind, members: &[Standing], change: Change<'_>) -> Verdict {
    let count = Count::of(kind, members);
    match change {
        Change::Add => count.add(),
        Change::AddLearner => count.decidable("add a learner").map_or(Verdict::Allowed, Verdict::Refused),
        Change::Promote(target) => count.promote(target),
        Change::Remove(leaving) => count.remove(leaving),
        Change::Stop(leaving) => count.stop(leaving),
        Change::Restart(target) => count.restart(target),
    }
}

struct Count<'a> {
    kind: Kind,
    members: &'a [Standing],
    voters: usize,
    healthy: usize,
}

impl<'a> Count<'a> {
    fn of(kind: Kind, members: &'a [Standing]) -> Count<'a> {
        let voters = members.iter().filter(|member| member.votes()).count();
        let healthy = members.iter().filter(|member| member.healthy()).count();
        Count { kind, members, voters, healthy }
    }

    /// Refusal of any change of the member list while no majority can agree to it.
    fn decidable(&self, what: &str) -> Option<String> {
        let needed = majority(self.voters);
        (self.kind == Kind::Etcd && self.healthy < needed).then(|| {
            format!(
                "Refusing to {what}: {}, and {needed} are needed to change the list of members. {}",
                self.state(),
                self.remedy(&[])
            )
        })
    }

    fn add(&self) -> Verdict {
        let needed = majority(self.voters + 1);
        if self.healthy == self.voters && self.healthy >= needed {
            return Verdict::Allowed;
        }
        let remedy = if self.healthy == self.voters { String::new() } else { format!(" {}", self.remedy(&[])) };
        Verdict::Refused(format!(
            "Refusing to add an {}: {}, and with one more, which does not run yet, {needed} of {} are needed for a majority.{remedy} A \
             member that is added as a learner does not count until it is promoted.",
            self.one(),
            self.state(),
            self.voters + 1
        ))
    }

    /// The learner counts as healthy, because it has to run before it is promoted.
    fn promote(&self, target: usize) -> Verdict {
        if self.members.get(target).is_none_or(Standing::votes) {
            return Verdict::Allowed;
        }
        let name = self.names(&[target]);
        let what = format!("promote {} {name}", self.one());
        if let Some(refusal) = self.decidable(&what) {
            return Verdict::Refused(refusal);
        }
        let needed = majority(self.voters + 1);
        if self.healthy + 1 >= needed {
            return Verdict::Allowed;
        }
        Verdict::Refused(format!(
            "Refusing to {what}: {}, and with its vote {needed} of {} are needed for a majority. {}",
            self.state(),
            self.voters + 1,
            self.remedy(&[target])
        ))
    }

    fn remove(&self, leaving: &[usize]) -> Verdict {
        let what = format!("remove {} {}", self.one(), self.names(leaving));
        let (rest, healthy) = self.without(leaving);
        if rest == 0 {
            return Verdict::Refused(format!(
                "Refusing to {what}: {}, and no voting member would be left. That would be the end of the cluster.",
                self.state()
            ));
        }
        if let Some(refusal) = self.decidable(&what) {
            return Verdict::Refused(refusal);
        }
        self.left(&what, "removing", leaving, rest, healthy)
    }

    fn stop(&self, leaving: &[usize]) -> Verdict {
        if !self.members.is_empty() && (0..self.members.len()).all(|member| leaving.contains(&member)) {
            return Verdict::WholeCluster;
        }
        if !leaving.iter().any(|member| self.members.get(*member).is_some_and(Standing::votes)) {
            return Verdict::Allowed;
        }
        let (rest, healthy) = self.without(leaving);
        let what = format!("stop {} {}", self.one(), self.names(leaving));
        self.left(&what, "stopping", leaving, self.counted(rest), healthy)
    }

    fn restart(&self, target: usize) -> Verdict {
        let (rest, healthy) = self.without(&[target]);
        // Restarting is safe for a learner, for the only member (nobody else could serve meanwhile), or after the
        // majority is lost.
        if self.members.get(target).is_none_or(|member| !member.votes()) || rest == 0 || self.healthy == 0 {
            return Verdict::Allowed;
        }
        let what = format!("restart {} {}", self.one(), self.names(&[target]));
        self.left(&what, "restarting", &[target], self.counted(rest), healthy)
    }

    /// Number of voters that remain, and of the healthy ones among them.
    fn without(&self, leaving: &[usize]) -> (usize, usize) {
        let stay = || self.members.iter().enumerate().filter(|(at, _)| !leaving.contains(at)).map(|(_, member)| member);
        (stay().filter(|member| member.votes()).count(), stay().filter(|member| member.healthy()).count())
    }

    /// Number of members that the majority is computed from while `rest` remain. etcd counts stopped members too.
    fn counted(&self, rest: usize) -> usize {
        match self.kind {
            Kind::Etcd => self.voters,
            Kind::ControlPlane => rest,
        }
    }

    fn left(&self, what: &str, doing: &str, leaving: &[usize], counted: usize, healthy: usize) -> Verdict {
        let needed = majority(counted);
        if healthy >= needed {
            return Verdict::Allowed;
        }
        let are = if needed == 1 { "is" } else { "are" };
        let it = if leaving.len() == 1 { "it" } else { "them" };
        Verdict::Refused(format!(
            "Refusing to {what}: {}, and {doing} {it} would leave {healthy} healthy of {counted}, where {needed} {are} needed for a \
             majority. {}",
            self.state(),
            self.remedy(leaving)
        ))
    }

    fn state(&self) -> String {
        let verb = if self.healthy == 1 { "is" } else { "are" };
        let members = match (self.kind, self.voters) {
            (Kind::Etcd, 1) => "member",
            (Kind::Etcd, _) => "members",
            (Kind::ControlPlane, 1) => "control plane",
            (Kind::ControlPlane, _) => "control planes",
        };
        format!("{} of {} {members} {verb} healthy", self.healthy, self.voters)
    }

    fn one(&self) -> &'static str {
        match self.kind {
            Kind::Etcd => "etcd member",
            Kind::ControlPlane => "control plane",
        }
    }

    fn names(&self, which: &[usize]) -> String {
        let names: Vec<&str> =
            which.iter().filter_map(|at| self.members.get(*at)).map(|member| member.name.as_str()).collect();
        names.join(", ")
    }

    /// Names the members to repair first.
    fn remedy(&self, leaving: &[usize]) -> String {
        let ill: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .filter(|(at, _)| !leaving.contains(at))
            .filter_map(|(_, member)| match member.condition {
                Condition::Unhealthy => Some(format!("{} (does not answer)", member.name)),
                Condition::Unstarted => Some(format!("{} (never started)", member.name)),
                Condition::Healthy | Condition::Learner => None,
            })
            .collect();
        if ill.is_empty() {
            "Add members first, or take fewer at a time.".to_owned()
        } else {
            format!("First repair or remove {}.", ill.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members as letters: `H`ealthy, `D`own, `U`nstarted, `L`earner. Their names are their indices.
    fn members(letters: &str) -> Vec<Standing> {
        let one = |(at, letter): (usize, char)| Standing {
            name: at.to_string(),
            condition: match letter {
                'H' => Condition::Healthy,
                'D' => Condition::Unhealthy,
                'U' => Condition::Unstarted,
                _ => Condition::Learner,
            },
        };
        letters.chars().enumerate().map(one).collect()
    }

    #[track_caller]
    fn table(kind: Kind, rows: &[(&str, Change<'_>, Result<(), &str>)]) {
        for (letters, change, expected) in rows {
            match (judge(kind, &members(letters), *change), expected) {
                (Verdict::Allowed, Ok(())) => {}
                (Verdict::WholeCluster, Err("whole")) => {}
                (Verdict::Refused(sentence), Err(part)) if *part != "whole" => {
                    assert!(sentence.contains(part), "{letters} {change:?}: {sentence}");
                }
                (verdict, _) => panic!("{letters} {change:?}: {verdict:?}"),
            }
        }
    }

    #[test]
    fn etcd_member_removed_only_while_majority_stays() {
        use Change::Remove;
        table(
            Kind::Etcd,
            &[
                ("HHH", Remove(&[0]), Ok(())),
                ("HHH", Remove(&[0, 1]), Ok(())),
                ("HHH", Remove(&[0, 1, 2]), Err("no voting member would be left")),
                ("H", Remove(&[0]), Err("1 of 1 member is healthy, and no voting member would be left")),
                ("HHD", Remove(&[2]), Ok(())),
                ("HHD", Remove(&[0]), Err("2 of 3 members are healthy, and removing it would leave 1 healthy of 2")),
                ("HHD", Remove(&[0, 2]), Ok(())),
                ("HDD", Remove(&[1]), Err("1 of 3 members is healthy, and 2 are needed to change")),
                ("HDD", Remove(&[0]), Err("First repair or remove 1 (does not answer), 2 (does not answer)")),
                ("HHU", Remove(&[2]), Ok(())),
                ("HHU", Remove(&[1]), Err("First repair or remove 2 (never started)")),
                ("HU", Remove(&[1]), Err("1 of 2 members is healthy, and 2 are needed to change")),
                ("HHHDD", Remove(&[0]), Err("removing it would leave 2 healthy of 4, where 3 are needed")),
                ("HHHDD", Remove(&[3]), Ok(())),
                ("HHHDD", Remove(&[0, 3, 4]), Ok(())),
                ("HHHDD", Remove(&[0, 3]), Ok(())),
                ("HHHDD", Remove(&[0, 1, 3]), Err("would leave 1 healthy of 2")),
                ("HHHL", Remove(&[3]), Ok(())),
                ("HHDL", Remove(&[0]), Err("2 of 3 members are healthy")),
                ("HL", Remove(&[0]), Err("no voting member would be left")),
            ],
        );
    }

    #[test]
    fn etcd_member_stopped_keeps_its_vote_in_the_count() {
        use Change::Stop;
        table(
            Kind::Etcd,
            &[
                ("HHH", Stop(&[0]), Ok(())),
                ("HHH", Stop(&[0, 1]), Err("stopping them would leave 1 healthy of 3, where 2 are needed")),
                ("HHH", Stop(&[0, 1, 2]), Err("whole")),
                ("HDD", Stop(&[0, 1, 2]), Err("whole")),
                ("DDD", Stop(&[0, 1, 2]), Err("whole")),
                ("H", Stop(&[0]), Err("whole")),
                ("HHD", Stop(&[2]), Ok(())),
                ("HHD", Stop(&[1]), Err("2 of 3 members are healthy, and stopping it would leave 1 healthy of 3")),
                ("HHU", Stop(&[1]), Err("never started")),
                // A lost majority does not justify dropping the data of the last living member.
                ("HDD", Stop(&[0]), Err("would leave 0 healthy of 3")),
                ("DDD", Stop(&[0]), Err("would leave 0 healthy of 3")),
                ("HHHHH", Stop(&[0, 1]), Ok(())),
                ("HHHHD", Stop(&[0, 1]), Err("would leave 2 healthy of 5, where 3 are needed")),
                ("HHHL", Stop(&[3]), Ok(())),
                ("HL", Stop(&[0]), Err("would leave 0 healthy of 1")),
                ("HL", Stop(&[0, 1]), Err("whole")),
                ("", Stop(&[]), Ok(())),
            ],
        );
    }

    #[test]
    fn etcd_member_restarted_only_while_the_others_are_a_majority() {
        use Change::Restart;
        table(
            Kind::Etcd,
            &[
                ("HHH", Restart(0), Ok(())),
                ("HHD", Restart(0), Err("restarting it would leave 1 healthy of 3, where 2 are needed")),
                ("HHD", Restart(2), Ok(())),
                ("HHU", Restart(0), Err("2 (never started)")),
                ("HHHD", Restart(0), Err("would leave 2 healthy of 4, where 3 are needed")),
                ("HHHHD", Restart(0), Ok(())),
                ("HHHDD", Restart(0), Err("would leave 2 healthy of 5")),
                (
                    "HH",
                    Restart(0),
                    Err("would leave 1 healthy of 2, where 2 are needed for a majority. Add members first"),
                ),
                // Restarting the only member takes the majority from no other, and a lost majority cannot be lost
                // again.
                ("H", Restart(0), Ok(())),
                ("D", Restart(0), Ok(())),
                ("DDD", Restart(0), Ok(())),
                // A member that answers proves a majority, so the members that seem down may hold it.
                ("HDD", Restart(1), Err("would leave 1 healthy of 3")),
                ("HHDL", Restart(3), Ok(())),
                ("HHHL", Restart(0), Ok(())),
            ],
        );
    }

    #[test]
    fn etcd_member_added_only_to_a_whole_cluster() {
        use Change::{Add, AddLearner, Promote};
        table(
            Kind::Etcd,
            &[
                ("HHH", Add, Ok(())),
                ("HH", Add, Ok(())),
                ("HHHL", Add, Ok(())),
                // The new member would hold half of the votes before it has ever run.
                (
                    "H",
                    Add,
                    Err("1 of 1 member is healthy, and with one more, which does not run yet, 2 of 2 are needed"),
                ),
                ("HHD", Add, Err("2 of 3 members are healthy")),
                ("HHHHD", Add, Err("First repair or remove 4 (does not answer)")),
                ("HHU", Add, Err("2 (never started)")),
                ("H", AddLearner, Ok(())),
                ("HHD", AddLearner, Ok(())),
                ("HDD", AddLearner, Err("1 of 3 members is healthy, and 2 are needed to change")),
                ("HL", Promote(1), Ok(())),
                ("HHHL", Promote(3), Ok(())),
                ("HHDL", Promote(3), Ok(())),
                ("HHUL", Promote(3), Ok(())),
                ("HDDL", Promote(3), Err("1 of 3 members is healthy")),
                ("HUL", Promote(2), Err("1 of 2 members is healthy")),
                ("HHH", Promote(0), Ok(())),
            ],
        );
    }

    #[test]
    fn control_plane_leaves_only_while_a_majority_of_the_rest_serves() {
        use Change::{Restart, Stop};
        table(
            Kind::ControlPlane,
            &[
                ("HHH", Stop(&[0]), Ok(())),
                ("HHH", Stop(&[0, 1]), Ok(())),
                ("HHH", Stop(&[0, 1, 2]), Err("whole")),
                ("HHD", Stop(&[2]), Ok(())),
                (
                    "HHD",
                    Stop(&[0]),
                    Err("2 of 3 control planes are healthy, and stopping it would leave 1 healthy of 2"),
                ),
                ("HD", Stop(&[0]), Err("would leave 0 healthy of 1")),
                ("HD", Stop(&[1]), Ok(())),
                ("H", Restart(0), Ok(())),
                ("HH", Restart(0), Ok(())),
                ("HD", Restart(0), Err("restarting it would leave 0 healthy of 1")),
                ("HHH", Restart(0), Ok(())),
                ("HHD", Restart(0), Err("would leave 1 healthy of 2, where 2 are needed")),
                ("HHHHD", Restart(0), Ok(())),
                ("DDD", Restart(0), Ok(())),
            ],
        );
    }

    /// Every cluster of up to six members in any condition: an allowed change leaves a majority.
    #[test]
    fn any_cluster_allowed_change_leaves_a_majority() {
        let mut allowed = 0;
        for size in 1..=6_u32 {
            for number in 0..4_usize.pow(size) {
                let letters: String = (0..size).map(|at| char::from(b"HDUL"[number / 4_usize.pow(at) % 4])).collect();
                let members = members(&letters);
                let votes = |at: usize| members[at].votes();
                let all: Vec<usize> = (0..members.len()).collect();
                for bits in 1..(1_usize << size) {
                    let leaving: Vec<usize> = all.iter().copied().filter(|at| bits & (1 << at) != 0).collect();
                    let rest: Vec<usize> = all.iter().copied().filter(|at| !leaving.contains(at)).collect();
                    let healthy = rest.iter().filter(|at| members[**at].healthy()).count();
                    let voters = rest.iter().filter(|at| votes(**at)).count();
                    if judge(Kind::Etcd, &members, Change::Remove(&leaving)) == Verdict::Allowed {
                        assert!(voters > 0 && healthy >= majority(voters), "{letters} without {leaving:?}");
                        allowed += 1;
                    }
                    let taken = leaving.iter().any(|at| votes(*at));
                    if judge(Kind::Etcd, &members, Change::Stop(&leaving)) == Verdict::Allowed && taken {
                        let voters = all.iter().filter(|at| votes(**at)).count();
                        assert!(healthy >= majority(voters), "{letters} stopped {leaving:?}");
                    }
                }
            }
        }
        assert!(allowed > 1000, "{allowed}");
    }
}
