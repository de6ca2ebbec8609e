//! Names of images, and archives of images that registries have.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::LARGEST_FILE;
use super::registry::{ImageManifest, Repository};
use super::store::{failed, member};
use crate::error::{Error, Result};
use crate::http::Http;

/// A name of an image: `REGISTRY/REPOSITORY:TAG`, or `REGISTRY/REPOSITORY@sha256:DIGEST`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) registry: String,
    pub(super) repository: String,
    /// The tag, or `sha256:DIGEST`.
    pub(super) reference: String,
}

impl Name {
    /// Reads a name. A name without a registry means Docker Hub.
    pub(super) fn parse(text: &str) -> Result<Name> {
        let invalid = || Error::new(format!("`{text}` is not the name of an image"));
        let (path, reference) = match text.split_once('@') {
            Some((path, digest)) if digest.starts_with("sha256:") => (without_tag(path), digest),
            Some(_) => return Err(invalid()),
            None => match text.rsplit_once(':') {
                Some((path, tag)) if !tag.contains('/') => (path, tag),
                _ => (text, "latest"),
            },
        };
        let (registry, repository) = match path.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest.to_owned()),
            Some(_) => ("docker.io", path.to_owned()),
            None => ("docker.io", format!("library/{path}")),
        };
        let is_plain = |part: &str, more: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        let is_path = repository.split('/').all(|part| is_plain(part, "._-") && !matches!(part, "." | ".."));
        let is_host = is_plain(registry, ".-:") && registry.starts_with(|c: char| c.is_ascii_alphanumeric());
        match is_host && is_path && is_plain(reference, "._-:") {
            true => Ok(Name { registry: registry.to_owned(), repository, reference: reference.to_owned() }),
            false => Err(invalid()),
        }
    }

    /// Scheme and host of the registry. Registries on this machine are queried without TLS.
    pub(super) fn origin(&self) -> String {
        let host = self.registry.split(':').next().unwrap_or_default();
        match self.registry.as_str() {
            "docker.io" => "https://registry-1.docker.io".to_owned(),
            registry if host == "localhost" || host.starts_with("127.") => format!("http://{registry}"),
            registry => format!("https://{registry}"),
        }
    }

    /// The last part of the repository, which mirrors keep.
    pub(super) fn last(&self) -> String {
        self.repository.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// Name of the file with the image.
    pub(super) fn file(&self) -> String {
        format!("{self}.tar").replace(['/', ':', '@'], "_")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joint = if self.reference.starts_with("sha256:") { '@' } else { ':' };
        write!(formatter, "{}/{}{joint}{}", self.registry, self.repository, self.reference)
    }
}

fn without_tag(path: &str) -> &str {
    path.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(path, |(path, _)| path)
}

/// An image of a registry, whose layers have not been fetched.
pub(super) struct Image<'a> {
    name: &'a Name,
    repository: Repository<'a>,
    manifest: ImageManifest,
}

impl<'a> Image<'a> {
    /// Finds an image for an architecture.
    pub(super) fn find(http: Http, name: &'a Name, architecture: &str, scratch: &Path) -> Result<Image<'a>> {
        let repository = Repository::open(http, name)?;
        let manifest = repository.manifest(architecture, scratch)?;
        let contents = manifest.layers.iter().chain([&manifest.config]);
        let size = contents.fold(0_u64, |sum, content| sum.saturating_add(content.size()));
        if size > LARGEST_FILE {
            return Err(Error::new(format!("the image `{name}` has more than {} GiB", LARGEST_FILE >> 30)));
        }
        Ok(Image { name, repository, manifest })
    }

    /// URL of the image with the hash of its manifest.
    pub(super) fn source(&self) -> String {
        let Name { registry, repository, .. } = self.name;
        format!("docker://{registry}/{repository}@sha256:{}", self.manifest.digest)
    }

    /// Fetches the image and writes its archive, which Docker and containerd import. Its bytes depend on the image and
    /// its name only.
    pub(super) fn write(&self, scratch: &Path, to: &Path) -> Result<()> {
        let manifest = &self.manifest;
        let config = manifest.config.sha256()?;
        let blob = |digest: &dyn fmt::Display| format!("blobs/sha256/{digest}");
        let mut contents: Vec<(String, PathBuf)> = Vec::new();
        let mut layers = Vec::new();
        for content in &manifest.layers {
            let path = blob(&content.sha256()?);
            contents.push((path.clone(), self.repository.blob(content, scratch)?));
            layers.push(path);
        }
        contents.push((blob(&config), self.repository.blob(&manifest.config, scratch)?));
        contents.sort();
        contents.dedup();
        let name = self.name.to_string();
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [{
                "mediaType": manifest.media_type,
                "digest": format!("sha256:{}", manifest.digest),
                "size": manifest.bytes.len(),
                "annotations": {
                    "io.containerd.image.name": name,
                    "org.opencontainers.image.ref.name": self.name.reference,
                },
            }],
        });
        let docker = json!([{"Config": blob(&config), "RepoTags": [name], "Layers": layers}]);
        let texts = [
            ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            ("index.json".to_owned(), index.to_string().into_bytes()),
            ("manifest.json".to_owned(), docker.to_string().into_bytes()),
            (blob(&manifest.digest), manifest.bytes.clone()),
        ];
        let unwritten = |error: io::Error| failed(to, "be written", &error);
        let mut archive = tar::Builder::new(BufWriter::new(File::create(to).map_err(unwritten)?));
        for (path, text) in texts {
            member(&mut archive, &path, text.len() as u64, &mut text.as_slice()).map_err(unwritten)?;
        }
        for (path, file) in contents {
            let content = File::open(&file).map_err(|error| failed(&file, "be read", &error))?;
            let size = content.metadata().map_err(|error| failed(&file, "be read", &error))?.len();
            member(&mut archive, &path, size, &mut content.take(size)).map_err(unwritten)?;
        }
        archive.into_inner().and_then(|mut writer| writer.flush()).map_err(unwritten)
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    fn shown(text: &str) -> String {
        Name::parse(text).map_or_else(|error| error.message().to_owned(), |name| name.to_string())
    }

    #[test]
    fn names_are_read_like_docker_reads_them() {
        assert_eq!(shown("registry.k8s.io/pause:3.10"), "registry.k8s.io/pause:3.10");
        assert_eq!(shown("nginx"), "docker.io/library/nginx:latest");
        assert_eq!(shown("flannel/flannel:v1"), "docker.io/flannel/flannel:v1");
        assert_eq!(shown("localhost:5000/a/b"), "localhost:5000/a/b:latest");
        let digest = "0".repeat(64);
        assert_eq!(shown(&format!("quay.io/x:v1@sha256:{digest}")), format!("quay.io/x@sha256:{digest}"));
        for text in ["", "../x", "quay.io/../x:v1", "quay.io/a b:v1", "quay.io/x@md5:1", "quay.io//x"] {
            assert!(shown(text).contains("is not the name of an image"), "{text}");
        }
    }
}
