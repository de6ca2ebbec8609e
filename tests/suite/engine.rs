//! Runs in a cluster: a real API server and etcd hold them, and the test starts pods in place of a kubelet.

mod shards;

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Twelve tasks that each leave a line, and a handler.
const PLAYBOOK: &str = "- hosts: all
  gather_facts: false
  handlers: [{name: at last, shell: echo handler >> LINES}]
  tasks:
    - {shell: echo 1 >> LINES, notify: at last}
    - {shell: 'echo 2 >> LINES; test {{ word }} = secret-word'}
    - {shell: echo 3 >> LINES; sleep 2}
    - {shell: echo 4 >> LINES; sleep 2}
    - {shell: echo 5 >> LINES; sleep 2}
    - {shell: echo 6 >> LINES; sleep 2}
";

#[track_caller]
fn eventually<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(90);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Processes that end with the test.
struct Killed(Vec<Child>);

impl Killed {
    /// Starts a program.
    fn of(command: &mut Command) -> Killed {
        Killed(vec![command.process_group(0).spawn().unwrap()])
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            let _ = child.wait();
        }
    }
}

/// An API server without nodes, and a project.
struct Cluster {
    folder: TempDir,
    server: String,
    _servers: Killed,
}

impl Cluster {
    /// Starts the servers; `None` without the files of `lab/artifacts/build`.
    fn start() -> Option<Cluster> {
        let cache = std::env::var("WINDLASS_CACHE").unwrap_or_else(|_| "/var/cache/windlass".into());
        let image = Path::new(&cache).join("artifacts/images/kube-apiserver_v1.20.2.tar");
        let etcd = windlass_testing::unpacked("etcd")?;
        if !windlass_testing::has_all(&["root", "namespaces"]) {
            return None;
        }
        if !image.is_file() {
            windlass_testing::lacks("artifacts");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let unpack = format!("tar -xOf {} layer.tar | tar -x -C {}", image.display(), folder.path().display());
        assert!(Command::new("sh").args(["-c", &unpack]).status().unwrap().success());
        let ports = [0; 3].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let [client, peer, server] = ports.each_ref().map(|port| port.local_addr().unwrap().port());
        drop(ports);
        let at_port = |port: u16| format!("http://127.0.0.1:{port}");
        let run = |program: &Path, log: &str, words: &[String]| {
            let log = fs::File::create(at(log)).unwrap();
            let mut command = Command::new(program);
            command.args(words).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
            command.process_group(0).spawn().unwrap()
        };
        let path = |name: &str| at(name).display().to_string();
        let mut etcd_words = vec!["--data-dir".into(), path("etcd")];
        for name in ["--listen-client-urls", "--advertise-client-urls"] {
            etcd_words.extend([name.into(), at_port(client)]);
        }
        for name in ["--listen-peer-urls", "--initial-advertise-peer-urls"] {
            etcd_words.extend([name.into(), at_port(peer)]);
        }
        etcd_words.extend(["--initial-cluster".into(), format!("default={}", at_port(peer))]);
        fs::write(at("tokens"), "secret,admin,admin,system:masters").unwrap();
        let key =
            Command::new("openssl").args(["genrsa", "-out", &path("accounts.key")]).stderr(Stdio::null()).status();
        assert!(key.unwrap().success());
        let words: Vec<String> = [
            ("etcd-servers", at_port(client)),
            ("secure-port", server.to_string()),
            ("bind-address", "127.0.0.1".into()),
            ("advertise-address", "192.0.2.10".into()),
            ("endpoint-reconciler-type", "none".into()),
            ("cert-dir", path("pki")),
            ("token-auth-file", path("tokens")),
            ("service-account-issuer", "https://kubernetes.default.svc".into()),
            ("service-account-key-file", path("accounts.key")),
            ("service-account-signing-key-file", path("accounts.key")),
            ("service-cluster-ip-range", "10.96.0.0/16".into()),
            ("authorization-mode", "RBAC".into()),
        ]
        .into_iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .collect();
        let servers = Killed(vec![
            run(&etcd, "etcd.log", &etcd_words),
            run(&at("usr/local/bin/kube-apiserver"), "server.log", &words),
        ]);
        fs::create_dir(at("project")).unwrap();
        fs::write(at("project/site.yml"), PLAYBOOK.replace("LINES", &path("lines"))).unwrap();
        fs::write(at("project/hosts.yml"), "all: {hosts: {here: {ansible_connection: local}}}\n").unwrap();
        let cluster = Cluster { folder, server: format!("https://127.0.0.1:{server}"), _servers: servers };
        cluster.write_config("config", "secret");
        eventually("the API server serves", || cluster.windlass(&["engine", "list"]).status.success().then_some(()));
        Some(cluster)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a kubeconfig of a user with this token.
    fn write_config(&self, name: &str, token: &str) {
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: '{}', insecure-skip-tls-verify: true}}}}]\n\
             users: [{{name: u, user: {{token: {token}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
            self.server
        );
        fs::write(self.at(name), text).unwrap();
    }

    /// The answer of a module.
    fn module(&self, name: &str, arguments: &Value) -> Value {
        let words = ["adhoc", "localhost", "-m", name, "-a", &arguments.to_string()];
        let output = self.command(&words).stderr(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let json = text.split_once("=> ").unwrap_or_else(|| panic!("{text}")).1;
        serde_json::Deserializer::from_str(json).into_iter().next().unwrap().unwrap()
    }

    /// Writes a ConfigMap as another user of the namespace.
    fn forge(&self, name: &str, rest: Value) {
        let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
        object["metadata"] = json!({ "name": name, "namespace": "windlass", "annotations": rest["annotations"] });
        for key in ["data", "binaryData"] {
            object[key] = rest[key].clone();
        }
        let answer = self.module("k8s", &json!({ "definition": object }));
        assert_eq!(answer["changed"], true, "{answer}");
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        crate::project::enter(&mut command, &self.at("project"));
        command.env("KUBECONFIG", self.at("config")).env("HOME", self.at("home")).env_remove("WINDLASS_JOURNAL_DIR");
        command.env("XDG_STATE_HOME", self.at("state")).args(words);
        command
    }

    fn windlass(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Starts a run, and returns its id.
    fn begin(&self) -> String {
        self.begin_with(&["-e", "word=secret-word"])
    }

    fn begin_with(&self, words: &[&str]) -> String {
        let mut command = self.command(&["playbook", "-i", "hosts.yml", "site.yml", "--engine", "kubernetes"]);
        command.args(["--engine-image", "registry.invalid/windlass", "--detach"]);
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Objects of a kind in the namespace.
    fn objects(&self, kind: &str, version: &str) -> Vec<Value> {
        let which = json!({ "kind": kind, "api_version": version, "namespace": "windlass" });
        self.module("k8s_info", &which)["resources"].as_array().unwrap().clone()
    }

    /// The program of a pod of a Job as a kubelet starts it: with the Secrets as files, the rights of its service
    /// account, and nothing of an earlier pod. `port` is the lead's.
    fn pod_of(&self, job: &Value, name: &str, port: u16) -> Command {
        let template = &job["spec"]["template"]["spec"];
        let container = &template["containers"][0];
        let root = self.at("pods").join(name);
        let _ = fs::remove_dir_all(&root);
        for folder in ["work/home", "input", "keys"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for volume in template["volumes"].as_array().unwrap() {
            let projected = volume["projected"]["sources"].as_array().into_iter().flatten().map(|one| &one["secret"]);
            let secret = [&volume["secret"]].into_iter().filter(|secret| !secret.is_null());
            projected.chain(secret).for_each(|secret| self.mount(secret, &root.join(volume["name"].as_str().unwrap())));
        }
        let index = container["env"].as_array().unwrap().iter().find(|one| one["name"] == "JOB_COMPLETION_INDEX");
        // Every pod sees its folders at the same place.
        let pod = self.at("pod");
        fs::create_dir_all(&pod).unwrap();
        let keys = pod.join("keys").join(index.map_or("", |index| index["value"].as_str().unwrap()));
        let run = job["metadata"]["labels"]["windlass.dev/run"].as_str().unwrap();
        let windlass = self.command(&[]);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", "mount --bind \"$0\" \"$1\" && shift && exec \"$@\""]);
        crate::ran::wrap(command.args([&root, &pod]), &windlass);
        command.current_dir(self.at("project"));
        for word in container["args"].as_array().unwrap() {
            command.arg(match word.as_str().unwrap() {
                "/work" => pod.join("work").display().to_string(),
                "/input" => pod.join("input").display().to_string(),
                "/keys" => keys.display().to_string(),
                "$(POD_IP)" => "127.0.0.1".to_owned(),
                "7433" => port.to_string(),
                word if word == format!("windlass-{run}:7433") => format!("127.0.0.1:{port}"),
                word => word.to_owned(),
            });
        }
        match template["serviceAccountName"].as_str() {
            Some(account) => {
                self.write_config(&format!("config-{name}"), &self.token(account));
                command.env("KUBECONFIG", self.at(&format!("config-{name}")));
            }
            None => drop(command.env("KUBECONFIG", "/nonexistent")),
        }
        command.env("HOME", pod.join("work/home")).env("TMPDIR", pod.join("work"));
        command.env("POD_NAME", name).stdin(Stdio::null());
        command
    }

    /// Writes a Secret, or these items of it, to the folder of a volume.
    fn mount(&self, which: &Value, folder: &Path) {
        let name = which["name"].as_str().or_else(|| which["secretName"].as_str()).unwrap();
        let secrets = self.objects("Secret", "v1");
        let secret = secrets.iter().find(|secret| secret["metadata"]["name"] == name).unwrap();
        for (key, value) in secret["data"].as_object().unwrap() {
            let items = which["items"].as_array();
            let file = match items {
                None => key.as_str(),
                Some(items) => match items.iter().find(|item| item["key"] == key.as_str()) {
                    Some(item) => item["path"].as_str().unwrap(),
                    None => continue,
                },
            };
            let bytes = base64::prelude::BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap();
            fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
            fs::write(folder.join(file), bytes).unwrap();
        }
    }

    /// A token of a service account.
    fn token(&self, account: &str) -> String {
        let accounts = format!("{}/api/v1/namespaces/windlass/serviceaccounts", self.server);
        let answer = self.module(
            "uri",
            &json!({
                "url": format!("{accounts}/{account}/token"),
                "method": "POST",
                "body_format": "json",
                "body": { "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} },
                "headers": { "Authorization": "Bearer secret" },
                "status_code": 201,
                "validate_certs": false,
            }),
        );
        answer["json"]["status"]["token"].as_str().unwrap().to_owned()
    }

    /// The Job with this name.
    fn job(&self, name: &str) -> Value {
        let jobs = self.objects("Job", "batch/v1");
        jobs.iter().find(|job| job["metadata"]["name"] == name).unwrap_or_else(|| panic!("no Job {name}")).clone()
    }

    /// Starts the pod of a run without workers.
    fn pod(&self, run: &str) -> Killed {
        Killed::of(&mut self.pod_of(&self.job(&format!("windlass-{run}")), "alone", 0))
    }

    fn lines(&self) -> Vec<String> {
        fs::read_to_string(self.at("lines")).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

#[test]
fn run_of_a_killed_pod_resumed_by_the_next_one_and_followed_to_its_end() {
    let Some(cluster) = Cluster::start() else { return };
    let run = cluster.begin();
    let jobs = cluster.objects("Job", "batch/v1");
    assert!(!jobs[0].to_string().contains("secret-word"), "{}", jobs[0]);
    let first = cluster.pod(&run);
    // Every second, the pod stores what it has.
    eventually("the third task has run", || (cluster.lines().len() > 3).then_some(()));
    std::thread::sleep(Duration::from_secs(3));
    drop(first);
    let mut second = cluster.pod(&run);
    assert!(second.0[0].wait().unwrap().success());
    let lines = cluster.lines();
    let count = |line: &str| lines.iter().filter(|other| *other == line).count();
    // Only a task that was running may run again.
    assert!(["1", "2", "3", "handler"].iter().all(|line| count(line) == 1), "{lines:?}");
    assert!(["4", "5", "6"].iter().all(|line| (1..=2).contains(&count(line))), "{lines:?}");
    let unknown = cluster.windlass(&["engine", "attach", "20260131-235959-0a1b2c"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("`windlass engine list` lists the runs"), "{unknown:?}");
    let attached = cluster.windlass(&["engine", "attach", &run]);
    let text = String::from_utf8_lossy(&attached.stdout);
    assert!(attached.status.success() && text.contains("RUNNING HANDLER [at last]"), "{attached:?}");
    let journals = cluster.at("state/windlass/engine");
    let of_engine = |words: &[&str]| cluster.command(words).env("WINDLASS_JOURNAL_DIR", &journals).output().unwrap();
    let runs = of_engine(&["runs", "--all"]);
    let text = String::from_utf8_lossy(&runs.stdout);
    assert!(text.contains("site.yml"), "{runs:?}");
    // Whoever writes into the namespace could have written it.
    let fetched = text.lines().last().and_then(|line| line.split_whitespace().next()).unwrap();
    for words in [&["runs", "rerun", fetched][..], &["playbook", "-i", "hosts.yml", "site.yml", "--resume", fetched]] {
        let refused = of_engine(words);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && error.contains("it was fetched from a cluster"), "{refused:?}");
    }
    let listed = cluster.windlass(&["engine", "list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("exit code 0"), "{listed:?}");
    assert!(cluster.windlass(&["engine", "delete", &run]).status.success());
    assert!(cluster.objects("Secret", "v1").iter().all(|secret| !secret.to_string().contains(&run)));
}

#[test]
fn objects_that_the_run_has_not_written_decide_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    let run = cluster.begin();
    // A journal of a run that has ended well, its end, and a wish to stop it: all before its pod starts.
    let journal = "{\"t\":\"run\",\"version\":1,\"run\":\"20260131-235959-0a1b2c\"}\n{\"t\":\"end\",\"code\":0}\n";
    let journal = base64::prelude::BASE64_STANDARD.encode(journal);
    let file = "20260131-235959-0a1b2c.0123456789abcdef.jsonl";
    let annotations = json!({ "windlass.dev/journal": file, "windlass.dev/seal": "AAAA" });
    let segment = json!({ "annotations": annotations, "binaryData": { "journal": journal } });
    cluster.forge(&format!("windlass-{run}-000001"), segment);
    cluster.forge(&format!("windlass-{run}-end"), json!({ "data": { "code": "0", "segments": "0" } }));
    cluster.forge(&format!("windlass-{run}-cancel"), json!({}));
    let listed = cluster.windlass(&["engine", "list"]);
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("exit code"), "{listed:?}");
    let mut pod = cluster.pod(&run);
    let attached = cluster.command(&["engine", "attach", &run]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let attached = attached.unwrap();
    eventually("the last task runs", || cluster.lines().contains(&"handler".to_owned()).then_some(()));
    // The run ends although its first names are taken.
    assert!(pod.0[0].wait().unwrap().success());
    let attached = attached.wait_with_output().unwrap();
    let (text, warned) = (String::from_utf8_lossy(&attached.stdout), String::from_utf8_lossy(&attached.stderr));
    assert!(attached.status.success() && text.contains("RUNNING HANDLER [at last]"), "{attached:?}");
    assert!(warned.contains(&format!("the run has not written the ConfigMap windlass-{run}-000001")), "{warned}");
    let listed = cluster.windlass(&["engine", "list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("exit code 0"), "{listed:?}");
}

#[test]
fn cancelled_run_stops_in_order_and_ends_with_99() {
    let Some(cluster) = Cluster::start() else { return };
    // However slow the machine is, the run is cancelled before its fourth task.
    let playbook = cluster.at("project/site.yml");
    let text = fs::read_to_string(&playbook).unwrap();
    fs::write(&playbook, text.replace("sleep 2", "sleep 600")).unwrap();
    let run = cluster.begin();
    let _pod = cluster.pod(&run);
    eventually("the third task runs", || (cluster.lines().len() > 2).then_some(()));
    assert!(cluster.windlass(&["engine", "cancel", &run]).status.success());
    let attached = cluster.windlass(&["engine", "attach", &run]);
    assert_eq!(attached.status.code(), Some(99), "{attached:?}");
    assert!(String::from_utf8_lossy(&attached.stdout).contains("PLAY RECAP"), "{attached:?}");
    assert!(!cluster.lines().contains(&"4".to_owned()));
    let foreign = cluster.windlass(&["engine", "uninstall", "-n", "default"]);
    let error = String::from_utf8_lossy(&foreign.stderr);
    assert!(error.contains("has not created") && error.contains("`windlass engine delete RUN`"), "{error}");
}

#[test]
fn run_for_a_cluster_refused_before_anything_is_created() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("site.yml"), "- hosts: all\n  tasks: [{ping: }]\n").unwrap();
    fs::write(folder.path().join("bad.yml"), "- hosts: all\n  taks: []\n").unwrap();
    let refused = |words: &[&str], sentence: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        crate::project::enter(&mut command, folder.path());
        // Nobody listens there.
        command.env("K8S_AUTH_HOST", "https://127.0.0.1:9").env("K8S_AUTH_API_KEY", "x").arg("playbook");
        let output = command.args(words).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(sentence), "{words:?}: {error}");
    };
    let image = ["--engine", "kubernetes", "--engine-image", "i"];
    let with = |words: &[&'static str]| [words, &image].concat();
    refused(&["site.yml", "--engine", "kubernetes"], "needs the image of its pod");
    refused(&["site.yml", "--detach"], "--detach needs a run in a cluster");
    refused(&with(&["-i", "a,", "site.yml", "-K"]), "-K cannot be used with --engine kubernetes");
    refused(&with(&["-i", "/etc/hosts", "site.yml"]), "`/etc/hosts` is not in the current folder");
    refused(&with(&["-i", "a,", "bad.yml"]), "'taks' is not a valid attribute for a Play");
    refused(&with(&["-i", "a,", "site.yml"]), "Kubernetes: ");
    let large = fs::File::create(folder.path().join("large")).unwrap();
    large.set_len(257 << 20).unwrap();
    refused(&with(&["-i", "a,", "site.yml"]), "the project is too large");
}
