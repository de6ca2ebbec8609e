//! Checks the Markdown of the repository: links, anchors, paths, and the commands, targets and playbooks it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

static INLINE_CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`([^`]+)`").unwrap());
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[([^\]]*)\]\(([^)\s]+)\)").unwrap());
static SEPARATOR: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[;|]|&&|<\(|\$\(|\s>\s").unwrap());
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| Regex::new("[A-Z]{2}").unwrap());

/// A page, with the parts that are checked.
#[derive(Default)]
struct Page {
    /// Path below the root of the repository.
    path: PathBuf,
    /// Lines outside of code blocks, with their numbers.
    prose: Vec<(usize, String)>,
    /// Lines of code blocks, with continued lines joined.
    code: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(path: &Path) -> Page {
        let text = fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
        let mut page = Page { path: path.to_owned(), ..Page::default() };
        let mut headings: BTreeMap<String, usize> = BTreeMap::new();
        let (mut is_fenced, mut is_indented, mut was_blank) = (false, false, true);
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
                was_blank = false;
                continue;
            }
            is_indented = line.starts_with("    ") && (is_indented || was_blank);
            was_blank = line.trim().is_empty();
            if is_fenced || is_indented {
                page.add_code(number, line);
                continue;
            }
            if let Some(heading) = line.strip_prefix('#') {
                let slug = slug(heading.trim_start_matches('#'));
                let count = headings.entry(slug.clone()).or_default();
                page.anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
                *count += 1;
            }
            page.prose.push((number, line.to_owned()));
        }
        page
    }

    fn add_code(&mut self, number: usize, line: &str) {
        match self
            .code
            .last_mut()
            .and_then(|(_, last)| last.strip_suffix('\\').map(ToOwned::to_owned).map(|kept| (last, kept)))
        {
            Some((last, kept)) => *last = format!("{kept} {}", line.trim()),
            None => self.code.push((number, line.trim().to_owned())),
        }
    }

    /// Code blocks, and code within prose.
    fn all_code(&self) -> Vec<(usize, String)> {
        let of_prose = self.prose.iter().flat_map(|(number, line)| {
            INLINE_CODE.captures_iter(line).map(|found| (*number, found[1].to_owned())).collect::<Vec<_>>()
        });
        self.code.iter().cloned().chain(of_prose).collect()
    }

    fn problem(&self, number: usize, text: &str) -> String {
        format!("{}:{number}: {text}", self.path.display())
    }
}

/// The anchor of a heading, as GitHub and mdBook build it.
fn slug(heading: &str) -> String {
    let text = LINK.replace_all(heading.trim(), "$1").to_lowercase();
    text.chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// Files of the repository with this ending, without generated and hidden folders and test data.
fn files(ending: &str) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::new()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(Path::new(ROOT).join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = folder.join(&name);
            let kind = entry.file_type().unwrap();
            let is_skipped =
                (name.starts_with('.') && name != ".github") || ["target", "fixtures", "corpus"].contains(&&*name);
            if kind.is_dir() && !is_skipped {
                folders.push(path);
            } else if kind.is_file() && name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn pages() -> Vec<Page> {
    files(".md").iter().map(|path| Page::read(path)).collect()
}

/// The path without `.` and `..`.
fn clean(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut clean, part| {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            part => clean.push(part),
        }
        clean
    })
}

/// Targets of links within the repository: the path below its root, and the anchor.
fn links(page: &Page) -> Vec<(usize, PathBuf, Option<String>)> {
    let mut found = Vec::new();
    for (number, line) in &page.prose {
        // Links may have code as their text, so only the marks of code are removed there.
        let text = INLINE_CODE.replace_all(line, "code");
        for target in LINK.captures_iter(&text).map(|found| found[2].to_owned()) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor.to_owned())),
                None => (target.as_str(), None),
            };
            let path = match path.is_empty() {
                true => page.path.clone(),
                false => clean(&page.path.parent().unwrap().join(path)),
            };
            found.push((*number, path, anchor));
        }
    }
    found
}

fn check(problems: &[String], title: &str) {
    assert!(problems.is_empty(), "{title}:\n{}", problems.join("\n"));
}

#[test]
fn relative_link_resolves_with_its_anchor() {
    let pages = pages();
    let anchors: BTreeMap<&Path, &BTreeSet<String>> =
        pages.iter().map(|page| (page.path.as_path(), &page.anchors)).collect();
    let mut problems = Vec::new();
    for page in &pages {
        for (number, path, anchor) in links(page) {
            if !Path::new(ROOT).join(&path).exists() {
                problems.push(page.problem(number, &format!("`{}` does not exist", path.display())));
            }
            if let (Some(anchor), Some(known)) = (anchor, anchors.get(path.as_path()))
                && !known.contains(&anchor)
            {
                problems.push(page.problem(number, &format!("`{}` has no heading `#{anchor}`", path.display())));
            }
        }
    }
    check(&problems, "links that lead nowhere");
}

#[test]
fn summary_lists_every_page_of_docs() {
    let summary = Page::read(Path::new("docs/SUMMARY.md"));
    let listed: BTreeSet<PathBuf> = links(&summary).into_iter().map(|(_, path, _)| path).collect();
    let missing: Vec<_> = files(".md")
        .into_iter()
        .filter(|path| path.starts_with("docs") && *path != summary.path && !listed.contains(path))
        .map(|path| path.display().to_string())
        .collect();
    check(&missing, "pages that docs/SUMMARY.md does not list");
}

#[test]
fn command_in_code_has_known_verbs_and_options() {
    let mut windlass = windlass::cli::command();
    windlass.build();
    let mut problems = Vec::new();
    for page in pages() {
        for (number, line) in page.all_code() {
            for words in commands(&line, "windlass") {
                problems.extend(unknown_word(&windlass, &words).map(|text| page.problem(number, &text)));
            }
        }
    }
    check(&problems, "commands that `windlass` does not have");
}

/// The words behind a program's name, for each command of a line that starts with it.
fn commands(line: &str, program: &str) -> Vec<Vec<String>> {
    let line = line.split(" #").next().unwrap_or_default();
    SEPARATOR
        .split(line)
        .filter_map(|command| {
            let command = command.trim().trim_start_matches("$ ").trim_start_matches("sudo ").trim_end_matches(')');
            let rest = command.strip_prefix(program)?.strip_prefix(' ')?;
            shell_words::split(rest).ok()
        })
        .collect()
}

/// The first verb or option that the command line does not have.
fn unknown_word(windlass: &clap::Command, words: &[String]) -> Option<String> {
    let mut command = windlass;
    let mut words = words.iter().peekable();
    while let Some(word) = words.next_if(|word| !word.starts_with('-')) {
        if !command.has_subcommands() {
            break;
        }
        // A page may write `windlass VERB`.
        if word.chars().all(char::is_uppercase) {
            return None;
        }
        match command.find_subcommand(word) {
            Some(found) => command = found,
            // `explain` takes FILE:LINE in place of a verb.
            None if word.contains(':') && command.get_positionals().next().is_some() => return None,
            None => return Some(format!("`{word}` is no verb of `{}`", command.get_name())),
        }
    }
    // Words after `--` are for another program or verb, and `fleet` runs the command that follows its options.
    let words: Vec<&String> = words.take_while(|word| *word != "--").collect();
    let is_verb = |word: &&String| command.get_name() == "fleet" && windlass.find_subcommand(word).is_some();
    let (own, run) = words.split_at(words.iter().position(is_verb).unwrap_or(words.len()));
    if !run.is_empty()
        && let Some(problem) = unknown_word(windlass, &run.iter().map(|word| (*word).clone()).collect::<Vec<_>>())
    {
        return Some(problem);
    }
    own.iter()
        .find(|word| word.starts_with('-') && word.len() > 1 && !has_option(command, word))
        .map(|word| format!("`{}` has no option `{word}`", command.get_name()))
}

fn has_option(command: &clap::Command, word: &str) -> bool {
    let mut arguments = command.get_arguments();
    if let Some(long) = word.strip_prefix("--") {
        let long = long.split('=').next().unwrap_or_default();
        return arguments.any(|argument| {
            !argument.is_hide_set()
                && (argument.get_long() == Some(long)
                    || argument.get_visible_aliases().unwrap_or_default().contains(&long))
        });
    }
    let short = word.chars().nth(1);
    arguments.any(|argument| {
        argument.get_short() == short
            || argument.get_all_short_aliases().unwrap_or_default().iter().any(|alias| Some(*alias) == short)
    })
}

#[test]
fn make_target_named_exists() {
    let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
    let target = Regex::new(r"(?m)^([a-z][a-z-]*):").unwrap();
    let targets: BTreeSet<&str> = target.captures_iter(&makefile).map(|found| found.get(1).unwrap().as_str()).collect();
    let mut problems = Vec::new();
    let mut check_line = |line: &str, place: &dyn Fn(&str) -> String| {
        for words in commands(line, "make") {
            for word in words.iter().filter(|word| !word.starts_with('-') && !word.contains('=')) {
                if !targets.contains(word.as_str()) && !word.chars().all(char::is_uppercase) {
                    problems.push(place(&format!("`make {word}` does not exist")));
                }
            }
        }
    };
    for page in pages() {
        for (number, line) in page.all_code() {
            check_line(&line, &|text| page.problem(number, text));
        }
    }
    for path in files(".yml").into_iter().filter(|path| path.starts_with(".github")) {
        let text = fs::read_to_string(Path::new(ROOT).join(&path)).unwrap();
        for line in text.lines().filter_map(|line| line.split_once("run: ")).map(|(_, line)| line) {
            let line = line.replace("sudo --preserve-env ", "");
            check_line(&line, &|text| format!("{}: {text}", path.display()));
        }
    }
    check(&problems, "targets that the Makefile does not have");
}

#[test]
fn playbook_named_exists() {
    let name = Regex::new(r"(?:^|[^/\w])(playbooks/[a-z_]+\.yml)").unwrap();
    let mut problems = Vec::new();
    for page in pages() {
        for (number, line) in page.prose.iter().chain(&page.code) {
            for found in name.captures_iter(line) {
                if !Path::new(ROOT).join(&found[1]).exists() {
                    problems.push(page.problem(*number, &format!("`{}` does not exist", &found[1])));
                }
            }
        }
    }
    check(&problems, "playbooks that do not exist");
}

#[test]
fn path_named_in_prose_exists() {
    let name =
        Regex::new(r"^(?:benches|crates|docs|fuzz|inventory|lab|modules|roles|src|tests|tools)/[\w./-]*$").unwrap();
    let mut problems = Vec::new();
    for page in pages() {
        let code = page.all_code();
        // Commands in code blocks name files of users.
        for (number, text) in code.iter().skip(page.code.len()) {
            let is_made_by_runs = text.starts_with("inventory/mycluster") || text.starts_with("fuzz/corpus");
            if name.is_match(text) && !PLACEHOLDER.is_match(text) && !is_made_by_runs && !exists_from(&page, text) {
                problems.push(page.problem(*number, &format!("`{text}` does not exist")));
            }
        }
    }
    check(&problems, "paths that do not exist");
}

/// Whether the path exists below the root or beside the page.
fn exists_from(page: &Page, text: &str) -> bool {
    let root = Path::new(ROOT);
    root.join(text).exists() || root.join(page.path.parent().unwrap()).join(text).exists()
}

/// Tests in the last column of these pages' tables are functions, or names of attacks in `tests/hostile`, alone or
/// behind their file (`FILE::NAME`). `...` and `*` stand for the rest of a name. A row needs a test or a step.
#[test]
fn test_named_in_table_exists() {
    let test = Regex::new(r"^(?:([\w/]+\.rs)::)?([a-z0-9_]+)(\.\.\.|\*)?$").unwrap();
    let sources: Vec<(PathBuf, String)> = files(".rs")
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(Path::new(ROOT).join(path)).unwrap()))
        .collect();
    let mut problems = Vec::new();
    for page in ["SECURITY.md", "docs/reference/failures.md"].map(|path| Page::read(Path::new(path))) {
        for (number, line) in &page.prose {
            let Some(shown_by) = line.strip_prefix('|').and_then(|row| row.trim_end_matches('|').rsplit('|').next())
            else {
                continue;
            };
            if shown_by.trim() == "-" {
                problems.push(page.problem(*number, "no test shows the row"));
            }
            for found in INLINE_CODE.captures_iter(shown_by) {
                let Some(named) = test.captures(&found[1]) else { continue };
                let end = if named.get(3).is_none() { "\\b" } else { "" };
                let declared = Regex::new(&format!(r#"(?:fn |"){}{end}"#, &named[2])).unwrap();
                let file = named.get(1).map(|file| Path::new(file.as_str()));
                let mut searched = sources.iter().filter(|(path, _)| file.is_none_or(|file| file == path));
                if !searched.any(|(_, text)| declared.is_match(text)) {
                    problems.push(page.problem(*number, &format!("there is no test `{}`", &found[1])));
                }
            }
        }
    }
    check(&problems, "tests that do not exist");
}

/// Names of all plugins of a type, by collection.
fn listed(kind: &str) -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass")).args(["doc", "--type", kind, "--list"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in String::from_utf8(output.stdout).unwrap().lines().filter_map(|line| line.split(' ').next()) {
        if let Some((collection, name)) = name.rsplit_once('.') {
            found.entry(collection.to_owned()).or_default().insert(name.to_owned());
        }
    }
    found
}

/// Rows of a page's table that have a collection as their first cell, with the other cells.
fn rows_of_collections(path: &str) -> Vec<(String, Vec<String>)> {
    let page = Page::read(Path::new(path));
    let rows = page.prose.iter().filter_map(|(_, line)| line.strip_prefix("| ")?.strip_suffix('|'));
    rows.filter_map(|row| {
        let mut cells = row.split('|').map(|cell| cell.trim().to_owned());
        let collection = cells.next()?.split(' ').next()?.to_owned();
        collection.contains('.').then(|| (collection, cells.collect()))
    })
    .collect()
}

#[test]
fn compatibility_counts_the_filters_tests_and_lookups() {
    let rows = rows_of_collections("docs/compatibility/templates.md");
    for (column, kind) in ["filter", "test", "lookup"].into_iter().enumerate() {
        let known = listed(kind);
        for (collection, names) in &known {
            let cells = rows.iter().find(|(row, _)| row == collection).map(|(_, cells)| cells);
            let cell = cells.map(|cells| cells[column].as_str()).unwrap_or_default();
            let counted = cell.split([' ', ',', ':']).find_map(|word| word.parse().ok());
            assert_eq!(counted, Some(names.len()), "{kind}s of {collection}: the page says {cell:?}");
        }
    }
}

#[test]
fn compatibility_names_the_modules_of_every_collection() {
    let mut known = listed("module");
    known.remove("ansible.builtin");
    let shown: BTreeMap<String, BTreeSet<String>> = rows_of_collections("docs/compatibility/modules.md")
        .into_iter()
        .map(|(collection, cells)| {
            (collection, INLINE_CODE.captures_iter(&cells[0]).map(|found| found[1].to_owned()).collect())
        })
        .collect();
    assert_eq!(shown, known);
}

#[test]
fn dependency_of_controller_is_explained() {
    let manifest = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).unwrap();
    let page = fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let explained: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .flat_map(|crates| crates.split(", "))
        .collect();
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let missing: Vec<String> = section
        .lines()
        .filter_map(|line| line.split(['.', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with("windlass-") && !explained.contains(name))
        .map(ToOwned::to_owned)
        .collect();
    check(&missing, "dependencies without a row in ARCHITECTURE.md");
}

#[test]
fn the_site_describes_every_module_keyword_and_setting() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    let output = Command::new(Path::new(ROOT).join("tools/book"))
        .args(["--windlass", env!("CARGO_BIN_EXE_windlass")])
        .arg(&site)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = |name: &str| fs::read_to_string(site.join(name)).unwrap();
    for (name, expected) in [
        ("SUMMARY.md", "  - [ansible.builtin.copy](reference/modules/ansible.builtin.copy.md)"),
        (
            "reference/all-modules.md",
            "| [ansible.builtin.copy](modules/ansible.builtin.copy.md) | Copy files to a host |",
        ),
        ("reference/modules/ansible.builtin.copy.md", "| `dest` | path, required |"),
        ("reference/keywords.md", "| `until` | Task, Handler | Condition that ends the attempts. |"),
        ("reference/filters.md", "| `ansible.builtin.b64encode` | Encodes a text as Base64. |"),
        ("reference/all-settings.md", "`ANSIBLE_FORKS`"),
        ("reference/all-commands.md", "## windlass playbook"),
        ("reference/all-role-variables.md", "| `kube_proxy_mode` | [cluster](https://github.com/"),
        ("reference/all-role-variables.md", "| `calico_mtu` | [network/calico](https://github.com/"),
        // Roles are outside of the site.
        (
            "kubernetes/cluster.md",
            "(https://github.com/windlass-automation/windlass/blob/main/roles/network/calico/README.md)",
        ),
    ] {
        assert!(page(name).contains(expected), "{name} does not have `{expected}`");
    }
}
