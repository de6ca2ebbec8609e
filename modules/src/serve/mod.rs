//! The executor's session: requests arrive on standard input, each runs in its own thread, and replies go to standard
//! output.
//!
//! At the end of standard input the controller is gone: all running requests are stopped, and nothing remains. In a run
//! of several processes, they end by themselves, and their results wait for another process.

mod detached;
mod execution;
mod former;
mod gate;
mod once;
mod peer;
mod sequence;
mod session;

use std::{
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    sync::Arc,
};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use serde_json::Value;
use windlass_protocol::{BEGIN_MARKER, Hello, PROTOCOL_VERSION, Reply, ToExecutor, read_frame, write_frame};

use session::Session;

/// Reason why a session ended before the controller closed it.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The standard streams are not usable.
    #[error("The executor's standard streams could not be set up: {0}.")]
    Streams(#[source] io::Error),
    /// The controller's frames cannot be read.
    #[error("The controller's requests could not be read: {0}.")]
    Frames(#[source] windlass_protocol::Error),
    /// The greeting could not be sent.
    #[error("The executor could not greet the controller: {0}.")]
    Greeting(#[source] windlass_protocol::Error),
}

/// Serves the controller on standard input and output until it closes the connection. `word` is the controller's random
/// word, or the argument for a detached run. `guard` is the verb of this program that runs [`windlass_guard::run`].
///
/// The process should do nothing else, because requests cannot use its standard streams.
pub fn serve(word: &str, guard: &str) -> Result<(), ServeError> {
    if word == detached::WORD {
        windlass_guard::install(guard, "", None);
        let outcome = detached::run().map_err(ServeError::Streams);
        windlass_guard::end();
        return outcome;
    }
    let (input, mut output) = take_streams().map_err(ServeError::Streams)?;
    // The last argument is the word of this executor, or of the one that has started it for another user.
    let mark = std::env::args().next_back().unwrap_or_default();
    windlass_guard::install(guard, &mark, input.try_clone().ok().map(OwnedFd::from));
    leave_unreadable_directory();
    execution::install_panic_hook();
    writeln!(output, "{BEGIN_MARKER}{word}").and_then(|()| output.flush()).map_err(ServeError::Streams)?;
    write_frame(&mut output, &Reply::<Value>::Hello(hello()), &[]).map_err(ServeError::Greeting)?;
    // Removing leftovers of killed executors is not urgent.
    let _ = std::thread::Builder::new().name("sweep".into()).spawn(crate::files::sweep::sweep);
    let session = Arc::new(Session::new(output, word));
    // Unbuffered, because a password would remain in the buffer.
    let mut input = input;
    let ended = loop {
        match read_frame::<ToExecutor<Value>>(&mut input) {
            Ok(Some((message, blob))) => session.receive(message, blob),
            Ok(None) => break Ok(()),
            // On a terminal, the end of the connection is an error.
            Err(windlass_protocol::Error::Io(_)) => break Ok(()),
            Err(error) => break Err(ServeError::Frames(error)),
        }
    };
    session.end();
    windlass_guard::end();
    ended
}

/// Moves the session's channel away from the standard streams, so that no module or process can read or write it.
fn take_streams() -> io::Result<(File, File)> {
    // The echo of a terminal, which `su` and `doas` have, would send every message back.
    if let Ok(mut settings) = tcgetattr(rustix::stdio::stdin()) {
        settings.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &settings)?;
    }
    let keep = |descriptor: io::Result<OwnedFd>| descriptor.map(File::from);
    let input = keep(fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(io::Error::from))?;
    let output = keep(fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).map_err(io::Error::from))?;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}

/// Changes to a readable working directory: after `become`, the old one often is unreadable, and programs fail in it.
fn leave_unreadable_directory() {
    if std::fs::read_dir(".").is_ok() {
        return;
    }
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    let candidates = home.into_iter().chain(["/tmp".into(), "/".into()]);
    for candidate in candidates {
        if std::fs::read_dir(&candidate).is_ok() && std::env::set_current_dir(&candidate).is_ok() {
            return;
        }
    }
}

fn hello() -> Hello {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Hello {
        protocol: PROTOCOL_VERSION,
        pid: std::process::id(),
        uid: rustix::process::geteuid().as_raw(),
        boot_id: boot_id.trim().to_owned(),
    }
}
