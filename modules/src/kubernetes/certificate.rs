//! The hash of a CA's public key for `--discovery-token-ca-cert-hash` of kubeadm: SHA-256 of the SubjectPublicKeyInfo
//! (RFC 5280). Only this field is read, so a few lines of DER replace an X.509 library.

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

/// SHA-256 of the public key in the certificate of a cluster's CA, by which a joining node recognises the CA.
pub(crate) fn public_key_hash(pem: &str) -> Option<String> {
    let body: String = pem
        .split_once("-----BEGIN CERTIFICATE-----")?
        .1
        .split("-----END CERTIFICATE-----")
        .next()?
        .split_whitespace()
        .collect();
    let certificate = STANDARD.decode(body).ok()?;
    let (_, signed) = element(&certificate)?.inner()?;
    let (_, fields) = element(signed)?.inner()?;
    let mut rest = fields;
    // Fields in order: version (optional), serial number, algorithm, issuer, validity, subject, key.
    if rest.first() == Some(&0xa0) {
        rest = element(rest)?.rest;
    }
    for _ in 0..5 {
        rest = element(rest)?.rest;
    }
    Some(format!("sha256:{}", hex::encode(Sha256::digest(element(rest)?.whole))))
}

/// One element of a DER encoding.
struct Element<'a> {
    whole: &'a [u8],
    header: usize,
    rest: &'a [u8],
}

impl<'a> Element<'a> {
    fn inner(&self) -> Option<(u8, &'a [u8])> {
        Some((*self.whole.first()?, self.whole.get(self.header..)?))
    }
}

fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let first = usize::from(*bytes.get(1)?);
    let (header, length) = if first < 0x80 {
        (2, first)
    } else {
        let count = first & 0x7f;
        let digits = bytes.get(2..2 + count).filter(|_| (1..=4).contains(&count))?;
        (2 + count, digits.iter().fold(0usize, |length, digit| length << 8 | usize::from(*digit)))
    };
    let whole = bytes.get(..header.checked_add(length)?)?;
    Some(Element { whole, header, rest: bytes.get(whole.len()..)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Created with `openssl req -x509 -newkey ec ...`; hash from `openssl x509 -pubkey | openssl pkey -pubin -outform
    /// der | sha256sum`.
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
        MIIBfjCCASWgAwIBAgIUDo6E96JYbf+LcNB3gqs1j0vMx5EwCgYIKoZIzj0EAwIw\n\
        FTETMBEGA1UEAwwKa3ViZXJuZXRlczAeFw0yNjExMjEwMjQ1MzVaFw0zNjExMTgw\n\
        MjQ1MzVaMBUxEzARBgNVBAMMCmt1YmVybmV0ZXMwWTATBgcqhkjOPQIBBggqhkjO\n\
        PQMBBwNCAATKBYqmktINCVsAx56CJmzFHfIPzMqn2qFxkCfHzNOL3PE+S+ifUn9k\n\
        YGvnNjHWntwG6YMDCAj2+lHConlifJp2o1MwUTAdBgNVHQ4EFgQUbtH4geWvb4OR\n\
        0WIK/QQle/BHYMYwHwYDVR0jBBgwFoAUbtH4geWvb4OR0WIK/QQle/BHYMYwDwYD\n\
        VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiAfuaZsxVErL6Mj9Ti530Bw\n\
        WilP2ercZjAHvn6jiN/nzAIgOs0suMTpsL/OwYnqCb0vSh2mHVVKTEyq0LGlIKhY\n\
        fNs=\n\
        -----END CERTIFICATE-----\n";

    #[test]
    fn public_key_hash_equals_openssl() {
        assert_eq!(
            public_key_hash(CERTIFICATE).as_deref(),
            Some("sha256:4c3d399bda9e79be855b59b5da956b8ce043b2d187071a59c962aacdb17895b6")
        );
        assert_eq!(public_key_hash("no certificate"), None);
    }
}
