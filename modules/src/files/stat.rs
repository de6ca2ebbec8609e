//! `stat`: reads the metadata of a file.

use std::{
    fs::Metadata,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use rustix::fs::{Access, access};
use serde_json::{Value, json};

use super::{
    checksum::{self, ALGORITHMS, Hasher},
    flags::{FLAGS, flags_of, letters},
    mime::mime,
};
use crate::{Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec, accounts, process};

/// The `stat` module.
pub struct Stat;

static SPEC: Spec = Spec {
    name: "stat",
    summary: "Read the metadata of a file",
    description: &["Returns type, owner, permissions, times and checksum of a file. A missing file is not a failure: \
         `stat.exists` is false."],
    options: &[
        Opt::required("path", Kind::Path, "Path of the file.").aliases(&["dest", "name"]),
        Opt::new("follow", Kind::Bool, "Follow a symbolic link.").default("false"),
        Opt::new("get_checksum", Kind::Bool, "Compute the checksum of a regular file.").default("true"),
        Opt::new("checksum_algorithm", Kind::Str, "Algorithm of the checksum.")
            .aliases(&["checksum", "checksum_algo"])
            .default("\"sha1\"")
            .choices(ALGORITHMS),
        Opt::new("get_mime", Kind::Bool, "Detect type and encoding with the host's `file` program.")
            .aliases(&["mime", "mime_type", "mime-type"])
            .default("true"),
        Opt::new("get_attributes", Kind::Bool, "Read the attributes that `chattr` sets.")
            .aliases(&["attr", "attributes"])
            .default("true"),
        Opt::new("get_selinux_context", Kind::Bool, "Read the SELinux context.").default("false"),
    ],
    examples: "- name: Is it set up already?\n  ansible.builtin.stat:\n    path: /etc/app.conf\n  register: config\n\n\
               - name: Set it up\n  ansible.builtin.command: app-setup\n  when: not config.stat.exists\n",
    returns: &[Return {
        name: "stat",
        kind: "dict",
        when: "always",
        doc: "Metadata of the file; only `exists` if it does not exist.",
    }],
    ..Spec::EMPTY
}
.compiled();

impl Module for Stat {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let text = args.required("path")?;
        let path = Path::new(text);
        let found = if args.bool("follow") { path.metadata() } else { path.symlink_metadata() };
        let found = match found {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Plan::unchanged().with("stat", json!({ "exists": false })));
            }
            Err(error) => {
                return Err(Failure::new(format!("{text} cannot be examined: {}.", process::reason(&error))));
            }
        };
        let mut stat = basics(text, &found);
        for (key, wanted) in
            [("readable", Access::READ_OK), ("writeable", Access::WRITE_OK), ("executable", Access::EXEC_OK)]
        {
            stat.insert(key.into(), access(path, wanted).is_ok().into());
        }
        if found.is_symlink() {
            let target = std::fs::read_link(path).unwrap_or_default();
            let source = path.canonicalize().unwrap_or_else(|_| super::staged::directory_of(path).join(&target));
            stat.insert("lnk_source".into(), source.display().to_string().into());
            stat.insert("lnk_target".into(), target.display().to_string().into());
        }
        if let Some(user) = accounts::user_by_id(found.uid()) {
            stat.insert("pw_name".into(), user.name.into());
        }
        if let Some(group) = accounts::group_by_id(found.gid()) {
            stat.insert("gr_name".into(), group.name.into());
        }
        if found.is_file() && access(path, Access::READ_OK).is_ok() && args.bool("get_checksum") {
            let hasher = Hasher::named(args.str("checksum_algorithm").unwrap_or("sha1")).unwrap_or_else(Hasher::sha1);
            stat.insert("checksum".into(), checksum::of_file(hasher, path, host)?.into());
        }
        if args.bool("get_mime") {
            let (kind, charset) = mime(path, host);
            stat.insert("mimetype".into(), kind.into());
            stat.insert("charset".into(), charset.into());
        }
        if args.bool("get_attributes") {
            let flags = flags_of(path).unwrap_or(rustix::fs::IFlags::empty());
            let names: Vec<&str> =
                FLAGS.iter().filter(|(_, flag, _)| flags.contains(*flag)).map(|(.., name)| *name).collect();
            stat.insert("attr_flags".into(), letters(flags).into());
            stat.insert("attributes".into(), names.into());
            stat.insert("version".into(), Value::Null);
        }
        if args.bool("get_selinux_context") {
            let context = super::context::context(path);
            let parts: Vec<String> = context.unwrap_or_default().splitn(4, ':').map(str::to_owned).collect();
            stat.insert("selinux_context".into(), parts.into());
        }
        Ok(Plan::unchanged().with("stat", Value::Object(stat)))
    }
}

pub(super) fn basics(path: &str, found: &Metadata) -> Map {
    let kind = found.file_type();
    let mode = found.mode();
    let mut stat = Map::new();
    let mut put = |key: &str, value: Value| stat.insert(key.to_owned(), value);
    put("exists", true.into());
    put("path", path.into());
    put("mode", format!("{:04o}", mode & 0o7777).into());
    for (key, is) in [
        ("isdir", kind.is_dir()),
        ("ischr", kind.is_char_device()),
        ("isblk", kind.is_block_device()),
        ("isreg", kind.is_file()),
        ("isfifo", kind.is_fifo()),
        ("islnk", kind.is_symlink()),
        ("issock", kind.is_socket()),
    ] {
        put(key, is.into());
    }
    for (key, number) in [
        ("uid", u64::from(found.uid())),
        ("gid", u64::from(found.gid())),
        ("size", found.size()),
        ("inode", found.ino()),
        ("dev", found.dev()),
        ("nlink", found.nlink()),
        ("blocks", found.blocks()),
        ("block_size", found.blksize()),
        ("device_type", found.rdev()),
    ] {
        put(key, number.into());
    }
    for (key, seconds, nanos) in [
        ("atime", found.atime(), found.atime_nsec()),
        ("mtime", found.mtime(), found.mtime_nsec()),
        ("ctime", found.ctime(), found.ctime_nsec()),
    ] {
        put(key, (seconds as f64 + nanos as f64 / 1e9).into());
    }
    for (key, bit) in [
        ("rusr", 0o400),
        ("wusr", 0o200),
        ("xusr", 0o100),
        ("rgrp", 0o040),
        ("wgrp", 0o020),
        ("xgrp", 0o010),
        ("roth", 0o004),
        ("woth", 0o002),
        ("xoth", 0o001),
        ("isuid", 0o4000),
        ("isgid", 0o2000),
    ] {
        put(key, (mode & bit != 0).into());
    }
    stat
}
