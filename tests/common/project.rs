//! Commands in a project of their own.

use std::path::Path;
use std::process::{Command, Stdio};

/// Lets a command run in a project, with its own settings and journals.
pub(crate) fn enter(command: &mut Command, project: &Path) {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ANSIBLE")) {
        command.env_remove(name);
    }
    command
        .current_dir(project)
        .env("HOME", project)
        .env("WINDLASS_JOURNAL_DIR", project.join("state"))
        .env("NO_COLOR", "1")
        .env_remove("GOOD")
        .stdin(Stdio::null());
}
