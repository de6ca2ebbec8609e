//! Pages over recorded runs, running ones and inventories, for a browser on this machine. With a configuration file,
//! its users sign in, and some of them start playbooks; without one, nothing can be changed.
//!
//! Texts from journals, inventories and hosts are hostile: they become HTML in one place only ([`crate::html`]), and
//! paths of a request choose among fixed pages and known names; none becomes the path of a file.

mod access;
mod address;
mod audit;
mod cluster;
mod config;
mod control;
mod fields;
pub(crate) mod given;
mod hosts;
mod index;
mod live;
mod runs;
mod sessions;
mod sign_in;
mod start;
mod starts;
mod trail;
mod users;
mod verify;
mod watch;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hyper::StatusCode;
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;

use self::access::Access;
pub use self::cluster::{Cluster, Reader};
use self::control::{Control, Visitor};
pub use self::control::{Ending, Setup};
use self::index::Index;
pub use self::index::Scope;
pub use self::users::{Line, Role, user_line};
use crate::error::Result;
use crate::html::{Design, Html, NAVIGATION};
use crate::http::server::{self, Answer, Request, Site};
use crate::journal::State;
use crate::output::Secrets;

/// Maximum number of running runs that are watched at the same time.
const STREAMS: usize = 16;

const STYLE: &str = concat!(include_str!("../report/report.css"), include_str!("pages/serve.css"));
const TEMPLATES: &[(&str, &str)] = &[
    NAVIGATION,
    ("base", include_str!("pages/base.html")),
    ("runs", include_str!("pages/runs.html")),
    ("live", include_str!("pages/live.html")),
    ("inventory", include_str!("pages/inventory.html")),
    ("host", include_str!("pages/host.html")),
    ("verify", include_str!("pages/verify.html")),
    ("message", include_str!("pages/message.html")),
    ("sign-in", include_str!("pages/sign-in.html")),
    ("sign-out", include_str!("pages/sign-out.html")),
    ("startables", include_str!("pages/startables.html")),
    ("start", include_str!("pages/start.html")),
    ("started", include_str!("pages/started.html")),
    ("cancel", include_str!("pages/cancel.html")),
    ("audit", include_str!("pages/audit.html")),
];
const STILL: Design = Design { templates: TEMPLATES, style: STYLE, script: "" };
const LIVE: Design = Design { templates: TEMPLATES, style: STYLE, script: include_str!("pages/live.js") };

/// Pages of the navigation.
const MAIN: [(&str, &str); 3] = [("/", "Runs"), ("/inventory", "Inventory"), ("/verify", "Verify")];

/// Who is let in.
enum Entry {
    /// Everybody with the token of this process, to read.
    Token(Access),
    /// Users of a configuration.
    Users(Box<Control>),
}

/// The pages and what they show.
pub struct Pages {
    entry: Entry,
    index: Index,
    clusters: Vec<Cluster>,
    secrets: Secrets,
    /// Permits to watch a run.
    streams: Arc<Semaphore>,
    /// Held while a journal is read as a whole.
    reading: Mutex<()>,
}

/// The pages for one request.
struct View<'a> {
    pages: &'a Pages,
    /// The user who has signed in; `None` without a configuration.
    visitor: Option<Visitor>,
}

impl Pages {
    /// Pages for a server at this address: with a configuration for its users, or else with a new token.
    pub fn new(
        address: SocketAddr,
        state: State,
        scope: Scope,
        clusters: Vec<Cluster>,
        setup: Option<Setup>,
    ) -> Result<Pages> {
        let entry = match setup {
            None => Entry::Token(Access::new(address)?),
            Some(setup) => Entry::Users(Box::new(Control::new(address, setup, &state, &clusters)?)),
        };
        Ok(Pages {
            entry,
            index: Index::new(state, scope),
            clusters,
            secrets: Secrets::of_process(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            reading: Mutex::default(),
        })
    }

    /// The token that a request needs; `None` if users sign in with their own.
    pub fn token(&self) -> Option<&str> {
        match &self.entry {
            Entry::Token(access) => Some(access.token()),
            Entry::Users(_) => None,
        }
    }

    /// Serves the pages until the future is dropped.
    pub async fn serve(self: Arc<Self>, listener: tokio::net::TcpListener) {
        match server::serve(listener, self, None).await {}
    }

    /// Records the end of the server. Returns the runs that go on without it.
    pub fn end(&self) -> Vec<Ending> {
        match &self.entry {
            Entry::Token(_) => Vec::new(),
            Entry::Users(control) => control.end(),
        }
    }

    fn control(&self) -> Option<&Control> {
        match &self.entry {
            Entry::Token(_) => None,
            Entry::Users(control) => Some(control),
        }
    }

    fn answered(&self, request: &Request) -> Result<Answer> {
        if let Some(refusal) = access::refused_name(request) {
            return Ok(refusal);
        }
        match &self.entry {
            Entry::Token(access) => match access.answer(request) {
                Some(answer) => Ok(answer),
                None => View { pages: self, visitor: None }.page(request),
            },
            Entry::Users(control) => match control.visitor(request) {
                Ok(visitor) => View { pages: self, visitor }.of_user(control, request),
                Err(refusal) => Ok(*refusal),
            },
        }
    }
}

impl View<'_> {
    fn page(&self, request: &Request) -> Result<Answer> {
        let html = match request.path.as_str() {
            "/" => self.list(request)?,
            "/inventory" => self.inventory(request)?,
            "/verify" => self.verify()?,
            "/host" => return self.host(request),
            path => match path.strip_prefix("/runs/") {
                Some(rest) => return self.of_run(rest),
                None => return self.missing(),
            },
        };
        Ok(self.html(StatusCode::OK, html))
    }

    /// A page about one run.
    fn of_run(&self, rest: &str) -> Result<Answer> {
        let (id, part) = rest.split_once('/').unwrap_or((rest, ""));
        let Some(run) = self.pages.index.find(id) else { return self.missing() };
        match part {
            "" => self.report(&run),
            "live" => self.live(&run),
            "events" => Ok(self.events(run)),
            _ => self.missing(),
        }
    }

    fn missing(&self) -> Result<Answer> {
        self.message(
            StatusCode::NOT_FOUND,
            "There is no such page. A run may have been removed, or belong to another directory.",
        )
    }

    /// A page with a sentence.
    fn message(&self, status: StatusCode, sentence: &str) -> Result<Answer> {
        let title = if status.is_success() { "Windlass" } else { status.canonical_reason().unwrap_or("Windlass") };
        Ok(self.html(status, self.render("message", "", json!({"title": title, "sentence": sentence}))?))
    }

    fn navigation(&self, current: &str) -> Vec<Json> {
        let link = |(href, label): &(&str, &str)| json!({"href": href, "label": label, "current": *href == current});
        let mut links: Vec<Json> = MAIN.iter().map(link).collect();
        if let Some(visitor) = &self.visitor {
            let further = [(Role::Operator, "/start", "Start"), (Role::Admin, "/audit", "Audit")];
            let own = further.iter().filter(|(role, ..)| visitor.user.role >= *role);
            links.extend(own.map(|(_, href, label)| link(&(*href, *label))));
            links.push(link(&("/sign-out", "Sign out")));
        } else if self.pages.control().is_some() {
            links.clear();
        }
        links
    }

    /// Policy about referrers. Browsers send the origin of a form only if the policy permits it.
    fn referrer(&self) -> &'static str {
        if self.pages.control().is_some() { "same-origin" } else { "no-referrer" }
    }

    /// Renders a template without a script. `current` is the page of the navigation.
    fn render(&self, template: &str, current: &str, mut page: Json) -> Result<Html> {
        page["navigation"] = self.navigation(current).into();
        page["referrer"] = self.referrer().into();
        STILL.render(template, page, &self.pages.secrets)
    }

    fn html(&self, status: StatusCode, html: Html) -> Answer {
        let policy = format!("{}; connect-src 'self'; form-action 'self'; frame-ancestors 'none'", html.policy);
        Answer::text(status, "text/html; charset=utf-8", html.text)
            .with("content-security-policy", policy)
            .with("referrer-policy", self.referrer())
    }
}

impl Site for Pages {
    fn answer(&self, request: &Request) -> Answer {
        self.answered(request).unwrap_or_else(|error| {
            let sentence = self.secrets.mask(&error.to_string());
            Answer::sentence(StatusCode::INTERNAL_SERVER_ERROR, &crate::output::printable(&sentence))
        })
    }

    fn takes_forms(&self) -> bool {
        self.control().is_some()
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("cache-control", "no-store"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
        ]
    }
}

/// Values of a list in a form, of which one is chosen.
fn choices<'a>(values: impl Iterator<Item = &'a str>, chosen: &str) -> Vec<Json> {
    values.map(|value| json!({"value": value, "chosen": value == chosen})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_parts_of_pages_cannot_end_their_elements() {
        for text in [STYLE, LIVE.script] {
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
    }
}
