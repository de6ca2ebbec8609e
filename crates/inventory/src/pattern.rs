//! Host patterns: `web:db:!old`, `web[0:2]`, `~(a|b)\d+`, `&staging`, and `--limit`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexSet;
use windlass_python_regex::{Anchor, Flags};

use crate::model::{HostName, Inventory, LOCALHOST_NAMES};
use crate::{Error, Warning, address};

/// Hosts that a pattern matches.
#[derive(Debug, Default)]
pub struct Matches {
    /// The hosts in the order of the inventory's groups, without duplicates.
    pub hosts: Vec<HostName>,
    /// Warnings about likely mistakes, such as a pattern that matches nothing.
    pub warnings: Vec<Warning>,
}

/// Splits a list of patterns at its commas. A list without commas is split at colons, unless it is a single host,
/// address or range.
pub fn split_pattern(pattern: &str) -> Vec<String> {
    let parts: Vec<&str> = if pattern.contains(',') {
        pattern.split(',').collect()
    } else if address::parse(pattern).is_some() {
        vec![pattern]
    } else {
        split_at_colons(pattern)
    };
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Files that a limit names as `@file`.
pub fn limit_files(limit: &str) -> Vec<PathBuf> {
    split_pattern(limit).iter().filter_map(|term| term.strip_prefix('@')).map(PathBuf::from).collect()
}

/// Splits at colons, white space and unpaired brackets, but not within brackets.
fn split_at_colons(pattern: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = None;
    let mut rest = pattern.char_indices();
    while let Some((index, character)) = rest.next() {
        let bracketed = pattern.get(index..).filter(|_| character == '[').and_then(|text| text.find(']'));
        let ends = character == ':' || character == ']' || character.is_whitespace();
        if let Some(length) = bracketed {
            start = start.or(Some(index));
            while rest.clone().next().is_some_and(|(next, _)| next <= index + length) {
                rest.next();
            }
        } else if ends || character == '[' {
            parts.extend(start.take().and_then(|start: usize| pattern.get(start..index)));
        } else {
            start = start.or(Some(index));
        }
    }
    parts.extend(start.and_then(|start| pattern.get(start..)));
    parts
}

/// A limit that excludes all hosts.
const NO_HOSTS: &str = "!all";

/// Effect of a pattern's term on the hosts that it matches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Add,
    Keep,
    Remove,
}

fn effect(term: &str) -> (Effect, &str) {
    match (term.strip_prefix('&'), term.strip_prefix('!')) {
        (Some(rest), _) => (Effect::Keep, rest),
        (_, Some(rest)) => (Effect::Remove, rest),
        _ => (Effect::Add, term),
    }
}

impl Inventory {
    /// Hosts that match a pattern, within the limit.
    pub fn matching(&self, pattern: &str) -> Result<Matches, Error> {
        let matches = self.matching_without_limit(pattern)?;
        self.limited(matches)
    }

    /// Hosts that match a list of patterns, such as a play's `hosts:`, within the limit. Each pattern is split by
    /// itself. Their additions, intersections and exclusions apply to the list as a whole.
    pub fn matching_list(&self, patterns: &[impl AsRef<str>]) -> Result<Matches, Error> {
        let terms: Vec<String> = patterns.iter().flat_map(|pattern| split_pattern(pattern.as_ref())).collect();
        let matches = self.matching_terms(&terms)?;
        self.limited(matches)
    }

    /// Hosts that match a pattern, ignoring the limit.
    pub fn matching_without_limit(&self, pattern: &str) -> Result<Matches, Error> {
        self.matching_terms(&split_pattern(pattern))
    }

    fn matching_terms(&self, terms: &[String]) -> Result<Matches, Error> {
        let mut warnings = Vec::new();
        let hosts = self.evaluate(terms, &mut warnings)?.into_iter().collect();
        Ok(Matches { hosts, warnings })
    }

    fn limited(&self, mut matches: Matches) -> Result<Matches, Error> {
        if let Some(limit) = &self.limit {
            let allowed: IndexSet<HostName> = self.evaluate(limit, &mut matches.warnings)?;
            matches.hosts.retain(|host| allowed.contains(host));
        }
        Ok(matches)
    }

    /// Sets the limit (`--limit`): a pattern whose terms may be `@file`, a file with one pattern per line. `None`, an
    /// empty pattern or only commas remove the limit.
    ///
    /// A file without patterns excludes all hosts, with a warning. Otherwise it would limit nothing, and a run meant
    /// for the few hosts in it would reach all.
    pub fn set_limit(&mut self, limit: Option<&str>) -> Result<Vec<Warning>, Error> {
        let mut terms = Vec::new();
        let mut warnings = Vec::new();
        for term in limit.map(split_pattern).unwrap_or_default() {
            let Some(file) = term.strip_prefix('@') else {
                terms.push(term);
                continue;
            };
            let lines = read_limit(Path::new(file))?;
            if lines.is_empty() {
                warnings.push(Warning::EmptyLimit { path: PathBuf::from(file) });
            }
            terms.extend(lines);
        }
        if terms.is_empty() && !warnings.is_empty() {
            terms.push(NO_HOSTS.to_owned());
        }
        self.limit = (!terms.is_empty()).then_some(terms);
        Ok(warnings)
    }

    /// Sets the patterns of a limit whose files were read before.
    pub fn set_limit_patterns(&mut self, patterns: Vec<String>) {
        self.limit = Some(patterns);
    }

    /// Patterns of the limit, also of the files that it names. Empty without a limit.
    pub fn limit_patterns(&self) -> &[String] {
        self.limit.as_deref().unwrap_or_default()
    }

    /// Whether the limit excludes all hosts of any inventory.
    pub fn excludes_all(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.iter().any(|term| term == NO_HOSTS))
    }

    /// Whether a limit is set.
    pub fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    fn evaluate(&self, terms: &[String], warnings: &mut Vec<Warning>) -> Result<IndexSet<HostName>, Error> {
        let mut ordered: Vec<&str> = terms.iter().map(String::as_str).filter(|term| !term.is_empty()).collect();
        // Additions apply first, then intersections, then exclusions, regardless of their order.
        ordered.sort_by_key(|term| effect(term).0);
        if ordered.first().is_none_or(|term| effect(term).0 != Effect::Add) {
            ordered.insert(0, "all");
        }
        let mut hosts = IndexSet::new();
        for term in ordered {
            if let Some(host) = self.hosts.get(term) {
                hosts.insert(Arc::clone(&host.name));
                continue;
            }
            let (effect, expression) = effect(term);
            let found = self.term(expression, warnings)?;
            match effect {
                Effect::Add => hosts.extend(found),
                Effect::Keep => hosts.retain(|host| found.contains(host)),
                Effect::Remove => hosts.retain(|host| !found.contains(host)),
            }
        }
        Ok(hosts)
    }

    /// Hosts that one term matches, ignoring its effect.
    fn term(&self, term: &str, warnings: &mut Vec<Warning>) -> Result<IndexSet<HostName>, Error> {
        let (expression, subscript) = split_subscript(term)?;
        if subscript.as_ref().is_some_and(|subscript| subscript.is_dashed) {
            warnings.push(Warning::DashedSubscript { pattern: term.to_owned() });
        }
        let hosts = self.expression(expression, warnings)?;
        match subscript {
            Some(subscript) if !hosts.is_empty() => subscript.apply(hosts).ok_or_else(|| Error::Pattern {
                pattern: term.to_owned(),
                reason: "has a subscript that is out of the range of its hosts".to_owned(),
            }),
            _ => Ok(hosts),
        }
    }

    fn expression(&self, expression: &str, warnings: &mut Vec<Warning>) -> Result<IndexSet<HostName>, Error> {
        let matcher = Matcher::new(expression)?;
        let mut hosts = IndexSet::new();
        let mut any_group = false;
        let name_of = |host: usize| self.host_at(host).map(|host| Arc::clone(&host.name));
        for group in 0..self.groups.len() {
            if self.group_at(group).is_some_and(|group| matcher.matches(&group.name)) {
                any_group = true;
                hosts.extend(self.hosts_below(group).into_iter().filter_map(name_of));
            }
        }
        let may_match_hosts = !any_group || expression.starts_with('~') || expression.contains(['.', '?', '*', '[']);
        if may_match_hosts {
            if let Some(name) = matcher.exact() {
                hosts.extend(self.hosts.get(name).map(|host| Arc::clone(&host.name)));
            } else {
                let named = self.hosts.values().filter(|host| !host.is_implicit && matcher.matches(&host.name));
                hosts.extend(named.map(|host| Arc::clone(&host.name)));
            }
        }
        if hosts.is_empty() && LOCALHOST_NAMES.contains(&expression) {
            hosts.extend(self.localhost(expression).map(|host| Arc::clone(&host.name)));
        }
        if hosts.is_empty() && !any_group && expression != "all" {
            warnings.push(Warning::NoMatch { pattern: expression.to_owned() });
        }
        Ok(hosts)
    }
}

fn read_limit(file: &Path) -> Result<Vec<String>, Error> {
    let refused = |reason: String| Error::LimitFile { path: PathBuf::from(file), reason };
    if !file.is_file() {
        let reason = if file.exists() { "it must be a file" } else { "it does not exist" };
        return Err(refused(reason.to_owned()));
    }
    let text = windlass_bounds::read_text(file).map_err(|error| refused(error.to_string()))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Compares names of groups and hosts with an expression.
enum Matcher<'a> {
    Exact(&'a str),
    Glob(regex::Regex),
    Regex(Arc<windlass_python_regex::Pattern>),
}

impl<'a> Matcher<'a> {
    fn new(expression: &'a str) -> Result<Self, Error> {
        let refused = |reason: String| Error::Pattern { pattern: expression.to_owned(), reason };
        if let Some(regex) = expression.strip_prefix('~') {
            let flags = Flags { anchor: Anchor::Match, ..Flags::default() };
            return windlass_python_regex::compile(regex, flags)
                .map(Self::Regex)
                .map_err(|error| refused(format!("cannot be used: {error}")));
        }
        if !expression.contains(['*', '?', '[']) {
            return Ok(Self::Exact(expression));
        }
        regex::Regex::new(&glob_to_regex(expression))
            .map(Self::Glob)
            .map_err(|error| refused(format!("is not a valid glob: {error}")))
    }

    fn exact(&self) -> Option<&str> {
        if let Self::Exact(name) = self { Some(name) } else { None }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => *exact == name,
            Self::Glob(glob) => glob.is_match(name),
            // A pattern that backtracks beyond the limit matches nothing.
            Self::Regex(regex) => regex.is_match(name).unwrap_or(false),
        }
    }
}

/// Converts a shell glob to a regular expression: `*`, `?`, `[abc]`, `[!abc]`. An unpaired bracket is literal.
fn glob_to_regex(glob: &str) -> String {
    let mut regex = String::from("(?s)^");
    let mut rest = glob;
    while let Some(character) = rest.chars().next() {
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
        match character {
            '*' => regex += ".*",
            '?' => regex.push('.'),
            '[' => match class_end(rest) {
                Some(end) => {
                    let (class, tail) = rest.split_at(end);
                    rest = tail.get(1..).unwrap_or_default();
                    let (negation, class) = match class.strip_prefix('!') {
                        Some(class) => ("^", class),
                        None => ("", class),
                    };
                    let escaped: String = class
                        .chars()
                        .flat_map(|c| {
                            matches!(c, '\\' | '[' | ']' | '^' | '&' | '~').then_some('\\').into_iter().chain([c])
                        })
                        .collect();
                    regex += &format!("[{negation}{escaped}]");
                }
                None => regex += "\\[",
            },
            other => regex += &regex::escape(other.encode_utf8(&mut [0; 4])),
        }
    }
    regex.push('$');
    regex
}

/// End of a character class; a `]` at its very beginning belongs to it.
fn class_end(text: &str) -> Option<usize> {
    let skipped = usize::from(text.starts_with('!'));
    let skipped = skipped + usize::from(text.get(skipped..)?.starts_with(']'));
    text.get(skipped..)?.find(']').map(|end| end + skipped)
}

/// `[2]`, `[-1]`, `[1:]` or `[0:3]` after an expression.
#[derive(Debug, PartialEq)]
struct Subscript {
    start: i64,
    /// Last index of a range; `None` for a single index.
    end: Option<i64>,
    is_dashed: bool,
}

fn split_subscript(term: &str) -> Result<(&str, Option<Subscript>), Error> {
    if term.is_empty() {
        return Err(Error::Pattern { pattern: term.to_owned(), reason: "is empty".to_owned() });
    }
    if term.starts_with('~') {
        return Ok((term, None));
    }
    let split = term.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    match split.filter(|(expression, _)| !expression.is_empty()) {
        Some((expression, inner)) => match parse_subscript(inner) {
            Some(subscript) => Ok((expression, Some(subscript))),
            None => Ok((term, None)),
        },
        None => Ok((term, None)),
    }
}

fn parse_subscript(text: &str) -> Option<Subscript> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if digits(unsigned).is_some() {
        return Some(Subscript { start: text.parse().ok()?, end: None, is_dashed: false });
    }
    let at = text.find([':', '-'])?;
    let start = digits(text.get(..at)?)?;
    let end = text.get(at + 1..)?;
    let end = if end.is_empty() { -1 } else { digits(end)? };
    Some(Subscript { start, end: Some(end), is_dashed: text.get(at..at + 1)? == "-" })
}

impl Subscript {
    /// Hosts selected by the subscript; `None` if a single index is out of range.
    fn apply(&self, hosts: IndexSet<HostName>) -> Option<IndexSet<HostName>> {
        let count = hosts.len() as i64;
        match self.end {
            // A range that ends with 0 selects only its start.
            Some(end) if end != 0 => {
                let last = if end == -1 { count - 1 } else { end };
                let (start, length) = (self.start.max(0) as usize, (last + 1 - self.start).max(0) as usize);
                Some(hosts.into_iter().skip(start).take(length).collect())
            }
            _ => {
                let index = if self.start < 0 { self.start + count } else { self.start };
                let host = hosts.get_index(usize::try_from(index).ok()?)?;
                Some(IndexSet::from([Arc::clone(host)]))
            }
        }
    }
}
