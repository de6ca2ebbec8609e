//! The program that releases machines and provides new ones, and the inventory that records them.
//!
//! `PROGRAM release NODE` must make sure that the node's machine does not run any more, and end with 0 only then: two
//! machines with one name would both act for the node. `PROGRAM acquire NODE` starts a machine, waits until SSH
//! answers, and prints its variables as one JSON object:
//!
//! ```json
//! {"ansible_host": "203.0.113.9", "ip": "10.0.0.9"}
//! ```
//!
//! The answer is data: only the variables of [`Machine`], and only addresses and names as values.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_bounds::child::{self, Limits};

use super::replace;
use crate::error::{Error, Result};

/// Maximum size of an answer, in bytes.
const ANSWER: u64 = 64 << 10;

/// Variables of a machine, as an inventory has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Address or name for SSH.
    pub ansible_host: String,
    /// Port for SSH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ansible_port: Option<u16>,
    /// User for SSH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ansible_user: Option<String>,
    /// Address for the traffic of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// IPv6 address for the traffic of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip6: Option<String>,
    /// Address at which other nodes reach this one, if it differs from `ip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_ip: Option<String>,
}

impl Machine {
    fn check(self) -> Result<Machine> {
        let texts = [
            Some(&self.ansible_host),
            self.ansible_user.as_ref(),
            self.ip.as_ref(),
            self.ip6.as_ref(),
            self.access_ip.as_ref(),
        ];
        for text in texts.into_iter().flatten() {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:_-".contains(c);
            if text.is_empty() || text.starts_with('-') || text.len() > 253 || !text.chars().all(is_plain) {
                return Err(Error::new(format!("{text:?} is neither an address nor a name")));
            }
        }
        Ok(self)
    }

    /// The variables by name.
    pub fn variables(&self) -> BTreeMap<String, Value> {
        serde_json::to_value(self).ok().and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }
}

/// Ensures that a node's machine no longer runs.
pub fn release(program: &Path, node: &str) -> Result<()> {
    call(program, "release", node).map(drop)
}

/// Gets a new machine for a node.
pub fn acquire(program: &Path, node: &str) -> Result<Machine> {
    let answer = call(program, "acquire", node)?;
    let fail = |why: String| {
        Error::new(format!("the answer of `{} acquire {node}` cannot be used: {why}", program.display())).hint(
            "print one JSON object with `ansible_host`; it may have `ansible_port`, `ansible_user`, `ip`, `ip6` and `access_ip`",
        )
    };
    let machine: Machine = serde_json::from_slice(&answer).map_err(|error| fail(error.to_string()))?;
    machine.check().map_err(|error| fail(error.message().to_owned()))
}

fn call(program: &Path, verb: &str, node: &str) -> Result<Vec<u8>> {
    let fail = |why: String| Error::new(format!("`{} {verb} {node}` failed: {why}", program.display()));
    let mut command = Command::new(program);
    command.args([verb, node]).stdin(Stdio::null());
    let limits = Limits { output: ANSWER, ..Limits::default() };
    let output = child::run_showing_stderr(&mut command, limits).map_err(|error| fail(error.to_string()))?;
    if output.status.success() { Ok(output.stdout) } else { Err(fail(output.status.to_string())) }
}

/// An inventory of replaced machines. Its JSON is YAML too.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inventory {
    all: Hosts,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hosts {
    hosts: BTreeMap<String, Machine>,
}

/// Records a node's new machine in the inventory file `path`, which later runs read after all others.
pub fn record(path: &Path, node: &str, machine: &Machine) -> Result<()> {
    let mut inventory = match windlass_bounds::read_text(path) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| Error::new(format!("{} is damaged or was edited: {error}", path.display())))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Inventory::default(),
        Err(error) => return Err(Error::new(format!("{} cannot be read: {error}", path.display()))),
    };
    inventory.all.hosts.insert(node.to_owned(), machine.clone());
    let text = serde_json::to_string_pretty(&json!(inventory)).map_err(|error| Error::new(error.to_string()))?;
    replace(path, &format!("{text}\n"), 0o644)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(folder: &Path, text: &str) -> std::path::PathBuf {
        let path = folder.join("machines");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn machine_is_recorded_beside_earlier_ones() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(
            folder.path(),
            r#"[ "$1" = acquire ] && echo "{\"ansible_host\": \"192.0.2.9\", \"ip\": \"10.0.0.9\"}""#,
        );
        let path = folder.path().join("machines.yml");
        for node in ["node1", "node2"] {
            let machine = acquire(&program, node).unwrap();
            record(&path, node, &machine).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["all"]["hosts"]["node1"], json!({"ansible_host": "192.0.2.9", "ip": "10.0.0.9"}));
        assert!(value["all"]["hosts"]["node2"].is_object());
    }

    #[test]
    fn answer_with_other_variables_or_code_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for answer in [
            r#"{"ansible_host": "{{ lookup('pipe', 'id') }}"}"#,
            r#"{"ansible_host": "-oProxyCommand=id"}"#,
            r#"{"ansible_host": "192.0.2.9", "ansible_ssh_common_args": "-o ProxyCommand=id"}"#,
            r#"{"ansible_host": "192.0.2.9", "ansible_connection": "local"}"#,
            "[]",
            "",
        ] {
            fs::write(folder.path().join("answer"), answer).unwrap();
            let program = program(folder.path(), r#"cat "$(dirname "$0")/answer""#);
            let error = acquire(&program, "node1").unwrap_err();
            assert!(error.message().contains("cannot be used"), "{answer}: {error}");
        }
    }

    #[test]
    fn machine_that_is_not_taken_away_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = release(&program(folder.path(), "exit 3"), "node1").unwrap_err();
        assert!(error.message().contains("release node1` failed"), "{error}");
    }
}
