//! Foreign modules: scripts, programs and packed Python modules from the controller, run by Ansible's protocols.
//!
//! A foreign module has no [`Spec`](crate::Spec). It checks its own arguments, handles check mode itself, and prints
//! its result.

mod answer;
mod interpreter;
mod request;
mod store;

use std::path::Path;

use serde_json::{Map, Value, json};

pub(crate) use request::{python_repr, python_text};
pub(crate) use store::Store;

use crate::{Failure, Host, files::scratch::Scratch, process::Command};
use interpreter::Interpreter;
use request::{Protocol, Request};

/// Module name in requests for a foreign module.
pub const NAME: &str = "windlass.foreign";

/// Largest output, in bytes, that counts as a result.
const LARGEST_ANSWER: usize = 48 << 20;

/// The display name of the requested module.
pub(crate) fn title(module: &str, arguments: &Value) -> String {
    let own = arguments.get("module").and_then(Value::as_str).filter(|_| module == NAME);
    own.unwrap_or(module).to_owned()
}

/// Runs the foreign module in the request. Returns its result, failed or not.
pub fn run(arguments: &Value, host: &Host) -> Value {
    let outcome = Request::read(arguments).and_then(|request| execute(&request, host));
    outcome.unwrap_or_else(|failure| {
        let mut result = failure.data;
        result.insert("changed".into(), false.into());
        result.insert("failed".into(), true.into());
        result.insert("msg".into(), failure.message.into());
        result.into()
    })
}

fn execute(request: &Request, host: &Host) -> Result<Value, Failure> {
    let interpreter = Interpreter::choose(request, host)?;
    let stored = host.store.get(host, request.protocol == Protocol::Python)?;
    let scratch = Scratch::executable()?;
    let mut arguments = request.arguments.clone();
    arguments.insert("_ansible_tmpdir".into(), scratch.path().to_string_lossy().into());
    let mut words = interpreter.words.clone();
    let mut input = Vec::new();
    let file = scratch.path().join(&request.file);
    match request.protocol {
        Protocol::Python => {
            words.extend([path_text(&stored), request.python_name.clone(), request.open_files.to_string()]);
            input = json!({ "ANSIBLE_MODULE_ARGS": arguments }).to_string().into_bytes();
        }
        Protocol::JsonInText => {
            write(&file, &request::filled_in(&read(&stored)?, &arguments))?;
            words.push(path_text(&file));
        }
        Protocol::JsonFile | Protocol::KeyValueFile => {
            // A script may read itself by its name, and no two runs share a file that one of them could change.
            std::fs::copy(&stored, &file).map_err(|error| unwritable(&file, &error))?;
            let given = scratch.path().join("args");
            let text = match request.protocol {
                Protocol::KeyValueFile => request::key_values(&arguments),
                _ => Value::Object(arguments).to_string(),
            };
            write(&given, text.as_bytes())?;
            words.extend([path_text(&file), path_text(&given)]);
        }
    }
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    let shown = request.module.clone();
    let output = Command::new(&program).args(words).input(input).keep(LARGEST_ANSWER).run(host).map_err(|failure| {
        let message = format!("The module {shown} could not be started: {} {}", failure.message, interpreter.advice());
        Failure { message, data: failure.data }
    })?;
    let mut result = answer::read(&shown, &output, host);
    if let (Some(found), Some(map)) = (&interpreter.discovered, result.as_object_mut()) {
        let facts = map.entry("ansible_facts").or_insert_with(|| Map::new().into());
        if let Some(facts) = facts.as_object_mut() {
            facts.insert("discovered_interpreter_python".into(), found.as_str().into());
        }
    }
    Ok(result)
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::new(format!("{} cannot be read: {error}.", path.display())))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let open = std::fs::File::options().write(true).create_new(true).mode(0o700).open(path);
    open.and_then(|mut file| file.write_all(bytes)).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("The module could not be written to {}: {}.", path.display(), crate::process::reason(error)))
}

#[cfg(test)]
mod tests;
