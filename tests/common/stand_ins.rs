//! Projects with stand-ins for parts of ansible-core, in their folder `core`.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Writes the files of a project.
pub(crate) fn project<'a>(files: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

/// A command of `windlass` in a project.
pub(crate) fn windlass(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ANSIBLE")) {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1").env("HOME", folder).env("WINDLASS_ANSIBLE_CORE", folder.join("core"));
    command.args(arguments).current_dir(folder);
    command
}
