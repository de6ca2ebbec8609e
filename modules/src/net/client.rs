//! An HTTP client as Ansible's modules need it: logins, redirects, proxies, timeouts.

use std::{
    cell::RefCell,
    fs::File,
    io::{self, Read},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use flate2::read::MultiGzDecoder;
use ureq::{
    Agent, Body, Error, Proxy,
    config::Config,
    http,
    tls::{ClientCert, RootCerts, TlsConfig},
    unversioned::transport::{Connector, DefaultConnector},
};

use super::{
    address::{Address, masked},
    certificates::{self, Trusted},
    credentials,
    forward::Forwarding,
    host_names::HostNames,
    proxy::{self, Way},
};
use crate::{Args, Failure, Host, process::reason};

/// As many redirects as browsers follow, too.
const MAX_REDIRECTS: usize = 10;

/// How long a service of this host may take until it listens.
const UNTIL_IT_LISTENS: Duration = Duration::from_secs(2);

/// A client with the options of a task.
pub(crate) struct Client {
    agent_name: String,
    timeout: Duration,
    use_proxy: bool,
    /// The proxy and the servers that need none, instead of the environment's.
    proxy: Option<(String, String)>,
    /// The name and port to connect to, whatever the URL says: its name is then only that of the server's certificate.
    instead: Option<(String, u16)>,
    /// The way to the server that was spoken with last, and the connections that are open to it.
    route: RefCell<Option<(String, Route)>>,
    credentials: Option<(String, String)>,
    force_basic_auth: bool,
    use_netrc: bool,
    no_cache: bool,
    decompress: bool,
    unredirected: Vec<String>,
    roots: RootCerts,
    client_cert: Option<ClientCert>,
    verify: bool,
}

/// How requests get to a server.
#[derive(Clone)]
struct Route {
    agent: Agent,
    /// The proxy, for messages.
    through: Option<String>,
    /// The login at a proxy that is no tunnel.
    proxy_login: Option<String>,
}

/// How a client is to reach a server that is no URL of a task's own: an API.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub(crate) agent_name: String,
    pub(crate) timeout: Duration,
    /// User and password.
    pub(crate) credentials: Option<(String, String)>,
    /// The proxy and the servers that need none, instead of the environment's.
    pub(crate) proxy: Option<(String, String)>,
    /// The name and port to connect to, if the URL's name is only that of the server's certificate.
    pub(crate) instead: Option<(String, u16)>,
    pub(crate) verify: bool,
    pub(crate) authorities: Trusted,
    /// The client's certificate and key, in PEM form.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// One request; its redirects belong to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Payload>,
    pub(crate) follow: Follow,
}

/// What is sent.
#[derive(Debug, Clone)]
pub(crate) enum Payload {
    /// Bytes at hand.
    Bytes(Vec<u8>),
    /// A file of the host.
    File(PathBuf),
}

/// Which redirects are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Follow {
    None,
    /// Those of requests that change nothing.
    Safe,
    All,
    /// Those that Python's urllib follows.
    #[default]
    Python,
}

/// An answer, of whatever status.
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The answer in words: `OK (12 bytes)`, `HTTP Error 404: Not Found`.
    pub(crate) message: String,
    /// Names are in lower case; what is there several times is joined.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) cookies: Vec<(String, String)>,
    /// The URL that answered in the end.
    pub(crate) url: String,
    pub(crate) body: Box<dyn Read>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    /// A client as the arguments say.
    pub(super) fn of(args: &Args, host: &Host) -> Result<Client, Failure> {
        if args.bool("use_gssapi") {
            return Err(Failure::new(
                "use_gssapi is not supported: log in by url_username and url_password or by client_cert.",
            ));
        }
        let seconds = args.int("timeout").unwrap_or(10).max(1);
        let verify = args.maybe_bool("validate_certs").unwrap_or(true);
        let credentials =
            args.str("url_username").map(|user| (user.to_owned(), args.str("url_password").unwrap_or("").to_owned()));
        Ok(Client {
            agent_name: args.str("http_agent").unwrap_or("ansible-httpget").to_owned(),
            timeout: Duration::from_secs(seconds.unsigned_abs()),
            use_proxy: args.maybe_bool("use_proxy").unwrap_or(true),
            proxy: None,
            instead: None,
            route: RefCell::default(),
            credentials,
            force_basic_auth: args.bool("force_basic_auth"),
            use_netrc: args.maybe_bool("use_netrc").unwrap_or(true),
            no_cache: args.bool("force"),
            decompress: args.maybe_bool("decompress").unwrap_or(true),
            unredirected: args.list("unredirected_headers").into_iter().map(str::to_ascii_lowercase).collect(),
            roots: if verify {
                certificates::authorities(args.str("ca_path"), host)?
            } else {
                RootCerts::from(Vec::new())
            },
            client_cert: certificates::client(args.str("client_cert"), args.str("client_key"))?,
            verify,
        })
    }

    /// A client of an API.
    pub(crate) fn of_service(service: Service, host: &Host) -> Result<Client, Failure> {
        Ok(Client {
            agent_name: service.agent_name,
            timeout: service.timeout,
            use_proxy: true,
            proxy: service.proxy,
            instead: service.instead,
            route: RefCell::default(),
            force_basic_auth: service.credentials.is_some(),
            credentials: service.credentials,
            use_netrc: false,
            no_cache: false,
            decompress: true,
            unredirected: Vec::new(),
            roots: if service.verify { service.authorities.roots(host)? } else { RootCerts::from(Vec::new()) },
            client_cert: match service.identity {
                Some((certificate, key)) => Some(certificates::identity(&certificate, &key)?),
                None => None,
            },
            verify: service.verify,
        })
    }

    /// The same client, which lets nobody answer from a cache.
    pub(super) fn without_cache(mut self) -> Client {
        self.no_cache = true;
        self
    }

    /// Sends a request and follows where it leads. The error is a sentence without its end.
    pub(crate) fn send(&self, request: &Request, host: &Host) -> Result<Response, String> {
        let mut address =
            Address::parse(&request.url).ok_or_else(|| format!("unknown url type: '{}'", masked(&request.url)))?;
        match address.scheme.as_str() {
            "file" => return local_file(&address),
            "http" | "https" => {}
            scheme => return Err(format!("URLs of the kind {scheme} are not supported, only http, https and file")),
        }
        let mut request = request.clone();
        let login = address.credentials.clone().or_else(|| self.credentials.clone());
        let mut authorization = self.first_authorization(&login, &request, &address, host);
        let origin = (address.scheme.clone(), address.authority.clone());
        for _ in 0..=MAX_REDIRECTS {
            let ours = origin.1 == address.authority && (origin.0 == address.scheme || address.scheme == "https");
            let mut response = self.once(&request, &address, authorization.as_deref().filter(|_| ours), host)?;
            let asked =
                response.header("www-authenticate").is_some_and(|value| value.to_ascii_lowercase().contains("basic"));
            if let Some((user, password)) = &login
                && response.status == 401
                && asked
                && authorization.is_none()
                && ours
            {
                authorization = Some(credentials::basic(user, password));
                response = self.once(&request, &address, authorization.as_deref(), host)?;
            }
            let Some(next) = redirect(&request, &response) else { return Ok(response) };
            let location = response.header("location").unwrap_or_default();
            let target = address.join(location).filter(|target| matches!(target.scheme.as_str(), "http" | "https"));
            let target = target.ok_or_else(|| format!("the redirect to '{location}' leads nowhere a client can go"))?;
            request.headers.retain(|(name, _)| {
                let name = name.to_ascii_lowercase();
                let secret = matches!(name.as_str(), "authorization" | "cookie" | "proxy-authorization");
                let stays = target.authority == origin.1 || !secret;
                stays && !self.unredirected.contains(&name)
            });
            if request.method != next {
                request.method = next;
                request.body = None;
                request.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
            }
            address = target;
        }
        Err(format!("{} redirects without an end", masked(&request.url)))
    }

    /// What is sent without being asked for.
    fn first_authorization(
        &self,
        login: &Option<(String, String)>,
        request: &Request,
        address: &Address,
        host: &Host,
    ) -> Option<String> {
        let given = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        match login {
            Some((user, password)) if self.force_basic_auth => Some(credentials::basic(user, password)),
            None if self.use_netrc && !given => credentials::from_netrc(address.host(), host)
                .map(|(user, password)| credentials::basic(&user, &password)),
            _ => None,
        }
    }

    fn once(
        &self,
        request: &Request,
        address: &Address,
        authorization: Option<&str>,
        host: &Host,
    ) -> Result<Response, String> {
        host.check_cancelled().map_err(|failure| failure.message)?;
        let url = address.url();
        let unsendable = |error: http::Error| format!("The request for {url} cannot be sent: {error}");
        let Route { agent, through, proxy_login } = self.route_to(address, host)?;
        let mut builder = http::Request::builder().method(request.method.as_str()).uri(url.as_str());
        if let Some(login) = &proxy_login {
            builder = builder.header("Proxy-Authorization", login);
        }
        let mut defaults = vec![("User-Agent", self.agent_name.as_str()), ("Accept-Encoding", "identity")];
        if self.no_cache {
            defaults.push(("Cache-Control", "no-cache"));
        }
        if let Some(authorization) = authorization {
            defaults.push(("Authorization", authorization));
        }
        for (name, value) in defaults {
            if !request.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
                builder = builder.header(name, value);
            }
        }
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        let (parts, ()) = builder.body(()).map_err(unsendable)?.into_parts();
        let send = || -> Result<Result<http::Response<Body>, Error>, String> {
            match &request.body {
                None => Ok(agent.run(http::Request::from_parts(parts.clone(), ()))),
                Some(Payload::Bytes(bytes)) => Ok(agent.run(http::Request::from_parts(parts.clone(), bytes))),
                Some(Payload::File(path)) => {
                    let file = File::open(path)
                        .map_err(|error| format!("{} could not be read: {}", path.display(), reason(&error)))?;
                    Ok(agent.run(http::Request::from_parts(parts.clone(), file)))
                }
            }
        };
        let mut answer = send()?;
        // A service of this host that was started a moment ago may not listen yet. Ansible takes long enough for a task that
        // nobody notices; here a playbook may ask before the service can answer.
        let patience = Instant::now() + UNTIL_IT_LISTENS.min(self.timeout);
        while through.is_none() && address.is_loopback() && refused(&answer) && Instant::now() < patience {
            host.check_cancelled().map_err(|failure| failure.message)?;
            thread::sleep(Duration::from_millis(50));
            answer = send()?;
        }
        let answer = answer.map_err(|error| explain(error, address, through.as_deref(), self.timeout))?;
        Ok(response(answer, url, self.decompress, self.timeout))
    }

    /// The way to a server; requests to the one of the last time use the connections that are open.
    fn route_to(&self, address: &Address, host: &Host) -> Result<Route, String> {
        let origin = format!("{}://{}", address.scheme, address.authority);
        if let Some((_, route)) = self.route.borrow().as_ref().filter(|(known, _)| *known == origin) {
            return Ok(route.clone());
        }
        let way = match &self.proxy {
            Some((proxy, exempt)) => proxy::way_by(proxy, exempt, address)?,
            None if self.use_proxy => proxy::way_to(address, host)?,
            None => Way::Direct,
        };
        let through = way.proxy();
        let (mut tunnel, mut proxy_login) = (None, None);
        let (mut names, mut forwarding) = (HostNames { instead: self.instead.clone() }, Forwarding { server: None });
        match way {
            Way::Direct => {}
            Way::Tunnel(proxy) => tunnel = Some(proxy),
            Way::Forward(proxy) => {
                names.instead = Some((proxy.host().to_owned(), proxy.port()));
                forwarding.server = Some(origin.clone());
                proxy_login = proxy.credentials.map(|(user, password)| credentials::basic(&user, &password));
            }
        }
        // Only the first line of a connection is made for a proxy.
        let idle = if forwarding.server.is_some() { 0 } else { 2 };
        let connector = DefaultConnector::default().chain(forwarding);
        let agent = Agent::with_parts(self.configuration(tunnel, idle), connector, names);
        let route = Route { agent, through, proxy_login };
        *self.route.borrow_mut() = Some((origin, route.clone()));
        Ok(route)
    }

    fn configuration(&self, proxy: Option<Proxy>, idle: usize) -> Config {
        let tls = TlsConfig::builder()
            .root_certs(self.roots.clone())
            .client_cert(self.client_cert.clone())
            .disable_verification(!self.verify)
            .build();
        Agent::config_builder()
            .tls_config(tls)
            .proxy(proxy)
            .max_idle_connections(idle)
            .max_idle_connections_per_host(idle)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_resolve(Some(self.timeout))
            .timeout_connect(Some(self.timeout))
            .timeout_recv_response(Some(self.timeout))
            .timeout_per_read(Some(self.timeout))
            .timeout_per_write(Some(self.timeout))
            .build()
    }
}

fn response(answer: http::Response<Body>, url: String, decompress: bool, timeout: Duration) -> Response {
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut cookies = Vec::new();
    for (name, value) in answer.headers() {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        if name == http::header::SET_COOKIE
            && let Some((name, value)) = value.split(';').next().and_then(|pair| pair.split_once('='))
        {
            cookies.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        match headers.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, joined)) => {
                joined.push_str(", ");
                joined.push_str(&value);
            }
            None => headers.push((name.as_str().to_owned(), value)),
        }
    }
    let status = answer.status();
    let find = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let message = if status.is_success() {
        format!("OK ({} bytes)", find("content-length").unwrap_or("unknown"))
    } else {
        format!("HTTP Error {}: {}", status.as_u16(), status.canonical_reason().unwrap_or("Unknown"))
    };
    let packed = decompress && find("content-encoding").is_some_and(|encoding| encoding.eq_ignore_ascii_case("gzip"));
    let body = Patient { body: answer.into_body().into_reader(), timeout };
    let body: Box<dyn Read> = if packed { Box::new(MultiGzDecoder::new(body)) } else { Box::new(body) };
    Response { status: status.as_u16(), message, headers, cookies, url, body }
}

/// A body whose errors say what happened.
struct Patient<R> {
    body: R,
    timeout: Duration,
}

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.body.read(buffer).map_err(|error| {
            let silent = error.kind() == io::ErrorKind::TimedOut
                || error.get_ref().is_some_and(|inner| matches!(inner.downcast_ref(), Some(Error::Timeout(_))));
            if silent {
                let text = format!("the server was silent for {} seconds", self.timeout.as_secs());
                return io::Error::new(io::ErrorKind::TimedOut, text);
            }
            if error.kind() == io::ErrorKind::UnexpectedEof {
                return io::Error::new(error.kind(), "the server broke the connection off before it had sent all");
            }
            error
        })
    }
}

/// The method of the request that follows a redirect, if it is followed.
fn redirect(request: &Request, response: &Response) -> Option<String> {
    let method = request.method.as_str();
    response.header("location")?;
    let reading = matches!(method, "GET" | "HEAD");
    let followed = match (request.follow, response.status) {
        (Follow::None, _) => false,
        (Follow::Safe, 301 | 302 | 303 | 307 | 308) => reading,
        (Follow::Python, 301..=303) => reading || method == "POST",
        (Follow::Python, 307 | 308) => reading,
        (Follow::All, 301 | 302 | 303 | 307 | 308) => true,
        _ => false,
    };
    let becomes_get = match (request.follow, response.status) {
        (Follow::Python, _) => method != "HEAD",
        (_, 302 | 303) => method != "HEAD",
        (_, 301) => method == "POST",
        _ => false,
    };
    followed.then(|| if becomes_get { "GET".to_owned() } else { method.to_owned() })
}

fn local_file(address: &Address) -> Result<Response, String> {
    let path = address.file_path();
    let unreadable = |error: io::Error| format!("{path} could not be read: {}", reason(&error));
    let file = File::open(&path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    if found.is_dir() {
        return Err(format!("{path} is a directory"));
    }
    let size = found.len().to_string();
    Ok(Response {
        status: 200,
        message: format!("OK ({size} bytes)"),
        headers: vec![("content-length".into(), size)],
        cookies: Vec::new(),
        url: address.url(),
        body: Box::new(file),
    })
}

/// Whether nobody listened.
fn refused<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Io(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// What went wrong, and with whom.
fn explain(error: Error, address: &Address, proxy: Option<&str>, timeout: Duration) -> String {
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
            // The handshake's errors come this way too.
            text if text.contains("certificate") => untrusted(server, &text),
            _ => format!("Request failed: the connection to {server} failed: {}", reason(&error)),
        },
        Error::Rustls(error) => untrusted(server, &error.to_string()),
        Error::ConnectProxyFailed(said) => format!("Request failed: the proxy refused to connect to {server}: {said}"),
        error => format!("Request failed: {server}: {error}"),
    }
}

/// Why a server's certificate is not good enough, and what to do.
fn untrusted(server: &str, error: &str) -> String {
    let known = [
        ("UnknownIssuer", "nobody whom the host trusts has issued it; install the authority that did on the host"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(follow: Follow, method: &str, status: u16) -> Option<String> {
        let request = Request { method: method.into(), follow, ..Request::default() };
        let headers = vec![("location".into(), "/".into())];
        let body = Box::new(io::empty());
        redirect(
            &request,
            &Response { status, message: String::new(), headers, cookies: Vec::new(), url: String::new(), body },
        )
    }

    #[test]
    fn redirects_that_are_followed() {
        assert_eq!(followed(Follow::Python, "GET", 302).as_deref(), Some("GET"));
        assert_eq!(followed(Follow::Python, "POST", 302).as_deref(), Some("GET"));
        assert_eq!(followed(Follow::Python, "PUT", 302), None);
        assert_eq!(followed(Follow::Python, "POST", 307), None);
        assert_eq!(followed(Follow::Safe, "POST", 302), None);
        assert_eq!(followed(Follow::Safe, "HEAD", 302).as_deref(), Some("HEAD"));
        assert_eq!(followed(Follow::All, "PUT", 307).as_deref(), Some("PUT"));
        assert_eq!(followed(Follow::All, "PUT", 301).as_deref(), Some("PUT"));
        assert_eq!(followed(Follow::All, "POST", 301).as_deref(), Some("GET"));
        assert_eq!(followed(Follow::None, "GET", 301), None);
        assert_eq!(followed(Follow::All, "GET", 404), None);
    }
}
