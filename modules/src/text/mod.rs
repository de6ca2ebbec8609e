//! Modules that edit text files.

pub mod blockinfile;
mod edit;
pub mod ini_file;
pub mod known_hosts;
pub mod lineinfile;
pub mod replace;
pub mod ssh_config;
#[cfg(feature = "all")]
pub mod xml;

pub(crate) use edit::Text;

/// Largest file that is read into memory to be edited or searched.
const LARGEST: u64 = 256 << 20;

/// Reads a file whose size allows several copies in memory.
pub(crate) fn read_whole(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    read_rest(&crate::files::way::open(path)?)
}

fn read_rest(file: &std::fs::File) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        let reason = format!("it has more than {LARGEST} bytes, which is too much to be read as a whole");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}
