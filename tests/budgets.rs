//! An executor that breaks the protocol or floods the controller only fails its own host, with a message and bounded
//! memory.
//!
//! The connection to this machine starts this test program as the executor; the module's name selects its misbehaviour.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its name"
)]

use std::fs;
use std::io::{Write, stdin, stdout};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windlass::connection::{Kind, Target};
use windlass::executor::{Call, Completed, Error, Heartbeat, Limits, Pool, Source, TaskEvent};
use windlass_protocol::{
    BEGIN_MARKER, Content, Delivery, Event, Hello, PROTOCOL_VERSION, Reply, Request, Stream, ToExecutor, encode,
    read_frame, write_frame,
};

/// One MiB in KiB, as the kernel counts memory.
const MIB: usize = 1 << 10;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, word] = &arguments[..]
        && command == "__executor"
    {
        return lie(word);
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return;
    }
    let tests: &[(&str, fn())] = &[
        ("content_asked_for_again_and_again_fails_the_host", content_asked_for_again_and_again_fails_the_host),
        ("nested_lists_fail_the_host_before_values_are_built", nested_lists_fail_the_host_before_values_are_built),
        ("warnings_without_end_are_counted", warnings_without_end_are_counted),
        ("messages_that_cannot_come_fail_the_host", messages_that_cannot_come_fail_the_host),
        ("a_file_beyond_the_limit_fails_its_task_alone", a_file_beyond_the_limit_fails_its_task_alone),
        ("a_result_that_is_no_mapping_fails_its_task", a_result_that_is_no_mapping_fails_its_task),
        ("a_silent_host_is_named_and_given_up", a_silent_host_is_named_and_given_up),
        ("a_slow_task_of_a_host_that_answers_is_waited_for", a_slow_task_of_a_host_that_answers_is_waited_for),
    ];
    let filters: Vec<&String> = arguments.iter().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, test) in tests {
        if filters.is_empty() || filters.iter().any(|filter| name.contains(*filter)) {
            print!("test {name} ... ");
            stdout().flush().unwrap();
            test();
            println!("ok");
        }
    }
}

/// Runs the lying executor.
fn lie(word: &str) {
    let mut output = stdout().lock();
    writeln!(output, "{BEGIN_MARKER}{word}").unwrap();
    let hello = || Reply::<Value>::Hello(Hello { protocol: PROTOCOL_VERSION, pid: 1, uid: 0, boot_id: "boot".into() });
    let mut send = |reply: &Reply<Value>, blob: &[u8]| {
        if write_frame(&mut output, reply, blob).is_err() {
            std::process::exit(0);
        }
    };
    send(&hello(), &[]);
    let mut input = stdin().lock();
    while let Ok(Some((message, _))) = read_frame::<ToExecutor<Value>>(&mut input) {
        let request = match message {
            ToExecutor::Run(request) => request,
            ToExecutor::Ping { id } => {
                send(&Reply::Pong { id }, &[]);
                continue;
            }
            _ => continue,
        };
        let id = request.id;
        let event = |event| Reply::<Value>::Event { id, event };
        let done = |result| Reply::Done { id, result, spent: Default::default() };
        match &*request.module {
            "contents" => (0..200_000).for_each(|_| send(&event(Event::NeedContent { content: 0, whole: false }), &[])),
            "no content" => send(&event(Event::NeedContent { content: 7, whole: false }), &[]),
            "nested" => {
                let lists = format!("[{}[]]", "[],".repeat(30 << 20));
                let mut wire = (lists.len() as u32).to_be_bytes().to_vec();
                wire.extend([0; 4]);
                wire.extend(lists.as_bytes());
                // Writes to the stream directly, in between honest frames.
                let mut raw = fs::OpenOptions::new().write(true).open("/proc/self/fd/1").unwrap();
                let _ = raw.write_all(&wire);
            }
            "deep" => {
                let text = format!("{{\"done\":{{\"id\":1,\"result\":{}", "[".repeat(10_000));
                let mut wire = (text.len() as u32).to_be_bytes().to_vec();
                wire.extend([0; 4]);
                wire.extend(text.as_bytes());
                let mut raw = fs::OpenOptions::new().write(true).open("/proc/self/fd/1").unwrap();
                let _ = raw.write_all(&wire);
            }
            "warnings" => {
                let message = "w".repeat(1000);
                (0..300_000).for_each(|_| send(&event(Event::Warning { message: message.clone() }), &[]));
                send(&done(json!({"changed": false})), &[]);
            }
            "file" => (0..1000).for_each(|_| send(&event(Event::FileData), &[0; 1 << 20])),
            "output" => send(&event(Event::Output { stream: Stream::Stdout }), b"secret"),
            "not run" => send(&event(Event::NotRun), &[]),
            "become" => send(&event(Event::BecomeFailed { message: "no".into() }), &[]),
            "hello" => send(&hello(), &[]),
            "other" => send(&Reply::Done { id: 77, result: json!({}), spent: Default::default() }, &[]),
            "twice" => {
                send(&done(json!({"changed": false})), &[]);
                send(&done(json!({"changed": true})), &[]);
            }
            "late" => {
                send(&done(json!({})), &[]);
                (0..2000).for_each(|_| send(&event(Event::Warning { message: "late".into() }), &[]));
            }
            "list" => send(&done(json!(["ok"])), &[]),
            "silent" => loop {
                std::thread::sleep(Duration::from_secs(60));
            },
            "slow" => {
                // Answers only pings at first.
                for _ in 0..6 {
                    if let Ok(Some((ToExecutor::<Value>::Ping { id }, _))) = read_frame(&mut input) {
                        send(&Reply::Pong { id }, &[]);
                    }
                }
                send(&done(json!({"changed": false})), &[]);
            }
            _ => send(&done(json!({"changed": false})), &[]),
        }
    }
}

fn request(module: &str) -> Call<Value> {
    Call::new(Request::new(module, json!({})))
}

fn run_with(limits: Limits, host: &str, call: Call<Value>) -> (Result<Completed<Value>, Error>, Pool<Value>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pool = Pool::new(limits);
    let outcome = runtime.block_on(pool.run(&Arc::new(Target::new(host, Kind::Local)), call));
    // Other requests continue on the same pool.
    let other = Arc::new(Target::new("other", Kind::Local));
    runtime.block_on(pool.run(&other, request("well"))).unwrap();
    runtime.shutdown_background();
    (outcome, pool)
}

fn run(call: Call<Value>) -> Result<Completed<Value>, Error> {
    run_with(Limits::default(), "web1", call).0
}

/// Runs an action; returns its result and the growth of peak memory, in KiB.
fn memory<T>(action: impl FnOnce() -> T) -> (T, usize) {
    let read = |key: &str| -> usize {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = read("VmRSS:");
    let value = action();
    (value, read("VmHWM:").saturating_sub(before))
}

fn content_asked_for_again_and_again_fails_the_host() {
    let bytes: Arc<[u8]> = vec![0; 64 << 10].into();
    let mut call = request("contents");
    call.request.contents = vec![Content {
        name: "file".into(),
        size: bytes.len() as u64,
        sha1: String::new(),
        sha256: None,
        mode: 0o644,
        delivery: Delivery::OnDemand,
    }];
    call.sources = vec![Source::Bytes(bytes)];
    let (outcome, grown) = memory(|| run(call));
    let message = outcome.unwrap_err().to_string();
    assert!(message.contains("web1") && message.contains("content 0 more often"), "{message}");
    assert!(grown < 64 * MIB, "{grown} KiB");
}

fn nested_lists_fail_the_host_before_values_are_built() {
    let (outcome, grown) = memory(|| run(request("nested")));
    let message = outcome.unwrap_err().to_string();
    assert!(message.contains("web1") && message.contains("more than 256 MiB of memory"), "{message}");
    // The frame itself takes 90 MiB.
    assert!(grown < 400 * MIB, "{grown} KiB");
    let message = run(request("deep")).unwrap_err().to_string();
    assert!(message.contains("deeper than 120 levels"), "{message}");
}

fn warnings_without_end_are_counted() {
    let (shown, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
    let (count, keep) = (shown.clone(), last.clone());
    let listener = move |event| {
        if let TaskEvent::Warning(sentence) = event {
            count.fetch_add(1, Ordering::Relaxed);
            *keep.lock().unwrap() = sentence;
        }
    };
    let call = Call { listener: Some(Box::new(listener)), ..request("warnings") };
    let (outcome, grown) = memory(|| run(call));
    outcome.unwrap();
    assert!(shown.load(Ordering::Relaxed) <= 101);
    let last = last.lock().unwrap().clone();
    assert!(last.contains("more warnings of this task are not shown"), "{last}");
    assert!(grown < 64 * MIB, "{grown} KiB");
}

fn messages_that_cannot_come_fail_the_host() {
    let cases = [
        ("no content", "asked for content 7, which this task does not have"),
        ("file", "sent a file that was not asked for"),
        ("output", "sent output that was not asked for"),
        ("not run", "although none was sent before it"),
        ("become", "a failed `become` of a task without `become`"),
        ("hello", "greeted a second time"),
        ("other", "answered request 77, which it never received"),
    ];
    for (module, reason) in cases {
        let (outcome, pool) = run_with(Limits::default(), "web1", request(module));
        let error = outcome.unwrap_err();
        assert!(error.is_unreachable(), "{error}");
        let message = error.to_string();
        assert!(message.contains("web1 is excluded from this run") && message.contains(reason), "{module}: {message}");
        // The pool does not ask that host again.
        let again = Arc::new(Target::new("web1", Kind::Local));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let message = runtime.block_on(pool.run(&again, request("well"))).unwrap_err().to_string();
        assert!(message.contains(reason), "{module}: {message}");
    }
    for (module, reason) in [("twice", "answered request 1 twice"), ("late", "more than 1000 messages")] {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (pool, host) = (Pool::new(Limits::default()), Arc::new(Target::new("web1", Kind::Local)));
        runtime.block_on(pool.run(&host, request(module))).unwrap();
        let message = runtime.block_on(pool.run(&host, request("silent"))).unwrap_err().to_string();
        assert!(message.contains(reason), "{module}: {message}");
    }
}

fn a_file_beyond_the_limit_fails_its_task_alone() {
    let directory = tempfile::tempdir().unwrap();
    let call = Call { receive_into: Some(directory.path().to_owned()), ..request("file") };
    let limits = Limits { largest_file: 10 << 20, ..Limits::default() };
    let error = run_with(limits, "web1", call).0.unwrap_err();
    let message = error.to_string();
    assert!(!error.is_unreachable() && message.contains("more than 10485760 bytes"), "{message}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

fn a_result_that_is_no_mapping_fails_its_task() {
    let error = run(request("list")).unwrap_err();
    let message = error.to_string();
    assert!(!error.is_unreachable() && message.contains("answered list with a list instead of a mapping"), "{message}");
}

fn impatient() -> Limits {
    let heartbeat = Heartbeat { quiet: Duration::from_millis(200), lost: Some(Duration::from_secs(2)) };
    Limits { heartbeat, ..Limits::default() }
}

fn a_silent_host_is_named_and_given_up() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let keep = said.clone();
    let listener = move |event| keep.lock().unwrap().push(event);
    let call = Call { listener: Some(Box::new(listener)), ..request("silent") };
    let error = run_with(impatient(), "web1", call).0.unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, Error::Indeterminate { .. }), "{message}");
    assert!(message.contains("did not answer for 2 s") && message.contains("silent was in flight"), "{message}");
    let said = said.lock().unwrap();
    assert!(matches!(&said[..], [TaskEvent::Silent(sentence)] if sentence.contains("silent is in flight")), "{said:?}");
}

fn a_slow_task_of_a_host_that_answers_is_waited_for() {
    let limits = Limits {
        heartbeat: Heartbeat { quiet: Duration::from_secs(1), lost: Some(Duration::from_millis(1500)) },
        ..Limits::default()
    };
    run_with(limits, "web1", request("slow")).0.unwrap();
    // The liar starts from the frames of honest programs.
    assert!(encode(&Reply::<Value>::Pong { id: 1 }, &[]).is_ok());
}
