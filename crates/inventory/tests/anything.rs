//! Random inventories, patterns and host lists are read or refused, and nothing panics.

#![allow(clippy::unwrap_used, missing_docs)]

use windlass_inventory::{Inventory, LoadOptions, split_pattern};

const PIECES: [&str; 44] = [
    "[",
    "]",
    "[web]",
    "[web:vars]",
    "[web:children]",
    ":",
    "=",
    "a",
    "b",
    "web",
    "w[1:3]",
    "[a:c]",
    "[01:3]",
    "::1",
    "!",
    "&",
    "~",
    "*",
    "?",
    "#",
    ";",
    "'",
    "\"",
    "\\",
    " ",
    "\t",
    "\n",
    "{",
    "}",
    "(",
    ")",
    "1",
    "-1",
    "0:",
    ",",
    "all",
    "x=1",
    "y='z'",
    "None",
    "True",
    "1.5e3",
    "ü",
    "\u{feff}",
    "---",
];

/// Deterministic random texts made of these pieces.
fn texts(count: usize) -> impl Iterator<Item = String> {
    let mut state = 7u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    (0..count).map(move |_| (0..next(16) + 1).map(|_| PIECES[next(PIECES.len())]).collect())
}

#[test]
fn random_file_loaded_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    for text in texts(200) {
        for name in ["hosts", "hosts.ini", "hosts.yml", "hosts.toml"] {
            std::fs::write(directory.path().join(name), &text).unwrap();
            let (inventory, _) = Inventory::load(&[path(name)], &LoadOptions::default()).unwrap();
            for host in inventory.hosts() {
                assert!(inventory.groups_of(host).iter().any(|group| &**group.name() == "all"), "{text:?}");
            }
        }
    }
}

#[test]
fn random_pattern_matches_or_refused() {
    let (inventory, _) = Inventory::load(&["web1,web2,db1,::1,".to_owned()], &LoadOptions::default()).unwrap();
    for text in texts(2_000) {
        let parts = split_pattern(&text);
        assert!(parts.iter().all(|part| !part.is_empty() && part.trim() == part), "{text:?}: {parts:?}");
        let Ok(matches) = inventory.matching(&text) else { continue };
        let mut hosts = matches.hosts.clone();
        hosts.sort();
        hosts.dedup();
        assert_eq!(hosts.len(), matches.hosts.len(), "{text:?} gives a host twice");
    }
}
