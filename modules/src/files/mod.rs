//! Modules that read and write files, and their common code.

pub mod acl;
pub mod assemble;
pub mod attributes;
pub mod backup;
pub mod checksum;
pub(crate) mod context;
pub mod copy;
pub mod difference;
pub mod directory;
pub mod fetch;
pub mod file;
pub mod find;
mod flags;
pub mod glob;
pub mod info;
mod mime;
pub mod mode;
pub mod scratch;
pub mod slurp;
pub mod staged;
pub mod stat;
pub(crate) mod sweep;
pub mod synchronize;
pub mod temporary;
mod times;
pub(crate) mod way;
pub mod write;
