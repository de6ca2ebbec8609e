//! The expected checksum of a download.

use std::{io::Read, path::Path};

use super::{broken, send};
use crate::{
    Args, Failure, Host,
    files::checksum::{self, ALGORITHMS, Hasher},
    http::{client::Client, digest_file, exchange::Request},
    net::address::{Address, masked},
};

/// The expected checksum.
#[derive(Clone)]
pub(super) struct Expected {
    algorithm: String,
    pub(super) digest: String,
}

impl Expected {
    /// The checksum from the task's options.
    pub(super) fn of(
        args: &Args,
        url: &str,
        client: &Client,
        request: &Request,
        host: &Host,
    ) -> Result<Option<Self>, Failure> {
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
        let digest: String =
            digest.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        if digest.is_empty() || !digest.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(Failure::new("The checksum format is invalid"));
        }
        Ok(Some(Self { algorithm: algorithm.to_owned(), digest }))
    }

    pub(super) fn hasher(&self) -> Result<Hasher, Failure> {
        Hasher::named(&self.algorithm).ok_or_else(|| Failure::new(format!("There is no algorithm {}.", self.algorithm)))
    }

    pub(super) fn fits_file(&self, path: &Path, host: &Host) -> Result<bool, Failure> {
        Ok(checksum::of_file(self.hasher()?, path, host)? == self.digest)
    }
}

/// Finds the checksum in a downloaded checksum file.
fn fetch_digest(from: &str, url: &str, client: &Client, request: &Request, host: &Host) -> Result<String, Failure> {
    /// Largest checksum file to read.
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
