//! `lvg`: LVM volume groups.

use std::path::Path;

use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Spec, process::Command};

/// The `lvg` module.
pub struct Lvg;

static SPEC: Spec = Spec {
    name: "lvg",
    collection: "community.general",
    summary: "Manage LVM volume groups",
    description: &["Creates a volume group on the devices in `pvs`, adds and removes devices, and removes the group."],
    options: &[
        Opt::required("vg", Kind::Str, "Name of the volume group.").word(),
        Opt::new("pvs", Kind::List(&Kind::Str), "Devices of the volume group.").word(),
        Opt::new("pesize", Kind::Str, "Size of an extent, in megabytes unless it has a unit.").default("\"4\""),
        Opt::new("pv_options", Kind::Str, "Additional options of pvcreate.").default("\"\""),
        Opt::new("pvresize", Kind::Bool, "Grow physical volumes to the size of their devices.").default("false"),
        Opt::new("vg_options", Kind::Str, "Additional options of vgcreate.").default("\"\""),
        Opt::new(
            "state",
            Kind::Str,
            "`present` creates the group, `absent` removes it, `active` and `inactive` also switch its logical \
             volumes.",
        )
        .default("\"present\"")
        .choices(&["absent", "present", "active", "inactive"]),
        Opt::new("force", Kind::Bool, "Remove a group even if it has logical volumes.").default("false"),
        Opt::new("reset_vg_uuid", Kind::Bool, "Assign a new UUID to the group; always a change.").default("false"),
        Opt::new("reset_pv_uuid", Kind::Bool, "Assign new UUIDs to its devices; always a change.").default("false"),
        Opt::new("remove_extra_pvs", Kind::Bool, "Remove devices from the group that are not in `pvs`.")
            .default("true"),
    ],
    required_if: &[("reset_pv_uuid", "True", &["pvs"])],
    examples: "- name: A group on two disks\n  community.general.lvg:\n    vg: data\n    pvs: [/dev/sdb1, /dev/sdc1]\n",
    ..Spec::EMPTY
}
.compiled();

const AUTOACTIVATION: &str = "--setautoactivation";

impl Module for Lvg {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let vg = args.required("vg")?;
        let state = args.required("state")?;
        let listed = table("vgs", &["-o", "vg_name,pv_count,lv_count"], host)?;
        let group = listed.into_iter().find(|row| row.first().is_some_and(|name| name == vg));
        let devices: Vec<String> = args.list("pvs").into_iter().map(real).collect();
        if state == "absent" {
            let Some(group) = group else { return Ok(Plan::unchanged()) };
            if group.get(2).is_some_and(|volumes| volumes != "0") && !args.bool("force") {
                return Err(Failure::new(format!("Refuse to remove non-empty volume group {vg} without force=true")));
            }
            return Ok(steps(vec![words("vgremove", &["--force", vg])]));
        }
        if group.is_none() && devices.is_empty() {
            return Err(Failure::new("No physical volumes given."));
        }
        if let Some(missing) = devices.iter().find(|device| !Path::new(device).exists()) {
            return Err(Failure::new(format!("Device {missing} not found.")));
        }
        let volumes = table("pvs", &["-o", "pv_name,vg_name"], host)?;
        refuse_devices_of_others(&devices, vg, &volumes)?;
        let wanted = Wanted { args, vg, state, devices: &devices, pv_options: words_of(args, "pv_options")? };
        if group.is_none() {
            return Ok(steps(wanted.creation(host)?));
        }
        let mut commands = match state {
            "active" | "inactive" => activation(vg, state == "active", host)?,
            _ => Vec::new(),
        };
        if args.bool("reset_vg_uuid") {
            commands.push(words("vgchange", &["-u", vg]));
        }
        if !devices.is_empty() {
            let rows = volumes.iter().filter(|row| row.get(1).is_some_and(|group| group == vg));
            let current: Vec<String> = rows.filter_map(|row| row.first()).map(|name| real(name)).collect();
            commands.extend(wanted.changes_of_devices(&current, host)?);
        }
        Ok(if commands.is_empty() { Plan::unchanged() } else { steps(commands) })
    }
}

fn refuse_devices_of_others(devices: &[String], vg: &str, volumes: &[Vec<String>]) -> Result<(), Failure> {
    let group_of = |device: &str| {
        let row = volumes.iter().find(|row| row.first().is_some_and(|name| real(name) == device));
        row.and_then(|row| row.get(1)).map(String::as_str).filter(|group| !group.is_empty())
    };
    for device in devices {
        if let Some(other) = group_of(device).filter(|group| *group != vg) {
            return Err(Failure::new(format!("Device {device} is already in {other} volume group.")));
        }
    }
    Ok(())
}

/// The group to create or change.
struct Wanted<'a> {
    args: &'a Args,
    vg: &'a str,
    state: &'a str,
    devices: &'a [String],
    pv_options: Vec<String>,
}

impl Wanted<'_> {
    /// Commands that create the group.
    fn creation(&self, host: &Host) -> Result<Vec<Vec<String>>, Failure> {
        let mut commands: Vec<Vec<String>> = self.devices.iter().map(|device| self.pvcreate(device)).collect();
        let vg_options = words_of(self.args, "vg_options")?;
        let own = vg_options.iter().any(|option| option.starts_with(AUTOACTIVATION));
        let mut command = words("vgcreate", &[]);
        command.extend(vg_options);
        command.extend(words("-s", &[self.args.str("pesize").unwrap_or("4")]));
        if matches!(self.state, "active" | "inactive") && !own && supports_autoactivation("vgcreate", host)? {
            command.extend(words(AUTOACTIVATION, &[if self.state == "active" { "y" } else { "n" }]));
        }
        command.push(self.vg.to_owned());
        command.extend_from_slice(self.devices);
        commands.push(command);
        Ok(commands)
    }

    /// Commands that replace the group's current devices by the requested ones.
    fn changes_of_devices(&self, current: &[String], host: &Host) -> Result<Vec<Vec<String>>, Failure> {
        let mut commands = Vec::new();
        for device in current {
            if self.args.bool("pvresize") && can_grow(device, host)? {
                commands.push(words("pvresize", &[device]));
            }
            if self.args.bool("reset_pv_uuid") {
                commands.push(words("pvchange", &["-u", device]));
            }
        }
        let added: Vec<&String> = self.devices.iter().filter(|device| !current.contains(device)).collect();
        if !added.is_empty() {
            commands.extend(added.iter().map(|device| self.pvcreate(device)));
            let mut command = words("vgextend", &[self.vg]);
            command.extend(added.into_iter().cloned());
            commands.push(command);
        }
        let extra: Vec<&String> = current.iter().filter(|device| !self.devices.contains(device)).collect();
        if !extra.is_empty() && self.args.bool("remove_extra_pvs") {
            let mut command = words("vgreduce", &["--force", self.vg]);
            command.extend(extra.into_iter().cloned());
            commands.push(command);
        }
        Ok(commands)
    }

    fn pvcreate(&self, device: &str) -> Vec<String> {
        let mut command = words("pvcreate", &[]);
        command.extend_from_slice(&self.pv_options);
        command.extend(words("-f", &[device]));
        command
    }
}

/// The words of an option for an LVM program.
fn words_of(args: &Args, name: &str) -> Result<Vec<String>, Failure> {
    shell_words::split(args.str(name).unwrap_or_default())
        .map_err(|error| Failure::new(format!("{name} cannot be read: {error}.")))
}

fn words(program: &str, arguments: &[&str]) -> Vec<String> {
    std::iter::once(program).chain(arguments.iter().copied()).map(str::to_owned).collect()
}

/// A change that runs these commands in order.
fn steps(commands: Vec<Vec<String>>) -> Plan {
    Plan::change(move |host, _| {
        for command in commands {
            let Some((program, arguments)) = command.split_first() else { continue };
            Command::new(program.as_str()).args(arguments.iter().map(String::as_str)).check_run(host)?;
        }
        Ok(())
    })
}

/// The rows of a listing by an LVM program.
fn table(program: &str, options: &[&str], host: &Host) -> Result<Vec<Vec<String>>, Failure> {
    let command = Command::new(program).plain_locale().args(["--noheadings", "--separator", ";"]);
    let text = command.args(options.iter().copied()).check_run(host)?.stdout_text();
    let rows = text.lines().filter(|line| !line.trim().is_empty());
    Ok(rows.map(|line| line.trim().split(';').map(str::to_owned).collect()).collect())
}

/// LVM identifies devices by canonical paths, and mapped devices by name.
fn real(device: &str) -> String {
    let path = std::fs::canonicalize(device).map_or_else(|_| device.to_owned(), |path| path.display().to_string());
    let Some(number) = path.strip_prefix("/dev/dm-") else { return path };
    let name = std::fs::read_to_string(format!("/sys/block/dm-{number}/dm/name"));
    name.map_or(path.clone(), |name| format!("/dev/mapper/{}", name.trim()))
}

fn supports_autoactivation(program: &str, host: &Host) -> Result<bool, Failure> {
    Ok(Command::new(program).plain_locale().arg("--help").run(host)?.stdout_text().contains(AUTOACTIVATION))
}

/// Commands that activate or deactivate the group's logical volumes, now and at the next boot.
fn activation(vg: &str, active: bool, host: &Host) -> Result<Vec<Vec<String>>, Failure> {
    let supported = supports_autoactivation("vgchange", host)?;
    let fields = if supported { "lv_attr,autoactivation" } else { "lv_attr" };
    let rows = table("vgs", &["-o", fields, vg], host)?;
    let flag = if active { "y" } else { "n" };
    let mut commands = Vec::new();
    let automatic = rows.iter().any(|row| row.get(1).is_some_and(|word| word == "enabled"));
    if supported && automatic != active {
        commands.push(words("vgchange", &[AUTOACTIVATION, flag, vg]));
    }
    let is_active = |row: &Vec<String>| row.first().and_then(|attributes| attributes.chars().nth(4)) == Some('a');
    let has_volume = |row: &&Vec<String>| row.first().is_some_and(|attributes| !attributes.is_empty());
    if rows.iter().filter(has_volume).any(|row| is_active(row) != active) {
        commands.push(words("vgchange", &["--activate", flag, vg]));
    }
    Ok(commands)
}

/// Whether a device has room for another extent.
fn can_grow(device: &str, host: &Host) -> Result<bool, Failure> {
    let fields = "dev_size,pv_size,pe_start,vg_extent_size";
    let rows = table("pvs", &["--nosuffix", "--units", "b", "-o", fields, device], host)?;
    let numbers: Vec<i64> = rows.first().into_iter().flatten().filter_map(|field| field.parse().ok()).collect();
    match numbers.as_slice() {
        [device, volume, start, extent] => Ok(device - (start + volume) > *extent),
        _ => Err(Failure::new(format!("pvs does not report the size of {device}."))),
    }
}
