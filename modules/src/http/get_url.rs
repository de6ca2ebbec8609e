//! `get_url`: fetch a file from a server to the host.

use std::{
    fs::File,
    io::{Read, Seek},
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

use jiff::Timestamp;

use super::{
    address::{Address, masked},
    client::Client,
    digest_file,
    exchange::{Request, Response},
    options::*,
};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    files::{
        attributes::Attributes,
        backup,
        checksum::{self, ALGORITHMS, Hasher},
        info::describe,
        staged::{Staged, directory_of},
        write::BACKUP,
    },
};

/// The `get_url` module.
pub struct GetUrl;

static SPEC: Spec = Spec {
    name: "get_url",
    summary: "Fetch a file from a server to the host",
    description: &[
        "Fetches by `http` and `https`, or copies a `file://` of the host itself. The new file is written beside its place and moved there \
         whole, so nobody ever sees a part of it, and a failed or wrong download leaves the old file as it was.",
        "With a `checksum`, a file that has it already is not fetched again. Without one, the server is asked whether it has something newer \
         than the file, and what it sends is compared with the file.",
        "In check mode the file itself is not fetched: without a `checksum` it counts as changed unless the server says that it is not.",
    ],
    options: crate::with_attributes![
        Opt::required("url", Kind::Str, "Where the file is."),
        Opt::required(
            "dest",
            Kind::Path,
            "Where it shall be. In a directory it gets the name that the server or else the URL gives it."
        ),
        Opt::new(
            "checksum",
            Kind::Str,
            "`algorithm:checksum`, such as `sha256:0123...`, or `algorithm:URL` of a file with checksums in which the file is named."
        )
        .default("\"\""),
        Opt::new("force", Kind::Bool, "Fetch the file even if the one that is there may be the same.")
            .aliases(&["thirsty"])
            .default("false"),
        BACKUP,
        Opt::new("timeout", Kind::Int, TIMEOUT_DOC).default("10"),
        HEADERS,
        Opt::new("tmp_dest", Kind::Path, "A directory for the download while it is not complete; the place of `dest` if not given."),
        HTTP_AGENT,
        USE_PROXY,
        VALIDATE_CERTS,
        URL_USERNAME,
        URL_PASSWORD,
        FORCE_BASIC_AUTH,
        CLIENT_CERT,
        CLIENT_KEY,
        USE_GSSAPI,
        UNREDIRECTED_HEADERS,
        DECOMPRESS,
        CIPHERS,
        USE_NETRC,
    ],
    examples: "- name: Fetch a release, once\n  ansible.builtin.get_url:\n    url: https://downloads.example.com/tool-1.4.tar.gz\n    \
               dest: /opt/downloads/\n    checksum: sha256:https://downloads.example.com/SHA256SUMS\n    mode: '0644'\n\n\
               - name: Fetch a program with a login\n  ansible.builtin.get_url:\n    url: https://downloads.example.com/tool\n    \
               dest: /usr/local/bin/tool\n    url_username: robot\n    url_password: \"{{ download_password }}\"\n    mode: '0755'\n",
    returns: &[
        Return { name: "url", kind: "str", when: "always", doc: "The URL that was asked for." },
        Return { name: "dest", kind: "str", when: "always", doc: "Where the file is." },
        Return { name: "status_code", kind: "int", when: "the server was asked", doc: "The status of the answer." },
        Return { name: "msg", kind: "str", when: "always", doc: "The answer in words." },
        Return { name: "checksum_src", kind: "str", when: "it was fetched", doc: "The SHA-1 of what was fetched." },
        Return { name: "checksum_dest", kind: "str", when: "there was a file", doc: "The SHA-1 of the file before." },
        Return { name: "md5sum", kind: "str", when: "it was fetched", doc: "The MD5 of the file." },
        Return { name: "src", kind: "str", when: "it was fetched", doc: "The temporary file of the download." },
        Return { name: "backup_file", kind: "str", when: "`backup` kept a file", doc: "The old file." },
        Return { name: "elapsed", kind: "int", when: "always", doc: "How many seconds it took." },
        Return { name: "size", kind: "int", when: "success", doc: "The size of the file." },
        Return { name: "mode", kind: "str", when: "success", doc: "The permissions of the file." },
        Return { name: "owner", kind: "str", when: "success", doc: "The owner of the file." },
        Return { name: "group", kind: "str", when: "success", doc: "The group of the file." },
        Return { name: "uid", kind: "int", when: "success", doc: "The owner's id." },
        Return { name: "gid", kind: "int", when: "success", doc: "The group's id." },
        Return { name: "state", kind: "str", when: "success", doc: "What is at `dest`." },
    ],
    ..Spec::EMPTY
};

/// A download that is decided on.
struct Download {
    client: Client,
    request: Request,
    dest: PathBuf,
    /// `dest` is a directory, so the name is still to come.
    in_directory: bool,
    expected: Option<Expected>,
    attributes: Attributes,
    backup: bool,
    tmp_dest: Option<PathBuf>,
}

/// The checksum that the file must have.
#[derive(Clone)]
struct Expected {
    algorithm: String,
    digest: String,
}

impl Module for GetUrl {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let (url, dest) = (args.required("url")?, PathBuf::from(args.required("dest")?));
        plan(args, url, dest.clone(), host)
            .map(|plan| match args.list("ciphers").is_empty() {
                true => plan,
                false => plan.with_warning(
                    "The option ciphers has no effect: only the modern ciphers of TLS 1.2 and 1.3 are used.",
                ),
            })
            .map_err(|failure| complete(failure, url, &dest))
    }
}

/// A failure tells at least what was to be fetched, and where to.
fn complete(mut failure: Failure, url: &str, dest: &Path) -> Failure {
    failure.data.entry("url").or_insert(masked(url).into());
    failure.data.entry("dest").or_insert(dest.display().to_string().into());
    failure
}

fn plan(args: &Args, url: &str, dest: PathBuf, host: &Host) -> Result<Plan, Failure> {
    let mut client = Client::of(args, host)?;
    let mut request =
        Request { method: "GET".into(), url: url.into(), headers: headers_of(args), ..Request::default() };
    let expected = expected(args, url, &client, &request, host)?;
    let attributes = Attributes::of(args, host)?;
    let in_directory = dest.is_dir();
    // Most often the name in a directory is that of the URL.
    let likely = match (in_directory, Address::parse(url)) {
        (true, Some(address)) => dest.join(address.file_name()),
        _ => dest.clone(),
    };
    let force = args.bool("force");
    let mut stale = false;
    if likely.is_file() && !force {
        match &expected {
            Some(expected) if expected.fits_file(&likely, host)? => return present(&likely, url, attributes),
            Some(_) => stale = true,
            None if !in_directory => request.headers.extend(modified_since(&likely)),
            None => {}
        }
    }
    if stale {
        client = client.without_cache();
    }
    if !in_directory && !dest.exists() && !host.check() && !directory_of(&dest).is_dir() {
        return Err(Failure::new(format!("Destination {} does not exist", directory_of(&dest).display())));
    }
    let tmp_dest = args.str("tmp_dest").map(PathBuf::from);
    if let Some(directory) = tmp_dest.as_ref().filter(|directory| !directory.is_dir()) {
        let what =
            if directory.exists() { "is a file but should be a directory." } else { "directory does not exist." };
        return Err(Failure::new(format!("{} {what}", directory.display())));
    }
    let warnings = attributes.warnings();
    let download =
        Download { client, request, dest, in_directory, expected, attributes, backup: args.bool("backup"), tmp_dest };
    let plan = if host.check() { download.predict(host)? } else { download.plan() };
    Ok(warnings.into_iter().fold(plan, Plan::with_warning))
}

/// The `headers` of the task.
pub(super) fn headers_of(args: &Args) -> Vec<(String, String)> {
    let Some(headers) = args.value("headers").and_then(|headers| headers.as_object()) else { return Vec::new() };
    headers
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect()
}

/// The header by which a server sends nothing if it has nothing newer.
pub(super) fn modified_since(path: &Path) -> Option<(String, String)> {
    let modified: SystemTime = path.metadata().ok()?.modified().ok()?;
    let moment = Timestamp::try_from(modified).ok()?;
    Some(("If-Modified-Since".into(), moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()))
}

fn expected(
    args: &Args,
    url: &str,
    client: &Client,
    request: &Request,
    host: &Host,
) -> Result<Option<Expected>, Failure> {
    let text = args.str("checksum").unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let (algorithm, digest) = text
        .split_once(':')
        .ok_or_else(|| Failure::new("The checksum parameter has to be in format <algorithm>:<checksum>"))?;
    if Hasher::named(algorithm).is_none() {
        return Err(Failure::new(format!(
            "Could not hash file with algorithm '{algorithm}'. Available algorithms: {}",
            ALGORITHMS.join(", ")
        )));
    }
    let is_url =
        ["http:", "https:", "ftp:", "file:"].iter().any(|scheme| digest.to_ascii_lowercase().starts_with(scheme));
    let digest = if is_url { fetch_digest(digest, url, client, request, host)? } else { digest.to_owned() };
    let digest: String = digest.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if digest.is_empty() || !digest.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(Failure::new("The checksum format is invalid"));
    }
    Ok(Some(Expected { algorithm: algorithm.to_owned(), digest }))
}

/// Looks the checksum up in a file of checksums.
fn fetch_digest(from: &str, url: &str, client: &Client, request: &Request, host: &Host) -> Result<String, Failure> {
    /// A list of checksums is small; whatever is larger is something else.
    const LIMIT: u64 = 8 << 20;
    let response = send(client, &Request { url: from.into(), ..request.clone() }, host)?;
    let mut text = Vec::new();
    response.body.take(LIMIT).read_to_end(&mut text).map_err(|error| broken(from, &error))?;
    let address = Address::parse(url);
    let name = address.as_ref().map_or("index.html", |address| address.file_name());
    digest_file::find(&String::from_utf8_lossy(&text), name)
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("Unable to find a checksum for file '{name}' in '{}'", masked(from))))
}

/// Sends a request whose answer must be a file, or that there is nothing newer.
fn send(client: &Client, request: &Request, host: &Host) -> Result<Response, Failure> {
    let started = Instant::now();
    let elapsed =
        |failure: Failure| failure.with("elapsed", started.elapsed().as_secs()).with("url", masked(&request.url));
    let response = client.send(request, host).map_err(|message| elapsed(Failure::new(format!("{message}."))))?;
    match response.status {
        200 | 304 => Ok(response),
        status => Err(elapsed(
            Failure::new(format!("Request failed: {} answered {}.", masked(&request.url), response.message))
                .with("status_code", status)
                .with("response", response.message.as_str()),
        )),
    }
}

/// Fetches a file for another module, which gets its body.
pub(crate) fn download(
    args: &Args,
    url: &str,
    host: &Host,
    take: &mut dyn FnMut(&mut dyn Read) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let client = Client::of(args, host)?;
    let mut response = send(&client, &Request { method: "GET".into(), url: url.into(), ..Request::default() }, host)?;
    take(&mut *response.body)
}

fn broken(url: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("The download of {} broke off: {}.", masked(url), crate::process::reason(error)))
}

impl Expected {
    fn hasher(&self) -> Result<Hasher, Failure> {
        Hasher::named(&self.algorithm).ok_or_else(|| Failure::new(format!("There is no algorithm {}.", self.algorithm)))
    }

    fn fits_file(&self, path: &Path, host: &Host) -> Result<bool, Failure> {
        Ok(checksum::of_file(self.hasher()?, path, host)? == self.digest)
    }
}

/// The plan for a file that has its content already.
fn present(path: &Path, url: &str, attributes: Attributes) -> Result<Plan, Failure> {
    Ok(as_asked(path, attributes)?
        .with("url", masked(url))
        .with("dest", path.display().to_string())
        .with("elapsed", 0)
        .with("checksum_src", serde_json::Value::Null)
        .with("checksum_dest", serde_json::Value::Null))
}

/// The plan that leaves the content and makes the rest as it is asked for.
fn as_asked(path: &Path, attributes: Attributes) -> Result<Plan, Failure> {
    let changes = attributes.changes(path, true)?;
    if changes.is_empty() {
        return Ok(Plan::unchanged().with("msg", "file already exists").with_all(describe(path)));
    }
    let (diff, path) = (crate::files::attributes::diff_of(path, &changes), path.to_owned());
    let data = describe(&path);
    let plan = Plan::change(move |_, outcome| {
        attributes.apply(&path, true)?;
        outcome.data.extend(describe(&path));
        Ok(())
    });
    Ok(plan.with_all(data).with("msg", "file already exists but file attributes changed").with_diff(diff))
}

impl Download {
    fn basics(&self) -> Map {
        let mut data = Map::new();
        data.insert("checksum_dest".into(), serde_json::Value::Null);
        data.insert("checksum_src".into(), serde_json::Value::Null);
        data.insert("dest".into(), self.dest.display().to_string().into());
        data.insert("elapsed".into(), 0.into());
        data.insert("url".into(), masked(&self.request.url).into());
        data
    }

    /// Asks the server as much as can be known without the file.
    fn predict(self, host: &Host) -> Result<Plan, Failure> {
        let request = Request { method: "HEAD".into(), ..self.request.clone() };
        let response = match send(&self.client, &request, host) {
            Ok(response) => response,
            // Some servers only know GET.
            Err(failure)
                if matches!(failure.data.get("status_code").and_then(|code| code.as_u64()), Some(403 | 405 | 501)) =>
            {
                let plan = Plan::change(|_, _| Ok(())).with_all(self.basics()).with("msg", failure.message);
                return Ok(plan);
            }
            Err(failure) => return Err(failure),
        };
        let path = self.target(&response);
        if path.is_file() {
            let same_file = response.url.starts_with("file:") && {
                let mut body = response.body;
                let sum = checksum::of_reader(Hasher::sha1(), &mut *body, host)
                    .map_err(|error| broken(&request.url, &error))?;
                sum == checksum::of_file(Hasher::sha1(), &path, host)?
            };
            if response.status == 304 || same_file {
                let plan = as_asked(&path, self.attributes.clone())?.with_all(self.basics());
                return Ok(plan
                    .with("dest", path.display().to_string())
                    .with("msg", response.message)
                    .with("status_code", response.status));
            }
        }
        let mut plan = Plan::change(|_, _| Ok(())).with_all(self.basics()).with("dest", path.display().to_string());
        if path.is_file() {
            let before = checksum::of_file(Hasher::sha1(), &path, host)?;
            plan = plan.with_all(describe(&path)).with("checksum_dest", before);
        }
        Ok(plan.with("msg", response.message))
    }

    fn plan(self) -> Plan {
        let basics = self.basics();
        Plan::change(move |host, outcome| {
            let (url, dest) = (self.request.url.clone(), self.dest.clone());
            self.fetch(host, outcome).map_err(|mut failure| {
                // What was found out until then belongs to the failure too.
                for (key, value) in outcome.data.iter().filter(|(key, _)| *key != "msg") {
                    failure.data.entry(key.as_str()).or_insert(value.clone());
                }
                complete(failure, &url, &dest)
            })
        })
        .with_all(basics)
    }

    /// The path of the file, now that the server may have named it.
    fn target(&self, response: &Response) -> PathBuf {
        if !self.in_directory {
            return self.dest.clone();
        }
        let named = response.header("content-disposition").and_then(file_name_of);
        let name = named.or_else(|| Some(Address::parse(&response.url)?.file_name().to_owned()));
        self.dest.join(name.as_deref().unwrap_or("index.html"))
    }

    fn fetch(self, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        let started = Instant::now();
        let mut response = send(&self.client, &self.request, host)?;
        let path = self.target(&response);
        outcome.set("dest", path.display().to_string());
        outcome.set("status_code", response.status);
        outcome.set("msg", response.message.as_str());
        if response.status == 304 {
            outcome.changed = !self.attributes.apply(&path, true)?.is_empty();
            outcome.set("elapsed", started.elapsed().as_secs());
            outcome.data.extend(describe(&path));
            return Ok(());
        }
        if path.is_dir() {
            return Err(Failure::new(format!("Destination {} is a directory", path.display())));
        }
        let real = if path.is_symlink() { path.canonicalize().unwrap_or_else(|_| path.clone()) } else { path.clone() };
        let mut staged = Staged::beside(&real, &self.attributes)?;
        let mut hashers = vec![Hasher::sha1(), Hasher::Md5(Default::default())];
        if let Some(expected) = &self.expected {
            hashers.push(expected.hasher()?);
        }
        let fetched = match &self.tmp_dest {
            None => staged.fill_hashed(&mut *response.body, hashers, host),
            Some(directory) => by_way_of(directory, &mut *response.body, hashers, &mut staged, host),
        };
        outcome.set("elapsed", started.elapsed().as_secs());
        let (sums, _) = fetched.map_err(|failure| Failure {
            message: format!("The download of {} failed. {}", masked(&self.request.url), failure.message),
            ..failure
        })?;
        outcome.set("src", staged.path().display().to_string());
        let sum = |index: usize| sums.get(index).map(String::as_str).unwrap_or_default();
        outcome.set("checksum_src", sum(0));
        if let Some(expected) = &self.expected
            && sum(2) != expected.digest
        {
            return Err(Failure::new(format!(
                "The checksum for {} did not match {}; it was {}. Nothing was changed.",
                masked(&self.request.url),
                expected.digest,
                sum(2)
            )));
        }
        let before = if path.is_file() { Some(checksum::of_file(Hasher::sha1(), &path, host)?) } else { None };
        outcome.set("checksum_dest", before.clone());
        outcome.changed = before.as_deref() != Some(sum(0));
        if outcome.changed {
            if self.backup
                && let Some(copy) = backup::make(&path)?
            {
                outcome.set("backup_file", copy.display().to_string());
            }
            staged.commit(&self.attributes)?;
        }
        outcome.changed |= !self.attributes.apply(&path, true)?.is_empty();
        outcome.set("md5sum", sum(1));
        outcome.data.extend(describe(&path));
        Ok(())
    }
}

/// Collects a download in another directory first.
fn by_way_of(
    directory: &Path,
    body: &mut dyn Read,
    hashers: Vec<Hasher>,
    staged: &mut Staged,
    host: &Host,
) -> Result<(Vec<String>, u64), Failure> {
    let mut download = Staged::beside(&directory.join("download"), &Attributes::default())?;
    download.fill(body, host)?;
    let file: &mut File = download.file();
    file.rewind().map_err(|error| Failure::new(format!("The download could not be read again: {error}.")))?;
    staged.fill_hashed(file, hashers, host)
}

/// The file name of a `Content-Disposition`, without any directories.
pub(super) fn file_name_of(header: &str) -> Option<String> {
    let parameter = |name: &str| {
        header.split(';').skip(1).find_map(|part| {
            let (key, value) = part.trim().split_once('=')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"').to_owned())
        })
    };
    let extended = parameter("filename*").and_then(|value| Some(super::address::decode(value.rsplit_once("''")?.1)));
    let name = extended.or_else(|| parameter("filename"))?;
    let name = name.rsplit(['/', '\0']).next().unwrap_or_default();
    (!matches!(name, "" | "." | "..")).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_headers() {
        assert_eq!(file_name_of("attachment; filename=\"a b.tgz\"").unwrap(), "a b.tgz");
        assert_eq!(file_name_of("attachment; filename=../../etc/passwd").unwrap(), "passwd");
        assert_eq!(file_name_of("attachment; filename*=UTF-8''a%20b").unwrap(), "a b");
        assert_eq!(file_name_of("attachment; filename=.."), None);
        assert_eq!(file_name_of("inline"), None);
    }
}
