//! Address and TLS settings of the engine, from options and Docker's environment variables.

use std::path::PathBuf;

use crate::{Args, Failure, Host, args::is_true};

/// Address of an engine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// Socket of this host.
    Socket(PathBuf),
    /// Host and port, with or without TLS.
    Network { host: String, port: u16, path: String, tls: bool },
}

/// TLS credentials of both sides.
#[derive(Debug, Default)]
pub(super) struct Tls {
    pub(super) verify: bool,
    pub(super) authorities: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
    /// Name in the engine's certificate, if it differs from the address.
    pub(super) name: Option<String>,
}

impl Address {
    /// The address from the task's options, otherwise from the environment, otherwise Docker's default.
    pub(super) fn of(args: &Args, host: &Host) -> Result<Address, Failure> {
        let given = args.str("docker_host").map(str::to_owned).or_else(|| host.variable("DOCKER_HOST"));
        let text = given.unwrap_or_default();
        Address::parse(&text, switch(args, host, "tls", "DOCKER_TLS") || verifies(args, host))
    }

    /// Parses an address like the Docker client.
    fn parse(text: &str, tls: bool) -> Result<Address, Failure> {
        let text = text.trim();
        let invalid = |why: &str| Failure::new(format!("docker_host {text} is not an address of an engine: {why}."));
        if matches!(text, "" | "unix://") {
            return Ok(Address::Socket("/var/run/docker.sock".into()));
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme, rest),
            None => ("tcp", text),
        };
        let (tls, usual) = match scheme {
            "unix" | "http+unix" => {
                let path = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
                return Ok(Address::Socket(path.trim_end_matches('/').into()));
            }
            "tcp" | "http" | "https" => {
                let tls = tls || scheme == "https";
                (tls && scheme != "http", if tls { 2376 } else { 2375 })
            }
            "ssh" => {
                return Err(invalid(
                    "connections by SSH are not supported; run the task on that host instead, which Windlass reaches by SSH",
                ));
            }
            _ => return Err(invalid("known are unix://, tcp://, http:// and https://")),
        };
        if rest.contains(['?', '#', '@']) {
            return Err(invalid("it must not have a user, query or fragment"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() {
            return Err(invalid("the host is missing"));
        }
        let bracket = authority.rfind(']').unwrap_or(0);
        let (host, port) = match authority.rfind(':').filter(|at| *at > bracket) {
            Some(at) => {
                let (host, port) = authority.split_at(at);
                (host, port.trim_start_matches(':').parse().map_err(|_| invalid("the port is not a number"))?)
            }
            None => (authority, usual),
        };
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Address::Network { host: host.to_owned(), port, path, tls })
    }

    /// Prefix of URLs before `/v1.43/…`, as messages show it.
    pub(super) fn shown(&self) -> String {
        match self {
            Address::Socket(_) => "http+docker://localhost".to_owned(),
            Address::Network { host, port, path, tls } => {
                format!("http{}://{host}:{port}{path}", if *tls { "s" } else { "" })
            }
        }
    }
}

impl Tls {
    /// The certificates from the task's options, otherwise from the folder in `DOCKER_CERT_PATH`.
    pub(super) fn of(args: &Args, host: &Host) -> Tls {
        let folder = host.variable("DOCKER_CERT_PATH");
        let file = |option: &str, name: &str| {
            let known = folder.as_ref().map(|folder| format!("{}/{name}", folder.trim_end_matches('/')));
            args.str(option).map(str::to_owned).or(known)
        };
        Tls {
            verify: verifies(args, host),
            authorities: file("ca_path", "ca.pem"),
            certificate: file("client_cert", "cert.pem"),
            key: file("client_key", "key.pem"),
            name: args.str("tls_hostname").map(str::to_owned).or_else(|| host.variable("DOCKER_TLS_HOSTNAME")),
        }
    }
}

fn verifies(args: &Args, host: &Host) -> bool {
    switch(args, host, "validate_certs", "DOCKER_TLS_VERIFY")
}

fn switch(args: &Args, host: &Host, option: &str, variable: &str) -> bool {
    args.maybe_bool(option).unwrap_or_else(|| host.variable(variable).is_some_and(|text| is_true(&text.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str, tls: bool) -> (String, u16, String, bool) {
        match Address::parse(text, tls) {
            Ok(Address::Network { host, port, path, tls }) => (host, port, path, tls),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn engine_addresses_parsed() {
        assert_eq!(Address::parse("", false).unwrap(), Address::Socket("/var/run/docker.sock".into()));
        assert_eq!(Address::parse("unix:///run/d.sock", true).unwrap(), Address::Socket("/run/d.sock".into()));
        assert_eq!(network("tcp://10.0.0.5", false), ("10.0.0.5".into(), 2375, String::new(), false));
        assert_eq!(network("tcp://db:4243/engine/", true), ("db".into(), 4243, "/engine".into(), true));
        assert_eq!(network("https://db", false), ("db".into(), 2376, String::new(), true));
        assert_eq!(network("[::1]:2375", false), ("[::1]".into(), 2375, String::new(), false));
        for wrong in ["ssh://db", "npipe:////./pipe/x", "tcp://", "tcp://user@db", "tcp://db:port"] {
            assert!(Address::parse(wrong, false).is_err(), "{wrong}");
        }
    }
}
