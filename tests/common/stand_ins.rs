//! Projects with stand-ins for parts of ansible-core, in their folder `core`.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Files of every stand-in. In `ansible.folders`, `find` imports the plugin of a name, for the loaders.
const COMMON: &[(&str, &str)] = &[
    ("core/ansible/release.py", "__version__ = '2.19.0'\n"),
    ("core/ansible/module_utils/basic.py", ""),
    (
        "core/ansible/folders.py",
        r#"import importlib.util
import os


class Folders:
    def __init__(self):
        self.folders = []

    def add_directory(self, folder):
        self.folders.append(folder)

    def find(self, name):
        for folder in self.folders:
            path = os.path.join(folder, name + '.py')
            if os.path.exists(path):
                spec = importlib.util.spec_from_file_location(name, path)
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
"#,
    ),
];

/// Writes the files of a project, over the common ones.
pub(crate) fn project<'a>(files: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in COMMON.iter().chain(files) {
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
