//! `synchronize`: mirrors directories with rsync.
//!
//! The controller decides where rsync runs. For a remote host, rsync runs on the control machine and connects through
//! the program in `_rsh`. If both paths are on the host, rsync runs there.

use std::io::ErrorKind;

use super::way::{Link, Place};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    module::Diff,
    process::{self, Command},
};

/// The `synchronize` module.
pub struct Synchronize;

/// Specification of `synchronize`.
pub static SPEC: Spec = Spec {
    name: "synchronize",
    collection: "ansible.posix",
    summary: "Synchronize directories with rsync",
    description: &[
        "Copies from the control machine to the host, or with `mode: pull` in the other direction, and transfers \
         only differences. rsync uses the open connection with its verified host key, its login and its become user.",
        "With `delegate_to`, rsync runs on the delegated host; if that is the host itself, both paths are local to it.",
        "From another host come no links that lead out of the copied tree, no devices or pipes, and no bits that let \
         files run as their owner or group, unless `links: true` or `rsync_opts` ask for them, as with `--devices`, \
         `--specials` and `--chmod`.",
        "If rsync is missing on one side, pushes trees by content, with permissions and links, but without owners \
         and times.",
    ],
    options: &[
        Opt::required("src", Kind::Path, "File or directory to copy; with a trailing slash, only its content.").word(),
        Opt::required("dest", Kind::Path, "Destination path.").word(),
        Opt::new("dest_port", Kind::Int, "SSH port of the other host, if rsync runs on a host."),
        Opt::new("mode", Kind::Str, "Direction: `push` copies to the host, `pull` from the host.")
            .default("\"push\"")
            .choices(&["pull", "push"]),
        Opt::new("archive", Kind::Bool, "Recurse, and keep links, permissions, times, owner, group and devices.")
            .default("true"),
        Opt::new("checksum", Kind::Bool, "Compare by checksum instead of time and size.").default("false"),
        Opt::new("compress", Kind::Bool, "Compress the transfer.").default("true"),
        Opt::new("existing_only", Kind::Bool, "Do not create new files.").default("false"),
        Opt::new("delete", Kind::Bool, "Remove files that the source does not contain.").default("false"),
        Opt::new("dirs", Kind::Bool, "Transfer directories without recursing.").default("false"),
        Opt::new("recursive", Kind::Bool, "Recurse into directories. Default: value of `archive`."),
        Opt::new("links", Kind::Bool, "Copy links as links. Default: value of `archive`."),
        Opt::new("copy_links", Kind::Bool, "Copy the targets of links.").default("false"),
        Opt::new("perms", Kind::Bool, "Keep permissions. Default: value of `archive`."),
        Opt::new("times", Kind::Bool, "Keep times. Default: value of `archive`."),
        Opt::new("owner", Kind::Bool, "Keep the owner. Default: value of `archive`."),
        Opt::new("group", Kind::Bool, "Keep the group. Default: value of `archive`."),
        Opt::new("rsync_path", Kind::Str, "Path or command of rsync on the other side."),
        Opt::new("rsync_timeout", Kind::Int, "Seconds without progress before rsync gives up; 0 waits forever.")
            .default("0"),
        Opt::new("rsync_opts", Kind::List(&Kind::Str), "Additional options of rsync.").default("[]"),
        Opt::new("set_remote_user", Kind::Bool, "Log in as the user of the connection.").default("true"),
        Opt::new(
            "use_ssh_args",
            Kind::Bool,
            "No effect, because the connection always uses its SSH arguments; accepted for compatibility.",
        )
        .default("false"),
        Opt::new(
            "ssh_connection_multiplexing",
            Kind::Bool,
            "No effect, because the open connection is always used; accepted for compatibility.",
        )
        .default("false"),
        Opt::new("partial", Kind::Bool, "Keep partially transferred files.").default("false"),
        Opt::new(
            "verify_host",
            Kind::Bool,
            "Verify the host key, if rsync runs on a host. The control machine always verifies it.",
        )
        .default("false"),
        Opt::new("private_key", Kind::Path, "Private key for the login, if rsync runs on a host."),
        Opt::new(
            "link_dest",
            Kind::List(&Kind::Path),
            "Directories whose unchanged files are hard-linked instead of copied.",
        ),
        Opt::new("delay_updates", Kind::Bool, "Move files into place after all have arrived.").default("true"),
        Opt::new("_rsh", Kind::Str, "Program through which rsync connects to the other side."),
    ],
    examples: "- name: Bring the site\n  ansible.posix.synchronize:\n    src: site/\n    dest: /var/www/html\n    delete: true\n\n\
               - name: Get the logs\n  ansible.posix.synchronize:\n    mode: pull\n    src: /var/log/app/\n    dest: logs/\n",
    returns: &[
        Return { name: "msg", kind: "str", when: "always", doc: "Output of rsync about each file." },
        Return { name: "stdout_lines", kind: "list", when: "success", doc: "Output of rsync in lines." },
        Return { name: "cmd", kind: "str", when: "always", doc: "Command that was run." },
        Return { name: "rc", kind: "int", when: "always", doc: "Exit status of rsync." },
    ],
    missing: Some("synchronize requires both src and dest parameters are set"),
    ..Spec::EMPTY
}
.compiled();

/// Prefix of rsync's output lines for changed files.
const MARK: &str = "<<CHANGED>>";

/// Characters with which a path becomes a command of the other side's shell, which an rsync before 3.2.4 lets read it.
/// Whoever may create files there chooses the names that a task found and passes on.
const OF_SHELLS: &[char] = &['$', '`', ';', '&', '|', '<', '>', '(', ')', '\n'];

impl Module for Synchronize {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let task = Task::of(args, host)?;
        if host.check() {
            let mut outcome = Outcome::default();
            task.run(host, &mut outcome)?;
            let plan = if outcome.changed { Plan::change(|_, _| Ok(())) } else { Plan::unchanged() };
            return Ok(outcome.diff.into_iter().fold(plan.with_all(outcome.data), Plan::with_diff));
        }
        Ok(Plan::change(move |host, outcome| task.run(host, outcome)))
    }
}

struct Task {
    words: Vec<String>,
    linked: bool,
}

impl Task {
    fn of(args: &Args, host: &Host) -> Result<Task, Failure> {
        let (src, dest) = (args.required("src")?, args.required("dest")?);
        if src.starts_with("rsync://") && dest.starts_with("rsync://") {
            return Err(Failure::new("either src or dest must be a localhost").with("rc", 1));
        }
        refuse_link(dest)?;
        let program = process::find(host, "rsync").ok_or_else(|| {
            Failure::new("Failed to find required executable \"rsync\": install rsync on this machine.")
        })?;
        let mut words = vec![program.display().to_string()];
        words.extend(switches(args, host.check()));
        if is_remote(src) {
            words.extend(pull_switches(args).map(str::to_owned));
        }
        if [src, dest].into_iter().any(|path| is_remote(path) && path.contains(OF_SHELLS)) {
            words.push("--protect-args".to_owned());
        }
        let own_shell = args.list("rsync_opts").iter().any(|option| option.contains("--rsh"));
        if let Some(rsh) = args.str("_rsh").filter(|_| !own_shell) {
            words.push(format!("--rsh={rsh}"));
        }
        if let Some(path) = args.str("rsync_path") {
            words.push(format!("--rsync-path={path}"));
        }
        for option in args.list("rsync_opts") {
            let split = shell_words::split(option)
                .map_err(|error| Failure::new(format!("The option {option} of rsync_opts cannot be read: {error}.")))?;
            words.extend(split);
        }
        if args.bool("partial") {
            words.push("--partial".to_owned());
        }
        let linked = args.value("link_dest").is_some();
        if linked {
            // rsync reports hard links only in verbose mode.
            words.extend(["-H".to_owned(), "-vv".to_owned()]);
            let folder = std::path::Path::new(dest).parent().map(|folder| folder.display().to_string());
            for path in args.list("link_dest") {
                if folder.as_ref().is_some_and(|folder| folder.starts_with(path)) {
                    return Err(Failure::new(format!(
                        "Hardlinking into a subdirectory of the source would cause recursion. {} and {dest}",
                        folder.unwrap_or_default()
                    )));
                }
                words.push(format!("--link-dest={path}"));
            }
        }
        words.push(format!("--out-format={MARK}%i %n%L"));
        words.extend([src.to_owned(), dest.to_owned()]);
        Ok(Task { words, linked })
    }

    fn run(&self, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        let (program, arguments) = self.words.split_first().ok_or_else(|| Failure::new("There is no rsync to run."))?;
        let shown: Vec<_> = self.words.iter().map(|word| shown(word)).collect();
        let shown = shown.join(" ");
        let output = Command::new(program.as_str()).args(arguments.iter().map(String::as_str)).live().run(host)?;
        if !output.success() {
            let data = Map::from_iter([("rc".to_owned(), output.rc.into()), ("cmd".to_owned(), shown.into())]);
            return Err(Failure { message: output.stderr_text(), data });
        }
        let said = output.stdout_text();
        // With `link_dest`, rsync prints a line for every file; a leading dot means unchanged.
        outcome.changed = match self.linked {
            true => !said.contains(&format!("{MARK}.")),
            false => said.contains(MARK),
        };
        let said = said.replace(MARK, "");
        if host.diff() {
            outcome.diff.push(Diff { prepared: Some(said.clone()), ..Diff::default() });
        }
        outcome.set("stdout_lines", said.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>());
        outcome.set("msg", said);
        outcome.set("rc", 0);
        outcome.set("cmd", shown);
        Ok(())
    }
}

/// Whether a path is on another host.
fn is_remote(path: &str) -> bool {
    path.split('/').next().is_some_and(|start| start.contains(':'))
}

/// Options for a source on another host, which chooses what it sends: no links out of the copied tree, no devices, and
/// no programs that run as their owner. Options of the task come later and override them.
fn pull_switches(args: &Args) -> impl Iterator<Item = &'static str> {
    let options = args.list("rsync_opts");
    let asks_for_links = args.maybe_bool("links") == Some(true)
        || options.iter().any(|option| option.split_whitespace().any(|word| matches!(word, "--links" | "-l")));
    let links = (!asks_for_links).then_some("--safe-links");
    links.into_iter().chain(["--no-devices", "--no-specials", "--chmod=ug-s"])
}

/// Refuses a local destination behind a link of another user that leads to files of others.
fn refuse_link(dest: &str) -> Result<(), Failure> {
    match Place::to_write(dest.as_ref(), Link::Follow) {
        Err(error) if !is_remote(dest) && error.kind() == ErrorKind::PermissionDenied => {
            Err(Failure::new(format!("{dest} cannot be used: {}.", process::reason(&error))))
        }
        _ => Ok(()),
    }
}

/// Quotes a word for a shell; in an option, only the value is quoted.
fn shown(word: &str) -> String {
    match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => format!("{option}={}", shell_words::quote(value)),
        _ => shell_words::quote(word).into_owned(),
    }
}

/// The options that map to a single argument.
fn switches(args: &Args, check: bool) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |when: bool, more: &[&str]| {
        if when {
            words.extend(more.iter().map(|word| (*word).to_owned()));
        }
    };
    add(args.bool("delay_updates"), &["--delay-updates", "-F"]);
    add(args.bool("compress"), &["--compress"]);
    if let Some(seconds) = args.int("rsync_timeout").filter(|seconds| *seconds != 0) {
        add(true, &[&format!("--timeout={seconds}")]);
    }
    add(check, &["--dry-run"]);
    add(args.bool("delete"), &["--delete-after"]);
    add(args.bool("existing_only"), &["--existing"]);
    add(args.bool("checksum"), &["--checksum"]);
    add(args.bool("copy_links"), &["--copy-links"]);
    let archive = args.bool("archive");
    add(archive, &["--archive"]);
    for name in ["recursive", "links", "perms", "times", "owner", "group"] {
        let given = args.maybe_bool(name);
        add(archive && given == Some(false), &[&format!("--no-{name}")]);
        add(!archive && given == Some(true), &[&format!("--{name}")]);
    }
    add(args.bool("dirs"), &["--dirs"]);
    words
}
