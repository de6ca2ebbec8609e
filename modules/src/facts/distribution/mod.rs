//! The Linux distribution: its name, version and family as playbooks compare them.
//!
//! os-release(5) gives a first answer, which [`known`] refines for single distributions.

mod families;
mod known;
mod lsb;

use std::collections::BTreeMap;

pub(crate) use lsb::lsb;

use super::{Facts, Root};
use families::family;

/// Collected facts of a distribution. An empty fact is omitted, or `NA` where playbooks expect it.
#[derive(Clone, Default)]
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
    let found = known::find(root);
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

impl Found {
    fn named(self, name: &str, file: &'static str, variety: &'static str) -> Found {
        Found { distribution: name.to_owned(), file: Some(file), variety: Some(variety), parsed: true, ..self }
    }

    fn released(self, release: &str) -> Found {
        Found { release: release.to_owned(), ..self }
    }
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
