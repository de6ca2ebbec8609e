//! Packages at addresses, downloaded by the module itself, as Ansible does. A program would receive the address on its
//! command line, where every user of the host can read a password in it.

#[cfg(feature = "all")]
use crate::http::download;
use crate::{
    Args, Failure, Host,
    files::scratch::{Scratch, spool},
    net::address::Address,
};

/// The smaller executor has no HTTP client. The controller sends the larger one for packages at addresses.
#[cfg(not(feature = "all"))]
fn download(
    _args: &Args,
    _url: &str,
    _host: &Host,
    _take: &mut dyn FnMut(&mut dyn std::io::Read) -> Result<(), Failure>,
) -> Result<(), Failure> {
    Err(Failure::new("This executor cannot download packages; please report this as a bug."))
}

/// A downloaded package. Dropping it removes the file.
pub(super) struct Fetched {
    pub(super) path: String,
    _scratch: Scratch,
}

impl Fetched {
    /// Downloads a package into a directory, with the name that it has at its address and this suffix.
    pub(super) fn of(url: &str, suffix: &str, scratch: Scratch, args: &Args, host: &Host) -> Result<Self, Failure> {
        let address = Address::parse(url);
        let name = address.as_ref().map_or("package", Address::file_name);
        // Programs decode escapes in paths, or take a colon for the end of a scheme.
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "._+~-".contains(character);
        let name = name.trim_end_matches(suffix).replace(|character: char| !is_plain(character), "_");
        let path = scratch.path().join(name + suffix);
        download(args, url, host, &mut |body| spool(body, &path, url, host).map(drop))?;
        Ok(Self { path: path.display().to_string(), _scratch: scratch })
    }
}

/// Whether a name is an address with a user or password.
pub(super) fn has_login(name: &str) -> bool {
    Address::parse(name).is_some_and(|address| address.credentials.is_some())
}

/// Whether a name is an address that the client knows, or one that must not be on a command line.
pub(super) fn is_remote(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://") || has_login(name)
}
