//! Options common to all modules that download.

use crate::{Kind, Opt};

pub(super) const HTTP_AGENT: Opt =
    Opt::new("http_agent", Kind::Str, "User agent of the requests.").default("\"ansible-httpget\"");
pub(super) const USE_PROXY: Opt =
    Opt::new("use_proxy", Kind::Bool, "Use the proxy from the environment.").default("true");
pub(super) const VALIDATE_CERTS: Opt =
    Opt::new("validate_certs", Kind::Bool, "Verify the server's certificate.").default("true");
pub(super) const URL_USERNAME: Opt =
    Opt::new("url_username", Kind::Str, "User name for authentication.").aliases(&["username"]);
pub(super) const URL_PASSWORD: Opt =
    Opt::new("url_password", Kind::Str, "Password for authentication.").aliases(&["password"]).secret();
pub(super) const FORCE_BASIC_AUTH: Opt = Opt::new(
    "force_basic_auth",
    Kind::Bool,
    "Send user and password with the first request instead of waiting for a challenge.",
)
.default("false");
pub(super) const CLIENT_CERT: Opt =
    Opt::new("client_cert", Kind::Path, "Client certificate in PEM format for authentication.");
pub(super) const CLIENT_KEY: Opt =
    Opt::new("client_key", Kind::Path, "Private key of the client certificate, if not in the same file.");
pub(super) const USE_GSSAPI: Opt =
    Opt::new("use_gssapi", Kind::Bool, "Kerberos authentication, which is not supported.").default("false");
pub(super) const UNREDIRECTED_HEADERS: Opt = Opt::new(
    "unredirected_headers",
    Kind::List(&Kind::Str),
    "Headers to drop on redirects. Another server gets only headers such as `Accept`, `Range` and `User-Agent` anyway.",
)
.default("[]");
pub(super) const DECOMPRESS: Opt =
    Opt::new("decompress", Kind::Bool, "Decompress compressed responses.").default("true");
pub(super) const CIPHERS: Opt = Opt::new(
    "ciphers",
    Kind::List(&Kind::Str),
    "No effect except a warning, because only modern ciphers of TLS 1.2 and 1.3 are used.",
);
pub(super) const USE_NETRC: Opt =
    Opt::new("use_netrc", Kind::Bool, "Take user and password from `~/.netrc` if the task does not set them.")
        .default("true");
pub(super) const HEADERS: Opt = Opt::new("headers", Kind::Dict, "Additional request headers.");
pub(super) const TIMEOUT_DOC: &str = "Seconds that the server may be silent, while connecting and afterwards.";
