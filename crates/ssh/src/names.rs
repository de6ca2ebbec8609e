//! Names of hosts and users that may come from data, such as the answer of a host.
//!
//! A ProxyCommand and `Match exec` put them into a command line for a shell, `UserKnownHostsFile` into a path, and a
//! new key into a line of known_hosts. OpenSSH refuses names with characters of a shell for the same reason.

/// Characters that a shell or ssh interprets, besides white space and control characters.
const OF_SHELLS: &str = "'`\"$\\;&<>|(){}";
/// Characters that give a name of known_hosts another meaning.
const OF_KNOWN_HOSTS: &str = "*?!,#@";
/// Characters that a shell interprets, apart from those in names of users: `DOMAIN\user` and `MACHINE$`.
const OF_SHELLS_IN_USERS: &str = "'`\";&<>|(){}*?!#";

/// Refuses a name of a host that is more than a name.
pub(crate) fn check_host(name: &str) -> Result<(), String> {
    let refused = |character: char| {
        character.is_whitespace()
            || character.is_control()
            || OF_SHELLS.contains(character)
            || OF_KNOWN_HOSTS.contains(character)
    };
    let problem = match name.chars().find(|&character| refused(character)) {
        Some(character) => format!("it contains {character:?}"),
        None if name.is_empty() => "it is empty".to_owned(),
        None if name.starts_with('-') => "it begins with `-`".to_owned(),
        None if leads_out(name) => "it is a path".to_owned(),
        None => return Ok(()),
    };
    Err(format!("{name:?} is refused as the name of a host: {problem}; give a name or an address in `ansible_host`"))
}

/// Refuses a name of a user that is more than a name.
pub(crate) fn check_user(name: &str) -> Result<(), String> {
    let mut characters = name.chars().peekable();
    let mut before: Option<char> = None;
    while let Some(character) = characters.next() {
        let is_name = |other: Option<&char>| other.is_some_and(|other| other.is_alphanumeric());
        let refused = match character {
            // A word that begins with `-` would be an option.
            '-' => before.is_none_or(char::is_whitespace),
            // A shell replaces `$IFS` by blanks.
            '$' => characters.peek().is_some(),
            '\\' => !is_name(before.as_ref()) || !is_name(characters.peek()),
            _ => character.is_control() || OF_SHELLS_IN_USERS.contains(character),
        };
        if refused {
            return Err(refused_user(name, &format!("it contains {character:?}")));
        }
        before = Some(character);
    }
    if leads_out(name) {
        return Err(refused_user(name, "it is a path"));
    }
    Ok(())
}

/// Whether a name would lead out of the directory before it in a path.
fn leads_out(name: &str) -> bool {
    name.starts_with('/') || name.split('/').any(|part| part == "..")
}

fn refused_user(name: &str, problem: &str) -> String {
    format!("{name:?} is refused as the name of a remote user: {problem}; give a name in `ansible_user`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_or_known_hosts_would_interpret_are_refused() {
        for name in ["web1", "fd00::1", "fe80::1%eth0", "10.0.0.1", "web_1.example.org", "prod/web", "münchen"] {
            assert_eq!(check_host(name), Ok(()), "{name}");
        }
        let refused =
            ["x$(touch${IFS}y)", "`x`", "a;b", "-oProxyCommand=x", "*", "good,other", "a\nb", "", "../x", "@cert"];
        for name in refused {
            let error = check_host(name).unwrap_err();
            assert!(error.contains("is refused as the name of a host") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn users_that_a_shell_would_interpret_are_refused() {
        for name in ["deploy", "DOMAIN\\user", "MACHINE$", "first last", "me@example.org", "a-b"] {
            assert_eq!(check_user(name), Ok(()), "{name}");
        }
        for name in ["`x`", "$(x)", "a;b", "-x", "a -x", "a\\", "a\nb", "${IFS}", "x$IFS-oA=b", "a\\-b", "../x", "/x"] {
            assert!(check_user(name).is_err(), "{name}");
        }
    }
}
