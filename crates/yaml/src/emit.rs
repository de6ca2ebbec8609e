//! Writes YAML byte for byte as PyYAML with libyaml does, for `to_yaml` and `to_nice_yaml`.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use base64::Engine;
use libyaml_safer::{Emitter, Encoding, Event, MappingStyle, ScalarStyle, SequenceStyle};

use crate::resolve::{self, Resolved};
use crate::{Error, ErrorKind, Node, Span, Value, python_float, python_timestamp};

/// A value to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer in decimal.
    Int(String),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Str(String),
    /// Bytes, written as `!!binary`.
    Bytes(Vec<u8>),
    /// A date or time, written plainly.
    Timestamp(String),
    /// Ciphertext, written as `!vault`.
    Vault(String),
    /// A sequence.
    List(Vec<Item>),
    /// A mapping.
    Map(Vec<(Item, Item)>),
    /// A collection or ciphertext with an identity; if the identity repeats, an alias is written.
    Shared(usize, Box<Item>),
}

impl Item {
    /// Converts a node so that shared collections and ciphertexts are written once, and as an alias after that. Anchors
    /// and variables of many hosts share content; the result follows Python's object identity.
    pub fn with_aliases(node: &Node) -> Self {
        let (identity, item) = match &node.value {
            Value::List(items) => {
                (Arc::as_ptr(items).cast::<()>().addr(), Self::List(items.iter().map(Self::with_aliases).collect()))
            }
            Value::Map(mapping) => (
                Arc::as_ptr(mapping).addr(),
                Self::Map(
                    mapping
                        .iter()
                        .map(|(key, value)| (Self::from(&key.as_node()), Self::with_aliases(value)))
                        .collect(),
                ),
            ),
            Value::Vault(text) => (Arc::as_ptr(text).cast::<()>().addr(), Self::Vault(text.to_string())),
            _ => return Self::from(node),
        };
        Self::Shared(identity, Box::new(item))
    }
}

impl From<&Node> for Item {
    fn from(node: &Node) -> Self {
        match &node.value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(value.to_string()),
            Value::BigInt(text) => Self::Int(text.clone()),
            Value::Float(value) => Self::Float(*value),
            Value::String(text) => Self::Str(text.to_string()),
            Value::Literal(text) => Self::Str(text.to_string()),
            Value::Vault(text) => Self::Vault(text.to_string()),
            Value::Timestamp(text) => Self::Timestamp(python_timestamp(text, ' ')),
            Value::Binary(bytes) => Self::Bytes(bytes.to_vec()),
            Value::List(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Map(mapping) => {
                Self::Map(mapping.iter().map(|(key, value)| (Self::from(&key.as_node()), Self::from(value))).collect())
            }
        }
    }
}

/// Options for writing, with PyYAML's names and defaults.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// Columns of indentation, 2 to 9; others count as 2.
    pub indent: i32,
    /// Preferred line width; negative means unlimited.
    pub width: i32,
    /// Whether mappings are sorted by key.
    pub sort_keys: bool,
    /// `Some(true)` writes every collection in flow style, `Some(false)` none, `None` only the innermost.
    pub default_flow_style: Option<bool>,
    /// Style of every scalar: `'"'`, `'\''`, `'|'` or `'>'`.
    pub default_style: Option<char>,
    /// Whether characters outside ASCII are written unescaped.
    pub allow_unicode: bool,
    /// Whether `---` is written.
    pub explicit_start: bool,
    /// Whether `...` is written.
    pub explicit_end: bool,
    /// Whether every scalar is tagged and quoted.
    pub canonical: bool,
    /// Whether multi-line texts are written as blocks where YAML allows it.
    pub text_blocks: bool,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self {
            indent: 2,
            width: 80,
            sort_keys: true,
            default_flow_style: Some(false),
            default_style: None,
            allow_unicode: false,
            explicit_start: false,
            explicit_end: false,
            canonical: false,
            text_blocks: false,
        }
    }
}

impl DumpOptions {
    /// The options of the filter `to_yaml`.
    pub fn to_yaml() -> Self {
        Self { default_flow_style: None, allow_unicode: true, ..Self::default() }
    }

    /// The options of the filter `to_nice_yaml`.
    pub fn to_nice_yaml() -> Self {
        Self { indent: 4, allow_unicode: true, ..Self::default() }
    }
}

/// Writes a value as one document.
pub fn dump(item: &Item, options: &DumpOptions) -> Result<String, Error> {
    let fail = |reason: &str| {
        Error::new(ErrorKind::Emit, format!("The value cannot be written as YAML: {reason}."), Span::none())
    };
    for mark in ASTRAL_MARKS {
        let mut writer =
            Writer { options, mark, is_taken: false, astral: Vec::new(), events: Vec::new(), anchors: HashMap::new() };
        writer.find_anchors(item, &mut 0);
        writer.item(item, None);
        let Writer { events, astral, is_taken, .. } = writer;
        if astral.is_empty() || !is_taken {
            let mut output = Vec::new();
            emit(events, options, &mut output).map_err(|error| fail(&error.to_string()))?;
            return Ok(restore_astral(String::from_utf8_lossy(&output).into_owned(), mark, astral));
        }
    }
    Err(fail("its texts look like what stands for characters beyond the basic plane"))
}

fn emit(events: Vec<Event>, options: &DumpOptions, output: &mut Vec<u8>) -> Result<(), libyaml_safer::Error> {
    let mut emitter = Emitter::new();
    emitter.set_output_string(output);
    emitter.set_indent(options.indent);
    emitter.set_width(options.width);
    emitter.set_unicode(options.allow_unicode);
    emitter.set_canonical(options.canonical);
    emitter.emit(Event::stream_start(Encoding::Utf8))?;
    emitter.emit(Event::document_start(None, &[], !options.explicit_start))?;
    for event in events {
        emitter.emit(event)?;
    }
    emitter.emit(Event::document_end(!options.explicit_end))?;
    emitter.emit(Event::stream_end())?;
    emitter.flush()
}

/// U+FFFE followed by one of these replaces a character beyond the basic plane. The pair is unprintable, and its escape
/// is as wide as that character's own. libyaml escapes those characters and our emitter does not, but the width decides
/// where lines fold. The mark is chosen so that it does not occur in the texts.
const ASTRAL_MARKS: RangeInclusive<char> = '\u{86}'..='\u{9f}';

fn restore_astral(text: String, mark: char, astral: Vec<char>) -> String {
    if astral.is_empty() {
        return text;
    }
    let mut characters = astral.into_iter();
    let stand_in = escaped(mark);
    let mut pieces = text.split(&stand_in);
    let mut restored = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        if let Some(character) = characters.next() {
            restored += &format!("\\U{:08X}", u32::from(character));
        }
        restored += piece;
    }
    restored
}

fn escaped(mark: char) -> String {
    format!("\\uFFFE\\x{:02X}", u32::from(mark))
}

struct Writer<'a> {
    options: &'a DumpOptions,
    /// Follows U+FFFE in the two characters that replace a character beyond the basic plane.
    mark: char,
    /// Whether the texts themselves contain the replacement.
    is_taken: bool,
    /// The replaced characters, in order.
    astral: Vec<char>,
    events: Vec<Event>,
    /// Shared items by identity; repeated ones get an anchor.
    anchors: HashMap<usize, Anchor>,
}

#[derive(Default)]
struct Anchor {
    /// Anchor number, in the order in which items repeat.
    number: Option<usize>,
    is_written: bool,
}

const NULL: &str = "tag:yaml.org,2002:null";
const BOOL: &str = "tag:yaml.org,2002:bool";
const INT: &str = "tag:yaml.org,2002:int";
const FLOAT: &str = "tag:yaml.org,2002:float";
const STR: &str = "tag:yaml.org,2002:str";
const BINARY: &str = "tag:yaml.org,2002:binary";
const TIMESTAMP: &str = "tag:yaml.org,2002:timestamp";
const SEQ: &str = "tag:yaml.org,2002:seq";
const MAP: &str = "tag:yaml.org,2002:map";

/// Styles in which the tag of a scalar is not written, because a reader derives it from the text.
#[derive(Clone, Copy)]
struct Implicit {
    plain: bool,
    quoted: bool,
}

impl Implicit {
    /// The tag is always written.
    const NEVER: Implicit = Implicit { plain: false, quoted: false };
}

impl Writer<'_> {
    /// Numbers the shared items that occur more than once.
    fn find_anchors(&mut self, item: &Item, count: &mut usize) {
        match item {
            Item::Shared(identity, inner) => match self.anchors.get_mut(identity) {
                None => {
                    self.anchors.insert(*identity, Anchor::default());
                    self.find_anchors(inner, count);
                }
                Some(anchor) if anchor.number.is_none() => {
                    *count += 1;
                    anchor.number = Some(*count);
                }
                Some(_) => {}
            },
            Item::List(items) => {
                for item in items {
                    self.find_anchors(item, count);
                }
            }
            Item::Map(entries) => {
                for (key, value) in self.in_order(entries) {
                    self.find_anchors(key, count);
                    self.find_anchors(value, count);
                }
            }
            _ => {}
        }
    }

    fn shared(&mut self, identity: usize, item: &Item) {
        let anchor = self.anchors.entry(identity).or_default();
        let name = anchor.number.map(|number| format!("id{number:03}"));
        match name {
            Some(name) if anchor.is_written => self.events.push(Event::alias(&name)),
            name => {
                anchor.is_written = true;
                self.item(item, name.as_deref());
            }
        }
    }

    fn item(&mut self, item: &Item, anchor: Option<&str>) {
        match item {
            Item::Shared(identity, item) => self.shared(*identity, item),
            Item::Null => self.plain(NULL, "null"),
            Item::Bool(value) => self.plain(BOOL, if *value { "true" } else { "false" }),
            Item::Int(text) => self.plain(INT, text),
            Item::Float(value) => self.plain(FLOAT, &float_text(*value)),
            Item::Timestamp(text) => self.plain(TIMESTAMP, text),
            Item::Str(text) => {
                let is_plain = matches!(resolve::plain(text), Resolved::Value(Value::String(_)));
                let text = self.without_astral(text);
                let block = self.options.text_blocks && text.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
                let implicit = Implicit { plain: is_plain, quoted: true };
                self.scalar(STR, &text, implicit, block.then_some(ScalarStyle::Literal));
            }
            Item::Bytes(bytes) => {
                self.scalar(BINARY, &base64_lines(bytes), Implicit::NEVER, Some(ScalarStyle::Literal))
            }
            Item::Vault(text) => {
                self.anchored_scalar(anchor, "!vault", text, Implicit::NEVER, Some(ScalarStyle::Literal));
            }
            Item::List(items) => {
                let flow =
                    self.options.default_flow_style.unwrap_or_else(|| items.iter().all(|item| self.is_simple(item)));
                let style = if flow { SequenceStyle::Flow } else { SequenceStyle::Block };
                self.events.push(Event::sequence_start(anchor, Some(SEQ), true, style));
                for item in items {
                    self.item(item, None);
                }
                self.events.push(Event::sequence_end());
            }
            Item::Map(entries) => {
                let flow = self
                    .options
                    .default_flow_style
                    .unwrap_or_else(|| entries.iter().all(|(key, value)| self.is_simple(key) && self.is_simple(value)));
                let style = if flow { MappingStyle::Flow } else { MappingStyle::Block };
                self.events.push(Event::mapping_start(anchor, Some(MAP), true, style));
                for (key, value) in self.in_order(entries) {
                    self.item(key, None);
                    self.item(value, None);
                }
                self.events.push(Event::mapping_end());
            }
        }
    }

    /// Whether a scalar allows its collection to be in flow style.
    fn is_simple(&self, item: &Item) -> bool {
        self.options.default_style.is_none()
            && !matches!(item, Item::List(_) | Item::Map(_) | Item::Shared(..) | Item::Bytes(_) | Item::Vault(_))
    }

    fn plain(&mut self, tag: &str, text: &str) {
        self.scalar(tag, text, Implicit { plain: true, quoted: false }, None);
    }

    fn scalar(&mut self, tag: &str, text: &str, implicit: Implicit, style: Option<ScalarStyle>) {
        self.anchored_scalar(None, tag, text, implicit, style);
    }

    fn anchored_scalar(
        &mut self,
        anchor: Option<&str>,
        tag: &str,
        text: &str,
        implicit: Implicit,
        style: Option<ScalarStyle>,
    ) {
        let style = style.unwrap_or(match self.options.default_style {
            Some('"') => ScalarStyle::DoubleQuoted,
            Some('\'') => ScalarStyle::SingleQuoted,
            Some('|') => ScalarStyle::Literal,
            Some('>') => ScalarStyle::Folded,
            _ => ScalarStyle::Any,
        });
        self.events.push(Event::scalar(anchor, Some(tag), text, implicit.plain, implicit.quoted, style));
    }

    fn without_astral(&mut self, text: &str) -> String {
        if text.contains('\u{fffe}') || text.contains("\\uFFFE") {
            self.is_taken |= text.contains(&escaped(self.mark)) || text.contains(&format!("\u{fffe}{}", self.mark));
        }
        let mut replaced = String::with_capacity(text.len());
        for character in text.chars() {
            if character > '\u{ffff}' {
                self.astral.push(character);
                replaced.extend(['\u{fffe}', self.mark]);
            } else {
                replaced.push(character);
            }
        }
        replaced
    }

    fn in_order<'i>(&self, entries: &'i [(Item, Item)]) -> Vec<&'i (Item, Item)> {
        let mut ordered: Vec<_> = entries.iter().collect();
        // Python cannot compare keys of different types; PyYAML then keeps their order.
        let comparable = |pair: &[(Item, Item)]| matches!(pair, [(a, _), (b, _)] if compare(a, b).is_some());
        if self.options.sort_keys && entries.windows(2).all(comparable) {
            ordered.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
        }
        ordered
    }
}

fn compare(a: &Item, b: &Item) -> Option<Ordering> {
    match (a, b) {
        (Item::Str(a), Item::Str(b)) | (Item::Timestamp(a), Item::Timestamp(b)) => Some(a.cmp(b)),
        (Item::Bytes(a), Item::Bytes(b)) => Some(a.cmp(b)),
        (Item::Int(a), Item::Int(b)) => Some(match (a.parse::<i128>(), b.parse::<i128>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            _ => number(&Item::Int(a.clone()))?.total_cmp(&number(&Item::Int(b.clone()))?),
        }),
        _ => Some(number(a)?.total_cmp(&number(b)?)),
    }
}

fn number(item: &Item) -> Option<f64> {
    match item {
        Item::Bool(value) => Some(f64::from(u8::from(*value))),
        Item::Int(text) => text.parse().ok(),
        Item::Float(value) => Some(*value),
        _ => None,
    }
}

fn float_text(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let text = python_float(value);
    // YAML 1.1 reads a number with an exponent as a float only if it has a dot.
    if text.contains('.') { text } else { text.replacen('e', ".0e", 1) }
}

/// Base64 in lines of 76 characters, each with a newline.
fn base64_lines(bytes: &[u8]) -> String {
    bytes.chunks(57).map(|chunk| base64::engine::general_purpose::STANDARD.encode(chunk) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_in_already_in_text_replaced_by_another() {
        // Texts that contain the escape of the stand-in were written as that character.
        for taken in [r"\uFFFE\x86", "\u{fffe}\u{86}"] {
            let item = Item::List(vec![text(taken), text("\u{1f600}")]);
            let written = dump(&item, &DumpOptions::default()).unwrap();
            assert_eq!(written.matches(r"\U0001F600").count(), 1, "{written}");
            assert!(written.contains(r"\uFFFE\x86"), "{written}");
            let alone = dump(&text(taken), &DumpOptions::default()).unwrap();
            assert!(alone.contains(r"\uFFFE\x86"), "{alone}");
        }
    }

    fn text(value: &str) -> Item {
        Item::Str(value.to_owned())
    }

    #[test]
    fn to_nice_yaml_indents_by_four_and_sorts() {
        let item = Item::Map(vec![
            (text("b"), Item::List(vec![text("yes"), Item::Bool(true), Item::Int("1".into())])),
            (text("a"), Item::Map(vec![(text("x"), Item::Null), (text("e"), Item::Map(vec![]))])),
        ]);
        let nice = dump(&item, &DumpOptions::to_nice_yaml()).unwrap();
        assert_eq!(nice, "a:\n    e: {}\n    x: null\nb:\n- 'yes'\n- true\n- 1\n");
        let terse = dump(&item, &DumpOptions::to_yaml()).unwrap();
        assert_eq!(terse, "a:\n  e: {}\n  x: null\nb: ['yes', true, 1]\n");
    }

    #[test]
    fn characters_beyond_the_basic_plane_are_escaped() {
        let item = Item::List(vec![text("smile \u{1f600} é")]);
        assert_eq!(dump(&item, &DumpOptions::to_nice_yaml()).unwrap(), "- \"smile \\U0001F600 é\"\n");
    }

    #[test]
    fn shared_value_written_once_with_alias() {
        let shared = |identity, item| Item::Shared(identity, Box::new(item));
        let inner = shared(1, Item::List(vec![text("x")]));
        let item = Item::Map(vec![
            (text("a"), shared(2, Item::Map(vec![(text("k"), inner.clone())]))),
            (text("b"), shared(2, Item::Map(vec![(text("k"), inner.clone())]))),
            (text("c"), inner),
        ]);
        let written = dump(&item, &DumpOptions::default()).unwrap();
        assert_eq!(written, "a: &id001\n  k: &id002\n  - x\nb: *id001\nc: *id002\n");
    }

    #[test]
    fn keys_of_different_types_keep_their_order() {
        let item = Item::Map(vec![(text("b"), Item::Null), (Item::Int("1".into()), Item::Null)]);
        assert_eq!(dump(&item, &DumpOptions::default()).unwrap(), "b: null\n1: null\n");
    }
}
