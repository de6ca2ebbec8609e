use std::borrow::Cow;
use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::XzReader;

/// An executor binary to push.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    /// The first part of its target: `x86_64`, `aarch64`.
    pub architecture: &'static str,
    /// SHA-256 of the binary in hex; it is a part of its name on the host.
    pub sha256: &'static str,
    /// The binary, compressed.
    pub xz: &'static [u8],
}

impl Image {
    /// The binary for a host that can unpack only gzip. Such hosts are few: it is packed anew for each.
    fn gzip(&self) -> io::Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        io::copy(&mut XzReader::new(self.xz, true), &mut encoder)?;
        encoder.finish()
    }

    /// The binary as the host unpacks it.
    pub(super) fn packed(&self, packer: &str) -> io::Result<Cow<'static, [u8]>> {
        Ok(if packer == super::script::XZ { Cow::Borrowed(self.xz) } else { Cow::Owned(self.gzip()?) })
    }
}

/// The executors this program was built with.
pub(super) static EMBEDDED: &[Image] = include!(concat!(env!("OUT_DIR"), "/executors.rs"));
