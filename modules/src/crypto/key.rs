//! Private keys, used through `openssl`.

use std::path::Path;

use super::{der::Element, encode, public_key, signed::Signed};
use crate::{
    Args, Failure, Host,
    files::{scratch::Scratch, way},
    process::{Command, Output, reason},
};

/// Environment variable that passes a passphrase, which must never be a program argument.
const SECRET: &str = "WINDLASS_PASSPHRASE";

/// A private key as stored in its file, possibly encrypted.
pub(super) struct Key {
    text: Vec<u8>,
    passphrase: String,
    /// The public key.
    pub(super) public: Vec<u8>,
}

impl Key {
    /// The key from `PREFIX_path` or `PREFIX_content` with `PREFIX_passphrase`, if given.
    pub(super) fn of(args: &Args, prefix: &str, host: &Host) -> Result<Option<Key>, Failure> {
        let text = match (args.str(&format!("{prefix}_content")), args.str(&format!("{prefix}_path"))) {
            (Some(content), _) => content.as_bytes().to_vec(),
            (None, Some(path)) => way::read(Path::new(path))
                .map_err(|error| Failure::new(format!("The private key {path} cannot be read: {}", reason(&error))))?,
            (None, None) => return Ok(None),
        };
        Key::read(text, args.str(&format!("{prefix}_passphrase")), host).map(Some)
    }

    /// The key from `privatekey_path` or `privatekey_content`, which `state: present` requires.
    pub(super) fn required(args: &Args, host: &Host) -> Result<Key, Failure> {
        Key::of(args, "privatekey", host)?.ok_or_else(|| {
            Failure::new("state is present but any of the following are missing: privatekey_path, privatekey_content")
        })
    }

    /// Reads a key from text.
    pub(super) fn read(text: Vec<u8>, passphrase: Option<&str>, host: &Host) -> Result<Key, Failure> {
        let encrypted = String::from_utf8_lossy(&text).contains("ENCRYPTED");
        if encrypted != passphrase.is_some() {
            return Err(Failure::new("Wrong or empty passphrase provided for private key"));
        }
        let passphrase = passphrase.unwrap_or_default().to_owned();
        let mut key = Key { text, passphrase, public: Vec::new() };
        let output =
            key.openssl(&["pkey", "-pubout", "-outform", "DER", "-passin", "env:WINDLASS_PASSPHRASE"], host)?;
        if !output.success() {
            return Err(Failure::new(format!(
                "Wrong passphrase provided for private key, or private key cannot be parsed: {}",
                output.stderr_text().trim()
            )));
        }
        key.public = output.stdout;
        Ok(key)
    }

    /// The unencrypted key in PKCS 8.
    pub(super) fn unencrypted(&self, host: &Host) -> Result<Vec<u8>, Failure> {
        let words = ["pkcs8", "-topk8", "-nocrypt", "-outform", "DER", "-passin", "env:WINDLASS_PASSPHRASE"];
        let output = self.openssl(&words, host)?;
        match output.success() {
            true => Ok(output.stdout),
            false => Err(output.failure(&["openssl".to_owned(), "pkcs8".to_owned()])),
        }
    }

    /// Whether the parts of the key are consistent.
    pub(super) fn is_consistent(&self, host: &Host) -> Result<bool, Failure> {
        let output = self.openssl(&["pkey", "-check", "-noout", "-passin", "env:WINDLASS_PASSPHRASE"], host)?;
        Ok(output.success())
    }

    /// Runs openssl with the key on standard input.
    fn openssl(&self, words: &[&str], host: &Host) -> Result<Output, Failure> {
        let command = Command::new("openssl").plain_locale().args(words.iter().copied());
        command.variable(SECRET, self.passphrase.as_str()).input(self.text.clone()).run(host)
    }

    /// The signature method for this key. Edwards curve keys use no digest.
    pub(super) fn method(&self, digest: &str) -> Result<Method, Failure> {
        let kind = kind_of(&self.public);
        if matches!(kind.as_str(), "X25519" | "X448") {
            return Err(Failure::new(format!("Key of type {kind} not supported for issuing certificates")));
        }
        let found =
            METHODS.iter().find(|method| method.kind == kind && (method.digest.is_empty() || method.digest == digest));
        found.copied().ok_or_else(|| Failure::new(format!("Unsupported digest \"{digest}\"")))
    }

    /// Signs a content and returns the complete request or certificate.
    pub(super) fn sign(&self, content: Vec<u8>, method: Method, host: &Host) -> Result<Vec<u8>, Failure> {
        let scratch = Scratch::new()?;
        let file = scratch.path().join("content");
        std::fs::write(&file, &content)
            .map_err(|error| Failure::new(format!("{} cannot be written: {}.", file.display(), reason(&error))))?;
        let (file, digest) = (file.to_string_lossy(), format!("-{}", method.digest));
        let words: &[&str] = match method.digest {
            "" => &[
                "pkeyutl",
                "-sign",
                "-rawin",
                "-inkey",
                "/dev/stdin",
                "-passin",
                "env:WINDLASS_PASSPHRASE",
                "-in",
                &file,
            ],
            _ => &["dgst", &digest, "-sign", "/dev/stdin", "-passin", "env:WINDLASS_PASSPHRASE", &file],
        };
        let output = self.openssl(words, host)?;
        if !output.success() || output.stdout.is_empty() {
            return Err(output.failure(&["openssl".to_owned(), words.first().copied().unwrap_or_default().to_owned()]));
        }
        Ok(encode::sequence([content, method.identifier(), encode::bit_string(&output.stdout)]))
    }
}

/// A signature method.
#[derive(Debug, Clone, Copy)]
pub(super) struct Method {
    kind: &'static str,
    digest: &'static str,
    oid: &'static str,
}

impl Method {
    /// The encoded algorithm identifier.
    pub(super) fn identifier(&self) -> Vec<u8> {
        // RSA requires NULL parameters.
        let parameters = if self.kind == "RSA" { encode::element(0x05, &[]) } else { Vec::new() };
        encode::sequence([encode::oid(self.oid).unwrap_or_default(), parameters])
    }
}

const METHODS: &[Method] = &[
    Method { kind: "RSA", digest: "md5", oid: "1.2.840.113549.1.1.4" },
    Method { kind: "RSA", digest: "sha1", oid: "1.2.840.113549.1.1.5" },
    Method { kind: "RSA", digest: "sha256", oid: "1.2.840.113549.1.1.11" },
    Method { kind: "RSA", digest: "sha384", oid: "1.2.840.113549.1.1.12" },
    Method { kind: "RSA", digest: "sha512", oid: "1.2.840.113549.1.1.13" },
    Method { kind: "ECC", digest: "sha1", oid: "1.2.840.10045.4.1" },
    Method { kind: "ECC", digest: "sha256", oid: "1.2.840.10045.4.3.2" },
    Method { kind: "ECC", digest: "sha384", oid: "1.2.840.10045.4.3.3" },
    Method { kind: "ECC", digest: "sha512", oid: "1.2.840.10045.4.3.4" },
    Method { kind: "DSA", digest: "sha1", oid: "1.2.840.10040.4.3" },
    Method { kind: "DSA", digest: "sha256", oid: "2.16.840.1.101.3.4.3.2" },
    Method { kind: "DSA", digest: "sha384", oid: "2.16.840.1.101.3.4.3.3" },
    Method { kind: "DSA", digest: "sha512", oid: "2.16.840.1.101.3.4.3.4" },
    Method { kind: "Ed25519", digest: "", oid: "1.3.101.112" },
    Method { kind: "Ed448", digest: "", oid: "1.3.101.113" },
];

fn kind_of(public: &[u8]) -> String {
    let found = Element::first(public).and_then(|(key, _)| public_key::kind_and_numbers(&key));
    found.map(|(kind, _)| kind).unwrap_or_default()
}

/// Whether the signature is valid for a public key.
pub(super) fn verify(signed: &Signed, public: &[u8], host: &Host) -> Result<bool, Failure> {
    let kind = kind_of(public);
    let Some(method) = METHODS.iter().find(|method| method.oid == signed.algorithm && method.kind == kind) else {
        return Ok(false);
    };
    let scratch = Scratch::new()?;
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        std::fs::write(&path, bytes)
            .map_err(|error| Failure::new(format!("{} cannot be written: {}.", path.display(), reason(&error))))?;
        Ok::<String, Failure>(path.to_string_lossy().into_owned())
    };
    let content = file("content", &signed.content)?;
    let signature = file("signature", &signed.signature)?;
    let key = file("key", public_key::pem("PUBLIC KEY", public).as_bytes())?;
    let digest = format!("-{}", method.digest);
    let words: &[&str] = match method.digest {
        "" => &["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", &key, "-sigfile", &signature, "-in", &content],
        _ => &["dgst", &digest, "-verify", &key, "-signature", &signature, &content],
    };
    Ok(Command::new("openssl").plain_locale().args(words.iter().copied()).run(host)?.success())
}
