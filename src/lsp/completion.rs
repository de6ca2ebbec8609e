//! Completion of keywords, modules, options, values and names.

use std::path::Path;

use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionList, CompletionTextEdit, Documentation, MarkupContent, MarkupKind,
    TextEdit,
};
use windlass_modules::{Kind as Type, Opt, Spec};
use windlass_protocol::BecomeMethod;

use super::docs;
use super::documents::Document;
use super::expression::{Expression, Word};
use super::names::Names;
use super::outline::{At, Cursor};
use super::scope::{LOOP_CONTROL, Scope, module_of};
use super::text::Lines;
use crate::builtin;
use crate::lint::{Kind, likely_kind};
use crate::playbook::On;
use crate::playbook::keyword::{BOOLEANS, KEYWORDS, is_keyword};

/// Maximum number of items in an answer. The editor asks again when the word grows.
const MOST_ITEMS: usize = 2_000;

/// Whether the value of a key of a play, block, task or `loop_control` may be a boolean.
fn is_boolean(key: &str) -> bool {
    BOOLEANS.contains(&key) || matches!(key, "extended" | "extended_allitems")
}

/// Answers a request at a position.
pub(super) fn complete(document: &Document, names: &Names, position: lsp_types::Position) -> CompletionList {
    let lines = Lines::new(&document.text);
    let (row, offset) = lines.place(position);
    let kind = document.path.as_deref().and_then(|path| likely_kind(path, &document.text));
    let mut found = Found { items: Vec::new(), is_cut: false };
    if let Some(expression) = Expression::at(kind, &lines, row, offset) {
        let start = expression.start;
        found.expression(&expression, names, document);
        found.filter(&lines, row, start..offset, "");
    } else if kind != Some(Kind::Template)
        && let Some(cursor) = Cursor::new(&lines, row, offset)
    {
        let scope = Scope::of(kind, &lines, &cursor);
        let mut word = cursor.word.start.min(offset)..offset;
        if matches!(cursor.line.get(word.start..word.start + 1), Some("'" | "\"")) {
            word.start = (word.start + 1).min(offset);
        }
        // Only the last name of `web:db` or `[a, b` is completed.
        if cursor.key().is_some_and(|key| matches!(key, "hosts" | "tags" | "notify")) {
            let separators: &[char] =
                if cursor.key() == Some("hosts") { &[',', ':', '&', '!', '['] } else { &[',', '['] };
            let last = cursor.line.get(word.clone()).and_then(|text| text.rfind(separators));
            word.start += last.map_or(0, |at| at + 1);
        }
        let ending = if cursor.has_key { "" } else { ":" };
        found.in_structure(&cursor, scope, names, document);
        found.filter(&lines, row, word, ending);
    }
    CompletionList { is_incomplete: found.is_cut, items: found.items }
}

/// Items of an answer.
struct Found {
    items: Vec<CompletionItem>,
    is_cut: bool,
}

impl Found {
    fn add(&mut self, label: impl Into<String>, kind: CompletionItemKind, detail: &str, doc: Option<String>) {
        let documentation =
            doc.map(|value| Documentation::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value }));
        let detail = Some(detail.to_owned()).filter(|detail| !detail.is_empty());
        self.items.push(CompletionItem {
            label: label.into(),
            kind: Some(kind),
            detail,
            documentation,
            ..CompletionItem::default()
        });
    }

    fn names<'n>(&mut self, names: impl IntoIterator<Item = &'n String>, kind: CompletionItemKind, detail: &str) {
        names.into_iter().for_each(|name| self.add(name, kind, detail, None));
    }

    /// Keeps items with the word before the cursor, and lets them replace it.
    fn filter(&mut self, lines: &Lines<'_>, row: usize, word: std::ops::Range<usize>, ending: &str) {
        let prefix = lines.line(row).get(word.clone()).unwrap_or_default().trim_start().to_lowercase();
        self.items.retain(|item| prefix.is_empty() || item.label.to_lowercase().contains(&prefix));
        self.items.sort_by(|left, right| {
            let rank = |item: &CompletionItem| !item.label.to_lowercase().starts_with(&prefix);
            rank(left).cmp(&rank(right)).then_with(|| left.label.cmp(&right.label))
        });
        self.items.dedup_by(|left, right| left.label == right.label);
        self.replace(lines, row, word, ending);
    }

    /// Lets items replace a range of a line.
    fn replace(&mut self, lines: &Lines<'_>, row: usize, word: std::ops::Range<usize>, ending: &str) {
        self.is_cut = self.items.len() > MOST_ITEMS;
        self.items.truncate(MOST_ITEMS);
        let text = lines.line(row).get(word.clone()).unwrap_or_default();
        let start = word.start + (text.len() - text.trim_start().len());
        let range = lines.within(row, &(start..word.end));
        for item in &mut self.items {
            let is_key = matches!(
                item.kind,
                Some(CompletionItemKind::KEYWORD | CompletionItemKind::FUNCTION | CompletionItemKind::PROPERTY)
            );
            let ending = if is_key { ending } else { "" };
            let space = if ending.is_empty() || item.kind == Some(CompletionItemKind::FUNCTION) { "" } else { " " };
            let new_text = format!("{}{ending}{space}", item.label);
            item.text_edit = Some(CompletionTextEdit::Edit(TextEdit { range, new_text }));
        }
    }

    fn in_structure(&mut self, cursor: &Cursor<'_>, scope: Scope<'_>, names: &Names, document: &Document) {
        if let At::Value(key) = cursor.at {
            return self.values(scope, key, cursor, names, document);
        }
        match scope {
            // An item of a list of roles may be a name or a mapping.
            Scope::On(On::Role) => {
                if cursor.is_item {
                    self.roles(names, document);
                }
                self.keywords(On::Role, cursor);
            }
            Scope::On(on @ (On::Task | On::Handler | On::Block)) => self.task(on, cursor, names),
            Scope::On(on) => {
                self.keywords(on, cursor);
                if cursor.entries.len() <= 1 {
                    self.keywords(On::Import, cursor);
                }
            }
            Scope::PlayOrTask => {
                self.keywords(On::Play, cursor);
                self.keywords(On::Import, cursor);
                self.task(On::Task, cursor, names);
            }
            Scope::Options(spec, options) => self.options(spec, options, cursor),
            Scope::LoopControl => {
                for (name, doc) in LOOP_CONTROL {
                    self.add(name, CompletionItemKind::PROPERTY, "loop_control", Some(doc.to_owned()));
                }
            }
            Scope::Defaults => self.modules(names),
            Scope::ValueOf(key, on) => self.of_keyword(key, on, names, document),
            _ => {}
        }
    }

    fn keywords(&mut self, on: On, cursor: &Cursor<'_>) {
        let is_given = |name: &str| cursor.entries.iter().any(|(key, _)| *key == name && *key != cursor.word());
        for (name, _) in KEYWORDS.iter().filter(|(name, _)| is_keyword(name, on) && !is_given(name)) {
            self.add(*name, CompletionItemKind::KEYWORD, "keyword", docs::keyword(name));
        }
    }

    /// Keys of a task: keywords, and modules unless it has one.
    fn task(&mut self, on: On, cursor: &Cursor<'_>, names: &Names) {
        self.keywords(on, cursor);
        let others: Vec<(&str, &str)> =
            cursor.entries.iter().filter(|(key, _)| *key != cursor.word()).copied().collect();
        if module_of(&others).is_none() {
            if on == On::Task {
                self.keywords(On::Block, cursor);
            }
            self.modules(names);
        }
    }

    fn modules(&mut self, names: &Names) {
        for spec in builtin::specs() {
            for name in spec.full_names().chain([spec.name.to_owned()]) {
                self.add(name, CompletionItemKind::FUNCTION, spec.summary, None);
            }
        }
        let own = names.modules.iter().filter(|name| !builtin::is_known(name));
        self.names(own, CompletionItemKind::FUNCTION, "module of the project");
    }

    fn options(&mut self, spec: &'static Spec, options: &'static [Opt], cursor: &Cursor<'_>) {
        let is_given =
            |option: &Opt| cursor.entries.iter().any(|(key, _)| option.is_called(key) && *key != cursor.word());
        for option in options.iter().filter(|option| !option.name.starts_with('_') && !is_given(option)) {
            let detail = if option.required { "required" } else { option.kind.name() };
            self.add(option.name, CompletionItemKind::PROPERTY, detail, Some(docs::option(spec, option)));
        }
    }

    /// Candidates for the value of a key.
    fn values(&mut self, scope: Scope<'_>, key: &str, cursor: &Cursor<'_>, names: &Names, document: &Document) {
        match scope {
            Scope::Options(spec, options) => {
                if let Some(option) = options.iter().find(|option| option.is_called(key)) {
                    self.of_option(spec, option, names, document);
                }
            }
            Scope::On(on) => self.of_keyword(key, on, names, document),
            Scope::PlayOrTask => self.of_keyword(key, On::Play, names, document),
            Scope::LoopControl if is_boolean(key) => self.booleans(),
            Scope::Plays | Scope::Tasks(_) | Scope::Either => {
                let on = if cursor.entries.iter().any(|(key, _)| *key == "hosts") { On::Play } else { On::Task };
                self.of_keyword(key, on, names, document);
            }
            _ => {}
        }
    }

    fn of_option(&mut self, spec: &Spec, option: &Opt, names: &Names, document: &Document) {
        for choice in option.choices {
            let detail = if option.default == Some(&format!("\"{choice}\"")) { "default" } else { "" };
            self.add(*choice, CompletionItemKind::ENUM_MEMBER, detail, None);
        }
        if option.kind == Type::Bool {
            self.booleans();
        }
        match (spec.name, option.name) {
            ("include_role" | "import_role", "name") => self.roles(names, document),
            ("include_tasks" | "import_tasks", "file") => self.files(names, document, Kind::Tasks),
            _ => {}
        }
    }

    /// The value of a keyword, or an item of its list.
    fn of_keyword(&mut self, key: &str, on: On, names: &Names, document: &Document) {
        let index = names.of(document.path.as_deref());
        match (key, on) {
            (key, _) if is_boolean(key) => self.booleans(),
            ("hosts", On::Play) | ("delegate_to", _) => {
                self.names(names.inventory.keys(), CompletionItemKind::VALUE, "inventory");
                self.names(index.map(|index| &index.hosts).into_iter().flatten(), CompletionItemKind::VALUE, "project");
                for name in ["all", "localhost"] {
                    self.add(name, CompletionItemKind::VALUE, "", None);
                }
            }
            ("tags", _) => {
                self.names(index.map(|index| &index.tags).into_iter().flatten(), CompletionItemKind::VALUE, "tag");
                for tag in ["always", "never"] {
                    self.add(tag, CompletionItemKind::VALUE, "special tag", None);
                }
            }
            ("notify", _) => {
                let handlers = index.map(|index| index.handlers.keys()).into_iter().flatten();
                self.names(handlers, CompletionItemKind::EVENT, "handler");
            }
            ("role" | "name", On::Role) => self.roles(names, document),
            ("become_method", _) => {
                for method in BecomeMethod::ALL {
                    self.add(method.name(), CompletionItemKind::ENUM_MEMBER, "", None);
                }
            }
            ("import_playbook" | "ansible.builtin.import_playbook", _) => self.files(names, document, Kind::Playbook),
            _ => match crate::playbook::short_name(key) {
                "include_tasks" | "import_tasks" => self.files(names, document, Kind::Tasks),
                _ => {}
            },
        }
    }

    fn booleans(&mut self) {
        for word in ["true", "false"] {
            self.add(word, CompletionItemKind::ENUM_MEMBER, "", None);
        }
    }

    fn roles(&mut self, names: &Names, document: &Document) {
        let project = names.of(document.path.as_deref()).map(|index| index.roles.keys());
        self.names(project.into_iter().flatten(), CompletionItemKind::MODULE, "role of the project");
        self.names(names.roles.keys(), CompletionItemKind::MODULE, "role");
    }

    /// Files of a kind below the document's directory, without files of other roles.
    fn files(&mut self, names: &Names, document: &Document, kind: Kind) {
        let Some(path) = document.path.as_deref() else { return };
        let Some((folder, index)) = path.parent().zip(names.of(Some(path))) else { return };
        let is_of_other =
            |file: &Path| index.roles.values().any(|role| file.starts_with(role) && !path.starts_with(role));
        for (file, _) in index.files.iter().filter(|(file, of)| *of == kind && file != path && !is_of_other(file)) {
            if let Some(below) = file.strip_prefix(folder).ok().and_then(Path::to_str) {
                self.add(below, CompletionItemKind::FILE, "", None);
            }
        }
    }

    fn expression(&mut self, expression: &Expression<'_>, names: &Names, document: &Document) {
        let functions = |found: &mut Found, kind: &str, names: Vec<&'static str>| {
            for name in names {
                found.add(name, CompletionItemKind::METHOD, crate::pages::summary(kind, name), None);
            }
        };
        use windlass_template::PluginKind;
        match expression.word {
            Word::Filter => functions(self, "filter", windlass_template::LIBRARY.names(PluginKind::Filter)),
            Word::Test => functions(self, "test", windlass_template::LIBRARY.names(PluginKind::Test)),
            Word::Lookup => {
                for (_, name, doc) in crate::pages::pages().filter(|(kind, ..)| *kind == "lookup") {
                    self.add(name, CompletionItemKind::METHOD, doc, None);
                }
            }
            Word::Name => {
                let variables = names.of(document.path.as_deref()).map(|index| &index.variables);
                for (name, spots) in variables.into_iter().flatten() {
                    let detail = spots.first().map(|spot| spot.text.as_str()).unwrap_or_default();
                    self.add(name, CompletionItemKind::VARIABLE, detail, None);
                }
            }
        }
    }
}
