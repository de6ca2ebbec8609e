//! known_hosts files: plain, wildcard, negated and hashed names, `[host]:port`, `@cert-authority`, `@revoked`; several
//! files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{KeyInit as _, Mac as _};
use sha1::Sha1;
use ssh_key::{Algorithm, PublicKey};

use crate::{known_lines, pattern};

/// Role of the key in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// The key is the host's.
    Host,
    /// The key signs host certificates.
    Authority,
    /// The key must never be accepted.
    Revoked,
}

/// A line that applies to the host.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) marker: Marker,
    pub(crate) key: PublicKey,
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    /// Whether the line names the host with its port.
    pub(crate) exact: bool,
}

/// Lines of all files that apply to one host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) entries: Vec<Entry>,
}

/// Name under which a host's keys are stored.
#[derive(Debug, Clone)]
pub(crate) struct HostName {
    /// `host` for port 22 and for an alias, else `[host]:port`.
    pub(crate) name: String,
    /// Bare host name, which OpenSSH also looks up if `[host]:port` is unknown.
    pub(crate) fallback: Option<String>,
}

impl HostName {
    /// Creates the name for a host and port, or for a HostKeyAlias.
    pub(crate) fn new(host: &str, port: u16, alias: Option<&str>) -> Self {
        match alias {
            Some(alias) => Self { name: alias.to_lowercase(), fallback: None },
            None if port == 22 => Self { name: host.to_lowercase(), fallback: None },
            None => Self { name: format!("[{}]:{port}", host.to_lowercase()), fallback: Some(host.to_lowercase()) },
        }
    }
}

/// Reads the entries of a host. Missing files are empty; unreadable lines are skipped, as in ssh.
pub(crate) fn read(files: &[PathBuf], host: &HostName) -> io::Result<Known> {
    let mut known = Known::default();
    for file in files {
        let text = match windlass_bounds::read(file) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", file.display()))),
        };
        for (number, line) in known_lines::about(file, text, host) {
            if let Some((marker, key, exact)) = entry(&line, host) {
                known.entries.push(Entry { marker, key, file: file.clone(), line: number, exact });
            }
        }
    }
    Ok(known)
}

/// First bytes of a key revocation list in OpenSSH's binary format (PROTOCOL.krl).
const KRL: &[u8] = b"SSHKRL\n\0";

/// Reads the keys that `RevokedHostKeys` lists, one in a line. Fails unless all of them can be read, because the others
/// would be accepted.
pub(crate) fn revoked(file: &Path) -> Result<Vec<Entry>, String> {
    let bytes = windlass_bounds::read(file)
        .map_err(|error| format!("RevokedHostKeys {} cannot be read: {error}", file.display()))?;
    if bytes.starts_with(KRL) {
        return Err(format!(
            "RevokedHostKeys {} is a binary list (KRL); only public keys in lines are supported",
            file.display()
        ));
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(line, text)| {
        let key = PublicKey::from_openssh(text)
            .map_err(|error| format!("{}:{line}: RevokedHostKeys needs public keys: {error}", file.display()))?;
        Ok(Entry { marker: Marker::Revoked, key, file: file.to_owned(), line, exact: true })
    });
    keys.collect()
}

/// Marker and key of a line that applies to the host, and whether it names the host with its port.
pub(crate) fn entry(line: &str, host: &HostName) -> Option<(Marker, PublicKey, bool)> {
    let mut fields = line.split_whitespace();
    let (marker, names) = names_of(&mut fields)?;
    let exact = names_match(names, &host.name);
    if !exact && !host.fallback.as_deref().is_some_and(|fallback| names_match(names, fallback)) {
        return None;
    }
    let algorithm = fields.next()?;
    let key = PublicKey::from_openssh(&format!("{algorithm} {}", fields.next()?)).ok()?;
    Some((marker, key, exact))
}

/// The marker and the names of a line; `None` for comments and unknown markers.
pub(crate) fn names_of<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Option<(Marker, &'a str)> {
    let first = fields.next().filter(|field| !field.starts_with('#'))?;
    Some(match first {
        "@cert-authority" => (Marker::Authority, fields.next()?),
        "@revoked" => (Marker::Revoked, fields.next()?),
        _ if first.starts_with('@') => return None,
        _ => (Marker::Host, first),
    })
}

fn names_match(names: &str, host: &str) -> bool {
    match names.strip_prefix("|1|") {
        Some(hashed) => hashed.split_once('|').is_some_and(|(salt, hash)| {
            let (Ok(salt), Ok(hash)) = (STANDARD.decode(salt), STANDARD.decode(hash)) else { return false };
            hash_name(&salt, host).is_some_and(|expected| expected == hash)
        }),
        None => pattern::list(names.split(','), host) == pattern::Match::Yes,
    }
}

fn hash_name(salt: &[u8], host: &str) -> Option<Vec<u8>> {
    let mut mac = hmac::Hmac::<Sha1>::new_from_slice(salt).ok()?;
    mac.update(host.as_bytes());
    Some(mac.finalize().into_bytes().to_vec())
}

impl Known {
    /// Algorithms of the known host keys, in file order. The server is asked for these first.
    pub(crate) fn algorithms(&self) -> Vec<Algorithm> {
        let mut algorithms = Vec::new();
        for entry in self.of(Marker::Host) {
            let algorithm = entry.key.algorithm();
            if !algorithms.contains(&algorithm) {
                algorithms.push(algorithm);
            }
        }
        algorithms
    }

    /// Entries with a marker. If any of them names the port, the others are left out.
    pub(crate) fn of(&self, marker: Marker) -> impl Iterator<Item = &Entry> {
        let exact = self.entries.iter().any(|entry| entry.marker == marker && entry.exact);
        self.entries
            .iter()
            .filter(move |entry| entry.marker == marker && (entry.exact || !exact || marker == Marker::Revoked))
    }
}

/// Adds a key under a name. A lock keeps concurrent runs from tearing lines; `/dev/null` and the like are left alone.
pub(crate) fn add(file: &Path, name: &str, key: &PublicKey, hashed: bool) -> io::Result<()> {
    if !is_kept(file) {
        return Ok(());
    }
    let mut handle = created(file)?;
    let text = windlass_bounds::read_from(&mut handle, windlass_bounds::LARGEST_FILE)?;
    // Another connection to the same host may have added it already.
    match addition(file, text, name, key, hashed)? {
        Some(line) => handle.write_all(line.as_bytes()),
        None => Ok(()),
    }
}

/// Whether new lines can be stored in a file: it is a regular file, or does not exist yet.
pub(crate) fn is_kept(file: &Path) -> bool {
    file.is_file() || !file.exists()
}

/// Opens and locks a file for new lines; creates it, and its folder, if it is missing.
pub(crate) fn created(file: &Path) -> io::Result<fs::File> {
    if let Some(directory) = file.parent().filter(|directory| !directory.exists()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    locked(OpenOptions::new().read(true).append(true).create(true).mode(0o600), file)
}

/// Line that adds a key to the text of a file; `None` if the text has it.
pub(crate) fn addition(
    file: &Path,
    text: Vec<u8>,
    name: &str,
    key: &PublicKey,
    hashed: bool,
) -> io::Result<Option<String>> {
    let start = if text.last().is_some_and(|&last| last != b'\n') { "\n" } else { "" };
    let host = HostName { name: name.to_owned(), fallback: None };
    let found = known_lines::about(file, text, &host)
        .iter()
        .filter_map(|(_, line)| entry(line, &host))
        .any(|(marker, found, _)| marker == Marker::Host && found.key_data() == key.key_data());
    if found {
        return Ok(None);
    }
    let names = if hashed { hashed_name(name)? } else { name.to_owned() };
    let key = PublicKey::new(key.key_data().clone(), "").to_openssh().map_err(io::Error::other)?;
    Ok(Some(format!("{start}{names} {key}\n")))
}

/// Opens a file and locks it. Another process may replace the file until the lock is granted, so the name must still
/// lead to it then.
pub(crate) fn locked(options: &OpenOptions, file: &Path) -> io::Result<fs::File> {
    loop {
        let handle = options.open(file)?;
        handle.lock()?;
        let (opened, named) = (handle.metadata()?, fs::metadata(file));
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (opened.dev(), opened.ino())) {
            return Ok(handle);
        }
    }
}

fn hashed_name(name: &str) -> io::Result<String> {
    let mut salt = [0; 20];
    getrandom::fill(&mut salt).map_err(io::Error::other)?;
    let hash = hash_name(&salt, name).ok_or_else(|| io::Error::other("the host name could not be hashed"))?;
    Ok(format!("|1|{}|{}", STANDARD.encode(salt), STANDARD.encode(hash)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    fn known(text: &str, host: &str, port: u16) -> Known {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("known_hosts");
        fs::write(&file, text).unwrap();
        read(&[directory.path().join("missing"), file], &HostName::new(host, port, None)).unwrap()
    }

    #[test]
    fn wildcard_negated_and_port_names_matched() {
        let text = format!("# comment\n*.example.com,!db.example.com {KEY} me\n[web]:2222 {KEY}\n");
        assert_eq!(known(&text, "a.Example.com", 22).entries.first().map(|entry| entry.line), Some(2));
        assert!(known(&text, "db.example.com", 22).entries.is_empty());
        assert_eq!(known(&text, "web", 2222).entries.len(), 1);
        assert!(known(&text, "web", 22).entries.is_empty());
        let fallback = known(&text, "a.example.com", 2222);
        assert_eq!(fallback.entries.first().map(|entry| entry.exact), Some(false));
    }

    #[test]
    fn markers_recognised() {
        let text = format!("@revoked * {KEY}\n@cert-authority *.example.com {KEY}\n@other * {KEY}\n");
        let known = known(&text, "a.example.com", 22);
        assert_eq!(known.of(Marker::Revoked).count(), 1);
        assert_eq!(known.of(Marker::Authority).count(), 1);
        assert_eq!(known.of(Marker::Host).count(), 0);
    }

    #[test]
    fn added_key_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ssh/known_hosts");
        let key = PublicKey::from_openssh(KEY).unwrap();
        fs::create_dir(directory.path().join("ssh")).unwrap();
        fs::write(&file, "# no newline at the end").unwrap();
        add(&file, "[web]:2222", &key, true).unwrap();
        add(&file, "db", &key, false).unwrap();
        add(&file, "db", &key, false).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("\n|1|") && !text.contains("web"), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        let files = [file];
        assert_eq!(read(&files, &HostName::new("web", 2222, None)).unwrap().entries.len(), 1);
        assert_eq!(read(&files, &HostName::new("db", 22, None)).unwrap().entries.len(), 1);
        assert_eq!(read(&files, &HostName::new("mail", 22, None)).unwrap().entries.len(), 0);
        assert_eq!(read(&files, &HostName::new("mail", 22, Some("db"))).unwrap().entries.len(), 1);
    }
}
