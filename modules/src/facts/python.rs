//! `ansible_python`: the Python of the host, asked by a script while other facts are gathered.

use std::{thread::JoinHandle, time::Duration};

use serde_json::{Value, json};

use super::{Facts, probe};
use crate::{Host, process};

/// Script to run. Without site packages, Python answers in a few milliseconds.
const QUESTION: &str = "import sys,json,importlib.util as u\nprint(json.dumps([sys.executable,list(sys.version_info),sys.implementation.name,u.find_spec('_ssl') is not None]))";

/// A query to Python that runs while other facts are gathered.
pub(super) struct Asked(JoinHandle<Option<Value>>);

/// Starts a query to a Python, possibly given with arguments, if the host has it.
pub(super) fn ask(named: &str, limit: Duration, host: &Host) -> Option<Asked> {
    let mut words = shell_words::split(named).ok()?.into_iter();
    let program = process::find(host, &words.next()?)?.display().to_string();
    let given: Vec<String> = words.collect();
    Some(Asked(std::thread::spawn(move || {
        let arguments: Vec<&str> = given.iter().map(String::as_str).chain(["-I", "-S", "-c", QUESTION]).collect();
        let answer = probe::ask(&program, &arguments, limit).filter(|answer| answer.rc == 0)?;
        serde_json::from_str(&answer.stdout).ok()
    })))
}

/// `python` and `python_version`.
pub(super) fn collect(asked: Option<Asked>, facts: &mut Facts) {
    let answer = asked.and_then(|asked| asked.0.join().ok().flatten());
    let Some([executable, version, kind, ssl]) = answer.as_ref().and_then(Value::as_array).map(Vec::as_slice) else {
        return;
    };
    let Some([major, minor, micro, level, serial]) = version.as_array().map(Vec::as_slice) else { return };
    facts.set(
        "python",
        json!({
            "executable": executable,
            "has_sslcontext": ssl,
            "type": kind,
            "version": { "major": major, "minor": minor, "micro": micro, "releaselevel": level, "serial": serial },
            "version_info": version,
        }),
    );
    facts.set("python_version", format!("{major}.{minor}.{micro}"));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn python_given_by_name_reported() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("my python");
        std::fs::write(&program, "#!/bin/sh\necho '[\"'$1'\", [3, 9, 1, \"final\", 0], \"cpython\", true]'\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let named = format!("'{}' --own", program.display());
        let mut facts = Facts::default();
        collect(ask(&named, Duration::from_secs(10), &Host::alone()), &mut facts);
        assert_eq!(facts.text("python_version"), Some("3.9.1"));
        assert_eq!(facts.value("python").unwrap()["executable"], "--own");
        assert!(ask("/nowhere/python", Duration::from_secs(1), &Host::alone()).is_none());
    }
}
