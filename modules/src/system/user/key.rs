use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, lchown},
    path::{Path, PathBuf},
};

use crate::{Args, Failure, Host, Outcome, accounts::User, process::Command, process::reason};

/// The SSH key that a user is to have.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    kind: String,
    bits: Option<i64>,
    /// Make the key anew.
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

    /// Where the private key is.
    pub(super) fn path(&self, home: &str) -> PathBuf {
        match &self.file {
            Some(file) => Path::new(home).join(file),
            None => Path::new(home).join(format!(".ssh/id_{}", self.kind)),
        }
    }

    /// Makes the key if there is none, and reports it.
    pub(super) fn have(&self, user: &User, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        let path = self.path(&user.home);
        let shown = path.to_string_lossy().into_owned();
        let public = PathBuf::from(format!("{shown}.pub"));
        if !path.exists() {
            // Whatever stands in the key's place may be a link of the user's to somewhere else, and must not be written through.
            for file in [&path, &public] {
                match (file.symlink_metadata(), self.force) {
                    (Err(_), _) => {}
                    (Ok(_), false) => {
                        return Err(Failure::new(format!(
                            "Key already exists, use \"force: yes\" to overwrite: {}",
                            file.display()
                        )));
                    }
                    (Ok(_), true) => fs::remove_file(file).map_err(|error| {
                        Failure::new(format!("{} could not be removed: {}.", file.display(), reason(&error)))
                    })?,
                }
            }
            self.generate(&path, user, host)?;
            for file in [&path, &public] {
                lchown(file, Some(user.uid), Some(user.gid)).map_err(|error| {
                    Failure::new(format!("{} could not be given to {}: {}.", file.display(), user.name, reason(&error)))
                })?;
            }
        }
        let fingerprint = Command::new("ssh-keygen").plain_locale().args(["-l", "-f", &shown]).run(host)?;
        if fingerprint.success() {
            outcome.set("ssh_fingerprint", fingerprint.stdout_text().trim());
        }
        if let Ok(text) = fs::read_to_string(&public) {
            outcome.set("ssh_public_key", text.trim());
        }
        outcome.set("ssh_key_file", shown);
        Ok(())
    }

    fn generate(&self, path: &Path, user: &User, host: &Host) -> Result<(), Failure> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        if !folder.exists() {
            let made = fs::create_dir(folder)
                .and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(0o700)))
                .and_then(|()| chown(folder, Some(user.uid), Some(user.gid)));
            made.map_err(|error| Failure::new(format!("{} could not be made: {}.", folder.display(), reason(&error))))?;
        }
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
        // Asked twice, ssh-keygen takes the passphrase from a helper that prints it; it never becomes an argument.
        let helper = crate::files::scratch::Scratch::executable()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept() {
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
            let host = Host::alone(false, false);
            if crate::process::find(&host, "ssh-keygen").is_none() {
                return;
            }
            let mut first = Outcome::default();
            wanted.have(&user, &host, &mut first).unwrap();
            let public = folder.path().join(format!(".ssh/other{}.pub", passphrase.len()));
            std::os::unix::fs::symlink("/dev/null", &public).unwrap();
            let other = Wanted { file: Some(format!(".ssh/other{}", passphrase.len())), ..wanted.clone() };
            assert!(
                other.have(&user, &host, &mut Outcome::default()).unwrap_err().message.contains("Key already exists")
            );
            Wanted { force: true, ..other }.have(&user, &host, &mut Outcome::default()).unwrap();
            assert!(!public.is_symlink());
            let mut second = Outcome::default();
            wanted.have(&user, &host, &mut second).unwrap();
            assert_eq!(first.data["ssh_public_key"], second.data["ssh_public_key"]);
            assert!(first.data["ssh_public_key"].as_str().unwrap().starts_with("ssh-ed25519 "));
            assert_eq!(fs::metadata(folder.path().join(".ssh")).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}
