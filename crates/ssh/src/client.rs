//! Callbacks of russh: they judge the host key and keep the reason of a disconnect for error messages.

use std::sync::{Arc, Mutex, PoisonError};

use russh::client::{DisconnectReason, Handler};
use russh::keys::PublicKeyOrCertificate;
use ssh_key::PublicKey;

use crate::Error;
use crate::host_key::{Accepted, HostKeyPolicy};

/// Facts recorded by the callbacks.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) accepted: Accepted,
    /// Key recorded by a scan.
    pub(crate) scanned: Option<PublicKey>,
    pub(crate) banner: Option<String>,
    pub(crate) disconnected: Option<String>,
}

/// Shared between the callbacks and the session.
pub(crate) type Shared = Arc<Mutex<Observed>>;

pub(crate) struct Client {
    /// Judges the key. If `None`, the key is recorded and the handshake ends.
    policy: Option<HostKeyPolicy>,
    shared: Shared,
    /// Key of the first exchange; later exchanges must present the same one.
    pinned: Option<PublicKey>,
}

impl Client {
    pub(crate) fn new(policy: HostKeyPolicy, shared: Shared) -> Self {
        Self { policy: Some(policy), shared, pinned: None }
    }

    /// Creates a client that records the key and ends the handshake.
    pub(crate) fn scanner(shared: Shared) -> Self {
        Self { policy: None, shared, pinned: None }
    }
}

/// Reason why a session ended: our own judgement or russh's error.
#[derive(Debug)]
pub(crate) enum Failure {
    HostKey(Error),
    Russh(russh::Error),
}

impl From<russh::Error> for Failure {
    fn from(error: russh::Error) -> Self {
        Self::Russh(error)
    }
}

impl Handler for Client {
    type Error = Failure;

    async fn auth_banner(&mut self, banner: &str, _session: &mut russh::client::Session) -> Result<(), Failure> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).banner = Some(banner.to_owned());
        Ok(())
    }

    async fn check_server_key(&mut self, presented: &PublicKeyOrCertificate) -> Result<bool, Failure> {
        let key = presented.public_key();
        if let Some(pinned) = &self.pinned {
            return Ok(pinned.key_data() == key.key_data());
        }
        let Some(policy) = &self.policy else {
            self.shared.lock().unwrap_or_else(PoisonError::into_inner).scanned = Some(key);
            return Ok(false);
        };
        let accepted = policy.judge(presented).map_err(Failure::HostKey)?;
        self.pinned = Some(key);
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).accepted = accepted;
        Ok(true)
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Failure>) -> Result<(), Failure> {
        let text = match &reason {
            DisconnectReason::ReceivedDisconnect(info) => format!("the server reported: {}", info.message.trim()),
            DisconnectReason::Error(Failure::Russh(error)) => lost_reason(error),
            DisconnectReason::Error(Failure::HostKey(error)) => error.to_string(),
        };
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).disconnected.get_or_insert(text);
        match reason {
            DisconnectReason::ReceivedDisconnect(_) => Ok(()),
            DisconnectReason::Error(error) => Err(error),
        }
    }

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _channel: russh::Channel<russh::client::Msg>,
        _connected_address: &str,
        _connected_port: u32,
        _originator_address: &str,
        _originator_port: u32,
        reply: russh::client::ChannelOpenHandle,
        _session: &mut russh::client::Session,
    ) -> Result<(), Failure> {
        // Nothing is forwarded, so the server has no reason to open channels.
        reply.reject(russh::ChannelOpenFailure::AdministrativelyProhibited).await;
        Ok(())
    }
}

/// Describes why a connection ended.
pub(crate) fn lost_reason(error: &russh::Error) -> String {
    match error {
        russh::Error::KeepaliveTimeout => "the host does not answer any more".into(),
        russh::Error::HUP | russh::Error::Disconnect => "the host closed the connection".into(),
        russh::Error::IO(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the host closed the connection".into()
        }
        russh::Error::IO(error) => error.to_string(),
        error => error.to_string(),
    }
}
