//! Modules that read and write files, and what they share.

pub mod attributes;
pub mod backup;
pub mod checksum;
pub mod difference;
pub mod glob;
pub mod info;
pub mod mode;
pub mod scratch;
pub mod staged;
pub mod write;
