//! Two runs on one host over a real sshd: the second waits for the first, fails, or ignores the lock.
//!
//! Root's locks are in `/run` and other users' in `/var/tmp`, which the whole machine shares. Each test therefore runs
//! in a mount namespace with its own of both, and of `/dev/shm` for its files, where it cannot meet other runs.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Sshd, available};

/// Whether the test may continue here. Otherwise, it has already run in its own namespace.
fn in_own_namespace(test: &str) -> bool {
    const INSIDE: &str = "WINDLASS_TEST_OWN_RUN";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !available() {
        return false;
    }
    let script = "mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /var/tmp && mount -t tmpfs tmpfs /run && mkdir -p /run/sshd && exec \"$0\" --exact \"$1\" --nocapture";
    let own = std::env::current_exe().unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(own);
    let output = inside.arg(format!("host_lock::{test}")).env(INSIDE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    // A name that no test has is a success, too.
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// A machine with several names in the inventory.
struct Machine(Sshd);

impl Machine {
    fn new(names: &[String]) -> Machine {
        let sshd = Sshd::start("MaxStartups 100:30:200");
        let lines = names.iter().map(|name| {
            format!(
                "{name} ansible_host=127.0.0.1 ansible_port={} ansible_user=root ansible_ssh_private_key_file={} \
                 ansible_ssh_common_args='-F none -o UserKnownHostsFile={} -o StrictHostKeyChecking=no' ansible_remote_tmp={}\n",
                sshd.port,
                sshd.path("id").display(),
                sshd.path("known_hosts").display(),
                sshd.path("remote").display()
            )
        });
        fs::write(sshd.path("hosts"), lines.collect::<String>()).unwrap();
        Machine(sshd)
    }

    fn playbook(&self, name: &str, task: &str) {
        let text = format!("- hosts: all\n  gather_facts: false\n  tasks:\n    - {task}\n");
        fs::write(self.0.path(name), text).unwrap();
    }

    /// Writes a playbook that signals its start and then waits for permission to continue.
    fn long_playbook(&self, name: &str) {
        let (begun, go) = (self.0.path("begun"), self.0.path("go"));
        let task = format!("shell: touch {}; while [ ! -e {} ]; do sleep 0.05; done", begun.display(), go.display());
        self.playbook(name, &task);
    }

    fn start(&self, words: &[&str]) -> Started {
        let said = self.0.path(&format!("said by {}", words.join(" ")));
        let child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(words)
            .args(["-i", "hosts"])
            .current_dir(self.0.directory.path())
            .env_remove("ANSIBLE_CONFIG")
            .env_remove("WINDLASS_LOCK")
            .env("NO_COLOR", "1")
            .env("COLUMNS", "1000")
            .stdin(Stdio::null())
            .stdout(fs::File::create(&said).unwrap())
            .stderr(fs::File::options().append(true).open(&said).unwrap())
            .spawn()
            .unwrap();
        Started { child, said }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path(name)
    }
}

struct Started {
    child: Child,
    said: std::path::PathBuf,
}

impl Started {
    fn said(&self) -> String {
        let text = fs::read_to_string(&self.said).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn says(&self, wanted: &str) {
        until(|| self.said().contains(wanted), &|| format!("never said {wanted:?}: {}", self.said()));
    }

    fn ends(mut self) -> (Option<i32>, String) {
        let mut code = None;
        until(
            || {
                code = self.child.try_wait().unwrap();
                code.is_some()
            },
            &|| format!("never ended: {}", fs::read_to_string(&self.said).unwrap()),
        );
        (code.unwrap().code(), self.said())
    }
}

fn until(mut reached: impl FnMut() -> bool, complaint: &dyn Fn() -> String) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < Duration::from_secs(120), "{}", complaint());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn exists(path: &Path) {
    until(|| path.exists(), &|| format!("{} never came", path.display()));
}

fn names(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("web{number}")).collect()
}

#[test]
fn second_run_names_the_first_and_waits() {
    if !in_own_namespace("second_run_names_the_first_and_waits") {
        return;
    }
    let machine = Machine::new(&names(1));
    machine.long_playbook("first.yml");
    machine.playbook("second.yml", &format!("copy: {{content: x, dest: {}}}", machine.path("made").display()));
    let first = machine.start(&["playbook", "first.yml"]);
    exists(&machine.path("begun"));
    let second = machine.start(&["playbook", "second.yml"]);
    second.says(&format!("web1: waiting for the lock of this host, which is held by root@{}", node()));
    second.says(&format!("(process {}), `playbook first.yml`, since 2", first.child.id()));
    assert!(!machine.path("made").exists(), "{}", second.said());
    // One run fails immediately; another ignores the lock.
    let (code, said) = machine.start(&["playbook", "second.yml", "--lock", "fail"]).ends();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("web1 is locked by another run: root@") && said.contains("`playbook first.yml`"), "{said}");
    assert!(!machine.path("made").exists());
    // rsync talks to the host beside its executor.
    if windlass_testing::has("rsync") {
        let made = machine.path("made");
        machine.playbook("third.yml", &format!("synchronize: {{src: first.yml, dest: {}}}", made.display()));
        let (code, said) = machine.start(&["playbook", "third.yml", "--lock", "fail"]).ends();
        assert!(code == Some(4) && said.contains("web1 is locked by another run") && !made.exists(), "{said}");
    }
    let beside = machine.start(&["adhoc", "all", "-m", "ping", "--lock", "ignore"]).ends();
    assert_eq!(beside.0, Some(0), "{}", beside.1);
    let (code, said) = machine.start(&["playbook", "second.yml", "--lock-timeout", "1", "--check"]).ends();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("of waiting"), "{said}");

    fs::write(machine.path("go"), "").unwrap();
    assert_eq!(first.ends().0, Some(0));
    let (code, said) = second.ends();
    assert_eq!(code, Some(0), "{said}");
    assert!(machine.path("made").exists());
    until(|| held().is_empty(), &|| format!("left: {:?}", held()));
}

#[test]
fn wait_for_a_lock_does_not_count_as_the_time_of_the_task() {
    if !in_own_namespace("wait_for_a_lock_does_not_count_as_the_time_of_the_task") {
        return;
    }
    let machine = Machine::new(&names(1));
    machine.long_playbook("first.yml");
    machine.playbook("second.yml", "command: 'true'\n      timeout: 1");
    let first = machine.start(&["playbook", "first.yml"]);
    exists(&machine.path("begun"));
    let second = machine.start(&["playbook", "second.yml"]);
    second.says("waiting for the lock");
    // The controller waits 5 s longer than the task may take.
    std::thread::sleep(Duration::from_secs(7));
    fs::write(machine.path("go"), "").unwrap();
    let (code, said) = second.ends();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(first.ends().0, Some(0));
}

#[test]
fn full_file_system_does_not_unlock_the_host() {
    if !in_own_namespace("full_file_system_does_not_unlock_the_host") {
        return;
    }
    let machine = Machine::new(&names(1));
    let fill = "mount -o remount,size=64k /run && ! cat /dev/zero > /run/full 2>/dev/null";
    assert!(Command::new("sh").args(["-c", fill]).status().unwrap().success());
    machine.long_playbook("first.yml");
    machine.playbook("second.yml", &format!("copy: {{content: x, dest: {}}}", machine.path("made").display()));
    let first = machine.start(&["playbook", "first.yml"]);
    exists(&machine.path("begun"));
    let (code, said) = machine.start(&["playbook", "second.yml", "--lock", "fail"]).ends();
    assert!(code == Some(4) && said.contains("web1 is locked by another run"), "{said}");
    fs::write(machine.path("go"), "").unwrap();
    assert_eq!(first.ends().0, Some(0));
}

#[test]
fn host_that_cannot_be_locked_is_left_alone_by_lock_fail() {
    if !in_own_namespace("host_that_cannot_be_locked_is_left_alone_by_lock_fail") {
        return;
    }
    let prepare = "mount -t tmpfs tmpfs /tmp && for d in /run/windlass /var/tmp/.windlass-lock-0 /tmp/.windlass-lock-0 /dev/shm/.windlass-lock-0; do \
                   mkdir $d && chown 1 $d || exit 1; done";
    assert!(Command::new("sh").args(["-c", prepare]).status().unwrap().success());
    let machine = Machine::new(&names(1));
    machine.playbook("site.yml", &format!("copy: {{content: x, dest: {}}}", machine.path("made").display()));
    let (code, said) = machine.start(&["playbook", "site.yml", "--lock", "fail"]).ends();
    assert!(code == Some(2) && said.contains("cannot be locked against other runs"), "{said}");
    assert!(!machine.path("made").exists());
    let (code, said) = machine.start(&["playbook", "site.yml"]).ends();
    assert!(code == Some(0) && said.contains("it belongs to another user"), "{said}");
}

#[test]
fn first_run_killed_frees_the_host() {
    if !in_own_namespace("first_run_killed_frees_the_host") {
        return;
    }
    let machine = Machine::new(&names(1));
    machine.long_playbook("first.yml");
    machine.playbook("second.yml", &format!("copy: {{content: x, dest: {}}}", machine.path("made").display()));
    let mut first = machine.start(&["playbook", "first.yml"]);
    exists(&machine.path("begun"));
    let second = machine.start(&["playbook", "second.yml"]);
    second.says("waiting for the lock");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let (code, said) = second.ends();
    assert_eq!(code, Some(0), "{said}");
    assert!(machine.path("made").exists());
}

#[test]
fn run_interrupted_while_it_waits_for_a_lock_has_begun_nothing() {
    if !in_own_namespace("run_interrupted_while_it_waits_for_a_lock_has_begun_nothing") {
        return;
    }
    let machine = Machine::new(&names(1));
    machine.long_playbook("first.yml");
    machine.playbook("second.yml", "command: sleep 60");
    let first = machine.start(&["playbook", "first.yml"]);
    exists(&machine.path("begun"));
    let second = machine.start(&["playbook", "second.yml"]);
    second.says("waiting for the lock of this host");
    Command::new("kill").args(["-INT", &second.child.id().to_string()]).status().unwrap();
    let (code, said) = second.ends();
    assert_eq!(code, Some(99), "{said}");
    assert!(said.contains("s; it waited for the lock of the host and did not begin)"), "{said}");
    fs::write(machine.path("go"), "").unwrap();
    first.ends();
}

#[test]
fn shared_locks_held_together() {
    if !in_own_namespace("shared_locks_held_together") {
        return;
    }
    let machine = Machine::new(&names(1));
    machine.long_playbook("first.yml");
    let first = machine.start(&["playbook", "first.yml", "--lock", "shared"]);
    exists(&machine.path("begun"));
    let (code, said) = machine.start(&["adhoc", "all", "-m", "ping", "--lock-timeout", "1"]).ends();
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = machine.start(&["adhoc", "all", "-a", "true", "--lock", "fail"]).ends();
    assert_eq!(code, Some(4), "{said}");
    fs::write(machine.path("go"), "").unwrap();
    assert_eq!(first.ends().0, Some(0));
}

#[test]
fn one_machine_under_thirty_names_neither_waits_for_itself_nor_loses_a_line() {
    if !in_own_namespace("one_machine_under_thirty_names_neither_waits_for_itself_nor_loses_a_line") {
        return;
    }
    let machine = Machine::new(&names(30));
    let file = machine.path("lines");
    fs::write(&file, "").unwrap();
    let task = format!("lineinfile: {{path: {}, line: 'this is {{{{ inventory_hostname }}}}'}}", file.display());
    machine.playbook("lines.yml", &task);
    let (code, said) = machine.start(&["playbook", "lines.yml", "-f", "30"]).ends();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("waiting for the lock"), "{said}");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 30, "{text}");
}

#[test]
fn file_that_root_and_its_owner_edit_at_once_loses_no_line() {
    if !in_own_namespace("file_that_root_and_its_owner_edit_at_once_loses_no_line") || !windlass_testing::has("sudo") {
        return;
    }
    let machine = Machine::new(&names(8));
    let folder = Path::new("/dev/shm/of-games");
    fs::create_dir(folder).unwrap();
    let file = folder.join("lines");
    fs::write(&file, "").unwrap();
    // The file becomes the user's once the user edits it, because edits replace it.
    let owned = Command::new("chown").arg("games").arg(folder).status().unwrap();
    assert!(owned.success());
    let task = format!(
        "lineinfile: {{path: {}, line: '{{{{ inventory_hostname }}}} {{{{ item }}}}'}}\n      loop: [1, 2, 3, 4, 5]\n      \
         become: true\n      become_user: \"{{{{ inventory_hostname in groups.all[:4] and 'root' or 'games' }}}}\"",
        file.display()
    );
    machine.playbook("lines.yml", &task);
    let (code, said) = machine.start(&["playbook", "lines.yml", "-f", "8"]).ends();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("edited although"), "{said}");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 40, "{text}");
}

/// Starts a job that runs until it may end, in a run that ends immediately. Returns the number of the job's process.
fn start_job(machine: &Machine, limit: u64) -> String {
    let (begun, go) = (machine.path("begun"), machine.path("go"));
    let body = format!(
        "shell: touch {0}; while [ ! -e {1} ]; do sleep 0.05; done\n      async: {limit}\n      poll: 0\n      register: job\n    \
         - async_status: {{jid: '{{{{ job.ansible_job_id }}}}'}}\n    - copy: {{content: '{{{{ job.ansible_job_id }}}}', dest: {2}}}",
        begun.display(),
        go.display(),
        machine.path("job").display()
    );
    machine.playbook("first.yml", &body);
    let (code, said) = machine.start(&["playbook", "first.yml", "--lock", "fail"]).ends();
    assert_eq!(code, Some(0), "{said}");
    exists(&begun);
    fs::read_to_string(machine.path("job")).unwrap()
}

#[test]
fn job_keeps_other_runs_out_until_it_ends() {
    if !in_own_namespace("job_keeps_other_runs_out_until_it_ends") {
        return;
    }
    let machine = Machine::new(&names(1));
    machine.playbook("second.yml", &format!("copy: {{content: x, dest: {}}}", machine.path("made").display()));
    // Neither the status nor a later task of the job's own run waits for the job.
    let job = start_job(&machine, 600);
    let second = machine.start(&["playbook", "second.yml"]);
    second.says(&format!("web1: waiting for the lock of this host, which is held by root@{}", node()));
    second.says(&format!("`job {job} of playbook first.yml, for 600 s at most`"));
    assert!(!machine.path("made").exists(), "{}", second.said());
    let (code, said) = machine.start(&["playbook", "second.yml", "--lock", "fail"]).ends();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("web1 is locked by another run: root@") && said.contains(&job), "{said}");
    // Another run may look after the job.
    let status = ["adhoc", "all", "-m", "async_status", "-a", &format!("jid={job}"), "--lock", "fail"];
    let (code, said) = machine.start(&status).ends();
    assert_eq!(code, Some(0), "{said}");

    fs::write(machine.path("go"), "").unwrap();
    let (code, said) = second.ends();
    assert_eq!(code, Some(0), "{said}");
    until(|| held().is_empty(), &|| format!("left: {:?}", held()));
}

#[test]
fn killed_job_frees_the_host() {
    if !in_own_namespace("killed_job_frees_the_host") {
        return;
    }
    let machine = Machine::new(&names(1));
    machine.playbook("second.yml", "command: 'true'");
    let job = start_job(&machine, 600);
    let process = job.rsplit('.').next().unwrap().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
    assert_eq!(machine.start(&["playbook", "second.yml", "--lock", "fail"]).ends().0, Some(4));
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    let (code, said) = machine.start(&["playbook", "second.yml", "--lock-timeout", "60"]).ends();
    assert_eq!(code, Some(0), "{said}");
    until(|| held().is_empty(), &|| format!("left: {:?}", held()));
}

#[test]
fn job_of_a_become_user_keeps_out_later_runs_as_that_user() {
    if !in_own_namespace("job_of_a_become_user_keeps_out_later_runs_as_that_user") || !windlass_testing::has("sudo") {
        return;
    }
    let machine = Machine::new(&names(1));
    let as_games = "become: true\n      become_user: games";
    let job = format!(
        "shell: touch /dev/shm/begun; while [ ! -e /dev/shm/go ]; do sleep 0.05; done\n      {as_games}\n      \
         vars: {{ansible_async_dir: /dev/shm/jobs}}\n      async: 600\n      poll: 0"
    );
    machine.playbook("first.yml", &job);
    machine.playbook("games.yml", &format!("command: 'true'\n      {as_games}"));
    machine.playbook("root.yml", "command: 'true'");
    let (code, said) = machine.start(&["playbook", "first.yml", "--lock", "fail"]).ends();
    assert_eq!(code, Some(0), "{said}");
    exists(Path::new("/dev/shm/begun"));
    let (code, said) = machine.start(&["playbook", "games.yml", "--lock", "fail"]).ends();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("web1 is locked by another run: root@") && said.contains("of playbook first.yml"), "{said}");
    // Root does not trust locks that another user could hold forever.
    let (code, said) = machine.start(&["playbook", "root.yml", "--lock", "fail"]).ends();
    assert_eq!(code, Some(0), "{said}");

    let waiting = machine.start(&["playbook", "games.yml"]);
    waiting.says("waiting for the lock of this host");
    fs::write("/dev/shm/go", "").unwrap();
    let (code, said) = waiting.ends();
    assert_eq!(code, Some(0), "{said}");
}

/// Adds the login of an unprivileged user, who may become root, as the host `games`.
fn add_games(machine: &Machine) {
    use std::os::unix::fs::PermissionsExt as _;
    // The test has its own mounts.
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let line = |line: &str| match line.strip_suffix("/usr/sbin/nologin").filter(|_| line.starts_with("games:")) {
        Some(start) => format!("{start}/bin/sh\n"),
        None => format!("{line}\n"),
    };
    fs::write("/dev/shm/passwd", passwd.lines().map(line).collect::<String>()).unwrap();
    let script = "mount --bind /dev/shm/passwd /etc/passwd && mount -t tmpfs -o mode=755 tmpfs /etc/sudoers.d && umask 227 && \
                  echo 'games ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/games";
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
    fs::set_permissions(machine.0.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let hosts = fs::read_to_string(machine.path("hosts")).unwrap();
    let web = hosts.lines().next().unwrap().replace("ansible_user=root", "ansible_user=games");
    let remote = machine.path("remote").display().to_string();
    let games = web.replacen("web1", "games", 1).replace(&remote, "/dev/shm/remote-games");
    fs::write(machine.path("hosts"), format!("{hosts}{games}\n")).unwrap();
}

#[test]
fn runs_that_become_root_exclude_each_other_whoever_logs_in() {
    if !in_own_namespace("runs_that_become_root_exclude_each_other_whoever_logs_in") || !windlass_testing::has("sudo") {
        return;
    }
    let machine = Machine::new(&names(1));
    add_games(&machine);
    let wait = "touch /dev/shm/begun; while [ ! -e /dev/shm/go ]; do sleep 0.05; done";
    machine.playbook("long.yml", &format!("shell: {wait}\n      become: true"));
    machine.playbook("short.yml", "command: 'true'\n      become: true");
    machine.playbook("unprivileged.yml", "command: 'true'");
    for (first, second) in [("games", "web1"), ("web1", "games")] {
        let long = machine.start(&["playbook", "long.yml", "-l", first]);
        exists(Path::new("/dev/shm/begun"));
        let (code, said) = machine.start(&["playbook", "short.yml", "-l", second, "--lock", "fail"]).ends();
        assert_eq!(code, Some(4), "{first}, {second}: {said}");
        assert!(said.contains("is locked by another run: root@") && said.contains("`playbook long.yml`"), "{said}");
        fs::write("/dev/shm/go", "").unwrap();
        assert_eq!(long.ends().0, Some(0));
        ["/dev/shm/go", "/dev/shm/begun"].iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}

#[test]
fn login_user_holds_its_lock_while_another_user_works() {
    if !in_own_namespace("login_user_holds_its_lock_while_another_user_works") || !windlass_testing::has("sudo") {
        return;
    }
    let machine = Machine::new(&names(1));
    let wait = "touch /dev/shm/begun; while [ ! -e /dev/shm/go ]; do sleep 0.05; done";
    machine.playbook("games.yml", &format!("shell: {wait}\n      become: true\n      become_user: games"));
    machine.playbook("root.yml", "command: 'true'");
    let games = machine.start(&["playbook", "games.yml"]);
    exists(Path::new("/dev/shm/begun"));
    let (code, said) = machine.start(&["playbook", "root.yml", "--lock", "fail"]).ends();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("web1 is locked by another run: root@") && said.contains("`playbook games.yml`"), "{said}");
    let waiting = machine.start(&["playbook", "games.yml"]);
    waiting.says("waiting for the lock of this host");
    fs::write("/dev/shm/go", "").unwrap();
    assert_eq!(games.ends().0, Some(0));
    let (code, said) = waiting.ends();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn job_starts_once_the_other_run_has_ended() {
    if !in_own_namespace("job_starts_once_the_other_run_has_ended") {
        return;
    }
    let machine = Machine::new(&names(1));
    machine.long_playbook("first.yml");
    machine.playbook(
        "job.yml",
        &format!("shell: touch {}\n      async: 60\n      poll: 1", machine.path("made").display()),
    );
    let first = machine.start(&["playbook", "first.yml"]);
    exists(&machine.path("begun"));
    let job = machine.start(&["playbook", "job.yml"]);
    job.says("waiting for the lock of this host");
    fs::write(machine.path("go"), "").unwrap();
    assert_eq!(first.ends().0, Some(0));
    let (code, said) = job.ends();
    assert_eq!(code, Some(0), "{said}");
    assert!(machine.path("made").exists());
}

#[test]
fn job_of_more_than_a_day_is_a_service_and_holds_no_lock() {
    if !in_own_namespace("job_of_more_than_a_day_is_a_service_and_holds_no_lock") {
        return;
    }
    let machine = Machine::new(&names(1));
    machine.playbook("second.yml", "command: 'true'");
    let job = start_job(&machine, 86_401);
    let (code, said) = machine.start(&["playbook", "second.yml", "--lock", "fail"]).ends();
    assert_eq!(code, Some(0), "{said}");
    fs::write(machine.path("go"), "").unwrap();
    // Without the machine's folder, it would wait for a day.
    let process = Path::new("/proc").join(job.rsplit('.').next().unwrap());
    until(|| !process.exists(), &|| format!("{job} never ended"));
}

fn node() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Runs that are registered on this machine.
fn held() -> Vec<String> {
    fs::read_dir("/run/windlass").map_or_else(
        |_| Vec::new(),
        |entries| {
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.starts_with("run-")).collect()
        },
    )
}

#[test]
fn file_whose_file_system_has_no_locks_is_edited_with_one_warning() {
    if !windlass_testing::has_all(&["root", "strace"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let edit = |name: &str| {
        fs::write(path(name), "").unwrap();
        fs::set_permissions(path(name), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        format!("    - lineinfile: {{path: {}, line: added}}\n", path(name).display())
    };
    let tasks = edit("one") + &edit("two");
    fs::write(path("play.yml"), format!("- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")).unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e", "inject=flock:error=ENOLCK"]);
    command.arg("-P").arg(path("one")).arg("-P").arg(path("two"));
    command.arg(env!("CARGO_BIN_EXE_windlass")).args(["playbook", "-i", "a,", "-c", "local", "play.yml"]);
    command.current_dir(folder.path()).env("HOME", folder.path()).env("COLUMNS", "1000").env("NO_COLOR", "1");
    let output = command.env_remove("ANSIBLE_CONFIG").stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains(&format!("a: {} is edited without a lock", path("one").display())), "{errors}");
    assert_eq!(errors.matches("without a lock").count(), 1, "{errors}");
    assert_eq!(fs::read_to_string(path("two")).unwrap(), "added\n");
}

#[test]
fn processes_of_one_run_share_its_lock() {
    if !in_own_namespace("processes_of_one_run_share_its_lock") {
        return;
    }
    let machine = Machine::new(&names(6));
    // Each process holds the lock of the same machine until the run ends.
    machine.playbook(
        "both.yml",
        &format!("shell: echo {{{{ inventory_hostname }}}} >> {}", machine.path("ran").display()),
    );
    let (code, said) = machine.start(&["playbook", "both.yml", "--shards", "3", "--lock", "fail"]).ends();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::read_to_string(machine.path("ran")).unwrap().lines().count(), 6, "{said}");
}
