//! Connections through a program of this machine, with the names and variables of their collections' plugins.

use super::connection::Resolver;
use crate::error::{Error, Result};

/// A connection plugin whose work a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plugin {
    /// `community.docker.docker`.
    Docker,
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

impl Plugin {
    /// The plugin of this name, with or without its collection.
    pub(super) fn named(name: &str) -> Option<Plugin> {
        Some(match name {
            "docker" | "community.docker.docker" | "community.docker.docker_api" => Plugin::Docker,
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
            Plugin::Docker => "docker",
            Plugin::Podman => "podman",
            Plugin::Kubectl => "kubectl",
            Plugin::Oc => "oc",
            Plugin::Chroot => "chroot",
            Plugin::Lxd => "lxd",
            Plugin::Incus => "incus",
        }
    }
}

/// Words of the command that runs a command on the host `named`, as `user` if the program can do that.
pub(super) fn words(resolver: &Resolver<'_>, plugin: Plugin, named: &str, user: Option<&str>) -> Result<Vec<String>> {
    let own = |suffix: &str| resolver.text(&[&format!("ansible_{}_{suffix}", plugin.prefix())], None);
    let host = own("host")?.unwrap_or_else(|| named.to_owned());
    let extra = match own("extra_args")? {
        None => Vec::new(),
        Some(text) => shell_words::split(&text).map_err(|error| {
            let name = plugin.prefix();
            Error::new(format!("ansible_{name}_extra_args of {} cannot be read: {error}: {text}", resolver.host))
        })?,
    };
    let user = own("user")?.or_else(|| user.map(str::to_owned));
    let mut words: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    match plugin {
        Plugin::Docker | Plugin::Podman => {
            let program = own("executable")?.unwrap_or_else(|| plugin.prefix().to_owned());
            add(&[&program]);
            add(&extra.iter().map(String::as_str).collect::<Vec<_>>());
            add(&["exec", "-i"]);
            user.iter().for_each(|user| add(&["--user", user]));
            own("working_dir")?.iter().for_each(|folder| add(&["--workdir", folder]));
            add(&[checked(resolver, &host)?]);
        }
        Plugin::Kubectl | Plugin::Oc => {
            for suffix in ["token", "password", "username"] {
                if own(suffix)?.is_some() {
                    return Err(Error::new(format!(
                        "ansible_{}_{suffix} of {} is not supported, because every user of this machine could read it; \
                         name a file with ansible_{0}_kubeconfig",
                        plugin.prefix(),
                        resolver.host
                    )));
                }
            }
            add(&[plugin.prefix()]);
            own("kubeconfig")?.or(own("config")?).iter().for_each(|file| add(&["--kubeconfig", file]));
            own("context")?.iter().for_each(|context| add(&["--context", context]));
            own("namespace")?.iter().for_each(|namespace| add(&["--namespace", namespace]));
            add(&extra.iter().map(String::as_str).collect::<Vec<_>>());
            let pod = own("pod")?.unwrap_or(host);
            add(&["exec", "-i", checked(resolver, &pod)?]);
            own("container")?.iter().for_each(|container| add(&["--container", container]));
            add(&["--"]);
        }
        Plugin::Chroot => {
            let program = own("exe")?.unwrap_or_else(|| "chroot".to_owned());
            add(&[&program, checked(resolver, &host)?]);
        }
        Plugin::Lxd | Plugin::Incus => {
            add(&[if plugin == Plugin::Lxd { "lxc" } else { "incus" }]);
            own("project")?.iter().for_each(|project| add(&["--project", project]));
            let remote = own("remote")?.map(|remote| format!("{remote}:")).unwrap_or_default();
            add(&["exec", &format!("{remote}{}", checked(resolver, &host)?), "--"]);
        }
    }
    Ok(words)
}

/// A name that no program takes for an option.
fn checked<'n>(resolver: &Resolver<'_>, name: &'n str) -> Result<&'n str> {
    match name.starts_with('-') {
        true => Err(Error::new(format!("{name} cannot be the name of the host {}: it begins with `-`", resolver.host))),
        false => Ok(name),
    }
}
