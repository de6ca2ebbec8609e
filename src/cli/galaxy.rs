//! `windlass galaxy`: installs roles and collections from git repositories, archives and Galaxy servers.

mod collection;
mod fetch;
mod init;
mod install;
mod lock;
mod requirement;
mod server;
mod show;
mod state;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use self::install::Installer;
use self::lock::Lock;
use self::state::{Common, Galaxy, Places};
use crate::error::{Error, Result};

/// Install, create and inspect roles and collections
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass galaxy install -r requirements.yml                    # install roles and collections
  windlass galaxy install -r requirements.yml --lock             # pin what was installed
  windlass galaxy install git+https://example.com/role.git,v1.2  # install from git
  windlass galaxy init my_role --init-path roles                 # create a role
  windlass galaxy list                                           # list installed roles
  windlass galaxy info geerlingguy.nginx                         # show details of a role
  windlass galaxy remove geerlingguy.nginx                       # remove a role
  windlass galaxy role install geerlingguy.nginx                 # install a role alone
  windlass galaxy collection install 'community.general:>=8.0.0' # install a collection
  windlass galaxy collection verify community.general            # find changed files
  windlass galaxy collection list community.general              # show the installed version
  windlass galaxy collection download community.general -p files # for an offline machine
  windlass galaxy collection init my_namespace.my_collection     # create a collection
  windlass galaxy collection build my_collection                 # pack a collection into an archive")]
pub(super) struct Arguments {
    /// Increase verbosity
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Manage roles
    #[command(subcommand)]
    Role(RoleVerb),
    /// Manage collections
    #[command(subcommand)]
    Collection(collection::Verb),
    /// The same subcommands without `role`; `install` also installs the collections of a requirements file
    #[command(flatten)]
    Implicit(RoleVerb),
}

#[derive(Debug, Subcommand)]
enum RoleVerb {
    /// Install roles and their dependencies
    Install(Install),
    /// Create a new role
    #[command(after_help = "Examples:\n  windlass galaxy role init my_role --init-path roles")]
    Init(init::Init),
    /// List installed roles
    #[command(after_help = "Examples:\n  windlass galaxy role list\n  windlass galaxy role list geerlingguy.nginx")]
    List(List),
    /// Remove installed roles
    #[command(after_help = "Examples:\n  windlass galaxy role remove geerlingguy.nginx")]
    Remove(Remove),
    /// Show details of roles
    #[command(after_help = "Examples:\n  windlass galaxy role info geerlingguy.nginx")]
    Info(Info),
}

#[derive(Debug, Args)]
struct Install {
    /// Roles as `SOURCE[,VERSION[,NAME]]`; the source is a git repository (`git+URL`), an archive, a URL or a name on
    /// a Galaxy server
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Read roles from this requirements file; `galaxy install` takes its collections too
    #[arg(short = 'r', long = "role-file", value_name = "FILE")]
    requirements: Option<PathBuf>,
    /// Reinstall roles that are already installed
    #[arg(short, long)]
    force: bool,
    /// Reinstall dependencies too
    #[arg(long, conflicts_with = "no_deps")]
    force_with_deps: bool,
    /// Do not install dependencies
    #[arg(short, long)]
    no_deps: bool,
    /// Continue with the next role after an error
    #[arg(short, long)]
    ignore_errors: bool,
    /// Keep the .git directory
    #[arg(short = 'g', long)]
    keep_scm_meta: bool,
    /// Write the installed commits and hashes to requirements.lock beside the requirements file
    #[arg(long, requires = "requirements")]
    lock: bool,
    /// Install exactly the commits and hashes in the lock file
    #[arg(long, requires = "requirements", conflicts_with = "lock")]
    locked: bool,
    /// Do not verify signatures of collections
    #[arg(long)]
    disable_gpg_verify: bool,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    signature_options: collection::SignatureOptions,
}

#[derive(Debug, Args)]
struct List {
    /// Show only this role
    #[arg(value_name = "ROLE")]
    name: Option<String>,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Remove {
    /// Roles to remove
    #[arg(value_name = "ROLE", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Info {
    /// Roles to show
    #[arg(value_name = "ROLE", required = true)]
    names: Vec<String>,
    /// Do not contact a server
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    common: Common,
}

/// Requirements that a command installs.
#[derive(PartialEq, Eq)]
enum Extent {
    Roles,
    RolesAndCollections,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let galaxy = Galaxy::new()?;
    let verb = match &arguments.verb {
        Verb::Collection(verb) => return collection::run(verb, &galaxy),
        Verb::Implicit(RoleVerb::Install(install)) => return galaxy.install(install, Extent::RolesAndCollections),
        Verb::Role(verb) | Verb::Implicit(verb) => verb,
    };
    match verb {
        RoleVerb::Install(install) => galaxy.install(install, Extent::Roles),
        RoleVerb::Init(init) => init::run(init, &galaxy),
        RoleVerb::List(list) => show::list(list.name.as_deref(), &galaxy.places(&list.places), &galaxy),
        RoleVerb::Remove(remove) => show::remove(&remove.names, &galaxy.places(&remove.places), &galaxy),
        RoleVerb::Info(info) => {
            let servers = galaxy.servers(&info.common)?;
            let servers = Some(&servers).filter(|_| !info.offline);
            show::info(&info.names, &galaxy.places(&info.places), servers, &galaxy)
        }
    }
}

/// Writes a role below a directory of roles.
pub(super) fn new_role(name: &str, roles: &Path) -> Result<u8> {
    init::run(&init::Init::new(name, roles), &Galaxy::new()?)
}

impl Galaxy {
    /// Installs roles. Also installs collections if `extent` includes them and the user gave no path for roles.
    fn install(&self, install: &Install, extent: Extent) -> Result<u8> {
        let (roles, mut collections) = self.requirements(install)?;
        let with_collections = extent == Extent::RolesAndCollections && install.places.roles_path.is_empty();
        if !with_collections && !collections.is_empty() {
            let path = crate::paths::absolute(install.requirements.as_deref().unwrap_or(Path::new("")));
            self.printer.warning(&format!(
                "the collections in {} are not installed: use `windlass galaxy install -r` without a path for roles, or `windlass galaxy collection install -r`",
                path.display()
            ));
            collections.clear();
        }
        if roles.is_empty() && collections.is_empty() {
            self.say("Skipping install, no requirements found");
            return Ok(0);
        }
        let lock_path = install.requirements.as_deref().unwrap_or(Path::new("")).with_extension("lock");
        let locked = if install.locked { Some(Lock::read(&lock_path, &self.files)?) } else { None };
        let (locked_roles, locked_collections) = locked.map(|lock| (lock.roles, lock.collections)).unzip();
        let mut lock = Lock::default();
        if !roles.is_empty() {
            lock.roles = self.installer(install, locked_roles)?.install(roles)?;
        }
        if !collections.is_empty() {
            lock.collections = collection::install_all(&collections, install, locked_collections, self)?;
        }
        if install.lock {
            lock.write(&lock_path, self)?;
        }
        Ok(0)
    }

    fn installer(&self, install: &Install, locked: Option<Vec<lock::Entry>>) -> Result<Installer<'_>> {
        Ok(Installer {
            galaxy: self,
            servers: self.servers(&install.common)?,
            folder: self.places(&install.places).first().cloned().unwrap_or_else(|| PathBuf::from(".")),
            force: install.force || install.force_with_deps,
            force_dependencies: install.force_with_deps,
            no_dependencies: install.no_deps,
            ignore_errors: install.ignore_errors,
            keep_git: install.keep_scm_meta,
            locked,
            whole: install.lock || install.locked,
        })
    }

    /// Roles and collections from the arguments or the requirements file.
    fn requirements(&self, install: &Install) -> Result<(Vec<requirement::Requirement>, Vec<collection::Requirement>)> {
        let Some(path) = &install.requirements else {
            if install.sources.is_empty() {
                return Err(Error::usage("- you must specify a user/role name or a roles file"));
            }
            let roles = install.sources.iter().map(|word| requirement::Requirement::of_word(word));
            return Ok((roles.collect::<Result<_>>()?, Vec::new()));
        };
        let path = crate::paths::absolute(&crate::settings::expand_home(&path.to_string_lossy()));
        if !path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml") {
            return Err(Error::new("Invalid role requirements file, it must end with a .yml or .yaml extension"));
        }
        let mut wanted = requirement::read(&path, &self.files)?;
        // Names on the command line select from the file.
        wanted.roles.retain(|role| install.sources.is_empty() || install.sources.contains(&role.name));
        Ok((wanted.roles, wanted.collections))
    }
}
