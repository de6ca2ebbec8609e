//! Name resolution for the HTTP client.

use std::net::SocketAddr;

use ureq::{
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

use crate::net::resolve::addresses;

/// Resolver for the HTTP client.
#[derive(Debug)]
pub(crate) struct HostNames {
    /// Server to connect to instead of the requested one, such as a proxy.
    pub(crate) instead: Option<(String, u16)>,
}

impl Resolver for HostNames {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let (name, port) = match &self.instead {
            Some((name, port)) => (name.as_str(), *port),
            None => {
                let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
                let name = uri.host().ok_or_else(|| ureq::Error::BadUri(uri.to_string()))?;
                (name, uri.port_u16().unwrap_or(usual))
            }
        };
        let found = addresses(name, *timeout.after)?;
        let mut result = self.empty();
        let sockets = found.into_iter().map(|address| SocketAddr::new(address, port)).collect::<Vec<_>>();
        for address in config.ip_family().keep_wanted(sockets.into_iter()).take(16) {
            result.push(address);
        }
        if result.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(result) }
    }
}
