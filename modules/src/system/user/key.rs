//! SSH keys of `user` (`generate_ssh_key`), from ssh-keygen(1).

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    Args, Failure, Host, Map, Outcome,
    accounts::User,
    files::{
        attributes::Attributes,
        scratch::Scratch,
        way,
        write::{self, Source},
    },
    process::{Command, reason},
    run::carry_out,
};

/// The requested SSH key of a user.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    kind: String,
    bits: Option<i64>,
    /// Regenerate the key.
    force: bool,
    file: Option<String>,
    comment: Option<String>,
    passphrase: String,
}

impl Wanted {
    pub(super) fn of(args: &Args) -> Wanted {
        Wanted {
            kind: args.str("ssh_key_type").unwrap_or("rsa").to_owned(),
            bits: args.int("ssh_key_bits").filter(|bits| *bits > 0),
            force: args.bool("force"),
            file: args.str("ssh_key_file").map(str::to_owned),
            comment: args.str("ssh_key_comment").map(str::to_owned),
            passphrase: args.str("ssh_key_passphrase").unwrap_or_default().to_owned(),
        }
    }

    /// Path of the private key.
    pub(super) fn path(&self, home: &str) -> PathBuf {
        match &self.file {
            Some(file) => Path::new(home).join(file),
            None => Path::new(home).join(format!(".ssh/id_{}", self.kind)),
        }
    }

    fn public(&self, home: &str) -> PathBuf {
        let mut path = self.path(home).into_os_string();
        path.push(".pub");
        path.into()
    }

    /// Whether to generate a key, and messages about existing files.
    pub(super) fn decide(&self, home: &str) -> (bool, Vec<String>) {
        let mut told = Vec::new();
        for (what, file) in [("private", self.path(home)), ("public", self.public(home))] {
            let shown = file.display();
            if !file.exists() {
                continue;
            }
            if !self.force {
                let end = "no force, so skipping ssh-keygen generation";
                return (false, vec![format!("Found existing ssh key {what} file \"{shown}\", {end}")]);
            }
            told.push(format!("Overwriting existing ssh key {what} file \"{shown}\""));
        }
        (true, told)
    }

    /// Generates the key, unless an existing one must be kept, and reports it.
    pub(super) fn have(&self, user: &User, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        let (path, public) = (self.path(&user.home), self.public(&user.home));
        let (make, told) = self.decide(&user.home);
        outcome.warnings.extend(told);
        if make {
            outcome.changed = true;
            for file in [&path, &public] {
                self.make_way(file)?;
            }
            // Generated in a private directory and moved, because ssh-keygen would follow the user's links.
            let scratch = Scratch::new()?;
            let draft = scratch.path().join("key");
            self.generate(&draft, host)?;
            make_folder(&path, user)?;
            for (file, draft, bits) in [(&path, draft.clone(), 0o600), (&public, draft.with_extension("pub"), 0o644)] {
                let mut wanted = write::Wanted::new(file, Source::File(draft));
                wanted.attributes = Attributes::owned_by(user.uid, user.gid, bits);
                wanted.follow = false;
                carry_out(wanted.plan(host)?, host)?;
            }
        }
        outcome.data.extend(self.report(&user.home, host)?);
        Ok(())
    }

    /// The result keys that describe the existing key.
    pub(super) fn report(&self, home: &str, host: &Host) -> Result<Map, Failure> {
        let path = self.path(home);
        let shown = path.to_string_lossy().into_owned();
        let mut fingerprint = String::new();
        if path.exists() {
            let output = Command::new("ssh-keygen").plain_locale().args(["-l", "-f", &shown]).run(host)?;
            fingerprint = if output.success() { output.stdout_text() } else { output.stderr_text() };
        }
        let public = way::read_text(&self.public(home)).ok();
        let entries = [
            ("ssh_fingerprint", json!(fingerprint.trim())),
            ("ssh_key_file", json!(shown)),
            ("ssh_public_key", json!(public.as_deref().map(str::trim))),
        ];
        Ok(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Removes the files that a new key replaces. A dangling link of the user must not be written through either.
    fn make_way(&self, file: &Path) -> Result<(), Failure> {
        match (file.symlink_metadata(), self.force) {
            (Err(_), _) => Ok(()),
            (Ok(_), false) => {
                Err(Failure::new(format!("Key already exists, use \"force: yes\" to overwrite: {}", file.display())))
            }
            (Ok(_), true) => way::remove_file(file)
                .map_err(|error| Failure::new(format!("{} could not be removed: {}.", file.display(), reason(&error)))),
        }
    }

    fn generate(&self, path: &Path, host: &Host) -> Result<(), Failure> {
        let comment = self.comment.clone().unwrap_or_else(|| {
            format!("ansible-generated on {}", rustix::system::uname().nodename().to_string_lossy())
        });
        let path = path.to_string_lossy();
        let mut command =
            Command::new("ssh-keygen").plain_locale().args(["-q", "-t", &self.kind, "-C", &comment, "-f", &path]);
        if let Some(bits) = self.bits {
            command = command.args(["-b", &bits.to_string()]);
        }
        if self.passphrase.is_empty() {
            command.args(["-N", ""]).check_run(host)?;
            return Ok(());
        }
        // ssh-keygen reads the passphrase from a helper program, so it never becomes an argument.
        let helper = Scratch::executable()?;
        let script = helper.path().join("passphrase");
        let wrote = fs::write(&script, "#!/bin/sh\nprintf '%s\\n' \"$WINDLASS_PASSPHRASE\"\n")
            .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o700)));
        wrote
            .map_err(|error| Failure::new(format!("{} could not be written: {}.", script.display(), reason(&error))))?;
        command
            .variable("SSH_ASKPASS", script.as_os_str())
            .variable("SSH_ASKPASS_REQUIRE", "force")
            .variable("DISPLAY", "none")
            .variable("WINDLASS_PASSPHRASE", &self.passphrase)
            .check_run(host)?;
        Ok(())
    }
}

/// Creates the directory of a key, if it is missing.
fn make_folder(path: &Path, user: &User) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if folder.exists() {
        return Ok(());
    }
    way::create_dir(folder, 0o700)
        .and_then(|()| way::chown(folder, Some(user.uid), Some(user.gid), way::Link::NoFollow))
        .map_err(|error| Failure::new(format!("{} could not be made: {}.", folder.display(), reason(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_key_generated_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let user = User {
            name: "ada".into(),
            password: "x".into(),
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            gecos: String::new(),
            home: folder.path().to_string_lossy().into_owned(),
            shell: String::new(),
        };
        for passphrase in ["", "a secret"] {
            let file = Some(format!(".ssh/key{}", passphrase.len()));
            let wanted = Wanted {
                kind: "ed25519".into(),
                bits: None,
                force: false,
                file,
                comment: Some("test".into()),
                passphrase: passphrase.into(),
            };
            let host = Host::alone();
            if crate::process::find(&host, "ssh-keygen").is_none() {
                return;
            }
            let mut first = Outcome::default();
            wanted.have(&user, &host, &mut first).unwrap();
            let public = folder.path().join(format!(".ssh/other{}.pub", passphrase.len()));
            std::os::unix::fs::symlink("/dev/no such device", &public).unwrap();
            let other = Wanted { file: Some(format!(".ssh/other{}", passphrase.len())), ..wanted.clone() };
            assert!(
                other.have(&user, &host, &mut Outcome::default()).unwrap_err().message.contains("Key already exists")
            );
            Wanted { force: true, ..other.clone() }.have(&user, &host, &mut Outcome::default()).unwrap();
            assert!(!public.is_symlink());
            let mut kept = Outcome::default();
            other.have(&user, &host, &mut kept).unwrap();
            assert!(!kept.changed && kept.warnings[0].starts_with("Found existing ssh key private file"));
            let mut replaced = Outcome::default();
            Wanted { force: true, ..other.clone() }.have(&user, &host, &mut replaced).unwrap();
            assert!(replaced.changed && replaced.data["ssh_public_key"] != kept.data["ssh_public_key"]);
            let mut second = Outcome::default();
            wanted.have(&user, &host, &mut second).unwrap();
            assert_eq!(first.data["ssh_public_key"], second.data["ssh_public_key"]);
            assert!(first.data["ssh_public_key"].as_str().unwrap().starts_with("ssh-ed25519 "));
            assert_eq!(fs::metadata(folder.path().join(".ssh")).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}
