//! Resolves the connection and the become user from variables, keywords and settings.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_protocol::{Become, BecomeMethod};
use windlass_template::{Context, Value};
use windlass_yaml::{Node, Span};

use super::{exec, secrecy};
use crate::connection::{HostKeyChecking, Kind, Secret, Target};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::outcome::{is_protected, truth};
use crate::settings::Settings;

/// Connection of a task to its host.
#[derive(Debug, Clone)]
pub struct ConnectionVariables {
    /// Host and login.
    pub target: Target,
    /// Become user.
    pub become_user: Option<Become>,
    /// Directory of job status files (`async`) on the host.
    pub async_dir: String,
}

/// Looks up a keyword on the task and its enclosing frames.
pub(super) type KeywordOf<'a> = &'a dyn Fn(&str) -> Option<Node>;

/// Resolves the connection of one task on one host. Variables outrank keywords, keywords the command line, and the
/// command line ansible.cfg.
pub fn connection_variables(
    host: &str,
    context: &Context,
    keyword: KeywordOf<'_>,
    settings: &Settings,
) -> Result<ConnectionVariables> {
    resolved(&Resolver { host, context, keyword, choices: None }, settings)
}

/// Value that a connection variable has, and its source.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The variable, under its usual name.
    pub name: String,
    /// Source of the value.
    pub source: Source,
}

/// Source of a connection variable's value.
#[derive(Debug, Clone)]
pub enum Source {
    /// The variable with this name.
    Variable(String),
    /// The keyword with this name, at this position.
    Keyword(String, Span),
    /// A setting, or its default.
    Setting,
}

/// Like [`connection_variables`], with the source of each value.
pub fn connection_choices(
    host: &str,
    context: &Context,
    keyword: KeywordOf<'_>,
    settings: &Settings,
) -> Result<(ConnectionVariables, Vec<Choice>)> {
    let choices = RefCell::default();
    let found = resolved(&Resolver { host, context, keyword, choices: Some(&choices) }, settings)?;
    Ok((found, choices.into_inner()))
}

fn resolved(resolver: &Resolver<'_>, settings: &Settings) -> Result<ConnectionVariables> {
    let host = resolver.host;
    let name = resolver.text(&["ansible_ssh_host", "ansible_host"], None)?.unwrap_or_else(|| host.to_owned());
    let connection = resolver.text(&["ansible_connection"], Some("connection"))?;
    let connection = connection.as_deref().unwrap_or(&settings.connect.transport);
    let plugin = exec::Plugin::named(connection);
    let kind = match connection {
        "local" | "ansible.builtin.local" => Kind::Local,
        "ssh" | "smart" | "paramiko" | "ansible.builtin.ssh" | "paramiko_ssh" => Kind::Ssh,
        _ if plugin.is_some() => Kind::Exec,
        other => {
            return Err(Error::new(format!(
                "the connection plugin '{other}' of {host} was not found; use ssh, local, {}",
                exec::NAMES
            )));
        }
    };
    let port = match resolver.value(&["ansible_ssh_port", "ansible_port"], Some("port"))? {
        None => settings.connect.remote_port,
        Some(value) => Some(
            number(&value)
                .and_then(|port| u16::try_from(port).ok())
                .ok_or_else(|| Error::new(format!("ansible_port of {host} is not a port: {value}")))?,
        ),
    };
    let own_timeout = plugin.and_then(exec::Plugin::timeout);
    let timeouts: Vec<&str> = own_timeout.into_iter().chain(["ansible_ssh_timeout", "ansible_timeout"]).collect();
    let timeout = match resolver.value(&timeouts, None)? {
        None => settings.connect.timeout,
        Some(value) => number(&value)
            .ok_or_else(|| Error::new(format!("ansible_timeout of {host} is not a number of seconds: {value}")))?,
    };
    let mut target = Target::new(host, kind);
    target.host = name;
    target.port = port;
    target.user = resolver
        .text(&["ansible_ssh_user", "ansible_user"], Some("remote_user"))?
        .or_else(|| settings.connect.remote_user.clone());
    if let Some(plugin) = plugin {
        target.exec = exec::words(resolver, plugin, &target.host, target.user.as_deref())?;
        target.exec_warning = exec::user_warning(host, plugin, target.user.as_deref());
    }
    target.password = resolver
        .password(&["ansible_ssh_pass", "ansible_ssh_password", "ansible_password"])?
        .or_else(|| settings.connect.password.clone());
    target.private_key_file = resolver
        .text(&["ansible_ssh_private_key_file", "ansible_private_key_file"], None)?
        .map(|file| settings.expand(&file))
        .or_else(|| settings.connect.private_key_file.clone());
    target.ssh_arguments = ssh_arguments(resolver, settings)?;
    target.host_key_checking = host_key_checking(resolver, settings)?;
    target.connect_timeout = Some(Duration::from_secs(timeout));
    target.retries = match resolver.value(&["ansible_ssh_retries"], None)? {
        None => settings.connect.retries,
        Some(value) => number(&value).and_then(|count| u32::try_from(count).ok()).or(settings.connect.retries),
    };
    if let Some(folder) = resolver.text(&["ansible_remote_tmp"], None)?.or_else(|| settings.connect.remote_tmp.clone())
    {
        target.remote_tmp = folder;
    }
    if settings.connect.peer_transfer {
        target.peer_address = peer_address(resolver)?;
    }
    let wanted = match resolver.value(&["ansible_become"], Some("become"))? {
        None => settings.r#become.enabled,
        Some(value) => boolean("become", &value).map_err(Error::new)?,
    };
    let become_user = if wanted { Some(become_of(resolver, settings, timeout)?) } else { None };
    let async_dir = resolver.text(&["ansible_async_dir"], None)?.unwrap_or_else(|| settings.async_dir.clone());
    Ok(ConnectionVariables { target, become_user, async_dir })
}

/// Options for SSH: the command line's, and the words of all SSH arguments.
fn ssh_arguments(resolver: &Resolver<'_>, settings: &Settings) -> Result<Vec<String>> {
    let host = resolver.host;
    let options = settings.connect.ssh_options.iter();
    let mut arguments: Vec<String> = options.flat_map(|option| ["-o".to_owned(), option.clone()]).collect();
    for (name, setting) in [
        ("ansible_ssh_args", &settings.connect.ssh_args),
        ("ansible_ssh_common_args", &settings.connect.ssh_common_args),
        ("ansible_ssh_extra_args", &settings.connect.ssh_extra_args),
    ] {
        if let Some(text) = resolver.text(&[name], None)?.or_else(|| setting.clone()) {
            // Arguments may hold secrets, so the message does not repeat them.
            let unreadable = |error| Error::new(format!("{name} of {host} cannot be read: {error}"));
            let words = words_of(&text).map_err(unreadable)?;
            arguments.extend(words.iter().cloned());
        }
    }
    Ok(arguments)
}

/// Policy for host keys; `None` leaves it to the options of SSH.
fn host_key_checking(resolver: &Resolver<'_>, settings: &Settings) -> Result<Option<HostKeyChecking>> {
    let checking = match resolver.value(&["ansible_ssh_host_key_checking", "ansible_host_key_checking"], None)? {
        None => settings.connect.host_key_checking,
        Some(value) => boolean("ansible_host_key_checking", &value).map_err(Error::new)?,
    };
    let is_checking = |option: &String| option.to_lowercase().trim_start().starts_with("stricthostkeychecking");
    Ok(match () {
        // The SSH option has more values, so it decides.
        () if settings.connect.ssh_options.iter().any(is_checking) => None,
        () if !checking => Some(HostKeyChecking::No),
        () => settings.connect.accept_new_host_keys.then_some(HostKeyChecking::AcceptNew),
    })
}

/// Address by which other hosts reach this one.
fn peer_address(resolver: &Resolver<'_>) -> Result<Option<IpAddr>> {
    let Some(text) = resolver.text(&["windlass_peer_address"], None)? else { return Ok(None) };
    let host = resolver.host;
    let address = text.parse();
    address.map(Some).map_err(|_| Error::new(format!("windlass_peer_address of {host} is not an IP address: {text}")))
}

/// Splits a text into words like a shell. Cached, because every task of every host asks for the same few.
fn words_of(text: &str) -> Result<Arc<[String]>, shell_words::ParseError> {
    static SPLIT: Memory<String, Arc<[String]>> = Memory::new();
    if let Some(words) = SPLIT.get(text) {
        return Ok(words);
    }
    let words: Arc<[String]> = shell_words::split(text)?.into();
    SPLIT.keep(text.to_owned(), Arc::clone(&words));
    Ok(words)
}

fn become_of(resolver: &Resolver<'_>, settings: &Settings, timeout: u64) -> Result<Become> {
    let method = resolver
        .text(&["ansible_become_method"], Some("become_method"))?
        .unwrap_or_else(|| settings.r#become.method.clone());
    let method = method.rsplit('.').next().unwrap_or(&method);
    let Some(method) = BecomeMethod::named(method) else {
        let message = format!("Invalid become method specified, could not find matching plugin: '{method}'");
        return Err(
            Error::new(message).hint(format!("there are {}", BecomeMethod::ALL.map(BecomeMethod::name).join(", ")))
        );
    };
    let own = |suffix: &str| format!("ansible_{method}_{suffix}");
    let (user, exe, flags, pass) = (own("user"), own("exe"), own("flags"), own("pass"));
    Ok(Become {
        user: resolver
            .text(&[&user, "ansible_become_user"], Some("become_user"))?
            .unwrap_or_else(|| settings.r#become.user.clone()),
        exe: resolver
            .text(&[&exe, "ansible_become_exe"], Some("become_exe"))?
            .or_else(|| settings.r#become.exe.clone()),
        flags: resolver
            .text(&[&flags, "ansible_become_flags"], Some("become_flags"))?
            .or_else(|| settings.r#become.flags.clone()),
        password: resolver
            .password(&[&pass, "ansible_become_pass", "ansible_become_password"])?
            .or_else(|| settings.r#become.password.clone()),
        timeout: timeout.max(10),
        method,
    })
}

pub(super) struct Resolver<'a> {
    pub(super) host: &'a str,
    context: &'a Context,
    keyword: KeywordOf<'a>,
    /// Collects the source of each value, if requested.
    choices: Option<&'a RefCell<Vec<Choice>>>,
}

impl Resolver<'_> {
    /// Value of the first variable that is set, or else of the keyword.
    fn value(&self, names: &[&str], keyword: Option<&str>) -> Result<Option<Value>> {
        let found = self.found(names, keyword)?;
        self.choose(names, found.as_ref().map(|(_, source)| source));
        Ok(found.map(|(value, _)| value))
    }

    fn choose(&self, names: &[&str], source: Option<&Found<'_>>) {
        let Some(choices) = self.choices else { return };
        let source = match source {
            Some(Found::Variable(name)) => Source::Variable((*name).to_owned()),
            Some(Found::Keyword(name, span)) => Source::Keyword((*name).to_owned(), span.clone()),
            None => Source::Setting,
        };
        let name = names.last().copied().unwrap_or_default().to_owned();
        choices.borrow_mut().push(Choice { name, source });
    }

    fn found<'n>(&self, names: &[&'n str], keyword: Option<&'n str>) -> Result<Option<(Value, Found<'n>)>> {
        for name in names {
            debug_assert!(is_protected(name), "facts of {} could set {name}", self.host);
            match self.context.variable(name) {
                Ok(Some(value)) if !value.is_none() => return Ok(Some((value, Found::Variable(name)))),
                Ok(_) => {}
                Err(error) if *error.kind() == windlass_template::ErrorKind::Omitted => {}
                Err(error) => return Err(Error::new(format!("{name} of {} cannot be used: {error}", self.host))),
            }
        }
        let Some(name) = keyword else { return Ok(None) };
        let Some(node) = (self.keyword)(name) else { return Ok(None) };
        Ok(given(self.context, &node)?.map(|value| (value, Found::Keyword(name, node.span))))
    }

    /// Whether a variable has a value, which may be empty.
    pub(super) fn is_set(&self, name: &str) -> Result<bool> {
        Ok(self.found(&[name], None)?.is_some())
    }

    /// Value of the first password that is set.
    fn password(&self, names: &[&str]) -> Result<Option<Secret>> {
        debug_assert!(names.iter().all(|name| secrecy::is_password(name)), "output could show one of {names:?}");
        Ok(self.text(names, None)?.map(Secret::new))
    }

    pub(super) fn text(&self, names: &[&str], keyword: Option<&str>) -> Result<Option<String>> {
        let found = self.found(names, keyword)?.map(|(value, source)| (windlass_template::text(&value), source));
        let found = found.filter(|(text, _)| !text.is_empty());
        self.choose(names, found.as_ref().map(|(_, source)| source));
        Ok(found.map(|(text, _)| text))
    }
}

/// Source of a value that was found.
enum Found<'n> {
    Variable(&'n str),
    Keyword(&'n str, Span),
}

/// Evaluates a value; `None` if it is `omit`.
pub(crate) fn unless_omitted(context: &Context, node: &Node) -> Result<Option<Value>, windlass_template::Error> {
    match context.render(node) {
        Ok(value) => Ok(Some(value)),
        Err(error) if *error.kind() == windlass_template::ErrorKind::Omitted => Ok(None),
        Err(error) => Err(error),
    }
}

/// Evaluates a keyword; `omit` and null count as absent.
pub(crate) fn given(context: &Context, node: &Node) -> Result<Option<Value>, windlass_template::Error> {
    Ok(unless_omitted(context, node)?.filter(|value| !value.is_none()))
}

/// Like [`truth`], but fails for texts that mean neither true nor false.
pub(crate) fn boolean(keyword: &str, value: &Value) -> std::result::Result<bool, String> {
    match value.as_str() {
        Some(text) if !is_boolean(text) => {
            Err(format!("the field '{keyword}' has an invalid value ({text}): it is not a valid boolean"))
        }
        _ => Ok(truth(value)),
    }
}

/// Whether a text is one of Ansible's words for true or false, or empty, which is false.
pub(crate) fn is_boolean(text: &str) -> bool {
    text.trim().is_empty() || windlass_yaml::boolean::word(text).is_some()
}

/// Converts a value for a numeric keyword.
pub(crate) fn float(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None => f64::try_from(value.clone()).ok(),
    }
}

/// Converts seconds to a duration; negative ones become zero, too large ones the maximum.
pub(crate) fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number.max(0.0)).unwrap_or(Duration::MAX)
}

/// Converts a value for an integer keyword.
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None => {
            u64::try_from(value.clone()).ok().or_else(|| f64::try_from(value.clone()).ok().map(|number| number as u64))
        }
    }
}

/// Renders a value that may be `omit` as a whole.
pub(crate) fn render(context: &Context, node: &Node) -> Result<Value, windlass_template::Error> {
    match context.render(node) {
        Err(error) if *error.kind() == windlass_template::ErrorKind::Omitted => Ok(windlass_template::omit()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_negative_or_infinite_is_clamped() {
        assert_eq!([-1.0, 0.5, 1e30].map(seconds), [Duration::ZERO, Duration::from_millis(500), Duration::MAX]);
    }
}
