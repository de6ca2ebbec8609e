//! Vars plugins in Python. One process runs all of them for the whole run, because many keep what they have fetched.

use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::{Value as Json, json};
use windlass_inventory::{ForeignVars, VarsOwner};

use super::helper::{Helper, Refusal};
use super::inventory::encoded;
use super::lasting::Lasting;
use super::{PythonPlugins, note_secrets, python_files};

/// Names in `vars_plugins_enabled` that are built in.
const NATIVE: &[&str] =
    &["host_group_vars", "ansible.builtin.host_group_vars", "ansible.legacy.host_group_vars", "community.sops.sops"];

/// Vars plugins.
#[derive(Debug, Default)]
pub(super) struct Vars {
    /// Configured directories (`vars_plugins`).
    pub(super) folders: Vec<PathBuf>,
    /// Names in `vars_plugins_enabled`.
    pub(super) enabled: Vec<String>,
    process: Mutex<Lasting>,
}

impl Vars {
    pub(super) fn new(folders: Vec<PathBuf>, enabled: Vec<String>) -> Vars {
        Vars { folders, enabled, process: Mutex::default() }
    }
}

impl PythonPlugins {
    /// Names of the plugins: of files in the project and in configured directories, and enabled ones of collections.
    fn vars_plugins(&self) -> (Vec<PathBuf>, Vec<String>) {
        let folders = self.folders("vars_plugins", &self.vars.folders);
        let files = folders.iter().flat_map(|folder| python_files(folder));
        let mut names: Vec<String> = files.filter_map(|file| file.file_stem()?.to_str().map(str::to_owned)).collect();
        let enabled = self.vars.enabled.iter().filter(|name| !NATIVE.contains(&name.as_str()));
        for name in enabled {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        (folders, names)
    }

    /// Starts the process, if there are plugins.
    fn start_vars(&self, owner: &VarsOwner<'_>) -> Result<Lasting, Refusal> {
        let (folders, names) = self.vars_plugins();
        if names.is_empty() {
            return Ok(Lasting::Unneeded);
        }
        if self.modules.ansible_core().is_none() {
            let reason = self.modules.without_core();
            return Err(Refusal::new(format!("{} needs ansible-core, but {reason}", names.join(", "))));
        }
        let mut helper = Helper::start(self.setup().map_err(Refusal::new)?)?;
        let request = json!({
            "do": "start vars", "folders": folders, "names": names, "enabled": self.vars.enabled,
            "secrets": encoded(owner.secrets),
        });
        let count = helper.ask(&request, &mut super::no_questions)?;
        Ok(if count == 0 { Lasting::Unneeded } else { Lasting::Running(helper) })
    }

    /// Variables of a group or host; `None` if there are no plugins. After an error, all later requests fail with it.
    pub(super) fn vars_of(&self, owner: &VarsOwner<'_>) -> Result<Option<Vec<ForeignVars>>, String> {
        let refuse = |refusal: Refusal| format!("A vars plugin failed: {}.", refusal.message.trim_end_matches('.'));
        let request = json!({ "do": "vars", "path": owner.directory, "is_group": owner.is_group, "name": owner.name });
        let start = || self.start_vars(owner).map_err(refuse);
        let Some(answer) = self.ask_lasting("vars plugins", &self.vars.process, start, &request, refuse)? else {
            return Ok(None);
        };
        note_secrets(&answer, owner.secrets);
        let of = |given: &Json| {
            Some(ForeignVars {
                plugin: PathBuf::from(given.get("plugin")?.as_str()?),
                vars: given.get("vars")?.clone(),
                is_trusted: given.get("trusted")?.as_bool()?,
            })
        };
        Ok(Some(answer.get("given").and_then(Json::as_array).into_iter().flatten().filter_map(of).collect()))
    }
}
