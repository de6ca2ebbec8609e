//! `shell`: runs a text through a shell.

use super::execution::{
    CHDIR, CREATES, Execution, REMOVES, RETURNS, STDIN, STDIN_ADD_NEWLINE, STRIP_EMPTY_ENDS, check_directory, input,
    not_needed, plan,
};
use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Spec, process};

/// The `shell` module.
pub struct Shell;

static SPEC: Spec = Spec {
    name: "shell",
    summary: "Run a shell command on the host",
    description: &[
        "Passes the text to `/bin/sh -c`, so pipes, redirections and variables work. Quote inserted values with the \
         filter `quote`, or use the safer `command` if no shell is needed.",
        "Always reports a change, unless `creates` or `removes` shows that nothing has to be done.",
    ],
    options: &[
        Opt::new("_raw_params", Kind::Str, "Command as free text."),
        Opt::new("cmd", Kind::Str, "Command as text."),
        Opt::new("argv", Kind::List(&Kind::Str), "Command as a list of words, which are quoted for the shell."),
        CHDIR,
        CREATES,
        REMOVES,
        Opt::new("executable", Kind::Path, "Absolute path of the shell. Default: `/bin/sh`."),
        STDIN,
        STDIN_ADD_NEWLINE,
        STRIP_EMPTY_ENDS,
        Opt::new(
            "_uses_shell",
            Kind::Bool,
            "No effect, because this module always uses a shell; accepted for compatibility.",
        )
        .default("true"),
    ],
    required_one_of: &[&["_raw_params", "cmd", "argv"]],
    mutually_exclusive: &[&["_raw_params", "cmd", "argv"]],
    free_form: Some("_raw_params"),
    check: Check::Partial,
    examples: "- name: Count the users\n  ansible.builtin.shell: wc -l < /etc/passwd\n  register: users\n  changed_when: false\n\n\
               - name: Use what only bash has\n  ansible.builtin.shell:\n    cmd: set -o pipefail; dmesg | tail -n 5\n    executable: /bin/bash\n",
    returns: RETURNS,
    ..Spec::EMPTY
}
.compiled();

impl Module for Shell {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        plan_shell(args, host)
    }
}

pub(super) fn plan_shell(args: &Args, host: &Host) -> Result<Plan, Failure> {
    let text = match args.str("_raw_params").or_else(|| args.str("cmd")) {
        Some(text) => text.to_owned(),
        None => shell_words::join(args.list("argv")),
    };
    if text.is_empty() {
        return Err(Failure::new("no command given").with("rc", 256).with("changed", false));
    }
    let shown = text.clone().into();
    check_directory(args, &shown)?;
    if let Some(answer) = not_needed(args, host, &shown)? {
        return Ok(answer);
    }
    let shell = args.str("executable").unwrap_or("/bin/sh");
    let mut command = process::Command::new(shell).arg("-c").arg(text);
    if let Some(directory) = args.str("chdir") {
        command = command.directory(directory);
    }
    if let Some(bytes) = input(args) {
        command = command.input(bytes);
    }
    Ok(plan(args, Execution { shown, command, strip: args.bool("strip_empty_ends") }, host))
}
