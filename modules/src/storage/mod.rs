//! Disks: partitions, logical volumes, file systems.

pub mod filesystem;
pub mod lvg;
pub mod lvol;
pub mod parted;
