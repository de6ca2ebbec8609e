//! `getent`: reads entries of the host's name services.

use serde_json::Value;

use crate::{Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec, process::Command};

/// The `getent` module.
pub struct Getent;

static SPEC: Spec = Spec {
    name: "getent",
    summary: "Read entries of the host's name services",
    description: &[
        "Runs the program `getent` for users, groups, hosts, services and other databases. Stores the answer in the \
         fact `getent_<database>`, which maps the first field of each entry to the list of its other fields.",
    ],
    options: &[
        Opt::required("database", Kind::Str, "Database, such as `passwd`, `group`, `hosts` or `services`.").word(),
        Opt::new("key", Kind::Str, "Entry to read. Default: all entries.").word(),
        Opt::new(
            "service",
            Kind::Str,
            "Service to query, such as `files`. Default: the services in the host's configuration.",
        )
        .word(),
        Opt::new(
            "split",
            Kind::Str,
            "Separator of fields. Default: a colon for users and groups, otherwise whitespace.",
        ),
        Opt::new("fail_key", Kind::Bool, "Fail if the entry does not exist.").default("true"),
    ],
    examples: "- name: Check whether the user exists\n  ansible.builtin.getent:\n    database: passwd\n    key: app\n    fail_key: false\n",
    returns: &[Return { name: "ansible_facts", kind: "dict", when: "success", doc: "Fact `getent_<database>`." }],
    ..Spec::EMPTY
}
.compiled();

impl Module for Getent {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let (database, key) = (args.required("database")?, args.str("key"));
        let colons = matches!(database, "passwd" | "shadow" | "group" | "gshadow");
        let split = args.str("split").or(colons.then_some(":"));
        let mut command = Command::new("getent").plain_locale().arg(database);
        if let Some(key) = key {
            command = command.arg(key);
        }
        if let Some(service) = args.str("service") {
            command = command.args(["-s", service]);
        }
        let output = command.run(host)?;
        let facts = |entries: Map| {
            let mut facts = Map::new();
            facts.insert(format!("getent_{database}"), entries.into());
            facts
        };
        let message = match output.rc {
            0 => {
                let entries = entries(&output.stdout_text(), split);
                return Ok(Plan::unchanged().with("ansible_facts", facts(entries)));
            }
            1 => "Missing arguments, or database unknown.",
            2 => "One or more supplied key could not be found in the database.",
            3 => "Enumeration not supported on this database.",
            _ => "Unexpected failure!",
        };
        match key {
            Some(key) if output.rc == 2 && !args.bool("fail_key") => {
                let mut missing = Map::new();
                missing.insert(key.to_owned(), Value::Null);
                Ok(Plan::unchanged().with("ansible_facts", facts(missing)).with("msg", message))
            }
            _ => Err(Failure::new(message)),
        }
    }
}

/// Entries by their first field. A repeated entry becomes a list of lists.
fn entries(text: &str, split: Option<&str>) -> Map {
    let mut entries = Map::new();
    let mut several: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut fields: Vec<String> = match split {
            Some(separator) => line.split(separator).map(str::to_owned).collect(),
            None => line.split_whitespace().map(str::to_owned).collect(),
        };
        let name = fields.remove(0);
        let fields = Value::from(fields);
        match entries.get_mut(&name) {
            None => {
                entries.insert(name, fields);
            }
            Some(Value::Array(lists)) if several.contains(&name) => lists.push(fields),
            Some(first) => {
                *first = Value::Array(vec![first.take(), fields]);
                several.push(name);
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_split_by_fields_repeated_names_listed() {
        let found = entries("root:x:0\nbin:x:1\n", Some(":"));
        assert_eq!(Value::from(found), json!({ "root": ["x", "0"], "bin": ["x", "1"] }));
        let found = entries("::1  a b\n::1 c\n::1 d\n1.1.1.1 e\n", None);
        assert_eq!(Value::from(found), json!({ "::1": [["a", "b"], ["c"], ["d"]], "1.1.1.1": ["e"] }));
    }
}
