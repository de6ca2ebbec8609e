//! Scripts of the role backup: `unpack.sh` with archives that were changed, or made to reach outside of their folder,
//! and `s3.sh` with servers that lie.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
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

/// Lists a bucket whose server answers with these pages, one after the other, and then the last one again and again.
fn list(pages: &'static [&'static str]) -> (bool, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut pages = pages.iter().peekable();
        let mut page = pages.next().unwrap();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            for line in BufReader::new(&stream).lines() {
                if line.unwrap().is_empty() {
                    break;
                }
            }
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{page}", page.len());
            page = pages.next().unwrap_or(page);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/backup/files");
    let script = format!(
        "export LC_ALL=C BACKUP_S3_ACCESS_KEY=a BACKUP_S3_SECRET_KEY=b BACKUP_S3_REGION=r BACKUP_NAME=x
         BACKUP_S3_URL=http://{address}/bucket/f; . {}/s3.sh; s3_list .; cat archives",
        scripts.display()
    );
    let output = shell(folder.path(), &script);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

#[test]
fn archives_of_a_bucket_are_listed_page_by_page_with_the_newest_first() {
    let (good, text) = list(&[
        "<IsTruncated>true</IsTruncated><Key>f/x-20250101T000000Z.tar.gz</Key><Key>f/x-20250101T000000Z.tar.gz.sha256</Key>",
        "<IsTruncated>false</IsTruncated><Key>f/x-20250102T000000Z.tar.gz.age</Key><Key>f/x-old/x-20240102T000000Z.tar.gz</Key>",
    ]);
    assert!(good, "{text}");
    assert_eq!(text, "20250102T000000Z x-20250102T000000Z.tar.gz.age\n20250101T000000Z x-20250101T000000Z.tar.gz\n");
}

/// If repeated names counted, these three archives would exceed a retention of ten and be removed.
#[test]
fn names_that_a_bucket_lists_again_and_again_count_for_no_retention() {
    let (good, text) = list(&["<IsTruncated>true</IsTruncated><Key>f/x-20250101T000000Z.tar.gz</Key>\
        <Key>f/x-20250102T000000Z.tar.gz</Key><Key>f/x-20250103T000000Z.tar.gz</Key>"]);
    assert!(!good, "{text}");
    assert!(text.contains("lists archives twice"), "{text}");
}
