//! YAML and JSON: a text is accepted or refused, positions lie inside it, and written values round-trip.

use windlass_yaml::emit::{DumpOptions, Item, dump};
use windlass_yaml::{DuplicateKeys, Node, Options, Source, Value, load_one, parse};

/// Feeds one input.
pub fn check(text: &str) {
    let options = Options { duplicate_keys: DuplicateKeys::Ignore, ..Options::default() };
    let source = Source::new("fuzz", text);
    match parse(source, &options) {
        Ok(loaded) => {
            for document in &loaded.documents {
                inside(document, text);
                written_is_read(document, &options);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn inside(node: &Node, text: &str) {
    // YAML 1.1 has more line breaks than the newline.
    let line =
        text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).nth((node.span.line as usize).saturating_sub(1));
    assert!(line.is_some(), "line {} of {text:?}", node.span.line);
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| inside(item, text)),
        Value::Map(mapping) => mapping.values().for_each(|item| inside(item, text)),
        _ => {}
    }
}

fn written_is_read(document: &Node, options: &Options) {
    let item = Item::from(document);
    let Ok(written) = dump(&item, &DumpOptions { sort_keys: false, ..DumpOptions::default() }) else { return };
    match load_one(Source::new("written", written.as_str()), options) {
        Ok(read) => assert_eq!(format!("{item:?}"), format!("{:?}", Item::from(&read)), "{written}"),
        Err(error) => panic!("{error}\n{written}"),
    }
}
