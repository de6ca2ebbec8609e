//! `windlass vault`: encrypts files and values, compatible with `ansible-vault`.

mod inline;
mod tree;

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use windlass_vault::{DEFAULT_LABEL, Secret, Secrets};
use windlass_yaml::{Node, Options, Source};
use zeroize::Zeroizing;

use super::options::VaultOptions;
use super::plaintext::{self, Edited};
use super::secrets::{self, Prompt, ask_twice};
use crate::error::{Error, Result};
use crate::settings::{Config, Settings};
use crate::signals::Signal;

/// Encrypt and decrypt files and values
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass vault create secrets.yml                              # write a new encrypted file
  windlass vault encrypt secrets.yml --vault-password-file pass  # encrypt a file in place
  windlass vault view secrets.yml -J                             # print it, asking for the password
  windlass vault edit secrets.yml                                # change it in an editor
  windlass vault decrypt secrets.yml                             # decrypt a file in place
  windlass vault textconv secrets.yml                            # print it for git diff
  windlass vault encrypt_string --name db_password s3cret        # encrypt one value
  windlass vault rekey . --new-vault-password-file new           # re-encrypt a whole project")]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print decrypted files
    View(FileArguments),
    /// Encrypt files or standard input
    Encrypt(FileArguments),
    /// Decrypt files or standard input
    Decrypt(FileArguments),
    /// Create an encrypted file in an editor
    Create(FileArguments),
    /// Edit an encrypted file in an editor
    Edit(FileArguments),
    /// Re-encrypt files, and all files and values in folders, with a new password
    Rekey(RekeyArguments),
    /// Print a file with its encrypted values decrypted, for differences in git
    Textconv(TextconvArguments),
    /// Encrypt a value for use in YAML
    #[command(name = "encrypt_string")]
    EncryptString(StringArguments),
}

/// Options of every subcommand.
#[derive(Debug, Args)]
struct Common {
    /// Increase verbosity
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    vault: VaultOptions,
}

#[derive(Debug, Args)]
struct FileArguments {
    /// Files [default: standard input]
    files: Vec<PathBuf>,
    /// Write to this file instead; `-` is standard output
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    output: Option<String>,
    /// Encrypt with the identity that has this label
    #[arg(long, value_name = "LABEL")]
    encrypt_vault_id: Option<String>,
    /// Start the editor even without a terminal
    #[arg(long)]
    skip_tty_check: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct RekeyArguments {
    /// Files to re-encrypt, and folders; in folders and YAML files, values encrypted by `!vault` too
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// New identity as `label@source`
    #[arg(long, value_name = "ID", conflicts_with = "new_vault_password_file")]
    new_vault_id: Option<String>,
    /// Read the new password from a file, or from an executable's output
    #[arg(long, value_name = "FILE")]
    new_vault_password_file: Option<PathBuf>,
    /// Encrypt with the new identity that has this label
    #[arg(long, value_name = "LABEL")]
    encrypt_vault_id: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct TextconvArguments {
    /// File to print
    file: PathBuf,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct StringArguments {
    /// Values to encrypt; `-` is standard input
    strings: Vec<String>,
    /// Variable name for each value, in order; repeatable
    #[arg(short, long)]
    name: Vec<String>,
    /// Read a value from standard input and give it this variable name
    #[arg(long, value_name = "NAME")]
    stdin_name: Option<String>,
    /// Ask for the value
    #[arg(short, long)]
    prompt: bool,
    /// Echo the value typed at the prompt
    #[arg(long)]
    show_input: bool,
    /// Write to this file instead; `-` is standard output
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    output: Option<String>,
    /// Encrypt with the identity that has this label
    #[arg(long, value_name = "LABEL")]
    encrypt_vault_id: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Runs the subcommand.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let settings = Settings::from_config(&Config::find()?)?;
    match arguments.verb {
        Verb::View(view) => {
            let inputs = inputs(&view.files)?;
            let secrets = secrets_for(&inputs, &view.common.vault, &settings)?;
            for Input { name, data, .. } in &inputs {
                let plain = match sops(data, name) {
                    Some(document) => plain_sops(&document, &secrets)?.into_bytes(),
                    None => open(data, &secrets, name)?,
                };
                super::stdout::print(&String::from_utf8_lossy(&plain))?;
            }
        }
        Verb::Encrypt(files) => {
            let secret = to_encrypt_with(&files.common.vault, files.encrypt_vault_id.as_deref(), &settings)?;
            each(&files, inputs(&files.files)?, |plain, name| {
                if windlass_vault::is_encrypted(plain) {
                    return Err(Error::new(format!("{name} is already encrypted")));
                }
                Ok(encrypted(plain, &secret, &settings)?.into_bytes())
            })?;
            note("Encryption successful");
        }
        Verb::Decrypt(files) => {
            let inputs = inputs(&files.files)?;
            let secrets = secrets_for(&inputs, &files.common.vault, &settings)?;
            each(&files, inputs, |cipher, name| match sops(cipher, name) {
                // Decrypting would lose the comments and the layout of the file.
                Some(_) => Err(Error::new(format!(
                    "{name} is encrypted by sops, and stays as it is: `windlass vault view` prints it decrypted"
                ))),
                None => open(cipher, &secrets, name),
            })?;
            note("Decryption successful");
        }
        Verb::Create(create) => {
            let secret = to_encrypt_with(&create.common.vault, create.encrypt_vault_id.as_deref(), &settings)?;
            let [file] = create.files.as_slice() else {
                return Err(Error::usage("ansible-vault create can take only one filename argument"));
            };
            if file.exists() {
                return Err(Error::usage(format!("{} exists, please use 'edit' instead", file.display())));
            }
            if !std::io::stdout().is_terminal() && !create.skip_tty_check {
                return Err(Error::new("not a tty, editor cannot be opened")
                    .hint("with --skip-tty-check the editor starts nevertheless"));
            }
            let folder = folder_of(file);
            if !folder.exists() {
                note_always(&format!("{} does not exist, creating...", folder.display()));
                std::fs::create_dir_all(folder)
                    .map_err(|error| Error::new(format!("{} cannot be created: {error}", folder.display())))?;
            }
            let text = match plaintext::edit(b"")? {
                Edited::Text(text) => text,
                Edited::Ended(signal) => return Ok(signal.code),
            };
            write_edited(file, encrypted(&text, &secret, &settings)?.as_bytes(), Access::Private)?;
        }
        Verb::Edit(edit) => {
            let secrets = known(&edit.common.vault, &settings)?;
            for file in &edit.files {
                if let Some(signal) = self::edit(file, &secrets, &settings)? {
                    return Ok(signal.code);
                }
            }
        }
        Verb::Rekey(rekey) => self::rekey(&rekey, settings)?,
        Verb::Textconv(arguments) => textconv(&arguments, settings)?,
        Verb::EncryptString(strings) => encrypt_string(&strings, &settings)?,
    }
    Ok(0)
}

/// Edits a file. Returns the signal that ended editing, if any. The file keeps its password and label.
fn edit(file: &Path, secrets: &Secrets, settings: &Settings) -> Result<Option<Signal>> {
    // Edits the target of a link; the link stays.
    let file = &std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let data = read(file)?;
    let (plain, secret) = windlass_vault::decrypt_with_secret(&data, secrets)
        .map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
    let label = windlass_vault::label(&data).unwrap_or_else(|| DEFAULT_LABEL.to_owned());
    let plain = Zeroizing::new(plain);
    let changed = match plaintext::edit(&plain)? {
        Edited::Text(changed) => changed,
        Edited::Ended(signal) => return Ok(Some(signal)),
    };
    if changed == plain {
        return Ok(None);
    }
    let secret = Secret::new(label, secret.password());
    write_edited(file, encrypted(&changed, &secret, settings)?.as_bytes(), Access::Kept)?;
    Ok(None)
}

/// Settings without the configured sources of passwords.
fn without_sources(mut settings: Settings) -> Settings {
    settings.vault.ids.clear();
    settings
}

fn rekey(arguments: &RekeyArguments, settings: Settings) -> Result<()> {
    let given = &arguments.common.vault;
    // For a whole project, passwords of the settings would also change values that the user did not mean.
    let is_project = arguments.files.iter().any(|path| path.is_dir());
    let own = if is_project && given.has_source() { without_sources(settings.clone()) } else { settings };
    let secrets = known(given, &own)?;
    let options = VaultOptions::of(arguments.new_vault_id.clone(), arguments.new_vault_password_file.clone());
    let mut alone = without_sources(own);
    alone.vault.ask_pass = false;
    let new = options.secrets_or(&alone, Some(Prompt::Replacement))?;
    let new = chosen(new, arguments.encrypt_vault_id.as_deref(), &alone)?;
    // Nothing is written until everything is known to be decrypted.
    let rekeyed = tree::Rekey { old: &secrets, new: &new, settings: &alone }.all(&arguments.files)?;
    if is_project && rekeyed.labels.len() > 1 {
        let labels: Vec<&str> = rekeyed.labels.iter().map(String::as_str).collect();
        return Err(Error::usage(format!(
            "nothing was written: all would get one password, but there are several vault ids: {}. Choose the one to \
             re-encrypt by --vault-id LABEL@SOURCE",
            labels.join(", ")
        )));
    }
    rekeyed.left.iter().for_each(|sentence| note_always(sentence));
    let staged = rekeyed.files.iter().map(|(file, content)| stage(file, content, Access::Kept));
    let staged = staged.collect::<Result<Vec<_>>>()?;
    for (index, (temporary, (file, _))) in staged.into_iter().zip(&rekeyed.files).enumerate() {
        temporary.persist(file).map_err(|error| {
            Error::new(format!(
                "{} cannot be written: {error}. {index} files have the new password already; give both to repeat this",
                file.display()
            ))
        })?;
    }
    if is_project {
        let counted = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        let (secrets, files) = (counted(rekeyed.values, "secret"), counted(rekeyed.files.len(), "file"));
        note_always(&format!("Re-encrypted {secrets} in {files}"));
    }
    note("Rekey successful");
    Ok(())
}

/// The document in a file, if sops has encrypted it.
fn sops(data: &[u8], name: &str) -> Option<Node> {
    let source = Source::new(name, std::str::from_utf8(data).ok()?);
    let loaded = windlass_yaml::parse(Arc::clone(&source), &Options::default()).ok()?;
    loaded.into_one(&source).ok().filter(windlass_sops::is_encrypted)
}

/// A document of sops in plain YAML.
fn plain_sops(document: &Node, secrets: &Secrets) -> Result<String> {
    let plain = windlass_sops::decrypt(document, secrets).map_err(|error| Error::parse(error.message, &error.span))?;
    let plain = windlass_inventory::export::to_yaml(plain.as_ref().unwrap_or(document));
    plain.map_err(|error| Error::new(error.to_string()))
}

/// Prints a file decrypted. Whatever cannot be decrypted is printed as it is: git shows history also to those without
/// the password.
fn textconv(arguments: &TextconvArguments, mut settings: Settings) -> Result<()> {
    settings.vault.ask_pass = false;
    let given = arguments.common.vault.secrets(&settings);
    let secrets = given.or_else(|_| VaultOptions::default().secrets(&without_sources(settings)))?;
    let data = read(&arguments.file)?;
    let document = sops(&data, &arguments.file.display().to_string());
    if let Some(plain) = document.and_then(|document| plain_sops(&document, &secrets).ok()) {
        return put(plain.as_bytes(), "-");
    }
    let opened = |data: &[u8]| windlass_vault::decrypt_variables(data, &secrets).ok().flatten();
    let shown = match std::str::from_utf8(&data) {
        _ if windlass_vault::is_encrypted(&data) || windlass_vault::is_age(&data) => opened(&data).unwrap_or(data),
        Ok(text) if inline::may_have(text) => {
            let plain = inline::replaced(text, |envelope, _| {
                let plain = opened(envelope.as_bytes()).map(|plain| String::from_utf8_lossy(&plain).into_owned());
                Ok::<_, std::convert::Infallible>(plain.unwrap_or_else(|| envelope.to_owned()))
            });
            let Ok(plain) = plain;
            plain.into_bytes()
        }
        _ => data,
    };
    put(&shown, "-")
}

/// A value to encrypt: its name, text and source.
type Value = (Option<String>, String, &'static str);

fn encrypt_string(arguments: &StringArguments, settings: &Settings) -> Result<()> {
    let secret = to_encrypt_with(&arguments.common.vault, arguments.encrypt_vault_id.as_deref(), settings)?;
    let mut values: Vec<Value> = Vec::new();
    if arguments.prompt {
        let seen = |prompt: &str| {
            let answer = secrets::line(prompt).map_err(|error| Error::new(error.to_string()))?;
            answer.ok_or_else(|| Error::new("the standard input has no answer"))
        };
        let name = match arguments.name.first() {
            Some(name) => Some(name.clone()),
            None => Some(seen("Variable name (enter for no name): ")?).filter(|name| !name.is_empty()),
        };
        const VALUE: &str = "String to encrypt: ";
        let unseen =
            || ask_twice(VALUE, None).map_err(|error| error.hint("give it to the standard input: --stdin-name NAME"));
        let value = if arguments.show_input { seen(VALUE)? } else { unseen()? };
        values.push((name, value, "the interactive prompt"));
    }
    let words = arguments.strings.iter().filter(|word| *word != "-");
    let names = arguments.name.iter().skip(usize::from(arguments.prompt)).map(Some).chain(std::iter::repeat(None));
    values.extend(words.zip(names).map(|(value, name)| (name.cloned(), value.clone(), "the command line args")));
    let from_input = arguments.stdin_name.is_some() || arguments.strings.iter().any(|word| word == "-");
    if values.is_empty() || from_input {
        if secrets::has_terminal() {
            note(
                "Reading plaintext input from stdin. (ctrl-d to end input, twice if your content does not already have a newline)",
            );
        }
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Error::new(format!("the standard input cannot be read: {error}")))?;
        if text.is_empty() {
            return Err(Error::usage("stdin was empty, not encrypting"));
        }
        values.insert(usize::from(arguments.prompt), (arguments.stdin_name.clone(), text, "stdin"));
    }
    if let Some((name, _, _)) = values.iter().find(|(_, value, _)| value.is_empty()) {
        return Err(Error::usage(format!("the value {} to encrypt is empty", name.as_deref().unwrap_or_default())));
    }
    let mut shown = String::new();
    let several = values.len() > 1;
    for (index, (name, value, source)) in values.iter().enumerate() {
        if several {
            let what =
                name.as_ref().map_or("the string".to_owned(), |name| format!("variable (\"{name}\", the string"));
            let end = if name.is_some() { ")" } else { "" };
            note_always(&format!("# The encrypted version of {what} #{} from {source}{end}.", index + 1));
        }
        let envelope = encrypted(value.as_bytes(), &secret, settings)?;
        let head = name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        shown += &format!("{head}!vault |\n");
        envelope.trim_end().lines().for_each(|line| shown += &format!("          {line}\n"));
    }
    put(shown.as_bytes(), arguments.output.as_deref().unwrap_or("-"))?;
    note("Encryption successful");
    Ok(())
}

/// Secrets that decrypt the inputs. They include a password only if one of the inputs needs it.
fn secrets_for(inputs: &[Input], options: &VaultOptions, settings: &Settings) -> Result<Secrets> {
    let needs_password =
        |input: &Input| !windlass_vault::is_age(&input.data) && sops(&input.data, &input.name).is_none();
    if inputs.iter().any(needs_password) { known(options, settings) } else { options.secrets(settings) }
}

/// Passwords for decryption. Fails if none is given.
fn known(options: &VaultOptions, settings: &Settings) -> Result<Secrets> {
    let secrets = options.secrets_or(settings, Some(Prompt::Known))?;
    if secrets.is_empty() {
        Err(Error::usage("A vault password is required to use Ansible's Vault"))
    } else {
        Ok(secrets)
    }
}

/// Password for encryption: the only one, or the one with a label.
fn to_encrypt_with(options: &VaultOptions, label: Option<&str>, settings: &Settings) -> Result<Secret> {
    chosen(options.secrets_or(settings, Some(Prompt::New))?, label, settings)
}

/// The secret of this label to encrypt with.
fn chosen(secrets: Secrets, label: Option<&str>, settings: &Settings) -> Result<Secret> {
    let label = label.or(settings.vault.encrypt_identity.as_deref());
    let labels = || secrets.iter().map(Secret::label).collect::<Vec<_>>();
    let found = match label {
        Some(label) => {
            let quoted: Vec<String> = labels().iter().map(|label| format!("'{label}'")).collect();
            secrets.iter().find(|secret| secret.label() == label).ok_or_else(|| {
                Error::new(format!(
                    "Did not find a match for --encrypt-vault-id={label} in the known vault-ids [{}]",
                    quoted.join(", ")
                ))
            })
        }
        None if secrets.iter().nth(1).is_some() => {
            let message = format!("The vault-ids {} are available to encrypt", labels().join(","));
            return Err(Error::usage(message).hint("choose one with --encrypt-vault-id"));
        }
        None => {
            secrets.iter().next().ok_or_else(|| Error::usage("A vault password is required to use Ansible's Vault"))
        }
    };
    found.cloned()
}

/// A file, or the standard input.
struct Input {
    name: String,
    file: Option<PathBuf>,
    data: Vec<u8>,
}

/// Reads the files; no file, or `-`, is the standard input.
fn inputs(files: &[PathBuf]) -> Result<Vec<Input>> {
    let standard = || Ok(Input { name: "the standard input".to_owned(), file: None, data: input()? });
    let named = |file: &PathBuf| match file == Path::new("-") {
        true => standard(),
        false => Ok(Input { name: file.display().to_string(), file: Some(file.clone()), data: read(file)? }),
    };
    if files.is_empty() { Ok(vec![standard()?]) } else { files.iter().map(named).collect() }
}

/// Writes each input changed: to `--output`, in its place, or to the standard output.
fn each(arguments: &FileArguments, inputs: Vec<Input>, change: impl Fn(&[u8], &str) -> Result<Vec<u8>>) -> Result<()> {
    if inputs.len() > 1 && arguments.output.is_some() {
        return Err(Error::usage("At most one input file may be used with the --output option"));
    }
    for Input { name, file, data } in inputs {
        let changed = change(&data, &name)?;
        match (&arguments.output, &file) {
            (Some(output), _) => put(&changed, output)?,
            (None, None) => put(&changed, "-")?,
            (None, Some(file)) => {
                write_file(&std::fs::canonicalize(file).unwrap_or_else(|_| file.clone()), &changed, Access::Private)?
            }
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
        file => write_file(Path::new(file), bytes, Access::Private),
    }
}

fn input() -> Result<Vec<u8>> {
    let mut input = Vec::new();
    let read = std::io::stdin().read_to_end(&mut input);
    read.map_err(|error| Error::new(format!("the standard input cannot be read: {error}")))?;
    Ok(input)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    // An encrypted file may be large, but has an end.
    windlass_bounds::read_up_to(file, 1 << 30)
        .map_err(|error| Error::new(format!("{} cannot be read: {error}", file.display())))
}

fn open(data: &[u8], secrets: &Secrets, name: &str) -> Result<Vec<u8>> {
    let plain = match windlass_vault::is_age(data) {
        true => windlass_vault::decrypt_variables(data, secrets).map(Option::unwrap_or_default),
        false => windlass_vault::decrypt(data, secrets),
    };
    let has_values = || !windlass_vault::is_encrypted(data) && std::str::from_utf8(data).is_ok_and(inline::may_have);
    plain.map_err(|error| {
        let hint = has_values()
            .then_some("its `!vault` values are encrypted one by one; `windlass vault textconv` prints them decrypted");
        Error::new(format!("{name}: {error}")).maybe_hint(hint.map(str::to_owned))
    })
}

fn encrypted(plain: &[u8], secret: &Secret, settings: &Settings) -> Result<String> {
    let envelope = match &settings.vault.encrypt_salt {
        Some(salt) => Ok(windlass_vault::encrypt_with_salt(plain, secret, salt.as_bytes())),
        None => windlass_vault::encrypt(plain, secret),
    };
    envelope.map_err(|error| Error::new(error.to_string()))
}

/// Mode and owner of a replaced file.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    /// Keeps mode and owner.
    Kept,
    /// Makes the file readable only for its owner.
    Private,
}

/// Replaces a file atomically, so that it is never half-written or readable for others.
fn write_file(file: &Path, bytes: &[u8], access: Access) -> Result<()> {
    let persisted = stage(file, bytes, access)?.persist(file);
    persisted.map(drop).map_err(|error| Error::new(format!("{} cannot be written: {}", file.display(), error.error)))
}

/// Like [`write_file`], for a text that somebody has typed: if it cannot be written, it is kept, encrypted, elsewhere.
fn write_edited(file: &Path, bytes: &[u8], access: Access) -> Result<()> {
    write_file(file, bytes, access).map_err(|error| {
        let keep = || -> std::io::Result<PathBuf> {
            let mut kept = tempfile::Builder::new().prefix("windlass-vault.").suffix(".yml").tempfile()?;
            kept.write_all(bytes)?;
            Ok(kept.keep()?.1)
        };
        match keep() {
            Ok(kept) => Error::new(format!("{error}. The text is kept, encrypted, in {}", kept.display())),
            Err(_) => error,
        }
    })
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a file beside the one that it will replace.
fn stage(file: &Path, bytes: &[u8], access: Access) -> Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let folder = folder_of(file);
    let write = || -> std::io::Result<tempfile::NamedTempFile> {
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(bytes)?;
        temporary.as_file().sync_all()?;
        let old = std::fs::metadata(file).ok().filter(|_| access == Access::Kept);
        let mode = old.as_ref().map_or(0o600, |old| old.permissions().mode() & 0o7777);
        if let Some(old) = old {
            // Only root can change the owner; for other users the file becomes their own.
            let _ = std::os::unix::fs::chown(temporary.path(), Some(old.uid()), Some(old.gid()));
        }
        temporary.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
        Ok(temporary)
    };
    write().map_err(|error| Error::new(format!("{} cannot be written: {error}", file.display())))
}

fn note(text: &str) {
    if std::io::stderr().is_terminal() {
        note_always(text);
    }
}

fn note_always(text: &str) {
    crate::output::Printer::plain(crate::output::Secrets::default()).error_line(text, crate::settings::Color::Plain);
}
