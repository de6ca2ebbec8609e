//! `hostname`: the name of the host.

use super::config_file;
use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    facts::{Root, fqdn},
    process::{self, Command},
};

/// The `hostname` module.
pub struct Hostname;

static SPEC: Spec = Spec {
    name: "hostname",
    summary: "Manage the host name",
    description: &[
        "Sets the kernel's current host name and the file that provides it at boot. Does not change /etc/hosts.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "Host name to set.").word(),
        Opt::new("use", Kind::Str, "Method to store the name. Default: detected from the distribution.").choices(&[
            "alpine", "debian", "freebsd", "generic", "macos", "macosx", "darwin", "openbsd", "openrc", "redhat",
            "sles", "solaris", "systemd",
        ]),
    ],
    examples: "- name: Name the host as the inventory does\n  ansible.builtin.hostname:\n    name: \"{{ inventory_hostname }}\"\n",
    returns: &[
        Return { name: "name", kind: "str", when: "always", doc: "Host name." },
        Return { name: "ansible_facts", kind: "dict", when: "success", doc: "Facts derived from the name." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// Storage of the host name in a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeper {
    /// `/etc/hostname` contains only the name.
    Plain,
    /// `/etc/conf.d/hostname` contains `hostname="name"`.
    OpenRc,
    /// `/etc/sysconfig/network` contains `HOSTNAME=name`.
    RedHat,
    /// `/etc/HOSTNAME` contains only the name.
    Suse,
    /// Not stored: only the kernel's name changes.
    Nowhere,
}

impl Keeper {
    fn of(wanted: Option<&str>, root: &Root) -> Result<Keeper, Failure> {
        Ok(match wanted {
            Some("systemd" | "debian" | "alpine") => Keeper::Plain,
            Some("openrc") => Keeper::OpenRc,
            Some("redhat") => Keeper::RedHat,
            Some("sles") => Keeper::Suse,
            Some("generic") => Keeper::Nowhere,
            Some(other) => return Err(Failure::new(format!("use {other} is for other systems than Linux."))),
            None if root.exists("/etc/hostname") || root.exists("/run/systemd/system") => Keeper::Plain,
            None if root.exists("/etc/conf.d/hostname") => Keeper::OpenRc,
            None if root.exists("/etc/sysconfig/network") => Keeper::RedHat,
            None if root.exists("/etc/HOSTNAME") => Keeper::Suse,
            None => Keeper::Plain,
        })
    }

    fn path(self) -> Option<&'static str> {
        match self {
            Keeper::Plain => Some("/etc/hostname"),
            Keeper::OpenRc => Some("/etc/conf.d/hostname"),
            Keeper::RedHat => Some("/etc/sysconfig/network"),
            Keeper::Suse => Some("/etc/HOSTNAME"),
            Keeper::Nowhere => None,
        }
    }

    fn key(self) -> Option<&'static str> {
        match self {
            Keeper::OpenRc => Some("hostname"),
            Keeper::RedHat => Some("HOSTNAME"),
            _ => None,
        }
    }

    fn name_in(self, text: &str) -> String {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        match self.key() {
            Some(key) => {
                let value = lines.filter_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('=')).next_back();
                value.unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned()
            }
            None => lines.map(str::to_owned).next().unwrap_or_default(),
        }
    }

    fn with_name(self, text: &str, name: &str) -> String {
        let Some(key) = self.key() else { return format!("{name}\n") };
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let new = if self == Keeper::OpenRc { format!("{key}=\"{name}\"") } else { format!("{key}={name}") };
        match lines
            .iter_mut()
            .find(|line| line.trim().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('=')))
        {
            Some(line) => *line = new,
            None => lines.push(new),
        }
        lines.join("\n") + "\n"
    }
}

impl Module for Hostname {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?.trim().to_owned();
        check(&name)?;
        let keeper = Keeper::of(args.str("use"), &Root::host())?;
        let now = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let text = keeper.path().map(config_file::read).transpose()?.unwrap_or_default();
        let kept = keeper.path().map(|_| keeper.name_in(&text));
        let in_kernel = now != name;
        let in_file = kept.as_deref().is_some_and(|kept| kept != name);
        let facts = facts(&name);
        if !in_kernel && !in_file {
            return Ok(Plan::unchanged().with("name", name).with("ansible_facts", facts));
        }
        let shown = name.clone();
        let diff = host.diff().then(|| {
            let side = |name: &str| format!("hostname = {name}\n");
            Diff { after: side(&name).into(), before: side(kept.as_deref().unwrap_or(&now)).into(), ..Diff::default() }
        });
        let plan = Plan::change(move |host: &Host, outcome: &mut Outcome| {
            if in_file && let Some(path) = keeper.path() {
                config_file::replace(path, &keeper.with_name(&text, &name))?;
            }
            if in_kernel && let Err(error) = rustix::system::sethostname(name.as_bytes()) {
                // In some containers only a service outside may set the name.
                let asked = process::find(host, "hostnamectl").is_some()
                    && Command::new("hostnamectl").plain_locale().args(["set-hostname", &name]).run(host)?.success();
                if !asked {
                    return Err(Failure::new(format!(
                        "The kernel did not accept the name {name}: {error}. It will be used from the next start on."
                    )));
                }
            }
            outcome.set("ansible_facts", self::facts(&name));
            Ok(())
        });
        let plan = plan.with("name", shown).with("ansible_facts", facts);
        Ok(plan.with_diff(diff))
    }
}

fn check(name: &str) -> Result<(), Failure> {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    if name.is_empty() || !letters || name.starts_with(['-', '.']) {
        return Err(Failure::new(format!(
            "{name:?} is not a host name: it may have letters, digits, dots and dashes."
        )));
    }
    // The kernel's limit is lower than that of DNS.
    if name.len() > 64 {
        return Err(Failure::new(format!(
            "The host name {name} has {} characters; Linux keeps at most 64.",
            name.len()
        )));
    }
    Ok(())
}

/// The facts that follow from a name. The fully qualified name is resolved from the kernel's current name.
fn facts(name: &str) -> Map {
    let full = fqdn(&Root::host(), &rustix::system::uname().nodename().to_string_lossy());
    let mut facts = Map::new();
    facts.insert("ansible_hostname".into(), name.split('.').next().unwrap_or(name).into());
    facts.insert("ansible_nodename".into(), name.into());
    let domain = full.split_once('.').map(|(_, domain)| domain.to_owned()).unwrap_or_default();
    facts.insert("ansible_fqdn".into(), full.into());
    facts.insert("ansible_domain".into(), domain.into());
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_read_and_written_in_every_format() {
        assert_eq!(Keeper::Plain.name_in("# ours\nweb1\n"), "web1");
        assert_eq!(Keeper::Plain.with_name("old\n", "web2"), "web2\n");
        assert_eq!(Keeper::OpenRc.name_in("# x\nhostname=\"web1\"\n"), "web1");
        assert_eq!(Keeper::OpenRc.with_name("# x\nhostname=\"web1\"\n", "web2"), "# x\nhostname=\"web2\"\n");
        assert_eq!(Keeper::RedHat.with_name("NETWORKING=yes\n", "web2"), "NETWORKING=yes\nHOSTNAME=web2\n");
    }

    #[test]
    fn invalid_names_refused() {
        assert!(check("node-1.example.com").is_ok());
        assert!(check("").is_err() && check("-x").is_err() && check("a b").is_err() && check(&"x".repeat(65)).is_err());
    }

    #[test]
    fn current_name_unchanged() {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let result = crate::run(
            &Hostname,
            &serde_json::json!({ "name": name, "use": "generic" }),
            &Host::alone().with_diff(true),
        );
        assert_eq!(result["changed"], false, "{result}");
        assert_eq!(result["ansible_facts"]["ansible_nodename"], name);
    }
}
