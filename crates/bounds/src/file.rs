use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Largest file that is read whole, in bytes. Applies to inventories, playbooks, variables, settings and keys.
pub const LARGEST_FILE: u64 = 64 << 20;

/// Reads a file of at most [`LARGEST_FILE`] bytes. The bound also covers devices and pipes.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read_up_to(path, LARGEST_FILE)
}

/// Reads a file of at most `limit` bytes.
pub fn read_up_to(path: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    // The size of a regular file is known, so an oversized one is refused before any of it is read.
    if file.metadata().is_ok_and(|found| found.is_file() && found.len() > limit) {
        return Err(too_large(limit));
    }
    read_from(file, limit)
}

/// Reads a stream of at most `limit` bytes to its end.
pub fn read_from(reader: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > limit { Err(too_large(limit)) } else { Ok(bytes) }
}

/// Reads a UTF-8 text of at most [`LARGEST_FILE`] bytes.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    let not_text = |_| io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(read(path)?).map_err(not_text)
}

fn too_large(limit: u64) -> io::Error {
    let limit = if limit >> 20 > 0 { format!("{} MiB", limit >> 20) } else { format!("{limit} bytes") };
    io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {limit}, the most that is read of such a file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_and_large_files_are_refused() {
        for path in ["/dev/zero", "/dev/urandom"] {
            let error = read_up_to(path, 1 << 20).unwrap_err();
            assert_eq!(error.to_string(), "it has more than 1 MiB, the most that is read of such a file");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(LARGEST_FILE + 1).unwrap();
        assert_eq!(read(file.path()).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn small_files_and_the_empty_device_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "text").unwrap();
        assert_eq!(read_text(file.path()).unwrap(), "text");
        assert_eq!(read("/dev/null").unwrap(), b"");
        std::fs::write(file.path(), b"\xff").unwrap();
        assert_eq!(read_text(file.path()).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
