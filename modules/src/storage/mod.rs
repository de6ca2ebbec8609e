//! Partitions, logical volumes and file systems.

pub mod filesystem;
pub mod lvg;
pub mod lvol;
pub mod parted;
