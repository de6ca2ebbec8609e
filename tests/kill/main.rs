//! The kill loop kills the controller, the executors, sudo, sshd or the network at random moments of a playbook. After
//! each kill, a `--resume` and a plain run must converge, and nothing may be lost, half-written or left behind.
//!
//! `WINDLASS_KILLS` is the number of kills (100), `WINDLASS_KILL_SEED` repeats the random choices of an earlier run,
//! which has printed it, and `WINDLASS_KILL_ROUND` runs a single round. So this repeats round 17 of a run:
//!
//! ```text
//! WINDLASS_KILL_SEED=1795868725 WINDLASS_KILL_ROUND=17 cargo test --workspace --test kill
//! ```
//!
//! Moments are fractions of a measured run, so a repeated kill may hit another task. Stages run the rounds in parallel,
//! each in its own namespaces. Processes, `/run` and temporary files are the stage's own, so all remains come from
//! Windlass.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and reports its rounds"
)]

mod chance;
mod network;
mod processes;
mod project;
mod round;
mod stage;
#[path = "../../crates/ssh/tests/support/mod.rs"]
mod support;
mod watch;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use round::Victim;

/// Number of parallel stages.
const STAGES: u64 = 4;
/// Marks the test program as a stage; the value is its number.
const STAGE: &str = "WINDLASS_KILL_STAGE";
const KILLS: &str = "WINDLASS_KILLS";
const SEED: &str = "WINDLASS_KILL_SEED";
const ROUND: &str = "WINDLASS_KILL_ROUND";
const USER: &str = "WINDLASS_KILL_USER";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Whether this machine meets the requirements of the loop.
fn available() -> bool {
    support::available() && windlass_testing::has_all(&["sudo", "namespaces"])
}

const NAMESPACES: [&str; 5] = ["--mount", "--propagation", "private", "--pid", "--fork"];

/// Mounts the stage's own `/proc`, `/run` and temporary directories. The shell stays, because the first process of a
/// namespace has to reap orphans.
const PREPARE: &str = "mount -t proc proc /proc && for place in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs tmpfs $place || exit; done \
                       && mkdir /run/sshd && \"$0\" --exact stage --nocapture; code=$?; exit $code";

#[test]
fn anything_killed_at_any_moment_resumed_run_converges_and_leaves_nothing() {
    if !available() {
        return;
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number(SEED).unwrap_or(clock.as_secs());
    let user = support::User::create();
    eprintln!("kill loop: {SEED}={seed}");
    let stages: Vec<_> = (0..STAGES)
        .map(|stage| {
            Command::new("unshare")
                .args(NAMESPACES)
                .args(["--kill-child", "sh", "-c", PREPARE])
                .arg(std::env::current_exe().unwrap())
                .env(STAGE, stage.to_string())
                .env(SEED, seed.to_string())
                .env(USER, &user.name)
                .env_remove("TMPDIR")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    // Each stage has its own reader, so that none waits for the others.
    let stages = stages.into_iter().map(|stage| std::thread::spawn(|| stage.wait_with_output().unwrap()));
    let ends: Vec<_> = stages.collect::<Vec<_>>().into_iter().map(|stage| stage.join().unwrap()).collect();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut broken = String::new();
    for (stage, end) in ends.iter().enumerate() {
        let said = String::from_utf8_lossy(&end.stderr);
        for line in said.lines().filter_map(|line| line.strip_prefix("kill: ")) {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        let without_counts: String =
            said.lines().filter(|line| !line.starts_with("kill: ")).map(|line| format!("{line}\n")).collect();
        eprint!("{without_counts}");
        if !end.status.success() {
            broken +=
                &format!("stage {stage} ({}):\n{without_counts}{}", end.status, String::from_utf8_lossy(&end.stdout));
        }
    }
    eprintln!("kill loop: {counts:#?}");
    assert!(broken.is_empty(), "repeat it with {SEED}={seed} {KILLS}={}\n{broken}", kills());
}

fn kills() -> u64 {
    number(KILLS).unwrap_or(100)
}

/// Not a test: the test above runs the program with this name in each stage.
#[test]
fn stage() {
    let Some(own) = number(STAGE) else { return };
    let seed = number(SEED).unwrap();
    let mut stage = stage::Stage::new(&std::env::var(USER).unwrap());
    let mine = (0..kills()).filter(|round| round % STAGES == own);
    let mut broken = 0;
    for round in mine.filter(|round| number(ROUND).is_none_or(|only| only == *round)) {
        let mut chance = chance::Chance::new(seed, round);
        let plan = round::Plan::draw(round / STAGES + own, &mut chance);
        let report = round::perform(&mut stage, &plan);
        eprintln!("kill: {:?}, {}", plan.victim, report.moment);
        if !report.problems.is_empty() {
            broken += 1;
            eprintln!("ROUND {round} BROKEN, {plan:?}: {}\n{}", report.problems.join("; "), report.text);
            // A stage in a bad state would fail every further round.
            stage = stage::Stage::new(&std::env::var(USER).unwrap());
        }
    }
    assert_eq!(broken, 0, "rounds that are broken, of victims {:?}", Victim::ALL);
}
