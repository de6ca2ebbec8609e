//! Values that must never be displayed, and the search for them in output.

mod address;
mod forms;
mod rule;
mod tasks;

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;
use zeroize::Zeroizing;

use self::rule::Kind;

/// Replacement for a secret.
pub(crate) const MASK: &str = "********";

/// Maximum number of lines of one secret that are also masked individually.
const LINES: usize = 2000;

/// Maximum size of a value to mask, in bytes. A larger one is a file to copy, not a value to display.
const LARGEST: usize = 256 << 10;

/// Keys of results whose lists are the words of a command line, which a secret with blanks was split into.
pub(crate) const WORDS: [&str; 2] = ["cmd", "argv"];

/// Values that must never be displayed. Cheap to clone; clones share the values.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Store>);

#[derive(Default)]
struct Store {
    state: RwLock<State>,
    /// Whether any secret is known. Without one, a search costs nothing.
    any: AtomicBool,
    /// Number of values that are too trivial to mask.
    trivial: AtomicUsize,
    /// Receives each new secret.
    observer: OnceLock<Observer>,
}

/// Receives a new secret, and whether it is a password.
type Observer = Box<dyn Fn(&str, bool) + Send + Sync>;

/// A secret, zeroed on drop.
#[derive(Clone, PartialEq, Eq)]
struct Text(Zeroizing<String>);

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[derive(Default)]
struct State {
    known: HashMap<Text, Kind>,
    exempt: Exempt,
    /// Secrets not yet in any searcher.
    pending: Vec<Text>,
    searchers: Vec<Searcher>,
}

/// Tests for names that are not secret: hosts and groups.
#[derive(Default)]
struct Exempt(Vec<Box<dyn Fn(&str) -> bool + Send + Sync>>);

impl Exempt {
    fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|is_name| is_name(name))
    }
}

/// Searches for the forms of some secrets.
struct Searcher {
    forms: BTreeSet<String>,
    automaton: Option<AhoCorasick>,
    longest: usize,
}

impl Searcher {
    fn new(forms: BTreeSet<String>) -> Searcher {
        let longest = forms.iter().map(String::len).max().unwrap_or_default();
        // Overlapping matches are needed, because a secret may start within another.
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&forms).ok();
        Searcher { forms, automaton, longest }
    }

    fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        match &self.automaton {
            Some(automaton) => {
                let first = found.len();
                for next in automaton.find_overlapping_iter(text) {
                    let mut range = next.range();
                    // A repetitive secret matches at every byte.
                    while let Some(last) =
                        found.get(first..).and_then(<[_]>::last).filter(|last| range.start < last.end)
                    {
                        range = range.start.min(last.start)..range.end.max(last.end);
                        found.pop();
                    }
                    found.push(range);
                }
            }
            // An automaton cannot hold this many forms, so they are searched for one by one.
            None => self.forms.iter().for_each(|form| {
                let length = form.len();
                found.extend(memchr::memmem::find_iter(text, form.as_bytes()).map(|start| start..start + length));
            }),
        }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    /// Secrets of this process, shared by all outputs.
    pub fn of_process() -> Secrets {
        static PROCESS: LazyLock<Secrets> = LazyLock::new(Secrets::default);
        PROCESS.clone()
    }

    /// Masks a value and each of its lines from now on, unless it is trivial.
    pub fn add(&self, secret: &str) {
        self.insert(secret, Kind::Value);
    }

    /// Masks a password from now on, unless it is shorter than four bytes.
    pub fn add_password(&self, secret: &str) {
        self.insert(secret, Kind::Password);
    }

    /// Passes every secret that is new from now on to an observer, before anything can display it.
    pub(crate) fn observe(&self, observer: impl Fn(&str, bool) + Send + Sync + 'static) {
        let _ = self.0.observer.set(Box::new(observer));
    }

    /// Masks the contents of a decrypted text: the values of a YAML or JSON document, or else the text. Of tasks and
    /// plays, it masks the data.
    pub fn reveal(&self, plain: &[u8]) {
        let Ok(text) = std::str::from_utf8(plain) else { return };
        if text.len() > LARGEST {
            self.0.trivial.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let source = windlass_yaml::Source::secret("vault", text);
        let parsed = windlass_yaml::parse(Arc::clone(&source), &windlass_yaml::Options::default());
        let node = parsed.ok().and_then(|loaded| loaded.into_one(&source).ok());
        match node.filter(|node| node.as_map().is_some() || node.as_list().is_some()) {
            Some(node) if tasks::are_in(&node) => tasks::values(&node, &mut |text| self.add(text)),
            Some(node) => leaves(&node, &mut |text| self.add(text)),
            None => self.add(text),
        }
    }

    /// Leaves names unmasked that are not secret: hosts and groups.
    pub fn exempt(&self, is_name: impl Fn(&str) -> bool + Send + Sync + 'static) {
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        state.exempt.0.push(Box::new(is_name));
        state.searchers.clear();
        state.pending = state.known.keys().cloned().collect();
    }

    /// Note about secret values that are too trivial to mask; returned once.
    pub fn trivial_note(&self) -> Option<String> {
        let count = self.0.trivial.swap(usize::MAX / 2, Ordering::AcqRel);
        (1..usize::MAX / 2).contains(&count).then(|| {
            "secret values that are shorter than four bytes, numbers of fewer than eight digits, booleans, addresses, \
             names of hosts and groups, common words such as `root` or `localhost`, and texts of more than 256 KiB are \
             not masked in the output, and this run has some. Use `no_log: true` where they must not be shown."
                .to_owned()
        })
    }

    /// Masks every secret in any form, and every password in a URL.
    pub fn mask(&self, text: &str) -> String {
        self.masked(text).into_owned()
    }

    /// Masks a name, unless it is that of a host or group.
    pub(crate) fn mask_name(&self, name: &str) -> String {
        let is_exempt = self.0.state.read().unwrap_or_else(PoisonError::into_inner).exempt.contains(name);
        if is_exempt { name.to_owned() } else { self.mask(name) }
    }

    /// Like [`Secrets::mask`], but copies the text only if it contains a secret.
    pub fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let found = self.find(text.as_bytes());
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut end = 0;
        for range in found {
            masked.push_str(text.get(end..range.start).unwrap_or_default());
            masked.push_str(MASK);
            end = range.end;
        }
        masked.push_str(text.get(end..).unwrap_or_default());
        Cow::Owned(masked)
    }

    /// Masks texts, keys and numbers of a value; a masked number becomes a text. Booleans and the structure stay.
    pub fn mask_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = self.masked(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_json(item)),
            Value::Object(map) => self.mask_map(map),
            Value::Number(number) => {
                if let Cow::Owned(masked) = self.masked(&number.to_string()) {
                    *value = Value::String(masked);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Masks texts and keys of a mapping.
    pub fn mask_map(&self, map: &mut serde_json::Map<String, Value>) {
        for (key, item) in map.iter_mut() {
            if let Value::Array(words) = item
                && WORDS.contains(&key.as_str())
            {
                self.mask_words(words);
            }
            self.mask_json(item);
        }
        if map.keys().any(|key| matches!(self.masked(key), Cow::Owned(_))) {
            *map = std::mem::take(map).into_iter().map(|(key, item)| (self.mask(&key), item)).collect();
        }
    }

    /// Masks secrets that a command line was split within. Each word with a part of one becomes a mask. Returns whether
    /// there were any.
    pub(crate) fn mask_words(&self, words: &mut [Value]) -> bool {
        if !self.is_any_known() {
            return false;
        }
        let text = |word: &Value| word.as_str().map_or_else(|| word.to_string(), str::to_owned);
        let texts: Vec<String> = words.iter().map(text).collect();
        let line = texts.join(" ");
        let found = self.find(line.as_bytes());
        let mut start = 0;
        let ends: Vec<Range<usize>> = texts
            .iter()
            .map(|text| {
                let range = start..start + text.len();
                start = range.end + 1;
                range
            })
            .collect();
        let mut has_masked = false;
        for (word, at) in words.iter_mut().zip(ends) {
            let is_split = |range: &Range<usize>| range.start < at.start || range.end > at.end;
            let touches = |range: &&Range<usize>| range.start < at.end && at.start < range.end;
            if found.iter().filter(touches).any(is_split) {
                *word = Value::from(MASK);
                has_masked = true;
            }
        }
        has_masked
    }

    /// Ranges of secrets in a text, sorted and without overlaps.
    pub(super) fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = address::passwords(text);
        if self.is_any_known() {
            self.state().searchers.iter().for_each(|searcher| searcher.find(text, &mut found));
        }
        if found.len() < 2 {
            return found;
        }
        found.sort_unstable_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }

    /// Whether any secret is known. Without one, a search costs little.
    pub(crate) fn is_any_known(&self) -> bool {
        self.0.any.load(Ordering::Acquire)
    }

    /// Length of the longest form in bytes. That much of an unfinished text may be the start of a secret.
    pub(super) fn longest(&self) -> usize {
        if !self.is_any_known() {
            return 0;
        }
        self.state().searchers.iter().map(|searcher| searcher.longest).max().unwrap_or_default()
    }

    fn insert(&self, secret: &str, kind: Kind) {
        let whole = secret.trim();
        if whole.len() > LARGEST {
            self.0.trivial.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let lines = secret.lines().map(str::trim).take(if whole.contains('\n') { LINES } else { 0 });
        let parts = || std::iter::once(whole).chain(lines.clone()).filter(|part| !part.is_empty());
        // Every task adds the passwords of its connection again.
        let is_new = |state: &State, part: &str| state.known.get(part).is_none_or(|known| *known < kind);
        {
            let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
            if !parts().any(|part| is_new(&state, part)) {
                return;
            }
        }
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        if kind == Kind::Value
            && is_new(&state, whole)
            && !rule::is_masked(whole, kind, |name| state.exempt.contains(name))
        {
            self.0.trivial.fetch_add(1, Ordering::AcqRel);
        }
        for part in parts() {
            if is_new(&state, part) {
                let part = Text(Zeroizing::new(part.to_owned()));
                state.known.insert(part.clone(), kind);
                state.pending.push(part);
            }
        }
        self.0.any.store(true, Ordering::Release);
        if let Some(observer) = self.0.observer.get() {
            observer(secret, kind == Kind::Password);
        }
    }

    /// The state, with searchers for all secrets.
    fn state(&self) -> RwLockReadGuard<'_, State> {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.pending.is_empty() {
            return state;
        }
        drop(state);
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        state.learn();
        // Another thread must not clear the searchers again before this one has searched.
        RwLockWriteGuard::downgrade(state)
    }
}

/// Visits the scalars of a document.
pub(crate) fn leaves(node: &windlass_yaml::Node, visit: &mut dyn FnMut(&str)) {
    if let Some(map) = node.as_map() {
        map.iter().for_each(|(_, item)| leaves(item, visit));
    } else if let Some(items) = node.as_list() {
        items.iter().for_each(|item| leaves(item, visit));
    } else if let Some(text) = node.scalar_text().filter(|_| !node.is_null()) {
        visit(&text);
    }
}

impl State {
    /// Builds searchers for the pending secrets.
    fn learn(&mut self) {
        let mut new = BTreeSet::new();
        for secret in std::mem::take(&mut self.pending) {
            let kind = self.known.get(&secret).copied().unwrap_or(Kind::Value);
            if rule::is_masked(&secret.0, kind, |name| self.exempt.contains(name)) {
                new.extend(forms::of(&secret.0).into_iter().filter(|form| form.len() >= rule::SHORTEST));
            }
        }
        if new.is_empty() {
            return;
        }
        // Each searcher is at most half the size of the previous one. A run that learns secrets one by one thus builds
        // each form into few automata.
        while self.searchers.last().is_some_and(|last| last.forms.len() < new.len() * 2) {
            if let Some(last) = self.searchers.pop() {
                new.extend(last.forms);
            }
        }
        self.searchers.push(Searcher::new(new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secret_anywhere_in_a_text_is_masked() {
        let secrets = Secrets::default();
        secrets.add("hunter2");
        assert_eq!(secrets.mask("{\"msg\": \"hunter2!\"}"), "{\"msg\": \"********!\"}");
    }

    #[test]
    fn overlapping_secrets_masked_completely() {
        let secrets = Secrets::default();
        secrets.add("abcd1234");
        assert_eq!(secrets.mask("abcd1234wxyz"), "********wxyz");
        secrets.add("1234wxyz");
        secrets.add("abcd1234wxyzlonger");
        assert_eq!(secrets.mask("abcd1234wxyz abcd1234wxyzlonger"), "******** ********");
    }

    #[test]
    fn secret_split_into_words_of_a_command_is_masked() {
        let secrets = Secrets::default();
        secrets.add("correct horse 'battery staple'");
        let mut value = json!({"cmd": ["login", "--password", "correct", "horse", "battery staple", "now"]});
        secrets.mask_json(&mut value);
        assert_eq!(value, json!({"cmd": ["login", "--password", MASK, MASK, MASK, "now"]}));
        secrets.add("home #hunter2secret");
        assert_eq!(secrets.mask("home sweet home #hunter2secret"), "home sweet ********");
        let mut value = json!({"cmd": ["echo", "a correct horse 'battery staple' b"]});
        secrets.mask_json(&mut value);
        assert_eq!(value, json!({"cmd": ["echo", "a ******** b"]}));
    }

    #[test]
    fn structure_of_a_value_is_kept() {
        let secrets = Secrets::default();
        ["true", "8080", "localhost", "\": \"", "s3cret"].into_iter().for_each(|secret| secrets.add(secret));
        let mut value = json!({"s3cret": true, "port": 8080, "host": "localhost", "msg": ["a\": \"b", "is s3cret"]});
        secrets.mask_json(&mut value);
        let masked = json!({"********": true, "port": 8080, "host": "localhost", "msg": ["a********b", "is ********"]});
        assert_eq!(value, masked);
    }

    #[test]
    fn decrypted_document_masks_values_not_keys() {
        let secrets = Secrets::default();
        secrets
            .reveal(b"database:\n  password: s3cr3t word\n  port: 5432\n  key: |\n    first line\n    second line\n");
        assert_eq!(secrets.mask("password s3cr3t word 5432 second line"), "password ******** 5432 ********");
    }

    #[test]
    fn host_name_in_vault_not_masked() {
        let secrets = Secrets::default();
        secrets.add("db.example.org");
        assert_eq!(secrets.mask("db.example.org"), MASK);
        secrets.exempt(|name| name == "db.example.org");
        assert_eq!(secrets.mask("db.example.org"), "db.example.org");
    }

    #[test]
    fn secret_masked_while_another_thread_exempts_names() {
        let secrets = Secrets::default();
        secrets.add("hunter2");
        std::thread::scope(|scope| {
            scope.spawn(|| (0..2000).for_each(|_| secrets.exempt(|name| name == "web1")));
            (0..2000).for_each(|_| assert_eq!(secrets.mask("hunter2"), MASK));
        });
    }
}
