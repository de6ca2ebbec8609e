//! Options of `docker_container`.

use super::super::{ENGINE_OPTIONS, with_engine};
use crate::{Kind, Opt};

const TEXTS: Kind = Kind::List(&Kind::Str);

/// Options that control the module.
const HANDLING: [Opt; 25] = [
    Opt::required("name", Kind::Str, "Name of the container, or the beginning of its id."),
    Opt::new("image", Kind::Str, "Image of the container; required to create it."),
    Opt::new(
        "state",
        Kind::Str,
        "`present` creates the container without starting it, `started` starts it, `healthy` also waits for its \
         health check, `stopped` stops it, `absent` removes it.",
    )
    .default("\"started\"")
    .choices(&["absent", "present", "healthy", "started", "stopped"]),
    Opt::new("cleanup", Kind::Bool, "With `detach: false`: remove the container after its end.").default("false"),
    Opt::new(
        "comparisons",
        Kind::Dict,
        "Comparison of each option: `strict`, `ignore`, or `allow_more_present` for lists and mappings; `*` stands \
         for all options.",
    ),
    Opt::new("container_default_behavior", Kind::Str, "`compatibility` applies old defaults to several options.")
        .default("\"no_defaults\"")
        .choices(&["compatibility", "no_defaults"]),
    Opt::new("command_handling", Kind::Str, "`compatibility` splits and joins lists in the old way.")
        .default("\"correct\"")
        .choices(&["compatibility", "correct"]),
    Opt::new(
        "default_host_ip",
        Kind::Str,
        "Address for published ports without one. Default: the network's setting, otherwise 0.0.0.0.",
    ),
    Opt::new("force_kill", Kind::Bool, "Kill the container instead of stopping it.")
        .aliases(&["forcekill"])
        .default("false"),
    Opt::new(
        "image_comparison",
        Kind::Str,
        "Image whose defaults are expected: the requested one or the container's current one.",
    )
    .default("\"desired-image\"")
    .choices(&["desired-image", "current-image"]),
    Opt::new(
        "image_label_mismatch",
        Kind::Str,
        "With strict comparison of labels: ignore labels of the image, or fail because of them.",
    )
    .default("\"ignore\"")
    .choices(&["ignore", "fail"]),
    Opt::new(
        "image_name_mismatch",
        Kind::Str,
        "If the container has the same image under another name: ignore the name, or recreate the container.",
    )
    .default("\"recreate\"")
    .choices(&["ignore", "recreate"]),
    Opt::new("keep_volumes", Kind::Bool, "Keep anonymous volumes when the container is removed.").default("true"),
    Opt::new("kill_signal", Kind::Str, "Signal that kills the container."),
    Opt::new(
        "networks_cli_compatible",
        Kind::Bool,
        "Connect the container to `networks` on creation, like docker run.",
    )
    .default("true"),
    Opt::new(
        "output_logs",
        Kind::Bool,
        "No effect, because the result contains the output; accepted for compatibility.",
    )
    .default("false"),
    Opt::new("paused", Kind::Bool, "Pause the container."),
    Opt::new("pull", Kind::Raw, "Policy for pulling the image.")
        .default("\"missing\"")
        .choices(&["never", "missing", "always", "True", "False"]),
    Opt::new(
        "pull_check_mode_behavior",
        Kind::Str,
        "With `pull: always` in check mode: report a change always, or only if the image is missing.",
    )
    .default("\"image_not_present\"")
    .choices(&["image_not_present", "always"]),
    Opt::new("recreate", Kind::Bool, "Recreate the container even if nothing differs.").default("false"),
    Opt::new("removal_wait_timeout", Kind::Float, "Seconds to wait until the container is removed."),
    Opt::new("restart", Kind::Bool, "Restart the container if it is running.").default("false"),
    Opt::new("healthy_wait_timeout", Kind::Float, "Seconds to wait until the container is healthy; 0 waits forever.")
        .default("300"),
    Opt::new(
        "detach",
        Kind::Bool,
        "Run in the background. `false` waits for the end and returns the output in `container.Output`.",
    ),
    Opt::new("env_file", Kind::Path, "File with lines of the form NAME=VALUE."),
];

/// Options that describe the container.
const DESCRIBING: [Opt; 72] = [
    Opt::new("auto_remove", Kind::Bool, "Let the engine remove the container when it ends."),
    Opt::new("blkio_weight", Kind::Int, "Weight of block I/O, 10 to 1000."),
    Opt::new("capabilities", TEXTS, "Capabilities to add."),
    Opt::new("cap_drop", TEXTS, "Capabilities to drop."),
    Opt::new("cgroupns_mode", Kind::Str, "Namespace of cgroups.").choices(&["private", "host"]),
    Opt::new("cgroup_parent", Kind::Str, "Parent cgroup."),
    Opt::new("command", Kind::Raw, "Command to run: a text, or a list of words."),
    Opt::new("cpu_period", Kind::Int, "Period of the CPU quota, in microseconds."),
    Opt::new("cpu_quota", Kind::Int, "CPU time per period, in microseconds."),
    Opt::new("cpuset_cpus", Kind::Str, "CPUs that the container may use."),
    Opt::new("cpuset_mems", Kind::Str, "Memory nodes that the container may use."),
    Opt::new("cpu_shares", Kind::Int, "Relative share of CPU time."),
    Opt::new("entrypoint", TEXTS, "Program that receives the command."),
    Opt::new("cpus", Kind::Float, "Number of CPUs that the container may use."),
    Opt::new("interactive", Kind::Bool, "Keep standard input open."),
    Opt::new("devices", TEXTS, "Devices, as `host[:container[:rwm]]`."),
    Opt::new("device_read_bps", Kind::List(&Kind::Dict), "Read limits of devices, in bytes per second.")
        .options(&RATE_TEXT),
    Opt::new("device_write_bps", Kind::List(&Kind::Dict), "Write limits of devices, in bytes per second.")
        .options(&RATE_TEXT),
    Opt::new("device_read_iops", Kind::List(&Kind::Dict), "Read limits of devices, in operations per second.")
        .options(&RATE_NUMBER),
    Opt::new("device_write_iops", Kind::List(&Kind::Dict), "Write limits of devices, in operations per second.")
        .options(&RATE_NUMBER),
    Opt::new("device_requests", Kind::List(&Kind::Dict), "Devices to request from drivers, such as GPUs.").options(&[
        Opt::new(
            "capabilities",
            Kind::List(&Kind::Raw),
            "Lists of capabilities; a device must satisfy one of the lists.",
        ),
        Opt::new("count", Kind::Int, "Number of devices; -1 requests all."),
        Opt::new("device_ids", TEXTS, "Ids of devices."),
        Opt::new("driver", Kind::Str, "Name of the device driver."),
        Opt::new("options", Kind::Dict, "Options of the device driver."),
    ]),
    Opt::new("device_cgroup_rules", TEXTS, "Device rules such as `c 42:* rmw`."),
    Opt::new("dns_servers", TEXTS, "Name servers of the container."),
    Opt::new("dns_opts", TEXTS, "Resolver options of the container."),
    Opt::new("dns_search_domains", TEXTS, "Search domains of the container."),
    Opt::new("domainname", Kind::Str, "Domain name of the container."),
    Opt::new("env", Kind::Dict, "Environment variables; the values must be text."),
    Opt::new("etc_hosts", Kind::Dict, "Host names and addresses for /etc/hosts in the container."),
    Opt::new("groups", TEXTS, "Supplementary groups of the user."),
    Opt::new("healthcheck", Kind::Dict, "Health check of the container.").options(&[
        Opt::new("test", Kind::Raw, "Command of the check; `NONE` disables checks."),
        Opt::new("test_cli_compatible", Kind::Bool, "Use the image's check if `test` is missing.").default("false"),
        Opt::new("interval", Kind::Str, "Time between two checks, such as 1m30s."),
        Opt::new("timeout", Kind::Str, "Time limit of a check."),
        Opt::new("start_period", Kind::Str, "Time for the container to start, in which failures do not count."),
        Opt::new("start_interval", Kind::Str, "Time between two checks during `start_period`."),
        Opt::new("retries", Kind::Int, "Number of failures after which the container is unhealthy."),
    ]),
    Opt::new("hostname", Kind::Str, "Host name of the container."),
    Opt::new("init", Kind::Bool, "Run an init process in the container."),
    Opt::new("ipc_mode", Kind::Str, "Namespace of shared memory."),
    Opt::new("kernel_memory", Kind::Str, "Limit of kernel memory."),
    Opt::new("labels", Kind::Dict, "Labels of the container; the values must be text."),
    Opt::new("links", TEXTS, "Linked containers, as `name[:alias]`."),
    Opt::new("log_driver", Kind::Str, "Driver for the container's log."),
    Opt::new("log_options", Kind::Dict, "Options of the log driver.").aliases(&["log_opt"]),
    Opt::new("mac_address", Kind::Str, "MAC address of the container."),
    Opt::new("memory", Kind::Str, "Limit of memory."),
    Opt::new("memory_reservation", Kind::Str, "Soft limit of memory."),
    Opt::new("memory_swap", Kind::Str, "Limit of memory and swap together; `unlimited` or -1 removes it."),
    Opt::new("memory_swappiness", Kind::Int, "Tendency to swap, 0 to 100."),
    Opt::new("stop_timeout", Kind::Int, "Seconds to wait for the container to stop."),
    Opt::new(
        "network_mode",
        Kind::Str,
        "Network mode: bridge, host, none, `container:NAME`, or the name of a network.",
    ),
    Opt::new("networks", Kind::List(&Kind::Dict), "Networks of the container.").options(&[
        Opt::required("name", Kind::Str, "Name of the network."),
        Opt::new("ipv4_address", Kind::Str, "IPv4 address in the network."),
        Opt::new("ipv6_address", Kind::Str, "IPv6 address in the network."),
        Opt::new("aliases", TEXTS, "Aliases of the container in the network."),
        Opt::new("links", TEXTS, "Linked containers in the network."),
        Opt::new("mac_address", Kind::Str, "MAC address in the network."),
    ]),
    Opt::new("oom_killer", Kind::Bool, "Protect the container from the out-of-memory killer."),
    Opt::new("oom_score_adj", Kind::Int, "Adjustment of the out-of-memory score."),
    Opt::new("pid_mode", Kind::Str, "Namespace of processes."),
    Opt::new("pids_limit", Kind::Int, "Maximum number of processes."),
    Opt::new("platform", Kind::Str, "Platform of the image, as `os[/arch[/variant]]`."),
    Opt::new("privileged", Kind::Bool, "Give the container all privileges of the host's root."),
    Opt::new("read_only", Kind::Bool, "Mount the root file system read-only."),
    Opt::new("restart_policy", Kind::Str, "Conditions under which the engine restarts the container.").choices(&[
        "no",
        "on-failure",
        "always",
        "unless-stopped",
    ]),
    Opt::new("restart_retries", Kind::Int, "With `on-failure`: maximum number of restarts."),
    Opt::new("runtime", Kind::Str, "OCI runtime of the container."),
    Opt::new("security_opts", TEXTS, "Options of SELinux, AppArmor and seccomp."),
    Opt::new("shm_size", Kind::Str, "Size of /dev/shm in the container."),
    Opt::new("stop_signal", Kind::Str, "Signal that stops the container."),
    Opt::new("storage_opts", Kind::Dict, "Options of the storage driver."),
    Opt::new("sysctls", Kind::Dict, "Kernel settings inside the container."),
    Opt::new("tmpfs", TEXTS, "Mounts in memory, as `path[:options]`."),
    Opt::new("tty", Kind::Bool, "Allocate a terminal."),
    Opt::new("ulimits", TEXTS, "Resource limits, as `name:soft[:hard]`."),
    Opt::new("user", Kind::Str, "User that runs the command."),
    Opt::new("userns_mode", Kind::Str, "Namespace of users."),
    Opt::new("uts", Kind::Str, "Namespace of the host name (UTS)."),
    Opt::new("volume_driver", Kind::Str, "Driver of the volumes."),
    Opt::new("volumes_from", TEXTS, "Containers whose volumes to mount."),
    Opt::new("working_dir", Kind::Str, "Working directory of the command."),
    Opt::new("mounts", Kind::List(&Kind::Dict), "Mounts of the container.").options(&[
        Opt::required("target", Kind::Str, "Mount point in the container."),
        Opt::new("source", Kind::Str, "Path on the host, or name of a volume."),
        Opt::new("type", Kind::Str, "Type of the mount.")
            .default("\"volume\"")
            .choices(&["bind", "volume", "tmpfs", "npipe", "cluster", "image"]),
        Opt::new("read_only", Kind::Bool, "Mount read-only."),
        Opt::new("consistency", Kind::Str, "Consistency of the mount between host and container.").choices(&[
            "default",
            "consistent",
            "cached",
            "delegated",
        ]),
        Opt::new("propagation", Kind::Str, "Propagation of nested mounts between host and container.")
            .choices(&["private", "rprivate", "shared", "rshared", "slave", "rslave"]),
        Opt::new("no_copy", Kind::Bool, "Do not fill an empty volume from the image."),
        Opt::new("labels", Kind::Dict, "Labels of the volume."),
        Opt::new("volume_driver", Kind::Str, "Driver of the volume."),
        Opt::new("volume_options", Kind::Dict, "Options of the volume driver."),
        Opt::new("tmpfs_size", Kind::Str, "Size of a tmpfs."),
        Opt::new("tmpfs_mode", Kind::Str, "Permissions of a tmpfs, in octal digits."),
        Opt::new("non_recursive", Kind::Bool, "Exclude mounts below the source."),
        Opt::new("create_mountpoint", Kind::Bool, "Create the path on the host if it is missing."),
        Opt::new("read_only_non_recursive", Kind::Bool, "Keep nested mounts writable when `read_only` is set."),
        Opt::new("read_only_force_recursive", Kind::Bool, "Fail unless nested mounts can be read-only too."),
        Opt::new("subpath", Kind::Str, "Path inside the volume or image."),
        Opt::new("tmpfs_options", Kind::List(&Kind::Dict), "Options of a tmpfs, each a mapping with one key."),
    ]),
    Opt::new("volumes", TEXTS, "Volumes and paths to mount, as `source:path[:mode]` or a path alone."),
];

const PORTS: [Opt; 3] = [
    Opt::new("exposed_ports", TEXTS, "Ports to expose to other containers, as `port[-port][/protocol]`.")
        .aliases(&["exposed", "expose"]),
    Opt::new("publish_all_ports", Kind::Bool, "Publish all exposed ports on the host."),
    Opt::new("published_ports", TEXTS, "Ports to publish on the host, as `[[address:]port:]port[/protocol]`.")
        .aliases(&["ports"]),
];

const RATE_TEXT: [Opt; 2] = [
    Opt::required("path", Kind::Str, "Path of the device."),
    Opt::required("rate", Kind::Str, "Rate per second, such as 10M."),
];
const RATE_NUMBER: [Opt; 2] = [
    Opt::required("path", Kind::Str, "Path of the device."),
    Opt::required("rate", Kind::Int, "Operations per second."),
];

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

/// All options of the module.
pub(super) const OPTIONS: [Opt; OWN.len() + ENGINE_OPTIONS.len()] = with_engine(OWN);
