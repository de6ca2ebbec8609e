//! The Linux distribution: its name, version and family as playbooks compare them.
//!
//! os-release(5) gives a first answer. The release files of single distributions refine it, and their order counts.

use std::collections::BTreeMap;

use super::{Facts, Root};

/// Families of distributions with a common package manager and layout, under the names that playbooks use.
const FAMILIES: &[(&str, &[&str])] = &[
    (
        "RedHat",
        &[
            "RedHat",
            "RHEL",
            "Fedora",
            "CentOS",
            "Scientific",
            "SLC",
            "Ascendos",
            "CloudLinux",
            "PSBM",
            "OracleLinux",
            "OVS",
            "OEL",
            "Amazon",
            "Amzn",
            "Virtuozzo",
            "XenServer",
            "Alibaba",
            "EulerOS",
            "openEuler",
            "AlmaLinux",
            "Rocky",
            "TencentOS",
            "EuroLinux",
            "Kylin Linux Advanced Server",
            "MIRACLE",
        ],
    ),
    (
        "Debian",
        &[
            "Debian",
            "Ubuntu",
            "Raspbian",
            "Neon",
            "KDE neon",
            "Linux Mint",
            "SteamOS",
            "Devuan",
            "Kali",
            "Cumulus Linux",
            "Pop!_OS",
            "Parrot",
            "Pardus GNU/Linux",
            "Uos",
            "Deepin",
            "OSMC",
            "Linux Mint Debian Edition",
        ],
    ),
    (
        "Suse",
        &[
            "SuSE",
            "SLES",
            "SLED",
            "openSUSE",
            "openSUSE Tumbleweed",
            "SLES_SAP",
            "SUSE_LINUX",
            "openSUSE Leap",
            "ALP-Dolomite",
            "SL-Micro",
            "openSUSE MicroOS",
        ],
    ),
    ("Archlinux", &["Archlinux", "Antergos", "Manjaro"]),
    ("Mandrake", &["Mandrake", "Mandriva"]),
    ("Gentoo", &["Gentoo", "Funtoo"]),
    ("ClearLinux", &["Clear Linux OS", "Clear Linux Mix"]),
];

/// The family of a distribution; its own name if it belongs to none.
pub(crate) fn family(distribution: &str) -> &str {
    FAMILIES.iter().find(|(_, members)| members.contains(&distribution)).map_or(distribution, |(family, _)| family)
}

/// Collected facts of a distribution. An empty fact is omitted, or `NA` where playbooks expect it.
#[derive(Default)]
struct Found {
    distribution: String,
    version: String,
    major: Option<String>,
    minor: Option<String>,
    release: String,
    file: Option<&'static str>,
    variety: Option<&'static str>,
    parsed: bool,
    search: Option<&'static str>,
}

/// `distribution*` and `os_family`.
pub(crate) fn collect(root: &Root, facts: &mut Facts) {
    let found = find(root);
    facts.set("distribution", found.distribution.as_str());
    facts.set("distribution_version", found.version.as_str());
    facts.set("distribution_release", found.release.as_str());
    if let Some(major) = found.major {
        facts.set("distribution_major_version", major);
    }
    if let Some(minor) = found.minor {
        facts.set("distribution_minor_version", minor);
    }
    if let (Some(file), Some(variety)) = (found.file, found.variety) {
        facts.set("distribution_file_path", file);
        facts.set("distribution_file_variety", variety);
    }
    if found.parsed {
        facts.set("distribution_file_parsed", true);
    }
    if let Some(search) = found.search {
        facts.set("distribution_file_search_string", search);
    }
    facts.set("os_family", family(&found.distribution));
}

/// The assignments in an os-release file.
pub(crate) fn os_release(root: &Root) -> BTreeMap<String, String> {
    let text = root.read("/etc/os-release").or_else(|| root.read("/usr/lib/os-release")).unwrap_or_default();
    assignments(&text)
}

/// Parses lines of the form `KEY=value`, and removes quotes.
pub(crate) fn assignments(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.trim().split_once('=')?;
            let words = shell_words::split(value).unwrap_or_default();
            let value = if words.is_empty() { value.trim_matches(['"', '\'']).to_owned() } else { words.join(" ") };
            (!key.starts_with('#')).then(|| (key.trim().to_owned(), value))
        })
        .collect()
}

fn find(root: &Root) -> Found {
    let release = os_release(root);
    let mut found = guess(root, &release);
    let text = |path: &str| root.read(path).filter(|text| !text.is_empty());
    let os = text("/etc/os-release");
    let os_text = os.as_deref().unwrap_or_default();
    let value = |key: &str| release.get(key).cloned().unwrap_or_default();

    // The order matters: derived distributions also carry the files of their base.
    for (file, variety, needle) in [
        ("/etc/altlinux-release", "Altlinux", "ALT"),
        ("/etc/oracle-release", "OracleLinux", "Oracle Linux"),
        ("/etc/slackware-version", "Slackware", "Slackware"),
        ("/etc/centos-release", "CentOS", ""),
        ("/etc/redhat-release", "RedHat", "Red Hat"),
    ] {
        let Some(content) = text(file) else { continue };
        if variety == "CentOS" {
            if content.contains("CentOS Stream") {
                return found.named("CentOS", file, variety).released("Stream");
            }
            if content.contains("TencentOS Server") {
                return found.named("TencentOS", file, variety);
            }
            continue;
        }
        if variety == "Slackware" {
            if content.contains(needle) {
                found.version = version_in(&content).unwrap_or(found.version);
                return found.named(variety, file, variety);
            }
            continue;
        }
        if content.contains(needle) {
            found.search = Some(needle);
            return found.named(variety, file, variety);
        }
        let first = content.split_whitespace().next().unwrap_or(variety).to_owned();
        return found.named(&first, file, variety);
    }
    if text("/etc/openwrt_release").is_some_and(|content| content.contains("OpenWrt")) {
        let openwrt = assignments(&text("/etc/openwrt_release").unwrap_or_default());
        found.version = openwrt.get("DISTRIB_RELEASE").cloned().unwrap_or(found.version);
        found.release = openwrt.get("DISTRIB_CODENAME").cloned().unwrap_or(found.release);
        return found.named("OpenWrt", "/etc/openwrt_release", "OpenWrt");
    }
    if os_text.contains("Amazon") {
        let version = value("VERSION_ID");
        let (major, minor) = version.split_once('.').unwrap_or((&version, "NA"));
        found.major = Some(major.to_owned());
        found.minor = Some(minor.to_owned());
        found.version = version.clone();
        return found.named("Amazon", "/etc/os-release", "Amazon");
    }
    if let Some(version) = root.line("/etc/alpine-release") {
        found.version = version;
        return found.named("Alpine", "/etc/alpine-release", "Alpine");
    }
    if root.exists("/etc/arch-release") {
        let parsed = found.named("Archlinux", "/etc/arch-release", "Archlinux");
        return Found { parsed: false, ..parsed };
    }
    if os_text.contains("Arch Linux") {
        return found.named("Archlinux", "/etc/os-release", "Archlinux");
    }
    if os_text.to_lowercase().contains("suse") {
        return suse(root, found, &release, os_text);
    }
    if os.is_some()
        && let Some(debian) = debian(root, &found, &release, os_text)
    {
        return debian;
    }
    if os_text.to_lowercase().contains("flatcar") {
        let version = value("VERSION");
        found.major = version.split('.').next().map(str::to_owned);
        found.version = version;
        return found.named("Flatcar", "/etc/os-release", "Flatcar");
    }
    if text("/usr/lib/os-release").is_some_and(|text| text.contains("Clear Linux")) {
        found.version = value("VERSION_ID");
        found.major = Some(found.version.clone());
        found.release = value("ID");
        return found.named(&value("NAME"), "/usr/lib/os-release", "ClearLinux");
    }
    if os.is_some() {
        if found.version == "NA" && !value("VERSION").is_empty() {
            found.version = value("VERSION");
        }
        // Only double quotes are removed here.
        let name = os_text.lines().filter_map(|line| line.strip_prefix("NAME=")).next_back();
        let name = name.map_or_else(|| "NA".to_owned(), |name| name.trim_matches('"').to_owned());
        return found.named(&name, "/etc/os-release", "NA");
    }
    found
}

/// Facts from os-release alone.
fn guess(root: &Root, release: &BTreeMap<String, String>) -> Found {
    let value = |key: &str| release.get(key).cloned().filter(|value| !value.is_empty());
    let id = value("ID").unwrap_or_default();
    let distribution = match id.as_str() {
        "" => "OtherLinux".to_owned(),
        "amzn" => "Amazon".to_owned(),
        "rhel" => "Redhat".to_owned(),
        id => {
            let mut letters = id.chars();
            letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
        }
    };
    let mut version = value("VERSION_ID").unwrap_or_default();
    // Debian and the rebuilds of Red Hat omit the minor version from os-release.
    let better = match id.as_str() {
        "debian" => root.line("/etc/debian_version"),
        // Only two parts of the version in the file are used.
        "centos" => root
            .line("/etc/centos-release")
            .and_then(|text| version_in(&text))
            .map(|version| version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")),
        _ => None,
    };
    if version.is_empty() && id == "debian" {
        // An unreleased version has only a name.
        version = root.line("/etc/debian_version").unwrap_or_default();
    }
    if let Some(better) =
        better.filter(|better| better.starts_with(|c: char| c.is_ascii_digit()) && better.starts_with(&version))
    {
        version = better;
    }
    let codename = release.get("VERSION_CODENAME").or_else(|| release.get("UBUNTU_CODENAME")).cloned();
    let codename = codename.or_else(|| {
        // Some systems provide the name only in a file of their own.
        let files = ["altlinux", "oracle", "redhat"];
        let own = || files.iter().find_map(|name| root.line(&format!("/etc/{name}-release")));
        let inside = |text: String| Some(text.split_once('(')?.1.split(')').next()?.to_owned());
        value("VERSION").and_then(inside).or_else(|| inside(own()?))
    });
    let major = version.split('.').next().filter(|major| !major.is_empty()).unwrap_or("NA").to_owned();
    Found {
        distribution,
        version: if version.is_empty() { "NA".to_owned() } else { version },
        major: Some(major),
        release: codename.unwrap_or_else(|| "NA".to_owned()),
        ..Found::default()
    }
}

/// The first word of a text that begins with a digit.
fn version_in(text: &str) -> Option<String> {
    text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
}

fn suse(root: &Root, mut found: Found, release: &BTreeMap<String, String>, text: &str) -> Found {
    let value = |key: &str| release.get(key).cloned().unwrap_or_default();
    let version: String = value("VERSION_ID");
    let lower = text.to_lowercase();
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
    let product = root.real_path("/etc/products.d/baseproduct").unwrap_or_default();
    let name = match value("VARIANT_ID").as_str() {
        "server-sap" | "sles-sap" => "SLES_SAP".to_owned(),
        "transactional" => "SL-Micro".to_owned(),
        "" if product.ends_with("SLES_SAP.prod") => "SLES_SAP".to_owned(),
        "" if product.ends_with("SL-Micro.prod") => "SL-Micro".to_owned(),
        _ => value("NAME"),
    };
    found.named(&name, "/etc/os-release", "SUSE")
}

/// Facts of Debian and its derivatives.
fn debian(root: &Root, found: &Found, release: &BTreeMap<String, String>, text: &str) -> Option<Found> {
    let value = |key: &str| release.get(key).cloned().unwrap_or_default();
    let mut debian = Found {
        version: found.version.clone(),
        major: found.major.clone(),
        release: found.release.clone(),
        ..Found::default()
    };
    let pretty = value("PRETTY_NAME");
    let in_brackets = pretty.split_once('(').and_then(|(_, inside)| inside.split(')').next()).map(str::to_owned);
    let own_version = |debian: &mut Found, major: bool| {
        let version = value("VERSION_ID");
        if !version.is_empty() {
            debian.major = if major { version.split('.').next().map(str::to_owned) } else { Some(version.clone()) };
            debian.version = version;
        }
    };
    let has = |word: &str| text.contains(word);
    let name = if has("Debian") || has("Raspbian") {
        debian.release = in_brackets.unwrap_or(debian.release);
        debian.minor = root.line("/etc/debian_version").and_then(|version| {
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
        debian.release = value("VERSION");
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
    Some(debian.named(name, "/etc/os-release", "Debian"))
}

impl Found {
    fn named(self, name: &str, file: &'static str, variety: &'static str) -> Found {
        Found { distribution: name.to_owned(), file: Some(file), variety: Some(variety), parsed: true, ..self }
    }

    fn released(self, release: &str) -> Found {
        Found { release: release.to_owned(), ..self }
    }
}

/// `lsb`: the output of `lsb_release`, which itself only reads these files.
pub(crate) fn lsb(root: &Root, facts: &mut Facts) {
    let own = root.read("/etc/lsb-release").map(|text| assignments(&text)).unwrap_or_default();
    let release = os_release(root);
    let installed = root.program("lsb_release").is_some();
    let pick = |lsb_key: &str, os_key: &str| {
        own.get(lsb_key)
            .or_else(|| release.get(os_key).filter(|_| installed))
            .cloned()
            .filter(|value| !value.is_empty())
    };
    let mut lsb = crate::Map::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            lsb.insert(key.to_owned(), value.into());
        }
    };
    let version = pick("DISTRIB_RELEASE", "VERSION_ID");
    put("release", version.clone());
    let id = pick("DISTRIB_ID", "ID").map(|id| match id.as_str() {
        "debian" => "Debian".to_owned(),
        "ubuntu" => "Ubuntu".to_owned(),
        _ => id,
    });
    put("id", id);
    put("description", pick("DISTRIB_DESCRIPTION", "PRETTY_NAME"));
    put("codename", pick("DISTRIB_CODENAME", "VERSION_CODENAME"));
    put("major_release", version.and_then(|version| version.split('.').next().map(str::to_owned)));
    facts.set("lsb", lsb);
}

#[cfg(test)]
mod tests {
    use super::{super::root::tests::tree, *};

    fn facts_of(files: &[(&str, &str)]) -> Vec<String> {
        let (_folder, root) = tree(files);
        let mut facts = Facts::default();
        collect(&root, &mut facts);
        ["distribution", "distribution_version", "distribution_major_version", "distribution_release", "os_family"]
            .map(|key| facts.text(key).unwrap_or_default().to_owned())
            .to_vec()
    }

    #[test]
    fn distribution_debian_and_red_hat_families_detected() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nVERSION=\"12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(
            facts_of(&[("/etc/os-release", debian), ("/etc/debian_version", "12.11\n")]),
            ["Debian", "12.11", "12", "bookworm", "Debian"]
        );
        let ubuntu = "PRETTY_NAME=\"Ubuntu 22.04.3 LTS\"\nNAME=\"Ubuntu\"\nVERSION_ID=\"22.04\"\nVERSION=\"22.04.3 LTS (Jammy Jellyfish)\"\nVERSION_CODENAME=jammy\nID=ubuntu\nID_LIKE=debian\nHOME_URL=\"https://www.ubuntu.com/\"\n";
        assert_eq!(facts_of(&[("/etc/os-release", ubuntu)]), ["Ubuntu", "22.04", "22", "jammy", "Debian"]);
        let rocky = "NAME=\"Rocky Linux\"\nVERSION=\"9.3 (Blue Onyx)\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.3\"\n";
        let file = "Rocky Linux release 9.3 (Blue Onyx)\n";
        assert_eq!(
            facts_of(&[("/etc/os-release", rocky), ("/etc/redhat-release", file)]),
            ["Rocky", "9.3", "9", "Blue Onyx", "RedHat"]
        );
        let rhel = "NAME=\"Red Hat Enterprise Linux\"\nVERSION=\"8.6 (Ootpa)\"\nID=\"rhel\"\nVERSION_ID=\"8.6\"\n";
        assert_eq!(
            facts_of(&[
                ("/etc/os-release", rhel),
                ("/etc/redhat-release", "Red Hat Enterprise Linux release 8.6 (Ootpa)\n")
            ]),
            ["RedHat", "8.6", "8", "Ootpa", "RedHat"]
        );
    }

    #[test]
    fn distribution_special_release_files_parsed() {
        let stream = "NAME=\"CentOS Stream\"\nVERSION=\"9\"\nID=\"centos\"\nVERSION_ID=\"9\"\n";
        let file = "CentOS Stream release 9\n";
        assert_eq!(
            facts_of(&[("/etc/os-release", stream), ("/etc/centos-release", file), ("/etc/redhat-release", file)]),
            ["CentOS", "9", "9", "Stream", "RedHat"]
        );
        let amazon = "NAME=\"Amazon Linux\"\nVERSION=\"2023\"\nID=\"amzn\"\nVERSION_ID=\"2023\"\n";
        assert_eq!(facts_of(&[("/etc/os-release", amazon)]), ["Amazon", "2023", "2023", "NA", "RedHat"]);
        let leap = "NAME=\"openSUSE Leap\"\nVERSION=\"15.5\"\nID=\"opensuse-leap\"\nVERSION_ID=\"15.5\"\n";
        assert_eq!(facts_of(&[("/etc/os-release", leap)]), ["openSUSE Leap", "15.5", "15", "5", "Suse"]);
        let alpine = "NAME=\"Alpine Linux\"\nID=alpine\nVERSION_ID=3.18.4\n";
        assert_eq!(
            facts_of(&[("/etc/os-release", alpine), ("/etc/alpine-release", "3.18.4\n")]),
            ["Alpine", "3.18.4", "3", "NA", "Alpine"]
        );
        let flatcar =
            "NAME=\"Flatcar Container Linux by Kinvolk\"\nID=flatcar\nVERSION=3510.2.1\nVERSION_ID=3510.2.1\n";
        assert_eq!(facts_of(&[("/etc/os-release", flatcar)]), ["Flatcar", "3510.2.1", "3510", "NA", "Flatcar"]);
    }
}
