//! `package_facts`: the packages a host has.

use super::{Root, os_family, package_manager_of};
use crate::{Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec};

/// The `package_facts` module.
pub struct PackageFacts;

static SPEC: Spec = Spec {
    name: "package_facts",
    summary: "Gather the installed packages as facts",
    description: &[
        "Reads the database of the package manager (dpkg, apk) or asks it (rpm, pacman); every name leads to a list of versions.",
    ],
    options: &[
        Opt::new("manager", Kind::List(&Kind::Str), "Package managers to look at; `auto` takes the host's own.")
            .default("[\"auto\"]"),
        Opt::new("strategy", Kind::Str, "`first` stops at the first manager that is there, `all` reads every one.")
            .default("\"first\"")
            .choices(&["first", "all"]),
    ],
    examples: "- name: What is installed?\n  ansible.builtin.package_facts:\n\n- name: Is curl there?\n  ansible.builtin.debug:\n    msg: \"{{ 'curl' in ansible_facts.packages }}\"\n",
    returns: &[Return {
        name: "ansible_facts",
        kind: "dict",
        when: "success",
        doc: "`packages`: for every name a list with `name`, `version`, `arch`, `source` and what else the manager knows.",
    }],
    ..Spec::EMPTY
};

/// The managers that may be asked for: those of BSD are never there.
const MANAGERS: &[&str] = &[
    "auto",
    "apk",
    "apt",
    "pacman",
    "pkg",
    "pkg_info",
    "portage",
    "rpm",
    "dnf",
    "dnf5",
    "yum",
    "zypper",
    "pkg5",
    "pkgng",
    "openbsd_pkg",
];

impl Module for PackageFacts {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let root = Root::host();
        let wanted = args.list("manager");
        let unknown: Vec<&str> = wanted.iter().copied().filter(|name| !MANAGERS.contains(name)).collect();
        if !unknown.is_empty() {
            return Err(Failure::new(format!("Unsupported package managers requested: {}", unknown.join(", "))));
        }
        let mut packages = Map::new();
        let mut found = false;
        for &manager in &wanted {
            let manager = if manager == "auto" { package_manager_of(&root, &os_family(&root)) } else { manager };
            if found && args.str("strategy") != Some("all") {
                break;
            }
            let list = match read(&root, manager) {
                Ok(list) => list,
                Err(Unreadable::Unusable(why)) => {
                    if wanted.contains(&manager) {
                        host.warn(format!("Requested package manager {manager} was not usable by this module: {why}"));
                    }
                    continue;
                }
                Err(Unreadable::Failed(why)) => {
                    host.warn(format!("Failed to retrieve packages with {manager}: Unable to list packages: {why}"));
                    continue;
                }
            };
            found = true;
            for (name, entry) in list {
                if let Some(entries) = packages.entry(name).or_insert_with(|| serde_json::json!([])).as_array_mut() {
                    entries.push(entry.into());
                }
            }
        }
        if !found {
            let tried: Vec<String> = wanted.iter().map(|name| format!("'{name}'")).collect();
            return Err(Failure::new(format!(
                "Could not detect a supported package manager from the following list: [{}], \
                 or the required Python library is not installed. Check warnings for details.",
                tried.join(", ")
            )));
        }
        let mut facts = Map::new();
        facts.insert("packages".into(), packages.into());
        Ok(Plan::unchanged().with("ansible_facts", facts))
    }
}

type Package = (String, Map);

/// Why a manager's packages cannot be told.
enum Unreadable {
    /// It is not there.
    Unusable(String),
    /// It is there and does not answer.
    Failed(String),
}

fn read(root: &Root, manager: &str) -> Result<Vec<Package>, Unreadable> {
    match manager {
        "apt" => database(root, "dpkg", "/var/lib/dpkg/status").map(|text| dpkg(&text)),
        "apk" => database(root, "apk", "/lib/apk/db/installed").map(|text| apk(&text)),
        "rpm" | "dnf" | "dnf5" | "yum" | "zypper" | "atomic_container" => {
            let format = "%{NAME}\\t%{VERSION}\\t%{RELEASE}\\t%{EPOCH}\\t%{ARCH}\\n";
            ask(root, "rpm", &["-qa", "--qf", format]).map(|text| rpm(&text))
        }
        "pacman" => ask(root, "pacman", &["-Q"]).map(|text| pacman(&text)),
        "portage" => Err(Unreadable::Unusable("packages of portage cannot be listed".to_owned())),
        other => Err(Unreadable::Unusable(format!("packages of {other} are those of BSD"))),
    }
}

/// The database of a manager.
fn database(root: &Root, program: &str, path: &str) -> Result<String, Unreadable> {
    root.read(path).ok_or_else(|| match root.program(program) {
        Some(_) => Unreadable::Failed(format!("{path} cannot be read")),
        None => missing(program),
    })
}

/// What a manager's program prints.
fn ask(root: &Root, program: &str, arguments: &[&str]) -> Result<String, Unreadable> {
    let path = root.program(program).ok_or_else(|| missing(program))?;
    match super::probe::ask(&path, arguments, std::time::Duration::from_secs(120)) {
        Some(answer) if answer.rc == 0 => Ok(answer.stdout),
        Some(answer) => Err(Unreadable::Failed(format!("{path} ended with status {}", answer.rc))),
        None => Err(Unreadable::Failed(format!("{path} gave no answer"))),
    }
}

fn missing(program: &str) -> Unreadable {
    Unreadable::Unusable(format!("Failed to find required executable \"{program}\""))
}

fn package(source: &str, fields: &[(&str, &str)]) -> Option<Package> {
    let mut map = Map::new();
    for (key, value) in fields {
        map.insert((*key).to_owned(), (*value).into());
    }
    map.insert("source".into(), source.into());
    let name = fields.first()?.1;
    (!name.is_empty()).then(|| (name.to_owned(), map))
}

/// Paragraphs of `Key: value` lines, as dpkg writes them.
pub(crate) fn paragraphs(text: &str) -> impl Iterator<Item = std::collections::BTreeMap<&str, &str>> {
    text.split("\n\n").map(|paragraph| {
        let lines = paragraph.lines().filter(|line| !line.starts_with([' ', '\t']));
        lines.filter_map(|line| line.split_once(':')).map(|(key, value)| (key, value.trim())).collect()
    })
}

fn dpkg(status: &str) -> Vec<Package> {
    let installed =
        paragraphs(status).filter(|fields| fields.get("Status").is_some_and(|status| status.ends_with(" installed")));
    installed
        .filter_map(|fields| {
            let field = |key: &str| fields.get(key).copied().unwrap_or_default();
            package(
                "apt",
                &[
                    ("name", field("Package")),
                    ("version", field("Version")),
                    ("arch", field("Architecture")),
                    ("category", field("Section")),
                    ("origin", ""),
                ],
            )
        })
        .collect()
}

fn apk(database: &str) -> Vec<Package> {
    let paragraph = |text: &str| {
        let field = |key: &str| {
            text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap_or_default().to_owned()
        };
        let (version, release) =
            field("V").rsplit_once('-').map(|(version, release)| (version.to_owned(), release.to_owned()))?;
        package("apk", &[("name", &field("P")), ("version", &version), ("release", &release), ("arch", &field("A"))])
    };
    database.split("\n\n").filter_map(paragraph).collect()
}

fn rpm(list: &str) -> Vec<Package> {
    let one = |line: &str| {
        let words: Vec<&str> = line.split('\t').collect();
        let &[name, version, release, epoch, arch] = words.as_slice() else { return None };
        let (name, mut map) =
            package("rpm", &[("name", name), ("version", version), ("release", release), ("arch", arch)])?;
        map.insert("epoch".into(), epoch.parse::<u64>().ok().into());
        Some((name, map))
    };
    list.lines().filter_map(one).collect()
}

fn pacman(list: &str) -> Vec<Package> {
    list.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, version)| package("pacman", &[("name", name), ("version", version)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_packages_count() {
        let status = "Package: curl\nStatus: install ok installed\nSection: web\nArchitecture: amd64\nVersion: 7.88.1-10+deb12u8\nDescription: transfer\n with more: text\n\nPackage: old\nStatus: deinstall ok config-files\nVersion: 1\n";
        let packages = dpkg(status);
        assert_eq!(packages.len(), 1);
        assert_eq!(packages[0].1["version"], "7.88.1-10+deb12u8");
        assert_eq!(packages[0].1["category"], "web");
        let packages = apk("P:musl\nV:1.2.4-r2\nA:x86_64\n\nP:busybox\nV:1.36.1-r5\nA:x86_64\n");
        assert_eq!(packages[0].1["release"], "r2");
        let packages = rpm("bash\t5.1.8\t6.el9\t(none)\tx86_64\ndbus\t1.12\t8.el9\t1\tx86_64\n");
        assert_eq!(packages[0].1["epoch"], serde_json::Value::Null);
        assert_eq!(packages[1].1["epoch"], 1);
    }
}
