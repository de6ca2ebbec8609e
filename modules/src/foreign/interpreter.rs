//! What runs a module: a program that is named, or a Python that is found.

use std::path::Path;

use super::request::{Protocol, Request};
use crate::{
    Failure, Host,
    process::{self, Command},
};

/// What runs a module.
pub(super) struct Interpreter {
    /// The program and its options; nothing if the module runs itself.
    pub(super) words: Vec<String>,
    /// The Python that was looked for and found.
    pub(super) discovered: Option<String>,
}

/// Whether it is a Python that starts: version managers put programs of its name on the way that only say what to install.
fn starts(python: &Path, host: &Host) -> Result<bool, Failure> {
    host.check_cancelled()?;
    Ok(Command::new(python).arg("--version").run(host).is_ok_and(|output| output.success()))
}

impl Interpreter {
    pub(super) fn choose(request: &Request, host: &Host) -> Result<Interpreter, Failure> {
        if request.candidates.is_empty() {
            if request.interpreter.is_empty() && request.protocol == Protocol::Python {
                return Err(Failure::new(format!("The module {} needs a Python, and none was named.", request.module)));
            }
            return Ok(Interpreter { words: request.interpreter.clone(), discovered: None });
        }
        let mut found = None;
        for path in request.candidates.iter().filter_map(|name| process::find(host, name)) {
            if starts(&path, host)? {
                found = Some(path);
                break;
            }
        }
        let Some(found) = found else {
            return Err(Failure::new(format!(
                "The module {} needs Python on this host, and there is none: looked for {}. Install one (the package is usually named python3), \
                 or name its place in the variable ansible_python_interpreter.",
                request.module,
                request.candidates.join(", ")
            )));
        };
        let path = found.to_string_lossy().into_owned();
        if !request.silent {
            host.warn(format!(
                "modules are run by the Python that was found at {path}; another one that is installed later may be found instead, \
                 which the variable ansible_python_interpreter prevents"
            ));
        }
        // What follows the interpreter in the script's first line stays.
        let options = request.interpreter.iter().skip(1).cloned();
        Ok(Interpreter { words: std::iter::once(path.clone()).chain(options).collect(), discovered: Some(path) })
    }

    /// What to do if it cannot be started.
    pub(super) fn advice(&self) -> String {
        match self.words.first() {
            Some(program) => {
                let name = program.rsplit('/').next().unwrap_or(program);
                let language = if name.starts_with("python") { "python" } else { name };
                format!(
                    "Install {program} on this host, or name another one in the variable ansible_{language}_interpreter."
                )
            }
            None => {
                "It is run as a program of its own, so it must be made for this host's system and processor.".to_owned()
            }
        }
    }
}
