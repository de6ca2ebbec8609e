//! Galaxy servers named by `server_list`. Each has its own section and environment variables.

use serde_json::Value;

use super::base::{base_value, typed};
use super::config::{Config, Origin};
use crate::error::{Error, Result};

/// Options of a server with their types.
const OPTIONS: &[(&str, &str)] = &[
    ("url", "str"),
    ("username", "str"),
    ("password", "str"),
    ("token", "str"),
    ("auth_url", "str"),
    ("api_version", "int"),
    ("validate_certs", "bool"),
    ("client_id", "str"),
    ("client_secret", "str"),
    ("timeout", "int"),
];

/// A server of the list.
#[derive(Debug, Clone)]
pub struct GalaxyServer {
    /// Name of the server in the list.
    pub name: String,
    /// Options of the server.
    pub options: Vec<ServerOption>,
}

/// An option of a server.
#[derive(Debug, Clone)]
pub struct ServerOption {
    /// Name of the option.
    pub name: &'static str,
    /// Type of the option's value.
    pub kind: &'static str,
    /// Section of ansible.cfg.
    pub section: String,
    /// Environment variable.
    pub env: String,
}

/// Servers in the order of the list.
pub fn galaxy_servers(config: &Config) -> Result<Vec<GalaxyServer>> {
    let names = base_value("GALAXY_SERVER_LIST", config)?;
    let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(names.map(GalaxyServer::new).collect())
}

impl GalaxyServer {
    fn new(server: &str) -> GalaxyServer {
        let option = |(name, kind): &(&'static str, &'static str)| ServerOption {
            name,
            kind,
            section: format!("galaxy_server.{server}"),
            env: format!("ANSIBLE_GALAXY_SERVER_{}_{}", server.to_uppercase(), name.to_uppercase()),
        };
        GalaxyServer { name: server.to_owned(), options: OPTIONS.iter().map(option).collect() }
    }

    /// Value of an option; null if it is not set.
    pub fn value(&self, name: &str, config: &Config) -> Result<Value> {
        let option = self.options.iter().find(|option| option.name == name);
        option.map_or(Ok(Value::Null), |option| option.value(config).map(|(value, _)| value))
    }
}

impl ServerOption {
    /// Whether every server needs the option.
    pub fn is_required(&self) -> bool {
        self.name == "url"
    }

    /// Current value and its origin.
    pub fn value(&self, config: &Config) -> Result<(Value, Origin)> {
        match config.lookup_with_origin(&[&self.env], &[(&self.section, self.name)]) {
            None if self.name == "timeout" => Ok((base_value("GALAXY_SERVER_TIMEOUT", config)?, Origin::Default)),
            None => Ok((Value::Null, Origin::Default)),
            Some((text, origin)) => match typed(self.kind, &text, None) {
                Some(value) => Ok((value, origin)),
                None => Err(Error::usage(format!(
                    "'{text}' from {origin} is not a valid value for {} of the Galaxy server in [{}]",
                    self.name, self.section
                ))),
            },
        }
    }
}
