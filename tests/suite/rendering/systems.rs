//! Names, paths and files for the systems and architectures of hosts, from facts as such hosts report them. No host
//! here runs most of these systems: the facts are those that their documentation gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
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

/// Names, paths and files that the roles derive for each host of one cluster.
fn derived() -> BTreeMap<&'static str, Value> {
    let folder = tempfile::tempdir().unwrap();
    let mut hosts = serde_json::Map::new();
    for (number, (name, distribution, family, version, release, manager, machine)) in HOSTS.iter().enumerate() {
        let facts = json!({
            "ip": format!("10.0.0.{}", number + 1), "ansible_distribution": distribution, "ansible_os_family": family,
            "ansible_distribution_major_version": version.to_string(), "ansible_distribution_release": release,
            "ansible_pkg_mgr": manager, "ansible_architecture": machine,
        });
        hosts.insert((*name).to_owned(), facts);
    }
    let members = json!({"hosts": HOSTS.map(|facts| (facts.0, json!({}))).into_iter().collect::<BTreeMap<_, _>>()});
    let inventory = json!({"all": {
        "hosts": hosts,
        "vars": {
            "ansible_connection": "local",
            "kube_network_plugin": "bridge", "bridge_routing": "bgp", "bridge_asn": 64512,
            "crun_enabled": true, "youki_enabled": true, "gvisor_enabled": true, "kata_containers_enabled": true,
            "helm_enabled": true,
        },
        "children": {
            "kube_control_plane": members, "kube_node": members,
            "etcd": {"hosts": {"debian11": {}, "debian12": {}, "rocky9": {}}},
            "k8s_cluster": {"children": {"kube_control_plane": {}, "kube_node": {}}},
        },
    }});
    fs::write(folder.path().join("hosts.yml"), inventory.to_string()).unwrap();
    fs::write(folder.path().join("play.yml"), PLAY).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts.yml", "play.yml"])
        .current_dir(folder.path())
        .env("ANSIBLE_ROLES_PATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("roles"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
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
