//! Submodules of a clone: compares them with their recorded commits, and updates them.

use super::{Wish, repository::Repository};
use crate::{Failure, Host, files::way};

/// Whether submodules are missing or at a wrong commit.
pub(super) fn outdated(repository: &Repository, wish: &Wish, host: &Host) -> Result<bool, Failure> {
    let Ok(text) = way::read_text(&repository.dest.join(".gitmodules")) else { return Ok(false) };
    let paths = text.lines().filter_map(|line| line.trim().strip_prefix("path")?.trim_start().strip_prefix('='));
    if paths.map(str::trim).any(|path| !repository.dest.join(path).join(".git").exists()) {
        return Ok(true);
    }
    let before = commits(repository, "HEAD", host)?;
    repository.run_for(&["submodule", "foreach", "git fetch"], "Failed to fetch submodules", host)?;
    if wish.track_submodules {
        return Ok(before != commits(repository, &format!("{}/HEAD", wish.remote), host)?);
    }
    let status = repository.run_for(&["submodule", "status"], "Failed to retrieve submodule status", host)?;
    Ok(status.stdout_text().lines().any(|line| !line.starts_with(' ')))
}

/// The commits of the submodules.
fn commits(repository: &Repository, version: &str, host: &Host) -> Result<String, Failure> {
    let words = ["submodule", "foreach", &format!("git rev-parse {version}")];
    let what = "Unable to determine hashes of submodules";
    Ok(repository.run_for(&words, what, host)?.stdout_text())
}

/// Updates the submodules.
pub(super) fn update(repository: &Repository, wish: &Wish, host: &Host) -> Result<(), Failure> {
    repository.run_for(&["submodule", "sync", "--recursive"], "Failed to sync submodules", host)?;
    let mut words = vec!["submodule", "update", "--init", "--recursive"];
    if wish.track_submodules {
        words.push("--remote");
    }
    if wish.force {
        words.push("--force");
    }
    repository.run_for(&words, "Failed to init/update submodules", host).map(|_| ())
}
