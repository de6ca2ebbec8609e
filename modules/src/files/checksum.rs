//! Checksums of files and streams.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read},
    path::Path,
};

use sha2::Digest;

use crate::{Failure, Host, process::reason};

/// A checksum computation.
pub enum Hasher {
    /// MD5.
    Md5(md5::Md5),
    /// SHA-1.
    Sha1(sha1::Sha1),
    /// SHA-224.
    Sha224(sha2::Sha224),
    /// SHA-256.
    Sha256(sha2::Sha256),
    /// SHA-384.
    Sha384(sha2::Sha384),
    /// SHA-512.
    Sha512(sha2::Sha512),
}

/// Names of the algorithms in options.
pub const ALGORITHMS: &[&str] = &["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];

impl Hasher {
    /// The algorithm of this name.
    pub fn named(name: &str) -> Option<Hasher> {
        Some(match name.to_ascii_lowercase().as_str() {
            "md5" => Hasher::Md5(md5::Md5::new()),
            "sha1" => Hasher::Sha1(sha1::Sha1::new()),
            "sha224" => Hasher::Sha224(sha2::Sha224::new()),
            "sha256" => Hasher::Sha256(sha2::Sha256::new()),
            "sha384" => Hasher::Sha384(sha2::Sha384::new()),
            "sha512" => Hasher::Sha512(sha2::Sha512::new()),
            _ => return None,
        })
    }

    /// Ansible's `checksum`.
    pub fn sha1() -> Hasher {
        Hasher::Sha1(sha1::Sha1::new())
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Md5(hasher) => hasher.update(bytes),
            Hasher::Sha1(hasher) => hasher.update(bytes),
            Hasher::Sha224(hasher) => hasher.update(bytes),
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Sha384(hasher) => hasher.update(bytes),
            Hasher::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// The checksum in hexadecimal.
    pub fn finish(self) -> String {
        match self {
            Hasher::Md5(hasher) => hex_of(&hasher.finalize()),
            Hasher::Sha1(hasher) => hex_of(&hasher.finalize()),
            Hasher::Sha224(hasher) => hex_of(&hasher.finalize()),
            Hasher::Sha256(hasher) => hex_of(&hasher.finalize()),
            Hasher::Sha384(hasher) => hex_of(&hasher.finalize()),
            Hasher::Sha512(hasher) => hex_of(&hasher.finalize()),
        }
    }
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The checksum of bytes.
pub fn of_bytes(mut hasher: Hasher, bytes: &[u8]) -> String {
    hasher.update(bytes);
    hasher.finish()
}

/// The checksum of a reader's data.
pub fn of_reader(mut hasher: Hasher, reader: &mut dyn Read, host: &Host) -> io::Result<String> {
    let mut buffer = vec![0; 128 << 10];
    loop {
        if host.cancelled() {
            return Err(io::Error::other("the run was cancelled"));
        }
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(count) => hasher.update(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The checksum of a file.
pub fn of_file(hasher: Hasher, path: &Path, host: &Host) -> Result<String, Failure> {
    File::open(path)
        .and_then(|mut file| of_reader(hasher, &mut file, host))
        .map_err(|error| Failure::new(format!("{} could not be read: {}.", path.display(), reason(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_known_values() {
        assert_eq!(of_bytes(Hasher::sha1(), b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(of_bytes(Hasher::named("MD5").unwrap(), b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert!(ALGORITHMS.iter().all(|name| Hasher::named(name).is_some()));
        assert!(Hasher::named("crc").is_none());
    }
}
