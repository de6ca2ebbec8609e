//! Finds the interpreter of a module: a named program, or a detected Python.

use std::path::Path;

use super::request::{Protocol, Request};
use crate::{
    Failure, Host,
    process::{self, Command},
};

/// The interpreter of a module.
pub(super) struct Interpreter {
    /// Program and options; empty if the module runs itself.
    pub(super) words: Vec<String>,
    /// The Python that was detected.
    pub(super) discovered: Option<String>,
}

/// Whether this Python starts. Version managers install programs of that name that only print what to install.
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
                "The module {} needs Python on this host, but none was found: looked for {}. Install one (the package is usually named python3), \
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
        // Options of the interpreter in the script's first line are kept.
        let options = request.interpreter.iter().skip(1).cloned();
        Ok(Interpreter { words: std::iter::once(path.clone()).chain(options).collect(), discovered: Some(path) })
    }

    /// Remedy if the interpreter cannot be started.
    pub(super) fn advice(&self) -> String {
        match self.words.first() {
            Some(program) => {
                let name = program.rsplit('/').next().unwrap_or(program);
                let language = if name.starts_with("python") { "python" } else { name };
                format!(
                    "Install {program} on this host, or name another one in the variable ansible_{language}_interpreter."
                )
            }
            None => "It runs as a program itself, so it must be built for this host's system and processor.".to_owned(),
        }
    }
}
