//! Addons: the records of their objects, their variables, and what a snapshot leaves out.

use std::fs;
use std::path::Path;

use super::{command, play, program};

/// Left out is what controllers create again. Addresses, ports and volumes of others are not taken.
#[test]
fn objects_of_a_namespace_lose_what_the_server_sets() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.include_vars: {root}/tests/namespace/archive.yml
    - ansible.builtin.copy:
        dest: {folder}/objects
        content: \"{{{{ lookup('ansible.builtin.template', '{root}/roles/restore/templates/objects.json.j2') | from_json
          | to_nice_json }}}}\"
",
        root = root.display(),
        folder = folder.path().display(),
    );
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\n", &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    let made = fs::read_to_string(folder.path().join("objects")).unwrap();
    let expected = fs::read_to_string(root.join("tests/namespace/expected.json")).unwrap();
    assert_eq!(made.trim(), expected.trim());
}

#[test]
fn variables_of_kubelet_csr_approver_reach_its_chart() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let helm = format!(
        "echo \"$HELM_NAMESPACE: $@\" >> {at}/calls
case $1 in --version=*) for word; do case $word in -f=*) cat ${{word#-f=}} >> {at}/calls ;; esac; done ;; *) echo '[]' ;; esac"
    );
    program(folder.path(), "helm", &helm);
    fs::write(folder.path().join("admin.conf"), "").unwrap();
    fs::create_dir(folder.path().join("components")).unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: addon/kubelet_csr_approver, tasks_from: '{{ item }}', public: true}
      loop: [validate, install]
";
    let run = |more: &str| {
        let _ = fs::remove_file(folder.path().join("calls"));
        let variables = format!(
            "{{bin_dir: {at}, cluster_helm: [], kubelet_rotate_server_certificates: true, kubelet_csr_approver_namespace: certs,
              kubelet_csr_approver_chart_version: 1.2.3, kubelet_csr_approver_values: {{providerRegex: ^node-, replicas: 3}}, {more}}}"
        );
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &["-e", &variables]);
        (code, text, fs::read_to_string(folder.path().join("calls")).unwrap_or_default())
    };
    let repository =
        "kubelet_csr_approver_repository_name: own, kubelet_csr_approver_repository_url: 'https://charts.example.com'";
    let (code, text, calls) = run(repository);
    assert_eq!(code, Some(0), "{text}");
    let upgrade = calls.lines().find(|line| line.contains(" upgrade ")).unwrap_or_default();
    assert!(calls.contains(": repo add own https://charts.example.com\n"), "{calls}");
    assert!(upgrade.starts_with("certs: --version=1.2.3 upgrade "), "{calls}");
    assert!(upgrade.ends_with(" kubelet-csr-approver own/kubelet-csr-approver"), "{calls}");
    assert!(calls.contains(r#"{"providerRegex":"^node-","replicas":3}"#), "{calls}");

    // A chart without a repository.
    let none = "kubelet_csr_approver_repository_name: '', kubelet_csr_approver_chart_ref: /srv/approver";
    let (code, text, calls) = run(&format!("{none}, kubelet_csr_approver_repository_url: ''"));
    assert_eq!(code, Some(0), "{text}");
    assert!(!calls.contains("repo add") && calls.contains(" kubelet-csr-approver /srv/approver\n"), "{calls}");
    let (code, text, calls) = run(none);
    assert!(code == Some(2) && text.contains("but Helm needs both for a repository") && calls.is_empty(), "{text}");
}

/// Two control planes with files of their own.
fn control_planes(folder: &Path, files: &[&str]) -> String {
    for name in files {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), "").unwrap();
    }
    let at = folder.display();
    format!("cp1 ip=10.0.0.1 kube_config_dir={at}/cp1\ncp2 ip=10.0.0.2 kube_config_dir={at}/cp2\n")
}

const FIND: &str = "- hosts: kube_control_plane
  gather_facts: false
  tasks:
    - ansible.builtin.find: {paths: '{{ kube_config_dir }}/components', file_type: any, get_checksum: true}
      register: cluster_markers
";

/// While the first control plane is away, another one installs the addons. That one must not remove them once the first
/// is back.
#[test]
fn addons_of_a_former_first_control_plane_stay() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = control_planes(folder.path(), &["cp1/components/runtime-x", "cp2/components/addon-coredns"]);
    let playbook = format!(
        "{FIND}    - ansible.builtin.include_role: {{name: cluster, tasks_from: install}}\n      \
         vars: {{cluster_kind: addon, artifacts_wanted: []}}\n"
    );
    let (code, text) = play(folder.path(), &hosts, &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("included: addon/coredns for cp1") && !text.contains("Delete CoreDNS"), "{text}");
    // If it is no longer wanted, the first control plane removes it once.
    let (code, text) = play(folder.path(), &hosts, &playbook, &["-e", "dns_mode=none"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Delete CoreDNS"), "{text}");
    assert!(text.contains("ok: [cp1 -> cp2]"), "its record is deleted on all control planes:\n{text}");
}

/// Otherwise, the addon's record would be deleted, and its objects would stay for ever.
#[test]
fn addon_is_not_forgotten_while_the_api_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = control_planes(folder.path(), &["cp1/components/addon-metrics_server", "cp2/admin.conf"]);
    program(folder.path(), "kubectl", "echo connection refused >&2; exit 1");
    let playbook = format!(
        "{FIND}    - ansible.builtin.include_role: {{name: cluster, tasks_from: install}}\n      \
         vars: {{cluster_kind: addon, artifacts_wanted: []}}\n"
    );
    let variables = format!("{{dns_mode: none, bin_dir: '{}'}}", folder.path().display());
    let (code, text) = play(folder.path(), &hosts, &playbook, &["-e", &variables]);
    assert!(
        code == Some(2) && text.contains("addon/metrics_server is no longer chosen, but the API did not answer"),
        "{text}"
    );
    assert!(folder.path().join("cp1/components/addon-metrics_server").exists());
}

/// Otherwise nothing would know what to delete once the control plane with the records is replaced.
#[test]
fn records_of_objects_follow_to_other_control_planes() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let hosts = control_planes(folder.path(), &["cp1/components/objects-b.yaml", "cp2/components/release-a.yaml"]);
    fs::write(folder.path().join("cp2/components/release-a.yaml"), "release").unwrap();
    let newer = fs::File::create(folder.path().join("cp2/components/objects-b.yaml")).unwrap();
    newer.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
    fs::write(folder.path().join("cp1/components/objects-b.yaml"), "old").unwrap();
    let playbook = format!("{FIND}    - ansible.builtin.include_role: {{name: cluster, tasks_from: records}}\n");
    let (code, text) = play(folder.path(), &hosts, &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(file("cp1/components/release-a.yaml"), "release", "{text}");
    assert_eq!(file("cp1/components/objects-b.yaml"), "", "{text}");
    let (code, text) = play(folder.path(), &hosts, &playbook, &[]);
    assert!(code == Some(0) && text.contains("changed=0") && !text.contains("changed=1"), "{text}");
}

/// Otherwise the control plane would delete those objects again when it returns, or restore the records on all control
/// planes.
#[test]
fn records_deleted_while_a_control_plane_was_away_are_deleted_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::read_to_string(folder.path().join(name));
    let old = ["cp1/components/addon-metrics_server", "cp1/components/objects-b.yaml", "cp1/components/objects-c.yaml"];
    let hosts = control_planes(folder.path(), &old);
    control_planes(folder.path(), &["cp2/components/records-9", "cp2/components/records-10"]);
    // The clock of the host that returns may be wrong.
    fs::write(folder.path().join("cp2/components/objects-c.yaml"), "current").unwrap();
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    fs::File::create(folder.path().join("cp1/components/objects-c.yaml")).unwrap().set_modified(future).unwrap();
    let playbook = format!(
        "{FIND}    - ansible.builtin.include_role: {{name: cluster, tasks_from: records}}
    - ansible.builtin.include_role: {{name: cluster, tasks_from: install}}
      vars: {{cluster_kind: addon, artifacts_wanted: []}}\n"
    );
    for (options, changed) in [(&["--check"][..], true), (&[], true), (&[], false)] {
        let (code, text) = play(folder.path(), &hosts, &playbook, &[options, &["-e", "dns_mode=none"]].concat());
        assert_eq!(code, Some(0), "{text}");
        assert!(!text.contains("Remove the component") && text.contains("changed=0"), "{text}");
        assert_eq!(text.matches("changed=0").count(), if changed { 1 } else { 2 }, "only cp1 changes: {text}");
    }
    assert!(file("cp1/components/addon-metrics_server").is_err() && file("cp1/components/objects-b.yaml").is_err());
    assert!(file("cp1/components/records-10").is_ok());
    assert_eq!(file("cp1/components/objects-c.yaml").unwrap(), "current");
    assert_eq!(file("cp2/components/objects-c.yaml").unwrap(), "current");
}

/// A file of the control machine, or of another host, would become a record on all control planes.
#[test]
fn path_that_a_control_plane_reports_names_no_record_on_another_host() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = control_planes(folder.path(), &["cp1/components/objects-b.yaml", "cp2/components/objects-c.yaml"]);
    let secret = folder.path().join("secret.yaml");
    fs::write(&secret, "secret of the control machine").unwrap();
    let lie = format!(
        "    - ansible.builtin.set_fact:
        cluster_markers: {{files: [{{path: \"/x\\nlocalhost={}\\ncp2=/x/objects-z.yaml\", mtime: 9999999999.0, checksum: x}}]}}
      when: inventory_hostname == 'cp2'\n",
        secret.display()
    );
    let records = "    - ansible.builtin.include_role: {name: cluster, tasks_from: records}\n";
    let (_, text) = play(folder.path(), &hosts, &format!("{FIND}{lie}{records}"), &[]);
    assert!(!text.contains("-> localhost") && text.contains("-> cp2"), "{text}");
    let copied = fs::read_dir(folder.path().join("cp1/components")).unwrap();
    for file in copied {
        assert!(!fs::read_to_string(file.unwrap().path()).unwrap().contains("secret"), "{text}");
    }
}

/// A run that was killed leaves objects, and the addon may be disabled before the next one.
#[test]
fn objects_are_recorded_before_they_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = control_planes(folder.path(), &["cp1/components/objects-x.yaml"]);
    let config = "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}],
        contexts: [{name: c, context: {cluster: c, user: u}}], current-context: c, users: [{name: u, user: {token: t}}]}";
    fs::write(folder.path().join("cp1/admin.conf"), config).unwrap();
    let record = folder.path().join("cp1/components/objects-x.yaml");
    fs::write(&record, "[{apiVersion: v1, kind: ConfigMap, name: old, namespace: default}]").unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: cluster, tasks_from: objects}
      vars:
        cluster_objects_name: x
        cluster_objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: new, namespace: default}}]
";
    // Nothing answers, so it tries again until it is killed.
    let mut run = command(folder.path(), &hosts, playbook, &[]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let recorded = || fs::read_to_string(&record).unwrap();
    while !recorded().contains("name: new") {
        assert!(run.try_wait().unwrap().is_none(), "it ended without a record of the new object");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(recorded().contains("name: old"), "{}", recorded());
}

#[test]
fn release_of_a_chart_is_recorded_before_it_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = control_planes(folder.path(), &["cp1/admin.conf", "cp1/components/runtime-x"]);
    let calls = folder.path().join("calls");
    let script = "case \"$1\" in upgrade|install) exit 1 ;; uninstall) echo \"$@\" >> CALLS ;;
        *) echo '[{\"name\":\"n\",\"namespace\":\"x\",\"revision\":\"1\",\"status\":\"failed\",\"chart\":\"n-1\",\"app_version\":\"1\"}]' ;; esac";
    program(folder.path(), "helm", &script.replace("CALLS", &calls.display().to_string()));
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: cluster, tasks_from: '{{ step }}'}
      vars: {cluster_objects_name: c, cluster_helm: [], cluster_chart: {name: n, namespace: x, ref: r}, cluster_objects_api: {rc: 0}}
";
    let programs = format!("bin_dir={}", folder.path().display());
    let (code, text) = play(folder.path(), &hosts, playbook, &["-e", &programs, "-e", "step=chart"]);
    assert_eq!(code, Some(2), "{text}");
    let record = folder.path().join("cp1/components/release-c.yaml");
    assert!(record.exists(), "{text}");
    let (code, text) = play(folder.path(), &hosts, playbook, &["-e", &programs, "-e", "step=chart_delete"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(fs::read_to_string(calls).unwrap_or_default().contains("uninstall"), "{text}");
    assert!(!record.exists(), "{text}");
    // The run did not reach cp2, which may have the record too.
    assert!(folder.path().join("cp1/components/records-1").exists(), "{text}");
}

/// Otherwise the namespace of probes that `verify` has deleted appears, and is a change in the next snapshot.
#[test]
fn objects_that_are_being_deleted_not_in_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  vars_files: [{}/roles/snapshot/vars/main.yml]
  vars:
    deleted: '2026-01-01T00:00:00Z'
    snapshot_namespaces_excluded: []
    snapshot_read:
      results:
        - resources:
            - {{kind: Namespace, metadata: {{name: probes, deletionTimestamp: '{{{{ deleted }}}}'}}}}
            - {{kind: Namespace, metadata: {{name: shop}}}}
        - resources:
            - {{kind: Secret, metadata: {{name: s, namespace: probes}}}}
            - {{kind: Secret, metadata: {{name: s, namespace: shop}}}}
            - {{kind: Secret, metadata: {{name: old, namespace: shop, deletionTimestamp: '{{{{ deleted }}}}'}}}}
            - {{kind: Secret, metadata: {{name: default-token-1, namespace: shop}}}}
        - skipped: true
  tasks:
    - ansible.builtin.copy:
        dest: {}/out
        content: \"{{{{ [snapshot_objects | map(attribute='metadata.name'), snapshot_namespaces | map(attribute=0)] | to_json }}}}\"
",
        env!("CARGO_MANIFEST_DIR"),
        folder.path().display(),
    );
    let (code, text) = play(folder.path(), "cp1\n", &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    let out = fs::read_to_string(folder.path().join("out")).unwrap();
    assert_eq!(out, r#"[["shop", "s", "s"], ["shop"]]"#);
}
