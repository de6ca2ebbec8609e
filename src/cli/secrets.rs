//! Reads passwords from the terminal, from files and from programs.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use windlass_bounds::child;
use windlass_vault::{DEFAULT_LABEL, Identities, Secret, Secrets};

use super::options::VaultOptions;
use crate::error::{Error, Result};
use crate::output::Hidden;
use crate::settings::Settings;

/// Options that name files with the passwords that were asked for.
static ASKED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Options that would have made questions for passwords unnecessary; empty if none was asked for.
pub(super) fn asked() -> Vec<&'static str> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Asks at the terminal without echo. Without a terminal, reads a line of standard input. `option` names a file with
/// the password instead, if there is such an option.
pub(super) fn ask(prompt: &str, option: Option<&'static str>) -> Result<String> {
    {
        let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        let new = option.filter(|option| !asked.contains(option));
        asked.extend(new);
    }
    let failed =
        |reason: String| Error::new(format!("cannot ask for '{}': {reason}", prompt.trim_end_matches([':', ' '])));
    if std::fs::File::open("/dev/tty").is_ok() {
        let _hidden = Hidden::begin();
        return rpassword::prompt_password(prompt).map_err(|error| failed(error.to_string()));
    }
    line(prompt).map_err(|error| failed(error.to_string()))?.ok_or_else(|| {
        let error = failed("there is no terminal".to_owned());
        match option {
            Some(option) => error.hint(format!("give it in a file: {option}")),
            None => error,
        }
    })
}

/// Asks on standard error, with echo, to keep standard output clean. Returns `None` at the end of input.
pub(super) fn line(prompt: &str) -> std::io::Result<Option<String>> {
    let mut error = std::io::stderr().lock();
    error.write_all(prompt.as_bytes())?;
    error.flush()?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer)?;
    if read == 0 {
        // Ends the line of the prompt, for the message that follows.
        error.write_all(b"\n")?;
    }
    Ok((read > 0).then(|| answer.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Asks for a new password twice, because it is invisible.
pub(super) fn ask_twice(prompt: &str, option: Option<&'static str>) -> Result<String> {
    let first = ask(prompt, option)?;
    if first != ask(&format!("Confirm {prompt}"), option)? {
        return Err(Error::new("Passwords do not match"));
    }
    Ok(first)
}

/// Whether standard input is a terminal.
pub(super) fn has_terminal() -> bool {
    std::io::stdin().is_terminal()
}

/// Maximum size of a password file in bytes.
const LONGEST_SECRET: u64 = 1 << 20;

/// Content of a password file, or output of an executable one.
pub(super) fn secret_file(file: &Path, label: &str) -> Result<Vec<u8>> {
    use std::os::unix::fs::PermissionsExt as _;
    let fail =
        |error: std::io::Error| Error::new(format!("the password file {} cannot be read: {error}", file.display()));
    let metadata = std::fs::metadata(file).map_err(fail)?;
    if metadata.permissions().mode() & 0o111 == 0 || metadata.is_dir() {
        return windlass_bounds::read_up_to(file, LONGEST_SECRET).map_err(fail);
    }
    let mut command = std::process::Command::new(std::path::absolute(file).map_err(fail)?);
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if stem.ends_with("-client") {
        command.args(["--vault-id", label]);
    }
    let limits = child::Limits { output: LONGEST_SECRET, ..child::Limits::default() };
    let output = child::run_showing_stderr(command.stdin(std::process::Stdio::inherit()), limits)
        .map_err(|error| Error::new(format!("the password program {} cannot be used: {error}", file.display())))?;
    if !output.status.success() {
        return Err(Error::new(format!("the password program {} ended with {}", file.display(), output.status)));
    }
    Ok(output.stdout)
}

impl VaultOptions {
    /// All vault passwords: from the settings, then from the command line. A source without a password causes a warning
    /// if another one has one. A password file may be encrypted with an earlier password.
    pub(super) fn secrets(&self, settings: &Settings) -> Result<Secrets> {
        self.secrets_or(settings, None)
    }

    /// Like [`Self::secrets`], but asks for a password if no source is given.
    pub(super) fn secrets_or(&self, settings: &Settings, prompt: Option<Prompt>) -> Result<Secrets> {
        let mut sources: Vec<(&str, String)> = Vec::new();
        for id in settings.vault.ids.iter().chain(&self.vault_id) {
            let (label, source) = id.split_once('@').unwrap_or((DEFAULT_LABEL, id));
            sources.push((if label.is_empty() { DEFAULT_LABEL } else { label }, source.to_owned()));
        }
        let files = self.vault_password_file.iter();
        sources.extend(files.map(|file| (DEFAULT_LABEL, file.display().to_string())));
        let ask_by_default = settings.vault.ask_pass && sources.is_empty();
        if self.ask_vault_password || ask_by_default || (sources.is_empty() && prompt.is_some()) {
            sources.push((DEFAULT_LABEL, "prompt_ask_vault_pass".to_owned()));
        }
        let mut secrets = Secrets::new();
        secrets.set_match_labels(settings.vault.id_match);
        secrets.set_identities(identities(settings));
        let mut failures = Vec::new();
        for (label, source) in sources {
            match secret(label, &source, prompt.unwrap_or_default(), &secrets) {
                Ok(secret) => secrets.push(secret),
                Err(Failure::Asked(error)) => return Err(error),
                Err(Failure::File { what, error }) => failures.push((what, label, error)),
            }
        }
        // Without any password the last failure is the error.
        let error = if secrets.is_empty() { failures.pop() } else { None };
        failures.iter().for_each(|(what, label, error)| warn(&format!("{what} ({label}): {error}")));
        match error {
            Some((_, _, error)) => Err(error),
            None => Ok(secrets),
        }
    }
}

/// Identities of age from the settings, or from the places where sops looks.
fn identities(settings: &Settings) -> Identities {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let usual = || {
        let config = variable("XDG_CONFIG_HOME").unwrap_or_else(|| "~/.config".to_owned());
        let file = windlass_vault::usual_file(&crate::settings::expand_home(&config));
        file.is_file().then_some(file)
    };
    let of_sops = || variable("SOPS_AGE_KEY_FILE").map(|name| crate::settings::expand_home(&name)).or_else(usual);
    let files = settings.vault.age_identities.clone().unwrap_or_else(|| of_sops().into_iter().collect());
    Identities::new(files, variable("SOPS_AGE_KEY"))
}

/// Number of times to ask for a password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Prompt {
    /// Once, because decryption proves that it is right.
    #[default]
    Known,
    /// Twice, because it encrypts something new.
    New,
    /// Twice, because it replaces the password of other options.
    Replacement,
}

impl Prompt {
    /// Asks for a password of this kind.
    fn ask(self, id: &str) -> Result<String> {
        const FILE: Option<&str> = Some("--vault-password-file");
        match self {
            Prompt::Known => ask(&format!("Vault password{id}: "), FILE),
            Prompt::New => ask_twice(&format!("New vault password{id}: "), FILE),
            Prompt::Replacement => ask_twice(&format!("New vault password{id}: "), Some("--new-vault-password-file")),
        }
    }
}

enum Failure {
    Asked(Error),
    File { what: &'static str, error: Error },
}

fn secret(label: &str, source: &str, prompt: Prompt, earlier: &Secrets) -> std::result::Result<Secret, Failure> {
    let id = if source == "prompt" { format!(" ({label})") } else { String::new() };
    if matches!(source, "prompt" | "prompt_ask_vault_pass") {
        let answer = prompt.ask(&id).map_err(Failure::Asked)?;
        let secret = Secret::from_file_content(label, answer.as_bytes());
        let empty = || Failure::Asked(Error::new("Invalid vault password was provided: it is empty"));
        return if secret.is_empty() { Err(empty()) } else { Ok(secret) };
    }
    let file = crate::settings::expand_home(source);
    if !file.exists() {
        let error = Error::new(format!("the vault password file {} was not found", file.display()));
        return Err(Failure::File { what: "Error getting vault password file", error });
    }
    let failed = |error| Failure::File { what: "Error in vault password file loading", error };
    let mut content = secret_file(&file, label).map_err(failed)?;
    if windlass_vault::is_encrypted(&content) {
        let decrypted = windlass_vault::decrypt(&content, earlier);
        content = decrypted.map_err(|error| failed(Error::new(format!("{}: {error}", file.display()))))?;
    }
    let secret = Secret::from_file_content(label, &content);
    if secret.is_empty() {
        let message = format!("Invalid vault password was provided from file {}: it is empty", file.display());
        return Err(failed(Error::new(message)));
    }
    Ok(secret)
}

fn warn(sentence: &str) {
    let printer = crate::output::Printer::plain(crate::output::Secrets::default());
    printer.error_line(&format!("[WARNING]: {sentence}"), crate::settings::Color::Plain);
}
