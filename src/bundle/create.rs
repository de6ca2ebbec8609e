//! Creates a bundle: fetches what the plan lists, and writes the archive.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ssh_key::PrivateKey;

use super::LARGEST_FILE;
use super::image::{Image, Name};
use super::manifest::{Base, Digest, Encoding, File, Kind, LeftOut, Manifest, Summary};
use super::plan::{Artifact, ImageArchive, Plan};
use super::read::Bundle;
use super::sbom::sbom;
use super::signature::sign;
use super::store::Store;
use crate::error::{Error, Result};
use crate::http::Http;

/// Values of a bundle to create.
pub struct Request<'a> {
    /// Name of the bundle.
    pub name: String,
    /// The list of needs.
    pub plan: Plan,
    /// The program to add as Windlass itself.
    pub program: Option<PathBuf>,
    /// The bundle whose contents are left out.
    pub since: Option<&'a Bundle>,
    /// Key to sign with.
    pub key: Option<PrivateKey>,
    /// Architectures of the hosts, as Go names them.
    pub architectures: Vec<String>,
    /// Leave out images that no archive has; the manifest names them.
    pub without_images: bool,
    /// Seconds to wait for an answer of a server.
    pub timeout: u64,
}

/// Creates a bundle, and returns its manifest. `report` receives the name of each file before it is fetched.
pub fn create(request: &Request<'_>, to: &Path, report: &mut dyn FnMut(&str)) -> Result<Manifest> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut making = Making { request, store: Store::new(folder)?, files: BTreeMap::new(), count: 0 };
    let plan = &request.plan;
    let mut left_out: BTreeSet<LeftOut> = plan.left_out.iter().cloned().collect();
    let artifacts = plan.artifacts.iter().map(|artifact| (Kind::Artifact, artifact));
    for (kind, artifact) in artifacts.chain(plan.manifests.iter().map(|manifest| (Kind::Manifest, manifest))) {
        report(&artifact.url);
        let path = making.artifact(kind, artifact)?;
        if kind == Kind::Manifest {
            left_out.extend(making.strangers(artifact, path.as_deref())?);
        }
    }
    for archive in &plan.archives {
        report(&archive.url);
        making.archive(archive)?;
    }
    let present: BTreeSet<&String> = plan.archives.iter().flat_map(|archive| &archive.names).collect();
    let missing: BTreeSet<&String> = plan.images.iter().filter(|image| !present.contains(image)).collect();
    if request.without_images {
        left_out.extend(missing.into_iter().map(|name| absent(name)));
    } else {
        for name in missing {
            report(name);
            making.image(name)?;
        }
    }
    if let Some(program) = &request.program {
        report("windlass");
        making.windlass(program)?;
    }
    let files: Vec<File> = making.files.into_values().collect();
    let sbom = sbom(&request.name, &files)?;
    let summary = Summary { sha256: Digest::of(&sbom), size: sbom.len() as u64 };
    let manifest = Manifest {
        releases: plan.releases.iter().map(|(name, found)| (name.clone(), found.join(","))).collect(),
        base: request.since.map(|base| Base { name: base.manifest().name.clone(), manifest: base.digest() }),
        files,
        left_out: left_out.into_iter().collect(),
        ..Manifest::new(request.name.clone(), summary)
    };
    let bytes = manifest.to_bytes()?;
    let signature = request.key.as_ref().map(|key| sign(key, &bytes)).transpose()?;
    making.store.write(to, &bytes, signature.as_deref(), &sbom)?;
    Ok(manifest)
}

/// The image in a line of a manifest.
fn image_of(line: &str) -> Option<Name> {
    let field = line.trim_start().trim_start_matches("- ").strip_prefix("image:")?;
    Name::parse(field.trim().trim_matches(['"', '\''])).ok()
}

/// An image that a registry of the site must have.
fn absent(name: &str) -> LeftOut {
    let reason = "no archive in `image_archives` has it; the site needs a registry";
    LeftOut { kind: "image".to_owned(), name: name.to_owned(), reason: reason.to_owned() }
}

struct Making<'a> {
    request: &'a Request<'a>,
    store: Store,
    files: BTreeMap<String, File>,
    /// Number of files fetched so far, which names the next one.
    count: usize,
}

impl Making<'_> {
    /// Adds an entry of the catalog or a manifest. Returns the path of its content if that was fetched.
    fn artifact(&mut self, kind: Kind, artifact: &Artifact) -> Result<Option<PathBuf>> {
        let wanted = artifact.sha256();
        let (path, (sha256, size)) = match wanted.as_ref().and_then(|wanted| self.known(wanted)) {
            Some(known) => (None, known),
            None => {
                let path = self.fetch(&artifact.url, &artifact.checksum, wanted.is_some())?;
                let added = self.store.add(&path)?;
                (Some(path), added)
            }
        };
        same(&artifact.url, wanted.as_ref(), &sha256)?;
        let file = File {
            path: artifact.path(),
            kind,
            name: artifact.title(),
            version: artifact.version(),
            sha256,
            size,
            encoding: Encoding::Identity,
            source: artifact.url.clone(),
            images: Vec::new(),
        };
        self.insert(file)?;
        Ok(path)
    }

    /// Images in a manifest that neither the roles nor the inventory list. They are reported and not fetched, because a
    /// role may replace them by others. For a manifest that the base has, returns the report in the base.
    fn strangers(&self, manifest: &Artifact, path: Option<&Path>) -> Result<Vec<LeftOut>> {
        let reason = format!("`{}` names it; if no role replaces it, add it to `image_archives`", manifest.url);
        let Some(path) = path else {
            let known = self.request.since.map(|base| base.manifest().left_out.as_slice()).unwrap_or_default();
            return Ok(known.iter().filter(|left| left.reason == reason).cloned().collect());
        };
        let text = windlass_bounds::read(path).map_err(|error| super::store::failed(path, "be read", &error))?;
        let plan = &self.request.plan;
        let named = plan.images.iter().chain(plan.archives.iter().flat_map(|archive| &archive.names));
        let known: BTreeSet<String> = named.filter_map(|name| Name::parse(name).ok()).map(|name| name.last()).collect();
        let found = String::from_utf8_lossy(&text).lines().filter_map(image_of).collect::<BTreeSet<_>>();
        let strangers = found.into_iter().filter(|name| !known.contains(&name.last()));
        let left = |name: Name| LeftOut { kind: "image".to_owned(), name: name.to_string(), reason: reason.clone() };
        Ok(strangers.map(left).collect())
    }

    fn archive(&mut self, archive: &ImageArchive) -> Result<()> {
        let wanted = Digest::try_from(archive.sha256.to_lowercase()).ok();
        let (sha256, size) = match wanted.as_ref().and_then(|wanted| self.known(wanted)) {
            Some(known) => known,
            None => {
                let path = self.fetch(&archive.url, "", true)?;
                self.store.add(&path)?
            }
        };
        same(&archive.url, wanted.as_ref(), &sha256)?;
        let first = archive.names.first().map(String::as_str).unwrap_or_default();
        let (name, version) = match first.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (first, ""),
        };
        let mut images = archive.names.clone();
        images.sort();
        images.dedup();
        let file = File {
            path: format!("images/{}", archive.file),
            kind: Kind::Image,
            name: name.to_owned(),
            version: version.to_owned(),
            sha256,
            size,
            encoding: Encoding::Identity,
            source: archive.url.clone(),
            images,
        };
        self.insert(file)
    }

    /// Adds an image of a registry, as an archive.
    fn image(&mut self, name: &str) -> Result<()> {
        let [architecture] = self.request.architectures.as_slice() else {
            return Err(Error::new(format!("`{name}` can be read from its registry for one architecture only"))
                .hint("create a bundle for each architecture, or add archives of the images to `image_archives`"));
        };
        let parsed = Name::parse(name)?;
        let scratch = tempfile::tempdir_in(self.store.folder())
            .map_err(|error| Error::new(format!("no temporary directory: {error}")))?;
        let image = Image::find(self.http(), &parsed, architecture, scratch.path())?;
        let path = format!("images/{}", parsed.file());
        let base = self.request.since.map(|base| base.manifest().files.as_slice()).unwrap_or_default();
        let known = base.iter().find(|file| file.path == path && file.source == image.source());
        let (sha256, size) = match known {
            Some(known) => (known.sha256.clone(), known.size),
            None => {
                self.count += 1;
                let to = self.store.folder().join(format!("fetched-{}", self.count));
                image.write(scratch.path(), &to)?;
                self.store.add(&to)?
            }
        };
        self.insert(File {
            path,
            kind: Kind::Image,
            name: format!("{}/{}", parsed.registry, parsed.repository),
            version: parsed.reference.clone(),
            sha256,
            size,
            encoding: Encoding::Identity,
            source: image.source(),
            images: vec![name.to_owned()],
        })
    }

    fn windlass(&mut self, program: &Path) -> Result<()> {
        let (sha256, size) = self.store.add(program)?;
        let version = env!("CARGO_PKG_VERSION");
        let file = File {
            path: format!("windlass/windlass-{version}-linux-{}", std::env::consts::ARCH),
            kind: Kind::Windlass,
            name: "windlass".to_owned(),
            version: version.to_owned(),
            sha256,
            size,
            encoding: Encoding::Identity,
            source: env!("CARGO_PKG_REPOSITORY").to_owned(),
            images: Vec::new(),
        };
        self.insert(file)
    }

    /// Hash and size of a content if the base has it, so that it need not be fetched.
    fn known(&self, wanted: &Digest) -> Option<(Digest, u64)> {
        let base = self.request.since?.manifest();
        let found = base.files.iter().find(|file| file.sha256 == *wanted)?;
        Some((found.sha256.clone(), found.size))
    }

    /// Adds a file. The same path with another content is an error.
    fn insert(&mut self, mut file: File) -> Result<()> {
        file.encoding = match self.known(&file.sha256) {
            Some(_) => Encoding::Base,
            None => self.store.encoding(&file.sha256).unwrap_or(Encoding::Identity),
        };
        if file.encoding == Encoding::Base {
            self.store.remove(&file.sha256);
        }
        match self.files.get(&file.path) {
            Some(known) if known.sha256 != file.sha256 => {
                Err(Error::new(format!("`{}` is needed with two contents", file.path))
                    .hint("give all hosts the same mirror, or create a bundle for each group"))
            }
            Some(_) => Ok(()),
            None => {
                self.files.insert(file.path.clone(), file);
                Ok(())
            }
        }
    }

    /// A file with the content of a URL: the file itself if it is local and its checksum is compared later.
    fn fetch(&mut self, url: &str, checksum: &str, is_compared: bool) -> Result<PathBuf> {
        let local = url.strip_prefix("file://").or_else(|| url.starts_with('/').then_some(url));
        if let Some(path) = local.filter(|_| is_compared) {
            return Ok(PathBuf::from(path));
        }
        self.count += 1;
        let to = self.store.folder().join(format!("fetched-{}", self.count));
        self.http().download(url, checksum, &serde_json::Map::new(), &to)?;
        Ok(to)
    }

    /// Client of downloads whose sizes nobody has stated.
    fn http(&self) -> Http {
        Http { timeout: self.request.timeout, limit: Some(LARGEST_FILE) }
    }
}

fn same(url: &str, wanted: Option<&Digest>, found: &Digest) -> Result<()> {
    match wanted.filter(|wanted| *wanted != found) {
        Some(wanted) => Err(Error::new(format!("`{url}` has the checksum {found}, but {wanted} is expected"))
            .hint("find out which of the two is right before you change the inventory")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn download_larger_than_any_file_of_a_bundle_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/file", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", LARGEST_FILE + 1);
            let _ = stream.write_all(head.as_bytes());
        });
        let folder = tempfile::tempdir().unwrap();
        let plan =
            r#"{"releases": {}, "artifacts": [], "manifests": [], "images": [], "archives": [], "left_out": []}"#;
        let request = Request {
            name: String::new(),
            plan: Plan::parse(plan.as_bytes()).unwrap(),
            program: None,
            since: None,
            key: None,
            architectures: Vec::new(),
            without_images: true,
            timeout: 10,
        };
        let store = Store::new(folder.path()).unwrap();
        let mut making = Making { request: &request, store, files: BTreeMap::new(), count: 0 };
        let refused = making.fetch(&url, "", false).unwrap_err();
        assert!(refused.message().contains("and the limit is"), "{}", refused.message());
        server.join().unwrap();
    }
}
