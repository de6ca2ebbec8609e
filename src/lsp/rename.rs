//! All places of a variable or a handler, and changes of its name there.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use lsp_types::{Location, Position, Range, ReferenceParams, RenameParams, TextEdit, Uri, WorkspaceEdit};

use super::documents::{Document, uri_of};
use super::names::Names;
use super::text::Lines;
use crate::lint::{Index, LARGEST, Spot};

/// Characters that a new name of a handler may have: such a name means the same with and without quotes.
const IN_HANDLERS: &str = " _-.,()/";

/// An object with a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Symbol<'n> {
    Variable(&'n str),
    Handler(&'n str),
}

impl<'n> Symbol<'n> {
    /// The symbol at a position, with its place there.
    fn at(index: &'n Index, path: &Path, position: Position) -> Option<(Symbol<'n>, &'n Spot)> {
        let covers = |spot: &&Spot| {
            spot.path == path && spot.line == position.line && (spot.start..=spot.end).contains(&position.character)
        };
        let find = |names: &'n BTreeMap<String, Vec<Spot>>| {
            names.iter().find_map(|(name, spots)| Some((name.as_str(), spots.iter().find(covers)?)))
        };
        let variable = find(&index.uses).or_else(|| find(&index.variables));
        let handler = || find(&index.notified).or_else(|| find(&index.handlers));
        match variable {
            Some((name, spot)) => Some((Symbol::Variable(name), spot)),
            None => handler().map(|(name, spot)| (Symbol::Handler(name), spot)),
        }
    }

    fn name(self) -> &'n str {
        match self {
            Symbol::Variable(name) | Symbol::Handler(name) => name,
        }
    }

    /// Places that define the symbol, and places that use it.
    fn spots<'i>(self, index: &'i Index) -> (&'i [Spot], &'i [Spot]) {
        let of = |names: &'i BTreeMap<String, Vec<Spot>>| names.get(self.name()).map(Vec::as_slice).unwrap_or_default();
        match self {
            Symbol::Variable(_) => (of(&index.variables), of(&index.uses)),
            Symbol::Handler(_) => (of(&index.handlers), of(&index.notified)),
        }
    }
}

/// All places that use the name at a position, and those that define it if they are wanted too.
pub(super) fn references(document: &Document, names: &Names, wanted: &ReferenceParams) -> Vec<Location> {
    let Some((index, path)) = index_of(document, names) else { return Vec::new() };
    let Some((symbol, _)) = Symbol::at(index, path, wanted.text_document_position.position) else { return Vec::new() };
    let (definitions, uses) = symbol.spots(index);
    let definitions = if wanted.context.include_declaration { definitions } else { &[] };
    let location = |spot: &Spot| Some(Location { uri: uri_of(&spot.path)?, range: range(spot) });
    definitions.iter().chain(uses).filter_map(location).collect()
}

/// Place of the name at a position, if it can be changed.
pub(super) fn prepare(document: &Document, names: &Names, position: Position) -> Option<Range> {
    let (index, path) = index_of(document, names)?;
    let (symbol, spot) = Symbol::at(index, path, position)?;
    let is_defined = !symbol.spots(index).0.is_empty();
    is_defined.then(|| within(&document.text, spot, symbol.name())).flatten()
}

/// Changes the name at a position everywhere in the project. Nothing is changed unless all places are known.
pub(super) fn rename(
    documents: &BTreeMap<String, Document>,
    names: &Names,
    wanted: &RenameParams,
) -> Result<Option<WorkspaceEdit>, String> {
    let at = &wanted.text_document_position;
    let Some(document) = documents.get(at.text_document.uri.as_str()) else { return Ok(None) };
    let Some((index, path)) = index_of(document, names) else { return Ok(None) };
    let (symbol, _) = Symbol::at(index, path, at.position).ok_or("only variables and handlers can be renamed")?;
    let new = wanted.new_name.as_str();
    accept(symbol, new, index, names)?;
    let (definitions, uses) = symbol.spots(index);
    if definitions.is_empty() {
        return Err(format!("no file of the project defines `{}`", symbol.name()));
    }
    for file in &index.unread {
        if text_of(file, documents).is_none_or(|text| text.contains(symbol.name())) {
            let path = file.display();
            return Err(format!("{path} mentions `{}`, but not all of that file can be read", symbol.name()));
        }
    }
    let mut texts: HashMap<&Path, String> = HashMap::new();
    #[expect(clippy::mutable_key_type, reason = "the protocol's type; an address is not changed")]
    let mut changes: HashMap<Uri, Vec<TextEdit>> = HashMap::new();
    for spot in definitions.iter().chain(uses) {
        let refuse = || format!("{}:{} has changed: try again after its check", spot.path.display(), spot.line + 1);
        if !texts.contains_key(spot.path.as_path()) {
            texts.insert(&spot.path, text_of(&spot.path, documents).ok_or_else(refuse)?);
        }
        let text = texts.get(spot.path.as_path()).ok_or_else(refuse)?;
        let range = within(text, spot, symbol.name()).ok_or_else(refuse)?;
        let edits = changes.entry(uri_of(&spot.path).ok_or_else(refuse)?).or_default();
        let edit = TextEdit { range, new_text: new.to_owned() };
        if !edits.contains(&edit) {
            edits.push(edit);
        }
    }
    Ok(Some(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }))
}

/// Refuses names that are not valid, or that are taken.
fn accept(symbol: Symbol<'_>, new: &str, index: &Index, names: &Names) -> Result<(), String> {
    let old = symbol.name();
    match symbol {
        Symbol::Variable(_) => {
            if !crate::playbook::is_identifier(new) {
                return Err(format!("`{new}` is not a variable name: those have letters, digits and underscores"));
            }
            if index.variables.contains_key(new)
                || index.uses.contains_key(new)
                || names.inventory_variables.contains(new)
            {
                return Err(format!("the project has a variable `{new}` already"));
            }
            if names.inventory_variables.contains(old) {
                return Err(format!("the inventory itself sets `{old}`, and its files are not changed"));
            }
        }
        Symbol::Handler(_) => {
            let is_plain = new.chars().all(|c| c.is_alphanumeric() || IN_HANDLERS.contains(c));
            if !new.starts_with(char::is_alphanumeric) || !is_plain || new.ends_with(' ') {
                return Err(format!("`{new}` would need quotes: letters, digits and `{}` do not", IN_HANDLERS.trim()));
            }
            let qualified = |notified: &String| notified.rsplit_once(" : ").is_some_and(|(_, name)| name == old);
            if let Some(notified) = index.notified.keys().find(|notified| qualified(notified)) {
                return Err(format!("`{notified}` is notified, which is not changed"));
            }
            if index.handlers.contains_key(new) || index.notified.contains_key(new) {
                return Err(format!("the project has a handler `{new}` already"));
            }
        }
    }
    Ok(())
}

fn index_of<'n, 'd>(document: &'d Document, names: &'n Names) -> Option<(&'n Index, &'d Path)> {
    let path = document.path.as_deref()?;
    Some((names.of(Some(path))?, path))
}

/// Text of a file, as the editor shows it if it is open.
fn text_of(path: &Path, documents: &BTreeMap<String, Document>) -> Option<String> {
    let open = documents.values().find(|document| document.path.as_deref() == Some(path));
    if let Some(document) = open {
        return (!document.is_too_large).then(|| document.text.to_string());
    }
    let is_small = path.metadata().is_ok_and(|metadata| metadata.len() <= LARGEST);
    is_small.then(|| windlass_bounds::read_text(path).ok()).flatten()
}

/// Range of a name at a place, with or without a quote before it; `None` if the text has another one there.
fn within(text: &str, spot: &Spot, name: &str) -> Option<Range> {
    let lines = Lines::new(text);
    let row = spot.line as usize;
    let (found, start) = lines.place(Position { line: spot.line, character: spot.start });
    let line = lines.line(row);
    if found != row {
        return None;
    }
    let start = if line.get(start..)?.starts_with(['"', '\'']) { start + 1 } else { start };
    let end = start + name.len();
    let is_part = |c: Option<char>| c.is_some_and(|c| c == '_' || c.is_alphanumeric());
    let is_whole = !is_part(line.get(..start)?.chars().next_back()) && !is_part(line.get(end..)?.chars().next());
    (line.get(start..end)? == name && is_whole).then(|| lines.within(row, &(start..end)))
}

fn range(spot: &Spot) -> Range {
    let position = |character| Position { line: spot.line, character };
    Range { start: position(spot.start), end: position(spot.end) }
}
