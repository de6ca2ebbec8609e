//! Messages for failed requests.

use std::{io, time::Duration};

use ureq::Error;

use crate::net::address::Address;
use crate::process::reason;

/// Whether the connection was refused.
pub(super) fn is_refused<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Io(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Describes an error and the server involved.
pub(super) fn explain(error: Error, address: &Address, proxy: Option<&str>, timeout: Duration) -> String {
    let server = &match proxy {
        Some(proxy) => format!("{} (by the proxy {proxy})", address.authority),
        None => address.authority.clone(),
    };
    match error {
        Error::HostNotFound => {
            format!("Request failed: the name of the server {server} is not known: no address was found for it")
        }
        Error::Timeout(what) => {
            format!(
                "Connection failure: {server} did not answer within {} seconds (timed out at: {what})",
                timeout.as_secs()
            )
        }
        Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            format!("Connection failure: {server} did not answer within {} seconds (timed out)", timeout.as_secs())
        }
        Error::Io(error) => match error.to_string() {
            // Handshake errors arrive in this variant too.
            text if text.contains("certificate") => untrusted(server, &text),
            _ => format!("Request failed: the connection to {server} failed: {}", reason(&error)),
        },
        Error::Rustls(error) => untrusted(server, &error.to_string()),
        Error::ConnectProxyFailed(said) => format!("Request failed: the proxy refused to connect to {server}: {said}"),
        error => format!("Request failed: {server}: {error}"),
    }
}

/// Explains why a server's certificate was rejected, with a remedy.
fn untrusted(server: &str, error: &str) -> String {
    let known = [
        ("UnknownIssuer", "the host does not trust its issuer; install the issuer's certificate authority on the host"),
        (
            "CaUsedAsEndEntity",
            "it is the certificate of an authority itself; let the server use one that is issued by it, without CA:TRUE",
        ),
        ("NotValidForName", "it is for another name than that of the URL"),
        ("Expired", "it has expired, or the host's clock is wrong"),
        ("NotValidYet", "it is not valid yet, or the host's clock is wrong"),
    ];
    let why = known.iter().find(|(name, _)| error.contains(name)).map_or(error, |(_, why)| why);
    format!(
        "Request failed: the certificate of {server} is not trusted: {why}. With validate_certs: false anybody is trusted"
    )
}
