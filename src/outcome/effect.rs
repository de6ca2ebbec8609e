//! Changes of a run by a task, as types: variables, hosts, groups, facts, statistics. Data of a host cannot become one,
//! except for facts.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use windlass_template::{Origin, Value};
use windlass_yaml::Mapping;

use super::HostFacts;
use crate::connection::Kind;

/// A change of the run that a task makes in addition to its registered result.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Facts that a module reported (`ansible_facts`).
    Facts(HostFacts),
    /// Python found on the host for modules of a become user.
    Python {
        /// Kind of the connection over which the interpreter was found.
        kind: Kind,
        /// The become user; `None` is the login user.
        user: Option<String>,
        /// Path of the interpreter on the host.
        path: String,
    },
    /// Variables of `set_fact`.
    SetFacts(SetFacts),
    /// Files of `include_vars`.
    IncludedVars(IncludedVars),
    /// A host or a group of `add_host` and `group_by`.
    Inventory(InventoryChange),
    /// Statistics of `set_stats`.
    Stats(StatsUpdate),
}

/// Variables of `set_fact`.
#[derive(Debug, Clone, PartialEq)]
pub struct SetFacts {
    /// Names and values.
    pub vars: Vec<(Arc<str>, Value)>,
    /// Whether the variables are stored as facts too.
    pub cacheable: bool,
    /// Origins of their texts; `type_debug` reports them up to 2.18.
    pub origins: Vec<(Arc<str>, Origin)>,
}

/// Files of `include_vars`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncludedVars {
    /// The files in the order they were read.
    pub files: Vec<PathBuf>,
    /// Variable that contains all others as a dictionary; `None` sets each one separately.
    pub name: Option<String>,
    /// Whether dictionaries are merged with existing ones of the same name.
    pub merge: bool,
    /// Estimated size of the variables in memory, in bytes.
    pub size: usize,
}

/// A change of the inventory of this run.
#[derive(Debug, Clone, PartialEq)]
pub enum InventoryChange {
    /// `add_host`.
    Host(NewHost),
    /// `group_by`.
    Group(NewGroup),
}

/// A host of `add_host`.
#[derive(Debug, Clone, PartialEq)]
pub struct NewHost {
    /// Name of the new host.
    pub name: String,
    /// The groups it joins.
    pub groups: Vec<String>,
    /// Variables of the host, as data.
    pub vars: Arc<Mapping>,
}

/// A group of `group_by`; the task's host joins it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGroup {
    /// Name of the group, which may be new.
    pub name: String,
    /// Parents of the group.
    pub parents: Vec<String>,
}

/// Statistics of `set_stats`.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsUpdate {
    /// Names and values.
    pub data: Map<String, Json>,
    /// Whether the statistics belong to the host rather than the run.
    pub per_host: bool,
    /// Whether the statistics are added to existing values.
    pub aggregate: bool,
}
