//! Host keys with a real sshd: known, new, changed, revoked, hashed and certified ones, also through jump hosts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::process::Command;

use support::{Sshd, available, keygen, run};
use windlass_ssh::{Error, HostKeyChecking, Settings, connect};

fn strict(sshd: &Sshd) -> Settings {
    Settings { host_key_checking: Some(HostKeyChecking::Yes), ..sshd.settings() }
}

fn fingerprint(sshd: &Sshd, key: &str) -> String {
    let text = run(Command::new("ssh-keygen").arg("-lf").arg(sshd.path(key)));
    text.split(' ').nth(1).unwrap().to_owned()
}

/// sshd logs this as soon as a client names its user.
fn saw_a_user(sshd: &Sshd) -> bool {
    sshd.log().contains("userauth-request")
}

#[tokio::test]
async fn new_key_refused_or_recorded() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let error = connect(&sshd.destination(), &strict(&sshd)).await.unwrap_err();
    assert!(
        matches!(error, Error::HostKeyUnknown(_)) && error.to_string().contains(&fingerprint(&sshd, "host_key.pub")),
        "{error}"
    );
    assert!(!saw_a_user(&sshd));

    connect(&sshd.destination(), &sshd.settings()).await.unwrap();
    let text = fs::read_to_string(sshd.path("known_hosts")).unwrap();
    assert!(text.starts_with(&format!("[127.0.0.1]:{} ssh-ed25519 ", sshd.port)), "{text}");
    connect(&sshd.destination(), &strict(&sshd)).await.unwrap();
}

#[tokio::test]
async fn a_changed_key_stops_before_the_authentication() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    keygen(&sshd.path("other"), "");
    let other = fs::read_to_string(sshd.path("other.pub")).unwrap();
    sshd.known_hosts(&format!("# known\n[127.0.0.1]:{} {other}", sshd.port));
    let error = connect(&sshd.destination(), &sshd.settings()).await.unwrap_err();
    let text = error.to_string();
    assert!(error.is_host_key() && !error.is_transient());
    assert!(text.contains(&fingerprint(&sshd, "host_key.pub")), "{text}");
    assert!(text.contains(&fingerprint(&sshd, "other.pub")), "{text}");
    assert!(text.contains(&format!("{}:2", sshd.path("known_hosts").display())), "{text}");
    assert!(!saw_a_user(&sshd));

    let off = Settings { host_key_checking: Some(HostKeyChecking::No), ..sshd.settings() };
    let session = connect(&sshd.destination(), &off).await.unwrap();
    assert!(session.warning().unwrap().contains("HAS CHANGED"));
}

#[tokio::test]
async fn a_revoked_key_is_refused_even_if_it_is_known() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let key = sshd.host_public_key();
    sshd.known_hosts(&format!("[127.0.0.1]:{} {key}\n@revoked * {key}\n", sshd.port));
    let error = connect(&sshd.destination(), &sshd.settings()).await.unwrap_err();
    assert!(matches!(&error, Error::HostKeyRevoked(key) if key.line == 2), "{error}");
    assert!(!saw_a_user(&sshd));
}

#[tokio::test]
async fn keys_of_revoked_host_keys_are_refused() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    sshd.known_hosts(&format!("[127.0.0.1]:{} {}\n", sshd.port, sshd.host_public_key()));
    let with_list = |text: &[u8]| {
        fs::write(sshd.path("revoked"), text).unwrap();
        let mut settings = strict(&sshd);
        settings.arguments.push(format!("-oRevokedHostKeys={}", sshd.path("revoked").display()));
        settings
    };
    connect(&sshd.destination(), &with_list(b"# none\n")).await.unwrap();
    let list = format!("# stolen\n{}\n", sshd.host_public_key());
    let error = connect(&sshd.destination(), &with_list(list.as_bytes())).await.unwrap_err();
    assert!(matches!(&error, Error::HostKeyRevoked(key) if key.line == 2), "{error}");

    // A list that cannot be read must not let every key pass.
    let krl = sshd.path("krl");
    run(Command::new("ssh-keygen").args(["-q", "-k", "-f"]).arg(&krl).arg(sshd.path("host_key.pub")));
    for (list, reason) in
        [(fs::read(krl).unwrap(), "is a binary list (KRL)"), (b"no key".to_vec(), "needs public keys")]
    {
        let error = connect(&sshd.destination(), &with_list(&list)).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    let settings = with_list(b"");
    fs::remove_file(sshd.path("revoked")).unwrap();
    let error = connect(&sshd.destination(), &settings).await.unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

#[tokio::test]
async fn rsa_keys_shorter_than_required_rsa_size_are_refused() {
    if !available() {
        return;
    }
    let sshd = Sshd::with_rsa_host_key();
    let mut settings = sshd.settings();
    settings.arguments.extend(["-oRequiredRSASize=3072".to_owned(), "-oHostKeyAlgorithms=rsa-sha2-512".to_owned()]);
    let error = connect(&sshd.destination(), &settings).await.unwrap_err();
    assert!(error.is_host_key() && error.to_string().contains("has 2048 bits"), "{error}");
    assert!(!saw_a_user(&sshd));

    fs::copy(sshd.path("rsa.pub"), sshd.path("authorized_keys")).unwrap();
    settings.arguments.truncate(settings.arguments.len() - 1);
    settings.identity_file = Some(sshd.path("rsa"));
    let error = connect(&sshd.destination(), &settings).await.unwrap_err();
    assert!(error.is_authentication() && error.to_string().contains("it has 2048 bits"), "{error}");
}

#[tokio::test]
async fn names_hashed_by_ssh_keygen_are_found() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    sshd.known_hosts(&format!("[127.0.0.1]:{} {}\n", sshd.port, sshd.host_public_key()));
    run(Command::new("ssh-keygen").arg("-Hf").arg(sshd.path("known_hosts")));
    assert!(fs::read_to_string(sshd.path("known_hosts")).unwrap().starts_with("|1|"));
    connect(&sshd.destination(), &strict(&sshd)).await.unwrap();
}

#[tokio::test]
async fn known_key_algorithm_requested_first() {
    if !available() {
        return;
    }
    let sshd = Sshd::with_rsa_host_key();
    sshd.known_hosts(&format!("[127.0.0.1]:{} {}", sshd.port, fs::read_to_string(sshd.path("rsa.pub")).unwrap()));
    connect(&sshd.destination(), &strict(&sshd)).await.unwrap();
}

#[tokio::test]
async fn host_certificate_of_known_authority_accepted() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca");
    keygen(&ca, "");
    keygen(&directory.path().join("host"), "");
    let sign = |principal: &str| {
        run(Command::new("ssh-keygen")
            .args(["-q", "-h", "-I", "host", "-n", principal, "-s"])
            .arg(&ca)
            .arg(directory.path().join("host.pub")));
    };
    sign("127.0.0.1");
    let sshd = Sshd::start(&format!("HostKey {0}/host\nHostCertificate {0}/host-cert.pub", directory.path().display()));
    let authority =
        format!("@cert-authority [127.0.0.*]:* {}", fs::read_to_string(directory.path().join("ca.pub")).unwrap());
    sshd.known_hosts(&authority);
    connect(&sshd.destination(), &strict(&sshd)).await.unwrap();
    let mut without = strict(&sshd);
    without.arguments.push("-oCASignatureAlgorithms=-ssh-ed25519".to_owned());
    assert!(connect(&sshd.destination(), &without).await.unwrap_err().is_host_key());

    sign("other.example.com");
    let sshd = Sshd::start(&format!("HostKey {0}/host\nHostCertificate {0}/host-cert.pub", directory.path().display()));
    sshd.known_hosts(&authority);
    assert!(connect(&sshd.destination(), &strict(&sshd)).await.unwrap_err().is_host_key());
}

#[tokio::test]
async fn jump_hosts_are_verified_too_and_shared() {
    if !available() {
        return;
    }
    let jump = Sshd::start("");
    let target = Sshd::start("MaxSessions 1");
    let configuration = format!(
        "Host jump\n  HostName 127.0.0.1\n  Port {}\n  User root\n  IdentityFile {}\n  IdentityAgent none\n  UserKnownHostsFile {}\n\
         Host *\n  ProxyJump jump\n",
        jump.port,
        jump.path("id").display(),
        jump.path("known_hosts").display()
    );
    // The jump host's own block must block the ProxyJump of the last one.
    let configuration = configuration.replace("  User root\n", "  User root\n  ProxyJump none\n");
    fs::write(target.path("config"), configuration).unwrap();
    let mut settings = target.settings();
    settings.arguments.extend(["-F".into(), target.path("config").display().to_string()]);
    let connector = windlass_ssh::Connector::default();
    let destination = target.destination();
    let (first, second) =
        tokio::join!(connector.connect(&destination, &settings), connector.connect(&destination, &settings));
    let first = first.unwrap();
    assert_eq!(support::output(&first, "echo through", b"").await.0, "through\n");
    assert!(
        std::ptr::eq(first.via().unwrap(), second.unwrap().via().unwrap()),
        "one connection to the jump host is enough"
    );

    keygen(&jump.path("other"), "");
    let other = fs::read_to_string(jump.path("other.pub")).unwrap();
    jump.known_hosts(&format!("[127.0.0.1]:{} {other}", jump.port));
    let error = connect(&destination, &settings).await.unwrap_err();
    assert!(error.is_host_key() && error.to_string().starts_with("the jump host on the way to"), "{error}");
}
