//! Signals that stop a run in several processes: what runs on hosts ends, whichever process has started it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, test_kill_process};

use super::{Project, kill, stderr, wait_until};

/// Each task writes the number of its process, and ends only by force.
const STUBBORN: &str = "- hosts: all\n  gather_facts: false\n  tasks:\n    - shell: trap '' TERM; echo $$ >> FOLDER/pids; while :; do sleep 0.2; done\n";

/// Starts a run of three processes, and waits until its task runs on all hosts.
fn start(project: &Project) -> Child {
    let run = project.command(&["--shards", "3", "-f", "12"]);
    // A shell's background jobs ignore SIGINT, and so would a run started by them.
    let mut command = Command::new("env");
    crate::ran::wrap(command.arg("--default-signal=INT,HUP,TERM,QUIT").stdin(Stdio::null()), &run);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the task has begun everywhere", || project.lines("pids").len() == 12);
    child
}

/// Interrupts a run until it ends, the second time once it is ending.
fn interrupted(mut run: Child, times: usize) -> Output {
    let pid = i32::try_from(run.id()).unwrap();
    kill(pid, Signal::INT);
    let mut errors = BufReader::new(run.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("the run ends here") {
        assert!(errors.read_line(&mut said).unwrap() > 0, "{said}");
    }
    (1..times).for_each(|_| kill(pid, Signal::INT));
    let mut output = run.wait_with_output().unwrap();
    output.stderr = said.into_bytes();
    errors.read_to_end(&mut output.stderr).unwrap();
    output
}

/// All processes of the task and of the run have ended.
#[track_caller]
fn assert_ended(project: &Project) {
    let text = fs::read_to_string(project.path("pids")).unwrap();
    let pids: Vec<Pid> = text.lines().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect();
    wait_until("the task ends everywhere", || pids.iter().all(|pid| test_kill_process(*pid).is_err()));
    wait_until("all processes end", || project.workers().is_empty());
}

#[test]
fn second_interrupt_ends_the_tasks_of_all_processes() {
    let project = Project::new(STUBBORN);
    let output = interrupted(start(&project), 2);
    assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
    let sentence = "[ERROR]: SIGINT: ended at once; hosts stop their tasks when they notice.\n";
    assert!(stderr(&output).ends_with(sentence), "{}", stderr(&output));
    assert_ended(&project);
}

/// One of the executors that the first process of a run has started.
fn an_executor_of(run: &Child) -> i32 {
    let is_executor = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == Some(run.id()) && words.split(|byte| *byte == 0).any(|word| word == b"__executor")
    };
    let mut pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.find(is_executor).expect("an executor of this run")
}

/// It notices the end of its input only once it is continued.
#[test]
fn suspended_executor_of_a_run_in_several_processes_ends_with_the_run() {
    let project = Project::new(STUBBORN);
    let run = start(&project);
    let executor = an_executor_of(&run);
    let stat = format!("/proc/{executor}/stat");
    kill(executor, Signal::STOP);
    let output = interrupted(run, 2);
    assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
    wait_until("the executor ends", || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
    assert_ended(&project);
}

#[test]
fn interrupt_ends_the_tasks_of_a_suspended_process() {
    // Only root sees the directories of workers, which are not dumpable.
    if !windlass_testing::has("root") {
        return;
    }
    for times in [1, 2] {
        let project = Project::new(STUBBORN);
        let run = start(&project);
        kill(project.workers()[0], Signal::STOP);
        let output = interrupted(run, times);
        assert_eq!(output.status.code(), Some(99), "{times}: {}", stderr(&output));
        assert!(!stderr(&output).contains("answer"), "{times}: {}", stderr(&output));
        assert_ended(&project);
    }
}
