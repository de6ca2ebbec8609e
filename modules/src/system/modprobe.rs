//! `modprobe`: kernel modules, now and after a reboot.

use super::config_file;
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    facts::Root,
    process::{self, Command},
};

/// The `modprobe` module.
pub struct Modprobe;

static SPEC: Spec = Spec {
    name: "modprobe",
    collection: "community.general",
    summary: "Load and unload kernel modules",
    description: &[
        "Counts a built-in module as loaded. Built-in modules are detected from modules.builtin, /sys/module, \
         /proc/filesystems and other traces.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "Name of the kernel module.").word(),
        Opt::new("state", Kind::Str, "`present` loads the module, `absent` unloads it.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("params", Kind::Str, "Parameters of the module, such as `numdummies=2`.").line().default("\"\""),
        Opt::new(
            "persistent",
            Kind::Str,
            "`present` loads the module at boot, `absent` stops that, `disabled` leaves the boot configuration \
             unchanged.",
        )
        .default("\"disabled\"")
        .choices(&["disabled", "present", "absent"]),
    ],
    examples: "- name: Have the module for bridges and iptables\n  community.general.modprobe:\n    name: br_netfilter\n    persistent: present\n",
    returns: &[
        Return { name: "name", kind: "str", when: "always", doc: "Name of the kernel module." },
        Return {
            name: "state",
            kind: "str",
            when: "always",
            doc: "`present` if the module is loaded, otherwise `absent`.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Modprobe {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        // The module edits every file in this directory that has its lines.
        let _ = args;
        Some("/etc/modules-load.d".into())
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let root = Root::host();
        let name = args.required("name")?.to_owned();
        if name.is_empty() || name.starts_with('-') || name.contains(['/', '\n', ' ']) {
            return Err(Failure::new(format!("{name:?} is not the name of a kernel module.")));
        }
        let params = args.str("params").unwrap_or_default().to_owned();
        let present = args.str("state") != Some("absent");
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let presence = presence(&root, &name, &release);
        let load = present && presence == Presence::Missing;
        let unload = !present && presence == Presence::Loaded;
        if !present && presence == Presence::BuiltIn {
            return Err(Failure::new(format!("{name} is compiled into the kernel and cannot be unloaded.")));
        }
        let files = match args.str("persistent") {
            Some("present") => remember(&root, &name, &params),
            Some("absent") => forget(&root, &name),
            _ => Vec::new(),
        };
        let state = args.str("state").unwrap_or("present").to_owned();
        if !load && !unload && files.is_empty() {
            return Ok(Plan::unchanged().with("name", name).with("params", params).with("state", state));
        }
        if load && process::find(host, "modprobe").is_none() && !host.check() {
            return Err(Failure::new(format!(
                "The kernel module {name} is not loaded, and modprobe is not on this host. Install kmod, or leave the module out if the kernel \
                 has it built in under another name."
            )));
        }
        let (shown, shown_params) = (name.clone(), params.clone());
        let words =
            shell_words::split(&params).map_err(|error| Failure::new(format!("params cannot be split: {error}.")))?;
        let modprobe = move |pretends: bool, host: &Host| {
            let command = Command::new("modprobe").plain_locale().args(pretends.then_some("-n"));
            let output = command.arg(&name).args(words.clone()).run(host)?;
            if output.success() { Ok(()) } else { Err(refused(&name, &release, &output)) }
        };
        if load && host.check() && process::find(host, "modprobe").is_some() {
            modprobe(true, host)?;
        }
        let name = shown.clone();
        let plan = Plan::change(move |host: &Host, _: &mut Outcome| {
            if load {
                modprobe(false, host)?;
            }
            if unload {
                Command::new("modprobe").plain_locale().args(["-r", &name]).check_run(host)?;
            }
            for (path, text) in files {
                config_file::replace_making_folder(&path, &text)?;
            }
            Ok(())
        });
        Ok(plan.with("name", shown).with("params", shown_params).with("state", state))
    }
}

fn refused(name: &str, release: &str, output: &process::Output) -> Failure {
    let said = output.stderr_text();
    let loadable = std::path::Path::new("/proc/modules").exists()
        && std::path::Path::new(&format!("/lib/modules/{release}")).exists();
    let hint = if loadable {
        ""
    } else {
        " This kernel has no loadable modules here (a container, or everything is built in), and nothing shows that this one is built in."
    };
    Failure::new(format!("The kernel module {name} could not be loaded: {}.{hint}", said.trim().trim_end_matches('.')))
        .with("rc", output.rc)
        .with("stdout", output.stdout_text())
        .with("stderr", said)
}

/// State of a module in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Loaded,
    BuiltIn,
    Missing,
}

/// Built-in modules without an entry in /sys/module, and the files that reveal them.
const TRACES: &[(&str, &str)] = &[
    ("br_netfilter", "/proc/sys/net/bridge/bridge-nf-call-iptables"),
    ("bridge", "/sys/module/bridge"),
    ("ip_vs", "/proc/net/ip_vs"),
    ("nf_conntrack", "/proc/sys/net/netfilter/nf_conntrack_max"),
    ("nf_conntrack_ipv4", "/proc/sys/net/netfilter/nf_conntrack_max"),
    ("nf_tables", "/proc/net/netfilter"),
    ("ip_tables", "/proc/net/ip_tables_names"),
    ("ip6_tables", "/proc/net/ip6_tables_names"),
    ("tun", "/dev/net/tun"),
    ("fuse", "/dev/fuse"),
    ("loop", "/dev/loop-control"),
    ("ipv6", "/proc/net/if_inet6"),
];

fn presence(root: &Root, name: &str, release: &str) -> Presence {
    let plain = name.replace('-', "_");
    let loaded = root.read("/proc/modules").unwrap_or_default();
    if loaded.lines().any(|line| line.split(' ').next() == Some(plain.as_str())) {
        return Presence::Loaded;
    }
    let named = |path: &str| {
        let file = path.rsplit('/').next().unwrap_or_default();
        file.split(".ko").next().is_some_and(|stem| stem.replace('-', "_") == plain)
    };
    let builtin = root.read(&format!("/lib/modules/{release}/modules.builtin")).unwrap_or_default();
    let trace = TRACES.iter().any(|(module, path)| *module == plain && root.exists(path));
    let file_system = root.read("/proc/filesystems").unwrap_or_default().lines().any(|line| {
        let system = line.split_whitespace().next_back().unwrap_or_default();
        system == plain || (plain == "overlayfs" && system == "overlay")
    });
    if builtin.lines().any(named) || root.exists(&format!("/sys/module/{plain}")) || file_system || trace {
        return Presence::BuiltIn;
    }
    Presence::Missing
}

type Files = Vec<(String, String)>;

/// File changes that load the module, with its parameters, at boot.
fn remember(root: &Root, name: &str, params: &str) -> Files {
    let mut files = Vec::new();
    let loads = |line: &str| line.trim() == name;
    if !any_line(root, "/etc/modules-load.d", &loads)
        && !root.read("/etc/modules").unwrap_or_default().lines().any(loads)
    {
        files.push((format!("/etc/modules-load.d/{name}.conf"), format!("{name}\n")));
    }
    if !params.is_empty() {
        let wanted = format!("options {name} {params}");
        let has = |line: &str| line.split_whitespace().eq(wanted.split_whitespace());
        if !any_line(root, "/etc/modprobe.d", &has) {
            files.extend(without_lines(root, "/etc/modprobe.d", &|line| options_of(line, name)));
            let path = format!("/etc/modprobe.d/{name}.conf");
            files.retain(|(known, _)| *known != path);
            files.push((path, format!("{wanted}\n")));
        }
    }
    files
}

/// File changes that stop loading the module at boot: its lines become comments.
fn forget(root: &Root, name: &str) -> Files {
    let mut files = without_lines(root, "/etc/modules-load.d", &|line| line.trim() == name);
    files.extend(without_lines(root, "/etc/modprobe.d", &|line| options_of(line, name)));
    let modules = root.read("/etc/modules").unwrap_or_default();
    if modules.lines().any(|line| line.trim() == name) {
        files.push(("/etc/modules".to_owned(), commented(&modules, &|line| line.trim() == name)));
    }
    files
}

fn options_of(line: &str, name: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("options") && words.next() == Some(name)
}

fn any_line(root: &Root, folder: &str, wanted: &dyn Fn(&str) -> bool) -> bool {
    root.names(folder).iter().any(|file| root.read(&format!("{folder}/{file}")).unwrap_or_default().lines().any(wanted))
}

fn without_lines(root: &Root, folder: &str, unwanted: &dyn Fn(&str) -> bool) -> Files {
    let files = root.names(folder).into_iter().filter(|name| name.ends_with(".conf"));
    files
        .filter_map(|name| {
            let path = format!("{folder}/{name}");
            let text = root.read(&path)?;
            text.lines().any(unwanted).then(|| (path, commented(&text, unwanted)))
        })
        .collect()
}

fn commented(text: &str, unwanted: &dyn Fn(&str) -> bool) -> String {
    text.lines().map(|line| if unwanted(line) { format!("#{line}\n") } else { format!("{line}\n") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    #[test]
    fn module_loaded_built_in_or_missing_detected() {
        let (_folder, root) = tree(&[
            ("/proc/modules", "br_netfilter 32768 0 - Live 0x0\nbridge 1 1 br_netfilter, Live 0x0\n"),
            ("/lib/modules/6.1.0/modules.builtin", "kernel/fs/ext4/ext4.ko\nkernel/net/netfilter/nf-conntrack.ko\n"),
            ("/proc/filesystems", "nodev\tproc\nnodev\toverlay\n\text4\n"),
            ("/sys/module/ip_vs/version", "1"),
            ("/proc/net/ip_tables_names", ""),
        ]);
        let of = |name: &str| presence(&root, name, "6.1.0");
        assert_eq!(of("br-netfilter"), Presence::Loaded);
        assert_eq!(of("nf_conntrack"), Presence::BuiltIn);
        assert_eq!(of("overlay"), Presence::BuiltIn);
        assert_eq!(of("ip_vs"), Presence::BuiltIn);
        assert_eq!(of("ip_tables"), Presence::BuiltIn);
        assert_eq!(of("dummy"), Presence::Missing);
    }

    #[test]
    fn boot_configuration_written_and_commented_out() {
        let (_folder, root) = tree(&[
            ("/etc/modules-load.d/k8s.conf", "overlay\n"),
            ("/etc/modprobe.d/x.conf", "options dummy numdummies=1\n"),
        ]);
        assert!(remember(&root, "overlay", "").is_empty());
        assert_eq!(
            remember(&root, "br_netfilter", ""),
            [("/etc/modules-load.d/br_netfilter.conf".to_owned(), "br_netfilter\n".to_owned())]
        );
        let files = remember(&root, "dummy", "numdummies=2");
        assert!(files.contains(&("/etc/modprobe.d/x.conf".into(), "#options dummy numdummies=1\n".into())));
        assert!(files.contains(&("/etc/modprobe.d/dummy.conf".into(), "options dummy numdummies=2\n".into())));
        assert_eq!(forget(&root, "overlay"), [("/etc/modules-load.d/k8s.conf".to_owned(), "#overlay\n".to_owned())]);
        assert!(forget(&root, "br_netfilter").is_empty());
    }
}
