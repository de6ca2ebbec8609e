//! `synchronize`: directories kept equal by rsync.
//!
//! The controller decides where rsync runs: on the control machine for a host behind a connection, which rsync then uses through the program
//! `_rsh` names, or on the host itself if both paths are there.

use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    module::Diff,
    process::{self, Command},
};

/// The `synchronize` module.
pub struct Synchronize;

/// What it takes and returns.
pub static SPEC: Spec = Spec {
    name: "synchronize",
    collection: "ansible.posix",
    summary: "Keep directories equal with rsync",
    description: &[
        "Copies from the control machine to the host, or with `mode: pull` the other way round, and sends only what differs. rsync goes through the \
         connection that is open already, with its verified host key, its login and its become user.",
        "With `delegate_to` rsync runs on that host; delegated to the host itself, both paths are there.",
        "If rsync is missing on one side, trees are pushed without it: by content, with their permissions and links, but without owners and times.",
    ],
    options: &[
        Opt::required("src", Kind::Path, "File or directory to copy; with a slash at its end, its content only.")
            .word(),
        Opt::required("dest", Kind::Path, "Where to.").word(),
        Opt::new("dest_port", Kind::Int, "The port of SSH on the other host, if rsync runs on a host."),
        Opt::new("mode", Kind::Str, "From here to the host, or from the host to here.")
            .default("\"push\"")
            .choices(&["pull", "push"]),
        Opt::new("archive", Kind::Bool, "Recursively, with links, permissions, times, owner, group and devices.")
            .default("true"),
        Opt::new("checksum", Kind::Bool, "Compare by checksum instead of by time and size.").default("false"),
        Opt::new("compress", Kind::Bool, "Compress on the way.").default("true"),
        Opt::new("existing_only", Kind::Bool, "Make no new files.").default("false"),
        Opt::new("delete", Kind::Bool, "Remove what the source has not.").default("false"),
        Opt::new("dirs", Kind::Bool, "Transfer directories without recursing.").default("false"),
        Opt::new("recursive", Kind::Bool, "Recurse into directories; as `archive` if not given."),
        Opt::new("links", Kind::Bool, "Copy links as links; as `archive` if not given."),
        Opt::new("copy_links", Kind::Bool, "Copy what links point to.").default("false"),
        Opt::new("perms", Kind::Bool, "Keep permissions; as `archive` if not given."),
        Opt::new("times", Kind::Bool, "Keep times; as `archive` if not given."),
        Opt::new("owner", Kind::Bool, "Keep the owner; as `archive` if not given."),
        Opt::new("group", Kind::Bool, "Keep the group; as `archive` if not given."),
        Opt::new("rsync_path", Kind::Str, "The rsync of the other side, or a command that runs it."),
        Opt::new("rsync_timeout", Kind::Int, "Seconds without progress after which rsync gives up; 0 is never.")
            .default("0"),
        Opt::new("rsync_opts", Kind::List(&Kind::Str), "Further options of rsync.").default("[]"),
        Opt::new("set_remote_user", Kind::Bool, "Log in as the user of the connection.").default("true"),
        Opt::new("use_ssh_args", Kind::Bool, "Accepted: the connection always has them.").default("false"),
        Opt::new("ssh_connection_multiplexing", Kind::Bool, "Accepted: the open connection is always used.")
            .default("false"),
        Opt::new("partial", Kind::Bool, "Keep files that arrived in part.").default("false"),
        Opt::new("verify_host", Kind::Bool, "Verify the host key, if rsync runs on a host; from here it always is.")
            .default("false"),
        Opt::new("private_key", Kind::Path, "The key to log in with, if rsync runs on a host."),
        Opt::new("link_dest", Kind::List(&Kind::Path), "Link to files in these directories that did not change."),
        Opt::new("delay_updates", Kind::Bool, "Put files in their places when all have arrived.").default("true"),
        Opt::new("_rsh", Kind::Str, "The program by which rsync reaches the other side."),
    ],
    examples: "- name: Bring the site\n  ansible.posix.synchronize:\n    src: site/\n    dest: /var/www/html\n    delete: true\n\n\
               - name: Get the logs\n  ansible.posix.synchronize:\n    mode: pull\n    src: /var/log/app/\n    dest: logs/\n",
    returns: &[
        Return { name: "msg", kind: "str", when: "always", doc: "What rsync says of each file." },
        Return { name: "stdout_lines", kind: "list", when: "success", doc: "The same in lines." },
        Return { name: "cmd", kind: "str", when: "always", doc: "The command." },
        Return { name: "rc", kind: "int", when: "always", doc: "Its exit status." },
    ],
    missing: Some("synchronize requires both src and dest parameters are set"),
    ..Spec::EMPTY
};

/// What rsync puts before the line of a file that it changes.
const MARK: &str = "<<CHANGED>>";

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
        let program = process::find(host, "rsync").ok_or_else(|| {
            Failure::new("Failed to find required executable \"rsync\": install rsync on this machine.")
        })?;
        let mut words = vec![program.display().to_string()];
        words.extend(switches(args, host.check()));
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
            // Without more words rsync does not tell of hard links.
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
        // With links to other directories a line is there for every file; a dot says that nothing was done.
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

/// A word as a shell would take it; of an option's word only the value is quoted.
fn shown(word: &str) -> String {
    match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => format!("{option}={}", shell_words::quote(value)),
        _ => shell_words::quote(word).into_owned(),
    }
}

/// The options that stand for one argument each.
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
