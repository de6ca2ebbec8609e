//! `copy`: copies files, trees and texts from the controller or within the host.
//!
//! The controller sends files as contents of the request and refers to them by index:
//!
//! * a single file: `_content` is its index; `_original_basename` is its name in a directory (`dest` exists as one or
//!   ends with a slash);
//! * a tree: `_entries` is a list of `{path, kind, ...}`, directories before their content. `path` is relative to
//!   `dest`. `kind` is `directory` (with `mode`), `file` (with `content`, an index, and `mode`) or `link` (with
//!   `target`).
//!
//! `mode` in an entry is that of the source, in octal. It only matters for `mode: preserve`.

mod tree;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    attributes::{Attributes, diff_of},
    checksum::Hasher,
    directory,
    info::describe,
    mode::Mode,
    write::{BACKUP, Source, VALIDATE, Wanted},
};
use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, with_attributes};

/// The `copy` module.
pub struct Copy;

/// Specification of `copy`.
pub static SPEC: Spec = Spec {
    name: "copy",
    summary: "Copy files to a host",
    description: &[
        "Copies a file or directory of the project, a text, or with `remote_src` a file or directory on the host, to \
         `dest`. Leaves files with the same content unchanged, and writes each file atomically.",
        "If the path of a directory ends with a slash, copies only its content.",
    ],
    options: with_attributes![
        Opt::required("dest", Kind::Path, "Destination. A path that ends with a slash is a directory."),
        Opt::new("src", Kind::Path, "Path of the file or directory to copy."),
        Opt::new("content", Kind::Raw, "Content of the file, instead of `src`."),
        BACKUP,
        Opt::new("force", Kind::Bool, "Replace an existing file that has other content.")
            .aliases(&["thirsty"])
            .default("true"),
        VALIDATE,
        Opt::new("directory_mode", Kind::Raw, "Permissions of new directories."),
        Opt::new("remote_src", Kind::Bool, "Take `src` from the host.").default("false"),
        Opt::new("local_follow", Kind::Bool, "Copy the targets of links in `src` instead of the links.")
            .default("true"),
        Opt::new("follow", Kind::Bool, "If `dest` is a link, replace its target.").default("false"),
        Opt::new("checksum", Kind::Str, "SHA-1 checksum that the source must have."),
        Opt::new("decrypt", Kind::Bool, "Decrypt a source that is encrypted with vault.").default("true"),
        Opt::new("_content", Kind::Int, "Index of the file among the controller's contents."),
        Opt::new("_original_basename", Kind::Str, "File name of the source."),
        Opt::new("_entries", Kind::List(&Kind::Dict), "Tree that the controller sends."),
        Opt::new("_delete", Kind::Bool, "Remove entries that the tree does not contain."),
    ],
    examples: "- name: The configuration\n  ansible.builtin.copy:\n    src: app.conf\n    dest: /etc/app.conf\n    owner: root\n    mode: '0644'\n    \
               validate: app --check %s\n\n- name: One line\n  ansible.builtin.copy:\n    content: \"{{ app_version }}\\n\"\n    dest: /etc/app-version\n",
    returns: &[
        Return { name: "dest", kind: "str", when: "success", doc: "Path of the file or directory." },
        Return { name: "src", kind: "str", when: "a file was written", doc: "Path of the source." },
        Return { name: "checksum", kind: "str", when: "`dest` is a file", doc: "SHA-1 checksum of the file." },
        Return { name: "md5sum", kind: "str", when: "a file was written", doc: "MD5 checksum of the file." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the backup of the old file.",
        },
    ],
    missing: Some("dest is required"),
    ..Spec::EMPTY
}
.compiled();

impl Module for Copy {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let task = Task::of(args, host)?;
        let warnings = task.attributes.warnings();
        let plan = match &task.origin {
            Origin::Tree(entries) => tree::plan(&task, entries, host)?,
            Origin::File { source, name } => task.plan_file(source, name.as_deref(), host)?,
        };
        // The plan of a single file already contains the warnings.
        let warnings = if matches!(task.origin, Origin::Tree(_)) { warnings } else { Vec::new() };
        Ok(warnings.into_iter().fold(plan, Plan::with_warning))
    }
}

/// The parsed arguments.
struct Task {
    dest: String,
    src: Option<String>,
    origin: Origin,
    attributes: Attributes,
    directories: Attributes,
    backup: bool,
    force: bool,
    follow: bool,
    /// The source is on the host, and the result describes it.
    remote: bool,
    validate: Option<String>,
    checksum: Option<String>,
    delete: bool,
}

enum Origin {
    File { source: Source, name: Option<String> },
    Tree(Vec<tree::Entry>),
}

impl Task {
    fn of(args: &Args, host: &Host) -> Result<Task, Failure> {
        let src = args.filled("src").map(str::to_owned);
        let name = args.str("_original_basename").map(str::to_owned);
        let content = args.int("_content").map(|index| usize::try_from(index).unwrap_or(usize::MAX));
        let origin = match (args.value("_entries"), content, args.value("content"), &src) {
            (Some(entries), ..) => Origin::Tree(tree::parse(entries)?),
            (None, Some(index), ..) => {
                let name = name.or_else(|| file_name(&host.content(index).ok()?.name));
                // A text without a file has an empty name.
                Origin::File { source: Source::Controller(index), name: name.filter(|name| !name.is_empty()) }
            }
            (None, None, Some(content), _) => {
                let text = match content {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                Origin::File { source: Source::Bytes(text.into_bytes()), name: None }
            }
            (None, None, None, Some(src)) if args.bool("remote_src") => {
                let path = Path::new(src);
                match path.metadata() {
                    Ok(found) if found.is_dir() => {
                        Origin::Tree(tree::read(path, src.ends_with('/'), args.bool("local_follow"), host)?)
                    }
                    Ok(found) if !found.is_file() => return Err(Failure::new(format!("Source {src} is not a file"))),
                    Ok(_) => {
                        Origin::File { source: Source::File(path.to_owned()), name: name.or_else(|| file_name(src)) }
                    }
                    Err(_) => return Err(Failure::new(format!("Source {src} not found"))),
                }
            }
            (None, None, None, Some(src)) => {
                return Err(Failure::new(format!(
                    "The controller sent no content for {src}. Set remote_src if it is on the host."
                )));
            }
            (None, None, None, None) => return Err(Failure::new("src (or content) is required")),
        };
        let attributes = Attributes::of(args, host)?;
        let directories = attributes.with_mode(args.value("directory_mode").map(Mode::parse).transpose()?);
        Ok(Task {
            dest: args.required("dest")?.to_owned(),
            src,
            origin,
            attributes,
            directories,
            backup: args.bool("backup"),
            force: args.bool("force"),
            follow: args.bool("follow"),
            remote: args.bool("remote_src"),
            validate: args.str("validate").map(str::to_owned),
            checksum: args.str("checksum").map(str::to_owned),
            delete: args.bool("_delete"),
        })
    }

    fn plan_file(&self, source: &Source, name: Option<&str>, host: &Host) -> Result<Plan, Failure> {
        let mut path = PathBuf::from(&self.dest);
        let below = self.dest.ends_with('/') || path.is_dir();
        if below {
            let Some(name) = name else { return Err(Failure::new("can not use content with a dir as dest")) };
            path.push(name);
        }
        let parent = super::staged::directory_of(&path).to_owned();
        let make_parent = self.dest.ends_with('/') && !parent.is_dir();
        // The result of a followed link describes the link's target.
        let followed = path.canonicalize().ok().filter(|_| self.follow && path.is_symlink());
        let shown = path.display().to_string();
        let kept = !self.force && path.symlink_metadata().is_ok();
        let mut wanted = self.wanted(&path, source.clone(), host)?;
        wanted.directory_to_come = make_parent;
        let md5 = if self.remote { Some(wanted.sum_by(Hasher::Md5(Default::default()), host)?) } else { None };
        let (mut file, is_written) = wanted.plan_and_tell(host)?;
        self.check_sum(&file)?;
        if !self.remote && (kept || is_written && host.check()) {
            // The controller's half of copy reports no details of a file that is unchanged, or would be written in
            // check mode.
            file.outcome.data.clear();
            return Ok(if kept { file.with("dest", shown) } else { file });
        }
        let shown = followed.filter(|_| !kept).map_or(shown, |real| real.display().to_string());
        let src = self.src.clone().or_else(|| source_name(source, host));
        let mut plan = if make_parent {
            let data = file.data().clone();
            Plan::sequence(vec![directory::plan(&parent, &self.directories)?, file]).with_all(data).and_then(
                move |_host, outcome| {
                    outcome.data.extend(describe(&path));
                    Ok(())
                },
            )
        } else {
            file
        };
        if let Some(src) = src.filter(|_| is_written || self.remote || kept) {
            plan = plan.with("src", src);
        }
        if kept {
            plan = plan.with("msg", "file already exists");
        }
        if !is_written && !self.remote {
            plan = plan.with("path", shown.clone());
        }
        // An unchanged file is reported like in `file`.
        if host.diff() && !plan.is_change() && !self.remote && !kept {
            plan = plan.with_diff(diff_of(Path::new(&shown), &[]));
        }
        if let Some(md5) = md5 {
            plan = plan.with("md5sum", md5);
        }
        Ok(plan.with("dest", shown))
    }

    /// One file with the attributes for all files.
    fn wanted(&self, path: &Path, source: Source, host: &Host) -> Result<Wanted, Failure> {
        let mut attributes = self.attributes.clone();
        if attributes.mode == Some(Mode::Preserve) {
            let bits = match &source {
                Source::Controller(index) => Some(host.content(*index)?.mode & 0o7777),
                Source::File(file) => {
                    std::fs::metadata(file).ok().map(|found| std::os::unix::fs::MetadataExt::mode(&found) & 0o7777)
                }
                Source::Bytes(_) => None,
            };
            attributes.mode = bits.map(Mode::Bits);
        }
        let source_name = source_name(&source, host);
        let mut wanted = Wanted::new(path, source);
        wanted.attributes = attributes;
        wanted.backup = self.backup;
        wanted.validate = self.validate.clone();
        wanted.follow = self.follow;
        wanted.keep = !self.force;
        if let Some(name) = source_name {
            wanted.source_name = name;
        }
        Ok(wanted)
    }

    fn check_sum(&self, plan: &Plan) -> Result<(), Failure> {
        let (Some(expected), Some(found)) = (&self.checksum, plan.data().get("checksum").and_then(Value::as_str))
        else {
            return Ok(());
        };
        if expected.eq_ignore_ascii_case(found) {
            return Ok(());
        }
        let text = format!(
            "Copied file does not match the expected checksum. Transfer failed. The source of {} has {found}.",
            self.dest
        );
        Err(Failure::new(text).with("checksum", found).with("expected_checksum", expected.as_str()))
    }
}

/// Display name of a content's source.
fn source_name(source: &Source, host: &Host) -> Option<String> {
    match source {
        Source::Controller(index) => host.content(*index).ok().map(|content| content.name.clone()),
        Source::File(path) => Some(path.display().to_string()),
        Source::Bytes(_) => None,
    }
}

fn file_name(path: &str) -> Option<String> {
    Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned())
}
