//! `ansible_connection: ssh`: implements [`Connection`] with `windlass_ssh`, whose settings come from a [`Target`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_ssh::{Connector, Destination, Session, Settings};

use super::{Connection, Duplex, Error, Input, Output, Pending, Target};

/// Time limit for closing a connection.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// Connects over SSH.
pub(super) async fn connect(target: &Target, connector: &Connector) -> Result<Arc<dyn Connection>, Error> {
    let (destination, settings) = destination(target);
    Ok(Arc::new(Ssh { session: connector.connect(&destination, &settings).await? }))
}

/// Destination and settings of a target for `windlass_ssh`.
pub(crate) fn destination(target: &Target) -> (Destination, Settings) {
    let destination = Destination { host: target.host.clone(), port: target.port, user: target.user.clone() };
    let passphrase = target.private_key_passphrase.clone();
    let settings = Settings {
        arguments: target.ssh_arguments.clone(),
        identity_file: target.private_key_file.clone(),
        password: target.password.clone(),
        passphrase: passphrase
            .map(|secret| -> windlass_ssh::PassphraseSource { Arc::new(move |_| Some(secret.clone())) }),
        host_key_checking: target.host_key_checking,
        connect_timeout: target.connect_timeout,
        retries: target.retries,
        ..Settings::default()
    };
    (destination, settings)
}

struct Ssh {
    session: Session,
}

impl Connection for Ssh {
    fn shell<'a>(&'a self, command: &'a str, pty: bool) -> Pending<'a, Result<Duplex, Error>> {
        Box::pin(async move {
            let channel = self.session.exec(command, pty).await?;
            Ok(Duplex { input: Input::Channel(channel.input), output: Output::Channel(channel.output) })
        })
    }

    fn is_closed(&self) -> bool {
        self.session.is_closed()
    }

    fn lost_reason(&self) -> String {
        match self.session.lost() {
            windlass_ssh::Error::Lost { reason, .. } => reason,
            error => error.to_string(),
        }
    }

    fn has_changed_host_key(&self) -> bool {
        self.session.has_changed_host_key()
    }

    fn address(&self) -> Option<IpAddr> {
        self.session.address()
    }

    fn warning(&self) -> Option<String> {
        self.session.warning()
    }

    fn wire_bytes(&self) -> (u64, u64) {
        self.session.bytes()
    }

    fn close(&self) -> Pending<'_, ()> {
        // A lost host never acknowledges the close.
        Box::pin(async { tokio::time::timeout(CLOSE_DEADLINE, self.session.close()).await.unwrap_or_default() })
    }
}
