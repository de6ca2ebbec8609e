//! Executor binaries for upload: one per architecture and set of modules, embedded by `build.rs`.

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::XzReader;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use windlass_modules::registry;

/// Set of modules in an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Modules that ordinary playbooks use.
    Common,
    /// All modules.
    All,
}

impl Extent {
    /// The smallest set that has this module.
    pub fn of(module: &str) -> Extent {
        if registry::is_common(module) { Extent::Common } else { Extent::All }
    }

    /// The smallest set that can run this module with these arguments. Package managers download packages at addresses.
    pub fn of_call(module: &str, args: &impl Serialize) -> Extent {
        let has_address = || serde_json::to_string(args).is_ok_and(|text| text.contains("://"));
        if registry::fetches(module) && has_address() { Extent::All } else { Extent::of(module) }
    }
}

/// An executor binary that can be uploaded.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    /// First part of its target triple: `x86_64`, `aarch64`.
    pub architecture: &'static str,
    /// Its modules.
    pub extent: Extent,
    /// SHA-256 of the binary in hex; part of its file name on the host.
    pub sha256: &'static str,
    /// The binary, compressed with xz.
    pub xz: &'static [u8],
}

impl Image {
    /// Executors embedded in this program.
    pub fn embedded() -> &'static [Image] {
        EMBEDDED
    }

    /// The binary compressed with gzip, for hosts without xz.
    fn gzip(&self) -> io::Result<Arc<[u8]>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        io::copy(&mut XzReader::new(self.xz, true), &mut encoder)?;
        Ok(encoder.finish()?.into())
    }
}

/// The smallest executor with these modules for each architecture.
pub(super) fn smallest(images: &[Image], extent: Extent) -> Vec<Image> {
    let mut chosen: Vec<Image> = Vec::new();
    for image in images.iter().filter(|image| image.extent >= extent) {
        match chosen.iter_mut().find(|other| other.architecture == image.architecture) {
            Some(other) if other.extent <= image.extent => {}
            Some(other) => *other = *image,
            None => chosen.push(*image),
        }
    }
    chosen
}

/// A compressed binary.
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

/// Compresses binaries with gzip on demand. Few hosts need it, so each binary is compressed for the first one and kept
/// for the others.
#[derive(Debug, Default)]
pub(super) struct Packer {
    made: Mutex<HashMap<&'static str, Arc<[u8]>>>,
}

impl Packer {
    /// The binary in the compression that the host supports.
    pub(super) async fn packed(&self, image: &Image, packer: &str) -> io::Result<Packed> {
        if packer == super::script::XZ {
            return Ok(Packed::Embedded(image.xz));
        }
        // Stays locked during compression, so that other hosts wait for the same bytes.
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

/// Executors embedded in this program.
pub(super) static EMBEDDED: &[Image] = include!(concat!(env!("OUT_DIR"), "/executors.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_at_addresses_need_the_larger_executor() {
        let of = |module: &str, name: &str| Extent::of_call(module, &serde_json::json!({ "name": [name] }));
        for module in ["apt", "ansible.builtin.dnf", "yum", "community.general.zypper", "package"] {
            assert_eq!(of(module, "https://example.com/a.deb"), Extent::All, "{module}");
            assert_eq!(of(module, "vim"), Extent::Common, "{module}");
        }
        assert_eq!(of("command", "https://example.com"), Extent::Common);
        assert_eq!(of("uri", "x"), Extent::All);
    }

    #[tokio::test]
    async fn hosts_without_xz_share_one_compression() {
        let packer = Packer::default();
        let image = EMBEDDED.first().expect("there is an executor for this machine");
        let (one, other) = tokio::join!(packer.packed(image, "gzip"), packer.packed(image, "gzip"));
        assert_eq!(one.unwrap().as_ptr(), other.unwrap().as_ptr());
        assert_eq!(packer.packed(image, "xz").await.unwrap().as_ptr(), image.xz.as_ptr());
    }

    #[test]
    fn smallest_sufficient_image_chosen() {
        let image = |architecture, extent| Image { architecture, extent, sha256: "00", xz: b"" };
        let images = [
            image("x86_64", Extent::All),
            image("x86_64", Extent::Common),
            image("aarch64", Extent::Common),
            image("aarch64", Extent::All),
        ];
        let extents = |extent| smallest(&images, extent).iter().map(|image| image.extent).collect::<Vec<_>>();
        assert_eq!(extents(Extent::Common), [Extent::Common; 2]);
        assert_eq!(extents(Extent::All), [Extent::All; 2]);
        // A development build has only the larger executor, which serves both.
        assert_eq!(smallest(&images[..1], Extent::Common)[0].extent, Extent::All);
    }

    #[test]
    fn modules_need_matching_extent() {
        for name in ["copy", "ansible.builtin.setup", "windlass.foreign", "community.general.something"] {
            assert_eq!(Extent::of(name), Extent::Common, "{name}");
        }
        for name in ["uri", "ansible.builtin.get_url", "kubernetes.core.k8s", "community.docker.docker_container"] {
            assert_eq!(Extent::of(name), Extent::All, "{name}");
        }
    }
}
