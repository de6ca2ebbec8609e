//! Playbooks as typed values with positions: plays, blocks, tasks and roles, the table of keywords, and the files that
//! they come from.

pub mod arguments;
pub(crate) mod checked;
pub mod keyword;
pub(crate) mod label;
mod model;
mod source;

pub(crate) use checked::end_role as check_end_role;
pub(crate) use checked::{is_identifier, is_variable_name};
pub use keyword::{Keywords, On, is_keyword};
pub use model::{BeforeHosts, Block, Dependent, Frame, FrameKind, Item, LoopedBlock, Play, Role, Task, short_name};
pub(crate) use model::{collection_of, collection_with, collections_of};
pub(crate) use source::folder_of;
pub use source::{Files, StaticScope, VarsFile};
