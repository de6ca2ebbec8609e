//! `lvol`: LVM logical volumes.

use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    process::{Command, Output},
};

/// The `lvol` module.
pub struct Lvol;

static SPEC: Spec = Spec {
    name: "lvol",
    collection: "community.general",
    summary: "Manage LVM logical volumes",
    description: &[
        "Creates, resizes, activates and removes logical volumes, snapshots and thin volumes. Shrinking and removing \
         may destroy data and need `force`.",
    ],
    options: &[
        Opt::required("vg", Kind::Str, "Name of the volume group.").word(),
        Opt::new("lv", Kind::Str, "Name of the logical volume; for a snapshot, its origin.").word(),
        Opt::new(
            "size",
            Kind::Str,
            "Size in megabytes, with another unit, or in percent of `VG`, `PVS`, `FREE` or `ORIGIN`. A leading `+` \
             or `-` changes the size by that amount.",
        ),
        Opt::new("opts", Kind::Str, "Additional options of lvcreate."),
        Opt::new("state", Kind::Str, "`present` creates the volume, `absent` removes it.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("active", Kind::Bool, "Activate the volume.").default("true"),
        Opt::new("force", Kind::Bool, "Allow shrinking and removing.").default("false"),
        Opt::new("shrink", Kind::Bool, "Shrink a volume that is larger than `size`.").default("true"),
        Opt::new("snapshot", Kind::Str, "Name of the snapshot.").word(),
        Opt::new("pvs", Kind::List(&Kind::Str), "Devices to place the volume on."),
        Opt::new("thinpool", Kind::Str, "Name of the thin pool to create, or of the pool for the thin volume `lv`."),
        Opt::new("resizefs", Kind::Bool, "Resize the file system too.").default("false"),
    ],
    required_one_of: &[&["lv", "thinpool"]],
    examples: "- name: Room for the database\n  community.general.lvol:\n    vg: data\n    lv: postgres\n    size: 20g\n\n\
               - name: All that is left\n  community.general.lvol:\n    vg: data\n    lv: logs\n    size: 100%FREE\n",
    returns: &[
        Return { name: "vg", kind: "str", when: "the volume existed", doc: "Name of the volume group." },
        Return { name: "lv", kind: "str", when: "the volume existed", doc: "Name of the logical volume." },
        Return {
            name: "size",
            kind: "float",
            when: "the volume existed",
            doc: "Size before the task, in the unit of `size`.",
        },
        Return { name: "msg", kind: "str", when: "the volume was created", doc: "Always empty." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// A size in a task.
#[derive(Clone)]
struct Size {
    /// `+` or `-` for a relative change.
    sign: Option<char>,
    number: String,
    /// A letter, or `%` with its base.
    unit: String,
    value: f64,
}

impl Size {
    fn of(args: &Args) -> Result<Option<Size>, Failure> {
        let Some(text) = args.filled("size") else { return Ok(None) };
        let (sign, rest) = match text.chars().next() {
            Some(sign @ ('+' | '-')) => (Some(sign), text.get(1..).unwrap_or_default()),
            _ => (None, text),
        };
        let bad = |number: &str| Failure::new(format!("Bad size specification of '{number}'"));
        if let Some((percent, whole)) = rest.split_once('%') {
            let value: u32 = percent.parse().map_err(|_| bad(rest))?;
            if value > 100 {
                return Err(Failure::new("Size percentage cannot be larger than 100%"));
            }
            if whole == "ORIGIN" && args.str("snapshot").is_none() {
                return Err(Failure::new("Percentage of ORIGIN supported only for snapshot volumes"));
            }
            if !matches!(whole, "VG" | "PVS" | "FREE" | "ORIGIN") {
                return Err(Failure::new("Specify extents as a percentage of VG|PVS|FREE|ORIGIN"));
            }
            let unit = format!("%{whole}");
            return Ok(Some(Size { sign, number: percent.to_owned(), unit, value: f64::from(value) }));
        }
        let is_unit = |c: char| "bskmgtpe".contains(c.to_ascii_lowercase());
        let (number, unit) = match rest.strip_suffix(is_unit) {
            Some(number) => (number, rest.get(number.len()..).unwrap_or_default()),
            None => (rest, "m"),
        };
        let value = number.parse::<f64>().ok().filter(|_| number.starts_with(|c: char| c.is_ascii_digit()));
        Ok(Some(Size {
            sign,
            number: number.to_owned(),
            unit: unit.to_owned(),
            value: value.ok_or_else(|| bad(number))?,
        }))
    }

    fn is_percent(&self) -> bool {
        self.unit.starts_with('%')
    }

    /// The option and argument for LVM programs, without a sign.
    fn words(&self) -> [String; 2] {
        let option = if self.is_percent() { "-l" } else { "-L" };
        [option.to_owned(), format!("{}{}", self.number, self.unit)]
    }

    /// The option and argument, with the sign.
    fn signed(&self) -> [String; 2] {
        let [option, value] = self.words();
        [option, self.sign.map(String::from).unwrap_or_default() + &value]
    }

    fn of_group(&self) -> bool {
        self.unit == "%VG" || self.unit == "%PVS"
    }
}

/// A logical volume in the output of `lvs`.
#[derive(Clone)]
struct Volume {
    name: String,
    size: f64,
    active: bool,
    is_pool: bool,
    is_thin: bool,
}

impl Module for Lvol {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let task = Task::of(args)?;
        let absent = args.str("state") == Some("absent");
        let (group, volumes) = match task.read(host)? {
            Ok(found) => found,
            Err(output) => {
                let text = format!("Volume group {} does not exist.", task.vg);
                return if absent { Ok(Plan::unchanged().with("stdout", text)) } else { Err(failed(text, &output)) };
            }
        };
        let name = task.checked_name(&volumes)?;
        let short = name.rsplit('/').next().unwrap_or_default();
        let Some(volume) = volumes.iter().find(|volume| volume.name == name || volume.name == short).cloned() else {
            if absent {
                return Ok(Plan::unchanged().with("msg", ""));
            }
            let words = task.creation(&volumes)?;
            let lv = task.lv.clone().unwrap_or_else(|| "None".to_owned());
            let plan = Plan::steps(host, move |host, outcome| {
                let output = lvm(&words, host)?;
                if !output.success() {
                    return Err(failed(format!("Creating logical volume '{lv}' failed"), &output));
                }
                outcome.changed = true;
                Ok(())
            });
            return Ok(plan?.with("msg", ""));
        };
        let path = format!("{}/{}", task.vg, volume.name);
        if absent {
            if !task.force {
                let text = format!("Sorry, no removal of logical volume {} without force=true.", volume.name);
                return Err(Failure::new(text));
            }
            return Plan::steps(host, move |host, outcome| {
                let output = lvm(&["lvremove".to_owned(), "--force".to_owned(), path], host)?;
                if !output.success() {
                    return Err(failed(format!("Failed to remove logical volume {}", volume.name), &output));
                }
                outcome.changed = true;
                Ok(())
            });
        }
        let resize = task.resize(&group, &volume)?;
        let activate = (task.active != volume.active).then_some(task.active);
        let (vg, lv, size) = (task.vg.clone(), volume.name.clone(), volume.size);
        let plan = if resize.is_none() && activate.is_none() {
            Plan::unchanged()
        } else {
            Plan::steps(host, move |host, outcome| {
                let mut changed = activate.is_some();
                if let Some(words) = resize {
                    let output = lvm(&words, host)?;
                    let said = output.stdout_text() + &output.stderr_text();
                    let same = said.contains("matches existing size") || said.contains("not larger than existing size");
                    if said.contains("Reached maximum COW size") || !output.success() && !same {
                        let size = words.iter().rev().nth(task.pvs.len() + 1).cloned().unwrap_or_default();
                        return Err(failed(format!("Unable to resize {} to {size}", volume.name), &output));
                    }
                    changed |= output.success();
                }
                // Activation has no test mode.
                if let Some(active) = activate.filter(|_| !host.check()) {
                    let flag = if active { "-ay" } else { "-an" };
                    let output = lvm(&["lvchange".to_owned(), flag.to_owned(), path], host)?;
                    if !output.success() {
                        let verb = if active { "activate" } else { "deactivate" };
                        return Err(failed(format!("Failed to {verb} logical volume {}", volume.name), &output));
                    }
                }
                outcome.changed = changed;
                Ok(())
            })?
        };
        Ok(plan.with("vg", vg).with("lv", lv).with("size", size))
    }
}

/// The volume group, in the unit of the requested size.
struct Group {
    size: f64,
    free: f64,
    extent: f64,
}

struct Task {
    vg: String,
    lv: Option<String>,
    snapshot: Option<String>,
    thinpool: Option<String>,
    size: Option<Size>,
    opts: Vec<String>,
    pvs: Vec<String>,
    force: bool,
    shrink: bool,
    active: bool,
    resizefs: bool,
}

impl Task {
    fn of(args: &Args) -> Result<Task, Failure> {
        let text = |name: &str| args.filled(name).map(str::to_owned);
        let opts = shell_words::split(args.str("opts").unwrap_or_default())
            .map_err(|error| Failure::new(format!("opts cannot be read: {error}.")))?;
        Ok(Task {
            vg: args.required("vg")?.to_owned(),
            lv: text("lv"),
            snapshot: text("snapshot"),
            thinpool: text("thinpool"),
            size: Size::of(args)?,
            opts,
            pvs: args.list("pvs").into_iter().map(str::to_owned).collect(),
            force: args.bool("force"),
            shrink: args.bool("shrink"),
            active: args.bool("active"),
            resizefs: args.bool("resizefs"),
        })
    }

    /// The group and its volumes, or LVM's output if the group does not exist.
    fn read(&self, host: &Host) -> Result<Result<(Group, Vec<Volume>), Output>, Failure> {
        let unit = match &self.size {
            Some(size) if !size.is_percent() => size.unit.to_lowercase(),
            _ => "m".to_owned(),
        };
        let ask = |program: &str, more: &[&str]| -> Result<Result<Vec<Vec<String>>, Output>, Failure> {
            let options = ["--noheadings", "--nosuffix", "--units", &unit, "--separator", ";"];
            let command = Command::new(program).plain_locale().args(options).args(more.iter().copied());
            let output = command.arg(self.vg.as_str()).run(host)?;
            let text = output.stdout_text();
            let rows = text.lines().filter(|line| !line.trim().is_empty());
            let rows = rows.map(|line| line.trim().split(';').map(str::to_owned).collect()).collect();
            Ok(if output.success() { Ok(rows) } else { Err(output) })
        };
        let groups = match ask("vgs", &["-o", "vg_name,size,free,vg_extent_size"])? {
            Ok(groups) => groups,
            Err(output) => return Ok(Err(output)),
        };
        let rows = match ask("lvs", &["-a", "-o", "lv_name,size,lv_attr"])? {
            Ok(rows) => rows,
            Err(output) => return Ok(Err(output)),
        };
        let number = |row: &[String], at: usize| row.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        let group = groups.first().map(Vec::as_slice).unwrap_or_default();
        let group = Group { size: number(group, 1), free: number(group, 2), extent: number(group, 3) };
        let volumes = rows.iter().map(|row| {
            let attributes = row.get(2).map(String::as_str).unwrap_or_default();
            Volume {
                name: row.first().map(|name| name.replace(['[', ']'], "")).unwrap_or_default(),
                size: number(row, 1),
                active: attributes.chars().nth(4) == Some('a'),
                is_pool: attributes.starts_with('t'),
                is_thin: attributes.starts_with('V'),
            }
        });
        Ok(Ok((group, volumes.collect())))
    }

    /// The name of the volume, after checking the volumes it needs.
    fn checked_name(&self, volumes: &[Volume]) -> Result<&str, Failure> {
        let find = |name: &Option<String>| volumes.iter().find(|volume| Some(&volume.name) == name.as_ref());
        let shown = |name: &Option<String>| name.clone().unwrap_or_else(|| "None".to_owned());
        let name = match (&self.snapshot, &self.thinpool, &self.lv) {
            (Some(snapshot), ..) => {
                let origin = find(&self.lv).or_else(|| find(&self.thinpool)).ok_or_else(|| {
                    let (lv, vg) = (shown(&self.lv), &self.vg);
                    Failure::new(format!("Snapshot origin LV {lv} does not exist in volume group {vg}."))
                })?;
                if origin.is_pool || self.thinpool.is_some() {
                    return Err(Failure::new("Snapshots of thin pool LVs are not supported."));
                }
                snapshot
            }
            (None, Some(pool), Some(lv)) => {
                if find(&self.thinpool).is_none() {
                    let text = format!("Thin pool LV {pool} does not exist in volume group {}.", self.vg);
                    return Err(Failure::new(text));
                }
                lv
            }
            (None, Some(pool), None) => pool,
            (None, None, Some(lv)) => lv,
            (None, None, None) => return Err(Failure::new("one of the following is required: lv, thinpool")),
        };
        Ok(name)
    }

    /// The command that creates the volume.
    fn creation(&self, volumes: &[Volume]) -> Result<Vec<String>, Failure> {
        if let Some(size) = self.size.as_ref().filter(|size| size.sign == Some('-')) {
            let text = format!("Bad size specification of '-{}' for creating LV", size.number);
            return Err(Failure::new(text));
        }
        let of_thin = self.snapshot.is_some()
            && volumes.iter().any(|volume| Some(&volume.name) == self.lv.as_ref() && volume.is_thin);
        if self.size.is_none() && !of_thin {
            return Err(Failure::new("No size given."));
        }
        let mut words = vec!["lvcreate".to_owned(), "--yes".to_owned()];
        let sizes = self.size.as_ref().map(Size::words).into_iter().flatten();
        match (&self.snapshot, &self.thinpool, &self.lv) {
            (Some(snapshot), _, lv) => {
                words.extend(sizes);
                words.extend(["-s".to_owned(), "-n".to_owned(), snapshot.clone()]);
                words.extend(self.opts.iter().cloned());
                words.push(format!("{}/{}", self.vg, lv.as_deref().unwrap_or_default()));
            }
            (None, Some(pool), Some(lv)) => {
                let Some(size) = self.size.as_ref().filter(|size| !size.is_percent()) else {
                    return Err(Failure::new("Thin volume sizing with percentage not supported."));
                };
                let [_, value] = size.words();
                words.extend(["-n".to_owned(), lv.clone(), "-V".to_owned(), value]);
                words.extend(self.opts.iter().cloned());
                words.extend(["-T".to_owned(), format!("{}/{pool}", self.vg)]);
            }
            (None, Some(pool), None) => {
                words.extend(sizes);
                words.extend(self.opts.iter().cloned());
                words.extend(["-T".to_owned(), format!("{}/{pool}", self.vg)]);
                words.extend(self.pvs.iter().cloned());
            }
            (None, None, lv) => {
                words.extend(["-n".to_owned(), lv.clone().unwrap_or_default()]);
                words.extend(sizes);
                words.extend(self.opts.iter().cloned());
                words.push(self.vg.clone());
                words.extend(self.pvs.iter().cloned());
            }
        }
        Ok(words)
    }

    /// The command that resizes the volume, if its size differs.
    fn resize(&self, group: &Group, volume: &Volume) -> Result<Option<Vec<String>>, Failure> {
        let Some(size) = &self.size else { return Ok(None) };
        let name = &volume.name;
        let wanted = if size.is_percent() {
            let whole = if size.of_group() { group.size } else { group.free };
            let part = size.value * whole / 100.0;
            let wanted = match size.sign {
                Some('+') => volume.size + part,
                Some(_) => volume.size - part,
                None => part,
            };
            // LVM programs round down.
            wanted - wanted % group.extent
        } else {
            size.value
        };
        let (grows, shrinks) = if size.is_percent() {
            (volume.size < wanted, self.shrink && volume.size > wanted + group.extent)
        } else {
            let grows = size.value > volume.size && size.sign != Some('-') || size.sign == Some('+');
            (grows, !grows && (self.shrink && size.value < volume.size || size.sign == Some('-')))
        };
        if grows {
            if size.is_percent() && (group.free <= 0.0 || group.free < wanted - volume.size) {
                return Err(Failure::new(format!(
                    "Logical Volume {name} could not be extended. Not enough free space left ({}m required / {}m available)",
                    wanted - volume.size,
                    group.free
                )));
            }
        } else if shrinks {
            if size.value == 0.0 || size.is_percent() && wanted < 1.0 {
                return Err(Failure::new(format!("Sorry, no shrinking of {name} to 0 permitted.")));
            }
            if !self.force {
                return Err(Failure::new(format!("Sorry, no shrinking of {name} without force=true.")));
            }
        } else {
            return Ok(None);
        }
        let mut words = match grows {
            true => vec!["lvextend".to_owned()],
            false => vec!["lvreduce".to_owned(), "--force".to_owned()],
        };
        if self.resizefs {
            words.push("--resizefs".to_owned());
        }
        words.extend(size.signed());
        words.push(format!("{}/{name}", self.vg));
        words.extend(self.pvs.iter().cloned());
        Ok(Some(words))
    }
}

/// Runs an LVM command; in check mode, in test mode.
fn lvm(words: &[String], host: &Host) -> Result<Output, Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::new("There is no command to run."))?;
    let command = Command::new(program.as_str()).plain_locale().args(host.check().then_some("--test"));
    command.args(arguments.iter().map(String::as_str)).run(host)
}

fn failed(message: String, output: &Output) -> Failure {
    Failure::new(message).with("rc", output.rc).with("err", output.stderr_text())
}
