//! Who may read: programs on this machine that have the token, under a name of this machine.

use std::net::{IpAddr, SocketAddr};

use hyper::StatusCode;
use subtle::ConstantTimeEq as _;

use super::address;
use crate::error::{Error, Result};
use crate::http::server::{Answer, Request};

/// The right to read.
pub(super) struct Access {
    token: String,
    /// Name of the cookie. Browsers send cookies to all ports of a machine, so each server needs a name of its own.
    cookie: String,
}

impl Access {
    /// A right with a new token, for the server at this address.
    pub(super) fn new(address: SocketAddr) -> Result<Access> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| Error::new(format!("no token can be made: {error}")))?;
        Ok(Access { token: hex::encode(bytes), cookie: format!("windlass-{}", address.port()) })
    }

    /// The token.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The answer to a request that is not to be served, or whose token is to become a cookie.
    pub(super) fn answer(&self, request: &Request) -> Option<Answer> {
        if !request.host.as_deref().is_some_and(is_loopback) {
            let refusal = "the name by which this server was called is not one of this machine: \
                           use 127.0.0.1 or localhost";
            return Some(Answer::sentence(StatusCode::MISDIRECTED_REQUEST, refusal));
        }
        if let Some(given) = request.value("token") {
            return Some(match self.is_token(given) {
                // The address with the token leaves the history and the bar of the browser.
                true => Answer::sentence(StatusCode::SEE_OTHER, "the token is a cookie now")
                    .with("location", address::without_token(request))
                    .with("set-cookie", format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.token)),
                false => refusal(),
            });
        }
        let is_known = request.cookies(&self.cookie).any(|given| self.is_token(given));
        (!is_known).then(refusal)
    }

    /// Compares a word with the token in a time that depends on neither.
    fn is_token(&self, given: &str) -> bool {
        given.as_bytes().ct_eq(self.token.as_bytes()).into()
    }
}

fn refusal() -> Answer {
    let sentence = "this server needs its token: open the address that `windlass serve` has printed, \
                    or reload this page if you have just opened it";
    Answer::sentence(StatusCode::UNAUTHORIZED, sentence)
}

/// Whether a host, perhaps with a port, is this machine by name or address. Any other name may belong to a page that
/// made it lead here (DNS rebinding). The port may be that of a tunnel.
fn is_loopback(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.is_loopback();
    }
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "0"));
    name.eq_ignore_ascii_case("localhost") && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_served() {
        for host in ["127.0.0.1", "127.0.0.1:8470", "localhost:9000", "LOCALHOST", "[::1]:80", "[::1]", "127.1.2.3:1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "example.com:8470",
            "localhost.example.com",
            "127.0.0.1.example.com:8470",
            "192.0.2.1",
            "0.0.0.0:8470",
            "[::]:8470",
            "localhost:",
            "localhost:x",
            "user@localhost",
            "x:127.0.0.1",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
