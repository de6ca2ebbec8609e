//! HTTP modules and their client.

pub(crate) mod certificates;
pub(crate) mod client;
mod credentials;
mod digest_file;
pub(crate) mod exchange;
mod failure;
mod form;
mod forward;
pub mod get_url;
pub(crate) mod host_names;
mod options;
mod proxy;
pub mod uri;

use std::io::Read as _;

pub(crate) use form::quoted;
pub(crate) use get_url::download;

use self::{client::Client, exchange::Request};
use crate::{Args, Host};

/// Largest answer to read as a key or description.
const SMALL: u64 = 16 << 20;

/// Downloads a small file with the options of the task (`validate_certs` and similar). The error is a message without
/// its final part.
pub(crate) fn read(url: &str, args: &Args, host: &Host) -> Result<Vec<u8>, String> {
    let client = Client::of(args, host).map_err(|failure| failure.message)?;
    let request = Request { method: "GET".to_owned(), url: url.to_owned(), ..Request::default() };
    let response = client.send(&request, host)?;
    if response.status != 200 {
        return Err(response.message);
    }
    let mut bytes = Vec::new();
    response.body.take(SMALL).read_to_end(&mut bytes).map_err(|error| crate::process::reason(&error))?;
    Ok(bytes)
}
