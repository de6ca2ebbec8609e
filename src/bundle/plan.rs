//! The list of everything that an inventory needs, as `playbooks/bundle.yml` writes it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::manifest::LeftOut;
use crate::error::{Error, Result};

/// Needs of an inventory. The playbook evaluates the roles' own lists for every host.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Releases by component; hosts may differ.
    pub releases: BTreeMap<String, Vec<String>>,
    /// Entries of the catalog.
    pub artifacts: Vec<Artifact>,
    /// Manifests of projects.
    pub manifests: Vec<Artifact>,
    /// Images that components run, as REPOSITORY:TAG.
    pub images: Vec<String>,
    /// Archives of images that the inventory names.
    pub archives: Vec<ImageArchive>,
    /// Needs that only other means provide: packages of the distribution, repositories of charts.
    pub left_out: Vec<LeftOut>,
}

/// A file with an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Name of the component; the name of the file by default.
    #[serde(default)]
    pub name: String,
    /// Address of the download.
    pub url: String,
    /// `ALGORITHM:DIGITS`, or `ALGORITHM:URL` of a list of checksums.
    pub checksum: String,
}

/// An archive of images.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageArchive {
    /// Name of the file, as in `image_archives`.
    pub file: String,
    /// URL of the archive, or its path on the control machine.
    pub url: String,
    /// Names of its images.
    pub names: Vec<String>,
    /// SHA-256 of the archive; empty if the inventory has none.
    pub sha256: String,
}

impl Plan {
    /// Reads the playbook's answer.
    pub fn parse(bytes: &[u8]) -> Result<Plan> {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::new(format!("the playbook's list of needs is invalid: {error}")))
    }
}

impl Artifact {
    /// Path in the mirror: the URL without its scheme, as the role `artifacts` looks it up.
    pub(super) fn path(&self) -> String {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        format!("files/{}", rest.trim_start_matches('/'))
    }

    /// Name of the component, or of the file without one.
    pub(super) fn title(&self) -> String {
        let file = self.url.rsplit('/').next().unwrap_or_default();
        if self.name.is_empty() { file.to_owned() } else { self.name.clone() }
    }

    /// The version in its URL, empty without one.
    pub(super) fn version(&self) -> String {
        static VERSION: std::sync::LazyLock<Option<regex::Regex>> =
            std::sync::LazyLock::new(|| regex::Regex::new(r"\d+\.\d+(?:\.\d+)*").ok());
        let found = VERSION.as_ref().and_then(|version| version.find_iter(&self.url).last());
        found.map(|found| found.as_str().to_owned()).unwrap_or_default()
    }

    /// The SHA-256 that the content must have, if the checksum is one.
    pub(super) fn sha256(&self) -> Option<super::Digest> {
        self.checksum.strip_prefix("sha256:").and_then(|digits| digits.to_lowercase().try_into().ok())
    }
}
