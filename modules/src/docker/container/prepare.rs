//! Converts option values to the engine's format.

use std::path::Path;

use serde_json::{Value, json};

use super::super::{engine::Engine, labels, lookup, plain_text};
use super::{mounts, ports};
use crate::{Args, Failure, Host, Map, args, files::way};

/// The requested values: for each field that the task names, the value in the engine's format. Warnings go to
/// `warnings`.
pub(super) fn values(args: &Args, engine: &Engine, host: &Host, warnings: &mut Vec<String>) -> Result<Map, Failure> {
    let mut values = Map::new();
    for name in PLAIN {
        if let Some(value) = args.value(name) {
            values.insert((*name).to_owned(), value.clone());
        }
    }
    if args.str("container_default_behavior") == Some("compatibility") {
        add_old_defaults(&mut values);
    }
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            values.insert(name.to_owned(), value);
        }
    };
    set("command", command(args)?);
    set("entrypoint", entrypoint(args)?);
    set("cpus", args.float("cpus").map(|cpus| ((cpus * 1e9).round_ties_even() as i64).into()));
    set("devices", mapped(args, "devices", device));
    for name in ["device_read_bps", "device_write_bps", "device_read_iops", "device_write_iops"] {
        set(name, rates(args, name)?);
    }
    set("device_requests", mapped(args, "device_requests", device_request));
    set("env", environment(args)?);
    set("etc_hosts", etc_hosts(args));
    set("healthcheck", healthcheck(args)?);
    for (name, unlimited) in SIZES {
        if let Some(text) = args.value(name) {
            set(name, Some(bytes(text, *unlimited, name)?.into()));
        }
    }
    set("labels", labels(args.value("labels"), "labels")?.map(Value::from));
    let own_name = args.required("name")?;
    set("links", mapped(args, "links", |link| linked(link, own_name)));
    if let Some(driver) = args.value("log_driver") {
        set("log_driver", Some(driver.clone()));
        set("log_options", log_options(args, warnings));
    }
    set("mac_address", args.str("mac_address").map(|address| address.replace('-', ":").into()));
    for name in ["ipc_mode", "pid_mode", "network_mode"] {
        let first = || (name == "network_mode").then(|| first_network(args)).flatten();
        if let Some(mode) = args.str(name).map(str::to_owned).or_else(first) {
            set(name, Some(shared_with(&mode, engine, warnings)?.into()));
        }
    }
    set("sysctls", sysctls(args));
    set("tmpfs", tmpfs(args));
    set("ulimits", ulimits(args)?);
    mounts::prepare(args, &mut values, host)?;
    let published = ports::published(args, engine)?;
    values.insert("ports".into(), ports::exposed(args, published.as_ref())?.into());
    if let Some(published) = published {
        values.insert("published_ports".into(), published.into());
    }
    Ok(values)
}

/// Options whose values the engine takes unchanged.
const PLAIN: &[&str] = &[
    "auto_remove",
    "blkio_weight",
    "capabilities",
    "cap_drop",
    "cgroupns_mode",
    "cgroup_parent",
    "cpu_period",
    "cpu_quota",
    "cpuset_cpus",
    "cpuset_mems",
    "cpu_shares",
    "detach",
    "interactive",
    "device_cgroup_rules",
    "dns_servers",
    "dns_opts",
    "dns_search_domains",
    "domainname",
    "groups",
    "hostname",
    "image",
    "init",
    "memory_swappiness",
    "stop_timeout",
    "oom_killer",
    "oom_score_adj",
    "pids_limit",
    "platform",
    "privileged",
    "read_only",
    "restart_policy",
    "restart_retries",
    "runtime",
    "security_opts",
    "stop_signal",
    "storage_opts",
    "tty",
    "user",
    "userns_mode",
    "uts",
    "volume_driver",
    "volumes_from",
    "working_dir",
    "publish_all_ports",
];

/// Options that are sizes in bytes, and the value of `unlimited`, if allowed.
const SIZES: &[(&str, Option<i64>)] = &[
    ("kernel_memory", None),
    ("memory", None),
    ("memory_reservation", None),
    ("memory_swap", Some(-1)),
    ("shm_size", None),
];

/// Adds the values that older versions of the module sent for omitted options.
fn add_old_defaults(values: &mut Map) {
    for name in ["auto_remove", "init", "interactive", "privileged", "read_only", "tty"] {
        values.entry(name).or_insert(false.into());
    }
    values.entry("detach").or_insert(true.into());
    values.insert("memory".into(), 0.into());
}

/// Like docker run, uses the first of `networks` as the container's network mode.
fn first_network(args: &Args) -> Option<String> {
    let networks = args.value("networks").and_then(Value::as_array).filter(|_| args.bool("networks_cli_compatible"))?;
    Some(networks.first()?["name"].as_str()?.to_owned())
}

fn mapped(args: &Args, name: &str, form: impl Fn(&Value) -> Value) -> Option<Value> {
    let items = args.value(name)?.as_array()?;
    Some(items.iter().map(form).collect())
}

fn words(text: &str, option: &str) -> Result<Vec<String>, Failure> {
    shell_words::split(text).map_err(|_| Failure::new(format!("{option} has a quote that is not closed: {text}")))
}

fn command(args: &Args) -> Result<Option<Value>, Failure> {
    let Some(given) = args.value("command") else { return Ok(None) };
    let correct = args.str("command_handling") != Some("compatibility");
    let list = given.as_array().map(|items| items.iter().map(plain_text).collect::<Vec<_>>());
    match (list, correct) {
        (Some(list), true) => Ok(Some(list.into())),
        (Some(list), false) if list.is_empty() => Ok(None),
        (Some(list), false) => Ok(Some(words(&list.join(" "), "command")?.into())),
        (None, _) => {
            let text = plain_text(given);
            if !correct && text.is_empty() { Ok(None) } else { Ok(Some(words(&text, "command")?.into())) }
        }
    }
}

fn entrypoint(args: &Args) -> Result<Option<Value>, Failure> {
    if args.value("entrypoint").is_none() {
        return Ok(None);
    }
    let list = args.list("entrypoint");
    if args.str("command_handling") != Some("compatibility") {
        return Ok(Some(list.into()));
    }
    if list.is_empty() { Ok(None) } else { Ok(Some(words(&list.join(" "), "entrypoint")?.into())) }
}

fn device(text: &Value) -> Value {
    let parts: Vec<&str> = text.as_str().unwrap_or_default().split(':').collect();
    let host = parts.first().copied().unwrap_or_default();
    json!({
        "CgroupPermissions": parts.get(2).copied().unwrap_or("rwm"),
        "PathInContainer": parts.get(1).copied().unwrap_or(host),
        "PathOnHost": host,
    })
}

fn rates(args: &Args, name: &str) -> Result<Option<Value>, Failure> {
    let Some(given) = args.value(name).and_then(Value::as_array) else { return Ok(None) };
    let form = |limit: &Value| {
        let rate = bytes(&limit["rate"], None, &format!("the rate of {name}"))?;
        Ok(json!({ "Path": limit["path"], "Rate": rate }))
    };
    Ok(Some(given.iter().map(form).collect::<Result<Vec<_>, Failure>>()?.into()))
}

fn device_request(request: &Value) -> Value {
    json!({
        "Driver": request["driver"], "Count": request["count"], "DeviceIDs": request["device_ids"],
        "Capabilities": request["capabilities"], "Options": request["options"],
    })
}

fn environment(args: &Args) -> Result<Option<Value>, Failure> {
    let (file, given) = (args.str("env_file"), args.value("env").and_then(Value::as_object));
    if file.is_none() && given.is_none() {
        return Ok(None);
    }
    let mut all = Map::new();
    if let Some(path) = file {
        let text = way::read_text(Path::new(path)).map_err(|error| {
            Failure::new(format!("env_file {path} could not be read: {}.", crate::process::reason(&error)))
        })?;
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let (name, value) = line.trim().split_once('=').ok_or_else(|| {
                Failure::new(format!(
                    "An unexpected Docker error occurred: Invalid line in environment file {path}:\n{}",
                    line.trim()
                ))
            })?;
            all.insert(name.to_owned(), value.into());
        }
    }
    for (name, value) in given.into_iter().flatten() {
        if !value.is_string() {
            return Err(Failure::new(format!(
                "Non-string value found for env option. Ambiguous env options must be wrapped in quotes to avoid them being interpreted. Key: {name}"
            )));
        }
        all.insert(name.clone(), value.clone());
    }
    Ok(Some(all.iter().map(|(name, value)| Value::from(format!("{name}={}", plain_text(value)))).collect()))
}

fn etc_hosts(args: &Args) -> Option<Value> {
    let hosts = args.value("etc_hosts")?.as_object()?;
    Some(hosts.iter().map(|(name, address)| Value::from(format!("{name}:{}", plain_text(address)))).collect())
}

fn sysctls(args: &Args) -> Option<Value> {
    let settings = args.value("sysctls")?.as_object()?;
    Some(settings.iter().map(|(key, value)| (key.clone(), Value::from(plain_text(value)))).collect())
}

fn tmpfs(args: &Args) -> Option<Value> {
    args.value("tmpfs")?;
    let split = |text: &str| {
        let (path, options) = text.split_once(':').unwrap_or((text, ""));
        (path.to_owned(), Value::from(options))
    };
    Some(args.list("tmpfs").into_iter().map(split).collect())
}

/// A link such as `db:database` in the engine's format.
fn linked(link: &Value, own_name: &str) -> Value {
    let link = link.as_str().unwrap_or_default();
    let (name, alias) = link.split_once(':').unwrap_or((link, link));
    format!("/{name}:/{own_name}/{alias}").into()
}

fn healthcheck(args: &Args) -> Result<Option<Value>, Failure> {
    let Some(given) = args.value("healthcheck") else { return Ok(None) };
    let test = &given["test"];
    let absent = match test {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(words) => words.is_empty(),
        _ => false,
    };
    let mut result = Map::new();
    if absent && !(test.is_null() && given["test_cli_compatible"] == true) {
        return Ok(Some(json!({ "Test": ["NONE"] })));
    }
    if let Some(words) = test.as_array() {
        result.insert("Test".into(), words.iter().map(plain_text).collect());
    } else if !test.is_null() {
        result.insert("Test".into(), json!(["CMD-SHELL", plain_text(test)]));
    }
    for (name, key) in [
        ("interval", "Interval"),
        ("timeout", "Timeout"),
        ("start_period", "StartPeriod"),
        ("start_interval", "StartInterval"),
    ] {
        let Some(text) = given[name].as_str() else { continue };
        let nanoseconds = duration(text).ok_or_else(|| Failure::new(format!("Invalid time duration - {text}")))?;
        if nanoseconds > 0 {
            result.insert(key.into(), nanoseconds.into());
        }
    }
    if let Some(retries) = given["retries"].as_i64().filter(|retries| *retries != 0) {
        result.insert("Retries".into(), retries.into());
    }
    Ok(Some(result.into()))
}

/// Parses a duration such as `1h2m3s4ms5us` to nanoseconds.
fn duration(text: &str) -> Option<u64> {
    let units: [(&str, u64); 5] =
        [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    let (mut rest, mut total, mut next) = (text, 0u64, 0);
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit()).filter(|at| *at > 0)?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|character: char| character.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        // Each unit may occur once, larger units first.
        let at = units.iter().position(|(name, _)| *name == unit).filter(|at| *at >= next)?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(units.get(at)?.1)?)?;
        (rest, next) = (tail, at + 1);
    }
    Some(total)
}

fn log_options(args: &Args, warnings: &mut Vec<String>) -> Option<Value> {
    let given = args.value("log_options")?.as_object()?;
    let mut options = Map::new();
    for (key, value) in given {
        let text = plain_text(value);
        if !value.is_string() {
            warnings.push(format!(
                "Non-string value found for log_options option '{key}'. The value is automatically converted to '{text}'. If this is not correct, or you want to avoid such warnings, please quote the value."
            ));
        }
        options.insert(key.clone(), text.into());
    }
    Some(options.into())
}

/// Replaces the name in `container:NAME` with the container's id.
fn shared_with(mode: &str, engine: &Engine, warnings: &mut Vec<String>) -> Result<String, Failure> {
    let Some(name) = mode.strip_prefix("container:") else { return Ok(mode.to_owned()) };
    match lookup::container(engine, name)?.and_then(|found| Some(found["Id"].as_str()?.to_owned())) {
        Some(id) => Ok(format!("container:{id}")),
        None => {
            warnings.push(format!("Cannot find a container with name or ID \"{name}\""));
            Ok(mode.to_owned())
        }
    }
}

fn ulimits(args: &Args) -> Result<Option<Value>, Failure> {
    if args.value("ulimits").is_none() {
        return Ok(None);
    }
    let limits = args.list("ulimits").into_iter().map(ulimit).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(limits.into()))
}

fn ulimit(text: &str) -> Result<Value, Failure> {
    let number = |part: &str| {
        part.trim()
            .parse::<i64>()
            .map_err(|_| Failure::new(format!("The limit \"{text}\" of ulimits is not of the form name:soft[:hard].")))
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [name, soft] => Ok(json!({ "Name": name, "Soft": number(soft)?, "Hard": number(soft)? })),
        [name, soft, hard] => Ok(json!({ "Name": name, "Soft": number(soft)?, "Hard": number(hard)? })),
        _ => Err(Failure::new(format!("The limit \"{text}\" of ulimits is not of the form name:soft[:hard]."))),
    }
}

/// Parses a size in bytes; `what` names it in errors. `unlimited` is the value of that word, if allowed.
pub(in crate::docker) fn bytes(value: &Value, unlimited: Option<i64>, what: &str) -> Result<i64, Failure> {
    if let (Some(number), Value::String(text)) = (unlimited, value)
        && (text == "unlimited" || *text == number.to_string())
    {
        return Ok(number);
    }
    args::bytes(value).filter(|size| *size >= 0).ok_or_else(|| {
        let text = plain_text(value);
        Failure::new(format!(
            "Failed to convert {what} to bytes: human_to_bytes() can't interpret following string: {text}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_parsed() {
        assert_eq!(duration("1m30s"), Some(90_000_000_000));
        assert_eq!(duration("1h2ms3us"), Some(3_600_002_003_000));
        assert_eq!(duration(""), Some(0));
        for wrong in ["90", "s", "1s1m", "1d", "1s2s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
        assert_eq!(bytes(&json!("64M"), None, "memory").unwrap(), 64 << 20);
        assert_eq!(bytes(&json!("unlimited"), Some(-1), "memory_swap").unwrap(), -1);
        assert!(bytes(&json!("-1"), None, "memory").is_err());
    }
}
