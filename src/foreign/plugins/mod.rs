//! Filters, tests, lookups, callbacks, actions, and inventory, vars and cache plugins in Python from the project, its
//! roles, configured directories and collections. Python processes on the controller run them, from the first use on.

mod action;
mod cache;
mod callback;
mod helper;
mod inventory;
mod lasting;
mod printed;
mod uses;
mod vars;
mod wire;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use minijinja::value::Kwargs;
use serde_json::{Map, Value as Json, json};
use windlass_bounds::child::Limits;
use windlass_template::{Context, Error, ErrorKind, LookupOptions, PluginKind, Plugins, Value, Variable, Variables};
use windlass_vault::Secrets;

use super::finder::Modules;
use super::not_installed;
use super::routing::Route;
use crate::paths::on_path;
use cache::Cache;
use helper::{Helper, Refusal, Setup};
use lasting::Lasting;
use vars::Vars;
pub(crate) use wire::{packed, unpacked};

pub use action::ActionCall;
pub use callback::{CallbackEvent, Launch, PythonCallback, Reply};
pub use printed::Print;
pub use uses::unusable;

/// Kinds of plugins, with their directories beside a playbook and in a collection.
pub(super) const KINDS: [(PluginKind, &str, &str); 3] = [
    (PluginKind::Filter, "filter_plugins", "plugins/filter"),
    (PluginKind::Test, "test_plugins", "plugins/test"),
    (PluginKind::Lookup, "lookup_plugins", "plugins/lookup"),
];

/// Plugins written in Python.
#[derive(Debug)]
pub struct PythonPlugins {
    modules: Arc<Modules>,
    basedir: PathBuf,
    /// Idle processes. A lookup that asks for a variable may need a second one.
    idle: Mutex<Vec<Helper>>,
    setup: OnceLock<Result<Setup, String>>,
    /// Cached results of finding a plugin.
    found: Mutex<Found>,
    /// Words in plugin files that may be names of plugins.
    mentioned: Mutex<HashMap<PathBuf, HashSet<String>>>,
    /// Limits on the time and size of a plugin's answer.
    limits: Limits,
    print: Print,
    vars: Vars,
    cache: Cache,
    /// Time spent in vars and cache plugins, and the number of requests.
    costs: Mutex<IndexMap<String, (Duration, u64)>>,
}

#[derive(Debug, Default)]
struct Found {
    /// Number of directories when the names were looked up.
    folders: usize,
    plugins: HashMap<(PluginKind, String), Option<Plugin>>,
}

/// A plugin in a file.
#[derive(Debug, Clone)]
struct Plugin {
    path: PathBuf,
    /// Name of the plugin inside the file.
    name: String,
}

impl PythonPlugins {
    /// Plugins of a project. `print` prints what they print.
    pub fn new(modules: Arc<Modules>, basedir: PathBuf, print: Print) -> PythonPlugins {
        PythonPlugins {
            modules,
            basedir,
            idle: Mutex::default(),
            setup: OnceLock::new(),
            found: Mutex::default(),
            mentioned: Mutex::default(),
            limits: Limits::default(),
            print,
            vars: Vars::default(),
            cache: Cache::default(),
            costs: Mutex::default(),
        }
    }

    /// Sets the limits for each answer of a plugin.
    pub fn with_limits(self, limits: Limits) -> PythonPlugins {
        PythonPlugins { limits, ..self }
    }

    /// Sets the directories and the enabled names of vars plugins.
    pub fn with_vars(self, folders: Vec<PathBuf>, enabled: Vec<String>) -> PythonPlugins {
        PythonPlugins { vars: Vars::new(folders, enabled), ..self }
    }

    /// Sets the name of the cache plugin and its directories.
    pub fn with_cache(self, name: String, folders: Vec<PathBuf>) -> PythonPlugins {
        PythonPlugins { cache: Cache::new(name, folders), ..self }
    }

    /// Time spent in vars and cache plugins, with their start, and the number of requests.
    pub fn costs(&self) -> Vec<(String, Duration, u64)> {
        let costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        costs.iter().map(|(name, (spent, requests))| (name.clone(), *spent, *requests)).collect()
    }

    /// Reason why Python plugins cannot run; `None` if they can.
    pub fn problem(&self) -> Option<&str> {
        self.setup().err()
    }

    fn setup(&self) -> Result<&Setup, &str> {
        let made = self.setup.get_or_init(|| {
            let core = self.modules.ansible_core();
            let own = core.and_then(|core| core.python.clone());
            let Some(python) = own.or_else(|| on_path(Path::new("python3"))) else {
                return Err(format!("there is no Python on this machine, and {}", self.modules.without_core()));
            };
            let collections = self.modules.collection_roots();
            let mut paths: Vec<PathBuf> = core.map(|core| core.site_packages().to_owned()).into_iter().collect();
            paths.extend(collections.iter().cloned());
            let (basedir, print) = (self.basedir.clone(), self.print.clone());
            Ok(Setup { python, paths, collections, basedir, limits: self.limits, print })
        });
        made.as_ref().map_err(String::as_str)
    }

    /// Directories of plugins: beside the first playbook, and the configured ones.
    fn folders(&self, own: &str, configured: &[PathBuf]) -> Vec<PathBuf> {
        let own = std::iter::once(self.basedir.join(own));
        own.chain(configured.iter().cloned()).filter(|folder| folder.is_dir()).collect()
    }

    /// Whether ansible-core finds a plugin of this kind, in these directories, in a collection or among its own.
    fn finds(&self, kind: &str, folders: &[PathBuf], plugin: &str) -> bool {
        let plugin = plugin.strip_prefix("ansible.legacy.").unwrap_or(plugin);
        let mut parts = plugin.splitn(3, '.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(namespace), Some(collection), Some(name)) => {
                let is_file = |path: PathBuf| path.join(format!("plugins/{kind}/{name}.py")).is_file();
                self.modules.collection(namespace, collection).is_some_and(is_file)
                    || self.modules.route(&format!("{namespace}.{collection}"), kind, name).is_some()
            }
            _ => {
                let file = format!("{plugin}.py");
                let own = self.modules.ansible_core().map(|core| core.package.join("plugins").join(kind));
                folders.iter().chain(&own).any(|folder| folder.join(&file).is_file())
                    || self.modules.route("ansible.builtin", kind, plugin).is_some()
            }
        }
    }

    /// Reason why ansible-core does not find a plugin of this kind, which users call `word`; `None` if it does.
    fn without_plugin(&self, kind: &str, word: &str, folders: &[PathBuf], plugin: &str) -> Option<String> {
        let file = format!("{plugin}.py");
        let is_own = folders.iter().any(|folder| folder.join(&file).is_file());
        let target = match self.modules.route("ansible.builtin", kind, plugin) {
            Some(Route::Redirect(target)) if !is_own => target,
            _ => plugin.to_owned(),
        };
        if self.finds(kind, folders, &target) {
            return None;
        }
        let reason = self.without_collection(&target);
        Some(reason.unwrap_or_else(|| format!("neither the project nor ansible-core has a {word} of this name")))
    }

    /// Reason why the collection of a plugin cannot be used; `None` if it is installed, or the name has none.
    fn without_collection(&self, plugin: &str) -> Option<String> {
        let mut parts = plugin.split('.');
        let (Some(namespace), Some(collection), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
            return None;
        };
        let is_there = matches!((namespace, collection), ("ansible", "builtin" | "legacy"))
            || self.modules.collection(namespace, collection).is_some();
        (!is_there).then(|| not_installed(&format!("{namespace}.{collection}")))
    }

    /// Finds a plugin by name that takes precedence over a built-in one.
    fn find(&self, kind: PluginKind, name: &str, native: bool) -> Result<Option<Plugin>, Error> {
        let folders = self.modules.plugin_folders(kind);
        {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            if found.folders != folders.len() {
                *found = Found { folders: folders.len(), ..Found::default() };
            }
            if let Some(known) = found.plugins.get(&(kind, name.to_owned())) {
                return Ok(known.clone());
            }
        }
        let plugin = self.look_up(kind, name, native, &folders)?;
        plugin.iter().for_each(|plugin| self.modules.note(&plugin.path));
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.plugins.insert((kind, name.to_owned()), plugin.clone());
        Ok(plugin)
    }

    fn look_up(
        &self,
        kind: PluginKind,
        name: &str,
        native: bool,
        folders: &[PathBuf],
    ) -> Result<Option<Plugin>, Error> {
        let short = name.strip_prefix("ansible.legacy.").unwrap_or(name);
        if !short.contains('.') {
            for folder in folders {
                if let Some(plugin) = self.in_folder(kind, folder, short)? {
                    return Ok(Some(plugin));
                }
            }
            return match (native, self.modules.route("ansible.builtin", kind.word(), short)) {
                (false, Some(Route::Redirect(target))) => self.look_up(kind, &target, false, folders),
                _ => Ok(None),
            };
        }
        let mut parts = short.splitn(3, '.');
        let (Some(namespace), Some(collection), Some(plugin)) = (parts.next(), parts.next(), parts.next()) else {
            return Ok(None);
        };
        if native || (namespace, collection) == ("ansible", "builtin") {
            return Ok(None);
        }
        let Some(folder) = self.modules.collection(namespace, collection) else { return Ok(None) };
        let inside = KINDS.iter().find(|entry| entry.0 == kind).map_or("", |entry| entry.2);
        if let Some(found) = self.in_folder(kind, &folder.join(inside), plugin)? {
            let name = if kind == PluginKind::Lookup { short.to_owned() } else { found.name };
            return Ok(Some(Plugin { name, ..found }));
        }
        match self.modules.route(&format!("{namespace}.{collection}"), kind.word(), plugin) {
            Some(Route::Redirect(target)) if target != short => self.look_up(kind, &target, false, folders),
            _ => Ok(None),
        }
    }

    /// Finds a plugin in the files of a directory.
    fn in_folder(&self, kind: PluginKind, folder: &Path, name: &str) -> Result<Option<Plugin>, Error> {
        if kind == PluginKind::Lookup {
            let path = folder.join(format!("{name}.py"));
            return Ok(path.is_file().then(|| Plugin { path, name: name.to_owned() }));
        }
        // Only Python knows the names for certain; files that do not contain the word are skipped.
        let mut failure = None;
        for path in python_files(folder).into_iter().filter(|path| self.mentions(path, name)) {
            let request = json!({ "do": "names", "kind": kind.word(), "path": path });
            match self.request(&request, &mut no_questions) {
                Ok(names) if names.as_array().into_iter().flatten().any(|known| known.as_str() == Some(name)) => {
                    return Ok(Some(Plugin { path, name: name.to_owned() }));
                }
                Ok(_) => {}
                Err(refusal) => {
                    let reason = refusal.message.trim_end_matches('.');
                    let message = format!("The {} plugin {} cannot be loaded: {reason}.", kind.word(), path.display());
                    failure = failure.or(Some(Error::filter(message)));
                }
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// Whether a plugin file contains a name where plugin names are defined.
    fn mentions(&self, file: &Path, name: &str) -> bool {
        let mut known = self.mentioned.lock().unwrap_or_else(PoisonError::into_inner);
        let names = known.entry(file.to_owned()).or_insert_with(|| {
            uses::words_of(&windlass_bounds::read_text(file).unwrap_or_default()).into_iter().collect()
        });
        names.contains(name)
    }

    fn request(&self, request: &Json, answer: &mut dyn FnMut(&Json) -> Result<Json, String>) -> Result<Json, Refusal> {
        self.request_printing(request, answer, &self.print)
    }

    fn request_printing(
        &self,
        request: &Json,
        answer: &mut dyn FnMut(&Json) -> Result<Json, String>,
        print: &Print,
    ) -> Result<Json, Refusal> {
        let setup = self.setup().map_err(|problem| Refusal { message: problem.to_owned(), undefined: false })?;
        let waiting = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            std::iter::from_fn(|| idle.pop()).find_map(|mut helper| helper.is_alive().then_some(helper))
        };
        let mut helper = waiting.map_or_else(|| Helper::start(setup), Ok)?;
        let answer = helper.ask_printing(request, answer, print);
        if helper.is_alive() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(helper);
        }
        answer
    }

    /// Sends a request to a process that lasts for the whole run, and accounts for the time.
    fn ask_lasting(
        &self,
        name: &str,
        process: &Mutex<Lasting>,
        start: impl FnOnce() -> Result<Lasting, String>,
        request: &Json,
        refuse: impl FnOnce(Refusal) -> String,
    ) -> Result<Option<Json>, String> {
        let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
        let since = Instant::now();
        let answer = process.ask(start, request, refuse);
        if !matches!(*process, Lasting::Unneeded) {
            let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
            let (spent, requests) = costs.entry(name.to_owned()).or_default();
            *spent += since.elapsed();
            *requests += 1;
        }
        answer
    }

    /// Sends a request to a process of its own: what the plugin changes there must not reach filters, and what it
    /// learns, such as vault passwords, does not stay.
    fn request_alone(&self, request: &Json) -> Result<Json, Refusal> {
        let setup = self.setup().map_err(|problem| Refusal { message: problem.to_owned(), undefined: false })?;
        Helper::start(setup)?.ask(request, &mut no_questions)
    }
}

fn no_questions(_: &Json) -> Result<Json, String> {
    Err("this plugin cannot ask for variables".to_owned())
}

/// Plugin files in a directory, sorted.
pub(super) fn python_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_plugin = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "py") && !path.ends_with("__init__.py") && path.is_file()
    };
    let mut files: Vec<PathBuf> = entries.filter(is_plugin).collect();
    files.sort();
    files
}

/// Template error for a plugin's refusal.
fn refused(kind: PluginKind, name: &str, plugin: &Plugin, refusal: &Refusal) -> Error {
    let message = format!(
        "The {} plugin '{name}' ({}) failed: {}.",
        kind.word(),
        plugin.path.display(),
        refusal.message.trim_end_matches('.')
    );
    match (refusal.undefined, kind) {
        (true, _) => Error::new(ErrorKind::Undefined { name: name.to_owned() }, message),
        (false, PluginKind::Lookup) => Error::lookup(message),
        (false, _) => Error::filter(message),
    }
}

impl Plugins for PythonPlugins {
    fn provides(&self, kind: PluginKind, name: &str, native: bool) -> Result<bool, Error> {
        if native && !self.modules.has_plugins() {
            return Ok(false);
        }
        Ok(self.find(kind, name, native)?.is_some())
    }

    fn call(&self, kind: PluginKind, name: &str, arguments: &[Value]) -> Result<Value, Error> {
        let Some(plugin) = self.find(kind, name, false)? else {
            return Err(Error::filter(format!("No {} named '{name}'.", kind.word())));
        };
        let mut named = Map::new();
        let mut positional = Vec::new();
        for argument in arguments {
            match Kwargs::try_from(argument.clone()) {
                Ok(kwargs) if argument.is_kwargs() => {
                    for name in kwargs.args() {
                        let value: Value = kwargs.peek(name).unwrap_or_default();
                        named.insert(name.to_owned(), packed(&value));
                    }
                }
                _ => positional.push(packed(argument)),
            }
        }
        let request = json!({
            "do": "call", "kind": kind.word(), "path": plugin.path, "name": plugin.name,
            "arguments": positional, "named": named,
        });
        let answer = self.request(&request, &mut no_questions);
        answer.map(|value| unpacked(&value)).map_err(|refusal| refused(kind, name, &plugin, &refusal))
    }

    fn lookup(
        &self,
        context: &Context,
        name: &str,
        terms: &[Value],
        options: &LookupOptions,
    ) -> Result<Vec<Value>, Error> {
        let kind = PluginKind::Lookup;
        let Some(plugin) = self.find(kind, name, false)? else {
            return Err(Error::lookup(format!("There is no lookup '{name}'.")));
        };
        let named: Map<String, Json> = options.iter().map(|(name, value)| (name.clone(), packed(value))).collect();
        let request = json!({
            "do": "lookup", "path": plugin.path, "name": plugin.name,
            "terms": terms.iter().map(packed).collect::<Vec<_>>(), "named": named,
        });
        let answer = self.request(&request, &mut |question| answer_to(question, context));
        let answer = answer.map_err(|refusal| refused(kind, name, &plugin, &refusal))?;
        Ok(answer.as_array().into_iter().flatten().map(unpacked).collect())
    }
}

/// Answers the question of a lookup or an action about its host.
pub(crate) fn answer_to(question: &Json, context: &Context) -> Result<Json, String> {
    if let Some(name) = question.get("variable").and_then(Json::as_str) {
        // The lookup treats a variable that cannot be evaluated as absent.
        let is_option = question.get("is_option").is_some();
        let value = if is_option { context.own_variable(name) } else { context.variable(name) };
        let value = value.ok().flatten();
        return Ok(value.map(|value| packed(&value)).into_iter().collect());
    }
    if let Some(text) = question.get("template").and_then(Json::as_str) {
        let context = with_changes(context, question);
        #[expect(clippy::disallowed_methods, reason = "the plugin's code, which is the project's, trusts the text")]
        let node = windlass_yaml::Node::of_project(text, windlass_yaml::Span::none());
        return context.render(&node).map(|value| packed(&value)).map_err(|error| error.to_string());
    }
    Ok(context.names().iter().map(|name| Json::from(&**name)).collect())
}

/// A context with the variables that a plugin has changed. They are data: no template of a host is rendered.
pub(crate) fn with_changes(context: &Context, question: &Json) -> Context {
    let changed = question.get("vars").map(unpacked).unwrap_or_default();
    let changed = changed.try_iter().into_iter().flatten().filter_map(|name| {
        let value = changed.get_item(&name).ok()?;
        Some((Arc::from(name.as_str()?), Variable::Data(value)))
    });
    let changed: Variables = changed.collect();
    if changed.is_empty() { context.clone() } else { context.with(changed) }
}

/// Whether a text can be the name of a plugin, with or without a collection.
fn is_plugin_name(text: &str) -> bool {
    text.split('.').all(|part| !part.is_empty() && !part.contains(['/', '\0']))
}

/// Notes the secrets that ansible-core has decrypted for an answer.
fn note_secrets(answer: &Json, secrets: &Secrets) {
    for secret in answer.get("secrets").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str) {
        secrets.decrypted(secret.as_bytes());
    }
}
