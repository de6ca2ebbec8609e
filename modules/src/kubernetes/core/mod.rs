//! The modules of the collection `kubernetes.core`, and the client of the Kubernetes API that they share.
//!
//! Nothing but the API server is needed: neither kubectl nor Python. In check mode the server itself predicts (`dryRun=All`).

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

/// The documents of a YAML text as data.
fn documents(name: &str, text: &str) -> Result<Vec<Value>, String> {
    let options = Options { trusted: false, duplicate_keys: DuplicateKeys::Ignore, ..Options::default() };
    // What it holds may be a secret, so errors show no excerpt of it.
    let loaded = windlass_yaml::parse(Source::secret(name, text), &options).map_err(|error| error.to_string())?;
    Ok(loaded.documents.iter().map(windlass_yaml::Node::to_json).collect())
}
