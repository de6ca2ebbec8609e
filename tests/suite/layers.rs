//! Order of the folders of `src/`: each uses only those before it in the list of ARCHITECTURE.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;

use crate::sources::rust_files;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Roots of the crate. They name every folder.
const ROOTS: &[&str] = &["lib", "main"];

/// Names of the folders and single files of `src/`, the lowest first.
fn order() -> Vec<String> {
    let text = fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let list = text.split("\n### Layers of the controller\n").nth(1).and_then(|rest| rest.split("```").nth(1));
    let words = list.expect("ARCHITECTURE.md lists the folders of src/").split_whitespace();
    words.skip(1).map(str::to_owned).collect()
}

/// Name of the folder or file of `src/` that a source belongs to.
fn room(file: &Path) -> String {
    let inside = file.strip_prefix(Path::new(ROOT).join("src")).unwrap();
    let first = inside.iter().next().unwrap().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

#[test]
fn import_from_higher_folder_absent() {
    let order = order();
    let rank = |name: &str| order.iter().position(|known| known == name);
    let path = Regex::new(r"\bcrate::(\w+|\{)").unwrap();
    let (mut rooms, mut wrong) = (BTreeSet::new(), Vec::new());
    for file in rust_files(&["src"]) {
        let own = room(&file);
        if ROOTS.contains(&own.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for found in path.captures_iter(line).filter(|found| found[1] != own) {
                if rank(&found[1]).is_none_or(|other| Some(other) > rank(&own)) {
                    let place = file.strip_prefix(ROOT).unwrap().display();
                    wrong.push(format!("{place}:{}: {}", number + 1, line.trim()));
                }
            }
        }
        rooms.insert(own);
    }
    assert_eq!(order.iter().cloned().collect::<BTreeSet<_>>(), rooms, "ARCHITECTURE.md lists each folder of src/");
    assert!(
        wrong.is_empty(),
        "a folder uses one above it; move the type down, into the folder that owns it:\n{}",
        wrong.join("\n")
    );
}
