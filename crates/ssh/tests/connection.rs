//! Slow, busy, broken and foreign servers, and long transfers that rekey.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::{SSHD, Sshd, available, free_port, output};
use windlass_ssh::{
    ConfigFiles, Connector, Deadlines, Destination, Error, HostKeyChecking, Output, Phase, Settings, connect,
};

fn nobody(port: u16) -> (Destination, Settings) {
    let destination = Destination { host: "127.0.0.1".into(), port: Some(port), user: Some("root".into()) };
    let settings = Settings {
        arguments: vec!["-oUserKnownHostsFile=/dev/null".into()],
        host_key_checking: Some(HostKeyChecking::AcceptNew),
        config_files: ConfigFiles::None,
        connect_timeout: Some(Duration::from_millis(300)),
        deadlines: Deadlines { key_exchange: Duration::from_millis(300), ..Deadlines::default() },
        ..Settings::default()
    };
    (destination, settings)
}

/// Answers every connection with a text, then closes it or keeps it open.
fn server(text: &'static str, close: bool) -> u16 {
    counting_server(text, close).0
}

/// Such a server, and the number of connections it has accepted.
fn counting_server(text: &'static str, close: bool) -> (u16, Arc<AtomicUsize>) {
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
            stream.write_all(text.as_bytes()).unwrap();
            if !close {
                open.push(stream);
            }
        }
    });
    (port, accepted)
}

#[tokio::test]
async fn each_unreachable_cause_has_its_own_message() {
    let (destination, settings) = nobody(free_port());
    let error = connect(&destination, &settings).await.unwrap_err();
    assert!(matches!(error, Error::Tcp { .. }) && error.to_string().contains("refused"), "{error}");

    let (destination, settings) = nobody(server("", false));
    let error = connect(&destination, &settings).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Banner, .. }), "{error}");

    let (destination, settings) = nobody(server("SSH-2.0-Slow\r\n", false));
    let error = connect(&destination, &settings).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::KeyExchange, .. }), "{error}");

    let (destination, settings) = nobody(server("HTTP/1.1 400 Bad Request\r\n\r\n", true));
    let error = connect(&destination, &settings).await.unwrap_err();
    assert!(matches!(error, Error::NotSsh { .. }) && error.to_string().contains("HTTP/1.1 400"), "{error}");

    let (mut destination, settings) = nobody(22);
    destination.host = "no-such-host.invalid".into();
    let error = connect(&destination, &settings).await.unwrap_err();
    assert!(matches!(error, Error::Resolve { .. }), "{error}");
}

#[tokio::test]
async fn passed_deadline_repeated_only_by_wish() {
    for text in ["", "SSH-2.0-Slow\r\n"] {
        for (retries, attempts) in [(None, 1), (Some(0), 1), (Some(1), 2)] {
            let (port, accepted) = counting_server(text, false);
            let (destination, mut settings) = nobody(port);
            settings.retries = retries;
            let error = connect(&destination, &settings).await.unwrap_err();
            assert!(matches!(error, Error::Timeout { .. }), "{error}");
            assert_eq!(accepted.load(Ordering::Relaxed), attempts, "{retries:?} after {text:?}");
        }
    }
}

#[tokio::test]
async fn connection_refused_under_load_retried() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("MaxStartups 2\nPerSourceMaxStartups none");
    let (destination, settings) = (sshd.destination(), sshd.settings());
    let attempts = (0..8).map(|_| {
        let (destination, settings) = (destination.clone(), settings.clone());
        tokio::spawn(async move { connect(&destination, &settings).await.map(|_| ()) })
    });
    for attempt in attempts.collect::<Vec<_>>() {
        attempt.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn proxy_command_connects_or_reports_its_failure() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let mut settings = sshd.settings();
    settings.arguments.push(format!("-oProxyCommand={SSHD} -i -f {}", sshd.path("sshd_config").display()));
    let session = connect(&sshd.destination(), &settings).await.unwrap();
    assert_eq!(output(&session, "echo proxied", b"").await.0, "proxied\n");

    settings.arguments.pop();
    settings.arguments.push("-oProxyCommand=echo no way to %h >&2".into());
    let error = connect(&sshd.destination(), &settings).await.unwrap_err();
    assert!(
        matches!(error, Error::ProxyCommand { .. }) && error.to_string().ends_with("no way to 127.0.0.1"),
        "{error}"
    );
}

#[tokio::test]
async fn proxy_commands_of_many_hosts_stay_within_max_startups() {
    if !available() {
        return;
    }
    // Like OpenSSH's default limit, but without the random refusals.
    let jump = Sshd::start("MaxStartups 10\nPerSourceMaxStartups none");
    let target = Sshd::start("MaxStartups 100\nPerSourceMaxStartups none");
    let mut settings = target.settings();
    settings.arguments.push(format!(
        "-oProxyCommand=ssh -F none -o BatchMode=yes -o IdentityAgent=none -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null -i {} -p {} -W %h:%p root@127.0.0.1",
        jump.path("id").display(),
        jump.port
    ));
    let connector = Arc::new(Connector::default());
    let attempts = (0..24).map(|_| {
        let (connector, destination, settings) = (connector.clone(), target.destination(), settings.clone());
        tokio::spawn(async move { connector.connect(&destination, &settings).await })
    });
    for attempt in attempts.collect::<Vec<_>>() {
        attempt.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn second_session_beyond_limit_refused() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("MaxSessions 1");
    let session = connect(&sshd.destination(), &sshd.settings()).await.unwrap();
    let first = session.exec("cat", false).await.unwrap();
    let error = session.exec("true", false).await.unwrap_err();
    assert!(matches!(error, Error::ChannelRefused { .. }) && error.to_string().contains("MaxSessions"), "{error}");
    drop(first);
}

#[tokio::test]
async fn large_transfers_survive_rekeying() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("RekeyLimit 4M");
    let mut settings = sshd.settings();
    settings.arguments.push("-oRekeyLimit=8M".into());
    let session = connect(&sshd.destination(), &settings).await.unwrap();
    let channel = session.exec("cat", false).await.unwrap();
    let (input, mut received) = (channel.input, channel.output);
    let piece: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    let expected = piece.clone();
    let feeder = tokio::spawn(async move {
        for _ in 0..64 {
            assert!(input.send(piece.clone()).await);
        }
        input.finish().await;
    });
    let mut count = 0;
    while let Some(output) = received.next().await {
        if let Output::Stdout(bytes) = output {
            for byte in bytes {
                assert_eq!(Some(&byte), expected.get(count % expected.len()));
                count += 1;
            }
        }
    }
    feeder.await.unwrap();
    assert_eq!(count, 64 << 20);
    assert!(sshd.log().matches("rekey").count() > 4, "the keys were exchanged anew several times");
}

#[tokio::test]
async fn a_terminal_in_raw_mode_passes_every_byte_on() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let session = connect(&sshd.destination(), &sshd.settings()).await.unwrap();
    let mut channel = session.exec("test -t 0 && head -c 256", true).await.unwrap();
    let all: Vec<u8> = (0..=255).collect();
    assert!(channel.input.send(all.clone()).await);
    let mut received = Vec::new();
    while let Some(output) = channel.output.next().await {
        if let Output::Stdout(bytes) = output {
            received.extend(bytes);
        }
    }
    assert_eq!(received, all);
}
