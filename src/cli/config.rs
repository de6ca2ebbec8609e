//! `windlass config`: shows settings, their values and their sources.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::output::{CALLBACKS, Callback};
use crate::settings::{
    CallbackOption, Config, GalaxyServer, PluginSetting, ServerOption, Setting, base, base_value, galaxy_servers,
    of_plugins,
};

mod dump;
mod validate;

/// Show settings, their values and their sources
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass config dump --only-changed            # show settings that are set
  windlass config list                           # describe all settings
  windlass config init --disabled > ansible.cfg  # start a configuration file
  windlass config view                           # print the configuration file
  windlass config validate                       # find unknown settings")]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List settings with descriptions, defaults and sources
    List {
        #[command(flatten)]
        which: Which,
        /// Output format
        #[arg(short, long, default_value = "yaml")]
        format: Document,
    },
    /// Show the value of each setting and its source
    Dump {
        #[command(flatten)]
        which: Which,
        /// Show only settings that are set explicitly
        #[arg(long, visible_alias = "changed-only")]
        only_changed: bool,
        /// Output format
        #[arg(short, long, default_value = "display")]
        format: Dump,
    },
    /// Print the configuration file in use
    View {
        #[command(flatten)]
        which: Which,
    },
    /// Generate a configuration file with all settings and their defaults
    Init {
        #[command(flatten)]
        which: Which,
        /// Output format
        #[arg(short, long, default_value = "ini")]
        format: Init,
        /// Comment out every setting
        #[arg(long)]
        disabled: bool,
    },
    /// Check the configuration file or the environment for unknown settings
    Validate {
        #[command(flatten)]
        which: Which,
        /// Source to check
        #[arg(short, long, default_value = "ini")]
        format: Validate,
    },
}

#[derive(Debug, Args)]
struct Which {
    /// Configuration file to use [default: search like every subcommand]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Settings to include: `base`, a plugin type such as `connection`, or `all`
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "base")]
    kind: String,
    /// Increase verbosity
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Limit the output to these plugins
    #[arg(value_name = "PLUGIN")]
    plugins: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Document {
    Json,
    Yaml,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Dump {
    Json,
    Yaml,
    Display,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Init {
    Ini,
    Env,
    Vars,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Validate {
    Ini,
    Env,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    match &arguments.verb {
        Verb::List { which, format } => {
            let list = list(which)?;
            super::stdout::print(&match format {
                Document::Yaml => to_yaml(&list),
                Document::Json => crate::output::nice_json(&list) + "\n",
            })?;
        }
        Verb::Dump { which, only_changed, format } => dump::dump(which, *only_changed, *format)?,
        Verb::View { which } => {
            let config = which.config()?;
            let Some(file) = &config.file else {
                return Err(Error::new("Invalid or no config file was supplied"));
            };
            let text = windlass_bounds::read_text(file)
                .map_err(|error| Error::new(format!("Failed to open config file {}: {error}", file.display())))?;
            super::stdout::print(&(text.trim_end_matches('\n').to_owned() + "\n"))?;
        }
        Verb::Init { which, format, disabled } => {
            let mut settings: Vec<Described> = Vec::new();
            if which.base() {
                settings.extend(base().iter().filter(|setting| !setting.is_internal()).map(Described::base));
            }
            for callback in which.callbacks()? {
                settings.extend(callback.all_options().map(Described::option));
            }
            super::stdout::print(&init(&settings, *format, *disabled))?;
        }
        Verb::Validate { which, format } => return validate::validate(which, *format),
    }
    Ok(0)
}

impl Which {
    fn config(&self) -> Result<Config> {
        match &self.config {
            None => Config::find(),
            Some(file) if file.is_file() => Config::read(crate::paths::absolute(file)),
            Some(file) => Err(Error::usage(format!(
                "The provided configuration file is missing or not accessible: {}",
                file.display()
            ))),
        }
    }

    fn base(&self) -> bool {
        matches!(self.kind.as_str(), "base" | "all")
    }

    /// Selected settings of plugins other than callbacks.
    fn plugins(&self) -> impl Iterator<Item = &'static PluginSetting> {
        let wanted = |entry: &&PluginSetting| {
            let named = |name: &String| name.strip_prefix("ansible.builtin.").unwrap_or(name) == entry.plugin;
            let is_kind = self.kind == "all" || self.kind == entry.kind;
            is_kind && (self.plugins.is_empty() || self.plugins.iter().any(named))
        };
        of_plugins().iter().filter(wanted)
    }

    /// Selected callbacks, the only plugins in Windlass with settings of their own.
    fn callbacks(&self) -> Result<Vec<&'static Callback>> {
        const KINDS: &[&str] = &[
            "all",
            "base",
            "become",
            "cache",
            "callback",
            "cliconf",
            "connection",
            "httpapi",
            "inventory",
            "lookup",
            "netconf",
            "shell",
            "vars",
        ];
        if !KINDS.contains(&self.kind.as_str()) {
            return Err(Error::argument(format!("`{}` is not a plugin type with settings", self.kind))
                .hint(format!("there are {}", KINDS.join(", "))));
        }
        if !matches!(self.kind.as_str(), "all" | "callback") {
            return Ok(Vec::new());
        }
        let wanted = |callback: &&Callback| {
            self.plugins.is_empty()
                || self.plugins.iter().any(|name| *name == callback.name || *name == callback.full_name())
        };
        Ok(CALLBACKS.iter().filter(wanted).collect())
    }
}

/// A setting with the fields that all output formats use.
struct Described {
    name: &'static str,
    kind: &'static str,
    default: Value,
    choices: Vec<&'static str>,
    env: Vec<&'static str>,
    ini: Vec<(&'static str, &'static str)>,
    vars: Vec<&'static str>,
    doc: &'static str,
}

impl Described {
    fn base(setting: &'static Setting) -> Described {
        Described {
            name: setting.name,
            kind: setting.kind,
            default: setting.written_default(),
            choices: setting.choices.clone(),
            env: setting.env.clone(),
            ini: setting.ini.clone(),
            vars: setting.vars.clone(),
            doc: setting.doc,
        }
    }

    fn option(option: &'static CallbackOption) -> Described {
        Described {
            name: option.name,
            kind: option.kind,
            default: default_of(option),
            choices: Vec::new(),
            env: option.env.to_vec(),
            ini: option.ini.to_vec(),
            vars: Vec::new(),
            doc: option.doc,
        }
    }

    fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("default".into(), self.default.clone());
        map.insert("description".into(), json!([self.doc]));
        map.insert("type".into(), self.kind.into());
        if !self.choices.is_empty() {
            map.insert("choices".into(), self.choices.clone().into());
        }
        let names = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
        if !self.env.is_empty() {
            map.insert("env".into(), names(&self.env));
        }
        if !self.ini.is_empty() {
            let keys = self.ini.iter().map(|(section, key)| json!({"section": section, "key": key}));
            map.insert("ini".into(), keys.collect());
        }
        if !self.vars.is_empty() {
            map.insert("vars".into(), names(&self.vars));
        }
        map.into()
    }
}

fn default_of(option: &CallbackOption) -> Value {
    match (option.default, option.kind) {
        (None, _) => Value::Null,
        (Some(text), "bool") => crate::settings::is_true(text).into(),
        (Some(text), "int") => text.parse::<i64>().map_or(Value::Null, Value::from),
        (Some(text), _) => text.into(),
    }
}

/// YAML as `ansible-config` and `ansible-doc` print it.
pub(super) fn to_yaml(value: &Value) -> String {
    use windlass_yaml::emit::{DumpOptions, Item};
    let node = windlass_yaml::Node::from_json(value, &windlass_yaml::Span::none());
    windlass_yaml::emit::dump(&Item::from(&node), &DumpOptions::default())
        .unwrap_or_else(|_| crate::output::nice_json(value) + "\n")
}

fn list(which: &Which) -> Result<Value> {
    let config = which.config()?;
    let mut map = Map::new();
    if which.base() {
        for setting in base().iter().filter(|setting| !setting.name.starts_with('_')) {
            map.insert(setting.name.into(), Described::base(setting).to_json());
        }
        let timeout = base_value("GALAXY_SERVER_TIMEOUT", &config)?;
        let servers =
            galaxy_servers(&config)?.into_iter().map(|server| (server.name.clone(), options_of(&server, &timeout)));
        map.insert("GALAXY_SERVERS".into(), servers.collect::<Map<_, _>>().into());
    }
    if which.kind != "base" {
        let mut plugins = Map::new();
        for callback in which.callbacks()? {
            let options = callback.all_options();
            let options: Map<String, Value> =
                options.map(|option| (option.name.to_owned(), Described::option(option).to_json())).collect();
            plugins.insert(callback.name.into(), options.into());
        }
        let kind = if which.kind == "all" { "CALLBACK" } else { &which.kind };
        map.insert("PLUGINS".into(), json!({kind: plugins}));
    }
    Ok(map.into())
}

/// Options of a Galaxy server.
fn options_of(server: &GalaxyServer, timeout: &Value) -> Value {
    let option = |option: &ServerOption| {
        let mut about = json!({
            "description": format!("The {} of the {} Galaxy server", option.name, server.name),
            "env": [{"name": option.env}],
            "ini": [{"section": option.section, "key": option.name}],
            "required": option.is_required(),
            "type": option.kind,
        });
        match option.name {
            "api_version" => about["choices"] = json!([2, 3]),
            "timeout" | "validate_certs" => about["cli"] = json!([{"name": option.name}]),
            _ => {}
        }
        match option.name {
            "api_version" | "token" => about["default"] = Value::Null,
            "timeout" => about["default"] = timeout.clone(),
            _ => {}
        }
        (option.name.to_owned(), about)
    };
    server.options.iter().map(option).collect::<Map<_, _>>().into()
}

/// Renders a configuration file with every setting and its default.
fn init(settings: &[Described], format: Init, disabled: bool) -> String {
    let plain = |value: &Value| match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        Value::Null => String::new(),
        other => windlass_template::text(&windlass_template::from_json(other)),
    };
    if format == Init::Ini {
        let mut sections: indexmap::IndexMap<&str, Vec<String>> = indexmap::IndexMap::new();
        let mut seen = std::collections::HashSet::new();
        for setting in settings {
            let Some((section, key)) = setting.ini.last().filter(|ini| seen.insert(**ini)) else { continue };
            let sign = if disabled { ";" } else { "" };
            let line = format!("# ({}) {}\n{sign}{key}={}\n", setting.kind, setting.doc, plain(&setting.default));
            sections.entry(section).or_default().push(line);
        }
        let sections = sections.iter().map(|(name, lines)| format!("[{name}]\n{}\n", lines.join("\n")));
        return sections.collect::<Vec<_>>().join("\n");
    }
    let mut text = String::new();
    for setting in settings {
        let sign = if disabled { "#" } else { "" };
        let (name, value, between) = match format {
            Init::Env => {
                let value = match &setting.default {
                    Value::Bool(value) => i32::from(*value).to_string(),
                    other => Some(plain(other)).filter(|text| !text.is_empty()).map_or_else(String::new, quoted),
                };
                (setting.env.last(), value, "=")
            }
            _ => (setting.vars.last(), crate::output::python_json(&setting.default), ": "),
        };
        if let Some(name) = name {
            text.push_str(&format!(
                "# {}({}): {}\n{sign}{name}{between}{value}\n\n",
                setting.name, setting.kind, setting.doc
            ));
        }
    }
    text
}

/// Quotes a word for the shell.
fn quoted(text: String) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if text.chars().all(is_safe) { text } else { format!("'{}'", text.replace('\'', "'\"'\"'")) }
}
