//! Bundles: everything that an inventory's playbooks fetch, in one signed file, for sites without a network.
//!
//! A bundle is a tar archive with these members, in this order:
//!
//! | Member | Content |
//! |---|---|
//! | `bundle.json` | The [`Manifest`]: every file with its path in the mirror, its SHA-256, its size and its source |
//! | `bundle.json.sig` | SSH signature of `bundle.json`, as `ssh-keygen -Y sign` writes it; missing if unsigned |
//! | `sbom.json` | CycloneDX list of the components; its hash is in the manifest |
//! | `blobs/sha256/DIGEST` | Contents, in the order of their hashes; with the ending `.zst` if compressed |
//!
//! The signature covers the manifest, and the manifest has the hash of every other member. Nothing in a bundle depends
//! on the time or the machine, so the same input makes the same bytes. A difference bundle leaves out contents that
//! its base has; its manifest still lists all files.
//!
//! [`plan`] has the list of needed files, which a playbook computes from the roles. [`create`] fetches them, [`Store`]
//! writes the archive, and [`Bundle`] reads one.

mod create;
mod difference;
mod image;
mod manifest;
mod plan;
mod read;
mod registry;
mod sbom;
mod serve;
mod signature;
mod signers;
mod store;
mod unpack;

pub use create::{Request, create};
pub use difference::{Difference, difference};
pub use manifest::{Base, Digest, Encoding, File, Kind, LeftOut, Manifest, Summary};
pub use plan::{Artifact, ImageArchive, Plan};
pub use read::{Bundle, Visitor};
pub use serve::Mirror;
pub use signature::{NAMESPACE, Signature, Trust, check, sign};
pub(crate) use store::Hashing;
pub use store::{Store, rewrite};
pub use unpack::{Unpacked, unpack};

/// Largest manifest that is read, in bytes.
const LARGEST_MANIFEST: u64 = 16 << 20;
/// Largest list of components that is read, in bytes.
const LARGEST_SBOM: u64 = 64 << 20;
/// Largest signature that is read, in bytes.
const LARGEST_SIGNATURE: u64 = 64 << 10;
/// Largest content of a single file, in bytes.
const LARGEST_FILE: u64 = 32 << 30;
/// Largest sum of all contents, in bytes.
const LARGEST_BUNDLE: u64 = 512 << 30;
/// Largest number of files in a bundle.
const MOST_FILES: usize = 10_000;
