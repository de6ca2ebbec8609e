//! Table of container properties: options, the engine's keys, and comparison rules.

use super::super::compare::{Shape, Strictness};
use crate::{Args, Failure, Spec};

/// An option, or a property derived from options, and its place in the engine's description.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) place: Place,
    pub(super) change: Change,
}

/// The way to change a property of an existing container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The engine can change it.
    InPlace,
    /// The container must be created again.
    Recreation,
}

/// Position in the engine's description.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// Key of `Config`, which is the top level of a create request.
    Config(&'static str),
    /// Key of `HostConfig`.
    Host(&'static str),
    /// Several keys, or another format; handled in `request.rs` and `state.rs`.
    Own,
}

const fn config(name: &'static str, shape: Shape, key: &'static str) -> Field {
    Field { name, shape, place: Place::Config(key), change: Change::Recreation }
}

const fn host(name: &'static str, shape: Shape, key: &'static str) -> Field {
    Field { name, shape, place: Place::Host(key), change: Change::Recreation }
}

const fn limit(name: &'static str, key: &'static str) -> Field {
    Field { name, shape: Shape::Value, place: Place::Host(key), change: Change::InPlace }
}

const fn own(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, place: Place::Own, change: Change::Recreation }
}

use Shape::{List, Map, Maps, Set, Value};

/// In the order in which differences are reported.
pub(super) static FIELDS: &[Field] = &[
    host("auto_remove", Value, "AutoRemove"),
    limit("blkio_weight", "BlkioWeight"),
    host("capabilities", Set, "CapAdd"),
    host("cap_drop", Set, "CapDrop"),
    host("cgroupns_mode", Value, "CgroupnsMode"),
    host("cgroup_parent", Value, "CgroupParent"),
    config("command", List, "Cmd"),
    limit("cpu_period", "CpuPeriod"),
    limit("cpu_quota", "CpuQuota"),
    limit("cpuset_cpus", "CpusetCpus"),
    limit("cpuset_mems", "CpusetMems"),
    limit("cpu_shares", "CpuShares"),
    config("entrypoint", List, "Entrypoint"),
    host("cpus", Value, "NanoCpus"),
    own("detach", Value),
    own("interactive", Value),
    host("devices", Maps, "Devices"),
    host("device_read_bps", Maps, "BlkioDeviceReadBps"),
    host("device_write_bps", Maps, "BlkioDeviceWriteBps"),
    host("device_read_iops", Maps, "BlkioDeviceReadIOps"),
    host("device_write_iops", Maps, "BlkioDeviceWriteIOps"),
    host("device_requests", Maps, "DeviceRequests"),
    host("device_cgroup_rules", List, "DeviceCgroupRules"),
    host("dns_servers", List, "Dns"),
    host("dns_opts", Set, "DnsOptions"),
    host("dns_search_domains", List, "DnsSearch"),
    config("domainname", Value, "Domainname"),
    config("env", Set, "Env"),
    host("etc_hosts", Set, "ExtraHosts"),
    host("groups", Set, "GroupAdd"),
    config("healthcheck", Map, "Healthcheck"),
    config("hostname", Value, "Hostname"),
    config("image", Value, "Image"),
    host("init", Value, "Init"),
    host("ipc_mode", Value, "IpcMode"),
    limit("kernel_memory", "KernelMemory"),
    config("labels", Map, "Labels"),
    host("links", Set, "Links"),
    own("log_driver", Value),
    own("log_options", Map),
    config("mac_address", Value, "MacAddress"),
    limit("memory", "Memory"),
    limit("memory_reservation", "MemoryReservation"),
    limit("memory_swap", "MemorySwap"),
    host("memory_swappiness", Value, "MemorySwappiness"),
    config("stop_timeout", Value, "StopTimeout"),
    host("network_mode", Value, "NetworkMode"),
    own("networks", Maps),
    host("oom_killer", Value, "OomKillDisable"),
    host("oom_score_adj", Value, "OomScoreAdj"),
    host("pid_mode", Value, "PidMode"),
    host("pids_limit", Value, "PidsLimit"),
    own("platform", Value),
    host("privileged", Value, "Privileged"),
    host("read_only", Value, "ReadonlyRootfs"),
    Field { name: "restart_policy", shape: Value, place: Place::Own, change: Change::InPlace },
    Field { name: "restart_retries", shape: Value, place: Place::Own, change: Change::InPlace },
    host("runtime", Value, "Runtime"),
    host("security_opts", Set, "SecurityOpt"),
    host("shm_size", Value, "ShmSize"),
    config("stop_signal", Value, "StopSignal"),
    host("storage_opts", Map, "StorageOpt"),
    host("sysctls", Map, "Sysctls"),
    host("tmpfs", Map, "Tmpfs"),
    config("tty", Value, "Tty"),
    host("ulimits", Maps, "Ulimits"),
    config("user", Value, "User"),
    host("userns_mode", Value, "UsernsMode"),
    host("uts", Value, "UTSMode"),
    host("volume_driver", Value, "VolumeDriver"),
    host("volumes_from", Set, "VolumesFrom"),
    config("working_dir", Value, "WorkingDir"),
    own("mounts", Maps),
    own("volumes", Set),
    own("volume_binds", Set),
    own("exposed_ports", Set),
    own("publish_all_ports", Value),
    own("published_ports", Map),
];

/// Fields derived from other options.
const DERIVED: &[&str] = &["volume_binds"];

/// Strictness of each field's comparison.
#[derive(Debug)]
pub(super) struct Comparisons {
    strictness: Vec<Strictness>,
}

impl Comparisons {
    /// The defaults of the fields, overridden by `comparisons`.
    pub(super) fn of(args: &Args, spec: &Spec) -> Result<Comparisons, Failure> {
        let usual = |field: &Field| match (field.name, field.shape) {
            ("stop_timeout", _) => Strictness::Ignore,
            (_, List | Value) => Strictness::Strict,
            _ => Strictness::Subset,
        };
        let mut all = Comparisons { strictness: FIELDS.iter().map(usual).collect() };
        let Some(given) = args.value("comparisons").and_then(serde_json::Value::as_object) else { return Ok(all) };
        if let Some(mode) = given.get("*") {
            let mode = match mode.as_str() {
                Some("strict") => Strictness::Strict,
                Some("ignore") => Strictness::Ignore,
                _ => {
                    return Err(Failure::new(
                        "The wildcard can only be used with comparison modes 'strict' and 'ignore'!",
                    ));
                }
            };
            for (index, field) in FIELDS.iter().enumerate() {
                // Networks are compared only if given.
                if field.name != "networks" || args.value("networks").is_some() {
                    all.set(index, mode);
                }
            }
        }
        let mut used: Vec<(usize, &str)> = Vec::new();
        for (name, mode) in given.iter().filter(|(name, _)| *name != "*") {
            let option = spec.option(name);
            let found = option.and_then(|option| index_of(option.name)).filter(|_| !DERIVED.contains(&name.as_str()));
            let Some(index) = found else {
                return Err(Failure::new(match option {
                    Some(_) => format!(
                        "The module option '{name}' cannot be specified in the comparisons dict, since it does not correspond to container's state!"
                    ),
                    None => format!("Unknown module option '{name}' in comparisons dict!"),
                }));
            };
            if let Some((_, earlier)) = used.iter().find(|(known, _)| *known == index) {
                let main = FIELDS.get(index).map_or("", |field| field.name);
                return Err(Failure::new(format!(
                    "Both '{name}' and '{earlier}' (aliases of {main}) are specified in comparisons dict!"
                )));
            }
            used.push((index, name));
            let is_value = FIELDS.get(index).is_some_and(|field| field.shape == Value);
            let mode = match mode.as_str() {
                Some("strict") => Strictness::Strict,
                Some("ignore") => Strictness::Ignore,
                Some("allow_more_present") if is_value => {
                    return Err(Failure::new(format!(
                        "Option '{name}' is a value and not a set/list/dict, so its comparison cannot be allow_more_present"
                    )));
                }
                Some("allow_more_present") => Strictness::Subset,
                _ => {
                    return Err(Failure::new(format!("Unknown comparison mode '{}'!", super::super::plain_text(mode))));
                }
            };
            all.set(index, mode);
        }
        if let Some(binds) = index_of("volume_binds") {
            let volumes = all.get("volumes");
            all.set(binds, volumes);
        }
        Ok(all)
    }

    fn set(&mut self, index: usize, mode: Strictness) {
        if let Some(strictness) = self.strictness.get_mut(index) {
            *strictness = mode;
        }
    }

    /// Strictness of one field.
    pub(super) fn get(&self, name: &str) -> Strictness {
        index_of(name).and_then(|index| self.strictness.get(index)).copied().unwrap_or(Strictness::Ignore)
    }
}

fn index_of(name: &str) -> Option<usize> {
    FIELDS.iter().position(|field| field.name == name)
}
