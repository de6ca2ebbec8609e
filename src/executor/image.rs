use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::XzReader;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

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
    /// The binary for a host that can unpack only gzip.
    fn gzip(&self) -> io::Result<Arc<[u8]>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        io::copy(&mut XzReader::new(self.xz, true), &mut encoder)?;
        Ok(encoder.finish()?.into())
    }
}

/// A binary as it is sent.
pub(super) enum Packed {
    Embedded(&'static [u8]),
    Made(Arc<[u8]>),
}

impl Deref for Packed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Embedded(bytes) => bytes,
            Self::Made(bytes) => bytes,
        }
    }
}

/// Packs binaries by gzip, which only few hosts need: each is packed when the first of them asks, and kept for the others.
#[derive(Debug, Default)]
pub(super) struct Packer {
    made: Mutex<HashMap<&'static str, Arc<[u8]>>>,
}

impl Packer {
    /// The binary as the host unpacks it.
    pub(super) async fn packed(&self, image: &Image, packer: &str) -> io::Result<Packed> {
        if packer == super::script::XZ {
            return Ok(Packed::Embedded(image.xz));
        }
        // Locked while it is packed: who asks meanwhile waits for the same bytes.
        let mut made = self.made.lock().await;
        if let Some(bytes) = made.get(image.sha256) {
            return Ok(Packed::Made(bytes.clone()));
        }
        let wanted = *image;
        let bytes = spawn_blocking(move || wanted.gzip()).await??;
        made.insert(image.sha256, bytes.clone());
        Ok(Packed::Made(bytes))
    }
}

/// The executors this program was built with.
pub(super) static EMBEDDED: &[Image] = include!(concat!(env!("OUT_DIR"), "/executors.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hosts_without_xz_share_one_packing() {
        let packer = Packer::default();
        let image = EMBEDDED.first().expect("there is an executor for this machine");
        let (one, other) = tokio::join!(packer.packed(image, "gzip"), packer.packed(image, "gzip"));
        assert_eq!(one.unwrap().as_ptr(), other.unwrap().as_ptr());
        assert_eq!(packer.packed(image, "xz").await.unwrap().as_ptr(), image.xz.as_ptr());
    }
}
