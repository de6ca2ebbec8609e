//! Writes archives and single compressed files, and compares existing ones by their members' content. A repeated task
//! therefore changes nothing, although times and compression make the bytes differ.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{File, Metadata},
    io::{self, BufWriter, Read, Seek, Write},
    os::unix::{
        ffi::OsStringExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use zip::{ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::{
    super::format::{Format, Packing, open},
    sources::Entry,
};
use crate::{
    Failure, Host,
    files::{
        checksum::{self, Hasher},
        staged::Staged,
        way::{self, Link, Place, Purpose, handle},
    },
    process::reason,
};

/// An open member, which stays the same file whoever renames it.
struct Node {
    /// Opened with `O_PATH`.
    file: File,
    found: Metadata,
    /// Text of a link, which is packed as a link.
    target: Option<PathBuf>,
}

impl Node {
    fn of(member: &Entry) -> io::Result<Node> {
        let place = Place::of(&member.path, Link::NoFollow, Purpose::Read)?;
        let file = place.existing()?.try_clone()?;
        let found = file.metadata()?;
        let text = found.is_symlink().then(|| rustix::fs::readlinkat(&file, c"", Vec::new())).transpose()?;
        let target = text.map(|text| PathBuf::from(OsString::from_vec(text.into_bytes())));
        Ok(Node { file, found, target })
    }

    fn open(&self) -> io::Result<File> {
        if self.found.is_file() {
            return File::open(handle(&self.file));
        }
        // Opening a pipe would wait for its writer.
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a file, a directory nor a link"))
    }
}

/// A writer that must be finished.
enum Sink<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Bzip2(BzEncoder<W>),
    Xz(Box<XzWriter<W>>),
}

impl<W: Write> Sink<W> {
    fn of(writer: W, format: &str) -> io::Result<Sink<W>> {
        Ok(match format {
            "gz" => Sink::Gzip(GzEncoder::new(writer, flate2::Compression::default())),
            "bz2" => Sink::Bzip2(BzEncoder::new(writer, bzip2::Compression::best())),
            "xz" => Sink::Xz(Box::new(XzWriter::new(writer, XzOptions::with_preset(6))?)),
            _ => Sink::Plain(writer),
        })
    }

    fn finish(self) -> io::Result<()> {
        let mut writer = match self {
            Sink::Plain(writer) => writer,
            Sink::Gzip(writer) => writer.finish()?,
            Sink::Bzip2(writer) => writer.finish()?,
            Sink::Xz(writer) => writer.finish()?,
        };
        writer.flush()
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(writer) => writer.write(bytes),
            Sink::Gzip(writer) => writer.write(bytes),
            Sink::Bzip2(writer) => writer.write(bytes),
            Sink::Xz(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(writer) => writer.flush(),
            Sink::Gzip(writer) => writer.flush(),
            Sink::Bzip2(writer) => writer.flush(),
            Sink::Xz(writer) => writer.flush(),
        }
    }
}

fn unwritable(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("Errors when writing archive: {error}."))
}

/// Writes a single compressed file.
pub(super) fn compress(staged: &mut Staged, format: &str, source: &Path, host: &Host) -> Result<(), Failure> {
    host.check_cancelled()?;
    let written = (|| {
        let mut sink = Sink::of(BufWriter::new(staged.file()), format)?;
        io::copy(&mut way::open(source)?, &mut sink)?;
        sink.finish()
    })();
    written.map_err(|error| Failure::new(format!("Unable to write to compressed file: {}: {error}.", source.display())))
}

/// Writes the archive.
pub(super) fn pack(staged: &mut Staged, format: &str, members: &[Entry], host: &Host) -> Result<(), Failure> {
    if format == "zip" {
        return zipped(staged.file(), members, host);
    }
    let sink = Sink::of(BufWriter::new(staged.file()), format).map_err(unwritable)?;
    let mut builder = tar::Builder::new(sink);
    for member in members {
        host.check_cancelled()?;
        append(&mut builder, member).map_err(|error| unwritable(format!("{}: {error}", member.path.display())))?;
    }
    builder.into_inner().and_then(Sink::finish).map_err(unwritable)
}

fn append<W: Write>(builder: &mut tar::Builder<W>, member: &Entry) -> io::Result<()> {
    let Node { file, found, target } = Node::of(member)?;
    let Some(target) = target else {
        // The descriptor's path is a link to the node itself.
        return builder.append_path_with_name(handle(&file), &member.place);
    };
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&found);
    header.set_size(0);
    builder.append_link(&mut header, &member.place, target)
}

fn zipped<W: Write + Seek>(file: W, members: &[Entry], host: &Host) -> Result<(), Failure> {
    let mut writer = ZipWriter::new(BufWriter::new(file));
    for member in members {
        host.check_cancelled()?;
        let failed = |error: String| unwritable(format!("{}: {error}", member.path.display()));
        let node = Node::of(member).map_err(|error| failed(error.to_string()))?;
        let options = SimpleFileOptions::default().unix_permissions(node.found.permissions().mode() & 0o7777);
        let options = options.large_file(node.found.size() >= u64::from(u32::MAX));
        if let Some(target) = &node.target {
            writer
                .add_symlink(member.name.as_str(), target.to_string_lossy(), options)
                .map_err(|error| failed(error.to_string()))?;
        } else if node.found.is_dir() {
            writer.add_directory(member.name.as_str(), options).map_err(|error| failed(error.to_string()))?;
        } else {
            writer.start_file(member.name.as_str(), options).map_err(|error| failed(error.to_string()))?;
            let copied = node.open().and_then(|mut file| io::copy(&mut file, &mut writer));
            copied.map_err(|error| failed(error.to_string()))?;
        }
    }
    writer.finish().map_err(unwritable).and_then(|mut inner| inner.flush().map_err(unwritable))
}

/// Whether a compressed file contains the source's content.
pub(super) fn same_content(dest: &Path, source: &Path, host: &Host) -> Result<bool, Failure> {
    let packing = match dest.is_file().then(|| Format::of(dest)).transpose()?.flatten() {
        Some(Format::Tar(packing)) if packing != Packing::Plain => packing,
        _ => return Ok(false),
    };
    let Ok((mut reader, _)) = open(dest, packing) else { return Ok(false) };
    let Ok(held) = checksum::of_reader(Hasher::sha1(), &mut *reader, host) else { return Ok(false) };
    let wanted = way::open(source).and_then(|mut file| checksum::of_reader(Hasher::sha1(), &mut file, host));
    let wanted =
        wanted.map_err(|error| Failure::new(format!("{} could not be read: {}.", source.display(), reason(&error))))?;
    Ok(held == wanted)
}

/// Comparable state of members: hash of the content or target of a link; empty for a folder.
type Held = BTreeMap<String, String>;

/// Whether an archive already has these members.
pub(super) fn same_members(dest: &Path, format: &str, members: &[Entry], host: &Host) -> Result<bool, Failure> {
    if !dest.is_file() {
        return Ok(false);
    }
    let held = match (Format::of(dest)?, format) {
        (Some(Format::Zip), "zip") => of_zip(dest, host),
        (Some(Format::Tar(packing)), format) if format != "zip" && packing == packing_of(format) => {
            of_tar(dest, packing, host)
        }
        _ => return Ok(false),
    };
    // An unreadable archive is rewritten.
    let Ok(held) = held else { return Ok(false) };
    let mut wanted = Held::new();
    for member in members {
        let failed = |error: io::Error| {
            Failure::new(format!("{} could not be read: {}.", member.path.display(), reason(&error)))
        };
        let node = Node::of(member).map_err(failed)?;
        let about = match &node.target {
            _ if node.found.is_dir() => String::new(),
            Some(target) => target.display().to_string(),
            None if !node.found.is_file() => checksum::of_bytes(Hasher::sha1(), b""),
            None => {
                let hash = |mut file: File| checksum::of_reader(Hasher::sha1(), &mut file, host);
                node.open().and_then(hash).map_err(failed)?
            }
        };
        wanted.insert(member.name.clone(), about);
    }
    Ok(held == wanted)
}

fn packing_of(format: &str) -> Packing {
    match format {
        "gz" => Packing::Gzip,
        "bz2" => Packing::Bzip2,
        "xz" => Packing::Xz,
        _ => Packing::Plain,
    }
}

fn of_tar(dest: &Path, packing: Packing, host: &Host) -> io::Result<Held> {
    let mut held = Held::new();
    let mut archive = tar::Archive::new(open(dest, packing)?.0);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().trim_end_matches('/').to_owned();
        let about = match entry.link_name()? {
            _ if entry.header().entry_type().is_dir() => String::new(),
            Some(target) => target.display().to_string(),
            None => checksum::of_reader(Hasher::sha1(), &mut entry as &mut dyn Read, host)?,
        };
        held.insert(name, about);
    }
    Ok(held)
}

fn of_zip(dest: &Path, host: &Host) -> io::Result<Held> {
    let mut held = Held::new();
    let mut archive = ZipArchive::new(File::open(dest)?).map_err(io::Error::other)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(io::Error::other)?;
        let name = entry.name().map_err(io::Error::other)?.to_string();
        let link = entry.unix_mode().unwrap_or(0) & 0o170_000 == 0o120_000;
        let about = if name.ends_with('/') {
            String::new()
        } else if link {
            let mut target = String::new();
            entry.read_to_string(&mut target)?;
            target
        } else {
            checksum::of_reader(Hasher::sha1(), &mut entry as &mut dyn Read, host)?
        };
        held.insert(name.trim_end_matches('/').to_owned(), about);
    }
    Ok(held)
}
