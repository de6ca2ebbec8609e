//! Follows printed hints: runs the command that prints one, then what it advises.
//!
//! Every hint in the sources has a case here, or a test that [`ELSEWHERE`] names.

mod bundles;
mod collections;
mod inventories;
mod playbooks;
mod reconcile;
mod runs;
mod ssh;
mod tools;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::sources::{literals, rust_files};
use crate::support::{Sshd, available};
use regex::Regex;

/// A hint and what follows from it, in a directory of its own. Commands are scripts of a shell.
pub(crate) struct Case {
    /// Further files, by name.
    pub(crate) setup: &'static [(&'static str, &'static str)],
    /// Prints the hint in an error or a warning.
    pub(crate) fails: &'static str,
    /// The hint, without line breaks.
    pub(crate) says: &'static str,
    /// Files as the hint advises.
    pub(crate) mended: &'static [(&'static str, &'static str)],
    /// Commands that succeed after that, as the hint says.
    pub(crate) then: &'static [&'static str],
}

/// Test of hints about runs in a cluster that does not exist.
const REFUSED: &str = "run_for_a_cluster_refused_before_anything_is_created";

/// Hints that a test elsewhere follows, with its name.
const ELSEWHERE: &[(&str, &str)] = &[
    ("`windlass engine list` lists the runs", "run_of_a_killed_pod_resumed_by_the_next_one_and_followed_to_its_end"),
    ("`windlass engine delete RUN` deletes one run", "cancelled_run_stops_in_order_and_ends_with_99"),
    ("KUBECONFIG and K8S_AUTH_CONTEXT select the cluster and the user", REFUSED),
    ("run from a folder with the playbooks, roles and inventory alone", REFUSED),
    ("add `--engine kubernetes`", REFUSED),
    ("give --engine-image, or set engine_image in [windlass] of ansible.cfg; `make dist` builds one", REFUSED),
    ("give passwords by --vault-password-file, --become-password-file, --connection-password-file", REFUSED),
    ("start from the folder of the project, and name its files by relative paths", REFUSED),
    ("create the bundle again", "file_that_changed_is_refused_until_it_is_taken_in_again"),
    (
        "log in by `docker login`, or put `auths` into ~/.docker/config.json",
        "registry_that_wants_a_login_gets_credentials",
    ),
    (
        "pre-releases are left out; take them with --pre, or by naming one exactly",
        "prerelease_is_installed_only_when_asked_for",
    ),
    ("plan fewer hosts at once, with --limit", "plan_too_large_for_all_hosts_is_written_for_some"),
    ("name its server with `--server`", "token_is_not_sent_to_servers_it_is_not_for"),
];

/// Writes files that many cases use.
fn project(folder: &Path) {
    write(folder, COMMON);
    let vault = run(folder, "windlass vault encrypt_string --vault-password-file password --name secret hidden");
    assert_eq!(vault.0, Some(0), "{}", vault.1);
    let vars = vault.1.lines().filter(|line| !line.contains("successful")).map(|line| format!("    {line}\n"));
    let vars: String = vars.collect();
    let secret = format!("- hosts: all\n  gather_facts: false\n  vars:\n{vars}  tasks:\n    - debug: var=secret\n");
    fs::write(folder.join("secret.yml"), secret).unwrap();
}

const COMMON: &[(&str, &str)] = &[
    ("hosts", "here ansible_connection=local file_of_host=t.yml role_of_host=r\n"),
    ("password", "right horse\n"),
    ("right.yml", "- hosts: all\n  gather_facts: false\n  tasks:\n    - debug: msg=x\n"),
    ("ping.yml", "- hosts: all\n  gather_facts: false\n  tasks:\n    - ping:\n"),
    ("t.yml", "- debug: msg=x\n"),
    ("mapping.yml", "a: b\n"),
    ("endless-import.yml", "- import_tasks: endless-import.yml\n"),
    ("endless.yml", "- include_tasks: endless.yml\n"),
    (
        "recursion.yml",
        "- set_fact: {n: \"{{ n | default(0) | int + 1 }}\"}\n- include_tasks: recursion.yml\n  when: n | int < 3\n",
    ),
    ("roles/r/tasks/main.yml", "- debug: msg=x\n"),
    ("roles/r/handlers/main.yml", "- name: handler of r\n  debug: msg=x\n"),
];

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Runs a script of a shell without a terminal. Returns its exit code and output.
fn run(folder: &Path, script: &str) -> (Option<i32>, String) {
    let programs = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap().display();
    let path = std::env::var("PATH").unwrap();
    let printed = tempfile::tempfile().unwrap();
    // Processes in the background may keep it open.
    let status = Command::new("setsid")
        .args(["--wait", "sh", "-c", script])
        .current_dir(folder)
        .env("PATH", format!("{programs}:{path}"))
        .env("HOME", folder)
        .env("EDITOR", "true")
        .env("NO_COLOR", "1")
        .env_remove("ANSIBLE_CONFIG")
        .env_remove("SSH_AUTH_SOCK")
        .env_remove("XDG_STATE_HOME")
        .env_remove("WINDLASS_JOURNAL_DIR")
        .stdin(Stdio::null())
        .stdout(printed.try_clone().unwrap())
        .stderr(printed.try_clone().unwrap())
        .status()
        .unwrap();
    let mut printed = printed;
    let mut text = Vec::new();
    std::io::Seek::rewind(&mut printed).unwrap();
    std::io::Read::read_to_end(&mut printed, &mut text).unwrap();
    (status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// A text on one line, in lower case: a hint may begin a sentence.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The problem with a case; `None` if the hint holds.
fn problem(folder: &Path, case: &Case) -> Option<String> {
    write(folder, case.setup);
    let (code, text) = run(folder, case.fails);
    if !flat(&text).contains(&flat(case.says)) {
        return Some(format!("`{}` does not print {:?}: {code:?}\n{text}", case.fails, case.says));
    }
    write(folder, case.mended);
    case.then.iter().find_map(|command| {
        let (code, text) = run(folder, command);
        let helps = code == Some(0) && !flat(&text).contains(&flat(case.says));
        (!helps).then(|| format!("{:?} advises `{command}`, which does not help: {code:?}\n{text}", case.says))
    })
}

fn follow(cases: &[Case]) {
    let wanted = std::env::var("HINT").unwrap_or_default();
    let mut problems = Vec::new();
    for case in cases.iter().filter(|case| case.says.contains(&wanted)) {
        let folder = tempfile::tempdir().unwrap();
        project(folder.path());
        problems.extend(problem(folder.path(), case));
    }
    assert!(problems.is_empty(), "{} hints:\n{}", problems.len(), problems.join("\n\n"));
}

#[test]
fn hint_about_playbook_followed_helps() {
    follow(playbooks::CASES);
}

#[test]
fn hint_about_inventory_followed_helps() {
    follow(inventories::CASES);
}

#[test]
fn hint_about_run_followed_helps() {
    follow(runs::CASES);
}

#[test]
fn hint_about_bundle_followed_helps() {
    follow(bundles::CASES);
}

#[test]
fn hint_about_collection_followed_helps() {
    follow(collections::CASES);
}

#[test]
fn hint_about_reconciliation_followed_helps() {
    follow(reconcile::CASES);
}

#[test]
fn hint_of_other_verb_followed_helps() {
    follow(tools::CASES);
}

#[test]
fn hint_about_unknown_host_followed_helps() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let folder = sshd.directory.path().to_owned();
    project(&folder);
    let host = format!(
        "web1 ansible_host=127.0.0.1 ansible_port={} ansible_user=root ansible_remote_tmp={home}/remote ansible_ssh_args='-F none -o \
         UserKnownHostsFile={home}/known_hosts -o IdentityAgent=none'",
        sshd.port,
        home = folder.display()
    );
    fs::write(folder.join("no-key-hosts"), format!("{host}\n")).unwrap();
    fs::write(folder.join("ssh-hosts"), format!("{host} ansible_ssh_private_key_file=id\n")).unwrap();
    let problems = ssh::CASES.iter().filter_map(|case| {
        let _ = fs::remove_file(folder.join("known_hosts"));
        problem(&folder, case)
    });
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// Literals of hints in a source file: the texts in calls of `hint`, `maybe_hint` and `with_hint`.
fn hints(text: &str) -> Vec<String> {
    let call = Regex::new(r"\.(?:maybe_|with_)?hint\(").unwrap();
    let literal = Regex::new(r#""((?:[^"\\]|\\.)*)""#).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    call.find_iter(text)
        .flat_map(|found| {
            let rest = &text[found.end()..];
            let (mut depth, mut quoted, mut escaped) = (1, false, false);
            let end = rest.find(|c| {
                match c {
                    _ if escaped => escaped = false,
                    '\\' if quoted => escaped = true,
                    '"' => quoted = !quoted,
                    '(' if !quoted => depth += 1,
                    ')' if !quoted => depth -= 1,
                    _ => {}
                }
                depth == 0
            });
            let argument = &rest[..end.unwrap_or(0)];
            let texts = literal.captures_iter(argument).map(|found| unescaped(&found[1]));
            // Separators of joined names are no hints.
            texts.filter(|text| text.chars().any(char::is_alphabetic)).collect::<Vec<_>>()
        })
        .collect()
}

/// A literal as it is printed, on one line.
fn unescaped(literal: &str) -> String {
    let joined = Regex::new(r"\\\n\s*").unwrap().replace_all(literal, "").into_owned();
    joined.replace("\\\"", "\"").replace("\\n", " ")
}

#[test]
fn hint_in_the_sources_has_a_case() {
    let place = Regex::new(r"\{[^}]*\}").unwrap();
    let tables = [
        playbooks::CASES,
        inventories::CASES,
        runs::CASES,
        bundles::CASES,
        collections::CASES,
        reconcile::CASES,
        tools::CASES,
        ssh::CASES,
    ];
    let followed: Vec<String> = tables.iter().flat_map(|cases| cases.iter()).map(|case| flat(case.says)).collect();
    let mut missing = Vec::new();
    let mut count = 0;
    for path in rust_files(&["src", "crates/inventory/src", "crates/yaml/src", "crates/template/src"]) {
        for hint in hints(&fs::read_to_string(&path).unwrap()) {
            count += 1;
            let pieces: Vec<String> = place.split(&hint).map(flat).filter(|piece| !piece.is_empty()).collect();
            let has_case = followed.iter().any(|says| pieces.iter().all(|piece| says.contains(piece.as_str())));
            if !has_case && !ELSEWHERE.iter().any(|(other, _)| *other == hint) {
                missing.push(format!("{}: {hint}", path.display()));
            }
        }
    }
    assert!(count > 80, "the search found only {count} hints");
    assert!(missing.is_empty(), "hints without a case:\n{}", missing.join("\n"));
    let sources: Vec<_> = rust_files(&["src", "tests"]).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for (hint, test) in ELSEWHERE {
        let declared = format!("fn {test}()");
        assert!(sources.iter().any(|text| text.contains(&declared)), "no test {test} follows {hint:?}");
    }
}

/// Options of other programs that our messages and command lines name.
const OF_OTHERS: &[&str] = &[
    "--import",
    "--no-default-keyring",
    "--no-install-recommends",
    "--no-legend",
    "--plain",
    "--server",
    "--state",
    "--wait",
];

#[test]
fn literals_of_a_source_found_beside_comments_characters_and_raw_texts() {
    let source = r####"// A "comment"
        fn f<'a>(x: &'a str) { g('"', b'"', '\'', "one \"two\" \
            three", r#"four "five""#, "six\n"); /* "seven" */ }
        #[cfg(test)] mod tests { const X: &str = "eight"; }"####;
    assert_eq!(literals(source), ["one \"two\" three", "four \"five\"", "six\n"]);
}

#[test]
fn command_that_does_not_exist_found_in_a_message() {
    let command = windlass::cli::command();
    for (text, wrong) in [
        ("try `windlass playbook -i x site.yml --limit web`", None),
        ("  windlass vault encrypt_string --vault-password-file p", None),
        ("`windlass {verb} --nothing` and `windlass apply FILE`", None),
        ("`windlass playbooks`", Some("playbooks")),
        ("`windlass vault encypt x`", Some("encypt")),
        ("  windlass fleet -i a plan site.yml -o a.plan", None),
        ("windlass is wrong in a sentence", None),
        ("  windlass version = 1", None),
        ("`windlass inventory --ask`", Some("--ask")),
        ("`windlass plan -Z`", Some("-Z")),
    ] {
        let found: Vec<String> = commands(text).into_iter().filter_map(|words| missing(&command, words)).collect();
        assert_eq!(found, wrong.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn option_and_command_named_in_message_exist() {
    let command = windlass::cli::command();
    let mut known: BTreeSet<String> = OF_OTHERS.iter().map(|option| (*option).to_owned()).collect();
    options(&command, &mut known);
    let option = Regex::new(r"(?:^|[ (`'])(--[a-z][a-z-]+)").unwrap();
    let mut wrong = Vec::new();
    let is_module = |path: &Path| path.starts_with(Path::new(env!("CARGO_MANIFEST_DIR")).join("modules"));
    for path in rust_files(FOLDERS) {
        for text in literals(&fs::read_to_string(&path).unwrap()) {
            // Arguments of other programs are single words. Modules name options of those in sentences too.
            if text.contains([' ', '`']) && !is_module(&path) {
                let options = option.captures_iter(&text).map(|found| found[1].to_owned());
                wrong.extend(
                    options
                        .filter(|name| !known.contains(name))
                        .map(|name| format!("{}: {name} in {text:?}", path.display())),
                );
            }
            let missing = commands(&text).into_iter().filter_map(|words| missing(&command, words));
            wrong.extend(missing.map(|word| format!("{}: {word} in {text:?}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "options and commands that do not exist:\n{}", wrong.join("\n"));
}

/// Folders with messages of the program and of its executor.
const FOLDERS: &[&str] = &[
    "src",
    "modules/src",
    "crates/bounds/src",
    "crates/inventory/src",
    "crates/lab/src",
    "crates/sops/src",
    "crates/ssh/src",
    "crates/template/src",
    "crates/vault/src",
    "crates/yaml/src",
];

/// Command lines of `windlass` that a text names in backticks or as lines of their own, without that word.
fn commands(text: &str) -> Vec<&str> {
    let command = Regex::new(r"(?m)(?:`|^  +)windlass ([^`\n#]+)").unwrap();
    let lines = command.captures_iter(text).filter_map(|found| Some(found.get(1)?.as_str()));
    lines.filter(|line| !line.contains(" = ")).collect()
}

/// A verb or an option of a command line that does not exist.
fn missing(root: &clap::Command, words: &str) -> Option<String> {
    let (mut command, mut is_name) = (root, true);
    let mut words = words.split_whitespace();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        let is_this = |argument: &&clap::Arg| match name.strip_prefix("--") {
            Some(long) => {
                argument.get_long() == Some(long) || argument.get_all_aliases().unwrap_or_default().contains(&long)
            }
            None => argument.get_short().is_some_and(|short| name[1..].starts_with(short)),
        };
        if word == "--" {
            return None;
        } else if word.starts_with('-') && word.len() > 1 {
            match command.get_arguments().chain(root.get_arguments()).find(is_this) {
                Some(argument) if argument.get_action().takes_values() && !word.contains('=') => {
                    // Its value, unless that is part of the word.
                    (word.starts_with("--") || word.len() == 2).then(|| words.next());
                }
                Some(_) => {}
                None if ["--help", "-h", "--version"].contains(&word) => {}
                None => return Some(word.to_owned()),
            }
        } else if command.get_name() == "fleet" && root.find_subcommand(word).is_some() {
            // The command line of its runs.
            command = root.find_subcommand(word)?;
        } else if is_name
            && command.has_subcommands()
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '-')
        {
            match command.find_subcommand(word) {
                Some(found) => command = found,
                None if command.get_name() == root.get_name() || command.is_subcommand_required_set() => {
                    return Some(word.to_owned());
                }
                None => is_name = false,
            }
        } else if word.contains('{') && command.has_subcommands() {
            // A verb that is known only when the message is made.
            return None;
        } else {
            is_name = false;
        }
    }
    None
}

fn options(command: &clap::Command, known: &mut BTreeSet<String>) {
    known.extend(["--help".to_owned(), "--version".to_owned()]);
    for argument in command.get_arguments() {
        known.extend(argument.get_long().map(|name| format!("--{name}")));
        known.extend(argument.get_all_aliases().unwrap_or_default().iter().map(|name| format!("--{name}")));
    }
    command.get_subcommands().for_each(|command| options(command, known));
}
