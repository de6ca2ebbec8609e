//! Round trips of random values, and positions that stay within the text.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use windlass_yaml::emit::{DumpOptions, Item, dump};
use windlass_yaml::{Node, Options, Source, Value, load_one, parse};

/// A seeded generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn text(&mut self, pieces: &[&str], most: usize) -> String {
        (0..self.below(most)).map(|_| pieces[self.below(pieces.len())]).collect()
    }
}

const TEXTS: [&str; 40] = [
    "a",
    "b c",
    " ",
    "\n",
    "\t",
    ":",
    ": ",
    "#",
    " #",
    "-",
    "- ",
    "?",
    "|",
    ">",
    "'",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&",
    "*",
    "!",
    "%",
    "@",
    "`",
    "yes",
    "null",
    "~",
    "0",
    "1.5",
    "0644",
    "1:30",
    "2001-01-01",
    "ü",
    "\u{85}",
    "\u{1f600}",
    "{{ x }}",
];

fn item(random: &mut Random, depth: usize) -> Item {
    match random.below(if depth < 4 { 9 } else { 6 }) {
        0 => Item::Null,
        1 => Item::Bool(random.below(2) == 0),
        2 => Item::Int((random.below(2_000_000) as i64 - 1_000_000).to_string()),
        3 => Item::Float(random.below(1_000_000) as f64 / 64.0),
        4 | 5 => Item::Str(random.text(&TEXTS, 12)),
        6 => Item::List((0..random.below(4)).map(|_| item(random, depth + 1)).collect()),
        _ => {
            let mut keys: Vec<String> = (0..random.below(4)).map(|_| random.text(&TEXTS, 5)).collect();
            keys.sort();
            keys.dedup();
            // The merge key is not an ordinary key.
            keys.retain(|key| key != "<<");
            Item::Map(keys.into_iter().map(|key| (Item::Str(key), item(random, depth + 1))).collect())
        }
    }
}

#[test]
fn random_value_round_trips() {
    let mut random = Random(11);
    for round in 0..3_000 {
        let written = item(&mut random, 0);
        let options = DumpOptions {
            indent: 2 + random.below(4) as i32,
            width: [80, 20, -1][random.below(3)],
            default_flow_style: [Some(false), Some(true), None][random.below(3)],
            default_style: [None, None, Some('"'), Some('\'')][random.below(4)],
            allow_unicode: random.below(2) == 0,
            explicit_start: random.below(2) == 0,
            ..DumpOptions::default()
        };
        let text = dump(&written, &options).unwrap();
        let read = load_one(Source::new("written", text.as_str()), &Options { json: false, ..Options::default() });
        let read = read.unwrap_or_else(|error| panic!("{round}: {error}\n{written:?}\n{text}"));
        assert_eq!(Item::from(&read), written, "{round}:\n{text}");
    }
}

#[test]
fn random_text_positions_lie_inside() {
    let more = ["\n  ", "\n- ", "a: ", "\nb:\n  ", "&x ", "*x", "!!str ", "<<: ", "---\n", "...\n", "\r\n", "\u{feff}"];
    let pieces: Vec<&str> = TEXTS.iter().chain(&more).copied().collect();
    let mut random = Random(12);
    let mut read = 0;
    for _ in 0..20_000 {
        let text = random.text(&pieces, 16);
        for json in [true, false] {
            match parse(Source::new("any", text.as_str()), &Options { json, ..Options::default() }) {
                Ok(loaded) => {
                    read += 1;
                    loaded.documents.iter().for_each(|document| inside(document, &text));
                }
                Err(error) => assert!(!error.to_string().is_empty(), "{text:?}"),
            }
        }
    }
    assert!(read > 5_000, "only {read} texts were YAML at all");
}

/// Counts lines as YAML 1.1 does.
fn lines(text: &str) -> usize {
    let text = text.replace("\r\n", "\n");
    text.matches(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() + 1
}

fn inside(node: &Node, text: &str) {
    let (line, last) = (node.span.line as usize, lines(text));
    assert!((1..=last).contains(&line), "line {line} of {last}: {text:?}");
    assert!((1..=text.chars().count() + 1).contains(&(node.span.column as usize)), "{text:?}");
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| inside(item, text)),
        Value::Map(mapping) => mapping.values().for_each(|item| inside(item, text)),
        _ => {}
    }
}
