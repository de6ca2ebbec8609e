//! `command`: runs a program without a shell.

use super::execution::{
    CHDIR, CREATES, Execution, REMOVES, RETURNS, STDIN, STDIN_ADD_NEWLINE, STRIP_EMPTY_ENDS, check_directory, input,
    not_needed, plan,
};
use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Spec, args::expand_path, process};

/// The `command` module.
pub struct Command;

static SPEC: Spec = Spec {
    name: "command",
    summary: "Run a program on the host",
    description: &[
        "Splits the command into words and starts it directly. Without a shell, `<`, `>`, `|`, `;`, `&` and `*` have \
         no special meaning; use `shell` for them.",
        "Always reports a change, unless `creates` or `removes` shows that nothing has to be done.",
    ],
    options: &[
        Opt::new("_raw_params", Kind::Str, "Command as free text."),
        Opt::new("cmd", Kind::Str, "Command as text."),
        Opt::new("argv", Kind::List(&Kind::Str), "Command as a list of words, which need no quoting."),
        CHDIR,
        CREATES,
        REMOVES,
        Opt::new(
            "executable",
            Kind::Str,
            "No effect except a warning, because no shell is used; accepted for compatibility.",
        ),
        Opt::new("expand_argument_vars", Kind::Bool, "Expand `~` and `$VARIABLE` in the words.").default("true"),
        STDIN,
        STDIN_ADD_NEWLINE,
        STRIP_EMPTY_ENDS,
        Opt::new("_uses_shell", Kind::Bool, "Run through `/bin/sh`, like the module `shell`.").default("false"),
    ],
    free_form: Some("_raw_params"),
    check: Check::Partial,
    examples: "- name: See how long the host has been up\n  ansible.builtin.command: uptime\n\n\
               - name: Create the database once\n  ansible.builtin.command:\n    argv:\n      - /usr/bin/create-db\n      - --name=main database\n    \
               creates: /var/lib/db/main\n",
    returns: RETURNS,
    ..Spec::EMPTY
}
.compiled();

impl Module for Command {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        if args.bool("_uses_shell") {
            return super::shell::plan_shell(args, host);
        }
        let text = args.str("_raw_params").or_else(|| args.str("cmd")).filter(|text| !text.is_empty());
        if text.is_some() && args.value("argv").is_some() {
            return Err(Failure::new("only command or argv can be given, not both").with("rc", 256));
        }
        let words = match text {
            Some(text) => super::split(text)?,
            None => args.list("argv").into_iter().map(str::to_owned).collect(),
        };
        if words.is_empty() {
            return Err(Failure::new("no command given").with("rc", 256).with("changed", false));
        }
        let shown = words.clone().into();
        check_directory(args, &shown)?;
        let warn = |plan: Plan| match args.str("executable") {
            Some(executable) => plan.with_warning(format!(
                "The parameter 'executable' is no longer supported with the 'command' module. Not using '{executable}'."
            )),
            None => plan,
        };
        if let Some(answer) = not_needed(args, host, &shown)? {
            return Ok(warn(answer));
        }
        let expand = args.bool("expand_argument_vars");
        let mut words = words.into_iter().map(|word| if expand { expand_path(&word, host) } else { word });
        let mut command = process::Command::new(words.next().unwrap_or_default()).args(words);
        if let Some(directory) = args.str("chdir") {
            command = command.directory(directory);
        }
        if let Some(bytes) = input(args) {
            command = command.input(bytes);
        }
        Ok(warn(plan(args, Execution { shown, command, strip: args.bool("strip_empty_ends") }, host)))
    }
}
