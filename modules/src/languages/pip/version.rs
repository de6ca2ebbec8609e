//! Versions of Python packages and their order (PEP 440).

use std::cmp::Ordering;

/// A version in Python's order (PEP 440).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    epoch: u64,
    release: Vec<u64>,
    /// Order: development version, alpha, beta, candidate, release, post-release.
    phase: Phase,
    local: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Phase {
    /// Letter and number of a pre-release; `z` for the release itself.
    before: (u8, u64),
    /// Number of the post-release plus one; 0 if the version is not a post-release.
    post: u64,
    /// Number of the development version; the maximum if the version is not one.
    dev: u64,
}

impl Version {
    /// Parses a version; `None` for a text that is not a version.
    pub(super) fn parse(text: &str) -> Option<Version> {
        let text = text.trim().to_lowercase();
        let text = text.strip_prefix('v').unwrap_or(&text);
        let (public, local) =
            text.split_once('+').map_or((text, None), |(public, local)| (public, Some(local.to_owned())));
        let (epoch, rest) = match public.split_once('!') {
            Some((epoch, rest)) => (epoch.parse().ok()?, rest),
            None => (0, public),
        };
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
        let (release, suffix) = rest.split_at(end);
        let release =
            release.trim_end_matches('.').split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>()?;
        Some(Version { epoch, release, phase: Phase::parse(suffix)?, local })
    }

    /// Whether the release begins with the parts of another version.
    pub(super) fn starts_with(&self, prefix: &Version) -> bool {
        self.epoch == prefix.epoch
            && prefix.release.iter().enumerate().all(|(index, number)| self.release.get(index).unwrap_or(&0) == number)
    }

    /// Compares versions; a local part counts only if `wanted` has one.
    pub(super) fn equals(&self, wanted: &Version) -> bool {
        self.cmp(wanted) == Ordering::Equal && (wanted.local.is_none() || self.local == wanted.local)
    }

    /// The version without the last part of its release, for the operator `~=`.
    pub(super) fn without_last(&self) -> Version {
        let kept = self.release.len().saturating_sub(1);
        Version { release: self.release.iter().take(kept).copied().collect(), ..self.clone() }
    }
}

impl Phase {
    fn parse(suffix: &str) -> Option<Phase> {
        let mut phase = Phase { before: (b'z', 0), post: 0, dev: u64::MAX };
        let mut rest = suffix.trim_start_matches(['.', '-', '_']);
        while !rest.is_empty() {
            let letters_end = rest.find(|character: char| !character.is_ascii_lowercase()).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(letters_end);
            let tail = tail.trim_start_matches(['.', '-', '_']);
            let digits_end = tail.find(|character: char| !character.is_ascii_digit()).unwrap_or(tail.len());
            let (digits, after) = tail.split_at(digits_end);
            let number = if digits.is_empty() { 0 } else { digits.parse().ok()? };
            match word {
                "a" | "alpha" => phase.before = (b'a', number),
                "b" | "beta" => phase.before = (b'b', number),
                "c" | "rc" | "pre" | "preview" => phase.before = (b'c', number),
                "post" | "rev" | "r" | "" => phase.post = number + 1,
                "dev" => phase.dev = number,
                _ => return None,
            }
            rest = after.trim_start_matches(['.', '-', '_']);
        }
        // A development version of the release itself is older than its alphas.
        if phase.dev != u64::MAX && phase.before.0 == b'z' && phase.post == 0 {
            phase.before = (b'A', 0);
        }
        Some(phase)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let length = self.release.len().max(other.release.len());
        let number = |version: &Version, index: usize| version.release.get(index).copied().unwrap_or(0);
        self.epoch
            .cmp(&other.epoch)
            .then_with(|| {
                let parts = (0..length).map(|index| number(self, index).cmp(&number(other, index)));
                parts.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            })
            .then_with(|| self.phase.cmp(&other.phase))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_ordered_like_pep_440() {
        let ordered =
            ["1.0.dev1", "1.0a1", "1.0b2.dev1", "1.0b2", "1.0rc1", "1.0", "1.0.post1", "1.1", "1.10", "1!0.1"];
        for pair in ordered.windows(2) {
            assert!(Version::parse(pair[0]).unwrap() < Version::parse(pair[1]).unwrap(), "{pair:?}");
        }
        assert_eq!(Version::parse("1.0").unwrap().cmp(&Version::parse("1").unwrap()), Ordering::Equal);
        assert!(Version::parse("words").is_none());
    }
}
