//! Formats of archives: recognizes them by their first bytes and opens the decompressor of a tar archive.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::{budget::Budget, zstd::ZstdReader};
use crate::{Failure, files::way, process::reason};

/// Format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Tar(Packing),
    Zip,
}

/// Compression of a tar archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Bzip2,
    Xz,
    Zstd,
}

impl Format {
    /// Handler name in results.
    pub(super) fn handler(self) -> &'static str {
        match self {
            Format::Zip => "ZipArchive",
            Format::Tar(Packing::Plain) => "TarArchive",
            Format::Tar(Packing::Gzip) => "TgzArchive",
            Format::Tar(Packing::Bzip2) => "TarBzipArchive",
            Format::Tar(Packing::Xz) => "TarXzArchive",
            Format::Tar(Packing::Zstd) => "TarZstdArchive",
        }
    }

    /// Detects the format from the first bytes, because file names may be wrong.
    pub(super) fn of(path: &Path) -> Result<Option<Format>, Failure> {
        let mut start = Vec::new();
        let read = way::open(path).and_then(|file| file.take(512).read_to_end(&mut start));
        read.map_err(|error| Failure::new(format!("Source '{}' not readable: {}.", path.display(), reason(&error))))?;
        Ok(recognize(&start))
    }
}

fn recognize(start: &[u8]) -> Option<Format> {
    let begins = |magic: &[u8]| start.starts_with(magic);
    if begins(b"PK\x03\x04") || begins(b"PK\x05\x06") || begins(b"PK\x07\x08") {
        Some(Format::Zip)
    } else if begins(&[0x1f, 0x8b]) {
        Some(Format::Tar(Packing::Gzip))
    } else if begins(b"BZh") {
        Some(Format::Tar(Packing::Bzip2))
    } else if begins(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        Some(Format::Tar(Packing::Xz))
    } else if begins(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Some(Format::Tar(Packing::Zstd))
    } else if is_tar(start) {
        Some(Format::Tar(Packing::Plain))
    } else {
        None
    }
}

/// Old archives have no magic number, but each header contains a checksum.
fn is_tar(start: &[u8]) -> bool {
    let Some(header) = start.get(..512) else { return false };
    let stored = header.get(148..156).unwrap_or_default();
    let stored = String::from_utf8_lossy(stored);
    let stored = u32::from_str_radix(stored.trim_matches(['\0', ' ']), 8);
    let sum: u32 =
        header.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum();
    stored == Ok(sum)
}

/// Opens a tar archive through its decompressor.
pub(super) fn open(path: &Path, packing: Packing) -> io::Result<(Box<dyn Read>, Budget)> {
    let file: File = way::open(path)?;
    let budget = Budget::of(file.metadata()?.len());
    let file = BufReader::with_capacity(128 << 10, file);
    let reader: Box<dyn Read> = match packing {
        Packing::Plain => Box::new(file),
        Packing::Gzip => Box::new(budget.metered(MultiGzDecoder::new(file))),
        Packing::Bzip2 => Box::new(budget.metered(MultiBzDecoder::new(file))),
        Packing::Xz => Box::new(budget.metered(XzReader::new(file, true))),
        Packing::Zstd => Box::new(budget.metered(ZstdReader::new(file))),
    };
    Ok((reader, budget))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_format_detected_from_first_bytes() {
        assert_eq!(recognize(b"PK\x03\x04rest"), Some(Format::Zip));
        assert_eq!(recognize(&[0x1f, 0x8b, 8]), Some(Format::Tar(Packing::Gzip)));
        assert_eq!(recognize(b"<html>"), None);
        assert_eq!(recognize(&[0; 512]), None);
        let mut header = tar::Header::new_gnu();
        header.set_path("a").unwrap();
        header.set_cksum();
        assert_eq!(recognize(header.as_bytes()), Some(Format::Tar(Packing::Plain)));
    }
}
