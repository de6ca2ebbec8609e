//! A round: kills something while a run brings the files to the next version, then checks that everything recovers.

use std::process::Child;
use std::time::{Duration, Instant};

use crate::chance::Chance;
use crate::processes::{self, Process};
use crate::project;
use crate::stage::{Ran, Stage};
use crate::watch::Watch;

/// Target of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Controller,
    Executor,
    Elevated,
    Sudo,
    /// The sshd process that serves the connection.
    Session,
    /// The whole sshd, which is then restarted.
    Server,
    /// All connections, which are closed.
    Cut,
    /// All traffic on the open connections, which stalls.
    Stall,
}

impl Victim {
    pub(crate) const ALL: [Self; 15] = [
        Self::Controller,
        Self::Executor,
        Self::Elevated,
        Self::Cut,
        Self::Session,
        Self::Controller,
        Self::Sudo,
        Self::Executor,
        Self::Server,
        Self::Cut,
        Self::Elevated,
        Self::Controller,
        Self::Stall,
        Self::Executor,
        Self::Session,
    ];
}

/// Random choices of a round.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) victim: Victim,
    /// Time of the kill, in thousandths of a run's duration.
    at: u64,
    /// Whether the run has to upload the executor first.
    sends: bool,
    /// Whether the next run resumes.
    resumes: bool,
    /// Whether the next run starts before everything of the first one has ended.
    hurries: bool,
}

impl Plan {
    pub(crate) fn draw(index: u64, chance: &mut Chance) -> Self {
        let victim = Victim::ALL[usize::try_from(index).unwrap() % Victim::ALL.len()];
        let (sends, resumes, hurries) = (chance.once_in(10), !chance.once_in(4), chance.once_in(2));
        Self { victim, at: chance.below(if sends { 1600 } else { 1050 }), sends, resumes, hurries }
    }
}

/// Outcome of a round.
pub(crate) struct Report {
    /// Progress of the run at the kill.
    pub(crate) moment: &'static str,
    pub(crate) problems: Vec<String>,
    /// Output of all runs of the round.
    pub(crate) text: String,
}

pub(crate) fn perform(stage: &mut Stage, plan: &Plan) -> Report {
    stage.next_version();
    let version = stage.version;
    if plan.sends {
        stage.forget_executor();
    }
    let watch = Watch::start(project::allowed(version - 1, version));
    let (mut child, said) = stage.start(&[]);
    std::thread::sleep(stage.length.mul_f64(plan.at as f64 / 1000.0));
    let hit = strike(stage, &mut child, plan.victim);
    let killed = stage.finish(child, &said);
    stage.network.cut();
    let mut problems = Vec::new();
    if killed.code.is_none() && plan.victim != Victim::Controller {
        problems.push("the run hung".to_owned());
    }
    if !plan.hurries {
        problems.extend(left(stage, "after the kill"));
    }
    let next = go_on(stage, plan, killed.code.is_some_and(|code| code != 0), &mut problems);
    stage.age_leftovers();
    let last = stage.run(&["--pending-handlers", "run"]);
    if last.code != Some(0) || last.changed() != [0; project::HOSTS.len()] {
        problems.push(format!("the last run ended with {:?} and changed {:?}", last.code, last.changed()));
    }
    problems.extend(left(stage, "at the end"));
    problems.extend(project::wrong(version));
    problems.extend(watch.end());
    problems.extend(stage.leftovers().iter().map(|path| format!("{} is left", path.display())));
    problems.extend(stage.locks().iter().map(|lock| format!("the lock {lock} is left")));
    let texts = [("killed", &killed), ("next", &next), ("last", &last)];
    let text = texts.map(|(name, ran)| format!("--- {name}, {:?}:\n{}", ran.code, ran.text)).join("\n");
    let moment = match (hit, killed.code) {
        (true, Some(0)) => "the run went well all the same",
        (true, _) => "the run did not end well",
        (false, _) => "the run had ended",
    };
    Report { moment, problems, text }
}

/// Resumes the run, or runs the playbook again if the plan says so. If nothing can be resumed, it also runs again,
/// which is a problem with `must_resume`.
fn go_on(stage: &mut Stage, plan: &Plan, must_resume: bool, problems: &mut Vec<String>) -> Ran {
    let mut refused = String::new();
    let mut ran = None;
    if plan.resumes {
        let resumed = stage.run(&["--resume"]);
        if resumed.text.contains("nothing to resume") {
            if must_resume {
                problems.push("there was nothing to resume".to_owned());
            }
            refused = resumed.text;
        } else {
            ran = Some(resumed);
        }
    }
    let mut ran = ran.unwrap_or_else(|| stage.run(&["--pending-handlers", "run"]));
    ran.text.insert_str(0, &refused);
    if ran.code != Some(0) {
        problems.push(format!("the next run ended with {:?}", ran.code));
    }
    // Without waiting, the run may meet an executor that is about to exit.
    if !plan.hurries && ran.text.contains("waiting for the lock") {
        problems.push("a lock was left".to_owned());
    }
    ran
}

fn left(stage: &Stage, when: &str) -> Option<String> {
    let left = stage.processes_left();
    (!left.is_empty()).then(|| format!("{when} processes are left: {left:?}"))
}

/// Kills the victim once it exists; false if the run ended before.
fn strike(stage: &mut Stage, child: &mut Child, victim: Victim) -> bool {
    let server = stage.sshd.id();
    let is_victim = |process: &Process| match victim {
        Victim::Controller => process.pid == child.id(),
        Victim::Executor => process.is_roots_executor(),
        Victim::Elevated => process.is_elevated(),
        Victim::Sudo => process.is_sudo(),
        _ => process.is_session_of(server),
    };
    let began = Instant::now();
    let victims = loop {
        let victims: Vec<Process> = processes::all().into_iter().filter(&is_victim).collect();
        let patience = began.elapsed() < Duration::from_secs(60);
        if !victims.is_empty() || !patience {
            break victims;
        }
        if has_ended(child.id()) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let had_ended = has_ended(child.id());
    match victim {
        Victim::Cut => stage.network.cut(),
        Victim::Stall => stage.network.stall(),
        _ => victims.iter().for_each(|process| processes::kill(process.pid)),
    }
    if victim == Victim::Server {
        stage.sshd.restart();
    }
    !had_ended
}

/// Whether the process has exited, even if its parent has not reaped it.
fn has_ended(pid: u32) -> bool {
    !processes::all().iter().any(|process| process.pid == pid)
}
