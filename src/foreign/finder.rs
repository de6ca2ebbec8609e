//! Finds modules, their `module_utils` and plugins in the project, in collections and in ansible-core.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use windlass_template::{PluginKind, Read};

use super::ansible_core::AnsibleCore;
use super::listing::{Listings, with_subfolders};
use super::module::Resolution;
use super::plugins;
use super::routing::{Route, route};
use crate::error::{did_you_mean, nearest};
use crate::paths::on_path;
use crate::playbook::Files;
use crate::settings::Rejected;

/// Directories of plugins that run inside of Ansible and have no effect here, except for [`OF_FIRST_PLAYBOOK`].
const WITHOUT_EFFECT: &[&str] =
    &["become_plugins", "cache_plugins", "connection_plugins", "strategy_plugins", "vars_plugins"];

/// Directories whose plugins run if they are beside the first playbook.
const OF_FIRST_PLAYBOOK: &[&str] = &["cache_plugins", "vars_plugins"];

/// Search paths for modules and plugins.
#[derive(Debug, Clone, Default)]
pub struct ModulesOptions {
    /// `--module-path`: searched before everything else.
    pub first: Vec<PathBuf>,
    /// `library`: searched after the project's own.
    pub library: Vec<PathBuf>,
    /// `module_utils`: imported by Python modules; searched after the project's own.
    pub module_utils: Vec<PathBuf>,
    /// `filter_plugins`, `test_plugins` and `lookup_plugins`: searched after the project's own.
    pub plugins: HashMap<PluginKind, Vec<PathBuf>>,
    /// `callback_plugins`: searched after the project's own.
    pub callbacks: Vec<PathBuf>,
    /// `action_plugins`: searched after the project's own.
    pub actions: Vec<PathBuf>,
    /// Directory of the first playbook.
    pub playbook_dir: PathBuf,
    /// Directories that contain `ansible_collections`, or are named so.
    pub collections: Vec<PathBuf>,
    /// Directory of ansible-core, if it is set.
    pub ansible_core: Option<PathBuf>,
    /// Modules that may not be used.
    pub rejected: Rejected,
}

/// Finds modules and caches the result for each name.
#[derive(Debug)]
pub struct Modules {
    pub(super) options: ModulesOptions,
    pub(super) files: Arc<Files>,
    core: OnceLock<Option<AnsibleCore>>,
    pub(super) folders: Mutex<Folders>,
    pub(super) listings: Listings,
    has_plugins: AtomicBool,
    pub(super) found: Mutex<HashMap<(String, Vec<String>), Resolution>>,
    /// Modules that hosts have received, by host, become user and hash.
    sent: Mutex<HashSet<(String, Option<String>, String)>>,
}

/// Directories of the project, in the order they became known.
#[derive(Debug, Default)]
pub(super) struct Folders {
    pub(super) modules: Vec<PathBuf>,
    module_utils: Vec<PathBuf>,
    plugins: HashMap<PluginKind, Vec<PathBuf>>,
    callbacks: Vec<PathBuf>,
    pub(super) actions: Vec<PathBuf>,
}

impl Modules {
    /// Finder for the modules of a project.
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

    /// Adds `library/`, `module_utils/` and the plugins in the directory of a playbook or role.
    pub fn add_folder(&self, folder: &Path) {
        let folder = crate::paths::absolute(folder);
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let Folders { modules, module_utils, plugins, callbacks, actions } = &mut *folders;
        let add = |list: &mut Vec<PathBuf>, name: &str| {
            let path = folder.join(name);
            let is_new = path.is_dir() && !list.contains(&path);
            if is_new {
                list.push(path);
            }
            is_new
        };
        // A new file may stand for a built-in module, filter, test or lookup.
        for names in ["library/*", "[aflt]*_plugins/*.py"] {
            self.files.reads().note(Read::Search(format!("{}/{names}", folder.display())));
        }
        add(module_utils, "module_utils");
        add(callbacks, "callback_plugins");
        if add(modules, "library") | add(actions, "action_plugins") {
            self.found.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        for (kind, name, _) in plugins::KINDS {
            if add(plugins.entry(kind).or_default(), name) {
                self.has_plugins.store(true, Ordering::Relaxed);
            }
        }
        let is_first = folder == self.options.playbook_dir;
        for name in WITHOUT_EFFECT.iter().filter(|name| !is_first || !OF_FIRST_PLAYBOOK.contains(name)) {
            for file in plugins::python_files(&folder.join(name)) {
                self.files.warn(format!(
                    "{} has no effect: of Python plugins for Ansible itself, only filters, tests, lookups, actions, \
                     inventory plugins, vars and cache plugins beside the first playbook, and callbacks are supported",
                    file.display()
                ));
            }
        }
        for file in plugins::python_files(&folder.join("action_plugins")) {
            let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if crate::builtin::is_known(name) {
                self.files.warn(format!("{} has no effect: `{name}` is built in", file.display()));
            }
        }
    }

    /// Whether any directory of plugins exists.
    pub(super) fn has_plugins(&self) -> bool {
        self.has_plugins.load(Ordering::Relaxed)
    }

    /// Directories of plugins of this kind, in search order.
    pub(super) fn plugin_folders(&self, kind: PluginKind) -> Vec<PathBuf> {
        let own = self.folders.lock().unwrap_or_else(PoisonError::into_inner).plugins.get(&kind).cloned();
        let set = self.options.plugins.get(&kind).into_iter().flatten().filter(|folder| folder.is_dir());
        own.into_iter().flatten().chain(set.flat_map(|folder| with_subfolders(folder))).collect()
    }

    /// Directories of callback plugins, in search order.
    pub(super) fn callback_folders(&self) -> Vec<PathBuf> {
        let own = self.folders.lock().unwrap_or_else(PoisonError::into_inner).callbacks.clone();
        let set = self.options.callbacks.iter().filter(|folder| folder.is_dir());
        own.into_iter().chain(set.flat_map(|folder| with_subfolders(folder))).collect()
    }

    /// Directories that contain `ansible_collections`.
    pub(super) fn collection_roots(&self) -> Vec<PathBuf> {
        let holds = |folder: &Path| match folder.ends_with("ansible_collections") {
            true => folder.parent().unwrap_or(folder).to_owned(),
            false => folder.to_owned(),
        };
        self.options.collections.iter().map(|folder| holds(folder)).filter(|folder| folder.is_dir()).collect()
    }

    /// Python on the controller: ansible-core's, which has the requirements of Ansible's modules, or else the system's.
    pub fn controller_python(&self) -> String {
        let usual = || {
            let system = PathBuf::from("/usr/bin/python3");
            if system.is_file() { system } else { on_path(Path::new("python3")).unwrap_or(system) }
        };
        let own = self.ansible_core().and_then(|core| core.python.clone());
        own.unwrap_or_else(usual).display().to_string()
    }

    /// The ansible-core on the controller, if it is found.
    pub fn ansible_core(&self) -> Option<&AnsibleCore> {
        let find = || match &self.options.ansible_core {
            Some(place) => AnsibleCore::at(place),
            None => AnsibleCore::find(),
        };
        self.core.get_or_init(find).as_ref()
    }

    /// Explains why ansible-core is missing, with a remedy.
    pub(super) fn without_core(&self) -> String {
        let how = "Install it (`pipx install ansible-core`, or your system's package), or set its path: `ansible_core \
                   = PATH` under [windlass] in ansible.cfg, or WINDLASS_ANSIBLE_CORE";
        match &self.options.ansible_core {
            Some(place) => format!("there is no ansible-core in {}, its configured path. {how}", place.display()),
            None => format!("no ansible-core was found on this machine. {how}"),
        }
    }

    /// Directories of `module_utils`, in search order.
    pub(super) fn module_utils_folders(&self) -> Vec<PathBuf> {
        let own = self.folders.lock().unwrap_or_else(PoisonError::into_inner).module_utils.clone();
        let core = self.ansible_core().map(|core| core.package.join("module_utils"));
        own.into_iter().chain(self.options.module_utils.iter().cloned()).chain(core).collect()
    }

    /// Directory of a collection.
    pub(super) fn collection(&self, namespace: &str, name: &str) -> Option<PathBuf> {
        let inside = |root: &Path| {
            let root =
                if root.ends_with("ansible_collections") { root.to_owned() } else { root.join("ansible_collections") };
            Some(root.join(namespace).join(name)).filter(|path| path.is_dir())
        };
        let set = self.options.collections.iter().find_map(|root| inside(root));
        set.or_else(|| inside(self.ansible_core()?.site_packages()))
    }

    /// New name of a plugin that has moved out of a collection or of `ansible.builtin`.
    pub(super) fn route(&self, collection: &str, kind: &str, name: &str) -> Option<Route> {
        let file = match collection.split_once('.')? {
            ("ansible", "builtin") => self.ansible_core()?.routing_file(),
            (namespace, name) => self.collection(namespace, name)?.join("meta/runtime.yml"),
        };
        route(&self.files, &file, kind, name)
    }

    /// Records a module as sent to a host. Returns whether it had not been sent before. `key` is the host, the become
    /// user and the module's hash.
    pub fn is_new_there(&self, key: (String, Option<String>, String)) -> bool {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(key)
    }

    /// Short names of the project's modules and actions, and the built-in ones.
    pub fn names(&self) -> Vec<String> {
        let own = {
            let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            [folders.modules.clone(), folders.actions.clone()].concat()
        };
        let own = own
            .iter()
            .chain(&self.options.library)
            .chain(&self.options.actions)
            .flat_map(|folder| self.listings.names(folder));
        own.chain(crate::builtin::names().map(str::to_owned)).collect()
    }

    /// Suggests the module, or word of `other`, closest to a misspelt name.
    pub fn suggestion(&self, name: &str, other: impl IntoIterator<Item = &'static str>) -> Option<String> {
        if let Some((collection, short)) = name.rsplit_once('.') {
            // The collection is right, so only the last part may differ.
            let specs = crate::builtin::specs().filter(|spec| spec.collection == collection);
            let full: Vec<String> = specs.map(|spec| format!("{collection}.{}", spec.name)).collect();
            return nearest(name, (short.chars().count() / 3).max(1), full.iter().map(String::as_str));
        }
        let all: Vec<String> = self.names().into_iter().chain(other.into_iter().map(str::to_owned)).collect();
        did_you_mean(name, all.iter().map(String::as_str))
    }
}
