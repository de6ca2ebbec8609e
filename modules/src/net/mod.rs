//! Modules that speak to servers, and the client they share.

pub(crate) mod address;
#[cfg(feature = "all")]
pub(crate) mod certificates;
#[cfg(feature = "all")]
pub(crate) mod client;
mod connections;
#[cfg(feature = "all")]
mod credentials;
#[cfg(feature = "all")]
mod digest_file;
#[cfg(feature = "all")]
mod form;
#[cfg(feature = "all")]
mod forward;
#[cfg(feature = "all")]
pub mod get_url;
#[cfg(feature = "all")]
pub(crate) mod host_names;
#[cfg(feature = "all")]
mod options;
#[cfg(feature = "all")]
mod proxy;
pub(crate) mod resolve;
#[cfg(feature = "all")]
pub mod uri;
pub mod wait_for;

#[cfg(feature = "all")]
pub(crate) use form::quoted;
#[cfg(feature = "all")]
pub(crate) use get_url::download;

#[cfg(feature = "all")]
use crate::{Args, Host};

/// Larger answers are no keys and no descriptions.
const SMALL: u64 = 16 << 20;

/// The small file at this address, with the options of the task (`validate_certs` and the like). The error is a sentence without its end.
#[cfg(feature = "all")]
pub(crate) fn read(url: &str, args: &Args, host: &Host) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let client = client::Client::of(args, host).map_err(|failure| failure.message)?;
    let request = client::Request { method: "GET".to_owned(), url: url.to_owned(), ..client::Request::default() };
    let response = client.send(&request, host)?;
    if response.status != 200 {
        return Err(response.message);
    }
    let mut bytes = Vec::new();
    response.body.take(SMALL).read_to_end(&mut bytes).map_err(|error| crate::process::reason(&error))?;
    Ok(bytes)
}
