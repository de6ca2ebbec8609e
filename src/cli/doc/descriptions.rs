//! Descriptions of a role's variables for options without one: rows of the table in its `README.md`, and comments above
//! the variables in its `defaults`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Adds descriptions to the options of an entry point that have none.
pub(super) fn complete(role: &Path, options: &mut Map<String, Value>) {
    let is_open = |option: &Value| option.get("description").is_none();
    if !options.values().any(is_open) {
        return;
    }
    let mut known = HashMap::new();
    for file in defaults(role) {
        of_comments(&windlass_bounds::read_text(file).unwrap_or_default(), &mut known);
    }
    of_tables(&windlass_bounds::read_text(role.join("README.md")).unwrap_or_default(), &mut known);
    for (name, option) in options.iter_mut().filter(|(_, option)| is_open(option)) {
        if let (Some(text), Some(option)) = (known.remove(name.as_str()), option.as_object_mut()) {
            option.insert("description".to_owned(), text.into());
        }
    }
}

/// Files with a role's defaults.
fn defaults(role: &Path) -> Vec<PathBuf> {
    let folder = role.join("defaults");
    let within = std::fs::read_dir(folder.join("main")).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = within.collect();
    files.sort();
    files.insert(0, folder.join("main.yml"));
    files
}

/// Reads the comment above each group of variables.
fn of_comments(yaml: &str, known: &mut HashMap<String, String>) {
    let (mut comment, mut is_open) = (String::new(), false);
    for line in yaml.lines() {
        if let Some(text) = line.strip_prefix('#') {
            if !is_open {
                comment.clear();
            }
            is_open = true;
            comment.push_str(text);
            continue;
        }
        is_open = false;
        // Values may have several lines.
        if line.starts_with(' ') || line.starts_with('-') && line != "---" {
            continue;
        }
        match line.split_once(':') {
            Some((name, _)) if is_name(name) && !comment.is_empty() => {
                known.insert(name.to_owned(), comment.trim().to_owned());
            }
            _ => comment.clear(),
        }
    }
}

/// Reads rows of tables whose cells are names of variables, defaults and meanings. A row about several variables says
/// less about each than a comment.
fn of_tables(markdown: &str, known: &mut HashMap<String, String>) {
    for line in markdown.lines().filter(|line| line.starts_with("| `")) {
        let line = line.replace(r"\|", "\0");
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [names, default, meaning] = cells.as_slice() else { continue };
        let names: Vec<&str> = names.split('`').skip(1).step_by(2).filter(|name| is_name(name)).collect();
        let end = if meaning.ends_with('.') { "" } else { "." };
        let text = plain(&format!("{meaning}{end} Default: {default}.")).replace('\0', "|");
        match names[..] {
            [name] => _ = known.insert(name.to_owned(), text),
            _ => names.into_iter().for_each(|name| _ = known.entry(name.to_owned()).or_insert_with(|| text.clone())),
        }
    }
}

/// Text of Markdown without the targets of its links.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((start, label)) = before.rsplit_once('[') else { break };
        let Some((_, end)) = after.split_once(')') else { break };
        text.push_str(start);
        text.push_str(label);
        rest = end;
    }
    text + rest
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_described_by_comments_and_tables() {
        let mut known = HashMap::new();
        of_comments("---\n# Of the file.\n\n# Ports, such\n# as 80.\na: 1\nb:\n  - 2\nc: 3\n\nd: 4\n", &mut known);
        assert_eq!(known.remove("a").as_deref(), Some("Ports, such as 80."));
        assert_eq!(known.remove("c").as_deref(), Some("Ports, such as 80."));
        assert_eq!(known.get("d"), None);
        known.insert("e".to_owned(), "Of a comment.".to_owned());
        let head = "| Variable | Default | Meaning |\n|---|---|---|\n";
        of_tables(&format!("{head}| `d`, `e` | `1`, `2` | Of [this](x.md) `a\\|b` |\n"), &mut known);
        assert_eq!(known.remove("d").as_deref(), Some("Of this `a|b`. Default: `1`, `2`."));
        assert_eq!(known.get("e").map(String::as_str), Some("Of a comment."));
        of_tables(&format!("{head}| `e` | `2` | Days. |\n"), &mut known);
        assert_eq!(known.remove("e").as_deref(), Some("Days. Default: `2`."));
    }
}
