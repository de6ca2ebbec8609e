//! An existing account: its entries in passwd(5), group(5) and shadow(5).

use crate::{
    accounts::{self, User},
    facts::Root,
};

/// An existing account.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) user: User,
    /// Name of the primary group; `None` if its id has no name.
    pub(super) primary: Option<String>,
    /// Names of supplementary groups.
    pub(super) groups: Vec<String>,
    /// `None` if the account has no entry or the file is not readable.
    pub(super) shadow: Option<Shadow>,
}

/// A line of /etc/shadow; only root can read it. Ages of the password are in days; an empty field is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Shadow {
    pub(super) password: String,
    /// Age before which the user must not change the password.
    pub(super) min: Option<i64>,
    /// Age at which the password expires.
    pub(super) max: Option<i64>,
    /// Days of warning before the password expires.
    pub(super) warn: Option<i64>,
    /// Days after which an account with an expired password is disabled.
    pub(super) inactive: Option<i64>,
    /// Day on which the account expires, counted from the epoch.
    pub(super) expires: Option<i64>,
}

impl Shadow {
    pub(super) fn find(text: &str, name: &str) -> Option<Shadow> {
        let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
        let fields: Vec<&str> = line.split(':').collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse().ok());
        Some(Shadow {
            password: fields.get(1).copied().unwrap_or_default().to_owned(),
            min: number(3),
            max: number(4),
            warn: number(5),
            inactive: number(6),
            expires: number(7),
        })
    }

    pub(super) fn locked(&self) -> bool {
        self.password.starts_with('!')
    }
}

impl Account {
    /// Reads an account. `local` looks only into the files in `/etc`, not into directory services.
    pub(super) fn read(name: &str, local: bool) -> Option<Account> {
        let user = if local {
            accounts::local_users().into_iter().find(|user| user.name == name)
        } else {
            accounts::user_by_name(name)
        }?;
        let groups = accounts::local_groups();
        let member = |group: &&accounts::Group| group.members.iter().any(|member| member == name);
        Some(Account {
            primary: accounts::group_by_id(user.gid).map(|group| group.name),
            groups: groups.iter().filter(member).map(|group| group.name.clone()).collect(),
            shadow: Root::host().read("/etc/shadow").and_then(|text| Shadow::find(&text, name)),
            user,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shadow_line_parsed() {
        let text = "root:*:19000:0:99999:7:::\nada:!$6$ab$cd:19500:1:90:14:30:20000:\n";
        let shadow = Shadow::find(text, "ada").unwrap();
        assert!(shadow.locked());
        assert_eq!(
            (shadow.min, shadow.max, shadow.warn, shadow.inactive, shadow.expires),
            (Some(1), Some(90), Some(14), Some(30), Some(20000))
        );
        assert_eq!(Shadow::find(text, "root").unwrap().expires, None);
        assert_eq!(Shadow::find(text, "bob"), None);
    }
}
