//! Packages at addresses with a password, which package managers accept on their command line only.

use crate::{
    Args, Failure, Host,
    archive::unarchive::spool,
    files::scratch::Scratch,
    http::{address::Address, download},
    secrets::without_passwords,
};

/// Downloads packages whose addresses have a password, because every user of a host can read command lines. Replaces
/// each such address by a file with this ending, which exists as long as the returned directory.
pub(super) fn fetch(names: &mut [String], ending: &str, args: &Args, host: &Host) -> Result<Option<Scratch>, Failure> {
    let mut directory = None;
    for (number, name) in names.iter_mut().enumerate() {
        if without_passwords(name) == *name {
            continue;
        }
        if directory.is_none() {
            directory = Some(Scratch::new()?);
        }
        let address = Address::parse(name);
        let file = address.as_ref().map_or("", Address::file_name).trim_end_matches(ending);
        let path = directory.iter().map(Scratch::path).collect::<std::path::PathBuf>();
        let path = path.join(format!("{number}-{file}{ending}"));
        download(args, name, host, &mut |body| spool(body, &path, name, host).map(drop))?;
        *name = path.display().to_string();
    }
    Ok(directory)
}
