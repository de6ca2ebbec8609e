//! `cron`: scheduled jobs.

use std::{os::unix::fs::PermissionsExt, path::Path};

use super::config_file;
use crate::{
    Args, Diff, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    files::{attributes::Attributes, backup, mode::Mode, way},
    process::{Command, reason},
};

/// The `cron` module.
pub struct Cron;

/// Comment line that names the job below it. Ansible writes the same, so both recognise each other's jobs.
const MARK: &str = "#Ansible: ";

static SPEC: Spec = Spec {
    name: "cron",
    summary: "Manage cron jobs",
    description: &[
        "Identifies each job by the name in the comment line before it. Edits the user's own table, or with \
         `cron_file` a file in /etc/cron.d.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "Name of the job or, with `env`, of the variable.").line(),
        Opt::new("job", Kind::Str, "Command to run or, with `env`, value of the variable.").aliases(&["value"]),
        Opt::new("state", Kind::Str, "`present` adds or updates the entry, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("user", Kind::Str, "Owner of the table. With `cron_file`, the user who runs the job.").line(),
        Opt::new("cron_file", Kind::Path, "File in /etc/cron.d to edit instead of a user's table.").line(),
        Opt::new("backup", Kind::Bool, "Keep a copy of the old table.").default("false"),
        Opt::new("minute", Kind::Str, "Minute: 0 to 59, `*` or `*/2`.").line().default("\"*\""),
        Opt::new("hour", Kind::Str, "Hour: 0 to 23.").line().default("\"*\""),
        Opt::new("day", Kind::Str, "Day of the month: 1 to 31.").line().aliases(&["dom"]).default("\"*\""),
        Opt::new("month", Kind::Str, "Month: 1 to 12.").line().default("\"*\""),
        Opt::new("weekday", Kind::Str, "Day of the week: 0 (Sunday) to 6.").line().aliases(&["dow"]).default("\"*\""),
        Opt::new("special_time", Kind::Str, "Named schedule to use instead of the time fields.")
            .choices(&["reboot", "yearly", "annually", "monthly", "weekly", "daily", "hourly"]),
        Opt::new("disabled", Kind::Bool, "Comment the job out.").default("false"),
        Opt::new("env", Kind::Bool, "Manage a variable of the table instead of a job.").default("false"),
        Opt::new("insertafter", Kind::Str, "With `env`: name of the variable to insert after.").line(),
        Opt::new("insertbefore", Kind::Str, "With `env`: name of the variable to insert before.").line(),
    ],
    mutually_exclusive: &[&["insertafter", "insertbefore"]],
    examples: "- name: Renew certificates on Mondays\n  ansible.builtin.cron:\n    name: renew certificates\n    weekday: 1\n    hour: 3\n    minute: 0\n    job: /usr/local/bin/renew\n",
    returns: &[
        Return { name: "jobs", kind: "list", when: "always", doc: "Names of the jobs in the table." },
        Return { name: "envs", kind: "list", when: "always", doc: "Names of the variables in the table." },
        Return { name: "cron_file", kind: "str", when: "cron_file was given", doc: "Path of the file." },
    ],
    ..Spec::EMPTY
}
.compiled();

fn with_job(text: &str, name: &str, job: &str) -> String {
    let mark = format!("{MARK}{name}");
    let mut lines: Vec<String> = Vec::new();
    let mut source = text.lines();
    let mut written = false;
    while let Some(line) = source.next() {
        lines.push(line.to_owned());
        if line == mark {
            source.next();
            lines.push(job.to_owned());
            written = true;
        }
    }
    if !written {
        lines.extend([mark, job.to_owned()]);
    }
    lines.join("\n") + "\n"
}

fn without_job(text: &str, name: &str) -> String {
    let mark = format!("{MARK}{name}");
    let mut kept = String::new();
    let mut source = text.lines();
    while let Some(line) = source.next() {
        if line == mark {
            source.next();
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

fn variable(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('=')?;
    let name = name.trim();
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')).then_some(name)
}

fn with_variable(
    text: &str,
    name: &str,
    line: &str,
    after: Option<&str>,
    before: Option<&str>,
) -> Result<String, Failure> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(found) = lines.iter_mut().find(|found| variable(found) == Some(name)) {
        *found = line.to_owned();
    } else if let Some(neighbour) = after.or(before) {
        let at = lines.iter().position(|found| variable(found) == Some(neighbour));
        let at = at.ok_or_else(|| Failure::new(format!("Variable named '{neighbour}' not found.")))?;
        lines.insert(at + usize::from(after.is_some()), line.to_owned());
    } else {
        lines.insert(0, line.to_owned());
    }
    Ok(lines.join("\n") + "\n")
}

/// Fails if the arguments do not say what to install.
fn refuse_incomplete(args: &Args) -> Result<(), Failure> {
    let is_given = |name| args.str(name).is_some();
    let sentence = if is_given("cron_file") && !is_given("user") {
        "To use cron_file=... parameter you must specify user=... as well"
    } else if !is_given("job") {
        "You must specify 'job' to install a new cron job or variable"
    } else if !args.bool("env") && (is_given("insertafter") || is_given("insertbefore")) {
        "Insertafter and insertbefore parameters are valid only with env=yes"
    } else {
        return Ok(());
    };
    Err(Failure::new(sentence))
}

fn job_line(args: &Args) -> Result<String, Failure> {
    let job = args.required("job")?.trim_matches(['\r', '\n']);
    if job.contains(['\r', '\n']) {
        return Err(Failure::new("value of job must be one line: every further line would be a job of its own."));
    }
    if args.str("user").is_some_and(|user| user.contains(char::is_whitespace)) {
        return Err(Failure::new("value of user must be one word: what follows it in the line is the command."));
    }
    let comment = if args.bool("disabled") { "#" } else { "" };
    let user = match (args.str("cron_file"), args.str("user")) {
        (Some(_), Some(user)) => format!("{user} "),
        _ => String::new(),
    };
    if let Some(time) = args.str("special_time") {
        return Ok(format!("{comment}@{time} {user}{job}"));
    }
    let time = ["minute", "hour", "day", "month", "weekday"].map(|name| args.str(name).unwrap_or("*"));
    Ok(format!("{comment}{} {user}{job}", time.join(" ")))
}

/// Location of the table.
enum Table {
    File(String),
    User(Option<String>),
}

impl Table {
    fn read(&self, host: &Host) -> Result<String, Failure> {
        match self {
            Table::File(path) => config_file::read(path),
            Table::User(user) => {
                let output = crontab(user).arg("-l").run(host)?;
                // crontab exits with an error if the user has no table.
                let text = output.stdout_text();
                Ok(text
                    .lines()
                    .skip_while(|line| line.starts_with("# DO NOT EDIT") || line.starts_with("# ("))
                    .map(|line| format!("{line}\n"))
                    .collect())
            }
        }
    }

    fn write(&self, text: &str, host: &Host) -> Result<(), Failure> {
        match self {
            Table::File(path) if text.trim().is_empty() => way::remove_file(Path::new(path))
                .map_err(|error| Failure::new(format!("{path} could not be removed: {}.", reason(&error)))),
            Table::File(path) => {
                // cron ignores files that others can write.
                let mode = way::metadata(Path::new(path)).map(|metadata| metadata.permissions().mode());
                let mode = Mode::Bits(mode.unwrap_or(0o644) & 0o644 | 0o600);
                let attributes = Attributes::default().with_mode(Some(mode));
                config_file::replace_with(path, text, attributes)
            }
            Table::User(user) => {
                let output = crontab(user).arg("-").input(text.as_bytes().to_vec()).run(host)?;
                if output.success() { Ok(()) } else { Err(output.failure(&["crontab".to_owned()])) }
            }
        }
    }
}

fn crontab(user: &Option<String>) -> Command {
    let command = Command::new("crontab").plain_locale();
    match user {
        Some(user) => command.args(["-u", user]),
        None => command,
    }
}

impl Module for Cron {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        let of_user = || format!("cron/{}", args.str("user").unwrap_or_default()).into();
        Some(args.str("cron_file").map_or_else(of_user, |file| Path::new("/etc/cron.d").join(file)))
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?.to_owned();
        let present = args.str("state") != Some("absent");
        let table = match args.str("cron_file") {
            Some("/etc/crontab") => {
                return Err(Failure::new("Will not manage /etc/crontab via cron_file, see documentation."));
            }
            Some(file) if file.starts_with('/') => Table::File(file.to_owned()),
            Some(file) => Table::File(format!("/etc/cron.d/{file}")),
            None => Table::User(args.str("user").map(str::to_owned)),
        };
        if present {
            refuse_incomplete(args)?;
        }
        let before = table.read(host)?;
        let after = match (args.bool("env"), present) {
            (false, true) => with_job(&before, &name, &job_line(args)?),
            (false, false) => without_job(&before, &name),
            (true, true) => {
                let line = format!("{name}=\"{}\"", args.required("job")?);
                with_variable(&before, &name, &line, args.str("insertafter"), args.str("insertbefore"))?
            }
            (true, false) => {
                before.lines().filter(|line| variable(line) != Some(&name)).map(|line| format!("{line}\n")).collect()
            }
        };
        let jobs: Vec<String> = after.lines().filter_map(|line| line.strip_prefix(MARK)).map(str::to_owned).collect();
        let envs: Vec<String> = after.lines().filter_map(variable).map(str::to_owned).collect();
        let same = before.trim_end() == after.trim_end();
        let keep_old = args.bool("backup");
        let file = match &table {
            Table::File(path) => Some(path.clone()),
            Table::User(_) => None,
        };
        let plan = if same {
            Plan::unchanged()
        } else {
            let diff = host.diff().then(|| Diff::of(file.as_deref().unwrap_or("crontab"), before, after.clone()));
            let plan = Plan::change(move |host: &Host, outcome: &mut Outcome| {
                if let (true, Table::File(path)) = (keep_old, &table)
                    && let Some(copy) = backup::make(Path::new(path))?
                {
                    outcome.set("backup_file", copy.to_string_lossy().into_owned());
                }
                table.write(&after, host)
            });
            plan.with_diff(diff)
        };
        let plan = plan.with("jobs", jobs).with("envs", envs);
        Ok(match file {
            Some(file) => plan.with("cron_file", file),
            None => plan,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn jobs_identified_by_name() {
        let text = "MAILTO=\"root\"\n#Ansible: one\n* * * * * /bin/one\n0 1 * * * /bin/own\n";
        let more = with_job(text, "two", "@daily /bin/two");
        assert_eq!(more, format!("{text}#Ansible: two\n@daily /bin/two\n"));
        assert_eq!(
            with_job(&more, "one", "5 * * * * /bin/one"),
            more.replace("* * * * * /bin/one", "5 * * * * /bin/one")
        );
        assert_eq!(without_job(&more, "two"), text);
        assert_eq!(
            with_variable(text, "MAILTO", "MAILTO=\"ada\"", None, None).unwrap().lines().next(),
            Some("MAILTO=\"ada\"")
        );
        assert!(with_variable(text, "PATH", "PATH=\"/bin\"", Some("NONE"), None).is_err());
        assert_eq!(variable("0 1 * * * a=b"), None);
    }

    #[test]
    fn cron_file_created_changed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs");
        let run = |extra: serde_json::Value| {
            let mut arguments = json!({ "name": "renew", "user": "root", "job": "/bin/renew", "minute": 0, "hour": "3", "cron_file": file });
            for (key, value) in extra.as_object().unwrap() {
                arguments[key] = value.clone();
            }
            crate::run(&Cron, &arguments, &Host::alone())
        };
        assert_eq!(run(json!({}))["jobs"], json!(["renew"]));
        assert_eq!(fs::read_to_string(&file).unwrap(), "#Ansible: renew\n0 3 * * * root /bin/renew\n");
        assert_eq!(run(json!({}))["changed"], false);
        assert_eq!(run(json!({ "disabled": true }))["changed"], true);
        assert!(fs::read_to_string(&file).unwrap().contains("\n#0 3 "));
        assert_eq!(run(json!({ "state": "absent" }))["changed"], true);
        assert!(!file.exists());
    }
}
