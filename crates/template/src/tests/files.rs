//! Tests of files on the control machine.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use minijinja::State;

use crate::filters::call::{Arguments, Verdict};
use crate::tracker;

fn path(args: &Arguments) -> Result<PathBuf, minijinja::Error> {
    tracker::reads_outside();
    args.string().map(PathBuf::from)
}

pub(super) fn absolute(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(path(args)?.is_absolute())
}

pub(super) fn directory(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(path(args)?.is_dir())
}

pub(super) fn file(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(path(args)?.is_file())
}

pub(super) fn exists(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(path(args)?.exists())
}

pub(super) fn link(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(path(args)?.is_symlink())
}

pub(super) fn link_exists(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(path(args)?.symlink_metadata().is_ok())
}

/// A mount point is a directory on a different device than its parent, or the root of a file system.
pub(super) fn mount(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let path = path(args)?;
    let (Ok(here), false) = (path.symlink_metadata(), path.is_symlink()) else {
        return Ok(false);
    };
    let Ok(above) = path.join("..").symlink_metadata() else {
        return Ok(false);
    };
    Ok(here.dev() != above.dev() || here.ino() == above.ino())
}

pub(super) fn same_file(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let identity = |path: &Path| {
        let metadata =
            fs::metadata(path).map_err(|error| args.failed(format!("'{}' cannot be read: {error}", path.display())))?;
        Ok::<_, minijinja::Error>((metadata.dev(), metadata.ino()))
    };
    Ok(identity(&path(args)?)? == identity(Path::new(&args.need_text("other")?))?)
}

pub(super) fn vaulted_file(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    const ENOUGH: u64 = 64;
    let path = path(args)?;
    let mut head = Vec::new();
    windlass_bounds::open(&path)
        .and_then(|source| source.take(ENOUGH).read_to_end(&mut head))
        .map_err(|error| args.failed(format!("'{}' cannot be read: {error}", path.display())))?;
    Ok(windlass_vault::is_encrypted(&head))
}
