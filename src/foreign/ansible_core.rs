//! The ansible-core on the controller, whose `module_utils` Python modules import.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// An ansible-core installed on the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsibleCore {
    /// Directory of the Python package `ansible`.
    pub package: PathBuf,
    /// Python interpreter of the installation, if known.
    pub python: Option<PathBuf>,
    /// Version of ansible-core.
    pub version: String,
    /// Source text that names the internal arguments its modules accept.
    parameters: OnceLock<String>,
}

/// File that identifies the package `ansible`.
const MARK: &str = "module_utils/basic.py";
/// Commands whose Python environment may contain the package.
const COMMANDS: &[&str] = &["ansible-playbook", "ansible"];

impl AnsibleCore {
    /// ansible-core at `place`: the package itself, a site-packages directory, a virtual environment, or a source tree.
    pub fn at(place: &Path) -> Option<AnsibleCore> {
        let package = package_in(place)?;
        Some(AnsibleCore {
            python: python_of(&package),
            version: version_of(&package),
            package,
            parameters: OnceLock::new(),
        })
    }

    /// Searches beside `ansible` on PATH, in the active virtual environment, in environments of pipx and uv, and in the
    /// system's Python. Starts no program.
    pub fn find() -> Option<AnsibleCore> {
        places().iter().find_map(|place| AnsibleCore::at(place))
    }

    /// Whether modules of this version accept the internal argument `_ansible_NAME`. Older releases refuse unknown
    /// ones.
    pub fn takes(&self, argument: &str) -> bool {
        let text = self.parameters.get_or_init(|| {
            windlass_bounds::read_text(self.package.join("module_utils/common/parameters.py")).unwrap_or_default()
        });
        let name = argument.strip_prefix("_ansible_").unwrap_or(argument);
        text.is_empty() || text.contains(&format!("'{name}'"))
    }

    /// Directory of its modules.
    pub fn modules(&self) -> PathBuf {
        self.package.join("modules")
    }

    /// Directory of Python packages that contains ansible-core. It may contain collections too.
    pub fn site_packages(&self) -> &Path {
        self.package.parent().unwrap_or(&self.package)
    }

    /// Table of short names and the collections they moved to.
    pub fn routing_file(&self) -> PathBuf {
        self.package.join("config/ansible_builtin_runtime.yml")
    }
}

/// Directories to search, the most likely first.
fn places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    let this = std::env::current_exe().and_then(|path| path.canonicalize()).ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    for folder in std::env::split_paths(&path) {
        for command in COMMANDS {
            let Ok(real) = folder.join(command).canonicalize() else { continue };
            // A link to Windlass itself leads to no ansible-core.
            if Some(&real) == this.as_ref() {
                continue;
            }
            places.extend(python_prefix_of_script(&real));
            places.extend(prefix(&real));
        }
    }
    places.extend(std::env::var_os("VIRTUAL_ENV").map(PathBuf::from));
    if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
        for tools in [".local/share/pipx/venvs", ".local/pipx/venvs", ".local/share/uv/tools"] {
            places.extend(["ansible-core", "ansible"].map(|name| home.join(tools).join(name)));
        }
        places.push(home.join(".local"));
    }
    for folder in std::env::split_paths(&path) {
        if let Ok(python) = folder.join("python3").canonicalize() {
            places.extend(prefix(&python));
        }
    }
    places.extend(["/usr/local", "/usr"].map(PathBuf::from));
    places
}

/// `/opt/venv` of `/opt/venv/bin/ansible`.
fn prefix(program: &Path) -> Option<PathBuf> {
    Some(program.parent()?.parent()?.to_owned())
}

/// Prefix of the Python named in the script's first line.
fn python_prefix_of_script(script: &Path) -> Option<PathBuf> {
    use std::io::BufRead as _;
    let mut line = Vec::new();
    let file = std::fs::File::open(script).ok()?;
    std::io::BufReader::new(file).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    let program = line.strip_prefix("#!")?.split_whitespace().next()?;
    prefix(Path::new(program)).filter(|_| program.contains("python"))
}

fn package_in(place: &Path) -> Option<PathBuf> {
    let is_package = |path: &PathBuf| path.join(MARK).is_file();
    let direct = [place.to_owned(), place.join("ansible"), place.join("lib/ansible")];
    direct.into_iter().find(is_package).or_else(|| {
        let mut pythons: Vec<PathBuf> = ["lib", "lib64"]
            .iter()
            .flat_map(|lib| std::fs::read_dir(place.join(lib)).into_iter().flatten().flatten())
            .map(|entry| entry.path())
            .filter(|path| path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("python3")))
            .collect();
        pythons.sort();
        let folders =
            pythons.iter().flat_map(|python| ["site-packages", "dist-packages"].map(|name| python.join(name)));
        folders.map(|folder| folder.join("ansible")).find(is_package)
    })
}

/// `/opt/venv/bin/python3` of `/opt/venv/lib/python3.11/site-packages/ansible`.
fn python_of(package: &Path) -> Option<PathBuf> {
    let libraries =
        package.ancestors().find(|path| path.file_name().is_some_and(|name| name == "lib" || name == "lib64"))?;
    let bin = libraries.parent()?.join("bin");
    ["python3", "python"].iter().map(|name| bin.join(name)).find(|path| path.is_file())
}

fn version_of(package: &Path) -> String {
    let text = windlass_bounds::read_text(package.join("release.py")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("__version__"));
    line.map(|rest| rest.trim_matches([' ', '=', '\'', '"', '\t']).to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(root: &Path, package: &str) {
        let package = root.join(package);
        std::fs::create_dir_all(package.join("module_utils")).unwrap();
        std::fs::write(package.join(MARK), "").unwrap();
        std::fs::write(package.join("release.py"), "__version__ = '2.19.3'\n__author__ = 'x'\n").unwrap();
    }

    #[test]
    fn virtual_environment_source_tree_and_package_found() {
        let root = tempfile::tempdir().unwrap();
        made(root.path(), "venv/lib/python3.11/site-packages/ansible");
        std::fs::create_dir_all(root.path().join("venv/bin")).unwrap();
        std::fs::write(root.path().join("venv/bin/python3"), "").unwrap();
        made(root.path(), "checkout/lib/ansible");
        let found = AnsibleCore::at(&root.path().join("venv")).unwrap();
        assert_eq!((found.version.as_str(), found.python), ("2.19.3", Some(root.path().join("venv/bin/python3"))));
        for place in ["checkout", "checkout/lib", "checkout/lib/ansible", "venv/lib/python3.11/site-packages"] {
            assert!(AnsibleCore::at(&root.path().join(place)).is_some(), "{place}");
        }
        assert_eq!(AnsibleCore::at(root.path()), None);
    }
}
