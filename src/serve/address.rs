//! Addresses of pages. Names in them are encoded, so they are safe wherever an address may stand.

use crate::http::server::{Request, encoded};

/// The report of a run.
pub(super) fn run(id: &str) -> String {
    format!("/runs/{}", encoded(id))
}

/// The view of a run while it lasts.
pub(super) fn live(id: &str) -> String {
    format!("/runs/{}/live", encoded(id))
}

/// The changes of a run while it lasts.
pub(super) fn events(id: &str) -> String {
    format!("/runs/{}/events", encoded(id))
}

/// The page of a host.
pub(super) fn host(name: &str) -> String {
    format!("/host?name={}", encoded(name))
}

/// The runs of a host.
pub(super) fn runs_of(name: &str) -> String {
    format!("/?host={}", encoded(name))
}

/// The form that starts a playbook.
pub(super) fn start(name: &str) -> String {
    format!("/start?playbook={}", encoded(name))
}

/// A start, which leads to its run.
pub(super) fn started(id: &str) -> String {
    format!("/started/{}", encoded(id))
}

/// The address of a request without its token. It always leads to this server, whatever the request is.
pub(super) fn without_token(request: &Request) -> String {
    let path: Vec<String> = request.path.trim_start_matches('/').split('/').map(encoded).collect();
    let values = request.query.iter().filter(|(name, _)| name != "token");
    let query: Vec<String> = values.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("/{}{mark}{}", path.join("/"), query.join("&"))
}
