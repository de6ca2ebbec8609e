//! A directory of another user beside files of root, and the attacker in it.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, lchown, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use windlass_modules::accounts;

use crate::case::Bench;

/// Duration of each race.
pub(crate) const RACE: Duration = Duration::from_secs(2);

/// Directory `bob/` of another user beside `root/` with files that only root may change.
pub(crate) struct House {
    pub(crate) bench: Bench,
    pub(crate) user: accounts::User,
    pub(crate) before: Vec<String>,
}

impl House {
    pub(crate) fn new() -> Option<House> {
        let user = accounts::user_by_name("nobody")?;
        if !windlass_testing::has("root") {
            return None;
        }
        let bench = Bench::new();
        for folder in ["bob", "root", "root/.ssh", "root/sub"] {
            fs::create_dir(bench.path(folder)).unwrap();
        }
        bench.write("root/secret", "secret").write("root/authorized_keys", "").write("root/sub/file", "of root");
        bench.write("root/conf", "root's").write("root/.ssh/authorized_keys", "root's keys");
        for (path, bits) in
            [("", 0o755), ("root", 0o755), ("root/secret", 0o600), ("root/conf", 0o600), ("root/sub", 0o700)]
        {
            fs::set_permissions(bench.path(path), fs::Permissions::from_mode(bits)).unwrap();
        }
        let house = House { before: Vec::new(), user, bench };
        house.give("bob");
        Some(House { before: house.state(), ..house })
    }

    pub(crate) fn give(&self, path: &str) {
        chown(self.bench.path(path), Some(self.user.uid), Some(self.user.gid)).unwrap();
    }

    /// A link owned by the attacker.
    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.bench.path(path);
        symlink(self.bench.path(target), &path).unwrap();
        lchown(&path, Some(self.user.uid), Some(self.user.gid)).unwrap();
    }

    /// Owners, permissions, extended attributes and contents of all files of root.
    pub(crate) fn state(&self) -> Vec<String> {
        fn walk(path: &Path, all: &mut Vec<String>) {
            let found = path.symlink_metadata().unwrap();
            let mut names = vec![0; 4096];
            let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
            let content = if found.is_file() { fs::read(path).unwrap() } else { Vec::new() };
            all.push(format!(
                "{} {} {:o} {content:?} {:?}",
                path.display(),
                found.uid(),
                found.mode(),
                &names[..length]
            ));
            if found.is_dir() {
                let mut children: Vec<PathBuf> =
                    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
                children.sort();
                children.iter().for_each(|child| walk(child, all));
            }
        }
        let mut all = Vec::new();
        walk(&self.bench.path("root"), &mut all);
        all
    }

    pub(crate) fn is_untouched(&self) {
        assert_eq!(self.state(), self.before, "root's files were changed");
    }

    /// Starts the attacker in a directory.
    pub(crate) fn attacker(&self, folder: &str) -> Attacker {
        let program = self.bench.path("attacker");
        if !program.exists() {
            fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            fs::create_dir(self.bench.path("stash")).unwrap();
            self.give("stash");
        }
        let mut command = Command::new(program);
        command.args(["--exact", "attacker_swaps_until_killed", "--ignored", "--nocapture"]);
        command.env("ATTACKED", self.bench.path(folder)).env("ATTACK_ROOT", self.bench.path("root"));
        command.env("ATTACK_STASH", self.bench.path("stash")).uid(self.user.uid).gid(self.user.gid);
        command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/");
        // A process that another test is starting may still hold the program open for writing.
        let busy = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ExecutableFileBusy;
        let started = (0..100).find_map(|_| match command.spawn() {
            Err(error) if busy(&error) => {
                std::thread::sleep(std::time::Duration::from_millis(50));
                None
            }
            started => Some(started),
        });
        Attacker(started.unwrap().unwrap())
    }

    /// Runs a module repeatedly while the attacker works in a directory.
    pub(crate) fn race(&self, folder: &str, module: &str, args: &Value, mut between: impl FnMut()) {
        let _attacker = self.attacker(folder);
        let end = Instant::now() + RACE;
        while Instant::now() < end {
            self.bench.run(module, args.clone(), false);
            between();
        }
    }
}

/// Kills the attacker on drop.
pub(crate) struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
