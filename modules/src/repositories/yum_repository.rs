//! `yum_repository`: RPM repositories.

use std::path::Path;

use serde_json::Value;

use crate::{
    Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::{
        attributes::Attributes,
        way::Link,
        write::{Source, Wanted},
    },
    process::reason,
    with_attributes,
};

/// The `yum_repository` module.
pub struct YumRepository;

static SPEC: Spec = Spec {
    name: "yum_repository",
    summary: "Manage RPM repositories",
    description: &[
        "Writes a section of a file in /etc/yum.repos.d. Keeps other sections of the file.",
        "Omits options that are not given, for which dnf has defaults.",
    ],
    options: with_attributes![
        Opt::required("name", Kind::Str, "Id of the repository, which names the section."),
        Opt::new("description", Kind::Str, "Description of the repository; required unless the state is `absent`."),
        Opt::new("state", Kind::Str, "`present` writes the section, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("file", Kind::Str, "Name of the file, without `.repo`. Default: the repository's id."),
        Opt::new("reposdir", Kind::Path, "Folder of the files.").default("\"/etc/yum.repos.d\""),
        Opt::new("baseurl", Kind::List(&Kind::Str), "URLs of the repository.").address(),
        Opt::new("mirrorlist", Kind::Str, "URL of a mirror list.").address(),
        Opt::new("metalink", Kind::Str, "URL of a metalink file.").address(),
        Opt::new("enabled", Kind::Bool, "Enable the repository."),
        Opt::new("gpgcheck", Kind::Bool, "Verify the signatures of packages."),
        Opt::new("repo_gpgcheck", Kind::Bool, "Verify the signature of the repository metadata."),
        Opt::new("gpgkey", Kind::List(&Kind::Str), "URLs of the signing keys.").address(),
        Opt::new("gpgcakey", Kind::Str, "URL of the CA key that signs the keys."),
        Opt::new("async", Kind::Bool, "Download packages in the background."),
        Opt::new("bandwidth", Kind::Str, "Maximum bandwidth in bytes per second."),
        Opt::new("cost", Kind::Str, "Cost of the repository relative to others."),
        Opt::new("countme", Kind::Bool, "Count the host in usage statistics."),
        Opt::new(
            "deltarpm_metadata_percentage",
            Kind::Str,
            "Relative size above which delta metadata is not downloaded."
        ),
        Opt::new("deltarpm_percentage", Kind::Str, "Relative size above which a delta RPM is not used."),
        Opt::new("enablegroups", Kind::Bool, "Allow installing package groups."),
        Opt::new("exclude", Kind::List(&Kind::Str), "Packages to exclude.").aliases(&["excludepkgs"]),
        Opt::new("failovermethod", Kind::Str, "Method to select the next URL after a failure.")
            .choices(&["roundrobin", "priority"]),
        Opt::new("http_caching", Kind::Str, "Content that HTTP caches may store.")
            .choices(&["all", "packages", "none"]),
        Opt::new("include", Kind::Str, "URL or path of an additional configuration file."),
        Opt::new("includepkgs", Kind::List(&Kind::Str), "Packages to include; all others are excluded."),
        Opt::new("ip_resolve", Kind::Str, "IP version to use for servers.")
            .choices(&["4", "6", "IPv4", "IPv6", "whatever"]),
        Opt::new("keepalive", Kind::Bool, "Keep connections alive."),
        Opt::new("keepcache", Kind::Str, "Keep downloaded packages.").choices(&["0", "1"]),
        Opt::new("metadata_expire", Kind::Str, "Lifetime of metadata."),
        Opt::new("metadata_expire_filter", Kind::Str, "Condition under which `metadata_expire` applies.").choices(&[
            "never",
            "read-only:past",
            "read-only:present",
            "read-only:future",
        ]),
        Opt::new("mirrorlist_expire", Kind::Str, "Lifetime of the mirror list."),
        Opt::new("module_hotfixes", Kind::Bool, "Make packages available regardless of module streams."),
        Opt::new("username", Kind::Str, "User name for authentication."),
        Opt::new("password", Kind::Str, "Password for authentication.").secret(),
        Opt::new("priority", Kind::Str, "Priority of the repository; lower numbers take precedence."),
        Opt::new("protect", Kind::Bool, "Protect packages from replacement by other repositories."),
        Opt::new("proxy", Kind::Str, "URL of the proxy; `_none_` disables it.").address(),
        Opt::new("proxy_username", Kind::Str, "User name for the proxy."),
        Opt::new("proxy_password", Kind::Str, "Password for the proxy.").secret(),
        Opt::new("retries", Kind::Str, "Number of attempts."),
        Opt::new("s3_enabled", Kind::Bool, "Access the repository through S3."),
        Opt::new("skip_if_unavailable", Kind::Bool, "Continue without the repository if it is unreachable."),
        Opt::new("ssl_check_cert_permissions", Kind::Bool, "Check the permissions of certificate files."),
        Opt::new("sslcacert", Kind::Str, "Folder with trusted CA certificates.").aliases(&["ca_cert"]),
        Opt::new("sslclientcert", Kind::Str, "Client certificate.").aliases(&["client_cert"]),
        Opt::new("sslclientkey", Kind::Str, "Key of the client certificate.").aliases(&["client_key"]),
        Opt::new("sslverify", Kind::Bool, "Verify the server's certificate.").aliases(&["validate_certs"]),
        Opt::new("throttle", Kind::Str, "Maximum bandwidth in bytes per second."),
        Opt::new("timeout", Kind::Str, "Seconds to wait for a connection."),
        Opt::new("ui_repoid_vars", Kind::Str, "Variables to show with the repository's id."),
    ],
    required_if: &[("state", "present", &["description"])],
    required_if_any: &[("state", "present", &["baseurl", "mirrorlist", "metalink"])],
    examples: "- name: The repository of EPEL\n  ansible.builtin.yum_repository:\n    name: epel\n    description: EPEL\n    \
               baseurl: https://download.fedoraproject.org/pub/epel/$releasever/$basearch/\n    gpgcheck: true\n    \
               gpgkey: https://download.fedoraproject.org/pub/epel/RPM-GPG-KEY-EPEL-9\n",
    returns: &[
        Return { name: "repo", kind: "str", when: "success", doc: "Id of the repository." },
        Return { name: "state", kind: "str", when: "success", doc: "Value of `state`." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// Options that are not written to the section.
const NOT_SETTINGS: &[&str] = &["name", "description", "state", "file", "reposdir"];

impl Module for YumRepository {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        let name = args.str("file").or(args.str("name"))?;
        Some(std::path::Path::new(args.str("reposdir")?).join(format!("{name}.repo")))
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?;
        let present = args.str("state") != Some("absent");
        if present && !["baseurl", "mirrorlist", "metalink"].iter().any(|option| args.value(option).is_some()) {
            return Err(Failure::new(
                "state is present but any of the following are missing: baseurl, mirrorlist, metalink",
            ));
        }
        let folder = Path::new(args.required("reposdir")?);
        if !folder.is_dir() {
            return Err(Failure::new(format!("Repo directory '{}' does not exist.", folder.display())));
        }
        let path = folder.join(format!("{}.repo", args.str("file").unwrap_or(name)));
        let text = std::fs::read_to_string(&path).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(String::new()),
            _ => Err(Failure::new(format!("{} cannot be read: {}.", path.display(), reason(&error)))),
        })?;
        let old = Sections::parse(&text);
        let new = old.with(name, present.then(|| settings(args)));
        let (before, after) = (old.shown(), new.shown());
        let attributes = Attributes::of(args, host)?;
        let plan = if before == after {
            let shown = path.display().to_string();
            let changes = if path.is_file() { attributes.changes(&path, Link::Follow)? } else { Vec::new() };
            let plan = if changes.is_empty() {
                Plan::unchanged()
            } else {
                Plan::change(move |_, _| attributes.apply(&path, Link::Follow).map(|_| ()))
            };
            with_diff(plan, &shown, before, after, host)
        } else if new.0.iter().all(|section| section.name.is_none()) {
            let shown = path.display().to_string();
            let plan = Plan::change(move |_, _| {
                std::fs::remove_file(&path).map_err(|error| {
                    Failure::new(format!("Cannot remove empty repo file {}: {}.", path.display(), reason(&error)))
                })
            });
            with_diff(plan, &shown, before, after, host)
        } else {
            let shown = path.display().to_string();
            let mut wanted = Wanted::new(path, Source::Bytes(new.text().into_bytes()));
            wanted.attributes = attributes;
            let mut plan = Plan::sequence(vec![wanted.plan(host)?]);
            plan.outcome.diff.clear();
            with_diff(plan, &shown, before, after, host)
        };
        Ok(plan.with("repo", name).with("state", args.required("state")?))
    }
}

fn with_diff(plan: Plan, name: &str, before: String, after: String, host: &Host) -> Plan {
    if host.diff() { plan.with_diff(Diff::of(name, before, after)) } else { plan }
}

/// The settings of the section, sorted by name.
fn settings(args: &Args) -> Vec<(String, String)> {
    let attributes = crate::files::attributes::OPTIONS.iter().map(|option| option.name);
    let passed_over: Vec<&str> = NOT_SETTINGS.iter().copied().chain(attributes).collect();
    let mut settings: Vec<(String, String)> = Vec::new();
    for option in SPEC.options.iter().filter(|option| !passed_over.contains(&option.name)) {
        let text = match args.value(option.name) {
            None => continue,
            Some(Value::Bool(value)) => u8::from(*value).to_string(),
            Some(Value::Array(_)) => {
                let separator = if matches!(option.name, "baseurl" | "gpgkey") { "\n" } else { " " };
                args.list(option.name).join(separator)
            }
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        settings.push((option.name.to_owned(), text));
    }
    if let Some(description) = args.str("description") {
        settings.push(("name".to_owned(), description.to_owned()));
    }
    settings.sort();
    settings
}

/// A section: its lines and settings.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Section {
    /// `None` for the lines before the first section.
    name: Option<String>,
    text: String,
    settings: Vec<(String, String)>,
}

/// The sections of a file, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sections(Vec<Section>);

impl Sections {
    fn parse(text: &str) -> Sections {
        let mut all = vec![Section { name: None, text: String::new(), settings: Vec::new() }];
        for line in text.split_inclusive('\n') {
            let bare = line.trim_end();
            let header = bare.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            if let Some((name, _)) = header {
                all.push(Section { name: Some(name.to_owned()), text: String::new(), settings: Vec::new() });
            }
            let Some(section) = all.last_mut() else { continue };
            section.text.push_str(line);
            if header.is_some() || bare.trim().is_empty() || bare.trim_start().starts_with(['#', ';']) {
                continue;
            }
            if line.starts_with([' ', '\t'])
                && let Some((_, value)) = section.settings.last_mut()
            {
                value.push('\n');
                value.push_str(bare.trim());
            } else {
                let (key, value) = bare.split_once(['=', ':']).unwrap_or((bare, ""));
                section.settings.push((key.trim().to_lowercase(), value.trim().to_owned()));
            }
        }
        Sections(all)
    }

    /// The file with these settings in the named section, or without that section.
    fn with(&self, name: &str, settings: Option<Vec<(String, String)>>) -> Sections {
        let mut all: Vec<Section> = Vec::new();
        let mut settings = settings.map(|settings| Section::made(name, settings));
        for section in &self.0 {
            if section.name.as_deref() == Some(name) {
                all.extend(settings.take());
            } else {
                all.push(section.clone());
            }
        }
        if let Some(section) = settings {
            if let Some(last) = all.last_mut().filter(|last| !last.text.is_empty() && !last.text.ends_with("\n\n")) {
                last.text.push_str(if last.text.ends_with('\n') { "\n" } else { "\n\n" });
            }
            all.push(section);
        }
        Sections(all)
    }

    fn text(&self) -> String {
        self.0.iter().map(|section| section.text.as_str()).collect()
    }

    /// The settings of all sections, sorted by name, for the diff.
    fn shown(&self) -> String {
        let mut named: Vec<_> =
            self.0.iter().filter_map(|section| Some((section.name.as_ref()?, section.settings.clone()))).collect();
        named.sort();
        let mut text = String::new();
        for (name, mut settings) in named {
            settings.sort();
            text.push_str(&format!("[{name}]\n"));
            settings.iter().for_each(|(key, value)| text.push_str(&format!("{key} = {value}\n")));
            text.push('\n');
        }
        text
    }
}

impl Section {
    fn made(name: &str, settings: Vec<(String, String)>) -> Section {
        let mut text = format!("[{name}]\n");
        for (key, value) in &settings {
            text.push_str(&format!("{key} = {}\n", value.replace('\n', "\n\t")));
        }
        text.push('\n');
        Section { name: Some(name.to_owned()), text, settings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_replaced_others_keep_comments() {
        let text = "# of the host\n[one]\nname = One\nbaseurl = http://a\n\thttp://b\n\n[two]\n# why\nname=Two\n";
        let sections = Sections::parse(text);
        assert_eq!(sections.text(), text);
        assert!(sections.shown().starts_with("[one]\nbaseurl = http://a\nhttp://b\nname = One\n\n[two]\nname = Two\n"));
        let changed = sections.with("one", Some(vec![("name".into(), "Uno".into())]));
        assert_eq!(changed.text(), "# of the host\n[one]\nname = Uno\n\n[two]\n# why\nname=Two\n");
        let more = sections.with("three", Some(vec![("enabled".into(), "1".into())]));
        assert!(more.text().ends_with("name=Two\n\n[three]\nenabled = 1\n\n"));
        assert_eq!(sections.with("one", None).text(), "# of the host\n[two]\n# why\nname=Two\n");
    }
}
