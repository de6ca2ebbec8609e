//! Credentials: user names, passwords and the netrc file.

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::Host;

/// The value of a basic `Authorization` header.
pub(super) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// User and password for a machine from the user's netrc file.
pub(super) fn from_netrc(machine: &str, host: &Host) -> Option<(String, String)> {
    let path = host.variable("NETRC").or_else(|| Some(format!("{}/.netrc", host.variable("HOME")?)))?;
    in_netrc(&std::fs::read_to_string(path).ok()?, machine)
}

fn in_netrc(text: &str, machine: &str) -> Option<(String, String)> {
    let mut words =
        text.lines().map(|line| line.split(" #").next().unwrap_or_default()).flat_map(str::split_whitespace);
    let (mut login, mut password, mut ours) = (None, None, false);
    while let Some(word) = words.next() {
        match word {
            "machine" | "default" => {
                // The first matching entry counts.
                if ours {
                    break;
                }
                ours = word == "default" || words.next() == Some(machine);
            }
            "login" if ours => login = words.next(),
            "password" if ours => password = words.next(),
            _ => {}
        }
    }
    Some((login?.to_owned(), password?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netrc_first_matching_entry_used() {
        let text = "machine a.example login ann password one\nmachine b.example\n  login ben # him\n  password two\ndefault login any password three\n";
        let found = |machine| in_netrc(text, machine).unwrap();
        assert_eq!(found("b.example"), ("ben".into(), "two".into()));
        assert_eq!(found("a.example").1, "one");
        assert_eq!(found("c.example").0, "any");
        assert_eq!(in_netrc("machine a login x password y", "b"), None);
        assert_eq!(basic("Aladdin", "open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    }
}
