//! A stage: a machine behind its own sshd and network, with a project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::network::Network;
use crate::support::Sshd;
use crate::{processes, project};

/// Maximum duration of a run. One that hangs is killed and fails its round.
const DEADLINE: Duration = Duration::from_secs(120);
/// Time for the processes of a run to exit after it.
const FAREWELL: Duration = Duration::from_secs(20);

pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) sshd: Sshd,
    pub(crate) network: Network,
    pub(crate) version: u64,
    /// Duration of a complete run.
    pub(crate) length: Duration,
    runs: usize,
}

/// Outcome of a run.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
}

impl Ran {
    /// Number of changes on each host, from the recap.
    pub(crate) fn changed(&self) -> Vec<u64> {
        let lines = self.text.lines().filter(|line| line.contains(" ok=") && line.contains("unreachable="));
        lines.filter_map(|line| line.split("changed=").nth(1)?.split_whitespace().next()?.parse().ok()).collect()
    }
}

impl Stage {
    pub(crate) fn new(user: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let penalties = Command::new("/usr/sbin/sshd").args(["-T", "-o", "PerSourcePenalties=no"]).output();
        let has_penalties = penalties.is_ok_and(|end| end.status.success());
        let sshd = Sshd::start(if has_penalties { "PerSourcePenalties no" } else { "MaxStartups 100:30:200" });
        let network = Network::to(sshd.port);
        sshd.known_hosts(&format!("[127.0.0.1]:{} {}\n", network.port, sshd.host_public_key()));
        let inventory = format!(
            "[all]\n{}\n[all:vars]\nansible_host=127.0.0.1\nansible_port={}\nansible_user=root\nansible_ssh_private_key_file={}\n\
             ansible_ssh_common_args=-F none -o UserKnownHostsFile={} -o IdentityAgent=none\nansible_remote_tmp={}\nuser={user}\n",
            project::HOSTS.join("\n"),
            network.port,
            sshd.path("id").display(),
            sshd.path("known_hosts").display(),
            sshd.path("remote").display()
        );
        project::write(folder.path(), &inventory, user);
        let mut stage = Self { folder, sshd, network, version: 0, length: Duration::ZERO, runs: 0 };
        // Twice, because the first run uploads the executor.
        for _ in 0..2 {
            stage.next_version();
            let began = Instant::now();
            let ran = stage.run(&[]);
            stage.length = began.elapsed();
            let wrong = project::wrong(stage.version);
            assert!(ran.code == Some(0) && wrong.is_empty(), "before any kill: {wrong:?}\n{}", ran.text);
        }
        eprintln!("a run takes {:?}", stage.length);
        stage
    }

    pub(crate) fn next_version(&mut self) {
        self.version += 1;
        project::set_version(self.folder.path(), self.version);
    }

    /// Starts the playbook with its output in a file.
    pub(crate) fn start(&mut self, words: &[&str]) -> (Child, PathBuf) {
        self.runs += 1;
        let said = self.folder.path().join(format!("said-{}", self.runs));
        let file = fs::File::options().create(true).append(true).open(&said).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["playbook", "-i", "hosts", "site.yml", "-e", &format!("version={}", self.version)])
            .args(words)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("ANSIBLE_CONFIG", "/dev/null")
            .env("NO_COLOR", "1")
            .env("WINDLASS_HEARTBEAT_TIMEOUT", "8")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        (child, said)
    }

    pub(crate) fn finish(&self, mut child: Child, said: &Path) -> Ran {
        let began = Instant::now();
        let code = loop {
            if let Some(end) = child.try_wait().unwrap() {
                break end.code();
            }
            if began.elapsed() > DEADLINE {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ran { code, text: fs::read_to_string(said).unwrap() }
    }

    pub(crate) fn run(&mut self, words: &[&str]) -> Ran {
        let (child, said) = self.start(words);
        self.finish(child, &said)
    }

    /// Directories in which executors keep their files.
    fn executors(&self) -> PathBuf {
        self.sshd.path("remote/.windlass-0")
    }

    /// Makes the next run upload the executor.
    pub(crate) fn forget_executor(&self) {
        for path in files_in(&self.executors()).filter(|path| name_of(path).starts_with("executor-")) {
            fs::remove_file(path).unwrap();
        }
    }

    /// Temporary files of executors in all possible places.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> =
            files_in(&self.executors()).filter(|path| !name_of(path).starts_with("executor-")).collect();
        let theirs = project::HOSTS.map(|host| Path::new(project::DATA).join(host));
        let folders = theirs.iter().flat_map(|folder| [folder.clone(), folder.join("theirs")]);
        let places = ["/tmp", "/var/tmp", "/dev/shm", "/opt", "/run", project::DATA].map(PathBuf::from);
        for place in places.into_iter().chain(folders) {
            found.extend(files_in(&place).filter(|path| name_of(path).starts_with(".windlass-")));
        }
        found.retain(|path| !name_of(path).starts_with(".windlass-lock-"));
        found
    }

    /// Ages all leftovers by days, because young ones may be in use.
    pub(crate) fn age_leftovers(&self) {
        let leftovers = self.leftovers();
        if leftovers.iter().any(|path| path.starts_with(self.executors())) {
            // Receiving an executor sweeps them.
            self.forget_executor();
        }
        for path in leftovers {
            Command::new("touch").args(["-h", "-d", "3 days ago"]).arg(path).output().unwrap();
        }
    }

    /// Runs that are registered on the machine.
    pub(crate) fn locks(&self) -> Vec<String> {
        let theirs = files_in(Path::new("/var/tmp")).filter(|path| name_of(path).starts_with(".windlass-lock-"));
        let mut found = Vec::new();
        for place in theirs.chain([PathBuf::from("/run/windlass")]) {
            found.extend(files_in(&place).map(|path| name_of(&path)).filter(|name| name.starts_with("run-")));
        }
        found
    }

    /// Waits until no process of a run is left. Returns the remaining ones.
    pub(crate) fn processes_left(&self) -> Vec<processes::Process> {
        let began = Instant::now();
        loop {
            let left: Vec<_> = processes::all().into_iter().filter(processes::Process::is_of_a_run).collect();
            if left.is_empty() || began.elapsed() > FAREWELL {
                return left;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn files_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
