//! The executor over a real sshd: upload, start, multiplexing, loss and end.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Sshd, User, available, run};
use serde_json::{Value, json};
use sha1::Digest as _;
use tokio::sync::mpsc;
use windlass::connection::{HostKeyChecking, Kind, Secret, Target};
use windlass::executor::{Call, Error, Extent, Image, Limits, Listener, Pool, RawCommand, Source, TaskEvent};
use windlass_protocol::{Become, BecomeMethod, Content, Delivery, Request, Stream};

fn pool() -> Pool<Value> {
    Pool::new(Limits::default())
}

/// A target on a test's sshd, with the executor in the test's own directory.
fn target(sshd: &Sshd) -> Target {
    let settings = sshd.settings();
    Target {
        host: "127.0.0.1".into(),
        port: Some(sshd.port),
        user: Some("root".into()),
        private_key_file: settings.identity_file,
        ssh_arguments: [vec!["-F".into(), "none".into()], settings.arguments].concat(),
        host_key_checking: Some(HostKeyChecking::AcceptNew),
        remote_tmp: sshd.path("remote tmp").display().to_string(),
        ..Target::new("web1", Kind::Ssh)
    }
}

fn call(module: &str, args: Value) -> Call<Value> {
    Call::new(Request { stream: true, ..Request::new(module, args) })
}

fn executors(sshd: &Sshd) -> Vec<String> {
    let directory = sshd.path("remote tmp/.windlass-0");
    fs::read_dir(directory).map_or_else(
        |_| Vec::new(),
        |entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect(),
    )
}

#[tokio::test]
async fn executor_uploaded_once_and_verified_at_every_start() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO\nMaxSessions 1");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let answer = pool.run(&target, call("ping", json!({}))).await.unwrap();
    assert_eq!(answer.result["ping"], "pong");
    assert_eq!(executors(&sshd).len(), 1, "{:?}", executors(&sshd));
    // The executor's folder is private, but files made by tasks follow the login's umask.
    let mask = std::process::Command::new("sh").args(["-c", "umask"]).output().unwrap().stdout;
    let answer =
        pool.run(&target, call("command", json!({"_raw_params": "umask", "_uses_shell": true}))).await.unwrap();
    assert_eq!(answer.result["stdout"], String::from_utf8(mask).unwrap().trim());
    assert_eq!(fs::metadata(sshd.path("remote tmp/.windlass-0")).unwrap().permissions().mode() & 0o777, 0o700);
    pool.reset(&target).await;
    pool.run(&target, call("ping", json!({}))).await.unwrap();
    assert_eq!((pool.statistics().await.connections, pool.statistics().await.uploads), (2, 1));
    pool.close().await;

    // A damaged file is uploaded again.
    let path = sshd.path("remote tmp/.windlass-0").join(&executors(&sshd)[0]);
    let mut damaged = fs::read(&path).unwrap();
    damaged.push(b'#');
    fs::write(&path, damaged).unwrap();
    pool.run(&target, call("ping", json!({}))).await.unwrap();
    assert_eq!(pool.statistics().await.uploads, 2);
    pool.close().await;
}

#[tokio::test]
async fn requests_share_connection_and_run_concurrently() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO\nMaxSessions 1");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let slow = pool.run(&target, call("command", json!({"_raw_params": "sleep 2"})));
    let quick = async {
        for number in 0..50 {
            let answer = pool.run(&target, call("ping", json!({"data": number.to_string()}))).await.unwrap();
            assert_eq!(answer.result["ping"], number.to_string());
        }
    };
    tokio::select! {
        _ = slow => panic!("the slow request must not hold the others up"),
        () = quick => {}
    }
    assert_eq!(pool.statistics().await.connections, 1);
    pool.close().await;
}

/// Two executors for this machine: one declared to have only the common modules, and one with all.
fn two_images() -> Vec<Image> {
    let all = *Image::embedded().iter().find(|image| image.extent == Extent::All).unwrap();
    let mut binary = Vec::new();
    lzma_rust2::XzReader::new(all.xz, true).read_to_end(&mut binary).unwrap();
    // An unused extra byte makes it a different file.
    binary.push(b'#');
    let options = lzma_rust2::XzOptions::with_preset(0);
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    writer.write_all(&binary).unwrap();
    let common = Image {
        extent: Extent::Common,
        sha256: hex::encode(sha2::Sha256::digest(&binary)).leak(),
        xz: writer.finish().unwrap().leak(),
        ..all
    };
    vec![common, all]
}

#[tokio::test]
async fn larger_executor_uploaded_for_first_module_that_needs_it() {
    if !available() {
        return;
    }
    for (sessions, connections) in [(10, 1), (1, 2)] {
        let sshd = Sshd::start(&format!("LogLevel INFO\nMaxSessions {sessions}"));
        let target = Arc::new(target(&sshd));
        let pool = Pool::with_images(Limits::default(), two_images());
        let absent = json!({"name": "none", "state": "absent", "reposdir": sshd.path("").display().to_string()});
        pool.run(&target, call("ping", json!({}))).await.unwrap();
        assert_eq!(executors(&sshd).len(), 1);
        let is_ready = |module: &str| pool.ready(&target, Extent::of(module), None).is_some();
        assert!(is_ready("ping") && !is_ready("yum_repository"));
        // The smaller executor's work continues beside the larger one.
        let slow =
            pool.run(&target, call("command", json!({"_raw_params": "sleep 2; echo done", "_uses_shell": true})));
        let larger = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            pool.run(&target, call("yum_repository", absent.clone())).await
        };
        let (slow, larger) = tokio::join!(slow, larger);
        assert_eq!(slow.unwrap().result["stdout"], "done");
        assert_eq!(larger.unwrap().result["changed"], false);
        assert!(is_ready("yum_repository"));
        pool.run(&target, call("ping", json!({}))).await.unwrap();
        let statistics = pool.statistics().await;
        assert_eq!((statistics.uploads, statistics.connections), (2, connections));
        pool.close().await;

        // The pool starts the larger executor directly if the need is known in advance.
        let pool = Pool::with_images(Limits::default(), two_images());
        pool.expect(["ping", "yum_repository"].into_iter());
        pool.run(&target, call("ping", json!({}))).await.unwrap();
        assert!(pool.ready(&target, Extent::of("yum_repository"), None).is_some());
        pool.close().await;
    }
}

#[tokio::test]
async fn output_contents_and_files_sent_as_blobs() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let (events, mut seen) = mpsc::unbounded_channel();
    let lines = call("shell", json!({"_raw_params": "for number in 0 1 2; do echo line $number; done"}));
    let listener: Listener = Box::new(move |event| events.send(event).unwrap());
    pool.run(&target, Call { listener: Some(listener), ..lines }).await.unwrap();
    let mut output = Vec::new();
    while let Some(event) = seen.recv().await {
        if let TaskEvent::Output { stream: Stream::Stdout, bytes } = event {
            output.extend(bytes);
        }
    }
    assert_eq!(output, b"line 0\nline 1\nline 2\n");

    let big: Vec<u8> = (0..64 << 20).map(|index: u32| (index % 253) as u8).collect();
    fs::write(sshd.path("big"), &big).unwrap();
    let content = |bytes: &[u8], delivery| Content {
        name: "big".into(),
        size: bytes.len() as u64,
        sha1: hex::encode(sha1::Sha1::digest(bytes)),
        sha256: None,
        mode: 0o644,
        delivery,
    };
    let mut sending = call("copy", json!({"dest": sshd.path("copy"), "_content": 0}));
    sending.request.contents = vec![content(&big, Delivery::OnDemand)];
    sending.sources = vec![Source::File(sshd.path("big"))];
    let answer = pool.run(&target, sending).await.unwrap();
    assert_eq!(answer.result["changed"], true, "{}", answer.result);
    assert!(fs::read(sshd.path("copy")).unwrap() == big);

    let mut inline = call("copy", json!({"dest": sshd.path("small"), "_content": 0}));
    inline.request.contents = vec![content(b"hello", Delivery::Inline)];
    inline.sources = vec![Source::Bytes(Arc::from(*b"hello"))];
    pool.run(&target, inline).await.unwrap();
    assert_eq!(fs::read(sshd.path("small")).unwrap(), b"hello");

    let fetching = Call { receive_into: Some(sshd.path("fetched")), ..call("fetch", json!({"src": sshd.path("big")})) };
    let received = pool.run(&target, fetching).await.unwrap().received.unwrap();
    assert_eq!((received.size(), received.sha1()), (big.len() as u64, hex::encode(sha1::Sha1::digest(&big))));
    received.persist(&sshd.path("fetched/big")).unwrap();
    assert!(fs::read(sshd.path("fetched/big")).unwrap() == big);
    assert_eq!(fs::read_dir(sshd.path("fetched")).unwrap().count(), 1, "no temporary file is left");
    pool.close().await;
}

#[tokio::test]
async fn abandoned_request_stopped() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    pool.run(&target, call("ping", json!({}))).await.unwrap();
    let mark = sshd.path("mark");
    let command = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", mark.display());
    let waiting = pool.run(&target, call("shell", json!({"_raw_params": command})));
    let appears = async {
        while !mark.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        _ = waiting => panic!("the command does not end by itself"),
        () = appears => {}
    }
    let process = format!("/proc/{}", fs::read_to_string(&mark).unwrap().trim());
    while Path::new(&process).exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    pool.close().await;
}

/// The process of an endless task, two shells deep.
async fn endless_task(pool: &Pool<Value>, target: &Arc<Target>, mark: &Path) -> std::path::PathBuf {
    let command = format!("sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000'; true", mark.display());
    let (pool, target) = (pool.clone(), target.clone());
    tokio::spawn(async move { pool.run(&target, call("shell", json!({"_raw_params": command}))).await.map(drop) });
    while !mark.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    format!("/proc/{}", fs::read_to_string(mark).unwrap().trim()).into()
}

#[tokio::test]
async fn task_of_killed_executor_ends() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let pid = pool.hello(&target).await.unwrap().pid;
    let process = endless_task(&pool, &target, &sshd.path("mark")).await;
    run(Command::new("kill").args(["-KILL", &pid.to_string()]));
    while process.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    pool.close().await;
}

#[tokio::test]
async fn task_of_suspended_executor_ends_once_its_connection_is_gone() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let pid = pool.hello(&target).await.unwrap().pid;
    let process = endless_task(&pool, &target, &sshd.path("mark")).await;
    run(Command::new("kill").args(["-STOP", &pid.to_string()]));
    pool.close().await;
    while process.exists() || Path::new(&format!("/proc/{pid}")).exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn lost_executor_reported_and_request_not_repeated() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let error = pool.run(&target, call("shell", json!({"_raw_params": "kill -KILL $PPID"}))).await.unwrap_err();
    assert!(matches!(error, Error::Indeterminate { rebooted: Some(false), .. }), "{error}");
    assert!(error.to_string().contains("the executor was ended by signal KILL"), "{error}");
    assert_eq!(pool.statistics().await.requests, 1);
    pool.run(&target, call("ping", json!({}))).await.unwrap();
    assert_eq!(pool.statistics().await.connections, 2, "the next task uses the connection that looked for the host");

    // Repeat with the connection cut midway.
    let cutting = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        run(Command::new("pkill").args(["-KILL", "-P", &sshd.id().to_string()]));
    };
    let (answer, ()) = tokio::join!(pool.run(&target, call("command", json!({"_raw_params": "sleep 60"}))), cutting);
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::Indeterminate { rebooted: Some(false), .. }), "{error}");
    pool.close().await;
}

#[tokio::test]
async fn damaged_executor_uploaded_again() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    pool.run(&target, call("ping", json!({}))).await.unwrap();
    pool.close().await;
    let path = sshd.path("remote tmp/.windlass-0").join(&executors(&sshd)[0]);
    let whole = fs::read(&path).unwrap();
    for (uploads, damaged) in [&whole[..whole.len() / 2], &[], b"#!/bin/sh\nexit 0\n"].into_iter().enumerate() {
        // A new file, because the old one may still be running.
        fs::remove_file(&path).unwrap();
        fs::write(&path, damaged).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        pool.run(&target, call("ping", json!({}))).await.unwrap();
        assert_eq!(pool.statistics().await.uploads as usize, uploads + 2);
        assert_eq!(fs::read(&path).unwrap(), whole);
        pool.close().await;
    }
}

#[tokio::test]
async fn too_long_output_fails_only_its_task() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let shell = |text: &str| call("shell", json!({"_raw_params": text}));
    let answer = pool.run(&target, shell("echo begin; head -c 40000000 /dev/zero | tr '\\0' x; echo; echo end")).await;
    let result = answer.unwrap().result;
    assert_eq!((&result["failed"], &result["rc"]), (&json!(true), &json!(0)));
    let message = result["msg"].as_str().unwrap();
    assert!(
        message.contains("output of 40000011 bytes is too long") && message.contains("write to a file"),
        "{message}"
    );
    let kept = result["stdout"].as_str().unwrap();
    assert!(kept.starts_with("begin\nxx") && kept.ends_with("xx\nend") && kept.len() < 100_000, "{}", kept.len());

    // Short enough to accept, but JSON expands every byte.
    let answer = pool.run(&target, shell("head -c 30000000 /dev/zero")).await;
    let message = answer.unwrap().result["msg"].as_str().unwrap().to_owned();
    assert!(message.contains("too large to be sent"), "{message}");

    let raw = RawCommand { command: "head -c 40000000 /dev/zero".into(), ..RawCommand::default() };
    let output = pool.raw(&target, &raw, None).await.unwrap();
    assert_eq!(output.left_out + output.stdout.len() as u64, 40_000_000);
    assert!(output.left_out > 0);

    // A result within the limit arrives complete, on the connection that carried all of this.
    let answer = pool.run(&target, shell("head -c 20000000 /dev/zero | tr '\\0' x")).await.unwrap();
    assert_eq!(answer.result["stdout"].as_str().unwrap().len(), 20_000_000);
    assert_eq!(pool.statistics().await.connections, 1);
    pool.close().await;
}

#[tokio::test]
async fn killed_server_does_not_affect_other_hosts() {
    if !available() {
        return;
    }
    let (dying, living) = (Sshd::start("LogLevel INFO"), Sshd::start("LogLevel INFO"));
    let (first, second) = (Arc::new(target(&dying)), Arc::new(Target { name: "web2".into(), ..target(&living) }));
    let pool = pool();
    let command = format!("touch {}; sleep 3", dying.path("begun").display());
    let first_work = pool.run(&first, call("command", json!({"_raw_params": command, "_uses_shell": true})));
    let second_work = pool.run(&second, call("command", json!({"_raw_params": "sleep 3"})));
    let killing = async {
        while !dying.path("begun").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // The server, and the processes that serve its connections.
        let id = dying.id().to_string();
        run(Command::new("pkill").args(["-KILL", "-P", &id]));
        run(Command::new("kill").args(["-KILL", &id]));
    };
    let (lost, kept, ()) = tokio::join!(first_work, second_work, killing);
    let error = lost.unwrap_err();
    assert!(error.is_unreachable() && error.to_string().contains("web1"), "{error}");
    let state = "the host is unreachable now. It is unknown whether the task completed";
    assert!(error.to_string().contains(state), "{error}");
    kept.unwrap();
    // The pool retries without success and reports the host as unreachable.
    let error = pool.run(&first, call("ping", json!({}))).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    pool.run(&second, call("ping", json!({}))).await.unwrap();
    pool.close().await;
}

#[tokio::test]
async fn closed_pool_leaves_no_process() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let pid = pool.hello(&target).await.unwrap().pid;
    let process = format!("/proc/{pid}");
    assert!(Path::new(&process).exists());
    pool.close().await;
    while Path::new(&process).exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // This holds even if the pool is merely dropped.
    let pid = pool.hello(&target).await.unwrap().pid;
    drop(pool);
    while Path::new(&format!("/proc/{pid}")).exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn executor_without_xz_uploaded_with_gzip() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO\nPermitUserEnvironment yes");
    let programs = sshd.path("programs");
    fs::create_dir(&programs).unwrap();
    fs::write(programs.join("xz"), "#!/bin/sh\ncat >/dev/null\nexit 1\n").unwrap();
    fs::set_permissions(programs.join("xz"), fs::Permissions::from_mode(0o755)).unwrap();
    let key = fs::read_to_string(sshd.path("id.pub")).unwrap();
    let environment = format!("environment=\"PATH={}:/usr/bin:/bin\" {key}", programs.display());
    fs::write(sshd.path("authorized_keys"), environment).unwrap();
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let answer = pool.run(&target, call("ping", json!({}))).await.unwrap();
    assert_eq!(answer.result["ping"], "pong");
    assert_eq!(pool.statistics().await.uploads, 2);
    pool.close().await;
}

#[tokio::test]
async fn noisy_login_shell_tolerated() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO\nPermitUserEnvironment yes\nBanner /etc/passwd");
    let noise = sshd.path("noise");
    fs::write(&noise, "#!/bin/sh\nhead -c 100000 /dev/urandom; echo windlass-begin-; echo; printf 'no newline'; exec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n").unwrap();
    fs::set_permissions(&noise, fs::Permissions::from_mode(0o755)).unwrap();
    let key = fs::read_to_string(sshd.path("id.pub")).unwrap();
    fs::write(sshd.path("authorized_keys"), format!("command=\"{}\" {key}", noise.display())).unwrap();
    let target = Arc::new(target(&sshd));
    let pool = pool();
    pool.run(&target, call("ping", json!({}))).await.unwrap();
    pool.close().await;

    // A forced command that starts no shell has its own error, with the command's output.
    fs::write(sshd.path("authorized_keys"), format!("command=\"echo only backups here\" {key}")).unwrap();
    let error = pool.run(&target, call("ping", json!({}))).await.unwrap_err();
    assert!(error.is_unreachable() && error.to_string().ends_with("it printed: only backups here"), "{error}");
}

#[tokio::test]
async fn noexec_and_full_directories_skipped() {
    if !available() {
        return;
    }
    for option in ["noexec", "size=128k"] {
        let sshd = Sshd::start("LogLevel INFO");
        let folder = sshd.path("folder");
        fs::create_dir(&folder).unwrap();
        let mut mount = Command::new("mount");
        if !mount.args(["-t", "tmpfs", "-o", option, "tmpfs"]).arg(&folder).status().unwrap().success() {
            windlass_testing::lacks("mount");
            return;
        }
        let target = Arc::new(Target { remote_tmp: folder.display().to_string(), ..target(&sshd) });
        let pool = pool();
        let answer = pool.run(&target, call("ping", json!({}))).await;
        let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
        pool.close().await;
        run(Command::new("umount").arg(&folder));
        answer.unwrap();
        assert!(left.is_empty(), "{option}: {left:?}");
    }
}

/// Every login gets a namespace with empty folders that are mounted noexec.
#[tokio::test]
async fn host_where_no_folder_takes_programs_lists_them_and_runs_bare_commands() {
    if !available() {
        return;
    }
    let script = format!(
        "for folder in {} /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o noexec none $folder || exit 9; done; mkdir -p $HOME $HOME/../tmp;",
        std::env::temp_dir().display()
    );
    if !Command::new("unshare").args(["--mount", "sh", "-c", &script]).status().unwrap().success() {
        windlass_testing::lacks("mount");
        return;
    }
    let forced = format!("ForceCommand exec unshare --mount sh -c '{script} eval \"$SSH_ORIGINAL_COMMAND\"'");
    let sshd = Sshd::start(&format!("LogLevel INFO\n{forced}"));
    let target = Arc::new(Target { remote_tmp: sshd.path("tmp").display().to_string(), ..target(&sshd) });
    let pool = pool();
    let error = pool.run(&target, call("ping", json!({}))).await.unwrap_err();
    assert!(error.is_unreachable(), "{error}");
    let folders = [sshd.path("tmp"), sshd.path("home/.cache"), "/var/tmp".into(), "/tmp".into(), "/dev/shm".into()];
    for folder in folders {
        assert!(error.to_string().contains(&format!(" {} (noexec)", folder.display())), "{error}");
    }
    let command = RawCommand { command: "echo here".into(), ..RawCommand::default() };
    assert_eq!(pool.raw(&target, &command, None).await.unwrap().stdout, b"here\n");
    pool.close().await;
}

#[tokio::test]
async fn directory_prepared_by_another_user_not_used() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let trap = sshd.path("trap");
    fs::create_dir_all(trap.join(".windlass-0")).unwrap();
    run(Command::new("chown").arg("nobody").arg(trap.join(".windlass-0")));
    let link = sshd.path("link");
    fs::create_dir_all(&link).unwrap();
    std::os::unix::fs::symlink("/etc", link.join(".windlass-0")).unwrap();
    for place in [trap, link] {
        let target = Arc::new(Target { remote_tmp: place.display().to_string(), ..target(&sshd) });
        let pool = pool();
        pool.run(&target, call("ping", json!({}))).await.unwrap();
        let names: Vec<_> =
            fs::read_dir(place.join(".windlass-0")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("executor-")), "{names:?}");
        pool.close().await;
    }
}

#[tokio::test]
async fn remote_tmp_with_variables_is_expanded_and_never_evaluated() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let evil = sshd.path("evil");
    for (written, made) in [
        ("for $USER", "for root".to_owned()),
        ("of ${LOGNAME}'s", "of root's".to_owned()),
        (&*format!("$(touch {0})`touch {0}`", "evil"), "$(touch evil)`touch evil`".to_owned()),
    ] {
        let target = Arc::new(Target { remote_tmp: sshd.path(written).display().to_string(), ..target(&sshd) });
        let pool = pool();
        pool.run(&target, call("ping", json!({}))).await.unwrap();
        assert!(sshd.path(&made).join(".windlass-0").is_dir(), "{written}");
        pool.close().await;
    }
    assert!(!evil.exists() && !sshd.path("home/evil").exists());
}

#[tokio::test]
async fn tasks_and_bare_commands_run_as_another_user() {
    if !available() || !windlass_testing::has("sudo") {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let who = |user: &str| {
        let user = user.to_owned();
        Some(Become { method: BecomeMethod::Sudo, user, exe: None, flags: None, password: None, timeout: 20 })
    };
    let mut task = call("command", json!({"_raw_params": "id -un"}));
    task.request.become_user = who("nobody");
    assert_eq!(pool.run(&target, task).await.unwrap().result["stdout"], "nobody");
    let mut task = call("command", json!({"_raw_params": "id -un"}));
    task.request.become_user = who("no-such-user");
    assert!(matches!(pool.run(&target, task).await.unwrap_err(), Error::Become { .. }));

    let command = RawCommand { command: "id -un; pwd".into(), become_user: who("nobody"), ..RawCommand::default() };
    let output = pool.raw(&target, &command, None).await.unwrap();
    assert!(output.stdout.starts_with(b"nobody\n/"), "{output:?}");
    let command = RawCommand { become_user: who("no-such-user"), ..command };
    let error = pool.raw(&target, &command, None).await.unwrap_err();
    assert!(matches!(error, Error::Become { .. }) && error.to_string().contains("no-such-user"), "{error}");
    pool.close().await;
}

#[tokio::test]
async fn become_password_sent_once() {
    if !available() || !windlass_testing::has("sudo") {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let user = User::create();
    run(Command::new("usermod").args(["-aG", "sudo", &user.name]));
    fs::set_permissions(sshd.directory.path(), fs::Permissions::from_mode(0o711)).unwrap();
    fs::create_dir(sshd.path("remote tmp")).unwrap();
    run(Command::new("chown").arg(&user.name).arg(sshd.path("remote tmp")));
    let target = Arc::new(Target {
        user: Some(user.name.clone()),
        password: Some(Secret::new("right horse")),
        private_key_file: None,
        ..target(&sshd)
    });
    let pool = pool();
    let who = |method: &str, user: &str, password: &str| {
        let method = BecomeMethod::named(method).unwrap();
        Some(Become {
            method,
            user: user.to_owned(),
            exe: None,
            flags: None,
            password: Some(Secret::new(password)),
            timeout: 30,
        })
    };
    let command = |who| RawCommand {
        command: "id -u; cat".into(),
        become_user: who,
        input: b"fed".to_vec(),
        ..RawCommand::default()
    };
    let output = pool.raw(&target, &command(who("sudo", "root", "right horse")), None).await.unwrap();
    assert_eq!(output.stdout, b"0\nfed", "{output:?}");
    let error = pool.raw(&target, &command(who("sudo", "root", "wrong horse")), None).await.unwrap_err();
    assert!(matches!(error, Error::Become { .. }) && !error.to_string().contains("horse"), "{error}");
    // sshd signals only processes of the login user, so a shell of the become user must do it.
    for text in ["echo $$; exec sleep 1000", "trap '' TERM; echo $$; while :; do sleep 1; done"] {
        let endless = RawCommand {
            command: text.into(),
            become_user: who("sudo", "root", "right horse"),
            ..RawCommand::default()
        };
        assert!(confirmed_end_of_endless(&pool, &target, endless).await, "{text}");
    }
    let su = RawCommand {
        command: "id -un".into(),
        become_user: who("su", &user.name, "right horse"),
        ..RawCommand::default()
    };
    let output = pool.raw(&target, &su, None).await.unwrap();
    assert_eq!(output.stdout, format!("{}\n", user.name).as_bytes());

    let mut task = call("command", json!({"_raw_params": "id -u"}));
    task.request.become_user = who("sudo", "root", "right horse");
    assert_eq!(pool.run(&target, task).await.unwrap().result["stdout"], "0");
    pool.close().await;
}

#[tokio::test]
async fn become_user_who_asks_for_the_password_of_a_bare_command_gets_none() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let user = User::create();
    let home = sshd.path("evil");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(sshd.directory.path(), fs::Permissions::from_mode(0o711)).unwrap();
    // Whoever becomes the user can read the random word of the prompt that sudo would show.
    let profile = r#"cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\0' '\n' |
    grep -ao '\[windlass [^]]*\] password:' | sort -u >&2
printf 'Password: ' >&2
IFS= read -r -t 3 stolen
echo "got $stolen" > ~/stolen
"#;
    fs::write(home.join(".bash_profile"), profile).unwrap();
    run(Command::new("chown").args(["-R", &user.name]).arg(&home));
    run(Command::new("usermod").args(["-s", "/bin/bash", "-d"]).arg(&home).arg(&user.name));
    let target = Arc::new(target(&sshd));
    let pool = pool();
    for (method, flags) in [("su", "-l"), ("sudo", "-i -S")] {
        if !windlass_testing::has(method) {
            continue;
        }
        let who = Become {
            method: BecomeMethod::named(method).unwrap(),
            user: user.name.clone(),
            exe: None,
            flags: Some(flags.to_owned()),
            password: Some(Secret::new("of the administrator")),
            timeout: 30,
        };
        let command = RawCommand { command: "id -un".into(), become_user: Some(who), ..RawCommand::default() };
        let output = pool.raw(&target, &command, None).await.unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains(&user.name), "{method}: {output:?}");
        assert_eq!(fs::read_to_string(home.join("stolen")).unwrap(), "got \n", "{method}");
    }
    pool.close().await;
}

#[tokio::test]
async fn bare_command_runs_with_or_without_executor() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO\nMaxSessions 1");
    let target = Arc::new(target(&sshd));
    let pool = pool();
    let command =
        RawCommand { command: "cat; echo oops >&2; exit 3".into(), input: b"fed".to_vec(), ..RawCommand::default() };
    let output = pool.raw(&target, &command, None).await.unwrap();
    assert_eq!((output.status, output.stdout.as_slice(), output.stderr.as_slice()), (3, &b"fed"[..], &b"oops\n"[..]));
    assert!(executors(&sshd).is_empty());

    // The executor has the only session, so the command gets its own connection.
    pool.run(&target, call("ping", json!({}))).await.unwrap();
    let output = pool.raw(&target, &command, None).await.unwrap();
    assert_eq!(output.stdout, b"fed");

    pool.close().await;
}

/// Runs a command that never ends until its timeout, and returns whether Windlass confirmed its end. Afterwards no
/// process of it may be left.
async fn confirmed_end_of_endless(pool: &Pool<Value>, target: &Arc<Target>, command: RawCommand) -> bool {
    let endless = RawCommand { timeout: Some(Duration::from_millis(500)), ..command };
    let (events, mut seen) = mpsc::channel(10);
    let error = pool.raw(target, &endless, Some(&events)).await.unwrap_err();
    let Error::TimedOut { ended, .. } = error else { panic!("{error}") };
    let Some(TaskEvent::Output { bytes, .. }) = seen.recv().await else { panic!("its process id was printed") };
    let process = format!("/proc/{}", String::from_utf8(bytes).unwrap().trim());
    while Path::new(&process).exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ended
}

#[tokio::test]
async fn bare_command_that_exceeds_its_timeout_is_stopped_for_certain() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let pool = pool();
    let over_ssh = Arc::new(target(&sshd));
    let local = Arc::new(Target { kind: Kind::Local, ..target(&sshd) });
    let command = |command: &str| RawCommand { command: command.into(), ..RawCommand::default() };
    for target in [over_ssh, local] {
        for text in [
            "echo $$; exec sleep 1000",
            "trap '' TERM; echo $$; while :; do sleep 1; done",
            "(trap '' TERM; sh -c 'echo $$; exec sleep 1000') & wait",
        ] {
            assert!(confirmed_end_of_endless(&pool, &target, command(text)).await, "{text}");
        }
    }
    pool.close().await;
}

#[tokio::test]
async fn a_refused_login_is_not_repeated_at_once() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    fs::write(sshd.path("authorized_keys"), "").unwrap();
    let target = Arc::new(target(&sshd));
    let pool = pool();
    for _ in 0..3 {
        let error = pool.run(&target, call("ping", json!({}))).await.unwrap_err();
        assert!(error.to_string().contains("was refused"), "{error}");
    }
    assert_eq!(sshd.log().matches("Connection from 127.0.0.1").count(), 1);
}
