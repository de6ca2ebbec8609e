//! Collects everything a Python module imports from `module_utils`, recursively.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use super::finder::Modules;
use super::imports::{Import, imports_of};
use super::routing::Route;

/// Python sources by their paths in the package.
pub(super) type Sources = BTreeMap<String, Vec<u8>>;

/// Sources that every module gets: they parse arguments and write results, and some are imported by name at run time.
const ALWAYS: &[&str] = &[
    "ansible.module_utils.basic",
    "ansible.module_utils._internal._ansiballz._loader",
    "ansible.module_utils._internal._json._profiles._module_legacy_c2m",
    "ansible.module_utils._internal._json._profiles._module_legacy_m2c",
];

/// A Python module to find.
struct Wanted {
    name: Vec<String>,
    /// The last part of the name may be an object in the module before it.
    ambiguous: bool,
    optional: bool,
}

/// A source file found for a name.
struct Located {
    name: Vec<String>,
    text: Vec<u8>,
    is_package: bool,
    /// Module that replaces this one and is needed too.
    stands_for: Option<String>,
}

/// Collects the sources that a module needs.
pub(super) struct Collector<'a> {
    modules: &'a Modules,
    folders: Vec<PathBuf>,
    /// Name of the module, for messages.
    python_name: String,
    wanted: VecDeque<Wanted>,
    sources: Sources,
}

impl<'a> Collector<'a> {
    /// Collector for a module with this dotted name and source text.
    pub(super) fn new(modules: &'a Modules, python_name: &str, text: &str) -> Collector<'a> {
        let mut collector = Collector {
            modules,
            folders: modules.module_utils_folders(),
            python_name: python_name.to_owned(),
            wanted: VecDeque::new(),
            sources: Sources::new(),
        };
        collector.want_imports(&parts(python_name), false, text);
        for name in ALWAYS {
            // Older releases of ansible-core have only the first of them.
            let optional = *name != "ansible.module_utils.basic";
            collector.wanted.push_back(Wanted { name: parts(name), ambiguous: false, optional });
        }
        collector
    }

    /// Finds all sources. Fails if a required one is missing.
    pub(super) fn collect(mut self) -> Result<Sources, String> {
        while let Some(wanted) = self.wanted.pop_front() {
            if self.has(&wanted.name) {
                continue;
            }
            let Some(located) = self.locate(&wanted) else {
                if wanted.optional {
                    continue;
                }
                let tried: Vec<_> = candidates(&wanted).iter().map(|name| format!("'{}'", name.join("."))).collect();
                return Err(format!(
                    "Could not find imported module support code for {}.  Looked for ([{}])",
                    self.python_name,
                    tried.join(", ")
                ));
            };
            self.add(located, wanted.optional);
        }
        Ok(self.sources)
    }

    fn has(&self, name: &[String]) -> bool {
        let path = name.join("/");
        self.sources.contains_key(&format!("{path}.py")) || self.sources.contains_key(&format!("{path}/__init__.py"))
    }

    fn add(&mut self, located: Located, optional: bool) {
        if self.has(&located.name) {
            return;
        }
        if let Some(target) = &located.stands_for {
            self.wanted.push_back(Wanted { name: parts(target), ambiguous: false, optional });
        }
        self.want_imports(&located.name, located.is_package, &String::from_utf8_lossy(&located.text));
        // `Package::make` supplies `ansible` and `ansible.module_utils`.
        let made = if located.name.first().is_some_and(|name| name == "ansible") { 3 } else { 1 };
        for length in made..located.name.len() {
            let package = located.name.get(..length).unwrap_or_default().to_vec();
            self.wanted.push_back(Wanted { name: package, ambiguous: false, optional });
        }
        let path = located.name.join("/");
        let path = if located.is_package { format!("{path}/__init__.py") } else { format!("{path}.py") };
        self.sources.insert(path, located.text);
    }

    fn want_imports(&mut self, within: &[String], is_package: bool, text: &str) {
        for import in imports_of(text) {
            let Some(name) = absolute(&import, within, is_package) else { continue };
            let name: Vec<String> = match &import.name {
                Some(last) if last != "*" => name.into_iter().chain([last.clone()]).collect(),
                _ => name,
            };
            if is_module_util(&name) {
                let ambiguous = import.name.as_ref().is_some_and(|name| name != "*");
                self.wanted.push_back(Wanted { name, ambiguous, optional: import.optional });
            }
        }
    }

    fn locate(&self, wanted: &Wanted) -> Option<Located> {
        candidates(wanted).into_iter().find_map(|name| {
            let found = match name.first().map(String::as_str) {
                Some("ansible") => self.in_folders(&name),
                _ => self.in_collection(&name),
            };
            found.or_else(|| self.moved(&name))
        })
    }

    fn in_folders(&self, name: &[String]) -> Option<Located> {
        let inside = name.get(2..).unwrap_or_default();
        let is_core =
            |folder: &PathBuf| self.modules.ansible_core().is_some_and(|core| folder.starts_with(core.site_packages()));
        self.folders.iter().find_map(|folder| read(folder, inside, name, (!is_core(folder)).then_some(self.modules)))
    }

    fn in_collection(&self, name: &[String]) -> Option<Located> {
        let (Some(namespace), Some(collection)) = (name.get(1), name.get(2)) else {
            return Some(empty_package(name));
        };
        if name.len() < 6 {
            return Some(empty_package(name));
        }
        let folder = self.modules.collection(namespace, collection)?;
        read(&folder, name.get(3..).unwrap_or_default(), name, Some(self.modules))
    }

    /// A module that redirects to another one.
    fn moved(&self, name: &[String]) -> Option<Located> {
        let (collection, inside) = match name.first()?.as_str() {
            "ansible" => ("ansible.builtin".to_owned(), name.get(2..)?),
            _ => (format!("{}.{}", name.get(1)?, name.get(2)?), name.get(5..)?),
        };
        let Some(Route::Redirect(target)) = self.modules.route(&collection, "module_utils", &inside.join(".")) else {
            return None;
        };
        let target = if target.starts_with("ansible_collections.") {
            target
        } else {
            let mut pieces = target.splitn(3, '.');
            let (namespace, collection, rest) = (pieces.next()?, pieces.next()?, pieces.next()?);
            format!("ansible_collections.{namespace}.{collection}.plugins.module_utils.{rest}")
        };
        let text = format!("import sys\n\nimport {target} as other\n\nsys.modules[__name__] = other\n");
        Some(Located { name: name.to_vec(), text: text.into_bytes(), is_package: true, stands_for: Some(target) })
    }
}

fn parts(dotted: &str) -> Vec<String> {
    dotted.split('.').map(str::to_owned).collect()
}

fn is_module_util(name: &[String]) -> bool {
    let at = |index: usize| name.get(index).map(String::as_str);
    match at(0) {
        Some("ansible") => at(1) == Some("module_utils") && name.len() > 2,
        Some("ansible_collections") => at(3) == Some("plugins") && at(4) == Some("module_utils") && name.len() > 5,
        _ => false,
    }
}

/// Names under which it may be found.
fn candidates(wanted: &Wanted) -> Vec<Vec<String>> {
    let name = &wanted.name;
    let root = if name.first().is_some_and(|name| name == "ansible") { 2 } else { 5 };
    // six creates its submodules at import time.
    if root == 2 && name.get(2).is_some_and(|name| name == "six") {
        return vec![name.iter().take(3).cloned().collect()];
    }
    let mut all = vec![name.clone()];
    if wanted.ambiguous && name.len() > root + 1 {
        all.push(name.iter().take(name.len() - 1).cloned().collect());
    }
    all
}

/// Absolute name of the imported module, without the objects imported from it.
fn absolute(import: &Import, within: &[String], is_package: bool) -> Option<Vec<String>> {
    if import.level == 0 {
        return Some(import.module.clone());
    }
    let up = if is_package { import.level - 1 } else { import.level };
    let base = within.get(..within.len().checked_sub(up)?)?;
    Some(base.iter().chain(&import.module).cloned().collect())
}

/// Reads a package or module below a directory; a package takes precedence, as in Python. `noted` notes the file.
fn read(folder: &Path, inside: &[String], name: &[String], noted: Option<&Modules>) -> Option<Located> {
    let path: PathBuf = folder.iter().chain(inside.iter().map(AsRef::as_ref)).collect();
    let located = |text, is_package| Located { name: name.to_vec(), text, is_package, stands_for: None };
    let package = path.join("__init__.py");
    if let Ok(text) = windlass_bounds::read(&package) {
        noted.iter().for_each(|modules| modules.note(&package));
        return Some(located(text, true));
    }
    let mut file = path.clone().into_os_string();
    file.push(".py");
    match windlass_bounds::read(&file) {
        Ok(text) => {
            noted.iter().for_each(|modules| modules.note(Path::new(&file)));
            Some(located(text, false))
        }
        // Python accepts a directory without `__init__.py` as a package.
        Err(_) => path.is_dir().then(|| located(Vec::new(), true)),
    }
}

fn empty_package(name: &[String]) -> Located {
    Located { name: name.to_vec(), text: Vec::new(), is_package: true, stands_for: None }
}
