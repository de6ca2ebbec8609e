//! Envelopes written by `ansible-vault`, and the error messages for invalid ones.
#![allow(missing_docs, clippy::unwrap_used)]

use windlass_vault::{
    Error, Secret, Secrets, decrypt, decrypt_with_secret, encrypt, encrypt_with_salt, is_encrypted, label,
};

const PLAIN: &[u8] = "key: value\nother: äöü\n".as_bytes();
const VERSION_1_1: &[u8] = include_bytes!("fixtures/version-1.1.vault");
const VERSION_1_2: &[u8] = include_bytes!("fixtures/version-1.2.vault");
const EMPTY: &[u8] = include_bytes!("fixtures/empty.vault");

fn secrets(pairs: &[(&str, &str)]) -> Secrets {
    pairs.iter().map(|(label, password)| Secret::new(*label, *password)).collect()
}

#[test]
fn envelopes_of_ansible_vault_are_decrypted() {
    let secrets = secrets(&[("default", "harbour")]);
    assert_eq!(decrypt(VERSION_1_1, &secrets).unwrap(), PLAIN);
    assert_eq!(decrypt(VERSION_1_2, &secrets).unwrap(), PLAIN);
    assert_eq!(decrypt(EMPTY, &secrets).unwrap(), b"");
    assert_eq!(label(VERSION_1_1), None);
    assert_eq!(label(VERSION_1_2).as_deref(), Some("prod"));
}

#[test]
fn encrypted_text_round_trips() {
    let secrets = secrets(&[("default", "a"), ("prod", "b")]);
    for length in [0, 1, 15, 16, 17, 1000] {
        let plain: Vec<u8> = (0..length).map(|index| index as u8).collect();
        let envelope = encrypt(&plain, secrets.get("prod").unwrap()).unwrap();
        assert!(is_encrypted(envelope.as_bytes()) && envelope.lines().all(|line| line.len() <= 80));
        let prod = secrets.get("prod").unwrap();
        assert_eq!(decrypt_with_secret(envelope.as_bytes(), &secrets).unwrap(), (plain, prod));
    }
    assert!(encrypt(b"x", &Secret::new("default", "a")).unwrap().starts_with("$ANSIBLE_VAULT;1.1;AES256\n"));
}

#[test]
fn indented_envelopes_are_decrypted() {
    let indented = String::from_utf8_lossy(VERSION_1_1).replace('\n', "\r\n    ");
    assert_eq!(decrypt(indented.as_bytes(), &secrets(&[("x", "harbour")])).unwrap(), PLAIN);
}

#[test]
fn password_file_content_trimmed() {
    assert_eq!(Secret::from_file_content("default", b"harbour\r\n").password(), b"harbour");
}

#[test]
fn wrong_password_error_names_labels() {
    let error = decrypt(VERSION_1_2, &secrets(&[("dev", "x"), ("prod", "y")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Decryption failed: none of the vault passwords (prod, dev) decrypts the data, which was encrypted with the vault id `prod`."
    );
    assert_eq!(decrypt(VERSION_1_1, &Secrets::new()), Err(Error::NoSecrets));
}

#[test]
fn match_labels_limits_passwords_to_label() {
    let mut secrets = secrets(&[("dev", "harbour")]);
    secrets.set_match_labels(true);
    assert_eq!(decrypt(VERSION_1_2, &secrets), Err(Error::NoMatchingLabel { wanted: "prod".into() }));
    assert_eq!(decrypt(VERSION_1_1, &secrets), Err(Error::WrongPassword { tried: Vec::new(), wanted: None }));
    secrets.push(Secret::new("default", "harbour"));
    assert_eq!(decrypt(VERSION_1_1, &secrets).unwrap(), PLAIN);
}

#[test]
fn given_salt_yields_same_envelope() {
    let secret = Secret::new("default", "harbour");
    let [first, second] = [b"salt", b"salt"].map(|salt| encrypt_with_salt(PLAIN, &secret, salt));
    assert_eq!(first, second);
    assert_ne!(first, encrypt_with_salt(PLAIN, &secret, b"other"));
    assert_eq!(decrypt(first.as_bytes(), &secrets(&[("default", "harbour")])).unwrap(), PLAIN);
}

#[test]
fn damaged_envelope_refused() {
    let secrets = secrets(&[("default", "harbour")]);
    let mut changed = VERSION_1_1.to_vec();
    let last = changed.len() - 2;
    changed[last] = if changed[last] == b'1' { b'2' } else { b'1' };
    assert!(decrypt(&changed, &secrets).is_err());
    let cut = &VERSION_1_1[..VERSION_1_1.len() - 2];
    assert!(matches!(decrypt(cut, &secrets), Err(Error::Damaged { .. })));
    assert!(matches!(decrypt(b"$ANSIBLE_VAULT;1.1;AES256\n", &secrets), Err(Error::Damaged { .. })));
    assert!(matches!(decrypt(b"$ANSIBLE_VAULT;9.9;X\n61", &secrets), Err(Error::UnsupportedHeader { .. })));
    assert_eq!(decrypt(b"plain", &secrets), Err(Error::NotEncrypted));
}
