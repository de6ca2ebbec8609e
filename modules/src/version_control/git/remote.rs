//! Versions of a remote repository, from `git ls-remote`, which needs no clone.

use std::path::Path;

use serde_json::Value;

use super::program::Program;
use crate::{Failure, Host};

/// A repository that is queried by URL or path.
pub(super) struct Remote<'a> {
    pub(super) program: &'a Program,
    /// URL, or name of the remote in the clone.
    pub(super) address: &'a str,
    /// Path of the clone.
    pub(super) directory: Option<&'a Path>,
}

impl Remote<'_> {
    fn list(&self, words: &[&str], host: &Host) -> Result<String, Failure> {
        let mut all = vec!["ls-remote", self.address];
        all.extend(words);
        let what = format!("Failed to ask {} for its versions", self.address);
        Ok(self.program.run(&all, self.directory, &what, host)?.stdout_text())
    }

    /// The commit of a version. A version that is neither branch nor tag must be a commit id.
    pub(super) fn commit_of(&self, version: &str, host: &Host) -> Result<Value, Failure> {
        let named = match version {
            "HEAD" => self.list(&["HEAD"], host)?,
            version => {
                let branch = self.list(&["-h", &format!("refs/heads/{version}")], host)?;
                if !branch.is_empty() { branch } else { self.list(&["-t", &format!("refs/tags/{version}*")], host)? }
            }
        };
        let found = commit_in(&named, version);
        let is_commit = version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_hexdigit());
        match found {
            Some(commit) => Ok(commit.into()),
            None if is_commit => Ok(version.into()),
            None => Err(Failure::new(format!(
                "Could not determine remote revision for {version}: {} has no such branch or tag.",
                self.address
            ))),
        }
    }

    /// Whether the repository has this branch.
    pub(super) fn has_branch(&self, name: &str, host: &Host) -> Result<bool, Failure> {
        Ok(!self.list(&["-h", &format!("refs/heads/{name}")], host)?.is_empty())
    }

    /// Whether the repository has this tag.
    pub(super) fn has_tag(&self, name: &str, host: &Host) -> Result<bool, Failure> {
        Ok(!self.list(&["-t", &format!("refs/tags/{name}")], host)?.is_empty())
    }
}

/// The commit in a listing. For an annotated tag, it is in the line that ends with `^{}`.
fn commit_in<'a>(listing: &'a str, version: &str) -> Option<&'a str> {
    let lines: Vec<(&str, &str)> = listing.lines().filter_map(|line| line.split_once('\t')).collect();
    let tag = format!("refs/tags/{version}");
    let peeled = format!("{tag}^{{}}");
    let named = |name: &str| lines.iter().find(|(_, known)| *known == name).map(|(commit, _)| *commit);
    named(&peeled)
        .or_else(|| named(&tag))
        .or_else(|| named(&format!("refs/heads/{version}")))
        .or_else(|| named(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotated_tag_resolved_to_commit() {
        let listing = "aaa\trefs/tags/v1\nbbb\trefs/tags/v1^{}\nccc\trefs/tags/v10\n";
        assert_eq!(commit_in(listing, "v1"), Some("bbb"));
        assert_eq!(commit_in(listing, "v10"), Some("ccc"));
        assert_eq!(commit_in("ddd\tHEAD\n", "HEAD"), Some("ddd"));
        assert_eq!(commit_in("", "main"), None);
    }
}
