//! Packs and unpacks archives.

mod budget;
mod compare;
mod extract;
mod format;
mod links;
mod member;
mod options;
pub mod pack;
mod select;
mod tarball;
pub mod unarchive;
mod zipped;
mod zstd;
