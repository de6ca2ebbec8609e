//! What object identifiers are called.

use super::der::Element;

/// The parts of a name of a person or thing, in order.
pub(super) fn attributes(name: &Element<'_>) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    for set in name.parts()? {
        for attribute in set.parts()? {
            let parts = attribute.parts()?;
            found.push((parts.first()?.oid(), parts.get(1)?.text()));
        }
    }
    Some(found)
}

/// The long and the short name of a part of a name.
pub(super) fn of_attribute(oid: &str) -> (&str, &str) {
    ATTRIBUTES.iter().find(|(known, ..)| *known == oid).map_or((oid, oid), |(_, long, short)| (long, short))
}

/// The name of another identifier, or itself.
pub(super) fn of(oid: &str) -> &str {
    NAMES.iter().find(|(known, _)| *known == oid).map_or(oid, |(_, name)| name)
}

const ATTRIBUTES: &[(&str, &str, &str)] = &[
    ("0.9.2342.19200300.100.1.1", "userId", "UID"),
    ("0.9.2342.19200300.100.1.25", "domainComponent", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress", "emailAddress"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionLocalityName", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionStateOrProvinceName", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionCountryName", "jurisdictionC"),
    ("2.5.4.3", "commonName", "CN"),
    ("2.5.4.4", "surname", "SN"),
    ("2.5.4.5", "serialNumber", "serialNumber"),
    ("2.5.4.6", "countryName", "C"),
    ("2.5.4.7", "localityName", "L"),
    ("2.5.4.8", "stateOrProvinceName", "ST"),
    ("2.5.4.9", "streetAddress", "street"),
    ("2.5.4.10", "organizationName", "O"),
    ("2.5.4.11", "organizationalUnitName", "OU"),
    ("2.5.4.12", "title", "title"),
    ("2.5.4.13", "description", "description"),
    ("2.5.4.15", "businessCategory", "businessCategory"),
    ("2.5.4.17", "postalCode", "postalCode"),
    ("2.5.4.41", "name", "name"),
    ("2.5.4.42", "givenName", "GN"),
    ("2.5.4.43", "initials", "initials"),
    ("2.5.4.44", "generationQualifier", "generationQualifier"),
    ("2.5.4.46", "dnQualifier", "dnQualifier"),
    ("2.5.4.65", "pseudonym", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier", "organizationIdentifier"),
];

const NAMES: &[(&str, &str)] = &[
    // Signatures.
    ("1.2.840.113549.1.1.4", "md5WithRSAEncryption"),
    ("1.2.840.113549.1.1.5", "sha1WithRSAEncryption"),
    ("1.2.840.113549.1.1.10", "rsassaPss"),
    ("1.2.840.113549.1.1.11", "sha256WithRSAEncryption"),
    ("1.2.840.113549.1.1.12", "sha384WithRSAEncryption"),
    ("1.2.840.113549.1.1.13", "sha512WithRSAEncryption"),
    ("1.2.840.113549.1.1.14", "sha224WithRSAEncryption"),
    ("1.2.840.10045.4.1", "ecdsa-with-SHA1"),
    ("1.2.840.10045.4.3.1", "ecdsa-with-SHA224"),
    ("1.2.840.10045.4.3.2", "ecdsa-with-SHA256"),
    ("1.2.840.10045.4.3.3", "ecdsa-with-SHA384"),
    ("1.2.840.10045.4.3.4", "ecdsa-with-SHA512"),
    ("1.3.101.112", "ED25519"),
    ("1.3.101.113", "ED448"),
    ("2.16.840.1.101.3.4.3.2", "dsa_with_SHA256"),
    // Curves.
    ("1.2.840.10045.3.1.1", "secp192r1"),
    ("1.2.840.10045.3.1.7", "secp256r1"),
    ("1.3.132.0.10", "secp256k1"),
    ("1.3.132.0.33", "secp224r1"),
    ("1.3.132.0.34", "secp384r1"),
    ("1.3.132.0.35", "secp521r1"),
    ("1.3.36.3.3.2.8.1.1.7", "brainpoolP256r1"),
    ("1.3.36.3.3.2.8.1.1.11", "brainpoolP384r1"),
    ("1.3.36.3.3.2.8.1.1.13", "brainpoolP512r1"),
    // What a key is for.
    ("2.5.29.37.0", "Any Extended Key Usage"),
    ("1.3.6.1.5.5.7.3.1", "TLS Web Server Authentication"),
    ("1.3.6.1.5.5.7.3.2", "TLS Web Client Authentication"),
    ("1.3.6.1.5.5.7.3.3", "Code Signing"),
    ("1.3.6.1.5.5.7.3.4", "E-mail Protection"),
    ("1.3.6.1.5.5.7.3.5", "IPSec End System"),
    ("1.3.6.1.5.5.7.3.6", "IPSec Tunnel"),
    ("1.3.6.1.5.5.7.3.7", "IPSec User"),
    ("1.3.6.1.5.5.7.3.8", "Time Stamping"),
    ("1.3.6.1.5.5.7.3.9", "OCSP Signing"),
    ("1.3.6.1.5.5.7.3.17", "ipsec Internet Key Exchange"),
    ("1.3.6.1.4.1.311.20.2.2", "Microsoft Smartcard Login"),
];
