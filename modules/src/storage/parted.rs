//! `parted`: partitions.

use serde_json::{Value, json};

use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    process::{self, Command, Output},
};

/// The `parted` module.
pub struct Parted;

const UNITS: &[&str] = &["B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "s", "%", "cyl", "chs", "compact"];

static SPEC: Spec = Spec {
    name: "parted",
    collection: "community.general",
    summary: "Manage partitions",
    description: &[
        "Creates, resizes and removes one partition with parted, and creates the partition table if its type differs.",
    ],
    options: &[
        Opt::required("device", Kind::Str, "Path of the disk or image file.").word(),
        Opt::new("align", Kind::Str, "Alignment of partitions.").default("\"optimal\"").choices(&[
            "cylinder",
            "minimal",
            "none",
            "optimal",
            "undefined",
        ]),
        Opt::new("number", Kind::Int, "Number of the partition."),
        Opt::new("unit", Kind::Str, "Unit of sizes in the result.").default("\"KiB\"").choices(UNITS),
        Opt::new("label", Kind::Str, "Type of the partition table.")
            .default("\"msdos\"")
            .choices(&["aix", "amiga", "bsd", "dvh", "gpt", "loop", "mac", "msdos", "pc98", "sun"]),
        Opt::new("part_type", Kind::Str, "Type of the partition; with gpt, its name unless `name` is given.")
            .default("\"primary\"")
            .choices(&["extended", "logical", "primary"]),
        Opt::new("part_start", Kind::Str, "Start of the partition.").default("\"0%\""),
        Opt::new("part_end", Kind::Str, "End of the partition.").default("\"100%\""),
        Opt::new("fs_type", Kind::Str, "Type of the file system on the partition."),
        Opt::new("name", Kind::Str, "Name of the partition, with gpt and mac."),
        Opt::new("flags", Kind::List(&Kind::Str), "Flags of the partition; all others are cleared."),
        Opt::new(
            "state",
            Kind::Str,
            "`present` creates the partition, `absent` removes it, `info` only returns the layout.",
        )
        .default("\"info\"")
        .choices(&["absent", "info", "present"]),
        Opt::new("resize", Kind::Bool, "Move the end of an existing partition to `part_end`.").default("false"),
        Opt::new("unit_preserve_case", Kind::Bool, "Return units in their usual spelling.").default("false"),
    ],
    required_if: &[("state", "present", &["number"]), ("state", "absent", &["number"])],
    examples: "- name: A partition for LVM\n  community.general.parted:\n    device: /dev/sdb\n    number: 1\n    label: gpt\n    flags: [lvm]\n    \
               state: present\n",
    returns: &[
        Return { name: "disk", kind: "dict", when: "success", doc: "Properties of the disk." },
        Return { name: "partitions", kind: "list", when: "success", doc: "Partitions of the disk." },
        Return { name: "script", kind: "list", when: "success", doc: "Commands passed to parted." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Parted {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let task = Task::of(args)?;
        let disk = task.read(host)?;
        let number = args.int("number").unwrap_or(0);
        let (mut script, mut more) = (Vec::new(), Vec::new());
        match args.required("state")? {
            "present" => {
                script = task.shape(args, &disk, number)?;
                let empty = Map::new();
                let found = if script.is_empty() { disk.partition(number) } else { Some(&empty) };
                more = found.map(|partition| task.marks(args, partition, number)).unwrap_or_default();
            }
            "absent" if disk.partition(number).is_some() => script = vec!["rm".to_owned(), number.to_string()],
            "absent" => {}
            _ => {
                let script = json!(["unit", task.unit, "print"]);
                return Ok(disk.described(Plan::unchanged()).with("script", script));
            }
        }
        if script.is_empty() && more.is_empty() {
            return Ok(disk.described(Plan::unchanged()).with("script", json!([])));
        }
        let told: Vec<String> = script.iter().chain(&more).cloned().collect();
        let wanted = (args.str("name").map(str::to_owned), flags(args));
        let plan = Plan::change(move |host, outcome| {
            let mut told = script.clone();
            task.run(&script, host)?;
            if script.first().is_some_and(|word| word != "rm") || script.is_empty() {
                // A new partition may already have flags.
                let disk = task.read(host)?;
                if let Some(partition) = disk.partition(number) {
                    let more = task.marks_of(&wanted.0, &wanted.1, partition, number);
                    task.run(&more, host)?;
                    told.extend(more);
                }
            }
            let disk = task.read(host)?;
            outcome.set("script", told);
            outcome.set("disk", disk.generic);
            outcome.set("partitions", disk.partitions.into_iter().map(Value::from).collect::<Vec<_>>());
            Ok(())
        });
        Ok(disk.described(plan).with("script", told))
    }
}

/// The program's name in messages.
fn program(host: &Host) -> String {
    process::find(host, "parted").map_or_else(|| "parted".to_owned(), |path| path.display().to_string())
}

struct Task {
    device: String,
    unit: String,
    align: String,
    keep_case: bool,
}

impl Task {
    fn of(args: &Args) -> Result<Task, Failure> {
        if args.int("number").is_some_and(|number| number < 1) {
            return Err(Failure::new("The partition number must be greater then 0."));
        }
        for name in ["part_start", "part_end"] {
            let text = args.str(name).unwrap_or_default();
            let known = size_of(text);
            if known.is_none() {
                return Err(Failure::new(format!("Error interpreting parted size output: '{text}'")));
            }
            if !known.is_some_and(|(_, unit)| UNITS.contains(&unit.as_str())) {
                return Err(Failure::new(format!(
                    "The argument '{name}' doesn't respect required format.The size unit is case sensitive."
                )));
            }
        }
        Ok(Task {
            device: args.required("device")?.to_owned(),
            unit: args.required("unit")?.to_owned(),
            align: args.required("align")?.to_owned(),
            keep_case: args.bool("unit_preserve_case"),
        })
    }

    fn parted(&self, before: &[&str], script: &[String], host: &Host) -> Result<Output, Failure> {
        let command = Command::new("parted").plain_locale().args(before.iter().copied());
        command.args([self.device.as_str(), "--"]).args(script.iter().map(String::as_str)).run(host)
    }

    fn run(&self, script: &[String], host: &Host) -> Result<(), Failure> {
        if script.is_empty() {
            return Ok(());
        }
        let mut options = vec!["-s"];
        // Releases from 3.4.64 can repair a table that no longer fits the disk.
        if version(host)? >= (3, 4, 64) {
            options.push("-f");
        }
        options.push("-m");
        if self.align != "undefined" {
            options.extend(["-a", self.align.as_str()]);
        }
        let output = self.parted(&options, script, host)?;
        if output.success() {
            return Ok(());
        }
        let command = format!("{} {} {} -- {}", program(host), options.join(" "), self.device, script.join(" "));
        Err(refused(format!("Error while running parted script: {command}"), &output))
    }

    fn read(&self, host: &Host) -> Result<Disk, Failure> {
        let script = ["unit".to_owned(), self.unit.clone(), "print".to_owned()];
        let output = self.parted(&["-s", "-m"], &script, host)?;
        let text = output.stdout_text();
        let unlabelled = output.stderr_text().contains("unrecognised disk label");
        let parsed = if output.success() || unlabelled { Disk::parse(&text, &self.unit, self.keep_case) } else { None };
        parsed.ok_or_else(|| {
            let command = format!("{} -s -m {} -- {}", program(host), self.device, script.join(" "));
            refused(format!("Error while getting device information with parted script: '{command}'"), &output)
        })
    }

    /// Commands that create the table and the partition, or move its end.
    fn shape(&self, args: &Args, disk: &Disk, number: i64) -> Result<Vec<String>, Failure> {
        let text = |name: &str| args.str(name).unwrap_or_default().to_owned();
        let mut script = Vec::new();
        let label = text("label");
        let relabel = disk.generic.get("table").and_then(Value::as_str) != Some(&label);
        if relabel {
            script.extend(["mklabel".to_owned(), label]);
        }
        let there = disk.partition(number).filter(|_| !relabel);
        if there.is_none() {
            script.extend(["mkpart".to_owned(), text("part_type")]);
            script.extend(args.str("fs_type").map(str::to_owned));
            script.extend([text("part_start"), text("part_end")]);
        }
        if !script.is_empty() {
            script.splice(0..0, ["unit".to_owned(), self.unit.clone()]);
        }
        if let Some(partition) = there.filter(|_| args.bool("resize")) {
            let end = partition.get("end").and_then(Value::as_f64).unwrap_or(0.0) * factor(&self.unit);
            let (size, unit) = size_of(&text("part_end")).unwrap_or((0.0, String::new()));
            let (wanted, tolerance) = match unit.as_str() {
                // parted aligns an end in percent.
                "%" => (disk.size() * factor(&self.unit) * size / 100.0, f64::from(1 << 20)),
                unit => (size * factor(unit), 1.0),
            };
            if (end - wanted).abs() > tolerance {
                script.extend(["resizepart".to_owned(), number.to_string(), text("part_end")]);
            }
        }
        Ok(script)
    }

    fn marks(&self, args: &Args, partition: &Map, number: i64) -> Vec<String> {
        self.marks_of(&args.str("name").map(str::to_owned), &flags(args), partition, number)
    }

    /// Commands that set the partition's name and flags.
    fn marks_of(&self, name: &Option<String>, flags: &[String], partition: &Map, number: i64) -> Vec<String> {
        let mut script = Vec::new();
        if let Some(name) = name
            && partition.get("name").and_then(Value::as_str) != Some(name)
        {
            script.extend(["name".to_owned(), number.to_string(), format!("\"{name}\"")]);
        }
        if !flags.is_empty() {
            let has = partition.get("flags").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let has: Vec<&str> =
                has.iter().filter_map(Value::as_str).filter(|flag| !flag.starts_with("type=")).collect();
            let on = flags.iter().map(String::as_str).filter(|flag| !has.contains(flag)).map(|flag| (flag, "on"));
            let off = has.iter().filter(|flag| !flags.iter().any(|wanted| wanted == *flag)).map(|flag| (*flag, "off"));
            for (flag, state) in on.chain(off) {
                script.extend(["set".to_owned(), number.to_string(), flag.to_owned(), state.to_owned()]);
            }
        }
        if !script.is_empty() {
            script.splice(0..0, ["unit".to_owned(), self.unit.clone()]);
        }
        script
    }
}

/// The flags of a task; parted sets `boot` together with `esp`.
fn flags(args: &Args) -> Vec<String> {
    let mut flags: Vec<String> = args.list("flags").into_iter().map(str::to_owned).collect();
    if flags.iter().any(|flag| flag == "esp") && !flags.iter().any(|flag| flag == "boot") {
        flags.push("boot".to_owned());
    }
    flags
}

struct Disk {
    generic: Map,
    partitions: Vec<Map>,
}

impl Disk {
    /// Parses the output of `parted -m`: unit, disk, optionally geometry, and one line per partition.
    fn parse(text: &str, unit: &str, keep_case: bool) -> Option<Disk> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty()).map(fields).skip(1);
        let disk = lines.next()?;
        let at = |index: usize| disk.get(index).copied();
        let (size, found) = match size_of(at(1)?) {
            Some((size, found)) => (json!(size), if found.is_empty() { unit.to_owned() } else { found }),
            None => (geometry(at(1)?)?, "chs".to_owned()),
        };
        let shown = spelled(&found, keep_case);
        let mut generic = Map::new();
        for (key, value) in [
            ("dev", json!(at(0)?)),
            ("size", size),
            ("unit", json!(shown)),
            ("table", json!(at(5)?)),
            ("model", json!(at(6)?)),
            ("logical_block", json!(at(3)?.parse::<i64>().ok()?)),
            ("physical_block", json!(at(4)?.parse::<i64>().ok()?)),
        ] {
            generic.insert(key.to_owned(), value);
        }
        let is_chs = found == "chs";
        if is_chs || found == "cyl" {
            let numbers = lines.next()?;
            let number = |index: usize| numbers.get(index).and_then(|text| text.parse::<i64>().ok());
            let (size, unit) = size_of(numbers.get(3)?)?;
            let info = json!({"cylinders": number(0)?, "heads": number(1)?, "sectors": number(2)?, "cyl_size": size,
                "cyl_size_unit": spelled(&unit, keep_case)});
            generic.insert("chs_info".to_owned(), info);
        }
        let mut partitions = Vec::new();
        for line in lines {
            let at = |index: usize| line.get(index).copied();
            let place = |text: &str| size_of(text).map(|(size, _)| json!(size)).or_else(|| geometry(text));
            // A size follows the end, unless positions are in cylinders, heads and sectors.
            let (size, rest) = if is_chs { (json!(""), 3) } else { (place(at(3)?)?, 4) };
            let flags: Vec<&str> = at(rest + 2)?.split(", ").map(str::trim).filter(|flag| !flag.is_empty()).collect();
            let mut partition = Map::new();
            for (key, value) in [
                ("num", json!(at(0)?.parse::<i64>().ok()?)),
                ("begin", place(at(1)?)?),
                ("end", place(at(2)?)?),
                ("size", size),
                ("fstype", json!(at(rest)?)),
                ("name", json!(at(rest + 1)?)),
                ("flags", json!(flags)),
                ("unit", json!(shown)),
            ] {
                partition.insert(key.to_owned(), value);
            }
            partitions.push(partition);
        }
        Some(Disk { generic, partitions })
    }

    fn size(&self) -> f64 {
        self.generic.get("size").and_then(Value::as_f64).unwrap_or(0.0)
    }

    fn partition(&self, number: i64) -> Option<&Map> {
        self.partitions.iter().find(|partition| partition.get("num").and_then(Value::as_i64) == Some(number))
    }

    /// The plan with the layout before the change.
    fn described(&self, plan: Plan) -> Plan {
        let partitions: Vec<Value> = self.partitions.iter().cloned().map(Value::from).collect();
        plan.with("disk", self.generic.clone()).with("partitions", partitions)
    }
}

fn fields(line: &str) -> Vec<&str> {
    line.trim_end_matches(';').split(':').collect()
}

/// Splits `10.5GiB` into number and unit.
fn size_of(text: &str) -> Option<(f64, String)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if unit.contains(',') {
        return None;
    }
    Some((number.parse().ok()?, unit.trim_start().to_owned()))
}

/// Parses `1,2,3` as cylinder, head and sector.
fn geometry(text: &str) -> Option<Value> {
    let mut numbers = text.split(',').map(|part| part.parse::<i64>().ok());
    let (cylinder, head, sector) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(json!({"cylinder": cylinder, "head": head, "sector": sector}))
}

fn spelled(unit: &str, keep_case: bool) -> String {
    let usual = UNITS.iter().find(|known| known.eq_ignore_ascii_case(unit)).copied().unwrap_or(unit);
    if keep_case { usual.to_owned() } else { unit.to_lowercase() }
}

/// Bytes of a unit; the default is parted's, megabytes.
fn factor(unit: &str) -> f64 {
    let power = |base: f64, units: &[&str], first: i32| {
        units.iter().position(|known| *known == unit).map(|at| base.powi(i32::try_from(at).unwrap_or(0) + first))
    };
    let decimal = power(1000.0, UNITS.get(..5).unwrap_or_default(), 0);
    let binary = power(1024.0, UNITS.get(5..9).unwrap_or_default(), 1);
    match unit {
        "s" => 512.0,
        _ => decimal.or(binary).unwrap_or(1_000_000.0),
    }
}

fn version(host: &Host) -> Result<(u32, u32, u32), Failure> {
    let output = Command::new("parted").plain_locale().arg("--version").run(host)?;
    let text = output.stdout_text();
    let word = text.lines().next().and_then(|line| line.split_whitespace().last()).unwrap_or_default();
    let mut numbers = word.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => Ok((major, minor, numbers.next().unwrap_or(0))),
        _ => Err(refused("Failed to get parted version.".to_owned(), &output)),
    }
}

fn refused(message: String, output: &Output) -> Failure {
    Failure::new(message).with("rc", output.rc).with("out", output.stdout_text()).with("err", output.stderr_text())
}
