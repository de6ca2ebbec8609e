//! File systems below a directory of a user, who exchanges it while root unmounts or mounts again.

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    path::PathBuf,
};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::json;

use crate::house::House;

/// Mount points, which are unmounted on drop.
struct Points(Vec<PathBuf>);

impl Drop for Points {
    fn drop(&mut self) {
        for path in &self.0 {
            // A round may have mounted on the same directory again.
            while unmount(path, UnmountFlags::DETACH).is_ok() {}
        }
    }
}

/// Mounts on a directory that was opened before, wherever it is now.
fn mount_on(directory: &File) {
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    mount("none", path, "tmpfs", MountFlags::empty(), None).unwrap();
}

fn is_mounted(house: &House, path: &str) -> bool {
    let point = format!(" {} ", house.bench.path(path).display());
    fs::read_to_string("/proc/self/mountinfo").unwrap().lines().any(|line| line.contains(&point))
}

#[test]
fn file_system_of_root_is_not_unmounted_by_a_swapped_directory() {
    let Some(house) = windlass_testing::has("root").then(House::new).flatten() else { return };
    for path in ["root/a", "root/a/mnt", "bob/a", "bob/a/mnt"] {
        fs::create_dir(house.bench.path(path)).unwrap();
    }
    house.give("bob/a");
    let [own, theirs] = ["root/a/mnt", "bob/a/mnt"].map(|path| File::open(house.bench.path(path)).unwrap());
    let _points = Points(["root/a/mnt", "bob/a/mnt", "stash/a/mnt"].map(|path| house.bench.path(path)).to_vec());
    mount_on(&own);
    mount_on(&theirs);
    let mut unmounted = 0;
    house.race("bob", "mount", &json!({ "path": "@/bob/a/mnt", "state": "unmounted" }), || {
        assert!(is_mounted(&house, "root/a/mnt"), "the file system of root was unmounted");
        if !is_mounted(&house, "bob/a/mnt") && !is_mounted(&house, "stash/a/mnt") {
            unmounted += 1;
            mount_on(&theirs);
        }
    });
    assert!(unmounted > 0, "no round succeeded");
}

#[test]
fn file_system_is_mounted_again_at_the_open_directory() {
    let Some(house) = windlass_testing::has("root").then(House::new).flatten() else { return };
    let words = "echo \"$*\" > $ROOT/words; pwd -P > $ROOT/folder\n";
    let house = House { bench: house.bench.program("mount", words), ..house };
    fs::create_dir(house.bench.path("bob/own")).unwrap();
    let point = house.bench.path("bob/own");
    let _points = Points(vec![point.clone()]);
    mount_on(&File::open(&point).unwrap());
    let args = json!({ "path": "@/bob/own", "state": "remounted", "fstab": "@/fstab" });
    house.bench.write("fstab", "");
    let result = house.bench.run("mount", args.clone(), false);
    assert!(result["msg"].as_str().unwrap().contains("`src` and `fstype` are required"), "{result}");
    assert!(!house.bench.path("words").exists());
    house.bench.write("fstab", &format!("tmpfs {} tmpfs ro,noatime 0 0\n", point.display()));
    let result = house.bench.run("mount", args, false);
    assert_eq!(result["changed"], true, "{result}");
    assert_eq!(house.bench.read("words").trim(), "--no-canonicalize -t tmpfs -o remount,ro,noatime tmpfs .");
    assert_eq!(house.bench.read("folder").trim(), point.to_str().unwrap());
}
