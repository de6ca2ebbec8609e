//! Commands: those that a module can run, those that need no shell, and those that always report a change.

use windlass_yaml::Node;

use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::{COMMAND_INSTEAD_OF_MODULE, COMMAND_INSTEAD_OF_SHELL, COMMAND_SHELL_SYNTAX, NO_CHANGED_WHEN};
use crate::lint::source::{is_template, place_of};
use crate::lint::walk::Task;
use crate::playbook::On;

/// Programs, their arguments that a module covers (empty for any), and the module.
const MODULES: &[(&[&str], &[&str], &str)] = &[
    (&["apk"], &["add", "del"], "apk"),
    (
        &["apt", "apt-get"],
        &["install", "remove", "purge", "update", "upgrade", "dist-upgrade", "full-upgrade", "autoremove", "clean"],
        "apt",
    ),
    (&["chmod", "chown", "chgrp"], &[], "file"),
    (&["dnf", "yum"], &["install", "remove", "erase", "update", "upgrade", "autoremove"], "dnf"),
    (&["firewall-cmd"], &["--permanent"], "firewalld"),
    (&["gem"], &["install", "uninstall"], "gem"),
    (&["git"], &["clone", "pull", "checkout"], "git"),
    (&["groupadd", "groupdel", "groupmod"], &[], "group"),
    (&["hostnamectl"], &["set-hostname"], "hostname"),
    (&["ln"], &[], "file"),
    (&["locale-gen"], &[], "locale_gen"),
    (&["mkdir"], &[], "file"),
    (&["modprobe"], &[], "modprobe"),
    (&["mount", "umount"], &["/"], "mount"),
    (&["npm"], &["install", "uninstall"], "npm"),
    (&["pacman"], &["-S", "-R"], "pacman"),
    (&["pip", "pip3"], &["install", "uninstall"], "pip"),
    (&["rpm"], &["-i", "-U", "-Uvh", "-ivh", "-e"], "dnf"),
    (&["rpm"], &["--import"], "rpm_key"),
    (&["sed"], &["-i"], "replace"),
    (&["service"], &["start", "stop", "restart", "reload"], "service"),
    (&["setenforce"], &[], "selinux"),
    (&["setsebool"], &[], "seboolean"),
    (&["snap"], &["install", "remove"], "snap"),
    (&["sysctl"], &["-w"], "sysctl"),
    (
        &["systemctl"],
        &["start", "stop", "restart", "reload", "enable", "disable", "mask", "unmask", "daemon-reload"],
        "systemd",
    ),
    (&["timedatectl"], &["set-timezone"], "timezone"),
    (&["touch"], &[], "file"),
    (&["ufw"], &["allow", "deny", "enable", "disable"], "ufw"),
    (&["unzip"], &[], "unarchive"),
    (&["useradd", "userdel", "usermod"], &[], "user"),
    (&["wget"], &["-O"], "get_url"),
    (&["zypper"], &["install", "in", "remove", "rm"], "zypper"),
];

/// Characters with a meaning for a shell.
const SHELL: &[char] =
    &['&', '|', '<', '>', ';', '$', '`', '*', '?', '(', ')', '[', ']', '{', '}', '~', '!', '\n', '#'];

/// Words that only a shell knows.
const BUILTINS: &[&str] = &[
    ".", "alias", "bg", "cd", "command", "declare", "eval", "exec", "exit", "export", "fg", "for", "function", "hash",
    "if", "jobs", "local", "read", "set", "shopt", "source", "test", "trap", "type", "ulimit", "umask", "unset",
    "while",
];

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for task in &context.tree.tasks {
        let Some(action) = &task.action else { continue };
        if !matches!(action.short(), "command" | "shell" | "raw") {
            continue;
        }
        let text = command_of(task);
        let is_shell = action.short() != "command";
        // Words of `argv` are passed on unchanged, as users expect.
        let is_free = !action.args.contains_key("argv") && !is_shell;
        if let Some(operator) = text.as_deref().filter(|_| is_free).and_then(shell_operator) {
            let message = format!("`command` runs no shell, and passes `{operator}` to the program as an argument");
            let finding = Finding::new(&COMMAND_SHELL_SYNTAX, task.file, place_of(&action.span), message);
            findings.push(finding.help("use `shell`, or a task for each command".to_owned()).within(task.line()));
        }
        if let Some(text) = &text {
            if action.short() == "shell" && !needs_shell(text) && !action.has_template {
                let finding = Finding::new(
                    &COMMAND_INSTEAD_OF_SHELL,
                    task.file,
                    place_of(&action.span),
                    "the command uses no feature of a shell",
                );
                findings.push(finding.help("use `command`".to_owned()).within(task.line()));
            }
            if action.short() != "raw"
                && let Some((program, module)) = module_for(text, is_shell)
            {
                let message = format!("`{program}` is run as a command, and the module `{module}` does the same");
                let help = format!("see `windlass doc {module}`");
                let finding = Finding::new(&COMMAND_INSTEAD_OF_MODULE, task.file, place_of(&action.span), message);
                findings.push(finding.help(help).within(task.line()));
            }
        }
        let decides = task.map.contains_key("changed_when")
            || ["creates", "removes"].iter().any(|option| action.args.contains_key(option));
        if !decides && !action.has_template && task.on == On::Task {
            let message = format!("`{}` reports a change on every run", action.short());
            let help = "add `changed_when`, or `creates` or `removes`".to_owned();
            let finding = Finding::new(&NO_CHANGED_WHEN, task.file, place_of(&action.span), message);
            findings.push(finding.help(help).within(task.line()));
        }
    }
}

/// The command of a task as one text.
fn command_of(task: &Task<'_>) -> Option<String> {
    let args = &task.action.as_ref()?.args;
    if let Some(words) = args.get("argv").and_then(Node::as_list) {
        return words.iter().map(Node::scalar_text).collect::<Option<Vec<_>>>().map(|words| words.join(" "));
    }
    ["_raw_params", "cmd"].iter().find_map(|name| args.get(name)).and_then(Node::as_str).map(str::to_owned)
}

/// The text without its templates. Their values are not known, and usually are single words.
fn without_templates(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::new();
    while let Some(start) = rest.find("{{") {
        plain.push_str(rest.get(..start).unwrap_or_default());
        plain.push('x');
        rest = rest.get(start..).unwrap_or_default();
        rest = rest.find("}}").and_then(|end| rest.get(end + 2..)).unwrap_or_default();
    }
    plain + rest
}

/// A pipe, redirection, `&&` or `||` that stands outside of quotes as a word.
fn shell_operator(text: &str) -> Option<String> {
    const OPERATORS: [&str; 8] = ["&&", "|", "||", "|&", "<", "<<", ">", ">>"];
    let is_redirection = |word: &str| {
        let rest = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&');
        rest.strip_prefix('>').is_some_and(|target| target.trim_start_matches('>').starts_with(['/', '&']))
    };
    if text.contains("{%") || !text.contains(['&', '|', '<', '>']) {
        return None;
    }
    let plain = without_templates(text);
    let mut quote = None;
    let mut word = String::new();
    let mut is_quoted = false;
    for c in plain.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => (quote, is_quoted) = (Some(c), true),
            (None, '\\') => is_quoted = true,
            (None, c) if c.is_whitespace() => {
                if !is_quoted && (OPERATORS.contains(&word.as_str()) || is_redirection(&word)) {
                    return Some(word);
                }
                (word, is_quoted) = (String::new(), false);
            }
            (None, c) => word.push(c),
        }
    }
    None
}

fn needs_shell(text: &str) -> bool {
    // A whole command in a variable may be anything.
    if text.trim_start().starts_with("{{") || text.contains("{%") || text.contains("| join") {
        return true;
    }
    let plain = without_templates(text);
    let plain = plain.trim();
    let first = plain.split_whitespace().next().unwrap_or_default();
    plain.contains(SHELL) || first.contains('=') || BUILTINS.contains(&first)
}

/// Module that does the same as a command, with the program.
fn module_for(text: &str, is_shell: bool) -> Option<(String, &'static str)> {
    if is_shell && needs_shell(text) {
        return None;
    }
    let plain = without_templates(text);
    // A wildcard is passed to the program unexpanded, which is a mistake of another kind.
    if plain.contains('*') || is_template(text.split_whitespace().next()?) {
        return None;
    }
    let words: Vec<&str> = plain.split_whitespace().collect();
    let (first, rest) = words.split_first()?;
    let program = first.rsplit('/').next().unwrap_or(first);
    // Options may precede the subcommand, as in `apt-get -y install`.
    let covers =
        |subcommands: &[&str]| subcommands.is_empty() || rest.iter().take(3).any(|word| subcommands.contains(word));
    let (_, subcommands, module) =
        MODULES.iter().find(|(names, subcommands, _)| names.contains(&program) && covers(subcommands))?;
    let subcommand = rest.iter().find(|word| subcommands.contains(word));
    Some((subcommand.map_or_else(|| program.to_owned(), |word| format!("{program} {word}")), module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_shells_recognised() {
        for text in
            ["a | b", "cd /tmp", "A=1 b", "echo $HOME", "ls *.txt", "{{ command }}", "a\nb", "a {% if b %}c{% endif %}"]
        {
            assert!(needs_shell(text), "{text}");
        }
        for text in ["ls -l", "a {{ b | default('c') }} d", "sh -c 'true'"] {
            assert!(!needs_shell(text), "{text}");
        }
    }

    #[test]
    fn operators_of_shells_found_outside_of_quotes() {
        for (text, operator) in [
            ("a | b", Some("|")),
            ("a && b", Some("&&")),
            ("a > /tmp/x", Some(">")),
            ("a 2>/dev/null", Some("2>/dev/null")),
            ("a 2>&1", Some("2>&1")),
            ("a {{ b | default('c') }}", None),
            ("sh -c 'a | b > c'", None),
            ("awk \"{ a > b }\" x", None),
            ("find / -exec ls {} ;", None),
            ("a --filter=x>1", None),
            ("expr 1 \\> 2", None),
        ] {
            assert_eq!(shell_operator(text).as_deref(), operator, "{text}");
        }
    }

    #[test]
    fn modules_found_for_covered_subcommands_only() {
        let cases = [
            ("apt-get -y install nginx", Some("apt")),
            ("/usr/bin/systemctl restart {{ name }}", Some("systemd")),
            ("systemctl status nginx", None),
            ("git clone https://example.org/x", Some("git")),
            ("git rev-parse HEAD", None),
            ("mkdir -p /srv/x", Some("file")),
            ("{{ tool }} install", None),
        ];
        for (text, module) in cases {
            assert_eq!(module_for(text, false).map(|(_, module)| module), module, "{text}");
        }
    }
}
