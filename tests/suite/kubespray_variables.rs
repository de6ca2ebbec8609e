//! Inventories with Kubespray's variables: the check refuses exactly those that would have no effect.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use windlass_modules::kubernetes::variables::{Table, names_of_roles};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

const PLAYBOOK: &str = "
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: check, tasks_from: variables}
";

/// Exit status and output of the variable check, for two hosts that do not exist.
fn check(all: &str, node2: &str, arguments: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("play.yml", PLAYBOOK);
    write(
        "inventory/hosts",
        "node1 ansible_host=127.0.0.1 ansible_port=1\nnode2 ansible_host=127.0.0.1 ansible_port=1\n",
    );
    write("inventory/group_vars/all.yml", all);
    write("inventory/host_vars/node2.yml", node2);
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "play.yml", "-i", "inventory/hosts"])
        .args(arguments)
        .current_dir(folder.path())
        .env("ANSIBLE_ROLES_PATH", Path::new(ROOT).join("roles"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(!text.contains("unreachable=1"), "a host was reached for:\n{text}");
    (output.status.code().unwrap(), text)
}

#[track_caller]
fn refused(all: &str, sentences: &[&str]) {
    let (status, text) = check(all, "", &[]);
    assert_eq!(status, 2, "{text}");
    for sentence in sentences {
        assert!(text.contains(sentence), "it does not say `{sentence}`:\n{text}");
    }
}

#[track_caller]
fn accepted(all: &str) -> String {
    let (status, text) = check(all, "", &[]);
    assert_eq!(status, 0, "{text}");
    text
}

#[test]
fn unsupported_variables_are_refused_together() {
    refused(
        "kube_network_plugin: bridge\nforce_certificate_regeneration: true\nnvidia_driver_version: x\ndeploy_container_engine: false\n",
        &[
            "all.yml:2:1) is not supported: playbooks/certificates.yml renews and rotates certificates. Run it with --tags renew",
            "all.yml:4:1) is not supported: every node gets the container runtime. Leave it out or set it to `true`.",
        ],
    );
}

#[test]
fn defaults_of_kubespray_are_accepted() {
    accepted(
        "kube_network_plugin: bridge
kube_network_plugin_multus: false
cert_manager_enabled: 'no'
kube_ovn_network_type: geneve
calico_pool_blocksize: 26
enable_nodelocaldns: false
nodelocaldns_ip: 169.254.25.10
retry_stagger: 5
deploy_netchecker: false
metallb_speaker_enabled: \"{{ metallb_enabled }}\"
metallb_enabled: \"{{ wanted }}\"
wanted: false
kube_script_dir: \"{{ bin_dir }}/kubernetes-scripts\"
site_of_the_cluster: here
",
    );
}

#[test]
fn variable_of_one_host_is_refused_despite_its_group() {
    let name = "force_certificate_regeneration";
    let (status, text) = check(&format!("{name}: false\n"), &format!("{name}: true\n"), &[]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("node2.yml:1:1) is not supported: playbooks/certificates.yml"), "{text}");
    let (status, text) = check(&format!("{name}: true\n"), "", &["-e", &format!("{name}=false")]);
    assert_eq!(status, 0, "{text}");
}

#[test]
fn misspelled_variable_refused_with_suggestion() {
    refused("kube_network_plugn: bridge\n", &["did you mean `kube_network_plugin`?"]);
    accepted("kube_network_plugn: bridge\nown_variables: [kube_network_plugn]\n");
}

#[test]
fn variables_of_the_provider_of_vsphere_inside_kubernetes_are_renamed_or_refused() {
    refused(
        "vsphere_user: kube\nvsphere_datastore: one\n",
        &["is called `external_vsphere_user` here. Rename it.", "only the provider inside Kubernetes read it"],
    );
}

#[test]
fn variables_that_are_not_needed_are_listed_and_left_unevaluated() {
    let text = accepted("kubeadm_certificate_key: \"{{ lookup('password', 'key.creds') }}\"\n");
    assert!(text.contains("ignore them: kubeadm_certificate_key."), "{text}");
}

#[test]
fn variables_of_runtimes_are_refused_with_what_replaces_them() {
    refused(
        "container_manager: crio\ncrio_registries_mirrors: [{location: quay.io}]\ncrio_archive_checksum: x\ncrun_runtime: {name: crun}\n\
         crio_download_base: m.example.com\n",
        &[
            "is called `crio_registries` here",
            "is called `crio_checksum` here",
            "Use crio_runtimes.",
            "Use crio_download_url.",
        ],
    );
    refused(
        "container_manager: docker\ndocker_package_info: {pkgs: [docker]}\n",
        &["Use docker_packages, or docker_version"],
    );
    let text = accepted("container_manager: docker\ndocker_version: '28.3'\ndocker_dns_servers_strict: true\n");
    assert!(text.contains("ignore them: docker_dns_servers_strict."), "{text}");
}

#[test]
fn variables_of_downloads_are_refused_with_what_fetches_files_once() {
    refused(
        "kube_network_plugin: bridge\ndownload_run_once: true\ncontainerd_static_binary: true\n\
         kata_containers_enabled: true\nkata_containers_dir: /srv/kata\n",
        &[
            "To fetch everything once, use `windlass bundle create`",
            "with the address and the checksum of the static archive",
            "Kata's archive has its programs in this directory",
        ],
    );
    let text =
        accepted("kube_network_plugin: bridge\ngcr_image_repo: gcr.example.com\nkata_containers_dir: /opt/kata\n");
    assert!(text.contains("ignore them: gcr_image_repo."), "{text}");
}

/// Ignored, they would have no effect: a user of ingress-nginx would get a cluster without an ingress.
#[test]
fn variables_of_earlier_releases_are_refused_with_what_replaces_them() {
    refused(
        "kube_network_plugin: bridge\ningress_nginx_enabled: true\ningress_nginx_host_network: true\ndashboard_enabled: true\n\
         krew_enabled: true\nrbd_provisioner_enabled: true\nsystem_master_memory_reserved: 1Gi\ndisable_swap: false\n",
        &[
            "all.yml:2:1) is not supported: ingress-nginx is not among the addons",
            "add its chart or manifests to custom_addons",
            "the dashboard is not among the addons",
            "Install it where you use kubectl.",
            "Add the chart of ceph-csi to custom_addons",
            "Set system_memory_reserved, system_cpu_reserved",
            "Set kubelet_fail_swap_on to false to keep swap.",
        ],
    );
    let text = accepted(
        "kube_network_plugin: bridge\ningress_nginx_enabled: false\ningress_nginx_namespace: ingress-nginx\nweave_mtu: 1376\n\
         dashboard_enabled: false\ndisable_swap: true\nkubelet_static_pod_path: \"{{ kube_manifest_dir }}\"\nkubeadm_version: v1.2.3\n",
    );
    assert!(text.contains("ignore them: kubeadm_version."), "{text}");
}

#[test]
fn table_and_roles_load() {
    let path = Path::new(ROOT).join("roles/check/files/kubespray-variables.yml");
    let table = Table::read("kubespray-variables.yml", &fs::read_to_string(path).unwrap()).unwrap();
    let names: BTreeSet<&str> = table.names().collect();
    assert!(names.len() > 1700 && names.contains("kube_network_plugin"), "{}", names.len());
    assert!(names_of_roles(&Path::new(ROOT).join("roles")).unwrap().settable.contains("cluster_name"));
}
