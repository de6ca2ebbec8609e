//! Interaction about host keys with a real sshd: questions, warnings before the login, scanning and pinning.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{Sshd, User, available, keygen, run};
use windlass_ssh::{
    Connector, Destination, Error, HostKeyChecking, HostKeyUser, Pending, PresentedKey, Secret, Settings, Verdict,
};

/// Gives the same answer to every question and records what it was shown.
#[derive(Default)]
struct Person {
    answer: Option<bool>,
    asked: Mutex<Vec<String>>,
    warned: Mutex<Vec<String>>,
    open: AtomicUsize,
    most_open: AtomicUsize,
    log: Option<std::path::PathBuf>,
    /// Number of warnings that came after sshd had seen a login.
    late: AtomicUsize,
}

impl HostKeyUser for Person {
    fn confirm<'a>(&'a self, key: &'a PresentedKey) -> Pending<'a, Option<bool>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(format!("{} {}", key.host, key.fingerprint));
            let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_open.fetch_max(open, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(200)).await;
            self.open.fetch_sub(1, Ordering::SeqCst);
            self.answer
        })
    }

    fn warn(&self, sentence: String) -> Pending<'_, ()> {
        Box::pin(async move {
            let log = self.log.as_ref().map(|log| fs::read_to_string(log).unwrap()).unwrap_or_default();
            self.late.fetch_add(usize::from(log.contains("userauth-request")), Ordering::SeqCst);
            self.warned.lock().unwrap().push(sentence);
        })
    }
}

fn person(answer: Option<bool>) -> (Arc<Person>, Connector) {
    let person = Arc::new(Person { answer, ..Person::default() });
    (person.clone(), Connector::for_user(person))
}

fn asking(sshd: &Sshd) -> Settings {
    Settings { host_key_checking: Some(HostKeyChecking::Ask), ..sshd.settings() }
}

fn saw_a_user(sshd: &Sshd) -> bool {
    sshd.log().contains("userauth-request")
}

fn fingerprint(sshd: &Sshd, key: &str) -> String {
    run(Command::new("ssh-keygen").arg("-lf").arg(sshd.path(key))).split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn unknown_key_confirmed_connects_and_is_pinned() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let (person, connector) = person(Some(true));
    let (destination, settings) = (sshd.destination(), asking(&sshd));
    connector.connect(&destination, &settings).await.unwrap();
    connector.connect(&destination, &settings).await.unwrap();
    let asked = person.asked.lock().unwrap().clone();
    assert_eq!(asked, [format!("[127.0.0.1]:{} {}", sshd.port, fingerprint(&sshd, "host_key.pub"))]);
    let text = fs::read_to_string(sshd.path("known_hosts")).unwrap();
    assert!(text.starts_with(&format!("[127.0.0.1]:{} ssh-ed25519 ", sshd.port)), "{text}");
}

#[tokio::test]
async fn unknown_key_declined_is_refused_without_a_login_and_asked_once() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let (person, connector) = person(Some(false));
    for _ in 0..2 {
        let error = connector.connect(&sshd.destination(), &asking(&sshd)).await.unwrap_err();
        assert!(matches!(error, Error::HostKeyDeclined(_)) && error.is_host_key(), "{error}");
    }
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    assert!(!saw_a_user(&sshd) && !sshd.path("known_hosts").exists());
}

#[tokio::test]
async fn unknown_key_without_a_terminal_is_refused_with_the_hint() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let (_, connector) = person(None);
    let error = connector.connect(&sshd.destination(), &asking(&sshd)).await.unwrap_err();
    assert!(error.to_string().contains("`--accept-new-host-keys`"), "{error}");
    assert!(!saw_a_user(&sshd));
}

#[tokio::test]
async fn questions_about_several_hosts_come_one_at_a_time() {
    if !available() {
        return;
    }
    let sshds = [Sshd::start(""), Sshd::start(""), Sshd::start("")];
    let (person, connector) = person(Some(true));
    let connector = Arc::new(connector);
    let connecting = sshds.iter().map(|sshd| {
        let (connector, destination, settings) = (connector.clone(), sshd.destination(), asking(sshd));
        tokio::spawn(async move { connector.connect(&destination, &settings).await.map(drop) })
    });
    for task in connecting.collect::<Vec<_>>() {
        task.await.unwrap().unwrap();
    }
    assert_eq!((person.asked.lock().unwrap().len(), person.most_open.load(Ordering::SeqCst)), (3, 1));
}

#[tokio::test]
async fn unknown_key_with_checking_off_warns_once_before_login() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let person = Arc::new(Person { log: Some(sshd.path("log")), ..Person::default() });
    let connector = Connector::for_user(person.clone());
    let mut settings = Settings { host_key_checking: Some(HostKeyChecking::No), ..sshd.settings() };
    // Nothing is recorded, so the key stays unknown.
    settings.arguments = vec!["-oUserKnownHostsFile=/dev/null".into(), "-oIdentityAgent=none".into()];
    for _ in 0..2 {
        let session = connector.connect(&sshd.destination(), &settings).await.unwrap();
        assert!(session.warning().is_none() && !session.has_changed_host_key());
    }
    let warned = person.warned.lock().unwrap().clone();
    assert!(warned.len() == 1 && warned[0].contains(&fingerprint(&sshd, "host_key.pub")), "{warned:?}");
    assert!(!warned[0].contains("was sent"), "{warned:?}");
    assert_eq!(person.late.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn changed_key_with_checking_off_gets_no_password() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("PasswordAuthentication yes");
    let user = User::create();
    keygen(&sshd.path("other"), "");
    let other = fs::read_to_string(sshd.path("other.pub")).unwrap();
    sshd.known_hosts(&format!("[127.0.0.1]:{} {other}", sshd.port));
    let (person, connector) = person(None);
    let off = Settings { host_key_checking: Some(HostKeyChecking::No), ..sshd.settings() };
    let password = Settings { identity_file: None, password: Some(Secret::new("right horse")), ..off.clone() };
    let destination = Destination { user: Some(user.name.clone()), ..sshd.destination() };
    let error = connector.connect(&destination, &password).await.unwrap_err();
    assert!(error.to_string().contains("the password was not sent, since the host key has changed"), "{error}");
    assert!(!sshd.log().contains("Failed password"), "{}", sshd.log());

    // A key authenticates without revealing a secret.
    let session = connector.connect(&sshd.destination(), &off).await.unwrap();
    assert!(session.has_changed_host_key());
    let warned = person.warned.lock().unwrap().clone();
    assert!(warned.len() == 1 && warned[0].contains("HAS CHANGED"), "{warned:?}");
    assert!(!warned[0].contains("nothing was sent"), "{warned:?}");
}

#[tokio::test]
async fn scan_reads_every_key_compares_it_and_pins_it() {
    if !available() {
        return;
    }
    let sshd = Sshd::with_rsa_host_key();
    let (destination, settings) = (sshd.destination(), asking(&sshd));
    let connector = Connector::default();
    let keys = connector.host_keys(&destination, &settings).await.unwrap();
    let found: Vec<_> = keys.iter().map(|key| (key.algorithm.as_str(), key.verdict == Verdict::Unknown)).collect();
    assert_eq!(found, [("ssh-ed25519", true), ("ssh-rsa", true)]);
    assert_eq!(keys[0].fingerprint, fingerprint(&sshd, "host_key.pub"));
    assert!(connector.verify_host_key(&destination, &settings).await.is_err());
    keys.iter().for_each(|key| key.pin(&key.file).unwrap());
    connector.verify_host_key(&destination, &settings).await.unwrap();
    let keys = connector.host_keys(&destination, &settings).await.unwrap();
    assert!(keys.iter().all(|key| matches!(&key.verdict, Verdict::Known { .. })), "{keys:?}");

    keygen(&sshd.path("other"), "");
    let other = fs::read_to_string(sshd.path("other.pub")).unwrap();
    sshd.known_hosts(&format!("# known\n[127.0.0.1]:{} {other}", sshd.port));
    let keys = connector.host_keys(&destination, &settings).await.unwrap();
    assert!(matches!(&keys[0].verdict, Verdict::Changed { line: 2, .. }), "{keys:?}");
    assert!(!saw_a_user(&sshd), "a scan logs in nowhere");
}
