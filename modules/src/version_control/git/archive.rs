//! `archive` of `git`: writes a version to an archive file, and replaces an existing file only if its content differs.

use std::path::{Path, PathBuf};

use super::repository::Repository;
use crate::{
    Failure, Host,
    files::{
        checksum::{self, Hasher},
        scratch::Scratch,
        write::{Source, Wanted},
    },
    run::carry_out,
};

/// The archive format that git derives from a file name.
pub(super) fn format(path: &Path) -> Result<&'static str, Failure> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let known = [(".zip", "zip"), (".tar.gz", "tar.gz"), (".tgz", "tgz"), (".gz", "tar.gz"), (".tar", "tar")];
    let found = known.iter().find(|(end, _)| name.ends_with(end)).map(|(_, format)| *format);
    found.ok_or_else(|| {
        Failure::new(format!(
            "Unable to get file extension from archive file name : {name}. Known are zip, tar.gz, tgz and tar."
        ))
    })
}

/// Writes the archive unless an equal one exists. Returns whether it did.
pub(super) fn write(
    repository: &Repository,
    archive: &(PathBuf, Option<String>),
    version: &str,
    host: &Host,
) -> Result<bool, Failure> {
    let (path, prefix) = archive;
    let scratch = Scratch::new()?;
    let new = scratch.path().join("archive");
    let (format, output) = (format!("--format={}", format(path)?), format!("--output={}", new.display()));
    let prefix = prefix.as_ref().map(|prefix| format!("--prefix={prefix}"));
    let mut words = vec!["archive", &format, &output];
    words.extend(prefix.as_deref());
    words.push(version);
    repository.run_for(&words, "Failed to perform archive operation", host)?;
    if path.exists() {
        let sum = |path: &Path| checksum::of_file(Hasher::sha1(), path, host);
        if sum(path)? == sum(&new)? {
            return Ok(false);
        }
    }
    let plan = Wanted::new(path, Source::File(new)).plan(host).map_err(|failure| Failure {
        message: format!("Failed to write the archive {}. {}", path.display(), failure.message),
        ..failure
    })?;
    carry_out(plan, host)?;
    Ok(true)
}
