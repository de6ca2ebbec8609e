//! A destination fully resolved from settings, arguments and ssh_config, with tokens replaced.

use std::path::PathBuf;
use std::time::Duration;

use crate::account::Account;
use crate::algorithms;
use crate::attempts::Attempts;
use crate::config::{self, Arguments, HostOptions, Query, Sources, Tokens};
use crate::host_key::HostKeyPolicy;
use crate::known_hosts::{self, HostName};
use crate::names;
use crate::settings::ConfigFiles;
use crate::{Destination, Error, HostKeyChecking, Settings};

/// Private keys to offer if none is configured.
const DEFAULT_IDENTITIES: [&str; 3] = ["~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"];
/// Default of RequiredRSASize.
const DEFAULT_RSA_BITS: u32 = 1024;
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Route to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// TCP connection.
    Direct,
    /// Standard input and output of a command.
    Command(String),
    /// Jump hosts, in order.
    Jump(Vec<Destination>),
}

/// Way to a host as ssh_config and the settings describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Name or address to connect to.
    pub host: String,
    /// TCP port of the SSH server.
    pub port: u16,
    /// Remote user.
    pub user: String,
    /// Jump hosts in order, separated by commas.
    pub jump: Option<String>,
    /// Command that replaces the TCP connection.
    pub command: Option<String>,
    /// Private keys to offer.
    pub keys: Vec<PathBuf>,
    /// Socket of the agent.
    pub agent: Option<PathBuf>,
    /// Number of lines of known_hosts files that apply to the host.
    pub known_keys: usize,
}

/// Resolves a destination without connecting. Blocks: it reads files, and a `Match exec` runs a command.
pub fn reached(destination: &Destination, settings: &Settings) -> Result<Reached, Error> {
    Resolved::new(destination, settings).map(Resolved::into_reached)
}

/// Everything decided before the first packet.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) route: Route,
    pub(crate) policy: HostKeyPolicy,
    /// Keys the user named; they are offered before the agent's.
    pub(crate) identity_files: Vec<PathBuf>,
    /// Keys in the default places, if the user named none.
    pub(crate) default_identity_files: Vec<PathBuf>,
    pub(crate) certificate_files: Vec<PathBuf>,
    pub(crate) agent: Option<PathBuf>,
    pub(crate) connect_timeout: Duration,
    pub(crate) attempts: Attempts,
    pub(crate) options: HostOptions,
}

impl Resolved {
    /// Reads the files and resolves the destination. Blocks: it reads files, and a `Match exec` runs a command.
    pub(crate) fn new(destination: &Destination, settings: &Settings) -> Result<Self, Error> {
        destination.check()?;
        let account = Account::current();
        let arguments = Arguments::parse(&settings.arguments)?;
        let sources = match settings.config_files {
            ConfigFiles::Standard => {
                Sources { user: Some(account.home.join(".ssh/config")), system: Some("/etc/ssh/ssh_config".into()) }
            }
            ConfigFiles::None => Sources { user: None, system: None },
        };
        let given = HostOptions {
            port: destination.port,
            user: destination.user.clone(),
            identity_files: settings
                .identity_file
                .iter()
                .map(|path| path.to_string_lossy().replace('%', "%%"))
                .collect(),
            host_key_checking: settings.host_key_checking,
            connect_timeout: settings.connect_timeout,
            ..HostOptions::default()
        };
        let options = config::read(&Query { host: &destination.host, account: &account }, given, &arguments, &sources)?;
        Self::decide(destination, settings, options, account)
    }

    fn decide(
        destination: &Destination,
        settings: &Settings,
        options: HostOptions,
        account: Account,
    ) -> Result<Self, Error> {
        let wrong = |problem| Error::Configuration { place: format!("ssh options of {}", destination.host), problem };
        let mut tokens = Tokens {
            host: destination.host.clone(),
            original: destination.host.clone(),
            key_alias: destination.host.clone(),
            port: options.port.unwrap_or(22),
            user: options.user.clone().unwrap_or_else(|| account.name.clone()),
            jump: options.proxy_jump.clone().unwrap_or_default(),
            account,
        };
        if let Some(name) = &options.host_name {
            tokens.host = tokens.expand(name).map_err(wrong)?;
        }
        tokens.key_alias = options.host_key_alias.clone().unwrap_or_else(|| tokens.host.clone());
        // Options may be templates over data too.
        let names = names::check_host(&tokens.host).and_then(|()| names::check_host(&tokens.key_alias));
        names.and_then(|()| names::check_user(&tokens.user)).map_err(Error::Name)?;
        let paths = |texts: &[String]| {
            texts
                .iter()
                .map(|text| tokens.expand_path(text).map(PathBuf::from))
                .collect::<Result<Vec<_>, _>>()
                .map_err(wrong)
        };
        let known_files = |given: &Option<Vec<String>>, defaults: [&str; 2]| match given {
            Some(files) => paths(&files.iter().filter(|file| !config::is_none(file)).cloned().collect::<Vec<_>>()),
            None => paths(&defaults.map(str::to_owned)),
        };
        let user_files = known_files(&options.user_known_hosts, ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"])?;
        let global_files =
            known_files(&options.global_known_hosts, ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"])?;
        let user_file = user_files.first().cloned().unwrap_or_else(|| PathBuf::from("/dev/null"));
        let host = HostName::new(&tokens.host, tokens.port, options.host_key_alias.as_deref());
        let files: Vec<PathBuf> = user_files.into_iter().chain(global_files).collect();
        let known = known_hosts::read(&files, &host).map_err(|error| Error::Configuration {
            place: "known_hosts".into(),
            problem: format!("the file cannot be read: {error}"),
        })?;
        let policy = HostKeyPolicy {
            host,
            known,
            files,
            confirmed: None,
            checking: options.host_key_checking.unwrap_or(HostKeyChecking::Ask),
            user_file,
            revoked: revoked_keys(&options, &tokens).map_err(wrong)?,
            least_rsa_bits: options.required_rsa_size.unwrap_or(DEFAULT_RSA_BITS),
            authority_algorithms: algorithms::of_authorities(options.ca_signature_algorithms.as_deref())?,
            hash_names: options.hash_known_hosts.unwrap_or(false),
        };
        let identity_files = paths(&options.identity_files)?;
        let default_identity_files =
            if identity_files.is_empty() { paths(&DEFAULT_IDENTITIES.map(str::to_owned))? } else { Vec::new() };
        Ok(Self {
            route: route(&options, &tokens).map_err(wrong)?,
            policy,
            identity_files,
            default_identity_files,
            certificate_files: paths(&options.certificate_files)?,
            agent: agent(&options, &tokens).map_err(wrong)?,
            connect_timeout: options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
            attempts: Attempts::new(settings.retries, options.connection_attempts),
            host: tokens.host,
            port: tokens.port,
            user: tokens.user,
            options,
        })
    }

    fn into_reached(self) -> Reached {
        let hop = |hop: &Destination| {
            let user = hop.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
            let port = hop.port.map(|port| format!(":{port}")).unwrap_or_default();
            format!("{user}{}{port}", hop.host)
        };
        let (jump, command) = match &self.route {
            Route::Direct => (None, None),
            Route::Jump(hops) => (Some(hops.iter().map(hop).collect::<Vec<_>>().join(",")), None),
            Route::Command(command) => (None, Some(command.clone())),
        };
        let are_default = self.identity_files.is_empty();
        let keys = if are_default { self.default_identity_files } else { self.identity_files };
        let known_keys = self.policy.known.entries.len();
        let (host, port, user, agent) = (self.host, self.port, self.user, self.agent);
        Reached { host, port, user, jump, command, keys, agent, known_keys }
    }

    /// `host:port`, for messages.
    pub(crate) fn peer(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

fn revoked_keys(options: &HostOptions, tokens: &Tokens) -> Result<Vec<known_hosts::Entry>, String> {
    match options.revoked_host_keys.as_deref().filter(|file| !config::is_none(file)) {
        Some(file) => known_hosts::revoked(&PathBuf::from(tokens.expand_path(file)?)),
        None => Ok(Vec::new()),
    }
}

fn route(options: &HostOptions, tokens: &Tokens) -> Result<Route, String> {
    if let Some(command) =
        options.proxy_command.as_deref().filter(|command| !config::is_none(command) && !command.is_empty())
    {
        return Ok(Route::Command(tokens.expand(command)?));
    }
    match options.proxy_jump.as_deref().filter(|jump| !config::is_none(jump) && !jump.is_empty()) {
        Some(jump) => {
            Ok(Route::Jump(jump.split(',').map(|hop| hop_of(&tokens.expand(hop.trim())?)).collect::<Result<_, _>>()?))
        }
        None => Ok(Route::Direct),
    }
}

/// Parses `[user@]host[:port]`, optionally as an `ssh://` URL.
fn hop_of(text: &str) -> Result<Destination, String> {
    let rest = text.strip_prefix("ssh://").unwrap_or(text).trim_end_matches('/');
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (Some(user.to_owned()), place),
        None => (None, rest),
    };
    let (host, port) = if let Some(bracketed) = place.strip_prefix('[') {
        let (host, tail) =
            bracketed.split_once(']').ok_or_else(|| format!("a `[` is not closed in the jump host `{text}`"))?;
        (host, tail.strip_prefix(':'))
    } else {
        match place.split_once(':') {
            // More than one colon means an IPv6 address without brackets.
            Some((_, tail)) if tail.contains(':') => (place, None),
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        }
    };
    if host.is_empty() {
        return Err(format!("the jump host `{text}` has no name"));
    }
    let port = match port {
        Some(port) => Some(port.parse().map_err(|_| format!("`{port}` in the jump host `{text}` is not a port"))?),
        None => None,
    };
    Ok(Destination { host: host.to_owned(), port, user })
}

fn agent(options: &HostOptions, tokens: &Tokens) -> Result<Option<PathBuf>, String> {
    let from_environment = || std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty()).map(PathBuf::from);
    Ok(match options.identity_agent.as_deref() {
        Some("none") => None,
        None | Some("SSH_AUTH_SOCK") => from_environment(),
        Some(text) => match text.strip_prefix('$').filter(|name| !name.starts_with('{')) {
            Some(name) => std::env::var_os(name).map(PathBuf::from),
            None => Some(tokens.expand_path(text)?.into()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jump_host_forms_parsed() {
        let hop = |text| hop_of(text).map(|hop| (hop.user, hop.host, hop.port)).unwrap();
        assert_eq!(hop("bastion"), (None, "bastion".into(), None));
        assert_eq!(hop("me@bastion:2222"), (Some("me".into()), "bastion".into(), Some(2222)));
        assert_eq!(hop("ssh://me@[fd00::1]:22"), (Some("me".into()), "fd00::1".into(), Some(22)));
        assert_eq!(hop("fd00::1"), (None, "fd00::1".into(), None));
        assert!(hop_of("bastion:ssh").is_err());
    }

    #[test]
    fn settings_override_arguments() {
        let destination = Destination { host: "web".into(), port: Some(2201), user: None };
        let settings = Settings {
            arguments: ["-p", "99", "-l", "deploy", "-J", "a,b@c:7"].map(str::to_owned).to_vec(),
            config_files: ConfigFiles::None,
            ..Settings::default()
        };
        let resolved = Resolved::new(&destination, &settings).unwrap();
        assert_eq!((resolved.port, resolved.user.as_str()), (2201, "deploy"));
        assert!(matches!(resolved.route, Route::Jump(hops) if hops.len() == 2));
        assert_eq!(resolved.policy.host.name, "[web]:2201");
    }

    #[test]
    fn none_in_any_case_switches_an_option_off() {
        let options = ["RevokedHostKeys=NONE", "UserKnownHostsFile=None", "ProxyCommand=NONE"];
        let destination = Destination { host: "web".into(), port: None, user: None };
        let with = |options: &[&str]| {
            let arguments = options.iter().map(|option| format!("-o{option}")).collect();
            let settings = Settings { arguments, config_files: ConfigFiles::None, ..Settings::default() };
            Resolved::new(&destination, &settings).unwrap()
        };
        let resolved = with(&options);
        assert_eq!((&resolved.route, &resolved.policy.user_file), (&Route::Direct, &PathBuf::from("/dev/null")));
        assert!(resolved.policy.revoked.is_empty());
        assert_eq!(with(&["ProxyJump=None"]).route, Route::Direct);
    }
}
