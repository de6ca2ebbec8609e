//! Round trips of random texts and passwords; a changed envelope is refused.

#![allow(clippy::unwrap_used, missing_docs)]

use windlass_vault::{Secret, Secrets, decrypt, encrypt, is_encrypted, label};

/// Generates bytes from a seed, so that a failure can be repeated.
fn bytes(state: &mut u64, length: usize) -> Vec<u8> {
    let mut next = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 40) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn keys(secret: &Secret) -> Secrets {
    let mut secrets = Secrets::new();
    secrets.push(secret.clone());
    secrets
}

#[test]
fn random_text_round_trips() {
    let mut state = 21;
    for length in [0, 1, 15, 16, 17, 31, 32, 79, 80, 81, 1_000, 100_000] {
        let plain = bytes(&mut state, length);
        let secret = Secret::new(if length % 2 == 0 { "default" } else { "prod" }, bytes(&mut state, length % 40 + 1));
        let envelope = encrypt(&plain, &secret).unwrap();
        assert!(is_encrypted(envelope.as_bytes()));
        assert_eq!(label(envelope.as_bytes()).is_some(), secret.label() == "prod");
        assert_eq!(decrypt(envelope.as_bytes(), &keys(&secret)).unwrap(), plain);
    }
}

#[test]
fn changed_envelope_refused() {
    let secret = Secret::new("default", "password");
    let plain = b"a text that is a little longer than one block of the cipher";
    let envelope = encrypt(plain, &secret).unwrap().into_bytes();
    let body = envelope.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for place in (body..envelope.len()).step_by(17).filter(|place| envelope[*place] != b'\n') {
        let mut changed = envelope.clone();
        changed[place] = if changed[place] == b'3' { b'4' } else { b'3' };
        if changed != envelope {
            assert!(decrypt(&changed, &keys(&secret)).is_err(), "the byte at {place} was changed");
        }
    }
    for length in (0..envelope.len() - 1).step_by(29) {
        assert!(decrypt(&envelope[..length], &keys(&secret)).is_err(), "only {length} bytes are left");
    }
}

#[test]
fn random_bytes_refused() {
    let secrets = keys(&Secret::new("default", "password"));
    let mut state = 22;
    for length in 0..300 {
        let noise = bytes(&mut state, length);
        assert!(decrypt(&noise, &secrets).is_err());
        for header in [
            "$ANSIBLE_VAULT;1.1;AES256\n",
            "$ANSIBLE_VAULT;1.2;AES256;x\n",
            "$ANSIBLE_VAULT;",
            "$ANSIBLE_VAULT;1.1;AES256\r\n",
        ] {
            assert!(decrypt(&[header.as_bytes(), &noise].concat(), &secrets).is_err());
            assert!(decrypt(format!("{header}{}", hexadecimal(&noise)).as_bytes(), &secrets).is_err());
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
