//! The manifest of a bundle, and the rules that every manifest obeys before any of it is used.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{LARGEST_BUNDLE, LARGEST_FILE, MOST_FILES};
use crate::error::{Error, Result};

/// Format of the manifests that this release writes, and the only one that it reads.
const FORMAT: u32 = 1;

/// The list of everything in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this format.
    pub format: u32,
    /// Name of the bundle; the inventory's by default.
    pub name: String,
    /// Version of Windlass that made the bundle.
    pub windlass: String,
    /// Releases by component, such as `kubernetes`. Hosts that differ have theirs separated by commas.
    pub releases: BTreeMap<String, String>,
    /// The bundle that has the contents which this one leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// Hash and size of `sbom.json`.
    pub sbom: Summary,
    /// All files, in the order of their paths.
    pub files: Vec<File>,
    /// Needs of the inventory that the bundle does not have.
    pub left_out: Vec<LeftOut>,
}

/// The bundle on which a difference bundle builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// Name in the base's manifest.
    pub name: String,
    /// SHA-256 of its manifest.
    pub manifest: Digest,
}

/// Hash and size of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// SHA-256 of the content.
    pub sha256: Digest,
    /// Size of the content in bytes.
    pub size: u64,
}

/// A file of the mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Path in the mirror: `files/HOST/PATH`, `images/FILE` or `windlass/FILE`.
    pub path: String,
    /// Kind of the file.
    pub kind: Kind,
    /// Name of the component.
    pub name: String,
    /// Version of the component, empty if unknown.
    pub version: String,
    /// SHA-256 of the content.
    pub sha256: Digest,
    /// Size of the content in bytes.
    pub size: u64,
    /// Encoding of the blob. Only a file of the base has none.
    pub encoding: Encoding,
    /// URL that the file came from.
    pub source: String,
    /// Names of the images in an archive of images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A program, an archive of programs or a chart, as the catalog lists it.
    Artifact,
    /// A project's manifest for Kubernetes.
    Manifest,
    /// An archive of images.
    Image,
    /// Windlass itself.
    Windlass,
}

/// How a bundle holds a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Unchanged.
    Identity,
    /// Compressed by zstd.
    Zstd,
    /// Left out: the base has it.
    Base,
}

/// A need that the bundle does not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// `package`, `chart` or `image`.
    pub kind: String,
    /// Name of the package, chart or image.
    pub name: String,
    /// Reason why it is missing, with the remedy.
    pub reason: String,
}

/// A SHA-256 in lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// Hash of some bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        use sha2::Digest as _;
        Digest(hex::encode(sha2::Sha256::digest(bytes)))
    }

    /// The hash that a finished hasher returns.
    pub(super) fn of_hasher(hasher: sha2::Sha256) -> Digest {
        use sha2::Digest as _;
        Digest(hex::encode(hasher.finalize()))
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Digest, String> {
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        match text.len() == 64 && text.bytes().all(is_digit) {
            true => Ok(Digest(text)),
            false => Err("a SHA-256 is not 64 lower-case hexadecimal digits".to_owned()),
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Kind::Artifact => "artifact",
            Kind::Manifest => "manifest",
            Kind::Image => "image",
            Kind::Windlass => "windlass",
        })
    }
}

impl Manifest {
    /// An empty manifest of this release's format.
    pub fn new(name: String, sbom: Summary) -> Manifest {
        Manifest {
            format: FORMAT,
            name,
            windlass: env!("CARGO_PKG_VERSION").to_owned(),
            releases: BTreeMap::new(),
            base: None,
            sbom,
            files: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Reads and checks a manifest.
    pub fn parse(bytes: &[u8]) -> Result<Manifest> {
        let invalid = |reason: String| Error::new(format!("`bundle.json` is invalid: {reason}"));
        // The version comes first: other formats may have other fields.
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                return Err(Error::new(format!("the bundle has format {format}, but this program reads {FORMAT}"))
                    .hint("use a release of Windlass that reads the bundle"));
            }
            None => return Err(invalid("`format` is missing".to_owned())),
        }
        let manifest: Manifest = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
        manifest.check().map_err(invalid)?;
        Ok(manifest)
    }

    /// The bytes of `bundle.json`.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.check().map_err(|reason| Error::new(format!("the bundle cannot be made: {reason}")))?;
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::new(format!("the manifest cannot be written: {error}")))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Contents in the archive, by hash.
    pub fn blobs(&self) -> BTreeMap<&Digest, &File> {
        let own = self.files.iter().filter(|file| file.encoding != Encoding::Base);
        own.map(|file| (&file.sha256, file)).collect()
    }

    /// Files whose contents only the base has.
    pub fn from_base(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.encoding == Encoding::Base)
    }

    /// Enforces the rules for a manifest. The error is a sentence without its beginning.
    fn check(&self) -> Result<(), String> {
        if self.files.len() > MOST_FILES || self.left_out.len() > MOST_FILES {
            return Err(format!("it lists more than {MOST_FILES} files"));
        }
        let mut texts = vec![&self.name, &self.windlass];
        texts.extend(self.releases.iter().flat_map(|(name, release)| [name, release]));
        texts.extend(self.base.as_ref().map(|base| &base.name));
        texts.extend(self.files.iter().flat_map(|file| [&file.name, &file.version, &file.source]));
        texts.extend(self.left_out.iter().flat_map(|left| [&left.kind, &left.name, &left.reason]));
        if let Some(text) = texts.into_iter().find(|text| text.len() > 4096 || text.chars().any(char::is_control)) {
            let shown: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
            return Err(format!("a text is too long or has control characters: `{shown}`"));
        }
        let mut sum = 0_u64;
        let mut contents: BTreeMap<&Digest, (u64, Encoding)> = BTreeMap::new();
        for (index, file) in self.files.iter().enumerate() {
            file.check()?;
            let is_sorted = index == 0 || self.files.get(index - 1).is_some_and(|before| before.path < file.path);
            if !is_sorted {
                return Err(format!("`{}` is out of order or listed twice", file.path));
            }
            if self.base.is_none() && file.encoding == Encoding::Base {
                return Err(format!("`{}` is left out, but the bundle has no base", file.path));
            }
            let known = *contents.entry(&file.sha256).or_insert((file.size, file.encoding));
            if known != (file.size, file.encoding) {
                return Err(format!("`{}` contradicts another file with the same hash", file.path));
            }
            sum = sum.saturating_add(file.size);
        }
        if sum > LARGEST_BUNDLE {
            return Err(format!("its files have more than {} GiB", LARGEST_BUNDLE >> 30));
        }
        let paths: BTreeSet<&str> = self.files.iter().map(|file| file.path.as_str()).collect();
        let is_folder =
            |path: &&str| path.match_indices('/').any(|(at, _)| paths.contains(path.get(..at).unwrap_or("")));
        match paths.iter().find(|path| is_folder(path)) {
            Some(path) => Err(format!("`{path}` lies below another file")),
            None => Ok(()),
        }
    }
}

impl File {
    fn check(&self) -> Result<(), String> {
        let is_name = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= 255;
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '\\' | '"' | '\'' | '`' | '{' | '}');
        let root = self.path.split('/').next().unwrap_or_default();
        let is_rooted = match self.kind {
            Kind::Artifact | Kind::Manifest => root == "files",
            Kind::Image => root == "images" && self.path.matches('/').count() == 1,
            Kind::Windlass => root == "windlass",
        };
        let is_path = self.path.len() <= 1024 && self.path.chars().all(is_plain) && self.path.split('/').all(is_name);
        if !is_rooted || !is_path || !self.path.contains('/') {
            let shown: String = self.path.chars().filter(|c| is_plain(*c)).take(120).collect();
            return Err(format!("`{shown}` is not a path for {} files", self.kind));
        }
        if self.size > LARGEST_FILE {
            return Err(format!("`{}` has more than {} GiB", self.path, LARGEST_FILE >> 30));
        }
        let is_image = |name: &String| {
            !name.is_empty()
                && name.len() <= 512
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@'))
        };
        match self.images.len() > 100 || !self.images.iter().all(is_image) {
            true => Err(format!("`{}` has names of images that no registry knows", self.path)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> File {
        File {
            path: path.to_owned(),
            kind: Kind::Artifact,
            name: "kubeadm".to_owned(),
            version: "1.2.3".to_owned(),
            sha256: Digest::of(path.as_bytes()),
            size: 1,
            encoding: Encoding::Identity,
            source: "https://example.com/kubeadm".to_owned(),
            images: Vec::new(),
        }
    }

    fn manifest(paths: &[&str]) -> Manifest {
        let mut manifest = Manifest::new("test".to_owned(), Summary { sha256: Digest::of(b""), size: 0 });
        manifest.files = paths.iter().map(|path| file(path)).collect();
        manifest
    }

    fn refusal(manifest: &Manifest) -> String {
        Manifest::parse(&serde_json::to_vec(manifest).unwrap_or_default()).unwrap_err().message().to_owned()
    }

    #[test]
    fn manifest_written_and_read_is_the_same() {
        let manifest = manifest(&["files/a/b", "files/a/c"]);
        assert_eq!(Manifest::parse(&manifest.to_bytes().unwrap()).unwrap(), manifest);
    }

    #[test]
    fn path_out_of_the_mirror_is_refused() {
        for path in ["files/../x", "/files/x", "files//x", "files/./x", "other/x", "files", "files/a\nb", "files/{{x}}"]
        {
            assert!(refusal(&manifest(&[path])).contains("is not a path for"), "{path}");
        }
    }

    #[test]
    fn paths_that_clash_are_refused() {
        assert!(refusal(&manifest(&["files/a", "files/a"])).contains("listed twice"));
        assert!(refusal(&manifest(&["files/a", "files/a/b"])).contains("lies below another file"));
        assert!(refusal(&manifest(&["files/b", "files/a"])).contains("out of order"));
    }

    #[test]
    fn content_of_a_missing_base_is_refused() {
        let mut manifest = manifest(&["files/a"]);
        manifest.files[0].encoding = Encoding::Base;
        assert!(refusal(&manifest).contains("has no base"));
    }

    #[test]
    fn other_format_is_refused_by_its_number() {
        let refused = Manifest::parse(br#"{"format": 2, "new": true}"#).unwrap_err();
        assert_eq!(refused.message(), "the bundle has format 2, but this program reads 1");
    }
}
