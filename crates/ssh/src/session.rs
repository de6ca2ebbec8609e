//! An authenticated connection, and the channels that it opens (RFC 4254): commands, with a terminal on request, and
//! streams to hosts behind it.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use russh::client::{Handle, Msg};
use russh::{ChannelStream, Disconnect, Pty};

use crate::Error;
use crate::channel::Channel;
use crate::client::{Client, Shared};
use crate::error::Phase;
use crate::stream::Meter;

/// A terminal that passes every byte on unchanged: no echo, line editing, signals or translation of line ends.
const RAW_TERMINAL: [(Pty, u32); 14] = [
    (Pty::ECHO, 0),
    (Pty::ECHONL, 0),
    (Pty::ICANON, 0),
    (Pty::ISIG, 0),
    (Pty::IEXTEN, 0),
    (Pty::IXON, 0),
    (Pty::IXOFF, 0),
    (Pty::ICRNL, 0),
    (Pty::INLCR, 0),
    (Pty::IGNCR, 0),
    (Pty::ISTRIP, 0),
    (Pty::OPOST, 0),
    (Pty::ONLCR, 0),
    (Pty::CS8, 1),
];

/// An authenticated connection.
pub struct Session {
    pub(crate) handle: Handle<Client>,
    pub(crate) shared: Shared,
    pub(crate) meter: Arc<Meter>,
    pub(crate) peer: String,
    /// Address of the server, unless a jump host or a ProxyCommand leads there.
    pub(crate) address: Option<IpAddr>,
    pub(crate) user: String,
    pub(crate) channel_deadline: Duration,
    /// Session of the jump host that carries this one and must outlive it.
    pub(crate) via: Option<Arc<Session>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("peer", &self.peer).field("user", &self.user).finish_non_exhaustive()
    }
}

impl Session {
    /// Runs a command through the user's login shell, with a terminal in raw mode if `pty` is set.
    pub async fn exec(&self, command: &str, pty: bool) -> Result<Channel, Error> {
        let open = async {
            let channel = self.handle.channel_open_session().await?;
            if pty {
                channel.request_pty(false, "dumb", 80, 24, 0, 0, &RAW_TERMINAL).await?;
            }
            // Not waiting for the answer saves a round trip: a refusal arrives as a channel event.
            channel.exec(true, command).await?;
            Ok(channel)
        };
        self.within_deadline(open).await.map(Channel::new)
    }

    /// Opens a stream through this host to another one.
    pub(crate) async fn direct_tcpip(&self, host: &str, port: u16) -> Result<ChannelStream<Msg>, Error> {
        let open = self.handle.channel_open_direct_tcpip(host, u32::from(port), "127.0.0.1", 0);
        self.within_deadline(open).await.map(russh::Channel::into_stream)
    }

    async fn within_deadline<T>(&self, open: impl Future<Output = Result<T, russh::Error>>) -> Result<T, Error> {
        match tokio::time::timeout(self.channel_deadline, open).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(russh::Error::ChannelOpenFailure(reason))) => {
                Err(Error::ChannelRefused { peer: self.peer.clone(), reason: reason.description().to_owned() })
            }
            Ok(Err(_)) => Err(self.lost()),
            Err(_) => {
                Err(Error::Timeout { peer: self.peer.clone(), phase: Phase::Channel, after: self.channel_deadline })
            }
        }
    }

    /// Whether the connection is lost.
    pub fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// Reason why the connection was lost.
    pub fn lost(&self) -> Error {
        let known = self.shared.lock().unwrap_or_else(PoisonError::into_inner).disconnected.clone();
        Error::Lost {
            peer: self.peer.clone(),
            reason: known.unwrap_or_else(|| "the host closed the connection".to_owned()),
        }
    }

    /// Whether the host or a jump host presented a key other than the known one while checking is off: no secret may be
    /// sent.
    pub fn has_changed_host_key(&self) -> bool {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).accepted.changed
            || self.via.as_ref().is_some_and(|via| via.has_changed_host_key())
    }

    /// A warning about the host key that was not shown yet.
    pub fn warning(&self) -> Option<String> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).accepted.warning.clone()
    }

    /// The remote user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// `host:port` of the server.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Address of the server, unless a jump host or a ProxyCommand leads there.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Bytes sent to and received from the server, as counted on the wire.
    pub fn bytes(&self) -> (u64, u64) {
        self.meter.bytes()
    }

    /// Exchanges new keys at the next opportunity.
    pub async fn rekey(&self) -> Result<(), Error> {
        self.handle.rekey_soon().await.map_err(|_| self.lost())
    }

    /// Disconnects cleanly. Dropping a session closes it too.
    pub async fn close(&self) {
        // An error means that the connection is already lost.
        let _ = self.handle.disconnect(Disconnect::ByApplication, "", "").await;
    }

    /// Session of the jump host that carries this one.
    pub fn via(&self) -> Option<&Session> {
        self.via.as_deref()
    }
}
