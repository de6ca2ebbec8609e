//! Authentication codes, which prove that a run has written an object.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;
use serde_json::Value;

use super::SEAL;
use crate::error::{Error, Result};

/// Size of a key in bytes.
const KEY: usize = 32;

/// The key of a run. Only its Secret holds it, so neither pods of other runs nor users who may only write ConfigMaps
/// can make the run's codes.
#[derive(Debug, Clone)]
pub(super) struct Seal(hmac::Key);

impl Seal {
    /// Bytes of a new key.
    pub(super) fn new_key() -> Result<Vec<u8>> {
        let mut bytes = vec![0; KEY];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::new(format!("the system gave no random numbers: {error}")))?;
        Ok(bytes)
    }

    /// A key with these bytes.
    pub(super) fn of(bytes: &[u8]) -> Result<Seal> {
        if bytes.len() != KEY {
            return Err(Error::new("the key of the run is damaged"));
        }
        Ok(Seal(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// Code of an object that consists of these parts.
    pub(super) fn code(&self, parts: &[&[u8]]) -> String {
        BASE64_STANDARD.encode(hmac::sign(&self.0, &joined(parts)))
    }

    /// Whether an object carries the code of these parts.
    pub(super) fn is_on(&self, object: &Value, parts: &[&[u8]]) -> bool {
        let code = object["metadata"]["annotations"][SEAL].as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
        code.is_some_and(|code| hmac::verify(&self.0, &joined(parts), &code).is_ok())
    }
}

/// The parts, each behind its length, so that no other parts have the same text.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let with_length = |part: &&[u8]| [&(part.len() as u64).to_be_bytes(), *part].concat();
    parts.iter().flat_map(with_length).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn code_of_other_parts_or_another_key_refused() {
        let seal = Seal::of(&[1; KEY]).unwrap();
        let object = json!({ "metadata": { "annotations": { SEAL: seal.code(&[b"ab", b"c"]) } } });
        assert!(seal.is_on(&object, &[b"ab", b"c"]));
        assert!(!seal.is_on(&object, &[b"a", b"bc"]) && !Seal::of(&[2; KEY]).unwrap().is_on(&object, &[b"ab", b"c"]));
        assert!(!seal.is_on(&json!({}), &[]) && Seal::of(&[1; 31]).is_err());
    }
}
