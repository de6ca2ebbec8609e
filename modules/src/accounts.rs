//! Users and groups of the host, read from its files and, for directory services, from `getent`.
//!
//! The C library's lookups are never called: in a static binary they load modules named in `nsswitch.conf` and crash.

use std::process::{Command, Stdio};

/// A line of `/etc/passwd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: String,
    /// The password field, usually `x`.
    pub password: String,
    /// The user id.
    pub uid: u32,
    /// The id of the primary group.
    pub gid: u32,
    /// The comment.
    pub gecos: String,
    /// The home directory.
    pub home: String,
    /// The login shell.
    pub shell: String,
}

/// A line of `/etc/group`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The name.
    pub name: String,
    /// The group id.
    pub gid: u32,
    /// Login names of the members, except users whose primary group this is.
    pub members: Vec<String>,
}

impl User {
    /// Reads a line of the passwd format.
    pub fn parse(line: &str) -> Option<User> {
        let mut fields = line.split(':');
        let user = User {
            name: fields.next().filter(|name| !name.is_empty())?.to_owned(),
            password: fields.next()?.to_owned(),
            uid: fields.next()?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
            gecos: fields.next()?.to_owned(),
            home: fields.next()?.to_owned(),
            shell: fields.next().unwrap_or_default().to_owned(),
        };
        Some(user)
    }
}

impl Group {
    /// Reads a line of the group format.
    pub fn parse(line: &str) -> Option<Group> {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?.to_owned();
        fields.next()?;
        let gid = fields.next()?.parse().ok()?;
        let members = fields.next().unwrap_or_default();
        let members = members.split(',').filter(|member| !member.is_empty()).map(str::to_owned).collect();
        Some(Group { name, gid, members })
    }
}

/// The users of `/etc/passwd`.
pub fn local_users() -> Vec<User> {
    text("/etc/passwd").lines().filter_map(User::parse).collect()
}

/// The groups of `/etc/group`.
pub fn local_groups() -> Vec<Group> {
    text("/etc/group").lines().filter_map(Group::parse).collect()
}

/// The user with this name.
pub fn user_by_name(name: &str) -> Option<User> {
    local_users().into_iter().find(|user| user.name == name).or_else(|| User::parse(&getent("passwd", name)?))
}

/// The user with this id.
pub fn user_by_id(uid: u32) -> Option<User> {
    local_users()
        .into_iter()
        .find(|user| user.uid == uid)
        .or_else(|| User::parse(&getent("passwd", &uid.to_string())?).filter(|user| user.uid == uid))
}

/// The group with this name.
pub fn group_by_name(name: &str) -> Option<Group> {
    local_groups().into_iter().find(|group| group.name == name).or_else(|| Group::parse(&getent("group", name)?))
}

/// The group with this id.
pub fn group_by_id(gid: u32) -> Option<Group> {
    local_groups()
        .into_iter()
        .find(|group| group.gid == gid)
        .or_else(|| Group::parse(&getent("group", &gid.to_string())?).filter(|group| group.gid == gid))
}

fn text(path: &str) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Queries the host's name services. Skips the process if only files are configured.
fn getent(database: &str, key: &str) -> Option<String> {
    let switch = text("/etc/nsswitch.conf");
    let beyond = switch
        .lines()
        .filter_map(|line| line.strip_prefix(database)?.trim_start().strip_prefix(':'))
        .flat_map(str::split_whitespace)
        .any(|source| !source.starts_with('[') && !matches!(source, "files" | "compat" | "db"));
    if !beyond || key.starts_with('-') {
        return None;
    }
    let output =
        Command::new("getent").args([database, key]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_found_by_name_and_id() {
        assert_eq!(user_by_name("root").unwrap().uid, 0);
        assert_eq!(user_by_id(0).unwrap().name, "root");
        assert_eq!(group_by_name("root").unwrap().gid, 0);
        assert_eq!(group_by_id(0).unwrap().name, "root");
    }

    #[test]
    fn unknown_name_not_found() {
        assert_eq!(user_by_name("no-such-user-here"), None);
        assert_eq!(group_by_name("no-such-group-here"), None);
    }

    #[test]
    fn group_members_split() {
        assert_eq!(Group::parse("wheel:x:10:anna,ben").unwrap().members, ["anna", "ben"]);
        assert!(Group::parse("empty:x:11:").unwrap().members.is_empty());
    }
}
