//! Vault: any input is decrypted or refused; encrypted text round-trips, and a changed byte is detected.

use windlass_vault::{Secret, Secrets, decrypt, encrypt_with_salt, is_encrypted, label};

/// Feeds one input.
pub fn check(data: &[u8]) {
    let mut secrets = Secrets::new();
    secrets.push(Secret::new("default", "password"));
    let _ = (is_encrypted(data), label(data));
    if let Some((&place, plain)) = data.strip_prefix(b"\x01").and_then(<[u8]>::split_first) {
        let secret = Secret::new("default", "password");
        let envelope = encrypt_with_salt(plain, &secret, b"salt");
        assert_eq!(decrypt(envelope.as_bytes(), &secrets).as_deref(), Ok(plain));
        let mut changed = envelope.into_bytes();
        let place = usize::from(place) % changed.len();
        changed[place] ^= 1;
        if let Ok(text) = decrypt(&changed, &secrets) {
            assert_eq!(text, plain);
        }
    } else if let Err(error) = decrypt(data, &secrets) {
        assert!(!error.to_string().is_empty());
    }
}
