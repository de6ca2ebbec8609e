use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, lchown, symlink},
    path::Path,
};

use crate::{Failure, accounts::User, process::reason};

/// Makes a home directory and fills it as useradd would, for an account that has none.
pub(super) fn make(user: &User, skeleton: &str, umask: Option<&str>) -> Result<(), Failure> {
    let home = Path::new(&user.home);
    let refuse = |error: std::io::Error| {
        Failure::new(format!("The home directory {} could not be made: {}.", user.home, reason(&error)))
    };
    if let Some(parent) = home.parent() {
        fs::create_dir_all(parent).map_err(refuse)?;
    }
    let mask = umask.and_then(|text| u32::from_str_radix(text, 8).ok());
    copy(Path::new(skeleton), home, user).map_err(refuse)?;
    fs::set_permissions(home, fs::Permissions::from_mode(0o777 & !mask.unwrap_or(0o22))).map_err(refuse)
}

fn copy(from: &Path, to: &Path, user: &User) -> std::io::Result<()> {
    fs::create_dir(to)?;
    chown(to, Some(user.uid), Some(user.gid))?;
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target, user)?;
            fs::set_permissions(&target, entry.metadata()?.permissions())?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target)?;
            lchown(&target, Some(user.uid), Some(user.gid))?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
            chown(&target, Some(user.uid), Some(user.gid))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_filled_from_the_skeleton() {
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
