//! Connections through a program of this machine, with the names and variables of their collections' plugins.
//!
//! Each variable of a plugin becomes an option of the program or is refused: one that is left out in silence could
//! choose another cluster, another daemon or another user.

use windlass_template::Value;

use super::connection::{Resolver, boolean};
use crate::error::{Error, Result};

/// A connection plugin whose work a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plugin {
    /// `community.docker.docker`.
    Docker,
    /// `community.docker.docker_api`.
    DockerApi,
    /// `containers.podman.podman`.
    Podman,
    /// `kubernetes.core.kubectl`.
    Kubectl,
    /// `community.okd.oc`.
    Oc,
    /// `community.general.chroot`.
    Chroot,
    /// `community.general.lxd`.
    Lxd,
    /// `community.general.incus`.
    Incus,
}

/// Short names, as messages list them.
pub(super) const NAMES: &str = "docker, podman, kubectl, oc, chroot, lxd or incus";

/// A variable that is refused unless it has one of the values, with the reason and the remedy.
type Refusal = (&'static str, &'static [&'static str], &'static str);

const SECRET: &str = "every user of this machine could read it in the list of processes; name a file with \
                      ansible_*_kubeconfig";
const BASIC: &str = "Kubernetes 1.19 and later have no login by name and password; name a file with \
                     ansible_*_kubeconfig";
const FOR_CONTAINER: &str = "every user of this machine could read it in the list of processes; use `environment` of \
                             the play or the task";

impl Plugin {
    /// The plugin of this name, with or without its collection.
    pub(super) fn named(name: &str) -> Option<Plugin> {
        Some(match name {
            "docker" | "community.docker.docker" => Plugin::Docker,
            "community.docker.docker_api" => Plugin::DockerApi,
            "podman" | "containers.podman.podman" => Plugin::Podman,
            "kubectl" | "kubernetes.core.kubectl" => Plugin::Kubectl,
            "oc" | "community.okd.oc" => Plugin::Oc,
            "chroot" | "community.general.chroot" => Plugin::Chroot,
            "lxd" | "community.general.lxd" => Plugin::Lxd,
            "incus" | "community.general.incus" => Plugin::Incus,
            _ => return None,
        })
    }

    /// Beginning of the names of its variables, after `ansible_`.
    fn prefix(self) -> &'static str {
        match self {
            Plugin::Docker | Plugin::DockerApi => "docker",
            Plugin::Podman => "podman",
            Plugin::Kubectl => "kubectl",
            Plugin::Oc => "oc",
            Plugin::Chroot => "chroot",
            Plugin::Lxd => "lxd",
            Plugin::Incus => "incus",
        }
    }

    /// Variable that overrides the time limit of `become`.
    pub(super) fn timeout(self) -> Option<&'static str> {
        matches!(self, Plugin::Docker | Plugin::DockerApi).then_some("ansible_docker_timeout")
    }

    /// Variables that the environment sets too, after the beginning of their names there.
    fn in_environment(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Plugin::Docker | Plugin::DockerApi => ("ANSIBLE_DOCKER_", &["privileged", "working_dir"]),
            Plugin::Podman => ("ANSIBLE_PODMAN_", &["executable", "extra_args", "host", "timeout"]),
            Plugin::Kubectl | Plugin::Oc => (
                "K8S_AUTH_",
                &[
                    "api_key",
                    "cert_file",
                    "container",
                    "context",
                    "extra_args",
                    "host",
                    "key_file",
                    "kubeconfig",
                    "namespace",
                    "password",
                    "pod",
                    "server",
                    "ssl_ca_cert",
                    "token",
                    "username",
                    "verify_ssl",
                ],
            ),
            Plugin::Chroot => ("ANSIBLE_CHROOT_", &["exe"]),
            Plugin::Lxd | Plugin::Incus => ("", &[]),
        }
    }

    fn refusals(self) -> &'static [Refusal] {
        match self {
            Plugin::Docker | Plugin::DockerApi => &[
                ("extra_env", &["{}"], FOR_CONTAINER),
                (
                    "tls_hostname",
                    &[],
                    "`docker` expects the name by which it reaches the daemon; use a name that is in its certificate",
                ),
                (
                    "api_version",
                    &["auto"],
                    "`docker` has no option for it; set DOCKER_API_VERSION in the environment of windlass",
                ),
            ],
            Plugin::Podman => &[
                ("extra_env", &["{}"], FOR_CONTAINER),
                ("timeout", &["0"], "it would limit each command; use `timeout` of the task"),
                ("privilege_escalation", &["auto", "none"], "it would hide the user; use `become_method`"),
            ],
            Plugin::Kubectl | Plugin::Oc => &[
                ("token", &[], SECRET),
                ("api_key", &[], SECRET),
                ("password", &[], SECRET),
                ("username", &[], BASIC),
                ("user", &[], BASIC),
                (
                    "local_env_vars",
                    &["{}"],
                    "all connections share the environment of windlass; set the variables there or in the kubeconfig",
                ),
            ],
            Plugin::Chroot => &[],
            Plugin::Lxd | Plugin::Incus => {
                &[("executable", &["/bin/sh"], "windlass starts with /bin/sh; use `executable` of the task")]
            }
        }
    }
}

/// Words of the command that runs a command on the host `named`, as `user` if the plugin does that.
pub(super) fn words(resolver: &Resolver<'_>, plugin: Plugin, named: &str, user: Option<&str>) -> Result<Vec<String>> {
    let mut entry = Entry { resolver, plugin, words: Vec::new() };
    entry.refuse()?;
    match plugin {
        Plugin::Docker | Plugin::DockerApi | Plugin::Podman => entry.container(named, user)?,
        Plugin::Kubectl | Plugin::Oc => entry.pod(named)?,
        Plugin::Chroot => entry.directory(named)?,
        Plugin::Lxd | Plugin::Incus => entry.instance(named, user)?,
    }
    Ok(entry.words)
}

/// Warning that the remote user has no effect, if the plugin has no means to become that user.
pub(super) fn user_warning(host: &str, plugin: Plugin, user: Option<&str>) -> Option<String> {
    let (user, actual) = match (plugin, user?) {
        (Plugin::Kubectl | Plugin::Oc, user) => (user, "the user of the container"),
        (Plugin::Chroot, user) if user != "root" => (user, "root"),
        _ => return None,
    };
    let program = plugin.prefix();
    Some(format!(
        "the remote user {user} of {host} has no effect, because `{program}` runs commands as {actual}; use `become`"
    ))
}

/// A command that enters a host, while it is put together.
struct Entry<'r> {
    resolver: &'r Resolver<'r>,
    plugin: Plugin,
    words: Vec<String>,
}

impl Entry<'_> {
    fn refuse(&self) -> Result<()> {
        for (suffix, harmless, reason) in self.plugin.refusals() {
            if let Some((name, text)) = self.found(&[suffix])?
                && !harmless.contains(&text.as_str())
            {
                let reason = reason.replace('*', self.plugin.prefix());
                let host = self.resolver.host;
                return Err(Error::new(format!("{name} of {host} is not supported, because {reason}")));
            }
        }
        Ok(())
    }

    fn container(&mut self, named: &str, user: Option<&str>) -> Result<()> {
        let program = self.own(&["executable"])?;
        self.add(&[program.as_deref().unwrap_or(self.plugin.prefix())]);
        if self.plugin != Plugin::Podman {
            self.daemon()?;
        }
        self.extra()?;
        self.add(&["exec", "-i"]);
        let user = match self.own(&["user"])? {
            Some(own) => Some(own),
            None => user.map(|user| self.checked("ansible_user", user.to_owned())).transpose()?,
        };
        user.iter().for_each(|user| self.add(&["--user", user]));
        self.option("--workdir", &["working_directory", "working_dir"])?;
        if self.plugin != Plugin::Podman && self.flag(&["privileged"])? == Some(true) {
            self.add(&["--privileged"]);
        }
        let host = self.host(named)?;
        self.add(&[&host]);
        Ok(())
    }

    /// Options of `docker` that choose its daemon.
    fn daemon(&mut self) -> Result<()> {
        self.option("--host", &["docker_host"])?;
        let is_chosen = self.words.len() > 1 || std::env::var_os("DOCKER_HOST").is_some_and(|host| !host.is_empty());
        if self.plugin == Plugin::DockerApi && !is_chosen {
            // The plugin does not know the contexts of `docker`, one of which could be another daemon's.
            self.add(&["--host", "unix:///var/run/docker.sock"]);
        }
        let (verified, encrypted) = (self.flag(&["validate_certs"])?, self.flag(&["tls"])?);
        if verified == Some(true) {
            self.add(&["--tlsverify"]);
        } else if encrypted == Some(true) {
            self.add(&["--tls"]);
        }
        self.option("--tlscacert", &["ca_path", "ca_cert"])?;
        self.option("--tlscert", &["client_cert"])?;
        self.option("--tlskey", &["client_key"])
    }

    fn pod(&mut self, named: &str) -> Result<()> {
        self.add(&[self.plugin.prefix()]);
        let file = &["config", "kubeconfig"];
        if let Some((name, _)) = self.found(file)?.filter(|(_, text)| text.starts_with('{')) {
            let host = self.resolver.host;
            return Err(Error::new(format!("{name} of {host} is a mapping; write it to a file and give its path")));
        }
        self.option("--kubeconfig", file)?;
        self.option("--context", &["context"])?;
        self.option("--namespace", &["namespace"])?;
        self.option("--server", &["server", "host"])?;
        self.option("--client-certificate", &["client_cert", "cert_file"])?;
        self.option("--client-key", &["client_key", "key_file"])?;
        self.option("--certificate-authority", &["ca_cert", "ssl_ca_cert"])?;
        if let Some(verified) = self.flag(&["validate_certs", "verify_ssl"])? {
            self.add(&[&format!("--insecure-skip-tls-verify={}", !verified)]);
        }
        self.extra()?;
        let pod = match self.own(&["pod"])? {
            Some(pod) => pod,
            None => self.checked("ansible_host", named.to_owned())?,
        };
        self.add(&["exec", "-i", &pod]);
        self.option("--container", &["container"])?;
        self.add(&["--"]);
        Ok(())
    }

    fn directory(&mut self, named: &str) -> Result<()> {
        let program = self.own(&["exe"])?;
        let host = self.host(named)?;
        self.add(&[program.as_deref().unwrap_or("chroot"), &host]);
        Ok(())
    }

    fn instance(&mut self, named: &str, user: Option<&str>) -> Result<()> {
        let is_lxd = self.plugin == Plugin::Lxd;
        self.add(&[if is_lxd { "lxc" } else { "incus" }]);
        // Without these, the program would use what `switch` has chosen.
        match self.own(&["project"])? {
            Some(project) => self.add(&["--project", &project]),
            None if is_lxd => {}
            None => self.add(&["--project", "default"]),
        }
        let remote = self.own(&["remote"])?.unwrap_or_else(|| "local".to_owned());
        let host = self.host(named)?;
        // An instance's name has no dot, so a host's full name begins with it.
        let name = host.split('.').next().unwrap_or_default();
        self.add(&["exec", &format!("{remote}:{name}"), "--"]);
        if let Some(user) = user.filter(|user| *user != "root") {
            let user = self.checked("ansible_user", user.to_owned())?;
            let method = format!("{}_become_method", self.plugin.prefix());
            let program = self.resolver.text(&[&method], None)?.unwrap_or_else(|| "/bin/su".to_owned());
            let program = self.checked(&method, program)?;
            // `-s` takes the shell that follows, so the user's own may be `nologin`.
            self.add(&[&program, &user, "-s"]);
        }
        Ok(())
    }

    fn add(&mut self, more: &[&str]) {
        self.words.extend(more.iter().map(|word| (*word).to_owned()));
    }

    /// Adds an option with the value of the first of these variables that is set.
    fn option(&mut self, option: &str, suffixes: &[&str]) -> Result<()> {
        if let Some(value) = self.own(suffixes)? {
            self.add(&[option, &value]);
        }
        Ok(())
    }

    /// Adds the words of `extra_args`.
    fn extra(&mut self) -> Result<()> {
        let Some((name, text)) = self.found(&["extra_args"])? else { return Ok(()) };
        let wrong = |reason: &str| Error::new(format!("{name} of {} cannot be read: {reason}", self.resolver.host));
        let words = shell_words::split(&text).map_err(|error| wrong(&error.to_string()))?;
        if words.iter().any(|word| word.contains(char::is_control)) {
            return Err(wrong("a word contains a control character"));
        }
        self.words.extend(words);
        Ok(())
    }

    fn host(&self, named: &str) -> Result<String> {
        match self.own(&["host"])? {
            Some(host) => Ok(host),
            None => self.checked("ansible_host", named.to_owned()),
        }
    }

    fn own(&self, suffixes: &[&str]) -> Result<Option<String>> {
        self.found(suffixes)?.map(|(name, text)| self.checked(&name, text)).transpose()
    }

    fn flag(&self, suffixes: &[&str]) -> Result<Option<bool>> {
        let Some((name, text)) = self.found(suffixes)? else { return Ok(None) };
        let host = self.resolver.host;
        let wrong = |_| Error::new(format!("{name} of {host} is not a boolean; write `true` or `false`"));
        boolean(&name, &Value::from(text)).map(Some).map_err(wrong)
    }

    /// Name and value of the first of these variables that is set.
    fn found(&self, suffixes: &[&str]) -> Result<Option<(String, String)>> {
        for suffix in suffixes {
            let name = format!("ansible_{}_{suffix}", self.plugin.prefix());
            if let Some(text) = self.resolver.text(&[&name], None)? {
                return Ok(Some((name, text)));
            }
            // An empty variable switches off the other variables and the environment.
            if self.resolver.is_set(&name)? {
                return Ok(None);
            }
        }
        let (beginning, known) = self.plugin.in_environment();
        let names = suffixes.iter().filter(|suffix| known.contains(suffix));
        let mut names = names.map(|suffix| format!("{beginning}{}", suffix.to_uppercase()));
        Ok(names.find_map(|name| {
            let text = std::env::var(&name).ok().filter(|text| !text.is_empty())?;
            Some((name, text))
        }))
    }

    /// A value that the program takes for nothing else.
    fn checked(&self, name: &str, text: String) -> Result<String> {
        let problem = if text.starts_with('-') {
            "begins with `-`, like an option"
        } else if text.contains(char::is_control) {
            "contains a control character"
        } else {
            return Ok(text);
        };
        let (host, program) = (self.resolver.host, self.plugin.prefix());
        Err(Error::new(format!("{name} of {host} cannot be passed to `{program}`, because it {problem}; correct it")))
    }
}
