//! `unarchive` on real archives.
#![allow(clippy::unwrap_used)]

mod cases;
mod server;

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use cases::{apply, changed, converges, fails, predict, tree};
use serde_json::{Value, json};
use server::{Answer, Server};
use tar::{Builder, EntryType, Header};
use tempfile::{TempDir, tempdir};
use windlass_modules::{Content, Failure, Host, Sink, registry, run};

const TIME: u64 = 1_600_000_000;

/// Name of a member, and its type with content or target.
enum Part {
    File(&'static str, &'static str),
    Directory(&'static str),
    Link(&'static str, &'static str),
    HardLink(&'static str, &'static str),
    Device(&'static str),
}

fn header(kind: EntryType, mode: u32, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(TIME);
    header.set_size(size as u64);
    header.set_uid(rustix::process::getuid().as_raw().into());
    header.set_gid(rustix::process::getgid().as_raw().into());
    header
}

/// Builds a tar archive. Names are written unchanged, even invalid ones.
fn tarball(parts: &[Part]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for part in parts {
        let (name, mut header, content) = match part {
            Part::File(name, content) => (name, header(EntryType::Regular, 0o640, content.len()), *content),
            Part::Directory(name) => (name, header(EntryType::Directory, 0o755, 0), ""),
            Part::Link(name, target) => (name, linked(EntryType::Symlink, target), ""),
            Part::HardLink(name, target) => (name, linked(EntryType::Link, target), ""),
            Part::Device(name) => (name, header(EntryType::Char, 0o600, 0), ""),
        };
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn linked(kind: EntryType, target: &str) -> Header {
    let mut header = header(kind, 0o777, 0);
    header.set_link_name_literal(target).unwrap();
    header
}

fn usual() -> Vec<u8> {
    tarball(&[
        Part::Directory("./tool/"),
        Part::Directory("./tool/bin/"),
        Part::File("./tool/bin/run", "#!/bin/sh\n"),
        Part::File("./tool/README.md", "read me\n"),
        Part::Link("./tool/run", "bin/run"),
        Part::HardLink("./tool/again", "./tool/bin/run"),
    ])
}

struct Place {
    _root: TempDir,
    archive: PathBuf,
    dest: PathBuf,
}

fn place(bytes: &[u8]) -> Place {
    let root = tempdir().unwrap();
    let (archive, dest) = (root.path().join("archive"), root.path().join("dest"));
    fs::write(&archive, bytes).unwrap();
    fs::create_dir(&dest).unwrap();
    Place { archive, dest, _root: root }
}

impl Place {
    fn args(&self, more: Value) -> Value {
        let mut args = json!({ "src": self.archive, "dest": self.dest, "remote_src": true });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dest.join(path)).unwrap()
    }

    fn has(&self, path: &str) -> bool {
        self.dest.join(path).symlink_metadata().is_ok()
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn tar_with_every_member_type_unpacked() {
    let place = place(&usual());
    let result = converges("unarchive", place.args(json!({ "list_files": true })), &place.dest);
    assert_eq!(result["handler"], "TarArchive");
    assert_eq!(
        result["files"],
        json!(["tool/", "tool/bin/", "tool/bin/run", "tool/README.md", "tool/run", "tool/again"])
    );
    assert_eq!(place.read("tool/run"), "#!/bin/sh\n");
    let (file, again) =
        (place.dest.join("tool/bin/run").metadata().unwrap(), place.dest.join("tool/again").metadata().unwrap());
    assert_eq!((file.ino(), file.mtime()), (again.ino(), TIME as i64));
    assert_eq!(mode(&place.dest.join("tool/bin/run")), 0o640);
    assert_eq!(place.dest.join("tool").metadata().unwrap().mtime(), TIME as i64);
}

#[test]
fn differing_members_restored() {
    let place = place(&usual());
    apply("unarchive", place.args(json!({})));
    let clean = tree(&place.dest);
    let file = place.dest.join("tool/bin/run");
    let spoil: [&dyn Fn(); 7] = [
        &|| fs::remove_file(&file).unwrap(),
        &|| fs::write(&file, "other").unwrap(),
        &|| fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap(),
        &|| fs::remove_dir_all(place.dest.join("tool/bin")).unwrap(),
        &|| fs::remove_file(place.dest.join("tool/run")).unwrap(),
        &|| {
            // Same size and time, but other content.
            let modified = file.metadata().unwrap().modified().unwrap();
            fs::write(&file, "#!/bin/no\n").unwrap();
            fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        },
        &|| fs::set_permissions(place.dest.join("tool"), fs::Permissions::from_mode(0o700)).unwrap(),
    ];
    for (number, spoil) in spoil.iter().enumerate() {
        spoil();
        assert!(changed(&converges("unarchive", place.args(json!({})), &place.dest)), "number {number}");
        assert_eq!(tree(&place.dest), clean, "number {number}");
    }
}

#[test]
fn every_compression_unpacked() {
    let plain = usual();
    let pack = |packer: &mut dyn FnMut(&[u8]) -> Vec<u8>| packer(&plain);
    let gzip = pack(&mut |bytes| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    });
    let bzip2 = pack(&mut |bytes| {
        let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    });
    let zstd = pack(&mut |bytes| {
        // Two frames with a skippable frame between them.
        let (first, second) = bytes.split_at(700);
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let mut packed = ruzstd::encoding::compress_to_vec(first, level);
        packed.extend([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
        packed.extend(ruzstd::encoding::compress_to_vec(second, level));
        packed
    });
    for (bytes, handler) in [(gzip, "TgzArchive"), (bzip2, "TarBzipArchive"), (zstd, "TarZstdArchive")] {
        let place = place(&bytes);
        assert_eq!(converges("unarchive", place.args(json!({})), &place.dest)["handler"], handler);
        assert_eq!(place.read("tool/README.md"), "read me\n");
    }
    let place = place(&plain);
    let packed = std::process::Command::new("xz").arg("-k").arg(&place.archive).status();
    if packed.is_ok_and(|status| status.success()) {
        let args = place.args(json!({ "src": place.archive.with_extension("xz") }));
        assert_eq!(converges("unarchive", args, &place.dest)["handler"], "TarXzArchive");
        assert_eq!(place.read("tool/README.md"), "read me\n");
    }
}

#[test]
fn zip_unpacked() {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default()
        .unix_permissions(0o750)
        .last_modified_time(zip::DateTime::from_date_and_time(2020, 2, 3, 4, 5, 6).unwrap());
    writer.add_directory("tool/", options).unwrap();
    writer.start_file("tool/run", options).unwrap();
    writer.write_all(b"#!/bin/sh\n").unwrap();
    writer.add_symlink("tool/link", "run", options).unwrap();
    let place = place(&writer.finish().unwrap().into_inner());
    let result = converges("unarchive", place.args(json!({})), &place.dest);
    assert_eq!(result["handler"], "ZipArchive");
    assert_eq!((place.read("tool/link").as_str(), mode(&place.dest.join("tool/run"))), ("#!/bin/sh\n", 0o750));
    let flat =
        converges("unarchive", place.args(json!({ "extra_opts": ["-j"], "include": ["tool/run"] })), &place.dest);
    assert!(changed(&flat) && place.has("run") && !place.has("link"));
}

#[test]
fn selected_members_unpacked() {
    let place = place(&usual());
    converges(
        "unarchive",
        place.args(json!({ "extra_opts": ["--strip-components=2"], "exclude": ["*.md"] })),
        &place.dest,
    );
    assert!(place.has("bin/run") && place.has("again") && !place.has("README.md") && !place.has("tool"));
    let include = place.args(json!({ "include": ["./tool/README.md"] }));
    converges("unarchive", include, &place.dest);
    assert!(place.has("tool/README.md") && !place.has("tool/bin"));
    let message = fails("unarchive", place.args(json!({ "include": ["none"] })), &place.dest);
    assert!(message.contains("Not found in archive: none"), "{message}");
}

#[test]
fn task_permissions_applied() {
    let place = place(&usual());
    let result = converges("unarchive", place.args(json!({ "mode": "u=rwX,g=rX,o=" })), &place.dest);
    assert!(changed(&result));
    assert_eq!((mode(&place.dest.join("tool/bin")), mode(&place.dest.join("tool/bin/run"))), (0o750, 0o640));
    fs::set_permissions(place.dest.join("tool/README.md"), fs::Permissions::from_mode(0o444)).unwrap();
    assert!(changed(&converges("unarchive", place.args(json!({ "mode": "u=rwX,g=rX,o=" })), &place.dest)));
}

#[test]
fn newer_and_old_files_kept() {
    let place = place(&usual());
    apply("unarchive", place.args(json!({})));
    fs::write(place.dest.join("tool/README.md"), "mine").unwrap();
    assert!(!changed(&converges("unarchive", place.args(json!({ "keep_newer": true })), &place.dest)));
    assert!(!changed(&converges("unarchive", place.args(json!({ "extra_opts": ["--keep-old-files"] })), &place.dest)));
    assert_eq!(place.read("tool/README.md"), "mine");
    let skipped = apply("unarchive", place.args(json!({ "creates": place.dest.join("tool") })));
    assert_eq!((&skipped["skipped"], changed(&skipped)), (&json!(true), false));
}

#[test]
fn duplicate_member_last_wins() {
    let place = place(&tarball(&[Part::File("a", "old"), Part::File("a", "new")]));
    converges("unarchive", place.args(json!({})), &place.dest);
    assert_eq!(place.read("a"), "new");
}

#[test]
fn linked_directory_on_host_kept() {
    let place = place(&tarball(&[Part::Directory("lib/"), Part::File("lib/a", "x")]));
    let elsewhere = tempdir().unwrap();
    fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), place.dest.join("lib")).unwrap();
    apply("unarchive", place.args(json!({})));
    assert!(place.dest.join("lib").is_symlink());
    assert_eq!(fs::read_to_string(elsewhere.path().join("a")).unwrap(), "x");
    assert!(!changed(&apply("unarchive", place.args(json!({})))));
}

#[test]
fn archive_leaving_destination_refused() {
    for (parts, word) in [
        (vec![Part::File("../evil", "x")], "leave the destination"),
        (vec![Part::File("a/../../evil", "x")], "leave the destination"),
        (vec![Part::Link("a", "/etc")], "leads out"),
        (vec![Part::Link("a", "../x")], "leads out"),
        (vec![Part::HardLink("a", "../x")], "leave the destination"),
        (vec![Part::Device("null")], "device"),
    ] {
        let place = place(&tarball(&parts));
        let message = fails("unarchive", place.args(json!({})), place.dest.parent().unwrap());
        assert!(message.contains(word), "{message} has no {word}");
    }
    // Two harmless links that leave the destination in combination.
    let parts = [Part::Link("a/b/s", "../.."), Part::Link("t", "a/b/s/../x"), Part::File("t/evil", "x")];
    let place = place(&tarball(&parts));
    fs::create_dir(place.dest.parent().unwrap().join("x")).unwrap();
    let result = apply("unarchive", place.args(json!({})));
    assert_eq!(result["failed"], true, "{result}");
    assert!(!place.dest.parent().unwrap().join("x/evil").exists());
    // An absolute path is taken relative to the destination.
    let place = self::place(&tarball(&[Part::File("/a", "x")]));
    converges("unarchive", place.args(json!({})), &place.dest);
    assert_eq!(place.read("a"), "x");
}

#[test]
fn unarchive_invalid_inputs_refused() {
    let whole = usual();
    let cut = &whole[..1700];
    for (bytes, more, word) in [
        (&b"no archive"[..], json!({}), "Failed to find handler"),
        (&b""[..], json!({}), "0 bytes"),
        (&whole, json!({ "dest": "/no/such/directory" }), "is not a directory"),
        (&whole, json!({ "src": "/no/such/file" }), "does not exist"),
        (&whole, json!({ "src": "/no/such/file", "remote_src": false }), "failed to transfer"),
        (&whole, json!({ "extra_opts": ["--transform=s/a/b/"] }), "--transform"),
        (&whole, json!({ "include": ["a"], "exclude": ["b"] }), "mutually exclusive"),
        (&tarball(&[])[..], json!({}), "Failed to find handler"),
        (cut, json!({}), "cannot be read"),
    ] {
        let place = place(bytes);
        let message = fails("unarchive", place.args(more), &place.dest);
        assert!(message.contains(word), "{message} has no {word}");
    }
    let place = place(&whole);
    assert!(changed(&predict("unarchive", place.args(json!({ "dest": "/no/such/directory" })))));
}

#[test]
fn archive_from_url_unpacked() {
    let server = Server::start(|_| Answer::of(200, usual()));
    let place = place(b"");
    converges("unarchive", place.args(json!({ "src": server.url("/x.tar") })), &place.dest);
    assert!(place.has("tool/run"));
}

/// A controller that sends a single archive.
struct Sends(Vec<u8>);

impl Sink for Sends {
    fn event(&self, _event: windlass_protocol::Event, _blob: &[u8]) {}

    fn content(&self, _index: usize) -> Result<Box<dyn Read>, Failure> {
        Ok(Box::new(std::io::Cursor::new(self.0.clone())))
    }
}

#[test]
fn archive_from_controller_unpacked() {
    let place = place(b"");
    let content: Content = serde_json::from_value(
        json!({ "name": "x.tar", "size": usual().len(), "sha1": "", "mode": 420, "delivery": "on_demand" }),
    )
    .unwrap();
    let host = Host::new(Arc::new(Sends(usual()))).with_contents(vec![content]);
    let args = json!({ "src": "x.tar", "dest": place.dest, "_content": 0 });
    let result = run(registry::find("unarchive").unwrap(), &args, &host);
    assert!(changed(&result), "{result}");
    assert!(place.has("tool/run"));
}

#[test]
fn links_inside_unpacked_others_refused_by_name() {
    let place = place(b"x");
    let inside = place.dest.join("lib/tool");
    let dest = place.dest.file_name().unwrap().to_str().unwrap().to_owned();
    let absolute: &'static str = Box::leak(inside.display().to_string().into_boxed_str());
    let round: &'static str = Box::leak(format!("../../{dest}/lib/tool").into_boxed_str());
    let good = [
        Part::File("lib/tool", "x"),
        Part::Link("relative", "lib/tool"),
        Part::Link("absolute", absolute),
        Part::Link("lib/round", round),
        Part::Link("dangling", "lib/later"),
    ];
    fs::write(&place.archive, tarball(&good)).unwrap();
    converges("unarchive", place.args(json!({})), &place.dest);
    for link in ["relative", "absolute", "lib/round"] {
        assert_eq!(place.read(link), "x");
    }
    let place = self::place(&tarball(&[Part::File("a", "x"), Part::Link("b", "/etc/passwd"), Part::Link("here", ".")]));
    let message = fails("unarchive", place.args(json!({})), place.dest.parent().unwrap());
    assert!(message.contains("the link b to /etc/passwd") && message.contains("--absolute-names"), "{message}");
    // With the option, such links are unpacked, but nothing is written through them.
    converges("unarchive", place.args(json!({ "extra_opts": ["--absolute-names"] })), &place.dest);
    assert!(place.dest.join("b").is_symlink());
    let through = [Part::Link("out", "../x"), Part::File("out/evil", "x")];
    let place = self::place(&tarball(&through));
    fs::create_dir(place.dest.parent().unwrap().join("x")).unwrap();
    let result = apply("unarchive", place.args(json!({ "extra_opts": ["-P"] })));
    assert!(result["msg"].as_str().unwrap().contains("through a link of its own"), "{result}");
    assert!(!place.dest.parent().unwrap().join("x/evil").exists());
}
