//! `unpack.sh` of the role backup with archives that were changed, or made to reach outside of their folder.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a shell script in a folder.
fn shell(folder: &Path, script: &str) -> Output {
    Command::new("sh").args(["-euc", script]).current_dir(folder).output().unwrap()
}

/// Makes an archive by a script that fills the folder `stage`, and unpacks it.
fn unpack(folder: &Path, fill: &str) -> (bool, String) {
    let script = format!(
        "mkdir stage; cd stage; echo '{{}}' >manifest.json; echo key >key
         find . -type f ! -name SHA256SUMS | sort | xargs sha256sum >SHA256SUMS
         {fill}
         [ -e ../archive.tar.gz ] || tar -czf ../archive.tar.gz ."
    );
    let made = shell(folder, &script);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/backup/files/unpack.sh");
    let output = Command::new("sh").arg(program).arg(folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

#[test]
fn whole_archive_is_unpacked_and_prints_its_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let (good, text) = unpack(folder.path(), "true");
    assert!(good, "{text}");
    assert_eq!(text, "{}\n");
    assert_eq!(fs::read_to_string(folder.path().join("content/key")).unwrap(), "key\n");
}

#[test]
fn changed_archives_are_refused() {
    for (fill, reason) in [
        ("echo other >key", "a checksum differs"),
        ("echo more >more", "has other files than its list"),
        ("rm key", "a checksum differs"),
        ("rm SHA256SUMS", "has no manifest"),
        ("ln -s /etc link", "has links or devices"),
        ("ln key hard", "has links or devices"),
        ("mkfifo pipe", "has links or devices"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (good, text) = unpack(folder.path(), fill);
        assert!(!good && text.contains(reason), "{fill}: {text}");
    }
}

#[test]
fn names_outside_of_the_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    let fill = format!(
        "echo evil >../evil
         tar -czf ../archive.tar.gz --absolute-names --transform 's|^evil$|../outside|' . -C .. evil; rm -f {}",
        outside.display()
    );
    let (good, text) = unpack(folder.path(), &fill);
    assert!(!good && text.contains("cannot be unpacked"), "{text}");
    assert!(!outside.exists());
}

#[test]
fn part_of_another_host_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let fill = "mkdir part part/pki part/etcd-pki; echo ca >part/pki/ca.crt
        echo evil >part/etcd-pki/ca.pem; echo evil >part/manifest.json
        tar -C part -czf control-plane.tar.gz .; rm -r part
        find . -type f ! -name SHA256SUMS | sort | xargs sha256sum >SHA256SUMS";
    let (good, text) = unpack(folder.path(), fill);
    assert!(good, "{text}");
    assert_eq!(text, "{}\n");
    assert!(folder.path().join("content/pki/ca.crt").exists());
    assert!(!folder.path().join("content/etcd-pki").exists());
}
