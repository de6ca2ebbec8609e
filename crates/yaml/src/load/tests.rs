//! Tests of loading: positions, merge keys, tags, limits, and hints for common mistakes.

use super::*;
use crate::Value;

fn load(text: &str) -> Node {
    load_one(Source::new("test.yml", text), &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> Error {
    parse(Source::new("test.yml", text), &Options::default()).expect_err(text)
}

fn text_of<'n>(node: &'n Node, key: &str) -> &'n str {
    node.get(key).and_then(Node::as_str).unwrap_or_else(|| panic!("{key} of {node:?}"))
}

#[test]
fn nodes_keep_their_positions() {
    let node = load("- name: x\n  when: yes\n");
    let task = &node.as_list().unwrap()[0];
    let (key, value) = task.as_map().unwrap().get_entry("when").unwrap();
    assert_eq!(key.span.to_string(), "test.yml:2:3");
    assert_eq!(value.span.to_string(), "test.yml:2:9");
    assert_eq!(value.as_bool(), Some(true));
}

#[test]
fn an_empty_text_is_null_and_two_documents_are_too_many() {
    assert!(load("").is_null());
    assert!(load("# nothing\n").is_null());
    let error = load_one(Source::new("test.yml", "a: 1\n---\nb: 2\n"), &Options::default()).unwrap_err();
    assert!(error.to_string().starts_with("test.yml:3:1: A second document"), "{error}");
}

#[test]
fn own_keys_override_merged_ones() {
    let node = load(
        "base: &base {a: 1, b: 1}\nother: &other {b: 2, c: 2}\nboth:\n  b: 3\n  <<: [*other, *base]\nplain:\n  <<: *base\n  b: 4\n",
    );
    let shown = |key| node.get(key).unwrap().to_json().to_string();
    assert_eq!(shown("both"), r#"{"a":1,"b":3,"c":2}"#);
    assert_eq!(shown("plain"), r#"{"a":1,"b":4}"#);
    assert!(error("a:\n  <<: 5\n").message().contains("an integer"));
    assert_eq!(load("\"<<\": 1").get("<<").and_then(Node::as_int), Some(1));
}

#[test]
fn unsafe_text_is_never_a_template_at_any_depth() {
    let node = load("a: !unsafe '{{ x }}'\nb: !unsafe\n  - deep: ['{{ y }}']\nc: '{{ z }}'\n");
    assert!(matches!(node.get("a").unwrap().value, Value::Literal(_)));
    let deep = node.get("b").unwrap().as_list().unwrap()[0].get("deep").unwrap();
    assert!(matches!(deep.as_list().unwrap()[0].value, Value::Literal(_)));
    assert!(matches!(node.get("c").unwrap().value, Value::String(_)));
    let data = load_one(Source::new("d", "a: b"), &Options { trusted: false, ..Options::default() }).unwrap();
    assert!(matches!(data.get("a").unwrap().value, Value::Literal(_)));
}

#[test]
fn vault_strings_keep_their_ciphertext() {
    let node = load("a: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\nb:\n  - !vault x\n");
    assert_eq!(node.get("a").unwrap().value, Value::Vault("$ANSIBLE_VAULT;1.1;AES256\n6162\n".into()));
    assert_eq!(node.get("b").unwrap().as_list().unwrap()[0].kind(), "a vault-encrypted string");
    assert!(error("a: !vault [x]").message().contains("ciphertext"));
}

#[test]
fn duplicate_key_reported_with_both_positions() {
    let text = "a: 1\nb: 2\na: 3\n";
    let loaded = parse(Source::new("test.yml", text), &Options::default()).unwrap();
    assert_eq!(loaded.documents[0].get("a").and_then(Node::as_int), Some(3));
    assert_eq!(
        loaded.warnings[0].to_string(),
        "test.yml:3:1: found a duplicate dict key (a): it is at line 1 already; the value here is used."
    );
    let strict = Options { duplicate_keys: DuplicateKeys::Error, ..Options::default() };
    assert_eq!(parse(Source::new("t", text), &strict).unwrap_err().kind(), ErrorKind::DuplicateKey);
}

#[test]
fn a_missing_newline_at_the_end_changes_no_value() {
    for (text, value) in [
        ("a: |\n  x", "x"),
        ("a: |\n  x\n", "x\n"),
        ("a: |+\n  x", "x"),
        ("a: |+\n  x\n\n", "x\n\n"),
        ("a: >\n  x\n  y", "x y"),
        ("a: |\n  x\n   ", "x\n "),
        ("a: |\n  x\n  ", "x\n"),
        ("a: |-\n  x", "x"),
        ("a: 'x'", "x"),
        ("a: |\n  x\n# c", "x\n"),
    ] {
        assert_eq!(text_of(&load(text), "a"), value, "{text:?}");
    }
}

#[test]
fn any_first_character_accepted() {
    assert_eq!(text_of(&load("\u{feff}a: b\n"), "a"), "b");
    assert_eq!(text_of(&load("\u{ff0c}: b\n"), "\u{ff0c}"), "b");
}

#[test]
fn tags_of_plain_data_convert() {
    let node = load("s: !!str 1\ni: !!int '0x10'\nf: !!float 1\nb: !!binary aGk=\nset: !!set {x, y}\n");
    assert_eq!(text_of(&node, "s"), "1");
    assert_eq!(node.get("i").and_then(Node::as_int), Some(16));
    assert_eq!(node.get("f").unwrap().value, Value::Float(1.0));
    assert_eq!(node.get("b").unwrap().value, Value::Binary(b"hi".as_slice().into()));
    assert_eq!(node.get("set").unwrap().to_json().to_string(), r#"["x","y"]"#);
    assert!(error("a: !nope 1").message().contains("`!nope`"));
    assert!(error("a: !!python/object:os.system {}").to_string().contains("not known"));
}

#[test]
fn hostile_text_refused_by_limits() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    assert_eq!(error(&bomb).kind(), ErrorKind::Limit);
    assert_eq!(error(&("[".repeat(5000) + &"]".repeat(5000))).kind(), ErrorKind::Limit);
    assert!(error("a: &x [*x]").message().contains("stands inside"));
    assert!(error("a: *x").to_string().contains("no anchor"));
    let small = Options { max_bytes: 3, ..Options::default() };
    assert_eq!(parse(Source::new("t", "a: b"), &small).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn common_mistake_reported_with_hint() {
    for (text, place, advice) in [
        ("a: {{ b }}\n", "test.yml:1:5", "must be in quotes: a: \"{{ b }}\""),
        ("- {{ b }}/x\n", "test.yml:1:", "must be in quotes: - \"{{ b }}/x\""),
        ("a:\n\t- b\n", "test.yml:2:1", "There is a tab"),
        ("a: \"foo\" in bar\n", "test.yml:1:10", "'\"foo\" in bar'"),
        ("msg: a: b\n", "test.yml:1:7", "must be in quotes: 'a: b'"),
        ("- name:foo\n  when: x\n", "test.yml:2:7", "In line 1: A space is missing after the colon: name: foo"),
        ("a: 1\n b: 2\n", "test.yml:2:3", ""),
        ("a: 'x\nb: c\n", "test.yml:1:4", "never closed"),
        ("a: @x\n", "test.yml:1:4", "cannot begin with `@`"),
        ("a:\n  - b\n c: d\n", "test.yml:3:2", "indentation"),
        ("a: b\nc d\n", "test.yml:2:1: This line is neither", "colon"),
        ("a: \"x\\d\"\n", "test.yml:1:6", "single quotes"),
        ("a: [1, 2\nb: 3\n", "test.yml:2:2", "never closed"),
        ("a: {b: {{ c }} }\n", "test.yml:1:9", "must be in quotes"),
        ("a: 'it's'\n", "test.yml:1:8", "doubled"),
    ] {
        let shown = error(text).to_string();
        assert!(shown.starts_with(place) && shown.contains(advice), "{text:?}:\n{shown}");
    }
}

#[test]
fn control_characters_are_named() {
    let shown = error("a: 1\nb: x\u{7}y\n").to_string();
    assert!(shown.starts_with("test.yml:2:5: The control character U+0007"), "{shown}");
}

#[test]
fn comma_after_tag_does_not_panic() {
    let list = |text: &str| match load(text).value {
        Value::List(items) => items.iter().map(|item| format!("{:?}", item.value)).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    };
    assert_eq!(list("[!!str, a]"), list("['', a]"));
    assert_eq!(list("[!<tag:yaml.org,2002:str>, a]"), list("['', a]"));
    assert_eq!(list("[a, !!str,\n!!str,b]"), list("[a, '', '', b]"));
    assert_eq!(list("['hi!,x', \"a!!b,c\", d!e,f, 'a!<b,!c>']"), list("['hi!,x', \"a!!b,c\", 'd!e', f, 'a!<b,!c>']"));
    assert_eq!(list("- no!, no\n- !!str x!,y\n# !!str,\n"), list("['no!, no', 'x!,y']"));
    assert_eq!(list("- b !:, x\n- b !::,,!:, x"), list("['b !:, x', 'b !::,,!:, x']"));
    let both = load("- [!!str, a]\n- b !:, x\n- {'!':, b: !!str, c}").to_json();
    assert_eq!(both, load("[['', a], 'b !:, x', {'!': , b: '', c: }]").to_json());
    for text in [
        "[!,",
        "[!a:, x]",
        "[!:,",
        "[!!str,",
        "[x!<a,!t,b>]",
        "[\"a\"!<b,!c>,]",
        "{!a!,: 1}",
        "[!<a,b>,",
        "[!é,",
        "\"\\",
        ">\r :",
        "[!!str,\u{2028}!!,",
    ] {
        // A release executor aborts on panic, so `catch_unwind` does not help there.
        let source = Source::new("test", text);
        let read = crate::survive(|| compose::compose(&source, &Options::default()).is_ok());
        assert!(read.is_some(), "{text:?}");
    }
}

#[test]
fn multibyte_characters_keep_block_newline() {
    let node = load("k: |\n  éééééééééé\nb: 1");
    assert_eq!(text_of(&node, "k"), "éééééééééé\n");
    let node = load("éééé: {a: b, c: d}");
    let Value::Map(map) = &node.value else { panic!("{node:?}") };
    let inner = map.values().next().unwrap();
    assert_eq!((inner.span.line, inner.span.column), (1, 7));
}
