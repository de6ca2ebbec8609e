use std::time::Duration;

use serde_json::json;

use super::{Facts, Root, probe};

/// What the interpreter says of itself, as one line of JSON; without the site's packages it answers in a hundredth of a second.
const QUESTION: &str =
    "import json,sys;print(json.dumps([sys.executable,list(sys.version_info),sys.implementation.name]))";

/// `python` and `python_version`: the host's Python, if it has one. Nothing here is run by it, but playbooks choose packages by its version.
pub(crate) fn collect(root: &Root, limit: Duration, facts: &mut Facts) {
    let Some(program) = root.program("python3") else { return };
    let Some(answer) = probe::ask(&program, &["-I", "-S", "-c", QUESTION], limit) else { return };
    let said: serde_json::Value = serde_json::from_str(answer.stdout.trim()).unwrap_or_default();
    let [executable, version, implementation] =
        ["/0", "/1", "/2"].map(|at| said.pointer(at).cloned().unwrap_or_default());
    let part = |at: usize| version.get(at).cloned().unwrap_or_default();
    if !version.is_array() {
        return;
    }
    facts.set("python_version", format!("{}.{}.{}", part(0), part(1), part(2)));
    facts.set(
        "python",
        json!({
            "version": {"major": part(0), "minor": part(1), "micro": part(2), "releaselevel": part(3), "serial": part(4)},
            "version_info": version,
            "executable": executable,
            "has_sslcontext": true,
            "type": implementation,
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_python_is_asked_for_its_version() {
        let root = Root::host();
        let mut facts = Facts::default();
        collect(&root, Duration::from_secs(20), &mut facts);
        if root.program("python3").is_some() {
            assert!(facts.text("python_version").is_some_and(|version| version.starts_with("3.")));
            assert_eq!(facts.value("python").and_then(|python| python.pointer("/version/major")), Some(&json!(3)));
        }
    }
}
