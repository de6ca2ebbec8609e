//! The images in archives, as a registry serves them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::missing;
use crate::bundle::image::Name;
use crate::bundle::manifest::Digest;
use crate::bundle::store::{Hashing, failed};
use crate::error::{Error, Result};
use crate::http::server::{Answer, Content, Extent};

/// Largest text in an archive, in bytes.
const LARGEST_TEXT: u64 = 16 << 20;
/// Largest number of members in an archive.
const MOST_MEMBERS: usize = 10_000;
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Images by repository and tag.
#[derive(Debug, Default)]
pub(super) struct Images {
    /// Hashes of manifests, by registry, repository and tag.
    tags: BTreeMap<(String, String, String), String>,
    /// Manifests with their types, by hash.
    manifests: HashMap<String, (String, Vec<u8>)>,
    blobs: HashMap<String, Extent>,
}

impl Images {
    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }

    /// Adds the images of an archive, in the format of `docker save` or of OCI.
    pub(super) fn add(&mut self, path: &Path) -> Result<()> {
        let members = members(path).map_err(|error| failed(path, "be read", &error))?;
        let invalid = |reason: &str| Error::new(format!("`{}` is not an archive of images: {reason}", path.display()));
        let text = |name: &str| -> Result<Option<Vec<u8>>> {
            let Some(extent) = members.get(name) else { return Ok(None) };
            read(extent).map(Some).map_err(|error| failed(path, "be read", &error))
        };
        let parsed = |name: &str| -> Result<Value> {
            let bytes = text(name)?.ok_or_else(|| invalid(&format!("it has no {name}")))?;
            serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))
        };
        let described = |name: &str| -> Result<(String, Extent)> {
            let extent = members.get(name).ok_or_else(|| invalid(&format!("it has no {name}")))?;
            let digest = digest(extent).map_err(|error| failed(path, "be read", &error))?;
            Ok((format!("sha256:{digest}"), extent.clone()))
        };
        for image in parsed("manifest.json")?.as_array().into_iter().flatten() {
            let config = image["Config"].as_str().ok_or_else(|| invalid("an image has no configuration"))?;
            let (config_digest, config) = described(config)?;
            let mut layers = Vec::new();
            for layer in image["Layers"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let (digest, extent) = described(layer)?;
                let is_gzip = begins(&extent, b"\x1f\x8b").map_err(|error| failed(path, "be read", &error))?;
                let ending = if is_gzip { "+gzip" } else { "" };
                layers.push(json!({
                    "mediaType": format!("application/vnd.oci.image.layer.v1.tar{ending}"),
                    "digest": digest,
                    "size": extent.size,
                }));
                self.blobs.insert(digest, extent);
            }
            let made = json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {
                    "mediaType": "application/vnd.oci.image.config.v1+json",
                    "digest": config_digest,
                    "size": config.size,
                },
                "layers": layers,
            });
            self.blobs.insert(config_digest, config);
            let names: Vec<&str> =
                image["RepoTags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let own = if members.contains_key("index.json") { original(&parsed("index.json")?, &names) } else { None };
            let (media_type, bytes) = match own {
                // The manifest of the registry keeps the hash by which others name the image.
                Some((media_type, name)) => {
                    let bytes = text(&name)?.ok_or_else(|| invalid(&format!("it has no {name}")))?;
                    (media_type, bytes)
                }
                None => (MANIFEST.to_owned(), made.to_string().into_bytes()),
            };
            let digest = format!("sha256:{}", Digest::of(&bytes));
            self.manifests.insert(digest.clone(), (media_type, bytes));
            for name in names {
                let Name { registry, repository, reference } = Name::parse(name)?;
                self.tags.insert((registry, repository, reference), digest.clone());
            }
        }
        Ok(())
    }

    /// Answers a request below `/v2/`. The repository may begin with its registry; otherwise `ns` names it.
    pub(super) fn answer(&self, path: &str, registry: Option<&str>) -> Answer {
        if path.is_empty() {
            return Answer::text(StatusCode::OK, "application/json", "{}");
        }
        let mut parts = path.rsplitn(3, '/');
        let (last, kind, repository) = (parts.next(), parts.next(), parts.next());
        let (Some(last), Some(kind), Some(repository)) = (last, kind, repository) else { return missing() };
        let found = match (kind, last) {
            ("blobs", digest) => self.blobs.get(digest).map(|extent| {
                let content = Content::Extent(extent.clone());
                let media_type = "application/octet-stream".to_owned();
                of_digest(Answer { status: StatusCode::OK, media_type, headers: Vec::new(), content }, digest)
            }),
            ("manifests", reference) => self.manifest(repository, reference, registry),
            ("tags", "list") => {
                let tags: Vec<&String> = self.of(repository, registry).map(|(tag, _)| tag).collect();
                let text = json!({"name": repository, "tags": tags}).to_string();
                (!tags.is_empty()).then(|| Answer::text(StatusCode::OK, "application/json", text))
            }
            _ => None,
        };
        found.unwrap_or_else(missing)
    }

    fn manifest(&self, repository: &str, reference: &str, registry: Option<&str>) -> Option<Answer> {
        let digest = match reference.starts_with("sha256:") {
            true => reference,
            false => self.of(repository, registry).find(|(tag, _)| *tag == reference).map(|(_, digest)| digest)?,
        };
        let (media_type, bytes) = self.manifests.get(digest)?;
        Some(of_digest(Answer::text(StatusCode::OK, media_type, bytes.clone()), digest))
    }

    /// Tags and hashes of a repository.
    fn of<'a>(&'a self, wanted: &'a str, ns: Option<&'a str>) -> impl Iterator<Item = (&'a String, &'a str)> {
        let is_wanted = move |registry: &str, repository: &str| {
            let is_own = repository == wanted && ns.is_none_or(|ns| ns == registry);
            is_own || wanted.strip_prefix(registry).and_then(|rest| rest.strip_prefix('/')) == Some(repository)
        };
        self.tags
            .iter()
            .filter(move |((registry, repository, _), _)| is_wanted(registry, repository))
            .map(|((_, _, tag), digest)| (tag, digest.as_str()))
    }
}

/// The answer with the hash of its content, which registries put into a header.
fn of_digest(answer: Answer, digest: &str) -> Answer {
    answer.with("docker-content-digest", digest)
}

/// Type and path of the manifest that an OCI index has for one of the names.
fn original(index: &Value, names: &[&str]) -> Option<(String, String)> {
    let entry = index["manifests"].as_array()?.iter().find(|entry| {
        let name = entry["annotations"]["io.containerd.image.name"].as_str();
        name.is_some_and(|name| names.contains(&name))
    })?;
    let digest = Digest::try_from(entry["digest"].as_str()?.strip_prefix("sha256:")?.to_owned()).ok()?;
    let media_type = entry["mediaType"].as_str().filter(|text| text.chars().all(|c| c.is_ascii_graphic()))?;
    Some((media_type.to_owned(), format!("blobs/sha256/{digest}")))
}

/// Regular files in an archive, by name.
fn members(path: &Path) -> io::Result<HashMap<String, Extent>> {
    let mut archive = tar::Archive::new(BufReader::new(File::open(path)?));
    let mut found = HashMap::new();
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        if found.len() >= MOST_MEMBERS {
            return Err(io::Error::other("it has too many members"));
        }
        if entry.header().entry_type().is_file() {
            let name = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
            let extent = Extent { path: path.to_owned(), start: entry.raw_file_position(), size: entry.size() };
            found.insert(name, extent);
        }
    }
    Ok(found)
}

fn open(extent: &Extent) -> io::Result<impl io::Read> {
    let mut file = File::open(&extent.path)?;
    file.seek(SeekFrom::Start(extent.start))?;
    Ok(file.take(extent.size))
}

fn read(extent: &Extent) -> io::Result<Vec<u8>> {
    windlass_bounds::read_from(open(extent)?, LARGEST_TEXT)
}

fn begins(extent: &Extent, with: &[u8]) -> io::Result<bool> {
    let mut start = Vec::new();
    open(extent)?.take(with.len() as u64).read_to_end(&mut start)?;
    Ok(start == with)
}

fn digest(extent: &Extent) -> io::Result<Digest> {
    let mut reader = Hashing::new(open(extent)?);
    io::copy(&mut reader, &mut io::sink())?;
    reader.finish().map(|(digest, _)| digest)
}
