//! `mounts` and `volumes`.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};

use super::super::texts;
use crate::{Args, Failure, Host, Map, args::expand_path};

/// Mount types that each option applies to.
const FOR_KINDS: &[(&str, &[&str])] = &[
    ("create_mountpoint", &["bind"]),
    ("labels", &["volume"]),
    ("no_copy", &["volume"]),
    ("non_recursive", &["bind"]),
    ("propagation", &["bind"]),
    ("read_only_force_recursive", &["bind"]),
    ("read_only_non_recursive", &["bind"]),
    ("subpath", &["volume", "image"]),
    ("tmpfs_size", &["tmpfs"]),
    ("tmpfs_mode", &["tmpfs"]),
    ("tmpfs_options", &["tmpfs"]),
    ("volume_driver", &["volume"]),
    ("volume_options", &["volume"]),
];

/// Words in the mode of a volume.
const MODES: &[&str] = &[
    "rw",
    "ro",
    "z",
    "Z",
    "consistent",
    "delegated",
    "cached",
    "rprivate",
    "private",
    "rshared",
    "shared",
    "rslave",
    "slave",
    "nocopy",
];

/// Options by the mount point that they claim.
#[derive(Default)]
struct Places(BTreeMap<String, &'static str>);

impl Places {
    fn claim(&mut self, place: &str, option: &'static str) -> Result<(), Failure> {
        match self.0.insert(place.to_owned(), option) {
            None => Ok(()),
            Some(other) if other == option => {
                Err(Failure::new(format!("The mount point \"{place}\" appears twice in the {option} option")))
            }
            Some(other) => Err(Failure::new(format!(
                "The mount point \"{place}\" appears both in the {option} and {other} option"
            ))),
        }
    }
}

/// Adds `mounts`, `volumes` and `volume_binds` to the values.
pub(super) fn prepare(args: &Args, values: &mut Map, host: &Host) -> Result<(), Failure> {
    let mut places = Places::default();
    if let Some(mounts) = args.value("mounts").and_then(Value::as_array) {
        let mounts = mounts.iter().filter_map(Value::as_object);
        let mounts = mounts.map(|mount| prepare_mount(mount, &mut places)).collect::<Result<Vec<_>, _>>()?;
        values.insert("mounts".into(), mounts.into());
    }
    if args.value("volumes").is_some() {
        let mut volumes = Vec::new();
        let mut binds = Vec::new();
        for text in args.list("volumes") {
            let volume = Volume::parse(text, host)?;
            places.claim(&volume.place, "volumes")?;
            if let Some(source) = &volume.source {
                let mode = volume.mode.as_deref().unwrap_or("rw");
                binds.push(format!("{source}:{}:{mode}", volume.place));
            }
            volumes.push(volume.text);
        }
        values.insert("volumes".into(), volumes.into());
        values.insert("volume_binds".into(), binds.into());
    }
    Ok(())
}

fn prepare_mount(mount: &Map, places: &mut Places) -> Result<Value, Failure> {
    let target = mount.get("target").and_then(Value::as_str).unwrap_or_default();
    let kind = mount.get("type").and_then(Value::as_str).unwrap_or("volume");
    places.claim(target, "mounts")?;
    let given = |name: &str| mount.get(name).filter(|value| !value.is_null());
    if given("source").is_none() && !matches!(kind, "tmpfs" | "volume" | "image" | "cluster") {
        return Err(Failure::new(format!("source must be specified for mount \"{target}\" of type \"{kind}\"")));
    }
    for (option, kinds) in FOR_KINDS {
        if given(option).is_some() && !kinds.contains(&kind) {
            return Err(Failure::new(format!(
                "{option} cannot be specified for mount \"{target}\" of type \"{kind}\" (needs type{} \"{}\")",
                if kinds.len() == 1 { "" } else { "s" },
                kinds.join("\", \"")
            )));
        }
    }
    let mut result: Map =
        mount.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.clone(), value.clone())).collect();
    let driver = given("volume_driver").and_then(Value::as_str).is_some_and(|driver| !driver.is_empty());
    match result.remove("volume_options") {
        Some(Value::Object(options)) if driver && !options.is_empty() => {
            result.insert("volume_options".into(), texts(&options).into());
        }
        _ => {}
    }
    if let Some(Value::Object(labels)) = given("labels") {
        result.insert("labels".into(), texts(labels).into());
    }
    if let Some(size) = given("tmpfs_size") {
        let bytes = super::prepare::bytes(size, None, &format!("tmpfs_size of mount \"{target}\""))?;
        result.insert("tmpfs_size".into(), bytes.into());
    }
    if let Some(mode) = given("tmpfs_mode").and_then(Value::as_str) {
        let digits = mode.strip_prefix("0o").unwrap_or(mode);
        let mode = u32::from_str_radix(digits, 8)
            .map_err(|_| Failure::new(format!("tmp_fs mode of mount \"{target}\" is not an octal string!")))?;
        result.insert("tmpfs_mode".into(), mode.into());
    }
    if let Some(options) = given("tmpfs_options").and_then(Value::as_array).filter(|options| !options.is_empty()) {
        let pairs = options.iter().enumerate().map(|(index, option)| tmpfs_option(option, index + 1, target));
        result.insert("tmpfs_options".into(), pairs.collect::<Result<Vec<_>, _>>()?.into());
    }
    Ok(result.into())
}

fn tmpfs_option(option: &Value, number: usize, target: &str) -> Result<Value, Failure> {
    let pair = option.as_object().filter(|map| map.len() == 1).and_then(|map| map.iter().next());
    match pair {
        Some((key, Value::Null)) => Ok(json!([key])),
        Some((key, Value::String(value))) => Ok(json!([key, value])),
        Some((_, value)) => Err(Failure::new(format!(
            "value {value} in tmpfs_options[{number}] of mount \"{target}\" must be a string or null/none!"
        ))),
        None => Err(Failure::new(format!(
            "tmpfs_options[{number}] of mount \"{target}\" must be a one-element dictionary!"
        ))),
    }
}

/// An entry of `volumes`.
struct Volume {
    /// Text for the engine.
    text: String,
    /// Path on the host or name of a volume; `None` for an anonymous volume.
    source: Option<String>,
    place: String,
    mode: Option<String>,
}

impl Volume {
    fn parse(text: &str, host: &Host) -> Result<Volume, Failure> {
        let parts: Vec<&str> = text.split(':').collect();
        let whole = |source: &str, place: &str, mode: &str| Volume {
            text: format!("{source}:{place}:{mode}"),
            source: Some(source.to_owned()),
            place: place.to_owned(),
            mode: Some(mode.to_owned()),
        };
        match parts.as_slice() {
            [source, place, mode] => {
                if !is_mode(mode) {
                    return Err(Failure::new(format!("Found invalid volumes mode: {mode}")));
                }
                Ok(whole(&path(source, host), place, mode))
            }
            [source, place] if !is_mode(place) => {
                if source.starts_with(['.', '~']) {
                    return Ok(whole(&path(source, host), place, "rw"));
                }
                Ok(Volume {
                    text: text.to_owned(),
                    source: Some((*source).to_owned()),
                    place: (*place).to_owned(),
                    mode: None,
                })
            }
            _ => Ok(Volume {
                text: text.to_owned(),
                source: None,
                place: parts.get(1.min(parts.len() - 1)).copied().unwrap_or_default().to_owned(),
                mode: None,
            }),
        }
    }
}

/// Resolves a path of the host that begins with a dot or a tilde.
fn path(source: &str, host: &Host) -> String {
    if !source.starts_with(['.', '~']) {
        return source.to_owned();
    }
    let expanded = expand_path(source, host);
    let absolute = std::path::absolute(Path::new(&expanded)).unwrap_or_else(|_| expanded.clone().into());
    let mut plain = std::path::PathBuf::new();
    for part in absolute.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain.to_string_lossy().into_owned()
}

fn is_mode(text: &str) -> bool {
    text.split(',').all(|word| MODES.contains(&word))
}

/// Whether an entry of `volumes` is an anonymous volume.
pub(super) fn is_nameless(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [_, _, _] => false,
        [_, mode] => is_mode(mode),
        _ => true,
    }
}

/// A mount in the engine's format.
pub(super) fn request(mount: &Value) -> Value {
    let kind = mount["type"].as_str().unwrap_or("volume");
    let mut result = json!({
        "Target": mount["target"], "Source": mount["source"], "Type": kind, "ReadOnly": mount["read_only"],
    });
    if let Some(consistency) = mount.get("consistency") {
        result["Consistency"] = consistency.clone();
    }
    // Collects keys that are sent if given, or only if not empty.
    let collect = |pairs: &[(&str, &str)], filled: bool| -> Map {
        let found = pairs.iter().filter_map(|(option, key)| Some(((*key).to_owned(), mount.get(*option)?.clone())));
        found.filter(|(_, value)| !filled || says_something(value)).collect()
    };
    let options = match kind {
        "bind" => collect(
            &[
                ("propagation", "Propagation"),
                ("non_recursive", "NonRecursive"),
                ("create_mountpoint", "CreateMountpoint"),
                ("read_only_non_recursive", "ReadOnlyNonRecursive"),
                ("read_only_force_recursive", "ReadOnlyForceRecursive"),
            ],
            false,
        ),
        "volume" => {
            let mut options = collect(&[("no_copy", "NoCopy"), ("labels", "Labels")], true);
            if let Some(driver) = mount.get("volume_driver").filter(|driver| says_something(driver)) {
                let mut config = json!({ "Name": driver });
                if let Some(told) = mount.get("volume_options") {
                    config["Options"] = told.clone();
                }
                options.insert("DriverConfig".into(), config);
            }
            options.extend(collect(&[("subpath", "Subpath")], false));
            options
        }
        "tmpfs" => {
            let mut options = collect(&[("tmpfs_mode", "Mode"), ("tmpfs_size", "SizeBytes")], true);
            options.extend(collect(&[("tmpfs_options", "Options")], false));
            options
        }
        "image" => collect(&[("subpath", "Subpath")], false),
        _ => Map::new(),
    };
    let key = match kind {
        "bind" => "BindOptions",
        "volume" => "VolumeOptions",
        "tmpfs" => "TmpfsOptions",
        _ => "ImageOptions",
    };
    if !options.is_empty() {
        result[key] = options.into();
    }
    result
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(true) => true,
    }
}

/// A mount of a container in the options' format.
pub(super) fn there(mount: &Value) -> Value {
    let or = |value: &Value, otherwise: Value| if value.is_null() { otherwise } else { value.clone() };
    let (bind, volume, tmpfs) = (&mount["BindOptions"], &mount["VolumeOptions"], &mount["TmpfsOptions"]);
    let driver = &volume["DriverConfig"];
    let subpath =
        if says_something(&volume["Subpath"]) { &volume["Subpath"] } else { &mount["ImageOptions"]["Subpath"] };
    json!({
        "type": mount["Type"], "source": mount["Source"], "target": mount["Target"],
        "read_only": or(&mount["ReadOnly"], false.into()),
        "consistency": mount["Consistency"],
        "propagation": bind["Propagation"],
        "no_copy": or(&volume["NoCopy"], false.into()),
        "labels": or(&volume["Labels"], json!({})),
        "volume_driver": driver["Name"],
        "volume_options": or(&driver["Options"], json!({})),
        "tmpfs_size": tmpfs["SizeBytes"], "tmpfs_mode": tmpfs["Mode"],
        "non_recursive": bind["NonRecursive"],
        "create_mountpoint": bind["CreateMountpoint"],
        "read_only_non_recursive": bind["ReadOnlyNonRecursive"],
        "read_only_force_recursive": bind["ReadOnlyForceRecursive"],
        "subpath": subpath, "tmpfs_options": tmpfs["Options"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_entries_parsed() {
        let host = Host::alone();
        let text = |entry: &str| Volume::parse(entry, &host).unwrap().text;
        assert_eq!(text("/srv:/data:ro,z"), "/srv:/data:ro,z");
        assert_eq!(text("/srv:/data"), "/srv:/data");
        assert_eq!(text("/srv/x:/data"), "/srv/x:/data");
        assert!(text("./x/../y:/data").ends_with("/y:/data:rw"));
        assert!(Volume::parse("/srv:/data:often", &host).is_err());
        assert!(is_nameless("/data") && is_nameless("/data:ro") && !is_nameless("data:/data"));
    }
}
