//! `windlass galaxy collection`: builds, installs and verifies collections.

mod archive;
mod download;
mod given;
mod init;
mod install;
mod installed;
mod list;
mod manifest;
mod name;
mod published;
mod requirement;
mod resolve;
mod signature;
mod tree;
mod verify;

use std::path::{Path, PathBuf};

pub(super) use self::install::Installer;
pub(super) use self::requirement::Requirement;
pub(super) use self::signature::{Options as SignatureOptions, Signatures};
use self::tree::Tree;
use self::verify::Verifier;
use super::lock::Lock;
use super::state::{Common, Galaxy};
use crate::error::{Error, Result};
use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Install collections and their dependencies
    Install(Install),
    /// List installed collections
    List(List),
    /// Compare installed collections with what was published
    Verify(Verify),
    /// Download collections and their dependencies for an offline installation
    Download(Download),
    /// Build the archive of a collection
    Build(Build),
    /// Create a new collection
    Init(init::Init),
}

/// Options of verbs that choose versions.
#[derive(Debug, Args)]
struct Wanted {
    /// Collections as `NAMESPACE.NAME[:VERSION]`, an archive, a directory, a URL, or `git+URL[#DIRECTORY][,VERSION]`; a
    /// version may also be a range such as `>=1.0.0,<2.0.0`
    #[arg(value_name = "COLLECTION")]
    sources: Vec<String>,
    /// Read collections from this requirements file
    #[arg(short = 'r', long = "requirements-file", value_name = "FILE")]
    requirements: Option<PathBuf>,
    /// Do not take dependencies
    #[arg(short, long)]
    no_deps: bool,
    /// Choose pre-releases too
    #[arg(long)]
    pre: bool,
    /// Accepted for compatibility; answers of servers are not kept
    #[arg(long)]
    no_cache: bool,
    /// Accepted for compatibility; answers of servers are not kept
    #[arg(long)]
    clear_response_cache: bool,
}

#[derive(Debug, Args)]
pub(super) struct Install {
    #[command(flatten)]
    wanted: Wanted,
    /// Directory for collections [default: the first of `collections_path`]
    #[arg(short = 'p', long, value_name = "DIR")]
    collections_path: Option<String>,
    /// Reinstall collections that are already installed
    #[arg(short, long)]
    force: bool,
    /// Reinstall dependencies too
    #[arg(long, conflicts_with = "no_deps")]
    force_with_deps: bool,
    /// Continue with the next collection after an error
    #[arg(short, long)]
    ignore_errors: bool,
    /// Upgrade to the newest versions, also dependencies
    #[arg(short = 'U', long)]
    upgrade: bool,
    /// Contact no Galaxy server
    #[arg(long)]
    offline: bool,
    /// Do not verify signatures
    #[arg(long)]
    disable_gpg_verify: bool,
    /// URL of a further signature of the collection, also `file://`; repeatable
    #[arg(long = "signature", value_name = "URL", conflicts_with = "requirements")]
    signatures: Vec<String>,
    /// Write versions and hashes to requirements.lock beside the requirements file
    #[arg(long, requires = "requirements")]
    lock: bool,
    /// Install exactly the versions and hashes in the lock file
    #[arg(long, requires = "requirements", conflicts_with_all = ["lock", "upgrade"])]
    locked: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    signature_options: SignatureOptions,
}

/// Directories of collections.
#[derive(Debug, Args)]
struct Places {
    /// Directory of collections, searched before the configured ones; repeatable
    #[arg(short = 'p', long, value_name = "DIR")]
    collections_path: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Show only this collection
    #[arg(value_name = "COLLECTION")]
    name: Option<String>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    format: Format,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Human,
    Json,
    Yaml,
}

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// Installed collections as `NAMESPACE.NAME[:VERSION]`
    #[arg(value_name = "COLLECTION")]
    names: Vec<String>,
    /// Read collections from this requirements file
    #[arg(short = 'r', long = "requirements-file", value_name = "FILE")]
    requirements: Option<PathBuf>,
    /// Compare with the installed manifest, without a server
    #[arg(long)]
    offline: bool,
    /// Continue with the next collection after an error
    #[arg(short, long)]
    ignore_errors: bool,
    /// URL of a further signature of the collection, also `file://`; repeatable
    #[arg(long = "signature", value_name = "URL", conflicts_with = "requirements")]
    signatures: Vec<String>,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    signature_options: SignatureOptions,
}

#[derive(Debug, Args)]
pub(super) struct Download {
    #[command(flatten)]
    wanted: Wanted,
    /// Directory for the archives
    #[arg(short = 'p', long, value_name = "DIR", default_value = "./collections")]
    download_path: PathBuf,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub(super) struct Build {
    /// Directories with galaxy.yml
    #[arg(value_name = "DIR", default_value = ".")]
    folders: Vec<PathBuf>,
    /// Directory for the archive
    #[arg(long, value_name = "DIR", default_value = "./")]
    output_path: PathBuf,
    /// Replace an existing archive
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the subcommand.
pub(super) fn run(verb: &Verb, galaxy: &Galaxy) -> Result<u8> {
    match verb {
        Verb::Install(arguments) => install(arguments, galaxy),
        Verb::List(arguments) => {
            let roots = roots(&arguments.places.collections_path, galaxy);
            list::run(arguments.name.as_deref(), arguments.format, &roots, galaxy)
        }
        Verb::Verify(arguments) => {
            let verifier = Verifier {
                galaxy,
                common: &arguments.common,
                servers: galaxy.servers(&arguments.common)?,
                roots: roots(&arguments.places.collections_path, galaxy),
                offline: arguments.offline,
                ignore_errors: arguments.ignore_errors,
                signatures: Signatures::new(&arguments.signature_options, false, galaxy)?,
            };
            let wanted = wanted(&arguments.names, arguments.requirements.as_deref(), &arguments.signatures, galaxy)?;
            Ok(u8::from(!verifier.verify(&wanted)?))
        }
        Verb::Download(arguments) => download::run(arguments, galaxy),
        Verb::Build(arguments) => {
            arguments.folders.iter().try_for_each(|folder| build(folder, arguments, galaxy)).map(|()| 0)
        }
        Verb::Init(arguments) => init::run(arguments, galaxy),
    }
}

/// Requirements from arguments, with the addresses of their signatures, or from a file.
fn wanted(words: &[String], file: Option<&Path>, signatures: &[String], galaxy: &Galaxy) -> Result<Vec<Requirement>> {
    let Some(file) = file else {
        if words.is_empty() {
            return Err(Error::new("You must specify a collection name or a requirements file."));
        }
        let requirements = words.iter().map(|word| Requirement::of_word(word)).collect::<Result<Vec<_>>>()?;
        let requirements = requirements.into_iter().flatten();
        return requirements.map(|requirement| requirement.signed_by(signatures.to_vec())).collect();
    };
    if !words.is_empty() {
        return Err(Error::new("The positional collection_name arg and --requirements-file are mutually exclusive."));
    }
    let path = crate::paths::absolute(&crate::settings::expand_home(&file.to_string_lossy()));
    Ok(super::requirement::read(&path, &galaxy.files)?.collections)
}

/// Directories of namespaces: the option's, then the configured ones.
fn roots(given: &[String], galaxy: &Galaxy) -> Vec<PathBuf> {
    let given = given.iter().flat_map(|text| text.split(':')).filter(|part| !part.is_empty());
    let given = given.map(crate::settings::expand_home);
    let all = given.chain(galaxy.settings.code.collections_path.iter().cloned());
    all.map(|path| installed::root(&crate::paths::absolute(&path))).collect()
}

fn install(arguments: &Install, galaxy: &Galaxy) -> Result<u8> {
    let requirements = arguments.wanted.requirements.as_deref();
    let wanted = wanted(&arguments.wanted.sources, requirements, &arguments.signatures, galaxy)?;
    let signatures = Signatures::new(&arguments.signature_options, arguments.disable_gpg_verify, galaxy)?;
    let lock_path = requirements.unwrap_or(Path::new("")).with_extension("lock");
    let locked = if arguments.locked { Some(Lock::read(&lock_path, &galaxy.files)?.collections) } else { None };
    if let Some(path) = &arguments.collections_path {
        warn_of_unused(&installed::root(&crate::paths::absolute(&crate::settings::expand_home(path))), galaxy);
    }
    let installer = Installer {
        force: arguments.force || arguments.force_with_deps,
        force_dependencies: arguments.force_with_deps,
        no_dependencies: arguments.wanted.no_deps,
        upgrade: arguments.upgrade,
        pre: arguments.wanted.pre,
        offline: arguments.offline,
        ignore_errors: arguments.ignore_errors,
        locked,
        whole: arguments.lock || arguments.locked,
        ..Installer::new(galaxy, &arguments.common, roots(arguments.collections_path.as_slice(), galaxy), signatures)?
    };
    let collections = installer.install(&wanted)?;
    if arguments.lock {
        // The entries of roles belong to another command.
        let roles = if lock_path.is_file() { Lock::read(&lock_path, &galaxy.files)?.roles } else { Vec::new() };
        Lock { roles, collections }.write(&lock_path, galaxy)?;
    }
    Ok(0)
}

/// Warns if no run will find the installed collections.
fn warn_of_unused(root: &Path, galaxy: &Galaxy) {
    if roots(&[], galaxy).iter().any(|configured| configured == root) {
        return;
    }
    let path = if root.ends_with("ansible_collections") { root.parent().unwrap_or(root) } else { root };
    let configured: Vec<String> =
        galaxy.settings.code.collections_path.iter().map(|path| path.display().to_string()).collect();
    galaxy.printer.warning(&format!(
        "The specified collections path '{}' is not part of the configured Ansible collections paths '{}'. The installed collection will not be picked up in an Ansible run, unless within a playbook-adjacent collections directory.",
        path.display(),
        configured.join(":")
    ));
}

fn build(folder: &Path, arguments: &Build, galaxy: &Galaxy) -> Result<()> {
    let tree = Tree::read(&crate::paths::absolute(folder), galaxy)?;
    let output = crate::paths::absolute(&arguments.output_path);
    let path = output.join(archive_name(&tree.manifest));
    if path.is_dir() {
        return Err(Error::new(format!(
            "The output collection artifact '{}' already exists, but is a directory - aborting",
            path.display()
        )));
    }
    if path.exists() && !arguments.force {
        return Err(Error::new(format!(
            "The file '{}' already exists. You can use --force to re-create the collection artifact.",
            path.display()
        )));
    }
    archive::write(&tree, &path)?;
    galaxy.say(&format!("Created collection for {} at {}", tree.manifest.name, path.display()));
    Ok(())
}

fn archive_name(manifest: &manifest::Manifest) -> String {
    format!("{}-{}-{}.tar.gz", manifest.name.namespace, manifest.name.name, manifest.version)
}

/// Installs the collections of a requirements file with the options of `windlass galaxy install`.
pub(super) fn install_all(
    collections: &[Requirement],
    arguments: &super::Install,
    locked: Option<Vec<super::lock::Entry>>,
    galaxy: &Galaxy,
) -> Result<Vec<super::lock::Entry>> {
    let signatures = Signatures::new(&arguments.signature_options, arguments.disable_gpg_verify, galaxy)?;
    let installer = Installer {
        force: arguments.force || arguments.force_with_deps,
        force_dependencies: arguments.force_with_deps,
        no_dependencies: arguments.no_deps,
        ignore_errors: arguments.ignore_errors,
        locked,
        whole: arguments.lock || arguments.locked,
        ..Installer::new(galaxy, &arguments.common, roots(&[], galaxy), signatures)?
    };
    installer.install(collections)
}
