use std::{thread::JoinHandle, time::Duration};

use serde_json::{Value, json};

use super::{Facts, probe};
use crate::{Host, process};

/// The question. Without site packages Python answers in a few milliseconds.
const QUESTION: &str = "import sys,json,importlib.util as u\nprint(json.dumps([sys.executable,list(sys.version_info),sys.implementation.name,u.find_spec('_ssl') is not None]))";

/// What Python answers while other facts are gathered.
pub(super) struct Asked(JoinHandle<Option<Value>>);

/// Asks the host's Python, if it has one.
pub(super) fn ask(limit: Duration, host: &Host) -> Option<Asked> {
    let program = process::find(host, "python3")?.display().to_string();
    Some(Asked(std::thread::spawn(move || {
        let answer = probe::ask(&program, &["-I", "-S", "-c", QUESTION], limit).filter(|answer| answer.rc == 0)?;
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
