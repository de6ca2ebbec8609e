//! Reads roles with their dependencies.

mod files;
mod validation;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_template::Read;
use windlass_yaml::{Key, Mapping, Node, Span};

use super::load::{Loader, TaskFile};
use crate::error::{Error, Result, did_you_mean};
use crate::playbook::{Block, Dependent, Frame, FrameKind, Item, Keywords, On, Role, collections_of};
use files::{is_inside, main_file};
pub(crate) use validation::argument_specs;

/// Request for a role at one position.
#[derive(Debug, Clone)]
pub struct RoleRequest {
    /// Name or path of the role.
    pub name: String,
    /// Keywords of the entry.
    pub keywords: Keywords,
    /// Keys of the entry that are not keywords.
    pub params: Arc<Mapping>,
    /// File under `tasks/`.
    pub tasks_from: Option<String>,
    /// File under `vars/`.
    pub vars_from: Option<String>,
    /// File under `defaults/`.
    pub defaults_from: Option<String>,
    /// File under `handlers/`.
    pub handlers_from: Option<String>,
    /// Whether the role may run again, if the request sets it.
    pub allow_duplicates: Option<bool>,
    /// Whether to check the variables against `meta/argument_specs.yml`.
    pub validate: bool,
    /// Whether the request comes from `include_role` or `import_role` instead of an entry of `roles:`.
    pub from_include: bool,
    /// Variables of the include, including its loop's.
    pub include_vars: Arc<Mapping>,
    /// Whether the whole play sees its defaults and variables.
    pub public: Option<bool>,
    /// Additional directory to search: that of the role that depends on it.
    pub beside: Option<PathBuf>,
    /// Directory of the playbook.
    pub playbook_dir: PathBuf,
    /// Position of the request.
    pub span: Span,
}

/// A role with its tasks and handlers.
pub struct LoadedRole {
    /// The role.
    pub role: Arc<Role>,
    /// Tasks of the role as one block, preceded by its dependencies' tasks.
    pub tasks: Item,
    /// Handlers of its dependencies and its own.
    pub handlers: Vec<Item>,
}

impl RoleRequest {
    /// Request from the arguments of `include_role` or `import_role`, already rendered.
    pub fn of_arguments(
        args: &[(String, Node)],
        span: &Span,
        frame: &Arc<Frame>,
        playbook_dir: &Path,
    ) -> Result<RoleRequest> {
        let mut request = RoleRequest::named("", span, playbook_dir);
        request.from_include = true;
        request.include_vars = Arc::clone(&frame.vars);
        request.allow_duplicates = Some(true);
        for (key, node) in args {
            let text = || match node.as_list().is_some() || node.as_map().is_some() {
                true => {
                    let message = format!("Expected a string for {key} but got {} instead", node.kind());
                    Err(Error::parse(message, &node.span))
                }
                false => Ok(node.scalar_text()),
            };
            match key.as_str() {
                "name" | "role" => request.name = text()?.unwrap_or_default(),
                "tasks_from" => request.tasks_from = text()?,
                "vars_from" => request.vars_from = text()?,
                "defaults_from" => request.defaults_from = text()?,
                "handlers_from" => request.handlers_from = text()?,
                "allow_duplicates" => request.allow_duplicates = Some(node.is_null() || truth(key, node)?),
                "rolespec_validate" => request.validate = !node.is_null() && truth(key, node)?,
                // Like Ansible, null leaves this to the setting `private_role_vars`.
                "public" if node.is_null() => {}
                "public" => request.public = Some(truth(key, node)?),
                "apply" => {}
                "_raw_params" => return Err(Error::parse("'name' is a required field for include_role.", span)),
                other => {
                    let known = crate::builtin::INCLUDE_ROLE.options.iter().map(|option| option.name);
                    return Err(Error::parse(format!("Invalid options for include_role: {other}"), span)
                        .maybe_hint(did_you_mean(other, known)));
                }
            }
        }
        if request.name.is_empty() {
            return Err(Error::parse("'name' is a required field for include_role.", span));
        }
        Ok(request)
    }

    fn named(name: &str, span: &Span, playbook_dir: &Path) -> RoleRequest {
        RoleRequest {
            name: name.to_owned(),
            keywords: Keywords::default(),
            params: Arc::default(),
            tasks_from: None,
            vars_from: None,
            defaults_from: None,
            handlers_from: None,
            allow_duplicates: None,
            validate: true,
            from_include: false,
            include_vars: Arc::default(),
            public: None,
            beside: None,
            playbook_dir: playbook_dir.to_owned(),
            span: span.clone(),
        }
    }

    fn identity(&self, path: &Path) -> String {
        let params = Node::map(Arc::clone(&self.params), self.span.clone()).to_json();
        let list = |name: &str| self.keywords.list(name).iter().map(Node::to_json).collect::<serde_json::Value>();
        let own = self.keywords.get("vars").cloned();
        let vars = own.unwrap_or_else(|| Node::map(Arc::clone(&self.include_vars), self.span.clone())).to_json();
        format!(
            "{}\0{}\0{params}\0{}\0{}\0{vars:?}\0{:?}\0{}",
            full_name(&self.name, path),
            crate::paths::absolute(path).display(),
            list("when"),
            list("tags"),
            self.tasks_from,
            self.from_include
        )
    }
}

/// Fails if `tasks_from` or one of its kind leads out of the role.
fn check_parts(request: &RoleRequest, path: &Path) -> Result<()> {
    for (kind, name) in [
        ("tasks", &request.tasks_from),
        ("vars", &request.vars_from),
        ("defaults", &request.defaults_from),
        ("handlers", &request.handlers_from),
    ] {
        let folder = path.join(kind);
        if let Some(name) = name.as_ref().filter(|name| !is_inside(&folder, name)) {
            return Err(Error::parse(
                format!(
                    "'{name}' is not taken for the role '{}', as it is not inside the expected role path: {}",
                    request.name,
                    folder.display()
                ),
                &request.span,
            ));
        }
    }
    Ok(())
}

fn truth(name: &str, node: &Node) -> Result<bool> {
    let wrong = || match node.scalar_text() {
        Some(text) => format!("`{name}` must be true or false, not '{text}'"),
        None => format!("`{name}` must be true or false, not {}", node.kind()),
    };
    node.truth().ok_or_else(|| Error::parse(wrong(), &node.span))
}

impl Loader {
    /// Request from an entry of `roles:` or of a role's dependencies.
    pub(super) fn role_entry(&self, entry: &Node, frame: &Arc<Frame>, playbook_dir: &Path) -> Result<RoleRequest> {
        let Some(map) = entry.as_map() else {
            let Some(name) = entry.as_str() else {
                return Err(Error::parse(
                    format!("a role must be a name or a mapping, not {}", entry.kind()),
                    &entry.span,
                ));
            };
            if name.contains(',') {
                return Err(Error::parse(format!("Invalid old style role requirement: {name}"), &entry.span)
                    .hint("a role with parameters is a mapping: `role: NAME`, and its parameters as further keys"));
            }
            let name = self.static_text(entry, frame, &Arc::default())?;
            return Ok(RoleRequest::named(&name, &entry.span, playbook_dir));
        };
        let mut params = Mapping::new();
        let mut name = None;
        let keywords = Keywords::read(map, On::Role, |word, key| {
            let value = map.get(word).cloned().unwrap_or_else(|| key.clone());
            match word {
                "src" | "version" | "scm" if map.contains_key("src") => {
                    if word == "src" {
                        name = Some(value);
                    }
                }
                _ => {
                    params.insert(Key::string(word, key.span.clone()), value);
                }
            }
            Ok(())
        })?;
        self.modules.check_groups(keywords.get("module_defaults"))?;
        let Some(name) = keywords.get("role").or_else(|| keywords.get("name")).cloned().or(name) else {
            return Err(Error::parse("a role needs a name: `role: NAME`", &entry.span).generic());
        };
        let vars = keywords.vars()?;
        let text = self.static_text(&name, frame, &vars)?;
        Ok(RoleRequest { keywords, params: Arc::new(params), ..RoleRequest::named(&text, &name.span, playbook_dir) })
    }

    /// Reads a role and its dependencies.
    pub fn role(&self, request: &RoleRequest, from: &TaskFile<'_>) -> Result<LoadedRole> {
        self.role_within(request, from, &mut Vec::new())
    }

    fn role_within(&self, request: &RoleRequest, from: &TaskFile<'_>, chain: &mut Vec<PathBuf>) -> Result<LoadedRole> {
        let parents: Vec<Arc<Role>> = from.frame.roles().cloned().collect();
        let path = self.find_role(request, parents.first(), &collections_of(&request.keywords, from.frame))?;
        if chain.contains(&path) {
            return Err(Error::parse(format!("the role '{}' depends on itself", request.name), &request.span));
        }
        check_parts(request, &path)?;
        chain.push(path.clone());
        self.modules.add_folder(&path);
        self.files.reads().note(Read::Search(format!("{}/*/main*", path.display())));
        let defaults = self.role_variables(&path, "defaults", request.defaults_from.as_deref(), request)?;
        let vars = self.role_variables(&path, "vars", request.vars_from.as_deref(), request)?;
        [&defaults, &vars].iter().for_each(|vars| self.warn_of_reserved(vars));
        let meta = match main_file(&path.join("meta"), None) {
            Some(file) => self.files.variables(&file)?,
            None => Arc::default(),
        };
        let mut keywords = request.keywords.clone();
        if let (None, Some(node)) = (keywords.get("collections"), meta.get("collections")) {
            keywords.set("collections", node.clone());
        }
        let entry_when: Vec<Node> = from.when.iter().cloned().chain(request.keywords.list("when")).collect();
        let entry_vars = request.keywords.vars()?;
        self.warn_of_reserved(&entry_vars);
        let tags = self.tags_under(&request.keywords, from.frame, &entry_vars)?;

        let depth = from.deeper(&request.span)?;
        let outer = Arc::new(Frame {
            parent: Some(Arc::clone(from.frame)),
            keywords: request.keywords.clone(),
            vars: Arc::clone(&entry_vars),
            kind: FrameKind::Dependent(Arc::new(Dependent {
                path: path.clone(),
                params: Arc::clone(&request.params),
                vars: Arc::clone(&vars),
                defaults: Arc::clone(&defaults),
            })),
            tags: Arc::clone(&tags),
        });
        // Dependencies inherit the entry's keywords and run first.
        let inner = TaskFile { frame: &outer, when: &entry_when, depth, ..*from };
        let needed = self.dependencies(request, &meta, &path, &inner, chain)?;
        // Ansible does not convert the value in a role's metadata: of all values, only YAML's false refuses duplicates.
        let in_meta = || meta.get("allow_duplicates").is_some_and(|node| node.as_bool() != Some(false));
        let allow_duplicates = request.allow_duplicates.unwrap_or_else(in_meta);
        let role = Arc::new(Role {
            name: full_name(&request.name, &path),
            defaults,
            vars,
            params: Arc::clone(&request.params),
            dependencies: needed.iter().map(|needed| Arc::clone(&needed.role)).collect(),
            parents,
            public: request.public.unwrap_or(!self.world.run.settings.private_role_vars.unwrap_or(false)),
            allow_duplicates,
            identity: request.identity(&path),
            path: path.clone(),
        });
        let frame = Arc::new(Frame {
            parent: Some(Arc::clone(from.frame)),
            keywords,
            vars: entry_vars,
            kind: FrameKind::Role(Arc::clone(&role)),
            tags,
        });
        let within = TaskFile { frame: &frame, when: &entry_when, depth, ..*from };
        let (mut body, mut handlers) = (Vec::new(), Vec::new());
        for needed in needed {
            body.push(needed.tasks);
            handlers.extend(needed.handlers);
        }
        if let Some(task) = self.argument_validation(request, &meta, &path, &frame, &entry_when)? {
            body.push(Item::Task(Arc::new(task)));
        }
        body.extend(self.tasks_in(&path, request, &within)?);
        handlers.extend(self.handlers_in(&path, request.handlers_from.as_deref(), &within)?);
        chain.pop();
        let block = Block { frame, body, rescue: Vec::new(), always: Vec::new(), role: Some(Arc::clone(&role)) };
        Ok(LoadedRole { role, tasks: Item::Block(Arc::new(block)), handlers })
    }

    /// Reads the role's own tasks. Only a file that the request names must exist.
    fn tasks_in(&self, path: &Path, request: &RoleRequest, within: &TaskFile<'_>) -> Result<Vec<Item>> {
        match (main_file(&path.join("tasks"), request.tasks_from.as_deref()), &request.tasks_from) {
            (Some(file), _) => self.task_file(&file, &TaskFile { handlers: false, ..*within }),
            (None, Some(name)) => {
                Err(Error::parse(format!("Could not find specified file in role: tasks/{name}"), &request.span))
            }
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Reads the roles that `dependencies` of `meta` lists.
    fn dependencies(
        &self,
        request: &RoleRequest,
        meta: &Mapping,
        path: &Path,
        from: &TaskFile<'_>,
        chain: &mut Vec<PathBuf>,
    ) -> Result<Vec<LoadedRole>> {
        let listed = meta.get("dependencies").filter(|node| !node.is_null());
        let mut loaded = Vec::new();
        for entry in listed.and_then(Node::as_list).unwrap_or_default() {
            let needed = self.role_entry(entry, from.frame, &request.playbook_dir)?;
            loaded.push(self.dependency(&needed, from, path, chain)?);
        }
        Ok(loaded)
    }

    /// Reads a dependency, which is also searched beside the role that needs it.
    fn dependency(
        &self,
        needed: &RoleRequest,
        from: &TaskFile<'_>,
        dependent: &Path,
        chain: &mut Vec<PathBuf>,
    ) -> Result<LoadedRole> {
        let request = RoleRequest { beside: dependent.parent().map(Path::to_owned), ..needed.clone() };
        self.role_within(&request, from, chain)
    }

    fn handlers_in(&self, path: &Path, from_file: Option<&str>, within: &TaskFile<'_>) -> Result<Vec<Item>> {
        match main_file(&path.join("handlers"), from_file) {
            Some(file) => self.task_file(&file, &TaskFile { handlers: true, ..*within }),
            None => Ok(Vec::new()),
        }
    }
}

/// Name of a role as requested, qualified by its collection.
fn full_name(asked: &str, path: &Path) -> String {
    match crate::playbook::collection_of(path) {
        Some(collection) => format!("{collection}.{}", asked.rsplit('.').next().unwrap_or(asked)),
        None => asked.to_owned(),
    }
}
