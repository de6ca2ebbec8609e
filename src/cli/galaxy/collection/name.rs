//! Names, versions and version ranges of collections.

use std::fmt;

use pubgrub::Ranges;
use semver::{BuildMetadata, Prerelease, Version};

use crate::error::{Error, Result};

/// Maximum length of a namespace or a name, far above Galaxy's 64.
const LONGEST: usize = 128;

/// A collection's fully qualified name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::cli::galaxy) struct Name {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Name {
    /// Parses `NAMESPACE.NAME`. Both parts become directory names, so only letters, digits and underscores are valid.
    pub(super) fn parse(text: &str) -> Option<Name> {
        let is_valid = |part: &str| {
            part.len() <= LONGEST
                && part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let (namespace, name) = text.split_once('.')?;
        let name = Name { namespace: namespace.to_owned(), name: name.to_owned() };
        (is_valid(namespace) && is_valid(&name.name)).then_some(name)
    }

    /// Parses a name from the command line or a file.
    pub(super) fn require(text: &str) -> Result<Name> {
        Name::parse(text).ok_or_else(|| {
            Error::new(format!(
                "Invalid collection name '{text}', name must be in the format <namespace>.<collection>. \n\
                 Please make sure namespace and collection name contains characters from [a-zA-Z0-9_] only."
            ))
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.namespace, self.name)
    }
}

/// Versions that a requirement accepts, as `>=1.0.0,<2.0.0` or `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::galaxy) struct Range {
    /// The requirement as it was written.
    pub(super) text: String,
    pub(super) versions: Ranges<Version>,
}

impl Range {
    pub(super) fn any() -> Range {
        Range { text: "*".to_owned(), versions: Ranges::full() }
    }

    pub(super) fn exactly(version: &Version) -> Range {
        Range { text: version.to_string(), versions: Ranges::singleton(version.clone()) }
    }

    /// Parses conditions separated by commas, all of which must hold. A version alone stands for `==`.
    pub(super) fn parse(text: &str) -> Result<Range> {
        let mut versions = Ranges::full();
        for condition in text.split(',').map(str::trim).filter(|condition| !condition.is_empty()) {
            let operators = ["==", "!=", ">=", "<=", "=", ">", "<"];
            let operator = operators.into_iter().find(|operator| condition.starts_with(operator)).unwrap_or_default();
            let version = condition.get(operator.len()..).unwrap_or_default().trim();
            if version == "*" {
                continue;
            }
            let Some(version) = loose(version) else {
                return Err(Error::new(format!(
                    "`{condition}` is not a version requirement: write a version such as 1.2.0, or conditions such as >=1.0.0,<2.0.0"
                )));
            };
            versions = versions.intersection(&match operator {
                "!=" => Ranges::singleton(version).complement(),
                ">=" => Ranges::higher_than(version),
                "<=" => Ranges::lower_than(version),
                ">" => Ranges::strictly_higher_than(version),
                "<" => Ranges::strictly_lower_than(version),
                _ => Ranges::singleton(version),
            });
        }
        Ok(Range { text: text.to_owned(), versions })
    }

    /// Whether an installed collection meets the requirement. One without a version meets every requirement.
    pub(super) fn contains(&self, version: Option<&Version>) -> bool {
        version.is_none_or(|version| self.versions.contains(version))
    }
}

/// Parses a version whose minor and patch numbers may be missing.
fn loose(text: &str) -> Option<Version> {
    if let Ok(version) = Version::parse(text) {
        return Some(version);
    }
    let mut numbers = text.trim_start_matches('v').split('.').map(str::parse);
    let mut next = || numbers.next().unwrap_or(Ok(0)).ok();
    let (major, minor, patch) = (next()?, next()?, next()?);
    let version = Version { major, minor, patch, pre: Prerelease::EMPTY, build: BuildMetadata::EMPTY };
    numbers.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(range: &str) -> Vec<&'static str> {
        let versions = ["1.0.0", "1.2.0", "1.10.0", "2.0.0-beta.1", "2.0.0"];
        let range = Range::parse(range).unwrap();
        versions.into_iter().filter(|version| range.contains(Some(&Version::parse(version).unwrap()))).collect()
    }

    #[test]
    fn range_accepts_versions_by_number() {
        assert_eq!(accepted("*").len(), 5);
        assert_eq!(accepted("1.2.0"), ["1.2.0"]);
        assert_eq!(accepted(">=1.2,<2.0.0-a"), ["1.2.0", "1.10.0"]);
        assert_eq!(accepted("!=1.0.0, <=1.10.0"), ["1.2.0", "1.10.0"]);
        assert_eq!(accepted(">1.10.0"), ["2.0.0-beta.1", "2.0.0"]);
        assert!(Range::parse(">=one").is_err());
    }

    #[test]
    fn names_that_would_leave_their_directory_are_invalid() {
        assert!(Name::parse("community.general").is_some());
        for name in ["a", "a.b.c", "../x.y", "a./b", "1a.b", "a.", ".a", "a b.c"] {
            assert!(Name::parse(name).is_none(), "{name}");
        }
    }
}
