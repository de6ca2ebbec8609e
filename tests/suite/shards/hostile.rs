//! A worker in another pod that was taken over: it has the worker's key, and sends the lead what it likes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Output};
use std::sync::Arc;
use std::time::Duration;

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio_rustls::rustls::client::AlwaysResolvesClientRawPublicKeys;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring::{default_provider, sign::any_supported_type};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError, SignatureScheme, StreamOwned,
};

use super::{Project, stderr, stdout, wait_until};
use crate::support::free_port;

/// Begin of an Ed25519 key as SubjectPublicKeyInfo.
const ED25519: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Keys of a process of a run.
pub(super) struct Key {
    pub(super) private: Vec<u8>,
    pub(super) public: Vec<u8>,
}

impl Key {
    pub(super) fn new() -> Key {
        let private = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap().as_ref().to_vec();
        let pair = Ed25519KeyPair::from_pkcs8(&private).unwrap();
        Key { public: [&ED25519, pair.public_key().as_ref()].concat(), private }
    }
}

/// Takes every key for that of the lead.
#[derive(Debug)]
struct Any;

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _key: &CertificateDer<'_>,
        _more: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// The only worker of a run.
struct Worker(StreamOwned<ClientConnection, TcpStream>);

impl Worker {
    /// Starts a run in two processes, the second of which is this worker.
    fn of(project: &Project) -> (Child, Worker) {
        let (lead, worker, port) = (Key::new(), Key::new(), free_port());
        fs::create_dir(project.path("keys")).unwrap();
        fs::write(project.path("keys/shard-key"), &lead.private).unwrap();
        fs::write(project.path("keys/shard-peers"), &worker.public).unwrap();
        let listen = format!("--shard-listen=127.0.0.1:{port}");
        let child = project.start(&["--shards", "2", &listen, "--shard-keys", "keys"]);
        wait_until("the lead listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(worker.private));
        let own = CertifiedKey::new(vec![CertificateDer::from(worker.public)], any_supported_type(&key).unwrap());
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Any))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::new(own))));
        let connection = ClientConnection::new(Arc::new(config), ServerName::try_from("windlass").unwrap()).unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        (child, Worker(StreamOwned::new(connection, stream)))
    }

    fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    /// Sends a message. The lead may have ended the connection.
    fn send_text(&mut self, text: &str) {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        let _ =
            self.0.write_all(&length).and_then(|()| self.0.write_all(text.as_bytes())).and_then(|()| self.0.flush());
    }

    /// The next message, if the lead still sends some.
    fn read(&mut self) -> Option<Value> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).ok()?;
        let mut text = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The next task that the worker is given.
    fn given(&mut self) -> Value {
        loop {
            let message = self.read().expect("a task before the end");
            if let Some(step) = message["step"]["step"].as_u64() {
                self.send(&json!({ "reached": step + 2 }));
            }
            if message["run"].is_object() {
                return message["run"].clone();
            }
        }
    }
}

/// Hosts that nobody answers for.
const UNREACHABLE: &str = "h[1:6]\n[all:vars]\nansible_host=127.0.0.1\nansible_port=1\nansible_ssh_args=-F none\n";

#[test]
fn worker_that_was_taken_over_runs_nothing_on_the_lead_and_speaks_for_no_other_host() {
    let project = Project::new(
        r#"- hosts: all
  gather_facts: false
  tasks:
    - command: echo one
      ignore_unreachable: true
      notify: asked
    - command: echo two
      ignore_unreachable: true
    - assert:
        quiet: true
        that: ["colour is not defined", "evil is not defined", "'h7' not in groups.all", "'evil' not in groups"]
  handlers:
    - name: asked
      debug: {msg: handled}
    - name: forged
      shell: touch FOLDER/forged
      delegate_to: localhost
"#,
    );
    project.write("hosts", UNREACHABLE);
    project.write("evil.yml", "evil: x\n");
    let (child, mut worker) = Worker::of(&project);
    worker.send(&json!({ "reached": 1 }));
    let slot = worker.given();
    let command = format!("-o ProxyCommand=\"touch {}\"", project.path("ran").display());
    let options = json!([["ansible_ssh_common_args", command], ["colour", "red"]]);
    let result = json!({ "values": { "changed": true, "stdout": "x", "rc": 0 }, "effects": [
        { "set_facts": { "vars": options, "cacheable": true, "origins": [] } },
        { "facts": { "facts": { "colour": "red" }, "free": [] } },
        { "included_vars": { "files": [project.path("evil.yml")], "name": null, "merge": false, "size": 1 } },
        { "host": { "name": "h7", "groups": ["all"], "vars": { "ansible_connection": "local" } } },
        { "host": { "name": "h1", "groups": ["evil"], "vars": { "ansible_ssh_common_args": command } } },
        { "group": { "name": "evil", "parents": [] } },
        { "stats": { "data": { "evil": 1 }, "per_host": false, "aggregate": false } },
    ] });
    let item = json!({ "host": "h99", "status": "ok", "result": result, "item": "x", "diff": false, "no_log": false, "report": null });
    worker.send(&json!({ "event": [slot, { "item": item }] }));
    worker.send(&json!({ "done": [slot, {
        "result": result, "ignored": false, "items": null, "delegate": "h2", "notify": ["forged"],
        "delegate_facts": true, "action": "set_fact", "no_log": false,
    }] }));
    // The lead takes the host over.
    let _ = worker.read();
    drop(worker);
    let output = child.wait_with_output().unwrap();
    let (text, host) = (stdout(&output), slot["host"].as_str().unwrap());
    assert!(
        text.contains(&format!("changed: [{host}]\n")) && text.contains("=> (item=x)"),
        "{text}{}",
        stderr(&output)
    );
    assert!(!text.contains("h99") && !text.contains("-> h2") && !text.contains("CUSTOM STATS"), "{text}");
    assert!(text.contains("\"msg\": \"handled\"") && text.contains("assert"), "{text}");
    assert!(!text.contains("Assertion failed") && !text.contains("HANDLER [forged]"), "{text}");
    assert!(!project.path("ran").exists() && !project.path("forged").exists(), "{text}");
}

/// A run whose only worker sends messages instead of tasks. Returns the output and what the lead reports.
fn after(messages: &[String]) -> (Output, String) {
    let project = Project::new("- hosts: all\n  gather_facts: false\n  tasks:\n    - command: echo one\n");
    let (child, mut worker) = Worker::of(&project);
    messages.iter().for_each(|message| worker.send_text(message));
    // Until the lead ends the connection, or the run.
    while worker.read().is_some_and(|message| message != "end") {}
    drop(worker);
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    (output, said)
}

#[test]
fn worker_ahead_of_the_run_is_left_out() {
    for point in ["2", "1000"] {
        let (output, said) = after(&[format!(r#"{{"reached": {point}}}"#)]);
        assert!(said.contains("lost: it claims to be at a task where the run cannot be"), "{said}");
        assert_eq!(output.status.code(), Some(0), "{said}");
    }
}

#[test]
fn messages_of_a_worker_are_bounded() {
    let begun = r#"{"reached": 1}"#.to_owned();
    let values = format!(r#"{{"done": [{{"step": 9, "host": "x"}}, {{"items": [{}0]}}]}}"#, "0,".repeat(5 << 20));
    let (_, said) = after(&[begun.clone(), values]);
    assert!(said.contains("lost: its message cannot be read: it has too many values"), "{said}");
    let secret =
        |number| format!(r#"{{"secret": {{"text": "{number}{}", "is_password": false}}}}"#, "x".repeat(1 << 20));
    let secrets: Vec<_> = (0..17).map(secret).collect();
    let (_, said) = after(&[vec![begun.clone()], secrets].concat());
    assert!(said.contains("lost: it has too many secrets"), "{said}");
    let strayed = r#"{"strayed": "it is elsewhere"}"#.to_owned();
    let (output, said) = after(&vec![strayed; 50]);
    assert_eq!((said.matches("was left out").count(), output.status.code()), (1, Some(0)), "{said}");
    let warning = format!(r#"{{"said": {{"warning": "{}"}}}}"#, "x ".repeat(1 << 19));
    let (output, said) = after(&[vec![begun], vec![warning; 20], vec!["\"ended\"".to_owned()]].concat());
    assert!(said.contains("further warnings and details of process 2 are not shown"), "{}", said.len());
    assert!(said.len() < 20 << 20 && output.status.success(), "{}", said.len());
}
