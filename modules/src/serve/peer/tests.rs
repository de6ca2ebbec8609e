//! Tests of transfers between hosts over TCP on this machine: tickets, changed contents, and senders that lie.

use std::{
    fs::File,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use serde_json::json;
use sha2::{Digest, Sha256};
use windlass_protocol::{Content, Delivery, Peer, Secret};

use super::{Cipher, Kept, MEASURED_AFTER, PIECE, SLOWEST, Taken, cipher, is_too_slow};
use aead_stream::StreamPrimitive;

/// Bytes of more than two pieces.
fn bytes() -> Vec<u8> {
    (0..3 * PIECE - 7).map(|at| (at % 251) as u8).collect()
}

fn described(bytes: &[u8]) -> Content {
    Content {
        name: "image.tar".into(),
        size: bytes.len() as u64,
        sha1: String::new(),
        sha256: Some(hex::encode(Sha256::digest(bytes))),
        mode: 0o644,
        delivery: Delivery::OnDemand,
    }
}

fn peer(port: u16, ticket: u8) -> Peer {
    Peer {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        ticket: hex::encode([ticket; 16]),
        key: Secret::new(hex::encode([ticket; 32])),
    }
}

fn take(peer: &Peer, content: &Content) -> Result<Vec<u8>, String> {
    let mut taken =
        Taken::connect(peer, content, Arc::new(AtomicBool::new(false))).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    taken.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// A host that keeps this content in a file, which is returned.
fn keeper(content: &Content, bytes: &[u8]) -> (Arc<Kept>, File) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let kept = Arc::<Kept>::default();
    kept.keep(content, &file);
    (kept, file)
}

/// Announces a transfer, and returns the port.
fn offer(kept: &Arc<Kept>, content: &Content, peer: &Peer) -> Option<u16> {
    let result = kept.offer(&json!({
        "sha256": content.sha256, "address": "127.0.0.1:0", "ticket": peer.ticket, "key": peer.key,
    }));
    result["port"].as_u64().map(|port| u16::try_from(port).unwrap())
}

/// A sender that answers a ticket with these bytes, and closes the connection.
fn sender(answer: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        let _ = stream.write_all(&answer);
    });
    port
}

/// Pieces as an honest sender seals them, each with its number.
fn sealed(cipher: &Cipher, bytes: &[u8], numbers: &[u32]) -> Vec<u8> {
    let last = bytes.chunks(PIECE).count() - 1;
    let mut sent = Vec::new();
    for (number, at) in bytes.chunks(PIECE).zip(numbers) {
        let mut piece = number.to_vec();
        cipher.encrypt_in_place(*at, *at as usize == last, &[], &mut piece).unwrap();
        sent.extend(piece);
    }
    sent
}

#[test]
fn content_passes_from_host_to_host() {
    let bytes = bytes();
    let content = described(&bytes);
    let (kept, _file) = keeper(&content, &bytes);
    for ticket in [1, 2, 3] {
        let port = offer(&kept, &content, &peer(0, ticket)).unwrap();
        assert_eq!(take(&peer(port, ticket), &content).unwrap(), bytes);
    }
}

#[test]
fn ticket_serves_once_and_nothing_is_sent_without_one() {
    let bytes = bytes();
    let content = described(&bytes);
    let (kept, _file) = keeper(&content, &bytes);
    let port = offer(&kept, &content, &peer(0, 1)).unwrap();
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.write_all(&[7; 16]).unwrap();
    let mut said = Vec::new();
    stranger.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"", "a stranger is told nothing");
    assert_eq!(take(&peer(port, 1), &content).unwrap(), bytes);
    assert!(take(&peer(port, 1), &content).is_err(), "the ticket has been used");
}

#[test]
fn content_that_was_never_received_is_not_offered() {
    let content = described(&bytes());
    assert_eq!(offer(&Arc::default(), &content, &peer(0, 1)), None);
}

#[test]
fn content_changed_since_its_arrival_is_refused_by_receiver() {
    let bytes = bytes();
    let content = described(&bytes);
    let (kept, file) = keeper(&content, &bytes);
    std::os::unix::fs::FileExt::write_at(&file, b"#", 5).unwrap();
    let port = offer(&kept, &content, &peer(0, 1)).unwrap();
    assert_eq!(take(&peer(port, 1), &content).unwrap_err(), "it has another content now");
    file.set_len(9).unwrap();
    let port = offer(&kept, &content, &peer(0, 2)).unwrap();
    assert_eq!(take(&peer(port, 2), &content).unwrap_err(), "it closed the connection");
}

#[test]
fn slow_transfer_ends_after_grace() {
    assert!(!is_too_slow(MEASURED_AFTER, 0));
    let later = MEASURED_AFTER * 2;
    assert!(is_too_slow(later, SLOWEST * later.as_secs() - 1));
    assert!(!is_too_slow(later, SLOWEST * later.as_secs()));
    assert!(!is_too_slow(Duration::from_secs(1), 0));
}

#[test]
fn stranger_is_not_served_without_expected_receiver() {
    let bytes = bytes();
    let content = described(&bytes);
    let (kept, _file) = keeper(&content, &bytes);
    let port = offer(&kept, &content, &peer(0, 1)).unwrap();
    // A receiver that reads nothing keeps the sender listening.
    let mut receiver = TcpStream::connect(("127.0.0.1", port)).unwrap();
    receiver.write_all(&[1; 16]).unwrap();
    receiver.read_exact(&mut [0]).unwrap();
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let ended = stranger.read(&mut [0]);
    assert!(matches!(ended, Ok(0)), "{ended:?}");
}

#[test]
fn lying_senders_are_refused() {
    let bytes = bytes();
    let content = described(&bytes);
    let right = || cipher(&peer(0, 1).key).unwrap();
    let honest = sealed(&right(), &bytes, &[0, 1, 2]);
    let mut flipped = honest.clone();
    flipped[PIECE + 100] ^= 1;
    let mut other = bytes.clone();
    other[0] ^= 1;
    let changed = "what it sent was changed on the way";
    let cases = [
        ("nothing", Vec::new(), "it closed the connection"),
        ("one piece", honest[..PIECE + 16].to_vec(), "it closed the connection"),
        ("flipped bit", flipped, changed),
        ("no cipher", bytes.iter().copied().chain([0; 48]).collect(), changed),
        ("another key", sealed(&cipher(&peer(0, 2).key).unwrap(), &bytes, &[0, 1, 2]), changed),
        ("pieces out of order", sealed(&right(), &bytes, &[1, 0, 2]), changed),
        ("another content", sealed(&right(), &other, &[0, 1, 2]), "it has another content now"),
    ];
    for (name, answer, expected) in cases {
        assert_eq!(take(&peer(sender(answer), 1), &content).unwrap_err(), expected, "{name}");
    }
    assert_eq!(take(&peer(sender(honest), 1), &content).unwrap(), bytes, "the honest one");
}

#[test]
fn program_can_be_executed_while_it_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program");
    std::fs::copy("/bin/true", &path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let kept = Arc::<Kept>::default();
    let writer = File::options().write(true).open(&path).unwrap();
    kept.keep(&described(b""), &writer);
    drop(writer);
    assert!(std::process::Command::new(&path).status().unwrap().success());
}
