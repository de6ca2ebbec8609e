//! Rules of a project's own, as `rules` in `.windlass-lint.yml` lists them.
//!
//! A rule is data, except for `when`: an expression of the project's text over one play, block or task as it is
//! written. It sees these values alone. Its filters and tests only compute, and it has no lookups. Its input and the
//! time of all rules are bounded. So an untrusted project can be checked.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json};
use windlass_bounds::child;
use windlass_template::uses::{Form, UseKind, uses};
use windlass_template::{
    Engine, Function, Library, Limits, Lookups, Options, PluginKind, Scope, Value, Variable, Variables,
};
use windlass_yaml::{Mapping, Node, Span};

use super::context::Context;
use super::finding::Finding;
use super::rule::{RULES, Rule, Severity};
use super::settings::{FILE, texts};
use super::source::{SourceFile, place_of};
use super::walk::{Action, SECTIONS};
use crate::error::{Error, Result, did_you_mean};
use crate::playbook::keyword::is_keyword;
use crate::playbook::{On, short_name};

/// Maximum number of rules, and length of an expression in bytes.
const MOST_RULES: usize = 200;
const LONGEST: usize = 4_000;

/// Time for the expressions of all rules of a project.
const DEADLINE: Duration = Duration::from_secs(10);

/// Limits on one expression: far more than the values of a task need, and work of a second at most.
const LIMITS: Limits = Limits { text: 1 << 20, list: 10_000, work: Some(16 << 20) };

/// Names that an expression sees.
const NAMES: [&str; 8] = ["args", "file", "inherited", "keywords", "module", "name", "role", "value"];

/// Keys of a rule.
const KEYS: [&str; 8] = ["help", "keyword", "kind", "message", "module", "option", "severity", "when"];

/// Filters and tests that read the control machine, take long on purpose, or have another result each time.
const NOT_PURE: [&str; 19] = [
    "directory",
    "exists",
    "expanduser",
    "expandvars",
    "file",
    "fileglob",
    "is_dir",
    "is_file",
    "is_link",
    "is_mount",
    "is_same_file",
    "link",
    "link_exists",
    "mount",
    "password_hash",
    "realpath",
    "same_file",
    "vaulted_file",
    "unvault",
];

/// Filters and tests of ansible-core that only compute.
static PURE: LazyLock<Library> = LazyLock::new(|| {
    let pure = |all: &[Function]| -> &'static [Function] {
        let is_pure = |name: &&str| !name.contains('.') && !NOT_PURE.contains(name);
        Vec::leak(all.iter().filter(|function| function.names.iter().all(is_pure)).copied().collect())
    };
    let lookups = Lookups { all: &[], reads_outside: |_| false, is_active: |_| false };
    Library::new(pure(windlass_template::filters::FILTERS), pure(windlass_template::tests::TESTS), lookups)
});

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    Engine::new(&PURE, Options { allow_broken_conditionals: true, limits: LIMITS, ..Options::default() })
});

/// A rule of the project.
#[derive(Debug)]
pub(super) struct OwnRule {
    pub(super) rule: &'static Rule,
    message: String,
    help: Option<String>,
    kinds: Vec<On>,
    modules: Vec<String>,
    options: Vec<String>,
    keywords: Vec<String>,
    when: Option<Node>,
}

/// A play, block or task.
struct Subject<'p> {
    file: &'p SourceFile,
    node: &'p Node,
    map: &'p Mapping,
    on: On,
    outer: &'p [&'p Arc<Mapping>],
    action: Option<&'p Action>,
}

/// No variables but those that are added.
#[derive(Debug)]
struct Nothing;

impl Scope for Nothing {
    fn get(&self, _name: &str) -> Option<Variable> {
        None
    }

    fn names(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

/// Reads `rules` of the settings: a mapping of names to rules.
pub(super) fn read(node: &Node) -> Result<Vec<OwnRule>> {
    let Some(map) = node.as_map() else {
        return Err(Error::parse("`rules` maps names to rules", &node.span));
    };
    if map.len() > MOST_RULES {
        return Err(Error::parse(format!("a project can have at most {MOST_RULES} rules of its own"), &node.span));
    }
    map.iter().map(|(key, value)| rule(&key.to_text(), &key.span, value)).collect()
}

fn rule(id: &str, at: &Span, node: &Node) -> Result<OwnRule> {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !id.split('-').all(is_word) {
        let message = format!("`{id}` is not the name of a rule: it has lower-case words with `-` between them");
        return Err(Error::parse(message, at));
    }
    if Rule::named(id).is_some() {
        return Err(Error::parse(format!("`{id}` is a rule of windlass lint: give this one another name"), at));
    }
    let Some(map) = node.as_map() else {
        return Err(Error::parse(format!("a rule must be a mapping, not {}", node.kind()), &node.span));
    };
    if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.to_text().as_str())) {
        let hint = did_you_mean(&key.to_text(), KEYS);
        return Err(Error::parse(format!("`{}` is not a key of a rule", key.to_text()), &key.span).maybe_hint(hint));
    }
    let words = |name: &str| -> Result<Vec<String>> {
        let Some(node) = map.get(name) else { return Ok(Vec::new()) };
        Ok(texts(node)?.into_iter().map(|(text, _)| text).collect())
    };
    let text = |name: &str| words(name).map(|words| words.into_iter().next());
    let Some(message) = text("message")?.filter(|text| !text.is_empty()) else {
        return Err(Error::parse(format!("the rule `{id}` needs a `message`"), &node.span));
    };
    let when = map.get("when").cloned();
    if let Some(when) = &when {
        expression(when)?;
    }
    let found = OwnRule {
        rule: interned(id, severity(map)?, &message),
        message,
        help: text("help")?,
        kinds: kinds(map)?,
        modules: words("module")?,
        options: words("option")?,
        keywords: words("keyword")?,
        when,
    };
    if found.modules.is_empty() && found.options.is_empty() && found.keywords.is_empty() && found.when.is_none() {
        let message = format!("the rule `{id}` matches everything: give it `module`, `option`, `keyword` or `when`");
        return Err(Error::parse(message, &node.span));
    }
    Ok(found)
}

fn severity(map: &Mapping) -> Result<Severity> {
    let Some(node) = map.get("severity") else { return Ok(Severity::Warning) };
    let all = [Severity::Info, Severity::Warning, Severity::Error];
    let found = all.into_iter().find(|severity| Some(severity.name()) == node.as_str());
    found.ok_or_else(|| Error::parse("`severity` is info, warning or error", &node.span))
}

/// Kinds of objects that a rule looks at: tasks and handlers, unless it names others.
fn kinds(map: &Mapping) -> Result<Vec<On>> {
    let Some(node) = map.get("kind") else { return Ok(vec![On::Task, On::Handler]) };
    let kinds = [("play", On::Play), ("block", On::Block), ("task", On::Task), ("handler", On::Handler)];
    let one = |(word, span): (String, &Span)| {
        let found = kinds.iter().find(|(name, _)| *name == word).map(|(_, on)| *on);
        found.ok_or_else(|| Error::parse("`kind` is a list of play, block, task and handler", span))
    };
    texts(node)?.into_iter().map(one).collect()
}

/// Checks the expression of a rule: its names, filters and tests.
fn expression(node: &Node) -> Result<()> {
    let Some(text) = node.as_str().filter(|text| text.len() <= LONGEST) else {
        return Err(Error::parse(format!("`when` must be an expression of at most {LONGEST} bytes"), &node.span));
    };
    if ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark)) {
        return Err(Error::parse("`when` is an expression already: leave out `{{ }}`", &node.span));
    }
    let found = uses(text, Form::Expression)
        .map_err(|fault| Error::parse(format!("`when` is not an expression: {}", fault.message), &node.span))?;
    for used in found.names.iter().filter(|used| !found.bound.contains(&used.name)) {
        let name = used.name.as_str();
        let (kind, word) = match used.kind {
            UseKind::Variable if NAMES.contains(&name) => continue,
            UseKind::Variable => {
                let message = format!("`when` knows no `{name}`: it sees {}", NAMES.join(", "));
                return Err(Error::parse(message, &node.span));
            }
            UseKind::Filter => (PluginKind::Filter, "filter"),
            UseKind::Test => (PluginKind::Test, "test"),
        };
        if !PURE.has(kind, name) {
            let message = format!(
                "the {word} `{name}` is not possible in a rule, which has the ones of ansible-core that only compute"
            );
            return Err(Error::parse(message, &node.span));
        }
    }
    Ok(())
}

/// Rules that this process has read. Findings refer to rules for as long as the process lives; a language server reads
/// the same ones at each check.
fn interned(id: &str, severity: Severity, summary: &str) -> &'static Rule {
    static KNOWN: Mutex<Vec<&'static Rule>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |rule: &&&'static Rule| rule.id == id && rule.severity == severity && rule.summary == summary;
    if let Some(rule) = known.iter().find(same) {
        return rule;
    }
    let leak = |text: &str| -> &'static str { String::leak(text.to_owned()) };
    let rule: &'static Rule = Box::leak(Box::new(Rule {
        id: leak(id),
        severity,
        fixable: false,
        aliases: &[],
        summary: leak(summary),
        doc: "A rule of the project.",
    }));
    known.push(rule);
    rule
}

/// Whether a rule is one of a project.
pub(crate) fn is_own(rule: &Rule) -> bool {
    RULES.iter().all(|known| known.id != rule.id)
}

/// Applies the rules of a project. Fails if they exceed [`DEADLINE`]. An expression that fails for a value is a finding
/// at that value.
pub(super) fn check(context: &Context<'_>, rules: &[OwnRule]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    if rules.is_empty() {
        return Ok(findings);
    }
    let tasks = context.tree.tasks.iter().map(|task| Subject {
        file: task.file,
        node: task.node,
        map: task.map,
        on: task.on,
        outer: &task.outer,
        action: task.action.as_ref(),
    });
    let entries = context.tree.entries.iter().map(|entry| Subject {
        file: entry.file,
        node: entry.node,
        map: entry.map,
        on: entry.on,
        outer: &[],
        action: None,
    });
    let end = Instant::now() + DEADLINE;
    child::until(Some(end), || {
        for subject in tasks.chain(entries).filter(|subject| subject.file.is_chosen) {
            let mut scope = None;
            for rule in rules.iter().filter(|rule| rule.is_about(&subject)) {
                rule.check(&subject, &mut scope, &mut findings);
                if Instant::now() >= end {
                    let seconds = DEADLINE.as_secs();
                    return Err(Error::new(format!("the rules of {FILE} did not end within {seconds} s")).as_parse());
                }
            }
        }
        Ok(())
    })?;
    Ok(findings)
}

impl OwnRule {
    fn is_about(&self, subject: &Subject<'_>) -> bool {
        let is_called = |action: &Action| {
            let names = [action.name.as_str(), action.short(), action.last_word()];
            self.modules.iter().any(|module| names.contains(&short_name(module)))
        };
        self.kinds.contains(&subject.on) && (self.modules.is_empty() || subject.action.is_some_and(is_called))
    }

    /// Adds the findings of the rule. `scope` keeps the values of the subject for further rules.
    fn check(
        &self,
        subject: &Subject<'_>,
        scope: &mut Option<windlass_template::Context>,
        findings: &mut Vec<Finding>,
    ) {
        let of_options = self.options.iter().filter_map(|name| subject.action?.args.get_entry(name));
        let of_keywords = self.keywords.iter().filter_map(|name| subject.map.get_entry(name));
        let mut targets: Vec<(&Span, Option<&Node>)> =
            of_options.chain(of_keywords).map(|(key, value)| (&key.span, Some(value))).collect();
        if self.options.is_empty() && self.keywords.is_empty() {
            targets.push((subject.action.map_or(&subject.node.span, |action| &action.span), None));
        }
        for (span, value) in targets {
            let mut message = self.message.clone();
            if let Some(when) = &self.when {
                let scope = scope.get_or_insert_with(|| subject.scope());
                let value = value.map_or_else(|| Value::from(()), |node| windlass_template::from_json(&node.to_json()));
                let scope = scope.with(Variables::from_iter([(Arc::from("value"), Variable::Data(value))]));
                match scope.condition(when) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    // A rule about an option has nothing to report where the option is missing.
                    Err(error) if error.is_undefined() => continue,
                    Err(error) => message = format!("the rule cannot be evaluated here: {}", error.message()),
                }
            }
            let finding = Finding::new(self.rule, subject.file, place_of(span), message);
            findings.push(finding.help(self.help.clone()).within(subject.node.span.line));
        }
    }
}

impl Subject<'_> {
    /// Values that an expression sees, as data: no text in them is a template.
    fn scope(&self) -> windlass_template::Context {
        let mut inherited = Map::new();
        for map in self.outer {
            inherited.extend(keywords(map, &[On::Play, On::Block]));
        }
        let text = |value: Option<&str>| Json::from(value.unwrap_or_default());
        let role = self.file.role.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
        let args = self.action.map(|action| action.args.iter().map(|(key, value)| (key.to_text(), value.to_json())));
        let values = [
            ("args", Json::Object(args.into_iter().flatten().collect())),
            ("file", text(self.file.path.to_str())),
            ("inherited", Json::Object(inherited)),
            ("module", text(self.action.map(Action::short))),
            ("name", text(self.map.get("name").and_then(Node::as_str))),
            ("role", text(role.as_deref())),
            ("keywords", Json::Object(keywords(self.map, &[self.on]).collect())),
        ];
        let data =
            |(name, value): (&str, Json)| (Arc::from(name), Variable::Data(windlass_template::from_json(&value)));
        ENGINE.scope(Arc::new(Nothing)).with(values.into_iter().map(data).collect())
    }
}

/// Keywords of an object, without those that hold tasks and roles.
fn keywords<'m>(map: &'m Mapping, on: &'m [On]) -> impl Iterator<Item = (String, Json)> + 'm {
    let is_keyword = move |word: &str| on.iter().any(|on| is_keyword(word, *on));
    let is_shown = move |word: &str| is_keyword(word) && !SECTIONS.contains(&word) && word != "roles";
    map.string_entries().filter(move |(word, _)| is_shown(word)).map(|(word, node)| (word.to_owned(), node.to_json()))
}
