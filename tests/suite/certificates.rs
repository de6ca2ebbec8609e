//! `playbooks/certificates.yml` on a host with files of a control plane: its report, and the phases of a rotation.
//! Renewal on hosts with programs that stand in for a cluster's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A control plane with its files in a folder.
struct Host {
    folder: TempDir,
}

impl Host {
    /// The host, unless this machine has no openssl.
    fn new() -> Option<Host> {
        if !windlass_testing::has("openssl") {
            return None;
        }
        let host = Host { folder: tempfile::tempdir().unwrap() };
        for folder in ["kubernetes/ssl", "kubernetes/manifests", "etcd/ssl", "pki"] {
            fs::create_dir_all(host.path(folder)).unwrap();
        }
        let groups = "[kube_control_plane]\ncp1\n[etcd]\ncp1\n[kube_node]\ncp1\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n";
        let variables = format!(
            "[all:vars]\nansible_connection=local\nip=127.0.0.1\nkube_config_dir={0}/kubernetes\netcd_config_dir={0}/etcd\n",
            host.folder.path().display()
        );
        std::os::unix::fs::symlink(Path::new(ROOT).join("roles/certificates/templates"), host.path("templates"))
            .unwrap();
        fs::write(host.path("hosts"), groups.to_owned() + &variables).unwrap();
        Some(host)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn openssl(&self, words: &str) {
        let output = Command::new("openssl").args(words.split_whitespace()).current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn authority(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=kubernetes -keyout {name}.key -out {name}.crt"
        ));
    }

    /// A certificate signed by an authority, which ends after so many days.
    fn certificate(&self, name: &str, authority: &str, days: i32, extensions: &str) {
        fs::write(self.path("extensions"), format!("authorityKeyIdentifier = keyid\n{extensions}\n")).unwrap();
        self.openssl(&format!("req -new -newkey rsa:2048 -nodes -subj /CN=name -keyout {name}.key -out request"));
        self.openssl(&format!(
            "x509 -req -in request -CA {authority}.crt -CAkey {authority}.key -set_serial 7 -days {days} -extfile extensions -out {name}.crt"
        ));
    }

    fn play(&self, playbook: &Path, more: &[&str]) -> (Option<i32>, String) {
        let kubelet = format!("certificates_kubelet_dir={}", self.path("pki").display());
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["playbook", "-i", "hosts", "-e", &kubelet])
            .args(more)
            .arg(playbook)
            .current_dir(&self.folder)
            .env("ANSIBLE_ROLES_PATH", Path::new(ROOT).join("roles"))
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        (output.status.code(), text(&output))
    }

    /// A script of the role, with the variables of this host.
    fn script(&self, name: &str, more: &[&str]) -> PathBuf {
        let playbook = format!(
            "- hosts: cp1\n  gather_facts: false\n  tasks:\n    - ansible.builtin.import_role: {{name: certificates, tasks_from: validate}}\n    \
             - ansible.builtin.template: {{src: {name}.j2, dest: {}}}\n",
            self.path(name).display()
        );
        fs::write(self.path("script.yml"), playbook).unwrap();
        let (code, text) = self.play(&self.path("script.yml"), more);
        assert_eq!(code, Some(0), "{text}");
        self.path(name)
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Output of a command in a script.
fn run(script: &Path, command: &str) -> String {
    let output = Command::new("sh").arg(script).arg(command).output().unwrap();
    assert!(output.status.success(), "{command}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn report_judges_each_certificate() {
    let Some(host) = Host::new() else { return };
    let authority = "kubernetes/ssl/ca";
    host.authority(authority);
    host.authority("stranger");
    let evil = "extendedKeyUsage = serverAuth\nsubjectAltName = @names\n[names]\nDNS.1 = {{lookup(\\'pipe\\',\\'touch evil\\')}}";
    host.certificate("kubernetes/ssl/apiserver", authority, 365, evil);
    host.certificate("kubernetes/ssl/soon", authority, 20, "extendedKeyUsage = clientAuth");
    host.certificate("kubernetes/ssl/expired", authority, -1, "extendedKeyUsage = clientAuth");
    host.certificate("kubernetes/ssl/untrusted", "stranger", 365, "extendedKeyUsage = serverAuth, clientAuth");
    fs::write(host.path("kubernetes/ssl/broken.crt"), "nothing").unwrap();
    let playbook = Path::new(ROOT).join("playbooks/certificates.yml");

    let (code, text) = host.play(&playbook, &["--check"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("changed=0") && text.contains("expired on cp1, ends 20"), "{text}");
    assert!(text.contains(" certificates and keys on 1 host, "), "{text}");
    assert!(!host.path("evil").exists(), "a value of a host was evaluated");
    let report: Value = serde_json::from_str(&host.read("artifacts/certificates.json")).unwrap();
    let rows = report["certificates"].as_array().unwrap();
    for (name, status, usage) in [
        ("ca", "ok", "authority"),
        ("apiserver", "ok", "server"),
        ("soon", "soon", "client"),
        ("expired", "expired", "client"),
        ("untrusted", "untrusted", "peer"),
        ("broken", "broken", "other"),
    ] {
        let file = host.path(&format!("kubernetes/ssl/{name}.crt")).display().to_string();
        let row = rows.iter().find(|row| row["file"] == file).unwrap_or_else(|| panic!("no {name}: {report:#}"));
        assert_eq!((&row["status"], &row["use"]), (&status.into(), &usage.into()), "{row:#}");
    }

    for name in ["soon", "expired", "untrusted", "broken"] {
        fs::remove_file(host.path(&format!("kubernetes/ssl/{name}.crt"))).unwrap();
    }
    let (code, text) = host.play(&playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    // No play follows the table.
    assert!(text.find("Show the report]") > text.rfind("PLAY ["), "{text}");
    let (code, text) = host.play(&playbook, &["-e", "certificates_warn_days=400"]);
    assert_eq!(code, Some(2), "{text}");
}

#[test]
fn certificates_due_by_end_signer_and_name() {
    let Some(host) = Host::new() else { return };
    let authority = "kubernetes/ssl/ca";
    host.authority(authority);
    host.authority("stranger");
    host.authority("kubernetes/ssl/front-proxy-ca");
    host.certificate("kubernetes/ssl/apiserver", authority, 50, "");
    host.certificate("kubernetes/ssl/apiserver-kubelet-client", "stranger", 365, "");
    host.certificate("kubernetes/ssl/front-proxy-client", "kubernetes/ssl/front-proxy-ca", 365, "");
    let script = host.script("certificates.sh", &[]);
    let due = run(&script, "due");
    assert!(due.contains("renew apiserver\n") && due.contains("make apiserver-kubelet-client\n"), "{due}");
    assert!(due.contains("make admin.conf\n") && !due.contains("front-proxy") && !due.contains("super-admin"), "{due}");

    let some = ["-e", "{certificates_renew: [apiserver, front-proxy-client]}"];
    assert_eq!(run(&host.script("certificates.sh", &some), "due"), "renew apiserver\n");
    let fewer = [&some[..], &["-e", "certificates_renew_days=40"]].concat();
    assert_eq!(run(&host.script("certificates.sh", &fewer), "due"), "");
    let older = [&some[..], &["-e", "certificates_issued_before='2100-01-01'"]].concat();
    assert_eq!(run(&host.script("certificates.sh", &older), "due"), "renew apiserver\nrenew front-proxy-client\n");
    let playbook = Path::new(ROOT).join("playbooks/certificates.yml");
    let (code, text) = host.play(&playbook, &["-e", "{certificates_renew: [apisrver]}"]);
    assert!(code == Some(2) && text.contains("Nothing was renewed. `certificates_renew` has `apisrver`."), "{text}");
}

#[test]
fn rotation_trusts_both_before_it_drops_the_old() {
    let Some(host) = Host::new() else { return };
    host.authority("kubernetes/ssl/ca");
    host.openssl("genrsa -out kubernetes/ssl/sa.key 2048");
    host.openssl("rsa -in kubernetes/ssl/sa.key -pubout -out kubernetes/ssl/sa.pub");
    let ssl = host.path("kubernetes/ssl").display().to_string();
    let manifest = "kubernetes/manifests/kube-controller-manager.yaml";
    let before = format!("    - --cluster-signing-cert-file={ssl}/ca.crt\n    - --root-ca-file={ssl}/ca.crt\n");
    fs::write(host.path(manifest), &before).unwrap();
    fs::write(host.path("kubernetes/scheduler.conf"), "    certificate-authority-data: eA==\n").unwrap();
    let (old, old_key) = (host.read("kubernetes/ssl/ca.crt"), host.read("kubernetes/ssl/sa.key"));

    let script = host.script("rotate.sh", &[]);
    assert_eq!(run(&script, "due"), "");
    let script = host.script("rotate.sh", &["-e", "certificates_issued_before='2100-01-01'"]);
    assert_eq!(run(&script, "due"), "rotate ca\nrotate sa\n");
    assert_eq!(run(&script, "stage"), "staged ca\nstaged sa\n");
    let (new, new_key) = (host.read("kubernetes/ssl/rotation/ca.crt"), host.read("kubernetes/ssl/rotation/sa.key"));
    // From here on, the folder shows which rotation is under way.
    let script = host.script("rotate.sh", &[]);
    assert_eq!((run(&script, "due"), run(&script, "stage")), ("rotate ca\nrotate sa\n".to_owned(), String::new()));

    run(&script, "trust");
    assert_eq!(host.read("kubernetes/ssl/ca.crt"), format!("{old}{new}"));
    assert_eq!(host.read("kubernetes/ssl/signing-ca.crt"), old);
    assert!(host.read(manifest).contains(&format!("--cluster-signing-cert-file={ssl}/signing-ca.crt\n")));
    assert!(host.read(manifest).contains(&format!("--root-ca-file={ssl}/ca.crt\n")));
    assert!(!host.read("kubernetes/scheduler.conf").contains("eA=="));
    assert_eq!(host.read("kubernetes/ssl/sa.pub").matches("BEGIN PUBLIC KEY").count(), 2);
    assert_eq!((host.read("kubernetes/ssl/sa.key"), run(&script, "trust")), (old_key, String::new()));

    run(&script, "sign");
    assert_eq!((host.read("kubernetes/ssl/sa.key"), run(&script, "sign")), (new_key, String::new()));

    run(&script, "reissue");
    assert_eq!(host.read("kubernetes/ssl/ca.crt"), format!("{new}{old}"));
    assert_eq!(host.read("kubernetes/ssl/signing-ca.crt"), new);
    assert_eq!(host.read("kubernetes/ssl/ca.key"), host.read("kubernetes/ssl/rotation/ca.key"));
    // A run that was interrupted goes through the earlier phases once more.
    assert_eq!((run(&script, "trust"), run(&script, "reissue")), (String::new(), String::new()));

    run(&script, "drop");
    assert_eq!((host.read("kubernetes/ssl/ca.crt"), host.read(manifest)), (new, before));
    assert_eq!(host.read("kubernetes/ssl/sa.pub").matches("BEGIN PUBLIC KEY").count(), 1);
    assert_eq!(run(&script, "drop"), "");
    run(&script, "finish");
    assert_eq!(run(&script, "due"), "");
}

/// Runs the words after the host's name with the folder of that host in place of `host`. Fails for a host that is away.
const DOCKER: &str = r#"#!/bin/sh
while [ "$1" != /bin/sh ]; do name=$1; shift; done
[ ! -e "$ROOT/$name/away" ] || exit 1
exec unshare --mount --propagation private sh -c 'mount --bind "$ROOT/$0" "$ROOT/host" && PATH=$ROOT/host/bin:$PATH exec "$@"' "$name" "$@"
"#;

/// Renews like the playbook, without the report, the nodes and the kubeconfig.
const RENEWAL: &str = "- hosts: k8s_cluster:etcd
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - ansible.builtin.import_role: {name: certificates, tasks_from: validate}
    - ansible.builtin.import_role: {name: cluster, tasks_from: find}
- hosts: reached
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - ansible.builtin.include_role: {name: certificates, tasks_from: etcd}
    - ansible.builtin.include_role: {name: certificates, tasks_from: control_planes}
";

/// Three control planes with members of etcd. Each has its files and programs in a folder.
struct Cluster {
    folder: TempDir,
}

impl Cluster {
    /// The cluster, unless this machine cannot give each host its own files.
    fn new() -> Option<Cluster> {
        if !windlass_testing::has_all(&["root", "namespaces", "openssl"]) {
            return None;
        }
        let cluster = Cluster { folder: tempfile::tempdir().unwrap() };
        let program = |name: &str, text: &str| {
            let path = cluster.folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        for folder in
            ["host", "bin", "cp1/bin", "cp2/bin", "cp3/bin", "cp1/kubernetes", "cp2/kubernetes", "cp3/kubernetes"]
        {
            fs::create_dir_all(cluster.folder.path().join(folder)).unwrap();
        }
        program("bin/docker", DOCKER);
        for host in ["cp1", "cp2", "cp3"] {
            for name in ["kubectl", "etcdctl", "kubeadm"] {
                program(&format!("{host}/bin/{name}"), "#!/bin/sh\n");
            }
            program(&format!("{host}/bin/curl"), "#!/bin/sh\necho ok\n");
        }
        let hosts = "[kube_control_plane]\ncp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\ncp3 ip=10.0.0.3\n[etcd]\ncp[1:3]\n[k8s_cluster:children]\nkube_control_plane\n";
        let variables = format!(
            "[all:vars]\nansible_connection=docker\nbin_dir={0}/bin\nkube_config_dir={0}/kubernetes\netcd_config_dir={0}/etcd\n\
             certificates_kubelet_dir={0}/pki\n",
            cluster.folder.path().join("host").display()
        );
        fs::write(cluster.folder.path().join("hosts"), hosts.to_owned() + &variables).unwrap();
        fs::write(cluster.folder.path().join("renewal.yml"), RENEWAL).unwrap();
        Some(cluster)
    }

    fn away(&self, host: &str, is_away: bool) {
        let mark = self.folder.path().join(host).join("away");
        if is_away { fs::write(mark, "").unwrap() } else { fs::remove_file(mark).unwrap() }
    }

    /// Output of the renewal of some certificates, which has to succeed on the hosts that are reached.
    #[track_caller]
    fn renew(&self, names: &str, more: &[&str]) -> String {
        let path = format!("{}/bin:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["playbook", "-i", "hosts", "renewal.yml", "-e", &format!("{{certificates_renew: [{names}]}}")])
            .args(more)
            .current_dir(&self.folder)
            .env("PATH", path)
            .env("ROOT", self.folder.path())
            .env("ANSIBLE_ROLES_PATH", Path::new(ROOT).join("roles"))
            .env("WINDLASS_JOURNAL_DIR", self.folder.path().join("journals"))
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let text = text(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        text
    }

    /// The certificates of members and clients on a host.
    fn certificates(&self, host: &str) -> String {
        let names = ["member-cp1", "member-cp3", "admin-cp2", "apiserver-etcd-client"];
        let read = |name| fs::read_to_string(self.folder.path().join(format!("{host}/etcd/ssl/{name}.pem"))).unwrap();
        names.map(read).concat()
    }
}

/// Otherwise, the first member would give its older certificates to the others.
#[test]
fn first_member_of_etcd_that_returns_takes_the_newer_certificates() {
    let Some(cluster) = Cluster::new() else { return };
    cluster.renew("etcd", &[]);
    let old = cluster.certificates("cp1");
    assert_eq!([cluster.certificates("cp2"), cluster.certificates("cp3")], [old.clone(), old.clone()]);

    cluster.away("cp1", true);
    // Times of certificates are whole seconds.
    std::thread::sleep(std::time::Duration::from_secs(1));
    cluster.renew("etcd", &["-e", "certificates_issued_before=now"]);
    let new = cluster.certificates("cp2");
    assert!(new != old && cluster.certificates("cp3") == new && cluster.certificates("cp1") == old);

    cluster.away("cp1", false);
    cluster.renew("etcd", &[]);
    let all = ["cp1", "cp2", "cp3"].map(|host| cluster.certificates(host));
    assert!(all.iter().all(|certificates| *certificates == new), "{all:?}");
    let text = cluster.renew("etcd", &[]);
    assert_eq!(text.matches("changed=0 ").count(), 3, "{text}");
}

/// A member without the authority's key cannot issue certificates, and another authority would cut off the others.
#[test]
fn first_member_of_etcd_without_key_of_the_authority_gets_it_from_another() {
    let Some(cluster) = Cluster::new() else { return };
    cluster.renew("etcd", &[]);
    let path = |host: &str, name: &str| cluster.folder.path().join(format!("{host}/etcd/ssl/{name}"));
    let authority = fs::read(path("cp2", "ca.pem")).unwrap();
    fs::remove_file(path("cp1", "ca-key.pem")).unwrap();
    cluster.renew("etcd", &[]);
    for host in ["cp1", "cp2", "cp3"] {
        assert_eq!(fs::read(path(host, "ca.pem")).unwrap(), authority, "{host}");
    }
    assert_eq!(fs::read(path("cp1", "ca-key.pem")).unwrap(), fs::read(path("cp3", "ca-key.pem")).unwrap());
}

/// The rule for majorities must not end the renewal at the first control plane, after etcd's certificates were issued.
#[test]
fn renewal_with_one_of_three_control_planes_away_is_complete() {
    let Some(cluster) = Cluster::new() else { return };
    cluster.renew("etcd", &[]);
    cluster.away("cp1", true);
    let text = cluster.renew("scheduler.conf", &[]);
    let restarts = text.rsplit("Restart components that read certificates").next().unwrap();
    assert!(restarts.contains("ok: [cp3]") && !text.contains("restart when this playbook"), "{text}");
    // The last one that serves is not restarted.
    cluster.away("cp3", true);
    fs::write(cluster.folder.path().join("cp2/bin/curl"), "#!/bin/sh\nexit 1\n").unwrap();
    let text = cluster.renew("scheduler.conf", &[]);
    let restarts = text.rsplit("Restart components that read certificates").next().unwrap();
    assert!(text.contains("no control plane serves except cp2") && restarts.contains("skipping: [cp2]"), "{text}");
}

/// A member in a pod is not restarted while another one is away, but it is started if it has ended.
#[test]
fn restarts_leave_out_a_program_that_runs() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all(host.path("kubernetes/ssl/etcd")).unwrap();
    fs::write(host.path("kubernetes/ssl/etcd/server.crt"), "").unwrap();
    fs::write(host.path("kubernetes/manifests/etcd.yaml"), "").unwrap();
    let script = host.script("certificates.sh", &["-e", "{certificates_renew: [kubelet-client]}"]);
    for (process, expected) in [("echo 1", ["restart etcd\n", ""]), ("exit 1", ["start etcd\n", "start etcd\n"])] {
        for (spared, expected) in ["none", "etcd"].into_iter().zip(expected) {
            let words = format!("pgrep() {{ {process}; }}; script=$1; set -- due {spared}; . \"$script\"");
            let output = Command::new("sh").args(["-c", &words, "sh"]).arg(&script).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", text(&output));
        }
    }
}

/// A rollout counts as complete while former pods still end.
#[test]
fn old_pod_that_ends_delays_the_rotation_and_one_that_stays_stops_it() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all(host.path("kubernetes/ssl/rotation")).unwrap();
    fs::create_dir(host.path("bin")).unwrap();
    fs::write(host.path("kubernetes/ssl/rotation/.workloads"), "2030-01-01T00:00:10Z\n").unwrap();
    let kubectl = format!("#!/bin/sh\ncd {}\ncat now\ncp later now\n", host.folder.path().display());
    fs::write(host.path("bin/kubectl"), kubectl).unwrap();
    fs::set_permissions(host.path("bin/kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
    let tasks = "    - ansible.builtin.import_role: {name: certificates, tasks_from: pods}\n";
    let playbook = host.path("pods.yml");
    fs::write(&playbook, format!("- hosts: cp1\n  gather_facts: false\n  tasks:\n{tasks}")).unwrap();
    let bin = format!("bin_dir={}", host.path("bin").display());
    let ends = "2030-01-01T00:00:00Z default/old mirror= ends=2030-01-01T00:00:40Z \"default-token-a\"\n";
    let stays = "2030-01-01T00:00:00Z default/alone mirror= ends= \"default-token-a\"\n";
    let new = "2030-01-01T00:00:20Z default/new mirror= ends= \"default-token-b\"\n";
    for (now, later, code) in [(ends, new, Some(0)), (stays, new, Some(2)), (ends, stays, Some(2))] {
        fs::write(host.path("now"), now).unwrap();
        fs::write(host.path("later"), later).unwrap();
        let (ended, text) = host.play(&playbook, &["-e", &bin]);
        assert_eq!(ended, code, "{text}");
        assert_eq!(text.contains("sign nothing yet: default/alone started"), code == Some(2), "{text}");
    }
}

/// Whoever may make Secrets in a namespace writes a newline and a Secret of another namespace into the annotation.
#[test]
fn annotation_of_a_secret_drops_no_token_of_another() {
    let Some(host) = Host::new() else { return };
    fs::create_dir_all(host.path("kubernetes/ssl/rotation")).unwrap();
    host.openssl("genrsa -out kubernetes/ssl/rotation/sa.key 2048");
    fs::create_dir(host.path("bin")).unwrap();
    // As kubectl prints the Secret in both notations.
    let kubectl = r#"#!/bin/sh
cd FOLDER
case "$*" in
*"get secrets"*go-template*) printf '%s\n' 'a evil token=QQ== "x\nkube-system admin token=QQ== \"admin\""' 'b good token=QQ== "default"' ;;
*"get secrets"*jsonpath*) printf 'a evil x\nkube-system admin admin QQ==\nb good default QQ==\n' ;;
*patch*) echo "$*" >> patched ;;
esac
"#;
    fs::write(host.path("bin/kubectl"), kubectl.replace("FOLDER", &host.folder.path().display().to_string())).unwrap();
    fs::set_permissions(host.path("bin/kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
    let script = host.script("objects.sh", &["-e", &format!("bin_dir={}", host.path("bin").display())]);
    assert_eq!(run(&script, "tokens"), "dropped the token in a/evil\ndropped the token in b/good\n");
    let patched = host.read("patched");
    assert!(!patched.contains("kube-system") && patched.contains("--namespace a patch secret evil"), "{patched}");
}

/// Runs the playbook of a folder with our roles.
#[track_caller]
fn plays(folder: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "play.yml"])
        .current_dir(folder)
        .env("ANSIBLE_ROLES_PATH", Path::new(ROOT).join("roles"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// The first member of etcd generates etcd's authority, and no authority or key of Kubernetes.
#[test]
fn member_of_etcd_supplies_no_authority_of_kubernetes() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = "[kube_control_plane]\ncp1 ip=10.0.0.1\n[etcd]\ne1 ip=10.0.0.2\n[kube_node]\ncp1\n[k8s_cluster:children]\nkube_control_plane\n\
                 kube_node\n[all:vars]\nansible_connection=local\n";
    fs::write(folder.path().join("hosts"), hosts).unwrap();
    let playbook = format!(
        "- hosts: all
  gather_facts: false
  roles: [cluster]
  vars: {{kube_cert_dir: /k, etcd_cert_dir: /e}}
  tasks:
    - ansible.builtin.include_vars: {ROOT}/roles/certificates/vars/main/rotate.yml
    - ansible.builtin.set_fact:
        certificates_staged_read: {{stdout_lines: [/k/rotation/ca.crt b3du, /e/rotation/ca.pem ZXZpbA==]}}
      when: inventory_hostname == 'cp1'
    - ansible.builtin.set_fact:
        certificates_staged_read:
          stdout_lines: [/e/rotation/ca.pem b3du, /k/rotation/ca.crt ZXZpbA==, /k/rotation/sa.key ZXZpbA==, /etc/x ZXZpbA==, x]
      when: inventory_hostname == 'e1'
    - ansible.builtin.copy:
        dest: {}/{{{{ inventory_hostname }}}}.json
        content: \"{{{{ {{'here': certificates_staged_here, 'all': certificates_staged_contents}} | to_json }}}}\"
",
        folder.path().display()
    );
    fs::write(folder.path().join("play.yml"), playbook).unwrap();
    plays(folder.path());
    let read = |host: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(folder.path().join(format!("{host}.json"))).unwrap()).unwrap()
    };
    let own = serde_json::json!({"/k/rotation/ca.crt": "b3du", "/e/rotation/ca.pem": "b3du"});
    assert_eq!(read("cp1")["all"], own);
    assert_eq!(read("cp1")["here"], serde_json::json!(["/k/rotation/ca.crt", "/e/rotation/ca.pem"]));
    assert_eq!(read("e1")["here"], serde_json::json!(["/e/rotation/ca.pem"]));
}

/// After a power failure, the timers of all control planes elapse at the same time. Their clocks need not agree.
#[test]
fn timers_of_control_planes_follow_each_other_and_wait_for_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let here = folder.path().display();
    std::os::unix::fs::symlink(Path::new(ROOT).join("roles/certificates/templates"), at("templates")).unwrap();
    for name in ["bin", "kubernetes/ssl", "kubernetes/manifests"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    fs::write(
        at("hosts"),
        format!(
            "[kube_control_plane]\ncp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\ncp3 ip=10.0.0.3\n[etcd]\ncp1\n[kube_node]\ncp1\n\
             [k8s_cluster:children]\nkube_control_plane\nkube_node\n[all:vars]\nansible_connection=local\n\
             kube_config_dir={here}/kubernetes\netcd_config_dir={here}/etcd\nbin_dir={here}/bin\n"
        ),
    )
    .unwrap();
    fs::write(
        at("play.yml"),
        format!(
            "- hosts: kube_control_plane\n  gather_facts: false\n  roles: [{{role: certificates, when: false}}]\n  tasks:\n\
             \x20   - ansible.builtin.copy: {{dest: '{here}/{{{{ inventory_hostname }}}}.sh', content: '{{{{ certificates_script }}}}'}}\n\
             \x20   - ansible.builtin.template: {{src: k8s-certs-renew.service.j2, dest: '{here}/{{{{ inventory_hostname }}}}.service'}}\n"
        ),
    )
    .unwrap();
    plays(folder.path());
    for (host, delay) in [("cp1", 0), ("cp2", 600), ("cp3", 1200)] {
        let unit = fs::read_to_string(at(&format!("{host}.service"))).unwrap();
        assert!(unit.contains(&format!("ExecStartPre=/bin/sleep {delay}\n")), "{unit}");
    }

    let program = |name: &str, script: &str| {
        fs::write(at("bin").join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(at("bin").join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("kubeadm", "");
    program("systemctl", "");
    program("sleep", &format!("echo $1 >>{here}/slept"));
    // The others do not serve before the third pause; this one does.
    program(
        "curl",
        &format!(
            "for url; do :; done; case $url in *10.0.0.2*) echo ok ;; \
             *) [ \"$(grep -c . {here}/slept)\" -lt $AFTER ] || echo ok ;; esac"
        ),
    );
    let auto = |after: &str| {
        let _ = fs::remove_file(at("slept"));
        let path = format!("{here}/bin:{}", std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        let output = command.arg(at("cp2.sh")).arg("auto").env("PATH", path).env("AFTER", after).output().unwrap();
        (output.status.success(), fs::read_to_string(at("slept")).unwrap().replace('\n', " "))
    };
    assert_eq!(auto("3"), (true, "20 5 5 ".into()));
    let (served, slept) = auto("1000");
    assert!(!served && slept.starts_with("20 5 5 5 5"), "{slept}");
}
