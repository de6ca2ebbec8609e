//! `unarchive`: unpacks an archive on the host.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    path::{Path, PathBuf},
};

use super::{
    budget::check_room,
    compare::difference,
    extract::Extraction,
    format::Format,
    links,
    member::{Member, MemberKind},
    options::Extra,
    select::Selection,
    tarball, zipped,
};
use crate::{
    Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::{
        attributes::Attributes,
        info::describe,
        mode::masked,
        scratch::{Scratch, spool},
        way::Link,
    },
    http::download,
    process::reason,
};

/// The `unarchive` module.
pub struct Unarchive;

/// Specification of `unarchive`.
pub static SPEC: Spec = Spec {
    name: "unarchive",
    summary: "Unpack an archive on the host",
    description: &[
        "Unpacks zip archives and tar archives, plain or compressed with gzip, bzip2, xz or zstd. Needs no program \
         on the host. Detects the format from the content, not from the name.",
        "Compares type, size, time, permissions, content and, for root, owner of each member with the host first. \
         Changes nothing if all match. Writes each file atomically.",
        "Unpacks links, relative or absolute, only if they lead to a path in `dest`. With `--absolute-names` in \
         `extra_opts`, allows other links, but writes nothing through them. Refuses devices and members whose path \
         leaves `dest`.",
        "Refuses an archive that unpacks to more than both 4 GiB and 2,000 times its size. Also refuses more than \
         five million members, and content that exceeds the free space of `dest`.",
    ],
    options: crate::with_attributes![
        Opt::required(
            "src",
            Kind::Path,
            "Archive: a file of the project, a file on the host with `remote_src`, or a URL."
        )
        .address(),
        Opt::required("dest", Kind::Path, "Directory to unpack into."),
        Opt::new("remote_src", Kind::Bool, "Take `src` from the host, or let the host download it.").default("false"),
        Opt::new("creates", Kind::Path, "Skip the task if this path exists."),
        Opt::new("list_files", Kind::Bool, "Return the names of all members.").default("false"),
        Opt::new("keep_newer", Kind::Bool, "Keep existing files that are newer than the archived ones.")
            .default("false"),
        Opt::new("exclude", Kind::List(&Kind::Str), "Patterns of members to exclude, including everything below them.")
            .default("[]"),
        Opt::new(
            "include",
            Kind::List(&Kind::Str),
            "Members to unpack, including everything below them. Default: all."
        )
        .default("[]"),
        Opt::new(
            "extra_opts",
            Kind::List(&Kind::Str),
            "Options of `tar` or `unzip`, such as `--strip-components=1`. An unsupported option is an error."
        )
        .default("[]"),
        Opt::new("validate_certs", Kind::Bool, "Verify the server's certificate if `src` is a URL.").default("true"),
        Opt::new("io_buffer_size", Kind::Int, "No effect; accepted for compatibility.").default("65536"),
        Opt::new("copy", Kind::Bool, "Opposite of `remote_src`, which is preferred.").default("true"),
        Opt::new("decrypt", Kind::Bool, "Decrypt an archive of the project that is encrypted with vault.")
            .default("true"),
        Opt::new("_content", Kind::Int, "Index of the archive among the controller's contents."),
        Opt::new("_original_basename", Kind::Str, "File name of the archive."),
    ],
    mutually_exclusive: &[&["include", "exclude"]],
    examples: "- name: Unpack a release of the project\n  ansible.builtin.unarchive:\n    src: tool-1.4.tar.gz\n    dest: /opt/tool\n    \
               extra_opts: [--strip-components=1]\n\n\
               - name: Unpack what is on the host already\n  ansible.builtin.unarchive:\n    src: /var/cache/tool.zip\n    dest: /usr/local/bin\n    \
               remote_src: true\n    include: [tool]\n    mode: '0755'\n",
    returns: &[
        Return { name: "dest", kind: "str", when: "always", doc: "Directory that the archive was unpacked into." },
        Return { name: "src", kind: "str", when: "always", doc: "Path or URL of the archive." },
        Return { name: "handler", kind: "str", when: "always", doc: "Name of the unpacker for this format." },
        Return {
            name: "files",
            kind: "list",
            when: "`list_files`",
            doc: "Names of the members, after stripping by `extra_opts`.",
        },
        Return { name: "mode", kind: "str", when: "always", doc: "Permissions of the directory." },
        Return { name: "owner", kind: "str", when: "always", doc: "Owner of the directory." },
        Return { name: "group", kind: "str", when: "always", doc: "Group of the directory." },
        Return { name: "uid", kind: "int", when: "always", doc: "User id of the owner." },
        Return { name: "gid", kind: "int", when: "always", doc: "Group id of the group." },
        Return { name: "size", kind: "int", when: "always", doc: "Size of the directory entry, in bytes." },
        Return { name: "state", kind: "str", when: "always", doc: "Always `directory`." },
    ],
    missing: Some("src (or content) and dest are required"),
    ..Spec::EMPTY
}
.compiled();

/// Callback for each member of an archive, with its content.
pub(super) type Visit<'a> = &'a mut dyn FnMut(Member, &mut dyn Read) -> Result<(), Failure>;

/// The parsed arguments.
pub(super) struct Task {
    pub(super) dest: PathBuf,
    pub(super) attributes: Attributes,
    pub(super) owner_given: bool,
    pub(super) group_given: bool,
    pub(super) keep_newer: bool,
    pub(super) selection: Selection,
    pub(super) extra: Extra,
    is_root: bool,
}

impl Task {
    /// The account of a member, if ownership is kept.
    pub(super) fn owner_from(
        &self,
        name: Option<&str>,
        number: Option<u64>,
        find: impl FnOnce(&str) -> Option<u32>,
    ) -> Option<u32> {
        if !self.extra.same_owner.unwrap_or(self.is_root) {
            return None;
        }
        let named = name.filter(|name| !name.is_empty() && !self.extra.numeric_owner).and_then(find);
        named.or_else(|| u32::try_from(number?).ok())
    }

    /// Permissions of a member after unpacking.
    pub(super) fn permissions(&self, mode: u32) -> u32 {
        if self.extra.same_permissions.unwrap_or(self.is_root) { mode } else { masked(mode) & 0o777 }
    }

    fn walk(&self, path: &Path, format: Format, visit: Visit<'_>) -> Result<(), Failure> {
        match format {
            Format::Tar(packing) => tarball::walk(path, packing, self, visit),
            Format::Zip => zipped::walk(path, self, visit),
        }
    }
}

/// The archive as a file on the host. Dropping it removes a temporary copy.
struct Archive {
    path: PathBuf,
    _scratch: Option<Scratch>,
}

impl Archive {
    // A method, so that a closure captures the scratch directory too.
    fn path(&self) -> &Path {
        &self.path
    }
}

/// Result of a comparison.
#[derive(Default)]
struct Findings {
    files: Vec<String>,
    /// Members whose owner or permissions the task may set.
    paths: Vec<PathBuf>,
    /// Links of the archive, with their targets.
    links: HashMap<PathBuf, PathBuf>,
    /// Total size of the members to write.
    needed: u64,
    /// Paths to write, each with the index of its last member, which wins, and the kind of difference.
    different: HashMap<PathBuf, (usize, &'static str)>,
}

impl Findings {
    /// The differences, one line per path.
    fn in_words(&self) -> String {
        let mut all: Vec<_> = self.different.iter().map(|(path, (number, what))| (number, path, what)).collect();
        all.sort();
        all.into_iter().map(|(_, path, what)| format!("{}: {what}\n", path.display())).collect()
    }
}

impl Module for Unarchive {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let (src, dest) = (args.required("src")?, args.required("dest")?);
        let finish = |mut failure: Failure| {
            failure.data.entry("src").or_insert(src.into());
            failure.data.entry("dest").or_insert(dest.into());
            failure
        };
        plan(args, src, dest, host).map_err(finish)
    }
}

fn plan(args: &Args, src: &str, dest: &str, host: &Host) -> Result<Plan, Failure> {
    if let Some(creates) = args.str("creates").filter(|creates| Path::new(creates).symlink_metadata().is_ok()) {
        return Ok(Plan::skipped(format!("skipped, since {creates} exists")));
    }
    let archive = archive(args, src, host)?;
    let unknown = || {
        let kinds = "it is neither a tar archive (plain, gzip, bzip2, xz, zstd) nor a zip archive";
        Failure::new(format!("Failed to find handler for \"{src}\": {kinds}."))
    };
    let format = Format::of(archive.path())?.ok_or_else(unknown)?;
    let path = std::path::absolute(dest).unwrap_or_else(|_| PathBuf::from(dest));
    if !path.is_dir() && (!host.check() || path.symlink_metadata().is_ok()) {
        return Err(Failure::new(format!("Destination '{dest}' is not a directory")).with("handler", format.handler()));
    }
    let extra = Extra::parse(&args.list("extra_opts"), format == Format::Zip)?;
    let own = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let exclude = own(args.list("exclude")).into_iter().chain(extra.exclude.iter().cloned()).collect();
    let task = Task {
        attributes: Attributes::of(args, host)?,
        owner_given: args.str("owner").is_some(),
        group_given: args.str("group").is_some(),
        keep_newer: args.bool("keep_newer"),
        selection: Selection::new(own(args.list("include")), exclude),
        is_root: rustix::process::geteuid().is_root(),
        dest: path,
        extra,
    };
    let findings = compare(&task, archive.path(), format, host)?;
    let restless = !changes_of_attributes(&task, &findings)?.is_empty();
    let mut data = describe(&task.dest);
    data.insert("src".into(), src.into());
    data.insert("dest".into(), dest.into());
    data.insert("handler".into(), format.handler().into());
    if args.bool("list_files") {
        data.insert("files".into(), findings.files.clone().into());
    }
    let warnings = task.attributes.warnings();
    let plan = if findings.different.is_empty() && !restless {
        Plan::unchanged()
    } else {
        let prepared = host.diff().then(|| findings.in_words());
        let plan = Plan::change(move |host, outcome| {
            if !findings.different.is_empty() {
                extract(&task, archive.path(), format, &findings, host)?;
            }
            set_attributes(&task, &findings)?;
            outcome.data.extend(describe(&task.dest));
            Ok(())
        });
        match prepared {
            Some(prepared) => plan.with_diff(Diff { prepared: Some(prepared), ..Diff::default() }),
            None => plan,
        }
    };
    Ok(warnings.into_iter().fold(plan.with_all(data), Plan::with_warning))
}

/// Provides the archive on the host, if it is missing there.
fn archive(args: &Args, src: &str, host: &Host) -> Result<Archive, Failure> {
    let content = args.int("_content").map(|index| usize::try_from(index).unwrap_or(usize::MAX));
    let remote = args.bool("remote_src") || args.maybe_bool("copy") == Some(false);
    let mut scratch = None;
    let path = match content {
        Some(index) => {
            let place = scratch.insert(Scratch::new()?).path().join("archive");
            host.store_content(index, |content| spool(content, &place, src, host), |file| file)?;
            place
        }
        None if src.contains("://") => {
            let place = scratch.insert(Scratch::new()?).path().join("archive");
            download(args, src, host, &mut |body| spool(body, &place, src, host).map(drop))?;
            place
        }
        None if Path::new(src).exists() => PathBuf::from(src),
        None if remote => return Err(Failure::new(format!("Source '{src}' does not exist"))),
        None => return Err(Failure::new(format!("Source '{src}' failed to transfer"))),
    };
    let found = path.metadata();
    let found = found.map_err(|error| Failure::new(format!("Source '{src}' not readable: {}.", reason(&error))))?;
    if found.is_dir() {
        return Err(Failure::new(format!("Source '{src}' is a directory, not an archive.")));
    }
    if found.len() == 0 {
        return Err(Failure::new(format!("Invalid archive '{src}', the file is 0 bytes")));
    }
    Ok(Archive { path, _scratch: scratch })
}

fn compare(task: &Task, path: &Path, format: Format, host: &Host) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let mut number = 0;
    let mut seen: HashSet<PathBuf> = HashSet::new();
    task.walk(path, format, &mut |member, content| {
        host.check_cancelled()?;
        if let MemberKind::Symlink(target) = &member.kind {
            findings.links.insert(member.path.clone(), target.clone());
        } else {
            findings.links.remove(&member.path);
        }
        let slash = if member.is_directory() { "/" } else { "" };
        findings.files.push(format!("{}{slash}", member.path.display()));
        let what = match &member.kind {
            // A hard link must be rewritten with the file it refers to.
            MemberKind::HardLink(target) if findings.different.contains_key(target) => {
                Some("not a link to the same file")
            }
            _ => difference(&member, content, task, host)?,
        };
        if let (Some(_), MemberKind::File(size)) = (what, &member.kind) {
            findings.needed = findings.needed.saturating_add(*size);
        }
        match what {
            Some(what) => findings.different.insert(member.path.clone(), (number, what)),
            None => findings.different.remove(&member.path),
        };
        // The top directory belongs to the members even if the archive does not list it.
        let top = member.path.iter().next().map(PathBuf::from);
        for path in top.into_iter().chain([member.path]) {
            if seen.insert(path.clone()) {
                findings.paths.push(path);
            }
        }
        number += 1;
        Ok(())
    })?;
    if !task.extra.free_links && task.dest.is_dir() {
        links::check(&findings.links, &links::real(&task.dest)?)?;
    }
    task.selection.check_complete()?;
    if number == 0 {
        return Err(Failure::new(format!(
            "Failed to find handler: no files were found in the archive {}. Empty archive files are not supported.",
            path.display()
        )));
    }
    Ok(findings)
}

fn extract(task: &Task, path: &Path, format: Format, findings: &Findings, host: &Host) -> Result<(), Failure> {
    check_room(findings.needed, &task.dest)?;
    let mut extraction = Extraction::new(task, &findings.links, host)?;
    let mut number = 0;
    task.walk(path, format, &mut |member, content| {
        let different = findings.different.get(&member.path).is_some_and(|(wanted, _)| *wanted == number);
        number += 1;
        if different { extraction.place(member, content) } else { Ok(()) }
    })?;
    extraction.finish()
}

/// The existing members whose owner or permissions differ from the task's.
fn changes_of_attributes(task: &Task, findings: &Findings) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in findings.paths.iter().map(|path| task.dest.join(path)).filter(|path| path.symlink_metadata().is_ok()) {
        if !task.attributes.changes(&path, Link::NoFollow)?.is_empty() {
            found.push(path);
        }
    }
    Ok(found)
}

fn set_attributes(task: &Task, findings: &Findings) -> Result<(), Failure> {
    for path in changes_of_attributes(task, findings)? {
        task.attributes.apply(&path, Link::NoFollow)?;
    }
    Ok(())
}
