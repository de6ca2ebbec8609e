//! Names of object identifiers.

use super::{der::Element, encode};

/// The attributes of a distinguished name, in order.
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

/// Encodes a distinguished name from pairs of object identifier and text.
pub(super) fn encode(parts: &[(String, String)]) -> Result<Vec<u8>, String> {
    let parts = parts.iter().map(|(oid, text)| Ok(encode::set(encode_attribute(oid, text)?)));
    Ok(encode::sequence(parts.collect::<Result<Vec<_>, String>>()?))
}

/// Encodes one attribute of a distinguished name.
pub(super) fn encode_attribute(oid: &str, text: &str) -> Result<Vec<u8>, String> {
    let length = text.chars().count();
    let (tag, lengths) = match of_attribute(oid).0 {
        "countryName" | "jurisdictionCountryName" => (0x13, 2..=2),
        "commonName" => (0x0c, 1..=64),
        "serialNumber" | "dnQualifier" => (0x13, 1..=usize::MAX),
        "emailAddress" | "domainComponent" => (0x16, 1..=usize::MAX),
        _ => (0x0c, 1..=usize::MAX),
    };
    if !lengths.contains(&length) {
        let (name, _) = of_attribute(oid);
        return Err(match lengths.end() {
            2 => format!("{name} must be a code of two characters, and \"{text}\" has {length}"),
            _ => format!("{name} must have from {} to {} characters, but has {length}", lengths.start(), lengths.end()),
        });
    }
    let id = encode::oid(oid).ok_or_else(|| format!("{oid} is not an object identifier"))?;
    Ok(encode::sequence([id, encode::element(tag, text.as_bytes())]))
}

/// Long and short name of an attribute.
pub(super) fn of_attribute(oid: &str) -> (&str, &str) {
    ATTRIBUTES.iter().find(|(known, ..)| *known == oid).map_or((oid, oid), |(_, long, short)| (long, short))
}

/// The name of any other identifier, or the identifier itself.
pub(super) fn of(oid: &str) -> &str {
    let purpose = PURPOSES.iter().find(|(known, ..)| *known == oid).map(|(_, name, _)| name);
    purpose.or_else(|| NAMES.iter().find(|(known, _)| *known == oid).map(|(_, name)| name)).copied().unwrap_or(oid)
}

/// The object identifier of an attribute or purpose, by long or short name; dotted notation stays as it is.
pub(super) fn oid(name: &str) -> Option<&str> {
    let known = ATTRIBUTES.iter().chain(PURPOSES).find(|(_, long, short)| *long == name || *short == name);
    match known {
        Some((oid, ..)) => Some(oid),
        None if name == "userID" => Some("0.9.2342.19200300.100.1.1"),
        None => Some(name).filter(|name| encode::oid_body(name).is_some()),
    }
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
    // Signature algorithms.
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
];

/// Extended key usages.
const PURPOSES: &[(&str, &str, &str)] = &[
    ("2.5.29.37.0", "Any Extended Key Usage", "anyExtendedKeyUsage"),
    ("1.3.6.1.5.5.7.3.1", "TLS Web Server Authentication", "serverAuth"),
    ("1.3.6.1.5.5.7.3.2", "TLS Web Client Authentication", "clientAuth"),
    ("1.3.6.1.5.5.7.3.3", "Code Signing", "codeSigning"),
    ("1.3.6.1.5.5.7.3.4", "E-mail Protection", "emailProtection"),
    ("1.3.6.1.5.5.7.3.5", "IPSec End System", "ipsecEndSystem"),
    ("1.3.6.1.5.5.7.3.6", "IPSec Tunnel", "ipsecTunnel"),
    ("1.3.6.1.5.5.7.3.7", "IPSec User", "ipsecUser"),
    ("1.3.6.1.5.5.7.3.8", "Time Stamping", "timeStamping"),
    ("1.3.6.1.5.5.7.3.9", "OCSP Signing", "OCSPSigning"),
    ("1.3.6.1.5.5.7.3.10", "dvcs", "DVCS"),
    ("1.3.6.1.5.5.7.3.17", "ipsec Internet Key Exchange", "ipsecIKE"),
    ("1.3.6.1.5.5.7.3.18", "Ctrl/provision WAP Access", "capwapAC"),
    ("1.3.6.1.5.5.7.3.19", "Ctrl/Provision WAP Termination", "capwapWTP"),
    ("1.3.6.1.5.5.7.3.21", "SSH Client", "secureShellClient"),
    ("1.3.6.1.5.5.7.3.22", "SSH Server", "secureShellServer"),
    ("1.3.6.1.5.5.7.3.23", "Send Router", "sendRouter"),
    ("1.3.6.1.5.5.7.3.24", "Send Proxied Router", "sendProxiedRouter"),
    ("1.3.6.1.5.5.7.3.25", "Send Owner", "sendOwner"),
    ("1.3.6.1.5.5.7.3.26", "Send Proxied Owner", "sendProxiedOwner"),
    ("1.3.6.1.5.5.7.3.27", "CMC Certificate Authority", "cmcCA"),
    ("1.3.6.1.5.5.7.3.28", "CMC Registration Authority", "cmcRA"),
    ("1.3.6.1.4.1.311.2.1.21", "Microsoft Individual Code Signing", "msCodeInd"),
    ("1.3.6.1.4.1.311.2.1.22", "Microsoft Commercial Code Signing", "msCodeCom"),
    ("1.3.6.1.4.1.311.10.3.1", "Microsoft Trust List Signing", "msCTLSign"),
    ("1.3.6.1.4.1.311.10.3.3", "Microsoft Server Gated Crypto", "msSGC"),
    ("1.3.6.1.4.1.311.10.3.4", "Microsoft Encrypted File System", "msEFS"),
    ("1.3.6.1.4.1.311.20.2.2", "Microsoft Smartcardlogin", "msSmartcardLogin"),
];
