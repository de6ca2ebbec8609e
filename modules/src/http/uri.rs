//! `uri`: sends HTTP requests.

use std::{
    io::{self, Cursor, Read},
    path::{Path, PathBuf},
    time::Instant,
};

use serde_json::Value;

use super::{
    client::Client,
    exchange::{Follow, Payload, Request, Response},
    form,
    get_url::{file_name_of, headers_of, modified_since},
    options::*,
};
use crate::{
    Args, Check, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    files::{
        attributes::Attributes,
        checksum::{self, Hasher},
        info::describe,
        staged::Staged,
        way::Link,
    },
    net::address::{Address, masked},
    process::reason,
};

/// The `uri` module.
pub struct Uri;

/// Largest response body that fits into a result.
const MAX_CONTENT: u64 = 64 << 20;

/// Keys of a result that decide about the task, its host or its output. The server chooses the names of its headers.
const OF_TASKS: &[&str] = &[
    "attempts",
    "censored",
    "changed",
    "deprecations",
    "diff",
    "exception",
    "failed",
    "failed_when_result",
    "finished",
    "invocation",
    "results",
    "skip_reason",
    "skipped",
    "skipped_reason",
    "started",
    "unreachable",
    "warnings",
];

/// Specification of `uri`.
pub static SPEC: Spec = Spec {
    name: "uri",
    summary: "Send HTTP requests to a web service",
    description: &[
        "Sends a request by `http` or `https` and returns the response. Fails unless the status is in `status_code`.",
        "The result contains response headers in lower case with underscores. A JSON response is parsed into `json`.",
        "Skipped in check mode, because the effect of a request is unknown.",
    ],
    options: crate::with_attributes![
        Opt::required("url", Kind::Str, "URL of the request.").address(),
        Opt::new(
            "dest",
            Kind::Path,
            "Path for the response body: a file, or a directory in which the server determines the name."
        ),
        URL_USERNAME_OF_URI,
        URL_PASSWORD,
        Opt::new("body", Kind::Raw, "Body of the request."),
        Opt::new("body_format", Kind::Str, "Format of `body`.")
            .choices(&["form-urlencoded", "json", "raw", "form-multipart"])
            .default("\"raw\""),
        Opt::new(
            "src",
            Kind::Path,
            "File to send instead of `body`: from the project, or from the host with `remote_src`."
        ),
        Opt::new("method", Kind::Str, "HTTP method, such as `GET`, `POST` or `PUT`.").default("\"GET\""),
        Opt::new("return_content", Kind::Bool, "Return the response body.").default("false"),
        Opt::new(
            "follow_redirects",
            Kind::Str,
            "Redirects to follow: `none`, `safe` (requests that change nothing), `all`, or `urllib2` (as in Python)."
        )
        .choices(&["all", "no", "none", "safe", "urllib2", "yes"])
        .default("\"safe\""),
        Opt::new("creates", Kind::Path, "Skip the task if this path exists."),
        Opt::new("removes", Kind::Path, "Skip the task if this path does not exist."),
        Opt::new("status_code", Kind::List(&Kind::Int), "Response statuses that count as success.").default("[200]"),
        Opt::new("timeout", Kind::Int, TIMEOUT_DOC).default("30"),
        Opt::new("headers", Kind::Dict, "Additional request headers.").default("{}"),
        Opt::new("unix_socket", Kind::Path, "Unix socket to connect to; not supported."),
        Opt::new("remote_src", Kind::Bool, "Take `src` from the host.").default("false"),
        Opt::new("ca_path", Kind::Path, "File or directory with trusted CA certificates in PEM format."),
        Opt::new("force", Kind::Bool, "Bypass caches.").default("false"),
        HTTP_AGENT,
        USE_PROXY,
        VALIDATE_CERTS,
        FORCE_BASIC_AUTH,
        CLIENT_CERT,
        CLIENT_KEY,
        USE_GSSAPI,
        UNREDIRECTED_HEADERS,
        DECOMPRESS,
        CIPHERS,
        USE_NETRC,
        Opt::new("_content", Kind::Int, "Index of `src` among the controller's contents."),
        Opt::new("_slowest", Kind::Int, "Minimum rate of the response body in bytes per second; a slower one fails."),
    ],
    mutually_exclusive: &[&["body", "src"]],
    check: Check::None,
    examples: "- name: The service is healthy\n  ansible.builtin.uri:\n    url: https://127.0.0.1:6443/readyz\n    ca_path: /etc/kubernetes/pki/ca.crt\n  \
               register: health\n  until: health.status == 200\n  retries: 30\n\n\
               - name: Open an issue\n  ansible.builtin.uri:\n    url: https://issues.example.com/api/issues\n    method: POST\n    \
               body_format: json\n    body: { title: Node added }\n    status_code: [200, 201]\n",
    returns: &[
        Return { name: "status", kind: "int", when: "always", doc: "Status of the response; -1 without a response." },
        Return { name: "url", kind: "str", when: "always", doc: "URL of the final response." },
        Return { name: "redirected", kind: "bool", when: "always", doc: "Whether the request was redirected." },
        Return { name: "msg", kind: "str", when: "always", doc: "Status as text." },
        Return { name: "elapsed", kind: "int", when: "always", doc: "Duration in seconds." },
        Return { name: "content", kind: "str", when: "`return_content`, or a failure", doc: "Response body." },
        Return { name: "json", kind: "dict", when: "the answer is JSON", doc: "Response body, parsed." },
        Return { name: "cookies", kind: "dict", when: "always", doc: "Cookies that the server set." },
        Return { name: "cookies_string", kind: "str", when: "always", doc: "Cookies as a header." },
        Return { name: "path", kind: "str", when: "`dest`", doc: "Path of the written file." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// `uri` has another alias for the user than `get_url`.
const URL_USERNAME_OF_URI: Opt = Opt { aliases: &["user"], ..URL_USERNAME };

impl Module for Uri {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let there = |name: &str| args.str(name).map(|path| (path.to_owned(), Path::new(path).exists()));
        if let Some((path, true)) = there("creates") {
            return Ok(Plan::unchanged().with("stdout", format!("skipped, since '{path}' exists")));
        }
        if let Some((path, false)) = there("removes") {
            return Ok(Plan::unchanged().with("stdout", format!("skipped, since '{path}' does not exist")));
        }
        if args.value("unix_socket").is_some() {
            return Err(Failure::new(
                "unix_socket is not supported: only servers with a network address can be reached.",
            ));
        }
        let task = Task::of(args, host)?;
        let ciphers = !args.list("ciphers").is_empty();
        let plan = Plan::change(move |host, outcome| task.run(host, outcome));
        Ok(if ciphers {
            plan.with_warning("The option ciphers has no effect: only the modern ciphers of TLS 1.2 and 1.3 are used.")
        } else {
            plan
        })
    }
}

struct Task {
    client: Client,
    request: Request,
    attributes: Attributes,
    dest: Option<PathBuf>,
    return_content: bool,
    wanted: Vec<i64>,
}

impl Task {
    fn of(args: &Args, host: &Host) -> Result<Task, Failure> {
        let method = args.required("method")?.to_uppercase();
        if method.is_empty() || !method.chars().all(|character| character.is_ascii_uppercase()) {
            return Err(Failure::new("Parameter 'method' needs to be a single word in uppercase, like GET or POST."));
        }
        let mut headers = headers_of(args);
        let mut payload = None;
        if let Some(index) = args.int("_content") {
            let mut bytes = Vec::new();
            let read = host.read_content(usize::try_from(index).unwrap_or(usize::MAX))?.read_to_end(&mut bytes);
            read.map_err(|error| Failure::new(format!("The content of src could not be read: {}.", reason(&error))))?;
            payload = Some(Payload::Bytes(bytes));
        } else if let Some(src) = args.str("src") {
            if !Path::new(src).is_file() {
                return Err(Failure::new(format!("Unable to open source file {src}")).with("elapsed", 0));
            }
            payload = Some(Payload::File(src.into()));
        }
        let format = args.str("body_format").unwrap_or("raw");
        let null = Value::Null;
        let value = match args.value("body") {
            Some(value) => Some(value),
            // A JSON request without a body sends `null`.
            None if format == "json" && payload.is_none() => Some(&null),
            None => None,
        };
        if let Some(value) = value {
            let body = form::body(value, format, host)?;
            let given = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            if let Some(content_type) = body.content_type.filter(|_| !given) {
                headers.push(("Content-Type".into(), content_type));
            }
            payload = Some(Payload::Bytes(body.bytes));
        }
        let dest = args.str("dest").map(PathBuf::from);
        if let Some(path) = dest.as_deref().filter(|path| path.is_file()) {
            headers.extend(modified_since(path));
        }
        let follow = match args.str("follow_redirects") {
            Some("no" | "none") => Follow::None,
            Some("all" | "yes") => Follow::All,
            Some("urllib2") => Follow::Python,
            _ => Follow::Safe,
        };
        let wanted = args.value("status_code").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Ok(Task {
            client: Client::of(args, host)?,
            request: Request { method, url: args.required("url")?.to_owned(), headers, body: payload, follow },
            attributes: Attributes::of(args, host)?,
            return_content: args.bool("return_content"),
            wanted: wanted.iter().filter_map(Value::as_i64).collect(),
            dest,
        })
    }

    fn run(self, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        outcome.changed = false;
        let started = Instant::now();
        let mut data = Map::new();
        let shown = masked(&self.request.url);
        let mut response = match self.client.send(&self.request, host) {
            Ok(response) => response,
            Err(message) => {
                data.insert("redirected".into(), false.into());
                data.insert("url".into(), shown.into());
                data.insert("elapsed".into(), started.elapsed().as_secs().into());
                return self.judge(-1, &format!("{message}."), data, None, outcome);
            }
        };
        data.extend(keys_of(&response));
        data.insert("redirected".into(), redirected(&self.request.url, &response).into());
        let success = self.wanted.contains(&i64::from(response.status));
        let is_json = is_json(response.header("content-type").unwrap_or_default());
        let mut bytes = None;
        if is_json || self.return_content || !success || response.status >= 400 {
            let failed = |message: String| Failure::new(message).with("url", shown.as_str());
            let mut content = Vec::new();
            let read = (&mut response.body).take(MAX_CONTENT + 1).read_to_end(&mut content);
            read.map_err(|error| failed(format!("HTTP Error while fetching {shown}: {}", reason(&error))))?;
            // Of the page that explains an error, a part is enough.
            if success && content.len() as u64 > MAX_CONTENT {
                let limit = MAX_CONTENT >> 20;
                return Err(failed(format!(
                    "The response of {shown} has more than {limit} MiB, the limit of a result. `get_url` has none."
                )));
            }
            content.truncate(MAX_CONTENT as usize);
            // Two bytes of JSON become some eighty bytes of values.
            if is_json && let Err(error) = windlass_protocol::weigh(&content) {
                return Err(failed(format!("The JSON of {shown} cannot be part of a result: {error}.")));
            }
            bytes = Some(content);
        }
        if let Some(dest) = &self.dest {
            let path = named(dest, &response);
            if success && response.status != 304 {
                let mut body: Box<dyn Read> = match &bytes {
                    Some(bytes) => Box::new(Cursor::new(bytes.clone())),
                    None => std::mem::replace(&mut response.body, Box::new(io::empty())),
                };
                outcome.changed = self.write(&path, &mut *body, host)?;
            }
            data.insert("path".into(), path.display().to_string().into());
            data.extend(describe(&path));
        }
        data.insert("elapsed".into(), started.elapsed().as_secs().into());
        let content = bytes.map(|bytes| text_of(bytes, response.header("content-type").unwrap_or_default()));
        if let Some(read) =
            content.as_deref().filter(|_| is_json).and_then(|text| serde_json::from_str::<Value>(text).ok())
        {
            data.insert("json".into(), read);
        }
        self.judge(i64::from(response.status), &response.message, data, content, outcome)
    }

    /// Turns the response into a success or a failure.
    fn judge(
        &self,
        status: i64,
        message: &str,
        mut data: Map,
        content: Option<String>,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        data.insert("status".into(), status.into());
        if status >= 400 {
            // An error response always has its body, and never cookies.
            data.shift_remove("cookies");
            data.shift_remove("cookies_string");
            data.insert("body".into(), content.clone().unwrap_or_default().into());
        }
        if self.return_content {
            data.insert("content".into(), content.clone().unwrap_or_default().into());
        }
        if self.wanted.contains(&status) {
            data.insert("msg".into(), message.into());
            outcome.data.extend(data);
            return Ok(());
        }
        let wanted: Vec<String> = self.wanted.iter().map(i64::to_string).collect();
        let message = format!("Status code was {status} and not [{}]: {message}", wanted.join(", "));
        Err(Failure { message, data })
    }

    /// Writes the file if its content differs, and returns whether it did.
    fn write(&self, path: &Path, body: &mut dyn Read, host: &Host) -> Result<bool, Failure> {
        let mut staged = Staged::beside(path, &self.attributes)?;
        let (sum, _) = staged.fill(body, host)?;
        let same = path.is_file() && checksum::of_file(Hasher::sha1(), path, host)? == sum;
        if !same {
            staged.commit(&self.attributes)?;
        }
        Ok(!self.attributes.apply(path, Link::Follow)?.is_empty() || !same)
    }
}

/// Headers and cookies of a response as result keys.
fn keys_of(response: &Response) -> Map {
    let mut data = Map::new();
    for (name, value) in &response.headers {
        let key = name.replace('-', "_");
        if !OF_TASKS.contains(&key.as_str()) && !key.starts_with("ansible_") && !key.starts_with('_') {
            data.insert(key, value.as_str().into());
        }
    }
    if let Some(location) = response.header("location")
        && let Some(target) = Address::parse(&response.url).and_then(|address| address.join(location))
    {
        data.insert("location".into(), target.url().into());
    }
    let pairs: Vec<String> = response.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    data.insert("cookies_string".into(), pairs.join("; ").into());
    let cookies: Map = response.cookies.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    data.insert("cookies".into(), cookies.into());
    data.insert("url".into(), masked(&response.url).into());
    data
}

fn redirected(asked: &str, response: &Response) -> bool {
    Address::parse(asked).is_some_and(|address| address.url() != response.url)
}

/// The path of `dest`; in a directory, the server determines the name.
fn named(dest: &Path, response: &Response) -> PathBuf {
    if !dest.is_dir() {
        return dest.to_owned();
    }
    let name = response.header("content-disposition").and_then(file_name_of);
    let name = name.or_else(|| Some(Address::parse(&response.url)?.file_name().to_owned()));
    dest.join(name.as_deref().unwrap_or("index.html"))
}

/// Whether a content type means JSON: `application/json`, `application/problem+json`, `text/javascript`.
fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = kind.split_once('/').map_or("", |(_, subtype)| subtype);
    let suffix = subtype.rsplit('+').next().unwrap_or_default();
    matches!(suffix, "json" | "javascript")
}

/// Decodes the body by its declared encoding.
fn text_of(bytes: Vec<u8>, content_type: &str) -> String {
    let content_type = content_type.to_ascii_lowercase();
    let latin =
        ["iso-8859-1", "latin-1", "latin1"].iter().any(|name| content_type.contains(&format!("charset={name}")));
    if latin {
        return bytes.into_iter().map(char::from).collect();
    }
    crate::process::text(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_content_types_recognised() {
        assert!(
            is_json("application/json; charset=utf-8")
                && is_json("application/problem+json")
                && is_json("text/javascript")
        );
        assert!(!is_json("text/html") && !is_json("") && !is_json("application/jsonlines"));
        assert_eq!(text_of(vec![0xe9], "text/plain; charset=ISO-8859-1"), "é");
    }
}
