//! Tests of path resolution: links of root and of two other users, of which some must not be followed. Most need root.

use std::os::unix::fs::symlink;

use super::*;

/// Files of another user, which only root can create.
fn given(path: &Path, uid: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

const BOB: u32 = 61_001;
const CAROL: u32 = 61_002;

/// `/…/bob`, owned by bob, with a link to `/…/root`, owned by root.
fn homes() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let (bob, root) = (top.join("bob"), top.join("root"));
    std::fs::create_dir(&bob).unwrap();
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("secret"), "secret").unwrap();
    std::os::unix::fs::chown(root.join("secret"), Some(0), Some(0)).unwrap();
    given(&bob, BOB);
    (folder, bob, root)
}

fn linked(target: &Path, link: &Path, uid: u32) {
    symlink(target, link).unwrap();
    given(link, uid);
}

fn writes(path: &Path) -> io::Result<PathBuf> {
    Place::to_write(path, Link::Follow).map(|place| place.real().to_owned())
}

#[test]
fn link_of_other_user_to_root_file_refused() {
    if !is_root() {
        return;
    }
    let (_folder, bob, root) = homes();
    linked(&root, &bob.join("absolute"), BOB);
    linked(Path::new("../root"), &bob.join("relative"), BOB);
    linked(&root.join("secret"), &bob.join("file"), BOB);
    for path in ["absolute/secret", "absolute/new", "relative/secret", "relative/new", "file"] {
        let error = writes(&bob.join(path)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{path}");
        assert!(error.to_string().contains("61001 controls the link"), "{error}");
    }
    // A later link of root does not lift the refusal.
    symlink(root.join("secret"), root.join("link")).unwrap();
    assert!(writes(&bob.join("absolute/link")).is_err());
}

#[test]
fn link_of_other_user_to_own_file_and_link_of_root_followed() {
    if !is_root() {
        return;
    }
    let (_folder, bob, root) = homes();
    let releases = bob.join("releases");
    std::fs::create_dir(&releases).unwrap();
    given(&releases, BOB);
    std::fs::write(releases.join("a"), "a").unwrap();
    linked(&releases, &bob.join("current"), BOB);
    linked(Path::new("releases/a"), &bob.join("a"), BOB);
    symlink(&root, bob.join("by-root")).unwrap();
    symlink(&releases, root.join("by-root")).unwrap();
    assert_eq!(writes(&bob.join("current/new")).unwrap(), releases.join("new"));
    assert_eq!(writes(&bob.join("current/a")).unwrap(), releases.join("a"));
    assert_eq!(writes(&bob.join("a")).unwrap(), releases.join("a"));
    assert_eq!(writes(&root.join("by-root/new")).unwrap(), releases.join("new"));
    // The user can have moved a link of root within the own directory.
    assert!(writes(&bob.join("by-root/new")).is_err());
    // Replacing the link itself is permitted.
    assert!(Place::to_write(&bob.join("current"), Link::NoFollow).unwrap().metadata().unwrap().is_symlink());
}

#[test]
fn path_leaving_users_directory_refused() {
    if !is_root() {
        return;
    }
    let (_folder, bob, root) = homes();
    let inner = bob.join("inner");
    std::fs::create_dir(&inner).unwrap();
    given(&inner, BOB);
    linked(Path::new("inner/../../root"), &bob.join("up"), BOB);
    assert!(writes(&bob.join("up/new")).is_err());
    let carol = root.with_file_name("carol");
    std::fs::create_dir(&carol).unwrap();
    given(&carol, CAROL);
    std::fs::write(carol.join("file"), "").unwrap();
    given(&carol.join("file"), CAROL);
    linked(&carol.join("file"), &bob.join("carols"), BOB);
    assert!(writes(&bob.join("carols")).is_err());
    linked(&bob.join("inner"), &carol.join("bobs"), CAROL);
    linked(&carol.join("bobs"), &bob.join("round"), BOB);
    assert!(writes(&bob.join("round/new")).is_err());
}

#[test]
fn world_readable_file_read_through_any_link() {
    if !is_root() {
        return;
    }
    let (_folder, bob, root) = homes();
    linked(&root.join("secret"), &bob.join("link"), BOB);
    let set = |path: &Path, bits| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(bits)).unwrap();
    };
    set(root.parent().unwrap(), 0o755);
    assert_eq!(read(&bob.join("link")).unwrap(), b"secret");
    set(&root.join("secret"), 0o600);
    assert!(read(&bob.join("link")).is_err());
    set(&root.join("secret"), 0o644);
    set(&root, 0o700);
    assert!(read(&bob.join("link")).is_err());
    assert!(writes(&bob.join("link")).is_err());
}

#[test]
fn ordinary_paths_resolve_like_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(top.join("a/b")).unwrap();
    symlink("b", top.join("a/link")).unwrap();
    symlink("loop", top.join("loop")).unwrap();
    assert_eq!(writes(&top.join("a/link/../new")).unwrap(), top.join("a/new"));
    assert_eq!(writes(&top.join("a/link/")).unwrap(), top.join("a/b"));
    assert_eq!(writes(Path::new("/")).unwrap(), Path::new("/"));
    assert!(writes(&top.join("loop")).is_err() && writes(&top.join("none/x")).is_err());
    remove_dir_all(&top.join("a")).unwrap();
    assert!(!top.join("a").exists());
}
