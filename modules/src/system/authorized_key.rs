//! `authorized_key`: who may log in with an SSH key.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};

use super::config_file;
use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec, accounts, files::info::describe,
    process::reason,
};

/// The `authorized_key` module.
pub struct AuthorizedKey;

static SPEC: Spec = Spec {
    name: "authorized_key",
    collection: "ansible.posix",
    summary: "Manage the SSH keys that may log in as a user",
    description: &["Adds keys to a user's authorized_keys and takes them away. Other lines stay as they are."],
    options: &[
        Opt::required("user", Kind::Str, "The user."),
        Opt::required("key", Kind::Str, "Public keys, one per line."),
        Opt::new("state", Kind::Str, "Whether they may log in.").default("\"present\"").choices(&["absent", "present"]),
        Opt::new("path", Kind::Path, "The file, if it is not .ssh/authorized_keys in the home directory."),
        Opt::new("manage_dir", Kind::Bool, "Make the folder and set its owner and mode.").default("true"),
        Opt::new("key_options", Kind::Str, "Options before the key, such as `no-pty,from=\"10.0.0.1\"`."),
        Opt::new("exclusive", Kind::Bool, "Remove every other key.").default("false"),
        Opt::new("comment", Kind::Str, "A comment instead of the key's own."),
        Opt::new("follow", Kind::Bool, "Follow a link that is in the place of the file.").default("false"),
        Opt::new("validate_certs", Kind::Bool, "Accepted for old playbooks.").default("true"),
    ],
    examples: "- name: Let Ada in\n  ansible.posix.authorized_key:\n    user: ada\n    key: \"{{ lookup('file', 'ada.pub') }}\"\n",
    returns: &[
        Return { name: "keyfile", kind: "str", when: "success", doc: "The file." },
        Return { name: "key", kind: "str", when: "success", doc: "The keys, as every other argument is returned." },
        Return { name: "mode", kind: "str", when: "the file exists", doc: "Its permissions." },
        Return { name: "owner", kind: "str", when: "the file exists", doc: "Its owner." },
        Return { name: "group", kind: "str", when: "the file exists", doc: "Its group." },
        Return { name: "size", kind: "int", when: "the file exists", doc: "Its size." },
    ],
    ..Spec::EMPTY
};

/// A key of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    options: String,
    kind: String,
    body: String,
    comment: String,
}

impl Key {
    /// `options type key comment`; spaces in quotes belong to the options.
    fn parse(line: &str) -> Option<Key> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let mut words: Vec<&str> = Vec::new();
        let (mut start, mut quoted) = (0, false);
        for (at, letter) in line.char_indices() {
            match letter {
                '"' => quoted = !quoted,
                ' ' | '\t' if !quoted => {
                    words.extend(line.get(start..at).filter(|word| !word.is_empty()));
                    start = at + 1;
                }
                _ => {}
            }
        }
        words.extend(line.get(start..).filter(|word| !word.is_empty()));
        let known_word = |word: &&str| ["ssh-", "ecdsa-", "sk-"].iter().any(|prefix| word.starts_with(prefix));
        let at = words.iter().take(2).position(known_word)?;
        Some(Key {
            options: if at == 0 { String::new() } else { words.first()?.to_string() },
            kind: words.get(at)?.to_string(),
            body: words.get(at + 1)?.to_string(),
            comment: words.get(at + 2..).unwrap_or_default().join(" "),
        })
    }

    fn line(&self) -> String {
        let parts = [&self.options, &self.kind, &self.body, &self.comment];
        parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

fn wanted(args: &Args) -> Result<Vec<Key>, Failure> {
    let text = args.required("key")?;
    if text.starts_with("http://") || text.starts_with("https://") {
        return Err(Failure::new(
            "key must be the keys themselves; fetch an address with get_url or the url lookup first.",
        ));
    }
    let mut keys = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#')) {
        let mut key = Key::parse(line).ok_or_else(|| Failure::new(format!("invalid key specified: {line}")))?;
        if let Some(options) = args.str("key_options") {
            key.options = options.to_owned();
        }
        if let Some(comment) = args.str("comment") {
            key.comment = comment.to_owned();
        }
        keys.push(key);
    }
    Ok(keys)
}

fn change(text: &str, keys: &[Key], present: bool, exclusive: bool, new_options: bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for line in text.lines() {
        let Some(found) = Key::parse(line) else {
            lines.push(line.to_owned());
            continue;
        };
        match keys.iter().find(|key| key.body == found.body) {
            Some(key) if present => {
                if !seen.contains(&key.body.as_str()) {
                    // Options and comment that are not asked for stay.
                    let options = if new_options || !key.options.is_empty() {
                        key.options.clone()
                    } else {
                        found.options.clone()
                    };
                    let comment = if key.comment.is_empty() { found.comment.clone() } else { key.comment.clone() };
                    let kept = Key { options, comment, ..found.clone() };
                    lines.push(if kept == found { line.to_owned() } else { kept.line() });
                    seen.push(&key.body);
                }
            }
            Some(_) => {}
            None if exclusive && present => {}
            None => lines.push(line.to_owned()),
        }
    }
    if present {
        for key in keys {
            if !seen.contains(&key.body.as_str()) {
                lines.push(key.line());
                seen.push(&key.body);
            }
        }
    }
    let mut new: String = lines.join("\n");
    if !new.is_empty() {
        new.push('\n');
    }
    if new.trim_end() == text.trim_end() { text.to_owned() } else { new }
}

impl Module for AuthorizedKey {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("user")?.to_owned();
        let keys = wanted(args)?;
        let user = match accounts::user_by_name(&name) {
            Some(user) => user,
            None if host.dry_run() => {
                let plan = Plan::change(|_, _| Ok(())).with("user", name.as_str());
                return Ok(
                    plan.with_warning(format!("The user {name} does not exist yet; it is assumed that it will."))
                );
            }
            None => return Err(Failure::new(format!("Failed to lookup user {name}: the host has no such account."))),
        };
        let path = match args.str("path") {
            Some(path) => path.replace("%h", &user.home).replace("%u", &user.name),
            None => format!("{}/.ssh/authorized_keys", user.home),
        };
        if Path::new(&path).is_symlink() && !args.bool("follow") {
            return Err(Failure::new(format!("{path} is a link; set follow to change what it leads to.")));
        }
        let before = config_file::read(&path)?;
        let present = args.str("state") != Some("absent");
        let after = change(&before, &keys, present, args.bool("exclusive"), args.str("key_options").is_some());
        let manage = args.bool("manage_dir");
        let mut data: Map = SPEC
            .options
            .iter()
            .map(|option| (option.name.to_owned(), args.value(option.name).cloned().unwrap_or_default()))
            .collect();
        data.insert("keyfile".into(), path.as_str().into());
        if Path::new(&path).exists() {
            data.extend(describe(Path::new(&path)));
        }
        let plan = if before == after {
            Plan::unchanged()
        } else {
            let diff = host.diff().then(|| Diff::of(&path, before, after.clone()));
            let target = path.clone();
            let plan = Plan::change(move |_: &Host, outcome: &mut Outcome| {
                write(&target, &after, manage, &user)?;
                outcome.data.extend(describe(Path::new(&target)));
                Ok(())
            });
            plan.with_diff(diff)
        };
        Ok(plan.with_all(data))
    }
}

fn write(path: &str, text: &str, manage: bool, user: &accounts::User) -> Result<(), Failure> {
    let refuse = |what: &Path, error: std::io::Error| {
        Failure::new(format!("{} could not be prepared: {}.", what.display(), reason(&error)))
    };
    let file = Path::new(path);
    let folder = file.parent().unwrap_or(Path::new("/"));
    if manage {
        if !folder.exists() {
            fs::create_dir(folder).map_err(|error| refuse(folder, error))?;
        }
        chown(folder, Some(user.uid), Some(user.gid)).map_err(|error| refuse(folder, error))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(|error| refuse(folder, error))?;
    }
    config_file::replace(path, text, false)?;
    chown(file, Some(user.uid), Some(user.gid)).map_err(|error| refuse(file, error))?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).map_err(|error| refuse(file, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lines: &[&str]) -> Vec<Key> {
        lines.iter().map(|line| Key::parse(line).unwrap()).collect()
    }

    #[test]
    fn a_key_has_options_with_blanks_in_quotes() {
        let key = Key::parse("command=\"echo hi there\",no-pty ssh-ed25519 AAAA ada at home").unwrap();
        assert_eq!(key.options, "command=\"echo hi there\",no-pty");
        assert_eq!(
            (key.kind.as_str(), key.body.as_str(), key.comment.as_str()),
            ("ssh-ed25519", "AAAA", "ada at home")
        );
        assert_eq!(Key::parse("# comment"), None);
        assert_eq!(Key::parse("nonsense"), None);
    }

    #[test]
    fn keys_come_and_go_and_the_rest_stays() {
        let text = "# ours\nssh-rsa BBBB bob\nno-pty ssh-rsa CCCC carl\n";
        let added = change(text, &keys(&["ssh-ed25519 AAAA ada"]), true, false, false);
        assert_eq!(added, format!("{text}ssh-ed25519 AAAA ada\n"));
        assert_eq!(change(&added, &keys(&["ssh-ed25519 AAAA ada"]), true, false, false), added);
        assert_eq!(change(&added, &keys(&["ssh-ed25519 AAAA"]), false, false, false), text);
        assert_eq!(
            change(text, &keys(&["ssh-rsa CCCC carl"]), true, true, false),
            "# ours\nno-pty ssh-rsa CCCC carl\n"
        );
        assert_eq!(change("", &keys(&["ssh-rsa A", "ssh-rsa A"]), true, false, false), "ssh-rsa A\n");
    }
}
