//! `locale_gen`: locales of a host.

use super::config_file;
use crate::{Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, process::Command};

/// The `locale_gen` module.
pub struct LocaleGen;

static SPEC: Spec = Spec {
    name: "locale_gen",
    collection: "community.general",
    summary: "Create and remove locales",
    description: &["Enables locales in /etc/locale.gen, or comments them out, and runs `locale-gen`."],
    options: &[
        Opt::required("name", Kind::List(&Kind::Str), "Names of the locales, such as `de_CH.UTF-8`.").word(),
        Opt::new("state", Kind::Str, "`present` generates the locales, `absent` removes them.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
    ],
    examples: "- name: A locale\n  community.general.locale_gen:\n    name: de_CH.UTF-8\n",
    returns: &[
        Return { name: "name", kind: "list", when: "success", doc: "Names of the locales." },
        Return { name: "mechanism", kind: "str", when: "success", doc: "Always `glibc`." },
    ],
    ..Spec::EMPTY
}
.compiled();

const FILE: &str = "/etc/locale.gen";
const SUPPORTED: &str = "/usr/share/i18n/SUPPORTED";

impl Module for LocaleGen {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        let _ = args;
        Some(FILE.into())
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let names: Vec<String> = args.list("name").into_iter().map(str::to_owned).collect();
        let present = args.str("state") != Some("absent");
        if !std::path::Path::new(FILE).exists() {
            return Err(Failure::new(format!("{FILE} is missing. Is the package \"locales\" installed?")));
        }
        let made = Command::new("locale").plain_locale().arg("-a").check_run(host)?.stdout_text();
        let has = |name: &String| made.lines().any(|line| same(line, name));
        let known = [SUPPORTED, FILE].map(|path| std::fs::read_to_string(path).unwrap_or_default());
        let listed =
            |name: &String| known.iter().any(|text| text.lines().any(|line| locale_of(line) == Some(name.as_str())));
        let unknown: Vec<&str> = names.iter().filter(|name| !listed(name) && !has(name)).map(String::as_str).collect();
        if !unknown.is_empty() {
            return Err(Failure::new(format!(
                "The following locales you have entered are not available on your system: {}",
                unknown.join(", ")
            )));
        }
        let plan = if names.iter().all(has) == present {
            Plan::unchanged()
        } else {
            let before = config_file::read(FILE)?;
            let after = switched(&before, &names, present);
            let diff = host.diff().then(|| Diff::of(FILE, before, after.as_str()));
            let plan = Plan::change(move |host, _| {
                config_file::replace(FILE, &after)?;
                Command::new("locale-gen").plain_locale().live().check_run(host).map(|_| ())
            });
            plan.with_diff(diff)
        };
        Ok(plan.with("name", names).with("mechanism", "glibc").with("ubuntu_mode", false))
    }
}

/// Parses the locale in a line such as `# de_CH.UTF-8 UTF-8`.
fn locale_of(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.trim().trim_start_matches('#').split_whitespace().collect();
    match words.as_slice() {
        [locale, _charset] => Some(*locale),
        _ => None,
    }
}

/// Compares locale names, because `locale -a` writes encodings differently: `de_CH.utf8`.
fn same(one: &str, other: &str) -> bool {
    let form = |name: &str| match name.split_once('.') {
        Some((language, rest)) => {
            let (encoding, variant) =
                rest.split_once('@').map_or((rest, ""), |(encoding, variant)| (encoding, variant));
            format!("{language}.{}@{variant}", encoding.to_lowercase().replace(['-', '_'], ""))
        }
        None => name.to_owned(),
    };
    form(one) == form(other)
}

/// The file with these locales enabled or commented out.
fn switched(text: &str, names: &[String], present: bool) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for name in names {
        let mut found = false;
        for line in lines.iter_mut().filter(|line| locale_of(line) == Some(name)) {
            let bare = line.trim().trim_start_matches('#').trim().to_owned();
            *line = if present { bare } else { format!("# {bare}") };
            found = true;
        }
        if !found && present {
            let charset = name.split_once('.').map_or("UTF-8", |(_, rest)| rest.split('@').next().unwrap_or(rest));
            lines.push(format!("{name} {charset}"));
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locale_lines_enabled_and_commented_out() {
        let text = "# all of them\n# de_CH.UTF-8 UTF-8\nen_US.UTF-8 UTF-8\n";
        let names = ["de_CH.UTF-8".to_owned()];
        let with = switched(text, &names, true);
        assert_eq!(with, "# all of them\nde_CH.UTF-8 UTF-8\nen_US.UTF-8 UTF-8\n");
        assert_eq!(switched(&with, &names, false), text);
        assert!(switched(text, &["fr_FR.UTF-8@euro".to_owned()], true).ends_with("fr_FR.UTF-8@euro UTF-8\n"));
        assert!(same("de_CH.utf8", "de_CH.UTF-8") && !same("de_DE.utf8", "de_CH.UTF-8"));
        assert!(same("C", "C"));
    }
}
