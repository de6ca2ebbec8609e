//! `docker_volume`: volumes of Docker.

use serde_json::{Value, json};

use super::{
    Differences, ENGINE_OPTIONS, REQUIRED_TOGETHER, Task, engine::Request, engine::encoded, filled, labels, plan,
    report, with_engine,
};
use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

/// The `docker_volume` module.
pub struct DockerVolume;

const OWN: [Opt; 6] = [
    Opt::required("volume_name", Kind::Str, "Name of the volume.").aliases(&["name"]),
    Opt::new("state", Kind::Str, "`present` creates the volume, `absent` removes it.")
        .default("\"present\"")
        .choices(&["present", "absent"]),
    Opt::new("driver", Kind::Str, "Driver of the volume.").default("\"local\""),
    Opt::new("driver_options", Kind::Dict, "Options of the driver.").default("{}"),
    Opt::new("labels", Kind::Dict, "Labels of the volume; the values must be text."),
    Opt::new(
        "recreate",
        Kind::Str,
        "Recreate an existing volume, which loses its data. `options-changed` does so if driver, driver options or \
         labels differ.",
    )
    .default("\"never\"")
    .choices(&["always", "never", "options-changed"]),
];
const OPTIONS: [Opt; OWN.len() + ENGINE_OPTIONS.len()] = with_engine(OWN);

static SPEC: Spec = Spec {
    name: "docker_volume",
    collection: "community.docker",
    summary: "Manage Docker volumes",
    description: &[
        "Creates and removes volumes. Leaves an existing volume unchanged unless `recreate` says otherwise.",
    ],
    options: &OPTIONS,
    required_together: REQUIRED_TOGETHER,
    examples: "- name: A volume\n  community.docker.docker_volume:\n    name: data\n\n\
               - name: One on another disk\n  community.docker.docker_volume:\n    name: archive\n    driver_options:\n      type: ext4\n      device: /dev/sdb1\n",
    returns: &[Return { name: "volume", kind: "dict", when: "present", doc: "Volume as Docker describes it." }],
    ..Spec::EMPTY
}
.compiled();

impl Module for DockerVolume {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        plan(args, host, run)
    }
}

fn run(task: &mut Task, _host: &Host) -> Result<(), Failure> {
    let name = task.args.required("volume_name")?.to_owned();
    let wanted_labels = labels(task.args.value("labels"), "labels")?;
    let mut there = find(task, &name)?;
    let present = task.args.str("state") == Some("present");
    task.differences.add("exists", present, there.is_some());
    if !present {
        if there.is_some() {
            remove(task, &name)?;
        }
        task.list_actions();
        report(task, Value::Null);
        return Ok(());
    }
    let mut differences = Differences::default();
    if let Some(volume) = &there {
        compare(task, volume, &wanted_labels.clone().unwrap_or_default().into(), &mut differences);
    }
    let again = match task.args.str("recreate") {
        Some("always") => true,
        Some("options-changed") => !differences.is_empty(),
        _ => false,
    };
    if again && there.is_some() {
        remove(task, &name)?;
        there = None;
    }
    if there.is_none() {
        let driver = task.args.str("driver").unwrap_or("local").to_owned();
        if !task.check {
            let mut data = json!({ "Name": name, "Driver": driver, "DriverOpts": task.args.value("driver_options") });
            if let Some(labels) = wanted_labels {
                data["Labels"] = labels.into();
            }
            task.engine
                .call(Request::post("/volumes/create").json(&data))
                .map_err(|error| Failure::new(error.to_string()))?;
        }
        task.act(format!("Created volume {name} with driver {driver}"));
    }
    task.differences.extend(&differences);
    report(task, differences.names());
    if task.lists_actions() {
        task.list_actions();
    }
    let volume = find(task, &name)?;
    task.data.insert("volume".into(), volume.unwrap_or_default());
    Ok(())
}

fn find(task: &Task, name: &str) -> Result<Option<Value>, Failure> {
    let all = task.engine.call(Request::get("/volumes")).map_err(|error| Failure::new(error.to_string()))?;
    Ok(all["Volumes"].as_array().into_iter().flatten().find(|volume| volume["Name"] == name).cloned())
}

fn compare(task: &Task, volume: &Value, wanted_labels: &Value, differences: &mut Differences) {
    let driver = task.args.str("driver").unwrap_or_default();
    if !driver.is_empty() && volume["Driver"] != driver {
        differences.add("driver", driver, volume["Driver"].clone());
    }
    if let Some(wanted) = filled(&task.args, "driver_options") {
        match volume["Options"].as_object().filter(|options| !options.is_empty()) {
            None => differences.add("driver_options", wanted.clone(), volume["Options"].clone()),
            Some(options) => {
                for (key, value) in wanted {
                    if options.get(key) != Some(value) {
                        differences.add(
                            format!("driver_options.{key}"),
                            value.clone(),
                            options.get(key).cloned().unwrap_or_default(),
                        );
                    }
                }
            }
        }
    }
    for (key, value) in wanted_labels.as_object().into_iter().flatten() {
        let there = &volume["Labels"][key.as_str()];
        if there != value {
            differences.add(format!("labels.{key}"), value.clone(), there.clone());
        }
    }
}

fn remove(task: &mut Task, name: &str) -> Result<(), Failure> {
    if !task.check {
        task.engine
            .call(Request::delete(format!("/volumes/{}", encoded(name))))
            .map_err(|error| Failure::new(error.to_string()))?;
    }
    task.act(format!("Removed volume {name}"));
    Ok(())
}
