//! Compares output with that of `ansible-inventory` for the same inventories; `record.sh` records the fixtures.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use windlass_inventory::export::{self, Profile, Variables};
use windlass_inventory::{Inventory, LoadOptions};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn check(name: &str, sources: &[&str], playbook: bool, limit: Option<&str>) {
    let path = |source: &&str| match source.contains(',') {
        true => (*source).to_owned(),
        false => fixtures().join(source).display().to_string(),
    };
    let sources: Vec<String> = sources.iter().map(path).collect();
    let playbook_dir = playbook.then(|| fixtures().join("playbook"));
    let (mut inventory, warnings) =
        Inventory::load(&sources, &LoadOptions { playbook_dir, ..LoadOptions::default() }).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    inventory.set_limit(limit).unwrap();
    let expected = |extension: &str| std::fs::read_to_string(fixtures().join(format!("{name}.{extension}"))).unwrap();
    let json = |variables| export::to_json(&export::list(&inventory, variables, Profile::Legacy).unwrap()) + "\n";
    assert_eq!(json(Variables::Merged), expected("list.json"));
    assert_eq!(json(Variables::Own), expected("export.json"));
    let nested = export::nested_list(&inventory, Variables::Merged).unwrap();
    assert_eq!(export::to_yaml(&nested).unwrap(), expected("list.yml"));
    let graph = export::graph(&inventory, "all", Some(Variables::Merged)).unwrap();
    assert_eq!(graph + "\n", expected("graph.txt"));
}

#[test]
fn ini_with_variable_files_matches_ansible() {
    check("ini", &["ini/hosts"], false, None);
}

#[test]
fn yaml_with_nested_groups_matches_ansible() {
    check("yaml", &["yaml/hosts.yml"], false, None);
}

#[test]
fn directory_with_playbook_matches_ansible() {
    check("directory", &["directory"], true, None);
}

#[test]
fn several_sources_match_ansible() {
    check("several", &["directory/01-hosts", "directory/03.ini", "h7,h1,", "yaml/hosts.yml"], true, None);
}

#[test]
fn limit_matches_ansible() {
    check("limited", &["yaml/hosts.yml"], false, Some("web:!w2"));
}
