//! A clone on the host: creates it, fetches, checks out and verifies versions.

use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Wish, program::Program, remote::Remote, target::Target};
use crate::{
    Diff, Failure, Host, Outcome,
    files::{
        info::owner_name,
        way::{self, Link, Place},
    },
    process::Output,
};

/// A clone on the host. Commands run in the open directory, whatever its name refers to later.
pub(super) struct Repository {
    pub(super) program: Program,
    /// Path for messages.
    pub(super) dest: PathBuf,
    pub(super) bare: bool,
    folder: File,
}

/// The folder of the repository data: inside the working tree, or where the file `.git` points.
pub(super) fn folder_of(dest: &Path, bare: bool) -> Result<PathBuf, Failure> {
    if bare {
        return Ok(dest.to_owned());
    }
    let usual = dest.join(".git");
    let refuse = |error: &std::io::Error| super::unusable(&usual, error);
    let found = match Place::to_write(&usual, Link::Follow) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(usual),
        found => found.map_err(|error| refuse(&error))?,
    };
    let owner = match found.metadata() {
        Ok(about) if about.is_file() => about.uid(),
        _ => return Ok(usual),
    };
    let text = way::read_text(&usual).unwrap_or_default();
    let target = text.lines().find_map(|line| line.strip_prefix("gitdir:")).map(str::trim).ok_or_else(|| {
        Failure::new(
            "Current repo does not have a valid reference to a separate Git dir or it refers to the invalid path",
        )
        .with("details", format!("{} has no line gitdir.", usual.display()))
    })?;
    let folder = dest.join(target);
    if !folder.is_dir() {
        return Err(Failure::new(
            "Current repo does not have a valid reference to a separate Git dir or it refers to the invalid path",
        )
        .with("details", format!("{} does not exist.", folder.display())));
    }
    // The file is a link in another form.
    let place = Place::to_write(&folder, Link::Follow).map_err(|error| super::unusable(&folder, &error))?;
    let about = place.metadata().map_err(|error| super::unusable(&folder, &error))?;
    if !way::is_trusted(owner) && about.uid() != owner {
        return Err(Failure::new(format!(
            "{} belongs to {} and names {} of {}, so it is not followed. Set separate_git_dir, or remove the file.",
            usual.display(),
            owner_name(owner),
            place.real().display(),
            owner_name(about.uid())
        )));
    }
    Ok(folder)
}

impl Repository {
    /// Opens the directory of a clone.
    pub(super) fn open(program: &Program, dest: &Path, bare: bool) -> Result<Repository, Failure> {
        let folder = Place::to_write(dest, Link::Follow).and_then(|place| place.existing()?.try_clone());
        let folder = folder.map_err(|error| super::unusable(dest, &error))?;
        Ok(Repository { program: program.clone(), dest: dest.to_owned(), bare, folder })
    }

    /// Path of the open directory.
    pub(super) fn directory(&self) -> PathBuf {
        way::handle(&self.folder)
    }

    /// Runs git in the clone; fails with its message.
    pub(super) fn run(&self, words: &[&str], host: &Host) -> Result<Output, Failure> {
        let what = format!("git {} failed in {}", words.first().unwrap_or(&""), self.dest.display());
        self.run_for(words, &what, host)
    }

    /// Like `run`, with a description for failures.
    pub(super) fn run_for(&self, words: &[&str], what: &str, host: &Host) -> Result<Output, Failure> {
        self.program.run(words, Some(&self.directory()), what, host)
    }

    fn succeeds(&self, words: &[&str], host: &Host) -> Result<bool, Failure> {
        Ok(self.program.command(words, Some(&self.directory())).run(host)?.success())
    }

    /// The current commit; null if none exists yet.
    pub(super) fn head(&self, host: &Host) -> Result<Value, Failure> {
        let output = self.program.command(&["rev-parse", "HEAD"], Some(&self.directory())).run(host)?;
        let text = output.stdout_text();
        Ok(if output.success() { text.trim().into() } else { Value::Null })
    }

    /// Whether versioned files were changed.
    pub(super) fn is_modified(&self, host: &Host) -> Result<bool, Failure> {
        if self.bare {
            return Ok(false);
        }
        let output = self.run(&["status", "--porcelain"], host)?;
        Ok(output.stdout_text().lines().any(|line| !line.starts_with("??") && !line.is_empty()))
    }

    /// URL of a remote; `None` if the clone has no remote of this name.
    pub(super) fn remote_url(&self, remote: &str, host: &Host) -> Result<Option<String>, Failure> {
        let output = self.program.command(&["ls-remote", "--get-url", remote], Some(&self.directory())).run(host)?;
        let text = output.stdout_text().trim().to_owned();
        // For a missing remote, git prints its name.
        Ok(Some(text).filter(|text| output.success() && !text.is_empty() && text != remote))
    }

    /// Makes the remote refer to the requested URL, unless `known`, its present one, means the same.
    pub(super) fn set_remote_url(&self, wish: &Wish, known: Option<&str>, host: &Host) -> Result<(), Failure> {
        let what = format!("Failed to set a new url {} for {}", wish.repo, wish.remote);
        match known {
            Some(known) if known == wish.repo || super::same_path(known, &wish.repo) => Ok(()),
            Some(_) => self.run_for(&["remote", "set-url", &wish.remote, &wish.repo], &what, host).map(|_| ()),
            None => self.run_for(&["remote", "add", &wish.remote, &wish.repo], &what, host).map(|_| ()),
        }
    }

    /// The current branch; for a detached commit, the remote's default branch.
    pub(super) fn branch(&self, remote: &str, host: &Host) -> Result<String, Failure> {
        let named = |words: &[&str]| -> Result<Option<String>, Failure> {
            let output = self.program.command(words, Some(&self.directory())).run(host)?;
            Ok(output.success().then(|| output.stdout_text().trim().to_owned()))
        };
        if let Some(name) = named(&["symbolic-ref", "--quiet", "HEAD"])? {
            return Ok(name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned());
        }
        let of_remote = format!("refs/remotes/{remote}/");
        let name = named(&["symbolic-ref", "--quiet", &format!("{of_remote}HEAD")])?;
        let name = name.and_then(|name| name.strip_prefix(&of_remote).map(str::to_owned));
        name.ok_or_else(|| {
            Failure::new(format!(
                "Failed to determine the branch of {}: no branch is checked out, and {remote} names none. Set version.",
                self.dest.display()
            ))
        })
    }

    /// Clones the repository.
    pub(super) fn cloned(
        program: &Program,
        dest: &Path,
        wish: &Wish,
        host: &Host,
        outcome: &mut Outcome,
    ) -> Result<Repository, Failure> {
        let target = Target::of(dest, wish.separate.is_none())?;
        let remote = Remote { program, address: &wish.repo, directory: None };
        let named = wish.version != "HEAD"
            && (wish.depth.is_some() || wish.single_branch)
            && (remote.has_branch(&wish.version, host)? || remote.has_tag(&wish.version, host)?);
        let mut words: Vec<String> = vec!["clone".into()];
        if wish.bare {
            words.push("--bare".into());
        } else {
            words.extend(["--origin".into(), wish.remote.clone()]);
        }
        let direct = wish.version == "HEAD" || wish.refspec.is_some() || named;
        match wish.depth {
            Some(depth) if direct => words.extend(["--depth".into(), depth.to_string()]),
            Some(_) => outcome.warnings.push(
                "Ignoring depth argument. Shallow clones are only available for HEAD, branches, tags or in combination with refspec."
                    .to_owned(),
            ),
            None => {}
        }
        if named {
            words.extend(["--branch".into(), wish.version.clone()]);
        }
        if wish.single_branch {
            if wish.version == "HEAD" || named {
                words.push("--single-branch".into());
            } else {
                outcome.warnings.push(
                    "Ignoring single_branch argument. Cannot use a single branch with a commit as version.".to_owned(),
                );
            }
        }
        if let Some(reference) = &wish.reference {
            words.extend(["--reference".into(), reference.clone()]);
        }
        if let Some(folder) = &wish.separate {
            words.push(format!("--separate-git-dir={}", folder.display()));
        }
        words.extend([wish.repo.clone(), target.path().display().to_string()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        program.run(&words, Some(&target.parent()), &format!("Failed to clone {}", wish.repo), host)?;
        target.place(program.mask())?;
        let repository = Repository::open(program, dest, wish.bare)?;
        repository.complete(wish, host)?;
        Ok(repository)
    }

    /// Adds to a new clone what `git clone` has no options for.
    fn complete(&self, wish: &Wish, host: &Host) -> Result<(), Failure> {
        if wish.bare && wish.remote != "origin" {
            self.run(&["remote", "add", &wish.remote, &wish.repo], host)?;
        }
        if let Some(refspec) = &wish.refspec {
            let depth = wish.depth.map(|depth| depth.to_string());
            let mut words = vec!["fetch"];
            if let Some(depth) = &depth {
                words.extend(["--depth", depth]);
            }
            words.extend([wish.remote.as_str(), refspec]);
            self.run(&words, host)?;
        }
        self.verify(wish, &wish.version, host)
    }

    /// Fetches new commits.
    pub(super) fn fetch(&self, wish: &Wish, host: &Host) -> Result<(), Failure> {
        let remote = Remote { program: &self.program, address: &wish.remote, directory: Some(&self.directory()) };
        let mut words: Vec<String> = vec!["fetch".into()];
        let mut refspecs: Vec<String> = Vec::new();
        if let Some(depth) = wish.depth {
            refspecs.extend(wish.refspec.clone());
            let version = &wish.version;
            if version == "HEAD" && refspecs.is_empty() {
                refspecs.push(self.branch(&wish.remote, host)?);
            } else if version != "HEAD" && remote.has_branch(version, host)? {
                refspecs.push(format!("+refs/heads/{version}:refs/remotes/{}/{version}", wish.remote));
            } else if version != "HEAD" && remote.has_tag(version, host)? {
                refspecs.push(format!("+refs/tags/{version}:refs/tags/{version}"));
            }
            if !refspecs.is_empty() {
                words.extend(["--depth".into(), depth.to_string()]);
            }
        }
        if refspecs.is_empty() {
            if self.bare {
                refspecs = vec!["+refs/heads/*:refs/heads/*".into(), "+refs/tags/*:refs/tags/*".into()];
            } else {
                words.push("--tags".into());
            }
            refspecs.extend(wish.refspec.clone());
            // Fetches tags in addition to the branches.
            if !self.bare && wish.refspec.is_some() {
                self.run(&["fetch", &wish.remote], host)?;
            }
        }
        if wish.force {
            words.push("--force".into());
        }
        words.push(wish.remote.clone());
        words.extend(refspecs);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let what = format!("Failed to download remote objects and refs from {}", wish.repo);
        self.run_for(&words, &what, host).map(|_| ())
    }

    /// Checks out the requested version, and resets a branch to its upstream. Local changes are lost. A requested
    /// signature is verified before the checkout.
    pub(super) fn check_out(&self, wish: &Wish, host: &Host) -> Result<(), Failure> {
        let (version, remote) = (&wish.version, &wish.remote);
        let what = format!("Failed to checkout {version}");
        if version == "HEAD" {
            let branch = self.branch(remote, host)?;
            self.verify(wish, &format!("{remote}/{branch}"), host)?;
            self.run_for(&["checkout", "--force", &branch], &format!("Failed to checkout branch {branch}"), host)?;
            self.run_for(&["reset", "--hard", &format!("{remote}/{branch}"), "--"], &what, host)?;
        } else if (Remote { program: &self.program, address: remote, directory: Some(&self.directory()) })
            .has_branch(version, host)?
        {
            let upstream = format!("{remote}/{version}");
            if wish.depth.is_some()
                && !self.succeeds(&["show-ref", "--verify", "--quiet", &format!("refs/remotes/{upstream}")], host)?
            {
                self.run(&["remote", "set-branches", "--add", remote, version], host)?;
                self.run(&["fetch", remote, &format!("+refs/heads/{version}:refs/remotes/{upstream}")], host)?;
            }
            self.verify(wish, &upstream, host)?;
            if self.succeeds(&["show-ref", "--verify", "--quiet", &format!("refs/heads/{version}")], host)? {
                self.run_for(&["checkout", "--force", version], &what, host)?;
                self.run_for(&["reset", "--hard", &upstream, "--"], &what, host)?;
            } else {
                self.run_for(&["checkout", "--force", "--track", "-b", version, &upstream], &what, host)?;
            }
        } else {
            self.verify(wish, version, host)?;
            self.run_for(&["checkout", "--force", version], &what, host)?;
        }
        Ok(())
    }

    /// Verifies the signature of the tag or commit before its checkout, if the task requests that.
    fn verify(&self, wish: &Wish, target: &str, host: &Host) -> Result<(), Failure> {
        if !wish.verify {
            return Ok(());
        }
        let is_tag = target == wish.version
            && self.succeeds(&["show-ref", "--verify", "--quiet", &format!("refs/tags/{target}")], host)?
            && self.run(&["cat-file", "-t", target], host)?.stdout_text().trim() == "tag";
        let verb = if is_tag { "verify-tag" } else { "verify-commit" };
        let what = format!("Failed to verify GPG signature of commit/tag \"{}\"", wish.version);
        let mut words = vec![verb];
        if !wish.allowed.is_empty() {
            words.push("--raw");
        }
        words.push(target);
        let output = self.run_for(&words, &what, host)?;
        if wish.allowed.is_empty() {
            return Ok(());
        }
        let told = output.stderr_text();
        let signer = told.lines().find_map(|line| line.strip_prefix("[GNUPG:] VALIDSIG ")?.split(' ').next());
        let known = signer.is_some_and(|signer| wish.allowed.iter().any(|allowed| signer.ends_with(allowed.as_str())));
        if known {
            return Ok(());
        }
        Err(Failure::new(format!(
            "The gpg_allowlist does not include the public key \"{}\" for this commit",
            signer.unwrap_or("unknown")
        )))
    }

    /// The difference between two commits for `--diff`.
    pub(super) fn difference(&self, before: &Value, after: &Value, host: &Host) -> Result<Option<Diff>, Failure> {
        let prepared = match (before.as_str(), after.as_str()) {
            (None, Some(after)) => format!(">> Newly checked out {after}"),
            (Some(before), Some(after)) if before != after => {
                let output = self.program.command(&["diff", before, after], Some(&self.directory())).run(host)?;
                match (output.success(), output.stdout_text()) {
                    (true, text) if text.is_empty() => format!(">> No visual differences between {before} and {after}"),
                    (true, text) => text,
                    (false, _) => format!(
                        ">> Failed to get proper diff between {before} and {after}:\n>> {}",
                        output.stderr_text().trim()
                    ),
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(Diff { prepared: Some(prepared), ..Diff::default() }))
    }
}
