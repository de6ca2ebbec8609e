//! `mount`: file systems, now and in fstab.

use std::path::{Path, PathBuf};

use super::config_file;
use crate::{
    Args, Diff, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    facts::{Root, unescape},
    files::way::{self, Link, Place, Purpose},
    process::{Command, reason},
};

/// The `mount` module.
pub struct Mount;

static SPEC: Spec = Spec {
    name: "mount",
    collection: "ansible.posix",
    summary: "Manage mounted file systems and fstab",
    description: &[
        "`mounted` mounts a file system and adds it to fstab, `present` only adds it to fstab, `ephemeral` only \
         mounts it. `unmounted` unmounts and keeps the fstab entry. `absent` unmounts, removes the entry and deletes \
         the mount point. `absent_from_fstab` removes only the entry. `remounted` mounts again.",
        "Replaces fstab atomically, so that a power failure cannot leave a partial file.",
    ],
    options: &[
        Opt::required("path", Kind::Path, "Mount point; `none` for swap space.").line().aliases(&["name"]),
        Opt::required("state", Kind::Str, "State of the mount and of its fstab entry.").choices(&[
            "absent",
            "absent_from_fstab",
            "mounted",
            "present",
            "unmounted",
            "remounted",
            "ephemeral",
        ]),
        Opt::new("src", Kind::Str, "Device, or other source, to mount.").line(),
        Opt::new("fstype", Kind::Str, "Type of the file system.").line(),
        Opt::new("opts", Kind::Str, "Mount options, separated by commas.").line(),
        Opt::new("opts_no_log", Kind::Bool, "Hide the options in output because they contain a secret.")
            .default("false"),
        Opt::new("dump", Kind::Str, "Value of the fifth field of fstab (dump).").default("\"0\""),
        Opt::new("passno", Kind::Str, "Value of the sixth field of fstab: order of file system checks.")
            .default("\"0\""),
        Opt::new("fstab", Kind::Str, "Path of the table.").default("\"/etc/fstab\""),
        Opt::new("boot", Kind::Bool, "Mount at boot; `false` adds `noauto`.").default("true"),
        Opt::new("backup", Kind::Bool, "Keep a copy of the old table.").default("false"),
    ],
    required_if: &[
        ("state", "mounted", &["src", "fstype"]),
        ("state", "present", &["src", "fstype"]),
        ("state", "ephemeral", &["src", "fstype"]),
    ],
    examples: "- name: Mount a disk for etcd\n  ansible.posix.mount:\n    path: /var/lib/etcd\n    src: LABEL=etcd\n    fstype: ext4\n    opts: noatime\n    state: mounted\n",
    returns: &[Return {
        name: "backup_file",
        kind: "str",
        when: "backup was set and fstab changed",
        doc: "Path of the copy of the old table.",
    }],
    ..Spec::EMPTY
}
.compiled();

/// A line of fstab.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    source: String,
    point: String,
    kind: String,
    options: String,
    dump: String,
    pass: String,
}

impl Entry {
    fn parse(line: &str) -> Option<Entry> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let fields: Vec<String> = line.split_whitespace().map(unescape).collect();
        let field = |at: usize, default: &str| fields.get(at).cloned().unwrap_or_else(|| default.to_owned());
        (fields.len() >= 3).then(|| Entry {
            source: field(0, ""),
            point: field(1, ""),
            kind: field(2, ""),
            options: field(3, "defaults"),
            dump: field(4, "0"),
            pass: field(5, "0"),
        })
    }

    /// The requested entry.
    fn of(args: &Args) -> Result<Entry, Failure> {
        let point = args.required("path")?;
        let point = if point.len() > 1 { point.trim_end_matches('/') } else { point }.to_owned();
        let mut options = args.filled("opts").unwrap_or("defaults").to_owned();
        if !args.bool("boot") && !options.split(',').any(|option| option == "noauto") {
            options.push_str(",noauto");
        }
        let text = |name: &str| args.str(name).unwrap_or_default().to_owned();
        Ok(Entry {
            source: text("src"),
            point,
            kind: text("fstype"),
            options,
            dump: text("dump"),
            pass: text("passno"),
        })
    }

    fn line(&self) -> String {
        let escape = |text: &str| text.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011");
        let fields = [&self.source, &self.point, &self.kind, &self.options].map(|field| escape(field));
        format!("{} {} {}", fields.join(" "), self.dump, self.pass)
    }

    /// Whether both entries are the same mount. Swap spaces all have the point `none`, so their sources distinguish
    /// them.
    fn is(&self, other: &Entry) -> bool {
        self.point == other.point && (self.point != "none" || self.source == other.source)
    }
}

fn with_entry(table: &str, entry: &Entry) -> String {
    let mut text = String::new();
    let mut written = false;
    for line in table.lines() {
        match Entry::parse(line) {
            Some(found) if found.is(entry) => {
                if !written {
                    text.push_str(&if found == *entry { line.to_owned() } else { entry.line() });
                    text.push('\n');
                }
                written = true;
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    if !written {
        text.push_str(&entry.line());
        text.push('\n');
    }
    if text.trim_end_matches('\n') == table.trim_end_matches('\n') { table.to_owned() } else { text }
}

fn without_entry(table: &str, entry: &Entry) -> String {
    let unwanted = |line: &str| {
        let any_source = entry.source.is_empty();
        Entry::parse(line).is_some_and(|found| {
            found.point == entry.point && (entry.point != "none" || any_source || found.source == entry.source)
        })
    };
    if table.lines().any(unwanted) {
        table.lines().filter(|line| !unwanted(line)).map(|line| format!("{line}\n")).collect()
    } else {
        table.to_owned()
    }
}

/// Source and type of the topmost mount at a point.
fn mounted_at(mountinfo: &str, point: &str) -> Option<(String, String)> {
    mountinfo.lines().rev().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let at = unescape(left.split(' ').nth(4)?);
        let mut words = right.split(' ');
        let (kind, source) = (words.next()?.to_owned(), unescape(words.next()?));
        (at == point).then_some((source, kind))
    })
}

impl Module for Mount {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<PathBuf> {
        args.str("fstab").map(Into::into)
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let state = args.required("state")?.to_owned();
        let fstab = args.required("fstab")?.to_owned();
        let entry = Entry::of(args)?;
        let before = config_file::read(&fstab)?;
        let after = match state.as_str() {
            "mounted" | "present" => with_entry(&before, &entry),
            "absent" | "absent_from_fstab" => without_entry(&before, &entry),
            _ => before.clone(),
        };
        let mountinfo = Root::host().read("/proc/self/mountinfo").unwrap_or_default();
        let mounted = mounted_at(&mountinfo, &entry.point);
        let in_table = before != after;
        let steps = steps(&state, mounted.as_ref(), in_table, &entry)?;
        let removes_point = state == "absent" && Path::new(&entry.point).exists() && entry.point != "none";
        let report = |plan| report(plan, &entry, &fstab, args.bool("boot"));
        if !in_table && steps.is_empty() && !removes_point {
            return Ok(report(Plan::unchanged()));
        }
        let diff = (host.diff() && in_table && !args.bool("opts_no_log"))
            .then(|| Diff::of(&fstab, before.clone(), after.clone()));
        let change = Change {
            state,
            entry: entry.clone(),
            fstab: fstab.clone(),
            table: in_table.then_some(Table { before, after, keep_old: args.bool("backup") }),
            steps,
            removes_point,
        };
        let plan = report(Plan::change(move |host, outcome| change.apply(host, outcome)));
        Ok(plan.with_diff(diff))
    }
}

/// Everything needed to change a mount to its requested state.
struct Change {
    state: String,
    entry: Entry,
    fstab: String,
    table: Option<Table>,
    steps: Vec<Step>,
    removes_point: bool,
}

/// A change of fstab.
struct Table {
    before: String,
    after: String,
    keep_old: bool,
}

impl Change {
    fn apply(&self, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        let entry = &self.entry;
        if self.steps.first() == Some(&Step::Unmount) && self.state != "mounted" {
            unmount(&entry.point, host)?;
        }
        let point = Path::new(&entry.point);
        let made = matches!(self.state.as_str(), "mounted" | "ephemeral") && !point.exists();
        if made {
            way::create_dir_all(point).map_err(|error| {
                Failure::new(format!("The mount point {} could not be made: {}.", entry.point, reason(&error)))
            })?;
        }
        if let Some(table) = &self.table {
            if table.keep_old
                && let Some(copy) = config_file::back_up(&self.fstab)?
            {
                outcome.set("backup_file", copy);
            }
            config_file::replace(&self.fstab, &table.after)?;
        }
        if let Err(failure) = self.take_steps(host) {
            // An entry that cannot be mounted could keep the host from booting.
            if let Some(table) = &self.table {
                let _ = config_file::replace(&self.fstab, &table.before);
            }
            if made {
                let _ = way::remove_dir(point);
            }
            return Err(failure);
        }
        if self.removes_point {
            way::remove_dir(point).map_err(|error| {
                Failure::new(format!("The mount point {} could not be removed: {}.", entry.point, reason(&error)))
            })?;
        }
        Ok(())
    }

    /// Mounts and unmounts, except where unmounting came before the table.
    fn take_steps(&self, host: &Host) -> Result<(), Failure> {
        let steps = self.steps.iter().filter(|step| **step != Step::Unmount || self.state == "mounted");
        steps.copied().try_for_each(|step| match step {
            Step::Unmount => unmount(&self.entry.point, host),
            Step::Mount => mount(&self.entry, &self.fstab, self.state == "ephemeral", host),
            Step::Remount => remount(&self.entry, &self.fstab, host),
        })
    }
}

/// The plan with the keys of Ansible's result. Source and type are included only if given.
fn report(plan: Plan, entry: &Entry, fstab: &str, boot: bool) -> Plan {
    let given = [("src", &entry.source), ("fstype", &entry.kind)].into_iter().filter(|(_, value)| !value.is_empty());
    given
        .fold(plan, |plan, (key, value)| plan.with(key, value.as_str()))
        .with("name", entry.point.as_str())
        .with("opts", entry.options.as_str())
        .with("dump", entry.dump.as_str())
        .with("passno", entry.pass.as_str())
        .with("fstab", fstab)
        .with("boot", if boot { "yes" } else { "no" })
        .with("backup_file", "")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Mount,
    Unmount,
    Remount,
}

fn steps(state: &str, mounted: Option<&(String, String)>, in_table: bool, entry: &Entry) -> Result<Vec<Step>, Failure> {
    Ok(match (state, mounted) {
        ("absent" | "unmounted", Some(_)) => vec![Step::Unmount],
        ("mounted", None) if entry.kind != "swap" => vec![Step::Mount],
        ("mounted", Some((source, _))) if !same_source(source, entry) => vec![Step::Unmount, Step::Mount],
        ("mounted", Some(_)) if in_table => vec![Step::Remount],
        ("ephemeral", None) => vec![Step::Mount],
        ("ephemeral", Some((source, _))) if !same_source(source, entry) => {
            return Err(Failure::new(format!(
                "{} is a mount point already, of {source}. Unmount it before {} is mounted there.",
                entry.point, entry.source
            )));
        }
        ("ephemeral" | "remounted", Some(_)) => vec![Step::Remount],
        ("remounted", None) => {
            return Err(Failure::new(format!("{} is not mounted, so it cannot be mounted again.", entry.point)));
        }
        _ => Vec::new(),
    })
}

/// Whether the mounted source is the requested one. Labels and UUIDs are resolved; only the kernel knows the source of
/// a bind mount.
fn same_source(mounted: &str, entry: &Entry) -> bool {
    let bind = entry.options.split(',').any(|option| option == "bind" || option == "rbind");
    let resolved = match entry.source.split_once('=') {
        Some((key @ ("UUID" | "LABEL" | "PARTUUID" | "PARTLABEL"), value)) => {
            format!("/dev/disk/by-{}/{}", key.to_lowercase(), value.trim_matches('"'))
        }
        _ => entry.source.clone(),
    };
    let real = |path: &str| {
        std::fs::canonicalize(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
    };
    bind || mounted == entry.source || real(mounted) == real(&resolved) || !mounted.contains('/')
}

fn mount(entry: &Entry, fstab: &str, only_now: bool, host: &Host) -> Result<(), Failure> {
    let what = format!("Error mounting {}", entry.point);
    if entry.kind != "swap" && !is_ours(&entry.point) {
        return mount_open(entry, &entry.options, &what, host);
    }
    let command = match only_now || fstab != "/etc/fstab" {
        true => Command::new("mount").args(["-t", &entry.kind, "-o", &entry.options, &entry.source]).arg(&entry.point),
        false => Command::new("mount").arg(&entry.point),
    };
    run(command, &what, host)
}

/// Whether nobody else can replace a directory in the path of the mount point.
fn is_ours(point: &str) -> bool {
    Place::of(Path::new(point), Link::Follow, Purpose::Run).is_ok()
}

/// Mounts safely although another user could replace a directory of the path: the mount point is the working directory
/// of `mount`, so it resolves no path.
fn mount_open(entry: &Entry, options: &str, what: &str, host: &Host) -> Result<(), Failure> {
    let place = place(&entry.point)?;
    let node = place.existing().map_err(|error| Failure::new(format!("{what}: {}.", reason(&error))))?;
    let command = Command::new("mount").args(["--no-canonicalize", "-t", &entry.kind, "-o", options, &entry.source]);
    run(command.arg(".").directory(way::handle(node)), what, host)
}

/// The mount point, on a path that no other user can redirect.
fn place(point: &str) -> Result<Place, Failure> {
    Place::to_write(Path::new(point), Link::Follow)
        .map_err(|error| Failure::new(format!("The mount point {point} cannot be used: {}.", reason(&error))))
}

fn remount(entry: &Entry, fstab: &str, host: &Host) -> Result<(), Failure> {
    let is_ours = is_ours(&entry.point);
    let mut wanted = entry.clone();
    // `mount` does not find the working directory in fstab, so it gets everything that fstab has. And a file system
    // without a source could not be mounted again.
    if !is_ours || entry.source.is_empty() {
        for line in config_file::read(fstab)?.lines() {
            if let Some(found) = Entry::parse(line)
                && found.is(entry)
            {
                wanted = found;
            }
        }
    }
    let has_source = !wanted.source.is_empty();
    let first = if is_ours {
        let options = if fstab == "/etc/fstab" { "remount".to_owned() } else { format!("remount,{}", entry.options) };
        run(Command::new("mount").args(["-o", &options, &entry.point]), "", host)
    } else if has_source {
        mount_open(&wanted, &format!("remount,{}", wanted.options), "", host)
    } else {
        Err(Failure::new(""))
    };
    let Err(failure) = first else { return Ok(()) };
    if !has_source {
        return Err(Failure::new(format!(
            "{} cannot be mounted again{}. It is not in {fstab}, so `src` and `fstype` are required.",
            entry.point,
            failure.message.trim_end_matches('.')
        )));
    }
    // Some options take effect only on a fresh mount.
    unmount(&entry.point, host)?;
    mount(&wanted, fstab, !entry.source.is_empty(), host)
}

fn unmount(point: &str, host: &Host) -> Result<(), Failure> {
    let what = format!("Error unmounting {point}");
    if is_ours(point) {
        return run(Command::new("umount").arg(point), &what, host);
    }
    // `umount` would look the path up again. Nobody can rename a mount point, so its name in the open directory is
    // enough.
    let mut place = place(point)?;
    place.close();
    let path = way::handle(&place.directory()).join(place.name());
    rustix::mount::unmount(path.as_path(), rustix::mount::UnmountFlags::NOFOLLOW)
        .map_err(|error| Failure::new(format!("{what}: {}.", reason(&error.into()))))
}

fn run(command: Command, what: &str, host: &Host) -> Result<(), Failure> {
    let output = command.plain_locale().run(host)?;
    if output.success() {
        return Ok(());
    }
    let said = output.stderr_text();
    Err(Failure::new(format!("{what}: {}", said.trim())).with("rc", output.rc).with("stderr", said))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &str = "# disks\nUUID=ab / ext4 errors=remount-ro 0 1\n/dev/sdb1\t/mnt/with\\040space\txfs\tdefaults\t0\t0\n/swap1 none swap sw 0 0\n/swap2 none swap sw 0 0\n";

    fn entry(source: &str, point: &str, kind: &str) -> Entry {
        Entry {
            source: source.into(),
            point: point.into(),
            kind: kind.into(),
            options: "defaults".into(),
            dump: "0".into(),
            pass: "0".into(),
        }
    }

    #[test]
    fn entries_added_replaced_and_removed() {
        let same = with_entry(TABLE, &entry("/dev/sdb1", "/mnt/with space", "xfs"));
        assert_eq!(same, TABLE);
        let other = with_entry(TABLE, &entry("/dev/sdc1", "/mnt/with space", "xfs"));
        assert!(other.contains("\n/dev/sdc1 /mnt/with\\040space xfs defaults 0 0\n") && !other.contains("sdb1"));
        let more = with_entry(TABLE, &entry("tmpfs", "/tmp", "tmpfs"));
        assert!(more.ends_with("tmpfs /tmp tmpfs defaults 0 0\n") && more.starts_with(TABLE));
        let less = without_entry(TABLE, &entry("/swap2", "none", ""));
        assert!(less.contains("/swap1") && !less.contains("/swap2"));
        assert_eq!(without_entry(TABLE, &entry("", "/none/such", "")), TABLE);
    }

    #[test]
    fn mountinfo_parsed() {
        let info =
            "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n30 22 0:5 / /mnt/with\\040space rw - tmpfs tmpfs rw\n";
        assert_eq!(mounted_at(info, "/mnt/with space"), Some(("tmpfs".into(), "tmpfs".into())));
        assert_eq!(mounted_at(info, "/mnt"), None);
    }

    #[test]
    fn states_mapped_to_steps() {
        let tmpfs = ("tmpfs".to_owned(), "tmpfs".to_owned());
        let wanted = entry("tmpfs", "/x", "tmpfs");
        assert_eq!(steps("mounted", None, true, &wanted).unwrap(), [Step::Mount]);
        assert!(steps("mounted", Some(&tmpfs), false, &wanted).unwrap().is_empty());
        assert_eq!(steps("mounted", Some(&tmpfs), true, &wanted).unwrap(), [Step::Remount]);
        assert_eq!(steps("unmounted", Some(&tmpfs), false, &wanted).unwrap(), [Step::Unmount]);
        assert!(steps("remounted", None, false, &wanted).is_err());
        assert!(steps("present", None, true, &wanted).unwrap().is_empty());
    }

    #[test]
    fn custom_fstab_keeps_order() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("fstab");
        let run = |state: &str| {
            let arguments = json!({ "path": "/mnt/data", "src": "/dev/sdz", "fstype": "ext4", "state": state, "fstab": table, "boot": false });
            crate::run(&Mount, &arguments, &Host::alone())
        };
        assert_eq!(run("present")["changed"], true);
        assert_eq!(std::fs::read_to_string(&table).unwrap(), "/dev/sdz /mnt/data ext4 defaults,noauto 0 0\n");
        assert_eq!(run("present")["changed"], false);
        assert_eq!(run("absent_from_fstab")["changed"], true);
        assert_eq!(std::fs::read_to_string(&table).unwrap(), "");
    }
}
