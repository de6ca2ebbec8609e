//! Names, paths and files for the systems and architectures of hosts, from facts as such hosts report them. No host
//! here runs most of these systems: the facts are those that their documentation gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::documents;

/// Name of the host, distribution, family, major version, code name, package manager, and machine.
type Facts = (&'static str, &'static str, &'static str, u8, &'static str, &'static str, &'static str);

const HOSTS: [Facts; 17] = [
    ("debian11", "Debian", "Debian", 11, "bullseye", "apt", "x86_64"),
    ("debian12", "Debian", "Debian", 12, "bookworm", "apt", "aarch64"),
    ("debian13", "Debian", "Debian", 13, "trixie", "apt", "x86_64"),
    ("ubuntu2204", "Ubuntu", "Debian", 22, "jammy", "apt", "aarch64"),
    ("ubuntu2404", "Ubuntu", "Debian", 24, "noble", "apt", "x86_64"),
    ("ubuntu2604", "Ubuntu", "Debian", 26, "resolute", "apt", "aarch64"),
    ("rhel9", "RedHat", "RedHat", 9, "Plow", "dnf", "x86_64"),
    ("rhel10", "RedHat", "RedHat", 10, "Coughlan", "dnf", "aarch64"),
    ("alma9", "AlmaLinux", "RedHat", 9, "N/A", "dnf", "aarch64"),
    ("alma10", "AlmaLinux", "RedHat", 10, "N/A", "dnf", "x86_64"),
    ("rocky9", "Rocky", "RedHat", 9, "N/A", "dnf", "x86_64"),
    ("rocky10", "Rocky", "RedHat", 10, "N/A", "dnf", "aarch64"),
    ("oracle9", "OracleLinux", "RedHat", 9, "N/A", "dnf", "aarch64"),
    ("oracle10", "OracleLinux", "RedHat", 10, "N/A", "dnf", "x86_64"),
    ("fedora42", "Fedora", "RedHat", 42, "N/A", "dnf5", "aarch64"),
    ("leap15", "openSUSE Leap", "Suse", 15, "N/A", "zypper", "x86_64"),
    ("leap16", "openSUSE Leap", "Suse", 16, "N/A", "zypper", "aarch64"),
];

const PLAY: &str = "
- hosts: all
  gather_facts: false
  tasks:
    - include_role: {name: '{{ item }}', tasks_from: validate, public: true}
      loop: [host, load_balancer/nginx, artifacts, network/bridge]
    - include_role: {name: runtime/docker, tasks_from: validate, public: true}
      vars: {crun_enabled: false, youki_enabled: false, gvisor_enabled: false, kata_containers_enabled: false}
    - copy: {dest: '{{ playbook_dir }}/{{ inventory_hostname }}.json', content: '{{ derived | to_json }}'}
      vars:
        derived:
          packages: '{{ common_required_pkgs }}'
          clock: '{{ [host_chrony_service, host_chrony_file, ntp_driftfile] }}'
          docker: '{{ docker_packages }}'
          repository: \"{{ docker_repository_url if ansible_os_family != 'Suse' else '' }}\"
          nginx: '{{ nginx_packages }}'
          resolver: '{{ host_resolv_conf }}'
          bird: '{{ bridge_packages }}'
          system: '{{ cluster_packages_system }}'
          files: '{{ artifacts_wanted }}'
";

/// Runs a play with facts of hosts, which are nodes of one cluster, and expects success. Hosts have `variables` too.
fn run(folder: &Path, systems: &[Facts], variables: &Value, play: &str, more: &[&str]) {
    let mut hosts = serde_json::Map::new();
    for (number, (name, distribution, family, version, release, manager, machine)) in systems.iter().enumerate() {
        let facts = json!({
            "ip": format!("10.0.0.{}", number + 1), "ansible_distribution": distribution, "ansible_os_family": family,
            "ansible_distribution_major_version": version.to_string(), "ansible_distribution_release": release,
            "ansible_pkg_mgr": manager, "ansible_architecture": machine,
        });
        hosts.insert((*name).to_owned(), facts);
    }
    let names = |systems: &[Facts]| systems.iter().map(|facts| (facts.0, json!({}))).collect::<BTreeMap<_, _>>();
    let inventory = json!({"all": {
        "hosts": hosts,
        "vars": variables,
        "children": {
            "kube_control_plane": {"hosts": names(systems)}, "kube_node": {"hosts": names(systems)},
            "etcd": {"hosts": names(&systems[..3])},
            "k8s_cluster": {"children": {"kube_control_plane": {}, "kube_node": {}}},
        },
    }});
    fs::write(folder.join("hosts.yml"), inventory.to_string()).unwrap();
    fs::write(folder.join("play.yml"), play).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts.yml", "play.yml"])
        .args(more)
        .current_dir(folder)
        .env("ANSIBLE_ROLES_PATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("roles"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
}

/// Names, paths and files that the roles derive for each host of one cluster.
fn derived() -> BTreeMap<&'static str, Value> {
    let folder = tempfile::tempdir().unwrap();
    let variables = json!({
        "ansible_connection": "local",
        "kube_network_plugin": "bridge", "bridge_routing": "bgp", "bridge_asn": 64512,
        "crun_enabled": true, "youki_enabled": true, "gvisor_enabled": true, "kata_containers_enabled": true,
        "helm_enabled": true,
    });
    run(folder.path(), &HOSTS, &variables, PLAY, &[]);
    let read = |name: &str| fs::read_to_string(folder.path().join(format!("{name}.json"))).unwrap();
    HOSTS.iter().map(|facts| (facts.0, serde_json::from_str(&read(facts.0)).unwrap())).collect()
}

/// The checksums that the catalog has for an architecture.
fn checksums(architecture: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/catalog/defaults/main");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        for document in documents(&fs::read_to_string(entry.unwrap().path()).unwrap()) {
            for (name, table) in document.as_object().unwrap() {
                let versions = table.get(architecture).and_then(Value::as_object);
                if let (true, Some(versions)) = (name.ends_with("_checksums"), versions) {
                    found.extend(versions.values().filter_map(Value::as_str).map(str::to_owned));
                }
            }
        }
    }
    found
}

#[test]
fn names_and_files_follow_the_system_and_the_architecture_of_each_host() {
    let derived = derived();
    let sums = [("amd64", checksums("amd64")), ("arm64", checksums("arm64"))];
    for (name, distribution, family, version, release, _, machine) in HOSTS {
        let host = &derived[name];
        let (debian, fedora) = (family == "Debian", distribution == "Fedora");
        let conntrack = if debian { "conntrack" } else { "conntrack-tools" };
        let packages = json!(["openssl", "curl", "ebtables", "ethtool", "ipset", "iptables", conntrack, "socat"]);
        assert_eq!(host["packages"], packages, "{name}");
        let clock = match debian {
            true => json!(["chrony", "/etc/chrony/chrony.conf", "/var/lib/chrony/chrony.drift"]),
            false => json!(["chronyd", "/etc/chrony.conf", "/var/lib/chrony/drift"]),
        };
        assert_eq!(host["clock"], clock, "{name}");
        let (docker, nginx, repository) = match (distribution, family) {
            ("Fedora", _) => {
                (json!(["moby-engine"]), json!(["nginx", "nginx-mod-stream"]), "fedora/42/$basearch/stable".to_owned())
            }
            (_, "Debian") => {
                (json!(["docker.io"]), json!(["nginx", "libnginx-mod-stream"]), distribution.to_lowercase())
            }
            (_, "Suse") => (json!(["docker"]), json!(["nginx"]), String::new()),
            _ => (
                json!(["docker-ce", "docker-ce-cli", "containerd.io"]),
                json!(["nginx", "nginx-mod-stream"]),
                format!("rhel/{version}/$basearch/stable"),
            ),
        };
        assert_eq!((&host["docker"], &host["nginx"]), (&docker, &nginx), "{name}");
        let url =
            if family == "Suse" { String::new() } else { format!("https://download.docker.com/linux/{repository}") };
        assert_eq!(host["repository"], json!(url), "{name}");
        // Their /etc/resolv.conf names only the stub of systemd-resolved.
        let resolved = fedora || distribution == "Ubuntu";
        let resolver = if resolved { "/run/systemd/resolve/resolv.conf" } else { "/etc/resolv.conf" };
        assert_eq!(host["resolver"], json!(resolver), "{name}");
        assert_eq!(host["bird"], json!([if debian { "bird2" } else { "bird" }]), "{name}");
        let release = if debian { release.to_owned() } else { version.to_string() };
        assert_eq!(host["system"], json!(format!("{distribution}-{release}-{machine}")), "{name}");

        let own = usize::from(machine == "aarch64");
        let ((architecture, known), (other, _)) = (&sums[own], &sums[1 - own]);
        let other_machine = if own == 1 { "x86_64" } else { "aarch64" };
        let files = host["files"].as_array().unwrap();
        assert!(files.len() > 10, "{name}: {files:?}");
        for file in files {
            let (url, sum) = (file["value"]["url"].as_str().unwrap(), file["value"]["checksum"].as_str().unwrap());
            assert!(url.contains(architecture) || url.contains(machine), "{name}: {url}");
            assert!(!url.contains(other) && !url.contains(other_machine), "{name}: {url}");
            assert!(known.contains(sum), "{name}: {sum} of {url} is not one for {architecture}");
        }
    }
}

/// A manager of packages that has all of them and none installed. It notes its arguments in `calls`.
const DNF: &str = r#"echo "$@" >>"${0%/*}/calls"
line=$(printf '=%.0s' $(seq 80))
printf 'Dependencies resolved.\n%s\n Package Architecture Version Repository Size\n%s\nInstalling:\n' $line $line
while [ "$1" != install ]; do shift; done; shift
for word; do echo " $word noarch 1.0-1 repository 6.0 k"; done
printf '\nTransaction Summary\n%s\nInstall 1 Package\n' $line
echo 'Operation aborted.' >&2; exit 1"#;

const ZYPPER: &str = r#"stream() { printf "<?xml version='1.0'?>\n<stream>%s</stream>\n" "$1"; }
case " $* " in *" search "*) stream '<message type="info">No matching items found.</message>'; exit 104 ;; esac
echo "$@" >>"${0%/*}/calls"
while [ "$1" != -- ]; do shift; done; shift
found=
for word; do
  found="$found<solvable type=\"package\" name=\"${word#+}\" edition=\"1.0-1\" arch=\"noarch\" repository=\"r\"/>"
done
stream "<install-summary><to-install>$found</to-install></install-summary>""#;

/// A program that finds nothing.
const NONE: &str = "exit 1";
const SYSTEMD: &str =
    r#"case "$*" in *show*) printf 'LoadState=not-found\nActiveState=inactive\n' ;; *) exit 3 ;; esac"#;

/// Check mode for hosts whose managers of packages this machine lacks: scripts stand in for them.
#[test]
fn check_mode_with_recorded_facts_asks_for_the_packages_of_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let systems: Vec<Facts> = HOSTS.into_iter().filter(|facts| facts.2 != "Debian").collect();
    for (name, ..) in &systems {
        fs::create_dir(folder.path().join(name)).unwrap();
        let managers = [("dnf", DNF), ("dnf5", DNF), ("zypper", ZYPPER), ("rpm", NONE)];
        for (program, script) in managers.into_iter().chain([("systemctl", SYSTEMD), ("modprobe", NONE)]) {
            let file = folder.path().join(name).join(program);
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let variables = json!({
        "ansible_connection": "local", "ansible_package_use": "{{ ansible_pkg_mgr }}",
        "kube_network_plugin": "cni", "ntp_enabled": true,
        // These would look at this machine.
        "override_system_hostname": false, "kubelet_fail_swap_on": false,
    });
    let play = "
- hosts: all
  gather_facts: false
  environment: {PATH: '{{ playbook_dir }}/{{ inventory_hostname }}:/usr/sbin:/usr/bin:/sbin:/bin'}
  tasks:
    - include_role: {name: host}
    - include_role: {name: runtime/docker, tasks_from: install}
      vars: {container_manager: docker}
";
    run(folder.path(), &systems, &variables, play, &["--check"]);
    for (name, distribution, family, ..) in &systems {
        let calls = fs::read_to_string(folder.path().join(name).join("calls")).unwrap();
        let installed: Vec<String> = calls
            .lines()
            .map(|line| {
                let simulates = ["--assumeno", "--dry-run"].iter().any(|word| line.contains(word));
                assert!(simulates, "{name}: check mode ran `{line}`");
                let names = line.rsplit_once(" -- ").or_else(|| line.rsplit_once(" install ")).unwrap().1;
                names.replace('+', "")
            })
            .collect();
        let docker = match (*distribution, *family) {
            ("Fedora", _) => "moby-engine",
            (_, "Suse") => "docker",
            _ => "docker-ce docker-ce-cli containerd.io",
        };
        let common = "openssl curl ebtables ethtool ipset iptables conntrack-tools socat haproxy";
        assert_eq!(installed, [common, "chrony", docker], "{name}");
    }
}
