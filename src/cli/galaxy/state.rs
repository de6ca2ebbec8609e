//! Options, settings and servers of every subcommand.

use std::cell::OnceCell;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use serde_json::Value;

use super::server::{Server, Servers};
use crate::cli::options::whole;
use crate::error::{Error, Result};
use crate::output::Printer;
use crate::playbook::Files;
use crate::settings::{Color, Config, GalaxyServer, Settings, base_value, galaxy_servers};

/// Options of every subcommand.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Common {
    /// Galaxy server: a URL, or a name in `server_list` [default: https://galaxy.ansible.com]
    #[arg(short, long, value_name = "URL")]
    pub(super) server: Option<String>,
    /// API token for the Galaxy server
    #[arg(long, visible_alias = "api-key", value_name = "KEY")]
    pub(super) token: Option<String>,
    /// Do not verify TLS certificates of servers
    #[arg(short = 'c', long)]
    pub(super) ignore_certs: bool,
    /// Seconds to wait for a server's answer [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u64>)]
    pub(super) timeout: Option<u64>,
}

/// Directories of roles.
#[derive(Debug, Args)]
pub(super) struct Places {
    /// Directory for roles, searched before the configured ones; repeatable
    #[arg(short = 'p', long, value_name = "DIR")]
    pub(super) roles_path: Vec<String>,
}

/// State shared by the subcommands.
pub(super) struct Galaxy {
    pub(super) config: Config,
    pub(super) settings: Settings,
    pub(super) files: Files,
    pub(super) printer: Printer,
}

impl Galaxy {
    pub(super) fn new() -> Result<Galaxy> {
        let config = Config::find()?;
        let settings = Settings::from_config(&config)?;
        let printer = crate::cli::session::printer(&settings);
        config.warnings.iter().for_each(|warning| printer.warning(warning));
        let files = Files::new(windlass_vault::Secrets::new(), settings.duplicate_keys);
        Ok(Galaxy { config, settings, files, printer })
    }

    pub(super) fn say(&self, text: &str) {
        self.printer.line(text, Color::Plain);
    }

    /// Value of a base setting.
    pub(super) fn setting(&self, name: &str) -> Result<Value> {
        base_value(name, &self.config)
    }

    /// Directories from the option, followed by the configured ones.
    pub(super) fn places(&self, places: &Places) -> Vec<PathBuf> {
        let given = places.roles_path.iter().flat_map(|text| text.split(':')).filter(|part| !part.is_empty());
        let given = given.map(|part| crate::paths::absolute(&crate::settings::expand_home(part)));
        given.chain(self.settings.code.roles_path.iter().map(|path| crate::paths::absolute(path))).collect()
    }

    /// Servers to query: the one named by URL or as in `server_list`, or else the whole list.
    pub(super) fn servers(&self, common: &Common) -> Result<Servers> {
        let check_certificates = !common.ignore_certs && self.setting("GALAXY_IGNORE_CERTS")? != Value::Bool(true);
        let listed = |server: &GalaxyServer| {
            let value = |name: &str| server.value(name, &self.config);
            let Some(address) = value("url")?.as_str().map(str::to_owned) else {
                return Err(Error::usage(format!("the Galaxy server `{}` in `server_list` has no `url`", server.name)));
            };
            if value("auth_url")?.is_string() {
                return Err(Error::usage(format!(
                    "the Galaxy server `{}` has `auth_url`, which is not supported",
                    server.name
                )));
            }
            let token = common.token.clone().or(value("token")?.as_str().map(str::to_owned));
            let login = match (value("username")?.as_str(), value("password")?.as_str()) {
                (Some(user), Some(password)) => Some(BASE64_STANDARD.encode(format!("{user}:{password}"))),
                _ => None,
            };
            let login = login.map(|login| format!("Basic {login}"));
            Ok(Server {
                address,
                authorization: token.map(|token| format!("Token {token}")).or(login),
                check_certificates: match value("validate_certs")?.as_bool() {
                    Some(wanted) if !common.ignore_certs => wanted,
                    _ => check_certificates,
                },
                timeout: common.timeout.or(value("timeout")?.as_u64()).unwrap_or(60),
                api: OnceCell::new(),
            })
        };
        let mut of_list = galaxy_servers(&self.config)?;
        if let Some(name) = &common.server {
            of_list.retain(|server| server.name == *name);
        }
        if !of_list.is_empty() {
            if common.token.is_some() && of_list.len() > 1 {
                let message = "`--token` is for one server, and `server_list` has several";
                return Err(Error::usage(message).hint("name its server with `--server`"));
            }
            return of_list.iter().map(listed).collect::<Result<_>>().map(Servers);
        }
        let address = match &common.server {
            Some(address) => address.clone(),
            None => self.setting("GALAXY_SERVER")?.as_str().unwrap_or_default().to_owned(),
        };
        let timeout = common.timeout.or(self.setting("GALAXY_SERVER_TIMEOUT")?.as_u64()).unwrap_or(60);
        let authorization = common.token.as_ref().map(|token| format!("Token {token}"));
        Ok(Servers(vec![Server { address, authorization, check_certificates, timeout, api: OnceCell::new() }]))
    }
}
