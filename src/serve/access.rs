//! Who may read: programs on this machine that have the token, under a name of this machine.

use std::net::{IpAddr, SocketAddr};

use hyper::StatusCode;

use super::{address, users};
use crate::error::Result;
use crate::http::server::{Answer, Request};

/// The right to read.
pub(super) struct Access {
    token: String,
    /// Name of the cookie.
    cookie: String,
}

impl Access {
    /// Access with a new token, for the server at this address.
    pub(super) fn new(address: SocketAddr) -> Result<Access> {
        Ok(Access { token: users::random()?, cookie: cookie(address) })
    }

    /// The token.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The answer to a request that is not to be served, or whose token is to become a cookie.
    pub(super) fn answer(&self, request: &Request) -> Option<Answer> {
        if let Some(given) = request.value("token") {
            return Some(match users::is_same(given, &self.token) {
                // The address with the token leaves the history and the bar of the browser.
                true => Answer::sentence(StatusCode::SEE_OTHER, "the token is a cookie now")
                    .with("location", address::without_token(request))
                    .with("set-cookie", cookie_header(&self.cookie, &self.token)),
                false => refusal(),
            });
        }
        let is_known = request.cookies(&self.cookie).any(|given| users::is_same(given, &self.token));
        (!is_known).then(refusal)
    }
}

/// Name of the cookie. Browsers send cookies to all ports of a machine, so each server needs a name of its own.
pub(super) fn cookie(address: SocketAddr) -> String {
    format!("windlass-{}", address.port())
}

/// The header that sets the cookie, which scripts cannot read and other sites cannot send.
pub(super) fn cookie_header(name: &str, value: &str) -> String {
    format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/")
}

/// The answer to a request whose `Host` is not a name of this machine; `None` if it is one.
pub(super) fn refused_name(request: &Request) -> Option<Answer> {
    if request.host.as_deref().is_some_and(is_loopback) {
        return None;
    }
    let refusal = "the name by which this server was called is not one of this machine: use 127.0.0.1 or localhost";
    Some(Answer::sentence(StatusCode::MISDIRECTED_REQUEST, refusal))
}

/// Whether a page of this server sent a form. Browsers state that in headers that no page can set; a client that states
/// nothing is refused.
pub(super) fn is_own_form(request: &Request) -> bool {
    let own = request.host.as_ref().map(|host| format!("http://{host}"));
    let of_origin = request.origin.as_ref().zip(own).map(|(origin, own)| origin.eq_ignore_ascii_case(&own));
    let of_site = request.fetch_site.as_deref().map(|site| site == "same-origin");
    [of_origin, of_site].contains(&Some(true)) && ![of_origin, of_site].contains(&Some(false))
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
