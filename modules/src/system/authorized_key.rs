//! `authorized_key`: who may log in with an SSH key.

use std::path::Path;

use super::config_file;
use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec, accounts,
    files::{attributes::Attributes, info::describe, way},
    process::reason,
};

/// The `authorized_key` module.
pub struct AuthorizedKey;

static SPEC: Spec = Spec {
    name: "authorized_key",
    collection: "ansible.posix",
    summary: "Manage the SSH keys that may log in as a user",
    description: &[
        "Adds keys to a user's authorized_keys and takes them away. Other lines stay as they are.",
        "A key that is there already gets the options and the comment of the task; those that the task does not name go.",
    ],
    options: &[
        Opt::required("user", Kind::Str, "The user.").line(),
        Opt::required("key", Kind::Str, "Public keys, one per line."),
        Opt::new("state", Kind::Str, "Whether they may log in.").default("\"present\"").choices(&["absent", "present"]),
        Opt::new("path", Kind::Path, "The file, if it is not .ssh/authorized_keys in the home directory."),
        Opt::new("manage_dir", Kind::Bool, "Make the folder and set its owner and mode.").default("true"),
        Opt::new("key_options", Kind::Str, "Options before the key, such as `no-pty,from=\"10.0.0.1\"`.").line(),
        Opt::new("exclusive", Kind::Bool, "Remove every other line, comments too.").default("false"),
        Opt::new("comment", Kind::Str, "A comment instead of the key's own.").line(),
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

/// The words that begin a key, as OpenSSH names them.
const KINDS: &[&str] = &[
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "rsa-sha2-256",
    "rsa-sha2-256-cert-v01@openssh.com",
    "rsa-sha2-512",
    "rsa-sha2-512-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
    "sk-ssh-ed25519@openssh.com",
    "ssh-dss",
    "ssh-dss-cert-v01@openssh.com",
    "ssh-ed25519",
    "ssh-ed25519-cert-v01@openssh.com",
    "ssh-rsa",
    "ssh-rsa-cert-v01@openssh.com",
    "ssh-xmss-cert-v01@openssh.com",
    "ssh-xmss@openssh.com",
    "webauthn-sk-ecdsa-sha2-nistp256@openssh.com",
];

/// A line of the file: a key, or what is none and stays as it is.
#[derive(Debug, Clone)]
struct Line {
    /// What is found again: the key itself, or the whole line if it is none.
    id: String,
    /// The type of the key; none for comments, blank lines and what is not understood.
    kind: Option<String>,
    options: Vec<String>,
    comment: String,
    /// Where the line stands among the others.
    rank: usize,
}

impl Line {
    /// `options type key comment`.
    fn key(line: &str, rank: usize) -> Option<Line> {
        let line = line.replace("\\#", "#");
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.first() == Some(&"#") {
            return None;
        }
        let at = words.iter().position(|word| KINDS.contains(word))?;
        Some(Line {
            id: words.get(at + 1)?.to_string(),
            kind: words.get(at).map(ToString::to_string),
            options: options(&words.get(..at)?.join(" ")),
            comment: words.get(at + 2..).unwrap_or_default().join(" "),
            rank,
        })
    }

    fn of_file(line: &str, rank: usize) -> Line {
        let other = || Line { id: line.to_owned(), kind: None, options: Vec::new(), comment: String::new(), rank };
        Line::key(line, rank).unwrap_or_else(other)
    }

    /// Whether both let the same in under the same terms. The order of different options is of no account.
    fn is(&self, other: &Line) -> bool {
        let sorted = |line: &Line| {
            let mut options = line.options.clone();
            options.sort_by(|a, b| a.split('=').next().cmp(&b.split('=').next()));
            options
        };
        self.id == other.id && self.kind == other.kind && self.comment == other.comment && sorted(self) == sorted(other)
    }

    /// The blank before a comment is there even if the comment is not, as `ansible.posix` writes it.
    fn text(&self) -> String {
        let Some(kind) = &self.kind else { return format!("{}\n", self.id) };
        let options = if self.options.is_empty() { String::new() } else { format!("{} ", self.options.join(",")) };
        format!("{options}{kind} {} {}\n", self.id, self.comment)
    }
}

/// The options before a key; commas in quotes belong to them.
fn options(text: &str) -> Vec<String> {
    let (mut options, mut option) = (Vec::new(), String::new());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = match letter {
            '"' | '\'' => rest.get(1..).and_then(|rest| rest.find(letter)).map_or(1, |end| end + 2),
            _ => letter.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        match piece {
            "," => options.push(std::mem::take(&mut option)),
            _ => option.push_str(piece),
        }
        rest = after;
    }
    options.push(option);
    options.retain(|option| !option.is_empty());
    options
}

fn wanted(args: &Args) -> Result<Vec<Line>, Failure> {
    let text = args.required("key")?;
    if text.starts_with("http://") || text.starts_with("https://") {
        return Err(Failure::new(
            "key must be the keys themselves; fetch an address with get_url or the url lookup first.",
        ));
    }
    let mut keys = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#')) {
        let mut key =
            Line::key(line, keys.len()).ok_or_else(|| Failure::new(format!("invalid key specified: {line}")))?;
        if let Some(text) = args.str("key_options") {
            key.options = options(text);
        }
        if let Some(comment) = args.str("comment") {
            key.comment = comment.to_owned();
        }
        keys.push(key);
    }
    Ok(keys)
}

/// The new text, if something changes.
///
/// A key is what the task says: options and a comment that it does not name go, and the key moves to the end. A file
/// that is written has each line once. `exclusive` leaves nothing but the keys of the task, not even comments. All of
/// this is as `ansible.posix` does it, so that the same playbook lets the same people in.
fn change(text: &str, keys: &[Line], present: bool, exclusive: bool) -> Option<String> {
    let mut lines: Vec<Line> = Vec::new();
    for (rank, line) in text.lines().enumerate() {
        let line = Line::of_file(line, rank);
        match lines.iter_mut().find(|other| other.id == line.id) {
            Some(other) => *other = line,
            None => lines.push(line),
        }
    }
    let (end, mut changed) = (lines.len(), false);
    for key in keys {
        let at = lines.iter().position(|line| line.id == key.id);
        let found = at.and_then(|at| lines.get(at));
        if present && found.is_some_and(|line| line.is(key)) || !present && found.is_none() {
            continue;
        }
        changed = true;
        if let Some(at) = at {
            lines.remove(at);
        }
        if present {
            lines.push(Line { rank: end + key.rank, ..key.clone() });
        }
    }
    if present && exclusive {
        let before = lines.len();
        lines.retain(|line| keys.iter().any(|key| key.id == line.id));
        changed |= lines.len() < before;
    }
    lines.sort_by_key(|line| line.rank);
    changed.then(|| lines.iter().map(Line::text).collect())
}

impl Module for AuthorizedKey {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        let of_user = || format!("authorized_key/{}", args.str("user").unwrap_or_default());
        Some(args.str("path").map_or_else(of_user, str::to_owned).into())
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
        let after = change(&before, &keys, present, args.bool("exclusive"));
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
        let plan = if let Some(after) = after {
            let diff = host.diff().then(|| Diff::of(&path, before, after.clone()));
            let target = path.clone();
            let plan = Plan::change(move |_: &Host, outcome: &mut Outcome| {
                write(&target, &after, manage, &user)?;
                outcome.data.extend(describe(Path::new(&target)));
                Ok(())
            });
            plan.with_diff(diff)
        } else {
            Plan::unchanged()
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
            way::create_dir(folder, 0o700).map_err(|error| refuse(folder, error))?;
        }
        way::chown(folder, Some(user.uid), Some(user.gid), true).map_err(|error| refuse(folder, error))?;
        way::chmod(folder, 0o700).map_err(|error| refuse(folder, error))?;
    }
    config_file::replace_with(path, text, false, Attributes::owned_by(user.uid, user.gid, 0o600)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lines: &[&str]) -> Vec<Line> {
        lines.iter().enumerate().map(|(rank, line)| Line::key(line, rank).unwrap()).collect()
    }

    #[test]
    fn a_key_has_options_with_blanks_and_commas_in_quotes() {
        let key = Line::key("command=\"echo hi, there\",no-pty ssh-ed25519 AAAA ada at home", 0).unwrap();
        assert_eq!(key.options, ["command=\"echo hi, there\"", "no-pty"]);
        assert_eq!(
            (key.kind.as_deref(), key.id.as_str(), key.comment.as_str()),
            (Some("ssh-ed25519"), "AAAA", "ada at home")
        );
        assert!(Line::key("# ssh-rsa AAAA", 0).is_none() && Line::key("nonsense", 0).is_none());
    }

    #[test]
    fn keys_come_and_go_and_the_rest_stays() {
        let text = "# ours\nssh-rsa BBBB bob\nno-pty ssh-rsa CCCC carl\n";
        let added = change(text, &keys(&["ssh-ed25519 AAAA ada"]), true, false).unwrap();
        assert_eq!(added, format!("{text}ssh-ed25519 AAAA ada\n"));
        assert_eq!(change(&added, &keys(&["ssh-ed25519 AAAA ada"]), true, false), None);
        assert_eq!(change(&added, &keys(&["ssh-ed25519 AAAA"]), false, false).as_deref(), Some(text));
        assert_eq!(change(text, &keys(&["ssh-rsa CCCC carl"]), true, true).unwrap(), "ssh-rsa CCCC carl\n");
        assert_eq!(change("", &keys(&["ssh-rsa A", "ssh-rsa A"]), true, false).unwrap(), "ssh-rsa A \n");
        assert_eq!(change("# open", &keys(&["ssh-rsa A a"]), true, false).unwrap(), "# open\nssh-rsa A a\n");
    }

    #[test]
    fn options_that_the_task_does_not_name_go() {
        let text = "from=\"a,b\",no-pty ssh-rsa AAAA ada\nssh-rsa BBBB bob\n";
        let change = |key| change(text, &keys(&[key]), true, false);
        assert_eq!(change("ssh-rsa AAAA ada").unwrap(), "ssh-rsa BBBB bob\nssh-rsa AAAA ada\n");
        assert_eq!(change("no-pty,from=\"a,b\" ssh-rsa AAAA ada"), None);
    }
}
