//! Groups of options that several subcommands share, and their effect on the settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Command};
use windlass_template::{Compat, Variable};
use windlass_vault::Secrets as VaultSecrets;
use windlass_yaml::{Key, Mapping, Node, Source, Span, Value};

use super::secrets::{ask, secret_file};
use crate::connection::Secret;
use crate::error::{Error, Result};
use crate::output::Secrets;
use crate::planned::Request;
use crate::playbook::Files;
use crate::settings::{Config, Settings};
use crate::vars::{Answers, secrecy};

/// Selection of hosts.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Inventory")]
pub(super) struct InventoryOptions {
    /// Inventory file, directory or script, or host names with a comma: `a,b,`; repeatable [default: the inventory of
    /// ansible.cfg, or /etc/ansible/hosts]
    #[arg(short, long = "inventory", visible_alias = "inventory-file", value_name = "SOURCE")]
    inventory: Vec<String>,
    /// Limit the run to hosts that match this pattern, or that @FILE lists
    #[arg(short, long, value_name = "PATTERN", allow_hyphen_values = true, overrides_with = "limit")]
    limit: Option<String>,
}

/// Options for connections.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectOptions {
    /// Login user [default: from ssh_config]
    #[arg(short = 'u', long = "user", value_name = "USER")]
    remote_user: Option<String>,
    /// Connection type, such as `ssh`, `local`, `docker` or `kubectl` [default: ssh]
    #[arg(short, long, value_name = "KIND")]
    connection: Option<String>,
    /// Seconds to wait for a connection [default: 10]
    #[arg(short = 'T', long, value_name = "SECONDS", value_parser = whole::<u64>)]
    timeout: Option<u64>,
    /// Private key for the login
    #[arg(long, visible_alias = "key-file", value_name = "FILE")]
    private_key: Option<PathBuf>,
    /// Accept keys of hosts missing from known_hosts and add them; changed keys are still refused
    #[arg(long)]
    accept_new_host_keys: bool,
    /// SSH option in ssh_config syntax: `StrictHostKeyChecking=accept-new`; repeatable
    #[arg(long, value_name = "OPTION")]
    ssh_option: Vec<String>,
    /// SSH options in the syntax of the ssh command, such as `-o Port=2222`
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    ssh_common_args: Option<String>,
    /// Further SSH options in the syntax of the ssh command
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    ssh_extra_args: Option<String>,
    /// Accepted for compatibility; Windlass does not use scp
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, hide = true)]
    scp_extra_args: Option<String>,
    /// Accepted for compatibility; Windlass does not use sftp
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, hide = true)]
    sftp_extra_args: Option<String>,
    #[command(flatten)]
    login: LoginSecrets,
}

/// Sources of the login password.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct LoginSecrets {
    /// Ask for the login password
    #[arg(short = 'k', long)]
    ask_pass: bool,
    /// Read the login password from a file, or from an executable's output
    #[arg(long, visible_alias = "conn-pass-file", value_name = "FILE")]
    connection_password_file: Option<PathBuf>,
}

/// Options for privilege escalation.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Privilege escalation")]
pub(super) struct BecomeOptions {
    /// Run tasks as another user
    #[arg(short, long)]
    r#become: bool,
    /// Become method: `sudo`, `su` or `doas` [default: sudo]
    #[arg(long, value_name = "METHOD")]
    become_method: Option<String>,
    /// Become user [default: root]
    #[arg(long, value_name = "USER")]
    become_user: Option<String>,
    #[command(flatten)]
    secrets: BecomeSecrets,
}

/// Sources of the become password.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Privilege escalation")]
pub(super) struct BecomeSecrets {
    /// Ask for the become password
    #[arg(short = 'K', long)]
    ask_become_pass: bool,
    /// Read the become password from a file, or from an executable's output
    #[arg(long, visible_alias = "become-pass-file", value_name = "FILE")]
    become_password_file: Option<PathBuf>,
}

/// Sources of vault passwords.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Vault")]
pub(super) struct VaultOptions {
    /// Vault identity as `label@source`; the source is `prompt`, a file or an executable; repeatable
    #[arg(long, value_name = "ID")]
    pub(super) vault_id: Vec<String>,
    /// Ask for the vault password
    #[arg(short = 'J', long, visible_alias = "ask-vault-pass")]
    pub(super) ask_vault_password: bool,
    /// Read the vault password from a file, or from an executable's output; repeatable
    #[arg(long, visible_alias = "vault-pass-file", value_name = "FILE")]
    pub(super) vault_password_file: Vec<PathBuf>,
}

/// Sources of all passwords, for subcommands that pass them on.
#[derive(Debug, Default, Args)]
pub(super) struct SecretOptions {
    #[command(flatten)]
    login: LoginSecrets,
    #[command(flatten)]
    r#become: BecomeSecrets,
    #[command(flatten)]
    vault: VaultOptions,
}

/// An option given on the command line: its name, and its value unless it is a flag.
pub(super) type Given = (&'static str, Option<String>);

/// Options with several values or none, as [`Given`].
pub(super) fn given<T: ToString>(name: &'static str, values: impl IntoIterator<Item = T>) -> Vec<Given> {
    values.into_iter().map(|value| (name, Some(value.to_string()))).collect()
}

/// A flag as [`Given`].
pub(super) fn flag(name: &'static str, is_set: bool) -> Option<Given> {
    is_set.then_some((name, None))
}

/// Words of a command line, each option in one.
pub(super) fn words(given: impl IntoIterator<Item = Given>) -> impl Iterator<Item = String> {
    given.into_iter().map(|(name, value)| match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    })
}

/// Options of a run.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Run")]
pub(super) struct RunOptions {
    /// Variables: `key=value`, YAML, JSON or @FILE; repeatable
    #[arg(short, long, value_name = "VARS")]
    extra_vars: Vec<String>,
    /// Maximum number of hosts to work on in parallel [default: 50]
    #[arg(short, long, value_name = "COUNT", value_parser = whole::<usize>)]
    forks: Option<usize>,
    /// Predict changes without making them
    #[arg(short = 'C', long)]
    check: bool,
    /// Show differences in changed files
    #[arg(short = 'D', long)]
    diff: bool,
    /// Increase verbosity, up to -vvvv
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Show output of running commands immediately [default: slowest if standard error is a terminal]
    #[arg(
        long,
        value_name = "HOSTS",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all"
    )]
    live: Option<crate::settings::Live>,
    /// Form in which progress is shown [default: auto]
    #[arg(long, value_name = "FORM", value_enum)]
    progress: Option<crate::settings::Progress>,
    /// Search path for modules, separated by colons, before all others
    #[arg(short = 'M', long, value_name = "PATH")]
    module_path: Vec<String>,
    /// Do not send tasks ahead: wait for each answer
    #[arg(long)]
    no_stream: bool,
    /// Policy for hosts locked by another run: `wait`, `fail`, `shared` (this run only reads) or `ignore` [default:
    /// wait]
    #[arg(long, value_name = "POLICY")]
    lock: Option<crate::executor::LockPolicy>,
    /// Seconds to wait for a host locked by another run [default: 1800]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u64>)]
    lock_timeout: Option<u64>,
    /// Release of Ansible to emulate: 2.18 or 2.19 [default: 2.19]
    #[arg(long, value_name = "LINE")]
    compat: Option<String>,
}

/// Options of every subcommand that runs tasks.
#[derive(Debug, Default, Args)]
pub(super) struct TaskOptions {
    #[command(flatten)]
    run: RunOptions,
    #[command(flatten)]
    inventory: InventoryOptions,
    #[command(flatten)]
    connect: ConnectOptions,
    #[command(flatten)]
    r#become: BecomeOptions,
    #[command(flatten)]
    vault: VaultOptions,
}

/// Hides options of [`TaskOptions`] that have no effect on a subcommand. They stay accepted, so that the options of a
/// run also fit the commands that explain it.
pub(super) fn hide(command: Command, without_effect: &[&str]) -> Command {
    command.mut_args(|option| match without_effect.contains(&option.get_id().as_str()) {
        true => option.hide(true),
        false => option,
    })
}

/// Inputs read before a run: vault passwords, files, and variables of the command line.
#[derive(Clone)]
pub(super) struct Inputs {
    pub(super) vault: VaultSecrets,
    pub(super) files: Arc<Files>,
    pub(super) extra_vars: Arc<Mapping>,
    pub(super) answers: Answers,
}

impl TaskOptions {
    pub(super) fn apply(&self, settings: &mut Settings, config: &Config) -> Result<()> {
        self.run.apply(settings)?;
        self.inventory.apply(settings);
        self.connect.apply(settings, config)?;
        self.r#become.apply(settings, config)
    }

    pub(super) fn inputs(&self, settings: &Settings) -> Result<Inputs> {
        let masked = Secrets::of_process();
        let secrets = masked.clone();
        let mut vault = self.vault.secrets(settings)?;
        vault.iter().for_each(|secret| masked.add_password(&String::from_utf8_lossy(secret.password())));
        // Every decrypted text, now or later, is masked before it can be displayed.
        vault.observe(Arc::new(move |plain| masked.reveal(plain)));
        let files = Arc::new(Files::new(vault.clone(), settings.duplicate_keys));
        let extra_vars = self.run.extra_vars(&files)?;
        // Errors of the inventory may already show one.
        secrecy::learn(&secrets, |name| extra_vars.get(name).cloned().map(Variable::Text));
        Ok(Inputs { vault, files, extra_vars, answers: Answers::default() })
    }

    /// Variables of each `-e`.
    pub(super) fn each_extra_vars(&self, files: &Files) -> Result<Vec<Arc<Mapping>>> {
        self.run.extra_vars.iter().map(|text| extra(text, files)).collect()
    }

    /// Adds the options that a plan file may carry, and the names of those that it must not.
    ///
    /// Passwords, programs and free SSH options stay out: a file that anybody may have written must not choose them.
    pub(super) fn carry(&self, request: &mut Request) {
        let TaskOptions { run, inventory, connect, r#become, vault } = self;
        let absolute = |path: &Path| crate::paths::absolute(&crate::settings::expand_home(&path.to_string_lossy()));
        let source = |name: &String| match name.contains(',') {
            true => name.clone(),
            false => absolute(Path::new(name)).display().to_string(),
        };
        request.inventory = inventory.inventory.iter().map(source).collect();
        let number = |value: u64| value.to_string();
        let key = connect.private_key.as_ref().map(|path| absolute(path).display().to_string());
        let options = [
            ("limit", inventory.limit.clone()),
            ("user", connect.remote_user.clone()),
            ("connection", connect.connection.clone()),
            ("timeout", connect.timeout.map(number)),
            ("private-key", key),
            ("become-method", r#become.become_method.clone()),
            ("become-user", r#become.become_user.clone()),
            ("forks", run.forks.map(|count| count.to_string())),
            ("lock-timeout", run.lock_timeout.map(number)),
            ("compat", run.compat.clone()),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        request.options.extend(given);
        let flags = [("become", r#become.r#become), ("no-stream", run.no_stream)];
        request.flags.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (*name).to_owned()));
        let secrets = [connect.login.given(), r#become.secrets.given(), vault.given()].concat();
        let repeated = [
            ("ssh-option", !connect.ssh_option.is_empty()),
            ("ssh-common-args", connect.ssh_common_args.is_some()),
            ("ssh-extra-args", connect.ssh_extra_args.is_some()),
            ("accept-new-host-keys", connect.accept_new_host_keys),
            ("module-path", !run.module_path.is_empty()),
            ("lock", run.lock.is_some()),
        ];
        let repeated = repeated.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name);
        let mut names: Vec<&str> = repeated.chain(secrets.iter().map(|(name, _)| *name)).collect();
        names.dedup();
        request.repeat.extend(names.into_iter().map(str::to_owned));
    }

    /// Adds options given as `-o` to the options of `--ssh-option`.
    pub(super) fn add_ssh_options(&mut self, options: Vec<String>) {
        self.connect.ssh_option.extend(options);
    }

    /// Texts of `-e` in their order.
    pub(super) fn extra_vars(&self) -> &[String] {
        &self.run.extra_vars
    }

    /// Value of `--compat`, if given.
    pub(super) fn compat(&self) -> Option<&str> {
        self.run.compat.as_deref()
    }
}

impl InventoryOptions {
    /// Applies the options to the settings.
    pub(super) fn apply(&self, settings: &mut Settings) {
        if !self.inventory.is_empty() {
            settings.inventory.sources = self.inventory.clone();
            settings.inventory.is_named = true;
        }
        settings.inventory.limit = self.limit.clone().or_else(|| settings.inventory.limit.take());
    }
}

impl ConnectOptions {
    pub(super) fn apply(&self, settings: &mut Settings, config: &Config) -> Result<()> {
        override_with(&mut settings.connect.remote_user, &self.remote_user);
        if let Some(connection) = &self.connection {
            settings.connect.transport.clone_from(connection);
        }
        if let Some(timeout) = self.timeout {
            settings.connect.timeout = timeout;
        }
        override_with(&mut settings.connect.private_key_file, &self.private_key);
        settings.connect.accept_new_host_keys |= self.accept_new_host_keys;
        settings.connect.ssh_options.extend(self.ssh_option.iter().cloned());
        override_with(&mut settings.connect.ssh_common_args, &self.ssh_common_args);
        override_with(&mut settings.connect.ssh_extra_args, &self.ssh_extra_args);
        let passed_over = [("--scp-extra-args", &self.scp_extra_args), ("--sftp-extra-args", &self.sftp_extra_args)];
        let given = passed_over.iter().filter(|(_, value)| value.is_some());
        settings.unsupported.extend(given.map(|(name, _)| format!("option {name}")));
        if let Some(file) = &self.login.connection_password_file {
            settings.connect.password = Some(Secret::new(password_from(file)?));
        } else if self.login.ask_pass || config.bool("ask_pass")?.unwrap_or(false) {
            settings.connect.password = Some(Secret::new(ask("SSH password: ", Some("--connection-password-file"))?));
        }
        Ok(())
    }
}

impl BecomeOptions {
    pub(super) fn apply(&self, settings: &mut Settings, config: &Config) -> Result<()> {
        settings.r#become.enabled |= self.r#become;
        if let Some(method) = &self.become_method {
            settings.r#become.method.clone_from(method);
        }
        if let Some(user) = &self.become_user {
            settings.r#become.user.clone_from(user);
        }
        if let Some(file) = &self.secrets.become_password_file {
            settings.r#become.password = Some(Secret::new(password_from(file)?));
        } else if self.secrets.ask_become_pass || config.bool("become_ask_pass")?.unwrap_or(false) {
            let default = settings.connect.password.clone();
            let prompt =
                if default.is_some() { "BECOME password[defaults to SSH password]: " } else { "BECOME password: " };
            let answer = ask(prompt, Some("--become-password-file"))?;
            settings.r#become.password = if answer.is_empty() { default } else { Some(Secret::new(answer)) };
        }
        Ok(())
    }
}

impl LoginSecrets {
    fn given(&self) -> Vec<Given> {
        let mut all =
            given("connection-password-file", self.connection_password_file.iter().map(|file| file.display()));
        all.extend(flag("ask-pass", self.ask_pass));
        all
    }
}

impl BecomeSecrets {
    fn given(&self) -> Vec<Given> {
        let mut all = given("become-password-file", self.become_password_file.iter().map(|file| file.display()));
        all.extend(flag("ask-become-pass", self.ask_become_pass));
        all
    }
}

impl SecretOptions {
    /// The options as given.
    pub(super) fn given(&self) -> Vec<Given> {
        [self.login.given(), self.r#become.given(), self.vault.given()].concat()
    }
}

impl VaultOptions {
    fn given(&self) -> Vec<Given> {
        let mut all = given("vault-id", &self.vault_id);
        all.extend(given("vault-password-file", self.vault_password_file.iter().map(|file| file.display())));
        all.extend(flag("ask-vault-password", self.ask_vault_password));
        all
    }

    /// Whether the command line names a source.
    pub(super) fn has_source(&self) -> bool {
        self.ask_vault_password || !self.vault_id.is_empty() || !self.vault_password_file.is_empty()
    }

    /// A single source, given by identity or file.
    pub(super) fn of(vault_id: Option<String>, file: Option<PathBuf>) -> VaultOptions {
        VaultOptions {
            vault_id: vault_id.into_iter().collect(),
            vault_password_file: file.into_iter().collect(),
            ask_vault_password: false,
        }
    }
}

impl RunOptions {
    pub(super) fn apply(&self, settings: &mut Settings) -> Result<()> {
        if let Some(forks) = self.forks {
            settings.forks = forks;
        }
        if settings.forks == 0 {
            return Err(Error::argument("--forks must be at least 1"));
        }
        settings.check |= self.check;
        settings.diff |= self.diff;
        settings.stream &= !self.no_stream;
        settings.output.progress = self.progress.unwrap_or(settings.output.progress);
        settings.output.live = self.live.unwrap_or(settings.output.live);
        settings.lock.policy = self.lock.unwrap_or(settings.lock.policy);
        settings.lock.is_chosen |= self.lock.is_some();
        settings.lock.timeout = self.lock_timeout.unwrap_or(settings.lock.timeout);
        settings.verbosity = settings.verbosity.max(self.verbose);
        let folders = self.module_path.iter().flat_map(|text| text.split(':')).filter(|folder| !folder.is_empty());
        settings
            .code
            .module_path
            .extend(folders.map(|folder| crate::paths::absolute(&crate::settings::expand_home(folder))));
        settings.compat = match self.compat.as_deref() {
            None => settings.compat,
            Some(name) => Compat::named(name)
                .ok_or_else(|| Error::usage(format!("--compat must be 2.18 or 2.19, not '{name}'")))?,
        };
        Ok(())
    }

    /// Variables of `-e`; later ones override earlier ones.
    fn extra_vars(&self, files: &Files) -> Result<Arc<Mapping>> {
        extra_vars(&self.extra_vars, files)
    }
}

/// Parses texts of `-e`; later variables override earlier ones. The exit codes of its errors are Ansible's: 1 for a
/// file that is missing or cannot be decrypted, 4 for what cannot be parsed, 5 for what holds no variables.
pub(super) fn extra_vars(texts: &[String], files: &Files) -> Result<Arc<Mapping>> {
    let mut vars = Mapping::new();
    for text in texts {
        let found = extra(text, files)?;
        for (key, node) in found.iter() {
            vars.insert(Key::clone(key), node.clone());
        }
    }
    Ok(Arc::new(vars))
}

fn extra(text: &str, files: &Files) -> Result<Arc<Mapping>> {
    let trimmed = text.trim_start();
    if let Some(file) = trimmed.strip_prefix('@') {
        if file.is_empty() {
            return Err(Error::usage("the `@` of extra variables needs the name of a file: -e @FILE").as_parse());
        }
        let path = crate::settings::expand_home(file);
        let read = files.yaml(&path).map_err(|error| if path.exists() { error } else { error.generic() })?;
        if read.is_null() {
            return Ok(Arc::default());
        }
        let no_variables = || {
            Error::parse(format!("{file} must hold a mapping of variables, not {}", read.kind()), &read.span).as_usage()
        };
        return read.as_map().cloned().ok_or_else(no_variables);
    }
    if trimmed.starts_with(['/', '.']) {
        return Err(Error::usage(format!("a file of extra variables needs a leading `@`: @{trimmed}")));
    }
    let source = Source::new("command line", text);
    if trimmed.starts_with(['{', '[']) {
        let node = windlass_yaml::load_one(source, &windlass_yaml::Options::default())?;
        return node.as_map().cloned().ok_or_else(|| {
            Error::usage(format!("Invalid extra vars data supplied. '{text}' could not be made into a dictionary"))
        });
    }
    let map = crate::playbook::arguments::parse(text, false, &typed(text))?;
    if let Some(raw) = map.get("_raw_params").and_then(Node::as_str) {
        return Err(Error::usage(format!("extra variables must be `key=value`, YAML, JSON or @FILE, not '{raw}'")));
    }
    Ok(Arc::new(map))
}

/// Parses module arguments of the command line: `key=value`, JSON or YAML.
pub(super) fn module_arguments(action: &str, text: &str) -> Result<Mapping> {
    let is_json = || serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok();
    if text.trim_start().starts_with('{') && (!crate::playbook::arguments::takes_free_text(action) || is_json()) {
        let node = windlass_yaml::load_one(Source::new("command line", text), &windlass_yaml::Options::default())?;
        if let Value::Map(map) = node.value {
            return Ok((*map).clone());
        }
    }
    crate::playbook::arguments::parse(text, crate::playbook::arguments::takes_free_text(action), &typed(text))
}

/// Text of the command line, which may be a template.
#[expect(clippy::disallowed_methods, reason = "the user typed it")]
fn typed(text: &str) -> Node {
    Node::of_project(text, Span::synthetic("command line"))
}

/// Directory given by `--playbook-dir`. Fails if it does not exist.
pub(super) fn playbook_folder(folder: &Path) -> Result<PathBuf> {
    if folder.is_dir() {
        return Ok(folder.to_owned());
    }
    let what = if folder.exists() { "is not a directory" } else { "does not exist" };
    Err(Error::argument(format!("--playbook-dir {} {what}", folder.display()))
        .hint("it is the directory that contains group_vars, host_vars, roles and plugins"))
}

/// Parses a number without fraction and sign.
pub(super) fn whole<T: std::str::FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "a whole number is needed")
}

fn override_with<T: Clone>(setting: &mut Option<T>, option: &Option<T>) {
    if option.is_some() {
        setting.clone_from(option);
    }
}

fn password_from(file: &Path) -> Result<String> {
    let content = secret_file(file, "default")?;
    Ok(String::from_utf8_lossy(&content).trim_end_matches(['\r', '\n']).to_owned())
}
