//! Starts an executor over a connection and waits for its greeting.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use windlass_protocol::{BEGIN_MARKER, FrameDecoder, Hello, PROTOCOL_VERSION, Reply};

use super::counters::{Counters, add};
use super::image::{Packer, smallest};
use super::script::{self, FAIL, NEED};
use super::{Error, Extent, Image};
use crate::connection::{Connection, Duplex, Exit, Input, Output, Piece, Target};

/// Time for login shell, script and executor until the greeting, excluding uploads.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// Slowest upload rate that is tolerated, in bytes per second; it extends the deadline.
const SLOWEST_UPLOAD: u64 = 16 << 10;
const UPLOAD_PIECE: usize = 128 << 10;
/// Number of directories in which a failed upload is retried.
const PLACES: usize = 8;
/// Bytes kept of the login shell's output before the executor starts, and of standard error.
const NOISE: usize = 4 << 10;

/// An executor that has sent its greeting.
pub(super) struct Started {
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) decoder: FrameDecoder,
    pub(super) hello: Hello,
    /// Random word among its arguments.
    pub(super) word: String,
    /// Its modules.
    pub(super) extent: Extent,
}

/// Inputs for a start, apart from the connection.
pub(super) struct Starter<'a> {
    pub(super) target: &'a Target,
    pub(super) images: &'a [Image],
    pub(super) uploads: &'a Arc<Semaphore>,
    pub(super) packer: &'a Packer,
    pub(super) counters: &'a Counters,
}

impl Starter<'_> {
    /// Starts an executor with these modules, uploading it first if the host lacks it.
    pub(super) async fn start(&self, connection: &dyn Connection, extent: Extent) -> Result<Started, Error> {
        let word = random_word()?;
        if let Some(duplex) = connection.resident_executor(&word) {
            tracing::debug!(host = self.target.name, "EXEC the executor that is part of this program");
            let duplex = duplex.map_err(|error| Error::unreachable(&error))?;
            let mut stream = Stream::new(duplex, &word);
            return match self.line(&mut stream).await? {
                Line::Begin => self.greet(stream, Extent::All).await,
                _ => Err(self.failed("its output does not start like an executor's".to_owned())),
            };
        }
        let (mut excluded, mut reasons) = (Vec::new(), Vec::new());
        let images = smallest(self.images, extent);
        // If there is only one executor, it has all modules.
        let extent = images.iter().map(|image| image.extent).min().unwrap_or(extent);
        loop {
            let command = script::command(&images, &word, &self.target.remote_tmp, &excluded);
            tracing::debug!(host = self.target.name, "EXEC /bin/sh with the script that starts the executor");
            tracing::trace!(host = self.target.name, "{command}");
            let duplex = connection.shell(&command, false).await.map_err(|error| Error::unreachable(&error))?;
            let mut stream = Stream::new(duplex, &word);
            match self.line(&mut stream).await? {
                Line::Begin => return self.greet(stream, extent).await,
                Line::Fail(reason) => {
                    reasons.push(reason);
                    return Err(self.failed(reasons.join("; ")));
                }
                Line::Need { machine, packer, place } => match self
                    .upload(&mut stream, &images, &machine, &packer)
                    .await?
                {
                    Line::Begin => return self.greet(stream, extent).await,
                    Line::Fail(reason) if excluded.len() + 1 < PLACES => {
                        tracing::debug!(host = self.target.name, reason, "the executor is sent to another directory");
                        excluded.push(place);
                        reasons.push(reason);
                    }
                    Line::Fail(reason) => {
                        reasons.push(reason);
                        return Err(self.failed(reasons.join("; ")));
                    }
                    Line::Need { .. } => return Err(self.failed("the executor was asked for twice".to_owned())),
                },
            }
        }
    }

    async fn line(&self, stream: &mut Stream) -> Result<Line, Error> {
        match timeout(START_DEADLINE, stream.heard.line()).await {
            Ok(Ok(line)) => Ok(line),
            Ok(Err(reason)) => Err(self.failed(reason)),
            Err(_) => {
                let reason =
                    format!("it did not start within {} s{}", START_DEADLINE.as_secs(), stream.heard.unexpected());
                Err(self.failed(reason))
            }
        }
    }

    async fn upload(&self, stream: &mut Stream, images: &[Image], machine: &str, packer: &str) -> Result<Line, Error> {
        let image = images.iter().find(|image| script::runs_on(image, machine));
        let image = image.ok_or_else(|| self.failed(format!("it requests an executor for {machine:?}")))?;
        // Fails only if the semaphore is closed, which never happens.
        let _permit = self.uploads.acquire().await;
        let packed = self
            .packer
            .packed(image, packer)
            .await
            .map_err(|error| self.failed(format!("it cannot be packed: {error}")))?;
        add(&self.counters.uploads, 1);
        add(&self.counters.sent, packed.len());
        let (host, size) = (&*self.target.name, packed.len().div_ceil(1024));
        tracing::debug!(host, "the executor is sent: {size} KiB by {packer}, for {machine}");
        let deadline = START_DEADLINE + Duration::from_secs(packed.len() as u64 / SLOWEST_UPLOAD);
        let length = format!("{}\n", packed.len()).into_bytes();
        let sending = async {
            for piece in std::iter::once(&*length).chain(packed.chunks(UPLOAD_PIECE)) {
                if !stream.input.send(piece.to_vec()).await {
                    break;
                }
            }
            std::future::pending::<Infallible>().await
        };
        // Reads during the upload: a host that stops reading, for instance because its disk is full, reports the
        // reason.
        let transfer = async {
            tokio::select! {
                line = stream.heard.line() => line,
                never = sending => match never {},
            }
        };
        match timeout(deadline, transfer).await {
            Ok(line) => line.map_err(|reason| self.failed(reason)),
            Err(_) => Err(self.failed(format!("it could not be sent within {} s", deadline.as_secs()))),
        }
    }

    async fn greet(&self, mut stream: Stream, extent: Extent) -> Result<Started, Error> {
        match timeout(START_DEADLINE, stream.heard.hello()).await {
            Ok(Ok((decoder, hello))) if hello.protocol == PROTOCOL_VERSION => {
                tracing::debug!(host = self.target.name, "the executor runs");
                let Stream { input, heard: Heard { output, word, .. } } = stream;
                Ok(Started { input, output, decoder, hello, word, extent })
            }
            Ok(Ok((_, hello))) => Err(self.failed(format!(
                "it speaks version {} of the protocol and this program version {PROTOCOL_VERSION}",
                hello.protocol
            ))),
            Ok(Err(reason)) => Err(self.failed(reason)),
            Err(_) => Err(self.failed(format!("it sent no greeting within {} s", START_DEADLINE.as_secs()))),
        }
    }

    fn failed(&self, reason: String) -> Error {
        Error::Unreachable { message: format!("the executor could not be started on {}: {reason}", self.target.name) }
    }
}

/// A line of the script for the controller.
enum Line {
    /// The executor runs; frames follow.
    Begin,
    /// The script waits for an executor, compressed with `packer`.
    Need { machine: String, packer: String, place: String },
    /// The script gave up.
    Fail(String),
}

/// The streams of the starting command.
struct Stream {
    input: Input,
    heard: Heard,
}

/// Output of the start command, searched for lines with the random word.
struct Heard {
    output: Output,
    word: String,
    received: Vec<u8>,
    stderr: Vec<u8>,
    exit: Option<Exit>,
}

impl Stream {
    fn new(duplex: Duplex, word: &str) -> Self {
        let heard = Heard {
            output: duplex.output,
            word: word.to_owned(),
            received: Vec::new(),
            stderr: Vec::new(),
            exit: None,
        };
        Self { input: duplex.input, heard }
    }
}

impl Heard {
    /// Receives the next piece of output. Returns `false` at the end.
    async fn receive(&mut self) -> bool {
        match self.output.next().await {
            Some(Piece::Stdout(bytes)) => self.received.extend(bytes),
            Some(Piece::Stderr(bytes)) => {
                self.stderr.extend(bytes);
                keep_end(&mut self.stderr);
            }
            Some(Piece::Exit(exit)) => self.exit = Some(exit),
            Some(Piece::Refused) => {
                self.stderr.extend_from_slice(b"the server refused to run a command");
                return false;
            }
            None => return false,
        }
        true
    }

    /// Next line for the controller. Output of a login shell before it is ignored.
    async fn line(&mut self) -> Result<Line, String> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(line);
            }
            if !self.receive().await {
                return Err(self.ended());
            }
        }
    }

    fn take_line(&mut self) -> Option<Line> {
        let markers = [BEGIN_MARKER, NEED, FAIL].map(|marker| format!("{marker}{}", self.word));
        let found = markers.iter().enumerate().find_map(|(kind, marker)| {
            let position = self.received.windows(marker.len()).position(|window| window == marker.as_bytes())?;
            Some((kind, position, position + marker.len()))
        });
        let Some((kind, begin, after)) = found else {
            // Keeps the end, because a marker may have arrived in part.
            keep_end(&mut self.received);
            return None;
        };
        let Some(line_end) = self.received.get(after..)?.iter().position(|&byte| byte == b'\n') else {
            // Truncates an endless line to limit memory.
            self.received.truncate(after + NOISE);
            return None;
        };
        let line_end = after + line_end;
        let rest = String::from_utf8_lossy(self.received.get(after..line_end)?).trim().to_owned();
        let noise = self.received.drain(..=line_end).take(begin).collect::<Vec<u8>>();
        self.stderr.splice(0..0, noise);
        keep_end(&mut self.stderr);
        Some(match kind {
            0 => Line::Begin,
            1 => {
                let mut words = rest.splitn(3, ' ').map(str::to_owned);
                let mut word = || words.next().unwrap_or_default();
                Line::Need { machine: word(), packer: word(), place: word() }
            }
            _ => Line::Fail(rest),
        })
    }

    /// Reads the executor's greeting that follows its begin marker.
    async fn hello(&mut self) -> Result<(FrameDecoder, Hello), String> {
        let mut decoder = FrameDecoder::default();
        loop {
            decoder.extend(&std::mem::take(&mut self.received));
            if let Ok(Some(size @ NOISE..)) = decoder.announced() {
                return Err(format!("its greeting has an invalid size of {size} bytes"));
            }
            match decoder.next_frame::<Reply<serde_json::Value>>() {
                Ok(Some((Reply::Hello(hello), _))) => return Ok((decoder, hello)),
                Ok(Some(_)) => return Err("its first message is not a greeting".to_owned()),
                Ok(None) => {}
                Err(error) => return Err(error.to_string()),
            }
            if !self.receive().await {
                return Err(self.ended());
            }
        }
    }

    fn ended(&self) -> String {
        let end = match &self.exit {
            Some(Exit::Status(status)) => format!("the command ended with status {status}"),
            Some(Exit::Signal(signal)) => format!("the command was ended by signal {signal}"),
            None => "the channel was closed".to_owned(),
        };
        format!("{end}{}", self.unexpected())
    }

    /// Unexpected output, as the end of an error message.
    fn unexpected(&self) -> String {
        let text =
            [&self.received, &self.stderr].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned()).join(" ");
        if text.trim().is_empty() { String::new() } else { format!("; it printed: {}", text.trim()) }
    }
}

/// Keeps only the last bytes.
fn keep_end(bytes: &mut Vec<u8>) {
    let excess = bytes.len().saturating_sub(NOISE);
    bytes.drain(..excess);
}

/// Random word in hex, which no login shell prints by chance.
pub(super) fn random_word() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Controller { message: format!("the system provides no random numbers: {error}") })?;
    Ok(hex::encode(bytes))
}
