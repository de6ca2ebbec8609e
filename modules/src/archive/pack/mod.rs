//! `archive`: packs files and folders of the host into one file.

mod sources;
mod write;

use std::path::{Path, PathBuf};

use crate::{
    Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    files::{attributes::Attributes, info::describe, staged::Staged, way},
    process::reason,
    with_attributes,
};
use sources::{Entry, Sources};

/// The `archive` module.
pub struct Archive;

static SPEC: Spec = Spec {
    name: "archive",
    collection: "community.general",
    summary: "Pack files and folders on the host",
    description: &[
        "Packs several files, or a folder, into an archive. Only compresses a single file, unless `force_archive` is \
         set.",
        "Leaves an archive with the same members unchanged, also in check mode.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::List(&Kind::Path), "Paths and patterns of files and folders to pack."),
        Opt::new("format", Kind::Str, "Format of the archive; all formats except zip are tar archives.")
            .default("\"gz\"")
            .choices(&["bz2", "gz", "tar", "xz", "zip"]),
        Opt::new(
            "dest",
            Kind::Path,
            "Path of the archive. Default for a single file: its name with the format as extension."
        ),
        Opt::new("exclude_path", Kind::List(&Kind::Path), "Paths to exclude from `path`.").default("[]"),
        Opt::new("exclusion_patterns", Kind::List(&Kind::Path), "Patterns of members to exclude."),
        Opt::new("force_archive", Kind::Bool, "Create an archive even for a single file.").default("false"),
        Opt::new("remove", Kind::Bool, "Remove the packed files afterwards.").default("false"),
    ],
    examples: "- name: The old logs in one file\n  community.general.archive:\n    path: /var/log/app/*.log\n    dest: /srv/backup/logs.tar.xz\n    format: xz\n    remove: true\n",
    returns: &[
        Return { name: "dest", kind: "str", when: "always", doc: "Path of the archive." },
        Return {
            name: "dest_state",
            kind: "str",
            when: "success",
            doc: "Kind of the result: `absent`, `archive`, `compress` or `incomplete`.",
        },
        Return { name: "archived", kind: "list", when: "success", doc: "Paths that were packed." },
        Return { name: "missing", kind: "list", when: "success", doc: "Paths that do not exist." },
        Return { name: "arcroot", kind: "str", when: "always", doc: "Folder that member names are relative to." },
        Return { name: "expanded_paths", kind: "list", when: "always", doc: "Paths after expansion of patterns." },
        Return {
            name: "expanded_exclude_paths",
            kind: "list",
            when: "always",
            doc: "Excluded paths after expansion of patterns.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Archive {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let sources = Sources::of(args)?;
        let format = args.required("format")?.to_owned();
        let dest = match args.str("dest") {
            Some(dest) => PathBuf::from(dest),
            None if sources.several => {
                return Err(Failure::new("Error, must specify \"dest\" when archiving multiple files or trees"));
            }
            None => PathBuf::from(format!("{}.{format}", sources.first().display())),
        };
        let remove = args.bool("remove");
        if remove && sources.paths.iter().any(|path| path.is_dir() && dest.starts_with(path)) {
            return Err(Failure::new("Error, created archive can not be contained in source paths when remove=true"));
        }
        let attributes = Attributes::of(args, host)?;
        let members = sources.members(&dest)?;
        let single = !sources.several && !matches!(format.as_str(), "zip" | "tar");
        let archived: Vec<String> = if single {
            sources.found.iter().map(|path| path.display().to_string()).collect()
        } else {
            members.iter().map(|member| member.path.display().to_string()).collect()
        };
        let plan = Plan::unchanged()
            .with("dest", dest.display().to_string())
            .with("archived", archived)
            .with("missing", shown(&sources.missing))
            .with("arcroot", Path::new(&sources.root).join("").display().to_string())
            .with("expanded_paths", shown(&sources.expanded))
            .with("expanded_exclude_paths", shown(&sources.excluded));
        let data = plan.data().clone();
        if sources.found.is_empty() {
            let state = match dest.exists() {
                true if is_archive_name(&dest) => "archive",
                true => "compress",
                false => "absent",
            };
            let plan = attributes_only(&dest, attributes)?;
            return Ok(plan.with_all(describe_if(&dest)).with_all(data).with("dest_state", state));
        }
        let state = if single {
            "compress"
        } else if sources.missing.is_empty() {
            "archive"
        } else {
            "incomplete"
        };
        let same = if single {
            write::same_content(&dest, sources.first(), host)?
        } else {
            write::same_members(&dest, &format, &members, host)?
        };
        let plan = if same && !remove {
            attributes_only(&dest, attributes)?
        } else {
            let (target, first) = (dest.clone(), sources.first().to_owned());
            Plan::change(move |host, outcome| {
                if !same {
                    let mut staged = Staged::beside(&target, &attributes)?;
                    if single {
                        write::compress(&mut staged, &format, &first, host)?;
                    } else {
                        write::pack(&mut staged, &format, &members, host)?;
                    }
                    staged.commit(&attributes)?;
                }
                attributes.apply(&target, way::Link::Follow)?;
                if remove {
                    remove_sources(&sources, &members)?;
                }
                finish(&target, outcome);
                Ok(())
            })
        };
        let plan = plan.with_all(describe_if(&dest)).with_all(data);
        if host.check() && plan.is_change() {
            // Check mode reports that nothing has been packed.
            return Ok(plan.with("archived", Vec::<String>::new()).with("dest_state", "absent"));
        }
        Ok(plan.with("dest_state", state))
    }
}

fn shown(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

fn describe_if(path: &Path) -> crate::Map {
    if path.exists() { describe(path) } else { crate::Map::new() }
}

fn finish(path: &Path, outcome: &mut Outcome) {
    outcome.data.extend(describe(path));
}

/// Plan for an archive whose content is already right: sets attributes that differ.
fn attributes_only(path: &Path, attributes: Attributes) -> Result<Plan, Failure> {
    if !path.exists() || attributes.changes(path, way::Link::Follow)?.is_empty() {
        return Ok(Plan::unchanged());
    }
    let path = path.to_owned();
    Ok(Plan::change(move |_, outcome| {
        attributes.apply(&path, way::Link::Follow)?;
        finish(&path, outcome);
        Ok(())
    }))
}

fn is_archive_name(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    [".tar", ".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".tbz2", ".zip"].iter().any(|end| name.ends_with(end))
}

/// Removes the packed files. A folder is removed only if all its members were packed.
fn remove_sources(sources: &Sources, members: &[Entry]) -> Result<(), Failure> {
    let failed = |path: &Path, error: &std::io::Error| {
        Failure::new(format!("Error deleting some source files: {}: {}.", path.display(), reason(error)))
    };
    for member in members.iter().filter(|member| !member.is_directory) {
        match way::remove_file(&member.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(&member.path, &error)),
            _ => {}
        }
    }
    for path in sources.found.iter().filter(|path| path.is_dir() && !path.is_symlink()) {
        way::remove_dir_all(path).map_err(|error| failed(path, &error))?;
    }
    Ok(())
}
