//! `file`: files, directories and links with their attributes.

mod absent;
mod existing;
mod link;

pub(in crate::files) use link::make_symbolic;

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{
    attributes::Attributes,
    directory,
    info::state,
    times::{Time, Times},
};
use crate::{Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, with_attributes};

/// The `file` module.
pub struct File;

static SPEC: Spec = Spec {
    name: "file",
    summary: "Create, change and remove files, directories and links",
    description: &[
        "Brings `path` to the given `state`. Without `state`, only sets the attributes of an existing path; with \
         `recurse`, the path is a directory.",
        "`absent` removes directories with their content. `touch` creates an empty file or sets the times of an \
         existing one, which always counts as a change unless both times are preserved.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::Path, "Path to manage.").aliases(&["dest", "name"]),
        Opt::new("state", Kind::Str, "Requested state of the path.").choices(&[
            "absent",
            "directory",
            "file",
            "hard",
            "link",
            "touch"
        ]),
        Opt::new(
            "src",
            Kind::Path,
            "Target of a link. For a symbolic link, it may be relative to the link's directory."
        ),
        Opt::new("recurse", Kind::Bool, "Set the attributes of everything in the directory.").default("false"),
        Opt::new("force", Kind::Bool, "Create a link even if its target is missing or a file is in its place.")
            .default("false"),
        Opt::new("follow", Kind::Bool, "Set the attributes of a link's target.").default("true"),
        Opt::new(
            "modification_time",
            Kind::Str,
            "Modification time: `preserve`, `now`, or a time in `modification_time_format`."
        ),
        Opt::new("modification_time_format", Kind::Str, "Format of `modification_time`.").default("\"%Y%m%d%H%M.%S\""),
        Opt::new("access_time", Kind::Str, "Access time: `preserve`, `now`, or a time in `access_time_format`."),
        Opt::new("access_time_format", Kind::Str, "Format of `access_time`.").default("\"%Y%m%d%H%M.%S\""),
        Opt::new("_original_basename", Kind::Str, "File name of the source."),
        Opt::new("_diff_peek", Kind::Raw, "Only report whether the file looks binary."),
    ],
    examples: "- name: A directory for the application\n  ansible.builtin.file:\n    path: /srv/app\n    state: directory\n    owner: app\n    mode: '0750'\n\n\
               - name: Point to the current release\n  ansible.builtin.file:\n    src: releases/42\n    path: /srv/app/current\n    state: link\n",
    returns: &[
        Return { name: "path", kind: "str", when: "state is absent, directory or file", doc: "Path of the file." },
        Return { name: "dest", kind: "str", when: "state is touch, hard or link", doc: "Path of the file." },
        Return { name: "src", kind: "str", when: "state is hard or link", doc: "Target of the link." },
        Return { name: "state", kind: "str", when: "always", doc: "State after the task." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// The parsed arguments.
struct Task {
    path: PathBuf,
    src: Option<String>,
    attributes: Attributes,
    times: Times,
    follow: bool,
    force: bool,
    recurse: bool,
}

impl Module for File {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let path = path_of(args)?;
        let now = state_of(&path);
        let recurse = args.bool("recurse");
        if args.value("_diff_peek").is_some() {
            let head = super::difference::excerpt(&path, host.max_diff()).unwrap_or_default();
            let binary = head.iter().take(8192).any(|byte| *byte == 0);
            return Ok(Plan::unchanged().with("path", show(&path)).with("appears_binary", binary));
        }
        let wanted = match args.str("state") {
            Some(state) => state,
            None if now != "absent" => now,
            None if recurse => "directory",
            None => "file",
        };
        if recurse && wanted != "directory" {
            return Err(Failure::new("recurse option requires state to be 'directory'").with("path", show(&path)));
        }
        if args.filled("src").is_some() && !matches!(wanted, "link" | "hard") {
            return Err(Failure::new("src option requires state to be 'link' or 'hard'").with("path", show(&path)));
        }
        let usual = if wanted == "touch" { Time::Now } else { Time::Preserve };
        let attributes = if wanted == "absent" { Attributes::default() } else { Attributes::of(args, host)? };
        let warnings = attributes.warnings();
        let task = Task {
            src: args.filled("src").map(str::to_owned),
            times: Times::of(args, usual)?,
            follow: args.bool("follow"),
            force: args.bool("force"),
            attributes,
            path,
            recurse,
        };
        let plan = match wanted {
            "absent" => absent::plan(task, host),
            "directory" => existing::plan_directory(task, host),
            "touch" => existing::plan_touch(task),
            "link" => link::plan_symbolic(task, host),
            "hard" => link::plan_hard(task, host),
            _ => existing::plan_file(task),
        };
        let plan = match warnings.is_empty() {
            true => plan?,
            false => plan.map_err(|failure| failure.with("warnings", warnings.clone()))?,
        };
        Ok(warnings.into_iter().fold(plan, Plan::with_warning))
    }
}

/// The path; inside a directory if the controller sends a file name, or a hard link has its file's name.
fn path_of(args: &Args) -> Result<PathBuf, Failure> {
    let text = args.required("path")?;
    if text.is_empty() {
        return Err(Failure::new("path must not be empty."));
    }
    let trimmed = text.trim_end_matches('/');
    let path = PathBuf::from(if trimmed.is_empty() { "/" } else { trimmed });
    let of_link = || args.str("src").filter(|_| args.str("state") == Some("hard"))?.rsplit('/').next();
    match args.str("_original_basename").or_else(of_link) {
        Some(name) if path.is_dir() && !matches!(args.str("state"), Some("link" | "absent" | "directory")) => {
            Ok(path.join(name))
        }
        _ => Ok(path),
    }
}

/// State of a path: `absent`, `file`, `hard`, `directory` or `link`.
fn state_of(path: &Path) -> &'static str {
    match path.symlink_metadata() {
        Ok(found) => match state(&found) {
            "unknown" => "file",
            known => known,
        },
        Err(_) => "absent",
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

/// The difference of a state change.
fn state_diff(path: &Path, before: &str, after: &str) -> Diff {
    let side = |state: &str| match before == after {
        true => json!({ "path": show(path) }),
        false => json!({ "path": show(path), "state": state }),
    };
    Diff { before: side(before), after: side(after), ..Diff::default() }
}
