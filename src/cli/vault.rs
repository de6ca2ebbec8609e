//! `windlass vault`: encrypted files and values, interchangeable with `ansible-vault`.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use windlass_vault::{Secret, Secrets};

use super::options::{VaultOptions, ask};
use crate::error::{Error, Result};
use crate::settings::{Config, Settings};

/// Encrypt and decrypt files and values.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show encrypted files
    View(FileArguments),
    /// Encrypt files, or the standard input
    Encrypt(FileArguments),
    /// Decrypt files, or the standard input
    Decrypt(FileArguments),
    /// Write a new encrypted file in an editor
    Create(FileArguments),
    /// Change an encrypted file in an editor
    Edit(FileArguments),
    /// Encrypt files with another password
    Rekey(RekeyArguments),
    /// Encrypt a value for use in YAML
    #[command(name = "encrypt_string")]
    EncryptString(StringArguments),
}

#[derive(Debug, Args)]
struct FileArguments {
    /// The files; the standard input if there are none
    files: Vec<PathBuf>,
    /// Write here instead; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    output: Option<String>,
    /// Encrypt with the identity of this label
    #[arg(long, value_name = "LABEL")]
    encrypt_vault_id: Option<String>,
    #[command(flatten)]
    vault: VaultOptions,
}

#[derive(Debug, Args)]
struct RekeyArguments {
    /// The files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The new identity
    #[arg(long, value_name = "ID")]
    new_vault_id: Option<String>,
    /// A file with the new password
    #[arg(long, value_name = "FILE")]
    new_vault_password_file: Option<PathBuf>,
    #[command(flatten)]
    vault: VaultOptions,
}

#[derive(Debug, Args)]
struct StringArguments {
    /// The values
    strings: Vec<String>,
    /// The variables' names
    #[arg(short, long)]
    name: Vec<String>,
    /// Read the value from the standard input and give it this name
    #[arg(long, value_name = "NAME")]
    stdin_name: Option<String>,
    /// Ask for the value
    #[arg(short, long)]
    prompt: bool,
    /// Encrypt with the identity of this label
    #[arg(long, value_name = "LABEL")]
    encrypt_vault_id: Option<String>,
    #[command(flatten)]
    vault: VaultOptions,
}

/// Runs the verb.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let settings = Settings::from_config(&Config::find()?)?;
    match arguments.verb {
        Verb::View(view) => {
            let secrets = secrets_of(&view.vault, &settings)?;
            for file in &view.files {
                super::print(&String::from_utf8_lossy(&decrypt(file, &secrets)?))?;
            }
        }
        Verb::Encrypt(files) => {
            let secrets = secrets_of(&files.vault, &settings)?;
            let secret = secret_for(&secrets, files.encrypt_vault_id.as_deref())?;
            each(&files, |plain, name| {
                if windlass_vault::is_encrypted(plain) {
                    return Err(Error::new(format!("{name} is already encrypted")));
                }
                Ok(windlass_vault::encrypt(plain, secret).map_err(|error| Error::new(error.to_string()))?.into_bytes())
            })?;
            note("Encryption successful");
        }
        Verb::Decrypt(files) => {
            let secrets = secrets_of(&files.vault, &settings)?;
            each(&files, |cipher, name| open(cipher, &secrets, name))?;
            note("Decryption successful");
        }
        Verb::Create(create) => {
            let secrets = secrets_of(&create.vault, &settings)?;
            let secret = secret_for(&secrets, create.encrypt_vault_id.as_deref())?;
            let [file] = create.files.as_slice() else { return Err(Error::usage("create takes one file")) };
            if file.exists() {
                return Err(Error::new(format!("{} exists, please use 'edit' instead", file.display())));
            }
            let text = in_editor(b"")?;
            write_file(file, encrypted(&text, secret)?.as_bytes(), 0o600)?;
        }
        Verb::Edit(edit) => {
            let secrets = secrets_of(&edit.vault, &settings)?;
            for file in &edit.files {
                let data = read(file)?;
                let (plain, label) = windlass_vault::decrypt_with_label(&data, &secrets)
                    .map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
                let changed = in_editor(&plain)?;
                if changed != plain {
                    write_file(file, encrypted(&changed, secret_for(&secrets, Some(label))?)?.as_bytes(), 0o600)?;
                }
            }
        }
        Verb::Rekey(rekey) => {
            let secrets = secrets_of(&rekey.vault, &settings)?;
            let options = VaultOptions::of(rekey.new_vault_id.clone(), rekey.new_vault_password_file.clone());
            let new = options.secrets(&Settings { vault_ids: Vec::new(), ..settings })?;
            let new = match new.iter().next() {
                Some(secret) => secret.clone(),
                None => Secret::new("default", new_password()?),
            };
            for file in &rekey.files {
                let plain = decrypt(file, &secrets)?;
                write_file(file, encrypted(&plain, &new)?.as_bytes(), 0o600)?;
            }
            note("Rekey successful");
        }
        Verb::EncryptString(strings) => encrypt_string(&strings, &settings)?,
    }
    Ok(0)
}

fn encrypt_string(arguments: &StringArguments, settings: &Settings) -> Result<()> {
    let secrets = secrets_of(&arguments.vault, settings)?;
    let secret = secret_for(&secrets, arguments.encrypt_vault_id.as_deref())?;
    let mut values: Vec<(Option<String>, String)> = Vec::new();
    if arguments.prompt {
        values.push((arguments.name.first().cloned(), ask("String to encrypt: ")?));
    }
    let names = arguments.name.iter().map(Some).chain(std::iter::repeat(None));
    values.extend(arguments.strings.iter().zip(names).map(|(value, name)| (name.cloned(), value.clone())));
    if values.is_empty() || arguments.stdin_name.is_some() {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Error::new(format!("the standard input cannot be read: {error}")))?;
        values.push((arguments.stdin_name.clone(), text));
    }
    for (name, value) in values {
        let envelope = encrypted(value.as_bytes(), secret)?;
        let head = name.map(|name| format!("{name}: ")).unwrap_or_default();
        let body: String = envelope.trim_end().lines().map(|line| format!("          {line}\n")).collect();
        super::print(&format!("{head}!vault |\n{body}"))?;
    }
    note("Encryption successful");
    Ok(())
}

fn secrets_of(options: &VaultOptions, settings: &Settings) -> Result<Secrets> {
    let secrets = options.secrets(settings)?;
    if secrets.iter().next().is_some() {
        return Ok(secrets);
    }
    let mut secrets = Secrets::new();
    secrets.push(Secret::new("default", ask("Vault password: ")?));
    Ok(secrets)
}

fn secret_for<'a>(secrets: &'a Secrets, label: Option<&str>) -> Result<&'a Secret> {
    let found = match label {
        Some(label) => secrets.iter().find(|secret| secret.label() == label),
        None => secrets.iter().next(),
    };
    found.ok_or_else(|| Error::usage(format!("there is no vault identity {}", label.unwrap_or("default"))))
}

fn new_password() -> Result<String> {
    let first = ask("New Vault password: ")?;
    if first != ask("Confirm New Vault password: ")? {
        return Err(Error::usage("Passwords do not match"));
    }
    Ok(first)
}

fn each(arguments: &FileArguments, change: impl Fn(&[u8], &str) -> Result<Vec<u8>>) -> Result<()> {
    if arguments.files.is_empty() {
        let mut input = Vec::new();
        std::io::stdin()
            .read_to_end(&mut input)
            .map_err(|error| Error::new(format!("the standard input cannot be read: {error}")))?;
        return put(&change(&input, "the standard input")?, arguments.output.as_deref().unwrap_or("-"));
    }
    if arguments.files.len() > 1 && arguments.output.is_some() {
        return Err(Error::usage("--output takes one file"));
    }
    for file in &arguments.files {
        let changed = change(&read(file)?, &file.display().to_string())?;
        match &arguments.output {
            Some(output) => put(&changed, output)?,
            None => write_file(file, &changed, 0o600)?,
        }
    }
    Ok(())
}

fn put(bytes: &[u8], output: &str) -> Result<()> {
    match output {
        "-" => {
            let written = std::io::stdout().write_all(bytes);
            written.map_err(|error| Error::new(format!("the standard output cannot be written: {error}")))
        }
        file => write_file(Path::new(file), bytes, 0o600),
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| Error::new(format!("{} cannot be read: {error}", file.display())))
}

fn decrypt(file: &Path, secrets: &Secrets) -> Result<Vec<u8>> {
    open(&read(file)?, secrets, &file.display().to_string())
}

fn open(data: &[u8], secrets: &Secrets, name: &str) -> Result<Vec<u8>> {
    windlass_vault::decrypt(data, secrets).map_err(|error| Error::new(format!("{name}: {error}")))
}

fn encrypted(plain: &[u8], secret: &Secret) -> Result<String> {
    windlass_vault::encrypt(plain, secret).map_err(|error| Error::new(error.to_string()))
}

/// Replaces a file in one step, so that neither a half-written nor a readable one is ever there.
fn write_file(file: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(bytes)?;
        temporary.as_file().sync_all()?;
        temporary.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
        temporary.persist(file)?;
        Ok(())
    };
    write().map_err(|error| Error::new(format!("{} cannot be written: {error}", file.display())))
}

/// Lets the user edit a text; it lies in a private file only as long as the editor runs.
fn in_editor(text: &[u8]) -> Result<Vec<u8>> {
    let editor = ["ANSIBLE_EDITOR", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_else(|| "vi".to_owned());
    let fail = |error: std::io::Error| Error::new(format!("the text cannot be edited: {error}"));
    let mut file = tempfile::Builder::new().prefix("windlass-vault-").suffix(".yml").tempfile().map_err(fail)?;
    file.write_all(text).map_err(fail)?;
    file.flush().map_err(fail)?;
    let words = shell_words::split(&editor)
        .map_err(|error| Error::usage(format!("the editor '{editor}' cannot be run: {error}")))?;
    let Some((program, arguments)) = words.split_first() else { return Err(Error::usage("EDITOR is empty")) };
    let status = std::process::Command::new(program).args(arguments).arg(file.path()).status().map_err(fail)?;
    if !status.success() {
        return Err(Error::new(format!("the editor ended with {status}; nothing was changed")));
    }
    std::fs::read(file.path()).map_err(fail)
}

fn note(text: &str) {
    if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        crate::output::Printer::new(false, crate::output::Secrets::default())
            .error_line(text, crate::output::Color::Plain);
    }
}
