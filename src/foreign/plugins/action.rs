//! Action plugins in Python. Each call runs in a process of its own, forked from one that has loaded ansible-core.

use serde_json::{Value as Json, json};

use super::{Print, PythonPlugins};

/// A call of an action plugin.
#[derive(Debug)]
pub struct ActionCall {
    /// The plugin's file.
    pub path: std::path::PathBuf,
    /// Short name of the action.
    pub short: String,
    /// Fields of the task.
    pub task: Json,
    /// Fields of ansible-core's play context.
    pub play: Json,
    /// Options of the connection.
    pub options: Json,
    /// Directories in which the task's files are searched.
    pub search_paths: Vec<std::path::PathBuf>,
    /// Names of actions that Windlass runs where the plugin asks ansible-core for them.
    pub native: Vec<&'static str>,
}

impl PythonPlugins {
    /// Runs an action plugin. `answer` performs each operation that the plugin requests, and `print` receives the
    /// plugin's output. Only the plugin's own code between two requests has a deadline.
    pub fn act(
        &self,
        call: &ActionCall,
        answer: &mut dyn FnMut(&Json) -> Result<Json, String>,
        print: &Print,
    ) -> Result<Json, String> {
        if self.modules.ansible_core().is_none() {
            return Err(format!("action plugins need ansible-core, but {}", self.modules.without_core()));
        }
        let request = json!({
            "do": "act", "path": call.path, "short": call.short, "task": call.task, "play": call.play,
            "options": call.options, "search_paths": call.search_paths, "native": call.native,
        });
        self.request_printing(&request, answer, print).map_err(|refusal| refusal.message)
    }
}
