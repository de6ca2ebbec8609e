//! Modules for the places that packages come from, and for the keys they are signed with.

pub mod apt_key;
pub mod apt_repository;
pub mod deb822_repository;
mod key;
pub mod rpm_key;
mod sources_list;
pub mod yum_repository;
