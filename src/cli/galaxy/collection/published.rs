//! Collections on Galaxy servers (API v3).

use semver::Version;
use serde_json::Value;

use super::manifest::dependencies;
use super::name::{Name, Range};
use crate::cli::galaxy::server::{LARGEST_ARCHIVE, Server};
use crate::error::{Error, Result};

/// Maximum number of pages of versions, in case a server never ends.
const MAXIMUM_PAGES: usize = 100;

/// A version of a collection on a server.
#[derive(Debug, Clone)]
pub(super) struct Published {
    /// URL of the archive.
    pub(super) address: String,
    /// SHA-256 of the archive in hexadecimal digits.
    pub(super) sha256: String,
    /// Maximum size of the archive in bytes; that of the server's list, if it has one.
    pub(super) size: u64,
    pub(super) dependencies: Vec<(Name, Range)>,
    /// Signatures of its manifest.
    pub(super) signatures: Vec<String>,
}

/// Lists the versions of a collection; `None` if the server does not have it. Texts that are not versions are left out.
pub(super) fn versions(server: &Server, name: &Name) -> Result<Option<Vec<Version>>> {
    let api = server.api("v3")?;
    let mut address = Some(format!("{api}collections/{}/{}/versions/?limit=100", name.namespace, name.name));
    let mut found = Vec::new();
    for _ in 0..MAXIMUM_PAGES {
        let Some(page) = address.take() else { break };
        let answer = match server.json_if_found(&page)? {
            Some(answer) => answer,
            None if found.is_empty() => return Ok(None),
            None => return Err(Error::new(format!("{page} was not found, although the page before names it"))),
        };
        let listed = answer.get("data").and_then(Value::as_array).into_iter().flatten();
        let texts = listed.filter_map(|one| one.get("version").and_then(Value::as_str));
        found.extend(texts.filter_map(|text| Version::parse(text).ok()));
        let next = answer.pointer("/links/next").and_then(Value::as_str).filter(|next| !next.is_empty());
        address = next.map(|next| server.absolute(next)).transpose()?;
    }
    if address.is_some() {
        return Err(Error::new(format!("the server lists {name} on more than {MAXIMUM_PAGES} pages")));
    }
    Ok(Some(found))
}

/// Reads where the archive of a version is, its hash and its dependencies.
pub(super) fn details(server: &Server, name: &Name, version: &Version) -> Result<Published> {
    let api = server.api("v3")?;
    let address = format!("{api}collections/{}/{}/versions/{version}/", name.namespace, name.name);
    let wrong = |field: &str| Error::new(format!("the answer of {address} has no valid `{field}`"));
    let Some(answer) = server.json_if_found(&address)? else {
        return Err(Error::new(format!("{address} was not found, although the server lists this version")));
    };
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str);
    let url = text("/download_url").ok_or_else(|| wrong("download_url"))?;
    let is_hash = |text: &&str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let sha256 = text("/artifact/sha256").filter(is_hash).ok_or_else(|| wrong("artifact.sha256"))?;
    let dependencies = match answer.pointer("/metadata/dependencies") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(listed)) => dependencies(listed)?,
        Some(_) => return Err(wrong("metadata.dependencies")),
    };
    let listed = answer.get("signatures").and_then(Value::as_array).into_iter().flatten();
    let signatures = listed.filter_map(|one| one.get("signature")?.as_str().map(str::to_owned)).collect();
    let size = answer.pointer("/artifact/size").and_then(Value::as_u64).unwrap_or(LARGEST_ARCHIVE);
    Ok(Published { address: server.absolute(url)?, sha256: sha256.to_lowercase(), size, dependencies, signatures })
}
