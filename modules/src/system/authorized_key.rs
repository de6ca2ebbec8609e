//! `authorized_key`: SSH keys that may log in.

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
        "Adds keys to a user's authorized_keys and removes them. Other lines stay unchanged.",
        "An existing key gets the options and the comment of the task; options that the task does not name are \
         removed.",
    ],
    options: &[
        Opt::required("user", Kind::Str, "Name of the user.").line(),
        Opt::required("key", Kind::Str, "Public keys, one per line."),
        Opt::new("state", Kind::Str, "`present` adds the keys, `absent` removes them.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("path", Kind::Path, "Path of the key file. Default: `.ssh/authorized_keys` in the home directory."),
        Opt::new("manage_dir", Kind::Bool, "Create the directory and set its owner and mode.").default("true"),
        Opt::new("key_options", Kind::Str, "Options to write before the key, such as `no-pty,from=\"10.0.0.1\"`.")
            .line(),
        Opt::new("exclusive", Kind::Bool, "Remove all other lines, including comments.").default("false"),
        Opt::new("comment", Kind::Str, "Comment to use instead of the key's own.").line(),
        Opt::new("follow", Kind::Bool, "Follow the key file if it is a symbolic link.").default("false"),
        Opt::new("validate_certs", Kind::Bool, "No effect; accepted for compatibility.").default("true"),
    ],
    examples: "- name: Let Ada in\n  ansible.posix.authorized_key:\n    user: ada\n    key: \"{{ lookup('file', 'ada.pub') }}\"\n",
    returns: &[
        Return { name: "keyfile", kind: "str", when: "success", doc: "Path of the key file." },
        Return { name: "key", kind: "str", when: "success", doc: "Keys as given to the task." },
        Return { name: "mode", kind: "str", when: "the file exists", doc: "Permissions of the file." },
        Return { name: "owner", kind: "str", when: "the file exists", doc: "Owner of the file." },
        Return { name: "group", kind: "str", when: "the file exists", doc: "Group of the file." },
        Return { name: "size", kind: "int", when: "the file exists", doc: "Size of the file in bytes." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// The key types that OpenSSH knows.
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

/// A line of the file: a key, or any other text, which stays as it is.
#[derive(Debug, Clone)]
struct Line {
    /// Identity of the line: the key itself, or the whole line if it is not a key.
    id: String,
    /// The key type; `None` for comments, blank lines and lines that cannot be parsed.
    kind: Option<String>,
    options: Vec<String>,
    comment: String,
    /// Position of the line in the file.
    rank: usize,
}

impl Line {
    /// Parses `options type key comment`.
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

    /// Whether both lines grant the same access. The order of different options does not matter.
    fn is(&self, other: &Line) -> bool {
        let sorted = |line: &Line| {
            let mut options = line.options.clone();
            options.sort_by(|a, b| a.split('=').next().cmp(&b.split('=').next()));
            options
        };
        self.id == other.id && self.kind == other.kind && self.comment == other.comment && sorted(self) == sorted(other)
    }

    /// Like `ansible.posix`, writes the blank before a comment even if there is no comment.
    fn text(&self) -> String {
        let Some(kind) = &self.kind else { return format!("{}\n", self.id) };
        let options = if self.options.is_empty() { String::new() } else { format!("{} ", self.options.join(",")) };
        format!("{options}{kind} {} {}\n", self.id, self.comment)
    }
}

/// The options before a key; commas inside quotes belong to an option.
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

/// The new text, if anything changes.
///
/// As in `ansible.posix`, so that the same playbook grants the same access: a key loses options and comments that the
/// task does not name, and moves to the end. A rewritten file has each line once. `exclusive` keeps only the keys of
/// the task, without comments.
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
        way::chown(folder, Some(user.uid), Some(user.gid), way::Link::Follow).map_err(|error| refuse(folder, error))?;
        way::chmod(folder, 0o700).map_err(|error| refuse(folder, error))?;
    }
    config_file::replace_with(path, text, Attributes::owned_by(user.uid, user.gid, 0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lines: &[&str]) -> Vec<Line> {
        lines.iter().enumerate().map(|(rank, line)| Line::key(line, rank).unwrap()).collect()
    }

    #[test]
    fn key_options_with_quoted_blanks_parsed() {
        let key = Line::key("command=\"echo hi, there\",no-pty ssh-ed25519 AAAA ada at home", 0).unwrap();
        assert_eq!(key.options, ["command=\"echo hi, there\"", "no-pty"]);
        assert_eq!(
            (key.kind.as_deref(), key.id.as_str(), key.comment.as_str()),
            (Some("ssh-ed25519"), "AAAA", "ada at home")
        );
        assert!(Line::key("# ssh-rsa AAAA", 0).is_none() && Line::key("nonsense", 0).is_none());
    }

    #[test]
    fn keys_added_and_removed_rest_kept() {
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
    fn options_missing_in_task_removed() {
        let text = "from=\"a,b\",no-pty ssh-rsa AAAA ada\nssh-rsa BBBB bob\n";
        let change = |key| change(text, &keys(&[key]), true, false);
        assert_eq!(change("ssh-rsa AAAA ada").unwrap(), "ssh-rsa BBBB bob\nssh-rsa AAAA ada\n");
        assert_eq!(change("no-pty,from=\"a,b\" ssh-rsa AAAA ada"), None);
    }
}
