//! Runs modules as a user sees them.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, path::Path};

use serde_json::Value;
use windlass_modules::{Host, registry, run};

/// Runs a module for real.
pub(crate) fn apply(module: &str, args: Value) -> Value {
    run(registry::find(module).unwrap(), &args, &Host::alone().with_diff(true))
}

/// Runs a module in check mode.
pub(crate) fn predict(module: &str, args: Value) -> Value {
    run(registry::find(module).unwrap(), &args, &Host::alone().with_check(true).with_diff(true))
}

pub(crate) fn changed(result: &Value) -> bool {
    result.get("changed").and_then(Value::as_bool).unwrap_or_else(|| panic!("no changed in {result}"))
}

/// Checks that a prediction changes nothing below `root`, the run matches it, and a second run changes nothing.
pub(crate) fn converges(module: &str, args: Value, root: &Path) -> Value {
    let before = tree(root);
    let predicted = predict(module, args.clone());
    assert_eq!(tree(root), before, "check mode of {module} with {args} changed something");
    let result = apply(module, args.clone());
    assert!(result.get("failed").is_none(), "{module} with {args}: {result}");
    assert_eq!(changed(&predicted), changed(&result), "{module} with {args}: {predicted} and then {result}");
    let after = tree(root);
    assert_eq!(changed(&result), before != after, "{module} with {args}: {result}\n{before:?}\n{after:?}");
    let again = apply(module, args.clone());
    assert!(!changed(&again), "a second run of {module} with {args}: {again}");
    assert_eq!(tree(root), after, "a second run of {module} with {args} changed something");
    result
}

/// The message of a run that must fail and leave everything below `root` unchanged.
pub(crate) fn fails(module: &str, args: Value, root: &Path) -> String {
    let before = tree(root);
    let result = apply(module, args.clone());
    assert_eq!(result.get("failed"), Some(&true.into()), "{module} with {args}: {result}");
    assert_eq!(tree(root), before, "a failed run of {module} with {args} changed something");
    result["msg"].as_str().unwrap().to_owned()
}

/// Everything below a directory: type, permissions, content.
pub(crate) fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect(root, root, &mut found);
    found
}

fn collect(root: &Path, directory: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let content = if metadata.is_dir() {
            collect(root, &path, found);
            "directory".to_owned()
        } else if metadata.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
        };
        found.insert(name, format!("{:o} {}:{} {content}", metadata.mode(), metadata.uid(), metadata.gid()));
    }
}
