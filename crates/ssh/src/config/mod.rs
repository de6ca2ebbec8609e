//! Reads ssh_config: `Host` and `Match` blocks, `Include` and tokens. The first value of an option wins.

mod arguments;
mod keywords;
mod lexer;
mod options;
mod reader;
mod tokens;

pub(crate) use arguments::Arguments;
pub(crate) use options::{AddressFamily, HostOptions, is_none};
pub use options::{HostKeyChecking, duration};
pub(crate) use reader::{Query, Sources, read};
pub(crate) use tokens::Tokens;
