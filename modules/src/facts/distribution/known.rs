//! Distributions that their own files reveal, and those whose os-release file needs to be read in a special way.

use std::collections::BTreeMap;

use super::super::Root;
use super::{Found, assignments, guess, os_release, version_in};

/// Facts of the host's distribution; a guess if none of the known ones recognizes it.
pub(super) fn find(root: &Root) -> Found {
    let release = os_release(root);
    let guess = guess(root, &release);
    let system = System { root, text: text(root, OS_RELEASE).unwrap_or_default(), release, guess };
    KNOWN.iter().find_map(|recognize| recognize(&system)).unwrap_or(system.guess)
}

const OS_RELEASE: &str = "/etc/os-release";

/// Recognizes a distribution.
type Recognize = fn(&System<'_>) -> Option<Found>;

/// The order matters: derived distributions also carry the files of their base.
const KNOWN: &[Recognize] = &[
    |system| by_own_file(system, "/etc/altlinux-release", "Altlinux", "ALT"),
    |system| by_own_file(system, "/etc/oracle-release", "OracleLinux", "Oracle Linux"),
    slackware,
    centos,
    |system| by_own_file(system, "/etc/redhat-release", "RedHat", "Red Hat"),
    openwrt,
    amazon,
    alpine,
    arch,
    suse,
    debian,
    flatcar,
    clear_linux,
    other,
];

/// The files that distributions are recognized by.
struct System<'a> {
    root: &'a Root,
    /// Text of `/etc/os-release`; empty without one.
    text: String,
    /// Assignments of os-release.
    release: BTreeMap<String, String>,
    /// Facts from os-release alone.
    guess: Found,
}

impl System<'_> {
    /// A value of os-release; empty without one.
    fn value(&self, key: &str) -> String {
        self.release.get(key).cloned().unwrap_or_default()
    }
}

/// Text of a file; `None` if it is missing or empty.
fn text(root: &Root, path: &str) -> Option<String> {
    root.read(path).filter(|text| !text.is_empty())
}

/// A distribution with a release file of its own. A file without `needle` begins with the name of a derived one.
fn by_own_file(system: &System<'_>, file: &'static str, variety: &'static str, needle: &'static str) -> Option<Found> {
    let content = text(system.root, file)?;
    let found = system.guess.clone();
    if content.contains(needle) {
        return Some(Found { search: Some(needle), ..found }.named(variety, file, variety));
    }
    Some(found.named(content.split_whitespace().next().unwrap_or(variety), file, variety))
}

fn slackware(system: &System<'_>) -> Option<Found> {
    let file = "/etc/slackware-version";
    let content = text(system.root, file).filter(|content| content.contains("Slackware"))?;
    let mut found = system.guess.clone();
    found.version = version_in(&content).unwrap_or(found.version);
    Some(found.named("Slackware", file, "Slackware"))
}

/// CentOS Stream, and TencentOS. Other releases of CentOS are recognized by `/etc/redhat-release`.
fn centos(system: &System<'_>) -> Option<Found> {
    let file = "/etc/centos-release";
    let content = text(system.root, file)?;
    let found = system.guess.clone();
    if content.contains("CentOS Stream") {
        return Some(found.named("CentOS", file, "CentOS").released("Stream"));
    }
    content.contains("TencentOS Server").then(|| found.named("TencentOS", file, "CentOS"))
}

fn openwrt(system: &System<'_>) -> Option<Found> {
    let file = "/etc/openwrt_release";
    let content = text(system.root, file).filter(|content| content.contains("OpenWrt"))?;
    let openwrt = assignments(&content);
    let mut found = system.guess.clone();
    found.version = openwrt.get("DISTRIB_RELEASE").cloned().unwrap_or(found.version);
    found.release = openwrt.get("DISTRIB_CODENAME").cloned().unwrap_or(found.release);
    Some(found.named("OpenWrt", file, "OpenWrt"))
}

fn amazon(system: &System<'_>) -> Option<Found> {
    if !system.text.contains("Amazon") {
        return None;
    }
    let version = system.value("VERSION_ID");
    let (major, minor) = version.split_once('.').unwrap_or((&version, "NA"));
    let (major, minor) = (Some(major.to_owned()), Some(minor.to_owned()));
    Some(Found { version, major, minor, ..system.guess.clone() }.named("Amazon", OS_RELEASE, "Amazon"))
}

fn alpine(system: &System<'_>) -> Option<Found> {
    let file = "/etc/alpine-release";
    let version = system.root.line(file)?;
    Some(Found { version, ..system.guess.clone() }.named("Alpine", file, "Alpine"))
}

fn arch(system: &System<'_>) -> Option<Found> {
    let found = system.guess.clone();
    let file = "/etc/arch-release";
    if system.root.exists(file) {
        return Some(Found { parsed: false, ..found.named("Archlinux", file, "Archlinux") });
    }
    system.text.contains("Arch Linux").then(|| found.named("Archlinux", OS_RELEASE, "Archlinux"))
}

fn suse(system: &System<'_>) -> Option<Found> {
    let lower = system.text.to_lowercase();
    if !lower.contains("suse") {
        return None;
    }
    let mut found = system.guess.clone();
    let version = system.value("VERSION_ID");
    if version.starts_with(|c: char| c.is_ascii_digit()) {
        let minor = version.split('.').nth(1).unwrap_or_default().to_owned();
        if lower.contains("open") {
            found.release = minor;
        } else if lower.contains("enterprise") {
            found.release = if minor.is_empty() { "0".to_owned() } else { minor };
        }
        found.major = version.split('.').next().map(str::to_owned);
        found.version = version;
    }
    let product = system.root.real_path("/etc/products.d/baseproduct").unwrap_or_default();
    let name = match system.value("VARIANT_ID").as_str() {
        "server-sap" | "sles-sap" => "SLES_SAP".to_owned(),
        "transactional" => "SL-Micro".to_owned(),
        "" if product.ends_with("SLES_SAP.prod") => "SLES_SAP".to_owned(),
        "" if product.ends_with("SL-Micro.prod") => "SL-Micro".to_owned(),
        _ => system.value("NAME"),
    };
    Some(found.named(&name, OS_RELEASE, "SUSE"))
}

/// Facts of Debian and its derivatives.
fn debian(system: &System<'_>) -> Option<Found> {
    let guess = &system.guess;
    let mut debian = Found {
        version: guess.version.clone(),
        major: guess.major.clone(),
        release: guess.release.clone(),
        ..Found::default()
    };
    let pretty = system.value("PRETTY_NAME");
    let in_brackets = pretty.split_once('(').and_then(|(_, inside)| inside.split(')').next()).map(str::to_owned);
    let own_version = |debian: &mut Found, major: bool| {
        let version = system.value("VERSION_ID");
        if !version.is_empty() {
            debian.major = if major { version.split('.').next().map(str::to_owned) } else { Some(version.clone()) };
            debian.version = version;
        }
    };
    let has = |word: &str| system.text.contains(word);
    let name = if has("Debian") || has("Raspbian") {
        debian.release = in_brackets.unwrap_or(debian.release);
        debian.minor = system.root.line("/etc/debian_version").and_then(|version| {
            let (major, minor) = version.split_once('.')?;
            let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
            (!digits(major).is_empty() && !digits(minor).is_empty()).then(|| digits(minor))
        });
        "Debian"
    } else if has("Ubuntu") {
        "Ubuntu"
    } else if has("SteamOS") {
        "SteamOS"
    } else if has("Kali") {
        "Kali"
    } else if has("Parrot") {
        "Parrot"
    } else if has("Devuan") {
        debian.release =
            in_brackets.or_else(|| pretty.split_whitespace().last().map(str::to_owned)).unwrap_or(debian.release);
        own_version(&mut debian, false);
        "Devuan"
    } else if has("Cumulus") {
        own_version(&mut debian, true);
        debian.release = system.value("VERSION");
        "Cumulus Linux"
    } else if has("Mint") {
        own_version(&mut debian, true);
        "Linux Mint"
    } else if has("UOS") || has("Uos") || has("uos") {
        own_version(&mut debian, true);
        "Uos"
    } else if has("Deepin") || has("deepin") {
        own_version(&mut debian, true);
        "Deepin"
    } else if has("LMDE") {
        "Linux Mint Debian Edition"
    } else {
        return None;
    };
    Some(debian.named(name, OS_RELEASE, "Debian"))
}

fn flatcar(system: &System<'_>) -> Option<Found> {
    if !system.text.to_lowercase().contains("flatcar") {
        return None;
    }
    let version = system.value("VERSION");
    let major = version.split('.').next().map(str::to_owned);
    Some(Found { version, major, ..system.guess.clone() }.named("Flatcar", OS_RELEASE, "Flatcar"))
}

fn clear_linux(system: &System<'_>) -> Option<Found> {
    let file = "/usr/lib/os-release";
    text(system.root, file).filter(|text| text.contains("Clear Linux"))?;
    let version = system.value("VERSION_ID");
    let (major, release) = (Some(version.clone()), system.value("ID"));
    let found = Found { version, major, release, ..system.guess.clone() };
    Some(found.named(&system.value("NAME"), file, "ClearLinux"))
}

/// Any other distribution with an os-release file.
fn other(system: &System<'_>) -> Option<Found> {
    if system.text.is_empty() {
        return None;
    }
    let mut found = system.guess.clone();
    let version = system.value("VERSION");
    if found.version == "NA" && !version.is_empty() {
        found.version = version;
    }
    // Only double quotes are removed here.
    let name = system.text.lines().filter_map(|line| line.strip_prefix("NAME=")).next_back();
    let name = name.map_or("NA", |name| name.trim_matches('"'));
    Some(found.named(name, OS_RELEASE, "NA"))
}
