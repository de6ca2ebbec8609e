//! Downloads a file, and predicts the outcome in check mode.

use std::{
    fs::File,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
    time::Instant,
};

use super::{as_asked, broken, complete, expected::Expected, file_name_of, send};
use crate::{
    Failure, Host, Map, Outcome, Plan,
    files::{
        attributes::Attributes,
        backup,
        checksum::{self, Hasher},
        info::describe,
        staged::Staged,
        way::{Link, Place},
    },
    http::{
        client::Client,
        exchange::{Request, Response},
    },
    net::address::{Address, masked},
    process::reason,
};

/// A planned download.
pub(super) struct Download {
    pub(super) client: Client,
    pub(super) request: Request,
    pub(super) dest: PathBuf,
    /// `dest` is a directory, so the name is not yet known.
    pub(super) in_directory: bool,
    pub(super) expected: Option<Expected>,
    pub(super) attributes: Attributes,
    pub(super) backup: bool,
    pub(super) tmp_dest: Option<PathBuf>,
    /// Maximum size in bytes.
    pub(super) limit: u64,
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

    /// Queries the server without downloading the file.
    pub(super) fn predict(self, host: &Host) -> Result<Plan, Failure> {
        let request = Request { method: "HEAD".into(), ..self.request.clone() };
        let response = match send(&self.client, &request, host) {
            Ok(response) => response,
            // Some servers support only GET.
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

    pub(super) fn plan(self) -> Plan {
        let basics = self.basics();
        Plan::change(move |host, outcome| {
            let (url, dest) = (self.request.url.clone(), self.dest.clone());
            self.fetch(host, outcome).map_err(|mut failure| {
                // The failure also contains the keys collected so far.
                for (key, value) in outcome.data.iter().filter(|(key, _)| *key != "msg") {
                    failure.data.entry(key.as_str()).or_insert(value.clone());
                }
                complete(failure, &url, &dest)
            })
        })
        .with_all(basics)
    }

    /// The path of the file, possibly named by the server.
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
        let response = send(&self.client, &self.request, host)?;
        let path = self.target(&response);
        outcome.set("dest", path.display().to_string());
        outcome.set("status_code", response.status);
        outcome.set("msg", response.message.as_str());
        if response.status == 304 {
            outcome.changed = !self.attributes.apply(&path, Link::Follow)?.is_empty();
            outcome.set("elapsed", started.elapsed().as_secs());
            outcome.data.extend(describe(&path));
            return Ok(());
        }
        if path.is_dir() {
            return Err(Failure::new(format!("Destination {} is a directory", path.display())));
        }
        // A dangling link is replaced itself.
        let real = match Place::to_write(&path, Link::Follow) {
            Ok(place) if path.is_symlink() && place.node().is_some() => place.real().to_owned(),
            Err(error) if path.exists() => {
                return Err(Failure::new(format!("Destination {} not writable: {}.", path.display(), reason(&error))));
            }
            _ => path.clone(),
        };
        let mut body = Limited::of(response, self.limit).map_err(|error| broken(&self.request.url, &error))?;
        let mut staged = Staged::beside(&real, &self.attributes)?;
        let mut hashers = vec![Hasher::sha1(), Hasher::Md5(Default::default())];
        if let Some(expected) = &self.expected {
            hashers.push(expected.hasher()?);
        }
        let fetched = match &self.tmp_dest {
            None => staged.fill_hashed(&mut body, hashers, host),
            Some(directory) => by_way_of(directory, &mut body, hashers, &mut staged, host),
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
        outcome.changed |= !self.attributes.apply(&path, Link::Follow)?.is_empty();
        outcome.set("md5sum", sum(1));
        outcome.data.extend(describe(&path));
        Ok(())
    }
}

/// A body that fails once it exceeds a limit.
struct Limited {
    body: Box<dyn Read>,
    limit: u64,
    left: u64,
}

impl Limited {
    /// Body of a response. Fails if the server announces a larger one.
    fn of(response: Response, limit: u64) -> io::Result<Limited> {
        let announced = response.header("content-length").and_then(|length| length.parse::<u64>().ok());
        match announced.filter(|size| *size > limit) {
            Some(size) => Err(io::Error::other(format!("the server announces {size} bytes, and the limit is {limit}"))),
            None => Ok(Limited { body: response.body, limit, left: limit }),
        }
    }
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.body.read(buffer)?;
        let left = self.left.checked_sub(count as u64);
        self.left = left
            .ok_or_else(|| io::Error::other(format!("the server sends more than {} bytes, the limit", self.limit)))?;
        Ok(count)
    }
}

/// Downloads to another directory first.
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
