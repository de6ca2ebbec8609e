//! Command lines of the become methods (sudo(8), su(1), doas(1)), and the way each one asks for a password.

use windlass_protocol::{Become, BecomeMethod};

use super::Refusal;

/// Call of a become method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    /// Program and arguments.
    pub(super) words: Vec<String>,
    /// Text that identifies the prompt; `None` for a method with its own prompt.
    pub(super) prompt: Option<String>,
    /// Whether the method reads the password only from a terminal.
    pub(super) terminal: bool,
    /// Whether the method ends without a program of the become user.
    pub(super) starts_nothing: bool,
}

/// The command line that starts `executor` as the user. It never contains the password.
pub(super) fn invocation(who: &Become, executor: &[String], mark: &str) -> Result<Invocation, Refusal> {
    let user = who.user.clone();
    if user.is_empty() || user.starts_with('-') {
        return Err(Refusal::new(format!("become_user '{user}' is not a user name.")));
    }
    let flags = |usual: &str| {
        shell_words::split(who.flags.as_deref().unwrap_or(usual))
            .map_err(|error| Refusal::new(format!("become_flags cannot be split into words: {error}.")))
    };
    let program = || {
        let exe = who.exe.as_deref().filter(|exe| !exe.is_empty()).unwrap_or(who.method.name());
        shell_words::split(exe)
            .map_err(|error| Refusal::new(format!("become_exe cannot be split into words: {error}.")))
    };
    let root = rustix::process::geteuid().is_root();
    match who.method {
        BecomeMethod::Sudo => {
            let mut words = program()?;
            let given = flags("-H -S -n")?;
            let answers = who.password.is_some();
            words.extend(
                given.into_iter().filter(|flag| !(answers && matches!(flag.as_str(), "-n" | "--non-interactive"))),
            );
            // With our own prompt, no other output of sudo can be mistaken for one.
            words.extend(["-p".into(), mark.into(), "-u".into(), user]);
            words.extend_from_slice(executor);
            Ok(Invocation { words, prompt: Some(mark.to_owned()), terminal: false, starts_nothing: false })
        }
        BecomeMethod::Su => {
            let mut words = program()?;
            words.extend(flags("")?);
            words.extend([user, "-c".into(), format!("exec {}", shell_words::join(executor))]);
            Ok(Invocation { words, prompt: None, terminal: !root, starts_nothing: false })
        }
        BecomeMethod::Doas => {
            let mut words = program()?;
            words.extend(flags("")?);
            if who.password.is_none() {
                words.push("-n".into());
            }
            words.extend(["-u".into(), user]);
            words.extend_from_slice(executor);
            Ok(Invocation { words, prompt: None, terminal: who.password.is_some(), starts_nothing: false })
        }
    }
}

/// The command line by which sudo asks for the password, remembers the answer, and starts nothing.
pub(super) fn validation(who: &Become, mark: &str) -> Result<Invocation, Refusal> {
    let plain = Become { flags: Some("-S -v".into()), ..who.clone() };
    Ok(Invocation { starts_nothing: true, ..invocation(&plain, &[], mark)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(method: &str, password: Option<&str>, flags: Option<&str>) -> Become {
        Become {
            method: BecomeMethod::named(method).unwrap(),
            user: "anna".into(),
            exe: None,
            flags: flags.map(str::to_owned),
            password: password.map(windlass_protocol::Secret::new),
            timeout: 10,
        }
    }

    fn line(who: &Become) -> String {
        invocation(who, &["/x/executor".into(), "serve".into(), "w".into()], "MARK").unwrap().words.join(" ")
    }

    #[test]
    fn sudo_prompts_with_mark_only_if_password_known() {
        assert_eq!(line(&who("sudo", None, None)), "sudo -H -S -n -p MARK -u anna /x/executor serve w");
        assert_eq!(line(&who("sudo", Some("secret"), None)), "sudo -H -S -p MARK -u anna /x/executor serve w");
        assert_eq!(line(&who("sudo", Some("secret"), Some("-n -E"))), "sudo -E -p MARK -u anna /x/executor serve w");
    }

    #[test]
    fn validation_starts_nothing() {
        let validation = validation(&who("sudo", Some("secret"), Some("-i -n")), "MARK").unwrap();
        assert_eq!(validation.words.join(" "), "sudo -S -v -p MARK -u anna");
        assert!(validation.starts_nothing);
    }

    #[test]
    fn su_and_doas_command_lines_built() {
        assert_eq!(line(&who("su", None, Some("-l"))), "su -l anna -c exec /x/executor serve w");
        assert_eq!(line(&who("doas", None, None)), "doas -n -u anna /x/executor serve w");
        assert!(invocation(&who("doas", Some("secret"), None), &[], "").unwrap().terminal);
    }

    #[test]
    fn user_resembling_an_option_refused() {
        let mut bad = who("sudo", None, None);
        bad.user = "-s".into();
        assert!(invocation(&bad, &[], "").is_err());
    }
}
