//! `tempfile`: creates a temporary file or directory.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use super::{
    info::describe,
    scratch::random_name,
    way::{self, Link, Place},
};
use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, process::reason};

/// The `tempfile` module.
pub struct TempFile;

static SPEC: Spec = Spec {
    name: "tempfile",
    summary: "Create a temporary file or directory",
    description: &[
        "Creates an empty file or directory with a unique name, accessible only to the task's user. It stays until a \
         task removes it.",
        "Skipped in check mode. Every run creates a new one.",
    ],
    options: &[
        Opt::new("state", Kind::Str, "Type of entry to create.").choices(&["file", "directory"]).default("\"file\""),
        Opt::new("path", Kind::Path, "Directory for the new file or directory. Default: the host's directory for temporary files."),
        Opt::new("prefix", Kind::Str, "Prefix of the name.").default("\"ansible.\""),
        Opt::new("suffix", Kind::Str, "Suffix of the name.").default("\"\""),
    ],
    check: Check::None,
    examples: "- name: A place to build in\n  ansible.builtin.tempfile:\n    state: directory\n    suffix: .build\n  register: place\n",
    returns: &[Return { name: "path", kind: "str", when: "success", doc: "Path of the new file or directory." }],
    ..Spec::EMPTY
}
.compiled();

impl Module for TempFile {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let part = |name: &str| match args.str(name).unwrap_or_default() {
            text if text.contains('/') => {
                Err(Failure::new(format!("{name} must be a valid file name component, got '{text}'")))
            }
            text => Ok(text.to_owned()),
        };
        let (prefix, suffix) = (part("prefix")?, part("suffix")?);
        let place = args.str("path").map(PathBuf::from);
        let place = place.or_else(|| host.variable("TMPDIR").map(PathBuf::from).filter(|path| path.is_dir()));
        let place = place.unwrap_or_else(|| PathBuf::from("/tmp"));
        let directory = args.str("state") == Some("directory");
        Ok(Plan::change(move |_, outcome| {
            let path = make(&place, &prefix, &suffix, directory)?;
            outcome.set("path", path.display().to_string());
            outcome.data.extend(describe(&path));
            Ok(())
        }))
    }
}

fn make(place: &Path, prefix: &str, suffix: &str, directory: bool) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("Nothing could be made in {}: {}.", place.display(), reason(&error)))
    };
    loop {
        let random: String = random_name().map_err(failed)?.chars().take(8).collect();
        let path = place.join(format!("{prefix}{random}{suffix}"));
        let made = if directory {
            way::create_dir(&path, 0o700)
        } else {
            Place::to_write(&path, Link::NoFollow).and_then(|place| place.create_new(0o600)).map(drop)
        };
        match made {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
}
