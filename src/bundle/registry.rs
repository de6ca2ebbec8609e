//! Reads images from registries, by the read part of the OCI distribution specification.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::image::Name;
use super::manifest::Digest;
use crate::error::{Error, Result};
use crate::http::Http;

/// Media types of an image for one platform, and of a list of these.
const MANIFESTS: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
/// Largest manifest of an image, in bytes.
const LARGEST_MANIFEST: u64 = 4 << 20;
/// Largest number of layers in an image.
const MOST_LAYERS: usize = 500;

/// A manifest with the bytes that its hash covers.
pub(super) struct ImageManifest {
    pub(super) bytes: Vec<u8>,
    pub(super) media_type: String,
    pub(super) digest: Digest,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
}

/// An OCI descriptor: the digest and size of a content.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Descriptor {
    digest: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Debug, Deserialize)]
struct Document {
    #[serde(rename = "mediaType", default)]
    media_type: String,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

impl Descriptor {
    /// The SHA-256; other algorithms are an error.
    pub(super) fn sha256(&self) -> Result<Digest> {
        let digits = self.digest.strip_prefix("sha256:").map(str::to_owned);
        let digest = digits.and_then(|digits| Digest::try_from(digits).ok());
        digest.ok_or_else(|| Error::new("an image has a content without a SHA-256"))
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

/// A repository that has been logged in to.
pub(super) struct Repository<'a> {
    http: Http,
    name: &'a Name,
    base: String,
    headers: Map<String, Value>,
}

impl<'a> Repository<'a> {
    /// Logs in to a repository: with a token if the registry wants one, and with the credentials of Docker's
    /// configuration if it has any.
    pub(super) fn open(http: Http, name: &'a Name) -> Result<Repository<'a>> {
        let origin = name.origin();
        let base = format!("{origin}/v2/{}", name.repository);
        let mut repository = Repository { http, name, base, headers: Map::new() };
        let answer = http.read(&format!("{origin}/v2/"), &Map::new(), &[200, 401])?;
        if answer.get("status").and_then(Value::as_u64) == Some(200) {
            return Ok(repository);
        }
        let challenge = answer.get("www_authenticate").and_then(Value::as_str).unwrap_or_default();
        let basic = credentials(&name.registry).map(|credentials| format!("Basic {credentials}"));
        let authorization = match challenge.split_once(' ') {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => {
                Some(format!("Bearer {}", repository.token(rest, basic)?))
            }
            _ => basic,
        };
        let authorization = authorization.ok_or_else(|| {
            Error::new(format!("the registry `{}` wants a login", name.registry))
                .hint("log in by `docker login`, or put `auths` into ~/.docker/config.json")
        })?;
        repository.headers.insert("Authorization".to_owned(), authorization.into());
        Ok(repository)
    }

    /// Requests a token from the server that the challenge names.
    fn token(&self, challenge: &str, basic: Option<String>) -> Result<String> {
        let refused = |reason: &str| Error::new(format!("the registry `{}` {reason}", self.name.registry));
        let realm = parameter(challenge, "realm").ok_or_else(|| refused("names no server for tokens"))?;
        let is_local = realm.starts_with("http://") && self.name.origin().starts_with("http://");
        if !realm.starts_with("https://") && !is_local {
            return Err(refused("names a server for tokens without TLS"));
        }
        let service = parameter(challenge, "service").unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/".contains(c);
        if !service.chars().all(is_plain) {
            return Err(refused("names a service with special characters"));
        }
        let joint = if realm.contains('?') { '&' } else { '?' };
        let url = format!("{realm}{joint}service={service}&scope=repository:{}:pull", self.name.repository);
        let headers = basic.into_iter().map(|basic| ("Authorization".to_owned(), basic.into())).collect();
        let answer = self.http.read(&url, &headers, &[200])?;
        let token = ["/json/token", "/json/access_token"].into_iter().find_map(|at| answer.pointer(at)?.as_str());
        token.map(str::to_owned).ok_or_else(|| refused("has a server for tokens that sent none"))
    }

    /// Reads the manifest of the image for one architecture.
    pub(super) fn manifest(&self, architecture: &str, scratch: &Path) -> Result<ImageManifest> {
        let invalid = |reason: &str| Error::new(format!("the image `{}` {reason}", self.name));
        let (mut bytes, mut document) = self.document(&self.name.reference, scratch)?;
        if !document.manifests.is_empty() {
            let is_wanted = |found: &&Descriptor| {
                found.platform.as_ref().is_some_and(|p| p.os == "linux" && p.architecture == architecture)
            };
            let found = document.manifests.iter().find(is_wanted);
            let found = found.ok_or_else(|| invalid(&format!("has none for linux/{architecture}")))?;
            let digest = found.sha256()?;
            (bytes, document) = self.document(&format!("sha256:{digest}"), scratch)?;
            if Digest::of(&bytes) != digest {
                return Err(invalid("has a manifest with a different hash than its index lists"));
            }
        } else if let Some(digest) = self.name.reference.strip_prefix("sha256:")
            && Digest::of(&bytes).to_string() != digest
        {
            return Err(invalid("has a manifest with a different hash"));
        }
        let config = document.config.ok_or_else(|| invalid("has a manifest of an old format"))?;
        if document.layers.len() > MOST_LAYERS {
            return Err(invalid(&format!("has more than {MOST_LAYERS} layers")));
        }
        let media_type = match document.media_type.as_str() {
            known if MANIFESTS.contains(&known) => known.to_owned(),
            "" => MANIFESTS.into_iter().next().unwrap_or_default().to_owned(),
            _ => return Err(invalid("has a manifest of an unknown type")),
        };
        Ok(ImageManifest { digest: Digest::of(&bytes), bytes, media_type, config, layers: document.layers })
    }

    fn document(&self, reference: &str, scratch: &Path) -> Result<(Vec<u8>, Document)> {
        let mut headers = self.headers.clone();
        headers.insert("Accept".to_owned(), [INDEXES, MANIFESTS].concat().join(", ").into());
        let to = scratch.join("manifest");
        let _ = std::fs::remove_file(&to);
        let http = Http { limit: Some(LARGEST_MANIFEST), ..self.http };
        http.download(&format!("{}/manifests/{reference}", self.base), "", &headers, &to)?;
        let invalid = |reason: String| Error::new(format!("the manifest of `{}` is invalid: {reason}", self.name));
        let bytes = windlass_bounds::read_up_to(&to, LARGEST_MANIFEST).map_err(|error| invalid(error.to_string()))?;
        let document = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        Ok((bytes, document))
    }

    /// Downloads a content into the directory, and checks its hash. Returns its path.
    pub(super) fn blob(&self, descriptor: &Descriptor, scratch: &Path) -> Result<PathBuf> {
        let digest = descriptor.sha256()?;
        let to = scratch.join(digest.to_string());
        if !to.exists() {
            let url = format!("{}/blobs/sha256:{digest}", self.base);
            let http = Http { limit: Some(descriptor.size).filter(|size| *size > 0).or(self.http.limit), ..self.http };
            http.download(&url, &format!("sha256:{digest}"), &self.blob_headers(), &to)?;
        }
        Ok(to)
    }

    fn blob_headers(&self) -> Map<String, Value> {
        let mut headers = self.headers.clone();
        headers.insert("Accept".to_owned(), "*/*".into());
        headers
    }
}

/// Value of a parameter of a challenge, such as `realm="https://..."`.
fn parameter<'a>(challenge: &'a str, name: &str) -> Option<&'a str> {
    let start = challenge.find(&format!("{name}=\""))? + name.len() + 2;
    let rest = challenge.get(start..)?;
    rest.get(..rest.find('"')?)
}

/// Base64 of `USER:PASSWORD` for a registry, from Docker's configuration.
fn credentials(registry: &str) -> Option<String> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".docker")))?;
    let text = windlass_bounds::read_up_to(folder.join("config.json"), 1 << 20).ok()?;
    let configuration: Value = serde_json::from_slice(&text).ok()?;
    let keys = match registry {
        "docker.io" => vec!["https://index.docker.io/v1/", "docker.io"],
        other => vec![other],
    };
    let entry = keys.into_iter().find_map(|key| configuration.get("auths")?.get(key)?.get("auth")?.as_str())?;
    STANDARD.decode(entry).is_ok().then(|| entry.to_owned())
}

#[cfg(test)]
mod tests {
    use super::parameter;

    #[test]
    fn challenge_is_read() {
        let challenge = r#"realm="https://auth.example.com/token",service="registry",scope="x""#;
        assert_eq!(parameter(challenge, "realm"), Some("https://auth.example.com/token"));
        assert_eq!(parameter(challenge, "service"), Some("registry"));
        assert_eq!(parameter(challenge, "other"), None);
    }
}
