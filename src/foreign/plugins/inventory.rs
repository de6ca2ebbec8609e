//! Inventory plugins in Python, which ansible-core loads and runs.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value as Json, json};
use windlass_inventory::{Configured, ForeignInventory, ForeignPlugins, ForeignVars, VarsOwner};

use super::{PythonPlugins, is_plugin_name, note_secrets};

impl ForeignPlugins for PythonPlugins {
    fn knows(&self, plugin: &str) -> bool {
        self.finds("inventory", &[self.basedir.join("inventory_plugins")], plugin)
    }

    fn read(&self, configured: &Configured<'_>) -> Result<ForeignInventory, String> {
        let name = configured.plugin;
        let refuse = |reason: &str| {
            let reason = reason.trim_end_matches('.');
            format!("The inventory plugin `{name}` failed: {reason}.")
        };
        if self.modules.ansible_core().is_none() {
            let reason = self.modules.without_core();
            return Err(format!("The inventory plugin `{name}` needs ansible-core, but {reason}."));
        }
        if !is_plugin_name(name) {
            return Err(refuse("this is not the name of a plugin, such as `amazon.aws.aws_ec2`"));
        }
        if let Some(reason) = self.without_collection(name) {
            return Err(refuse(&reason));
        }
        let extra_vars: serde_json::Map<String, Json> =
            configured.extra_vars.iter().map(|(key, value)| (key.to_text(), value.to_json())).collect();
        let request = json!({
            "do": "inventory", "name": name, "path": configured.path, "secrets": encoded(configured.secrets), "extra_vars": extra_vars,
            "cache": configured.use_cache,
        });
        let mut answer = self.request_alone(&request).map_err(|refusal| refuse(&refusal.message))?;
        note_secrets(&answer, configured.secrets);
        let groups = answer.get_mut("groups").map(Json::take).unwrap_or_default();
        let is_trusted = answer.get("trusted").and_then(Json::as_bool).unwrap_or(false);
        Ok(ForeignInventory { groups, is_trusted })
    }

    fn vars(&self, owner: &VarsOwner<'_>) -> Result<Option<Vec<ForeignVars>>, String> {
        self.vars_of(owner)
    }
}

/// Vault passwords with their labels.
pub(super) fn encoded(secrets: &windlass_vault::Secrets) -> Vec<Json> {
    secrets.iter().map(|secret| json!([secret.label(), BASE64_STANDARD.encode(secret.password())])).collect()
}
