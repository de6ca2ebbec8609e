//! Modules for package repositories and their signing keys.

pub mod apt_key;
pub mod apt_repository;
pub mod deb822_repository;
mod key;
pub mod rpm_key;
mod sources_list;
pub mod yum_repository;
