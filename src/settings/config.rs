//! The environment and one ansible.cfg.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::base::{Setting, base, set_value, value_of};
use super::callbacks;
use super::places::{has_effect, is_without_meaning, keys_with_effect, places};
use super::{boolean, expand_home};
use crate::error::{Error, Result, did_you_mean};

/// Settings from the environment and one ansible.cfg, without the command line.
#[derive(Debug, Default)]
pub struct Config {
    /// Path of the file, if one was found.
    pub file: Option<PathBuf>,
    values: HashMap<(String, String), String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Whether the environment sets nothing.
    ignores_environment: bool,
}

impl Config {
    /// Finds and reads ansible.cfg: the first of `ANSIBLE_CONFIG`, the current directory, the home directory and
    /// `/etc/ansible`.
    pub fn find() -> Result<Config> {
        let mut warnings = Vec::new();
        let mut candidates = Vec::new();
        if let Some(named) = std::env::var_os("ANSIBLE_CONFIG").filter(|named| !named.is_empty()) {
            let named = PathBuf::from(named);
            candidates.push(if named.is_dir() { named.join("ansible.cfg") } else { named });
        }
        if let Ok(current) = std::env::current_dir() {
            let here = current.join("ansible.cfg");
            if here.is_file() && is_world_writable(&current) {
                warnings.push(format!(
                    "windlass is being run in a world writable directory ({}), ignoring it as an ansible.cfg source.",
                    current.display()
                ));
            } else {
                candidates.push(here);
            }
        }
        if let Some(home) = std::env::var_os("HOME") {
            candidates.push(Path::new(&home).join(".ansible.cfg"));
        }
        candidates.push(PathBuf::from("/etc/ansible/ansible.cfg"));
        let Some(file) = candidates.into_iter().find(|path| path.is_file()) else {
            return Ok(Config { warnings, ..Config::default() });
        };
        Ok(Config { warnings, ..Config::read(file)? })
    }

    /// No settings, so that all have their defaults.
    pub fn empty() -> Config {
        Config { ignores_environment: true, ..Config::default() }
    }

    /// Reads this ansible.cfg.
    pub fn read(file: PathBuf) -> Result<Config> {
        let text = windlass_bounds::read_text(&file)
            .map_err(|error| Error::usage(format!("{} cannot be read: {error}", file.display())))?;
        let values = parse_ini(&text)
            .map_err(|(line, message)| Error::usage(format!("{}:{line}: {message}", file.display())))?;
        Ok(Config { file: Some(file), values, ..Config::default() })
    }

    /// Checks the values of all settings of ansible-core that are set, even those without an effect in Windlass. Those
    /// of Windlass are checked where they are read.
    pub fn check(&self) -> Result<()> {
        base().iter().filter(|setting| !setting.is_own()).try_for_each(|setting| set_value(setting, self).map(|_| ()))
    }

    /// Text of a setting. The environment outranks the file.
    pub fn get(&self, name: &str) -> Option<String> {
        let found = places(name);
        debug_assert!(found.is_some(), "nothing sets {name}: it is in no list of places");
        let (env, ini) = found?;
        self.lookup(env, ini)
    }

    /// Values of a setting that are separated by commas.
    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.get(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Value of a boolean setting. Fails for other words: a misspelt one must not turn off the check of host keys.
    pub fn bool(&self, name: &str) -> Result<Option<bool>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let problem = || Error::usage(format!("the setting {name} must be true or false, not '{text}'"));
        boolean(&text).map(Some).ok_or_else(problem)
    }

    /// Value of a numeric setting. Fails if it is not a number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        match self.get(name) {
            None => Ok(None),
            // An empty environment variable sets nothing.
            Some(text) if text.is_empty() && self.is_from_environment(name) => Ok(None),
            Some(text) => match text.trim().parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(Error::usage(format!("the setting {name} must be a number, not '{text}'"))),
            },
        }
    }

    /// A list of paths separated by colons. In ansible.cfg they are relative to that file, in the environment to the
    /// current directory.
    pub fn paths(&self, name: &str) -> Option<Vec<PathBuf>> {
        let from_environment = self.is_from_environment(name);
        let path = |part: &str| if from_environment { expand_home(part.trim()) } else { self.path(part) };
        self.get(name).map(|text| text.split(':').filter(|part| !part.is_empty()).map(path).collect())
    }

    /// Value of a path setting. In ansible.cfg it is relative to that file, in the environment to the current
    /// directory.
    pub fn path_of(&self, name: &str) -> Option<PathBuf> {
        let text = self.get(name).filter(|text| !text.trim().is_empty())?;
        Some(if self.is_from_environment(name) { expand_home(text.trim()) } else { self.path(&text) })
    }

    fn is_from_environment(&self, name: &str) -> bool {
        places(name).is_some_and(|(env, _)| env.iter().any(|variable| std::env::var_os(variable).is_some()))
    }

    /// Resolves a path relative to ansible.cfg.
    pub fn path(&self, text: &str) -> PathBuf {
        let text = text.trim();
        let current = std::env::current_dir().unwrap_or_default();
        let text = text.replace("{{CWD}}", &current.display().to_string());
        let path = expand_home(&text);
        match (&self.file, path.is_relative()) {
            (Some(file), true) => file.parent().map(|folder| folder.join(&path)).unwrap_or(path),
            _ => path,
        }
    }

    /// Text of the last environment variable that is set, or else of the last key in ansible.cfg.
    pub fn lookup(&self, env: &[&str], ini: &[(&str, &str)]) -> Option<String> {
        self.lookup_with_origin(env, ini).map(|(text, _)| text)
    }

    /// Like [`Config::lookup`], with the origin of the text.
    pub fn lookup_with_origin(&self, env: &[&str], ini: &[(&str, &str)]) -> Option<(String, Origin)> {
        let environment = env.iter().rev().filter(|_| !self.ignores_environment).find_map(|name| {
            let text = std::env::var(name).ok()?;
            Some((text, Origin::Environment((*name).to_owned())))
        });
        let from_file = || {
            ini.iter().rev().find_map(|(section, key)| {
                let text = self.values.get(&((*section).to_owned(), (*key).to_owned()))?.clone();
                Some((text, Origin::File(self.file.clone()?)))
            })
        };
        environment.or_else(from_file)
    }

    /// Origin of a setting's value.
    pub fn origin(&self, name: &str) -> Origin {
        let found = places(name).and_then(|(env, ini)| self.lookup_with_origin(env, ini));
        found.map_or(Origin::Default, |(_, origin)| origin)
    }

    /// Sections and keys of the file, sorted.
    pub fn keys(&self) -> Vec<(&str, &str)> {
        let mut keys: Vec<_> = self.values.keys().map(|(section, key)| (section.as_str(), key.as_str())).collect();
        keys.sort_unstable();
        keys
    }

    /// Settings that differ from their defaults and have no effect in Windlass, although they should.
    pub fn unsupported(&self) -> Vec<String> {
        // Options of its own, which it reads itself.
        let has_cache_plugin = super::facts::is_plugin(self);
        let is_supported = |section: &str, key: &str| {
            is_without_meaning(key)
                || has_effect(section, key)
                || (section == "defaults" && key.starts_with("fact_caching_") && has_cache_plugin)
                || callbacks::keys().any(|ini| ini == (section, key))
        };
        let is_default = |setting: &Setting| value_of(setting, self).is_ok_and(|(value, _)| value == setting.default());
        const SECTIONS: &[&str] = &[
            "connection",
            "defaults",
            "diff",
            "inventory",
            "privilege_escalation",
            "ssh_connection",
            "tags",
            "windlass",
        ];
        // Connections that use a program read only variables. Their options are reported, because a setting that is
        // silently ignored may name another daemon.
        const PROGRAMS: &[&str] = &["chroot_connection", "docker_connection"];
        let mut names = Vec::new();
        let own = super::places::sections();
        let is_section = |name| SECTIONS.contains(&name) || PROGRAMS.contains(&name) || own.contains(name);
        for (section, key) in self.keys() {
            // Other programs may have sections of their own, so only a near miss is one.
            let misspelt = (!is_section(section)).then(|| did_you_mean(section, SECTIONS.iter().copied())).flatten();
            if let Some(suggestion) = misspelt {
                names.push(format!("setting [{section}] {key} ({suggestion})"));
                continue;
            }
            let setting = base().iter().find(|setting| setting.ini.contains(&(section, key)));
            let harmless = setting.is_some_and(is_default);
            if (SECTIONS.contains(&section) || PROGRAMS.contains(&section)) && !is_supported(section, key) && !harmless
            {
                // A setting that Ansible knows is spelt right.
                let suggestion = match setting {
                    Some(_) => None,
                    None => did_you_mean(key, keys_with_effect(section)),
                };
                let suggestion = suggestion.map(|words| format!(" ({words})")).unwrap_or_default();
                names.push(format!("setting [{section}] {key}{suggestion}"));
            }
        }
        // Few variables are set, and the search for a key takes long.
        let is_set = |variable: &&&str| std::env::var_os(variable).is_some_and(|text| !text.is_empty());
        for setting in base().iter().filter(|setting| !setting.is_internal()) {
            for variable in setting.env.iter().filter(is_set) {
                let is_known = setting.ini.iter().any(|(section, key)| is_supported(section, key));
                if !is_known && !is_default(setting) && !is_elsewhere(variable) {
                    names.push(format!("environment variable {variable}"));
                }
            }
        }
        names
    }
}

/// Whether an environment variable sets something that does not exist in Windlass.
fn is_elsewhere(variable: &str) -> bool {
    ["ANSIBLE_PERSISTENT_", "ANSIBLE_PARAMIKO_", "ANSIBLE_COLOR_", "ANSIBLE_GALAXY_", "ANSIBLE_WORKER_"]
        .iter()
        .any(|prefix| variable.starts_with(prefix))
}

/// Origin of a setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The setting's default applies.
    Default,
    /// This environment variable.
    Environment(String),
    /// This ansible.cfg.
    File(PathBuf),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => formatter.write_str("default"),
            Origin::Environment(name) => write!(formatter, "env: {name}"),
            Origin::File(path) => write!(formatter, "{}", path.display()),
        }
    }
}

fn is_world_writable(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().mode() & 0o002 != 0)
}

type IniValues = HashMap<(String, String), String>;

/// Parses ini files like Ansible's use of configparser: `;` starts a comment anywhere, `#` only at the start of a line.
/// Indented lines continue the previous one.
fn parse_ini(text: &str) -> Result<IniValues, (usize, String)> {
    let mut values = IniValues::new();
    let mut section = String::new();
    let mut last: Option<(String, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        let content = trimmed.split_once(" ;").map_or(trimmed, |(content, _)| content.trim_end());
        if line.starts_with([' ', '\t'])
            && let Some(value) = last.as_ref().and_then(|key| values.get_mut(key))
        {
            value.push('\n');
            value.push_str(content);
            continue;
        }
        if let Some(name) = content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim().to_owned();
            last = None;
            continue;
        }
        let Some((key, value)) = content.split_once(['=', ':']) else {
            return Err((index + 1, format!("expected `key = value` or `[section]`, found '{content}'")));
        };
        if section.is_empty() {
            return Err((index + 1, "a setting precedes the first [section]".to_owned()));
        }
        let key = (section.clone(), key.trim().to_lowercase());
        values.insert(key.clone(), unquoted(value.trim()).to_owned());
        last = Some(key);
    }
    Ok(values)
}

fn unquoted(value: &str) -> &str {
    let pair =
        ['\'', '"'].iter().find_map(|quote| value.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote)));
    pair.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ini_comments_and_continued_lines() {
        let values = parse_ini("# top\n[defaults]\nforks = 9 ; many\nroles_path = a:\n  b\nname = 'x y'\n").unwrap();
        let get = |key: &str| values.get(&("defaults".to_owned(), key.to_owned())).map(String::as_str);
        assert_eq!((get("forks"), get("roles_path"), get("name")), (Some("9"), Some("a:\nb"), Some("x y")));
    }

    #[test]
    fn setting_with_effect_is_never_reported_as_without() {
        let places: Vec<_> = super::super::places::with_effect().chain(callbacks::keys()).collect();
        assert!(places.contains(&("ssh_connection", "ssh_args")) && places.contains(&("windlass", "shards")));
        let value = |(section, key): &(&str, &str)| (((*section).to_owned(), (*key).to_owned()), "other".to_owned());
        let config = Config { values: places.iter().map(value).collect(), ..Config::default() };
        let reported = config.unsupported().into_iter().filter(|name| name.starts_with("setting ["));
        assert_eq!(reported.collect::<Vec<_>>(), Vec::<String>::new());
    }

    #[test]
    fn misspelt_section_gets_suggestion() {
        let key = ("ssh_conection".to_owned(), "ssh_args".to_owned());
        let config = Config { values: HashMap::from([(key, "-C".to_owned())]), ..Config::default() };
        let sentence = "setting [ssh_conection] ssh_args (did you mean `ssh_connection`?)".to_owned();
        assert!(config.unsupported().contains(&sentence), "{:?}", config.unsupported());
    }

    #[test]
    fn invalid_line_reported() {
        assert_eq!(parse_ini("[defaults]\nforks\n").unwrap_err().0, 2);
    }
}
