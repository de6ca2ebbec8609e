//! Modules that are not built in: adds the arguments Ansible adds, and lets the executor run them.

use std::sync::Arc;

use windlass_protocol::Delivery;
use windlass_template::{Context, Value};

use super::{ActionContext, Content, Failure};
use crate::foreign::{ForeignModule, Package, Style};
use crate::outcome::{Effect, TaskResult, is_protected};

/// Filesystems without SELinux contexts; modules receive this list.
const SPECIAL_FILESYSTEMS: &[&str] = &["fuse", "nfs", "vboxsf", "ramfs", "9p", "vfat"];

/// Runs a module that is not built in, by its action plugin if it has one.
pub(super) async fn run(context: &ActionContext, module: &ForeignModule) -> Result<TaskResult, Failure> {
    match &module.action {
        Some(plugin) => super::python::run(context, module, plugin).await,
        None => run_module(context, module).await,
    }
}

/// Runs the module itself on the host.
pub(super) async fn run_module(context: &ActionContext, module: &ForeignModule) -> Result<TaskResult, Failure> {
    let package = module.package(&context.modules)?;
    let interpreter = interpreter(context, package, module)?;
    let is_searched = !interpreter.candidates.is_empty();
    let words = |list: Vec<String>| list.into_iter().map(Value::from).collect::<Value>();
    let file = module.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let request = Value::from_pairs([
        ("module", Value::from(module.described())),
        ("protocol", Value::from(package.style.name())),
        ("file", Value::from(file)),
        ("python_name", Value::from(package.python_name.as_str())),
        ("interpreter", words(interpreter.words)),
        ("candidates", words(interpreter.candidates)),
        ("silent", Value::from(interpreter.silent)),
        ("arguments", arguments(context, module, package.style)),
        ("open_files", Value::from(open_files(context))),
    ]);
    let content = content(context, module, package);
    let result = context.module(windlass_modules::foreign::NAME, request, vec![content]).await?;
    let found = result.get("ansible_facts").and_then(|facts| field(facts, "discovered_interpreter_python"));
    let user = context.connection.become_user.as_ref().map(|user| user.user.clone());
    Ok(match found.as_ref().and_then(Value::as_str).filter(|_| is_searched) {
        Some(path) => completed(result).with_effect(Effect::Python {
            kind: context.connection.target.kind,
            user,
            path: path.to_owned(),
        }),
        None => completed(result),
    })
}

/// The package as a content of the request. Once a host has it, only its hash is sent.
fn content(context: &ActionContext, module: &ForeignModule, package: &Package) -> Content {
    let mut content = Content::of_bytes(&module.path.display().to_string(), package.bytes.clone());
    let user = context.connection.become_user.as_ref().map(|user| format!("{}:{}", user.method, user.user));
    let key = (context.connection.target.name.clone(), user, content.description.sha1.clone());
    let small = package.bytes.len() <= windlass_protocol::MAX_BLOB;
    // A background job cannot request the content later, and keeps it to itself.
    let inline = context.detach > 0 || (small && context.modules.is_new_there(key));
    content.description.delivery = if inline { Delivery::Inline } else { Delivery::OnDemand };
    content
}

/// The task's arguments plus the internal ones that Ansible passes to every module.
fn arguments(context: &ActionContext, module: &ForeignModule, style: Style) -> Value {
    let settings = &context.world.run.settings;
    let given = context.args.iter().map(|(key, value)| (Value::from(&**key), value.clone()));
    let facility = variable(&context.context, "ansible_syslog_facility").unwrap_or_else(|| "LOG_USER".to_owned());
    let remote_tmp = settings.connect.remote_tmp.clone().unwrap_or_else(|| "~/.ansible/tmp".to_owned());
    let (major, minor, revision) = crate::vars::ansible_version(settings.compat);
    let internal = [
        ("_ansible_check_mode", Value::from(context.check)),
        ("_ansible_no_log", Value::from(context.no_log)),
        ("_ansible_debug", Value::from(false)),
        ("_ansible_diff", Value::from(context.diff)),
        ("_ansible_verbosity", Value::from(settings.verbosity)),
        ("_ansible_version", Value::from(format!("{major}.{minor}.{revision}"))),
        ("_ansible_module_name", Value::from(module.described())),
        ("_ansible_syslog_facility", Value::from(facility)),
        ("_ansible_selinux_special_fs", SPECIAL_FILESYSTEMS.iter().map(|name| Value::from(*name)).collect()),
        ("_ansible_socket", Value::from(())),
        ("_ansible_shell_executable", Value::from("/bin/sh")),
        ("_ansible_keep_remote_files", Value::from(false)),
        ("_ansible_remote_tmp", Value::from(remote_tmp)),
        ("_ansible_ignore_unknown_opts", Value::from(false)),
        ("_ansible_target_log_info", Value::from(())),
        ("_ansible_tracebacks_for", Value::from(Vec::<Value>::new())),
    ];
    let core = context.modules.ansible_core().filter(|_| style == Style::Python);
    let internal = internal.into_iter().filter(|(key, _)| core.is_none_or(|core| core.takes(key)));
    Value::from_pairs(given.chain(internal.map(|(key, value)| (Value::from(key), value))))
}

/// Limit of open files for Python modules; 0 keeps the host's limit.
fn open_files(context: &ActionContext) -> u64 {
    match HostVariables::of(context).0.variable("ansible_python_module_rlimit_nofile") {
        Ok(Some(value)) => crate::vars::number(&value).unwrap_or(0),
        _ => context.world.run.settings.code.python_module_rlimit_nofile,
    }
}

/// The interpreter that runs a module on the host.
struct Interpreter {
    words: Vec<String>,
    /// Pythons to search for on the host, used instead of `words`.
    candidates: Vec<String>,
    silent: bool,
}

/// Interpreter from the module's first line, unless a variable names another or Python is to be searched for.
fn interpreter(context: &ActionContext, package: &Package, module: &ForeignModule) -> Result<Interpreter, Failure> {
    let named = |words: Vec<String>| Ok(Interpreter { words, candidates: Vec::new(), silent: true });
    let shebang = match (&package.shebang, package.style) {
        (Some(words), _) => words.clone(),
        (None, Style::Binary) => return named(Vec::new()),
        (None, Style::Python) => vec!["/usr/bin/python".to_owned()],
        (None, _) => return Err(Failure::Failed(format!("module ({}) is missing interpreter line", module.name))),
    };
    let host = HostVariables::of(context);
    let name = shebang.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let replaced = |program: &str| -> Result<Vec<String>, Failure> {
        let words = shell_words::split(program).map_err(|error| {
            Failure::Failed(format!("ansible_{name}_interpreter cannot be read: {error}: {program}"))
        })?;
        Ok(words.into_iter().chain(shebang.iter().skip(1).cloned()).collect())
    };
    let set = host.variable(&format!("ansible_{name}_interpreter"));
    if name != "python" {
        return match set {
            Some(program) => named(replaced(&program)?),
            None => named(shebang),
        };
    }
    let settings = &context.world.run.settings;
    let wanted = match set {
        Some(program) => program,
        None => settings.code.interpreter_python.clone(),
    };
    if !is_searched(&wanted) {
        return named(replaced(&wanted)?);
    }
    let user = context.connection.become_user.as_ref().map(|user| user.user.as_str());
    if let Some(known) =
        context.world.host(&context.connection.target.name).facts.python(context.connection.target.kind, user)
    {
        return named(vec![known.to_owned()].into_iter().chain(shebang.iter().skip(1).cloned()).collect());
    }
    let candidates = match host.0.variable("ansible_interpreter_python_fallback") {
        Ok(Some(list)) => list.try_iter().into_iter().flatten().map(|name| windlass_template::text(&name)).collect(),
        _ => settings.code.interpreter_python_fallback.clone(),
    };
    Ok(Interpreter { words: shebang, candidates, silent: wanted.ends_with("_silent") })
}

/// The Python that a variable or setting names for the host; `None` if it is to be searched for.
pub(super) fn named_python(context: &ActionContext) -> Option<String> {
    let set = HostVariables::of(context).variable("ansible_python_interpreter");
    let named = set.unwrap_or_else(|| context.world.run.settings.code.interpreter_python.clone());
    (!is_searched(&named)).then_some(named)
}

/// Whether an interpreter setting is a search mode rather than a path.
fn is_searched(named: &str) -> bool {
    matches!(named, "" | "auto" | "auto_legacy" | "auto_silent" | "auto_legacy_silent")
}

/// Variables of the host that runs the module, which may not be the task's host.
struct HostVariables(Context);

impl HostVariables {
    fn of(context: &ActionContext) -> HostVariables {
        let name: Arc<str> = Arc::from(context.connection.target.name.as_str());
        HostVariables(if name == context.host { context.context.clone() } else { context.world.host_context(&name) })
    }

    fn variable(&self, name: &str) -> Option<String> {
        variable(&self.0, name)
    }
}

/// Text of a variable; `None` if it is absent, empty or null.
fn variable(context: &Context, name: &str) -> Option<String> {
    debug_assert!(is_protected(name), "facts of a host could set {name}");
    let value = context.variable(name).ok().flatten().filter(|value| !value.is_none())?;
    Some(windlass_template::text(&value).trim().to_owned()).filter(|text| !text.is_empty())
}

/// Removes internal keys, as Ansible does.
pub(super) fn completed(mut result: TaskResult) -> TaskResult {
    let internal: Vec<Arc<str>> =
        result.iter().map(|(key, _)| Arc::clone(key)).filter(|key| key.starts_with("_ansible_")).collect();
    for key in internal {
        result.remove(&key);
    }
    let is_list =
        |value: &Value| matches!(value.kind(), minijinja::value::ValueKind::Seq | minijinja::value::ValueKind::Map);
    if let Some(results) = result.get("results").filter(|value| !is_list(value)).cloned() {
        result.remove("results");
        result.set("ansible_module_results", results);
    }
    for (key, plain) in [("warnings", text_of_message as fn(&Value) -> Value), ("deprecations", deprecation)] {
        if let Some(list) = result.get(key).filter(|list| list.kind() == minijinja::value::ValueKind::Seq) {
            let list: Value = list.try_iter().into_iter().flatten().map(|entry| plain(&entry)).collect();
            result.set(key, list);
        }
    }
    if let Some(exception) = result.get("exception").filter(|value| field(value, "__ansible_type").is_some()) {
        let text = text_of_message(exception);
        if result.get("msg").is_none() {
            result.set("msg", format!("Module failed: {text}"));
        }
        result.set("exception", text);
    }
    if result.get("changed").is_none() {
        result.set("changed", false);
    }
    result
}

fn field(value: &Value, name: &str) -> Option<Value> {
    value.get_attr(name).ok().filter(|value| !value.is_undefined() && !value.is_none())
}

/// Text of a warning or error. ansible-core 2.19 and later sends a structure.
fn text_of_message(entry: &Value) -> Value {
    field(entry, "event").and_then(|event| field(&event, "msg")).unwrap_or_else(|| entry.clone())
}

/// A deprecation with its traditional keys.
fn deprecation(entry: &Value) -> Value {
    if field(entry, "event").is_none() {
        return entry.clone();
    }
    let collection = field(entry, "deprecator").and_then(|deprecator| field(&deprecator, "resolved_name"));
    let pairs = [
        ("msg", Some(text_of_message(entry))),
        ("version", field(entry, "version")),
        ("date", field(entry, "date")),
        ("collection_name", collection),
    ];
    Value::from_pairs(pairs.into_iter().filter_map(|(key, value)| Some((key, value?))))
}
