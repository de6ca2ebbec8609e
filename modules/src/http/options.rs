//! Options that all modules share which fetch something.

use crate::{Kind, Opt};

pub(super) const HTTP_AGENT: Opt =
    Opt::new("http_agent", Kind::Str, "What the client calls itself.").default("\"ansible-httpget\"");
pub(super) const USE_PROXY: Opt =
    Opt::new("use_proxy", Kind::Bool, "Use the proxy that the environment names.").default("true");
pub(super) const VALIDATE_CERTS: Opt =
    Opt::new("validate_certs", Kind::Bool, "Check the server's certificate.").default("true");
pub(super) const URL_USERNAME: Opt =
    Opt::new("url_username", Kind::Str, "The user to log in as.").aliases(&["username"]);
pub(super) const URL_PASSWORD: Opt =
    Opt::new("url_password", Kind::Str, "The password to log in with.").aliases(&["password"]).secret();
pub(super) const FORCE_BASIC_AUTH: Opt = Opt::new(
    "force_basic_auth",
    Kind::Bool,
    "Send user and password with the first request, instead of waiting for the server to ask.",
)
.default("false");
pub(super) const CLIENT_CERT: Opt = Opt::new("client_cert", Kind::Path, "A certificate in PEM form to log in with.");
pub(super) const CLIENT_KEY: Opt =
    Opt::new("client_key", Kind::Path, "Its private key, if that is not in the same file.");
pub(super) const USE_GSSAPI: Opt =
    Opt::new("use_gssapi", Kind::Bool, "Kerberos logins, which are not supported here.").default("false");
pub(super) const UNREDIRECTED_HEADERS: Opt = Opt::new(
    "unredirected_headers",
    Kind::List(&Kind::Str),
    "Names of headers that are not sent again where a redirect leads. Logins never are, if it leads to another server.",
)
.default("[]");
pub(super) const DECOMPRESS: Opt =
    Opt::new("decompress", Kind::Bool, "Unpack a body that the server compressed for its way.").default("true");
pub(super) const CIPHERS: Opt = Opt::new(
    "ciphers",
    Kind::List(&Kind::Str),
    "Accepted with a warning: only the modern ciphers of TLS 1.2 and 1.3 are used.",
);
pub(super) const USE_NETRC: Opt =
    Opt::new("use_netrc", Kind::Bool, "Take user and password from `~/.netrc` if the task names none.").default("true");
pub(super) const HEADERS: Opt = Opt::new("headers", Kind::Dict, "Further headers of the request.");
pub(super) const TIMEOUT_DOC: &str =
    "How many seconds the server may be silent, at the connection and at any time after.";
