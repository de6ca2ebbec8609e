//! Requests to an API server, and its answers.

use std::{cell::RefCell, collections::BTreeMap, io::Read};

use serde_json::Value;

use super::{access::Access, discovery::Resource, objects};
use crate::{
    Args, Failure, Host,
    http::{
        client::Client as Http,
        exchange::{Follow, Payload, Request},
        quoted,
    },
    process::reason,
};

/// Largest answer to read; no list of objects should exceed it.
const MAX_ANSWER: u64 = 512 << 20;

/// Client of one API server, used for a single task.
pub(super) struct Client {
    http: Http,
    url: String,
    headers: Vec<(String, String)>,
    /// Resources by API group, once queried.
    pub(super) known: RefCell<BTreeMap<String, Vec<Resource>>>,
}

/// Error of a request.
#[derive(Debug, Clone)]
pub(super) struct ApiError {
    /// HTTP status; 0 if the server was not reached.
    pub(super) status: u16,
    /// Reason phrase of the status.
    pub(super) reason: String,
    /// Body of the answer, or why the server was not reached.
    pub(super) body: String,
}

impl ApiError {
    pub(super) fn is_missing(&self) -> bool {
        self.status == 404
    }

    /// The server was not reached, or closed the connection early.
    pub(super) fn is_connection(&self) -> bool {
        self.status == 0
    }

    /// The message in the server's answer, or the whole body.
    pub(super) fn sentence(&self) -> String {
        let status: Option<Value> = serde_json::from_str(&self.body).ok();
        let message = status.as_ref().and_then(|status| status["message"].as_str()).filter(|text| !text.is_empty());
        message.map_or_else(|| self.body.trim().to_owned(), str::to_owned)
    }

    /// The failure of a task: the attempted operation and its error.
    pub(super) fn failure(&self, tried: &str) -> Failure {
        let failure = Failure::new(format!("{tried}: {}", self.body));
        if self.is_connection() { failure } else { failure.with("reason", self.reason.as_str()) }
    }
}

/// An answer, with the server's warnings.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) value: Value,
    pub(super) warnings: Vec<String>,
}

/// Encoding of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Merge,
    StrategicMerge,
    /// Server-side apply.
    Apply,
}

impl Format {
    fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Merge => "application/merge-patch+json",
            Format::StrategicMerge => "application/strategic-merge-patch+json",
            // JSON is valid YAML.
            Format::Apply => "application/apply-patch+yaml",
        }
    }
}

/// Selects objects of a kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) labels: Vec<String>,
    pub(super) fields: Vec<String>,
}

impl Selection {
    /// Selects the object that a definition describes.
    pub(super) fn of(definition: &Value) -> Selection {
        let text = |key: &str| definition["metadata"][key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Selection { name: text("name"), namespace: text("namespace"), ..Selection::default() }
    }

    pub(super) fn path(&self, resource: &Resource) -> String {
        resource.path(self.namespace.as_deref(), self.name.as_deref())
    }

    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let lists = [("labelSelector", &self.labels), ("fieldSelector", &self.fields)];
        lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(key, list)| (key, list.join(","))).collect()
    }
}

impl Client {
    /// Builds a client from the arguments, without a request.
    pub(super) fn of(args: &Args, host: &Host) -> Result<Client, Failure> {
        let access = Access::of(args, host)?;
        let mut headers = access.headers.clone();
        headers.push(("Accept".into(), "application/json".into()));
        if let Some(token) = &access.token {
            headers.push(("Authorization".into(), format!("Bearer {token}")));
        }
        let (http, url) = access.connect(host)?;
        Ok(Client { http, url, headers, known: RefCell::default() })
    }

    /// Sends a GET request.
    pub(super) fn get(&self, path: &str, query: &[(&str, String)], host: &Host) -> Result<Value, ApiError> {
        self.send("GET", path, query, None, host).map(|answer| answer.value)
    }

    /// Reads an object, or a list of matching objects.
    pub(super) fn read(&self, resource: &Resource, which: &Selection, host: &Host) -> Result<Value, ApiError> {
        let mut value = self.get(&which.path(resource), &which.query(), host)?;
        objects::name_items(&mut value);
        Ok(value)
    }

    /// Sends a request; an unsuccessful answer is an error.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, String)],
        body: Option<(Format, &Value)>,
        host: &Host,
    ) -> Result<Answer, ApiError> {
        let unreached = |body: String| ApiError { status: 0, reason: String::new(), body };
        let query: Vec<String> = query.iter().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let mut headers = self.headers.clone();
        if let Some((format, _)) = body {
            headers.push(("Content-Type".into(), format.content_type().into()));
        }
        let request = Request {
            method: method.to_owned(),
            url: format!("{}{path}{mark}{}", self.url, query.join("&")),
            headers,
            body: body.map(|(_, value)| Payload::Bytes(value.to_string().into_bytes())),
            follow: Follow::None,
        };
        let mut response = self.http.send(&request, host).map_err(|error| unreached(format!("{error}.")))?;
        let mut bytes = Vec::new();
        let read = (&mut response.body).take(MAX_ANSWER).read_to_end(&mut bytes);
        read.map_err(|error| unreached(format!("The answer of {} broke off: {}.", self.url, reason(&error))))?;
        if !(200..300).contains(&response.status) {
            // Splits `HTTP Error 409: Conflict`.
            let words = response.message.split_once(": ").map_or(response.message.as_str(), |(_, words)| words);
            let body = String::from_utf8_lossy(&bytes).into_owned();
            return Err(ApiError { status: response.status, reason: words.to_owned(), body });
        }
        let value = if bytes.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&bytes) };
        let value = value.map_err(|error| {
            unreached(format!("{} answers, but not as an API server of Kubernetes: {error}.", self.url))
        })?;
        let warnings = response.header("warning").map(objects::warnings).unwrap_or_default();
        Ok(Answer { value, warnings })
    }
}
