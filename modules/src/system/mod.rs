//! Modules for the host's system: packages, services, accounts, kernel settings, mounts and names.

mod config_file;
pub mod dnf;
mod dpkg;
mod fetched;
mod lock;

pub mod alternatives;
pub mod apk;
pub mod apt;
pub mod authorized_key;
pub mod capabilities;
pub mod cron;
pub mod debconf;
pub mod dpkg_selections;
pub mod firewalld;
pub mod group;
pub mod hostname;
pub mod iptables;
pub mod locale_gen;
pub mod modprobe;
pub mod mount;
pub mod package;
pub mod pacman;
pub mod pam_limits;
pub mod seboolean;
pub mod selinux;
pub mod service;
pub mod snap;
pub mod sudoers;
pub mod sysctl;
pub mod systemd;
pub mod sysvinit;
pub mod timezone;
pub mod ufw;
pub mod user;
pub mod zypper;
