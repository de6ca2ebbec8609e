//! `package_facts`: installed packages.

use super::Root;
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    process::{self, Command},
};

/// The `package_facts` module.
pub struct PackageFacts;

static SPEC: Spec = Spec {
    name: "package_facts",
    summary: "Gather the installed packages as facts",
    description: &["Reads dpkg's database or queries another package manager. Each name maps to a list of versions."],
    options: &[
        Opt::new("manager", Kind::List(&Kind::Str), "Package managers to query; `auto` tries all.")
            .default("[\"auto\"]"),
        Opt::new("strategy", Kind::Str, "`first` stops at the first available manager, `all` queries every one.")
            .default("\"first\"")
            .choices(&["first", "all"]),
    ],
    examples: "- name: What is installed?\n  ansible.builtin.package_facts:\n\n- name: Is curl there?\n  ansible.builtin.debug:\n    msg: \"{{ 'curl' in ansible_facts.packages }}\"\n",
    returns: &[Return {
        name: "ansible_facts",
        kind: "dict",
        when: "success",
        doc: "Fact `packages`: for each name a list with `name`, `version`, `arch`, `source` and other properties \
             from the manager.",
    }],
    ..Spec::EMPTY
}
.compiled();

/// Managers in the order in which they are tried.
const MANAGERS: &[&str] = &["apk", "apt", "pacman", "pkg", "pkg_info", "portage", "rpm"];

/// Aliases of managers.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("dnf", "rpm"),
    ("dnf5", "rpm"),
    ("yum", "rpm"),
    ("zypper", "rpm"),
    ("pkg5", "pkg"),
    ("pkgng", "pkg"),
    ("openbsd_pkg", "pkg_info"),
];

impl Module for PackageFacts {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let asked: Vec<String> = args.list("manager").iter().map(|name| name.to_lowercase()).collect();
        let mut wanted: Vec<&str> = asked.iter().map(String::as_str).filter(|name| *name != "auto").collect();
        let is_known = |name: &str| MANAGERS.contains(&name) || OTHER_NAMES.iter().any(|(other, _)| *other == name);
        let unknown: Vec<&str> = wanted.iter().copied().filter(|name| !is_known(name)).collect();
        let is_auto = wanted.len() < asked.len();
        if !unknown.is_empty() {
            return Err(Failure::new(match is_auto {
                true => "Could not auto detect a usable package manager, check warnings for details.".to_owned(),
                false => format!("Unsupported package managers requested: {}", unknown.join(", ")),
            }));
        }
        if is_auto {
            wanted.extend(MANAGERS.iter().chain(OTHER_NAMES.iter().map(|(other, _)| other)));
        }
        let mut packages = Map::new();
        let mut seen = Vec::new();
        for name in &wanted {
            if !packages.is_empty() && args.str("strategy") == Some("first") {
                break;
            }
            let manager = OTHER_NAMES.iter().find(|(other, _)| other == name).map_or(*name, |(_, manager)| manager);
            if seen.contains(&manager) {
                continue;
            }
            seen.push(manager);
            match read(manager, host) {
                Ok(list) if list.is_empty() => {
                    host.warn(format!("Found \"{manager}\" but no associated packages"));
                }
                Ok(list) => list.into_iter().for_each(|(name, entry)| {
                    let entries = packages.entry(name).or_insert_with(|| serde_json::json!([]));
                    entries.as_array_mut().into_iter().for_each(|entries| entries.push(entry.clone().into()));
                }),
                Err(Unreadable::Failed(why)) => {
                    host.warn(format!("Failed to retrieve packages with {manager}: Unable to list packages {why}"));
                }
                Err(Unreadable::Unusable(why)) if asked.iter().any(|asked| asked == manager) => {
                    host.warn(format!("Requested package manager {manager} was not usable by this module: {why}"));
                }
                Err(Unreadable::Unusable(_)) => {}
            }
        }
        if packages.is_empty() {
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

/// Reason why a manager's packages are unavailable.
enum Unreadable {
    /// The manager is not installed.
    Unusable(String),
    /// The manager is installed, but the query failed.
    Failed(String),
}

fn read(manager: &str, host: &Host) -> Result<Vec<Package>, Unreadable> {
    match manager {
        "apt" => match Root::host().read("/var/lib/dpkg/status") {
            Some(text) => Ok(dpkg(&text)),
            None if process::find(host, "dpkg").is_some() => {
                Err(Unreadable::Failed("/var/lib/dpkg/status cannot be read".to_owned()))
            }
            None => Err(missing("apt")),
        },
        "apk" => ask("apk", &["info", "-v"], host).map(|text| text.lines().filter_map(apk).collect()),
        "rpm" => {
            let format = "%{NAME}\\t%{VERSION}\\t%{RELEASE}\\t%{EPOCH}\\t%{ARCH}\\n";
            ask("rpm", &["-qa", "--qf", format], host).map(|text| rpm(&text))
        }
        "pacman" => ask("pacman", &["-Qi"], host).map(|text| text.split("\n\n").filter_map(pacman).collect()),
        "portage" => {
            process::find(host, "qlist").ok_or_else(|| missing("qlist"))?;
            ask("sh", &["-c", "qlist -Iv | xargs -n 1024 qatom"], host)
                .map(|text| text.lines().filter_map(portage).collect())
        }
        "pkg" => ask("pkg", &["query", "%n\t%v\t%R\t%t\t%a\t%q\t%o\t%p\t%V"], host)
            .map(|text| text.lines().filter_map(pkg).collect()),
        _ => ask("pkg_info", &["-a"], host).map(|text| text.lines().filter_map(pkg_info).collect()),
    }
}

/// Runs a manager's program and returns its output.
fn ask(program: &str, arguments: &[&str], host: &Host) -> Result<String, Unreadable> {
    let path = process::find(host, program).ok_or_else(|| missing(program))?;
    let answer = Command::new(path).plain_locale().args(arguments.iter().copied()).run(host);
    let answer = answer.map_err(|failure| Unreadable::Failed(failure.message))?;
    match answer.success() {
        true => Ok(answer.stdout_text()),
        false => Err(Unreadable::Failed(format!("rc={} : {}", answer.rc, answer.stderr_text()))),
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

/// Paragraphs of `Key: value` lines, as in dpkg's status file.
pub(crate) fn paragraphs(text: &str) -> impl Iterator<Item = std::collections::BTreeMap<&str, &str>> {
    text.split("\n\n").map(|paragraph| {
        let lines = paragraph.lines().filter(|line| !line.starts_with([' ', '\t']));
        lines.filter_map(|line| line.split_once(':')).map(|(key, value)| (key, value.trim())).collect()
    })
}

fn dpkg(status: &str) -> Vec<Package> {
    // Unpacked and half-configured packages count as installed.
    let is_there = |status: &&str| !["not-installed", "config-files"].iter().any(|state| status.ends_with(state));
    let installed = paragraphs(status).filter(|fields| fields.get("Status").is_some_and(is_there));
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

/// Parses `NAME-VERSION-RELEASE`.
fn apk(line: &str) -> Option<Package> {
    let mut parts = line.rsplitn(3, '-');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(release), Some(version), Some(name)) => {
            package("apk", &[("name", name), ("version", version), ("release", release)])
        }
        _ => package("apk", &[("name", line), ("version", ""), ("release", "")]),
    }
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

/// Parses `Key : value` lines; a value may continue on the next line.
fn pacman(text: &str) -> Option<Package> {
    let field = |key: &str| {
        let mut lines = text.lines().skip_while(|line| line.split(" : ").next().map(str::trim_end) != Some(key));
        let first = lines.next()?.split_once(" : ")?.1.to_owned();
        let more = lines.take_while(|line| line.starts_with(' ')).map(|line| format!("  {}", line.trim_start()));
        Some(first + &more.collect::<String>())
    };
    let (name, version, arch) = (field("Name")?, field("Version")?, field("Architecture")?);
    let (name, mut map) = package("pacman", &[("name", &name), ("version", &version), ("arch", &arch)])?;
    let provides = field("Provides").filter(|provides| provides != "None");
    let provides =
        provides.map(|all| all.split("  ").map(|one| one.split('=').next().unwrap_or(one).to_owned()).collect());
    map.insert("provides".into(), serde_json::json!(provides as Option<Vec<String>>));
    Some((name, map))
}

/// Parses the columns in which qatom prints a package of portage.
fn portage(line: &str) -> Option<Package> {
    let names = ["category", "name", "version", "ebuild_revision", "slots", "prefixes", "sufixes"];
    let fields: Vec<(&str, &str)> = names.into_iter().zip(line.split_whitespace()).collect();
    let (_, map) = package("portage", &fields)?;
    Some((fields.get(1)?.1.to_owned(), map))
}

/// Parses a package of FreeBSD's pkg.
fn pkg(line: &str) -> Option<Package> {
    let names = ["name", "version", "origin", "installed", "automatic", "arch", "category", "prefix", "vital"];
    let fields: Vec<(&str, &str)> = names.into_iter().zip(line.split('\t')).collect();
    let (name, mut map) = package("pkg", &fields)?;
    let field = |key: &str| fields.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    for key in ["automatic", "vital"] {
        if let Some(value) = field(key) {
            map.insert(key.into(), (value != "0").into());
        }
    }
    if let Some(arch) = field("arch").and_then(|arch| arch.split(':').nth(2)) {
        map.insert("arch".into(), arch.into());
    }
    if let Some((category, _)) = field("category").and_then(|category| category.split_once('/')) {
        map.insert("category".into(), category.into());
    }
    let version = field("version").unwrap_or_default();
    let (version, epoch) =
        version.split_once(',').map_or((version, 0.into()), |(version, epoch)| (version, epoch.into()));
    let (version, revision) = version.split_once('_').unwrap_or((version, "0"));
    map.insert("version".into(), version.into());
    map.insert("revision".into(), revision.into());
    map.insert("port_epoch".into(), epoch);
    Some((name, map))
}

/// Parses a line of OpenBSD's pkg_info: `NAME-VERSION` and a description.
fn pkg_info(line: &str) -> Option<Package> {
    let word = line.split_whitespace().next()?;
    let (name, version) = word.rsplit_once('-').unwrap_or((word, ""));
    package("pkg_info", &[("name", name), ("version", version)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpkg_removed_packages_omitted() {
        let status = "Package: curl\nStatus: install ok installed\nSection: web\nArchitecture: amd64\nVersion: 7.88.1-10+deb12u8\nDescription: transfer\n with more: text\n\nPackage: old\nStatus: deinstall ok config-files\nVersion: 1\n";
        let packages = dpkg(status);
        assert_eq!(packages.len(), 1);
        assert_eq!(packages[0].1["version"], "7.88.1-10+deb12u8");
        assert_eq!(packages[0].1["category"], "web");
        assert_eq!(apk("alpine-baselayout-3.4.3-r1").unwrap().1["release"], "r1");
        let packages = rpm("bash\t5.1.8\t6.el9\t(none)\tx86_64\ndbus\t1.12\t8.el9\t1\tx86_64\n");
        assert_eq!(packages[0].1["epoch"], serde_json::Value::Null);
        assert_eq!(packages[1].1["epoch"], 1);
    }
}
