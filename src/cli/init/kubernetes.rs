//! The Kubernetes playbooks and roles, as this release brings them.

use std::path::Path;

use rust_embed::Embed;

use super::hosts::{self, Host, Login};
use super::{Files, text};
use crate::error::{Error, Result};

// A development build reads the folders from the source tree, a release build holds them.

#[derive(Embed)]
#[folder = "roles"]
struct Roles;

#[derive(Embed)]
#[folder = "playbooks"]
#[exclude = "roles/*"]
struct Playbooks;

#[derive(Embed)]
#[folder = "inventory/sample"]
struct Inventory;

/// Files of `windlass init kubernetes`. Without control planes the inventory is the sample.
pub(super) fn files(planes: &[Host], workers: &[Host], login: &Login) -> Result<Files> {
    let mut files = Files::from([("ansible.cfg".into(), text::KUBERNETES_CONFIG.as_bytes().to_vec())]);
    add::<Roles>("roles", &mut files)?;
    add::<Playbooks>("playbooks", &mut files)?;
    add::<Inventory>("inventory", &mut files)?;
    if !planes.is_empty() {
        files.insert("inventory/hosts.yml".into(), hosts::cluster(planes, workers, login).into_bytes());
    }
    Ok(files)
}

fn add<E: Embed>(folder: &str, files: &mut Files) -> Result<()> {
    for name in E::iter() {
        let file = E::get(&name).ok_or_else(|| Error::new(format!("this program lacks its file {folder}/{name}")))?;
        files.insert(Path::new(folder).join(&*name), file.data.into_owned());
    }
    Ok(())
}
