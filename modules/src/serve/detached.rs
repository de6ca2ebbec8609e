//! Runs that outlive the connection (`async`): each has a process of this program and a status file.
//!
//! The file has Ansible's format: `started` and `finished` while the job runs, then the module's result.
//!
//! The process holds the host lock, which it gets in place of its standard output.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use rustix::io::fcntl_dupfd_cloexec;
use serde_json::{Value, json};
use windlass_protocol::{Delivery, Detached, Request, ToExecutor, read_frame, write_frame};

use super::{
    Session,
    execution::{self, Execution},
    gate::Gate,
};
use crate::{
    files::{sweep, way},
    host_lock, job_files,
    process::reason,
    run::failed,
};

/// Argument that starts a detached run instead of a session.
pub(super) const WORD: &str = "detached";

/// Longest time limit, in seconds, of a job that holds the host lock. A job that may run longer is a service, which
/// would keep every later run out.
const LONGEST_LOCKED: u64 = 24 * 60 * 60;

/// Starts a job and returns its answer: the location of its result, or the error. `word` is this executor's own
/// argument, `gate` has the lock of its run.
pub(super) fn start(request: Request<Value>, detached: Detached, blob: &[u8], word: &str, gate: &Gate) -> Value {
    try_start(request, detached, blob, word, gate).unwrap_or_else(failed)
}

fn try_start(
    mut request: Request<Value>,
    detached: Detached,
    blob: &[u8],
    word: &str,
    gate: &Gate,
) -> Result<Value, String> {
    if request.contents.iter().any(|content| content.delivery == Delivery::OnDemand) {
        return Err("A task with large files of the controller cannot run detached.".to_owned());
    }
    let folder = job_files::directory(&detached.directory);
    // Results of jobs may be secret.
    way::create_dirs(&folder, 0o700)
        .map_err(|error| format!("could not create directory: {} - {}", folder.display(), reason(&error)))?;
    let arguments = std::env::args_os()
        .skip(1)
        // A job is not one of the processes that a lost executor leaves.
        .take_while(|argument| argument != word)
        .chain([WORD.into()])
        .collect::<Vec<_>>();
    let lock = match request.lock {
        Some(_) if detached.limit <= LONGEST_LOCKED => gate.share(&detached.job).map_err(not_locked)?,
        _ => None,
    };
    let output = match &lock {
        Some((lock, _)) => lock.descriptor().map_err(not_locked)?.into(),
        None => Stdio::null(),
    };
    // The path that started this process may no longer exist.
    let mut child = Command::new("/proc/self/exe")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("The job's process could not be started: {}.", reason(&error)))?;
    let job = format!("{}.{}", detached.job, child.id());
    let file = folder.join(&job);
    if let Err(error) = job_files::place_of(&file) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("The job could not be started: {}.", reason(&error)));
    }
    let running = json!({ "started": true, "finished": false, "ansible_job_id": job });
    let result = write(&file, &running).and_then(|()| {
        let name = lock.as_ref().map(|(lock, _)| lock.name.clone()).unwrap_or_default();
        if let Some((lock, run)) = lock {
            lock.describe(&run, &job, detached.limit)?;
        }
        let directory = folder.display().to_string();
        request.detached = Some(Detached { job: job.clone(), directory, lock: name, ..detached });
        let mut input = child.stdin.take().ok_or_else(|| io::Error::other("the process has no input"))?;
        write_frame(&mut input, &ToExecutor::Run(request), blob).map_err(io::Error::other)
    });
    if let Err(error) = result {
        let _ = child.kill();
        let _ = child.wait();
        let _ = way::remove_file(&file);
        return Err(format!("The job could not be started: {}.", reason(&error)));
    }
    // This process reaps the job if it still runs; otherwise init does.
    let _ = thread::Builder::new().name(job.clone()).spawn(move || child.wait());
    Ok(json!({
        "changed": true,
        "failed": false,
        "started": true,
        "finished": false,
        "ansible_job_id": job,
        "results_file": file.display().to_string(),
    }))
}

fn not_locked(error: io::Error) -> String {
    format!("The job was not started, because it could not lock the host: {}.", reason(&error))
}

/// Performs the single run from standard input, and stores its result in the job's file.
pub(super) fn run() -> io::Result<()> {
    // Fails only for a group leader, which is already detached from the connection.
    let _ = rustix::process::setsid();
    execution::install_panic_hook();
    // Unbuffered, because secrets would remain in the buffer.
    let mut input = File::from(rustix::stdio::stdin().try_clone_to_owned()?);
    let message = read_frame::<ToExecutor<Value>>(&mut input).map_err(io::Error::other)?;
    drop(input);
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    // No program of the job may keep the lock.
    let _lock = fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    let Some((ToExecutor::Run(mut request), blob)) = message else { return Ok(()) };
    let Some(detached) = request.detached.clone() else { return Ok(()) };
    request.timeout = detached.limit;
    let session = Arc::new(Session::new(nothing, WORD));
    let (job, signals) = Execution::new(&request, blob);
    let mut result = execution::outcome(&session, &job, &signals, request);
    session.store.clear();
    if result.get("timedout").is_some() {
        result = json!({ "failed": true, "msg": "Timeout exceeded", "child_pid": std::process::id() });
    }
    if let Some(map) = result.as_object_mut() {
        // No controller receives warnings meanwhile.
        let warnings = job.take_warnings();
        if !warnings.is_empty() {
            let told = map.entry("warnings").or_insert_with(|| json!([]));
            told.as_array_mut().into_iter().for_each(|told| told.extend(warnings.iter().map(|text| json!(text))));
        }
        // Output other than the result has different key names in a job's file.
        for (name, name_in_job) in [("module_stdout", "outdata"), ("module_stderr", "stderr")] {
            if let Some(text) = map.remove(name) {
                map.insert(name_in_job.to_owned(), text);
            }
        }
    }
    let written = write(&Path::new(&detached.directory).join(&detached.job), &result);
    host_lock::forget_job(&detached.lock);
    written
}

/// Replaces the file atomically, so that readers see the old or the new content.
fn write(file: &Path, content: &Value) -> io::Result<()> {
    let place = job_files::place_of(file)?;
    let (temporary, mut open) = sweep::temporary_beside(&place, 0o600)?;
    let written = open.write_all(content.to_string().as_bytes()).and_then(|()| temporary.rename_to(&place));
    written.inspect_err(|_| drop(temporary.unlink()))
}
