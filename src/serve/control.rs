//! Users of a configuration: who they are, what they may start, and the record of it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use windlass_vault::Secrets as VaultSecrets;
use windlass_yaml::{DuplicateKeys, Node};

use super::access::{self, cookie, cookie_header};
use super::audit::{Audit, Event, Record};
use super::cluster::Cluster;
use super::config::{Config, ConfigFile, Startable};
use super::fields::{Field, Origin, may_set};
use super::sessions::{Session, Sessions};
use super::starts::{Start, Starts, settle};
use super::users::{self, Role, User};
use crate::error::{Error, Result};
use crate::http::server::{Answer, Request};
use crate::journal::State;
use crate::loader::argument_specs;
use crate::output::clipped;
use crate::playbook::Files;

/// Period in which refusals of one user, or of strangers, are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Number of refusals of one user, or of strangers, that are recorded within the period.
const REFUSALS: usize = 10;

/// Maximum length of a recorded reason, which may quote a request, in characters.
const REASON: usize = 500;

/// Configuration, passwords and places of pages with users.
pub struct Setup {
    /// The configuration file.
    pub config: PathBuf,
    /// Directory of the project, in which runs start.
    pub directory: PathBuf,
    /// Folders with roles, in addition to the folders of the playbooks.
    pub roles: Vec<PathBuf>,
    /// Options of each run, such as those for passwords of vaults.
    pub options: Vec<OsString>,
    /// Passwords of vaults.
    pub vault: VaultSecrets,
    /// Treatment of duplicate keys in files of the project.
    pub duplicate_keys: DuplicateKeys,
}

/// A run that goes on after the end of the server.
pub struct Ending {
    /// Name of the run's entry in the configuration, or the id of its journal.
    pub name: String,
    /// The user who started it.
    pub user: String,
}

/// A user who has signed in.
pub(super) struct Visitor {
    pub(super) user: User,
    pub(super) session: Session,
    /// Word of the cookie.
    pub(super) word: String,
    pub(super) config: Arc<Config>,
}

impl Visitor {
    /// Whether the user may cancel a run.
    pub(super) fn may_cancel(&self, start: &Start) -> bool {
        self.user.role == Role::Admin || (self.user.role >= Role::Operator && self.user.name == start.user)
    }
}

/// Users, sessions, runs and the audit trail.
pub(super) struct Control {
    config: ConfigFile,
    pub(super) sessions: Sessions,
    pub(super) audit: Arc<Audit>,
    pub(super) starts: Starts,
    refusals: Mutex<HashMap<Option<String>, Window>>,
    cookie: String,
    pub(super) directory: PathBuf,
    roles: Vec<PathBuf>,
    vault: VaultSecrets,
    duplicate_keys: DuplicateKeys,
}

/// Refusals of one user, or of strangers, in a period.
struct Window {
    since: Instant,
    count: usize,
}

impl Control {
    pub(super) fn new(address: SocketAddr, setup: Setup, state: &State, clusters: &[Cluster]) -> Result<Control> {
        let names = clusters.iter().map(|cluster| cluster.name.clone()).collect();
        let config = ConfigFile::open(setup.config, names)?;
        let audit = Arc::new(Audit::of(state)?);
        audit.add(Record::of(Event::Serving, address))?;
        settle(&audit, state)?;
        let starts = Starts::new(Arc::clone(&audit), state.clone(), setup.options, setup.directory.clone());
        Ok(Control {
            config,
            sessions: Sessions::default(),
            audit,
            starts,
            refusals: Mutex::default(),
            cookie: cookie(address),
            directory: setup.directory,
            roles: setup.roles,
            vault: setup.vault,
            duplicate_keys: setup.duplicate_keys,
        })
    }

    /// The user of a request; `None` if nobody has signed in. Fails with an answer if the configuration is not valid.
    pub(super) fn visitor(&self, request: &Request) -> std::result::Result<Option<Visitor>, Box<Answer>> {
        let config = self.configuration()?;
        let mut sessions = request.cookies(&self.cookie).filter_map(|word| {
            let (session, user) = self.sessions.find(word, &config.users)?;
            Some((session, user.clone(), word.to_owned()))
        });
        // With two sessions, one cookie may have been set by another user's server on this machine, which shares
        // cookies with all ports.
        let known = sessions.next();
        let known = known.filter(|(.., word)| sessions.all(|(.., other)| other == *word));
        Ok(known.map(|(session, user, word)| Visitor { user, session, word, config }))
    }

    pub(super) fn configuration(&self) -> std::result::Result<Arc<Config>, Box<Answer>> {
        self.config.current().map_err(|_| {
            let sentence = "the configuration file of this server is not valid any more, so nobody is let in; \
                            `windlass serve` has printed why";
            Box::new(Answer::sentence(StatusCode::SERVICE_UNAVAILABLE, sentence))
        })
    }

    /// Signs a user in. Returns `None` if no user has the token.
    pub(super) fn sign_in(&self, token: &str, request: &Request, config: &Config) -> Result<Option<Answer>> {
        let Some(user) = users::holder(&config.users, token) else { return Ok(None) };
        let (name, role) = (Some(user.name.clone()), Some(user.role.word().to_owned()));
        self.audit.add(Record { user: name, role, ..Record::of(Event::SignedIn, request.peer) })?;
        request.cookies(&self.cookie).for_each(|word| self.sessions.end(word));
        let word = self.sessions.begin(user)?;
        Ok(Some(see_other("/").with("set-cookie", cookie_header(&self.cookie, &word))))
    }

    /// Signs a user out.
    pub(super) fn sign_out(&self, visitor: &Visitor, request: &Request) -> Result<Answer> {
        self.sessions.end(&visitor.word);
        let user = Some(visitor.user.name.clone());
        self.audit.add(Record { user, ..Record::of(Event::SignedOut, request.peer) })?;
        let gone = format!("{}; Max-Age=0", cookie_header(&self.cookie, ""));
        Ok(see_other("/sign-in").with("set-cookie", gone))
    }

    /// Reason to refuse a form; `None` if a page of this server sent it in this session.
    pub(super) fn foreign(&self, visitor: &Visitor, request: &Request) -> Option<&'static str> {
        if !access::is_own_form(request) {
            return Some("the form was not sent by a page of this server");
        }
        let given = request.field("form_token").unwrap_or_default();
        (!users::is_same(given, &visitor.session.form_token))
            .then_some("the form belongs to another session: reload its page, and send it again")
    }

    /// Records a refusal of a user, or of a stranger. Of many in a short time, only the first are recorded, and the
    /// next record has the number of the others. Returns whether this one is recorded.
    pub(super) fn refused(&self, user: Option<&User>, mut record: Record) -> Result<bool> {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let key = user.map(|user| user.name.clone());
        let window = refusals.entry(key).or_insert_with(|| Window { since: Instant::now(), count: 0 });
        if window.since.elapsed() >= WINDOW {
            let more = window.count.saturating_sub(REFUSALS);
            record.count = (more > 0).then_some(more);
            *window = Window { since: Instant::now(), count: 0 };
        }
        window.count += 1;
        if window.count > REFUSALS {
            return Ok(false);
        }
        drop(refusals);
        record.reason = record.reason.map(|reason| clipped(&reason, REASON));
        record.user = user.map(|user| user.name.clone());
        record.role = user.map(|user| user.role.word().to_owned());
        self.audit.add(record).map(|()| true)
    }

    /// Fields of a playbook's form: its own, then its roles' fields.
    pub(super) fn fields(&self, startable: &Startable) -> Result<Vec<Field>> {
        let mut fields = startable.fields.clone();
        let files = Files::new(self.vault.clone(), self.duplicate_keys);
        let own = self.directory.join(&startable.playbook).with_file_name("roles");
        let folders: Vec<&PathBuf> = std::iter::once(&own).chain(&self.roles).collect();
        for name in &startable.variables_from {
            let Some(folder) = folders.iter().map(|folder| folder.join(name)).find(|folder| folder.is_dir()) else {
                return Err(Error::new(format!(
                    "no folder of roles has the role `{name}`, whose variables are wanted"
                )));
            };
            let specs = argument_specs(&folder, &files)?;
            let options = specs.as_ref().and_then(|specs| specs.get("main")?.get("options")).and_then(Node::as_map);
            for (key, spec) in options.into_iter().flat_map(|map| map.iter()) {
                // The role may take other variables too, but not from a form.
                if !key.as_str().is_some_and(may_set) {
                    continue;
                }
                let field = Field::of(&key.as_node(), spec, Origin::Role)?;
                match fields.iter_mut().find(|known| known.name == field.name) {
                    Some(known) => known.is_secret |= field.is_secret,
                    None => fields.push(field),
                }
            }
        }
        Ok(fields)
    }

    /// Records the end of the server.
    pub(super) fn end(&self) -> Vec<Ending> {
        let ending = |start: Arc<Start>| {
            let record = Record {
                event: Event::GoesOn,
                start: Some(start.id.clone()),
                run: start.run(),
                user: Some(start.user.clone()),
                ..Record::default()
            };
            // The server ends in any case.
            let _ = self.audit.add(record);
            let name = start.run().map_or_else(|| start.name.clone(), |run| format!("{}, run {run}", start.name));
            Ending { name, user: start.user.clone() }
        };
        self.starts.running().into_iter().map(ending).collect()
    }
}

/// An answer that leads to another page of this server.
pub(super) fn see_other(address: &str) -> Answer {
    Answer::sentence(StatusCode::SEE_OTHER, "see the other page").with("location", address)
}
