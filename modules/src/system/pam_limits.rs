//! `pam_limits`: resource limits of users and groups.

use super::config_file;
use crate::{Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

/// The `pam_limits` module.
pub struct PamLimits;

static SPEC: Spec = Spec {
    name: "pam_limits",
    collection: "community.general",
    summary: "Manage resource limits of users and groups",
    description: &["Sets one limit in /etc/security/limits.conf. It applies from the next login."],
    options: &[
        Opt::required("domain", Kind::Str, "User, `@group`, or `*` for everybody.").line(),
        Opt::required("limit_type", Kind::Str, "Type of the limit; `-` sets both.").choices(&["soft", "hard", "-"]),
        Opt::required("limit_item", Kind::Str, "Resource to limit.").line().choices(&[
            "core",
            "data",
            "fsize",
            "memlock",
            "nofile",
            "rss",
            "stack",
            "cpu",
            "nproc",
            "as",
            "maxlogins",
            "maxsyslogins",
            "priority",
            "locks",
            "sigpending",
            "msgqueue",
            "nice",
            "rtprio",
            "chroot",
        ]),
        Opt::required("value", Kind::Str, "Limit: a number, `unlimited`, `infinity` or `-1`.").line(),
        Opt::new("use_max", Kind::Bool, "Keep an existing limit that is larger.").default("false"),
        Opt::new("use_min", Kind::Bool, "Keep an existing limit that is smaller.").default("false"),
        Opt::new("backup", Kind::Bool, "Keep a copy of the old file, with a timestamp in its name.").default("false"),
        Opt::new("dest", Kind::Str, "Path of the file.").default("\"/etc/security/limits.conf\""),
        Opt::new("comment", Kind::Str, "Comment to add to the line.").line().default("\"\""),
    ],
    examples: "- name: Many open files\n  community.general.pam_limits:\n    domain: app\n    limit_type: soft\n    limit_item: nofile\n    value: 64000\n",
    returns: &[
        Return { name: "msg", kind: "str", when: "always", doc: "Line that sets the limit." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the copy of the old file.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

const WITHOUT_END: &[&str] = &["unlimited", "infinity", "-1"];

/// The limit to set, given the existing one. An unlimited value is the largest.
fn chosen(wanted: &str, known: &str, largest: bool, smallest: bool, negative: bool) -> Result<String, Failure> {
    let size = |text: &str| -> Result<i128, Failure> {
        if WITHOUT_END.contains(&text) && !(negative && text == "-1") {
            return Ok(i128::MAX);
        }
        text.parse().map_err(|_| Failure::new(format!("Invalid configuration: {text} is not a limit.")))
    };
    let (new, old) = (size(wanted)?, size(known)?);
    let keep = largest && old > new || smallest && old < new;
    Ok(if keep { known } else { wanted }.to_owned())
}

impl Module for PamLimits {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        args.str("dest").map(Into::into)
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let value = args.required("value")?;
        let item = args.required("limit_item")?;
        let number = value.parse::<i64>().ok();
        let wanted = match item {
            "nice" | "priority" if !number.is_some_and(|number| (-20..=19).contains(&number)) => {
                "Value must be a number in the range -20 to 19 inclusive."
            }
            "nice" | "priority" => "",
            _ if WITHOUT_END.contains(&value) || number.is_some_and(|number| number >= 0) => "",
            _ => {
                "Value must either be 'unlimited', 'infinity' or -1, all of which indicate no limit, or a limit of 0 or larger."
            }
        };
        if !wanted.is_empty() {
            return Err(Failure::new(format!(
                " Value of '{value}' for item '{item}' is invalid. {wanted} Refer to the limits.conf(5) manual pages for more details."
            )));
        }
        let (largest, smallest) = (args.bool("use_max"), args.bool("use_min"));
        if largest && smallest {
            return Err(Failure::new("Cannot use use_min and use_max at the same time."));
        }
        let dest = args.required("dest")?.to_owned();
        let folder = std::path::Path::new(&dest).parent();
        if folder.is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
            return Err(Failure::new(format!("directory for {dest} is not writable: it does not exist.")));
        }
        let key = [args.required("domain")?, args.required("limit_type")?, item];
        let comment = args.filled("comment");
        let before = config_file::read(&dest)?;
        let mut after = String::new();
        let mut msg = String::new();
        let mut found = false;
        for line in before.lines() {
            let (rule, remark) = line.split_once('#').map_or((line, ""), |(rule, remark)| (rule, remark.trim()));
            let words: Vec<&str> = rule.split_whitespace().collect();
            let ours = matches!(words.as_slice(), [domain, kind, item, _] if [*domain, *kind, *item] == key);
            if !ours {
                after.push_str(&format!("{line}\n"));
                continue;
            }
            found = true;
            let known = words.last().copied().unwrap_or_default();
            let new = chosen(value, known, largest, smallest, matches!(item, "nice" | "priority"))?;
            if new == known {
                msg = format!("{line}\n");
                after.push_str(&msg);
            } else {
                msg = line_of(&key, &new, comment.or(Some(remark).filter(|remark| !remark.is_empty())));
                after.push_str(&msg);
            }
        }
        if !found {
            msg = line_of(&key, value, comment);
            after.push_str(&msg);
        }
        let is_same = before.trim_end_matches('\n') == after.trim_end_matches('\n');
        let diff = host.diff().then(|| Diff { before: before.into(), after: after.as_str().into(), ..Diff::default() });
        let backup = args.bool("backup");
        let plan = if is_same {
            Plan::unchanged()
        } else {
            Plan::change(move |_, outcome| {
                if backup && let Some(copy) = config_file::back_up(&dest)? {
                    outcome.set("backup_file", copy);
                }
                config_file::replace(&dest, &after)
            })
        };
        let plan = plan.with("msg", msg);
        Ok(plan.with_diff(diff))
    }
}

fn line_of(key: &[&str; 3], value: &str, comment: Option<&str>) -> String {
    let comment = comment.map(|comment| format!("\t#{comment}")).unwrap_or_default();
    format!("{}\t{value}{comment}\n", key.join("\t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_or_smaller_limit_kept() {
        for (wanted, known, largest, smallest, expected) in [
            ("10", "20", false, false, "10"),
            ("10", "20", true, false, "20"),
            ("10", "20", false, true, "10"),
            ("unlimited", "20", false, true, "20"),
            ("10", "-1", true, false, "-1"),
        ] {
            assert_eq!(chosen(wanted, known, largest, smallest, false).unwrap(), expected);
        }
    }
}
