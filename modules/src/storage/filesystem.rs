//! `filesystem`: file systems on devices and images.

use std::{
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::way,
    process::{self, Command},
};

/// The `filesystem` module.
pub struct Filesystem;

static SPEC: Spec = Spec {
    name: "filesystem",
    collection: "community.general",
    summary: "Create file systems",
    description: &[
        "Creates a file system unless one of that type exists. Refuses to overwrite another type unless `force` is \
         set. `resizefs` grows the file system to the size of its device.",
    ],
    options: &[
        Opt::new("state", Kind::Str, "`present` creates the file system, `absent` wipes its signature.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("fstype", Kind::Str, "Type of the file system.").aliases(&["type"]).choices(&[
            "bcachefs", "btrfs", "ext2", "ext3", "ext4", "ext4dev", "f2fs", "gfs2", "lvm", "ocfs2", "reiserfs", "swap",
            "ufs", "vfat", "xfs",
        ]),
        Opt::required("dev", Kind::Path, "Path of the device or image file.").word().aliases(&["device"]),
        Opt::new("force", Kind::Bool, "Create the file system even if one exists.").default("false"),
        Opt::new("resizefs", Kind::Bool, "Grow the file system to the size of the device.").default("false"),
        Opt::new("opts", Kind::Str, "Options of the mkfs program."),
        Opt::new("uuid", Kind::Str, "UUID of the file system; setting it always counts as a change."),
        Opt::new("label", Kind::Str, "Label of the file system; gfs2 only."),
    ],
    required_if: &[("state", "present", &["fstype"])],
    mutually_exclusive: &[&["resizefs", "uuid"]],
    examples: "- name: A file system for the database\n  community.general.filesystem:\n    fstype: ext4\n    dev: /dev/sdb1\n\n\
               - name: Use what the disk has gained\n  community.general.filesystem:\n    fstype: xfs\n    dev: /dev/vg/data\n    resizefs: true\n",
    returns: &[Return {
        name: "msg",
        kind: "str",
        when: "the device does not exist, or a filesystem is resized or gets another UUID",
        doc: "Summary of the change, or output of the program that made it.",
    }],
    ..Spec::EMPTY
}
.compiled();

/// Commands that create, grow and label a type of file system.
struct Type {
    name: &'static str,
    /// Name of the type in `blkid`.
    signature: &'static str,
    make: &'static str,
    force: &'static [&'static str],
    /// Options of `make` that set the UUID.
    uuid: &'static [&'static str],
    uuid_with: &'static [&'static str],
    label: Option<&'static str>,
    /// Program and option that change the UUID, and whether the option takes a value.
    change_uuid: Option<(&'static str, &'static str, bool)>,
    grow: &'static [&'static str],
    /// Grows through the mount point instead of the device.
    grow_mounted: bool,
    /// Bytes that may stay unused at the end of a device: the file system cannot grow by less, or it is not worth it.
    slack: u64,
}

const PLAIN: Type = Type {
    name: "",
    signature: "",
    make: "",
    force: &[],
    uuid: &[],
    uuid_with: &[],
    label: None,
    change_uuid: None,
    grow: &[],
    grow_mounted: false,
    slack: 0,
};

const EXT: Type =
    Type { force: &["-F"], uuid: &["-U"], change_uuid: Some(("tune2fs", "-U", true)), grow: &["resize2fs"], ..PLAIN };

const TYPES: &[Type] = &[
    Type { name: "ext2", signature: "ext2", make: "mkfs.ext2", ..EXT },
    Type { name: "ext3", signature: "ext3", make: "mkfs.ext3", ..EXT },
    Type { name: "ext4", signature: "ext4", make: "mkfs.ext4", ..EXT },
    Type { name: "ext4dev", signature: "ext4", make: "mkfs.ext4", ..EXT },
    Type {
        name: "xfs",
        signature: "xfs",
        make: "mkfs.xfs",
        force: &["-f"],
        change_uuid: Some(("xfs_admin", "-U", true)),
        grow: &["xfs_growfs"],
        grow_mounted: true,
        // A new allocation group needs 64 blocks.
        slack: 64 * 4096 - 1,
        ..PLAIN
    },
    Type {
        name: "btrfs",
        signature: "btrfs",
        make: "mkfs.btrfs",
        force: &["-f"],
        grow: &["btrfs", "filesystem", "resize", "max"],
        grow_mounted: true,
        ..PLAIN
    },
    Type {
        name: "bcachefs",
        signature: "bcachefs",
        make: "mkfs.bcachefs",
        force: &["--force"],
        uuid: &["-U", "--uuid"],
        grow: &["bcachefs", "device", "resize"],
        ..PLAIN
    },
    Type { name: "f2fs", signature: "f2fs", make: "mkfs.f2fs", force: &["-f"], grow: &["resize.f2fs"], ..PLAIN },
    Type {
        name: "gfs2",
        signature: "gfs2",
        make: "mkfs.gfs2",
        force: &["-O"],
        uuid: &["-U"],
        label: Some("-t"),
        ..PLAIN
    },
    Type {
        name: "lvm",
        signature: "LVM2_member",
        make: "pvcreate",
        force: &["-f"],
        uuid: &["-u", "--uuid"],
        uuid_with: &["--norestorefile"],
        change_uuid: Some(("pvchange", "-u", false)),
        grow: &["pvresize"],
        ..PLAIN
    },
    Type { name: "ocfs2", signature: "ocfs2", make: "mkfs.ocfs2", force: &["-Fx"], ..PLAIN },
    Type { name: "reiserfs", signature: "reiserfs", make: "mkfs.reiserfs", force: &["-q"], ..PLAIN },
    Type { name: "swap", signature: "swap", make: "mkswap", force: &["-f"], ..PLAIN },
    Type { name: "ufs", signature: "ufs", make: "newfs", grow: &["growfs", "-y"], ..PLAIN },
    Type { name: "vfat", signature: "vfat", make: "mkfs.vfat", grow: &["fatresize", "-s", "max"], ..PLAIN },
];

impl Module for Filesystem {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let device = PathBuf::from(args.required("dev")?);
        let present = args.str("state") != Some("absent");
        if !device.exists() {
            let text = format!("Device {} not found.", device.display());
            return if present { Err(Failure::new(text)) } else { Ok(Plan::unchanged().with("msg", text)) };
        }
        // A link of another user must not lead to a device or to a file of root. Names below /dev stay, because
        // programs show them.
        let checked = way::checked(&device)?;
        let device = if device.starts_with("/dev") { device } else { checked };
        let (found, probed) = signature(&device, host)?;
        if !present {
            if found.is_empty() {
                return Ok(Plan::unchanged());
            }
            return Ok(Plan::change(move |host, _| {
                Command::new("wipefs").arg("--all").arg(device.as_os_str()).check_run(host).map(drop)
            }));
        }
        let name = args.required("fstype")?;
        let kind = TYPES
            .iter()
            .find(|kind| kind.name == name)
            .ok_or_else(|| Failure::new(format!("module does not support this filesystem ({name}) yet.")))?;
        let uuid = args.filled("uuid").map(str::to_owned);
        if uuid.is_some() && kind.change_uuid.is_none() && kind.uuid.is_empty() {
            return Err(Failure::new(format!("module does not support UUID option for this filesystem ({name}) yet.")));
        }
        let force = args.bool("force");
        if found == kind.signature {
            if args.bool("resizefs") {
                return grow(kind, device, host);
            }
            if let (Some(uuid), Some(_)) = (&uuid, kind.change_uuid) {
                let text = format!("Changing {name} filesystem UUID on device {}", device.display());
                let uuid = uuid.clone();
                let plan = Plan::change(move |host, outcome| {
                    outcome.set("msg", change_uuid(kind, &uuid, &device, host)?);
                    Ok(())
                });
                return Ok(plan.with("msg", text));
            }
            if !force && uuid.is_none() {
                return Ok(Plan::unchanged());
            }
        } else if !found.is_empty() && !force {
            let text = format!("'{}' is already used as {found}, use force=true to overwrite", device.display());
            return Err(Failure::new(text).with("rc", probed.0).with("err", probed.1));
        }
        if process::find(host, kind.make).is_none() {
            return Err(Failure::new(format!("Failed to find required executable \"{}\" in paths.", kind.make)));
        }
        let mut options: Vec<String> =
            args.str("opts").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let says = |options: &[String], names: &[&str]| options.iter().any(|option| names.contains(&option.as_str()));
        if let (Some(uuid), Some(option)) = (&uuid, kind.uuid.first())
            && !says(&options, kind.uuid)
        {
            options
                .extend([*option, uuid.as_str()].into_iter().chain(kind.uuid_with.iter().copied()).map(str::to_owned));
        }
        if let (Some(label), Some(option)) = (args.str("label"), kind.label)
            && !says(&options, &[option])
        {
            options.extend([option.to_owned(), label.to_owned()]);
        }
        Ok(Plan::change(move |host, _| {
            let command = Command::new(kind.make).args(kind.force.iter().copied());
            command.args(options).arg(device.as_os_str()).check_run(host)?;
            match uuid {
                Some(uuid) if kind.uuid.is_empty() => change_uuid(kind, &uuid, &device, host).map(drop),
                _ => Ok(()),
            }
        }))
    }
}

/// The type of a device's file system, and the status and output of the query.
fn signature(device: &Path, host: &Host) -> Result<(String, (i32, String)), Failure> {
    let output = Command::new("blkid")
        .args(["-c", "/dev/null", "-o", "value", "-s", "TYPE"])
        .arg(device.as_os_str())
        .run(host)?;
    if output.rc != 0 && output.rc != 2 {
        let said = output.stderr_text();
        host.warn(format!("blkid failed probing {} (rc={}): {}", device.display(), output.rc, said.trim()));
    }
    let text = output.stdout_text();
    let mut found = text.trim();
    // BusyBox' blkid prints all properties, regardless of its options.
    if found.contains(' ') {
        let rest = found.split_once("TYPE=").map(|(_, rest)| rest.trim_start_matches('"')).unwrap_or_default();
        found = rest.split(['"', ' ']).next().unwrap_or_default();
    }
    Ok((found.to_owned(), (output.rc, output.stderr_text())))
}

fn change_uuid(kind: &Type, uuid: &str, device: &Path, host: &Host) -> Result<String, Failure> {
    let Some((program, option, takes)) = kind.change_uuid else { return Ok(String::new()) };
    let command = Command::new(program).arg(option);
    let command = if takes { command.arg(uuid) } else { command };
    Ok(command.arg(device.as_os_str()).check_run(host)?.stdout_text())
}

fn grow(kind: &'static Type, device: PathBuf, host: &Host) -> Result<Plan, Failure> {
    let shown = device.display().to_string();
    if kind.grow.is_empty() {
        return Err(Failure::new(format!("module does not support resizing {} filesystem yet.", kind.name)));
    }
    let has = size_of_system(kind, &device, host)?;
    if has + kind.slack >= size_of_device(&device, host)? {
        let text = format!("{} filesystem is using the whole device {shown}", python_name(kind));
        return Ok(Plan::unchanged().with("msg", text));
    }
    let text = format!("resizing filesystem {} on device {shown}", python_name(kind));
    let plan = Plan::change(move |host, outcome| {
        let target = match kind.grow_mounted {
            true => must_be_mounted(kind, &device, host)?,
            false => device.display().to_string(),
        };
        let (program, options) = kind.grow.split_first().ok_or_else(|| Failure::new("It cannot grow."))?;
        let output = Command::new(*program).args(options.iter().copied()).arg(target).check_run(host)?;
        outcome.set("msg", output.stdout_text());
        Ok(())
    });
    Ok(plan.with("msg", text))
}

/// The type in the spelling of Ansible's messages.
fn python_name(kind: &Type) -> &'static str {
    match kind.name {
        "ext2" => "Ext2",
        "ext3" => "Ext3",
        "ext4" | "ext4dev" => "Ext4",
        "xfs" => "XFS",
        "btrfs" => "Btrfs",
        "bcachefs" => "Bcachefs",
        "f2fs" => "F2fs",
        "lvm" => "LVM",
        "vfat" => "VFAT",
        "ufs" => "UFS",
        other => other,
    }
}

fn mount_point(device: &Path, host: &Host) -> Result<Option<String>, Failure> {
    let command = Command::new("findmnt").args(["--mtab", "--noheadings", "--output", "TARGET", "--source"]);
    let output = command.arg(device.as_os_str()).run(host)?;
    let text = output.stdout_text();
    Ok(text.lines().next().filter(|_| output.success()).map(|line| line.trim().to_owned()))
}

fn must_be_mounted(kind: &Type, device: &Path, host: &Host) -> Result<String, Failure> {
    mount_point(device, host)?.ok_or_else(|| {
        let (device, name) = (device.display(), python_name(kind));
        Failure::new(format!("{device} needs to be mounted for {name} operations"))
    })
}

fn size_of_device(device: &Path, host: &Host) -> Result<u64, Failure> {
    let unknown = || Failure::new(format!("Target device not supported: {}", device.display()));
    let found = device.metadata().map_err(|_| unknown())?;
    if found.file_type().is_block_device() {
        let output = Command::new("blockdev").arg("--getsize64").arg(device.as_os_str()).check_run(host)?;
        return output.stdout_text().trim().parse().map_err(|_| unknown());
    }
    if found.is_file() { Ok(found.len()) } else { Err(unknown()) }
}

/// The size of a file system in bytes.
fn size_of_system(kind: &Type, device: &Path, host: &Host) -> Result<u64, Failure> {
    let ask = |words: &[&str], target: &str| {
        let (program, options) = words.split_first().map_or(("", words), |(program, rest)| (*program, rest));
        let command = Command::new(program).plain_locale().args(options.iter().copied()).arg(target);
        Ok::<_, Failure>(command.check_run(host)?.stdout_text())
    };
    let path = device.display().to_string();
    let (program, size) = match kind.name {
        "ext2" | "ext3" | "ext4" | "ext4dev" => {
            let text = ask(&["tune2fs", "-l"], &path)?;
            ("tune2fs", product(number_after(&text, "Block count:"), number_after(&text, "Block size:")))
        }
        "xfs" => {
            let target = mount_point(device, host)?.unwrap_or_else(|| path.clone());
            let text = ask(&["xfs_info"], &target)?;
            let data = text.lines().find(|line| line.starts_with("data")).unwrap_or_default();
            ("xfs_info", product(number_after(data, "bsize="), number_after(data, "blocks=")))
        }
        "btrfs" => {
            let target = must_be_mounted(kind, device, host)?;
            let text = ask(&["btrfs", "filesystem", "usage", "-b"], &target)?;
            ("btrfs", number_after(&text, "Device size:"))
        }
        "bcachefs" => ("bcachefs", size_with_unit(&ask(&["bcachefs", "show-super"], &path)?)),
        "f2fs" => {
            let text = ask(&["dump.f2fs"], &path)?;
            let sectors = number_after(&text, "Info: total FS sectors =");
            ("dump.f2fs", product(number_after(&text, "Info: sector size ="), sectors))
        }
        "lvm" => {
            let words = ["pvs", "--noheadings", "--nosuffix", "--units", "b", "-o", "pv_size"];
            ("pvs", ask(&words, &path)?.trim().parse().ok())
        }
        "vfat" => {
            let text = ask(&["fatresize", "--info"], &path)?;
            ("fatresize", number_after(&text, "Cur size:").or_else(|| number_after(&text, "Size:")))
        }
        _ => {
            let text = ask(&["dumpfs"], &path)?;
            let size = text.lines().find(|line| line.starts_with("fsize")).and_then(|line| number_after(line, "fsize"));
            ("dumpfs", product(size, number_after(&text, "providersize")))
        }
    };
    size.ok_or_else(|| Failure::new(format!("unable to process {program} output for {path}")))
}

fn product(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one?.checked_mul(other?)
}

/// The number after the first occurrence of a label.
fn number_after(text: &str, label: &str) -> Option<u64> {
    let (_, rest) = text.split_once(label)?;
    let rest = rest.trim_start();
    rest.get(..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()))?.parse().ok()
}

/// Parses `Size: 1.5 GiB`, as bcachefs prints it.
fn size_with_unit(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Size:"))?.trim();
    let end = line.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(line.len());
    let (number, unit) = line.split_at(end);
    let base: f64 = if unit.trim().ends_with("iB") || unit.trim().len() == 1 { 1024.0 } else { 1000.0 };
    let power = match unit.trim().chars().next()?.to_ascii_uppercase() {
        'B' => 0,
        'K' => 1,
        'M' => 2,
        'G' => 3,
        'T' => 4,
        'P' => 5,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * base.powi(power)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_sizes_parsed() {
        assert_eq!(number_after("Inode count: 7\nBlock count:              25600\n", "Block count:"), Some(25600));
        let line = "data     =                       bsize=4096   blocks=16384, imaxpct=25";
        assert_eq!(product(number_after(line, "bsize="), number_after(line, "blocks=")), Some(67_108_864));
        assert_eq!(size_with_unit("Device: x\n Size:  1.5 GiB\n"), Some(1_610_612_736));
        assert_eq!(size_with_unit("nothing"), None);
    }
}
