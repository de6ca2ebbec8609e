//! `get_url`: downloads a file to the host.

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
    client::Client,
    exchange::{Request, Response},
    options::*,
};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::{attributes::Attributes, info::describe, staged::directory_of, way::Link, write::BACKUP},
    net::address::{Address, masked},
};

/// The `get_url` module.
pub struct GetUrl;

static SPEC: Spec = Spec {
    name: "get_url",
    summary: "Download a file to the host",
    description: &[
        "Downloads by `http` or `https`, or copies a `file://` URL on the host. Replaces the file atomically; a \
         failed or wrong download keeps the old file.",
        "With a `checksum`, skips the download if the file already matches. Otherwise requests the file only if it \
         is newer, and compares the content.",
        "Check mode does not download the file. Without a `checksum`, it reports a change unless the server says \
         that the file is unmodified.",
    ],
    options: crate::with_attributes![
        Opt::required("url", Kind::Str, "URL of the file.").address(),
        Opt::required(
            "dest",
            Kind::Path,
            "Path of the file. In a directory, the server or the URL determines the name."
        ),
        Opt::new(
            "checksum",
            Kind::Str,
            "Expected checksum as `algorithm:checksum`, such as `sha256:0123...`, or `algorithm:URL` of a checksum \
             file that lists the file."
        )
        .default("\"\""),
        Opt::new("force", Kind::Bool, "Download the file even if the existing one seems current.")
            .aliases(&["thirsty"])
            .default("false"),
        BACKUP,
        Opt::new("timeout", Kind::Int, TIMEOUT_DOC).default("10"),
        HEADERS,
        Opt::new("tmp_dest", Kind::Path, "Directory for the incomplete download. Default: the directory of `dest`."),
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
        Opt::new("_limit", Kind::Int, "Maximum size in bytes, unpacked."),
        Opt::new("_slowest", Kind::Int, "Minimum rate of the download in bytes per second; a slower one fails."),
    ],
    examples: "- name: Fetch a release, once\n  ansible.builtin.get_url:\n    url: https://downloads.example.com/tool-1.4.tar.gz\n    \
               dest: /opt/downloads/\n    checksum: sha256:https://downloads.example.com/SHA256SUMS\n    mode: '0644'\n\n\
               - name: Fetch a program with a login\n  ansible.builtin.get_url:\n    url: https://downloads.example.com/tool\n    \
               dest: /usr/local/bin/tool\n    url_username: robot\n    url_password: \"{{ download_password }}\"\n    mode: '0755'\n",
    returns: &[
        Return { name: "url", kind: "str", when: "always", doc: "Requested URL." },
        Return { name: "dest", kind: "str", when: "always", doc: "Path of the file." },
        Return { name: "status_code", kind: "int", when: "the server was queried", doc: "Status of the response." },
        Return { name: "msg", kind: "str", when: "always", doc: "Status as text." },
        Return {
            name: "checksum_src",
            kind: "str",
            when: "the file was downloaded",
            doc: "SHA-1 checksum of the download.",
        },
        Return { name: "checksum_dest", kind: "str", when: "the file existed", doc: "SHA-1 checksum of the old file." },
        Return { name: "md5sum", kind: "str", when: "the file was downloaded", doc: "MD5 checksum of the file." },
        Return { name: "src", kind: "str", when: "the file was downloaded", doc: "Path of the temporary file." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the backup of the old file.",
        },
        Return { name: "elapsed", kind: "int", when: "always", doc: "Duration in seconds." },
        Return { name: "size", kind: "int", when: "success", doc: "Size of the file in bytes." },
        Return { name: "mode", kind: "str", when: "success", doc: "Permissions of the file." },
        Return { name: "owner", kind: "str", when: "success", doc: "Owner of the file." },
        Return { name: "group", kind: "str", when: "success", doc: "Group of the file." },
        Return { name: "uid", kind: "int", when: "success", doc: "User id of the owner." },
        Return { name: "gid", kind: "int", when: "success", doc: "Group id of the group." },
        Return { name: "state", kind: "str", when: "success", doc: "State of `dest`." },
    ],
    ..Spec::EMPTY
}
.compiled();

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

/// Adds URL and destination to a failure.
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
    // In a directory, the file usually gets its name from the URL.
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
    let download = Download {
        client,
        request,
        dest,
        in_directory,
        expected,
        attributes,
        backup: args.bool("backup"),
        tmp_dest,
        limit: args.int("_limit").map_or(u64::MAX, |limit| u64::try_from(limit).unwrap_or_default()),
    };
    let plan = if host.check() { download.predict(host)? } else { download.plan() };
    Ok(warnings.into_iter().fold(plan, Plan::with_warning))
}

/// The task's `headers`.
pub(super) fn headers_of(args: &Args) -> Vec<(String, String)> {
    let Some(headers) = args.value("headers").and_then(|headers| headers.as_object()) else { return Vec::new() };
    headers
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect()
}

/// The header that requests the file only if it is newer.
pub(super) fn modified_since(path: &Path) -> Option<(String, String)> {
    let modified: SystemTime = path.metadata().ok()?.modified().ok()?;
    let moment = Timestamp::try_from(modified).ok()?;
    Some(("If-Modified-Since".into(), moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()))
}

/// Sends a request that must return a file, or that nothing newer exists.
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

/// Downloads a file for another module and returns its body.
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

/// The plan for a file that already has its content.
fn present(path: &Path, url: &str, attributes: Attributes) -> Result<Plan, Failure> {
    Ok(as_asked(path, attributes)?
        .with("url", masked(url))
        .with("dest", path.display().to_string())
        .with("elapsed", 0)
        .with("checksum_src", serde_json::Value::Null)
        .with("checksum_dest", serde_json::Value::Null))
}

/// The plan that keeps the content and sets the attributes.
fn as_asked(path: &Path, attributes: Attributes) -> Result<Plan, Failure> {
    let changes = attributes.changes(path, Link::Follow)?;
    if changes.is_empty() {
        return Ok(Plan::unchanged().with("msg", "file already exists").with_all(describe(path)));
    }
    let (diff, path) = (crate::files::attributes::diff_of(path, &changes), path.to_owned());
    let data = describe(&path);
    let plan = Plan::change(move |_, outcome| {
        attributes.apply(&path, Link::Follow)?;
        outcome.data.extend(describe(&path));
        Ok(())
    });
    Ok(plan.with_all(data).with("msg", "file already exists but file attributes changed").with_diff(diff))
}

/// The file name in a `Content-Disposition` header, without directories.
pub(super) fn file_name_of(header: &str) -> Option<String> {
    let parameter = |name: &str| {
        header.split(';').skip(1).find_map(|part| {
            let (key, value) = part.trim().split_once('=')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"').to_owned())
        })
    };
    let extended =
        parameter("filename*").and_then(|value| Some(crate::net::address::decode(value.rsplit_once("''")?.1)));
    let name = extended.or_else(|| parameter("filename"))?;
    let name = name.rsplit(['/', '\0']).next().unwrap_or_default();
    (!matches!(name, "" | "." | "..")).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_disposition_file_name_parsed() {
        assert_eq!(file_name_of("attachment; filename=\"a b.tgz\"").unwrap(), "a b.tgz");
        assert_eq!(file_name_of("attachment; filename=../../etc/passwd").unwrap(), "passwd");
        assert_eq!(file_name_of("attachment; filename*=UTF-8''a%20b").unwrap(), "a b");
        assert_eq!(file_name_of("attachment; filename=.."), None);
        assert_eq!(file_name_of("inline"), None);
    }
}
