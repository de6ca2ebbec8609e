//! Version comparison of Ansible's `version` test.

use std::cmp::Ordering;

/// Syntax of version numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Numbers and letters in any order, as `distutils.version.LooseVersion`.
    Loose,
    /// `1.2.3` with an optional `a1` or `b1`, as `distutils.version.StrictVersion`.
    Strict,
    /// Semantic versioning.
    Semantic,
    /// Python's PEP 440.
    Pep440,
}

/// Compares two version numbers. The error is a sentence.
pub(crate) fn compare(left: &str, right: &str, scheme: Scheme) -> Result<Ordering, String> {
    match scheme {
        Scheme::Loose => loose(left, right),
        Scheme::Strict => Ok(strict(left)?.cmp(&strict(right)?)),
        Scheme::Semantic => Ok(Semantic::parse(left)?.cmp(&Semantic::parse(right)?)),
        Scheme::Pep440 => Ok(Pep440::parse(left)?.cmp(&Pep440::parse(right)?)),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Part<'v> {
    Number(u128),
    Text(&'v str),
}

/// Splits into runs of digits, runs of lower-case letters, and the text between them without dots.
fn loose_parts(version: &str) -> Vec<Part<'_>> {
    let kind = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'.' => 2,
        _ => 3,
    };
    let bytes = version.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    while let Some(&first) = bytes.get(start) {
        let mut end = start + 1;
        while bytes.get(end).is_some_and(|&byte| kind(byte) == kind(first)) && kind(first) != 2 {
            end += 1;
        }
        let run = &version[start..end];
        match kind(first) {
            2 => {}
            0 => parts.push(run.parse().map_or(Part::Text(run), Part::Number)),
            _ => parts.push(Part::Text(run)),
        }
        start = end;
    }
    parts
}

fn loose(left: &str, right: &str) -> Result<Ordering, String> {
    let (left_parts, right_parts) = (loose_parts(left), loose_parts(right));
    for pair in left_parts.iter().zip(&right_parts) {
        let ordering = match pair {
            (Part::Number(one), Part::Number(other)) => one.cmp(other),
            (Part::Text(one), Part::Text(other)) => one.cmp(other),
            (Part::Number(number), Part::Text(text)) | (Part::Text(text), Part::Number(number)) => {
                return Err(format!(
                    "the versions '{left}' and '{right}' cannot be compared: where one has the number {number} the other has '{text}'"
                ));
            }
        };
        if ordering != Ordering::Equal {
            return Ok(ordering);
        }
    }
    Ok(left_parts.len().cmp(&right_parts.len()))
}

type Strict = (u64, u64, u64, bool, char, u64);

fn strict(version: &str) -> Result<Strict, String> {
    let fail = || format!("'{version}' is not a strict version number such as 1.2, 1.2.3 or 1.2b1");
    let split = version.find(['a', 'b']);
    let (numbers, pre) = version.split_at(split.unwrap_or(version.len()));
    let number = |text: &str| match text.bytes().all(|digit| digit.is_ascii_digit()) {
        true => text.parse::<u64>().map_err(|_| fail()),
        false => Err(fail()),
    };
    let parts: Vec<u64> = numbers.split('.').map(number).collect::<Result<_, _>>()?;
    let (kind, count) = match pre.chars().next() {
        Some(kind) => (kind, number(&pre[1..])?),
        None => (' ', 0),
    };
    match parts.as_slice() {
        [major, minor] => Ok((*major, *minor, 0, split.is_none(), kind, count)),
        [major, minor, patch] => Ok((*major, *minor, *patch, split.is_none(), kind, count)),
        _ => Err(fail()),
    }
}

/// An identifier of a pre-release: numbers sort by value and before letters.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Semantic {
    core: [u64; 3],
    is_release: bool,
    pre: Vec<Identifier>,
}

impl Semantic {
    fn parse(version: &str) -> Result<Semantic, String> {
        let fail = || format!("'{version}' is not a semantic version such as 1.2.3 or 1.2.3-rc.1");
        let (rest, build) = match version.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (version, None),
        };
        let (core, pre) = match rest.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (rest, None),
        };
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
            let leading_zero = text.len() > 1 && text.starts_with('0');
            if plain && !leading_zero { text.parse::<u64>().map_err(|_| fail()) } else { Err(fail()) }
        };
        let core: Vec<u64> = core.split('.').map(number).collect::<Result<_, _>>()?;
        let core = <[u64; 3]>::try_from(core).map_err(|_| fail())?;
        let word =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if build.is_some_and(|build| !build.split('.').all(word)) {
            return Err(fail());
        }
        let mut identifiers = Vec::new();
        for part in pre.into_iter().flat_map(|pre| pre.split('.')) {
            if !word(part) {
                return Err(fail());
            }
            identifiers.push(if part.bytes().all(|digit| digit.is_ascii_digit()) {
                Identifier::Number(number(part)?)
            } else {
                Identifier::Text(part.to_owned())
            });
        }
        Ok(Semantic { core, is_release: pre.is_none(), pre: identifiers })
    }
}

/// Parts of a PEP 440 version in order of significance. `Phase` sorts absent parts correctly.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pep440 {
    epoch: u64,
    release: Vec<u64>,
    pre: Phase,
    post: Option<u64>,
    dev: Phase,
    local: Option<Vec<Local>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// First: a development release of the final version.
    Earliest,
    At(char, u64),
    /// Last: no such part.
    Latest,
}

/// In a local version, letters sort before numbers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Local {
    Text(String),
    Number(u64),
}

impl Pep440 {
    fn parse(version: &str) -> Result<Pep440, String> {
        const PATTERN: &str = r"(?ix)\A\s* v? (?:(?P<epoch>[0-9]+)!)? (?P<release>[0-9]+(?:\.[0-9]+)*)
            (?P<pre>[-_.]?(?P<pre_kind>alpha|beta|preview|pre|a|b|c|rc)[-_.]?(?P<pre_number>[0-9]+)?)?
            (?P<post>-(?P<post_plain>[0-9]+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>[0-9]+)?)?
            (?P<dev>[-_.]?dev[-_.]?(?P<dev_number>[0-9]+)?)?
            (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))? \s*\z";
        static COMPILED: std::sync::OnceLock<Option<regex::Regex>> = std::sync::OnceLock::new();
        let pattern = COMPILED.get_or_init(|| regex::Regex::new(PATTERN).ok());
        let captures = pattern
            .as_ref()
            .and_then(|pattern| pattern.captures(version))
            .ok_or_else(|| format!("'{version}' is not a version number by PEP 440"))?;
        let number = |name: &str| captures.name(name).and_then(|found| found.as_str().parse::<u64>().ok());
        let mut release: Vec<u64> =
            captures["release"].split('.').map(|part| part.parse().unwrap_or(u64::MAX)).collect();
        while release.len() > 1 && release.last() == Some(&0) {
            release.pop();
        }
        let post =
            captures.name("post").map(|_| number("post_plain").or_else(|| number("post_number")).unwrap_or_default());
        let dev = match captures.name("dev") {
            Some(_) => Phase::At('d', number("dev_number").unwrap_or_default()),
            None => Phase::Latest,
        };
        let pre = match captures.name("pre_kind") {
            Some(kind) => {
                let kind = match kind.as_str().to_ascii_lowercase().as_str() {
                    "a" | "alpha" => 'a',
                    "b" | "beta" => 'b',
                    _ => 'r',
                };
                Phase::At(kind, number("pre_number").unwrap_or_default())
            }
            None if post.is_none() && dev != Phase::Latest => Phase::Earliest,
            None => Phase::Latest,
        };
        let local = captures.name("local").map(|local| {
            let part = |part: &str| match part.parse() {
                Ok(number) => Local::Number(number),
                Err(_) => Local::Text(part.to_ascii_lowercase()),
            };
            local.as_str().split(['-', '_', '.']).map(part).collect()
        });
        Ok(Pep440 { epoch: number("epoch").unwrap_or_default(), release, pre, post, dev, local })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_ordered_by_scheme() {
        let cases = [
            ("1.10", "1.9", Scheme::Loose, Ordering::Greater),
            ("1.0", "1.0.1", Scheme::Loose, Ordering::Less),
            ("v1.31.2", "v1.30.10", Scheme::Loose, Ordering::Greater),
            ("1.0b1", "1.0", Scheme::Strict, Ordering::Less),
            ("1.0", "1.0.0", Scheme::Strict, Ordering::Equal),
            ("1.0.0-alpha.2", "1.0.0-alpha.10", Scheme::Semantic, Ordering::Less),
            ("1.0.0-rc.1", "1.0.0", Scheme::Semantic, Ordering::Less),
            ("1.0.dev1", "1.0a1", Scheme::Pep440, Ordering::Less),
            ("1.0.post1", "1.0", Scheme::Pep440, Ordering::Greater),
            ("1!0.1", "2.0", Scheme::Pep440, Ordering::Greater),
        ];
        for (left, right, scheme, expected) in cases {
            assert_eq!(compare(left, right, scheme), Ok(expected), "{left} {right}");
        }
    }

    #[test]
    fn a_number_against_letters_is_an_error() {
        assert!(compare("1.0", "1.rc1", Scheme::Loose).is_err());
    }
}
