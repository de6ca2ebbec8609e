//! Vault, age and sops: any input is decrypted or refused; encrypted text round-trips, and a changed byte is detected.

use windlass_vault::{Identities, Secret, Secrets, decrypt, encrypt_with_salt, is_encrypted, label};
use windlass_yaml::{Options, Source, parse};

/// The identity of `tests/sops`, for which the seeds are encrypted.
const IDENTITY: &str = "AGE-SECRET-KEY-1R38FVXA6LNF30UWTRNNZZP5ESA5YP667LQS8XQTLYPN3JW5YV47S0SJ7RG";

/// Feeds one input.
pub fn check(data: &[u8]) {
    let mut secrets = Secrets::new();
    secrets.push(Secret::new("default", "password"));
    secrets.set_identities(Identities::new(Vec::new(), Some(IDENTITY.to_owned())));
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(loaded) = parse(Source::new("sops", text), &Options::default())
    {
        for document in &loaded.documents {
            if let Err(error) = windlass_sops::decrypt(document, &secrets) {
                assert!(!error.message.is_empty());
            }
        }
    }
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
