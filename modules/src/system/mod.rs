//! Modules for the system of a host: packages, services, accounts, kernel settings, mounts and names.

mod config_file;
mod dpkg;

pub mod apt;
pub mod authorized_key;
pub mod cron;
pub mod group;
pub mod hostname;
pub mod modprobe;
pub mod mount;
pub mod package;
pub mod service;
pub mod sysctl;
pub mod systemd;
pub mod timezone;
pub mod user;
