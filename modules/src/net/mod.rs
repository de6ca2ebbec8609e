//! Modules that speak to servers, and the client they share.

mod address;
mod certificates;
mod client;
mod connections;
mod credentials;
mod digest_file;
mod form;
mod forward;
pub mod get_url;
mod options;
mod proxy;
mod resolve;
pub mod uri;
pub mod wait_for;

pub(crate) use get_url::download;
