//! Where modules, their `module_utils` and plugins are: in the project, in collections, in ansible-core.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use windlass_template::PluginKind;

use super::ansible_core::AnsibleCore;
use super::listing::{Listings, with_subfolders};
use super::module::Resolution;
use super::plugins;
use super::routing::{Route, route};
use crate::error::did_you_mean;
use crate::playbook::Files;
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
    pub(super) options: ModulesOptions,
    pub(super) files: Arc<Files>,
    core: OnceLock<Option<AnsibleCore>>,
    pub(super) folders: Mutex<Folders>,
    pub(super) listings: Listings,
    has_plugins: AtomicBool,
    pub(super) found: Mutex<HashMap<(String, Vec<String>), Resolution>>,
    /// The modules that hosts have: the host, how and whom one becomes there, the hash.
    sent: Mutex<HashSet<(String, Option<String>, String)>>,
}

/// Folders of the project, in the order in which they became known.
#[derive(Debug, Default)]
pub(super) struct Folders {
    pub(super) modules: Vec<PathBuf>,
    module_utils: Vec<PathBuf>,
    plugins: HashMap<PluginKind, Vec<PathBuf>>,
    /// Plugins that stand for a whole task, which cannot be run.
    pub(super) actions: Vec<PathBuf>,
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
