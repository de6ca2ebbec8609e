//! Home directories, created and filled from the skeleton while nobody else can enter them.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use crate::{
    Failure,
    accounts::User,
    files::way::{self, Link, Place},
    process::reason,
};

/// Creates and fills a home directory like useradd, for an account without one.
pub(super) fn make(user: &User, skeleton: &str, umask: Option<&str>) -> Result<(), Failure> {
    let home = Path::new(&user.home);
    let refuse = |error: std::io::Error| {
        Failure::new(format!("The home directory {} could not be made: {}.", user.home, reason(&error)))
    };
    if let Some(parent) = home.parent() {
        way::create_dir_all(parent).map_err(refuse)?;
    }
    let mask = umask.and_then(|text| u32::from_str_radix(text, 8).ok());
    // Ownership is transferred last: until then nobody else can enter and plant links.
    way::create_dir(home, 0o700).map_err(refuse)?;
    fill(Path::new(skeleton), home, user).map_err(refuse)?;
    let given = Place::to_write(home, Link::NoFollow).and_then(|place| {
        let home = place.open()?;
        home.set_permissions(fs::Permissions::from_mode(0o777 & !mask.unwrap_or(0o22)))?;
        way::give(&home, Some(user.uid), Some(user.gid))
    });
    given.map_err(refuse)
}

/// Copies the skeleton to a home directory that only its creator can enter.
fn fill(from: &Path, to: &Path, user: &User) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            way::create_dir(&target, 0o700)?;
            fill(&entry.path(), &target, user)?;
            way::chmod(&target, entry.metadata()?.permissions().mode())?;
        } else if kind.is_symlink() {
            way::symlink(&fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() {
            let mut file = Place::to_write(&target, Link::NoFollow)?.create_new(0o600)?;
            io::copy(&mut way::open(&entry.path())?, &mut file)?;
            file.set_permissions(entry.metadata()?.permissions())?;
        } else {
            continue;
        }
        way::chown(&target, Some(user.uid), Some(user.gid), Link::NoFollow)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_filled_from_skeleton() {
        let folder = tempfile::tempdir().unwrap();
        let skeleton = folder.path().join("skel");
        fs::create_dir_all(skeleton.join(".config")).unwrap();
        fs::write(skeleton.join(".profile"), "x").unwrap();
        fs::write(skeleton.join(".config/a"), "y").unwrap();
        let home = folder.path().join("home/ada");
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let user = User {
            name: "ada".into(),
            password: "x".into(),
            uid,
            gid,
            gecos: String::new(),
            home: home.to_string_lossy().into_owned(),
            shell: String::new(),
        };
        make(&user, &skeleton.to_string_lossy(), Some("077")).unwrap();
        assert_eq!(fs::read_to_string(home.join(".config/a")).unwrap(), "y");
        assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
