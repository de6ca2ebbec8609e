//! `windlass galaxy role install`: installs roles.

use std::path::Path;

use windlass_yaml::emit::{DumpOptions, Item, dump};

use super::fetch::{self, Fetched, copy_tree, tree_digest};
use super::lock::{CHANGED, Entry, STALE, check, find};
use super::requirement::{Requirement, dependencies};
use super::server::Servers;
use super::state::Galaxy;
use crate::error::{Error, Result};

/// File that records a role's installation, as with ansible-galaxy.
pub(super) const INFO: &str = "meta/.galaxy_install_info";

/// Installs roles with these options.
pub(super) struct Installer<'a> {
    pub(super) galaxy: &'a Galaxy,
    pub(super) servers: Servers,
    /// Target directory.
    pub(super) folder: std::path::PathBuf,
    /// Replace installed roles.
    pub(super) force: bool,
    /// Replace dependencies too.
    pub(super) force_dependencies: bool,
    pub(super) no_dependencies: bool,
    /// Continue after a role that fails.
    pub(super) ignore_errors: bool,
    /// Keep the `.git` directory.
    pub(super) keep_git: bool,
    /// Entries of a lock file that determine what to install.
    pub(super) locked: Option<Vec<Entry>>,
    /// Also visit dependencies of roles that are already installed, to lock all of them.
    pub(super) whole: bool,
}

impl Installer<'_> {
    /// Installs roles and their dependencies. Returns the entries of a lock file.
    pub(super) fn install(&self, mut roles: Vec<Requirement>) -> Result<Vec<Entry>> {
        self.galaxy.say("Starting galaxy role install process");
        let mut entries: Vec<Entry> = Vec::new();
        let mut index = 0;
        // Dependencies are appended to the list.
        while let Some(role) = roles.get(index).cloned() {
            index += 1;
            match self.role(&role) {
                Ok((entry, is_new)) => {
                    entries.retain(|known| known.name != entry.name);
                    entries.push(entry);
                    if (is_new || self.whole) && !self.no_dependencies {
                        self.dependencies(&role, &mut roles)?;
                    }
                }
                Err(Failure::Skipped) => {}
                Err(Failure::Failed(error)) => {
                    let advice = error.advice().map(|advice| format!(" ({advice})")).unwrap_or_default();
                    let sentence =
                        format!("- {} was NOT installed successfully: {}{advice}", role.name, error.message());
                    if self.locked.is_some() && !self.ignore_errors {
                        // Without the role, it would not be what the lock file describes.
                        return Err(Error::new(sentence));
                    }
                    self.galaxy.printer.warning(&sentence);
                    if !self.ignore_errors {
                        return Err(Error::new(
                            "- you can use --ignore-errors to skip failed roles and finish processing the list.",
                        ));
                    }
                }
            }
        }
        Ok(entries)
    }

    /// Installs one role, unless it is installed. Returns its lock entry, and whether it was installed now.
    fn role(&self, wanted: &Requirement) -> Result<(Entry, bool), Failure> {
        check_name(&wanted.name)?;
        let target = self.folder.join(&wanted.name);
        if let Some(installed) = Installed::read(&target) {
            let is_same = installed.version == wanted.version;
            let (is, other) = (installed.shown().to_owned(), wanted.version.as_deref().unwrap_or("unspecified"));
            if self.force {
                self.galaxy.say(&format!("- changing role {} from {is} to {other}", wanted.name));
            } else if is_same {
                self.galaxy.say(&format!("- {wanted} is already installed, skipping."));
                let entry = Entry::of(wanted, installed.commit, digest(&target)?);
                check(self.locked.as_deref(), &entry, STALE)?;
                return Ok((entry, false));
            } else {
                self.galaxy.printer.warning(&format!(
                    "- {} ({is}) is already installed - use --force to change version to {other}",
                    wanted.name
                ));
                return Err(Failure::Skipped);
            }
        }
        let mut wanted = wanted.clone();
        let fetched = self.fetch(&mut wanted)?;
        self.galaxy.say(&format!("- extracting {} to {}", wanted.name, target.display()));
        if target.exists() && !target.is_dir() {
            return Err(Error::new("the specified roles path exists and is not a directory.").into());
        }
        if target.is_dir() && !self.force {
            return Err(Error::new(format!(
                "the specified role {} appears to already exist. Use --force to replace it.",
                wanted.name
            ))
            .into());
        }
        let entry = Entry::of(&wanted, fetched.commit.clone(), digest(&fetched.folder)?);
        check(self.locked.as_deref(), &entry, CHANGED)?;
        replace(&fetched.folder, &target, &entry)?;
        self.galaxy.say(&format!("- {wanted} was installed successfully"));
        Ok((entry, true))
    }

    fn dependencies(&self, role: &Requirement, roles: &mut Vec<Requirement>) -> Result<()> {
        let target = self.folder.join(&role.name);
        let Some(wanted) = dependencies(&target, &self.galaxy.files)? else {
            let sentence = format!("Meta file {} is empty. Skipping dependencies.", target.display());
            self.galaxy.printer.warning(&sentence);
            return Ok(());
        };
        for wanted in wanted.into_iter().filter(|wanted| !wanted.is_local()) {
            let name = &wanted.name;
            match Installed::read(&self.folder.join(name)) {
                None if roles.iter().any(|role| role.name == *name) => {
                    self.galaxy.say(&format!("- dependency {name} already pending installation."));
                }
                None => {
                    self.galaxy.say(&format!("- adding dependency: {wanted}"));
                    roles.push(wanted);
                }
                Some(_) if self.whole && roles.iter().any(|role| role.name == *name) => {}
                Some(_) if self.force_dependencies || self.whole => roles.push(wanted),
                Some(installed) if installed.version == wanted.version => {
                    self.galaxy.say(&format!("- dependency {name} is already installed, skipping."));
                }
                Some(installed) => {
                    let (is, other) = (installed.shown(), wanted.version.as_deref().unwrap_or("unspecified"));
                    self.galaxy.printer.warning(&format!(
                        "- dependency {wanted} ({other}) from role {} differs from already installed version ({is}), skipping",
                        role.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// Downloads a role, at the locked commit if there is one, and sets its version.
    fn fetch(&self, wanted: &mut Requirement) -> Result<Fetched> {
        let commit = match &self.locked {
            Some(locked) => find(locked, &wanted.name)?.commit.clone(),
            None => None,
        };
        match wanted.scm.as_deref() {
            Some("git") => {
                let version = commit.as_deref().or(wanted.version.as_deref());
                let check_certificates = self.servers.first()?.check_certificates;
                return fetch::repository(&wanted.src, version, self.keep_git, check_certificates);
            }
            Some(other) => {
                return Err(Error::new(format!("repositories of type `{other}` are not supported, only git")));
            }
            None => {}
        }
        let temporary = fetch::temporary()?;
        let local = crate::settings::expand_home(&wanted.src);
        if local.is_file() {
            return fetch::archive(&local, temporary);
        }
        let path = temporary.path().join("archive");
        let address = if wanted.src.contains("://") {
            wanted.src.clone()
        } else {
            let (owner, role) = wanted.src.rsplit_once('.').unwrap_or(("", &wanted.src));
            self.galaxy.say(&format!("- downloading role '{role}', owned by {owner}"));
            let found = self.servers.of_roles()?.find(wanted)?;
            wanted.version = Some(found.version);
            found.address
        };
        self.galaxy.say(&format!("- downloading role from {address}"));
        self.servers.first()?.download(&address, &path)?;
        fetch::archive(&path, temporary)
    }
}

/// Reason why a role is not installed.
enum Failure {
    /// Another version is installed and stays.
    Skipped,
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Failed(error)
    }
}

/// Recorded installation of a role.
pub(super) struct Installed {
    pub(super) version: Option<String>,
    pub(super) install_date: Option<String>,
    commit: Option<String>,
}

impl Installed {
    pub(super) fn read(role: &Path) -> Option<Installed> {
        let text = windlass_bounds::read_text(role.join(INFO)).ok()?;
        let source = windlass_yaml::Source::new(INFO, &text);
        let node = windlass_yaml::load_one(source, &windlass_yaml::Options::default()).ok()?;
        let field = |name: &str| {
            let field = node.get(name).filter(|field| !field.is_null());
            field.and_then(|field| field.scalar_text()).filter(|text| !text.is_empty())
        };
        Some(Installed { version: field("version"), install_date: field("install_date"), commit: field("commit") })
    }

    fn shown(&self) -> &str {
        self.version.as_deref().unwrap_or_default()
    }
}

/// Fails if a name is not a plain directory name.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.starts_with(['.', '-']) || name.contains('/') {
        return Err(Error::new(format!("`{name}` is not a valid role name")));
    }
    Ok(())
}

fn digest(role: &Path) -> Result<String> {
    tree_digest(role).map_err(|error| Error::new(format!("{} cannot be read: {error}", role.display())))
}

/// Replaces an installed role once the new one is complete.
fn replace(from: &Path, target: &Path, entry: &Entry) -> Result<()> {
    let fail = |error: std::io::Error| Error::new(format!("Could not update files in {}: {error}", target.display()));
    let parent = target.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(fail)?;
    let new = tempfile::Builder::new().prefix(".installing-").tempdir_in(parent).map_err(fail)?;
    let content = new.path().join("content");
    copy_tree(from, from, &content).map_err(fail)?;
    fetch::check_links(&content).map_err(fail)?;
    note(&content, entry).map_err(fail)?;
    fetch::put_in_place(&content, target, &new.path().join("old")).map_err(fail)
}

/// Records the time, version and commit of a role's installation.
fn note(role: &Path, entry: &Entry) -> std::io::Result<()> {
    let date = jiff::Timestamp::now().strftime("%a %b %e %H:%M:%S %Y").to_string();
    let fields = [
        ("commit", entry.commit.clone()),
        ("install_date", Some(date)),
        ("version", Some(entry.version.clone().unwrap_or_default())),
    ];
    let text = |text: &str| Item::Str(text.to_owned());
    let fields = fields.into_iter().filter_map(|(key, value)| Some((text(key), text(&value?))));
    let options = DumpOptions { default_flow_style: Some(false), ..DumpOptions::to_yaml() };
    let written = dump(&Item::Map(fields.collect()), &options).map_err(std::io::Error::other)?;
    std::fs::write(role.join(INFO), written)
}
