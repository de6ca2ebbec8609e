//! Boots hosts of a real lab on this machine, cuts their power and kills `up` midway. It needs root and half a minute,
//! so it only runs with `--ignored`. The first run builds the base.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use windlass_lab::{Format, Lab, Network, Options, down, up};

/// Set in the copy of this test program that starts a lab and gets killed.
const VICTIM: &str = "WINDLASS_LAB_TEST_VICTIM";

/// Each test has its own bridge, network and directory, so that tests run in parallel and beside the user's lab.
fn options(directory: &Path, number: u8) -> Options {
    Options {
        directory: directory.join("lab"),
        nodes: 2,
        bridge: format!("wltest{number}"),
        network: format!("10.94.{number}.0/24").parse::<Network>().unwrap(),
        ..Options::default()
    }
}

/// Removes the lab even if a test fails.
struct Cleanup(PathBuf);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let _ = down(&self.0, &mut |_| {});
    }
}

/// All resources of the lab on this machine: links, control groups, processes, mounts, files.
fn leftovers(options: &Options) -> Vec<String> {
    let mut found = Vec::new();
    let links = Command::new("ip").args(["-o", "link", "show"]).output().unwrap();
    let links = String::from_utf8(links.stdout).unwrap();
    found.extend(links.lines().filter(|line| line.contains(&options.bridge)).map(|line| format!("link {line}")));
    let group = format!("windlass-lab/{}", options.bridge);
    for hierarchy in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        let path = hierarchy.path().join(&group);
        found.extend(path.exists().then(|| format!("control group {}", path.display())));
    }
    let directory = options.directory.to_str().unwrap();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| fs::read_to_string(process.path().join(name)).unwrap_or_default();
        let in_group = read("cgroup").contains(&group);
        let speaks_of_it = read("cmdline").contains(directory);
        found.extend((in_group || speaks_of_it).then(|| format!("process {:?}", process.file_name())));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(directory)).map(|line| format!("mount {line}")));
    found.extend(options.directory.exists().then(|| format!("directory {directory}")));
    found
}

/// A process orphaned by a kill may need a moment to exit; anything longer is a leak.
fn assert_nothing_is_left(options: &Options) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let left = leftovers(options);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left behind: {left:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn try_on(lab: &Lab, node: &str, command: &str) -> Output {
    lab.ssh(node, "root").unwrap().arg(command).output().unwrap()
}

fn run_on(lab: &Lab, node: &str, command: &str) -> String {
    let output = try_on(lab, node, command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{node}: {command}: {errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
#[ignore = "boots hosts, for half a minute and as root"]
fn hosts_are_real_and_survive_a_power_cut() {
    let directory = tempfile::tempdir().unwrap();
    let artifacts = directory.path().join("artifacts");
    fs::create_dir(&artifacts).unwrap();
    fs::write(artifacts.join("greeting"), "hello").unwrap();
    let mut options = options(directory.path(), 1);
    options.memory = Some(2 << 30);
    options.cpus = Some(1.5);
    options.mounts = vec![format!("{}:/opt/artifacts", artifacts.display()).parse().unwrap()];
    let _cleanup = Cleanup(options.directory.clone());
    let lab = up(&options, &mut |line| eprintln!("{line}")).unwrap();

    for (number, node) in ["node1", "node2"].into_iter().enumerate() {
        assert_eq!(run_on(&lab, node, "hostname"), node);
        assert_eq!(run_on(&lab, node, "systemctl is-system-running"), "running");
        assert_eq!(run_on(&lab, node, "cat /opt/artifacts/greeting"), "hello");
        assert_eq!(run_on(&lab, node, "ls /usr/bin | grep -c ^python || true"), "0");
        // A kubelet writes to its control groups and to the sysctls of its network.
        run_on(&lab, node, "for d in /sys/fs/cgroup/*/; do mkdir $d/pods && rmdir $d/pods || exit 1; done");
        run_on(&lab, node, "sysctl -w net.ipv4.ip_forward=1");
        let other = format!("10.94.1.{}", 12 - number);
        run_on(&lab, node, &format!("ping -c 1 -W 5 {other}"));
        run_on(&lab, node, "! touch /opt/artifacts/mine 2>/dev/null");
    }
    let keys = fs::read_to_string(lab.known_hosts()).unwrap();
    assert_eq!(keys.lines().filter(|line| line.contains(" ssh-ed25519 ")).count(), 2);
    assert!(lab.inventory(Format::Ini).contains("node2 ansible_host=10.94.1.12"));

    let sudo_works =
        |user: &str, command: &str| lab.ssh("node1", user).unwrap().arg(command).output().unwrap().status.success();
    assert!(sudo_works("ops", "sudo -n true"));
    assert!(!sudo_works("opspw", "sudo -n true"));
    assert!(sudo_works("opspw", "echo windlass | sudo -S -p '' true"));

    // Hosts can change the machine's settings; the last lab restores them.
    let swappiness = || fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let before = swappiness();
    let other = if before.trim() == "61" { 62 } else { 61 };
    run_on(&lab, "node1", &format!("sysctl -w vm.swappiness={other}"));
    assert_ne!(swappiness(), before);

    // Hosts cannot change the clock, which everybody shares.
    assert!(!try_on(&lab, "node1", "date --set=now").status.success());

    run_on(&lab, "node1", "apt-get update && apt-get install -y lab-hello=1.0");
    assert_eq!(run_on(&lab, "node1", "lab-hello"), "hello 1.0");

    run_on(&lab, "node1", "echo kept > /var/tmp/file && sync");
    lab.kill("node1").unwrap();
    assert!(lab.kill("node1").unwrap_err().to_string().contains("stopped already"));
    let running: Vec<bool> = lab.status().unwrap().iter().map(|status| status.running).collect();
    assert_eq!(running, [false, true]);
    lab.start("node1", &mut |line| eprintln!("{line}")).unwrap();
    assert_eq!(run_on(&lab, "node1", "cat /var/tmp/file"), "kept");

    // The mark is on a file system in memory, so its absence proves a reboot.
    run_on(&lab, "node1", "touch /run/mark && systemctl reboot");
    let deadline = Instant::now() + Duration::from_secs(120);
    while !try_on(&lab, "node1", "test ! -e /run/mark").status.success() {
        assert!(Instant::now() < deadline, "node1 did not come back");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(run_on(&lab, "node1", "cat /var/tmp/file; systemctl is-system-running --wait"), "kept\nrunning");

    run_on(&lab, "node1", "systemctl poweroff");
    while lab.status().unwrap()[0].running {
        assert!(Instant::now() < deadline, "node1 did not power off");
        std::thread::sleep(Duration::from_millis(200));
    }
    lab.start("node1", &mut |line| eprintln!("{line}")).unwrap();

    assert!(Lab::open(&options.directory).is_ok());
    let refused = lab.kill("node9").unwrap_err().to_string();
    assert_eq!(refused, "The lab has no host named node9. Its hosts are node1, node2.");
    lab.kill("node2").unwrap();
    up(&options, &mut |line| eprintln!("{line}")).unwrap();
    assert_eq!(run_on(&lab, "node2", "hostname"), "node2");
    let different = Options { nodes: 3, ..options.clone() };
    assert!(up(&different, &mut |_| {}).unwrap_err().to_string().contains("the number of hosts is 2, not 3"));

    assert!(down(&options.directory, &mut |_| {}).unwrap());
    assert_nothing_is_left(&options);
    // If another test's lab is up, that one restores the machine's settings later.
    if !Path::new("/run/windlass-lab-sysctl.json").exists() {
        assert_eq!(swappiness(), before);
    }
    assert!(!down(&options.directory, &mut |_| {}).unwrap());
}

/// Starts `up` in another process.
fn victim(options: &Options) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "start_a_lab_to_be_killed", "--nocapture"])
        .env(VICTIM, serde_json::to_string(options).unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn start_a_lab_to_be_killed() {
    if let Ok(options) = std::env::var(VICTIM) {
        let options: Options = serde_json::from_str(&options).unwrap();
        up(&options, &mut |line| eprintln!("{line}")).unwrap();
    }
}

/// Kills `up` as soon as `reached` returns true.
fn kill_when(options: &Options, reached: impl Fn() -> bool) {
    let mut victim = victim(options);
    while !reached() {
        assert!(victim.try_wait().unwrap().is_none(), "up ended before it could be killed");
        std::thread::sleep(Duration::from_millis(10));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[test]
#[ignore = "boots hosts, for half a minute and as root"]
fn down_after_killed_up_removes_everything() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), 2);
    let _cleanup = Cleanup(options.directory.clone());
    // With the base in the cache, the kill hits the creation of the hosts.
    up(&options, &mut |line| eprintln!("{line}")).unwrap();
    down(&options.directory, &mut |_| {}).unwrap();
    assert_nothing_is_left(&options);

    let at = |name: &'static str| options.directory.join(name);
    let moments: [&dyn Fn() -> bool; 5] = [
        &|| at("state.json").exists(),
        &|| at("id_ed25519").exists(),
        &|| at("nodes/node2/upper/etc/ssh").exists(),
        &|| at("nodes/node1/console.log").exists(),
        &|| leftovers(&options).iter().any(|thing| thing.starts_with("link") && thing.contains("vb-")),
    ];
    for reached in moments {
        kill_when(&options, reached);
        assert!(Lab::open(&options.directory).unwrap_err().to_string().contains("was not finished"));
        assert!(down(&options.directory, &mut |_| {}).unwrap());
        assert_nothing_is_left(&options);
    }

    kill_when(&options, moments[4]);
    let lab = up(&options, &mut |line| eprintln!("{line}")).unwrap();
    assert_eq!(run_on(&lab, "node2", "hostname"), "node2");
    down(&options.directory, &mut |_| {}).unwrap();
    assert_nothing_is_left(&options);
}

#[test]
#[ignore = "boots hosts, for half a minute and as root"]
fn killed_base_build_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), 3);
    options.cache = directory.path().join("cache");
    let _cleanup = Cleanup(options.directory.clone());
    let unfinished = || {
        let entries = fs::read_dir(&options.cache).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.find(|name| name.contains("building"))
    };
    kill_when(&options, || unfinished().is_some());
    assert!(down(&options.directory, &mut |_| {}).unwrap());
    assert_eq!(unfinished(), None);
    assert_nothing_is_left(&options);
}
