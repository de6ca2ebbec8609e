//! HTTP client for Ansible's modules, with credentials, redirects, proxies and timeouts.

use std::{
    cell::RefCell,
    thread,
    time::{Duration, Instant},
};

use ureq::{
    Agent, Body, Error, Proxy,
    config::Config,
    http,
    tls::{ClientCert, RootCerts, TlsConfig},
    unversioned::transport::{Connector, DefaultConnector},
};

use super::{
    certificates::{self, Trusted},
    credentials,
    exchange::{Patience, Payload, Request, Response},
    failure::{explain, is_refused},
    forward::Forwarding,
    host_names::HostNames,
    proxy::{self, Way},
};
use crate::{
    Args, Failure, Host,
    files::way,
    net::address::{Address, masked},
    process::reason,
};

/// Headers that another server gets after a redirect. Any other may be a token, such as `PRIVATE-TOKEN`.
const FOR_EVERYBODY: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-encoding",
    "content-language",
    "content-type",
    "if-modified-since",
    "if-none-match",
    "pragma",
    "range",
    "user-agent",
];

/// Maximum number of redirects, as in browsers.
const MAX_REDIRECTS: usize = 10;

/// Time for a local service to start listening.
const UNTIL_IT_LISTENS: Duration = Duration::from_secs(2);

/// Client with the options of a task.
pub(crate) struct Client {
    agent_name: String,
    timeout: Duration,
    /// Minimum rate of a body in bytes per second; `None` limits only the silence between two reads.
    slowest: Option<u64>,
    use_proxy: bool,
    /// Proxy and exempt servers, instead of the environment's settings.
    proxy: Option<(String, String)>,
    /// Name and port to connect to, regardless of the URL, whose name then only verifies the certificate.
    instead: Option<(String, u16)>,
    /// Route to the last server, with its open connections.
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

/// The route of requests to a server.
#[derive(Clone)]
struct Route {
    agent: Agent,
    /// Proxy, for messages.
    through: Option<String>,
    /// Credentials for a forwarding proxy.
    proxy_login: Option<String>,
}

/// Connection settings of an API, which has no URL options of its own.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub(crate) agent_name: String,
    pub(crate) timeout: Duration,
    /// User and password.
    pub(crate) credentials: Option<(String, String)>,
    /// Proxy and exempt servers, instead of the environment's settings.
    pub(crate) proxy: Option<(String, String)>,
    /// Name and port to connect to, if the URL's name only verifies the certificate.
    pub(crate) instead: Option<(String, u16)>,
    pub(crate) verify: bool,
    pub(crate) authorities: Trusted,
    /// Client certificate and key in PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Client {
    /// A client with the options in the arguments.
    pub(super) fn of(args: &Args, host: &Host) -> Result<Client, Failure> {
        if args.bool("use_gssapi") {
            return Err(Failure::new(
                "use_gssapi is not supported: log in by url_username and url_password or by client_cert.",
            ));
        }
        let verify = args.maybe_bool("validate_certs").unwrap_or(true);
        let credentials =
            args.str("url_username").map(|user| (user.to_owned(), args.str("url_password").unwrap_or("").to_owned()));
        Ok(Client {
            agent_name: args.str("http_agent").unwrap_or("ansible-httpget").to_owned(),
            timeout: args.seconds("timeout", 10).max(Duration::from_secs(1)),
            slowest: args.int("_slowest").and_then(|rate| u64::try_from(rate).ok()),
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
            slowest: None,
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

    /// The same client, bypassing caches.
    pub(super) fn without_cache(mut self) -> Client {
        self.no_cache = true;
        self
    }

    /// The same client, keeping compressed content as it is.
    pub(crate) fn without_decompression(mut self) -> Client {
        self.decompress = false;
        self
    }

    /// Sends a request and follows redirects. The error is a message without its final part.
    pub(crate) fn send(&self, request: &Request, host: &Host) -> Result<Response, String> {
        let mut address =
            Address::parse(&request.url).ok_or_else(|| format!("unknown url type: '{}'", masked(&request.url)))?;
        match address.scheme.as_str() {
            "file" => return Response::of_file(&address),
            "http" | "https" => {}
            scheme => return Err(format!("URLs of the kind {scheme} are not supported, only http, https and file")),
        }
        let mut request = request.clone();
        let login = address.credentials.clone().or_else(|| self.credentials.clone());
        let mut authorization = self.first_authorization(&login, &request, &address, host);
        let origin = (address.scheme.clone(), address.authority.clone());
        // Credentials never go to another server after a redirect, nor from https to http.
        let is_ours =
            |target: &Address| origin.1 == target.authority && (origin.0 == target.scheme || target.scheme == "https");
        for _ in 0..=MAX_REDIRECTS {
            let ours = is_ours(&address);
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
            let Some(next) = request.redirected(&response) else { return Ok(response) };
            let location = response.header("location").unwrap_or_default();
            let target = address.join(location).filter(|target| matches!(target.scheme.as_str(), "http" | "https"));
            let target = target.ok_or_else(|| format!("the redirect to '{location}' leads nowhere a client can go"))?;
            request.headers.retain(|(name, _)| {
                let name = name.to_ascii_lowercase();
                (is_ours(&target) || FOR_EVERYBODY.contains(&name.as_str())) && !self.unredirected.contains(&name)
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

    /// The `Authorization` header of the first request.
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
                    let file = way::open(path)
                        .map_err(|error| format!("{} could not be read: {}", path.display(), reason(&error)))?;
                    Ok(agent.run(http::Request::from_parts(parts.clone(), file)))
                }
            }
        };
        let mut answer = send()?;
        // A local service may not listen yet shortly after its start. Ansible is slow enough to hide that; here a
        // task may arrive earlier.
        let patience = Instant::now() + UNTIL_IT_LISTENS.min(self.timeout);
        while through.is_none() && address.is_loopback() && is_refused(&answer) && Instant::now() < patience {
            host.check_cancelled().map_err(|failure| failure.message)?;
            thread::sleep(Duration::from_millis(50));
            answer = send()?;
        }
        let answer = answer.map_err(|error| explain(error, address, through.as_deref(), self.timeout))?;
        let patience = Patience { silence: self.timeout, slowest: self.slowest };
        Ok(Response::of(answer, url, self.decompress, patience))
    }

    /// The route to a server. Requests to the same server as before reuse its connections.
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
        // A forwarding connection rewrites only its first request line, so it is not reused.
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
