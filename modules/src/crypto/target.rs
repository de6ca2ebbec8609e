//! The output file of a key or certificate module.

use std::path::{Path, PathBuf};

use crate::{
    Args, Failure, Host, Map, Outcome, Plan,
    files::{
        attributes::Attributes,
        backup, way,
        write::{Source, Wanted},
    },
    process::reason,
    run,
};

/// A file with its attributes.
pub(super) struct Target {
    pub(super) path: PathBuf,
    attributes: Attributes,
    keep_old: bool,
}

impl Target {
    /// The file from the options `path` and `backup`.
    pub(super) fn of(args: &Args, host: &Host) -> Result<Target, Failure> {
        Ok(Target {
            path: args.required("path")?.into(),
            attributes: Attributes::of(args, host)?,
            keep_old: args.bool("backup"),
        })
    }

    /// The output file of a module that uses a private key, and result keys for both. Fails if the folder is missing.
    pub(super) fn of_key(args: &Args, host: &Host) -> Result<(Target, Map), Failure> {
        let target = Target::of(args, host)?;
        target.needs_folder()?;
        let data = [
            ("filename".to_owned(), target.path.display().to_string().into()),
            ("privatekey".to_owned(), args.str("privatekey_path").into()),
        ];
        Ok((target, data.into_iter().collect()))
    }

    /// The content, if the file exists.
    pub(super) fn found(&self) -> Result<Option<Vec<u8>>, Failure> {
        if !self.path.exists() {
            return Ok(None);
        }
        let refuse = |error| Failure::new(format!("{} cannot be read: {}.", self.path.display(), reason(&error)));
        way::read(&self.path).map(Some).map_err(refuse)
    }

    /// Fails if the parent folder is missing.
    pub(super) fn needs_folder(&self) -> Result<(), Failure> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if folder.is_dir() {
            return Ok(());
        }
        let shown = folder.display().to_string();
        Err(Failure::new(format!("The directory {shown} does not exist or the file is not a directory"))
            .with("name", shown))
    }

    /// A plan that keeps the content.
    pub(super) fn kept(self) -> Result<Plan, Failure> {
        if !self.path.exists() || self.attributes.changes(&self.path, way::Link::Follow)?.is_empty() {
            return Ok(Plan::unchanged());
        }
        Ok(Plan::change(move |_, _| self.attributes.apply(&self.path, way::Link::Follow).map(|_| ())))
    }

    /// Writes the content.
    pub(super) fn write(self, text: String, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        if self.keep_old
            && let Some(copy) = backup::make(&self.path)?
        {
            outcome.set("backup_file", copy.display().to_string());
        }
        let mut wanted = Wanted::new(&self.path, Source::Bytes(text.into_bytes()));
        wanted.attributes = self.attributes;
        run::carry_out(wanted.plan(host)?, host).map(|_| ())
    }
}

/// A plan that removes a file.
pub(super) fn removal(path: PathBuf, keep_old: bool) -> Plan {
    if path.symlink_metadata().is_err() {
        return Plan::unchanged();
    }
    Plan::change(move |_, outcome| {
        if let Some(copy) = if keep_old { backup::make(&path)? } else { None } {
            outcome.set("backup_file", copy.display().to_string());
        }
        way::remove_file(&path)
            .map_err(|error| Failure::new(format!("{} cannot be removed: {}.", path.display(), reason(&error))))
    })
}
