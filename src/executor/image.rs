/// An executor binary to push.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    /// The first part of its target: `x86_64`, `aarch64`.
    pub architecture: &'static str,
    /// SHA-256 of the binary in hex; it is a part of its name on the host.
    pub sha256: &'static str,
    /// The binary, compressed.
    pub gzip: &'static [u8],
}

/// The executors this program was built with.
pub(super) static EMBEDDED: &[Image] = include!(concat!(env!("OUT_DIR"), "/executors.rs"));
