//! Resolves names of modules: of the project, built in, of a collection, or ansible-core's own.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use windlass_template::Read;

use super::finder::Modules;
use super::listing::with_subfolders;
use super::module::{ForeignModule, Origin, Resolution};
use super::routing::Route;
use crate::error::did_you_mean;
use crate::playbook::short_name;
use crate::settings::Rejected;

impl Modules {
    /// Resolves a name in a task with these `collections`.
    pub fn resolve(&self, name: &str, collections: &[String]) -> Resolution {
        let key = (name.to_owned(), collections.to_vec());
        if let Some(found) = self.found.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return found.clone();
        }
        let found = self.look_up(name, collections);
        if let Resolution::Foreign(module) = &found
            && !matches!(module.origin, Origin::Core)
        {
            [Some(&module.path), module.action.as_ref()].into_iter().flatten().for_each(|path| self.note(path));
        }
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
        found
    }

    /// Notes a source of the project, which a resumed run compares.
    pub(super) fn note(&self, path: &Path) {
        self.files.reads().note(Read::File(path.to_owned()));
    }

    /// File that rejects the module, if one does.
    fn rejected_by(&self, name: &str) -> Option<&Path> {
        let Rejected { file, modules } = &self.options.rejected;
        let is_it = |rejected: &String| rejected == name || rejected == short_name(name);
        modules.iter().any(is_it).then_some(file.as_path())
    }

    fn look_up(&self, name: &str, collections: &[String]) -> Resolution {
        if let Some(file) = self.rejected_by(name) {
            return Resolution::Unknown(Some(format!(
                "{name} matched a defined plugin filter: {} rejects it",
                file.display()
            )));
        }
        if crate::builtin::is_engine(name) {
            return Resolution::Native;
        }
        let in_builtin = |short: &str| match crate::builtin::is_known(short) {
            true => Some(Resolution::Native),
            false => self.core_module(short),
        };
        if let Some(short) = name.strip_prefix("ansible.builtin.") {
            return in_builtin(short).unwrap_or_else(|| self.moved("ansible.builtin", short));
        }
        if short_name(name).contains('.') {
            return match crate::builtin::is_known(name) {
                true => Resolution::Native,
                false => self.qualified(name),
            };
        }
        let short = short_name(name);
        for collection in collections.iter().filter(|_| short == name) {
            let found = match collection.as_str() {
                "ansible.builtin" => in_builtin(short),
                "ansible.legacy" => self.in_project(short),
                _ => match self.qualified(&format!("{collection}.{short}")) {
                    Resolution::Unknown(_) => None,
                    found => Some(found),
                },
            };
            if let Some(found) = found {
                return found;
            }
        }
        let found = self.in_project(short).or_else(|| in_builtin(short));
        match found.unwrap_or_else(|| self.moved("ansible.builtin", short)) {
            Resolution::Unknown(None) => match self.action_plugin(short) {
                Some(path) => ForeignModule::with_action(short, path.clone(), Some(path), Origin::Project),
                None => self.in_usual_collections(short).unwrap_or(Resolution::Unknown(None)),
            },
            Resolution::Foreign(module) => match self.action_plugin(short) {
                Some(action) => {
                    ForeignModule::with_action(&module.name, module.path.clone(), Some(action), module.origin.clone())
                }
                None => Resolution::Foreign(module),
            },
            found => found,
        }
    }

    /// An action plugin of the project, of a role, or of a configured directory.
    fn action_plugin(&self, name: &str) -> Option<PathBuf> {
        let own = self.folders.lock().unwrap_or_else(PoisonError::into_inner).actions.clone();
        let set = self.options.actions.iter().flat_map(|folder| with_subfolders(folder));
        own.into_iter().chain(set).map(|folder| folder.join(format!("{name}.py"))).find(|path| path.is_file())
    }

    /// A module of the project, of a role, or of a configured directory.
    fn in_project(&self, name: &str) -> Option<Resolution> {
        let own = self.folders.lock().unwrap_or_else(PoisonError::into_inner).modules.clone();
        let set = self.options.library.iter().flat_map(|folder| with_subfolders(folder));
        let path = own.into_iter().chain(set).find_map(|folder| self.listings.find(&folder, name))?;
        Some(ForeignModule::found(name.split('.').next().unwrap_or(name), path, Origin::Project))
    }

    /// A module of ansible-core without a built-in counterpart.
    fn core_module(&self, name: &str) -> Option<Resolution> {
        let path = self.listings.find(&self.ansible_core()?.modules(), name)?;
        Some(ForeignModule::found(name, path, Origin::Core))
    }

    /// A module that was once part of Ansible and kept its short name. A table of ansible-core names its collection;
    /// without ansible-core, the usual collections are searched.
    fn in_usual_collections(&self, name: &str) -> Option<Resolution> {
        if self.ansible_core().is_some() {
            return None;
        }
        for root in self.collection_roots() {
            for namespace in ["ansible", "community"] {
                let folder = root.join("ansible_collections").join(namespace);
                let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
                let mut collections: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
                collections.sort();
                for collection in collections {
                    if let Some(path) = self.listings.find(&collection.join("plugins/modules"), name) {
                        let short = collection.file_name().unwrap_or_default().to_string_lossy();
                        return Some(ForeignModule::found(
                            name,
                            path,
                            Origin::Collection(format!("{namespace}.{short}")),
                        ));
                    }
                }
            }
        }
        None
    }

    /// Resolves `namespace.collection.module`.
    fn qualified(&self, name: &str) -> Resolution {
        let mut parts = name.splitn(3, '.');
        let (Some(namespace), Some(collection), Some(module)) = (parts.next(), parts.next(), parts.next()) else {
            return Resolution::Unknown(None);
        };
        let full = format!("{namespace}.{collection}");
        let Some(folder) = self.collection(namespace, collection) else {
            return Resolution::Unknown(Some(super::not_installed(&full)));
        };
        let mut modules = folder.join("plugins/modules");
        let mut short = module;
        while let Some((subfolder, rest)) = short.split_once('.') {
            modules.push(subfolder);
            short = rest;
        }
        if let Some(path) = self.listings.find(&modules, short) {
            return ForeignModule::found(short, path, Origin::Collection(full));
        }
        let action = folder.join("plugins/action").join(format!("{module}.py"));
        if action.is_file() {
            return ForeignModule::with_action(module, action.clone(), Some(action), Origin::Collection(full));
        }
        match self.moved(&full, module) {
            Resolution::Unknown(None) => {
                let names = self.listings.names(&modules);
                Resolution::Unknown(did_you_mean(short, names.iter().map(String::as_str)))
            }
            found => found,
        }
    }

    /// Follows a collection's redirection of a module that it no longer has.
    fn moved(&self, collection: &str, name: &str) -> Resolution {
        match self.route(collection, "modules", name) {
            None => Resolution::Unknown(None),
            Some(Route::Removed(reason)) => {
                Resolution::Unknown(Some(format!("{collection}.{name} was removed. {reason}").trim_end().to_owned()))
            }
            Some(Route::Redirect(target)) if target == format!("{collection}.{name}") => Resolution::Unknown(None),
            Some(Route::Redirect(target)) => match self.look_up(&target, &[]) {
                Resolution::Unknown(reason) => {
                    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                    Resolution::Unknown(Some(format!("{name} has moved to {target}{reason}")))
                }
                found => found,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::finder::ModulesOptions;
    use super::*;
    use crate::playbook::Files;

    fn project(files: &[(&str, &str)]) -> (tempfile::TempDir, Modules) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let options = ModulesOptions {
            library: vec![root.path().join("set")],
            collections: vec![root.path().join("collections")],
            ansible_core: Some(root.path().join("core")),
            ..ModulesOptions::default()
        };
        let files = Files::new(windlass_vault::Secrets::new(), windlass_yaml::DuplicateKeys::Ignore);
        let modules = Modules::new(options, Arc::new(files));
        (root, modules)
    }

    fn shown(root: &Path, resolution: Resolution) -> String {
        match resolution {
            Resolution::Native => "native".to_owned(),
            Resolution::Foreign(module) => module.path.strip_prefix(root).unwrap().display().to_string(),
            Resolution::Unknown(reason) => format!("unknown: {}", reason.unwrap_or_default()),
        }
    }

    #[test]
    fn short_names_of_collections_are_known_without_ansible_core() {
        let base = "collections/ansible_collections";
        let (root, modules) = project(&[
            (&format!("{base}/community/general/plugins/modules/hoist.py"), ""),
            (&format!("{base}/other/coll/plugins/modules/elsewhere.py"), ""),
        ]);
        let at = |name: &str| shown(root.path(), modules.resolve(name, &[]));
        assert_eq!(at("hoist"), format!("{base}/community/general/plugins/modules/hoist.py"));
        assert_eq!(at("elsewhere"), "unknown: ");
    }

    #[test]
    fn project_outranks_builtin_and_builtin_outranks_ansible_core() {
        let (root, modules) = project(&[
            ("library/ping.py", ""),
            ("library/ping.ini", ""),
            ("set/deep/ping.sh", ""),
            ("set/deep/other.sh", ""),
            ("core/ansible/module_utils/basic.py", ""),
            ("core/ansible/modules/ping.py", ""),
            ("core/ansible/modules/only_there.py", ""),
        ]);
        let at = |name: &str| shown(root.path(), modules.resolve(name, &[]));
        assert_eq!(at("ping"), "set/deep/ping.sh");
        modules.add_folder(root.path());
        assert_eq!(at("ping"), "library/ping.py");
        assert_eq!(at("ansible.legacy.ping"), "library/ping.py");
        assert_eq!(at("ansible.builtin.ping"), "native");
        assert_eq!(at("other"), "set/deep/other.sh");
        assert_eq!(at("only_there"), "core/ansible/modules/only_there.py");
        assert_eq!(at("ansible.builtin.only_there"), "core/ansible/modules/only_there.py");
        assert_eq!(at("nothing"), "unknown: ");
        assert_eq!(at("meta"), "native");
    }

    #[test]
    fn collections_searched_in_order_with_redirects() {
        let base = "collections/ansible_collections/one/coll";
        let runtime = "plugin_routing:\n  modules:\n    old:\n      redirect: one.coll.sub.new\n    gone:\n      tombstone:\n        warning_text: Use x.\n";
        let (root, modules) = project(&[
            (&format!("{base}/plugins/modules/ping.py"), ""),
            (&format!("{base}/plugins/modules/sub/new.py"), ""),
            (&format!("{base}/meta/runtime.yml"), runtime),
        ]);
        let at = |name: &str, collections: &[&str]| {
            let collections: Vec<String> = collections.iter().map(|name| (*name).to_owned()).collect();
            let text = shown(root.path(), modules.resolve(name, &collections));
            text.replace(&format!("{base}/plugins/modules/"), "")
        };
        assert_eq!(at("one.coll.ping", &[]), "ping.py");
        assert_eq!(at("ping", &["one.coll"]), "ping.py");
        assert_eq!(at("ping", &["ansible.builtin", "one.coll"]), "native");
        assert_eq!(at("ping", &[]), "native");
        assert_eq!(at("one.coll.old", &[]), "sub/new.py");
        assert_eq!(at("one.coll.gone", &[]), "unknown: one.coll.gone was removed. Use x.");
        assert_eq!(at("one.coll.pong", &[]), "unknown: did you mean `ping`?");
        assert!(at("two.coll.x", &[]).contains("the collection two.coll is not installed"));
    }
}
