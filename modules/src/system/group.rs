//! `group`: groups of the host.

use crate::{
    Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    accounts::{self, Group as Known},
    process::Command,
};

/// The `group` module.
pub struct Group;

static SPEC: Spec = Spec {
    name: "group",
    summary: "Manage groups",
    description: &["Adds, changes and removes groups with groupadd, groupmod and groupdel."],
    options: &[
        Opt::required("name", Kind::Str, "Name of the group.").word(),
        Opt::new("gid", Kind::Int, "Group id (GID)."),
        Opt::new("state", Kind::Str, "`present` creates or changes the group, `absent` removes it.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("system", Kind::Bool, "Give a new group a GID from the range of system groups.").default("false"),
        Opt::new("non_unique", Kind::Bool, "Allow a GID that another group has.").default("false"),
        Opt::new("local", Kind::Bool, "Consider only groups in the host's own files, not in a directory service.")
            .default("false"),
        Opt::new("force", Kind::Bool, "Remove a group even if it is the primary group of a user.").default("false"),
        Opt::new("gid_min", Kind::Int, "Smallest GID for a new group."),
        Opt::new("gid_max", Kind::Int, "Largest GID for a new group."),
    ],
    required_if: &[("non_unique", "True", &["gid"])],
    examples: "- name: A group for etcd\n  ansible.builtin.group:\n    name: etcd\n    system: true\n",
    returns: &[
        Return { name: "name", kind: "str", when: "always", doc: "Name of the group." },
        Return { name: "gid", kind: "int", when: "the group exists", doc: "Group id (GID)." },
        Return { name: "system", kind: "bool", when: "present", doc: "Value of `system`." },
        Return { name: "state", kind: "str", when: "always", doc: "Value of `state`." },
    ],
    ..Spec::EMPTY
}
.compiled();

fn find(name: &str, local: bool) -> Option<Known> {
    if local {
        accounts::local_groups().into_iter().find(|group| group.name == name)
    } else {
        accounts::group_by_name(name)
    }
}

/// The command that changes the group to the requested state; `None` if nothing differs.
fn command(args: &Args, known: Option<&Known>) -> Result<Option<Vec<String>>, Failure> {
    let name = args.required("name")?.to_owned();
    let number = |option: &str| args.int(option).map(|number| number.to_string());
    let gid = number("gid");
    let mut words: Vec<String> = Vec::new();
    if args.str("state") == Some("absent") {
        if known.is_none() {
            return Ok(None);
        }
        words.push("groupdel".into());
        if args.bool("force") {
            words.push("-f".into());
        }
    } else {
        match known {
            None => {
                words.push("groupadd".into());
                if args.bool("system") {
                    words.push("-r".into());
                }
                for (option, key) in [("gid_min", "GID_MIN"), ("gid_max", "GID_MAX")] {
                    if let Some(value) = number(option) {
                        words.extend(["-K".to_owned(), format!("{key}={value}")]);
                    }
                }
            }
            Some(known) if gid.as_ref().is_some_and(|gid| *gid != known.gid.to_string()) => {
                words.push("groupmod".into())
            }
            Some(_) => return Ok(None),
        }
        if let Some(gid) = gid {
            words.extend(["-g".to_owned(), gid]);
            if args.bool("non_unique") {
                words.push("-o".into());
            }
        }
    }
    words.push(name);
    Ok(Some(words))
}

impl Module for Group {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?.to_owned();
        if name.is_empty() || name.starts_with('-') || name.contains([':', '\n', ',']) {
            return Err(Failure::new(format!("{name:?} is not a name for a group.")));
        }
        let local = args.bool("local");
        for option in ["gid_min", "gid_max"] {
            if local && args.int(option).is_some() {
                return Err(Failure::new(format!("'{option}' can not be used with 'local'")));
            }
        }
        if local && args.bool("force") {
            return Err(Failure::new("'force' can not be used with 'local'"));
        }
        let known = find(&name, local);
        let state = args.str("state").unwrap_or("present").to_owned();
        let present = state == "present";
        let plan = match command(args, known.as_ref())? {
            None => Plan::unchanged(),
            Some(words) => {
                let name = name.clone();
                Plan::change(move |host: &Host, outcome: &mut Outcome| {
                    let Some((program, rest)) = words.split_first() else { return Ok(()) };
                    let output = Command::new(program).plain_locale().args(rest).run(host)?;
                    if !output.success() {
                        let said = output.stderr_text();
                        return Err(Failure::new(said.trim()).with("name", name));
                    }
                    match find(&name, local) {
                        Some(group) => outcome.set("gid", group.gid),
                        None => _ = outcome.data.remove("gid"),
                    }
                    Ok(())
                })
            }
        };
        let known = known.filter(|_| present);
        if host.check() && plan.is_change() && known.is_none() {
            // Check mode predicts no further values for a group that would be created or removed.
            return Ok(plan);
        }
        let plan = plan.with("name", name).with("state", state);
        let plan = if present { plan.with("system", args.bool("system")) } else { plan };
        Ok(match known {
            Some(known) => plan.with("gid", known.gid),
            None => plan,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(arguments: serde_json::Value, known: Option<&Known>) -> Option<String> {
        let args = Args::validate(&SPEC, &arguments, &Host::alone()).unwrap();
        command(&args, known).unwrap().map(|words| words.join(" "))
    }

    #[test]
    fn group_created_changed_and_removed() {
        let etcd = Known { name: "etcd".into(), gid: 999, members: Vec::new() };
        assert_eq!(words(json!({"name": "etcd", "system": true}), None).as_deref(), Some("groupadd -r etcd"));
        assert_eq!(words(json!({"name": "etcd", "gid": 999}), Some(&etcd)), None);
        assert_eq!(
            words(json!({"name": "etcd", "gid": 1000, "non_unique": true}), Some(&etcd)).as_deref(),
            Some("groupmod -g 1000 -o etcd")
        );
        assert_eq!(words(json!({"name": "etcd", "state": "absent"}), Some(&etcd)).as_deref(), Some("groupdel etcd"));
        assert_eq!(words(json!({"name": "etcd", "state": "absent"}), None), None);
    }

    #[test]
    fn gid_range_and_force_refused_for_local_groups() {
        for option in ["gid_min", "gid_max", "force"] {
            let arguments = json!({"name": "etcd", "local": true, option: 1});
            let result = crate::run(&Group, &arguments, &Host::alone().with_check(true));
            assert_eq!(result["msg"], format!("'{option}' can not be used with 'local'"));
        }
    }

    #[test]
    fn existing_group_unchanged() {
        let result = crate::run(&Group, &json!({"name": "root"}), &Host::alone());
        assert_eq!((result["changed"].clone(), result["gid"].clone()), (json!(false), json!(0)));
    }
}
