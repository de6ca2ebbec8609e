//! `snap`: packages of snapd.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    process::{Command, Output},
};

/// The `snap` module.
pub struct Snap;

static SPEC: Spec = Spec {
    name: "snap",
    collection: "community.general",
    summary: "Manage snaps",
    description: &[
        "Installs, removes, enables and disables snaps and sets their options. The name `system` means snapd itself, \
         which only has options.",
    ],
    options: &[
        Opt::required("name", Kind::List(&Kind::Str), "Names or files of the snaps.").word(),
        Opt::new(
            "state",
            Kind::Str,
            "`present` installs, `absent` removes, `enabled` and `disabled` switch installed snaps on and off.",
        )
        .default("\"present\"")
        .choices(&["absent", "present", "enabled", "disabled"]),
        Opt::new("classic", Kind::Bool, "Install with classic confinement.").default("false"),
        Opt::new("channel", Kind::Str, "Channel to install from. Default: `stable`."),
        Opt::new(
            "options",
            Kind::List(&Kind::Str),
            "Options as `key=value`, or `snap:key=value` for one of the snaps.",
        ),
        Opt::new("dangerous", Kind::Bool, "Install without verifying signatures.").default("false"),
        Opt::new("devmode", Kind::Bool, "Install in developer mode.").default("false"),
        Opt::new("revision", Kind::Int, "Revision to install; the snap is held at it."),
    ],
    mutually_exclusive: &[&["channel", "revision"]],
    examples: "- name: The client of certificates\n  community.general.snap:\n    name: certbot\n    classic: true\n",
    returns: &[
        Return { name: "cmd", kind: "str", when: "snaps changed", doc: "Command that was (or would be) run." },
        Return {
            name: "snaps_installed",
            kind: "list",
            when: "snaps were installed",
            doc: "Snaps that were installed or moved to another channel.",
        },
        Return { name: "snaps_removed", kind: "list", when: "snaps were removed", doc: "Snaps that were removed." },
        Return { name: "options_changed", kind: "list", when: "options were set", doc: "Options that were set." },
        Return {
            name: "snap_names",
            kind: "list",
            when: "state is present",
            doc: "Names of the snaps; for files, the names of the snaps inside.",
        },
        Return { name: "channel", kind: "str", when: "state is present", doc: "Value of `channel`." },
        Return { name: "classic", kind: "bool", when: "state is present", doc: "Value of `classic`." },
        Return { name: "version", kind: "dict", when: "always", doc: "Versions of snapd and of its platform." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// Name that means snapd itself.
const SYSTEM: &str = "system";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Missing,
    Other,
    NotHeld,
    Installed,
}

impl Module for Snap {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let said = Command::new("snap").plain_locale().arg("version").check_run(host)?.stdout_text();
        let pairs = said.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let pair = (words.next()?.to_owned(), Value::from(words.next()?));
            words.next().is_none().then_some(pair)
        });
        let version: Map = pairs.collect();
        let names: Vec<String> = args.list("name").into_iter().map(str::to_owned).collect();
        let plan = match args.required("state")? {
            "present" => present(args, &names, host)?,
            "absent" => {
                let there = statuses(args, &names, host)?;
                let chosen: Vec<String> = names
                    .into_iter()
                    .zip(there)
                    .filter(|(name, status)| *status != Status::Missing && name != SYSTEM)
                    .map(|(name, _)| name)
                    .collect();
                switch("snaps_removed", "remove", chosen)
            }
            state => {
                let enable = state == "enabled";
                let mut chosen = Vec::new();
                for name in names {
                    if is_enabled(&name, host)?.unwrap_or(false) != enable {
                        chosen.push(name);
                    }
                }
                match enable {
                    true => switch("snaps_enabled", "enable", chosen),
                    false => switch("snaps_disabled", "disable", chosen),
                }
            }
        };
        let plan = plan.with("version", version);
        if args.str("state") != Some("present") {
            return Ok(plan);
        }
        Ok(plan.with("channel", args.str("channel").unwrap_or("stable")).with("classic", args.bool("classic")))
    }
}

/// Plan that applies one verb to some snaps.
fn switch(key: &'static str, verb: &'static str, chosen: Vec<String>) -> Plan {
    if chosen.is_empty() {
        return Plan::unchanged();
    }
    let names = chosen.clone();
    let plan = Plan::change(move |host, outcome| {
        let mut words = vec![verb.to_owned()];
        words.extend(names);
        let output = snap(&words, host)?;
        outcome.set("cmd", shown(&words));
        if output.success() { Ok(()) } else { Err(refused("operation", &words, &output)) }
    });
    plan.with(key, chosen)
}

fn present(args: &Args, names: &[String], host: &Host) -> Result<Plan, Failure> {
    let real = real_names(names, host)?;
    let statuses = statuses(args, &real, host)?;
    let revision = args.int("revision");
    let of = |wanted: Status| -> Vec<String> {
        names.iter().zip(&statuses).filter(|(_, status)| **status == wanted).map(|(name, _)| name.clone()).collect()
    };
    let (refreshed, installed) = (of(Status::Other), of(Status::Missing));
    let held: Vec<String> =
        if revision.is_some() { [&installed[..], &refreshed, &of(Status::NotHeld)].concat() } else { Vec::new() };
    let mut commands = install_commands(args, "refresh", &refreshed);
    commands.extend(install_commands(args, "install", &installed));
    let mut later: Vec<Vec<String>> =
        held.into_iter().map(|name| vec!["refresh".to_owned(), "--hold".to_owned(), name]).collect();
    let (options, sets) = options(args, names, &statuses, host)?;
    later.extend(sets);
    let last = if installed.is_empty() { refreshed } else { installed };
    if commands.is_empty() && later.is_empty() {
        return Ok(Plan::unchanged().with("snap_names", real));
    }
    let plan = Plan::change(move |host: &Host, outcome: &mut Outcome| {
        install(&commands, host, outcome)?;
        later.iter().try_for_each(|words| hold_or_set(words, host))
    });
    let plan = if last.is_empty() { plan } else { plan.with("snaps_installed", last) }.with("snap_names", real);
    Ok(if options.is_empty() { plan } else { plan.with("options_changed", options) })
}

/// Commands that apply `verb`, `install` or `refresh`, to the chosen snaps.
fn install_commands(args: &Args, verb: &str, chosen: &[String]) -> Vec<Vec<String>> {
    let mut words = vec![verb.to_owned()];
    if args.bool("classic") {
        words.push("--classic".to_owned());
    }
    if let Some(channel) = args.str("channel").filter(|channel| *channel != "stable") {
        words.extend(["--channel".to_owned(), channel.to_owned()]);
    }
    if let Some(revision) = args.int("revision") {
        words.extend(["--revision".to_owned(), revision.to_string()]);
    }
    // The flags so far take a single snap.
    let at_once = if words.len() > 1 { 1 } else { chosen.len().max(1) };
    for name in ["dangerous", "devmode"] {
        if args.bool(name) {
            words.push(format!("--{name}"));
        }
    }
    chosen.chunks(at_once).map(|group| [&words[..], group].concat()).collect()
}

fn install(commands: &[Vec<String>], host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
    let mut done = Vec::new();
    for words in commands {
        let output = snap(words, host)?;
        done.push(shown(words));
        if !output.success() {
            return Err(refused("installation", words, &output));
        }
    }
    if !done.is_empty() {
        outcome.set("cmd", done.join("; "));
    }
    Ok(())
}

fn hold_or_set(words: &[String], host: &Host) -> Result<(), Failure> {
    let output = snap(words, host)?;
    if output.success() {
        return Ok(());
    }
    let (name, error) = (words.get(1).cloned().unwrap_or_default(), output.stderr_text());
    Err(Failure::new(match words.first().map(String::as_str) {
        Some("set") if error.contains("has no \"configure\" hook") => {
            format!("Snap '{name}' does not have any configurable options")
        }
        Some("set") => {
            let set = words.get(2..).unwrap_or_default().join(" ");
            format!("Cannot set options '{set}' for snap '{name}': error={error}")
        }
        _ => format!("Snap hold failed for '{}': {error}", words.last().cloned().unwrap_or_default()),
    }))
}

/// The options that differ, and the commands that set them.
fn options(
    args: &Args,
    names: &[String],
    statuses: &[Status],
    host: &Host,
) -> Result<(Vec<String>, Vec<Vec<String>>), Failure> {
    let (mut changed, mut commands) = (Vec::new(), Vec::new());
    for (name, _) in names.iter().zip(statuses).filter(|(_, status)| **status != Status::Missing) {
        let mut set = Vec::new();
        let mut known: Option<BTreeMap<String, String>> = None;
        for option in args.list("options") {
            let parsed = option.split_once('=').filter(|(key, value)| !key.trim().is_empty() && !value.is_empty());
            let Some((key, value)) = parsed else {
                return Err(Failure::new(format!("Cannot parse set option '{option}'")));
            };
            let (only, key) = match key.trim().split_once(':') {
                Some((only, key)) => (Some(only), key),
                None => (None, key.trim()),
            };
            if let Some(only) = only {
                if !names.iter().any(|name| name == only) {
                    let text = format!("Snap option '{option}' refers to snap which is not in the list of snap names");
                    return Err(Failure::new(text));
                }
                if only != name {
                    continue;
                }
            }
            if known.is_none() {
                known = Some(settings(name, host)?);
            }
            let value = value.trim();
            if known.as_ref().and_then(|known| known.get(key)).map(String::as_str) != Some(value) {
                set.push(format!("{key}={value}"));
                changed.push(if only.is_some() { option.to_owned() } else { format!("{name}:{option}") });
            }
        }
        if !set.is_empty() {
            let mut words = vec!["set".to_owned(), name.clone()];
            words.extend(set);
            commands.push(words);
        }
    }
    Ok((changed, commands))
}

/// The options of a snap, with dots between the parts of their names.
fn settings(name: &str, host: &Host) -> Result<BTreeMap<String, String>, Failure> {
    let output = snap(&["get".to_owned(), "-d".to_owned(), name.to_owned()], host)?;
    let text = output.stdout_text();
    let mut found = BTreeMap::new();
    if !output.success() || text.lines().next().is_none_or(|line| line.contains("has no configuration")) {
        return Ok(found);
    }
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("The output of 'snap get {name}' cannot be read: {error}.")))?;
    flatten("", &value, &mut found);
    Ok(found)
}

fn flatten(prefix: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    let text = match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&key, value, found);
            }
            return;
        }
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    };
    found.insert(prefix.to_owned(), text);
}

/// The names of the requested snaps. `snap info` knows the name of one that is given as a file.
fn real_names(names: &[String], host: &Host) -> Result<Vec<String>, Failure> {
    let asked: Vec<&String> = names.iter().filter(|name| *name != SYSTEM).collect();
    if asked.is_empty() {
        return Ok(names.to_vec());
    }
    let mut words = vec!["info".to_owned()];
    words.extend(asked.iter().map(|name| (*name).clone()));
    let output = snap(&words, host)?;
    let said = output.stdout_text() + "\n" + &output.stderr_text();
    let unknown: Vec<String> = said
        .lines()
        .filter(|line| line.starts_with("warning: no snap found for") || line.starts_with("error: no snap found for"))
        .filter_map(|line| line.split('"').nth(1).map(|name| format!("'{name}'")))
        .collect();
    if !unknown.is_empty() {
        return Err(Failure::new(format!("Snaps not found: [{}].", unknown.join(", "))));
    }
    let mut found = said.lines().filter_map(|line| line.strip_prefix("name:")).map(|name| name.trim().to_owned());
    let real = names.iter().map(|name| match name.as_str() {
        SYSTEM => name.clone(),
        name => found.next().unwrap_or_else(|| name.to_owned()),
    });
    Ok(real.collect())
}

fn statuses(args: &Args, names: &[String], host: &Host) -> Result<Vec<Status>, Failure> {
    let said = Command::new("snap").plain_locale().arg("list").check_run(host)?.stdout_text();
    let rows: Vec<Vec<&str>> = said.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let (channel, revision) = (args.str("channel"), args.int("revision"));
    let status = |name: &String| {
        if name == SYSTEM {
            return Status::Installed;
        }
        let Some(row) = rows.iter().find(|row| row.first() == Some(&name.as_str())) else { return Status::Missing };
        let field = |at: usize| row.get(at).copied().unwrap_or_default();
        let other_channel =
            channel.is_some_and(|channel| field(3) != channel && field(3) != format!("latest/{channel}"));
        if revision.is_some_and(|revision| field(2) != revision.to_string()) || other_channel {
            Status::Other
        } else if revision.is_some() && !field(5).split(',').any(|note| note == "held") {
            Status::NotHeld
        } else {
            Status::Installed
        }
    };
    Ok(names.iter().map(status).collect())
}

/// Whether a snap is enabled; `None` if it is not installed.
fn is_enabled(name: &str, host: &Host) -> Result<Option<bool>, Failure> {
    let output = snap(&["list".to_owned(), name.to_owned()], host)?;
    let text = output.stdout_text();
    let notes = text.lines().nth(1).and_then(|line| line.split_whitespace().nth(5));
    Ok(notes.filter(|_| output.success()).map(|notes| !notes.split(',').any(|note| note == "disabled")))
}

fn snap(words: &[String], host: &Host) -> Result<Output, Failure> {
    Command::new("snap").plain_locale().args(words.iter().map(String::as_str)).run(host)
}

fn shown(words: &[String]) -> String {
    format!("snap {}", words.join(" "))
}

fn refused(what: &str, words: &[String], output: &Output) -> Failure {
    let error = output.stderr_text();
    let classic = error
        .strip_prefix("error: This revision of snap \"")
        .filter(|rest| rest.contains("was published using classic confinement"))
        .and_then(|rest| rest.split('"').next());
    let text = match classic {
        Some(name) => format!("Couldn't install {name} because it requires classic confinement"),
        None => format!(
            "Ooops! Snap {what} failed while executing '{}', please examine logs and error output for more details.",
            shown(words)
        ),
    };
    Failure::new(text).with("rc", output.rc).with("stdout", output.stdout_text()).with("stderr", error)
}
