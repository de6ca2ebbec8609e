//! Decisions of playbooks/upgrade.yml on clusters that are only described: due steps, their order, and refusals.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const HOSTS: &str = "[kube_control_plane]\ncp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n[etcd]\ncp1\n[kube_node]\ncp1\nw1 ip=10.0.0.3\nw2 ip=10.0.0.4\n\
                     [k8s_cluster:children]\nkube_control_plane\nkube_node\n[all:vars]\nansible_connection=local\nansible_architecture=x86_64\n";

const PLAYBOOK: &str = "
- hosts: all
  gather_facts: false
  tags: [always]
  roles: [{role: upgrade, when: false}]
  tasks:
    - ansible.builtin.set_fact:
      args: \"{{ seen.everywhere | combine(seen[inventory_hostname] | default({})) }}\"
    - ansible.builtin.set_fact:
        upgrade_is_due: \"{{ upgrade_due }}\"
        upgrade_etcd_is_due: \"{{ upgrade_etcd_due }}\"
        upgrade_path: \"{{ upgrade_way }}\"
        upgrade_target: \"{{ kube_version }}\"
    - ansible.builtin.copy:
        dest: \"{{ folder }}/{{ inventory_hostname }}\"
        content: \"{{ {'plan': lookup('ansible.builtin.template', role ~ '/templates/plan.txt.j2').splitlines(), 'due': upgrade_due_nodes,
          'members': upgrade_due_members, 'findings': upgrade_findings, 'remarks': upgrade_remarks,
          'releases': upgrade_release_rules | rejectattr('good') | map(attribute='name'),
          'ending': upgrade_ending_here, 'path': upgrade_path, 'path_rules': upgrade_path_rules | rejectattr('good'), 'mixed': upgrade_is_mixed, 'storage': cluster_storage_dir} | to_json }}\"
";

/// Decisions of a host from what the playbook would have found; kube_version is 1.21.0.
fn decide(host: &str, seen: &Value, variables: &Value) -> Value {
    decide_with_tags("all", host, seen, variables)
}

fn decide_with_tags(tags: &str, host: &str, seen: &Value, variables: &Value) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let roles = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles");
    fs::write(folder.path().join("hosts"), HOSTS).unwrap();
    fs::write(folder.path().join("play.yml"), PLAYBOOK).unwrap();
    let mut all = json!({"kube_version": "1.21.0", "containerd_version": "1.6.20", "etcd_version": "3.4.23", "kube_image_repo": "registry.k8s.io",
        "dns_mode": "none", "seen": seen, "folder": folder.path(), "role": roles.join("upgrade")});
    all.as_object_mut().unwrap().extend(variables.as_object().unwrap().clone());
    fs::write(folder.path().join("variables.yml"), all.to_string()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "play.yml", "-e", "@variables.yml", "--tags", tags])
        .current_dir(folder.path())
        .env("ANSIBLE_ROLES_PATH", roles)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    serde_json::from_str(&fs::read_to_string(folder.path().join(host)).unwrap()).unwrap()
}

/// A line for a node as kubectl prints it with `cluster_node_columns`.
fn node_line(node: &str, ready: &str, runtime: &str, kubelet: &str) -> String {
    let conditions = json!([{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]);
    let info = json!({"containerRuntimeVersion": runtime, "kubeletVersion": kubelet});
    format!("{node}\t\t{conditions}\t{info}")
}

/// Observations of a healthy cluster: control planes at the first release, kubelets of cp1, cp2 and w1 at the others.
fn healthy(planes: &str, kubelets: [&str; 3]) -> Value {
    let pods = format!("pod kube-apiserver {planes}\npod kube-scheduler {planes}\nfree 9000 /opt");
    let rows: Vec<String> = ["cp1", "cp2", "w1"]
        .iter()
        .zip(kubelets)
        .map(|(node, release)| node_line(node, "True", "containerd://1.6.20~ds1", &format!("v{release}")))
        .collect();
    let plane = json!({"upgrade_state": {"stdout": pods, "stdout_lines": pods.lines().collect::<Vec<_>>()}, "cluster_readyz": {"rc": 0}});
    json!({
        "everywhere": {
            "upgrade_nodes": {"stdout": rows.join("\n")},
            "upgrade_begun": {"stat": {"exists": false}},
            "upgrade_etcd": {"results": [{"healthy": true, "endpoints": [{"version": "3.4.23", "db_size": 100, "errors": []}]}]},
        },
        "cp1": plane,
        "cp2": plane,
    })
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().or(one.as_str()).unwrap()).collect()
}

fn set(seen: &mut Value, host: &str, name: &str, value: Value) {
    seen[host][name] = value;
}

#[test]
fn cluster_at_the_release_has_nothing_due() {
    let seen = healthy("1.21.0", ["1.21.0", "1.21.0", "1.21.0"]);
    let decided = decide("cp1", &seen, &json!({}));
    assert_eq!(names(&decided["due"]), [""; 0]);
    assert_eq!(names(&decided["findings"]), [""; 0]);
    assert_eq!(names(&decided["releases"]), [""; 0]);
    assert!(
        decided["plan"][0].as_str().unwrap().starts_with("No node and no etcd member needs an upgrade"),
        "{decided}"
    );
}

/// A kubelet reports any text as its version or condition, and its node comes first.
#[test]
fn node_forges_no_state_of_another_node() {
    let mut seen = healthy("1.21.0", ["1.21.0", "1.21.0", "1.21.0"]);
    let honest = seen["everywhere"]["upgrade_nodes"]["stdout"].as_str().unwrap().to_owned();
    let lie = "v1.21.0\ncp1=False==containerd://1.6.2=v1.19.0\ncp1\t\t[]\t{}\u{85}cp1\t\t[]\t{}\u{2028}";
    let forged = node_line("a1", &format!("True\n{lie}"), lie, lie) + "\n" + &honest;
    seen["everywhere"]["upgrade_nodes"] = json!({"stdout": forged, "stdout_lines": forged.lines().collect::<Vec<_>>()});
    let decided = decide("cp1", &seen, &json!({}));
    assert_eq!(names(&decided["due"]), [""; 0], "{decided}");
    assert_eq!(names(&decided["findings"]), [""; 0], "{decided}");
    assert_eq!(decided["mixed"], json!(false), "{decided}");
}

#[test]
fn nodes_that_were_begun_come_first_and_are_named_in_the_plan() {
    let mut seen = healthy("1.20.3", ["1.20.2", "1.20.3", "1.20.2"]);
    set(&mut seen, "cp2", "upgrade_begun", json!({"stat": {"exists": true}}));
    set(&mut seen, "w1", "upgrade_state", json!({"stdout": "took 95", "stdout_lines": ["took 95"]}));
    set(&mut seen, "everywhere", "upgrade_images", json!({"stdout_lines": ["k8s.gcr.io/kube-proxy:v1.20.2"]}));
    let decided = decide("w1", &seen, &json!({}));
    assert_eq!(names(&decided["due"]), ["cp2", "cp1", "w1"]);
    // The state of before the upgrade is not replaced.
    assert_eq!(decided["mixed"], json!(true));
    let plan: Vec<&str> = decided["plan"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    for line in [
        "2. etcd, one member after the other: nothing to do.",
        "   cp2: Kubernetes 1.20.3 -> 1.21.0, containerd 1.6.20~ds1; goes on where a run was interrupted",
        "   cp1: Kubernetes 1.20.2 and 1.20.3 -> 1.21.0, containerd 1.6.20~ds1",
        "   w1: Kubernetes 1.20.2 -> 1.21.0, containerd 1.6.20~ds1; took 95 s last time",
        "   registry.k8s.io/kube-proxy: v1.20.2 -> v1.21.0",
        "w2 is no node yet and joins at the end.",
    ] {
        assert!(plan.contains(&line), "`{line}` is not in {plan:#?}");
    }
}

#[test]
fn other_runtime_or_etcd_is_due_although_kubernetes_is_current() {
    let seen = healthy("1.21.0", ["1.21.0", "1.21.0", "1.21.0"]);
    let decided = decide("cp1", &seen, &json!({"containerd_version": "1.6.2", "etcd_version": "3.5.9"}));
    assert_eq!(names(&decided["due"]), ["cp1", "cp2", "w1"]);
    assert_eq!(names(&decided["members"]), ["cp1"]);
}

/// Kubernetes and the runtime wait for an upgrade of their own.
#[test]
fn packages_alone_are_selected_by_their_tag() {
    let mut seen = healthy("1.20.2", ["1.20.2", "1.20.2", "1.20.2"]);
    set(&mut seen, "cp2", "upgrade_packages", json!({"changed": true}));
    let due = |variables: Value| {
        let decided = decide_with_tags("system-upgrade", "cp1", &seen, &variables);
        names(&decided["due"]).join(" ")
    };
    assert_eq!(due(json!({"system_upgrade": true, "containerd_version": "1.7.1"})), "cp2");
    assert_eq!(due(json!({})), "");
}

#[test]
fn member_whose_upgrade_was_interrupted_is_due_although_it_does_not_answer() {
    let mut seen = healthy("1.21.0", ["1.21.0", "1.21.0", "1.21.0"]);
    set(&mut seen, "cp1", "upgrade_etcd", json!({"results": [{"msg": "no answer"}]}));
    let decided = decide("cp1", &seen, &json!({}));
    assert_eq!((names(&decided["members"]), names(&decided["findings"])), (vec![], vec!["etcd"]));
    set(&mut seen, "cp1", "upgrade_state", json!({"stdout": "member begun", "stdout_lines": ["member begun"]}));
    let decided = decide("cp1", &seen, &json!({}));
    assert_eq!((names(&decided["members"]), names(&decided["findings"])), (vec!["cp1"], vec![]));
    // The state of before the upgrade is not replaced.
    assert_eq!(decided["mixed"], json!(true));
    let decided = decide_with_tags("runtime", "cp1", &seen, &json!({}));
    assert_eq!((names(&decided["members"]), names(&decided["findings"])), (vec![], vec!["etcd"]));
}

#[test]
fn certificate_that_ended_an_hour_ago_and_those_in_kubeconfigs_are_observed() {
    let folder = tempfile::tempdir().unwrap();
    // The clock of the host is three days and an hour ahead.
    let made = "mkdir bin && cat >bin/date <<'END' && chmod +x bin/date
#!/bin/sh
[ \"$*\" != +%s ] || { echo $(($(/bin/date +%s) + 262800)); exit; }
exec /bin/date \"$@\"
END
for name in ended:3:scheduler good:6:admin; do
    days=${name#*:} file=${name%%:*}.crt
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out $file -subj /CN=x -days ${days%:*} 2>/dev/null || exit
    echo \"    client-certificate-data: $(base64 -w0 $file)\" >${name##*:}.conf
done
PATH=$PWD/bin:$PATH sh \"$0\" . . etcd bin target";
    let output = Command::new("sh")
        .args(["-c", made, concat!(env!("CARGO_MANIFEST_DIR"), "/roles/upgrade/files/state.sh")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = ["cert -1 ./ended.crt\n", "cert 2 ./good.crt\n", "cert 2 ./admin.conf\n", "cert -1 ./scheduler.conf\n"];
    for line in lines {
        assert!(text.contains(line), "`{line}` is not in {text}");
    }
}

#[test]
fn file_system_of_the_images_is_that_of_the_runtime() {
    let seen = healthy("1.21.0", ["1.21.0", "1.21.0", "1.21.0"]);
    let folder = |variables: Value| decide("w1", &seen, &variables)["storage"].as_str().unwrap().to_owned();
    assert_eq!(folder(json!({})), "/var/lib/containerd");
    assert_eq!(folder(json!({"containerd_storage_dir": "/data/c"})), "/data/c");
    assert_eq!(folder(json!({"container_manager": "docker"})), "/var/lib/docker");
    assert_eq!(folder(json!({"container_manager": "crio", "crio_root": "/data/o"})), "/data/o");
}

#[test]
fn releases_that_do_not_follow_each_other_are_refused() {
    let refused = |planes: &str, kubelet: &str| {
        let decided = decide("cp1", &healthy(planes, [planes, planes, kubelet]), &json!({}));
        names(&decided["releases"]).join(", ")
    };
    assert_eq!(refused("1.20.9", "1.19.1"), "");
    assert_eq!(refused("1.21.1", "1.21.1"), "downgrade");
    assert_eq!(refused("1.20.9", "1.22.0"), "downgrade");
    assert_eq!(refused("1.19.3", "1.19.3"), "skipped minor");
    assert_eq!(refused("1.20.9", "1.18.1"), "kubelet skew");
}

#[test]
fn path_has_one_release_of_each_minor_in_between() {
    let path = |planes: &str, kubelet: &str, variables: Value| {
        let decided = decide("cp1", &healthy(planes, [planes, planes, kubelet]), &variables);
        let rules = names(&decided["path_rules"]).join(" ");
        (names(&decided["path"]).join(" "), rules)
    };
    let good = |path: &str| (path.to_owned(), String::new());
    assert_eq!(path("1.20.9", "1.20.9", json!({})), good("1.21.0"));
    assert_eq!(path("1.33.1", "1.33.1", json!({"kube_version": "1.36.3"})), good("1.34.11 1.35.8 1.36.3"));
    let named = json!({"kube_version": "1.36.3", "kube_upgrade_path": ["1.33.2", "1.35.6"]});
    assert_eq!(path("1.33.1", "1.33.1", named.clone()), good("1.34.11 1.35.6 1.36.3"));
    // A run that was interrupted between the control planes and the workers.
    assert_eq!(path("1.34.2", "1.33.1", named), good("1.34.2 1.35.6 1.36.3"));
    let other = json!({"kube_version": "1.36.3", "kube_upgrade_path": ["1.35.6", "1.35.7"]});
    assert_eq!(path("1.34.2", "1.34.2", other).1, "path");
    assert_eq!(path("1.29.2", "1.29.2", json!({"kube_version": "1.31.5"})).1, "unknown release");
    assert_eq!(path("1.31.2", "1.31.2", json!({"kube_version": "1.36.3"})).1, "too far");
    // Neither the same release nor an older one needs a path.
    assert_eq!(path("1.21.0", "1.21.0", json!({})), good("1.21.0"));
    assert_eq!(path("1.22.3", "1.22.3", json!({})), good("1.21.0"));
}

#[test]
fn what_would_stop_the_upgrade_is_found_together() {
    let mut seen = healthy("1.20.2", ["1.20.2", "1.20.2", "1.20.2"]);
    let found = [
        ("upgrade_budgets", json!({"stdout_lines": ["a/b=0=1=1=1", "a/c=1=2=2=1", "a/d=0=0=0=0"]})),
        (
            "upgrade_pod_lines",
            json!({"stdout_lines": ["a/p=w1=Running==data other", "a/q=w1=Running=ReplicaSet=", "a/r=cp1=Succeeded=="]}),
        ),
        ("upgrade_volumes", json!({"stdout_lines": ["a/data=/mnt/x", "a/z="]})),
        ("upgrade_webhooks", json!({"stdout_lines": ["w.x=a/svc", "w.v=a/two", "w.y=a/gone", "w.z=/"]})),
        ("upgrade_services", json!({"stdout_lines": ["a/svc=10.0.0.1=w1 w1", "a/two=10.0.0.2=w1 cp2", "a/gone=="]})),
        ("upgrade_dns", json!({"stdout": "configmap/coredns"})),
    ];
    for (name, value) in found {
        set(&mut seen, "everywhere", name, value);
    }
    let member = json!({"version": "3.4.23", "db_size": 2_000_000_000, "errors": ["alarm:NOSPACE"]});
    set(&mut seen, "cp1", "upgrade_etcd", json!({"results": [{"healthy": false, "endpoints": [member]}]}));
    let state = "pod kube-apiserver 1.20.2\ncert -2 /x/old.crt\ncert 3 /x/new.crt\nauthority 20 /x/ca.crt\nfree 100 /var\nfree 9000 /opt";
    set(&mut seen, "cp1", "upgrade_state", json!({"stdout": state, "stdout_lines": state.lines().collect::<Vec<_>>()}));
    set(
        &mut seen,
        "cp1",
        "upgrade_apis",
        json!({"stdout": "policy/v1beta1/podsecuritypolicies=25\nextensions/v1beta1/ingresses=21"}),
    );
    let decided = decide("cp1", &seen, &json!({}));
    let expected = ["certificates", "space", "etcd", "budgets", "pods", "apis", "webhooks", "dns"];
    assert_eq!(names(&decided["findings"]), expected);
    let text = decided["findings"].to_string();
    for part in [
        "/x/old.crt has ended, /x/ca.crt ends in 20 days",
        "for /var.",
        "alarm:NOSPACE",
        "a/b: this",
        "a/p has no controller",
        "extensions/v1beta1/ingresses.",
        "w.y: no pod",
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    let remarks = decided["remarks"].to_string();
    assert!(remarks.contains("a/p has a volume on its node") && remarks.contains("podsecuritypolicies"), "{remarks}");
    assert!(remarks.contains("w.x (on w1): all pods") && !remarks.contains("w.v"), "{remarks}");
    // Only findings of its own come from another host.
    assert_eq!(names(&decide("w1", &seen, &json!({}))["findings"]), [""; 0]);
}

/// The node of an interrupted run is drained, and its pods may be the ones that the budgets and webhooks miss.
#[test]
fn interrupted_upgrade_goes_on_with_exhausted_budgets_and_dead_webhooks() {
    let mut seen = healthy("1.20.2", ["1.20.2", "1.20.2", "1.20.2"]);
    set(&mut seen, "everywhere", "upgrade_budgets", json!({"stdout_lines": ["a/b=0=1=0=1"]}));
    set(&mut seen, "everywhere", "upgrade_webhooks", json!({"stdout_lines": ["w.y=a/gone"]}));
    set(&mut seen, "everywhere", "upgrade_services", json!({"stdout_lines": ["a/gone=="]}));
    let fresh = decide("cp1", &seen, &json!({}));
    assert_eq!(names(&fresh["findings"]), ["budgets", "webhooks"]);
    set(&mut seen, "w1", "upgrade_begun", json!({"stat": {"exists": true}}));
    let resumed = decide("cp1", &seen, &json!({}));
    assert_eq!(names(&resumed["findings"]), [""; 0]);
    let remarks = resumed["remarks"].to_string();
    assert!(remarks.contains("a/b: this PodDisruptionBudget") && remarks.contains("w.y: no pod answers"), "{remarks}");
}

#[test]
fn budget_without_pods_on_due_nodes_does_not_stop_the_upgrade() {
    let mut seen = healthy("1.20.2", ["1.20.2", "1.20.2", "1.20.2"]);
    set(&mut seen, "everywhere", "upgrade_budgets", json!({"stdout_lines": ["a/b=0=1=1=1"]}));
    let mut found = |node: &str| {
        let one = json!({"rc": 0, "item": {"item": "a/b"}, "stdout_lines": [node]});
        set(&mut seen, "everywhere", "upgrade_budget_nodes", json!({"results": [one]}));
        names(&decide("cp1", &seen, &json!({}))["findings"]).join(" ")
    };
    assert_eq!(found("w1"), "budgets");
    assert_eq!(found("elsewhere"), "");
}

/// Pods of the node in the last step may still be starting.
#[test]
fn settling_ends_with_the_last_exhausted_budget_and_unanswered_webhook() {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = folder.path().join("kubectl");
    let script = r#"#!/bin/sh
here=$(dirname "$0")
case "$*" in
*poddisruptionbudgets*) echo "$(cat "$here/allowed")=2"; echo 0=0 ;;
*endpoints*) echo "a/b=$(cat "$here/address")"; echo 10.0.0.9 >"$here/address" ;;
*) echo /; echo a/b ;;
esac
"#;
    fs::write(&kubectl, script).unwrap();
    fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
    let settle = |allowed: &str, address: &str, tries: &str| {
        fs::write(folder.path().join("allowed"), allowed).unwrap();
        fs::write(folder.path().join("address"), address).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/upgrade/files/settle.sh");
        let output = Command::new("sh").arg(script).args([tries, "0"]).arg(&kubectl).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(settle("1", "10.0.0.1", "1"), "settled\n");
    assert_eq!(settle("0", "10.0.0.1", "3"), "not settled\n");
    assert_eq!(settle("1", "", "1"), "not settled\n");
    assert_eq!(settle("1", "", "2"), "settled\n");
}

#[test]
fn lost_objects_are_found_and_old_versions_are_remarked() {
    let mut seen = healthy("1.20.2", ["1.20.2", "1.20.2", "1.20.2"]);
    let lines = [
        "lost\t2\tPodSecurityPolicy of policy/v1beta1\tone, two",
        "unserved\t1\tdefinitions\tx.example (v1beta1)",
        "written\t14\tPodDisruptionBudget of policy/v1beta1 by helm\ta/b, a/c, a/d",
        "written\t1\tCronJob of batch/v1beta1 by \u{1b}[2J\ta/e",
        "anything\t1\tbut\tthese",
    ];
    set(&mut seen, "everywhere", "upgrade_objects", json!({"stdout_lines": lines}));
    // The garbage collector requests every kind.
    let metric = json!({"stdout": "policy/v1beta1/podsecuritypolicies=25\npolicy/v1beta1/poddisruptionbudgets=25"});
    set(&mut seen, "cp1", "upgrade_apis", metric);
    let decided = decide("cp1", &seen, &json!({"upgrade_last_minor": 25}));
    assert_eq!(names(&decided["findings"]), ["apis", "objects"]);
    let text = decided["findings"].to_string();
    assert!(text.contains("has no more: policy/v1beta1/poddisruptionbudgets."), "{text}");
    assert!(
        text.contains("cannot read objects that exist: PodSecurityPolicy of policy/v1beta1 (2): one, two."),
        "{text}"
    );
    let remarks = decided["remarks"].to_string();
    for part in ["PodDisruptionBudget of policy/v1beta1 by helm (14): a/b, a/c, a/d.", "x.example (v1beta1), 1 in all"]
    {
        assert!(remarks.contains(part), "`{part}` is not in {remarks}");
    }
    assert!(!remarks.contains("CronJob") && !remarks.contains("anything"), "{remarks}");
}

#[test]
fn versions_that_end_on_the_way_are_searched() {
    let ending = |release: &str, target: &str| {
        let seen = healthy(release, [release, release, release]);
        decide("cp1", &seen, &json!({"kube_version": target}))["ending"].to_string()
    };
    assert_eq!(ending("1.20.2", "1.21.0"), "[]");
    let found = ending("1.21.2", "1.25.0");
    assert!(found.contains("extensions/v1beta1") && found.contains("podsecuritypolicies.policy"), "{found}");
    assert!(!found.contains("v2beta2"), "{found}");
    // A version that is no longer served does not end again.
    assert!(!ending("1.25.2", "1.26.0").contains("policy/v1beta1"));
}

/// Runs a script of the role with programs that are texts for `sh`, and returns its status and output.
fn script(name: &str, programs: &[(&str, &str)], arguments: &[&str]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    for (program, text) in programs {
        let path = folder.path().join(program);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles");
    let read = |name: &str| fs::read_to_string(files.join(name)).unwrap();
    let source = read("verify/files/lib.sh") + "\n" + &read(&format!("upgrade/files/{name}"));
    let mut command = Command::new("bash");
    command.args(["-c", &source, name]).arg(folder.path()).args(arguments).env("PATH", path);
    let output = command
        .envs(["ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY", "ETCDCTL_ENDPOINTS"].map(|name| (name, "x")))
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn objects_in_ending_versions_are_listed_with_their_managers() {
    let kubectl = r#"case "$*" in
*api-resources*) printf '%s\n' poddisruptionbudgets.policy podsecuritypolicies.policy pods ;;
*customresourcedefinitions*)
  printf 'crd\t"x.example"\nhas\t"v1"\ttrue\nhas\t"v1beta1"\tfalse\nstored\t"v1beta1"\nstored\t"v1alpha1"\nstored\t"v1"\n' ;;
*"get poddisruptionbudgets.policy,podsecuritypolicies.policy "*)
  for name in 1 2 3 4; do
    printf 'object\t"PodDisruptionBudget"\t"policy/v1"\t"a"\t"%s"\n' $name
    printf 'manager\t"policy/v1beta1"\t"%s"\n' helm helm kube-controller-manager kubectl-client-side-apply
    printf 'manager\t"policy/v1"\t"other"\n'
  done
  printf 'applied\t"{\\"apiVersion\\":\\"policy/v1beta1\\",\\"kind\\"\\n"\n'
  printf 'object\t"PodSecurityPolicy"\t"policy/v1beta1"\t""\t"strict\\x1b"\n' ;;
*) exit 1 ;;
esac"#;
    let table = "poddisruptionbudgets.policy PodDisruptionBudget policy/v1beta1 served podsecuritypolicies.policy PodSecurityPolicy \
                 policy/v1beta1 lost clustercidrs.networking.k8s.io ClusterCIDR networking.k8s.io/v1alpha1 lost";
    let arguments: Vec<&str> = ["config", "server"].into_iter().chain(table.split_whitespace()).collect();
    let (success, found) = script("apis.sh", &[("kubectl", kubectl)], &arguments);
    let expected = "lost\t1\tPodSecurityPolicy of policy/v1beta1\tstrictx1b\n\
                    missing\t1\tdefinitions\tx.example (v1alpha1)\n\
                    unserved\t1\tdefinitions\tx.example (v1beta1)\n\
                    written\t4\tPodDisruptionBudget of policy/v1beta1 by helm\ta/1, a/2, a/3\n\
                    written\t1\tPodDisruptionBudget of policy/v1beta1 by kubectl apply\ta/4\n";
    assert!(success && found == expected, "{found}");
    // Fails if the API does not answer.
    let silent = "case \"$*\" in *api-resources*) echo pods ;; *) exit 1 ;; esac";
    assert!(!script("apis.sh", &[("kubectl", silent)], &arguments).0);
    assert!(!script("apis.sh", &[("kubectl", "exit 1")], &arguments).0);
}

#[test]
fn slow_disk_of_etcd_is_remarked_and_a_very_slow_one_refuses() {
    // 1000 writes, of which 985 took 8 ms at most, and 996 took 16 ms at most.
    let curl = r#"for line in 0.008:985 0.016:996 +Inf:1e+03; do
  echo "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"${line%:*}\"} ${line#*:}"
done
echo 'etcd_disk_backend_commit_duration_seconds_bucket{le="8.192"} 900'
echo 'etcd_disk_backend_commit_duration_seconds_bucket{le="+Inf"} 1000'"#;
    let (success, metrics) = script("disk.sh", &[("curl", curl)], &[]);
    assert!(success && metrics == "wal_fsync 1000 16\nbackend_commit 1000 8192+\n", "{metrics}");
    assert!(!script("disk.sh", &[("curl", "exit 7")], &[]).0);

    let decided = |stdout: &str, variables: Value| {
        let mut seen = healthy("1.20.2", ["1.20.2", "1.20.2", "1.20.2"]);
        set(&mut seen, "cp1", "upgrade_disk", json!({"results": [{"item": {"unit": "etcd"}, "stdout": stdout}]}));
        let decided = decide("cp1", &seen, &variables);
        (names(&decided["findings"]).join(" "), decided["remarks"].to_string())
    };
    let (findings, remarks) = decided("wal_fsync 1000 16\nbackend_commit 1000 16", json!({}));
    assert!(
        findings.is_empty() && remarks.contains("99 of 100 writes to the log of etcd take up to 16 ms, which"),
        "{remarks}"
    );
    assert_eq!(decided("wal_fsync 1000 8\nbackend_commit 1000 16", json!({})), (String::new(), "[]".to_owned()));
    assert_eq!(decided("wal_fsync 1000 128\nbackend_commit 1000 16", json!({})).0, "disk");
    assert_eq!(decided("wal_fsync 1000 128", json!({"upgrade_etcd_fsync_fail": 200})).0, "");
    assert_eq!(decided("wal_fsync 1000 8\nbackend_commit 1000 8192+", json!({})).0, "disk");
    // A member that has started a minute ago.
    assert_eq!(decided("wal_fsync 99 8192+", json!({})), (String::new(), "[]".to_owned()));
    assert!(decided("", json!({})).1.contains("etcd does not give its metrics"));
}

#[test]
fn archives_without_the_image_of_kubeadms_job_are_remarked() {
    let seen = healthy("1.35.6", ["1.35.6", "1.35.6", "1.35.6"]);
    let remarks = |release: &str, pause: &str| {
        let archive = json!({"file": "pause.tar", "sha256": "0", "names": [format!("registry.k8s.io/pause:{pause}")]});
        let variables = json!({"kube_version": release, "pod_infra_version": pause, "image_archives": [archive]});
        decide("cp1", &seen, &variables)["remarks"].to_string()
    };
    let missing = remarks("1.36.2", "3.10.1");
    assert!(missing.contains("kubeadm runs a pod of registry.k8s.io/pause:3.10.2, which no archive"), "{missing}");
    assert_eq!(remarks("1.36.2", "3.10.2"), "[]");
    // Nothing is due.
    assert_eq!(remarks("1.35.6", "3.9"), "[]");
}

#[test]
fn tags_select_the_parts_that_are_due() {
    let seen = healthy("1.20.2", ["1.20.2", "1.20.2", "1.20.2"]);
    let due = |tags: &str| {
        let decided = decide_with_tags(tags, "cp1", &seen, &json!({"etcd_version": "3.5.9"}));
        (names(&decided["due"]).len(), names(&decided["members"]).len())
    };
    assert_eq!([due("all"), due("runtime"), due("etcd"), due("network")], [(3, 1), (0, 0), (0, 1), (0, 0)]);
}

#[test]
fn newer_packages_and_a_pending_restart_make_a_node_due_only_with_system_upgrade() {
    let mut seen = healthy("1.21.0", ["1.21.0", "1.21.0", "1.21.0"]);
    set(&mut seen, "cp2", "upgrade_packages", json!({"changed": true}));
    seen["w1"] = json!({"upgrade_restart": {"stat": {"exists": true}}});
    let due = |variables: Value| {
        let decided = decide("cp1", &seen, &variables);
        names(&decided["due"]).join(" ")
    };
    assert_eq!(due(json!({})), "");
    assert_eq!(due(json!({"system_upgrade": true})), "cp2 w1");
    assert_eq!(due(json!({"system_upgrade": true, "system_upgrade_reboot": "never"})), "cp2");
}

/// Exit code and output of the playbook on the node of `tests/upgrade/simulate`, or nothing where it cannot run.
fn simulate(folder: &Path, more: &[&str]) -> (Option<i32>, String) {
    let output = simulation(folder, more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

fn simulation(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["-m", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/upgrade/simulate"), env!("CARGO_BIN_EXE_windlass")])
        .arg(folder)
        .args(more)
        .env("NO_COLOR", "1")
        .env("WINDLASS_JOURNAL_DIR", folder.join("journals"));
    command
}

/// True if this user may unshare mount namespaces, which needs root.
fn can_simulate() -> bool {
    windlass_testing::has("namespaces")
}

/// Compares kubelet's program, the cluster's release, cordoned or not, and the mark of a begun upgrade.
#[track_caller]
fn node_is(folder: &Path, release: &str, cordoned: &str) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap().trim().to_owned();
    assert!(read("bin/kubelet").ends_with(&format!("v{release}\"")));
    assert_eq!(read("cluster"), release);
    assert_eq!(read("cordoned"), cordoned);
    assert!(!folder.join("bin/.before-upgrade").exists());
    let manifest = read("over/etc/upper/kubernetes/manifests/kube-scheduler.yaml");
    assert!(manifest.ends_with(&format!(":v{release}")), "{manifest}");
}

#[test]
fn node_is_upgraded_and_a_second_run_changes_nothing() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = simulate(folder.path(), &[]);
    assert_eq!(code, Some(0), "{text}");
    node_is(folder.path(), "1.21.0", "");
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    let order = ["drain cp1", "init phase upload-config kubeadm", "upgrade apply v1.21.0", "uncordon cp1"];
    let places: Vec<usize> = order.iter().map(|call| calls.find(call).unwrap()).collect();
    assert!(places.is_sorted(), "{calls}");
    assert_eq!(fs::read_dir(folder.path().join("backups")).unwrap().count(), 3);
    let took = fs::read_to_string(folder.path().join("over/etc/upper/kubernetes/upgrade-seconds")).unwrap();
    assert!(took.trim().parse::<u32>().is_ok(), "{took}");
    let kept = |name: &str| fs::read_to_string(folder.path().join("backups/rollback").join(name)).unwrap();
    assert!(kept("programs/kubelet").contains("v1.20.2") && kept("etcd.db") == "snapshot\n");
    assert!(kept("settings/etc/kubernetes/manifests/kube-scheduler.yaml").ends_with("v1.20.2\n"));
    assert!(kept("record").contains("\nkubernetes 1.20.2\n"), "{}", kept("record"));
    let (code, text) = simulate(folder.path(), &[]);
    assert!(code == Some(0) && text.contains("changed=0 "), "{text}");
}

/// An apt-get with one newer package, which needs a restart, until `newest` exists in the folder.
fn package_manager(folder: &Path) {
    fs::create_dir_all(folder.join("system")).unwrap();
    let program = folder.join("system/apt-get");
    let text = r#"#!/bin/sh
cd @FOLDER@ || exit 1
echo "apt-get $*" >> calls
[ ! -e newest ] || exit 0
case "$*" in
*--simulate*dist-upgrade*) echo 'Inst libx [1] (2 Debian [amd64])' ;;
*dist-upgrade*) touch newest /run/reboot-required ;;
esac
"#;
    fs::write(&program, text.replace("@FOLDER@", folder.to_str().unwrap())).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Places of these calls in the record of all calls, which must have each of them.
#[track_caller]
fn places(folder: &Path, order: &[&str]) -> Vec<usize> {
    let calls = fs::read_to_string(folder.join("calls")).unwrap();
    order.iter().map(|call| calls.find(call).unwrap_or_else(|| panic!("no `{call}`: {calls}"))).collect()
}

#[test]
fn packages_are_upgraded_on_the_drained_node_before_kubernetes() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    package_manager(folder.path());
    let settings = ["-e", "ansible_pkg_mgr=apt", "-e", "system_upgrade=true", "-e", "system_upgrade_reboot=never"];
    let (code, text) = simulate(folder.path(), &settings);
    assert_eq!(code, Some(0), "{text}");
    node_is(folder.path(), "1.21.0", "");
    let order = ["drain cp1", "DPkg::Lock::Timeout=60 dist-upgrade", "upgrade apply v1.21.0", "uncordon cp1"];
    let found = places(folder.path(), &order);
    assert!(found.is_sorted(), "{found:?}");
    let (code, text) = simulate(folder.path(), &settings);
    assert!(code == Some(0) && text.contains("changed=0 "), "{text}");
}

#[test]
fn node_whose_packages_need_a_restart_is_restarted_while_it_is_drained() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    package_manager(folder.path());
    let (code, text) = simulate(folder.path(), &["-e", "ansible_pkg_mgr=apt", "-e", "system_upgrade=true"]);
    // The host of the simulation is the control machine, which is never restarted.
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("cp1 was not upgraded. Restart the node: Running reboot with local connection"), "{text}");
    let found = places(folder.path(), &["drain cp1", "DPkg::Lock::Timeout=60 dist-upgrade", "uncordon cp1"]);
    assert!(found.is_sorted(), "{found:?}");
}

#[test]
fn restart_of_nodes_that_are_not_drained_is_refused() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = simulate(folder.path(), &["-e", "system_upgrade=true", "-e", "drain_nodes=false"]);
    assert!(code == Some(2) && text.contains("system_upgrade may restart nodes, but drain_nodes"), "{text}");
}

#[test]
fn node_whose_upgrade_fails_is_put_back() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let uncordoned = "It has its old programs and static pods back, is ready, and gets pods.";
    // The simulation begins when the file exists, so the failure is chosen before the node exists.
    for (fails, reason) in [
        ("kubeadm-fails", "the upgrade fails"),
        ("unready-1.21.0", "the last answer was `True vnone containerd://1.6.20~ds1`"),
        ("drain-fails", "a budget forbids it"),
    ] {
        fs::write(folder.path().join(fails), "").unwrap();
        // An earlier upgrade could not remove what it had kept.
        let stale = folder.path().join("bin/.before-upgrade/programs");
        fs::create_dir_all(&stale).unwrap();
        fs::write(stale.join("kubelet"), "echo \"Kubernetes v1.19.9\"\n").unwrap();
        let (code, text) = simulate(folder.path(), &[]);
        assert!(code == Some(2) && text.contains(reason) && text.contains(uncordoned), "{text}");
        node_is(folder.path(), "1.20.2", "");
        // containerd does not go on with settings of the new release.
        let settings = fs::read_to_string(folder.path().join("over/etc/upper/containerd/config.toml")).unwrap();
        let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
        assert!(
            settings == "version = 2\n" && calls.rfind("restart containerd") > calls.rfind("upgrade apply"),
            "{calls}"
        );
        fs::remove_file(folder.path().join(fails)).unwrap();
    }
    let (code, text) = simulate(folder.path(), &[]);
    assert_eq!(code, Some(0), "{text}");
    node_is(folder.path(), "1.21.0", "");
}

#[test]
fn upgrade_that_is_killed_goes_on() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    let moments = ["Back up the old binaries", "Drain the node", "Upgrade the static pods", "Configure kubelet"];
    for moment in moments {
        let mut run = simulation(folder.path(), &[]).stdout(fs::File::create(&output).unwrap()).spawn().unwrap();
        while run.try_wait().unwrap().is_none() && !fs::read_to_string(&output).unwrap().contains(moment) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        run.kill().unwrap();
        run.wait().unwrap();
        let printed = fs::read_to_string(&output).unwrap();
        assert!(printed.contains(moment), "the run ended before the task `{moment}`:\n{printed}");
    }
    let (code, text) = simulate(folder.path(), &[]);
    assert!(code == Some(0) && text.contains("goes on where a run was interrupted"), "{text}");
    node_is(folder.path(), "1.21.0", "");
}

#[test]
fn old_program_of_etcd_stays_until_its_upgrade_is_finished() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = simulate(folder.path(), &[]);
    assert_eq!(code, Some(0), "{text}");
    let kept = folder.path().join("bin/.etcd.before-upgrade");
    fs::write(&kept, "old").unwrap();
    fs::write(folder.path().join("bin/etcd"), "new").unwrap();
    // Another part of the upgrade leaves it alone.
    let (code, text) = simulate(folder.path(), &["--tags", "runtime", "--skip-tags", "upgrade"]);
    assert!(code == Some(0) && kept.exists(), "{text}");
    let (code, text) = simulate(folder.path(), &[]);
    assert!(code == Some(0) && !kept.exists(), "{text}");
    assert_eq!(fs::read_to_string(folder.path().join("bin/etcd")).unwrap(), "new");
}

/// Between two minors, and between etcd and the first node, all nodes have the same release.
#[test]
fn upgrade_that_goes_on_at_a_boundary_keeps_the_state_for_a_rollback() {
    if !can_simulate() {
        return;
    }
    for (target, kept) in [("1.21.0", true), ("1.20.5", false)] {
        let folder = tempfile::tempdir().unwrap();
        let backups = folder.path().join("backups");
        fs::create_dir_all(backups.join("rollback")).unwrap();
        fs::write(backups.join("rollback/record"), "older").unwrap();
        fs::write(backups.join("target"), format!("{target}\n")).unwrap();
        let (code, text) = simulate(folder.path(), &[]);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(fs::read_to_string(backups.join("rollback/record")).unwrap() == "older", kept);
        assert!(!backups.join("target").exists());
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kubeadm-fails"), "").unwrap();
    let (code, text) = simulate(folder.path(), &[]);
    assert_eq!(code, Some(2), "{text}");
    let target = fs::read_to_string(folder.path().join("backups/target")).unwrap();
    assert_eq!(target, "1.21.0\n1.20.2/3.4.23\n");
    // Nothing has moved since, so what the cluster has now is saved, however long ago that was.
    fs::write(folder.path().join("backups/rollback/record"), "older").unwrap();
    fs::remove_file(folder.path().join("kubeadm-fails")).unwrap();
    let (code, text) = simulate(folder.path(), &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_ne!(fs::read_to_string(folder.path().join("backups/rollback/record")).unwrap(), "older", "{text}");
}

#[test]
fn workers_follow_one_that_was_put_back_only_by_choice() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kubeadm-fails"), "").unwrap();
    // A control plane ends the run nevertheless.
    let (code, text) = simulate(folder.path(), &["-e", "upgrade_continue_after_failure=true"]);
    assert!(code == Some(2) && text.contains("No further node was begun"), "{text}");
    assert!(!text.contains("Report the nodes left to upgrade"), "{text}");
    // The node of the simulation stands for a worker here. The run fails at its end, without the rest.
    let (code, text) = simulate(folder.path(), &["-e", "{upgrade_goes_on: true}"]);
    assert!(code == Some(2) && text.contains("The others have been upgraded."), "{text}");
    assert!(!text.contains("No further node was begun") && !text.contains("Prepare the hosts"), "{text}");
    node_is(folder.path(), "1.20.2", "");
}

#[test]
fn window_that_has_ended_leaves_nodes_members_and_the_rest_as_they_are() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Variables of the command line take precedence over the end that the run computes.
    let ended = ["-e", "upgrade_window_end='06:00'", "-e", "upgrade_deadline=1", "-e", "etcd_version=3.5.30"];
    let (code, text) = simulate(folder.path(), &ended);
    assert_eq!(code, Some(0), "{text}");
    for part in ["cp1 is left as it is", "the etcd member on cp1 is left as it is", "no further release is begun"] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    node_is(folder.path(), "1.20.2", "");
    assert!(!fs::read_to_string(folder.path().join("calls")).unwrap().contains("drain cp1"));

    // A run whose last node is finished leaves the rest for the next window.
    let (code, text) = simulate(folder.path(), &[]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = simulate(folder.path(), &ended[..4]);
    assert!(code == Some(0) && text.contains("the network, kube-proxy and the addons stay as they are"), "{text}");
}

#[test]
fn window_of_a_run_over_several_minors_ends_once() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let play = "
- hosts: all
  gather_facts: true
  tags: [always]
  roles: [{role: check}]
  tasks:
    - ansible.builtin.import_role: {name: cluster, tasks_from: speaker}
    - ansible.builtin.import_role: {name: upgrade, tasks_from: path}
    - ansible.builtin.import_role: {name: upgrade, tasks_from: plan}
    - ansible.builtin.set_fact: {upgrade_deadline: \"1\"}
    - ansible.builtin.import_role: {name: upgrade, tasks_from: plan}
      vars: {upgrade_step: 1}
    - ansible.builtin.debug: {msg: \"the window is over: {{ upgrade_window_over }}\"}
";
    fs::write(folder.path().join("window.yml"), play).unwrap();
    let output = simulation(folder.path(), &["-e", "upgrade_window_end='06:00'"])
        .env("PLAYBOOK", folder.path().join("window.yml"))
        .env("ANSIBLE_ROLES_PATH", concat!(env!("CARGO_MANIFEST_DIR"), "/roles"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("the window is over: True"), "{text}");
    // The plan has the date, because the time may have passed for today.
    assert!(text.contains("No node is begun after 20") && text.contains(" 06:00 of the control machine"), "{text}");
}

/// Runs the role control_plane on the node of `simulate`, and returns the calls of kubeadm.
fn control_plane(folder: &Path, more: &[&str]) -> (Option<i32>, String) {
    fs::write(
        folder.join("plane.yml"),
        "- hosts: cp1\n  gather_facts: true\n  tags: [upgrade]\n  roles: [{role: control_plane, tags: [upgrade]}]\n",
    )
    .unwrap();
    fs::write(folder.join("calls"), "").unwrap();
    let mut command = simulation(folder, &["-e", "kube_version=1.20.2"]);
    let output = command
        .args(more)
        .env("PLAYBOOK", folder.join("plane.yml"))
        .env("ANSIBLE_ROLES_PATH", concat!(env!("CARGO_MANIFEST_DIR"), "/roles"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text + "\n" + &fs::read_to_string(folder.join("calls")).unwrap())
}

#[test]
fn settings_of_a_control_plane_count_as_applied_only_after_they_were() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let applies = "init phase control-plane all";
    let (code, text) = control_plane(folder.path(), &[]);
    assert!(code == Some(0) && text.contains(applies), "{text}");
    let (code, text) = control_plane(folder.path(), &[]);
    assert!(code == Some(0) && !text.contains(applies), "{text}");

    fs::write(folder.path().join("over/var/lib/upper/kubelet/config.yaml"), "x").unwrap();
    // A run that ended after kubeadm had succeeded leaves no record. The next one may have other settings.
    fs::remove_file(folder.path().join("over/etc/upper/kubernetes/kubeadm-config.applied.yaml")).unwrap();
    let (code, text) = control_plane(folder.path(), &["-e", "event_ttl_duration=2h0m0s"]);
    assert!(code == Some(0) && text.contains(applies), "{text}");

    // Settings that kubeadm refuses reach no manifest, so the former ones need not be applied again.
    fs::write(folder.path().join("kubeadm-fails"), "").unwrap();
    let (code, text) = control_plane(folder.path(), &["-e", "event_ttl_duration=3h0m0s"]);
    assert!(code == Some(2) && text.contains(applies), "{text}");
    fs::remove_file(folder.path().join("kubeadm-fails")).unwrap();
    let (code, text) = control_plane(folder.path(), &["-e", "event_ttl_duration=2h0m0s"]);
    assert!(code == Some(0) && !text.contains(applies), "{text}");
}

/// Otherwise the first control plane would not come back.
#[test]
fn upgrade_to_a_release_without_a_version_of_the_runtime_config_is_refused_before_it_begins() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = simulate(folder.path(), &["-e", "{kube_api_runtime_config: [batch/v2alpha1=true]}"]);
    let sentence = "kube_api_runtime_config has batch/v2alpha1, which Kubernetes 1.21.0 does not know any more";
    assert!(code == Some(2) && text.contains(sentence), "{text}");
    node_is(folder.path(), "1.20.2", "");
    assert_eq!(fs::read_to_string(folder.path().join("calls")).unwrap(), "");
}

#[test]
fn upgrade_to_a_release_that_loses_objects_is_refused_unless_it_is_ignored() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("objects"), "object\t\"PodSecurityPolicy\"\t\"policy/v1beta1\"\t\"\"\t\"strict\"\n")
        .unwrap();
    let last = ["--check", "-e", "upgrade_last_minor=25"];
    let (code, text) = simulate(folder.path(), &last);
    assert!(code == Some(2) && text.contains("[objects] Kubernetes 1.21.0 cannot read objects"), "{text}");
    let (code, text) =
        simulate(folder.path(), &[&last[..], &["-e", "{upgrade_ignore_preflight: [objects]}"][..]].concat());
    assert!(code == Some(0) && text.contains("PodSecurityPolicy of policy/v1beta1 (1): strict"), "{text}");
    // The end of a check repeats its plan, after the pages of what each node would do.
    let again = text.split("PLAY [Show the plan of a check again]").nth(1).unwrap_or_default();
    assert!(again.contains("1. A snapshot of etcd and the keys of the cluster go to"), "{text}");
}

#[test]
fn keys_that_an_upgrade_saves_are_encrypted_like_backups() {
    if !can_simulate() {
        return;
    }
    let recipient = format!("age1{}", "q".repeat(58));
    for (encryption, encrypted) in [("age", true), ("none", false)] {
        let folder = tempfile::tempdir().unwrap();
        let variables = json!({"backup_encryption": encryption, "backup_age_recipients": [recipient]}).to_string();
        let (code, text) = simulate(folder.path(), &["-e", &variables]);
        assert_eq!(code, Some(0), "{text}");
        let backups = fs::read_dir(folder.path().join("backups")).unwrap();
        let names = backups.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let keys: Vec<String> = names.filter(|name| name.starts_with("keys-")).collect();
        let content = fs::read(folder.path().join("backups").join(&keys[0])).unwrap();
        assert!(keys.len() == 1 && keys[0].ends_with(".tar.gz.age") == encrypted, "{keys:?}");
        assert_eq!(content.starts_with(b"\x1f\x8b"), !encrypted);
        let recipients = fs::read_to_string(folder.path().join("recipients")).unwrap_or_default();
        assert_eq!(recipients, if encrypted { format!("{recipient}\n") } else { String::new() });
    }
}
