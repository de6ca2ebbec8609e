//! Runs in a Kubernetes cluster (`windlass playbook --engine kubernetes`).

use super::config::Config;

/// Runs in a Kubernetes cluster.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Image of the pods.
    pub image: Option<String>,
    /// Namespace of the pods.
    pub namespace: String,
}

impl EngineSettings {
    pub(super) fn from_config(config: &Config) -> EngineSettings {
        EngineSettings {
            image: config.get("engine_image"),
            namespace: config.get("engine_namespace").unwrap_or_else(|| "windlass".to_owned()),
        }
    }
}
