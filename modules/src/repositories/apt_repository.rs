//! `apt_repository`: lines in apt's source lists.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::sources_list::{Line, Places, Sources, suggested_name};
use crate::{
    Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    facts::Root,
    files::{
        attributes::Attributes,
        mode::Mode,
        write::{Source, Wanted},
    },
    process::{self, Command, reason},
    system::apt::Cache,
};

/// The `apt_repository` module.
pub struct AptRepository;

static SPEC: Spec = Spec {
    name: "apt_repository",
    summary: "Manage apt source lines",
    description: &[
        "Adds a line to a file in /etc/apt/sources.list.d, named after the URL unless `filename` is given, or \
         removes it from all files. Updates the package lists after a change; if that fails, restores the old \
         sources.",
        "`ppa:owner/name` means a Launchpad archive, whose key is fetched too.",
    ],
    options: &[
        Opt::required(
            "repo",
            Kind::Str,
            "Source line, such as `deb http://deb.debian.org/debian bookworm-backports main`.",
        )
        .address(),
        Opt::new("state", Kind::Str, "`present` adds the line, `absent` removes it.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("mode", Kind::Raw, "Permissions of a new file."),
        Opt::new("update_cache", Kind::Bool, "Update the package lists after a change.")
            .aliases(&["update-cache"])
            .default("true"),
        Opt::new("update_cache_retries", Kind::Int, "Number of attempts to update the lists.").default("5"),
        Opt::new("update_cache_retry_max_delay", Kind::Int, "Longest pause between two attempts, in seconds.")
            .default("12"),
        Opt::new("filename", Kind::Str, "Name of the file, without `.list`.").line(),
        Opt::new(
            "install_python_apt",
            Kind::Bool,
            "No effect, because the module needs nothing on the host; accepted for compatibility.",
        )
        .default("true"),
        Opt::new("validate_certs", Kind::Bool, "Verify Launchpad's certificate.").default("true"),
        Opt::new("codename", Kind::Str, "Release for a Launchpad archive. Default: the host's release."),
    ],
    examples: "- name: Backports\n  ansible.builtin.apt_repository:\n    repo: deb http://deb.debian.org/debian bookworm-backports main\n    filename: backports\n",
    returns: &[
        Return { name: "repo", kind: "str", when: "always", doc: "Source line." },
        Return { name: "sources_added", kind: "list", when: "always", doc: "Files that were created." },
        Return { name: "sources_removed", kind: "list", when: "always", doc: "Files that were removed." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// Server of Launchpad archives.
const ARCHIVES: &str = "https://ppa.launchpadcontent.net";
/// API of Launchpad.
const LAUNCHPAD: &str = "https://api.launchpad.net/1.0";

impl Module for AptRepository {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        // One lock for all sources, because the module looks for the repository in every file.
        let _ = args;
        Some("/etc/apt/sources.list".into())
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let repo = args.required("repo")?.to_owned();
        let state = args.required("state")?.to_owned();
        if repo.trim().is_empty() {
            return Err(Failure::new("Please set argument 'repo' to a non-empty value"));
        }
        // A folded YAML text ends with a line break.
        if repo.trim().contains(['\n', '\r', '\0']) {
            return Err(Failure::new("value of repo must be one line, without line breaks"));
        }
        let archive = repo.strip_prefix("ppa:").map(|path| Archive::of(path, args)).transpose()?;
        let source = match &archive {
            Some(archive) => archive.source(),
            None => match Line::parse(&repo).filter(|line| line.enabled) {
                Some(line) => line.source,
                None => return Err(Failure::new(format!("Invalid repository string: {repo}"))),
            },
        };
        let places = Places::of(host)?;
        let before = Sources::read(&places);
        let mut after = before.clone();
        let mut key = None;
        if state == "present" {
            let name = match (args.str("filename"), &archive) {
                (Some(name), _) => format!("{name}.list"),
                (None, Some(archive)) => archive.file_name(),
                (None, None) => suggested_name(&source),
            };
            after.add(&source, &places.file(&name));
            key = archive.filter(|_| before != after);
        } else {
            after.remove(&source);
        }
        let shown = |paths: Vec<&PathBuf>| -> Value { paths.iter().map(|path| path.display().to_string()).collect() };
        let added = shown(after.files.keys().filter(|path| !before.files.contains_key(*path)).collect());
        let removed = shown(before.files.keys().filter(|path| !after.files.contains_key(*path)).collect());
        // Always a list.
        let diffs: Option<Value> =
            host.diff().then(|| differences(&before, &after).iter().map(Diff::to_json).collect());
        let mut plan = if before == after {
            Plan::unchanged()
        } else {
            let mode = args.value("mode").map(Mode::parse).transpose()?;
            let cache = args.bool("update_cache").then(|| Cache::of(args));
            if let Some(archive) = &mut key {
                archive.look_up_key(args, host)?;
            }
            Plan::change(move |host, _| {
                if let Some(archive) = &key {
                    archive.import_key(host)?;
                }
                let done = write(&before, &after, mode, host).and_then(|()| match &cache {
                    Some(cache) => cache.refresh(host),
                    None => Ok(()),
                });
                done.map_err(|failure| match write(&after, &before, None, host) {
                    Ok(()) => failure,
                    Err(second) => Failure::new(format!(
                        "{} The sources could not be put back: {}",
                        failure.message, second.message
                    )),
                })
            })
        };
        if let Some(diffs) = diffs {
            plan = plan.with("diff", diffs);
        }
        let plan = plan.with("repo", repo).with("state", state);
        Ok(plan.with("sources_added", added).with("sources_removed", removed))
    }
}

/// Differences of created, removed and changed files.
fn differences(before: &Sources, after: &Sources) -> Vec<Diff> {
    let mut paths: Vec<&PathBuf> = before.files.keys().chain(after.files.keys()).collect();
    paths.sort();
    paths.dedup();
    let side = |sources: &Sources, path: &Path| match sources.files.get(path) {
        Some(text) => (path.display().to_string(), text.clone()),
        None => ("/dev/null".to_owned(), String::new()),
    };
    let changed = paths.into_iter().filter(|path| before.files.get(*path) != after.files.get(*path));
    let made = changed.map(|path| {
        let ((before_header, before), (after_header, after)) = (side(before, path), side(after, path));
        Diff {
            before: before.into(),
            after: after.into(),
            before_header: Some(before_header),
            after_header: Some(after_header),
            ..Diff::default()
        }
    });
    made.collect()
}

/// Writes the changed files.
fn write(before: &Sources, after: &Sources, mode: Option<Mode>, host: &Host) -> Result<(), Failure> {
    for (path, text) in &after.files {
        if before.files.get(path) == Some(text) {
            continue;
        }
        let mut wanted = Wanted::new(path, Source::Bytes(text.clone().into_bytes()));
        if !before.files.contains_key(path) {
            let mut attributes = Attributes::default();
            attributes.mode = Some(mode.clone().map_or_else(|| Mode::parse(&"0644".into()), Ok)?);
            wanted.attributes = attributes;
        }
        crate::run::carry_out(wanted.plan(host)?, host)?;
    }
    for path in before.files.keys().filter(|path| !after.files.contains_key(*path)) {
        std::fs::remove_file(path)
            .map_err(|error| Failure::new(format!("{} could not be removed: {}.", path.display(), reason(&error))))?;
    }
    Ok(())
}

/// A personal package archive of Launchpad.
struct Archive {
    owner: String,
    name: String,
    codename: String,
    fingerprint: Option<String>,
}

impl Archive {
    fn of(path: &str, args: &Args) -> Result<Archive, Failure> {
        let (owner, name) = path.split_once('/').unwrap_or((path, "ppa"));
        let release = Root::host().read("/etc/os-release").unwrap_or_default();
        let own = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let codename = args.str("codename").or(own).map(|name| name.trim_matches('"').to_owned());
        let codename = codename.ok_or_else(|| Failure::new("The host's release has no codename: set codename."))?;
        Ok(Archive { owner: owner.to_owned(), name: name.to_owned(), codename, fingerprint: None })
    }

    fn source(&self) -> String {
        format!("deb {ARCHIVES}/{}/{}/ubuntu {} main", self.owner, self.name, self.codename)
    }

    fn file_name(&self) -> String {
        let words = format!("ppa:{}/{}_{}", self.owner, self.name, self.codename);
        suggested_name(&words)
    }

    fn look_up_key(&mut self, args: &Args, host: &Host) -> Result<(), Failure> {
        let url = format!("{LAUNCHPAD}/~{}/+archive/{}", self.owner, self.name);
        let bytes = crate::http::read(&url, args, host)
            .map_err(|reason| Failure::new(format!("failed to fetch PPA information, error was: {reason}")))?;
        let told: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Failure::new(format!("Launchpad's answer about the archive cannot be read: {error}.")))?;
        self.fingerprint = told.get("signing_key_fingerprint").and_then(Value::as_str).map(str::to_owned);
        Ok(())
    }

    /// Fetches the key of the archive, unless apt already trusts it.
    fn import_key(&self, host: &Host) -> Result<(), Failure> {
        let Some(fingerprint) = &self.fingerprint else {
            return Err(Failure::new("Launchpad does not report the key of the archive."));
        };
        let server = ["--keyserver", "hkp://keyserver.ubuntu.com:80"];
        if process::find(host, "apt-key").is_some() {
            let known = Command::new("apt-key").plain_locale().args(["export", fingerprint]).run(host)?;
            if known.success() && !known.stderr_text().contains("nothing exported") {
                return Ok(());
            }
            let command = Command::new("apt-key").plain_locale().args(["adv", "--recv-keys", "--no-tty"]).args(server);
            return command.arg(fingerprint).check_run(host).map(|_| ());
        }
        let folder = ["/etc/apt/keyrings", "/etc/apt/trusted.gpg.d", "/usr/share/keyrings"]
            .into_iter()
            .find(|folder| Path::new(folder).is_dir())
            .ok_or_else(|| {
                Failure::new(
                    "There is no folder for keys of apt: neither /etc/apt/keyrings nor /etc/apt/trusted.gpg.d.",
                )
            })?;
        let file = format!("{folder}/{}-{}-{}.gpg", self.codename, self.owner, self.name);
        let home = crate::files::scratch::Scratch::new()?;
        let gpg = || Command::new("gpg").plain_locale().args(["--no-tty", "--batch", "--homedir"]).arg(home.path());
        gpg().args(server).args(["--recv-keys", fingerprint]).check_run(host)?;
        let key = gpg().args(["--export", fingerprint]).check_run(host)?.stdout;
        crate::run::carry_out(Wanted::new(&file, Source::Bytes(key)).plan(host)?, host).map(|_| ())
    }
}
