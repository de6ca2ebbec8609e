//! Modules that speak to servers, and the client they share.

mod address;
mod certificates;
mod client;
mod credentials;
mod digest_file;
pub mod get_url;
mod options;
mod proxy;
mod resolve;

pub(crate) use get_url::download;
