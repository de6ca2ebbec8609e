//! A server that only asks questions, as PAM servers do; sshd offers that method only with PAM.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use russh::server::{Auth, Config, Handler, Response, run_stream};
use russh::{MethodKind, MethodSet};
use ssh_key::{Algorithm, PrivateKey};
use tokio::net::TcpListener;
use windlass_ssh::{ConfigFiles, Destination, HostKeyChecking, Secret, Settings, connect};

struct Questions {
    answers: Arc<AtomicUsize>,
}

impl Handler for Questions {
    type Error = russh::Error;

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        _user: &str,
        _submethods: &str,
        response: Option<Response<'a>>,
    ) -> Result<Auth, Self::Error> {
        if let Some(mut response) = response {
            self.answers.fetch_add(1, Ordering::SeqCst);
            if response.next().is_some_and(|answer| answer.as_ref() == b"right horse") {
                return Ok(Auth::Accept);
            }
        }
        Ok(Auth::Partial {
            name: Cow::Borrowed(""),
            instructions: Cow::Borrowed(""),
            prompts: Cow::Borrowed(&[(Cow::Borrowed("Passwort: "), false)]),
        })
    }
}

async fn serve(answers: Arc<AtomicUsize>) -> u16 {
    let key = PrivateKey::random(&mut russh::keys::key::safe_rng(), Algorithm::Ed25519).unwrap();
    let config = Arc::new(Config {
        keys: vec![key],
        methods: MethodSet::from([MethodKind::KeyboardInteractive].as_slice()),
        ..Config::default()
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let session = run_stream(config.clone(), stream, Questions { answers: answers.clone() });
            tokio::spawn(async move { session.await.unwrap().await });
        }
    });
    port
}

#[tokio::test]
async fn password_answers_prompt_only_once() {
    let answers = Arc::new(AtomicUsize::new(0));
    let destination =
        Destination { host: "127.0.0.1".into(), port: Some(serve(answers.clone()).await), user: Some("me".into()) };
    let settings = Settings {
        arguments: vec![
            "-oUserKnownHostsFile=/dev/null".into(),
            "-oIdentityAgent=none".into(),
            "-oPubkeyAuthentication=no".into(),
        ],
        password: Some(Secret::new("right horse")),
        host_key_checking: Some(HostKeyChecking::AcceptNew),
        config_files: ConfigFiles::None,
        ..Settings::default()
    };
    connect(&destination, &settings).await.unwrap();
    assert_eq!(answers.swap(0, Ordering::SeqCst), 1);

    let wrong = Settings { password: Some(Secret::new("wrong horse")), ..settings };
    let error = connect(&destination, &wrong).await.unwrap_err();
    assert!(error.is_authentication(), "{error}");
    assert_eq!(answers.load(Ordering::SeqCst), 1, "a wrong password is given once");
}
