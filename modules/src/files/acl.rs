//! `acl`: access control lists (ACLs) of files.

use super::way::Place;
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    process::{Command, reason},
};

/// The `acl` module.
pub struct Acl;

static SPEC: Spec = Spec {
    name: "acl",
    collection: "ansible.posix",
    summary: "Manage access control lists of files",
    description: &["Sets or removes one entry with `setfacl`, or returns the existing entries."],
    options: &[
        Opt::required("path", Kind::Path, "Path of the file or folder.").word().aliases(&["name"]),
        Opt::new(
            "state",
            Kind::Str,
            "`present` sets the entry, `absent` removes it, `query` only returns the entries.",
        )
        .default("\"query\"")
        .choices(&["absent", "present", "query"]),
        Opt::new("etype", Kind::Str, "Type of the entry.").choices(&["group", "mask", "other", "user"]),
        Opt::new("entity", Kind::Str, "Name of the user or group.").default("\"\""),
        Opt::new("permissions", Kind::Str, "Permissions, such as `rwx`, `rX` or `r-x`."),
        Opt::new(
            "entry",
            Kind::Str,
            "Entry as one text, `etype:entity:permissions`, optionally prefixed with `default:`.",
        ),
        Opt::new("default", Kind::Bool, "Set a default entry, which new files in the folder inherit.").default("false"),
        Opt::new("follow", Kind::Bool, "Follow symbolic links.").default("true"),
        Opt::new("recursive", Kind::Bool, "Apply to everything below the folder too.")
            .aliases(&["recurse"])
            .default("false"),
        Opt::new("recalculate_mask", Kind::Str, "Recalculation of the mask.")
            .default("\"default\"")
            .choices(&["default", "mask", "no_mask"]),
        Opt::new(
            "use_nfsv4_acls",
            Kind::Bool,
            "No effect, because NFSv4 ACLs are not supported; accepted for compatibility.",
        )
        .default("false"),
    ],
    examples: "- name: Ada may read the logs\n  ansible.posix.acl:\n    path: /var/log/app\n    entity: ada\n    etype: user\n    permissions: rX\n    state: present\n",
    returns: &[Return { name: "acl", kind: "list", when: "success", doc: "ACL entries of the path." }],
    ..Spec::EMPTY
};

/// A requested entry.
struct Entry {
    default: bool,
    kind: String,
    entity: String,
    permissions: Option<String>,
}

impl Entry {
    fn of(args: &Args, absent: bool) -> Result<Entry, Failure> {
        let Some(text) = args.str("entry") else {
            let kind = args.str("etype").ok_or_else(|| Failure::new("'etype' or 'entry' must be given."))?;
            return Ok(Entry {
                default: args.bool("default"),
                kind: kind.to_owned(),
                entity: args.str("entity").unwrap_or_default().to_owned(),
                permissions: args.str("permissions").filter(|_| !absent).map(str::to_owned),
            });
        };
        if args.str("etype").is_some()
            || args.str("entity").is_some_and(|entity| !entity.is_empty())
            || args.str("permissions").is_some()
        {
            return Err(Failure::new("'entry' MUST NOT be set when 'entity', 'etype' or 'permissions' are set."));
        }
        let mut fields: Vec<&str> = text.split(':').collect();
        let default = args.bool("default") || matches!(fields.first(), Some(&("d" | "default")));
        if matches!(fields.first(), Some(&("d" | "default"))) {
            fields.remove(0);
        }
        let (kind, entity, permissions) = match fields.as_slice() {
            [kind, entity, permissions] if !absent => (*kind, *entity, Some((*permissions).to_owned())),
            [kind, entity] if absent => (*kind, *entity, None),
            _ => {
                return Err(Failure::new(format!(
                    "'entry' MUST have {} sections divided by ':', besides 'default:': {text}",
                    if absent { 2 } else { 3 }
                )));
            }
        };
        let kind = match kind {
            "u" | "user" => "user",
            "g" | "group" => "group",
            "m" | "mask" => "mask",
            "o" | "other" => "other",
            other => {
                return Err(Failure::new(format!("'{other}' in the entry is neither user, group, mask nor other.")));
            }
        };
        Ok(Entry { default, kind: kind.to_owned(), entity: entity.to_owned(), permissions })
    }

    fn text(&self) -> String {
        let start = if self.default { "default:" } else { "" };
        let end = self.permissions.as_ref().map(|permissions| format!(":{permissions}")).unwrap_or_default();
        format!("{start}{}:{}{end}", self.kind, self.entity)
    }
}

impl Module for Acl {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let path = args.required("path")?.to_owned();
        if args.bool("use_nfsv4_acls") {
            return Err(Failure::new(
                "use_nfsv4_acls is not supported: use the program nfs4_setfacl by the command module.",
            ));
        }
        if std::fs::symlink_metadata(&path).is_err() {
            return Err(Failure::new("Path not found or not accessible.").with("path", path));
        }
        let (recursive, follow) = (args.bool("recursive"), args.bool("follow"));
        let state = args.required("state")?;
        if state == "query" {
            if args.str("recalculate_mask").is_some_and(|mask| mask != "default") {
                return Err(Failure::new(
                    "'recalculate_mask' MUST NOT be set to 'mask' or 'no_mask' when 'state=query'.",
                ));
            }
            let mut options = Vec::new();
            options.extend(args.bool("default").then_some("-d"));
            options.extend((!follow).then_some("--physical"));
            return Ok(Plan::unchanged().with("acl", list(&options, &path, host)?).with("msg", "current acl"));
        }
        if recursive && !std::path::Path::new(&path).is_dir() && std::path::Path::new(&path).is_file() {
            return Err(Failure::new("recursive is for folders only.").with("path", path));
        }
        if let Err(error) = Place::to_write(std::path::Path::new(&path), follow) {
            return Err(Failure::new(format!("{path} cannot be changed: {}.", reason(&error))).with("path", path));
        }
        let absent = state == "absent";
        let entry = Entry::of(args, absent)?;
        if !absent && entry.permissions.as_deref().is_none_or(str::is_empty) {
            return Err(Failure::new("'state=present' needs 'permissions', or an 'entry' that has them."));
        }
        let mut words: Vec<String> = Vec::new();
        match args.str("recalculate_mask") {
            Some("mask") => words.push("--mask".into()),
            Some("no_mask") => words.push("--no-mask".into()),
            _ => {}
        }
        let mut shown = Vec::new();
        shown.extend(entry.default.then_some("-d"));
        for (is_given, word) in [(recursive, "--recursive"), (!follow, "--physical")] {
            shown.extend(is_given.then_some(word));
            words.extend(is_given.then(|| word.to_owned()));
        }
        words.extend([if absent { "-x" } else { "-m" }.to_owned(), entry.text()]);
        // setfacl itself predicts the resulting entries.
        let test = Command::new("setfacl").plain_locale().arg("--test").args(words.clone()).arg(&path).run(host)?;
        let text = test.stdout_text();
        if !test.success() {
            let words = ["setfacl".to_owned(), path];
            return Err(Failure { message: test.stderr_text().trim().to_owned(), ..test.failure(&words) });
        }
        let changes = text.lines().any(|line| !line.ends_with("*,*"));
        let text = entry.text();
        let own = text.strip_prefix("default:").unwrap_or(&text);
        let msg = format!("{own} {}", if absent { "is absent" } else { "is present" });
        let acl = list(&shown, &path, host)?;
        let plan = if changes {
            Plan::change(move |host, outcome| {
                Command::new("setfacl").plain_locale().args(words).arg(&path).check_run(host)?;
                outcome.set("acl", list(&shown, &path, host)?);
                Ok(())
            })
        } else {
            Plan::unchanged()
        };
        Ok(plan.with("msg", msg).with("acl", acl))
    }
}

/// The entries of a path. Entries of several paths are separated by empty lines.
fn list(options: &[&str], path: &str, host: &Host) -> Result<Vec<String>, Failure> {
    let command = Command::new("getfacl").plain_locale().args(["--absolute-names", "--omit-header"]);
    let text = command.args(options.iter().copied()).arg(path).check_run(host)?.stdout_text();
    Ok(text.trim_end().lines().map(|line| line.trim().to_owned()).collect())
}
