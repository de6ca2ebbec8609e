//! `get_url`: fetch a file from a server to the host.

mod download;
mod expected;

use std::{
    io::Read,
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

use jiff::Timestamp;

use self::{download::Download, expected::Expected};
use super::{
    address::{Address, masked},
    client::Client,
    exchange::{Request, Response},
    options::*,
};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::{attributes::Attributes, info::describe, staged::directory_of, write::BACKUP},
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
        Opt::required("url", Kind::Str, "Where the file is.").address(),
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
    let expected = Expected::of(args, url, &client, &request, host)?;
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
