//! `windlass galaxy collection install`.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use semver::Version;

use super::given::{self, Content, Given};
use super::installed::{self, Installed};
use super::name::{Name, Range};
use super::requirement::Requirement;
use super::resolve::{Known, Resolution};
use super::signature::Signatures;
use super::verify;
use crate::cli::galaxy::fetch;
use crate::cli::galaxy::lock::{CHANGED, Entry, STALE, check, find};
use crate::cli::galaxy::server::{Server, Servers};
use crate::cli::galaxy::state::{Common, Galaxy};
use crate::error::{Error, Result};

/// Installs collections with these options.
pub(in crate::cli::galaxy) struct Installer<'a> {
    pub(in crate::cli::galaxy) galaxy: &'a Galaxy,
    pub(in crate::cli::galaxy) common: &'a Common,
    pub(in crate::cli::galaxy) servers: Servers,
    /// Directories of namespaces where collections are looked for; the first one is the target.
    pub(in crate::cli::galaxy) roots: Vec<PathBuf>,
    /// Reinstall wanted collections.
    pub(in crate::cli::galaxy) force: bool,
    /// Reinstall dependencies too.
    pub(in crate::cli::galaxy) force_dependencies: bool,
    pub(in crate::cli::galaxy) no_dependencies: bool,
    /// Prefer the newest version to the installed one.
    pub(in crate::cli::galaxy) upgrade: bool,
    pub(in crate::cli::galaxy) pre: bool,
    pub(in crate::cli::galaxy) offline: bool,
    /// Continue after a collection that fails.
    pub(in crate::cli::galaxy) ignore_errors: bool,
    /// Entries of a lock file that determine what to install.
    pub(in crate::cli::galaxy) locked: Option<Vec<Entry>>,
    /// Also visit installed collections, to lock all of them.
    pub(in crate::cli::galaxy) whole: bool,
    pub(in crate::cli::galaxy) signatures: Signatures<'a>,
}

/// Requirements of a command, with the archives and repositories already fetched.
#[derive(Default)]
pub(super) struct Request {
    pub(super) wanted: Vec<(Name, Range)>,
    pub(super) sources: HashMap<Name, Servers>,
    pub(super) given: HashMap<Name, Given>,
    /// Addresses of further signatures.
    pub(super) signatures: HashMap<Name, Vec<String>>,
}

impl Request {
    /// Fetches archives and repositories, so that all names and versions are known.
    pub(super) fn new(
        requirements: &[Requirement],
        locked: Option<&[Entry]>,
        common: &Common,
        galaxy: &Galaxy,
    ) -> Result<Request> {
        let mut request = Request::default();
        for requirement in requirements {
            if let Requirement::Published { name, range, server, .. } = requirement {
                request.wanted.push((name.clone(), range.clone()));
                request.signatures.entry(name.clone()).or_default().extend_from_slice(requirement.signatures());
                if let Some(server) = server {
                    // A token of the command line is for the server of the command line.
                    let common = Common { server: Some(server.clone()), token: None, ..common.clone() };
                    request.sources.insert(name.clone(), galaxy.servers(&common)?);
                }
                continue;
            }
            let commit = match (requirement, locked) {
                (Requirement::Git { url, .. }, Some(locked)) => {
                    let entry = locked.iter().find(|entry| entry.src == *url);
                    entry.and_then(|entry| entry.commit.as_deref())
                }
                _ => None,
            };
            for given in given::fetch(requirement, commit, common, galaxy)? {
                let (name, version) = (given.manifest().name.clone(), &given.manifest().version);
                request.wanted.push((name.clone(), Range::exactly(version)));
                request.signatures.entry(name.clone()).or_default().extend_from_slice(requirement.signatures());
                request.given.insert(name, given);
            }
        }
        Ok(request)
    }

    pub(super) fn resolution<'a>(self, servers: &'a Servers) -> (Resolution<'a>, HashMap<Name, Given>) {
        let described = |given: &Given| (given.manifest().version.clone(), given.manifest().dependencies.clone());
        let resolution = Resolution {
            servers,
            wanted: self.wanted,
            sources: self.sources,
            given: self.given.iter().map(|(name, given)| (name.clone(), described(given))).collect(),
            installed: BTreeMap::new(),
            locked: None,
            pre: false,
            no_dependencies: false,
            offline: false,
            known: Known::default(),
        };
        (resolution, self.given)
    }
}

impl<'a> Installer<'a> {
    /// Installs below the first of these directories of namespaces, without any option.
    pub(in crate::cli::galaxy) fn new(
        galaxy: &'a Galaxy,
        common: &'a Common,
        roots: Vec<PathBuf>,
        signatures: Signatures<'a>,
    ) -> Result<Installer<'a>> {
        Ok(Installer {
            galaxy,
            common,
            servers: galaxy.servers(common)?,
            roots,
            force: false,
            force_dependencies: false,
            no_dependencies: false,
            upgrade: false,
            pre: false,
            offline: false,
            ignore_errors: false,
            locked: None,
            whole: false,
            signatures,
        })
    }

    /// Installs collections and their dependencies. Returns the entries of a lock file.
    pub(in crate::cli::galaxy) fn install(&self, requirements: &[Requirement]) -> Result<Vec<Entry>> {
        let mut request = Request::new(requirements, self.locked.as_deref(), self.common, self.galaxy)?;
        self.galaxy.say("Starting galaxy collection install process");
        let mut installed: BTreeMap<Name, Installed> = BTreeMap::new();
        for collection in self.roots.iter().flat_map(|root| installed::all(root, self.galaxy)) {
            installed.entry(collection.name.clone()).or_insert(collection);
        }
        if !self.force && !self.force_dependencies && !self.upgrade && !self.whole {
            let is_met = |name: &Name, range: &Range| {
                installed.get(name).is_some_and(|installed| range.contains(installed.version.as_ref()))
            };
            request.wanted.retain(|(name, range)| !is_met(name, range));
            request.given.retain(|name, given| !is_met(name, &Range::exactly(&given.manifest().version)));
            if request.wanted.is_empty() {
                self.galaxy.say("Nothing to do. All requested collections are already installed. If you want to reinstall them, consider using `--force`.");
                return Ok(Vec::new());
            }
        }
        self.galaxy.say("Process install dependency map");
        let is_wanted = |name: &Name| request.wanted.iter().any(|(wanted, _)| wanted == name);
        let forced = |name: &Name| self.force_dependencies || (self.force && is_wanted(name));
        installed.retain(|name, _| !forced(name));
        let described = |installed: &Installed| Some((installed.version.clone()?, installed.dependencies.clone()));
        let sources = std::mem::take(&mut request.signatures);
        let (mut resolution, given) = request.resolution(&self.servers);
        if !self.upgrade {
            let known = installed.iter().filter_map(|(name, one)| Some((name.clone(), described(one)?)));
            resolution.installed = known.collect();
        }
        resolution.pre = self.pre;
        resolution.no_dependencies = self.no_dependencies;
        resolution.offline = self.offline;
        if let Some(locked) = &self.locked {
            resolution.wanted.iter().try_for_each(|(name, _)| find(locked, &name.to_string()).map(drop))?;
            given
                .values()
                .try_for_each(|given| check(self.locked.as_deref(), &entry_of(given, given.source.clone()), CHANGED))?;
            resolution.locked = Some(versions_of(locked)?);
        }
        let chosen = resolution.solve()?;
        self.galaxy.say("Starting collection install process");
        let mut entries = Vec::new();
        for (name, version) in chosen {
            let present = installed.get(&name).filter(|installed| installed.version.as_ref() == Some(&version));
            let given = given.get(&name);
            let outcome = match present {
                Some(present) => self.present(present, given),
                None => {
                    let sources = sources.get(&name).map_or(&[][..], Vec::as_slice);
                    self.one(&name, &version, given, &resolution, sources).map(Some)
                }
            };
            match outcome {
                Ok(entry) => entries.extend(entry),
                Err(error) if self.ignore_errors => {
                    let message = error.message();
                    self.galaxy.printer.warning(&format!(
                        "Failed to install collection {name} but skipping due to --ignore-errors being set. Error: {message}"
                    ));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    /// Skips an installed collection. For a lock file, none of its files may have changed.
    fn present(&self, installed: &Installed, given: Option<&Given>) -> Result<Option<Entry>> {
        let (name, version) = (installed.name.to_string(), installed.version_text());
        self.galaxy.say(&format!("'{name}:{version}' is already installed, skipping."));
        if !self.whole {
            return Ok(None);
        }
        let manifest = installed.manifest()?;
        let changed = verify::differences(&manifest, &installed.folder)?;
        if let Some(first) = changed.first() {
            return Err(Error::new(format!("the installed {name} has a changed file, {}", first.display()))
                .hint("reinstall it with --force"));
        }
        let source = given.map_or_else(|| "installed".to_owned(), |given| given.source.clone());
        let commit = given.and_then(|given| given.commit.clone());
        let entry = Entry { name, src: source, version: Some(version), commit, sha256: manifest.sha256() };
        check(self.locked.as_deref(), &entry, STALE)?;
        Ok(Some(entry))
    }

    fn one(
        &self,
        name: &Name,
        version: &Version,
        given: Option<&Given>,
        resolution: &Resolution<'_>,
        signatures: &[String],
    ) -> Result<Entry> {
        let downloaded;
        let (given, source) = match given {
            Some(given) => {
                match given.content {
                    Content::Archive { .. } => self.verify_signatures(given, &[], signatures, self.servers.first()?)?,
                    Content::Tree(_) => self.signatures.refuse_unsigned(name, &given.source)?,
                }
                (given, given.source.clone())
            }
            None => {
                downloaded = download(name, version, resolution, self.galaxy)?;
                let (server, published) = (resolution.server(name)?, resolution.published(name, version)?);
                self.verify_signatures(&downloaded, &published.signatures, signatures, server)?;
                (&downloaded, server.address.clone())
            }
        };
        let root = self.roots.first().cloned().unwrap_or_default();
        let target = root.join(&name.namespace).join(&name.name);
        let entry = entry_of(given, source);
        check(self.locked.as_deref(), &entry, CHANGED)?;
        self.galaxy.say(&format!("Installing '{name}:{version}' to '{}'", target.display()));
        replace(given, &root, &target)?;
        if let Content::Tree(_) = given.content {
            self.galaxy.say(&format!("Created collection for {name}:{version} at {}", target.display()));
        }
        self.galaxy.say(&format!("{name}:{version} was installed successfully"));
        Ok(entry)
    }

    fn verify_signatures(&self, given: &Given, own: &[String], sources: &[String], server: &Server) -> Result<()> {
        let manifest = given.manifest();
        self.signatures.verify(&manifest.name, &manifest.manifest, own, sources, server)
    }
}

/// Entry of a lock file.
fn entry_of(given: &Given, source: String) -> Entry {
    let manifest = given.manifest();
    Entry {
        name: manifest.name.to_string(),
        src: source,
        version: Some(manifest.version.to_string()),
        commit: given.commit.clone(),
        sha256: manifest.sha256(),
    }
}

fn versions_of(locked: &[Entry]) -> Result<HashMap<Name, Version>> {
    let version = |entry: &Entry| {
        let text = entry.version.as_deref().unwrap_or_default();
        let version = Version::parse(text).map_err(|error| {
            Error::new(format!("the lock file has no valid version of {}, but `{text}`: {error}", entry.name))
        });
        Ok((Name::require(&entry.name)?, version?))
    };
    locked.iter().map(version).collect()
}

/// Downloads a published collection. Fails if the archive has another name or version.
pub(super) fn download(name: &Name, version: &Version, resolution: &Resolution<'_>, galaxy: &Galaxy) -> Result<Given> {
    let published = resolution.published(name, version)?;
    let temporary = fetch::temporary()?;
    let path = temporary.path().join(format!("{}-{}-{version}.tar.gz", name.namespace, name.name));
    galaxy.say(&format!("Downloading {} to {}", published.address, path.display()));
    let server = resolution.server(name)?;
    server.download_checked(&published.address, &published.sha256, published.size, &path)?;
    let given = Given::archive(path, published.address.clone(), Some(temporary))?;
    let manifest = given.manifest();
    if manifest.name != *name || manifest.version != *version {
        let (other, its) = (&manifest.name, &manifest.version);
        return Err(Error::new(format!("{} has {other} {its} and not {name} {version}", published.address)));
    }
    Ok(given)
}

/// Replaces an installed collection once the new one is complete.
fn replace(given: &Given, root: &Path, target: &Path) -> Result<()> {
    let fail = |error: std::io::Error| Error::new(format!("{} cannot be installed: {error}", target.display()));
    std::fs::create_dir_all(target.parent().unwrap_or(root)).map_err(fail)?;
    let staged = tempfile::Builder::new().prefix(".installing-").tempdir_in(root).map_err(fail)?;
    let (new, old) = (staged.path().join("new"), staged.path().join("old"));
    std::fs::create_dir(&new).map_err(fail)?;
    given.write(&new)?;
    fetch::put_in_place(&new, target, &old).map_err(fail)
}
