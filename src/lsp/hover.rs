//! Documentation of the word under the cursor.

use std::ops::Range;

use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind};

use super::docs;
use super::documents::Document;
use super::expression::{Expression, Word};
use super::names::Names;
use super::outline::{At, Cursor};
use super::scope::{LOOP_CONTROL, Scope};
use super::text::Lines;
use crate::builtin;
use crate::lint::{Index, Kind, likely_kind};
use crate::playbook::On;

/// Maximum number of places that a variable's page lists.
const MOST_PLACES: usize = 12;

/// Answers a request at a position.
pub(super) fn hover(document: &Document, names: &Names, position: lsp_types::Position) -> Option<Hover> {
    let lines = Lines::new(&document.text);
    let (row, offset) = lines.place(position);
    let kind = document.path.as_deref().and_then(|path| likely_kind(path, &document.text));
    let index = names.of(document.path.as_deref());
    let (text, range) = match Expression::at(kind, &lines, row, offset) {
        Some(found) => of_expression(&found, index)?,
        None if kind == Some(Kind::Template) => return None,
        None => of_structure(kind, &lines, &Cursor::new(&lines, row, offset)?, index)?,
    };
    Some(Hover {
        contents: HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value: text }),
        range: Some(lines.within(row, &range)),
    })
}

fn of_expression(found: &Expression<'_>, index: Option<&Index>) -> Option<(String, Range<usize>)> {
    let range = |text: &str| found.start..found.start + text.len();
    let plugin = |kind| Some((docs::plugin(kind, found.text)?, range(found.text)));
    match found.word {
        Word::Filter => plugin("filter"),
        Word::Test => plugin("test"),
        Word::Lookup => plugin("lookup"),
        Word::Name => {
            let name = found.text.split('.').next()?;
            Some((variable(index?, name)?, range(name)))
        }
    }
}

/// Places that set a variable, with their lines.
fn variable(index: &Index, name: &str) -> Option<String> {
    let spots = index.variables.get(name)?;
    let mut text = format!("`{name}`, a variable that these lines set\n");
    let here = std::env::current_dir().unwrap_or_default();
    for spot in spots.iter().take(MOST_PLACES) {
        let path = spot.path.strip_prefix(&here).unwrap_or(&spot.path);
        text.push_str(&format!("\n- {}:{}: `{}`", path.display(), spot.line + 1, spot.text.replace('`', "'")));
    }
    if spots.len() > MOST_PLACES {
        text.push_str(&format!("\n- and {} more", spots.len() - MOST_PLACES));
    }
    Some(text)
}

fn of_structure(
    kind: Option<Kind>,
    lines: &Lines<'_>,
    cursor: &Cursor<'_>,
    index: Option<&Index>,
) -> Option<(String, Range<usize>)> {
    // Only keys have documentation, not items of lists.
    if cursor.at != At::Word || !cursor.has_key {
        return None;
    }
    let word = cursor.word();
    let keyword = || docs::keyword(word);
    let module = || builtin::spec(word).map(docs::module);
    let text = match Scope::of(kind, lines, cursor) {
        Scope::Options(spec, options) => {
            options.iter().find(|option| option.is_called(word)).map(|option| docs::option(spec, option))
        }
        Scope::On(On::Play | On::Role | On::Import) => keyword(),
        Scope::On(_) | Scope::PlayOrTask => keyword().or_else(module),
        Scope::Defaults => module(),
        Scope::LoopControl => {
            let found = LOOP_CONTROL.iter().find(|(name, _)| *name == word);
            found.map(|(name, doc)| format!("`{name}` of `loop_control`\n\n{doc}\n"))
        }
        Scope::Variables => variable(index?, word),
        _ => None,
    };
    Some((text?, cursor.word.clone()))
}
