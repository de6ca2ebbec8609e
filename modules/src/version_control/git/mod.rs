//! `git`: clones of Git repositories.

pub(crate) mod address;
mod archive;
pub(crate) mod program;
mod remote;
mod repository;
mod submodules;
mod target;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    files::{
        way::{self, Link, Place},
        write::{Source, Wanted},
    },
    process::reason,
    run::carry_out,
};
use address::Address;
use program::Program;
use remote::Remote;
use repository::Repository;

/// The `git` module.
pub struct Git;

static SPEC: Spec = Spec {
    name: "git",
    summary: "Manage clones of Git repositories",
    description: &[
        "Clones, fetches and checks out with the host's `git`. `version` is a branch, a tag or a commit; `HEAD` \
         means the server's default branch.",
        "Passes a password in the URL through git's credential protocol. It appears neither on a command line nor in \
         the clone or the result.",
        "Check mode queries the server for the version without fetching.",
    ],
    options: &[
        Opt::required("repo", Kind::Str, "URL of the repository, or a path on the host.")
            .address()
            .word()
            .aliases(&["name"]),
        Opt::new("dest", Kind::Path, "Path of the clone. Not needed with `clone: false`.").word(),
        Opt::new("version", Kind::Str, "Branch, tag, commit, or `HEAD`.").word().default("\"HEAD\""),
        Opt::new("accept_hostkey", Kind::Bool, "Accept any SSH host key without verification.").default("false"),
        Opt::new("accept_newhostkey", Kind::Bool, "Accept the SSH host key of an unknown server.").default("false"),
        Opt::new("ssh_opts", Kind::Str, "Options for `ssh`."),
        Opt::new("key_file", Kind::Path, "Private key for SSH."),
        Opt::new("remote", Kind::Str, "Name of the remote.").word().default("\"origin\""),
        Opt::new("refspec", Kind::Str, "Additional refspec to fetch.").word(),
        Opt::new("force", Kind::Bool, "Discard local changes.").default("false"),
        Opt::new("depth", Kind::Int, "Number of commits of history to fetch."),
        Opt::new("clone", Kind::Bool, "Clone if the repository does not exist.").default("true"),
        Opt::new("update", Kind::Bool, "Fetch new commits.").default("true"),
        Opt::new("executable", Kind::Path, "Path of `git`."),
        Opt::new("bare", Kind::Bool, "Create a repository without a working tree.").default("false"),
        Opt::new("umask", Kind::Raw, "Mask for the permissions of new files, as octal digits in quotes."),
        Opt::new("recursive", Kind::Bool, "Include submodules.").default("true"),
        Opt::new("single_branch", Kind::Bool, "Fetch only the history of the version.").default("false"),
        Opt::new("track_submodules", Kind::Bool, "Check out submodules at the newest commit of their branch.")
            .default("false"),
        Opt::new("verify_commit", Kind::Bool, "Verify the signature of the commit or tag.").default("false"),
        Opt::new("gpg_allowlist", Kind::List(&Kind::Str), "Fingerprints of the keys that may have signed the version.")
            .aliases(&["gpg_whitelist"])
            .default("[]"),
        Opt::new("reference", Kind::Str, "Repository on the host to take objects from.").word(),
        Opt::new("separate_git_dir", Kind::Path, "Path for the repository data, outside the working tree."),
        Opt::new("archive", Kind::Path, "Path of an archive of the version to write (zip, tar.gz, tgz, tar)."),
        Opt::new("archive_prefix", Kind::Str, "Prefix of all paths in the archive."),
    ],
    mutually_exclusive: &[&["separate_git_dir", "bare"], &["accept_hostkey", "accept_newhostkey"]],
    required_by: &[("archive_prefix", &["archive"])],
    examples: "- name: The application at its release\n  ansible.builtin.git:\n    repo: https://git.example.org/app.git\n    dest: /srv/app\n    version: v1.4.2\n",
    returns: &[
        Return {
            name: "before",
            kind: "str",
            when: "success",
            doc: "Commit before the task; null if the repository did not exist.",
        },
        Return { name: "after", kind: "str", when: "success", doc: "Commit after the task." },
        Return {
            name: "remote_url_changed",
            kind: "bool",
            when: "the repository existed",
            doc: "Whether the URL of the remote changed.",
        },
        Return {
            name: "submodules_changed",
            kind: "bool",
            when: "submodules changed",
            doc: "Whether submodules were updated.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

/// The parsed arguments.
#[derive(Clone)]
struct Wish {
    /// URL without a password.
    repo: String,
    version: String,
    remote: String,
    refspec: Option<String>,
    reference: Option<String>,
    depth: Option<i64>,
    force: bool,
    bare: bool,
    recursive: bool,
    single_branch: bool,
    track_submodules: bool,
    verify: bool,
    allowed: Vec<String>,
    separate: Option<PathBuf>,
    archive: Option<(PathBuf, Option<String>)>,
}

impl Wish {
    fn of(args: &Args) -> Result<Wish, Failure> {
        let text = |name: &str| args.filled(name).map(str::to_owned);
        let repo = args.required("repo")?;
        let archive = args.str("archive").map(|path| (PathBuf::from(path), text("archive_prefix")));
        if let Some((path, _)) = &archive {
            archive::format(path)?;
        }
        address::check_remote(args.required("remote")?)?;
        Ok(Wish {
            // git treats a path as a server, with support for depth, only if it has a scheme.
            repo: if repo.starts_with('/') { format!("file://{repo}") } else { Address::of(repo)?.plain },
            version: args.required("version")?.to_owned(),
            remote: args.required("remote")?.to_owned(),
            refspec: text("refspec"),
            reference: text("reference"),
            depth: args.int("depth"),
            force: args.bool("force"),
            bare: args.bool("bare"),
            recursive: args.bool("recursive"),
            single_branch: args.bool("single_branch"),
            track_submodules: args.bool("track_submodules"),
            verify: args.bool("verify_commit"),
            allowed: args.list("gpg_allowlist").into_iter().map(str::to_owned).collect(),
            separate: args.str("separate_git_dir").map(|path| absolute(Path::new(path))),
            archive,
        })
    }
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

impl Module for Git {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let wish = Wish::of(args)?;
        let program = Program::of(args, host)?;
        let clone = args.bool("clone");
        let Some(dest) = args.str("dest").map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into())) else {
            if clone {
                return Err(Failure::new("the destination directory must be specified unless clone=no"));
            }
            let remote = Remote { program: &program, address: &wish.repo, directory: None };
            return Ok(first(Plan::change(|_, _| Ok(())), remote.commit_of(&wish.version, host)?, host));
        };
        match Place::to_write(&dest, Link::Follow) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unusable(&dest, &error)),
            _ => {}
        }
        let moves = moves(&dest, &wish)?;
        let folder = repository::folder_of(&dest, wish.bare)?;
        if !folder.join("config").exists() {
            if host.check() || !clone {
                let remote = Remote { program: &program, address: &wish.repo, directory: None };
                let after = remote.commit_of(&wish.version, host)?;
                return Ok(first(Plan::change(|_, _| Ok(())), after, host));
            }
            return Ok(Plan::change(move |host, outcome| clone_it(&program, &dest, &wish, host, outcome))
                .with("before", Value::Null));
        }
        let repository = Repository::open(&program, &dest, wish.bare)?;
        if !args.bool("update") {
            let before = repository.head(host)?;
            let plan = match wish.archive.clone() {
                None if moves.is_none() => Plan::unchanged(),
                archive => Plan::change(move |host, outcome| {
                    let moved = carry_move(moves, &dest, host)?;
                    let version = wish.version.clone();
                    let archived = match archive {
                        Some(archive) => archive::write(&repository, &archive, &version, host)?,
                        None => false,
                    };
                    outcome.changed = moved || archived;
                    Ok(())
                }),
            };
            return Ok(plan.with("before", before.clone()).with("after", before));
        }
        update(repository, wish, moves, host)
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{} cannot be used: {}.", path.display(), reason(error)))
}

/// The plan of a first checkout, with its result keys.
fn first(plan: Plan, after: Value, host: &Host) -> Plan {
    let shown = format!(">> Newly checked out {}", after.as_str().unwrap_or_default());
    let plan = plan.with("before", Value::Null).with("after", after);
    if host.diff() { plan.with_diff(Diff { prepared: Some(shown), ..Diff::default() }) } else { plan }
}

/// The move of the repository data out of the working tree, if needed.
fn moves(dest: &Path, wish: &Wish) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
    let folder = repository::folder_of(dest, wish.bare)?;
    let target = wish.separate.clone().filter(|target| folder.exists() && absolute(&folder) != *target);
    if let Some(target) = &target
        && target.exists()
    {
        return Err(Failure::new(format!("Separate-git-dir path {} already exists.", target.display())));
    }
    Ok(target.map(|target| (folder, target)))
}

fn carry_move(moves: Option<(PathBuf, PathBuf)>, dest: &Path, host: &Host) -> Result<bool, Failure> {
    let Some((from, to)) = moves else { return Ok(false) };
    let link = dest.join(".git");
    way::rename(&from, &to).map_err(|error| {
        Failure::new(format!("Unable to move git dir {} to {}: {}.", from.display(), to.display(), reason(&error)))
    })?;
    let text = format!("gitdir: {}", to.display());
    carry_out(Wanted::new(link, Source::Bytes(text.into_bytes())).plan(host)?, host)?;
    Ok(true)
}

fn clone_it(program: &Program, dest: &Path, wish: &Wish, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
    let repository = Repository::cloned(program, dest, wish, host, outcome)?;
    finish(&repository, wish, Value::Null, true, host, outcome)
}

/// Updates an existing clone.
fn update(repository: Repository, wish: Wish, moves: Option<(PathBuf, PathBuf)>, host: &Host) -> Result<Plan, Failure> {
    let before = repository.head(host)?;
    let dest = repository.dest.display().to_string();
    let modified = repository.is_modified(host)?;
    if modified && !wish.force {
        return Err(Failure::new(format!("Local modifications exist in the destination: {dest} (force=no)."))
            .with("before", before));
    }
    let address = repository.remote_url(&wish.remote, host)?;
    let readdressed = address.as_ref().is_some_and(|known| {
        // An older clone may keep a password in its URL, which does not count as a difference.
        let known = Address::of(known).map_or_else(|_| known.clone(), |known| known.plain);
        known != wish.repo && !same_path(&known, &wish.repo)
    });
    if host.check() {
        let remote = Remote {
            program: &repository.program,
            address: if readdressed || address.is_none() { &wish.repo } else { &wish.remote },
            directory: Some(&repository.directory()),
        };
        let version =
            if wish.version == "HEAD" { repository.branch(&wish.remote, host)? } else { wish.version.clone() };
        let after = remote.commit_of(&version, host)?;
        let changed = before != after || readdressed || modified || moves.is_some();
        let plan = if changed { Plan::change(|_, _| Ok(())) } else { Plan::unchanged() };
        let plan =
            plan.with("before", before.clone()).with("after", after.clone()).with("remote_url_changed", readdressed);
        let diff = if host.diff() { repository.difference(&before, &after, host)? } else { None };
        return Ok(plan.with_diff(diff));
    }
    let start = before.clone();
    let plan = Plan::change(move |host, outcome| {
        let moved = carry_move(moves, &repository.dest, host)?;
        if modified {
            repository.run(&["reset", "--hard", "HEAD"], host)?;
            outcome.set("msg", format!("Local modifications exist in the destination: {dest}"));
        }
        repository.set_remote_url(&wish, address.as_deref(), host)?;
        repository.fetch(&wish, host)?;
        finish(&repository, &wish, start, moved || modified || readdressed, host, outcome)
    });
    Ok(plan.with("before", before).with("remote_url_changed", readdressed))
}

/// Whether two paths are equal apart from notation.
fn same_path(one: &str, other: &str) -> bool {
    let path = |text: &str| {
        let text = text.strip_prefix("file://").unwrap_or(text).to_owned();
        Path::new(&text).is_absolute().then(|| absolute(Path::new(&text)))
    };
    path(one).is_some() && path(one) == path(other)
}

/// Checks the version out, with submodules, and reports the outcome.
fn finish(
    repository: &Repository,
    wish: &Wish,
    before: Value,
    changed: bool,
    host: &Host,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    if !repository.bare {
        repository.check_out(wish, host)?;
    }
    let mut submodules = false;
    if wish.recursive && !repository.bare {
        submodules = submodules::outdated(repository, wish, host)?;
        if submodules {
            outcome.set("submodules_changed", true);
            submodules::update(repository, wish, host)?;
        }
    }
    let after = repository.head(host)?;
    outcome.changed = changed || submodules || before != after;
    if outcome.changed && host.diff() {
        outcome.diff.extend(repository.difference(&before, &after, host)?);
    }
    outcome.set("after", after);
    if let Some(archive) = &wish.archive {
        let written = archive::write(repository, archive, &wish.version, host)?;
        outcome.changed |= written;
    }
    Ok(())
}

/// Result keys of a git failure.
fn failed(what: &str, output: &crate::process::Output, words: &[String]) -> Failure {
    let mut data = Map::new();
    data.insert("cmd".into(), words.to_vec().into());
    data.insert("rc".into(), output.rc.into());
    data.insert("stdout".into(), output.stdout_text().into());
    data.insert("stderr".into(), output.stderr_text().into());
    Failure { message: format!("{what}: {}", output.message()), data }
}
