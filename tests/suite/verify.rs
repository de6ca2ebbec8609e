//! The report of playbooks/verify.yml on hosts without a cluster: findings, not an abort. What snapshot.yml refuses.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use windlass_yaml::{Options, Source, parse};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Every check of the table.
fn checks() -> Vec<Value> {
    let path = Path::new(ROOT).join("roles/verify/vars/main/checks.yml");
    let loaded = parse(Source::new("checks".to_owned(), fs::read_to_string(path).unwrap()), &Options::default());
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
    loaded.documents[0].to_json()["verify_checks"].as_array().unwrap().clone()
}

#[test]
fn every_check_of_a_script_is_in_the_table() {
    let known: Vec<String> = checks().iter().map(|check| check["id"].as_str().unwrap().to_owned()).collect();
    for script in ["host", "node", "control_plane", "etcd", "cluster", "pairs", "volumes"] {
        let text = fs::read_to_string(Path::new(ROOT).join(format!("roles/verify/files/{script}.sh"))).unwrap();
        for word in text.split_whitespace().filter(|word| word.contains('.')) {
            let prefixes = ["host.", "node.", "api.", "etcd.", "cluster.", "network.", "volume."];
            let is_id = !word.ends_with('.') && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '.');
            if is_id && prefixes.iter().any(|prefix| word.starts_with(prefix)) {
                assert!(known.iter().any(|id| id == word), "{script}.sh prints `{word}`, which has no row");
            }
        }
    }
    for check in checks() {
        assert!(check["title"].is_string() && check["remedy"].is_string() && check["group"].is_string(), "{check}");
    }
}

/// kubeadm's renewal leaves programs with old certificates, cluster.yml refuses another release, and clearing an alarm
/// hides members with different data.
#[test]
fn remedies_are_playbooks_that_mend_the_finding() {
    for (id, playbook) in [
        ("host.certificates", "playbooks/certificates.yml"),
        ("host.versions", "playbooks/upgrade.yml"),
        ("api.ready", "playbooks/recover.yml"),
        ("api.version", "playbooks/upgrade.yml"),
        ("etcd.health", "playbooks/recover.yml"),
        ("etcd.alarms", "playbooks/recover.yml"),
        ("cluster.versions", "playbooks/upgrade.yml"),
    ] {
        let check = checks().into_iter().find(|check| check["id"] == id).unwrap();
        assert!(check["remedy"].as_str().unwrap().contains(playbook), "{check}");
    }
    for check in checks() {
        for word in check["remedy"].as_str().unwrap().split([' ', ',', ';']) {
            assert!(!word.starts_with("playbooks/") || Path::new(ROOT).join(word).is_file(), "{check}");
        }
    }
}

#[test]
fn hosts_without_a_cluster_are_findings() {
    let folder = tempfile::tempdir().unwrap();
    let groups = "[etcd]\ncp1\n[kube_node]\ncp1\ndead\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n";
    let variables = format!(
        "[all:vars]\nip=127.0.0.1\nkube_version=1.36.4\nbin_dir={0}\nkube_config_dir={0}\nkubelet_healthz_port=1\n\
         kube_apiserver_port=1\nkube_service_addresses=127.0.0.0/24\n",
        folder.path().display()
    );
    let hosts =
        "[kube_control_plane]\ncp1 ansible_connection=local\n[dead]\ndead ansible_host=127.0.0.1 ansible_port=1\n";
    fs::write(folder.path().join("hosts"), format!("{hosts}{groups}{variables}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "--check"])
        .arg(Path::new(ROOT).join("playbooks/verify.yml"))
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("changed=0"), "{text}");

    let report: Value = serde_json::from_str(&fs::read_to_string(folder.path().join("verify.json")).unwrap()).unwrap();
    assert_eq!(report["healthy"], false);
    assert_eq!(report["not_reached"], serde_json::json!(["dead"]));
    let status = |id: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["id"] == id).map(|check| check["status"].as_str().unwrap().to_owned())
    };
    for (id, expected) in [
        ("host.reach", "fail"),
        ("host.clock", "pass"),
        ("host.versions", "fail"),
        ("node.kubelet", "fail"),
        ("api.ready", "fail"),
        ("etcd.health", "fail"),
        ("cluster.nodes", "unknown"),
        ("network.pods", "skip"),
        ("volume.write", "skip"),
        ("drift", "skip"),
    ] {
        assert_eq!(status(id).as_deref(), Some(expected), "{id}: {report}");
    }
}

#[test]
fn report_counts_its_hosts() {
    let summary = "{totals: {pass: 0, fail: 0}}";
    let table = Path::new(ROOT).join("roles/verify/templates/table.j2");
    let task = format!("{{debug: {{msg: \"{{{{ lookup('template', '{}') }}}}\"}}, run_once: true}}", table.display());
    for (hosts, line) in [("one,", "1 host; 0 pass, 0 fail"), ("one,two,", "2 hosts, 1 not reached; 0 pass, 0 fail")] {
        let folder = tempfile::tempdir().unwrap();
        let lost = if hosts == "one," { "[]" } else { "[two]" };
        let play = format!(
            "- hosts: all\n  gather_facts: false\n  vars: {{verify_reported: [], verify_statuses: [pass, fail], \
             verify_not_reached: {lost}, verify_summary: {summary}}}\n  tasks: [{task}]\n"
        );
        fs::write(folder.path().join("play.yml"), play).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["playbook", "-i", hosts, "play.yml"]).current_dir(folder.path()).env("NO_COLOR", "1");
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(line), "{text}");
    }
}

/// A daemon that was not restarted after its program was replaced would change its release at the next crash.
#[test]
fn daemon_with_a_replaced_program_of_another_release_fails() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let script = |name: &str, text: &str| {
        fs::write(at(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        assert!(Command::new("chmod").args(["755", &at(name)]).status().unwrap().success());
    };
    // GNU's sleep prints its release as daemons do.
    assert!(Command::new("cp").args(["/bin/sleep", &at("daemon")]).status().unwrap().success());
    let mut daemon = Command::new(at("daemon")).arg("300").spawn().unwrap();
    script("systemctl", &format!("case \"$*\" in *MainPID*) echo {} ;; *) echo active ;; esac", daemon.id()));
    let file = |name: &str| fs::read_to_string(Path::new(ROOT).join("roles/verify/files").join(name)).unwrap();
    let source = format!("{}\n{}", file("lib.sh"), file("host.sh"));
    let found = || {
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["-c", &source]).env("PATH", path).env("UNITS", "etcd.service").envs([
            ("FREE_WARN", "0"),
            ("FREE_FAIL", "0"),
            ("SYSCTL_FILE", "/nowhere"),
        ]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let untouched = found();
    fs::remove_file(at("daemon")).unwrap();
    script("daemon", "echo etcd Version: 99.5.30");
    let replaced = found();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(!untouched.contains("host.versions"), "{untouched}");
    assert!(replaced.contains("until it is restarted, 99.5.30 is installed"), "{replaced}");
}

#[test]
fn snapshot_that_the_inventory_would_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inventory = folder.path().join("inventory");
    fs::create_dir(&inventory).unwrap();
    let hosts = "[kube_control_plane]\ncp1 ansible_host=127.0.0.1 ansible_port=1\n[etcd]\ncp1\n[k8s_cluster]\ncp1\n";
    fs::write(inventory.join("hosts"), hosts).unwrap();
    let run = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["playbook", "-i"]).arg(&inventory).args(options);
        command.arg(Path::new(ROOT).join("playbooks/snapshot.yml")).current_dir(folder.path()).env("NO_COLOR", "1");
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let refused = "which is in the inventory";
    let text = run(&[]);
    assert!(text.contains(refused) && text.contains("Nothing was written") && !text.contains("UNREACHABLE"), "{text}");
    let text = run(&["-e", "snapshot_dir=elsewhere"]);
    assert!(!text.contains(refused) && text.contains("UNREACHABLE"), "{text}");
    fs::write(folder.path().join("ansible.cfg"), "[inventory]\nignore_patterns = snapshot\n").unwrap();
    let text = run(&[]);
    assert!(!text.contains(refused) && text.contains("UNREACHABLE"), "{text}");
}

#[test]
fn disk_of_etcd_is_slow_above_the_limit_and_beyond_the_last_bound() {
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        assert!(Command::new("chmod").arg("755").arg(path).status().unwrap().success());
    };
    script("etcdctl", "true");
    script(
        "curl",
        r#"for line in fsync:0.008:985 fsync:0.016:996 fsync:+Inf:1e+03 commit:8.192:900 commit:+Inf:1000; do
  IFS=: read -r kind bound count <<END
$line
END
  case $kind in fsync) kind=wal_fsync ;; commit) kind=backend_commit ;; esac
  echo "etcd_disk_${kind}_duration_seconds_bucket{le=\"$bound\"} $count"
done"#,
    );
    let file = |name: &str| fs::read_to_string(Path::new(ROOT).join("roles/verify/files").join(name)).unwrap();
    let found = |limit: &str| {
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["-c", &format!("{}\n{}", file("lib.sh"), file("etcd.sh"))]).env("PATH", path);
        command.env("BIN_DIR", folder.path()).env("FSYNC_MILLISECONDS", limit).env("COMMIT_MILLISECONDS", limit);
        command.envs(
            ["PORT", "NAME", "CLUSTER", "MEMBERS", "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"]
                .map(|name| (name, "x")),
        );
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(
        found("10").contains("etcd.fsync warn x: 99 of 100 writes of the log take at most 16 ms"),
        "{}",
        found("10")
    );
    assert!(found("16").contains("etcd.fsync pass"), "{}", found("16"));
    assert!(
        found("10000").contains("etcd.commit warn x: 99 of 100 commits take more than 8192 ms"),
        "{}",
        found("10000")
    );
}

/// Findings by check, host and node that the role takes from the scripts of cp1 and of a worker that lies.
#[test]
fn host_reports_nothing_about_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let groups = "[kube_control_plane]\ncp1 ip=10.0.0.1\n[etcd]\ncp1\n[kube_node]\nw1 ip=10.0.0.2\n\
                  [k8s_cluster:children]\nkube_control_plane\nkube_node\n[all:vars]\nansible_connection=local\n";
    fs::write(folder.path().join("hosts"), groups).unwrap();
    let lies = r#"["cluster.nodes fail cp1 is not Ready",
        "{\"check\":\"cluster.nodes\",\"status\":\"fail\",\"node\":\"cp1\",\"text\":\"cp1 is not Ready\"}",
        "etcd.health fail no answer", "api.ready fail no answer", "host.reach fail x", "host.units fail kubelet"]"#;
    let speech = r#"["{\"check\":\"cluster.nodes\",\"status\":\"fail\",\"node\":\"w1\",\"text\":\"w1 is not Ready\"}",
        "{\"check\":\"cluster.nodes\",\"status\":\"fail\",\"node\":\"w9\",\"text\":\"w9 is not Ready\"}",
        "{\"check\":\"cluster.nodes\",\"status\":\"fail\",\"node\":\"cp1\",\"text\":\"x\",\"host\":\"cp1\"}",
        "cluster.pods fail cp1 is not Ready", "node.kubelet fail x"]"#;
    let role = Path::new(ROOT).join("roles/verify");
    let playbook = format!(
        "- hosts: k8s_cluster
  gather_facts: false
  roles: [cluster]
  vars: {{verify_reached: true, verify_clock_difference: 2, verify_clocks: [], cluster_readyz: {{rc: 0}}}}
  tasks:
    - ansible.builtin.include_vars: {{file: '{{{{ item }}}}'}}
      loop: [{0}/vars/main/checks.yml, {0}/vars/main/read.yml, {0}/vars/main/results.yml]
    - ansible.builtin.set_fact:
        verify_host: {{stdout_lines: {lies}}}
        verify_node: {{stdout_lines: {lies}}}
        verify_plane: {{stdout_lines: {lies}}}
        verify_cluster: {{stdout_lines: {lies}}}
        verify_etcd: {{results: [{{stdout_lines: {lies}}}]}}
      when: inventory_hostname == 'w1'
    - ansible.builtin.set_fact:
        verify_cluster: {{stdout_lines: {speech}}}
        cluster_readyz: {{rc: 0}}
      when: inventory_hostname == 'cp1'
    - ansible.builtin.template: {{src: {0}/templates/results.j2, dest: '{at}/{{{{ inventory_hostname }}}}.out'}}
",
        role.display()
    );
    fs::write(folder.path().join("play.yml"), playbook).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "play.yml"])
        .current_dir(folder.path())
        .env("ANSIBLE_ROLES_PATH", Path::new(ROOT).join("roles"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let rows = |host: &str| -> Vec<Value> {
        let lines = fs::read_to_string(folder.path().join(format!("{host}.out"))).unwrap();
        lines.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let failed = |host: &str| -> Vec<(String, String)> {
        let rows = rows(host).into_iter().filter(|row| row["status"] == "fail");
        rows.map(|row| (row["check"].as_str().unwrap().to_owned(), row["node"].as_str().unwrap().to_owned())).collect()
    };
    let pair = |check: &str, node: &str| (check.to_owned(), node.to_owned());
    assert_eq!(failed("w1"), [pair("host.units", "")]);
    // A node outside of the inventory has no name, and lines of another form count for nothing.
    assert_eq!(failed("cp1"), [pair("cluster.nodes", "w1"), pair("cluster.nodes", ""), pair("cluster.pods", "")]);
}

/// The script cluster.sh with another kubectl, which is written into the folder.
fn cluster_script(folder: &Path, kubectl: &str) -> Command {
    fs::write(folder.join("kubectl"), kubectl).unwrap();
    assert!(Command::new("chmod").arg("755").arg(folder.join("kubectl")).status().unwrap().success());
    let file = |name: &str| fs::read_to_string(Path::new(ROOT).join("roles/verify/files").join(name)).unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{}\n{}", file("lib.sh"), file("cluster.sh"))]).env("BIN_DIR", folder);
    command
}

/// kubectl prints what the template in cluster.sh asks for, with line breaks of kubelets escaped.
#[test]
fn node_without_ready_condition_is_named_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = r#"#!/bin/sh
case "$*" in *'get nodes --output=go-template'*)
printf 'w1\037\037v1.36.4\\u000Acp1\037containerd://2.1.0\037True\037 DiskPressure\ncp1\037true\037v1.36.4\037x"\\\037False\037\n'
esac
"#;
    let mut command = cluster_script(folder.path(), kubectl);
    command.envs([("KUBE_CONFIG_DIR", "/x"), ("API_SERVER", "x"), ("NAMESPACES", ""), ("KUBE_VERSION", "1.36.4")]);
    let names = folder.path().join("names");
    fs::write(&names, "w1\ncp1\nw2").unwrap();
    let output = command.stdin(fs::File::open(names).unwrap()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let about = |check: &str, status: &str| -> Vec<&str> {
        let rows = rows.iter().filter(|row| row["check"] == check && row["status"] == status);
        rows.map(|row| row["node"].as_str().unwrap()).collect()
    };
    assert_eq!(about("cluster.nodes", "fail"), ["cp1"], "{text}");
    assert_eq!(about("cluster.nodes", "pass"), ["w1"], "{text}");
    assert_eq!(about("cluster.pressure", "fail"), ["w1"], "{text}");
    assert_eq!(about("cluster.versions", "fail"), ["w1"], "{text}");
    assert!(text.contains("cluster.nodes fail w2 is in the inventory, and no node"), "{text}");
}

/// The phase and the containers of a pod are words of its kubelet: they come last, without line breaks.
#[test]
fn pod_with_odd_words_is_a_finding_about_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = r#"#!/bin/sh
case "$*" in *'get pods'*go-template*)
printf '%s\n' 'kube-system;good;cp1;2030-01-01T00:00:00Z;;Running; c:true:0:'
printf '%s\n' 'a;evil;w1;;;Run\u000Akube-system;good;cp1; *:false:3:Crash\u000A' ;;
esac
"#;
    let mut command = cluster_script(folder.path(), kubectl);
    command.envs([("KUBE_CONFIG_DIR", "/x"), ("API_SERVER", "x"), ("NAMESPACES", "kube-system"), ("STARTING", "60")]);
    let output = command.env("KUBE_VERSION", "1.36.4").current_dir(&folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let wrong: Vec<&str> = text.lines().filter(|line| line.contains("good") || line.contains("evil")).collect();
    assert_eq!(wrong.len(), 1, "{text}");
    assert!(wrong[0].starts_with("cluster.workloads warn a/evil on w1 "), "{text}");
    assert!(text.contains("cluster.pods pass 2 pods") && !text.contains("kubectl"), "{text}");
}

/// In a cluster with IPv6 only, a query for an IPv4 address finds nothing, and connections need the Service's address
/// in brackets.
#[test]
fn name_of_an_ipv6_service_is_resolved() {
    if !windlass_testing::has("root") {
        return;
    }
    let Ok(server) = std::net::UdpSocket::bind("[::1]:53") else {
        return windlass_testing::lacks("a free port 53 on ::1");
    };
    std::thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((length, from)) = server.recv_from(&mut packet) {
            let question = &packet[12..length];
            // Type AAAA, before the class
            let asked = question.get(question.len() - 3) == Some(&28);
            let mut answer = packet[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(asked), 0, 0, 0, 0]);
            answer.extend(question);
            if asked {
                answer.extend([0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 5, 0, 16, 0xfd, 0, 0, 0xa]);
                answer.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            }
            server.send_to(&answer, from).unwrap();
        }
    });
    let file = |name: &str| fs::read_to_string(Path::new(ROOT).join("roles/verify/files").join(name)).unwrap();
    let source = format!("{}\n{}", file("lib.sh"), file("node.sh"));
    let found = |service: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", &source]).envs([("DNS_SERVERS", "::1"), ("DNS_DOMAIN", "cluster.local")]);
        command.env("API_SERVICE", format!("[{service}]:9")).env("BIN_DIR", "/nowhere");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    for service in ["fd00:a::1", "FD00:000a:0:0::01"] {
        let text = found(service);
        assert!(text.contains("node.dns pass ::1 in"), "{service}: {text}");
    }
    let text = found("fd00:a::2");
    assert!(text.contains("node.dns fail ::1 does not resolve") && text.contains("(fd00:a:0:0:0:0:0:1)"), "{text}");
}
