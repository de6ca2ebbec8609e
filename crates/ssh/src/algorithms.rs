//! Algorithms that this client offers, and their selection with KexAlgorithms, Ciphers, MACs and HostKeyAlgorithms.

use std::borrow::Cow;

use russh::{Preferred, cipher, compression, kex, mac};
use ssh_key::{Algorithm, EcdsaCurve, HashAlg};

use crate::known_hosts::{Known, Marker};
use crate::{Error, pattern};

// curve25519 comes first: it costs a tenth of the processor time of the hybrid exchanges, and a run opens hundreds of
// connections. The old groups at the end are for servers of RHEL 7's age; any newer server chooses another.
const KEX: &[kex::Name] = &[
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::MLKEM768X25519_SHA256,
    kex::ECDH_SHA2_NISTP256,
    kex::ECDH_SHA2_NISTP384,
    kex::ECDH_SHA2_NISTP521,
    kex::DH_GEX_SHA256,
    kex::DH_G16_SHA512,
    kex::DH_G18_SHA512,
    kex::DH_G14_SHA256,
    kex::DH_G14_SHA1,
    kex::DH_GEX_SHA1,
];

const KEX_EXTENSIONS: &[kex::Name] = &[kex::EXTENSION_SUPPORT_AS_CLIENT, kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT];

// AES-GCM comes first: with the processor's AES instructions, it is about twice as fast as chacha20.
const CIPHERS: &[cipher::Name] = &[
    cipher::AES_256_GCM,
    cipher::AES_128_GCM,
    cipher::CHACHA20_POLY1305,
    cipher::AES_256_CTR,
    cipher::AES_192_CTR,
    cipher::AES_128_CTR,
];

const MACS: &[mac::Name] = &[
    mac::HMAC_SHA256_ETM,
    mac::HMAC_SHA512_ETM,
    mac::HMAC_SHA256,
    mac::HMAC_SHA512,
    mac::HMAC_SHA1_ETM,
    mac::HMAC_SHA1,
];

const HOST_KEYS: &[Algorithm] = &[
    Algorithm::Ed25519,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
    Algorithm::Rsa { hash: None },
];

// SHA-1 is missing, as in ssh's own list.
const AUTHORITIES: &[Algorithm] = &[
    Algorithm::Ed25519,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
    Algorithm::SkEd25519,
    Algorithm::SkEcdsaSha2NistP256,
    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
];

/// Algorithms by which an authority may sign certificates of hosts (`CASignatureAlgorithms`).
pub(crate) fn of_authorities(list: Option<&str>) -> Result<Vec<Algorithm>, Error> {
    select("CASignatureAlgorithms", list, AUTHORITIES, Algorithm::as_str, |name| Algorithm::new(name).ok())
}

/// Kinds of host keys, each as a list for HostKeyAlgorithms. A server has at most one key of each.
pub(crate) fn key_kinds() -> [&'static str; 5] {
    [
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "rsa-sha2-512,rsa-sha2-256,ssh-rsa",
    ]
}

/// Configured algorithm lists of one host.
pub(crate) struct Lists<'a> {
    pub(crate) kex: Option<&'a str>,
    pub(crate) ciphers: Option<&'a str>,
    pub(crate) macs: Option<&'a str>,
    pub(crate) host_keys: Option<&'a str>,
}

/// The algorithms to offer to a host, given its known keys.
pub(crate) fn preferred(lists: &Lists<'_>, known: &Known) -> Result<Preferred, Error> {
    let mut kex = select("KexAlgorithms", lists.kex, KEX, AsRef::as_ref, |name| kex::Name::try_from(name).ok())?;
    kex.extend_from_slice(KEX_EXTENSIONS);
    let ciphers = select("Ciphers", lists.ciphers, CIPHERS, AsRef::as_ref, |name| cipher::Name::try_from(name).ok())?;
    let macs = select("MACs", lists.macs, MACS, AsRef::as_ref, |name| mac::Name::try_from(name).ok())?;
    let mut keys = select("HostKeyAlgorithms", lists.host_keys, HOST_KEYS, Algorithm::as_str, host_key)?;
    // The server presents one key. Requesting known algorithms first avoids a false alarm about a key of another kind.
    let known_algorithms = known.algorithms();
    let is_known = |algorithm: &Algorithm| {
        known_algorithms.iter().any(|known| match (known, algorithm) {
            (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
            (known, algorithm) => known == algorithm,
        })
    };
    keys.sort_by_key(|algorithm| !is_known(algorithm));
    let certificates = if known.of(Marker::Authority).next().is_some() { keys.clone() } else { Vec::new() };
    Ok(Preferred {
        kex: Cow::Owned(kex),
        key: Cow::Owned(keys),
        host_key_certificates: Cow::Owned(certificates),
        cipher: Cow::Owned(ciphers),
        mac: Cow::Owned(macs),
        compression: Cow::Borrowed(&[compression::NONE]),
    })
}

fn host_key(name: &str) -> Option<Algorithm> {
    HOST_KEYS.iter().find(|algorithm| algorithm.as_str() == name).cloned()
}

/// Applies a list in OpenSSH's syntax: names replace the defaults, `+` appends, `-` removes and `^` puts first.
/// Unsupported names are skipped unless nothing is left.
fn select<N: Clone + PartialEq>(
    option: &str,
    list: Option<&str>,
    defaults: &[N],
    name_of: impl Fn(&N) -> &str,
    parse: impl Fn(&str) -> Option<N>,
) -> Result<Vec<N>, Error> {
    let Some(list) = list else { return Ok(defaults.to_vec()) };
    let (mode, names) = match list.chars().next() {
        Some(mode @ ('+' | '-' | '^')) => (mode, list.get(1..).unwrap_or_default()),
        _ => ('=', list),
    };
    let mut named: Vec<N> = Vec::new();
    for pattern in names.split(',') {
        let matching: Vec<N> = if pattern.contains(['*', '?']) {
            defaults.iter().filter(|name| pattern::wildcard(pattern, name_of(name))).cloned().collect()
        } else {
            parse(pattern).into_iter().collect()
        };
        for name in matching {
            if !named.contains(&name) {
                named.push(name);
            }
        }
    }
    let rest = defaults.iter().filter(|name| !named.contains(name)).cloned();
    let chosen: Vec<N> = match mode {
        '+' => defaults.iter().cloned().chain(named.iter().filter(|name| !defaults.contains(name)).cloned()).collect(),
        '-' => rest.collect(),
        '^' => named.iter().cloned().chain(rest).collect(),
        _ => named,
    };
    if chosen.is_empty() {
        return Err(Error::Configuration {
            place: format!("ssh option `{option}`"),
            problem: format!("none of `{list}` is an algorithm this client has"),
        });
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ciphers(list: &str) -> Result<Vec<String>, Error> {
        let chosen = select("Ciphers", Some(list), CIPHERS, AsRef::as_ref, |name| cipher::Name::try_from(name).ok())?;
        Ok(chosen.iter().map(|name| name.as_ref().to_owned()).collect())
    }

    #[test]
    fn algorithm_lists_replace_append_remove_and_prepend() {
        assert_eq!(ciphers("aes128-ctr,unknown").unwrap(), ["aes128-ctr"]);
        assert_eq!(ciphers("^aes128-ctr").unwrap().first().unwrap(), "aes128-ctr");
        assert_eq!(ciphers("+aes128-cbc").unwrap().last().unwrap(), "aes128-cbc");
        assert!(!ciphers("-*-ctr").unwrap().iter().any(|name| name.ends_with("ctr")));
        assert!(ciphers("unknown").unwrap_err().to_string().contains("Ciphers"));
    }
}
