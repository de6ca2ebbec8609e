//! Authenticates with named keys, the agent's keys, keys in the default places and then the password, once.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use russh::MethodKind;
use russh::client::{AuthResult, Handle, KeyboardInteractiveAuthResponse};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use ssh_key::{Algorithm, Certificate, HashAlg, PublicKey};
use tokio::net::UnixStream;

use crate::client::{Client, Shared};
use crate::keys::{FileSigner, KeyFile, KeyStore, read_certificate};
use crate::resolved::Resolved;
use crate::{Error, Secret, Settings};

/// Maximum number of keyboard-interactive rounds.
const MAX_ROUNDS: usize = 5;

/// One authentication attempt.
#[derive(Debug, Clone, PartialEq)]
enum Attempt {
    /// A key from a file or the agent, with an optional certificate.
    Key(Box<Candidate>),
    Password,
    KeyboardInteractive,
    /// Asks the server which methods it accepts.
    None,
}

#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    public: PublicKey,
    certificate: Option<Certificate>,
    holder: Holder,
}

#[derive(Debug, Clone, PartialEq)]
enum Holder {
    File(PathBuf),
    Agent,
}

impl Attempt {
    fn method(&self) -> MethodKind {
        match self {
            Self::Key(_) => MethodKind::PublicKey,
            Self::Password => MethodKind::Password,
            Self::KeyboardInteractive => MethodKind::KeyboardInteractive,
            Self::None => MethodKind::None,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Key(candidate) => {
                let kind = if candidate.certificate.is_some() { "certificate" } else { "key" };
                let fingerprint = candidate.public.fingerprint(HashAlg::Sha256);
                match &candidate.holder {
                    Holder::File(path) => format!("the {kind} {} ({fingerprint})", path.display()),
                    Holder::Agent => format!("the agent's {kind} {fingerprint}"),
                }
            }
            Self::Password => "the password".into(),
            Self::KeyboardInteractive => "the password (keyboard-interactive)".into(),
            Self::None => "nothing".into(),
        }
    }
}

/// Collects the keys to offer.
struct Offers {
    certificates: Vec<Certificate>,
    /// Keys in the agent.
    held: Vec<AgentIdentity>,
    candidates: Vec<Candidate>,
}

impl Offers {
    fn add_file(&mut self, file: &KeyFile) {
        let held = self.held.iter().any(|identity| {
            matches!(identity, AgentIdentity::PublicKey { key, .. } if key.key_data() == file.public.key_data())
        });
        // If the agent has the key too, it signs, which needs no passphrase.
        self.add_key(&file.public, &if held { Holder::Agent } else { Holder::File(file.path.clone()) });
    }

    fn add_identity(&mut self, identity: &AgentIdentity) {
        match identity {
            AgentIdentity::Certificate { certificate, .. } => {
                self.add(&identity.public_key(), Some(certificate.clone()), Holder::Agent);
            }
            AgentIdentity::PublicKey { key, .. } => self.add_key(key, &Holder::Agent),
        }
    }

    /// Adds a key after its certificates: a server that trusts the authority often does not know the bare key.
    fn add_key(&mut self, public: &PublicKey, holder: &Holder) {
        let certificates = self.certificates.iter().filter(|found| found.public_key() == public.key_data());
        for certificate in certificates.cloned().collect::<Vec<_>>() {
            self.add(public, Some(certificate), holder.clone());
        }
        self.add(public, None, holder.clone());
    }

    fn add(&mut self, public: &PublicKey, certificate: Option<Certificate>, holder: Holder) {
        let same = |candidate: &Candidate| {
            candidate.public.key_data() == public.key_data() && candidate.certificate == certificate
        };
        if !self.candidates.iter().any(same) {
            self.candidates.push(Candidate { public: public.clone(), certificate, holder });
        }
    }
}

/// The authentication of one connection.
pub(crate) struct Authentication<'a> {
    handle: &'a mut Handle<Client>,
    resolved: &'a Resolved,
    settings: &'a Settings,
    keys: &'a Arc<KeyStore>,
    shared: &'a Shared,
    agent: Option<AgentClient<UnixStream>>,
    tried: Vec<String>,
    complaints: Vec<String>,
    accepts: Option<Vec<MethodKind>>,
}

impl<'a> Authentication<'a> {
    pub(crate) fn new(
        handle: &'a mut Handle<Client>,
        resolved: &'a Resolved,
        settings: &'a Settings,
        keys: &'a Arc<KeyStore>,
        shared: &'a Shared,
    ) -> Self {
        Self {
            handle,
            resolved,
            settings,
            keys,
            shared,
            agent: None,
            tried: Vec::new(),
            complaints: Vec::new(),
            accepts: None,
        }
    }

    /// Makes one attempt after the other until the server accepts.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        let mut all = self.attempts().await;
        if !matches!(all.first(), Some(Attempt::Key(_))) {
            // A password is only sent by a method that the server supports: each way of offering it counts as a login.
            all.insert(0, Attempt::None);
        }
        let mut queue: VecDeque<Attempt> = all.iter().cloned().collect();
        while let Some(attempt) = queue.pop_front() {
            let method = attempt.method();
            if self.accepts.as_ref().is_some_and(|accepts| !accepts.contains(&method)) {
                continue;
            }
            match self.attempt(&attempt).await? {
                AuthResult::Success => {
                    tracing::debug!(host = self.resolved.peer(), "authenticated by {}", attempt.describe());
                    return Ok(());
                }
                AuthResult::Failure { remaining_methods, partial_success } => {
                    let verdict = if partial_success { "wants more than" } else { "does not accept" };
                    tracing::debug!(host = self.resolved.peer(), "the server {verdict} {}", attempt.describe());
                    if remaining_methods.is_empty() && !partial_success {
                        break;
                    }
                    self.accepts = Some(remaining_methods.to_vec());
                    if method != MethodKind::None {
                        self.tried.push(attempt.describe());
                    }
                    if partial_success {
                        // The server wants several proofs: it may now accept a method that it refused before.
                        all.retain(|other| *other != attempt);
                        queue = all.iter().cloned().collect();
                    } else if method == MethodKind::Password {
                        // Repeating the same password would only bring the account closer to being locked.
                        queue.retain(|other| other.method() != MethodKind::KeyboardInteractive);
                    }
                }
            }
        }
        Err(self.refused())
    }

    async fn attempts(&mut self) -> Vec<Attempt> {
        let options = &self.resolved.options;
        let mut attempts: Vec<Attempt> = Vec::new();
        if options.public_key_authentication.unwrap_or(true) {
            let candidates = self.candidates().await;
            attempts.extend(candidates.into_iter().map(|candidate| Attempt::Key(Box::new(candidate))));
        }
        if self.settings.password.is_some() {
            if self.shared.lock().unwrap_or_else(PoisonError::into_inner).accepted.changed {
                self.complaints.push("the password was not sent, since the host key has changed".into());
            } else {
                let options = &self.resolved.options;
                if options.password_authentication.unwrap_or(true) {
                    attempts.push(Attempt::Password);
                }
                if options.keyboard_interactive.unwrap_or(true) {
                    attempts.push(Attempt::KeyboardInteractive);
                }
            }
        }
        if let Some(preferred) = &self.resolved.options.preferred_authentications {
            let rank = |attempt: &Attempt| {
                let name: &'static str = (&attempt.method()).into();
                preferred.iter().position(|wanted| wanted == name)
            };
            attempts.retain(|attempt| rank(attempt).is_some());
            attempts.sort_by_key(rank);
        }
        attempts
    }

    /// The keys to offer, each once. Named files come first: an agent full of other keys would exhaust the server's
    /// limit.
    async fn candidates(&mut self) -> Vec<Candidate> {
        let resolved = self.resolved;
        let identities = self.agent_identities().await;
        let named = self.key_files(resolved.identity_files.iter());
        let usual = self.key_files(resolved.default_identity_files.iter().filter(|path| path.exists()));
        let mut certificates: Vec<Certificate> =
            resolved.certificate_files.iter().filter_map(|path| read_certificate(path)).collect();
        certificates.extend(named.iter().chain(&usual).filter_map(|file| file.certificate.clone()));
        let mut offers = Offers { certificates, held: identities.clone(), candidates: Vec::new() };
        for file in &named {
            offers.add_file(file);
        }
        if !resolved.options.identities_only.unwrap_or(false) {
            for identity in &identities {
                let public = identity.public_key();
                let name = format!("the agent's key {}", public.fingerprint(HashAlg::Sha256));
                if self.is_long_enough(&public, &name) {
                    offers.add_identity(identity);
                }
            }
        }
        for file in &usual {
            offers.add_file(file);
        }
        offers.candidates
    }

    fn key_files<'p>(&mut self, paths: impl Iterator<Item = &'p PathBuf>) -> Vec<KeyFile> {
        let mut files = Vec::new();
        for path in paths {
            match KeyFile::read(path) {
                Ok(file) => {
                    if self.is_long_enough(&file.public, &format!("the key {}", path.display())) {
                        files.push(file);
                    }
                }
                Err(complaint) => self.complaints.push(complaint),
            }
        }
        files
    }

    /// Whether RequiredRSASize permits the key; a complaint about a shorter one begins with its name.
    fn is_long_enough(&mut self, key: &PublicKey, name: &str) -> bool {
        let Some(bits) = self.resolved.policy.short(key) else { return true };
        let least = self.resolved.policy.least_rsa_bits;
        self.complaints.push(format!("{name} is not used: it has {bits} bits, and RequiredRSASize is {least}"));
        false
    }

    async fn agent_identities(&mut self) -> Vec<AgentIdentity> {
        let Some(path) = self.resolved.agent.clone() else { return Vec::new() };
        match self.ask_agent(&path).await {
            Ok(identities) => identities,
            Err(error) => {
                self.complaints.push(format!("the ssh-agent at {} did not answer: {error}", path.display()));
                Vec::new()
            }
        }
    }

    async fn ask_agent(&mut self, path: &Path) -> Result<Vec<AgentIdentity>, russh::keys::Error> {
        let mut agent = AgentClient::connect_uds(path).await?;
        if let Some(binding) = self.handle.agent_session_binding() {
            // Agents that do not know bindings refuse this and still work.
            let _ = agent.bind_session(binding, false).await;
        }
        let identities = agent.request_identities().await?;
        self.agent = Some(agent);
        Ok(identities)
    }

    async fn attempt(&mut self, attempt: &Attempt) -> Result<AuthResult, Error> {
        let user = self.resolved.user.clone();
        match attempt {
            Attempt::None => self.handle.authenticate_none(user).await.map_err(|error| self.broken(&error)),
            Attempt::Password => {
                let password = self.password();
                self.handle.authenticate_password(user, password.expose()).await.map_err(|error| self.broken(&error))
            }
            Attempt::KeyboardInteractive => self.keyboard_interactive(user).await.map_err(|error| self.broken(&error)),
            Attempt::Key(candidate) => self.key(user, candidate).await,
        }
    }

    async fn key(&mut self, user: String, candidate: &Candidate) -> Result<AuthResult, Error> {
        let hash = match candidate.public.algorithm() {
            Algorithm::Rsa { .. } => {
                // A server that does not announce its signature algorithms is old and only accepts SHA-1.
                self.handle.best_supported_rsa_hash().await.map_err(|error| self.broken(&error))?.flatten()
            }
            _ => None,
        };
        let (public, certificate) = (candidate.public.clone(), candidate.certificate.clone());
        let result = match &candidate.holder {
            Holder::File(path) => {
                let mut signer = FileSigner {
                    keys: self.keys.clone(),
                    path: path.clone(),
                    passphrase: self.settings.passphrase.clone(),
                };
                match certificate {
                    Some(certificate) => {
                        self.handle.authenticate_certificate_with(user, certificate, hash, &mut signer).await
                    }
                    None => self.handle.authenticate_publickey_with(user, public, hash, &mut signer).await,
                }
                .map_err(|error| error.0)
            }
            Holder::Agent => {
                let Some(agent) = &mut self.agent else {
                    return Ok(AuthResult::Failure {
                        remaining_methods: self.accepts.as_deref().unwrap_or(&[MethodKind::PublicKey]).into(),
                        partial_success: false,
                    });
                };
                match certificate {
                    Some(certificate) => {
                        self.handle.authenticate_certificate_with(user, certificate, hash, agent).await
                    }
                    None => self.handle.authenticate_publickey_with(user, public, hash, agent).await,
                }
                .map_err(|error| format!("the ssh-agent could not sign: {error}"))
            }
        };
        match result {
            Ok(result) => Ok(result),
            Err(complaint) => {
                // The server accepted the key but it cannot sign; the other keys are still tried.
                self.complaints.push(complaint);
                let all = [MethodKind::PublicKey, MethodKind::Password, MethodKind::KeyboardInteractive];
                Ok(AuthResult::Failure {
                    remaining_methods: self.accepts.as_deref().unwrap_or(&all).into(),
                    partial_success: false,
                })
            }
        }
    }

    async fn keyboard_interactive(&mut self, user: String) -> Result<AuthResult, russh::Error> {
        let password = self.password();
        let mut answered = false;
        let mut response = self.handle.authenticate_keyboard_interactive_start(user, None).await?;
        for _ in 0..MAX_ROUNDS {
            let prompts = match response {
                KeyboardInteractiveAuthResponse::Success => return Ok(AuthResult::Success),
                KeyboardInteractiveAuthResponse::Failure { remaining_methods, partial_success } => {
                    return Ok(AuthResult::Failure { remaining_methods, partial_success });
                }
                KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => prompts,
            };
            if answered && !prompts.is_empty() {
                // A repeated question means that the password was wrong. Answering it would be a second failed login.
                break;
            }
            answered |= !prompts.is_empty();
            let answers = prompts.iter().map(|_| password.expose().to_owned()).collect();
            response = self.handle.authenticate_keyboard_interactive_respond(answers).await?;
        }
        Ok(AuthResult::Failure { remaining_methods: [].as_slice().into(), partial_success: false })
    }

    fn password(&self) -> Secret {
        self.settings.password.clone().unwrap_or_else(|| Secret::new(""))
    }

    fn broken(&self, error: &russh::Error) -> Error {
        let known = self.shared.lock().unwrap_or_else(PoisonError::into_inner).disconnected.clone();
        let reason = known.unwrap_or_else(|| crate::client::lost_reason(error));
        Error::Authentication {
            user: self.resolved.user.clone(),
            peer: self.resolved.peer(),
            tried: format!("the connection ended during the authentication: {reason}"),
            hint: String::new(),
        }
    }

    fn refused(&self) -> Error {
        let mut tried = match self.tried.as_slice() {
            [] => "no credential could be offered".to_owned(),
            tried => format!("offered {}", tried.join(", ")),
        };
        if let Some(accepts) = &self.accepts {
            let names: Vec<&'static str> = accepts.iter().map(Into::into).collect();
            tried.push_str(&format!("; the server accepts {}", names.join(", ")));
        }
        for complaint in &self.complaints {
            tried.push_str(&format!("; {complaint}"));
        }
        if let Some(reason) = &self.shared.lock().unwrap_or_else(PoisonError::into_inner).disconnected {
            tried.push_str(&format!("; {reason}"));
        }
        let hint = if self.settings.password.is_none() && self.tried.is_empty() {
            "; give a key (--private-key, ansible_ssh_private_key_file), an ssh-agent or a password (--ask-pass)"
        } else {
            ""
        };
        Error::Authentication {
            user: self.resolved.user.clone(),
            peer: self.resolved.peer(),
            tried,
            hint: hint.to_owned(),
        }
    }
}
