//! What `docker_container` takes.

use super::super::{ENGINE_OPTIONS, with_engine};
use crate::{Kind, Opt};

const TEXTS: Kind = Kind::List(&Kind::Str);

/// Options about how the module goes about it.
const HANDLING: [Opt; 25] = [
    Opt::required("name", Kind::Str, "The container, or the beginning of its id."),
    Opt::new("image", Kind::Str, "The image it is made of; needed if it is not there yet."),
    Opt::new("state", Kind::Str, "`present` makes it without starting it, `healthy` waits for its health check.")
        .default("\"started\"")
        .choices(&["absent", "present", "healthy", "started", "stopped"]),
    Opt::new("cleanup", Kind::Bool, "Remove it after its end, with `detach: false`.").default("false"),
    Opt::new(
        "comparisons",
        Kind::Dict,
        "How an option is compared with what is there: `strict`, `ignore`, or `allow_more_present` for lists and mappings; `*` is for all.",
    ),
    Opt::new(
        "container_default_behavior",
        Kind::Str,
        "`compatibility` gives several options the defaults they once had.",
    )
    .default("\"no_defaults\"")
    .choices(&["compatibility", "no_defaults"]),
    Opt::new("command_handling", Kind::Str, "`compatibility` splits and joins lists as it once was.")
        .default("\"correct\"")
        .choices(&["compatibility", "correct"]),
    Opt::new(
        "default_host_ip",
        Kind::Str,
        "The address for published ports that name none; 0.0.0.0, or what the network says.",
    ),
    Opt::new("force_kill", Kind::Bool, "Kill it instead of stopping it.").aliases(&["forcekill"]).default("false"),
    Opt::new(
        "image_comparison",
        Kind::Str,
        "Whose defaults are expected: those of the image wanted or of the one it has.",
    )
    .default("\"desired-image\"")
    .choices(&["desired-image", "current-image"]),
    Opt::new("image_label_mismatch", Kind::Str, "With strict labels: whether labels of the image may be there.")
        .default("\"ignore\"")
        .choices(&["ignore", "fail"]),
    Opt::new("image_name_mismatch", Kind::Str, "Whether another name of the same image is another container.")
        .default("\"recreate\"")
        .choices(&["ignore", "recreate"]),
    Opt::new("keep_volumes", Kind::Bool, "Keep its nameless volumes when it is removed.").default("true"),
    Opt::new("kill_signal", Kind::Str, "The signal that kills it."),
    Opt::new("networks_cli_compatible", Kind::Bool, "Connect it to `networks` when it is made, as docker run does.")
        .default("true"),
    Opt::new("output_logs", Kind::Bool, "Accepted; what it printed is in the result.").default("false"),
    Opt::new("paused", Kind::Bool, "Whether it is paused."),
    Opt::new("pull", Kind::Raw, "When the image is pulled.")
        .default("\"missing\"")
        .choices(&["never", "missing", "always", "True", "False"]),
    Opt::new("pull_check_mode_behavior", Kind::Str, "What check mode says of `pull: always`.")
        .default("\"image_not_present\"")
        .choices(&["image_not_present", "always"]),
    Opt::new("recreate", Kind::Bool, "Make it anew even if it is as wanted.").default("false"),
    Opt::new("removal_wait_timeout", Kind::Float, "How many seconds its removal may take."),
    Opt::new("restart", Kind::Bool, "Restart it if it runs.").default("false"),
    Opt::new("healthy_wait_timeout", Kind::Float, "How many seconds it may take to get healthy; 0 is no limit.")
        .default("300"),
    Opt::new("detach", Kind::Bool, "False waits for its end; its output is then in `container.Output`."),
    Opt::new("env_file", Kind::Path, "A file with lines NAME=VALUE."),
];

/// Options that describe the container.
const DESCRIBING: [Opt; 72] = [
    Opt::new("auto_remove", Kind::Bool, "The engine removes it when it ends."),
    Opt::new("blkio_weight", Kind::Int, "Its share of disks, 10 to 1000."),
    Opt::new("capabilities", TEXTS, "Capabilities it has besides."),
    Opt::new("cap_drop", TEXTS, "Capabilities it has not."),
    Opt::new("cgroupns_mode", Kind::Str, "Whose cgroups it sees.").choices(&["private", "host"]),
    Opt::new("cgroup_parent", Kind::Str, "The cgroup above its own."),
    Opt::new("command", Kind::Raw, "What it runs: a text, or a list of words."),
    Opt::new("cpu_period", Kind::Int, "The period of its CPU quota, in microseconds."),
    Opt::new("cpu_quota", Kind::Int, "Its CPU time in each period."),
    Opt::new("cpuset_cpus", Kind::Str, "The CPUs it may use."),
    Opt::new("cpuset_mems", Kind::Str, "The memory nodes it may use."),
    Opt::new("cpu_shares", Kind::Int, "Its share of CPU time."),
    Opt::new("entrypoint", TEXTS, "What its command is given to."),
    Opt::new("cpus", Kind::Float, "How many CPUs it may use."),
    Opt::new("interactive", Kind::Bool, "Keep its standard input open."),
    Opt::new("devices", TEXTS, "Devices: `host[:container[:rwm]]`."),
    Opt::new("device_read_bps", Kind::List(&Kind::Dict), "Limits for reading, in bytes.").options(&RATE_TEXT),
    Opt::new("device_write_bps", Kind::List(&Kind::Dict), "Limits for writing, in bytes.").options(&RATE_TEXT),
    Opt::new("device_read_iops", Kind::List(&Kind::Dict), "Limits for reading, in operations.").options(&RATE_NUMBER),
    Opt::new("device_write_iops", Kind::List(&Kind::Dict), "Limits for writing, in operations.").options(&RATE_NUMBER),
    Opt::new("device_requests", Kind::List(&Kind::Dict), "Devices of drivers, such as GPUs.").options(&[
        Opt::new("capabilities", Kind::List(&Kind::Raw), "Lists of capabilities, any of which is enough."),
        Opt::new("count", Kind::Int, "How many; -1 is all."),
        Opt::new("device_ids", TEXTS, "Which ones."),
        Opt::new("driver", Kind::Str, "The driver."),
        Opt::new("options", Kind::Dict, "What it is told."),
    ]),
    Opt::new("device_cgroup_rules", TEXTS, "Rules such as `c 42:* rmw`."),
    Opt::new("dns_servers", TEXTS, "Name servers."),
    Opt::new("dns_opts", TEXTS, "Options of name lookups."),
    Opt::new("dns_search_domains", TEXTS, "Domains to look names up in."),
    Opt::new("domainname", Kind::Str, "Its domain."),
    Opt::new("env", Kind::Dict, "Environment variables; the values must be texts."),
    Opt::new("etc_hosts", Kind::Dict, "Names and addresses for its /etc/hosts."),
    Opt::new("groups", TEXTS, "Further groups of its user."),
    Opt::new("healthcheck", Kind::Dict, "How its health is found out.").options(&[
        Opt::new("test", Kind::Raw, "The command; `NONE` for no check."),
        Opt::new("test_cli_compatible", Kind::Bool, "Without `test`, the image's is used.").default("false"),
        Opt::new("interval", Kind::Str, "The time between two, such as 1m30s."),
        Opt::new("timeout", Kind::Str, "How long one may take."),
        Opt::new("start_period", Kind::Str, "How long it may take to start."),
        Opt::new("start_interval", Kind::Str, "The time between two meanwhile."),
        Opt::new("retries", Kind::Int, "How many must fail."),
    ]),
    Opt::new("hostname", Kind::Str, "Its host name."),
    Opt::new("init", Kind::Bool, "Run an init in it."),
    Opt::new("ipc_mode", Kind::Str, "Whose shared memory it sees."),
    Opt::new("kernel_memory", Kind::Str, "Its limit of kernel memory."),
    Opt::new("labels", Kind::Dict, "Labels, as texts."),
    Opt::new("links", TEXTS, "Other containers: `name[:alias]`."),
    Opt::new("log_driver", Kind::Str, "Who keeps what it prints."),
    Opt::new("log_options", Kind::Dict, "What that is told.").aliases(&["log_opt"]),
    Opt::new("mac_address", Kind::Str, "Its hardware address."),
    Opt::new("memory", Kind::Str, "Its limit of memory."),
    Opt::new("memory_reservation", Kind::Str, "Its soft limit of memory."),
    Opt::new("memory_swap", Kind::Str, "Its limit of memory and swap; `unlimited` or -1."),
    Opt::new("memory_swappiness", Kind::Int, "How readily it is swapped out."),
    Opt::new("stop_timeout", Kind::Int, "How many seconds it may take to stop."),
    Opt::new("network_mode", Kind::Str, "Its network: bridge, host, none, `container:NAME`, or a network's name."),
    Opt::new("networks", Kind::List(&Kind::Dict), "The networks it is in.").options(&[
        Opt::required("name", Kind::Str, "The network."),
        Opt::new("ipv4_address", Kind::Str, "Its address there."),
        Opt::new("ipv6_address", Kind::Str, "Its address of IPv6."),
        Opt::new("aliases", TEXTS, "Its other names there."),
        Opt::new("links", TEXTS, "Other containers there."),
        Opt::new("mac_address", Kind::Str, "Its hardware address there."),
    ]),
    Opt::new("oom_killer", Kind::Bool, "True keeps it from being killed for want of memory."),
    Opt::new("oom_score_adj", Kind::Int, "How soon it is."),
    Opt::new("pid_mode", Kind::Str, "Whose processes it sees."),
    Opt::new("pids_limit", Kind::Int, "How many processes it may have."),
    Opt::new("platform", Kind::Str, "The platform of its image: `os[/arch[/variant]]`."),
    Opt::new("privileged", Kind::Bool, "It may do all that the host's root may."),
    Opt::new("read_only", Kind::Bool, "Its root file system cannot be written to."),
    Opt::new("restart_policy", Kind::Str, "When the engine starts it again.").choices(&[
        "no",
        "on-failure",
        "always",
        "unless-stopped",
    ]),
    Opt::new("restart_retries", Kind::Int, "How often, with on-failure."),
    Opt::new("runtime", Kind::Str, "The runtime."),
    Opt::new("security_opts", TEXTS, "Options of SELinux, AppArmor and seccomp."),
    Opt::new("shm_size", Kind::Str, "The size of its /dev/shm."),
    Opt::new("stop_signal", Kind::Str, "The signal that stops it."),
    Opt::new("storage_opts", Kind::Dict, "What its storage driver is told."),
    Opt::new("sysctls", Kind::Dict, "Kernel settings of its own."),
    Opt::new("tmpfs", TEXTS, "Places in memory: `path[:options]`."),
    Opt::new("tty", Kind::Bool, "It has a terminal."),
    Opt::new("ulimits", TEXTS, "Limits: `name:soft[:hard]`."),
    Opt::new("user", Kind::Str, "Its user."),
    Opt::new("userns_mode", Kind::Str, "Whose users it sees."),
    Opt::new("uts", Kind::Str, "Whose host name it sees."),
    Opt::new("volume_driver", Kind::Str, "Who makes its volumes."),
    Opt::new("volumes_from", TEXTS, "Containers whose volumes it has too."),
    Opt::new("working_dir", Kind::Str, "The folder its command starts in."),
    Opt::new("mounts", Kind::List(&Kind::Dict), "What is mounted in it.").options(&[
        Opt::required("target", Kind::Str, "Where."),
        Opt::new("source", Kind::Str, "What: a path, or a volume."),
        Opt::new("type", Kind::Str, "What kind of mount.")
            .default("\"volume\"")
            .choices(&["bind", "volume", "tmpfs", "npipe", "cluster", "image"]),
        Opt::new("read_only", Kind::Bool, "It cannot be written to."),
        Opt::new("consistency", Kind::Str, "How soon both sides see changes.").choices(&[
            "default",
            "consistent",
            "cached",
            "delegated",
        ]),
        Opt::new("propagation", Kind::Str, "Whether mounts in it are seen on the other side.")
            .choices(&["private", "rprivate", "shared", "rshared", "slave", "rslave"]),
        Opt::new("no_copy", Kind::Bool, "An empty volume is not filled from the image."),
        Opt::new("labels", Kind::Dict, "Labels of the volume."),
        Opt::new("volume_driver", Kind::Str, "Who makes the volume."),
        Opt::new("volume_options", Kind::Dict, "What that is told."),
        Opt::new("tmpfs_size", Kind::Str, "The size of a tmpfs."),
        Opt::new("tmpfs_mode", Kind::Str, "Its permissions, in octal digits."),
        Opt::new("non_recursive", Kind::Bool, "Without the mounts below."),
        Opt::new("create_mountpoint", Kind::Bool, "Make the path on the host if it is not there."),
        Opt::new("read_only_non_recursive", Kind::Bool, "Mounts below can be written to."),
        Opt::new("read_only_force_recursive", Kind::Bool, "They must be read-only too."),
        Opt::new("subpath", Kind::Str, "The path in the volume or image."),
        Opt::new("tmpfs_options", Kind::List(&Kind::Dict), "Options of a tmpfs, each a mapping of one key."),
    ]),
    Opt::new("volumes", TEXTS, "What is mounted in it: `source:path[:mode]`, or a path alone."),
];

const PORTS: [Opt; 3] = [
    Opt::new("exposed_ports", TEXTS, "Ports that other containers may use: `port[-port][/protocol]`.")
        .aliases(&["exposed", "expose"]),
    Opt::new("publish_all_ports", Kind::Bool, "Give all of them ports of the host."),
    Opt::new("published_ports", TEXTS, "Ports of the host: `[[address:]port:]port[/protocol]`.").aliases(&["ports"]),
];

const RATE_TEXT: [Opt; 2] = [
    Opt::required("path", Kind::Str, "The device."),
    Opt::required("rate", Kind::Str, "How much a second, such as 10M."),
];
const RATE_NUMBER: [Opt; 2] =
    [Opt::required("path", Kind::Str, "The device."), Opt::required("rate", Kind::Int, "How many a second.")];

const OWN: [Opt; HANDLING.len() + DESCRIBING.len() + PORTS.len()] = {
    let mut all = [PORTS[0]; HANDLING.len() + DESCRIBING.len() + PORTS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < HANDLING.len() {
            HANDLING[at]
        } else if at < HANDLING.len() + DESCRIBING.len() {
            DESCRIBING[at - HANDLING.len()]
        } else {
            PORTS[at - HANDLING.len() - DESCRIBING.len()]
        };
        at += 1;
    }
    all
};

/// All of them.
pub(super) const OPTIONS: [Opt; OWN.len() + ENGINE_OPTIONS.len()] = with_engine(OWN);
