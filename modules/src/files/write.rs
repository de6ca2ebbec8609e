//! Writes one file with requested content and attributes; the core of `copy`, `template`, `lineinfile` and similar
//! modules.

use std::{
    fs::File,
    io::{Cursor, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    attributes::{Attributes, diff_of},
    backup,
    checksum::{self, Hasher},
    difference,
    info::describe,
    scratch::Scratch,
    staged::Staged,
    way::{self, Link, Place},
};
use crate::{Failure, Host, Kind, Opt, Outcome, Plan, process};

/// Option to keep the old file.
pub const BACKUP: Opt =
    Opt::new("backup", Kind::Bool, "Keep a copy of the old file, with a timestamp in its name.").default("false");
/// Option to validate the new file before it is moved into place.
pub const VALIDATE: Opt = Opt::new(
    "validate",
    Kind::Str,
    "Command that must succeed before the file is moved into place; `%s` stands for the path of the new file.",
);

/// Source of a content.
#[derive(Debug, Clone)]
pub enum Source {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// A content from the controller, by index.
    Controller(usize),
    /// A file on the host.
    File(PathBuf),
}

/// A requested file.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Path of the file.
    pub path: PathBuf,
    /// Source of the content.
    pub source: Source,
    /// Name of the content in a diff.
    pub source_name: String,
    /// Requested attributes.
    pub attributes: Attributes,
    /// Keep a backup of the old file.
    pub backup: bool,
    /// Command that validates the new file.
    pub validate: Option<String>,
    /// Replace the target of a link instead of the link.
    pub follow: bool,
    /// Leave an existing file unchanged.
    pub keep: bool,
    /// The same task creates the directory.
    pub directory_to_come: bool,
    /// The file that the content was made of, and which the new file inherits from.
    pub(crate) edited: Option<Arc<File>>,
    /// The task flushes the whole file system at its end, so a new file need not be flushed by itself.
    pub flushed_later: bool,
}

impl Wanted {
    /// A file with this content and default attributes.
    pub fn new(path: impl Into<PathBuf>, source: Source) -> Wanted {
        Wanted {
            path: path.into(),
            source,
            source_name: "dynamically generated".to_owned(),
            attributes: Attributes::default(),
            backup: false,
            validate: None,
            follow: true,
            keep: false,
            directory_to_come: false,
            edited: None,
            flushed_later: false,
        }
    }

    /// The plan that writes the file.
    pub fn plan(self, host: &Host) -> Result<Plan, Failure> {
        self.plan_and_tell(host).map(|(plan, _)| plan)
    }

    /// The plan, and whether it writes content or only sets attributes.
    pub(super) fn plan_and_tell(mut self, host: &Host) -> Result<(Plan, bool), Failure> {
        if let Some(validate) = &self.validate
            && !validate.contains("%s")
        {
            return Err(Failure::new(format!("validate must contain %s: {validate}")));
        }
        let asked = self.path.clone();
        if self.follow && self.path.is_symlink() {
            let place = Place::to_write(&self.path, Link::Follow).map_err(|error| {
                let (path, reason) = (self.path.display(), process::reason(&error));
                Failure::new(format!("Destination {path} not writable: {reason}."))
            });
            match place {
                Ok(place) if place.node().is_some() => self.path = place.real().to_owned(),
                // A dangling link is replaced.
                Ok(_) => {}
                Err(_) if !self.path.exists() => {}
                Err(failure) => return Err(failure),
            }
        }
        let path = self.path.clone();
        let link = path.is_symlink() && !self.follow;
        if path.is_dir() && !link {
            return Err(Failure::new(format!("{} is a directory and cannot be replaced by a file.", path.display())));
        }
        let exists = path.exists() && !link;
        if self.keep && path.symlink_metadata().is_ok() {
            return Ok((Plan::unchanged().with_all(describe(&path)), false));
        }
        let sum = self.sum(host)?;
        let same = exists && same_content(&self.source, &path, &sum, host)?;
        let warnings = self.attributes.warnings();
        let mut plan =
            if same { self.plan_attributes()? } else { self.plan_content(host, exists, &asked, sum.clone())? };
        for warning in warnings {
            plan = plan.with_warning(warning);
        }
        Ok((plan.with("checksum", sum), !same))
    }

    fn plan_attributes(&self) -> Result<Plan, Failure> {
        let (path, attributes) = (self.path.clone(), self.attributes.clone());
        let changes = attributes.changes(&path, Link::Follow)?;
        if changes.is_empty() {
            return Ok(Plan::unchanged().with_all(describe(&path)));
        }
        let diff = diff_of(&path, &changes);
        let data = describe(&path);
        let plan = Plan::change(move |_host, outcome| {
            attributes.apply(&path, Link::Follow)?;
            outcome.data.extend(describe(&path));
            Ok(())
        });
        Ok(plan.with_all(data).with_diff(diff))
    }

    fn plan_content(self, host: &Host, exists: bool, asked: &Path, sum: String) -> Result<Plan, Failure> {
        let directory = super::staged::directory_of(&self.path);
        if !directory.is_dir() && !self.directory_to_come && !host.check() {
            return Err(Failure::new(format!("Destination directory {} does not exist", directory.display())));
        }
        let data = if exists { describe(&self.path) } else { crate::Map::new() };
        let diff = if host.diff() {
            // Read under the requested name, even if that is a link.
            let before = if asked.exists() { difference::excerpt(asked, host.max_diff()) } else { None };
            Some(difference::of_contents(
                &asked.display().to_string(),
                before.as_deref(),
                &self.source_name,
                Some(&self.excerpt(host)?),
                host.max_diff(),
            ))
        } else {
            None
        };
        let plan = Plan::change(move |host, outcome| self.write(&sum, host, outcome)).with_all(data);
        Ok(plan.with_diff(diff))
    }

    fn write(self, sum: &str, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        let store = |content: &mut dyn Read| {
            let mut staged = Staged::beside(&self.path, &self.attributes)?;
            staged.flushed_later = self.flushed_later;
            staged.edited = self.edited.as_ref().and_then(|file| file.try_clone().ok());
            let hashers = vec![Hasher::sha1(), Hasher::Md5(Default::default())];
            let (sums, _) = staged.fill_hashed(content, hashers, host)?;
            let [written, md5] = sums.as_slice() else { return Err(Failure::new("a checksum is missing")) };
            // Compared here, so that only the announced content is kept for other hosts.
            if written != sum {
                return Err(Failure::new(format!(
                    "Copied file does not match the expected checksum. Transfer failed. Expected {sum}, got {written} for {}.",
                    self.path.display()
                ))
                .with("checksum", written.as_str())
                .with("expected_checksum", sum));
            }
            Ok((staged, md5.clone()))
        };
        let (mut staged, md5) = match self.source {
            Source::Controller(index) => host.store_content(index, store, |(staged, _)| staged.file())?,
            _ => store(&mut *self.open(host)?)?,
        };
        validate(self.validate.as_deref(), &mut staged, host)?;
        if self.backup
            && let Some(copy) = backup::make(&self.path)?
        {
            outcome.set("backup_file", copy.display().to_string());
        }
        staged.commit(&self.attributes)?;
        outcome.data.extend(describe(&self.path));
        outcome.set("md5sum", md5.as_str());
        Ok(())
    }

    /// SHA-1 of the content; known without reading for contents of the controller.
    fn sum(&self, host: &Host) -> Result<String, Failure> {
        match &self.source {
            Source::Controller(index) if !host.content(*index)?.sha1.is_empty() => {
                Ok(host.content(*index)?.sha1.clone())
            }
            _ => self.sum_by(Hasher::sha1(), host),
        }
    }

    /// Another checksum of the content.
    pub(super) fn sum_by(&self, hasher: Hasher, host: &Host) -> Result<String, Failure> {
        checksum::of_reader(hasher, &mut *self.open(host)?, host).map_err(|error| {
            Failure::new(format!("The content of {} could not be read: {error}.", self.path.display()))
        })
    }

    fn open(&self, host: &Host) -> Result<Box<dyn Read + '_>, Failure> {
        Ok(match &self.source {
            Source::Bytes(bytes) => Box::new(Cursor::new(bytes.as_slice())),
            Source::Controller(index) => host.read_content(*index)?,
            Source::File(path) => Box::new(way::open(path).map_err(|error| {
                Failure::new(format!("Source {} not readable: {}.", path.display(), process::reason(&error)))
            })?),
        })
    }

    /// Enough of the content for a diff. A large content is not fetched from the controller for that alone.
    fn excerpt(&self, host: &Host) -> Result<Vec<u8>, Failure> {
        let limit = host.max_diff();
        if let Source::Controller(index) = self.source
            && host.content(index)?.size > limit
        {
            return Ok(vec![b' '; limit as usize + 1]);
        }
        let mut bytes = Vec::new();
        let read = self.open(host)?.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|error| {
            Failure::new(format!("The content of {} could not be read: {error}.", self.path.display()))
        })?;
        Ok(bytes)
    }
}

fn same_content(source: &Source, path: &Path, sum: &str, host: &Host) -> Result<bool, Failure> {
    let size = match source {
        Source::Bytes(bytes) => Some(bytes.len() as u64),
        Source::Controller(index) => Some(host.content(*index)?.size),
        Source::File(file) => file.metadata().ok().map(|found| found.len()),
    };
    let found = path.metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
    // A different size needs no reading, and a special file has no size.
    if size.is_none() || size != found {
        return Ok(false);
    }
    Ok(checksum::of_file(Hasher::sha1(), path, host)? == sum)
}

/// Runs the command that validates a new file, on a copy in a directory of ours: the command may execute what it reads,
/// and the owner of the file's own directory could replace it.
pub fn validate(command: Option<&str>, staged: &mut Staged, host: &Host) -> Result<(), Failure> {
    let Some(command) = command else { return Ok(()) };
    let scratch = Scratch::new()?;
    let path = staged.copy_into(scratch.path())?;
    let path = path.to_string_lossy();
    let mut words = crate::commands::split(command)?.into_iter().map(|word| word.replace("%s", &path));
    let program = words.next().unwrap_or_default();
    let output = process::Command::new(program).args(words).run(host)?;
    if output.success() {
        return Ok(());
    }
    let said = [output.stderr_text(), output.stdout_text()].join(" ");
    Err(Failure::new(format!("failed to validate: rc:{} error:{}", output.rc, said.trim()))
        .with("exit_status", output.rc)
        .with("stdout", output.stdout_text())
        .with("stderr", output.stderr_text()))
}
