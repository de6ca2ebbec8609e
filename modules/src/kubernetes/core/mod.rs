//! Modules of the collection `kubernetes.core`, and their client of the Kubernetes API.
//!
//! They need only the API server, neither kubectl nor Python. In check mode the server itself predicts (`dryRun=All`).

mod access;
mod client;
mod discovery;
mod kubeconfig;
mod objects;
mod wait;

pub mod helm;
pub mod k8s;
pub mod k8s_drain;
pub mod k8s_info;

use serde_json::Value;
use windlass_yaml::{DuplicateKeys, Options, Source};

/// Parses the documents of a YAML text.
pub(super) fn documents(name: &str, text: &str) -> Result<Vec<Value>, String> {
    let options = Options { trusted: false, duplicate_keys: DuplicateKeys::Ignore, ..Options::default() };
    // The content may be secret, so errors show no excerpt of it.
    let loaded = windlass_yaml::parse(Source::secret(name, text), &options).map_err(|error| error.to_string())?;
    Ok(loaded.documents.iter().map(windlass_yaml::Node::to_json).collect())
}
