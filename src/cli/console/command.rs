//! Parses the lines of the console.

use crate::settings::is_true;

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    Nothing,
    Exit,
    /// A module with its arguments. An unknown name makes the line a shell command.
    Task {
        module: String,
        args: String,
    },
    /// A shell command.
    Shell(&'a str),
    Help(&'a str),
    /// Prints the usage of a command.
    Say(&'static str),
    /// Changes the host pattern.
    Hosts(&'a str),
    ListHosts,
    ListGroups,
    Become(bool),
    BecomeUser(&'a str),
    BecomeMethod(&'a str),
    RemoteUser(&'a str),
    Check(bool),
    Diff(bool),
    Timeout(u64),
    Forks(usize),
    Verbosity(u8),
    Collections(Vec<&'a str>),
    Wrong(String),
}

/// Commands with usage and description.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("become", "become yes|no", "Run tasks as another user, or stop doing so."),
    ("become_method", "become_method METHOD", "Become method: sudo, su or doas."),
    ("become_user", "become_user USER", "Become user."),
    ("cd", "cd PATTERN", "Select hosts by pattern; `cd /` selects all."),
    ("check", "check yes|no", "Predict changes without making them."),
    ("collections", "collections NAME,...|none", "Collections searched first for short module names."),
    ("diff", "diff yes|no", "Show differences in changed files."),
    ("exit", "exit", "Leave the console."),
    ("forks", "forks NUMBER", "Maximum number of hosts to work on in parallel."),
    ("help", "help [COMMAND|MODULE]", "Show this list, or help on a command or module."),
    ("list", "list [groups]", "List the hosts, or the groups."),
    ("remote_user", "remote_user USER", "Log in as this user."),
    ("shell", "shell COMMAND", "Run a shell command on the hosts, like `!COMMAND`."),
    ("timeout", "timeout SECONDS", "Time limit per task in seconds; 0 means none."),
    ("verbosity", "verbosity NUMBER", "Set the level of detail. Facts set so far are lost."),
];

impl Command<'_> {
    /// Parses a trimmed line.
    pub(super) fn of(line: &str) -> Command<'_> {
        if line.is_empty() || line.starts_with('#') {
            return Command::Nothing;
        }
        if let Some(text) = line.strip_prefix('!') {
            return shell(text.trim());
        }
        if let Some(topic) = line.strip_prefix('?') {
            return Command::Help(topic.trim());
        }
        let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(line.len());
        let (word, rest) = line.split_at(end);
        named(word, rest.trim()).unwrap_or_else(|| {
            let (module, args) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            Command::Task { module: module.to_owned(), args: args.trim().to_owned() }
        })
    }
}

/// Parses a line that starts with the name of a command.
fn named<'a>(word: &str, rest: &'a str) -> Option<Command<'a>> {
    let given = |command: Command<'a>, usage: &'static str| if rest.is_empty() { Command::Say(usage) } else { command };
    Some(match word {
        "exit" | "EOF" => Command::Exit,
        "help" => Command::Help(rest),
        "shell" => shell(rest),
        "cd" => Command::Hosts(match rest {
            "" => "*",
            "/" | "*" | "/*" => "all",
            pattern => pattern,
        }),
        "list" => match rest {
            "" => Command::ListHosts,
            "groups" => Command::ListGroups,
            _ => Command::Wrong("Invalid option passed to \"list\"".to_owned()),
        },
        "become" => given(Command::Become(is_true(rest)), "Please specify become value, e.g. `become yes`"),
        "become_user" => given(Command::BecomeUser(rest), "Please specify a user, e.g. `become_user jenkins`"),
        "become_method" => {
            given(Command::BecomeMethod(rest), "Please specify a become_method, e.g. `become_method su`")
        }
        "remote_user" => given(Command::RemoteUser(rest), "Please specify a remote user, e.g. `remote_user root`"),
        "check" => given(Command::Check(is_true(rest)), "Please specify check mode value, e.g. `check yes`"),
        "diff" => given(Command::Diff(is_true(rest)), "Please specify a diff value , e.g. `diff yes`"),
        "timeout" => {
            let command = match rest.parse::<i64>() {
                Ok(seconds) => match u64::try_from(seconds) {
                    Ok(seconds) => Command::Timeout(seconds),
                    Err(_) => {
                        Command::Wrong("The timeout must be greater than or equal to 1, use 0 to disable".to_owned())
                    }
                },
                Err(_) => {
                    Command::Wrong(format!("The timeout must be a valid positive integer, or 0 to disable: {rest}"))
                }
            };
            given(command, "Usage: timeout <seconds>")
        }
        "forks" | "serial" => {
            let command = match rest.parse::<i64>().map(usize::try_from) {
                Ok(Ok(count)) if count > 0 => Command::Forks(count),
                Ok(_) => Command::Say("forks must be greater than or equal to 1"),
                Err(_) => Command::Wrong(format!("Invalid argument for \"forks\": {rest}")),
            };
            given(command, "Usage: forks <number>")
        }
        "verbosity" => {
            let command = match rest.parse() {
                Ok(level) => Command::Verbosity(level),
                Err(_) => Command::Wrong(format!("The verbosity must be a valid integer: {rest}")),
            };
            given(command, "Usage: verbosity <number>")
        }
        "collections" => match rest {
            "" | "none" => Command::Collections(Vec::new()),
            names => Command::Collections(names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()),
        },
        _ => return None,
    })
}

fn shell(text: &str) -> Command<'_> {
    if text.is_empty() { Command::Say("Usage: shell <command>") } else { Command::Shell(text) }
}

/// Names of all commands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, ..)| *name)
}

/// Help on all commands, or on one command or module.
pub(super) fn help(topic: &str) -> String {
    if topic.is_empty() {
        let others = [
            ("MODULE ARGUMENTS", "Run a module on the hosts."),
            ("anything else", "Run the line as a shell command on the hosts."),
        ];
        let all = COMMANDS.iter().map(|(_, usage, what)| (*usage, *what)).chain(others);
        let rows: Vec<Vec<String>> = all.map(|(usage, what)| vec![usage.to_owned(), what.to_owned()]).collect();
        return crate::output::aligned(&rows, usize::MAX).join("\n");
    }
    if let Some((_, usage, what)) = COMMANDS.iter().find(|(name, ..)| *name == topic) {
        return format!("{usage}  {what}");
    }
    let Some(spec) = crate::builtin::spec(topic) else { return format!("*** No help on {topic}") };
    let options = spec.options.iter().map(|option| format!("  {} {}", option.name, option.doc));
    let head = [spec.summary.to_owned(), "Parameters:".to_owned()];
    head.into_iter().chain(options).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(module: &str, args: &str) -> Command<'static> {
        Command::Task { module: module.to_owned(), args: args.to_owned() }
    }

    #[test]
    fn line_parsed_as_command_module_or_shell() {
        assert_eq!(Command::of("cd web:!db"), Command::Hosts("web:!db"));
        assert_eq!(Command::of("!ls -l"), Command::Shell("ls -l"));
        assert_eq!(Command::of("? copy"), Command::Help("copy"));
        assert_eq!(Command::of("copy src=a  dest=b"), task("copy", "src=a  dest=b"));
        assert_eq!(Command::of("ansible.builtin.ping"), task("ansible.builtin.ping", ""));
        assert_eq!(Command::of("# no"), Command::Nothing);
        assert!(help("copy").contains("  dest "));
    }
}
