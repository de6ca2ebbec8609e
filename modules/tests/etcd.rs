//! `etcd` on real clusters on this machine, whose members are killed, stopped, announced and never started.
//!
//! The tests need `etcd` and `etcdctl`, which `tools/programs` unpacks; without them they do nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use case::Bench;
use serde_json::{Value, json};
use windlass_testing::unpacked;

/// A systemctl for units whose process and command are stored in `$ROOT`.
const SYSTEMCTL: &str = r#"
for unit; do :; done
pid=$(cat "$ROOT/$unit.pid" 2>/dev/null)
lives() { [ -n "$pid" ] && [ -e /proc/$pid ] && ! grep -q '^State:.Z' /proc/$pid/status; }
case "$1" in
is-active) lives ;;
restart)
    while lives; do kill -9 $pid; sleep 0.05; done
    setsid sh "$ROOT/$unit.start" </dev/null >/dev/null 2>&1 &
    ;;
esac
"#;

struct Cluster {
    bench: Bench,
    etcd: PathBuf,
    etcdctl: PathBuf,
    members: Vec<Member>,
}

#[derive(Clone)]
struct Member {
    name: String,
    client: String,
    peer: String,
}

impl Cluster {
    /// Starts members; `None` if this machine has no etcd.
    fn start(size: usize) -> Option<Cluster> {
        let (etcd, etcdctl) = (unpacked("etcd")?, unpacked("etcdctl")?);
        let logged = format!("echo \"$*\" >> \"$ROOT/calls\"\nexec {} \"$@\"\n", etcdctl.display());
        let bench = Bench::new().program("systemctl", SYSTEMCTL).program("etcdctl-logged", &logged);
        let mut cluster = Cluster { bench, etcd, etcdctl, members: Vec::new() };
        for number in 0..size {
            cluster.name(number);
        }
        let all = cluster.initial(&cluster.members);
        for member in cluster.members.clone() {
            cluster.run(&member, &all, "new");
        }
        cluster
            .until("every member is healthy", |cluster| cluster.task(json!({ "state": "health" }))["healthy"] == true);
        Some(cluster)
    }

    fn name(&mut self, number: usize) -> Member {
        let urls: Vec<TcpListener> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let url = |at: usize| format!("http://{}", urls[at].local_addr().unwrap());
        let member = Member { name: format!("m{number}"), client: url(0), peer: url(1) };
        self.members.push(member.clone());
        member
    }

    fn initial(&self, members: &[Member]) -> String {
        members.iter().map(|member| format!("{}={}", member.name, member.peer)).collect::<Vec<_>>().join(",")
    }

    /// Starts a member like `systemctl restart`.
    fn run(&self, member: &Member, initial: &str, state: &str) {
        let Member { name, client, peer } = member;
        let (data, pid) = (self.bench.path(&format!("{name}.data")), self.bench.path(&format!("{name}.service.pid")));
        let script = format!(
            "echo $$ > {pid}\nexec {etcd} --name {name} --data-dir {data} --listen-client-urls {client} --advertise-client-urls {client} \
             --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} --initial-cluster {initial} --initial-cluster-state {state}\n",
            pid = pid.display(),
            etcd = self.etcd.display(),
            data = data.display(),
        );
        self.bench.write(&format!("{name}.service.start"), &script);
        let start = self.bench.path(&format!("{name}.service.start"));
        let mut child = Command::new("setsid")
            .arg("--fork")
            .arg("sh")
            .arg(start)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.wait().unwrap();
        self.until("the member has a process", |_| fs::metadata(&pid).is_ok_and(|file| file.len() > 1));
    }

    fn signal(&self, member: usize, signal: &str) {
        let pid = self.bench.read(&format!("m{member}.service.pid"));
        assert!(Command::new("kill").args([signal, pid.trim()]).status().unwrap().success());
    }

    fn task(&self, args: Value) -> Value {
        self.asked(args, false)
    }

    /// Runs the module with all endpoints, unless the arguments name some.
    fn asked(&self, args: Value, check: bool) -> Value {
        let endpoints: Vec<&str> = self.members.iter().map(|member| member.client.as_str()).collect();
        let etcdctl = self.etcdctl.display().to_string();
        let mut all = json!({ "endpoints": endpoints, "etcdctl": etcdctl, "timeout": 3, "wait": 30 });
        all.as_object_mut().unwrap().extend(args.as_object().unwrap().clone());
        self.bench.run("windlass.kubernetes.etcd", all, check)
    }

    #[track_caller]
    fn refused(&self, args: Value, sentence: &str) {
        let answer = self.task(args.clone());
        assert!(answer["failed"] == true, "{args} was allowed: {answer}");
        let message = answer["msg"].as_str().unwrap();
        assert!(message.contains(sentence), "{args}: {message}");
    }

    #[track_caller]
    fn allowed(&self, args: Value) -> Value {
        let answer = self.task(args.clone());
        assert!(answer["failed"] != true, "{args} was refused: {answer}");
        answer
    }

    /// Whether the member accepts a write, which takes a majority.
    fn writes(&self, member: usize) -> bool {
        let endpoint = format!("--endpoints={}", self.members[member].client);
        let mut command = Command::new(&self.etcdctl);
        command.env("ETCDCTL_API", "3").args([&endpoint, "--command-timeout=3s", "put", "key", "value"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }

    #[track_caller]
    fn until(&self, what: &str, condition: impl Fn(&Cluster) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(90);
        while !condition(self) {
            assert!(Instant::now() < deadline, "never: {what}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 0..self.members.len() {
            if let Ok(pid) = fs::read_to_string(self.bench.path(&format!("m{number}.service.pid"))) {
                let _ = Command::new("kill").args(["-9", pid.trim()]).stderr(Stdio::null()).status();
            }
        }
    }
}

#[test]
fn killed_member_of_three_only_one_removable() {
    let Some(cluster) = Cluster::start(3) else { return };
    cluster.signal(2, "-9");
    let count = "2 of 3 members are healthy, and removing it would leave 1 healthy of 2, where 2 are needed";
    cluster.refused(json!({ "state": "member_remove", "name": "m0" }), count);
    cluster.refused(json!({ "state": "member_remove", "names": ["m0", "m1"] }), "would leave 0 healthy of 1");
    cluster.refused(
        json!({ "state": "restarted", "name": "m0", "service": "m0.service" }),
        "2 of 3 members are healthy, and restarting it would leave 1 healthy of 3",
    );
    cluster.refused(json!({ "state": "can_stop", "names": ["m1"] }), "stopping it would leave 1 healthy of 3");
    cluster.refused(
        json!({ "state": "member_add", "name": "new", "peer_urls": ["http://127.0.0.1:1"] }),
        "First repair or remove m2 (does not answer)",
    );
    assert!(cluster.asked(json!({ "state": "member_remove", "name": "m0" }), true)["failed"] == true);
    cluster.allowed(json!({ "state": "can_stop", "names": ["m2"] }));

    let answer = cluster.allowed(json!({ "state": "member_remove", "name": "m2" }));
    assert!(answer["changed"] == true && answer["members"].as_array().unwrap().len() == 2, "{answer}");
    assert!(cluster.writes(0) && cluster.writes(1));
    assert_eq!(cluster.allowed(json!({ "state": "member_remove", "name": "m2" }))["changed"], false);
}

#[test]
fn partitioned_member_counts_as_down_until_back() {
    let Some(cluster) = Cluster::start(3) else { return };
    cluster.signal(1, "-STOP");
    cluster.refused(json!({ "state": "member_remove", "name": "m0" }), "First repair or remove m1 (does not answer)");
    let restart = json!({ "state": "restarted", "name": "m0", "service": "m0.service" });
    cluster.refused(restart.clone(), "restarting it would leave 1 healthy of 3");
    cluster.signal(1, "-CONT");
    cluster.until("the member is back", |cluster| cluster.task(json!({ "state": "health" }))["healthy"] == true);
    assert_eq!(cluster.allowed(restart)["changed"], true);
    assert!(cluster.writes(0));
}

#[test]
fn members_restarted_one_after_the_other_keep_the_majority() {
    let Some(cluster) = Cluster::start(3) else { return };
    let pids = || (0..3).map(|number| cluster.bench.read(&format!("m{number}.service.pid"))).collect::<Vec<_>>();
    let before = pids();
    for number in 0..3 {
        let member = &cluster.members[number];
        cluster.allowed(json!({
            "state": "restarted", "peer_urls": [member.peer], "service": format!("m{number}.service"),
        }));
        assert!(cluster.writes(number), "{number} is not healthy after its restart");
    }
    assert!(before.iter().zip(pids()).all(|(before, after)| *before != after));

    // A member that is down may be started regardless of the others.
    cluster.signal(0, "-9");
    cluster.signal(1, "-9");
    cluster.refused(
        json!({ "state": "restarted", "name": "nobody", "service": "m2.service" }),
        "no member is called nobody",
    );
    let answer = cluster.task(json!({ "state": "restarted", "name": "m0", "service": "m0.service" }));
    assert!(answer["failed"] != true && cluster.writes(0), "{answer}");
}

#[test]
fn announced_member_that_never_started_counts_against_the_majority() {
    let Some(mut cluster) = Cluster::start(2) else { return };
    let newcomer = Member { name: "late".into(), client: String::new(), peer: "http://127.0.0.1:9".into() };
    let add = json!({ "state": "member_add", "name": newcomer.name, "peer_urls": [newcomer.peer] });
    cluster.allowed(add);
    cluster.refused(
        json!({ "state": "member_remove", "name": "m0" }),
        "First repair or remove http://127.0.0.1:9 (never started)",
    );
    cluster
        .refused(json!({ "state": "restarted", "name": "m0", "service": "m0.service" }), "2 of 3 members are healthy");
    cluster.refused(json!({ "state": "member_promote", "name": "nobody" }), "none can be promoted");
    cluster.allowed(json!({ "state": "member_remove", "peer_urls": [newcomer.peer] }));
    cluster.refused(
        json!({ "state": "restarted", "name": "m0", "service": "m0.service" }),
        "2 of 2 members are healthy, and restarting it would leave 1 healthy of 2",
    );
    let answer =
        cluster.task(json!({ "state": "restarted", "name": "m0", "service": "m0.service", "allow_unsafe": true }));
    assert!(answer["failed"] != true, "{answer}");
    assert!(answer["warnings"][0].as_str().unwrap().contains("`allow_unsafe` overrides a refusal"), "{answer}");
    cluster.members.truncate(2);
}

#[test]
fn learner_joins_a_single_member_without_risk() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    let newcomer = cluster.name(1);
    let add = json!({ "state": "member_add", "name": "m1", "peer_urls": [newcomer.peer] });
    cluster
        .refused(add.clone(), "1 of 1 member is healthy, and with one more, which does not run yet, 2 of 2 are needed");
    let mut learner = add;
    learner["learner"] = json!(true);
    cluster.allowed(learner);
    // An interrupted run leaves a working cluster.
    assert!(cluster.writes(0));
    let promote = json!({ "state": "member_promote", "name": "m1", "peer_urls": [newcomer.peer], "wait": 1 });
    cluster.refused(promote.clone(), "does not run or does not answer");
    cluster.run(&newcomer, &cluster.initial(&cluster.members), "existing");
    cluster.until("the learner has joined", |cluster| {
        let answer = cluster.task(json!({ "state": "member_list" }));
        answer["members"].as_array().unwrap().iter().all(|member| member["started"] == true)
    });
    // etcd itself would promote a learner that hangs after it has received everything.
    cluster.signal(1, "-STOP");
    cluster.refused(promote.clone(), "does not run or does not answer");
    cluster.signal(1, "-CONT");
    let mut patient = promote;
    patient["wait"] = json!(60);
    assert_eq!(cluster.allowed(patient.clone())["changed"], true);
    cluster.until("the new voter is healthy", |cluster| cluster.writes(1));
    assert_eq!(cluster.allowed(patient)["changed"], false);
}

#[test]
fn two_failed_of_five_members_no_further_removable() {
    let Some(cluster) = Cluster::start(5) else { return };
    let names = |numbers: &[usize]| numbers.iter().map(|number| format!("m{number}")).collect::<Vec<_>>();
    cluster.allowed(json!({ "state": "can_stop", "names": names(&[0, 1]) }));
    cluster.refused(
        json!({ "state": "can_stop", "names": names(&[0, 1, 2]) }),
        "would leave 2 healthy of 5, where 3 are needed",
    );
    let whole = cluster.allowed(json!({ "state": "can_stop", "names": names(&[0, 1, 2, 3, 4]) }));
    assert_eq!(whole["whole_cluster"], true);

    cluster.signal(3, "-9");
    cluster.signal(4, "-STOP");
    cluster.refused(json!({ "state": "member_remove", "name": "m0" }), "3 of 5 members are healthy");
    cluster.refused(json!({ "state": "can_stop", "names": names(&[0]) }), "would leave 2 healthy of 5");
    let answer = cluster.allowed(json!({ "state": "member_remove", "names": names(&[3, 4]) }));
    assert_eq!(answer["members"].as_array().unwrap().len(), 3);
    assert!(cluster.writes(0));
    cluster.signal(4, "-CONT");
}

#[test]
fn lost_majority_refuses_all_except_whole_cluster() {
    let Some(cluster) = Cluster::start(3) else { return };
    cluster.signal(1, "-9");
    cluster.signal(2, "-9");
    cluster.refused(
        json!({ "state": "member_remove", "name": "m1" }),
        "members are healthy, and 2 are needed to change the list",
    );
    cluster.refused(json!({ "state": "can_stop", "names": ["m0"] }), "healthy of 3, where 2 are needed");
    assert_eq!(cluster.allowed(json!({ "state": "can_stop", "names": ["m0", "m1", "m2"] }))["whole_cluster"], true);
    cluster.signal(0, "-9");
    let expected = json!(["m0", "m1", "m2"]);
    cluster.refused(json!({ "state": "can_stop", "names": ["m0"], "expected": expected }), "no etcd member answers");
    let answer = cluster.allowed(json!({ "state": "can_stop", "names": ["m2", "m1", "m0"], "expected": expected }));
    assert_eq!(answer["whole_cluster"], true);
}

/// Three tasks at once, as a task of one's own or three runs start them.
#[test]
fn members_restarted_at_once_second_refused_while_first_is_down() {
    let Some(cluster) = Cluster::start(3) else { return };
    for number in 0..3 {
        cluster.bench.write(&format!("m{number}.service.start"), "exit 1\n");
    }
    let restart = |number: usize| {
        let (name, service) = (format!("m{number}"), format!("m{number}.service"));
        cluster.task(json!({ "state": "restarted", "name": name, "service": service, "wait": 5 }))
    };
    let answers = at_once(3, restart);
    let messages: Vec<&str> = answers.iter().map(|answer| answer["msg"].as_str().unwrap()).collect();
    let begun: Vec<usize> = (0..3).filter(|at| messages[*at].contains("but m")).collect();
    assert_eq!(begun.len(), 1, "{messages:#?}");
    let count = "2 of 3 members are healthy, and restarting it would leave 1 healthy of 3";
    assert_eq!(messages.iter().filter(|message| message.contains(count)).count(), 2, "{messages:#?}");
    for other in (0..3).filter(|at| *at != begun[0]) {
        assert!(cluster.writes(other), "m{other} does not serve after: {messages:#?}");
    }
}

#[test]
fn members_removed_at_once_second_refused_with_the_count_of_the_rest() {
    let Some(cluster) = Cluster::start(4) else { return };
    cluster.signal(3, "-9");
    let remove = |number: usize| cluster.task(json!({ "state": "member_remove", "name": format!("m{number}") }));
    let answers = at_once(3, remove);
    assert_eq!(answers.iter().filter(|answer| answer["changed"] == true).count(), 1, "{answers:#?}");
    let count = "2 of 3 members are healthy, and removing it would leave 1 healthy of 2";
    let refused = answers.iter().filter(|answer| answer["msg"].as_str().is_some_and(|text| text.contains(count)));
    assert_eq!(refused.count(), 2, "{answers:#?}");
    assert_eq!((0..3).filter(|member| cluster.writes(*member)).count(), 2);
}

/// The holder of the lock was killed, so only its lease ends it. Meanwhile another member fails.
#[test]
fn member_judged_again_once_the_lock_of_a_killed_holder_expires() {
    let Some(cluster) = Cluster::start(3) else { return };
    let holder = |words: &[&str]| {
        let endpoint = format!("--endpoints={}", cluster.members[0].client);
        let output = Command::new(&cluster.etcdctl).env("ETCDCTL_API", "3").arg(endpoint).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let grant = holder(&["lease", "grant", "10"]);
    let lease = grant.split_whitespace().nth(1).unwrap();
    holder(&["put", "--lease", lease, "/windlass/members", "host:killed"]);
    let logged = cluster.bench.path("programs/etcdctl-logged");
    let removal = json!({ "state": "member_remove", "name": "m1", "etcdctl": logged });
    std::thread::scope(|scope| {
        let task = scope.spawn(|| cluster.task(removal));
        let calls = || fs::read_to_string(cluster.bench.path("calls")).unwrap_or_default();
        cluster.until("the task wants the lock", |_| calls().contains(" txn"));
        assert!(holder(&["get", "/windlass/members"]).contains("host:killed"));
        cluster.signal(2, "-9");
        let answer = task.join().unwrap();
        let message = answer["msg"].as_str().unwrap();
        assert!(message.contains("2 of 3 members are healthy, and removing it would leave 1"), "{answer}");
    });
    assert_eq!(holder(&["get", "/windlass/members"]), "", "the lock is kept");
}

/// Answers of tasks that begin at the same time.
fn at_once(count: usize, task: impl Fn(usize) -> Value + Sync) -> Vec<Value> {
    let task = &task;
    std::thread::scope(|scope| {
        let begun: Vec<_> = (0..count).map(|number| scope.spawn(move || task(number))).collect();
        begun.into_iter().map(|one| one.join().unwrap()).collect()
    })
}
