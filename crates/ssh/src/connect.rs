//! Establishes connections: route, handshake and authentication, each with its own deadline.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use russh::Limits;
use russh::client::{Config, Handle, connect_stream};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::algorithms::{self, Lists};
use crate::attempts::pause;
use crate::authentication::Authentication;
use crate::client::{Client, Failure, Shared, lost_reason};
use crate::error::Phase;
use crate::keys::KeyStore;
use crate::openings::{Network, Openings, Places};
use crate::resolved::{Resolved, Route};
use crate::session::Session;
use crate::stream::{self, Meter, Metered, ProxyCommand, Transport};
use crate::user::{Dialogue, HostKeyUser};
use crate::{Destination, Error, HostKeyChecking, PresentedKey, Settings};

/// A dead peer is noticed after `ALIVE_INTERVAL * ALIVE_COUNT`.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const ALIVE_COUNT: usize = 4;

/// The stream to the server, with the resources it depends on.
struct Way {
    transport: Box<dyn Transport>,
    /// Address of the server, if the stream leads there directly.
    address: Option<IpAddr>,
    via: Option<Arc<Session>>,
    /// Standard error of a ProxyCommand.
    complaints: Option<JoinHandle<String>>,
}

/// Connects to the hosts of a run. It connects to each jump host once, and unlocks each private key once.
#[derive(Debug, Default)]
pub struct Connector {
    keys: Arc<KeyStore>,
    dialogue: Dialogue,
    jumps: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Weak<Session>>>>>,
    openings: Openings,
}

/// Connects and authenticates without sharing anything with other connections.
pub async fn connect(destination: &Destination, settings: &Settings) -> Result<Session, Error> {
    Connector::default().connect(destination, settings).await
}

impl Connector {
    /// Creates a connector that asks `user` about unknown host keys and reports unverified ones there.
    pub fn for_user(user: Arc<dyn HostKeyUser>) -> Self {
        Self { dialogue: Dialogue::new(user), ..Self::default() }
    }

    /// Connects and authenticates. A failed connection is retried as the settings say, with increasing pauses. After
    /// the host key or a credential has been judged, nothing is retried.
    pub async fn connect(&self, destination: &Destination, settings: &Settings) -> Result<Session, Error> {
        self.through(destination, settings, None).await
    }

    /// Like [`Self::connect`], over an existing session to a jump host if there is one.
    fn through<'a>(
        &'a self,
        destination: &'a Destination,
        settings: &'a Settings,
        via: Option<Arc<Session>>,
    ) -> Pin<Box<dyn Future<Output = Result<Session, Error>> + Send + 'a>> {
        // Boxed for recursion: a jump host is connected to in the same way.
        Box::pin(async move {
            let mut resolved = resolve(destination, settings).await?;
            let mut attempt = 1;
            loop {
                let error = match self.once(&resolved, settings, via.clone()).await {
                    Ok(session) => return Ok(session),
                    Err(error) => error,
                };
                if let Error::HostKeyUnknown(key) = &error
                    && resolved.policy.checking == HostKeyChecking::Ask
                    && self.confirms(key, &mut resolved).await?
                {
                    continue;
                }
                if !resolved.attempts.allow_another(attempt, &error) {
                    return Err(error);
                }
                tracing::debug!(host = resolved.peer(), "connecting again after: {error}");
                tokio::time::sleep(pause(attempt)).await;
                attempt += 1;
            }
        })
    }

    /// Asks the user about an unknown key. The next connection must then present the same key.
    async fn confirms(&self, key: &PresentedKey, resolved: &mut Resolved) -> Result<bool, Error> {
        let policy = &mut resolved.policy;
        let is_known = || {
            policy.reread();
            policy.knows(&key.key)
        };
        if !self.dialogue.confirm(key, is_known).await? {
            return Ok(false);
        }
        policy.confirmed = Some(key.key.clone());
        if !policy.knows(&key.key)
            && let Some(warning) = policy.write(&key.key)
        {
            self.dialogue.warn(&warning).await;
        }
        Ok(true)
    }

    /// The key a host presents; `None` if it has none of the requested algorithms.
    pub(crate) async fn presented_key(
        &self,
        resolved: &Resolved,
        settings: &Settings,
    ) -> Result<Option<ssh_key::PublicKey>, Error> {
        let shared = Shared::default();
        let client = Client::scanner(shared.clone());
        let outcome = self.shake_hands(resolved, settings, client).await;
        let scanned = shared.lock().unwrap_or_else(PoisonError::into_inner).scanned.take();
        match (scanned, outcome) {
            (Some(key), _) => Ok(Some(key)),
            (None, Err(Error::NoCommonAlgorithm { .. }) | Ok(_)) => Ok(None),
            (None, Err(error)) => Err(error),
        }
    }

    /// Performs the handshake without a login.
    pub(crate) async fn judged(&self, resolved: &Resolved, settings: &Settings) -> Result<(), Error> {
        let shared = Shared::default();
        let client = Client::new(resolved.policy.clone(), shared.clone());
        self.shake_hands(resolved, settings, client).await
    }

    async fn shake_hands(&self, resolved: &Resolved, settings: &Settings, client: Client) -> Result<(), Error> {
        let mut places = Places::default();
        let way = self.transport(resolved, settings, None, &mut places).await?;
        let Way { transport, complaints, via: _via, .. } = way;
        let meter = Arc::new(Meter::default());
        let shaking = handshake(resolved, settings, Metered::new(transport, meter.clone()), client, &meter);
        match places.keep_while_heard(shaking, || meter.bytes().1).await {
            Ok(handle) => {
                // An error means that the connection is already lost.
                let _ = handle.disconnect(russh::Disconnect::ByApplication, "", "").await;
                Ok(())
            }
            Err(error) => Err(explain_command(resolved, error, complaints).await),
        }
    }

    async fn once(
        &self,
        resolved: &Resolved,
        settings: &Settings,
        via: Option<Arc<Session>>,
    ) -> Result<Session, Error> {
        tracing::debug!(host = resolved.peer(), "ESTABLISH SSH CONNECTION FOR USER: {}", resolved.user);
        let mut places = Places::default();
        let way = self.transport(resolved, settings, via, &mut places).await?;
        self.openings.turn(&mut places).await;
        let meter = Arc::new(Meter::default());
        let login = self.log_in(resolved, settings, way, meter.clone());
        places.keep_while_heard(login, || meter.bytes().1).await
    }

    /// Exchanges keys and authenticates.
    async fn log_in(
        &self,
        resolved: &Resolved,
        settings: &Settings,
        way: Way,
        meter: Arc<Meter>,
    ) -> Result<Session, Error> {
        let Way { transport, address, via, complaints } = way;
        let shared = Shared::default();
        let client = Client::new(resolved.policy.clone(), shared.clone());
        let mut handle =
            match handshake(resolved, settings, Metered::new(transport, meter.clone()), client, &meter).await {
                Ok(handle) => handle,
                Err(error) => return Err(explain_command(resolved, error, complaints).await),
            };
        let warning = shared.lock().unwrap_or_else(PoisonError::into_inner).accepted.warning.clone();
        if let Some(warning) = warning
            && self.dialogue.warn(&warning).await
        {
            shared.lock().unwrap_or_else(PoisonError::into_inner).accepted.warning = None;
        }
        let deadline = settings.deadlines.authentication;
        let authentication = Authentication::new(&mut handle, resolved, settings, &self.keys, &shared);
        match timeout(deadline, authentication.run()).await {
            Ok(outcome) => outcome?,
            Err(_) => {
                return Err(Error::Timeout { peer: resolved.peer(), phase: Phase::Authentication, after: deadline });
            }
        }
        Ok(Session {
            handle,
            shared,
            meter,
            peer: resolved.peer(),
            address,
            user: resolved.user.clone(),
            channel_deadline: settings.deadlines.channel,
            via,
        })
    }

    async fn transport(
        &self,
        resolved: &Resolved,
        settings: &Settings,
        via: Option<Arc<Session>>,
        places: &mut Places,
    ) -> Result<Way, Error> {
        let via = match (via, &resolved.route) {
            (Some(via), _) => via,
            (None, Route::Jump(hops)) => self
                .jump(hops, settings)
                .await
                .map_err(|source| Error::Jump { peer: resolved.peer(), source: Box::new(source) })?,
            (None, Route::Direct) => {
                let stream = self.tcp(resolved).await?;
                let address = stream.peer_addr().ok().map(|address| address.ip().to_canonical());
                return Ok(Way { transport: Box::new(stream), address, via: None, complaints: None });
            }
            (None, Route::Command(command)) => {
                let failed = |error: std::io::Error| Error::ProxyCommand {
                    command: command.clone(),
                    peer: resolved.peer(),
                    reason: error.to_string(),
                };
                let template = resolved.options.proxy_command.as_ref().unwrap_or(command);
                self.openings.through(Network::Command(template.clone()), places).await;
                let (stream, complaints) = ProxyCommand::start(command).map_err(failed)?;
                let (transport, complaints) = (Box::new(stream), Some(complaints));
                return Ok(Way { transport, address: None, via: None, complaints });
            }
        };
        let jump = Network::Behind(via.peer().to_owned());
        self.openings.pace(jump.clone()).await;
        self.openings.through(jump, places).await;
        let opening = via.direct_tcpip(&resolved.host, resolved.port);
        let stream = places.keep_while_heard(opening, || 0).await.map_err(|error| match error {
            Error::ChannelRefused { reason, .. } => {
                Error::JumpRefused { jump: via.peer().to_owned(), peer: resolved.peer(), reason }
            }
            error => error,
        })?;
        Ok(Way { transport: Box::new(stream), address: None, via: Some(via), complaints: None })
    }

    /// Opens a TCP connection. Time in which others have their turn does not count.
    async fn tcp(&self, resolved: &Resolved) -> Result<TcpStream, Error> {
        let (after, began) = (resolved.connect_timeout, Instant::now());
        let late = |_| Error::Timeout { peer: resolved.peer(), phase: Phase::Connect, after };
        let addresses = timeout(after, stream::addresses(resolved)).await.map_err(late)??;
        let left = after.saturating_sub(began.elapsed());
        if let Some(address) = addresses.first() {
            self.openings.pace(address.ip().into()).await;
        }
        timeout(left, stream::tcp(resolved, &addresses)).await.map_err(late)?
    }

    /// A session to the last of the hops, shared by all hosts behind it.
    async fn jump(&self, hops: &[Destination], settings: &Settings) -> Result<Arc<Session>, Error> {
        // As in ssh, the destination's options do not apply to its jump hosts. The host key policy does.
        let settings = Settings {
            arguments: config_file_arguments(&settings.arguments),
            passphrase: settings.passphrase.clone(),
            host_key_checking: settings.host_key_checking,
            connect_timeout: settings.connect_timeout,
            retries: settings.retries,
            deadlines: settings.deadlines,
            config_files: settings.config_files.clone(),
            identity_file: None,
            password: None,
        };
        let mut name = format!("{:?} {:?}", settings.arguments, settings.host_key_checking);
        let mut via: Option<Arc<Session>> = None;
        for hop in hops {
            name.push_str(&format!(" {hop:?}"));
            let slot = {
                let mut jumps = self.jumps.lock().unwrap_or_else(PoisonError::into_inner);
                jumps.entry(name.clone()).or_default().clone()
            };
            let mut slot = slot.lock().await;
            let session = match slot.upgrade().filter(|session| !session.is_closed()) {
                Some(session) => session,
                None => {
                    let session = Arc::new(self.through(hop, &settings, via.take()).await?);
                    *slot = Arc::downgrade(&session);
                    session
                }
            };
            via = Some(session);
        }
        via.ok_or_else(|| Error::Configuration { place: "ProxyJump".into(), problem: "no jump host is given".into() })
    }
}

pub(crate) async fn resolve(destination: &Destination, settings: &Settings) -> Result<Resolved, Error> {
    let (destination, settings) = (destination.clone(), settings.clone());
    tokio::task::spawn_blocking(move || Resolved::new(&destination, &settings)).await.map_err(|error| {
        Error::Configuration { place: "ssh_config".into(), problem: format!("the options could not be read: {error}") }
    })?
}

fn config_file_arguments(arguments: &[String]) -> Vec<String> {
    match crate::config::Arguments::parse(arguments) {
        Ok(crate::config::Arguments { config_file: Some(path), .. }) => {
            vec!["-F".to_owned(), path.to_string_lossy().into_owned()]
        }
        _ => Vec::new(),
    }
}

async fn handshake(
    resolved: &Resolved,
    settings: &Settings,
    stream: Metered,
    client: Client,
    meter: &Meter,
) -> Result<Handle<Client>, Error> {
    let config = Arc::new(config(resolved)?);
    let peer = resolved.peer();
    let mut connecting = std::pin::pin!(connect_stream(config, stream, client));
    let (mut phase, mut after) = (Phase::Banner, resolved.connect_timeout);
    let mut outcome = timeout(after, &mut connecting).await;
    if outcome.is_err() && has_banner(&meter.head()) {
        (phase, after) = (Phase::KeyExchange, settings.deadlines.key_exchange);
        outcome = timeout(after, connecting).await;
    }
    match outcome {
        Ok(Ok(handle)) => Ok(handle),
        Ok(Err(Failure::HostKey(error))) => Err(error),
        Ok(Err(Failure::Russh(error))) => Err(handshake_failure(peer, &error, &meter.head())),
        Err(_) => Err(Error::Timeout { peer, phase, after }),
    }
}

fn handshake_failure(peer: String, error: &russh::Error, head: &str) -> Error {
    if has_banner(head) {
        if matches!(error, russh::Error::NoCommonAlgo { .. }) {
            return Error::NoCommonAlgorithm { peer, reason: lost_reason(error) };
        }
        let transient = matches!(
            error,
            russh::Error::HUP | russh::Error::Disconnect | russh::Error::IO(_) | russh::Error::SendError
        );
        return Error::KeyExchange { peer, reason: lost_reason(error), transient };
    }
    // Sent by sshd instead of a banner if it has too many connections or penalizes this address for earlier failures.
    let throttled = ["MaxStartups", "Not allowed at this time"].iter().any(|sign| head.contains(sign));
    if head.is_empty() || throttled {
        return Error::ClosedBeforeBanner { peer };
    }
    Error::NotSsh { peer, answer: head.lines().next().unwrap_or_default().to_owned() }
}

fn has_banner(head: &str) -> bool {
    head.lines().any(|line| line.starts_with("SSH-"))
}

async fn explain_command(resolved: &Resolved, error: Error, complaints: Option<JoinHandle<String>>) -> Error {
    let (Error::ClosedBeforeBanner { peer } | Error::Timeout { peer, phase: Phase::Banner, .. }) = &error else {
        return error;
    };
    let (Route::Command(command), Some(complaints)) = (&resolved.route, complaints) else { return error };
    let said = complaints.await.unwrap_or_default();
    let reason = if said.trim().is_empty() { "it ended or printed nothing" } else { said.trim() };
    Error::ProxyCommand { command: command.clone(), peer: peer.clone(), reason: reason.to_owned() }
}

fn config(resolved: &Resolved) -> Result<Config, Error> {
    let options = &resolved.options;
    let lists = Lists {
        kex: options.kex_algorithms.as_deref(),
        ciphers: options.ciphers.as_deref(),
        macs: options.macs.as_deref(),
        host_keys: options.host_key_algorithms.as_deref(),
    };
    let mut limits = Limits::default();
    if let Some(limit) = options.rekey_limit {
        // Below 4 KiB, a connection would do nothing but rekey.
        let limit = limit.clamp(4096, limits.rekey_write_limit);
        limits = Limits::new(limit, limit, limits.rekey_time_limit);
    }
    let interval = options.alive_interval.unwrap_or(ALIVE_INTERVAL);
    Ok(Config {
        preferred: algorithms::preferred(&lists, &resolved.policy.known)?,
        limits,
        nodelay: true,
        window_size: 4 << 20,
        keepalive_interval: (!interval.is_zero()).then_some(interval),
        keepalive_max: options.alive_count.unwrap_or(ALIVE_COUNT),
        ..Config::default()
    })
}
