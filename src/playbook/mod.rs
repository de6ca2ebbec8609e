//! Playbooks as written, with keywords checked, imports and roles expanded, and positions of all values.

pub mod arguments;
mod before_hosts;
mod checked;
mod import;
mod inclusion;
pub mod keyword;
pub(crate) mod label;
mod load;
mod model;
mod role;
mod source;
mod tags;
mod task;

pub use before_hosts::collection_playbook;
pub(crate) use checked::end_role as check_end_role;
pub use keyword::{Keywords, On, is_keyword};
pub use load::{Loader, TaskFile};
pub use model::{BeforeHosts, Block, Frame, FrameKind, Item, Play, Role, Task, short_name};
pub use role::RoleRequest;
pub(crate) use role::argument_specs;
pub use source::{Files, StaticScope, VarsFile};
pub(crate) use task::split_action;
