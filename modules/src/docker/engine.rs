//! Client of the Docker Engine API.

use std::{
    fmt,
    io::{BufRead, BufReader, Read},
    time::Duration,
};

use serde_json::Value;
use ureq::{
    Agent, Body,
    config::Config,
    http,
    tls::{RootCerts, TlsConfig},
    unversioned::transport::DefaultConnector,
};

use super::{
    address::{Address, Tls},
    socket::{NoNames, SocketConnector},
};
use crate::{
    Args, Failure, Host,
    http::{certificates, host_names::HostNames},
    process::reason,
};

/// Oldest supported API version.
const OLDEST: Version = Version(1, 25);
/// Oldest API version that is queried at all.
const KNOWN: Version = Version(1, 21);
/// Path that needs no API version.
const ASKING: &str = "/version";
/// Largest answer to read; descriptions in this API are smaller.
const LARGEST: u64 = 256 << 20;

/// API version, such as 1.43.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32);

impl Version {
    fn parse(text: &str) -> Option<Version> {
        let (major, minor) = text.trim().trim_start_matches('v').split_once('.')?;
        Some(Version(major.parse().ok()?, minor.parse().ok()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Error of a request.
#[derive(Debug)]
pub(super) enum ApiError {
    /// The engine refused the request: status, reason, explanation and URL.
    Refused { status: u16, reason: String, explanation: String, url: String },
    /// No answer, or an unreadable one.
    Broken(String),
}

impl ApiError {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, ApiError::Refused { status: 404, .. })
    }

    /// The engine's own explanation.
    pub(super) fn explanation(&self) -> &str {
        match self {
            ApiError::Refused { explanation, .. } => explanation,
            ApiError::Broken(text) => text,
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiError::Refused { status, reason, explanation, url } => {
                let side = if *status < 500 { "Client" } else { "Server" };
                write!(f, "{status} {side} Error for {url}: {reason}")?;
                if explanation.is_empty() { Ok(()) } else { write!(f, " (\"{explanation}\")") }
            }
            ApiError::Broken(text) => f.write_str(text),
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Failure {
        Failure::new(match error {
            ApiError::Refused { .. } => format!("An unexpected Docker error occurred: {error}"),
            ApiError::Broken(text) => format!("The Docker engine did not answer: {text}"),
        })
    }
}

/// Body of a request.
pub(super) enum Payload<'a> {
    Nothing,
    Json(&'a Value),
    /// Data from a reader, with its content type.
    Stream(&'a mut dyn Read, &'static str),
}

/// Time limit for an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Patience {
    /// The task's `timeout`.
    Usual,
    /// This much longer than the task's `timeout`.
    Longer(Duration),
    /// No limit.
    Endless,
}

pub(super) struct Request<'a> {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) payload: Payload<'a>,
    pub(super) patience: Patience,
}

impl<'a> Request<'a> {
    pub(super) fn get(path: impl Into<String>) -> Request<'a> {
        Request::of("GET", path)
    }

    pub(super) fn post(path: impl Into<String>) -> Request<'a> {
        Request::of("POST", path)
    }

    pub(super) fn delete(path: impl Into<String>) -> Request<'a> {
        Request::of("DELETE", path)
    }

    fn of(method: &'static str, path: impl Into<String>) -> Request<'a> {
        Request {
            method,
            path: path.into(),
            query: Vec::new(),
            headers: Vec::new(),
            payload: Payload::Nothing,
            patience: Patience::Usual,
        }
    }

    pub(super) fn query(mut self, name: &'static str, value: impl ToString) -> Request<'a> {
        self.query.push((name, value.to_string()));
        self
    }

    /// Adds a boolean parameter in the SDK's notation, which appears in failure messages.
    pub(super) fn switch(self, name: &'static str, on: bool) -> Request<'a> {
        self.query(name, if on { "True" } else { "False" })
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Request<'a> {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn json(mut self, body: &'a Value) -> Request<'a> {
        self.payload = Payload::Json(body);
        self
    }

    pub(super) fn stream(mut self, body: &'a mut dyn Read, kind: &'static str) -> Request<'a> {
        self.payload = Payload::Stream(body, kind);
        self
    }

    pub(super) fn patience(mut self, patience: Patience) -> Request<'a> {
        self.patience = patience;
        self
    }
}

/// Connection to an engine.
pub(super) struct Engine {
    agent: Agent,
    /// URL before `/v1.43`.
    server: String,
    shown: String,
    version: Version,
    timeout: Duration,
}

impl Engine {
    /// Connects to the engine that the task names, and negotiates the API version.
    pub(super) fn connect(args: &Args, host: &Host) -> Result<Engine, Failure> {
        let address = Address::of(args, host)?;
        let usual = host.variable("DOCKER_TIMEOUT").and_then(|text| text.trim().parse().ok());
        let timeout = args.seconds("timeout", usual.unwrap_or(60)).max(Duration::from_secs(1));
        let shown = address.shown();
        let (agent, server) = match address {
            Address::Socket(path) => {
                let agent = Agent::with_parts(configuration(None, timeout), SocketConnector { path }, NoNames);
                (agent, "http://localhost".to_owned())
            }
            Address::Network { host: name, port, path, tls } => {
                let options = Tls::of(args, host);
                let config = configuration(tls.then(|| security(&options, host)).transpose()?, timeout);
                let scheme = if tls { "https" } else { "http" };
                // The certificate is checked against the name in the URL, so `tls_hostname` goes into the URL, with the
                // address beside it.
                let other = options.name.filter(|_| tls);
                let shown_name = other.as_deref().unwrap_or(&name);
                let server = format!("{scheme}://{shown_name}:{port}{path}");
                let names = HostNames { instead: other.is_some().then(|| (name.clone(), port)) };
                (Agent::with_parts(config, DefaultConnector::default(), names), server)
            }
        };
        let mut engine = Engine { agent, server, shown, version: OLDEST, timeout };
        engine.version = engine.negotiate(args, host)?;
        if engine.version < KNOWN {
            return Err(Failure::new(format!(
                "Error connecting: API versions below {KNOWN} are no longer supported by this library."
            )));
        }
        if engine.version < OLDEST {
            return Err(Failure::new(format!(
                "Docker API version is {}. Minimum version required is {OLDEST}.",
                engine.version
            )));
        }
        Ok(engine)
    }

    fn negotiate(&self, args: &Args, host: &Host) -> Result<Version, Failure> {
        let wanted = args.str("api_version").map(str::to_owned).or_else(|| host.variable("DOCKER_API_VERSION"));
        if let Some(wanted) = wanted.filter(|wanted| !wanted.eq_ignore_ascii_case("auto")) {
            return Version::parse(&wanted).ok_or_else(|| {
                Failure::new(format!(
                    "api_version {wanted} is not a version of Docker's API: write it like 1.43, or auto."
                ))
            });
        }
        let connecting = |error: ApiError| {
            Failure::new(format!("Error connecting: Error while fetching server API version: {error}"))
        };
        let answer = self.send_to(format!("{}{ASKING}", self.server), Request::get(ASKING)).map_err(connecting)?;
        let description: Value = read_json(answer).map_err(connecting)?;
        description["ApiVersion"].as_str().and_then(Version::parse).ok_or_else(|| {
            Failure::new("Error connecting: the server does not say which version of Docker's API it speaks. Is it a Docker engine?")
        })
    }

    /// Negotiated API version.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Sends a request and parses the answer as JSON; null if it is empty.
    pub(super) fn call(&self, request: Request<'_>) -> Result<Value, ApiError> {
        read_json(self.send(request)?)
    }

    /// Sends a request and returns the body of the answer.
    pub(super) fn open(&self, request: Request<'_>) -> Result<impl Read + use<>, ApiError> {
        Ok(self.send(request)?.into_body().into_with_config().limit(u64::MAX).reader())
    }

    /// Sends a request whose answer is a stream of progress messages.
    pub(super) fn progress(&self, request: Request<'_>) -> Result<Progress, ApiError> {
        let reader: Box<dyn Read> = Box::new(self.open(request)?);
        Ok(Progress { lines: BufReader::new(reader) })
    }

    fn send(&self, request: Request<'_>) -> Result<http::Response<Body>, ApiError> {
        self.send_to(format!("{}/v{}{}", self.server, self.version, request.path), request)
    }

    fn send_to(&self, url: String, request: Request<'_>) -> Result<http::Response<Body>, ApiError> {
        let broken = |error: ureq::Error| ApiError::Broken(self.explain(error));
        let mut full = url;
        for (index, (name, value)) in request.query.iter().enumerate() {
            full.push(if index == 0 { '?' } else { '&' });
            full.push_str(&format!("{name}={}", encoded(value)));
        }
        let mut builder = http::Request::builder().method(request.method).uri(&full);
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        let invalid = |error: http::Error| ApiError::Broken(format!("the request cannot be sent: {error}"));
        let patience = match request.patience {
            Patience::Usual => Some(self.timeout),
            Patience::Longer(more) => Some(self.timeout + more),
            Patience::Endless => None,
        };
        let answer = match request.payload {
            Payload::Nothing if request.method == "POST" => {
                let sent = builder.header("Content-Length", "0").body(&[][..]).map_err(invalid)?;
                self.agent.run(self.agent.configure_request(sent).timeout_recv_response(patience).build())
            }
            Payload::Nothing => {
                let sent = builder.body(()).map_err(invalid)?;
                self.agent.run(self.agent.configure_request(sent).timeout_recv_response(patience).build())
            }
            Payload::Json(body) => {
                let text = body.to_string();
                let sent = builder.header("Content-Type", "application/json").body(text.as_bytes()).map_err(invalid)?;
                self.agent.run(self.agent.configure_request(sent).timeout_recv_response(patience).build())
            }
            Payload::Stream(reader, kind) => {
                let body = ureq::SendBody::from_reader(reader);
                let sent = builder.header("Content-Type", kind).body(body).map_err(invalid)?;
                self.agent.run(self.agent.configure_request(sent).timeout_recv_response(patience).build())
            }
        }
        .map_err(broken)?;
        let status = answer.status();
        if !status.is_client_error() && !status.is_server_error() {
            return Ok(answer);
        }
        let shown = full.strip_prefix(&self.server).unwrap_or(&full);
        let url = format!("{}{}", self.shown, shown);
        let mut text = String::new();
        // A truncated error message is still useful.
        let _ = answer.into_body().into_reader().take(1 << 20).read_to_string(&mut text);
        let said =
            serde_json::from_str::<Value>(&text).ok().and_then(|said| Some(said["message"].as_str()?.to_owned()));
        Err(ApiError::Refused {
            status: status.as_u16(),
            reason: status.canonical_reason().unwrap_or_default().to_owned(),
            explanation: said.unwrap_or_else(|| text.trim().to_owned()),
            url,
        })
    }

    fn explain(&self, error: ureq::Error) -> String {
        let server = &self.shown;
        match error {
            ureq::Error::Timeout(_) => {
                format!("{server} did not answer within {} seconds", self.timeout.as_secs())
            }
            ureq::Error::HostNotFound => format!("the host name in {server} cannot be resolved"),
            ureq::Error::Io(error) => format!("the connection to {server} failed: {}", reason(&error)),
            error => format!("the connection to {server} failed: {error}"),
        }
    }
}

fn configuration(tls: Option<TlsConfig>, timeout: Duration) -> Config {
    let builder = Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .user_agent("windlass")
        .timeout_resolve(Some(timeout))
        .timeout_connect(Some(timeout));
    match tls {
        Some(tls) => builder.tls_config(tls).build(),
        None => builder.build(),
    }
}

fn security(options: &Tls, host: &Host) -> Result<TlsConfig, Failure> {
    let authorities = options.authorities.as_deref().filter(|path| std::path::Path::new(path).exists());
    let roots =
        if options.verify { certificates::authorities(authorities, host)? } else { RootCerts::from(Vec::new()) };
    let certificate = match (&options.certificate, &options.key) {
        (Some(certificate), Some(key)) if std::path::Path::new(certificate).exists() => {
            certificates::client(Some(certificate), Some(key))?
        }
        _ => None,
    };
    Ok(TlsConfig::builder().root_certs(roots).client_cert(certificate).disable_verification(!options.verify).build())
}

fn read_json(answer: http::Response<Body>) -> Result<Value, ApiError> {
    let mut text = Vec::new();
    let read = answer.into_body().into_with_config().limit(LARGEST).reader().read_to_end(&mut text);
    read.map_err(|error| ApiError::Broken(format!("the answer broke off: {}", reason(&error))))?;
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&text).map_err(|error| ApiError::Broken(format!("the answer is not valid JSON: {error}")))
}

/// Progress messages of a long operation, one JSON object after another.
pub(super) struct Progress {
    lines: BufReader<Box<dyn Read>>,
}

impl Iterator for Progress {
    type Item = Result<Value, ApiError>;

    fn next(&mut self) -> Option<Self::Item> {
        let broken = |text: String| Some(Err(ApiError::Broken(text)));
        loop {
            let mut line = Vec::new();
            match self.lines.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) if line.iter().all(u8::is_ascii_whitespace) => {}
                Ok(_) => match serde_json::from_slice(&line) {
                    Ok(message) => return Some(Ok(message)),
                    Err(error) => return broken(format!("a progress message is not valid JSON: {error}")),
                },
                Err(error) => return broken(format!("the answer broke off: {}", reason(&error))),
            }
        }
    }
}

/// Percent-encodes a query value or path segment.
pub(super) fn encoded(text: &str) -> String {
    let mut result = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => result.push(byte.into()),
            _ => result.push_str(&format!("%{byte:02X}")),
        }
    }
    result
}

/// Percent-encodes a name in a path. The slashes of an image name stay, as the engine expects.
pub(super) fn in_path(text: &str) -> String {
    text.split('/').map(encoded).collect::<Vec<_>>().join("/").replace("%3A", ":").replace("%40", "@")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_compared_as_numbers() {
        assert!(Version::parse("1.9") < Version::parse("1.43"));
        assert_eq!(Version::parse("1.43"), Some(Version(1, 43)));
        assert_eq!(Version::parse("newest"), None);
    }

    #[test]
    fn names_encoded_for_urls() {
        assert_eq!(encoded("{\"a b\":1}"), "%7B%22a%20b%22%3A1%7D");
        assert_eq!(in_path("127.0.0.1:5000/app:1 ?"), "127.0.0.1:5000/app:1%20%3F");
    }
}
