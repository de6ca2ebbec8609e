//! Edits part of a text file.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

use crate::{
    Args, Diff, Failure, Host, Map, Plan,
    files::{
        attributes::{Attributes, with_changes},
        backup,
        info::describe,
        staged::Staged,
        way::{self, Link, Place},
        write::validate,
    },
    process::reason,
};

/// Message if attributes change in addition to the text.
const ATTRIBUTES_CHANGED: &str = "ownership, perms or SE linux context changed";

/// Text of a file. If it is not UTF-8, each byte is kept as a character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    bytewise: bool,
}

impl Text {
    pub(crate) fn of(bytes: Vec<u8>) -> Text {
        match String::from_utf8(bytes) {
            Ok(text) => Text { text, bytewise: false },
            Err(error) => {
                Text { text: error.as_bytes().iter().map(|byte| char::from(*byte)).collect(), bytewise: true }
            }
        }
    }

    /// A text of the task in this file's encoding.
    pub(crate) fn own(&self, text: &str) -> String {
        if self.bytewise { text.bytes().map(char::from).collect() } else { text.to_owned() }
    }

    /// The bytes of a text that was derived from this one.
    pub(super) fn bytes(&self, text: &str) -> Vec<u8> {
        if self.bytewise {
            // Every character represents one byte.
            text.chars().map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?')).collect()
        } else {
            text.as_bytes().to_vec()
        }
    }
}

/// A file to edit, which may not exist yet.
pub(super) struct Edit {
    /// Path as given in the task.
    path: PathBuf,
    attributes: Attributes,
    backup: bool,
    validate: Option<String>,
    /// Result key of the backup, and whether it is present without a backup.
    backup_key: &'static str,
    always_backup_key: bool,
    /// Edits the target of a link instead of replacing the link.
    follow: bool,
    /// Text after the path in the header of the difference.
    difference: &'static str,
    /// Reports a separate difference of the attributes.
    second_difference: bool,
    /// Adds owner, permissions and so on to the result.
    described: bool,
    pub(super) exists: bool,
    /// The file that was read.
    file: Option<File>,
    pub(super) before: Text,
}

impl Edit {
    /// Reads the file in the option `path`.
    pub(super) fn of(args: &Args, host: &Host) -> Result<Edit, Failure> {
        Edit::at(args.required("path")?.into(), args, host)
    }

    /// Reads the file at this path.
    pub(super) fn at(path: PathBuf, args: &Args, host: &Host) -> Result<Edit, Failure> {
        if path.is_dir() {
            return Err(Failure::new(format!("Path {} is a directory !", path.display())).with("rc", 256));
        }
        let exists = path.exists();
        let failed = |error| Failure::new(format!("{} could not be read: {}.", path.display(), reason(&error)));
        let file = exists.then(|| way::open(&path)).transpose().map_err(failed)?;
        let bytes = file.as_ref().map(super::read_rest).transpose().map_err(failed)?.unwrap_or_default();
        let command = args.str("validate").map(str::to_owned);
        if let Some(command) = command.as_deref().filter(|command| !command.contains("%s")) {
            return Err(Failure::new(format!("validate must contain %s: {command}")));
        }
        Ok(Edit {
            attributes: Attributes::of(args, host)?,
            backup: args.bool("backup"),
            validate: command,
            backup_key: "backup_file",
            always_backup_key: false,
            follow: true,
            difference: " (content)",
            second_difference: false,
            described: false,
            before: Text::of(bytes),
            exists,
            file,
            path,
        })
    }

    /// Puts the name of the backup into this key of every result.
    pub(super) fn with_backup_key(self, key: &'static str) -> Edit {
        Edit { backup_key: key, always_backup_key: true, ..self }
    }

    /// Edits the target of a link, or replaces the link.
    pub(super) fn with_follow(self, follow: bool) -> Edit {
        Edit { follow, ..self }
    }

    /// Reports a separate difference of the attributes, even if they do not differ.
    pub(super) fn with_second_difference(self) -> Edit {
        Edit { second_difference: true, ..self }
    }

    /// Uses the path alone as header, and reports the difference only if it is not empty.
    pub(super) fn with_bare_difference(self) -> Edit {
        Edit { difference: "", ..self }
    }

    /// Adds owner, permissions and so on to the result.
    pub(super) fn described(self) -> Edit {
        Edit { described: true, ..self }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if the file is missing and the task may not create it.
    pub(super) fn need(&self, create: bool, what: &str) -> Result<(), Failure> {
        if create { Ok(()) } else { self.need_file(what) }
    }

    /// Fails if the file is missing.
    pub(super) fn need_file(&self, what: &str) -> Result<(), Failure> {
        if self.exists {
            return Ok(());
        }
        Err(Failure::new(format!("{what} {} does not exist !", self.path.display())).with("rc", 257))
    }

    /// The plan that writes this text; the message does not mention attributes.
    pub(super) fn plan_quietly(self, after: &str, msg: &str, host: &Host) -> Result<Plan, Failure> {
        Ok(self.plan(after, msg, host)?.with("msg", msg))
    }

    /// The plan that writes this text, with a message about the changes.
    pub(super) fn plan(self, after: &str, msg: &str, host: &Host) -> Result<Plan, Failure> {
        let rewrite = !self.exists && !msg.is_empty() || self.exists && after != self.before.text;
        let changes = match self.exists {
            true => self.attributes.changes(&self.path, Link::Follow)?,
            // For a new file, the attributes beyond the defaults are reported.
            false if rewrite && !host.check() => self.attributes.changes_of_fresh()?,
            false => Vec::new(),
        };
        let mut message = msg.to_owned();
        if !changes.is_empty() {
            message = if rewrite { format!("{msg} and {ATTRIBUTES_CHANGED}") } else { ATTRIBUTES_CHANGED.to_owned() };
        }
        let is_shown = rewrite || !self.difference.is_empty();
        let diff = (host.diff() && is_shown).then(|| self.diff(after));
        let has_second = self.second_difference && (self.exists || !host.check());
        let attribute_diff = (host.diff() && (has_second || !changes.is_empty())).then(|| {
            let name = format!("{} (file attributes)", self.path.display());
            let head = Diff { before_header: Some(name.clone()), after_header: Some(name), ..Diff::default() };
            with_changes(head, &changes)
        });
        let warnings = self.attributes.warnings();
        let (key, always) = (self.backup_key, self.always_backup_key);
        let about = if self.described && self.exists { describe(&self.path) } else { Map::new() };
        let mut plan = if rewrite || !changes.is_empty() {
            let bytes = rewrite.then(|| self.before.bytes(after));
            Plan::change(move |host, outcome| {
                if let Some(copy) = self.write(bytes.as_deref(), host)? {
                    outcome.set(self.backup_key, copy.display().to_string());
                }
                if self.described {
                    outcome.data.extend(describe(&self.path));
                }
                Ok(())
            })
        } else {
            Plan::unchanged()
        };
        plan = plan.with_all(about).with("msg", message);
        if always {
            plan = plan.with(key, "");
        }
        for diff in diff.into_iter().chain(attribute_diff) {
            plan = plan.with_diff(diff);
        }
        Ok(warnings.into_iter().fold(plan, Plan::with_warning))
    }

    fn diff(&self, after: &str) -> Diff {
        Diff::of(&format!("{}{}", self.path.display(), self.difference), self.before.text.as_str(), after)
    }

    /// Writes the new content, if any, and sets the attributes. Returns the backup.
    fn write(&self, bytes: Option<&[u8]>, host: &Host) -> Result<Option<PathBuf>, Failure> {
        let mut copy = None;
        if let Some(bytes) = bytes {
            // Replaces the target of a link, not the link.
            let real = if self.exists && self.follow {
                let place = Place::to_write(&self.path, Link::Follow).map_err(|error| {
                    Failure::new(format!("{} could not be written: {}.", self.path.display(), reason(&error)))
                })?;
                place.real().to_owned()
            } else {
                self.path.clone()
            };
            if let Some(parent) = real.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
                way::create_dir_all(parent).map_err(|error| {
                    Failure::new(format!("Error creating {}: {}.", parent.display(), reason(&error)))
                })?;
            }
            let mut staged = Staged::beside(&real, &self.attributes)?;
            staged.edited = self.file.as_ref().and_then(|file| file.try_clone().ok());
            let written = staged.file().write_all(bytes);
            written.map_err(|error| staged.write_failure(&error))?;
            // Editing modules return only the message of a failed validation.
            validate(self.validate.as_deref(), &mut staged, host).map_err(|failure| Failure::new(failure.message))?;
            if self.backup {
                copy = backup::make(&real)?;
            }
            staged.commit(&self.attributes)?;
        } else {
            self.attributes.apply(&self.path, Link::Follow)?;
        }
        Ok(copy)
    }
}

/// The lines of a text with their endings; only a newline ends a line.
pub(super) fn lines_with_ends(text: &str) -> Vec<String> {
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// A line without its ending.
pub(super) fn bare(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_bytes_preserved() {
        let text = Text::of(vec![b'a', 0xff, b'\n']);
        assert_eq!(text.bytes(&text.text), [b'a', 0xff, b'\n']);
        assert_eq!(text.bytes(&text.own("é")), "é".as_bytes());
        let text = Text::of("é".into());
        assert_eq!((text.own("ü").as_str(), text.bytes("ü").as_slice()), ("ü", "ü".as_bytes()));
    }
}
