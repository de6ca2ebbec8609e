//! Requests in the form for a forwarding proxy: `GET http://server/path` instead of `GET /path`.

use ureq::{
    Error,
    unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport},
};

/// Creates connections that, if requested, insert the server in the request line.
#[derive(Debug)]
pub(super) struct Forwarding {
    /// URL up to its path.
    pub(super) server: Option<String>,
}

impl<In: Transport> Connector<In> for Forwarding {
    type Out = Forwarded<In>;

    fn connect(&self, _details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Forwarded<In>>, Error> {
        Ok(chained.map(|inner| Forwarded { inner, server: self.server.clone() }))
    }
}

/// A connection that inserts the server before the path in its first line.
#[derive(Debug)]
pub(super) struct Forwarded<T> {
    inner: T,
    /// `None` once the line is sent.
    server: Option<String>,
}

impl<T: Transport> Transport for Forwarded<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let Some(server) = self.server.take() else { return self.inner.transmit_output(amount, timeout) };
        let output = self.inner.buffers().output();
        let longer = amount + server.len();
        let space = output.get(..amount).and_then(|line| line.iter().position(|byte| *byte == b' '));
        let (Some(space), true) = (space, longer <= output.len()) else {
            return Err(Error::ConnectProxyFailed("the request is too long for it".to_owned()));
        };
        output.copy_within(space + 1..amount, space + 1 + server.len());
        if let Some(gap) = output.get_mut(space + 1..space + 1 + server.len()) {
            gap.copy_from_slice(server.as_bytes());
        }
        self.inner.transmit_output(longer, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
