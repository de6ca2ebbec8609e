//! `script`: runs a script from the controller on the host.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use super::execution::{CHDIR, CREATES, Execution, REMOVES, base, check_directory, not_needed};
use crate::{
    Args, Check, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    files::scratch::Scratch,
    process::{self, reason},
};

/// The `script` module.
///
/// The controller finds the script and sends it as content `_content`, with its name in `_original_basename`.
/// `_raw_params` contains its arguments.
pub struct Script;

/// Specification of `script`.
pub static SPEC: Spec = Spec {
    name: "script",
    summary: "Run a script from the control machine on the host",
    description: &[
        "Transfers the script to the host, runs it with the given arguments, and removes it. The script needs an \
         interpreter in its first line, or `executable`, but no executable bit.",
    ],
    options: &[
        Opt::new("_raw_params", Kind::Str, "Path of the script and its arguments, as free text."),
        Opt::new("_original_basename", Kind::Str, "File name of the script."),
        Opt::new("cmd", Kind::Str, "Path of the script and its arguments."),
        CHDIR,
        CREATES,
        REMOVES,
        Opt::new("executable", Kind::Str, "Program, with options, that runs the script."),
        Opt::new("decrypt", Kind::Bool, "Decrypt a script that is encrypted with vault.").default("true"),
        Opt::new("_content", Kind::Int, "Index of the script among the controller's contents.").default("0"),
    ],
    mutually_exclusive: &[&["_raw_params", "cmd"]],
    free_form: Some("_raw_params"),
    check: Check::Partial,
    examples: "- name: Prepare the disk\n  ansible.builtin.script: files/prepare-disk.sh --device /dev/sdb\n  args:\n    creates: /data/.prepared\n",
    returns: &[
        Return { name: "rc", kind: "int", when: "always", doc: "Exit status; negative if a signal ended the script." },
        Return { name: "stdout", kind: "str", when: "always", doc: "Standard output." },
        Return { name: "stderr", kind: "str", when: "always", doc: "Standard error." },
        Return { name: "stdout_lines", kind: "list", when: "always", doc: "Standard output as lines." },
        Return { name: "stderr_lines", kind: "list", when: "always", doc: "Standard error as lines." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Script {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let arguments = args.str("_raw_params").unwrap_or_default().trim().to_owned();
        let content = usize::try_from(args.int("_content").unwrap_or(0)).unwrap_or(0);
        let name = args.str("_original_basename").unwrap_or(&host.content(content)?.name);
        let name = Path::new(name).file_name().map_or_else(|| PathBuf::from("script"), PathBuf::from);
        let shown = format!("{} {arguments}", name.display()).trim_end().to_owned().into();
        check_directory(args, &shown)?;
        if not_needed(args, host, &shown)?.is_some() {
            let (path, reason) = match args.str("creates") {
                Some(creates) if crate::files::glob::any(&base(args).join(creates)) => {
                    (creates, "exists, matching creates option")
                }
                _ => (args.str("removes").unwrap_or_default(), "does not exist, matching removes option"),
            };
            return Ok(Plan::skipped(format!("{path} {reason}")));
        }
        let executable = args.str("executable").map(str::to_owned);
        let directory = args.str("chdir").map(PathBuf::from);
        if host.check() && args.str("creates").is_none() && args.str("removes").is_none() {
            return Ok(Plan::skipped("Check mode is not supported for this task."));
        }
        Ok(Plan::change(move |host, outcome| {
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
            let ran = super::execution::run(Execution { shown, command, strip: false }, host, outcome);
            outcome.data = without_command(std::mem::take(&mut outcome.data));
            ran.map_err(|failure| Failure { data: without_command(failure.data), ..failure })
        }))
    }
}

/// Keeps output and exit status. The result contains neither the temporary command nor its times.
fn without_command(mut data: Map) -> Map {
    data.retain(|key, _| !matches!(key.as_str(), "cmd" | "start" | "end" | "delta" | "msg"));
    data
}

fn write(host: &Host, content: usize, path: &Path) -> Result<(), Failure> {
    let refuse = |error: io::Error| {
        Failure::new(format!("The script could not be written to {}: {}.", path.display(), reason(&error)))
    };
    let mut file = File::options().write(true).create_new(true).mode(0o700).open(path).map_err(refuse)?;
    io::copy(&mut host.read_content(content)?, &mut file).and_then(|_| file.flush()).map_err(refuse)
}
