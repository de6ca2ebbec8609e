//! Calls of git: without prompts, with the SSH options of the task, and with credentials outside of arguments and URLs.

use std::path::Path;

use serde_json::Value;

use super::{
    address::{Address, Login},
    failed,
};
use crate::{
    Args, Failure, Host,
    process::{self, Command, Output},
};

/// The host's `git` and its environment.
#[derive(Debug, Clone)]
pub(super) struct Program {
    path: String,
    ssh: String,
    umask: Option<String>,
    login: Option<Login>,
}

/// Environment in which git answers with these credentials, each for its server only, and bypasses the host's own
/// helpers. It also reaches a git that another program starts, and no command line.
pub(crate) fn variables(logins: &[Login]) -> Vec<(String, String)> {
    let (mut variables, mut settings) = (Vec::new(), Vec::new());
    for (number, Login { server, user, password }) in logins.iter().enumerate() {
        let [user_name, password_name] = ["USER", "PASSWORD"].map(|name| format!("WINDLASS_GIT_{name}_{number}"));
        let helper = format!(
            r#"!f() {{ test "$1" = get && printf 'username=%s\npassword=%s\n' "${user_name}" "${password_name}"; }}; f"#
        );
        settings.extend([String::new(), helper].map(|value| {
            // git's own form of `-c`, which older versions understand too.
            format!("'{}'", format!("credential.{server}.helper={value}").replace('\'', r"'\''"))
        }));
        variables.extend([(user_name, user.clone()), (password_name, password.clone())]);
    }
    if !logins.is_empty() {
        variables.push(("GIT_CONFIG_PARAMETERS".to_owned(), settings.join(" ")));
    }
    variables
}

impl Program {
    pub(super) fn of(args: &Args, host: &Host) -> Result<Program, Failure> {
        let name = args.str("executable").unwrap_or("git");
        let path = process::find(host, name).ok_or_else(|| {
            Failure::new(format!("Failed to find required executable \"{name}\": install git, or set executable."))
        })?;
        let umask = match args.value("umask") {
            None => None,
            Some(Value::String(text))
                if !text.is_empty() && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit)) =>
            {
                Some(text.clone())
            }
            Some(Value::String(text)) => {
                return Err(Failure::new("umask must be an octal integer").with("details", format!("{text} is none.")));
            }
            Some(_) => return Err(Failure::new("umask must be defined as a quoted octal integer")),
        };
        let login = Address::of(args.required("repo")?)?.login;
        Ok(Program { path: path.display().to_string(), ssh: ssh(args, host), umask, login })
    }

    /// The mask for the permissions of new files, if the task sets one.
    pub(super) fn mask(&self) -> Option<u32> {
        u32::from_str_radix(self.umask.as_deref()?, 8).ok()
    }

    /// Builds a git command in this directory.
    pub(super) fn command(&self, words: &[&str], directory: Option<&Path>) -> Command {
        let mut command = Command::new(&self.path).plain_locale();
        for (name, value) in variables(self.login.as_slice()) {
            command = command.variable(name, value);
        }
        let command = command.args(words.iter().copied());
        let command = command.variable("GIT_SSH_COMMAND", &self.ssh).variable("GIT_TERMINAL_PROMPT", "0");
        let command = match directory {
            Some(directory) => command.directory(directory),
            None => command,
        };
        match &self.umask {
            Some(mask) => command.umask(mask),
            None => command,
        }
    }

    /// Runs git; fails with its message.
    pub(super) fn run(
        &self,
        words: &[&str],
        directory: Option<&Path>,
        what: &str,
        host: &Host,
    ) -> Result<Output, Failure> {
        let output = self.command(words, directory).run(host)?;
        if output.success() {
            return Ok(output);
        }
        let shown: Vec<String> =
            std::iter::once(self.path.as_str()).chain(words.iter().copied()).map(str::to_owned).collect();
        Err(failed(what, &output, &shown))
    }
}

/// The `ssh` command for git, which must never prompt.
fn ssh(args: &Args, host: &Host) -> String {
    let mut options =
        [host.variable("GIT_SSH_OPTS").unwrap_or_default(), args.str("ssh_opts").unwrap_or_default().to_owned()]
            .iter()
            .filter(|text| !text.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join(" ");
    let mut add = |mark: &str, option: &str| {
        if !options.contains(mark) {
            options.push(' ');
            options.push_str(option);
        }
    };
    if args.bool("accept_hostkey") {
        add("StrictHostKeyChecking=", "-o StrictHostKeyChecking=no");
    }
    if args.bool("accept_newhostkey") {
        add("StrictHostKeyChecking=", "-o StrictHostKeyChecking=accept-new");
    }
    add("BatchMode", "-o BatchMode=yes");
    if let Some(key) = args.str("key_file") {
        add("-i ", &format!("-i {}", shell_words::quote(key)));
        add("IdentitiesOnly", "-o IdentitiesOnly=yes");
    }
    format!("ssh {}", options.trim())
}
