//! `acl`: access control lists (ACLs) of files.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use rustix::io::FdFlags;

use super::way::{Link, Place, Purpose, handle};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    process::{Command, Output, reason},
};

/// The `acl` module.
pub struct Acl;

static SPEC: Spec = Spec {
    name: "acl",
    collection: "ansible.posix",
    summary: "Manage access control lists of files",
    description: &["Sets or removes one entry with `setfacl`, or returns the existing entries."],
    options: &[
        Opt::required("path", Kind::Path, "Path of the file or folder.").word().aliases(&["name"]),
        Opt::new(
            "state",
            Kind::Str,
            "`present` sets the entry, `absent` removes it, `query` only returns the entries.",
        )
        .default("\"query\"")
        .choices(&["absent", "present", "query"]),
        Opt::new("etype", Kind::Str, "Type of the entry.").choices(&["group", "mask", "other", "user"]),
        Opt::new("entity", Kind::Str, "Name of the user or group.").default("\"\""),
        Opt::new("permissions", Kind::Str, "Permissions, such as `rwx`, `rX` or `r-x`."),
        Opt::new(
            "entry",
            Kind::Str,
            "Entry as one text, `etype:entity:permissions`, optionally prefixed with `default:`.",
        ),
        Opt::new("default", Kind::Bool, "Set a default entry, which new files in the folder inherit.").default("false"),
        Opt::new("follow", Kind::Bool, "Follow symbolic links.").default("true"),
        Opt::new("recursive", Kind::Bool, "Apply to everything below the folder too.")
            .aliases(&["recurse"])
            .default("false"),
        Opt::new("recalculate_mask", Kind::Str, "Recalculation of the mask.")
            .default("\"default\"")
            .choices(&["default", "mask", "no_mask"]),
        Opt::new(
            "use_nfsv4_acls",
            Kind::Bool,
            "No effect, because NFSv4 ACLs are not supported; accepted for compatibility.",
        )
        .default("false"),
    ],
    examples: "- name: Ada may read the logs\n  ansible.posix.acl:\n    path: /var/log/app\n    entity: ada\n    etype: user\n    permissions: rX\n    state: present\n",
    returns: &[Return { name: "acl", kind: "list", when: "success", doc: "ACL entries of the path." }],
    ..Spec::EMPTY
}
.compiled();

/// A requested entry.
struct Entry {
    default: bool,
    kind: String,
    entity: String,
    permissions: Option<String>,
}

impl Entry {
    fn of(args: &Args, absent: bool) -> Result<Entry, Failure> {
        let Some(text) = args.str("entry") else {
            let kind = args.str("etype").ok_or_else(|| Failure::new("'etype' or 'entry' must be given."))?;
            return Ok(Entry {
                default: args.bool("default"),
                kind: kind.to_owned(),
                entity: args.str("entity").unwrap_or_default().to_owned(),
                permissions: args.str("permissions").filter(|_| !absent).map(str::to_owned),
            });
        };
        if args.str("etype").is_some() || args.filled("entity").is_some() || args.str("permissions").is_some() {
            return Err(Failure::new("'entry' MUST NOT be set when 'entity', 'etype' or 'permissions' are set."));
        }
        let mut fields: Vec<&str> = text.split(':').collect();
        let default = args.bool("default") || matches!(fields.first(), Some(&("d" | "default")));
        if matches!(fields.first(), Some(&("d" | "default"))) {
            fields.remove(0);
        }
        let (kind, entity, permissions) = match fields.as_slice() {
            [kind, entity, permissions] if !absent => (*kind, *entity, Some((*permissions).to_owned())),
            [kind, entity] if absent => (*kind, *entity, None),
            _ => {
                return Err(Failure::new(format!(
                    "'entry' MUST have {} sections divided by ':', besides 'default:': {text}",
                    if absent { 2 } else { 3 }
                )));
            }
        };
        let kind = match kind {
            "u" | "user" => "user",
            "g" | "group" => "group",
            "m" | "mask" => "mask",
            "o" | "other" => "other",
            other => {
                return Err(Failure::new(format!("'{other}' in the entry is neither user, group, mask nor other.")));
            }
        };
        Ok(Entry { default, kind: kind.to_owned(), entity: entity.to_owned(), permissions })
    }

    fn text(&self) -> String {
        let start = if self.default { "default:" } else { "" };
        let end = self.permissions.as_ref().map(|permissions| format!(":{permissions}")).unwrap_or_default();
        format!("{start}{}:{}{end}", self.kind, self.entity)
    }
}

impl Module for Acl {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let path = args.required("path")?.to_owned();
        if args.bool("use_nfsv4_acls") {
            return Err(Failure::new(
                "use_nfsv4_acls is not supported: use the program nfs4_setfacl by the command module.",
            ));
        }
        if std::fs::symlink_metadata(&path).is_err() {
            return Err(Failure::new("Path not found or not accessible.").with("path", path));
        }
        let (recursive, link) = (args.bool("recursive"), Link::follow_if(args.bool("follow")));
        let state = args.required("state")?;
        let default: Vec<String> = args.bool("default").then(|| "-d".to_owned()).into_iter().collect();
        if state == "query" {
            if args.str("recalculate_mask").is_some_and(|mask| mask != "default") {
                return Err(Failure::new(
                    "'recalculate_mask' MUST NOT be set to 'mask' or 'no_mask' when 'state=query'.",
                ));
            }
            let targets = Targets::of(&path, link, false, Purpose::Read)?;
            let acl = targets.list(&default, host)?;
            return Ok(Plan::unchanged().with("acl", acl).with("msg", "current acl"));
        }
        if recursive && !Path::new(&path).is_dir() && Path::new(&path).is_file() {
            return Err(Failure::new("recursive is for folders only.").with("path", path));
        }
        let targets = Targets::of(&path, link, recursive, Purpose::Write)?;
        let absent = state == "absent";
        let entry = Entry::of(args, absent)?;
        if !absent && entry.permissions.as_deref().is_none_or(str::is_empty) {
            return Err(Failure::new("'state=present' needs 'permissions', or an 'entry' that has them."));
        }
        let mut words: Vec<String> = Vec::new();
        match args.str("recalculate_mask") {
            Some("mask") => words.push("--mask".into()),
            Some("no_mask") => words.push("--no-mask".into()),
            _ => {}
        }
        words.extend([if absent { "-x" } else { "-m" }.to_owned(), entry.text()]);
        let shown: Vec<String> = entry.default.then(|| "-d".to_owned()).into_iter().collect();
        // setfacl itself predicts the resulting entries.
        let test: Vec<String> = std::iter::once("--test".to_owned()).chain(words.clone()).collect();
        let changes = targets.run("setfacl", &test, host)?.lines().any(|line| !line.ends_with("*,*"));
        let text = entry.text();
        let own = text.strip_prefix("default:").unwrap_or(&text);
        let msg = format!("{own} {}", if absent { "is absent" } else { "is present" });
        let acl = targets.list(&shown, host)?;
        let plan = if changes {
            Plan::change(move |host, outcome| {
                targets.run("setfacl", &words, host)?;
                outcome.set("acl", targets.list(&shown, host)?);
                Ok(())
            })
        } else {
            Plan::unchanged()
        };
        Ok(plan.with("msg", msg).with("acl", acl))
    }
}

/// Descriptors to pass to one process.
const BATCH: usize = 64;

/// Files whose entries are read or set.
///
/// The programs get open descriptors instead of paths. So the owner of a directory cannot redirect them by a link to
/// another file, neither at the top nor below it.
struct Targets {
    /// Paths without links, a directory before its content.
    paths: Vec<PathBuf>,
    recursive: bool,
    purpose: Purpose,
}

impl Targets {
    fn of(path: &str, link: Link, recursive: bool, purpose: Purpose) -> Result<Targets, Failure> {
        let refuse = |error: io::Error| {
            let verb = if purpose == Purpose::Read { "read" } else { "changed" };
            Failure::new(format!("{path} cannot be {verb}: {}.", reason(&error))).with("path", path)
        };
        let place = Place::of(Path::new(path), link, purpose).map_err(refuse)?;
        let mut targets = Targets { paths: vec![place.real().to_owned()], recursive, purpose };
        if recursive {
            targets.add_below(&place).map_err(refuse)?;
        }
        Ok(targets)
    }

    /// Adds the content of a directory. Links in it are left out.
    fn add_below(&mut self, place: &Place) -> io::Result<()> {
        if !place.metadata()?.is_dir() {
            return Ok(());
        }
        let listed = std::fs::read_dir(handle(&place.open()?))?;
        let mut names = listed.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        for name in names {
            let path = place.real().join(&name);
            let Some(child) = self.place(&path)? else { continue };
            self.paths.push(path);
            self.add_below(&child)?;
        }
        Ok(())
    }

    /// The file, unless it is a link or was removed meanwhile.
    fn place(&self, path: &Path) -> io::Result<Option<Place>> {
        match Place::of(path, Link::NoFollow, self.purpose) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => Ok(Some(found?).filter(|place| place.metadata().is_ok_and(|found| !found.is_symlink()))),
        }
    }

    /// Runs a program on all files, and returns its output.
    fn run(&self, program: &str, words: &[String], host: &Host) -> Result<String, Failure> {
        let mut text = String::new();
        for paths in self.paths.chunks(BATCH) {
            let mut directories = Vec::new();
            let mut others = Vec::new();
            for path in paths {
                let refuse = |error: io::Error| {
                    Failure::new(format!("{} cannot be opened: {}.", path.display(), reason(&error)))
                };
                let Some(place) = self.place(path).map_err(refuse)? else { continue };
                let node = place.existing().and_then(File::try_clone).map_err(refuse)?;
                // An O_PATH descriptor conveys no permission, so it harms nothing that a process of another thread
                // may inherit it too.
                rustix::io::fcntl_setfd(&node, FdFlags::empty()).map_err(|error| refuse(error.into()))?;
                let is_directory = place.metadata().is_ok_and(|found| found.is_dir());
                if is_directory { &mut directories } else { &mut others }.push((path, node));
            }
            // With this option, setfacl passes over files that can have no default entries.
            let passing = (self.recursive && program == "setfacl").then_some("--recursive");
            for (nodes, option) in [(directories, None), (others, passing)] {
                if nodes.is_empty() {
                    continue;
                }
                let command = Command::new(program).plain_locale().args(option).args(words.iter().map(String::as_str));
                let output = command.args(nodes.iter().map(|(_, node)| handle(node))).run(host)?;
                if !output.success() {
                    return Err(failure(program, &output, &nodes));
                }
                if !text.is_empty() && !text.ends_with("\n\n") && program == "getfacl" {
                    text.push('\n');
                }
                text.push_str(&output.stdout_text());
            }
        }
        Ok(text)
    }

    /// The entries. Entries of several paths are separated by empty lines.
    fn list(&self, options: &[String], host: &Host) -> Result<Vec<String>, Failure> {
        let words = ["--absolute-names", "--omit-header"].map(str::to_owned);
        let text = self.run("getfacl", &[&words, options].concat(), host)?;
        Ok(text.trim_end().lines().map(|line| line.trim().to_owned()).collect())
    }
}

/// The failure of a program, which names paths instead of descriptors.
fn failure(program: &str, output: &Output, nodes: &[(&PathBuf, File)]) -> Failure {
    let message = nodes.iter().fold(output.stderr_text(), |text, (path, node)| {
        text.replace(&format!("{}:", handle(node).display()), &format!("{}:", path.display()))
    });
    let words: Vec<String> =
        std::iter::once(program.to_owned()).chain(nodes.iter().map(|(path, _)| path.display().to_string())).collect();
    let failure = output.failure(&words);
    match message.trim() {
        "" => failure,
        message => Failure { message: message.to_owned(), ..failure },
    }
}
