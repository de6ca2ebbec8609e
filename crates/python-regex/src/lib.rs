//! Python's `re`, implemented with the crates regex and fancy-regex.
//!
//! A pattern is rewritten into their syntax and compiled by regex, which matches in linear time. If that fails because
//! of lookaround or backreferences, fancy-regex compiles it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

mod syntax;
mod template;

pub use template::Template;

/// Longest result of [`Pattern::replace`], in bytes.
const LONGEST_RESULT: usize = 100_000_000;

/// Maximum number of matches, where one counts once for each group.
const MOST_MATCHES: usize = 5_000_000;

/// Flags of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Python's `re.IGNORECASE`.
    pub ignore_case: bool,
    /// Python's `re.MULTILINE`.
    pub multi_line: bool,
    /// Required position of a match.
    pub anchor: Anchor,
}

/// Required position of a match: `search`, `match` or `fullmatch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// Anywhere in the text.
    #[default]
    Search,
    /// At the start of the text.
    Match,
    /// The whole text.
    Full,
}

/// A compiled Python pattern.
#[derive(Debug)]
pub struct Pattern {
    plain: Engine,
    /// The same pattern for a text that ends with a newline, before which Python's `$` also matches.
    before_newline: Option<Engine>,
}

#[derive(Debug)]
enum Engine {
    Linear(regex::Regex),
    Backtracking(fancy_regex::Regex),
}

/// Limits of a search for all matches.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest number of matches to find.
    pub matches: usize,
    /// Called for each match; an error ends the search.
    pub proceed: fn() -> Result<(), String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { matches: usize::MAX, proceed: || Ok(()) }
    }
}

/// One match: the byte range of each group, the whole match first.
#[derive(Clone, Debug)]
pub struct Match<'t> {
    text: &'t str,
    groups: Vec<Option<(usize, usize)>>,
}

impl<'t> Match<'t> {
    /// Start of the whole match.
    pub fn start(&self) -> usize {
        self.groups.first().copied().flatten().map_or(0, |range| range.0)
    }

    /// End of the whole match.
    pub fn end(&self) -> usize {
        self.groups.first().copied().flatten().map_or(0, |range| range.1)
    }

    /// The text of a group; `None` if the group does not exist or did not take part.
    pub fn group(&self, index: usize) -> Option<&'t str> {
        let (start, end) = self.range(index)?;
        self.text.get(start..end)
    }

    /// Byte range of a group.
    pub fn range(&self, index: usize) -> Option<(usize, usize)> {
        self.groups.get(index).copied().flatten()
    }
}

/// Compiles a pattern or returns it from the cache. The error is a sentence without its full stop.
pub fn compile(pattern: &str, flags: Flags) -> Result<Arc<Pattern>, String> {
    type Cache = Mutex<HashMap<(String, Flags), Arc<Pattern>>>;
    const CACHED_PATTERNS: usize = 512;
    static CACHE: OnceLock<Cache> = OnceLock::new();
    let cache = CACHE.get_or_init(Cache::default);
    let key = (pattern.to_owned(), flags);
    if let Some(found) = cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&key) {
        return Ok(found.clone());
    }
    let compiled = Arc::new(Pattern::new(pattern, flags)?);
    let mut cache = cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if cache.len() >= CACHED_PATTERNS {
        cache.clear();
    }
    cache.insert(key, compiled.clone());
    Ok(compiled)
}

impl Pattern {
    fn new(pattern: &str, flags: Flags) -> Result<Pattern, String> {
        // Python uses this wording for a repetition of nothing, and users search for it.
        let repeats_nothing = pattern.starts_with('?') || pattern.trim_start_matches('(').starts_with(['*', '+']);
        let fail = |reason: String| match repeats_nothing {
            true => format!("the regular expression '{pattern}' is not valid: nothing to repeat"),
            false => format!("the regular expression '{pattern}' is not valid: {reason}"),
        };
        let translated = syntax::translate(pattern, flags.multi_line).map_err(fail)?;
        let build = |body: &str| {
            let mut source = String::new();
            if flags.ignore_case {
                source.push_str("(?i)");
            }
            if flags.multi_line {
                source.push_str("(?m)");
            }
            let end = if translated.verbose { "\n" } else { "" };
            match flags.anchor {
                Anchor::Search => source.push_str(body),
                Anchor::Match => source.push_str(&format!("\\A(?:{body}{end})")),
                Anchor::Full => source.push_str(&format!("\\A(?:{body}{end})\\z")),
            }
            Engine::new(&source)
        };
        let plain = build(&translated.plain).map_err(fail)?;
        let before_newline = match &translated.before_newline {
            Some(body) => Some(build(body).map_err(fail)?),
            None => None,
        };
        Ok(Pattern { plain, before_newline })
    }

    fn engine(&self, text: &str) -> &Engine {
        match &self.before_newline {
            Some(engine) if text.ends_with('\n') => engine,
            _ => &self.plain,
        }
    }

    /// The first match at or after a byte position.
    pub fn find_at<'t>(&self, text: &'t str, position: usize) -> Result<Option<Match<'t>>, String> {
        self.engine(text).find_at(text, position)
    }

    /// Whether the pattern matches.
    pub fn is_match(&self, text: &str) -> Result<bool, String> {
        match self.engine(text) {
            Engine::Linear(regex) => Ok(regex.is_match(text)),
            Engine::Backtracking(_) => Ok(self.find_at(text, 0)?.is_some()),
        }
    }

    /// All non-overlapping matches. As in Python, an empty match may directly follow another match.
    pub fn find_all<'t>(&self, text: &'t str, limits: Limits) -> Result<Vec<Match<'t>>, String> {
        let mut found = Vec::new();
        let mut position = 0;
        while position <= text.len() && found.len() < limits.matches {
            (limits.proceed)()?;
            let Some(matched) = self.find_at(text, position)? else { break };
            position = matched.end();
            if matched.start() == matched.end() {
                position += text[position..].chars().next().map_or(1, char::len_utf8);
            }
            if found.len() >= MOST_MATCHES / matched.groups.len().max(1) {
                return Err("there are too many matches".to_owned());
            }
            found.push(matched);
        }
        Ok(found)
    }

    /// The number of a named group.
    pub fn group_number(&self, name: &str) -> Option<usize> {
        match &self.plain {
            Engine::Linear(regex) => regex.capture_names().position(|group| group == Some(name)),
            Engine::Backtracking(regex) => regex.capture_names().position(|group| group == Some(name)),
        }
    }

    /// The names of the groups, the whole match first.
    pub fn group_names(&self) -> Vec<Option<&str>> {
        match &self.plain {
            Engine::Linear(regex) => regex.capture_names().collect(),
            Engine::Backtracking(regex) => regex.capture_names().collect(),
        }
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        match &self.plain {
            Engine::Linear(regex) => regex.captures_len() - 1,
            Engine::Backtracking(regex) => regex.captures_len() - 1,
        }
    }

    /// `re.sub`: the text with its first matches replaced, and the number of replacements.
    pub fn replace(&self, text: &str, template: &Template, limits: Limits) -> Result<(String, usize), String> {
        let matches = self.find_all(text, limits)?;
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for matched in &matches {
            (limits.proceed)()?;
            out.push_str(&text[done..matched.start()]);
            template.expand(matched, &mut out);
            if out.len() > LONGEST_RESULT {
                return Err(format!("the result is longer than {LONGEST_RESULT} bytes"));
            }
            done = matched.end();
        }
        out.push_str(&text[done..]);
        Ok((out, matches.len()))
    }
}

impl Engine {
    fn new(source: &str) -> Result<Engine, String> {
        match regex::Regex::new(source) {
            Ok(regex) => Ok(Engine::Linear(regex)),
            Err(linear) => match fancy_regex::Regex::new(source) {
                Ok(regex) => Ok(Engine::Backtracking(regex)),
                Err(backtracking) => {
                    let needs_backtracking = source.contains("(?") || source.contains('\\');
                    let reason = if needs_backtracking { backtracking.to_string() } else { linear.to_string() };
                    Err(reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned())
                }
            },
        }
    }

    fn find_at<'t>(&self, text: &'t str, position: usize) -> Result<Option<Match<'t>>, String> {
        let groups = match self {
            Engine::Linear(regex) => regex.captures_at(text, position).map(|captures| {
                captures.iter().map(|group| group.map(|group| (group.start(), group.end()))).collect::<Vec<_>>()
            }),
            Engine::Backtracking(regex) => regex
                .captures_from_pos(text, position)
                .map_err(|error| format!("the regular expression '{regex}' gave up: {error}"))?
                .map(|captures| {
                    captures.iter().map(|group| group.map(|group| (group.start(), group.end()))).collect::<Vec<_>>()
                }),
        };
        Ok(groups.map(|groups| Match { text, groups }))
    }
}

/// `re.escape`: puts a backslash before every special character.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sub(pattern: &str, replacement: &str, text: &str) -> String {
        let pattern = compile(pattern, Flags::default()).unwrap();
        let template = Template::parse(replacement, &pattern).unwrap();
        pattern.replace(text, &template, Limits::default()).unwrap().0
    }

    #[test]
    fn groups_unknown_to_python_refused() {
        // A group that calls the whole pattern used up all memory.
        for (pattern, reason) in [
            ("~(?P>0)*.|", "unknown extension ?P>"),
            ("(?R)", "unknown extension ?R"),
            ("(?1)", "unknown extension ?1"),
            ("~(?(2)W~)9bb?", "invalid group reference 2"),
        ] {
            let error = compile(pattern, Flags::default()).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        for known in [
            "(?P<a>x)(?P=a)",
            "(?:x)",
            "(?=x)",
            "(?!x)",
            "(?<=x)",
            "(?<!x)",
            "(?>x)",
            "(x)?(?(1)y|z)",
            "(?i)x",
            "(?i:x)",
            "(?#x)x",
        ] {
            compile(known, Flags::default()).unwrap();
        }
    }

    #[test]
    fn empty_matches_follow_other_matches() {
        assert_eq!(sub("x*", "-", "abxd"), "-a-b--d-");
        assert_eq!(sub("$", "!", "a\n"), "a!\n!");
    }

    #[test]
    fn python_syntax_is_understood() {
        let cases = [
            (r"(?P<a>\w)(?P=a)", r"<\g<a>>", "hello", "he<l>o"),
            (r"[[]x]", "y", "[x]", "y"),
            (r"a{,2}b", "-", "aab", "-"),
            (r"{{ x }}", "y", "{{ x }}", "y"),
            (r"(?<=a)b", "c", "ab", "ac"),
            (r"^(\d+)\.(\d+)\Z", r"\2.\1", "1.2", "2.1"),
            (r"[^]]+", "x", "a]b", "x]x"),
            (r"\/", "-", "a/b", "a-b"),
            (r"(?#note)a", "b", "a", "b"),
            (r"[\w-]+", "x", "a-b c", "x x"),
            (r"\<b\>", "x", "<b>", "x"),
        ];
        for (pattern, replacement, text, expected) in cases {
            assert_eq!(sub(pattern, replacement, text), expected, "{pattern}");
        }
    }

    #[test]
    fn invalid_pattern_named_in_error() {
        let error = compile("a(b", Flags::default()).unwrap_err();
        assert!(error.starts_with("the regular expression 'a(b' is not valid:"), "{error}");
    }
}
