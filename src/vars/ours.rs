//! Names in a layer of variables that begin with `ansible_`. Every task asks for dozens of such variables, to find its
//! connection and become user, and few layers have any.

use std::sync::Arc;

use super::secrecy;

/// Beginning of the names of connection, become and magic variables.
const BEGINNING: &str = "ansible_";

/// Most names of a layer that are looked through for every task.
const FEW: usize = 64;

/// Names of one layer that begin with `ansible_`.
#[derive(Debug, Clone)]
pub(super) enum Ours {
    None,
    These(Arc<[Box<str>]>),
    /// The layer may have any.
    Unknown,
}

impl Ours {
    /// Looks through the names of a layer that serves many tasks.
    pub(super) fn of<'n>(names: impl Iterator<Item = &'n str>) -> Ours {
        let ours: Arc<[Box<str>]> = names.filter(|name| is_ours(name)).map(Box::from).collect();
        if ours.is_empty() { Ours::None } else { Ours::These(ours) }
    }

    /// Looks through the names of a layer that serves one task.
    pub(super) fn at_a_glance<'n>(count: usize, mut names: impl Iterator<Item = &'n str>) -> Ours {
        if count > FEW || names.any(is_ours) { Ours::Unknown } else { Ours::None }
    }

    /// Whether the layer may have a variable whose name begins with `ansible_`.
    pub(super) fn may_have(&self, name: &str) -> bool {
        match self {
            Ours::None => false,
            Ours::These(ours) => ours.iter().any(|own| **own == *name),
            Ours::Unknown => true,
        }
    }

    /// Whether the layer may have a password.
    pub(super) fn may_have_password(&self) -> bool {
        match self {
            Ours::None => false,
            Ours::These(ours) => ours.iter().any(|name| secrecy::is_password(name)),
            Ours::Unknown => true,
        }
    }
}

/// Whether a name begins with `ansible_`.
pub(super) fn is_ours(name: &str) -> bool {
    name.starts_with(BEGINNING)
}
