//! Logins with keys, agents, certificates and passwords on a real sshd.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{Agent, Sshd, User, available, keygen, keygen_rsa, output, run};
use windlass_ssh::{Connector, Exit, Secret, Settings, connect};

/// Settings with the keys of an agent and no file.
fn with_agent(sshd: &Sshd, agent: &Agent) -> Settings {
    let mut settings = Settings { identity_file: None, ..sshd.settings() };
    settings.arguments.retain(|argument| !argument.contains("IdentityAgent"));
    settings.arguments.push(format!("-oIdentityAgent={}", agent.socket.display()));
    settings
}

#[tokio::test]
async fn key_file_login_runs_command_with_all_streams() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let session = connect(&sshd.destination(), &sshd.settings()).await.unwrap();
    let (stdout, stderr, exit) = output(&session, "cat; echo oops >&2; exit 7", b"hello").await;
    assert_eq!((stdout.as_str(), stderr.as_str(), exit), ("hello", "oops\n", Some(Exit::Status(7))));
    let (_, _, exit) = output(&session, "kill -9 $$", b"").await;
    assert_eq!(exit, Some(Exit::Signal("KILL".into())));
}

#[tokio::test]
async fn an_encrypted_key_is_unlocked_once_for_many_connections() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    keygen(&sshd.path("locked"), "open sesame");
    fs::copy(sshd.path("locked.pub"), sshd.path("authorized_keys")).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let settings = Settings {
        identity_file: Some(sshd.path("locked")),
        passphrase: Some(Arc::new(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            Some(Secret::new("open sesame"))
        })),
        ..sshd.settings()
    };
    let connector = Connector::default();
    let destination = sshd.destination();
    let (first, second) =
        tokio::join!(connector.connect(&destination, &settings), connector.connect(&destination, &settings));
    first.unwrap();
    second.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    let wrong = Settings { passphrase: Some(Arc::new(|_| Some(Secret::new("wrong")))), ..settings.clone() };
    let error = connect(&destination, &wrong).await.unwrap_err();
    assert!(error.is_authentication() && error.to_string().contains("the passphrase of the key"), "{error}");
    let none = Settings { passphrase: None, ..settings };
    let error = connect(&destination, &none).await.unwrap_err();
    assert!(error.to_string().contains("is encrypted and no passphrase is given"), "{error}");
}

#[tokio::test]
async fn key_that_others_may_read_is_not_used() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    fs::set_permissions(sshd.path("id"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = connect(&sshd.destination(), &sshd.settings()).await.unwrap_err();
    assert!(error.is_authentication() && error.to_string().contains("run `chmod 600"), "{error}");
}

#[tokio::test]
async fn file_that_others_may_read_still_names_a_key_of_the_agent() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let exposed = |agent: &Agent, key: &str| {
        fs::set_permissions(sshd.path(key), fs::Permissions::from_mode(0o644)).unwrap();
        let mut settings = with_agent(&sshd, agent);
        settings.arguments.push("-oIdentitiesOnly=yes".into());
        settings.identity_file = Some(sshd.path(key));
        settings
    };
    let agent = Agent::with_key(sshd.directory.path(), &sshd.path("id"));
    connect(&sshd.destination(), &exposed(&agent, "id")).await.unwrap();

    // A file in the older format gives its public half only with the private one.
    run(Command::new("ssh-keygen").args(["-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-f"]).arg(sshd.path("old")));
    fs::copy(sshd.path("old.pub"), sshd.path("authorized_keys")).unwrap();
    let agent = Agent::with_key(&sshd.path("home"), &sshd.path("old"));
    let settings = exposed(&agent, "old");
    connect(&sshd.destination(), &settings).await.unwrap();
    fs::remove_file(sshd.path("old.pub")).unwrap();
    let error = connect(&sshd.destination(), &settings).await.unwrap_err();
    assert!(error.is_authentication() && error.to_string().contains("run `chmod 600"), "{error}");
}

#[tokio::test]
async fn keys_of_the_agent_shorter_than_required_rsa_size_are_not_offered() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let key = sshd.path("rsa");
    keygen_rsa(&key);
    fs::copy(sshd.path("rsa.pub"), sshd.path("authorized_keys")).unwrap();
    let agent = Agent::with_key(sshd.directory.path(), &key);
    let mut settings = with_agent(&sshd, &agent);
    connect(&sshd.destination(), &settings).await.unwrap();
    settings.arguments.push("-oRequiredRSASize=3072".into());
    let error = connect(&sshd.destination(), &settings).await.unwrap_err().to_string();
    assert!(error.contains("the agent's key SHA256:"), "{error}");
    assert!(error.contains("is not used: it has 2048 bits, and RequiredRSASize is 3072"), "{error}");
    assert!(!error.contains("offered the agent's key"), "{error}");
}

#[tokio::test]
async fn rsa_key_file_logs_in() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let key = sshd.path("rsa");
    keygen_rsa(&key);
    fs::copy(sshd.path("rsa.pub"), sshd.path("authorized_keys")).unwrap();
    connect(&sshd.destination(), &Settings { identity_file: Some(key), ..sshd.settings() }).await.unwrap();
}

#[tokio::test]
async fn agent_signs_for_its_keys_and_encrypted_files() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let agent = Agent::with_key(sshd.directory.path(), &sshd.path("id"));
    let settings = with_agent(&sshd, &agent);
    connect(&sshd.destination(), &settings).await.unwrap();

    // An encrypted file needs no passphrase if its key is in the agent.
    run(Command::new("ssh-keygen").args(["-q", "-p", "-P", "", "-N", "locked", "-f"]).arg(sshd.path("id")));
    let named = Settings { identity_file: Some(sshd.path("id")), ..settings.clone() };
    connect(&sshd.destination(), &named).await.unwrap();

    // IdentitiesOnly withholds the agent's other keys.
    keygen(&sshd.path("stranger"), "");
    let only = Settings {
        identity_file: Some(sshd.path("stranger")),
        arguments: settings.arguments.iter().cloned().chain(["-oIdentitiesOnly=yes".into()]).collect(),
        ..settings
    };
    let error = connect(&sshd.destination(), &only).await.unwrap_err();
    assert!(error.to_string().contains("stranger") && !error.to_string().contains("agent's key"), "{error}");
}

#[tokio::test]
async fn user_certificate_beside_key_accepted() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    keygen(&sshd.path("ca"), "");
    fs::write(
        sshd.path("authorized_keys"),
        format!("cert-authority {}", fs::read_to_string(sshd.path("ca.pub")).unwrap()),
    )
    .unwrap();
    assert!(connect(&sshd.destination(), &sshd.settings()).await.unwrap_err().is_authentication());
    run(Command::new("ssh-keygen")
        .args(["-q", "-I", "me", "-n", "root", "-s"])
        .arg(sshd.path("ca"))
        .arg(sshd.path("id.pub")));
    connect(&sshd.destination(), &sshd.settings()).await.unwrap();
}

#[tokio::test]
async fn right_password_accepted_wrong_one_explained() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let user = User::create();
    let settings = Settings { identity_file: None, password: Some(Secret::new("right horse")), ..sshd.settings() };
    let destination = windlass_ssh::Destination { user: Some(user.name.clone()), ..sshd.destination() };
    let session = connect(&destination, &settings).await.unwrap();
    assert_eq!(output(&session, "id -un", b"").await.0.trim(), user.name);

    let wrong = Settings { password: Some(Secret::new("wrong horse")), ..settings.clone() };
    let error = connect(&destination, &wrong).await.unwrap_err();
    assert!(error.is_authentication() && !error.is_transient());
    let text = error.to_string();
    assert!(text.contains("offered the password") && text.contains("the server accepts publickey, password"), "{text}");
    assert!(!text.contains("wrong horse"));
    assert_eq!(sshd.log().matches("Failed password").count(), 1, "a wrong password is offered once");
}

#[tokio::test]
async fn server_with_multiple_methods_satisfied() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("AuthenticationMethods publickey,password");
    let user = User::create();
    let destination = windlass_ssh::Destination { user: Some(user.name.clone()), ..sshd.destination() };
    let settings = Settings { password: Some(Secret::new("right horse")), ..sshd.settings() };
    connect(&destination, &settings).await.unwrap();
    let key_only = Settings { password: None, ..settings };
    let error = connect(&destination, &key_only).await.unwrap_err();
    assert!(error.to_string().contains("the server accepts password"), "{error}");
}
