//! Client for Galaxy servers and downloads.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Value, json};

use super::requirement::Requirement;
use crate::error::{Error, Result};
use crate::http::request;

/// Maximum size of an archive in bytes, as downloaded and as unpacked.
pub(super) const LARGEST_ARCHIVE: u64 = 1 << 30;

/// A Galaxy server.
pub(super) struct Server {
    pub(super) address: String,
    /// Value of the header `Authorization`.
    pub(super) authorization: Option<String>,
    pub(super) check_certificates: bool,
    /// Seconds to wait for an answer.
    pub(super) timeout: u64,
    /// URL of its API, and the paths of the API's versions, once they are known.
    pub(super) api: OnceCell<(String, Value)>,
}

/// Servers in the order they are queried.
pub(super) struct Servers(pub(super) Vec<Server>);

impl Servers {
    /// First server that has roles. A single server is not queried.
    pub(super) fn of_roles(&self) -> Result<&Server> {
        match self.0.as_slice() {
            [] | [_] => self.first(),
            [first, ..] => match self.0.iter().find(|server| server.api("v1").is_ok()) {
                Some(server) => Ok(server),
                None => first.api("v1").map(|_| first),
            },
        }
    }

    /// First server, whose settings also apply to other downloads.
    pub(super) fn first(&self) -> Result<&Server> {
        self.0.first().ok_or_else(|| Error::new("no Galaxy server is set"))
    }
}

/// A role on a server: URL of its archive, and its version.
pub(super) struct Found {
    pub(super) address: String,
    pub(super) version: String,
}

impl Server {
    /// Details of a role; `None` if the server does not have it.
    pub(super) fn role(&self, name: &str) -> Result<Option<Value>> {
        let (owner, role) = name.rsplit_once('.').unwrap_or(("", name));
        let api = self.api("v1")?;
        let answer = self.json(&format!("{api}roles/?owner__username={owner}&name={role}"))?;
        Ok(answer.get("results").and_then(|results| results.get(0)).cloned())
    }

    /// Finds the archive of a role in the wanted version, or in the newest.
    pub(super) fn find(&self, wanted: &Requirement) -> Result<Found> {
        let Some(role) = self.role(&wanted.src)? else {
            return Err(Error::new(format!("- sorry, {} was not found on {}.", wanted.src, self.address)));
        };
        let id = role.get("id").map(Value::to_string).unwrap_or_default();
        let versions = self.versions(&id)?;
        let name_of = |version: &Value| version.get("name").and_then(Value::as_str).map(str::to_owned);
        let names: Vec<String> = versions.iter().filter_map(name_of).collect();
        let text = |key: &str| role.get(key).and_then(Value::as_str);
        let version = match &wanted.version {
            Some(version) if version == "master" || names.is_empty() || names.contains(version) => version.clone(),
            Some(version) => {
                return Err(Error::new(format!(
                    "- the specified version ({version}) of {} was not found in the list of available versions ({}).",
                    wanted.name,
                    names.join(", ")
                )));
            }
            None => match names.iter().max_by(|a, b| compare(a, b)) {
                Some(newest) => newest.clone(),
                None => text("github_branch").unwrap_or("master").to_owned(),
            },
        };
        let entry = versions.iter().find(|entry| name_of(entry).as_ref() == Some(&version));
        let own = |key: &str| entry.and_then(|entry| entry.get(key)).and_then(Value::as_str);
        let address = match (own("download_url").or(own("source")), text("github_user"), text("github_repo")) {
            (Some(address), _, _) if !address.is_empty() => self.absolute(address)?,
            (_, Some(user), Some(repository)) => {
                format!("https://github.com/{user}/{repository}/archive/{version}.tar.gz")
            }
            _ => return Err(Error::new(format!("- {} has no download URL for {}.", self.address, wanted.src))),
        };
        Ok(Found { address, version })
    }

    fn versions(&self, id: &str) -> Result<Vec<Value>> {
        let api = self.api("v1")?;
        let mut address = Some(format!("{api}roles/{id}/versions/?page_size=50"));
        let mut found = Vec::new();
        // Limits the number of pages, in case a server never ends.
        for _ in 0..100 {
            let Some(page) = address.take() else { break };
            let answer = self.json(&page)?;
            found.extend(answer.get("results").and_then(Value::as_array).cloned().unwrap_or_default());
            let next = answer.get("next_link").and_then(Value::as_str).filter(|next| !next.is_empty());
            address = next.map(|next| self.absolute(next)).transpose()?;
        }
        Ok(found)
    }

    /// URL of a version of the server's API: `v1` has roles, `v3` has collections.
    pub(super) fn api(&self, version: &str) -> Result<String> {
        let (base, versions) = match self.api.get() {
            Some(known) => known,
            None => {
                let found = self.find_api()?;
                self.api.get_or_init(|| found)
            }
        };
        let content = if version == "v1" { "roles" } else { "collections" };
        match versions.get(version).and_then(Value::as_str) {
            Some(path) => Ok(format!("{base}/{}/", path.trim_matches('/'))),
            None => Err(Error::new(format!("{base}/ is not a Galaxy server with {content}"))),
        }
    }

    fn find_api(&self) -> Result<(String, Value)> {
        let base = self.address.trim_end_matches('/');
        let candidates = match base.ends_with("/api") {
            true => vec![base.to_owned()],
            false => vec![format!("{base}/api"), base.to_owned()],
        };
        let mut reason = None;
        for candidate in candidates {
            match self.json(&format!("{candidate}/")) {
                Ok(answer) => match answer.get("available_versions") {
                    Some(versions) => return Ok((candidate, versions.clone())),
                    None => reason = Some(Error::new(format!("{candidate}/ is not a Galaxy server"))),
                },
                Err(error) => reason = reason.or(Some(error)),
            }
        }
        Err(reason.unwrap_or_else(|| Error::new(format!("{} is not a Galaxy server", self.address))))
    }

    fn json(&self, address: &str) -> Result<Value> {
        let answer = self.json_if_found(address)?;
        answer.ok_or_else(|| Error::new(format!("{address} was not found (HTTP status 404)")))
    }

    /// Reads a JSON document; `None` if the server does not have it.
    pub(super) fn json_if_found(&self, address: &str) -> Result<Option<Value>> {
        let arguments = json!({
            "url": address,
            "return_content": true,
            "headers": self.headers(address),
            "timeout": self.timeout,
            "validate_certs": self.check_certificates,
            "status_code": [200, 404],
        });
        let fail = |reason: String| Error::new(format!("{address} cannot be read: {reason}"));
        let answer = request("uri", arguments).map_err(fail)?;
        if answer.get("status").and_then(Value::as_u64) == Some(404) {
            return Ok(None);
        }
        let content = answer.get("content").and_then(Value::as_str).unwrap_or_default();
        serde_json::from_str(content).map(Some).map_err(|_| Error::new(format!("the answer of {address} is not JSON")))
    }

    /// Headers of a request for this URL. Only the server itself gets the token or password.
    fn headers(&self, address: &str) -> serde_json::Map<String, Value> {
        let header = self.authorization.iter().filter(|_| origin(address) == origin(&self.address));
        header.map(|value| ("Authorization".to_owned(), value.clone().into())).collect()
    }

    /// URL of a link in an answer of the server, which must not name a file of this machine.
    pub(super) fn absolute(&self, link: &str) -> Result<String> {
        match link {
            _ if link.starts_with('/') => Ok(format!("{}{link}", origin(&self.address))),
            _ if link.starts_with("https://") || link.starts_with("http://") => Ok(link.to_owned()),
            _ => Err(Error::new(format!("{} answers with `{link}`, which is not an HTTP URL", self.address))),
        }
    }

    /// Downloads a file that the server offers, of at most this many bytes, and compares its SHA-256.
    pub(super) fn download_checked(&self, address: &str, sha256: &str, size: u64, to: &Path) -> Result<()> {
        let arguments = json!({
            "url": address,
            "dest": to,
            "headers": self.headers(address),
            "checksum": format!("sha256:{sha256}"),
            "timeout": self.timeout,
            "validate_certs": self.check_certificates,
            "_limit": size.min(LARGEST_ARCHIVE),
        });
        request("get_url", arguments).map(drop).map_err(Error::new)
    }

    /// Downloads a URL to a file, up to [`LARGEST_ARCHIVE`].
    pub(super) fn download(&self, address: &str, to: &Path) -> Result<()> {
        if let Some(path) = address.strip_prefix("file://") {
            let fail = |error: std::io::Error| Error::new(format!("{address} cannot be read: {error}"));
            let file = windlass_bounds::open(path).map_err(fail)?;
            let copied = std::io::copy(&mut file.take(LARGEST_ARCHIVE + 1), &mut File::create(to).map_err(fail)?);
            return match copied.map_err(fail)? {
                size if size > LARGEST_ARCHIVE => {
                    Err(Error::new(format!("{address} has more than {LARGEST_ARCHIVE} bytes, the limit of archives")))
                }
                _ => Ok(()),
            };
        }
        let arguments = json!({
            "url": address,
            "dest": to,
            "timeout": self.timeout,
            "validate_certs": self.check_certificates,
            "_limit": LARGEST_ARCHIVE,
        });
        request("get_url", arguments).map(drop).map_err(Error::new)
    }
}

/// Scheme and host of a URL.
fn origin(address: &str) -> &str {
    let start = address.find("://").map_or(0, |at| at + 3);
    let end = address.get(start..).and_then(|rest| rest.find('/')).map_or(address.len(), |at| start + at);
    address.get(..end).unwrap_or(address)
}

/// Compares versions: numbers numerically, and words before numbers.
fn compare(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(u8, u64, String)> {
        let text = text.trim_start_matches(['v', 'V']);
        let mut parts: Vec<(u8, u64, String)> = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let is_number = first.is_ascii_digit();
            let end = rest.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            match part.parse() {
                Ok(number) => parts.push((1, number, String::new())),
                Err(_) if part.chars().all(|c| c == '.') => {}
                Err(_) => parts.push((0, 0, part.to_owned())),
            }
            rest = after;
        }
        parts
    };
    parts(a).cmp(&parts(b))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    /// A server whose only answer has no end.
    fn endless() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while sent.is_ok() {
                sent = stream.write_all(&[b'0'; 64 << 10]);
            }
        });
        Server { address, authorization: None, check_certificates: true, timeout: 10, api: OnceCell::new() }
    }

    #[test]
    fn endless_archive_stops_at_listed_size() {
        let (server, folder) = (endless(), tempfile::tempdir().unwrap());
        let to = folder.path().join("archive");
        let error = server.download_checked(&server.address, &"0".repeat(64), 1 << 20, &to).unwrap_err();
        assert!(error.message().contains("the server sends more than 1048576 bytes, the limit"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn endless_answer_of_api_is_read_up_to_limit() {
        let server = endless();
        let error = server.json_if_found(&server.address).unwrap_err();
        assert!(error.message().contains("has more than 64 MiB"), "{error}");
    }

    #[test]
    fn server_that_does_not_answer_is_named_without_status() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        let server =
            Server { address, authorization: None, check_certificates: true, timeout: 10, api: OnceCell::new() };
        let error = server.json_if_found(&server.address).unwrap_err();
        assert!(error.message().contains("cannot be read: Request failed: the connection to 127.0.0.1:"), "{error}");
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(compare("1.10.0", "1.9.3"), Ordering::Greater);
        assert_eq!(compare("v2.0", "1.9"), Ordering::Greater);
        assert_eq!(compare("1.0", "1.0.1"), Ordering::Less);
    }
}
