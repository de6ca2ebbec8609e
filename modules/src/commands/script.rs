//! `script`: run a script of the controller on the host.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use super::execution::{CHDIR, CREATES, Execution, REMOVES, RETURNS, check_directory, not_needed, plan};
use crate::{
    Args, Check, Failure, Host, Kind, Module, Opt, Plan, Spec,
    files::scratch::Scratch,
    process::{self, reason},
};

/// The `script` module.
///
/// The controller looks the script up and sends it as content `_content`; `_raw_params` or `cmd` still begin with its path, which is
/// replaced by the path on the host.
pub struct Script;

static SPEC: Spec = Spec {
    name: "script",
    summary: "Run a script of the control machine on the host",
    description: &[
        "The script travels to the host, runs there with the rest of the line as its arguments, and is removed. It needs no executable bit, \
         but a first line that names its interpreter, or `executable`.",
    ],
    options: &[
        Opt::new("_raw_params", Kind::Str, "The path of the script and its arguments, as free text."),
        Opt::new("cmd", Kind::Str, "The path of the script and its arguments."),
        CHDIR,
        CREATES,
        REMOVES,
        Opt::new("executable", Kind::Str, "The program to run the script with, and its options."),
        Opt::new("_content", Kind::Int, "Which content of the controller the script is.").default("0"),
    ],
    required_one_of: &[&["_raw_params", "cmd"]],
    mutually_exclusive: &[&["_raw_params", "cmd"]],
    free_form: Some("_raw_params"),
    check: Check::Partial,
    examples: "- name: Prepare the disk\n  ansible.builtin.script: files/prepare-disk.sh --device /dev/sdb\n  args:\n    creates: /data/.prepared\n",
    returns: RETURNS,
    ..Spec::EMPTY
};

impl Module for Script {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let text = args.str("_raw_params").or_else(|| args.str("cmd")).unwrap_or_default().trim().to_owned();
        let words = super::split(&text)?;
        let name = words.first().and_then(|path| Path::new(path).file_name()).map(PathBuf::from);
        let name = name.ok_or_else(|| Failure::new("The script module needs the path of a script."))?;
        let shown = text.clone().into();
        check_directory(args, &shown)?;
        if let Some(answer) = not_needed(args, host, &shown)? {
            return Ok(answer);
        }
        let content = usize::try_from(args.int("_content").unwrap_or(0)).unwrap_or(0);
        host.content(content)?;
        let arguments = rest_of_line(&text).to_owned();
        let executable = args.str("executable").map(str::to_owned);
        let directory = args.str("chdir").map(PathBuf::from);
        let plan = plan(
            args,
            Execution { shown: shown.clone(), command: process::Command::new("/bin/sh"), strip: true },
            host,
        );
        Ok(plan.replace_apply(move |host, outcome| {
            let scratch = Scratch::executable()?;
            let path = scratch.path().join(name);
            write(host, content, &path)?;
            let quoted = shell_words::quote(&path.to_string_lossy()).into_owned();
            let line = match executable {
                Some(executable) => format!("{executable} {quoted} {arguments}"),
                None => format!("{quoted} {arguments}"),
            };
            let mut command = process::Command::new("/bin/sh").arg("-c").arg(line.trim_end().to_owned());
            if let Some(directory) = directory {
                command = command.directory(directory);
            }
            super::execution::run(Execution { shown, command, strip: true }, host, outcome)
        }))
    }
}

/// What follows the first word of a command line, as it is written.
fn rest_of_line(text: &str) -> &str {
    let mut quote = None;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, space) if space.is_whitespace() => return text.get(at..).unwrap_or_default().trim_start(),
            _ => {}
        }
    }
    ""
}

fn write(host: &Host, content: usize, path: &Path) -> Result<(), Failure> {
    let refuse = |error: io::Error| Failure::new(format!("The script could not be written to {}: {}.", path.display(), reason(&error)));
    let mut file = File::options().write(true).create_new(true).mode(0o700).open(path).map_err(refuse)?;
    io::copy(&mut host.read_content(content)?, &mut file).and_then(|_| file.flush()).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stay_as_they_are_written() {
        assert_eq!(rest_of_line("run.sh --a 'b c' $HOME"), "--a 'b c' $HOME");
        assert_eq!(rest_of_line("'my run.sh'  x"), "x");
        assert_eq!(rest_of_line("my\\ run.sh x"), "x");
        assert_eq!(rest_of_line("run.sh"), "");
    }
}
