//! Expansion of paths in arguments.

use crate::{Host, accounts};

/// Expands `~`, `~user` and `$VARIABLE` for the executor's user.
pub(crate) fn expand_path(text: &str, host: &Host) -> String {
    let mut path = text.to_owned();
    if let Some(rest) = text.strip_prefix('~') {
        let (user, tail) =
            rest.split_once('/').map_or((rest, ""), |(user, _)| (user, rest.get(user.len()..).unwrap_or_default()));
        let home = if user.is_empty() { host.variable("HOME").or_else(|| home_of(None)) } else { home_of(Some(user)) };
        if let Some(home) = home {
            path = format!("{home}{tail}");
        }
    }
    let mut expanded = String::new();
    let mut rest = path.as_str();
    while let Some(at) = rest.find('$') {
        let (before, dollar) = rest.split_at(at);
        expanded.push_str(before);
        let after = dollar.get(1..).unwrap_or_default();
        let (name, tail) = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some((name, tail)) => (name, tail),
            None => after.split_at(after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len())),
        };
        match host.variable(name).filter(|_| !name.is_empty()) {
            Some(value) => {
                expanded.push_str(&value);
                rest = tail;
            }
            None => {
                expanded.push('$');
                rest = after;
            }
        }
    }
    expanded.push_str(rest);
    expanded
}

/// The home directory of a user, by default the executor's.
pub(crate) fn home_of(user: Option<&str>) -> Option<String> {
    let found = match user {
        Some(user) => accounts::user_by_name(user),
        None => accounts::user_by_id(rustix::process::geteuid().as_raw()),
    };
    found.map(|user| user.home)
}
