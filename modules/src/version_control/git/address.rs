//! Repository URLs: forms that git must not receive, and embedded credentials.

use crate::{
    Failure,
    secrets::{decoded, is_token},
};

/// A repository URL without its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// URL for git's command line and the clone's configuration.
    pub(crate) plain: String,
    /// Credentials from the task's URL.
    pub(crate) login: Option<Login>,
}

/// User and password for a single server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// `https://host:port`.
    pub(crate) server: String,
    pub(crate) user: String,
    pub(crate) password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Login").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Address {
    /// Extracts the credentials, and rejects a URL that would run a command.
    pub(crate) fn of(text: &str) -> Result<Address, Failure> {
        if let Some((transport, _)) = text.split_once("::").filter(|(start, _)| is_word(start)) {
            return Err(Failure::new(format!(
                "repo has the transport '{transport}::', which runs a program on the host; use https, ssh or a path."
            )));
        }
        let plain = || Address { plain: text.to_owned(), login: None };
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(plain()) };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (info, server) =
            authority.rsplit_once('@').map_or((None, authority), |(info, server)| (Some(info), server));
        if server.starts_with('-') || info.is_some_and(|info| info.starts_with('-')) {
            return Err(Failure::new(format!(
                "repo has the server '{server}', which begins with '-': the program that connects would take it for an option."
            )));
        }
        let is_web = matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https" | "ftp" | "ftps");
        let login = info.filter(|_| is_web).and_then(|info| match info.split_once(':') {
            // A user alone is only a login if it is a token; git asks a credential helper for passwords of other users.
            None => is_token(info.as_bytes()).then_some((info, "")),
            login => login,
        });
        let Some((user, password)) = login else { return Ok(plain()) };
        let server = format!("{scheme}://{server}");
        let login = Login { server: server.clone(), user: decoded(user), password: decoded(password) };
        Ok(Address { plain: format!("{server}{path}"), login: Some(login) })
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Rejects a remote name that is more than a name, because git inserts it into commands for submodules.
pub(super) fn check_remote(name: &str) -> Result<(), Failure> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/' | b'+');
    if !name.is_empty() && !name.starts_with('-') && !name.contains("..") && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "remote is {name:?}, which is not the name of a remote: it consists of letters, digits, '.', '_', '-', '+' and '/'."
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_with_password_loses_password() {
        let address = Address::of("https://me:p%40ss:word@git.example.org:8443/app.git").unwrap();
        assert_eq!(address.plain, "https://git.example.org:8443/app.git");
        let login = address.login.unwrap();
        assert_eq!(login.server, "https://git.example.org:8443");
        assert_eq!((login.user.as_str(), login.password.as_str()), ("me", "p@ss:word"));
        assert!(!format!("{login:?}").contains("word"));
    }

    #[test]
    fn url_with_token_loses_token() {
        let address = Address::of("https://ghp_0123456789abcdefABCD@git.example.org/app.git").unwrap();
        assert_eq!(address.plain, "https://git.example.org/app.git");
        let login = address.login.unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("ghp_0123456789abcdefABCD", ""));
    }

    #[test]
    fn url_without_password_unchanged() {
        for text in
            ["https://git.example.org/a@b:c", "https://me@h/x", "ssh://git@h:22/x", "git@h:x", "/srv/x", "file:///x"]
        {
            assert_eq!(Address::of(text).unwrap(), Address { plain: text.into(), login: None });
        }
    }

    #[test]
    fn url_running_a_command_refused() {
        for text in ["ext::sh -c id", "fd::7", "ssh://-oProxyCommand=id/x", "ssh://-oProxyCommand=id@h/x"] {
            assert!(Address::of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn remote_name_invalid_refused() {
        for name in ["--upload-pack=id", "a;id", "a b", "", "a$(id)", "../x"] {
            assert!(check_remote(name).is_err(), "{name}");
        }
        assert!(check_remote("origin").is_ok() && check_remote("my/remote-1").is_ok());
    }
}
