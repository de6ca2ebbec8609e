//! Address of the API server and credentials: the options common to all modules of the collection.

use std::{path::Path, time::Duration};

use serde_json::Value;

use super::kubeconfig;
use crate::{
    Args, Failure, Host, Kind, Opt,
    files::way,
    http::{
        certificates::Trusted,
        client::{Client as Http, Service},
    },
    net::address::Address,
    process::reason,
};

/// Folder with a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Longest silence of the server before a request fails.
const SILENCE: Duration = Duration::from_secs(60);

/// Options that select the cluster; each has a `K8S_AUTH_*` variable too.
pub(super) const OPTIONS: [Opt; 16] = [
    Opt::new(
        "kubeconfig",
        Kind::Raw,
        "Kubeconfig: a path on the host (several separated by `:`), or its content as a mapping. Default: \
         `K8S_AUTH_KUBECONFIG`, the service account in a pod, `KUBECONFIG` or `~/.kube/config`.",
    )
    .secret_unless_path(),
    Opt::new("context", Kind::Str, "Context of the kubeconfig. Default: its current context."),
    Opt::new("host", Kind::Str, "URL of the API server; overrides the kubeconfig."),
    Opt::new("api_key", Kind::Str, "Bearer token for authentication.").secret(),
    Opt::new("username", Kind::Str, "User name for basic authentication, for a proxy in front of the API server."),
    Opt::new("password", Kind::Str, "Password for `username`.").secret(),
    Opt::new("validate_certs", Kind::Bool, "Verify the server's certificate.").aliases(&["verify_ssl"]),
    Opt::new("ca_cert", Kind::Path, "File with the CA certificates that may have issued the server's certificate.")
        .aliases(&["ssl_ca_cert"]),
    Opt::new("client_cert", Kind::Path, "Client certificate in PEM format for authentication.").aliases(&["cert_file"]),
    Opt::new("client_key", Kind::Path, "Private key of the client certificate.").aliases(&["key_file"]),
    Opt::new("proxy", Kind::Str, "URL of an HTTP proxy."),
    Opt::new("no_proxy", Kind::Str, "Servers to reach without the proxy: names, domains, addresses, networks."),
    Opt::new("proxy_headers", Kind::Dict, "Headers to send to the proxy.").options(&[
        Opt::new("proxy_basic_auth", Kind::Str, "`user:password` for basic authentication at the proxy.").secret(),
        Opt::new("basic_auth", Kind::Str, "No effect; accepted for compatibility.").secret(),
        Opt::new("user_agent", Kind::Str, "No effect; accepted for compatibility."),
    ]),
    Opt::new("persist_config", Kind::Bool, "No effect, because no kubeconfig is written; accepted for compatibility."),
    Opt::new("impersonate_user", Kind::Str, "User to impersonate."),
    Opt::new("impersonate_groups", Kind::List(&Kind::Str), "Groups to impersonate."),
];

/// Options of a module, followed by the options that select the cluster.
macro_rules! with_cluster {
    ($($option:expr),* $(,)?) => {
        &[
            $($option,)*
            $crate::kubernetes::core::access::OPTIONS[0],
            $crate::kubernetes::core::access::OPTIONS[1],
            $crate::kubernetes::core::access::OPTIONS[2],
            $crate::kubernetes::core::access::OPTIONS[3],
            $crate::kubernetes::core::access::OPTIONS[4],
            $crate::kubernetes::core::access::OPTIONS[5],
            $crate::kubernetes::core::access::OPTIONS[6],
            $crate::kubernetes::core::access::OPTIONS[7],
            $crate::kubernetes::core::access::OPTIONS[8],
            $crate::kubernetes::core::access::OPTIONS[9],
            $crate::kubernetes::core::access::OPTIONS[10],
            $crate::kubernetes::core::access::OPTIONS[11],
            $crate::kubernetes::core::access::OPTIONS[12],
            $crate::kubernetes::core::access::OPTIONS[13],
            $crate::kubernetes::core::access::OPTIONS[14],
            $crate::kubernetes::core::access::OPTIONS[15],
        ]
    };
}
pub(super) use with_cluster;

/// Address and credentials of an API server.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// URL of the server, without a trailing slash.
    pub(super) server: String,
    pub(super) token: Option<String>,
    pub(super) login: Option<(String, String)>,
    pub(super) insecure: bool,
    pub(super) authorities: Trusted,
    /// Certificate and key in PEM format.
    pub(super) certificate: Option<Vec<u8>>,
    pub(super) key: Option<Vec<u8>>,
    /// Name in the server's certificate, if it differs from the URL.
    pub(super) server_name: Option<String>,
    pub(super) proxy: Option<String>,
    no_proxy: String,
    /// Headers to send with every request.
    pub(super) headers: Vec<(String, String)>,
}

impl Access {
    /// Resolves arguments, variables and kubeconfig. Arguments take precedence over the kubeconfig.
    pub(super) fn of(args: &Args, host: &Host) -> Result<Access, Failure> {
        let given = Given { args, host };
        let url = given.text("host", "host");
        let token = given.text("api_key", "api_key");
        let user = given.text("username", "username");
        let password = given.text("password", "password");
        let certificate = given.text("client_cert", "cert_file");
        let key = given.text("client_key", "key_file");
        let complete = url.is_some()
            && (token.is_some() || (user.is_some() && password.is_some()) || (certificate.is_some() && key.is_some()));
        let mut access = if complete { Access::default() } else { given.configured()? };
        if let Some(url) = url {
            access.server = url.trim_end_matches('/').to_owned();
        }
        access.token = token.or(access.token);
        access.login = user.zip(password).or(access.login);
        if let Some(verify) = given.flag("validate_certs", "verify_ssl") {
            access.insecure = !verify;
        }
        if let Some(path) = given.text("ca_cert", "ssl_ca_cert") {
            access.authorities = Trusted::File(path);
        }
        if let Some(path) = certificate {
            access.certificate = Some(file(&path)?);
        }
        if let Some(path) = key {
            access.key = Some(file(&path)?);
        }
        access.proxy = given.text("proxy", "proxy").or(access.proxy);
        access.no_proxy = given.text("no_proxy", "no_proxy").unwrap_or_default();
        let proxy_login = args.value("proxy_headers").and_then(|headers| headers["proxy_basic_auth"].as_str());
        let proxy_login =
            proxy_login.map(str::to_owned).or_else(|| host.variable("K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH"));
        if let (Some(login), Some(proxy)) = (proxy_login, &mut access.proxy) {
            let (scheme, rest) = proxy.split_once("://").unwrap_or(("http", proxy));
            *proxy = format!("{scheme}://{login}@{rest}");
        }
        access.impersonate(&given);
        Ok(access)
    }

    fn impersonate(&mut self, given: &Given<'_>) {
        if let Some(user) = given.text("impersonate_user", "impersonate_user") {
            self.headers.push(("Impersonate-User".into(), user));
        }
        let mut groups: Vec<String> = given.args.list("impersonate_groups").into_iter().map(str::to_owned).collect();
        if given.args.value("impersonate_groups").is_none() {
            let variable = given.host.variable("K8S_AUTH_IMPERSONATE_GROUPS").unwrap_or_default();
            groups = variable.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect();
        }
        self.headers.extend(groups.into_iter().map(|group| ("Impersonate-Group".to_owned(), group)));
    }

    /// The HTTP client, and the base URL for paths.
    pub(super) fn connect(self, host: &Host) -> Result<(Http, String), Failure> {
        let mut url = self.server;
        let mut instead = None;
        let parsed = Address::parse(&url).filter(|address| matches!(address.scheme.as_str(), "http" | "https"));
        let Some(address) = parsed else {
            return Err(unusable(&format!("{url:?} is not the URL of an API server, such as https://10.0.0.1:6443")));
        };
        if let Some(name) = self.server_name.filter(|_| address.scheme == "https") {
            let path = address.path.trim_end_matches('/');
            url = format!("https://{name}:{}{path}", address.port());
            instead = Some((address.host().to_owned(), address.port()));
        }
        let identity = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            // The certificate's file may contain the key too.
            (Some(certificate), None) => Some((certificate.clone(), certificate)),
            _ => None,
        };
        let service = Service {
            agent_name: "windlass".into(),
            timeout: SILENCE,
            credentials: self.login.filter(|_| self.token.is_none()),
            proxy: self.proxy.map(|proxy| (proxy, self.no_proxy)),
            instead,
            verify: !self.insecure,
            authorities: self.authorities,
            identity,
        };
        Ok((Http::of_service(service, host)?, url))
    }
}

/// Arguments, and the variables that replace them.
struct Given<'a> {
    args: &'a Args,
    host: &'a Host,
}

impl Given<'_> {
    /// A text from its option or from either of two variables.
    fn text(&self, name: &str, other: &str) -> Option<String> {
        let variable = |name: &str| self.host.variable(&format!("K8S_AUTH_{}", name.to_ascii_uppercase()));
        let found = self.args.str(name).map(str::to_owned);
        found.or_else(|| variable(name)).or_else(|| variable(other)).filter(|text| !text.is_empty())
    }

    fn flag(&self, name: &str, other: &str) -> Option<bool> {
        self.args.maybe_bool(name).or_else(|| {
            let text = self.text(name, other)?.to_ascii_lowercase();
            Some(!matches!(text.as_str(), "0" | "false" | "no"))
        })
    }

    /// Access settings from a kubeconfig or the pod's service account.
    fn configured(&self) -> Result<Access, Failure> {
        let context = self.text("context", "context");
        let named = match self.args.value("kubeconfig") {
            Some(Value::String(path)) if !path.is_empty() => Some(path.clone()),
            Some(config @ Value::Object(_)) => return kubeconfig::of_mapping(config, context.as_deref()),
            None | Some(Value::String(_)) => self.host.variable("K8S_AUTH_KUBECONFIG").filter(|path| !path.is_empty()),
            Some(_) => return Err(Failure::new("kubeconfig must be the path of a file or a mapping.")),
        };
        if named.is_none()
            && context.is_none()
            && let Some(access) = self.service_account()?
        {
            return Ok(access);
        }
        let paths = named.or_else(|| self.host.variable("KUBECONFIG").filter(|path| !path.is_empty()));
        kubeconfig::of_files(&paths.unwrap_or_else(|| "~/.kube/config".to_owned()), context.as_deref(), self.host)
    }

    /// The service account of the pod.
    fn service_account(&self) -> Result<Option<Access>, Failure> {
        let variable = |name: &str| self.host.variable(name).filter(|value| !value.is_empty());
        let (Some(name), Some(port)) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"))
        else {
            return Ok(None);
        };
        let (token, authority) = (format!("{SERVICE_ACCOUNT}/token"), format!("{SERVICE_ACCOUNT}/ca.crt"));
        if [&token, &authority].iter().any(|path| !std::path::Path::new(path).is_file()) {
            return Ok(None);
        }
        let token = String::from_utf8_lossy(&file(&token)?).trim().to_owned();
        let name = if name.contains(':') { format!("[{name}]") } else { name };
        Ok(Some(Access {
            server: format!("https://{name}:{port}"),
            token: Some(token),
            authorities: Trusted::File(authority),
            ..Access::default()
        }))
    }
}

/// The failure if no client can be built.
pub(super) fn unusable(why: &str) -> Failure {
    Failure::new(format!("Could not create API client: {why}."))
}

/// Reads a file that the arguments or a kubeconfig name.
pub(super) fn file(path: &str) -> Result<Vec<u8>, Failure> {
    way::read(Path::new(path)).map_err(|error| unusable(&format!("{path} could not be read: {}", reason(&error))))
}
