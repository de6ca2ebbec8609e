//! Options of a lab.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Maximum length of a bridge name: links are named `vb-BRIDGE-NUMBER` and the kernel allows 15 characters.
const BRIDGE_NAME_LENGTH: usize = 9;

/// Maximum number of hosts; their addresses are .11 to .60.
const MOST_NODES: usize = 50;

/// Options of a lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Directory for the lab's state and its hosts' disks.
    pub directory: PathBuf,
    /// Cache directory for bases.
    pub cache: PathBuf,
    /// Number of hosts.
    pub nodes: usize,
    /// Memory limit of each host, in bytes; `None` means no limit.
    pub memory: Option<u64>,
    /// Processor limit of each host, in processors; `None` means no limit.
    pub cpus: Option<f64>,
    /// Operating system of the base.
    #[serde(default)]
    pub system: System,
    /// Directory tree to boot instead of the lab's own base.
    pub base: Option<PathBuf>,
    /// Directories of this machine that every host sees read-only.
    pub mounts: Vec<Mount>,
    /// Name of the bridge; concurrent labs need different names.
    pub bridge: String,
    /// Network of the lab, a /24; concurrent labs need different networks.
    pub network: Network,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            directory: directory_from("WINDLASS_LAB_DIR", "/var/lib/windlass-lab"),
            cache: directory_from("WINDLASS_CACHE", "/var/cache/windlass").join("lab"),
            nodes: 3,
            memory: None,
            cpus: None,
            system: System::default(),
            base: None,
            mounts: Vec::new(),
            bridge: "windlass0".to_owned(),
            network: Network([10, 97, 0]),
        }
    }
}

impl Options {
    /// Checks the options without touching the machine.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.nodes == 0 || self.nodes > MOST_NODES {
            return Err(Error::Invalid(format!("A lab has 1 to {MOST_NODES} hosts, not {}.", self.nodes)));
        }
        let name_fits = (1..=BRIDGE_NAME_LENGTH).contains(&self.bridge.len())
            && self.bridge.chars().all(|c| c.is_ascii_alphanumeric());
        if !name_fits {
            return Err(Error::Invalid(format!(
                "The bridge name `{}` is not 1 to {BRIDGE_NAME_LENGTH} letters and digits.",
                self.bridge
            )));
        }
        if self.cpus.is_some_and(|cpus| !(0.01..=4096.0).contains(&cpus)) {
            return Err(Error::Invalid("The number of processors of a host must be at least 0.01.".to_owned()));
        }
        if self.memory.is_some_and(|bytes| bytes < 128 << 20) {
            return Err(Error::Invalid("A host needs at least 128M of memory to boot.".to_owned()));
        }
        for path in [&self.directory, &self.cache].into_iter().chain(&self.base) {
            check_path(path)?;
        }
        for mount in &self.mounts {
            check_path(&mount.host)?;
            check_path(&mount.guest)?;
            if !mount.host.is_dir() {
                return Err(Error::Invalid(format!(
                    "The directory {} that the hosts should see does not exist.",
                    mount.host.display()
                )));
            }
        }
        Ok(())
    }

    /// Describes differences from a lab made with `other`. Empty if that lab satisfies these options, or will with more
    /// hosts.
    pub(crate) fn differences(&self, other: &Self) -> String {
        let mut differences = Vec::new();
        let mut compare = |name: &str, theirs: String, ours: String| {
            if theirs != ours {
                differences.push(format!("{name} is {theirs}, not {ours}"));
            }
        };
        if other.nodes > self.nodes {
            compare("the number of hosts", other.nodes.to_string(), self.nodes.to_string());
        }
        let all = |value: Option<String>| value.unwrap_or_else(|| "unlimited".to_owned());
        let memory = |options: &Self| all(options.memory.map(|bytes| format!("{} MiB", bytes >> 20)));
        compare("the memory of a host", memory(other), memory(self));
        let cpus = |options: &Self| all(options.cpus.map(|cpus| cpus.to_string()));
        compare("the number of processors of a host", cpus(other), cpus(self));
        let base = |options: &Self| {
            options.base.as_ref().map_or_else(|| options.system.to_string(), |path| path.display().to_string())
        };
        compare("the base", base(other), base(self));
        let mounts = |options: &Self| {
            let mounts: Vec<String> = options.mounts.iter().map(ToString::to_string).collect();
            if mounts.is_empty() { "empty".to_owned() } else { mounts.join(" ") }
        };
        compare("the list of mounts", mounts(other), mounts(self));
        compare("the bridge", other.bridge.clone(), self.bridge.clone());
        compare("the network", other.network.to_string(), self.network.to_string());
        differences.join("; ")
    }
}

/// Debian release of the hosts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum System {
    /// Debian 12, bookworm.
    #[default]
    Debian12,
    /// Debian 13, trixie.
    Debian13,
}

impl System {
    /// Name of the release in Debian's archive.
    pub(crate) fn suite(self) -> &'static str {
        match self {
            Self::Debian12 => "bookworm",
            Self::Debian13 => "trixie",
        }
    }

    /// Arguments for the guest's init. Since version 256, systemd refuses control groups of version 1 without this one.
    pub(crate) fn init_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Debian12 => &[],
            Self::Debian13 => &["SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"],
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Debian12 => "debian12",
            Self::Debian13 => "debian13",
        })
    }
}

impl FromStr for System {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "debian12" => Ok(Self::Debian12),
            "debian13" => Ok(Self::Debian13),
            _ => Err(Error::Invalid(format!("The system `{text}` is neither debian12 nor debian13."))),
        }
    }
}

/// Rejects colons and commas in paths, which separate the options of mount and systemd-nspawn.
fn check_path(path: &Path) -> Result<(), Error> {
    let plain = path.to_str().is_some_and(|text| {
        text.starts_with('/') && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+'))
    });
    if plain {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "The path {} must be absolute and consist of letters, digits and `/ . _ - +`.",
        path.display()
    )))
}

fn directory_from(variable: &str, default: &str) -> PathBuf {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map_or_else(|| PathBuf::from(default), PathBuf::from)
}

/// A directory of this machine that every host sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Path on this machine.
    pub host: PathBuf,
    /// Path on the hosts.
    pub guest: PathBuf,
}

impl fmt::Display for Mount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host.display(), self.guest.display())
    }
}

impl FromStr for Mount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once(':') {
            Some((host, guest)) if host.starts_with('/') && guest.starts_with('/') && !guest.contains(':') => {
                Ok(Self { host: host.into(), guest: guest.into() })
            }
            _ => Err(Error::Invalid(format!("The mount `{text}` is not written as /PATH/HERE:/PATH/ON/THE/HOSTS."))),
        }
    }
}

/// First three bytes of the lab's /24.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network([u8; 3]);

impl Network {
    /// Address of this machine, which is the hosts' gateway.
    #[must_use]
    pub fn gateway(self) -> Ipv4Addr {
        self.address(1)
    }

    /// Address of a host by its number, counting from 1.
    #[must_use]
    pub fn node(self, number: usize) -> Ipv4Addr {
        self.address(u8::try_from(number + 10).unwrap_or(u8::MAX))
    }

    /// First three bytes of the network.
    pub(crate) fn prefix(self) -> [u8; 3] {
        self.0
    }

    fn address(self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.0;
        Ipv4Addr::new(a, b, c, last)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/24", self.address(0))
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let address = text.strip_suffix("/24").and_then(|address| address.parse::<Ipv4Addr>().ok());
        match address.map(|address| address.octets()) {
            Some([a, b, c, 0]) => Ok(Self([a, b, c])),
            _ => Err(Error::Invalid(format!("The network `{text}` is not a /24, such as 10.97.0.0/24."))),
        }
    }
}

/// Parses a size such as `512M`, `2G` or `2GiB`, in powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, Error> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..).unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "B" => Some(0),
        "K" | "KB" | "KIB" => Some(10),
        "M" | "MB" | "MIB" => Some(20),
        "G" | "GB" | "GIB" => Some(30),
        _ => None,
    };
    let bytes = shift.and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift));
    bytes.ok_or_else(|| Error::Invalid(format!("The size `{text}` is not a number with K, M or G, such as 2G.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse_size("2G").unwrap(), 2 << 30);
        assert_eq!(parse_size("512MiB").unwrap(), 512 << 20);
        assert_eq!(parse_size("4096").unwrap(), 4096);
        assert!(parse_size("lots").unwrap_err().to_string().contains("such as 2G"));
        assert!(parse_size("2T").is_err());
    }

    #[test]
    fn addresses_follow_the_network() {
        let network: Network = "10.96.7.0/24".parse().unwrap();
        assert_eq!(network.gateway().to_string(), "10.96.7.1");
        assert_eq!(network.node(1).to_string(), "10.96.7.11");
        assert!("10.96.7.0/16".parse::<Network>().is_err());
        assert!("10.96.7.1/24".parse::<Network>().is_err());
    }

    #[test]
    fn a_mount_needs_two_absolute_paths() {
        let mount: Mount = "/srv/files:/opt/artifacts".parse().unwrap();
        assert_eq!(mount, Mount { host: "/srv/files".into(), guest: "/opt/artifacts".into() });
        assert!("files:/opt".parse::<Mount>().is_err());
        assert!("/files".parse::<Mount>().is_err());
    }

    #[test]
    fn impossible_options_are_refused_with_a_sentence() {
        let refused = |options: Options| options.check().unwrap_err().to_string();
        let good = Options::default();
        assert!(good.check().is_ok());
        assert!(refused(Options { nodes: 0, ..good.clone() }).contains("1 to 50 hosts"));
        assert!(
            refused(Options { bridge: "a-long-bridge-name".into(), ..good.clone() }).contains("a-long-bridge-name")
        );
        assert!(refused(Options { memory: Some(1), ..good.clone() }).contains("128M"));
        assert!(refused(Options { directory: "/tmp/a:b".into(), ..good.clone() }).contains("/tmp/a:b"));
        let mounts = vec![Mount { host: "/no/such/directory".into(), guest: "/opt".into() }];
        assert!(refused(Options { mounts, ..good }).contains("/no/such/directory"));
    }

    #[test]
    fn differences_name_each_option() {
        let three = Options::default();
        let two = Options { nodes: 2, ..three.clone() };
        assert_eq!(two.differences(&three), "the number of hosts is 3, not 2");
        let newer = Options { system: "debian13".parse().unwrap(), ..three.clone() };
        assert_eq!(three.differences(&newer), "the base is debian13, not debian12");
        assert_eq!(three.differences(&three), "");
        assert_eq!(three.differences(&two), "");
        let shown = Options { mounts: vec!["/srv:/opt".parse().unwrap()], memory: Some(2 << 30), ..three.clone() };
        assert_eq!(
            three.differences(&shown),
            "the memory of a host is 2048 MiB, not unlimited; the list of mounts is /srv:/opt, not empty"
        );
    }
}
