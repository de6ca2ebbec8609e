//! `ssh_config`: hosts in OpenSSH's client configuration.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec, accounts,
    files::{
        attributes::Attributes,
        directory,
        mode::Mode,
        way,
        write::{Source, Wanted},
    },
    process::reason,
    run,
};

/// The `ssh_config` module.
pub struct SshConfig;

static SPEC: Spec = Spec {
    name: "ssh_config",
    collection: "community.general",
    summary: "Manage hosts in the SSH client configuration",
    description: &[
        "Adds, changes and removes the block of one host. Sets the options below that are given, and removes the \
         others from the block. Keeps all other settings, blocks and comments.",
    ],
    options: &[
        Opt::new("state", Kind::Str, "`present` writes the block, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::required("host", Kind::Str, "Name or patterns of the block."),
        Opt::new("user", Kind::Str, "Account whose `~/.ssh/config` to edit. Default: the system's configuration."),
        Opt::new("group", Kind::Str, "Group of the file."),
        Opt::new("ssh_config_file", Kind::Path, "Path of an alternative file."),
        Opt::new("hostname", Kind::Str, "Sets `HostName`."),
        Opt::new("port", Kind::Str, "Sets `Port`."),
        Opt::new("remote_user", Kind::Str, "Sets `User`."),
        Opt::new("identity_file", Kind::Path, "Sets `IdentityFile`; the file must exist."),
        Opt::new("identities_only", Kind::Bool, "Sets `IdentitiesOnly`."),
        Opt::new("user_known_hosts_file", Kind::Str, "Sets `UserKnownHostsFile`."),
        Opt::new("strict_host_key_checking", Kind::Str, "Sets `StrictHostKeyChecking`.").choices(&[
            "yes",
            "no",
            "ask",
            "accept-new",
        ]),
        Opt::new("proxycommand", Kind::Str, "Sets `ProxyCommand`."),
        Opt::new("proxyjump", Kind::Str, "Sets `ProxyJump`."),
        Opt::new("forward_agent", Kind::Bool, "Sets `ForwardAgent`."),
        Opt::new("add_keys_to_agent", Kind::Bool, "Sets `AddKeysToAgent`."),
        Opt::new("host_key_algorithms", Kind::Str, "Sets `HostKeyAlgorithms`."),
        Opt::new("controlmaster", Kind::Str, "Sets `ControlMaster`.").choices(&["yes", "no", "ask", "auto", "autoask"]),
        Opt::new("controlpath", Kind::Str, "Sets `ControlPath`."),
        Opt::new("controlpersist", Kind::Str, "Sets `ControlPersist`."),
        Opt::new("dynamicforward", Kind::Str, "Sets `DynamicForward`."),
        Opt::new("address_family", Kind::Str, "Sets `AddressFamily`.").choices(&["any", "inet", "inet6"]),
        Opt::new("other_options", Kind::Dict, "Additional options, with lower-case names."),
    ],
    mutually_exclusive: &[&["user", "ssh_config_file"], &["proxycommand", "proxyjump"]],
    examples: "- name: How to reach the bastion\n  community.general.ssh_config:\n    user: deploy\n    host: bastion\n    \
               hostname: bastion.example.org\n    port: '2222'\n",
    returns: &[
        Return { name: "hosts_added", kind: "list", when: "success", doc: "Name of a new block." },
        Return { name: "hosts_changed", kind: "list", when: "success", doc: "Name of a changed block." },
        Return { name: "hosts_removed", kind: "list", when: "success", doc: "Name of a removed block." },
        Return {
            name: "hosts_change_diff",
            kind: "list",
            when: "success",
            doc: "Options before and after the change.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

/// Task options that map to an SSH option of the same name without underscores, in output order.
const NAMES: [&str; 17] = [
    "hostname",
    "port",
    "identity_file",
    "identities_only",
    "remote_user",
    "strict_host_key_checking",
    "user_known_hosts_file",
    "proxycommand",
    "proxyjump",
    "host_key_algorithms",
    "forward_agent",
    "add_keys_to_agent",
    "controlmaster",
    "controlpath",
    "controlpersist",
    "dynamicforward",
    "address_family",
];

/// Options that may occur several times.
const REPEATED: [&str; 3] = ["identityfile", "localforward", "remoteforward"];

impl Module for SshConfig {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        path_of(args).ok()
    }

    fn plan(&self, args: &Args, _host: &Host) -> Result<Plan, Failure> {
        let path = path_of(args)?;
        check_identity(args, &path)?;
        let wanted = wanted(args)?;
        let text = match way::read_text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(Failure::new(format!("{} cannot be read: {}.", path.display(), reason(&error))));
            }
        };
        let name = args.required("host")?;
        let mut blocks = blocks(&text);
        let (mut added, mut changed, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        let mut diffs = Vec::new();
        let present = args.str("state") != Some("absent");
        let ours = |block: &Block| block.host.as_deref() == Some(name);
        if present && !blocks.iter().any(ours) {
            let options = merged(&Options::new(), &wanted);
            if !options.is_empty() {
                added.push(name);
                blocks.push(Block { host: Some(name.to_owned()), lines: lines_of(name, &options) });
            }
        } else {
            for block in blocks.iter_mut().filter(|block| ours(block)) {
                let (before, others) = block.read();
                if !present {
                    removed.push(name);
                    *block = Block { host: None, lines: others };
                    continue;
                }
                let after = merged(&before, &wanted);
                if after != before {
                    changed.push(name);
                    diffs.push(json!({ name: { "old": shown(&before), "new": shown(&after) } }));
                    block.lines = lines_of(name, &after);
                    block.lines.extend(others);
                }
            }
        }
        let is_change = !(added.is_empty() && changed.is_empty() && removed.is_empty());
        let data = [
            ("hosts_changed", json!(changed)),
            ("hosts_removed", json!(removed)),
            ("hosts_change_diff", json!(diffs)),
            ("hosts_added", json!(added)),
        ];
        let data: Map = data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        if !is_change {
            return Ok(Plan::unchanged().with_all(data));
        }
        let text: String = blocks.iter().flat_map(|block| &block.lines).map(|line| format!("{line}\n")).collect();
        let owner = args.str("user").map(|user| (user.to_owned(), args.str("group").unwrap_or(user).to_owned()));
        Ok(Plan::change(move |host, _| write(&path, text, owner, host)).with_all(data))
    }
}

fn path_of(args: &Args) -> Result<PathBuf, Failure> {
    if let Some(path) = args.str("ssh_config_file") {
        return Ok(path.into());
    }
    let Some(user) = args.str("user") else { return Ok("/etc/ssh/ssh_config".into()) };
    let account = accounts::user_by_name(user).ok_or_else(|| Failure::new(format!("There is no user {user}.")))?;
    Ok(Path::new(&account.home).join(".ssh/config"))
}

/// Checks that the identity file exists if the configuration does; a relative path starts at the configuration's
/// folder.
fn check_identity(args: &Args, path: &Path) -> Result<(), Failure> {
    let Some(identity) = args.str("identity_file").filter(|_| path.exists()) else { return Ok(()) };
    let folder = path.parent().unwrap_or(Path::new("/"));
    if folder.join(identity).exists() {
        return Ok(());
    }
    Err(Failure::new(format!("IdentityFile {identity} does not exist")))
}

/// Options in file order; a repeated option has several values.
type Options = Vec<(String, Vec<String>)>;

/// The requested options: a value, or `None` to remove the option.
fn wanted(args: &Args) -> Result<Vec<(String, Option<String>)>, Failure> {
    let mut wanted = Vec::new();
    for name in NAMES {
        let key = if name == "remote_user" { "user".to_owned() } else { name.replace('_', "") };
        let value = match args.value(name) {
            Some(Value::Bool(flag)) => Some(if *flag { "yes" } else { "no" }),
            Some(Value::String(text)) if name == "controlpersist" && text == "True" => Some("yes"),
            Some(Value::String(text)) if name == "controlpersist" && text == "False" => Some("no"),
            Some(Value::String(text)) => Some(text.as_str()).filter(|text| !text.is_empty()),
            _ => None,
        };
        wanted.push((key, value.map(str::to_owned)));
    }
    let others = args.value("other_options").and_then(Value::as_object).into_iter().flatten();
    for (key, value) in others {
        if key.to_lowercase() != *key {
            return Err(Failure::new(format!("The other_options key {key} must be lower case")));
        }
        if NAMES.contains(&key.as_str()) || key == "user" {
            return Err(Failure::new(format!("Multiple values provided for key {key}")));
        }
        let Some(text) = value.as_str() else {
            return Err(Failure::new(format!(
                "The other_options value provided for key {key} must be a string, got {value}"
            )));
        };
        wanted.push((key.replace('_', ""), Some(text.to_owned()).filter(|text| !text.is_empty())));
    }
    Ok(wanted)
}

fn merged(before: &Options, wanted: &[(String, Option<String>)]) -> Options {
    let mut after = before.clone();
    for (key, value) in wanted {
        let found = after.iter().position(|(known, _)| known == key);
        match (found, value) {
            (Some(at), None) => drop(after.remove(at)),
            (Some(at), Some(value)) => {
                if let Some((_, values)) = after.get_mut(at).filter(|(_, values)| !values.contains(value)) {
                    *values = vec![value.clone()];
                }
            }
            (None, Some(value)) => after.push((key.clone(), vec![value.clone()])),
            (None, None) => {}
        }
    }
    after
}

fn shown(options: &Options) -> Value {
    let pairs = options.iter().map(|(key, values)| match values.as_slice() {
        [value] if !REPEATED.contains(&key.as_str()) => (key.clone(), json!(value)),
        values => (key.clone(), json!(values)),
    });
    Value::Object(pairs.collect())
}

fn lines_of(name: &str, options: &Options) -> Vec<String> {
    let settings =
        options.iter().flat_map(|(key, values)| values.iter().map(move |value| format!("    {key} {value}")));
    std::iter::once(format!("Host {name}")).chain(settings).collect()
}

/// A `Host` block, or lines outside of blocks.
struct Block {
    host: Option<String>,
    lines: Vec<String>,
}

impl Block {
    /// The options of the block, and its comments and empty lines.
    fn read(&self) -> (Options, Vec<String>) {
        let (mut options, mut others) = (Options::new(), Vec::new());
        for line in self.lines.iter().skip(1) {
            let Some((key, value)) = setting(line) else {
                others.push(line.clone());
                continue;
            };
            match options.iter_mut().find(|(known, _)| *known == key) {
                // For all other options, SSH uses the first value.
                Some((_, values)) if REPEATED.contains(&key.as_str()) => values.push(value.to_owned()),
                Some(_) => {}
                None => options.push((key, vec![value.to_owned()])),
            }
        }
        (options, others)
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = vec![Block { host: None, lines: Vec::new() }];
    for line in text.lines() {
        let head = setting(line).filter(|(key, _)| key == "host" || key == "match");
        if let Some((key, value)) = head {
            let names = value.split_whitespace().collect::<Vec<_>>().join(" ");
            blocks.push(Block { host: (key == "host").then_some(names), lines: Vec::new() });
        }
        if let Some(block) = blocks.last_mut() {
            block.lines.push(line.to_owned());
        }
    }
    blocks
}

/// Parses a setting: the option in lower case, and its value.
fn setting(line: &str) -> Option<(String, &str)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start();
    Some((key.to_lowercase(), rest.strip_prefix('=').unwrap_or(rest).trim()))
}

fn write(path: &Path, text: String, owner: Option<(String, String)>, host: &Host) -> Result<(), Failure> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        directory::make(folder, &Attributes::default())?;
    }
    let mode = if path == Path::new("/etc/ssh/ssh_config") { "0644" } else { "0600" };
    let mut wanted = Wanted::new(path, Source::Bytes(text.into_bytes()));
    wanted.attributes = Attributes::default().with_mode(Some(Mode::parse(&mode.into())?));
    run::carry_out(wanted.plan(host)?, host)?;
    let Some((user, group)) = owner else { return Ok(()) };
    let user = accounts::user_by_name(&user).map(|user| user.uid);
    let group = accounts::group_by_name(&group).ok_or_else(|| Failure::new(format!("There is no group {group}.")))?.gid;
    way::chown(path, user, Some(group), way::Link::Follow).map_err(|error| {
        Failure::new(format!("The owner of {} could not be changed: {}.", path.display(), reason(&error)))
    })
}
