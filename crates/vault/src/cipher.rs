//! The cryptography of AES256 envelopes.

use aes::Aes256;
use ctr::cipher::{KeyIvInit, StreamCipher};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::Error;
use crate::envelope::Body;

const ITERATIONS: u32 = 10_000;
const BLOCK: usize = 16;

struct Keys {
    cipher: [u8; 32],
    mac: [u8; 32],
    counter: [u8; BLOCK],
}

fn derive(password: &[u8], salt: &[u8]) -> Keys {
    let derived = pbkdf2::pbkdf2_hmac_array::<Sha256, 80>(password, salt, ITERATIONS);
    let mut keys = Keys { cipher: [0; 32], mac: [0; 32], counter: [0; BLOCK] };
    let (cipher, rest) = derived.split_at(32);
    let (mac, counter) = rest.split_at(32);
    keys.cipher.copy_from_slice(cipher);
    keys.mac.copy_from_slice(mac);
    keys.counter.copy_from_slice(counter);
    keys
}

impl Keys {
    fn apply(&self, data: &mut [u8]) {
        ctr::Ctr128BE::<Aes256>::new(&self.cipher.into(), &self.counter.into()).apply_keystream(data);
    }

    fn authenticator(&self, data: &[u8]) -> Hmac<Sha256> {
        Hmac::<Sha256>::new_from_slice(&self.mac).expect("an HMAC takes a key of any length").chain_update(data)
    }
}

/// Decrypts a body; `None` if the password is wrong.
pub(crate) fn decrypt(body: &Body, password: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let keys = derive(password, &body.salt);
    // `verify_slice` compares in constant time.
    if keys.authenticator(&body.ciphertext).verify_slice(&body.mac).is_err() {
        return Ok(None);
    }
    let mut text = body.ciphertext.clone();
    keys.apply(&mut text);
    let padding = text.last().copied().map_or(0, usize::from);
    let length = text.len().checked_sub(padding).filter(|_| (1..=BLOCK).contains(&padding));
    text.truncate(length.ok_or(Error::Damaged { reason: "its padding is wrong" })?);
    Ok(Some(text))
}

pub(crate) fn encrypt(plain: &[u8], password: &[u8], salt: &[u8]) -> Body {
    let keys = derive(password, salt);
    let padding = BLOCK - plain.len() % BLOCK;
    let mut ciphertext = plain.to_vec();
    ciphertext.resize(plain.len() + padding, padding as u8);
    keys.apply(&mut ciphertext);
    let mac = keys.authenticator(&ciphertext).finalize().into_bytes().to_vec();
    Body { salt: salt.to_vec(), mac, ciphertext }
}
