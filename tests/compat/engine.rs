//! The engines to compare: Windlass under Ansible's names, or real ansible-core of both versions.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The compared versions of ansible-core.
pub(crate) const LINES: [&str; 2] = ["2.18", "2.19"];

const NAMES: [&str; 5] = ["ansible", "ansible-playbook", "ansible-inventory", "ansible-vault", "ansible-config"];

/// The programs of one version.
pub(crate) struct Engine {
    pub(crate) line: &'static str,
    pub(crate) is_ours: bool,
    programs: PathBuf,
    _links: Option<TempDir>,
}

/// Result of a command.
pub(crate) struct Run {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: String,
}

impl Engine {
    /// Windlass, or the engines in `COMPAT_ENGINES`, a folder with the virtual environments `2.18` and `2.19`.
    pub(crate) fn all() -> Vec<Self> {
        LINES.into_iter().map(Self::of).collect()
    }

    fn of(line: &'static str) -> Self {
        if let Some(engines) = std::env::var_os("COMPAT_ENGINES") {
            let programs = Path::new(&engines).join(line).join("bin");
            assert!(programs.join("ansible-playbook").exists(), "{} has no ansible-playbook", programs.display());
            return Self { line, is_ours: false, programs, _links: None };
        }
        let links = tempfile::tempdir().unwrap();
        for name in NAMES {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_windlass"), links.path().join(name)).unwrap();
        }
        Self { line, is_ours: true, programs: links.path().to_owned(), _links: Some(links) }
    }

    /// Folder of collections, for runs that need some. Both real engines use those of the newer version; Windlass needs
    /// none.
    fn collections(&self) -> PathBuf {
        let libraries = self.programs.parent().and_then(Path::parent).map(|engines| engines.join("2.19/lib"));
        let pythons = libraries.filter(|_| !self.is_ours).and_then(|folder| fs::read_dir(folder).ok());
        let packages = |entry: std::io::Result<fs::DirEntry>| Some(entry.ok()?.path().join("site-packages"));
        pythons.into_iter().flatten().filter_map(packages).find(|folder| folder.is_dir()).unwrap_or_default()
    }

    /// Runs a shell command in which Ansible's commands are this engine's; bare arguments go to `ansible-playbook`.
    ///
    /// With `COMPAT_SHARDS=N`, N processes share the work, unless the run has something that they refuse.
    pub(crate) fn run(&self, line: &str, folder: &Path, scratch: &Path) -> Run {
        if let Some(count) = std::env::var_os("COMPAT_SHARDS") {
            let run = self.run_in(Some(count), line, folder, scratch);
            if !run.stderr.contains("--shards cannot be used with") {
                return run;
            }
        }
        self.run_in(None, line, folder, scratch)
    }

    fn run_in(&self, processes: Option<OsString>, line: &str, folder: &Path, scratch: &Path) -> Run {
        let line = if line.starts_with('-') { format!("ansible-playbook {line}") } else { line.to_owned() };
        let home = scratch.join(".home");
        fs::create_dir_all(&home).unwrap();
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ANSIBLE_") {
                command.env_remove(name);
            }
        }
        // Without bytecode, package managers and firewalls in Python compile all their sources at each start.
        command.env_remove("PYTHONDONTWRITEBYTECODE");
        let path = std::env::var("PATH").unwrap_or_default();
        let output = command
            .args(["-c", &line])
            .current_dir(folder)
            .stdin(Stdio::null())
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("WINDLASS_COMPAT", self.line)
            .envs(processes.map(|count| ("WINDLASS_SHARDS", count)))
            .env("SCRATCH", scratch)
            .env("COLLECTIONS", self.collections())
            .env("HOME", &home)
            .env("WINDLASS_JOURNAL_DIR", home.join("journal"))
            .env("WINDLASS_PENDING_HANDLERS", "skip")
            .env("WINDLASS_FAILURES", "ansible")
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env("PYTHONHASHSEED", "0")
            .env("ANSIBLE_FORKS", "1")
            .env("ANSIBLE_NOCOLOR", "1")
            .env("NO_COLOR", "1")
            .env("ANSIBLE_PYTHON_INTERPRETER", "/usr/bin/python3")
            .env("ANSIBLE_DEPRECATION_WARNINGS", "false")
            .env("ANSIBLE_LOCALHOST_WARNING", "false")
            .output()
            .unwrap();
        Run {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().map_or_else(|| output.status.to_string(), |code| code.to_string()),
        }
    }
}

/// Copies a folder recursively.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
