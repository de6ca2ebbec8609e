//! Vars plugins in Python. One process runs all of them for the whole run, because many keep what they have fetched.

use std::path::PathBuf;
use std::sync::PoisonError;

use serde_json::{Value as Json, json};
use windlass_inventory::{ForeignVars, VarsOwner};

use super::helper::{Helper, Refusal};
use super::inventory::encoded;
use super::{PythonPlugins, note_secrets, python_files};

/// Names in `vars_plugins_enabled` that are built in.
const NATIVE: &[&str] =
    &["host_group_vars", "ansible.builtin.host_group_vars", "ansible.legacy.host_group_vars", "community.sops.sops"];

/// The process of vars plugins.
#[derive(Debug, Default)]
pub(super) enum VarsProcess {
    /// Not started.
    #[default]
    Idle,
    /// There are no plugins.
    Unneeded,
    /// It runs them.
    Running(Helper),
    /// It has failed, for this reason.
    Failed(String),
}

impl PythonPlugins {
    /// Names of the plugins: of files in the project and in configured directories, and enabled ones of collections.
    fn vars_plugins(&self) -> (Vec<PathBuf>, Vec<String>) {
        let own = std::iter::once(self.basedir.join("vars_plugins"));
        let folders: Vec<PathBuf> =
            own.chain(self.vars.folders.iter().cloned()).filter(|folder| folder.is_dir()).collect();
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
    fn start_vars(&self, owner: &VarsOwner<'_>) -> Result<VarsProcess, Refusal> {
        let (folders, names) = self.vars_plugins();
        if names.is_empty() {
            return Ok(VarsProcess::Unneeded);
        }
        let refuse = |message: String| Refusal { message, undefined: false };
        if self.modules.ansible_core().is_none() {
            let reason = self.modules.without_core();
            return Err(refuse(format!("{} needs ansible-core, but {reason}", names.join(", "))));
        }
        let mut helper = Helper::start(self.setup().map_err(|problem| refuse(problem.to_owned()))?)?;
        let request = json!({
            "do": "start vars", "folders": folders, "names": names, "enabled": self.vars.enabled,
            "secrets": encoded(owner.secrets),
        });
        let count = helper.ask(&request, &mut super::no_questions)?;
        Ok(if count == 0 { VarsProcess::Unneeded } else { VarsProcess::Running(helper) })
    }

    /// Variables of a group or host. After an error, every further request fails with it.
    pub(super) fn vars_of(&self, owner: &VarsOwner<'_>) -> Result<Vec<ForeignVars>, String> {
        let mut process = self.vars.process.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = self.ask_vars(&mut process, owner).inspect_err(|reason| {
            *process = VarsProcess::Failed(reason.clone());
        })?;
        drop(process);
        note_secrets(&answer, owner.secrets);
        let of = |given: &Json| {
            Some(ForeignVars {
                plugin: PathBuf::from(given.get("plugin")?.as_str()?),
                vars: given.get("vars")?.clone(),
                is_trusted: given.get("trusted")?.as_bool()?,
            })
        };
        Ok(answer.get("given").and_then(Json::as_array).into_iter().flatten().filter_map(of).collect())
    }

    /// Asks the process for the variables of a group or host, and starts it before the first request.
    fn ask_vars(&self, process: &mut VarsProcess, owner: &VarsOwner<'_>) -> Result<Json, String> {
        let refuse = |refusal: Refusal| format!("A vars plugin failed: {}.", refusal.message.trim_end_matches('.'));
        if matches!(*process, VarsProcess::Idle) {
            *process = self.start_vars(owner).map_err(refuse)?;
        }
        let request = json!({ "do": "vars", "path": owner.directory, "is_group": owner.is_group, "name": owner.name });
        match process {
            VarsProcess::Running(helper) => helper.ask(&request, &mut super::no_questions).map_err(refuse),
            VarsProcess::Failed(reason) => Err(reason.clone()),
            VarsProcess::Idle | VarsProcess::Unneeded => Ok(Json::Null),
        }
    }
}
