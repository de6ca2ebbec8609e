//! Packages, keys and programs that hosts and the control machine get.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{play, program};

/// apt on the host that resolves packages is a script that prints what the host likes.
#[test]
fn package_of_a_hostile_host_is_not_locked() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let scripts = [
        ("apt-get", format!("#!/bin/sh\ncase $* in *print-uris*) cat {at}/addresses;; esac\n")),
        ("apt-cache", format!("#!/bin/sh\ncat {at}/descriptions\n")),
    ];
    for (name, text) in scripts {
        let program = folder.path().join(name);
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let playbook = format!(
        "- hosts: k8s_cluster
  gather_facts: false
  environment: {{PATH: '{at}:/usr/bin:/bin'}}
  vars: {{common_required_pkgs: [socat], bridge_packages: [], host_time_packages: []}}
  tasks:
    - ansible.builtin.import_role: {{name: packages, tasks_from: system}}
    - ansible.builtin.import_role: {{name: packages}}
"
    );
    let facts = "ansible_pkg_mgr=apt ansible_os_family=Debian ansible_distribution=Debian \
                 ansible_distribution_release=bookworm ansible_architecture=x86_64";
    let hosts = format!("cp1 ip=10.0.0.1 {facts}\ncp2 ip=10.0.0.2 {facts}\n");
    let lock = folder.path().join("packages.json");
    let locked = |url: &str, depends: &str, file: &str, sum: &str| {
        fs::write(folder.path().join("addresses"), format!("'{url}' socat_1%3a1.7_amd64.deb 4\n")).unwrap();
        let fields = format!("Filename: {file}\nSize: 4\nSHA256: {sum}\nDepends: {depends}\n\n");
        let description = format!("Package: socat\nVersion: 1:1.7\nArchitecture: amd64\n{fields}");
        fs::write(folder.path().join("descriptions"), description).unwrap();
        play(folder.path(), &hosts, &playbook, &[])
    };
    let (url, depends, file) =
        ("http://example.com/pool/socat_1.7%2bb1.deb", "libc6 (>= 2.34), a | b", "pool/socat.deb");
    let sum = "0a".repeat(32);
    for (url, depends, file, sum) in [
        ("file:///etc/shadow", depends, file, sum.as_str()),
        ("http://user:secret@example.com/x.deb", depends, file, &sum),
        ("http://example.com/a/../../x.deb", depends, file, &sum),
        ("http://../x.deb", depends, file, &sum),
        (url, "libc6 {{ 1 }}", file, &sum),
        (url, depends, "pool/.deb", &sum),
        (url, depends, "pool/a b.deb", &sum),
        (url, depends, file, "0a"),
    ] {
        let (code, text) = locked(url, depends, file, sum);
        assert!(code == Some(2) && text.contains("cp1 answered with a line that describes no package"), "{text}");
        assert!(!lock.exists());
    }
    // Without a mirror, the reason is a sentence instead of the script.
    let apt = fs::read_to_string(folder.path().join("apt-get")).unwrap();
    fs::write(folder.path().join("apt-get"), "#!/bin/sh\necho \"E: Could not resolve 'deb.example'\" >&2\nexit 100\n")
        .unwrap();
    let (code, text) = locked(url, depends, file, &sum);
    let sentence = "Nothing was written. cp1 cannot resolve packages: apt-get update failed\\n  E: Could not resolve 'deb.example'";
    assert!(code == Some(2) && text.contains(sentence), "{text}");
    assert!(!text.contains("mktemp") && !lock.exists(), "{text}");
    fs::write(folder.path().join("apt-get"), apt).unwrap();
    let (code, text) = locked(url, depends, file, &sum);
    assert_eq!(code, Some(0), "{text}");
    assert!(fs::read_to_string(lock).unwrap().contains("\"url\": \"http://example.com/pool/socat_1.7%2bb1.deb\""));
}

/// The resolving host decides what all hosts of its system install, so a worker resolves only if no control plane can.
#[test]
fn packages_are_resolved_on_a_control_plane_of_the_system() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "apt-get", "echo \"E: no mirror\" >&2; exit 100");
    let playbook = format!(
        "- hosts: k8s_cluster
  gather_facts: false
  environment: {{PATH: '{}:/usr/bin:/bin'}}
  vars: {{common_required_pkgs: [socat], bridge_packages: [], host_time_packages: []}}
  tasks:
    - ansible.builtin.import_role: {{name: packages, tasks_from: system}}
    - ansible.builtin.import_role: {{name: packages}}
",
        folder.path().display()
    );
    let facts = |release: &str| {
        format!(
            "ansible_pkg_mgr=apt ansible_os_family=Debian ansible_distribution=Debian \
             ansible_distribution_release={release} ansible_architecture=x86_64"
        )
    };
    let workers_first = ["-e", "packages_hosts=kube_node:kube_control_plane"];
    for (release, host) in [("bookworm", "cp2"), ("trixie", "cp1")] {
        let hosts = format!("cp2 ip=10.0.0.2 {}\n[kube_node]\ncp1 ip=10.0.0.1 {}\n", facts("bookworm"), facts(release));
        let (code, text) = play(folder.path(), &hosts, &playbook, &workers_first);
        assert!(code == Some(2) && text.contains(&format!("{host} cannot resolve packages")), "{text}");
    }
}

const GOOD_KEY: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawsarhYJKwYBBAHaRw8BAQdAMfkAJaPYXmukQ0TnNeDldb2pZYZP2j4fLtkD
GhuWMVC0BGdvb2SIkAQTFggAOBYhBPaU9eIimDfAlHaV5TSNo+cYim+pBQJrCxqu
AhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJEDSNo+cYim+pW/gBAJTkrFB5
3YuN5JDU9PrAvITgWGCzJ1Oqm3BL36KLytOHAP44VpopBYza0jrYFYVwgKhH0Ihu
EDiuZCAGqOEDB9HbAg==
=oWmF
-----END PGP PUBLIC KEY BLOCK-----
";

const GOOD_FINGERPRINT: &str = "F694F5E2229837C0947695E5348DA3E7188A6FA9";

const EVIL_KEY: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawsarhYJKwYBBAHaRw8BAQdAg6tizm+mejVtgUzUqTvpKdM9fG0Z5+1KKmvu
L3ZUZzm0BGV2aWyIkAQTFggAOBYhBKrgBx9/pgoYY2rF+rIgesMG/eWMBQJrCxqu
AhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJELIgesMG/eWM50oA/iVGWDCZ
f5cgqVUd6FjkmjQ8blQor5nMJoKs0L0n0Z4JAP0cbTI+wVXYsqv3J/hq8/TqonoY
v3FiKqwECgF7fBoEAw==
=NsC1
-----END PGP PUBLIC KEY BLOCK-----
";

/// gpg reads blocks of public keys alone, but apt trusts keys in blocks of any name.
#[test]
fn key_in_a_block_that_gpg_skips_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let installed = folder.path().join("docker.gpg");
    let playbook = "- hosts: cp1\n  gather_facts: false\n  vars: {container_manager: docker, ansible_distribution: Debian}\n  tasks:\n    \
         - ansible.builtin.include_role: {name: runtime/docker, tasks_from: key}\n";
    let variables = format!(
        "{{docker_debian_repo_gpgkey: 'file://{at}/key.asc', docker_debian_repo_repokey: {GOOD_FINGERPRINT},
          docker_key_file: {at}/docker.gpg}}"
    );
    let fetched = |key: &str| {
        fs::write(folder.path().join("key.asc"), key).unwrap();
        play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &["-e", &variables])
    };
    for key in [format!("{GOOD_KEY}{EVIL_KEY}"), EVIL_KEY.to_owned(), "no key".to_owned()] {
        let (code, text) = fetched(&key);
        assert!(code == Some(2) && text.contains("so it was not trusted"), "{text}");
        assert!(!installed.exists());
    }
    let hidden = EVIL_KEY.replace("PGP PUBLIC KEY BLOCK", "X");
    let (code, text) = fetched(&format!("{hidden}{GOOD_KEY}"));
    assert_eq!(code, Some(0), "{text}");
    let bytes = fs::read(&installed).unwrap();
    let has = |name: &[u8]| bytes.windows(name.len()).any(|window| window == name);
    assert!(has(b"good") && !has(b"evil") && !has(b"-----BEGIN"));
    let (code, text) = fetched(&format!("{hidden}{GOOD_KEY}"));
    assert!(code == Some(0) && text.contains("changed=0"), "{text}");
}

#[test]
fn kubeconfig_with_exec_not_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: k8s_cluster\n  gather_facts: false\n  roles: [kubeconfig]\n";
    let start = ["--start-at-task", "Fetch the kubeconfig"];
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
    let config = |user: &str| {
        format!("clusters: [{{name: c, cluster: {{\n  server: https://x:1\n}}}}]\nusers:\n- name: a\n  user: {user}\n")
    };
    let here = folder.path().join("here/admin.conf");

    for user in ["{exec: {command: sh}}", "{token: x, auth-provider: {name: gcp}}", "{client-key: /etc/shadow}"] {
        fs::write(folder.path().join("admin.conf"), config(user)).unwrap();
        let (code, text) = play(folder.path(), hosts, playbook, &start);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("only certificates, keys and tokens may be copied") && !here.exists(), "{text}");
    }
    // Whatever else the file has stays on the host, such as a proxy that would see the requests.
    let hostile = "clusters: [{name: c, cluster: {server: 'https://x:1', certificate-authority-data: eQ==, proxy-url: 'http://evil',
      insecure-skip-tls-verify: true, certificate-authority: /etc/shadow}}]\nusers:\n- name: a\n  user: {client-certificate-data: eA==,
      client-key-data: \"eA==\\n  exec: {command: sh}\"}\ncontexts: [{name: x, context: {cluster: evil, user: evil}}]\ncurrent-context: evil
extensions: [{name: e, extension: {exec: sh}}]\n";
    fs::write(folder.path().join("admin.conf"), hostile).unwrap();
    let (code, text) = play(folder.path(), hosts, playbook, &start);
    assert_eq!(code, Some(0), "{text}");
    let written = fs::read_to_string(here).unwrap();
    for line in [
        "server: https://10.0.0.1:6443",
        "certificate-authority-data: eQ==",
        "client-certificate-data: eA==",
        "current-context: a@c",
    ] {
        assert!(written.contains(line), "{line}: {written}");
    }
    assert!(!["evil", " exec", "insecure", "shadow", "proxy"].iter().any(|word| written.contains(word)), "{written}");
}

#[test]
fn kubectl_for_the_control_machine_never_comes_from_a_host() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: k8s_cluster\n  gather_facts: false\n  roles: [kubeconfig]\n";
    let hosts = "cp1 ip=10.0.0.1 ansible_architecture=x86_64\ncp2 ip=10.0.0.2\n";
    let config = "clusters: [{name: c, cluster: {\n  server: https://x:1\n}}]\nusers: [{name: a, user: {token: x}}]\n";
    fs::write(folder.path().join("admin.conf"), config).unwrap();
    let files = folder.path().join("files/example.com");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("kubectl"), "#!/bin/sh\necho \"kubectl $*\"\n").unwrap();
    let variables = |sum: &str| {
        format!(
            "{{kubectl_localhost: true, download_from: controller, files_dir: {}/files, download_retries: 0,
              kubectl_download_url: 'https://example.com/kubectl', kubectl_checksum: 'sha256:{sum}'}}",
            folder.path().display()
        )
    };
    let wrong = variables(&"0".repeat(64));
    let start = ["--start-at-task", "Fetch the kubeconfig", "-e"];
    let (code, text) = play(folder.path(), hosts, playbook, &[&start[..], &[wrong.as_str()]].concat());
    let here = folder.path().join("here");
    assert!(code == Some(2) && text.contains("did not match") && !here.join("kubectl").exists(), "{text}");

    let right = variables("5903d7d4e5a680ea7b7ed89f5059f20ddcac22cc14bdf8257a0901053d9ea05f");
    let (code, text) = play(folder.path(), hosts, playbook, &[&start[..], &[right.as_str()]].concat());
    assert_eq!(code, Some(0), "{text}");
    let output = Command::new(here.join("kubectl.sh")).args(["get", "nodes"]).output().unwrap();
    let expected = format!("kubectl --kubeconfig {}/admin.conf get nodes\n", here.display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn failed_download_of_a_role_is_repeated() {
    use std::io::{Read as _, Write as _};
    let folder = tempfile::tempdir().unwrap();
    let config = "clusters: [{name: c, cluster: {\n  server: https://x:1\n}}]\nusers: [{name: a, user: {token: x}}]\n";
    fs::write(folder.path().join("admin.conf"), config).unwrap();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        // A mirror that fails, one that sends half of the file, and a whole one.
        for answer in [
            "HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nkub",
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nkubect",
        ] {
            let mut stream = server.accept().unwrap().0;
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let variables = format!(
        "{{kubectl_localhost: true, download_from: url, download_retries: 2,
          kubectl_download_url: 'http://127.0.0.1:{port}/kubectl',
          kubectl_checksum: 'sha256:62a553ab9728438957c8003a19df5d1663c1db7bff31c254fe0dc4f8cf9c3889'}}"
    );
    let playbook = "- hosts: k8s_cluster\n  gather_facts: false\n  roles: [kubeconfig]\n";
    let arguments = ["--start-at-task", "Fetch the kubeconfig", "-e", variables.as_str()];
    let hosts = "cp1 ip=10.0.0.1 ansible_architecture=x86_64\ncp2 ip=10.0.0.2\n";
    let (code, text) = play(folder.path(), hosts, playbook, &arguments);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.matches("FAILED - RETRYING").count(), 2, "{text}");
    assert_eq!(fs::read_to_string(folder.path().join("here/kubectl")).unwrap(), "kubect");
    serving.join().unwrap();
}

/// A run for another host, such as a new worker, may not replace kubectl by that of its architecture.
#[test]
fn kubectl_follows_the_architecture_of_the_first_control_plane() {
    let folder = tempfile::tempdir().unwrap();
    let config = "clusters: [{name: c, cluster: {\n  server: https://x:1\n}}]\nusers: [{name: a, user: {token: x}}]\n";
    fs::write(folder.path().join("admin.conf"), config).unwrap();
    let kubectl = folder.path().join("here/kubectl");
    let run = |architecture: &str, checksums: &str| {
        for name in ["amd64", "arm64"] {
            let below = folder.path().join("files/dl.k8s.io/release/v1.34.1/bin/linux").join(name);
            fs::create_dir_all(&below).unwrap();
            fs::write(below.join("kubectl"), format!("{name}\n")).unwrap();
        }
        let hosts = format!("cp1 ip=10.0.0.1 {architecture}\ncp2 ip=10.0.0.2 ansible_architecture=aarch64\n");
        let playbook = "- hosts: cp2\n  gather_facts: false\n  roles: [kubeconfig]\n";
        let variables = format!(
            "{{kubectl_localhost: true, download_from: controller, files_dir: {}/files, download_retries: 0,
              kube_version: 1.34.1, kubectl_checksums: {checksums}}}",
            folder.path().display()
        );
        play(folder.path(), &hosts, playbook, &["--start-at-task", "Fetch the kubeconfig", "-e", variables.as_str()])
    };
    let sum = "sha256:d54d20eadbec9c9cc5ac6e0e371abc96d64a0d724d1cf45297fab6098026a69d";
    let known = format!("{{amd64: {{1.34.1: '{sum}'}}, arm64: {{}}}}");
    let (code, text) = run("", &known);
    assert!(code == Some(0) && !kubectl.exists(), "{text}");
    let (code, text) = run("ansible_architecture=../arm64", &known);
    assert!(code == Some(0) && !kubectl.exists(), "{text}");
    let (code, text) = run("ansible_architecture=x86_64", "{amd64: {}}");
    assert!(code == Some(2) && text.contains("There is no checksum for https://dl.k8s.io/"), "{text}");
    assert!(!kubectl.exists());
    let (code, text) = run("ansible_architecture=x86_64", &known);
    assert_eq!((code, fs::read_to_string(&kubectl).ok().as_deref()), (Some(0), Some("amd64\n")), "{text}");
}

#[test]
fn login_of_a_chart_repository_is_not_on_a_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let helm = format!(
        "#!/bin/sh\necho \"$@\" >> {0}\ncase \"$1 $2\" in 'repo add') cat >> {0} ;; *) echo '[]' ;; esac\n",
        calls.display()
    );
    for (name, content) in [("helm", helm.as_str()), ("admin.conf", "")] {
        fs::write(folder.path().join(name), content).unwrap();
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir(folder.path().join("components")).unwrap();
    let playbook = "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: cluster, tasks_from: chart}
      vars:
        cluster_objects_name: custom_cni
        cluster_helm: []
        cluster_chart: {name: n, namespace: x, ref: r/n, repository_name: r, repository_url: 'https://c.example.com',
          repository_username: ann, repository_password: s3cret9}
";
    let programs = format!("bin_dir={}", folder.path().display());
    let (_, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &["-v", "-e", &programs]);
    assert!(!text.contains("s3cret9"), "{text}");
    let called = fs::read_to_string(calls).unwrap();
    let expected = "repo add r https://c.example.com --username=ann --password-stdin --force-update\ns3cret9";
    assert!(called.contains(expected), "{called}\n{text}");
}

const SUBSCRIPTION_MANAGER: &str = r#"#!/usr/bin/env python3
import os, sys
folder = os.path.dirname(os.path.abspath(__file__))
with open("/proc/self/cmdline") as line, open(folder + "/processes", "a") as processes:
    processes.write(line.read())
with open(folder + "/calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\n")
if sys.argv[1] == "register" and "expired" in sys.argv:
    sys.exit("no organization has the key expired")
sys.exit(1 if sys.argv[1] == "identity" else 0)
"#;

/// The program in place of subscription-manager records its arguments, and those that other users could see.
#[test]
fn secrets_that_register_a_host_stay_out_of_processes_and_output() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("subscription-manager");
    fs::write(&program, SUBSCRIPTION_MANAGER).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  environment: {{PATH: \"{}:{{{{ lookup('env', 'PATH') }}}}\"}}
  roles: [{{role: host, when: false}}]
  tasks:
    - ansible.builtin.import_role: {{name: host, tasks_from: validate}}
    - ansible.builtin.include_role: {{name: host, tasks_from: subscribe}}
",
        folder.path().display(),
    );
    let register = |variables: &str| play(folder.path(), "cp1\ncp2\n", &playbook, &["-e", variables, "-vvv"]);
    let account =
        "{rh_subscription_username: me, rh_subscription_password: \"s3'cr et\", rh_subscription_usage: Production}";
    let (code, text) = register(account);
    assert_eq!(code, Some(0), "{text}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let expected = "identity\nregister --username me --password s3'cr et\nsyspurpose usage --set Production\n";
    assert_eq!(read("calls"), expected);
    assert!(!read("processes").contains("s3'cr") && !text.contains("s3'cr"), "{text}");

    let (code, text) = register("{rh_subscription_org_id: 17, rh_subscription_activation_key: expired}");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("cp1 was not registered: no organization has the key ***"), "{text}");
    let (code, text) = register("{rh_subscription_username: me}");
    assert!(
        code == Some(2) && text.contains("set either rh_subscription_username and rh_subscription_password"),
        "{text}"
    );
}
