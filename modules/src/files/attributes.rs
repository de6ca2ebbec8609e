//! Owner, permissions, attributes and security context: options common to all file modules.

use std::{
    fs::{File, Metadata, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    path::Path,
};

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use serde_json::{Value, json};

use super::{
    context::{context_of, set_context},
    flags::{flags_of_node, letters, new_flags},
    info::octal,
    mode::{Mode, Of, masked},
    staged::FRESH_FILE,
    way::{self, Link, Place},
};
use crate::{Args, Diff, Failure, Host, Kind, Map, Opt, accounts, args::is_true, process::reason};

/// The options, which [`with_attributes!`](crate::with_attributes) appends to a module's own.
pub const OPTIONS: [Opt; 9] = [
    Opt::new("mode", Kind::Raw, "Permissions: octal such as `'0644'`, or symbolic such as `u=rwX,g=rX,o=`."),
    Opt::new("owner", Kind::Str, "Name or id of the owner."),
    Opt::new("group", Kind::Str, "Name or id of the group."),
    Opt::new("seuser", Kind::Str, "User of the SELinux context; `_default` applies the policy."),
    Opt::new("serole", Kind::Str, "Role of the SELinux context."),
    Opt::new("setype", Kind::Str, "Type of the SELinux context."),
    Opt::new("selevel", Kind::Str, "Level of the SELinux context."),
    Opt::new("attributes", Kind::Str, "Attributes in the notation of `chattr`, such as `+i` or `=ae`.")
        .aliases(&["attr"]),
    Opt::new(
        "unsafe_writes",
        Kind::Bool,
        "Overwrite a file in place if it cannot be replaced atomically, such as one mounted into a container. \
         Default: the environment variable ANSIBLE_UNSAFE_WRITES of the task.",
    ),
];

/// A module's options followed by the options of [`attributes`](crate::files::attributes).
#[macro_export]
macro_rules! with_attributes {
    ($($option:expr),* $(,)?) => {{
        const OWN: &[$crate::Opt] = &[$($option),*];
        const ALL: [$crate::Opt; OWN.len() + $crate::files::attributes::OPTIONS.len()] =
            $crate::files::attributes::after(OWN);
        &ALL
    }};
}

/// A module's own options, and behind them [`OPTIONS`]. `N` is the number of both.
pub const fn after<const N: usize>(own: &[Opt]) -> [Opt; N] {
    let mut all = [OPTIONS[0]; N];
    let mut index = 0;
    while index < N {
        all[index] = if index < own.len() { own[index] } else { OPTIONS[index - own.len()] };
        index += 1;
    }
    all
}

/// Requested attributes of a file.
#[derive(Debug, Clone, Default)]
pub struct Attributes {
    /// Permission bits.
    pub mode: Option<Mode>,
    owner: Option<Id>,
    group: Option<Id>,
    flags: Option<String>,
    context: [Option<String>; 4],
    /// Overwrite in place if the file cannot be replaced.
    pub unsafe_writes: bool,
}

/// A requested user or group. In check mode, an earlier task may only pretend to have created it.
#[derive(Debug, Clone)]
enum Id {
    Known(u32),
    /// A numeric id without an account.
    Unnamed(u32),
    Missing(String),
}

/// A difference between an actual and a requested attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Name of the attribute.
    pub name: &'static str,
    /// Actual value.
    pub before: String,
    /// Requested value.
    pub after: String,
}

impl Attributes {
    /// Parses the common options.
    pub fn of(args: &Args, host: &Host) -> Result<Attributes, Failure> {
        let mode = args.value("mode").map(Mode::parse).transpose()?;
        let owner = args.filled("owner");
        let owner =
            owner.map(|name| id(name, "user", host, |name| Some(accounts::user_by_name(name)?.uid))).transpose()?;
        let group = args.filled("group");
        let group =
            group.map(|name| id(name, "group", host, |name| Some(accounts::group_by_name(name)?.gid))).transpose()?;
        let context = ["seuser", "serole", "setype", "selevel"].map(|name| args.str(name).map(str::to_owned));
        let flags = args.str("attributes").map(str::to_owned);
        if let Some(flags) = &flags {
            new_flags(flags, IFlags::empty())?;
        }
        let unsafe_writes = match args.value("unsafe_writes") {
            Some(_) => args.bool("unsafe_writes"),
            None => host.variable("ANSIBLE_UNSAFE_WRITES").is_some_and(|text| is_true(&Value::from(text))),
        };
        Ok(Attributes { mode, owner, group, flags, context, unsafe_writes })
    }

    /// The same attributes with these permission bits.
    pub fn with_mode(&self, mode: Option<Mode>) -> Attributes {
        Attributes { mode, ..self.clone() }
    }

    /// Resulting permission bits. For a new file, the umask limits the initial bits.
    pub fn bits(&self, found: Option<&Metadata>, fresh: u32, of: Of) -> Result<u32, Failure> {
        self.bits_from(found.map_or_else(|| masked(fresh), |found| found.mode() & 0o7777), of)
    }

    fn bits_from(&self, current: u32, of: Of) -> Result<u32, Failure> {
        self.mode.as_ref().map_or(Ok(current), |mode| mode.bits(current, of))
    }

    /// Attributes with only owner, group and permissions, for a user's own file.
    pub(crate) fn owned_by(uid: u32, gid: u32, bits: u32) -> Attributes {
        let (owner, group) = (Some(Id::Known(uid)), Some(Id::Known(gid)));
        Attributes { mode: Some(Mode::Bits(bits)), owner, group, ..Attributes::default() }
    }

    /// Attributes that differ from the requested ones.
    pub(crate) fn changes(&self, path: &Path, link: Link) -> Result<Vec<Change>, Failure> {
        self.changes_of(place(path, link)?.existing().map_err(|error| unseen(path, &error))?, path)
    }

    /// Like `changes` for an open file, even if its name has changed.
    fn changes_of(&self, node: &File, path: &Path) -> Result<Vec<Change>, Failure> {
        let found = node.metadata().map_err(|error| unseen(path, &error))?;
        let mut changes = Vec::new();
        let mut note = |name, before: String, after: String| {
            if before != after {
                changes.push(Change { name, before, after });
            }
        };
        if !found.is_symlink() {
            let of = if found.is_dir() { Of::Directory } else { Of::File };
            let bits = self.bits(Some(&found), 0, of)?;
            note("mode", octal(found.mode()), octal(bits));
        }
        if let Some(owner) = &self.owner {
            note("owner", found.uid().to_string(), owner.to_string());
        }
        if let Some(group) = &self.group {
            note("group", found.gid().to_string(), group.to_string());
        }
        if let Some(flags) = &self.flags
            && !found.is_symlink()
        {
            let current = flags_of_node(node).unwrap_or(IFlags::empty());
            note("attributes", letters(current), letters(new_flags(flags, current)?));
        }
        if let Some(context) = context_of(node) {
            note("secontext", context.clone(), self.new_context(&context));
        }
        Ok(changes)
    }

    /// Changes that a new file needs beyond its defaults.
    pub fn changes_of_fresh(&self) -> Result<Vec<Change>, Failure> {
        let ids = [
            ("owner", &self.owner, rustix::process::geteuid().as_raw()),
            ("group", &self.group, rustix::process::getegid().as_raw()),
        ];
        let mut changes = vec![("mode", octal(masked(FRESH_FILE)), octal(self.bits(None, FRESH_FILE, Of::File)?))];
        for (name, asked, own) in ids {
            changes.extend(asked.as_ref().map(|asked| (name, own.to_string(), asked.to_string())));
        }
        let differ = changes.into_iter().filter(|(_, before, after)| before != after);
        Ok(differ.map(|(name, before, after)| Change { name, before, after }).collect())
    }

    /// Sets the attributes of a file and returns the changes.
    pub(crate) fn apply(&self, path: &Path, link: Link) -> Result<Vec<Change>, Failure> {
        self.apply_to(place(path, link)?.existing().map_err(|error| unseen(path, &error))?, path)
    }

    /// Like `apply` for an open file, even if its name has changed.
    pub(crate) fn apply_to(&self, node: &File, path: &Path) -> Result<Vec<Change>, Failure> {
        let changes = self.changes_of(node, path)?;
        for change in &changes {
            self.carry_out(change, node).map_err(|error| {
                let what = match change.name {
                    "owner" => "chown",
                    "group" => "chgrp",
                    "mode" => "chmod",
                    "attributes" => "chattr",
                    _ => "setting the security context",
                };
                Failure::new(format!("{what} failed: {} of {}: {}.", change.name, path.display(), reason(&error)))
                    .with("path", path.display().to_string())
            })?;
        }
        // Changing the owner clears special bits.
        if changes.iter().any(|change| matches!(change.name, "owner" | "group"))
            && let Some(change) = self.changes_of(node, path)?.iter().find(|change| change.name == "mode")
        {
            self.carry_out(change, node).map_err(|error| {
                Failure::new(format!("chmod failed: mode of {}: {}.", path.display(), reason(&error)))
            })?;
        }
        Ok(changes)
    }

    fn carry_out(&self, change: &Change, node: &File) -> io::Result<()> {
        match change.name {
            "mode" => {
                let bits = u32::from_str_radix(&change.after, 8).map_err(io::Error::other)?;
                std::fs::set_permissions(way::handle(node), Permissions::from_mode(bits))
            }
            "owner" | "group" => {
                let number = Some(change.after.parse().map_err(|_| io::Error::other("there is no such account"))?);
                let (uid, gid) = if change.name == "owner" { (number, None) } else { (None, number) };
                way::give(node, uid, gid)
            }
            "attributes" => {
                let file = File::open(way::handle(node))?;
                let flags = new_flags(self.flags.as_deref().unwrap_or_default(), ioctl_getflags(&file)?);
                Ok(ioctl_setflags(&file, flags.map_err(|failure| io::Error::other(failure.message))?)?)
            }
            _ => set_context(node, &change.after),
        }
    }

    /// Sets owner and permissions of an open file before it becomes visible. A replacement keeps the old values unless
    /// the task sets them.
    pub(crate) fn prepare(&self, file: &File, old: Option<&Metadata>, fresh: u32) -> io::Result<()> {
        let now = file.metadata()?;
        let wanted = |asked: &Option<Id>, old: Option<u32>, now: u32| {
            let number = asked.as_ref().and_then(Id::known).or(old);
            number.filter(|number| *number != now).map(|number| (number, asked.is_some()))
        };
        let uid = wanted(&self.owner, old.map(MetadataExt::uid), now.uid());
        let gid = wanted(&self.group, old.map(MetadataExt::gid), now.gid());
        for (uid, gid, asked) in [(uid, None, uid), (None, gid, gid)] {
            let Some((_, required)) = asked else { continue };
            match fchown(file, uid.map(|(uid, _)| uid), gid.map(|(gid, _): (u32, bool)| gid)) {
                Err(error) if required => return Err(error),
                // Without permission to change the owner, the user creates the replacement as its own file.
                Err(_) | Ok(()) => {}
            }
        }
        let now = file.metadata()?;
        // Drops setuid and setgid bits that were set for another owner or group.
        let kept = |old: &Metadata| {
            let setuid = if old.uid() == now.uid() { 0o4000 } else { 0 };
            let setgid = if old.gid() == now.gid() { 0o2000 } else { 0 };
            old.mode() & (0o1777 | setuid | setgid)
        };
        let bits = self.bits_from(old.map_or_else(|| masked(fresh), kept), Of::File);
        let bits = bits.map_err(|failure| io::Error::other(failure.message))?;
        file.set_permissions(Permissions::from_mode(bits))
    }

    fn new_context(&self, current: &str) -> String {
        let mut parts: Vec<&str> = current.splitn(4, ':').collect();
        for (part, asked) in parts.iter_mut().zip(&self.context) {
            if let Some(asked) = asked.as_deref().filter(|asked| *asked != "_default") {
                *part = asked;
            }
        }
        parts.join(":")
    }

    /// Warnings about missing accounts, which only check mode tolerates.
    pub fn warnings(&self) -> Vec<String> {
        let missing = [("user", &self.owner), ("group", &self.group)];
        missing
            .into_iter()
            .filter_map(|(what, id)| match id {
                Some(Id::Missing(name)) => Some(format!(
                    "failed to look up {what} {name}. An earlier task may be about to make it, so check mode goes on."
                )),
                Some(Id::Unnamed(number)) => {
                    let id = if what == "user" { "uid" } else { "gid" };
                    Some(format!(
                        "failed to look up {what} with {id} {number}. Create {what} up to this point in real play"
                    ))
                }
                _ => None,
            })
            .collect()
    }
}

/// The attribute differences for `--diff`.
pub fn diff_of(path: &Path, changes: &[Change]) -> Diff {
    let side = || json!({ "path": path.display().to_string() });
    with_changes(Diff { before: side(), after: side(), ..Diff::default() }, changes)
}

/// Adds attribute differences to another difference.
pub fn with_changes(mut diff: Diff, changes: &[Change]) -> Diff {
    let shown = |change: &Change, text: &str| -> Value {
        let number = text.parse::<u32>().ok().filter(|_| matches!(change.name, "owner" | "group"));
        number.map_or_else(|| text.into(), Value::from)
    };
    for change in changes {
        for (side, text) in [(&mut diff.before, &change.before), (&mut diff.after, &change.after)] {
            if side.is_null() {
                *side = Value::Object(Map::new());
            }
            if let Some(side) = side.as_object_mut() {
                side.insert(change.name.to_owned(), shown(change, text));
            }
        }
    }
    diff
}

impl Id {
    fn known(&self) -> Option<u32> {
        match self {
            Id::Known(number) | Id::Unnamed(number) => Some(*number),
            Id::Missing(_) => None,
        }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Id::Known(number) | Id::Unnamed(number) => number.fmt(formatter),
            Id::Missing(name) => name.fmt(formatter),
        }
    }
}

fn id(name: &str, what: &str, host: &Host, find: impl Fn(&str) -> Option<u32>) -> Result<Id, Failure> {
    let has_account = |number: u32| match what {
        "user" => accounts::user_by_id(number).is_some(),
        _ => accounts::group_by_id(number).is_some(),
    };
    if let Ok(number) = name.parse() {
        return Ok(if host.check() && !has_account(number) { Id::Unnamed(number) } else { Id::Known(number) });
    }
    match find(name) {
        Some(number) => Ok(Id::Known(number)),
        None if host.check() => Ok(Id::Missing(name.to_owned())),
        None => {
            let command = if what == "user" { "chown" } else { "chgrp" };
            Err(Failure::new(format!("{command} failed: failed to look up {what} {name}")))
        }
    }
}

fn place(path: &Path, link: Link) -> Result<Place, Failure> {
    Place::to_write(path, link).map_err(|error| unseen(path, &error))
}

fn unseen(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{} cannot be examined: {}.", path.display(), reason(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_parts_replaced() {
        let mut attributes = Attributes::default();
        attributes.context[2] = Some("httpd_sys_content_t".into());
        assert_eq!(attributes.new_context("a_u:b_r:c_t:s0:c1,c2"), "a_u:b_r:httpd_sys_content_t:s0:c1,c2");
    }
}
