//! Builds nodes from parser events.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use libyaml_safer::{Encoding, Event, EventData, Mark, Parser, ScalarStyle};

use crate::resolve::{self, Resolved};
use crate::{
    DuplicateKeys, Error, ErrorKind, Key, Loaded, Mapping, Node, Options, Source, Span, Text, Value, Warning, hint,
    tags,
};

/// Reads all documents of a text.
pub(crate) fn compose(source: &Arc<Source>, options: &Options) -> Result<Loaded, Error> {
    Loader::read(source, options)
}

/// A node that an alias can name, with its size after expanding aliases.
struct Anchored {
    node: Node,
    weight: u64,
}

/// Collection as the text writes it.
#[derive(Clone, Copy)]
enum Collection {
    Sequence,
    Mapping,
}

/// Node under construction.
enum Built {
    Node(Node),
    /// A plain `<<`; as a key, it merges.
    Merge(Span),
    /// A plain `=`; as a key, it is text.
    DefaultValue(Span),
}

struct Loader<'a, 'p> {
    parser: Parser<&'p mut &'a [u8]>,
    source: &'a Arc<Source>,
    options: &'a Options,
    /// `None` while the anchored node itself is being read.
    anchors: HashMap<String, Option<Anchored>>,
    warnings: Vec<Warning>,
    nodes: u64,
    /// Number of `!unsafe` tags around the current node.
    literal_depth: usize,
    /// The newline appended to a text that did not end with one.
    appended_newline: Option<AppendedNewline>,
}

/// The parser needs a newline at the end of the text. A block scalar must not take it as content.
struct AppendedNewline {
    /// Byte offset of the newline.
    index: u64,
    /// Whether the line it ended was blank.
    after_blanks: bool,
    /// Line of the newline; content that would follow it has this line too.
    line: usize,
    column: usize,
}

/// Line breaks of YAML 1.1.
const BREAKS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

impl<'a, 'p> Loader<'a, 'p> {
    fn read(source: &'a Arc<Source>, options: &'a Options) -> Result<Loaded, Error> {
        let text = source.text.strip_prefix('\u{feff}').unwrap_or(&source.text);
        let mut changed = (!text.is_empty() && !text.ends_with('\n')).then(|| format!("{text}\n"));
        let is_ended = changed.is_none();
        if let Some(apart) = tags::apart(changed.as_deref().unwrap_or(text)) {
            changed = Some(apart);
        }
        let mut bytes = changed.as_deref().unwrap_or(text).as_bytes();
        let mut appended_newline = None;
        if !is_ended {
            let last_line = text.rsplit(['\n', '\r']).next().unwrap_or_default();
            appended_newline = Some(AppendedNewline {
                index: bytes.len() as u64 - 1,
                after_blanks: last_line.trim().is_empty(),
                line: text.matches(BREAKS).count() - text.matches("\r\n").count() + 1,
                column: text.rsplit(BREAKS).next().unwrap_or_default().chars().count() + 1,
            });
        }
        let mut parser = Parser::new();
        parser.set_encoding(Encoding::Utf8);
        parser.set_input_string(&mut bytes);
        let mut loader = Loader {
            parser,
            source,
            options,
            anchors: HashMap::new(),
            warnings: Vec::new(),
            nodes: 0,
            literal_depth: 0,
            appended_newline,
        };
        let documents = loader.documents()?;
        Ok(Loaded { documents, warnings: loader.warnings })
    }

    fn documents(&mut self) -> Result<Vec<Node>, Error> {
        let mut documents = Vec::new();
        loop {
            match self.next()?.data {
                EventData::StreamEnd => return Ok(documents),
                EventData::DocumentStart { .. } => {
                    let event = self.next()?;
                    let (built, _) = self.node(event, 0)?;
                    documents.push(self.as_value(built)?);
                    self.anchors.clear();
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<Event, Error> {
        self.parser.parse().map_err(|error| hint::explain(&error, self.source))
    }

    fn span(&self, mark: Mark) -> Span {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        match &self.appended_newline {
            Some(newline) if mark.index > newline.index => {
                Span::new(Arc::clone(self.source), number(newline.line), number(newline.column))
            }
            _ => {
                let one_more = |index: u64| u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
                Span::new(Arc::clone(self.source), one_more(mark.line), one_more(mark.column))
            }
        }
    }

    /// Reads the node that begins with an event. Also returns its size after expanding aliases.
    fn node(&mut self, event: Event, depth: usize) -> Result<(Built, u64), Error> {
        let span = self.span(event.start_mark);
        if depth > self.options.max_depth {
            let message = format!("The nesting is deeper than the limit of {} levels.", self.options.max_depth);
            return Err(Error::new(ErrorKind::Limit, message, span));
        }
        match event.data {
            EventData::Alias { anchor } => self.alias(&anchor, span),
            EventData::Scalar { anchor, tag, value, plain_implicit, style, .. } => {
                let value = self.without_appended_newline(value, style, event.end_mark);
                let built = self.scalar(tag.as_deref(), &value, plain_implicit, span)?;
                self.finish(anchor, built, 1)
            }
            EventData::SequenceStart { anchor, tag, .. } => {
                self.begin(anchor.as_deref());
                let (node, weight) = self.collection(tag.as_deref(), span, depth, Collection::Sequence)?;
                self.finish(anchor, Built::Node(node), weight)
            }
            EventData::MappingStart { anchor, tag, .. } => {
                self.begin(anchor.as_deref());
                let (node, weight) = self.collection(tag.as_deref(), span, depth, Collection::Mapping)?;
                self.finish(anchor, Built::Node(node), weight)
            }
            _ => Err(Error::new(ErrorKind::Syntax, "A value was expected here.", span)),
        }
    }

    /// Removes the appended newline from a block scalar that ends the text.
    fn without_appended_newline(&self, mut value: String, style: ScalarStyle, end: Mark) -> String {
        let Some(newline) = &self.appended_newline else { return value };
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        if !is_block || end.index <= newline.index {
            return value;
        }
        if let Some(content) = value.strip_suffix('\n') {
            let last_line = content.rsplit('\n').next().unwrap_or_default();
            // A blank last line belongs to the scalar if it is indented further or kept by `+`.
            let blanks_are_content = content.ends_with('\n') || (!last_line.is_empty() && last_line.trim().is_empty());
            if !newline.after_blanks || blanks_are_content {
                value.pop();
            }
        }
        value
    }

    fn begin(&mut self, anchor: Option<&str>) {
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor.to_owned(), None);
        }
    }

    fn finish(&mut self, anchor: Option<String>, built: Built, weight: u64) -> Result<(Built, u64), Error> {
        if let (Some(anchor), Built::Node(node)) = (anchor, &built) {
            self.anchors.insert(anchor, Some(Anchored { node: node.clone(), weight }));
        }
        if let Built::Node(node) = &built {
            self.count(1, &node.span)?;
        }
        Ok((built, weight))
    }

    fn count(&mut self, nodes: u64, span: &Span) -> Result<(), Error> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= self.options.max_nodes {
            return Ok(());
        }
        let message = format!(
            "The text has more than {} values once its aliases are written out, which is the limit.",
            self.options.max_nodes
        );
        Err(Error::new(ErrorKind::Limit, message, span.clone()))
    }

    fn alias(&mut self, anchor: &str, span: Span) -> Result<(Built, u64), Error> {
        let (node, weight) = match self.anchors.get(anchor) {
            Some(Some(anchored)) => (anchored.node.clone(), anchored.weight),
            Some(None) => {
                let message = format!("The alias `*{anchor}` stands inside the very value that `&{anchor}` names.");
                return Err(Error::new(ErrorKind::Meaning, message, span));
            }
            None => {
                let message = format!("The alias `*{anchor}` has no anchor `&{anchor}` before it.");
                let advice = "A value that begins with `*` must be in quotes, unless an alias is meant.";
                return Err(Error::new(ErrorKind::Meaning, message, span).with_hint(Some(advice.to_owned())));
            }
        };
        self.count(weight, &span)?;
        Ok((Built::Node(node), weight))
    }

    #[expect(clippy::disallowed_methods, reason = "the parser reads the project's files")]
    fn text(&self, text: &str) -> Value {
        if self.literal_depth > 0 || !self.options.trusted {
            Value::Literal(Arc::from(text))
        } else {
            Value::String(Text::of_project(text))
        }
    }

    fn scalar(&mut self, tag: Option<&str>, text: &str, plain: bool, span: Span) -> Result<Built, Error> {
        const CORE: &str = "tag:yaml.org,2002:";
        let value = match tag {
            None | Some("!") if plain => return self.plain(text, span),
            None | Some("!") => self.text(text),
            // Ansible resolves a scalar under its own tags as a plain one, quoted or not.
            Some("!unsafe") => {
                self.literal_depth += 1;
                let built = self.plain(text, span);
                self.literal_depth -= 1;
                return built;
            }
            Some("!vault") => Value::Vault(Arc::from(text)),
            Some("!vault-encrypted") => {
                let warning =
                    Warning::DeprecatedTag { tag: "!vault-encrypted", instead: "`!vault`", span: span.clone() };
                self.warnings.push(warning);
                Value::Vault(Arc::from(text))
            }
            Some(tag) => match tag.strip_prefix(CORE) {
                Some("str") => self.text(text),
                Some("null") => Value::Null,
                Some("bool") => {
                    resolve::bool_value(text).map(Value::Bool).ok_or_else(|| invalid("a boolean", text, &span))?
                }
                Some("int") => resolve::int_value(text).ok_or_else(|| invalid("an integer", text, &span))?,
                Some("float") => {
                    resolve::float_value(text).map(Value::Float).ok_or_else(|| invalid("a number", text, &span))?
                }
                Some("timestamp") if resolve::timestamp(text) == Some(true) => Value::Timestamp(Arc::from(text)),
                Some("timestamp") => return Err(invalid("a date", text, &span)),
                Some("binary") => binary(text).ok_or_else(|| invalid("base64", "the text", &span))?,
                _ => return Err(unknown_tag(tag, span)),
            },
        };
        Ok(Built::Node(Node::new(value, span)))
    }

    fn plain(&self, text: &str, span: Span) -> Result<Built, Error> {
        Ok(match resolve::plain(text) {
            Resolved::Value(Value::String(text)) => Built::Node(Node::new(self.text(&text), span)),
            Resolved::Value(value) => Built::Node(Node::new(value, span)),
            Resolved::Merge => Built::Merge(span),
            Resolved::DefaultValue => Built::DefaultValue(span),
            Resolved::Invalid(kind) => return Err(invalid(kind, text, &span)),
        })
    }

    fn as_value(&self, built: Built) -> Result<Node, Error> {
        let (text, span) = match built {
            Built::Node(node) => return Ok(node),
            Built::Merge(span) => ("<<", span),
            Built::DefaultValue(span) => ("=", span),
        };
        let message = format!("`{text}` has a meaning of its own in YAML and cannot stand as a value.");
        Err(Error::new(ErrorKind::Meaning, message, span).with_hint(Some(format!("Put it in quotes: \"{text}\"."))))
    }

    fn collection(
        &mut self,
        tag: Option<&str>,
        span: Span,
        depth: usize,
        written: Collection,
    ) -> Result<(Node, u64), Error> {
        let kind = match tag {
            None | Some("!") => match written {
                Collection::Sequence => "seq",
                Collection::Mapping => "map",
            },
            Some("!unsafe") => {
                self.literal_depth += 1;
                let result = self.collection(None, span, depth, written);
                self.literal_depth -= 1;
                return result;
            }
            Some("!vault" | "!vault-encrypted") => {
                let message = "The tag `!vault` needs the ciphertext as a string.";
                return Err(Error::new(ErrorKind::Meaning, message, span)
                    .with_hint(Some("Write `!vault |` and the lines of ciphertext below it, indented.".to_owned())));
            }
            Some(tag) => match (tag.strip_prefix("tag:yaml.org,2002:"), written) {
                (Some("seq"), Collection::Sequence) => "seq",
                (Some("omap"), Collection::Sequence) => {
                    self.deprecated("!!omap", &span);
                    "pairs"
                }
                (Some("pairs"), Collection::Sequence) => {
                    self.deprecated("!!pairs", &span);
                    "pairs"
                }
                (Some("map" | "python/dict"), Collection::Mapping) => "map",
                (Some("set"), Collection::Mapping) => "set",
                _ => return Err(unknown_tag(tag, span)),
            },
        };
        match kind {
            "seq" => self.sequence(span, depth),
            "pairs" => self.pairs(span, depth),
            "set" => {
                let (mapping, weight) = self.mapping(depth)?;
                Ok((Node::list(mapping.keys().map(Key::as_node).collect(), span), weight))
            }
            _ => {
                let (mapping, weight) = self.mapping(depth)?;
                Ok((Node::map(mapping, span), weight))
            }
        }
    }

    fn deprecated(&mut self, tag: &'static str, span: &Span) {
        self.warnings.push(Warning::DeprecatedTag { tag, instead: "a mapping", span: span.clone() });
    }

    fn sequence(&mut self, span: Span, depth: usize) -> Result<(Node, u64), Error> {
        let mut items = Vec::new();
        let mut total = 1u64;
        loop {
            let event = self.next()?;
            if event.data == EventData::SequenceEnd {
                return Ok((Node::list(items, span), total));
            }
            let (built, weight) = self.node(event, depth + 1)?;
            items.push(self.as_value(built)?);
            total = total.saturating_add(weight);
        }
    }

    /// `!!pairs` and `!!omap`: lists of mappings with one entry each, read as lists of two items.
    fn pairs(&mut self, span: Span, depth: usize) -> Result<(Node, u64), Error> {
        let (list, weight) = self.sequence(span.clone(), depth)?;
        let mut pairs = Vec::new();
        for item in list.as_list().unwrap_or_default() {
            match item.as_map().filter(|mapping| mapping.len() == 1).and_then(|mapping| mapping.iter().next()) {
                Some((key, value)) => {
                    pairs.push(Node::list(vec![key.as_node(), value.clone()], item.span.clone()));
                }
                None => {
                    let message = format!("Every item here must be a mapping of one key, but this is {}.", item.kind());
                    return Err(Error::new(ErrorKind::Meaning, message, item.span.clone()));
                }
            }
        }
        Ok((Node::list(pairs, span), weight))
    }

    fn mapping(&mut self, depth: usize) -> Result<(Mapping, u64), Error> {
        let mut own = Mapping::new();
        let mut merged = Mapping::new();
        let mut total = 1u64;
        loop {
            let event = self.next()?;
            if event.data == EventData::MappingEnd {
                break;
            }
            let (built, key_weight) = self.node(event, depth + 1)?;
            let value_event = self.next()?;
            let (value, value_weight) = self.node(value_event, depth + 1)?;
            total = total.saturating_add(key_weight).saturating_add(value_weight);
            let value = self.as_value(value)?;
            let key = match built {
                Built::Merge(span) => {
                    merge(&mut merged, &value, &span)?;
                    continue;
                }
                Built::DefaultValue(span) => Key { value: self.text("="), span },
                Built::Node(node) => self.key(node)?,
            };
            self.insert(&mut own, key, value)?;
        }
        if merged.is_empty() {
            return Ok((own, total));
        }
        // Merged entries stand first; the mapping's own entries replace them.
        merged.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
        Ok((merged, total))
    }

    fn key(&self, node: Node) -> Result<Key, Error> {
        if matches!(node.value, Value::List(_) | Value::Map(_)) {
            let message = format!("This is {}, and only a scalar can be the key of a mapping.", node.kind());
            let advice = hint::for_collection_key(&node.span);
            return Err(Error::new(ErrorKind::Meaning, message, node.span).with_hint(advice));
        }
        Ok(Key { value: node.value, span: node.span })
    }

    fn insert(&mut self, mapping: &mut Mapping, key: Key, value: Node) -> Result<(), Error> {
        if let Some((former, _)) = mapping.get_key(&key) {
            match self.options.duplicate_keys {
                DuplicateKeys::Ignore => {}
                DuplicateKeys::Warn => self.warnings.push(Warning::DuplicateKey {
                    key: key.to_text(),
                    first: former.span.clone(),
                    second: key.span.clone(),
                }),
                DuplicateKeys::Error => {
                    let message = format!(
                        "found a duplicate dict key ({}): it is at line {} already.",
                        key.to_text(),
                        former.span.line
                    );
                    return Err(Error::new(ErrorKind::DuplicateKey, message, key.span));
                }
            }
        }
        mapping.insert(key, value);
        Ok(())
    }
}

/// Adds the value of `<<` to the merged entries. It is a mapping, or a list of mappings of which the first wins.
fn merge(merged: &mut Mapping, value: &Node, span: &Span) -> Result<(), Error> {
    let entries = |mapping: &Arc<Mapping>| -> Vec<(Key, Node)> {
        mapping.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let refused = |node: &Node| {
        let message = format!("`<<` merges a mapping or a list of mappings, but this is {}.", node.kind());
        Error::new(ErrorKind::Meaning, message, if node.span.is_located() { node.span.clone() } else { span.clone() })
    };
    match &value.value {
        Value::Map(mapping) => merged.extend(entries(mapping)),
        Value::List(items) => {
            for item in items.iter().rev() {
                merged.extend(entries(item.as_map().ok_or_else(|| refused(item))?));
            }
        }
        _ => return Err(refused(value)),
    }
    Ok(())
}

fn invalid(kind: &str, text: &str, span: &Span) -> Error {
    let shown = if span.source.is_secret() { "This".to_owned() } else { format!("`{text}`") };
    let message = format!("{shown} looks like {kind} but is not a valid one.");
    Error::new(ErrorKind::Meaning, message, span.clone())
        .with_hint(Some("If text is meant, put it in quotes.".to_owned()))
}

fn unknown_tag(tag: &str, span: Span) -> Error {
    let shown = match tag.strip_prefix("tag:yaml.org,2002:") {
        Some(name) => format!("!!{name}"),
        None => tag.to_owned(),
    };
    let message = format!("The tag `{shown}` is not known here.");
    let advice = if shown.starts_with('!') && !shown.starts_with("!!") {
        "The tags in use are !vault and !unsafe. If text that begins with `!` is meant, put it in quotes."
    } else {
        "Only the tags of plain data (!!str, !!int, !!bool, !!float, !!binary, !!set ...) can be used."
    };
    Error::new(ErrorKind::Meaning, message, span).with_hint(Some(advice.to_owned()))
}

fn binary(text: &str) -> Option<Value> {
    let clean: String = text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')).collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(clean).ok()?;
    Some(Value::Binary(bytes.into()))
}
