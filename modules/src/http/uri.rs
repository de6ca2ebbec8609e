//! `uri`: speak with a web service.

use std::{
    io::{self, Cursor, Read},
    path::{Path, PathBuf},
    time::Instant,
};

use serde_json::Value;

use super::{
    address::{Address, masked},
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
    },
    process::reason,
};

/// The `uri` module.
pub struct Uri;

/// The longest answer that a result can hold.
const MAX_CONTENT: u64 = 64 << 20;

/// What it takes and returns.
pub static SPEC: Spec = Spec {
    name: "uri",
    summary: "Speak with a web service",
    description: &[
        "Sends a request by `http` or `https` and returns the answer. The task fails unless the answer has one of the wanted statuses.",
        "Headers of the answer are keys of the result, in lower case and with underscores. An answer in JSON is read into `json`.",
        "It is skipped in check mode, since nobody can tell what a request does.",
    ],
    options: crate::with_attributes![
        Opt::required("url", Kind::Str, "Where to send the request.").address(),
        Opt::new("dest", Kind::Path, "Where to write the body of the answer: a file, or a directory in which the server names it."),
        URL_USERNAME_OF_URI,
        URL_PASSWORD,
        Opt::new("body", Kind::Raw, "What to send."),
        Opt::new("body_format", Kind::Str, "How `body` is written.")
            .choices(&["form-urlencoded", "json", "raw", "form-multipart"])
            .default("\"raw\""),
        Opt::new("src", Kind::Path, "A file to send instead of `body`: of the project, or with `remote_src` of the host."),
        Opt::new("method", Kind::Str, "The method, such as `GET`, `POST` or `PUT`.").default("\"GET\""),
        Opt::new("return_content", Kind::Bool, "Return the body of the answer.").default("false"),
        Opt::new(
            "follow_redirects",
            Kind::Str,
            "Which redirects to follow: `none`, those of requests that change nothing (`safe`), `all`, or those Python follows (`urllib2`)."
        )
        .choices(&["all", "no", "none", "safe", "urllib2", "yes"])
        .default("\"safe\""),
        Opt::new("creates", Kind::Path, "Do nothing if this path exists."),
        Opt::new("removes", Kind::Path, "Do nothing if this path does not exist."),
        Opt::new("status_code", Kind::List(&Kind::Int), "The statuses that are a success.").default("[200]"),
        Opt::new("timeout", Kind::Int, TIMEOUT_DOC).default("30"),
        Opt::new("headers", Kind::Dict, "Further headers of the request.").default("{}"),
        Opt::new("unix_socket", Kind::Path, "A socket to connect to instead; not supported."),
        Opt::new("remote_src", Kind::Bool, "`src` is on the host.").default("false"),
        Opt::new("ca_path", Kind::Path, "A file or directory with the authorities to trust, in PEM form."),
        Opt::new("force", Kind::Bool, "Let no cache answer.").default("false"),
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
        Opt::new("_content", Kind::Int, "Which content of the controller `src` is."),
    ],
    mutually_exclusive: &[&["body", "src"]],
    check: Check::None,
    examples: "- name: The service is healthy\n  ansible.builtin.uri:\n    url: https://127.0.0.1:6443/readyz\n    ca_path: /etc/kubernetes/pki/ca.crt\n  \
               register: health\n  until: health.status == 200\n  retries: 30\n\n\
               - name: Open an issue\n  ansible.builtin.uri:\n    url: https://issues.example.com/api/issues\n    method: POST\n    \
               body_format: json\n    body: { title: Node added }\n    status_code: [200, 201]\n",
    returns: &[
        Return { name: "status", kind: "int", when: "always", doc: "The status of the answer; -1 if there was none." },
        Return { name: "url", kind: "str", when: "always", doc: "The URL that answered in the end." },
        Return { name: "redirected", kind: "bool", when: "always", doc: "Whether that is another one than was asked." },
        Return { name: "msg", kind: "str", when: "always", doc: "The answer in words." },
        Return { name: "elapsed", kind: "int", when: "always", doc: "How many seconds it took." },
        Return { name: "content", kind: "str", when: "`return_content`, or a failure", doc: "The body of the answer." },
        Return { name: "json", kind: "dict", when: "the answer is JSON", doc: "The body of the answer, read." },
        Return { name: "cookies", kind: "dict", when: "always", doc: "The cookies that the server set." },
        Return { name: "cookies_string", kind: "str", when: "always", doc: "The same, as a header." },
        Return { name: "path", kind: "str", when: "`dest`", doc: "The file that was written." },
    ],
    ..Spec::EMPTY
};

/// `uri` knows the user by another name than `get_url`.
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
            return Err(Failure::new("unix_socket is not supported: only servers with an address can be spoken with."));
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
            // Without a body JSON still has one.
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
            let mut content = Vec::new();
            let read = (&mut response.body).take(MAX_CONTENT).read_to_end(&mut content);
            read.map_err(|error| {
                Failure::new(format!("HTTP Error while fetching {shown}: {}", reason(&error)))
                    .with("url", shown.clone())
            })?;
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

    /// Makes the result a success or a failure.
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
            // Of an answer that is an error there is always the body, and never a cookie.
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

    /// Writes the file if that makes a difference.
    fn write(&self, path: &Path, body: &mut dyn Read, host: &Host) -> Result<bool, Failure> {
        let mut staged = Staged::beside(path, &self.attributes)?;
        let (sum, _) = staged.fill(body, host)?;
        let same = path.is_file() && checksum::of_file(Hasher::sha1(), path, host)? == sum;
        if !same {
            staged.commit(&self.attributes)?;
        }
        Ok(!self.attributes.apply(path, true)?.is_empty() || !same)
    }
}

/// The headers and cookies of an answer as keys of a result.
fn keys_of(response: &Response) -> Map {
    let mut data = Map::new();
    for (name, value) in &response.headers {
        data.insert(name.replace('-', "_"), value.as_str().into());
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

/// The path of `dest`; in a directory the server names the file.
fn named(dest: &Path, response: &Response) -> PathBuf {
    if !dest.is_dir() {
        return dest.to_owned();
    }
    let name = response.header("content-disposition").and_then(file_name_of);
    let name = name.or_else(|| Some(Address::parse(&response.url)?.file_name().to_owned()));
    dest.join(name.as_deref().unwrap_or("index.html"))
}

/// Whether a content type is that of JSON: `application/json`, `application/problem+json`, `text/javascript`.
fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = kind.split_once('/').map_or("", |(_, subtype)| subtype);
    let suffix = subtype.rsplit('+').next().unwrap_or_default();
    matches!(suffix, "json" | "javascript")
}

/// The body as a text, in the encoding it is in.
fn text_of(bytes: Vec<u8>, content_type: &str) -> String {
    let content_type = content_type.to_ascii_lowercase();
    let latin =
        ["iso-8859-1", "latin-1", "latin1"].iter().any(|name| content_type.contains(&format!("charset={name}")));
    if latin {
        return bytes.into_iter().map(char::from).collect();
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types() {
        assert!(
            is_json("application/json; charset=utf-8")
                && is_json("application/problem+json")
                && is_json("text/javascript")
        );
        assert!(!is_json("text/html") && !is_json("") && !is_json("application/jsonlines"));
        assert_eq!(text_of(vec![0xe9], "text/plain; charset=ISO-8859-1"), "é");
    }
}
