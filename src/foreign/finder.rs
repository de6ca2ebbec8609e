//! Which module a name stands for: one of the project, a native one, one of a collection, or ansible-core's own.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use windlass_template::PluginKind;

use super::ansible_core::AnsibleCore;
use super::listing::{Listings, with_subfolders};
use super::package::Package;
use super::plugins;
use super::routing::{Route, route};
use crate::error::did_you_mean;
use crate::playbook::{Files, short_name};
use crate::settings::Rejected;

/// Folders of plugins that run inside of Ansible.
const WITHOUT_EFFECT: &[&str] = &[
    "action_plugins",
    "become_plugins",
    "cache_plugins",
    "callback_plugins",
    "connection_plugins",
    "inventory_plugins",
    "strategy_plugins",
    "vars_plugins",
];

/// Where modules and plugins are searched.
#[derive(Debug, Clone, Default)]
pub struct ModulesOptions {
    /// `--module-path`: before everything else.
    pub first: Vec<PathBuf>,
    /// `library`: after the project's own.
    pub library: Vec<PathBuf>,
    /// `module_utils`: what Python modules import, after the project's own.
    pub module_utils: Vec<PathBuf>,
    /// `filter_plugins`, `test_plugins` and `lookup_plugins`: after the project's own.
    pub plugins: HashMap<PluginKind, Vec<PathBuf>>,
    /// Folders that hold `ansible_collections`, or are it.
    pub collections: Vec<PathBuf>,
    /// The place of ansible-core, if one is set.
    pub ansible_core: Option<PathBuf>,
    /// Modules that may not be used.
    pub rejected: Rejected,
}

/// Finds modules; each name is looked up once.
#[derive(Debug)]
pub struct Modules {
    options: ModulesOptions,
    files: Arc<Files>,
    core: OnceLock<Option<AnsibleCore>>,
    folders: Mutex<Folders>,
    listings: Listings,
    has_plugins: AtomicBool,
    found: Mutex<HashMap<(String, Vec<String>), Resolution>>,
    /// The modules that hosts have: the host, how and whom one becomes there, the hash.
    sent: Mutex<HashSet<(String, Option<String>, String)>>,
}

/// Folders of the project, in the order in which they became known.
#[derive(Debug, Default)]
struct Folders {
    modules: Vec<PathBuf>,
    module_utils: Vec<PathBuf>,
    plugins: HashMap<PluginKind, Vec<PathBuf>>,
    /// Plugins that stand for a whole task, which cannot be run.
    actions: Vec<PathBuf>,
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// An action or module of Windlass' own.
    Native,
    /// A file.
    Foreign(Arc<ForeignModule>),
    /// Nothing; what is known about it, as a sentence.
    Unknown(Option<String>),
}

/// A module in a file.
#[derive(Debug)]
pub struct ForeignModule {
    /// Its short name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Where it was found.
    pub origin: Origin,
    package: OnceLock<Result<Package, String>>,
}

/// Where a module was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the project, a role, or a folder that is set.
    Project,
    /// In a collection, `namespace.name`.
    Collection(String),
    /// In ansible-core.
    Core,
}

impl ForeignModule {
    fn found(name: &str, path: PathBuf, origin: Origin) -> Resolution {
        let module = ForeignModule { name: name.to_owned(), path, origin, package: OnceLock::new() };
        Resolution::Foreign(Arc::new(module))
    }

    /// Its dotted name in Python.
    pub fn python_name(&self) -> String {
        let text = self.path.to_string_lossy();
        match (&self.origin, text.rfind("/ansible_collections/")) {
            (Origin::Collection(_), Some(start)) => {
                let inside = text.get(start + 1..).unwrap_or_default();
                inside.strip_suffix(".py").unwrap_or(inside).replace('/', ".")
            }
            _ => format!("ansible.modules.{}", self.name),
        }
    }

    /// What is sent to hosts; made when first asked for.
    pub fn package(&self, modules: &Modules) -> Result<&Package, String> {
        self.package.get_or_init(|| Package::make(self, modules)).as_ref().map_err(Clone::clone)
    }

    /// A part of it that runs on the control machine in Python, which this cannot do.
    pub fn action_plugin(&self) -> Option<PathBuf> {
        let Origin::Collection(_) = self.origin else { return None };
        let plugins = self.path.ancestors().find(|path| path.ends_with("plugins"))?;
        Some(plugins.join("action").join(format!("{}.py", self.name))).filter(|path| path.is_file())
    }
}

impl Modules {
    /// Modules of a project.
    pub fn new(options: ModulesOptions, files: Arc<Files>) -> Modules {
        let folders = Folders { modules: options.first.clone(), ..Folders::default() };
        let set = options.plugins.values().flatten().any(|folder| folder.is_dir());
        Modules {
            options,
            files,
            core: OnceLock::new(),
            folders: Mutex::new(folders),
            listings: Listings::default(),
            has_plugins: AtomicBool::new(set),
            found: Mutex::default(),
            sent: Mutex::default(),
        }
    }

    /// The project's files.
    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// Adds the `library/`, `module_utils/` and plugins of a playbook's or a role's folder.
    pub fn add_folder(&self, folder: &Path) {
        let folder = crate::vars::absolute(folder);
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let Folders { modules, module_utils, plugins, actions } = &mut *folders;
        let add = |list: &mut Vec<PathBuf>, name: &str| {
            let path = folder.join(name);
            let is_new = path.is_dir() && !list.contains(&path);
            if is_new {
                list.push(path);
            }
            is_new
        };
        if add(modules, "library") {
            self.found.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        add(module_utils, "module_utils");
        add(actions, "action_plugins");
        for (kind, name, _) in plugins::KINDS {
            if add(plugins.entry(kind).or_default(), name) {
                self.has_plugins.store(true, Ordering::Relaxed);
            }
        }
        for name in WITHOUT_EFFECT {
            for file in plugins::python_files(&folder.join(name)) {
                self.files.warn(format!(
                    "{} has no effect: it is written in Python for Ansible itself, and of such plugins only filters, tests and lookups can be used",
                    file.display()
                ));
            }
        }
    }

    /// Whether there are folders of plugins.
    pub(super) fn has_plugins(&self) -> bool {
        self.has_plugins.load(Ordering::Relaxed)
    }

    /// The folders of plugins of that kind, in the order in which they are searched.
    pub(super) fn plugin_folders(&self, kind: PluginKind) -> Vec<PathBuf> {
        let own = self.folders.lock().unwrap_or_else(PoisonError::into_inner).plugins.get(&kind).cloned();
        let set = self.options.plugins.get(&kind).into_iter().flatten().filter(|folder| folder.is_dir());
        own.into_iter().flatten().chain(set.flat_map(|folder| with_subfolders(folder))).collect()
    }

    /// The folders that hold `ansible_collections`.
    pub(super) fn collection_roots(&self) -> Vec<PathBuf> {
        let holds = |folder: &Path| match folder.ends_with("ansible_collections") {
            true => folder.parent().unwrap_or(folder).to_owned(),
            false => folder.to_owned(),
        };
        self.options.collections.iter().map(|folder| holds(folder)).filter(|folder| folder.is_dir()).collect()
    }

    /// The Python of the control machine: that of its ansible-core, which has what Ansible's modules need, or the system's.
    pub fn controller_python(&self) -> String {
        let usual = || {
            let system = PathBuf::from("/usr/bin/python3");
            if system.is_file() { system } else { plugins::on_path("python3").unwrap_or(system) }
        };
        let own = self.ansible_core().and_then(|core| core.python.clone());
        own.unwrap_or_else(usual).display().to_string()
    }

    /// The ansible-core on the control machine, if there is one.
    pub fn ansible_core(&self) -> Option<&AnsibleCore> {
        let find = || match &self.options.ansible_core {
            Some(place) => AnsibleCore::at(place),
            None => AnsibleCore::find(),
        };
        self.core.get_or_init(find).as_ref()
    }

    /// Why there is no ansible-core, and what to do about it.
    pub(super) fn without_core(&self) -> String {
        let how = "Install it (`pipx install ansible-core`, or your system's package), or name its place: `ansible_core = PATH` under [windlass] in ansible.cfg, or WINDLASS_ANSIBLE_CORE";
        match &self.options.ansible_core {
            Some(place) => format!("there is no ansible-core in {}, which is set as its place. {how}", place.display()),
            None => format!("no ansible-core was found on this machine. {how}"),
        }
    }

    /// Folders that may hold Python modules' `module_utils`, in the order in which they are searched.
    pub(super) fn module_utils_folders(&self) -> Vec<PathBuf> {
        let own = self.folders.lock().unwrap_or_else(PoisonError::into_inner).module_utils.clone();
        let core = self.ansible_core().map(|core| core.package.join("module_utils"));
        own.into_iter().chain(self.options.module_utils.iter().cloned()).chain(core).collect()
    }

    /// The folder of a collection.
    pub(super) fn collection(&self, namespace: &str, name: &str) -> Option<PathBuf> {
        let inside = |root: &Path| {
            let root =
                if root.ends_with("ansible_collections") { root.to_owned() } else { root.join("ansible_collections") };
            Some(root.join(namespace).join(name)).filter(|path| path.is_dir())
        };
        let set = self.options.collections.iter().find_map(|root| inside(root));
        set.or_else(|| inside(self.ansible_core()?.site_packages()))
    }

    /// Where a plugin of a collection (`ansible.builtin` is one) has moved to.
    pub(super) fn route(&self, collection: &str, kind: &str, name: &str) -> Option<Route> {
        let file = match collection.split_once('.')? {
            ("ansible", "builtin") => self.ansible_core()?.routing_file(),
            (namespace, name) => self.collection(namespace, name)?.join("meta/runtime.yml"),
        };
        route(&self.files, &file, kind, name)
    }

    /// What a name stands for, in a task with these `collections`.
    pub fn resolve(&self, name: &str, collections: &[String]) -> Resolution {
        let key = (name.to_owned(), collections.to_vec());
        if let Some(found) = self.found.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return found.clone();
        }
        let found = self.look_up(name, collections);
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
        found
    }

    /// The file that says that a module may not be used.
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
        if crate::action::is_engine(name) {
            return Resolution::Native;
        }
        let in_builtin = |short: &str| match crate::action::is_known(short) {
            true => Some(Resolution::Native),
            false => self.core_module(short),
        };
        if let Some(short) = name.strip_prefix("ansible.builtin.") {
            return in_builtin(short).unwrap_or_else(|| self.moved("ansible.builtin", short));
        }
        if short_name(name).contains('.') {
            return match crate::action::is_known(name) {
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
                Some(reason) => Resolution::Unknown(Some(reason)),
                None => self.in_usual_collections(short).unwrap_or(Resolution::Unknown(None)),
            },
            found => found,
        }
    }

    /// A plugin of the project that stands for a whole task.
    fn action_plugin(&self, name: &str) -> Option<String> {
        let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner).actions.clone();
        let path = folders.iter().map(|folder| folder.join(format!("{name}.py"))).find(|path| path.is_file())?;
        Some(format!(
            "{} is an action plugin in Python, which runs inside of Ansible and cannot be used",
            path.display()
        ))
    }

    /// A module of the project, of a role, or of a folder that is set.
    fn in_project(&self, name: &str) -> Option<Resolution> {
        let own = self.folders.lock().unwrap_or_else(PoisonError::into_inner).modules.clone();
        let set = self.options.library.iter().flat_map(|folder| with_subfolders(folder));
        let path = own.into_iter().chain(set).find_map(|folder| self.listings.find(&folder, name))?;
        Some(ForeignModule::found(name.split('.').next().unwrap_or(name), path, Origin::Project))
    }

    /// A module of ansible-core that has no native counterpart.
    fn core_module(&self, name: &str) -> Option<Resolution> {
        let path = self.listings.find(&self.ansible_core()?.modules(), name)?;
        Some(ForeignModule::found(name, path, Origin::Core))
    }

    /// A module that was Ansible's own once and is known by its short name since. Which collection has it now says a table of
    /// ansible-core; without that one it is looked for in the collections into which such modules went.
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

    /// `namespace.collection.module`.
    fn qualified(&self, name: &str) -> Resolution {
        let mut parts = name.splitn(3, '.');
        let (Some(namespace), Some(collection), Some(module)) = (parts.next(), parts.next(), parts.next()) else {
            return Resolution::Unknown(None);
        };
        let full = format!("{namespace}.{collection}");
        let Some(folder) = self.collection(namespace, collection) else {
            return Resolution::Unknown(Some(format!(
                "the collection {full} is not installed; `ansible-galaxy collection install {full}` puts it where it is searched"
            )));
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
        match self.moved(&full, module) {
            Resolution::Unknown(None) => {
                let names = self.listings.names(&modules);
                Resolution::Unknown(did_you_mean(short, names.iter().map(String::as_str)))
            }
            found => found,
        }
    }

    /// What the collection says about a module it no longer has.
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
                    Resolution::Unknown(Some(format!("{name} is {target} now{reason}")))
                }
                found => found,
            },
        }
    }

    /// Whether a host (its name, how and whom one becomes there) has not been sent the module of that hash yet; now it has.
    pub fn is_new_there(&self, key: (String, Option<String>, String)) -> bool {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(key)
    }

    /// The short names of the project's modules and of ours.
    pub fn names(&self) -> Vec<String> {
        let own = self.folders.lock().unwrap_or_else(PoisonError::into_inner).modules.clone();
        let own = own.iter().chain(&self.options.library).flat_map(|folder| self.listings.names(folder));
        own.chain(crate::action::names().map(str::to_owned)).collect()
    }

    /// The module, or one of the other words, that was probably meant.
    pub fn suggestion(&self, name: &str, other: impl IntoIterator<Item = &'static str>) -> Option<String> {
        let all: Vec<String> = self.names().into_iter().chain(other.into_iter().map(str::to_owned)).collect();
        did_you_mean(name, all.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_project_goes_before_ours_and_ours_before_ansible_cores() {
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
    fn collections_are_searched_in_their_order_and_tell_what_has_moved() {
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
