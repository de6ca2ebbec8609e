//! Facts, and their cache.

use std::path::PathBuf;
use std::sync::LazyLock;

use regex::Regex;

use super::Config;
use crate::error::{Error, Result};

/// Settings of facts.
#[derive(Debug, Clone)]
pub struct FactSettings {
    /// Policy for gathering: `implicit`, `explicit` or `smart`.
    pub gathering: String,
    /// Whether facts are also top-level variables (`ansible_hostname` as well as `ansible_facts.hostname`).
    pub inject: bool,
    /// Where facts are cached between runs.
    pub cache: FactCaching,
}

/// A cache of facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactCaching {
    /// Facts end with the run.
    Memory,
    /// A file for each host, in the format of `jsonfile`.
    Files {
        /// Directory of the files.
        folder: PathBuf,
        /// Prefix of file names.
        prefix: String,
        /// Seconds after which facts expire; 0 means never.
        timeout: u64,
    },
    /// A plugin in Python, which reads its options itself.
    Plugin {
        /// Name of the plugin.
        name: String,
        /// Passwords in its connection (`fact_caching_connection`).
        passwords: Vec<String>,
    },
}

impl FactSettings {
    pub(super) fn from_config(config: &Config) -> Result<FactSettings> {
        Ok(FactSettings {
            gathering: config.get("gathering").unwrap_or_else(|| "implicit".to_owned()),
            inject: config.bool("inject_facts_as_vars")?.unwrap_or(true),
            cache: cache(config)?,
        })
    }

    /// Passwords that the settings hold.
    pub fn passwords(&self) -> impl Iterator<Item = &str> {
        let passwords = match &self.cache {
            FactCaching::Plugin { passwords, .. } => passwords.as_slice(),
            FactCaching::Memory | FactCaching::Files { .. } => &[],
        };
        passwords.iter().map(String::as_str)
    }
}

/// Name of the chosen cache, without the collections of what is built in.
fn plugin(config: &Config) -> String {
    let name = config.get("fact_caching").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| "memory".to_owned());
    let short = ["ansible.builtin.", "ansible.legacy."].iter().find_map(|collection| name.strip_prefix(collection));
    short.map_or(name.clone(), str::to_owned)
}

/// Whether the cache is a plugin in Python.
pub(super) fn is_plugin(config: &Config) -> bool {
    !["memory", "jsonfile"].contains(&plugin(config).as_str())
}

fn cache(config: &Config) -> Result<FactCaching> {
    let name = plugin(config);
    match name.as_str() {
        "memory" => Ok(FactCaching::Memory),
        "jsonfile" => match config.paths("fact_caching_connection").unwrap_or_default().into_iter().next() {
            Some(folder) => Ok(FactCaching::Files {
                folder,
                prefix: config.get("fact_caching_prefix").unwrap_or_default(),
                timeout: config.number("fact_caching_timeout")?.unwrap_or(86_400),
            }),
            None => {
                Err(Error::usage("fact_caching = jsonfile needs fact_caching_connection: the directory of the files"))
            }
        },
        _ => {
            let connection = config.get("fact_caching_connection").unwrap_or_default();
            Ok(FactCaching::Plugin { name, passwords: passwords(&connection) })
        }
    }
}

/// Passwords in a connection: `host:port:db:password`, `host:port;host:port;db:password`, or a URL.
fn passwords(connection: &str) -> Vec<String> {
    static FORMS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
        [
            r"^(?:\w+://)?(?:[^:]+|\[[^\]]+\]):\d+:\d+:(.+)$",
            r"^.+:\d+;\d*:(.+)$",
            // The last `@` ends the password, because a password may contain an `@`.
            r"^[\w+.-]+://[^:/?#]*:([^/?#]+)@",
        ]
        .map(|form| Regex::new(form).expect("a constant expression"))
    });
    let found = FORMS.iter().find_map(|form| Some(form.captures(connection)?.get(1)?.as_str().to_owned()));
    let plain = found.as_deref().map(crate::http::server::unescaped).filter(|plain| found.as_ref() != Some(plain));
    found.into_iter().chain(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::passwords;

    #[test]
    fn password_of_each_form_of_connection_is_found() {
        for (connection, expected) in [
            ("localhost:6379:0:changeme", &["changeme"][..]),
            ("tls://[::1]:6379:0:a:b@c", &["a:b@c"]),
            ("one:26379;two:26379;0:changeme", &["changeme"]),
            ("mongodb://user:p%40ss@one,two/facts?x=y", &["p%40ss", "p@ss"]),
            ("mongodb://user:a@b@one/facts", &["a@b"]),
        ] {
            assert_eq!(passwords(connection), expected, "{connection}");
        }
        for connection in
            ["", "localhost:6379:0", "one:11211,two:11211", "one:26379;two:26379;0", "/var/cache", "mongodb://one"]
        {
            assert_eq!(passwords(connection), Vec::<String>::new(), "{connection}");
        }
    }
}
