use super::*;

fn load(text: &str) -> Node {
    load_one(Source::new("test.yml", text), &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> Error {
    parse(Source::new("test.yml", text), &Options::default()).expect_err(text)
}

#[test]
fn nodes_know_where_they_stand() {
    let node = load("- name: x\n  when: yes\n");
    let task = &node.as_list().unwrap()[0];
    let (key, value) = task.as_map().unwrap().get_entry("when").unwrap();
    assert_eq!(key.span.to_string(), "test.yml:2:3");
    assert_eq!(value.span.to_string(), "test.yml:2:9");
    assert_eq!(value.as_bool(), Some(true));
}
