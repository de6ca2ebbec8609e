//! Runs modules on temporary directories: in check mode, for real, and again.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::{
    collections::BTreeMap,
    io::{Cursor, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use serde_json::Value;
use windlass_modules::{Content, Failure, Host, Sink, registry, run};
use windlass_protocol::{Delivery, Event};

/// A controller with contents, which records what it receives.
#[derive(Default)]
pub(crate) struct Controller {
    pub(crate) contents: Vec<Vec<u8>>,
    pub(crate) received: Mutex<Vec<(Event, Vec<u8>)>>,
}

impl Sink for Controller {
    fn event(&self, event: Event, blob: &[u8]) {
        self.received.lock().unwrap().push((event, blob.to_vec()));
    }

    fn content(&self, index: usize) -> Result<Box<dyn Read>, Failure> {
        Ok(Box::new(Cursor::new(self.contents[index].clone())))
    }
}

pub(crate) struct Bench {
    pub(crate) directory: tempfile::TempDir,
    controller: Arc<Controller>,
    descriptions: Vec<Content>,
    environment: BTreeMap<String, String>,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench {
            directory: tempfile::tempdir().unwrap(),
            controller: Arc::default(),
            descriptions: Vec::new(),
            environment: BTreeMap::new(),
        }
    }

    /// Adds a replacement for a system program: a script for `sh`, in which `$ROOT` is the directory.
    pub(crate) fn program(mut self, name: &str, script: &str) -> Bench {
        use std::os::unix::fs::PermissionsExt;
        let folder = self.path("programs");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), format!("#!/bin/sh\n{script}")).unwrap();
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        let usual = std::env::var("PATH").unwrap();
        self.environment.insert("PATH".into(), format!("{}:{usual}", folder.display()));
        self.environment.insert("ROOT".into(), self.directory.path().display().to_string());
        self
    }

    /// Adds files of the controller.
    pub(crate) fn contents(mut self, contents: &[(&str, &str)]) -> Bench {
        use sha1::Digest;
        for (name, text) in contents {
            self.descriptions.push(Content {
                name: (*name).to_owned(),
                size: text.len() as u64,
                sha1: hex::encode(sha1::Sha1::digest(text)),
                sha256: None,
                mode: 0o100751,
                delivery: Delivery::OnDemand,
            });
        }
        let contents = contents.iter().map(|(_, text)| text.as_bytes().to_vec()).collect();
        self.controller = Arc::new(Controller { contents, ..Controller::default() });
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> &Bench {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn mode(&self, name: &str) -> u32 {
        self.path(name).symlink_metadata().unwrap().mode() & 0o7777
    }

    /// All bytes that were sent as a file.
    pub(crate) fn fetched(&self) -> Vec<u8> {
        let received = self.controller.received.lock().unwrap();
        received
            .iter()
            .filter(|(event, _)| matches!(event, Event::FileData))
            .flat_map(|(_, blob)| blob.clone())
            .collect()
    }

    /// Runs a module with diff. `@` in a text argument stands for the directory.
    pub(crate) fn run(&self, module: &str, args: Value, check: bool) -> Value {
        self.run_as_it_is(module, &self.resolve(args), check)
    }

    /// Like `run`, with arguments in which `@` has no special meaning.
    pub(crate) fn run_as_it_is(&self, module: &str, args: &Value, check: bool) -> Value {
        let host = Host::new(Arc::clone(&self.controller) as Arc<dyn Sink>)
            .with_check(check)
            .with_diff(true)
            .with_contents(self.descriptions.clone())
            .with_environment(self.environment.clone());
        let found = registry::find(module).unwrap_or_else(|| panic!("no module {module}"));
        run(found, args, &host)
    }

    fn resolve(&self, value: Value) -> Value {
        match value {
            Value::String(text) => text.replace('@', &self.directory.path().display().to_string()).into(),
            Value::Array(items) => items.into_iter().map(|item| self.resolve(item)).collect(),
            Value::Object(map) => map.into_iter().map(|(key, item)| (key, self.resolve(item))).collect(),
            other => other,
        }
    }

    /// Everything below the directory: type, mode, content or target.
    pub(crate) fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        fn walk(path: &Path, all: &mut BTreeMap<PathBuf, String>) {
            for entry in std::fs::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                let found = path.symlink_metadata().unwrap();
                let mode = format!("{:o}", found.mode());
                let what = if found.is_symlink() {
                    std::fs::read_link(&path).unwrap().display().to_string()
                } else if found.is_dir() {
                    walk(&path, all);
                    String::new()
                } else {
                    String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()
                };
                all.insert(path, format!("{mode} {what}"));
            }
        }
        walk(self.directory.path(), &mut all);
        all
    }

    /// Expects a prediction that changes nothing, a change, and no further change. Returns the result of the change.
    pub(crate) fn converges(&self, module: &str, args: Value) -> Value {
        let before = self.snapshot();
        let predicted = self.run(module, args.clone(), true);
        assert_eq!(predicted["changed"], true, "predicted: {predicted}");
        assert_eq!(predicted.get("failed"), None, "predicted: {predicted}");
        assert_eq!(self.snapshot(), before, "check mode changed something");
        let result = self.run(module, args.clone(), false);
        assert_eq!(result["changed"], true, "result: {result}");
        assert_eq!(result.get("failed"), None, "result: {result}");
        self.rests(module, args);
        result
    }

    /// Expects no change, in check mode and without it.
    pub(crate) fn rests(&self, module: &str, args: Value) -> Value {
        let before = self.snapshot();
        let predicted = self.run(module, args.clone(), true);
        assert_eq!(predicted["changed"], false, "predicted again: {predicted}");
        let result = self.run(module, args, false);
        assert_eq!(result["changed"], false, "again: {result}");
        assert_eq!(result.get("failed"), None, "again: {result}");
        assert_eq!(self.snapshot(), before, "a run without a change changed something");
        result
    }

    /// Expects a failure with this text in the message, and no change.
    pub(crate) fn refuses(&self, module: &str, args: Value, part: &str) -> Value {
        let before = self.snapshot();
        let result = self.run(module, args, false);
        assert_eq!(result["failed"], true, "{result}");
        let message = result["msg"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
        assert_eq!(self.snapshot(), before, "a failure changed something");
        result
    }
}
