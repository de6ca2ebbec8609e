//! Sends received contents to other hosts.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::AsRawFd, unix::fs::FileExt},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use aead_stream::StreamPrimitive;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use windlass_protocol::{Content, Offer, TICKET};

use super::{Cipher, PIECE, TAG, cipher, is_too_slow, next_piece, ticket};
use crate::{lock::lock, process::reason, run::failed};

/// Time for which a content is kept after it was received or last sent.
const KEPT_FOR: Duration = Duration::from_secs(120);
/// Maximum number of contents kept; beyond that, the oldest is dropped.
const MOST_KEPT: usize = 64;
/// Time for the receiver to connect, and then to send its ticket.
const ARRIVAL: Duration = Duration::from_secs(15);
/// Time for the receiver to accept some bytes.
const SILENCE: Duration = Duration::from_secs(10);
/// Maximum number of connections served at the same time; further ones are closed.
const MOST_CONNECTIONS: usize = 8;
/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval at which expired tickets and contents are dropped.
const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Contents that this process has received and can send to other hosts.
///
/// It holds open files that it wrote itself, and never opens a path again: whoever may rename files in their directory
/// cannot make it send others. A changed file is noticed by the receiver.
#[derive(Default)]
pub(crate) struct Kept(Mutex<State>);

#[derive(Default)]
struct State {
    contents: HashMap<String, KeptContent>,
    /// Whether a thread drops expired contents.
    expires: bool,
    /// Where this process listens. It does so only while a receiver is expected or served.
    listening: Option<SocketAddr>,
    tickets: HashMap<[u8; TICKET], Ticket>,
    connections: usize,
}

#[derive(Clone)]
struct KeptContent {
    file: Arc<File>,
    size: u64,
    used: Instant,
}

impl State {
    /// Drops contents that nobody asked for in time. A transfer, which may take longer, counts as use until it ends.
    fn expire(&mut self) {
        self.contents.retain(|_, content| {
            if Arc::strong_count(&content.file) > 1 {
                content.used = Instant::now();
            }
            content.used.elapsed() < KEPT_FOR
        });
    }
}

/// A transfer that the controller announced.
struct Ticket {
    content: KeptContent,
    cipher: Cipher,
    issued: Instant,
}

impl Kept {
    /// Keeps a content that was written completely to `file`, if the controller wants hosts to pass it on. After an
    /// error, the content is not kept and the controller sends it to the other hosts.
    pub(crate) fn keep(self: &Arc<Kept>, content: &Content, file: &File) {
        let Some(sha256) = content.sha256.clone() else { return };
        // Opened again for reading only, since a program that is open for writing cannot be executed.
        let Ok(file) = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())) else { return };
        let mut state = lock(&self.0);
        if state.contents.len() >= MOST_KEPT {
            let oldest = state.contents.iter().min_by_key(|(_, content)| content.used).map(|(name, _)| name.clone());
            oldest.map(|name| state.contents.remove(&name));
        }
        state.contents.insert(sha256, KeptContent { file: Arc::new(file), size: content.size, used: Instant::now() });
        if !state.expires {
            let kept = Arc::clone(self);
            state.expires = thread::Builder::new().name("kept".into()).spawn(move || kept.expire()).is_ok();
        }
    }

    /// Drops contents that nobody asked for in time, until none is left.
    fn expire(&self) {
        loop {
            thread::sleep(Duration::from_secs(1));
            let mut state = lock(&self.0);
            state.expire();
            if state.contents.is_empty() {
                state.expires = false;
                return;
            }
        }
    }

    /// Prepares the transfer of a content to a host that will connect with this ticket. Returns the result of the
    /// request.
    pub(crate) fn offer(self: &Arc<Kept>, arguments: &Value) -> Value {
        let offered = serde_json::from_value(arguments.clone())
            .map_err(|error| format!("The offer is not valid: {error}."))
            .and_then(|offer| self.prepare(&offer));
        match offered {
            Ok(port) => json!({ "changed": false, "port": port }),
            Err(message) => failed(message),
        }
    }

    fn prepare(self: &Arc<Kept>, offer: &Offer) -> Result<u16, String> {
        let in_words = |error: io::Error| format!("The content cannot be passed on: {}.", reason(&error));
        let (ticket, cipher) = (ticket(&offer.ticket).map_err(in_words)?, cipher(&offer.key).map_err(in_words)?);
        let mut state = lock(&self.0);
        let Some(content) = state.contents.get_mut(&offer.sha256) else {
            return Err("The content is no longer kept.".to_owned());
        };
        content.used = Instant::now();
        let content = content.clone();
        let address = match state.listening {
            Some(address) => address,
            None => {
                let listener = listen(offer.address).map_err(in_words)?;
                let address = listener.local_addr().map_err(in_words)?;
                let kept = Arc::clone(self);
                let serve = move || kept.serve(&listener);
                thread::Builder::new().name("peers".into()).spawn(serve).map_err(in_words)?;
                *state.listening.insert(address)
            }
        };
        state.tickets.insert(ticket, Ticket { content, cipher, issued: Instant::now() });
        Ok(address.port())
    }

    /// Accepts connections as long as a receiver is expected or served.
    fn serve(self: &Arc<Kept>, listener: &TcpListener) {
        loop {
            let ready = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&TICK));
            // The listener does not block, because the connection may have been closed meanwhile.
            let accepted = ready.is_ok_and(|count| count > 0).then(|| listener.accept());
            if matches!(accepted, Some(Err(_))) {
                // An error such as a lack of descriptors would recur immediately.
                thread::sleep(PAUSE);
            }
            let mut state = lock(&self.0);
            state.tickets.retain(|_, ticket| ticket.issued.elapsed() < ARRIVAL);
            if let Some(Ok((stream, _))) = accepted
                && state.connections < MOST_CONNECTIONS
                // Otherwise strangers could keep it listening.
                && !state.tickets.is_empty()
            {
                let kept = Arc::clone(self);
                let send = move || {
                    // An error means that the receiver is gone or has no ticket; nobody here could act on it.
                    let _ = kept.send(stream);
                    lock(&kept.0).connections -= 1;
                };
                if thread::Builder::new().name("peer".into()).spawn(send).is_ok() {
                    state.connections += 1;
                }
            }
            if state.tickets.is_empty() && state.connections == 0 {
                state.listening = None;
                return;
            }
        }
    }

    fn send(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(SILENCE))?;
        let until = Instant::now() + ARRIVAL;
        let mut sent = [0; TICKET];
        let mut filled = 0;
        while let Some(rest) = sent.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
            match stream.read(rest)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        // Removed, because its key may only be used once.
        let Some(Ticket { content, cipher, .. }) = lock(&self.0).tickets.remove(&sent) else { return Ok(()) };
        let mut piece = Vec::with_capacity(PIECE + TAG);
        let (mut offset, mut position, mut written) = (0, 0, 0);
        let began = Instant::now();
        loop {
            let (length, is_last) = next_piece(content.size - offset);
            piece.clear();
            piece.resize(length, 0);
            content.file.read_exact_at(&mut piece, offset)?;
            cipher.encrypt_in_place(position, is_last, &[], &mut piece).map_err(io::Error::other)?;
            let mut rest = piece.as_slice();
            while !rest.is_empty() {
                let count = stream.write(rest)?;
                rest = rest.get(count..).filter(|_| count > 0).ok_or(io::ErrorKind::WriteZero)?;
                written += count as u64;
                if is_too_slow(began.elapsed(), written) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            if is_last {
                return Ok(());
            }
            offset += length as u64;
            position += 1;
        }
    }
}

/// Listens at the address by which other hosts reach this one. Behind address translation it does not have that
/// address, so it listens at all of its addresses.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).or_else(|error| match error.kind() {
        io::ErrorKind::AddrNotAvailable if address.is_ipv4() => TcpListener::bind(("0.0.0.0", address.port())),
        io::ErrorKind::AddrNotAvailable => TcpListener::bind(("::", address.port())),
        _ => Err(error),
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_stays_kept_during_a_long_transfer() {
        let long_ago = Instant::now().checked_sub(KEPT_FOR * 2).unwrap();
        let file = Arc::new(tempfile::tempfile().unwrap());
        let mut state = State::default();
        state.contents.insert(String::new(), KeptContent { file: Arc::clone(&file), size: 1, used: long_ago });
        state.expire();
        assert_eq!(state.contents.len(), 1, "it is being sent");
        drop(file);
        state.expire();
        assert_eq!(state.contents.len(), 1, "it was sent until now");
        state.contents.values_mut().for_each(|content| content.used = long_ago);
        state.expire();
        assert!(state.contents.is_empty());
    }
}
