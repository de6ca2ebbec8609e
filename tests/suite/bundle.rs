//! `windlass bundle` against a small mirror, and against ssh-keygen.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use windlass::bundle::{Digest, Encoding, File, Kind, Manifest, Summary};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A directory with an inventory, and the mirror that it names.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        let site = Site { folder: tempfile::tempdir().unwrap() };
        let groups = json!({"all": {"hosts": {"node1": {"ansible_host": "127.0.0.1"}}, "children": {
            "kube_control_plane": {"hosts": {"node1": {}}},
            "etcd": {"hosts": {"node1": {}}},
            "kube_node": {"hosts": {"node1": {}}},
            "k8s_cluster": {"children": {"kube_control_plane": {}, "kube_node": {}}},
        }}});
        site.write("prod/hosts.yml", groups.to_string().as_bytes());
        for name in ["kubeadm", "kubelet", "kubectl"] {
            // Compressible, as programs are.
            site.write(&format!("mirror/k8s/release/v1.36.4/bin/linux/amd64/{name}"), name.repeat(500).as_bytes());
        }
        for name in ["containerd.tgz", "cni.tgz", "etcd.tgz", "crictl.tgz", "runc"] {
            site.write(&format!("mirror/{name}"), format!("content of {name}").as_bytes());
        }
        site.write("images/all.tar", &docker_archive());
        site.describe(&json!({}));
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Writes the variables of the inventory: addresses and checksums of the mirror, and further ones.
    fn describe(&self, further: &Value) {
        let mirror = format!("file://{}", self.path("mirror").display());
        let sum = |name: &str| format!("sha256:{}", Digest::of(&fs::read(self.path("mirror").join(name)).unwrap()));
        let image = |name: &str, tag: &str| format!("registry.k8s.io/{name}:{tag}");
        let mut variables = json!({
            "kube_version": "1.36.4",
            "dns_mode": "none",
            "images_dir": self.path("images"),
            "image_archives": [{"file": "all.tar", "sha256": Digest::of(&docker_archive()), "names": [
                image("kube-apiserver", "v1.36.4"), image("kube-controller-manager", "v1.36.4"),
                image("kube-scheduler", "v1.36.4"), image("kube-proxy", "v1.36.4"), image("pause", "3.10.2"),
            ]}],
        });
        let fields = variables.as_object_mut().unwrap();
        for name in ["kubeadm", "kubelet", "kubectl"] {
            let path = format!("k8s/release/v1.36.4/bin/linux/amd64/{name}");
            fields.insert(format!("{name}_checksum"), sum(&path).into());
            fields.insert(format!("{name}_download_url"), format!("{mirror}/{path}").into());
        }
        for (name, file) in [
            ("containerd", "containerd.tgz"),
            ("cni", "cni.tgz"),
            ("etcd", "etcd.tgz"),
            ("crictl", "crictl.tgz"),
            ("runc", "runc"),
        ] {
            fields.insert(format!("{name}_download_url"), format!("{mirror}/{file}").into());
            fields.insert(format!("{name}_checksum"), sum(file).into());
        }
        fields.extend(further.as_object().unwrap().clone());
        self.write("prod/group_vars/all.yml", variables.to_string().as_bytes());
    }

    /// The program in the directory of the site.
    fn windlass(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("HOME", self.folder.path()).env_remove("ANSIBLE_CONFIG").env("NO_PROXY", "127.0.0.1");
        command.output().unwrap()
    }

    /// Standard output of a command that succeeds.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.windlass(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard error of a command that fails.
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.windlass(arguments);
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn create(&self, more: &[&str]) -> String {
        self.text(&Site::creating(more))
    }

    fn creating<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let playbook = concat!(env!("CARGO_MANIFEST_DIR"), "/playbooks/bundle.yml");
        [&["bundle", "create", "-i", "prod", "--playbook", playbook, "--without-windlass"], more].concat()
    }

    /// Makes a key pair, and a file that allows it to sign.
    fn key(&self, kind: &str) {
        let key = self.path("key");
        keygen(&["-q", "-t", kind, "-N", "", "-C", "", "-f", key.to_str().unwrap()], b"");
        let public = fs::read_to_string(self.path("key.pub")).unwrap();
        self.write("signers", format!("ops@example.com namespaces=\"windlass-bundle\" {public}").as_bytes());
    }

    fn listed(&self, bundle: &str) -> Manifest {
        Manifest::parse(self.text(&["bundle", "list", "--json", bundle]).as_bytes()).unwrap()
    }

    fn member(&self, bundle: &str, name: &str) -> Vec<u8> {
        let mut archive = tar::Archive::new(fs::File::open(self.path(bundle)).unwrap());
        let mut entry =
            archive.entries().unwrap().map(Result::unwrap).find(|e| e.path().unwrap() == Path::new(name)).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        content
    }
}

/// An archive in the format of `docker save`, with one image of several names.
fn docker_archive() -> Vec<u8> {
    let image = |name: &str, tag: &str| format!("registry.k8s.io/{name}:{tag}");
    let names = [image("kube-apiserver", "v1.36.4"), image("pause", "3.10.2")];
    let manifest = json!([{"Config": "config.json", "RepoTags": names, "Layers": ["a/layer.tar"]}]).to_string();
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in [("config.json", "{}"), ("a/layer.tar", "the layer"), ("manifest.json", &manifest)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap()
}

fn keygen(arguments: &[&str], input: &[u8]) -> String {
    let mut command = Command::new("ssh-keygen");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Serves requests on this machine, and returns the server's address. The handler gets the path of a request and
/// whether it has a valid token or password, and returns status, further headers and body.
fn serve(handler: impl Fn(&str, bool) -> (u16, String, Vec<u8>) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = vec![0; 8192];
            let length = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let request_headers = request.to_lowercase();
            let is_known = ["bearer secret-token", "basic dxnlcjpwyxnz"]
                .iter()
                .any(|account| request_headers.contains(&format!("authorization: {account}")));
            let (status, headers, body) = handler(path, is_known);
            let head =
                format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    address
}

#[test]
fn bundle_has_what_the_roles_fetch_and_is_reproducible() {
    let site = Site::new();
    let content = b"containers:\n  - image: \"quay.io/x/stranger:v1\"\n  - image: registry.k8s.io/pause:3.1\n";
    let url = format!("http://{}/crds/install.yaml", serve(|_, _| (200, String::new(), content.to_vec())));
    site.describe(&json!({
        "gateway_api_enabled": true,
        "gateway_api_crds_download_url": url,
        "gateway_api_standard_crds_checksums": {"no_arch": {"1.5.1": format!("sha256:{}", Digest::of(content))}},
    }));
    site.key("ed25519");
    let printed = site.create(&["--sign", "key", "one.bundle"]);
    assert!(printed.contains("left out: package socat: hosts install it"), "{printed}");
    assert!(printed.contains("left out: image quay.io/x/stranger:v1: `http://127.0.0.1:"), "{printed}");
    assert!(!printed.contains("left out: image registry.k8s.io/pause"), "{printed}");
    site.create(&["--sign", "key", "two.bundle"]);
    assert_eq!(fs::read(site.path("one.bundle")).unwrap(), fs::read(site.path("two.bundle")).unwrap());

    let manifest = site.listed("one.bundle");
    assert_eq!(manifest.name, "prod");
    assert_eq!(manifest.releases["kubernetes"], "1.36.4");
    let names: Vec<&str> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    for name in ["kubeadm", "kubelet", "kubectl", "containerd", "runc", "cni-plugins", "etcd", "crictl", "install.yaml"]
    {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let kubeadm = manifest.files.iter().find(|file| file.name == "kubeadm").unwrap();
    let mirror = site.path("mirror");
    assert_eq!(kubeadm.path, format!("files{}/k8s/release/v1.36.4/bin/linux/amd64/kubeadm", mirror.display()));
    assert_eq!((kubeadm.version.as_str(), kubeadm.size, kubeadm.encoding), ("1.36.4", 3500, Encoding::Zstd));
    let image = manifest.files.iter().find(|file| file.kind == Kind::Image).unwrap();
    assert_eq!((image.path.as_str(), image.images.len()), ("images/all.tar", 5));
    let crds = manifest.files.iter().find(|file| file.kind == Kind::Manifest).unwrap();
    assert_eq!(crds.path, format!("files/{}", url.strip_prefix("http://").unwrap()));

    let sbom: Value = serde_json::from_slice(&site.member("one.bundle", "sbom.json")).unwrap();
    assert_eq!((&sbom["bomFormat"], &sbom["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
    assert_eq!(sbom["components"].as_array().unwrap().len(), manifest.files.len());
    let shown = site.text(&["bundle", "verify", "--allowed-signers", "signers", "one.bundle"]);
    assert!(shown.contains("signature: valid, by `ops@example.com`"), "{shown}");
    assert!(shown.contains("contents: sizes and hashes match (10 of 10)"), "{shown}");
    site.text(&["bundle", "unpack", "--public-key", "key.pub", "one.bundle", "out"]);
    assert_eq!(fs::read(site.path("out").join(&kubeadm.path)).unwrap(), "kubeadm".repeat(500).as_bytes());
}

#[test]
fn locked_package_is_in_the_bundle() {
    let site = Site::new();
    let package = "mirror/socat_1_amd64.deb";
    site.write(package, b"a package");
    let file = json!({
        "name": "socat", "version": "1", "file": "socat_1_amd64.deb", "size": 9, "fields": {},
        "url": format!("file://{}", site.path(package).display()), "sha256": Digest::of(b"a package"),
    });
    let lock = json!({"Debian-bookworm-x86_64": {"packages": ["haproxy", "socat"], "files": [file]}});
    site.write("prod/packages.json", lock.to_string().as_bytes());
    site.write("ansible.cfg", b"[inventory]\nignore_patterns = packages.json\n");
    let printed = site.create(&["one.bundle"]);
    assert!(!printed.contains("left out: package"), "{printed}");
    let manifest = site.listed("one.bundle");
    let found = manifest.files.iter().find(|file| file.name == "socat").unwrap();
    assert_eq!((found.sha256.clone(), found.size), (Digest::of(b"a package"), 9));
    // The bundle still reports names that no lock has.
    let lock = lock.to_string().replace("haproxy", "nginx");
    site.write("prod/packages.json", lock.as_bytes());
    assert!(site.create(&["two.bundle"]).contains("left out: package haproxy: hosts install it"));
    site.write(package, b"A package");
    assert!(site.refusal(&Site::creating(&["x.bundle"])).contains(&format!("{package}` has the checksum")));
}

#[test]
fn wrong_checksum_or_missing_image_stops_the_bundle() {
    let site = Site::new();
    site.describe(&json!({"runc_checksum": format!("sha256:{}", "0".repeat(64))}));
    assert!(site.refusal(&Site::creating(&["x.bundle"])).contains("mirror/runc` has the checksum"));
    // A registry that nobody serves.
    site.describe(&json!({"pod_infra_version": "3.99", "pod_infra_image_repo": "127.0.0.1:1/pause"}));
    let refused = site.refusal(&Site::creating(&["x.bundle"]));
    assert!(refused.contains("`http://127.0.0.1:1/v2/` cannot be fetched"), "{refused}");
    assert!(!site.path("x.bundle").exists());
    site.create(&["--without-images", "x.bundle"]);
    let left = site.listed("x.bundle").left_out;
    assert!(left.iter().any(|left| left.kind == "image" && left.name == "127.0.0.1:1/pause:3.99"), "{left:?}");
}

#[test]
fn failed_list_of_needs_shown_by_its_reason_alone() {
    let site = Site::new();
    site.describe(&json!({"kube_version": "latest"}));
    let output = site.windlass(&Site::creating(&["x.bundle"]));
    let (shown, refused) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success() && shown.is_empty(), "{shown}");
    assert!(refused.starts_with("[ERROR]: nothing was written, because `"), "{refused}");
    assert!(refused.contains("\n  kube_version is `latest`, but must be a release"), "{refused}");
    assert_eq!(refused.lines().count(), 2, "{refused}");
}

/// A registry with one image, `pause:3.99` for two architectures. `scheme` is how it wants to be logged in to, and
/// `layer` the layer it sends.
fn registry(scheme: &'static str, layer: &'static [u8]) -> String {
    let (config, right) = (br#"{"architecture":"amd64"}"#.to_vec(), b"layer");
    let content = |bytes: &[u8]| json!({"digest": format!("sha256:{}", Digest::of(bytes)), "size": bytes.len()});
    let manifest = json!({"schemaVersion": 2, "config": content(&config), "layers": [content(right)]}).to_string();
    let mut entries = vec![content(b"another"), content(manifest.as_bytes())];
    for (entry, architecture) in entries.iter_mut().zip(["arm64", "amd64"]) {
        entry["platform"] = json!({"architecture": architecture, "os": "linux"});
    }
    let index = json!({"schemaVersion": 2, "manifests": entries}).to_string();
    let address = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let own = std::sync::Arc::clone(&address);
    let found = serve(move |path, is_known| {
        let realm = format!("{scheme} realm=\"http://{}/token\",service=\"test\"", own.get().unwrap());
        let by_digest = |kind: &str, bytes: &[u8]| format!("/v2/pause/{kind}/sha256:{}", Digest::of(bytes));
        let body = match path {
            "/token?service=test&scope=repository:pause:pull" => {
                return (200, "Content-Type: application/json\r\n".to_owned(), br#"{"token":"secret-token"}"#.to_vec());
            }
            _ if !is_known => return (401, format!("WWW-Authenticate: {realm}\r\n"), vec![]),
            "/v2/pause/manifests/3.99" => index.clone().into_bytes(),
            path if path == by_digest("manifests", manifest.as_bytes()) => manifest.clone().into_bytes(),
            path if path == by_digest("blobs", &config) => config.clone(),
            path if path == by_digest("blobs", right) => layer.to_vec(),
            _ => return (404, String::new(), vec![]),
        };
        (200, String::new(), body)
    });
    address.set(found.clone()).unwrap();
    found
}

#[test]
fn image_of_a_registry_becomes_an_archive() {
    let site = Site::new();
    let address = registry("Bearer", b"layer");
    let variables = json!({"pod_infra_version": "3.99", "pod_infra_image_repo": format!("{address}/pause")});
    site.describe(&variables);
    site.create(&["one.bundle"]);
    site.create(&["two.bundle"]);
    assert_eq!(fs::read(site.path("one.bundle")).unwrap(), fs::read(site.path("two.bundle")).unwrap());
    let manifest = site.listed("one.bundle");
    let name = format!("{address}/pause:3.99");
    let image = manifest.files.iter().find(|file| file.images == [name.as_str()]).unwrap();
    assert!(image.source.starts_with(&format!("docker://{address}/pause@sha256:")), "{}", image.source);
    site.text(&["bundle", "unpack", "--allow-unsigned", "one.bundle", "out"]);
    let unpacked = Path::new("out").join(&image.path);
    let unpacked = unpacked.to_str().unwrap();
    let docker: Value = serde_json::from_slice(&site.member(unpacked, "manifest.json")).unwrap();
    assert_eq!(docker[0]["RepoTags"], json!([name]));
    assert_eq!(site.member(unpacked, docker[0]["Layers"][0].as_str().unwrap()), b"layer");
    let index: Value = serde_json::from_slice(&site.member(unpacked, "index.json")).unwrap();
    assert_eq!(index["manifests"][0]["annotations"]["io.containerd.image.name"], json!(name));
    // Nothing of an unchanged image is fetched again.
    assert!(site.create(&["--since", "one.bundle", "next.bundle"]).contains("0 of"));
    assert!(
        site.refusal(&Site::creating(&["--arch", "amd64,arm64", "x.bundle"])).contains("for one architecture only")
    );
    let refused = site.refusal(&Site::creating(&["--arch", "arm64", "x.bundle"]));
    assert!(refused.contains("manifests/sha256:"), "{refused}");
}

#[test]
fn registry_that_wants_a_login_gets_credentials() {
    let site = Site::new();
    let address = registry("Basic", b"layer");
    site.describe(&json!({"pod_infra_version": "3.99", "pod_infra_image_repo": format!("{address}/pause")}));
    let refused = site.refusal(&Site::creating(&["one.bundle"]));
    assert!(refused.contains(&format!("the registry `{address}` wants a login")), "{refused}");
    assert!(refused.contains("put `auths` into ~/.docker/config.json"), "{refused}");
    let accounts = json!({"auths": {address: {"auth": "dXNlcjpwYXNz"}}});
    site.write(".docker/config.json", accounts.to_string().as_bytes());
    site.create(&["one.bundle"]);
}

#[test]
fn registry_that_sends_another_layer_is_refused() {
    let site = Site::new();
    let address = registry("Bearer", b"LAYER");
    site.describe(&json!({"pod_infra_version": "3.99", "pod_infra_image_repo": format!("{address}/pause")}));
    let refused = site.refusal(&Site::creating(&["x.bundle"]));
    assert!(refused.contains("blobs/sha256:") && refused.contains("cannot be fetched"), "{refused}");
    assert!(!site.path("x.bundle").exists());
}

#[test]
fn signatures_are_those_of_ssh_keygen() {
    let site = Site::new();
    for kind in ["ed25519", "ecdsa", "rsa"] {
        for file in ["key", "key.pub", "bundle.json.sig"] {
            let _ = fs::remove_file(site.path(file));
        }
        site.key(kind);
        site.create(&["--sign", "key", "a.bundle"]);
        let (manifest, signature) =
            (site.member("a.bundle", "bundle.json"), site.member("a.bundle", "bundle.json.sig"));
        site.write("ours.sig", &signature);
        let signers = site.path("signers");
        let ours = site.path("ours.sig");
        let verify = ["-Y", "verify", "-n", "windlass-bundle", "-I", "ops@example.com"];
        let files = ["-f", signers.to_str().unwrap(), "-s", ours.to_str().unwrap()];
        let good = keygen(&[verify.as_slice(), &files].concat(), &manifest);
        assert!(good.starts_with("Good \"windlass-bundle\" signature for ops@example.com"), "{kind}: {good}");

        site.create(&["a.bundle"]);
        site.write("bundle.json", &manifest);
        let (key, message) = (site.path("key"), site.path("bundle.json"));
        let sign =
            ["-q", "-Y", "sign", "-n", "windlass-bundle", "-f", key.to_str().unwrap(), message.to_str().unwrap()];
        keygen(&sign, b"");
        let trusted = ["bundle", "verify", "--allowed-signers", "signers", "--identity", "ops@example.com"];
        let shown = site.text(&[trusted.as_slice(), &["--signature", "bundle.json.sig", "a.bundle"]].concat());
        assert!(shown.contains("signature: valid, by `ops@example.com`"), "{kind}: {shown}");
        site.text(&["bundle", "sign", "a.bundle", "--signature", "bundle.json.sig"]);
        site.text(&[trusted.as_slice(), &["a.bundle"]].concat());
    }
}

#[test]
fn untrusted_bundle_is_refused() {
    let site = Site::new();
    site.create(&["a.bundle"]);
    let refused = site.refusal(&["bundle", "unpack", "a.bundle", "out"]);
    assert!(refused.contains("`a.bundle` is not signed"), "{refused}");
    assert!(!site.path("out").exists());
    assert!(site.text(&["bundle", "verify", "--allow-unsigned", "a.bundle"]).contains("signature: missing"));

    site.key("ed25519");
    site.text(&["bundle", "sign", "a.bundle", "--key", "key"]);
    assert!(site.refusal(&["bundle", "verify", "a.bundle"]).contains("but no key is trusted"));
    let other = ["bundle", "verify", "--allowed-signers", "signers", "--identity", "dev@example.com", "a.bundle"];
    assert!(site.refusal(&other).contains("not for the identity `dev@example.com`"));
    let public = fs::read_to_string(site.path("key.pub")).unwrap();
    site.write("signers", format!("ops@example.com namespaces=\"git\" {public}").as_bytes());
    let refused = site.refusal(&["bundle", "verify", "--allowed-signers", "signers", "a.bundle"]);
    assert!(refused.contains("not for the namespace `windlass-bundle`"), "{refused}");
    fs::remove_file(site.path("key")).unwrap();
    site.key("ed25519");
    let refused = site.refusal(&["bundle", "verify", "--public-key", "key.pub", "a.bundle"]);
    assert!(refused.contains("not by the key in `key.pub`"), "{refused}");
    // The signature stays, but its manifest is another one.
    let signature = site.member("a.bundle", "bundle.json.sig");
    site.write("old.sig", &signature);
    site.write("mirror/runc", b"another runc");
    site.describe(&json!({}));
    site.create(&["b.bundle"]);
    site.write("signers", format!("ops@example.com {public}").as_bytes());
    let tried = ["bundle", "verify", "--allowed-signers", "signers", "--signature", "old.sig", "b.bundle"];
    assert!(site.refusal(&tried).contains("is wrong"));
}

#[test]
fn temporary_files_of_killed_bundle_create_removed_by_the_next() {
    let site = Site::new();
    site.write(".windlass-bundle-old/1.zst", b"x");
    site.write(".windlass-bundle-file", b"x");
    site.write(".windlass-bundle-used/1.zst", b"x");
    let used = fs::File::open(site.path(".windlass-bundle-used")).unwrap();
    used.lock().unwrap();
    site.create(&["new.bundle"]);
    let names =
        fs::read_dir(site.folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.starts_with(".windlass-bundle-")).collect();
    assert_eq!(left, [".windlass-bundle-used"]);
}

#[test]
fn difference_has_only_new_contents() {
    let site = Site::new();
    site.create(&["old.bundle"]);
    site.create(&["--name", "stranger", "other.bundle"]);
    site.write("mirror/runc", b"another runc");
    site.describe(&json!({"kube_network_plugin": "none", "crun_enabled": false}));
    // The unchanged ones are not even fetched.
    fs::remove_file(site.path("mirror/etcd.tgz")).unwrap();
    let printed = site.create(&["--since", "old.bundle", "new.bundle"]);
    assert!(printed.contains("created new.bundle: 1 of 8 files"), "{printed}");
    let shown = site.text(&["bundle", "diff", "old.bundle", "new.bundle"]);
    assert!(shown.contains("- artifact cni-plugins"), "{shown}");
    assert!(shown.contains("~ artifact runc"), "{shown}");
    assert!(shown.contains("0 added, 1 removed, 1 changed"), "{shown}");
    let shown = site.text(&["bundle", "verify", "--allow-unsigned", "--base", "old.bundle", "new.bundle"]);
    assert!(shown.contains("base: 7 files are in `prod`"), "{shown}");

    let unpack = ["bundle", "unpack", "--allow-unsigned"];
    let refused = site.refusal(&[unpack.as_slice(), &["new.bundle", "alone"]].concat());
    assert!(refused.contains("is only in the base of the bundle, `prod`"), "{refused}");
    let both = site.text(&[unpack.as_slice(), &["--json", "--base", "old.bundle", "new.bundle", "both"]].concat());
    assert!(both.contains("\"changed\":true"), "{both}");
    let runc = format!("files{}/runc", site.path("mirror").display());
    assert_eq!(fs::read(site.path("both").join(&runc)).unwrap(), b"another runc");
    let again = site.text(&[unpack.as_slice(), &["--json", "new.bundle", "both"]].concat());
    assert!(again.contains("\"changed\":false"), "{again}");
    // A changed file is replaced.
    fs::write(site.path("both").join(&runc), b"tampered rnc").unwrap();
    site.text(&[unpack.as_slice(), &["new.bundle", "both"]].concat());
    assert_eq!(fs::read(site.path("both").join(&runc)).unwrap(), b"another runc");
    let refused = site.refusal(&["bundle", "verify", "--allow-unsigned", "--base", "other.bundle", "new.bundle"]);
    assert!(refused.contains("none of the bases is `prod`"), "{refused}");
}

/// Members of a hostile bundle: type, name, content.
type Members<'a> = Vec<(tar::EntryType, &'a str, Vec<u8>)>;

fn archive(path: &Path, members: &Members<'_>) {
    let mut archive = tar::Builder::new(fs::File::create(path).unwrap());
    for (kind, name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        if *kind == tar::EntryType::Symlink {
            header.set_link_name("/etc").unwrap();
        }
        let field = header.as_old_mut();
        field.name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, content.as_slice()).unwrap();
    }
    archive.finish().unwrap();
}

fn hostile(files: Vec<File>) -> Value {
    let sbom = Summary { sha256: Digest::of(b"{}"), size: 2 };
    let mut manifest = Manifest::new("hostile".to_owned(), sbom);
    manifest.files = files;
    serde_json::to_value(manifest).unwrap()
}

fn file(path: &str, content: &[u8], encoding: Encoding) -> File {
    File {
        path: path.to_owned(),
        kind: Kind::Artifact,
        name: "x".to_owned(),
        version: String::new(),
        sha256: Digest::of(content),
        size: content.len() as u64,
        encoding,
        source: "https://example.com/x".to_owned(),
        images: Vec::new(),
    }
}

#[test]
fn hostile_bundle_is_refused_and_writes_nothing_unchecked() {
    let site = Site::new();
    let regular = tar::EntryType::Regular;
    let blob = |content: &[u8]| format!("blobs/sha256/{}", Digest::of(content));
    let zeros = vec![0; 1 << 20];
    let bomb = ruzstd::encoding::compress_to_vec(zeros.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
    let short = file("files/x", &zeros[..10], Encoding::Zstd);
    let (good, plain) = (b"good".as_slice(), file("files/x", b"good", Encoding::Identity));
    let head = |manifest: &Value| {
        vec![(regular, "bundle.json", manifest.to_string().into_bytes()), (regular, "sbom.json", b"{}".to_vec())]
    };
    let with = |files: Vec<File>, more: Members<'static>| [head(&hostile(files)), more].concat();
    let name = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let cases: Vec<(&str, Members<'_>, &str)> = vec![
        ("no manifest", vec![(regular, "x", vec![])], "its first member is not `bundle.json`"),
        (
            "path",
            with(vec![file("files/../../x", good, Encoding::Identity)], vec![]),
            "is not a path for artifact files",
        ),
        ("missing", with(vec![plain.clone()], vec![]), "the content of `files/x` is missing"),
        ("other", with(vec![plain.clone()], vec![(regular, name(blob(good)), b"evil".to_vec())]), "a different hash"),
        ("longer", with(vec![plain.clone()], vec![(regular, name(blob(good)), b"good!".to_vec())]), "a different size"),
        (
            "bomb",
            with(vec![short.clone()], vec![(regular, name(format!("{}.zst", blob(&zeros[..10]))), bomb)]),
            "it is larger than the manifest lists",
        ),
        (
            "no zstd",
            with(vec![short], vec![(regular, name(format!("{}.zst", blob(&zeros[..10]))), b"text".to_vec())]),
            "is not a valid bundle",
        ),
        (
            "link",
            with(vec![plain.clone()], vec![(tar::EntryType::Symlink, name(blob(good)), vec![])]),
            "is not a regular file",
        ),
        (
            "surplus",
            with(
                vec![plain.clone()],
                vec![(regular, name(blob(good)), good.to_vec()), (regular, "blobs/sha256/x", vec![])],
            ),
            "is in no manifest",
        ),
        (
            "sbom",
            vec![
                (regular, "bundle.json", hostile(vec![]).to_string().into_bytes()),
                (regular, "sbom.json", b"[]".to_vec()),
            ],
            "`sbom.json` has a different hash",
        ),
        (
            "escape",
            head(&{
                let mut manifest = hostile(vec![]);
                manifest["name"] = "\u{1b}[2J".into();
                manifest
            }),
            "control characters",
        ),
        (
            "unknown",
            head(&{
                let mut manifest = hostile(vec![]);
                manifest["later"] = true.into();
                manifest
            }),
            "unknown field `later`",
        ),
    ];
    for (case, members, reason) in cases {
        archive(&site.path("x.bundle"), &members);
        let refused = site.refusal(&["bundle", "unpack", "--allow-unsigned", "x.bundle", "out"]);
        assert!(refused.contains(reason), "{case}: {refused}");
        // Only a content with the hash of the manifest may have been written before the fault was found.
        let left = walk(&site.path("out"));
        assert!(left.iter().all(|path| case == "surplus" && fs::read(path).unwrap() == good), "{case}: {left:?}");
        let _ = fs::remove_dir_all(site.path("out"));
    }
    // The path of a file leads out of the folder by a link that was there before.
    archive(&site.path("x.bundle"), &with(vec![plain], vec![(regular, name(blob(good)), good.to_vec())]));
    fs::create_dir_all(site.path("out")).unwrap();
    fs::create_dir(site.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(site.path("elsewhere"), site.path("out/files")).unwrap();
    let refused = site.refusal(&["bundle", "unpack", "--allow-unsigned", "x.bundle", "out"]);
    assert!(refused.contains("out/files` exists and is not a directory"), "{refused}");
    assert!(walk(&site.path("elsewhere")).is_empty());
}

/// Files below a directory.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(Result::unwrap);
    entries.flat_map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { vec![entry.path()] }).collect()
}

#[test]
fn truncated_bundle_is_refused() {
    let site = Site::new();
    site.create(&["a.bundle"]);
    let bytes = fs::read(site.path("a.bundle")).unwrap();
    site.write("x.bundle", "\u{1b}[2Jtext\n".repeat(100).as_bytes());
    let refused = site.refusal(&["bundle", "list", "x.bundle"]);
    assert!(refused.contains("is not a valid bundle") && !refused.contains('\u{1b}'), "{refused}");
    for length in [0, 100, 600, bytes.len() / 2, bytes.len() - 3000] {
        site.write("cut.bundle", &bytes[..length]);
        let refused = site.refusal(&["bundle", "verify", "--allow-unsigned", "cut.bundle"]);
        assert!(refused.contains("is not a valid bundle"), "{length}: {refused}");
    }
}

/// A playbook that checks the inventory, as all of them do, and then fetches two files of the catalog.
const FETCHING: &str = "
- hosts: all
  connection: local
  gather_facts: true
  gather_subset: ['!all', min]
  roles: [check]
  tasks:
    - ansible.builtin.include_role: {name: artifacts}
      vars:
        artifacts_wanted: >-
          {{ catalog_artifacts | dict2items | selectattr('key', 'in', ['kubeadm', 'runc']) }}
    - ansible.builtin.debug:
        msg: 'images {{ images_dir }} {{ image_archives[0].file }}'
";

#[test]
fn roles_take_everything_from_the_bundle_without_a_network() {
    let site = Site::new();
    site.key("ed25519");
    // Only the mirror knows this checksum.
    let sum = Digest::of(b"content of runc").to_string();
    site.write("mirror/runc.sha256", sum.as_bytes());
    let list = format!("sha256:file://{}", site.path("mirror/runc.sha256").display());
    site.describe(&json!({"runc_checksum": list}));
    site.create(&["--sign", "key", "prod.bundle"]);
    fs::remove_dir_all(site.path("mirror")).unwrap();
    fs::remove_dir_all(site.path("images")).unwrap();
    site.write("fetch.yml", FETCHING.as_bytes());
    fs::create_dir_all(site.path("bin")).unwrap();
    let program = env!("CARGO_BIN_EXE_windlass");
    // Root can forbid the network by a namespace without any.
    let is_root = fs::metadata("/proc/self").is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0);
    let mut words = if is_root { vec!["unshare", "--net", program] } else { vec![program] };
    words.extend(["playbook", "-i", "prod", "fetch.yml", "--no-journal", "-e", "bundle=prod.bundle"]);
    let run = |more: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(more).current_dir(site.folder.path()).stdin(Stdio::null());
        command.env("HOME", site.folder.path()).env("ANSIBLE_ROLES_PATH", format!("{ROOT}/roles"));
        let folders = json!({"bin_dir": site.path("bin"), "local_release_dir": site.path("releases")});
        let output = command.args(["-e", &folders.to_string()]).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (is_done, printed) = run(&[]);
    assert!(!is_done && printed.contains("No key is trusted to sign `prod.bundle`"), "{printed}");
    let (is_done, printed) = run(&["-e", "bundle_allowed_signers=signers"]);
    assert!(is_done, "{printed}");
    let unpacked = site.path("prod/artifacts/bundle");
    assert!(printed.contains(&format!("images {} all.tar", unpacked.join("images").display())), "{printed}");
    assert_eq!(fs::read(site.path("bin/kubeadm")).unwrap(), "kubeadm".repeat(500).as_bytes());
    assert_eq!(fs::read(site.path("bin/runc")).unwrap(), b"content of runc");
    let (is_done, printed) = run(&["-e", "bundle_allowed_signers=signers"]);
    assert!(is_done && printed.contains("changed=0"), "{printed}");
}

/// A server of a bundle with further options, and its address without a scheme.
fn serving(site: &Site, options: &[&str]) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["bundle", "serve", "a.bundle", "out", "--allow-unsigned", "--listen", "127.0.0.1:0"]).args(options);
    if options.ends_with(&["-"]) {
        command.stdin(fs::File::open(site.path("own.key")).unwrap());
    }
    let mut child = command.current_dir(site.folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let line = lines.map(Result::unwrap).find(|line| line.starts_with("serving")).unwrap();
    assert!(line.contains(" images at http"), "{line}");
    let address = line.rsplit("//").next().unwrap().trim_end_matches('/').to_owned();
    (child, address)
}

/// Status line, headers and body of a request.
fn fetch(address: &str, request: &str) -> (String, Vec<u8>) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&answer[..end]).into_owned(), answer[end + 4..].to_vec())
}

#[test]
fn served_bundle_is_a_mirror_and_a_registry() {
    let site = Site::new();
    let registry = registry("Bearer", b"layer");
    site.describe(&json!({"pod_infra_version": "3.99", "pod_infra_image_repo": format!("{registry}/pause")}));
    site.create(&["a.bundle"]);
    let (mut child, address) = serving(&site, &[]);

    let runc = format!("{}/runc", site.path("mirror").display());
    let (head, body) = fetch(&address, &format!("GET {runc}"));
    assert!(head.starts_with("HTTP/1.1 200 OK") && body == b"content of runc", "{head}");
    let (head, body) = fetch(&address, &format!("HEAD {runc}"));
    assert!(head.contains("Content-Length: 15") && body.is_empty(), "{head}");
    for path in ["/../a.bundle", "/etc/passwd", "/%2e%2e/a.bundle", "//etc/passwd", "/v2/x/blobs/sha256:0"] {
        assert!(fetch(&address, &format!("GET {path}")).0.starts_with("HTTP/1.1 404"), "{path}");
    }
    assert!(fetch(&address, &format!("PUT {runc}")).0.starts_with("HTTP/1.1 405"));

    assert_eq!(fetch(&address, "GET /v2/").1, b"{}");
    // A mirror of containerd names the registry in the query, other clients in the path.
    for path in
        ["/v2/kube-apiserver/manifests/v1.36.4?ns=registry.k8s.io", "/v2/registry.k8s.io/pause/manifests/3.10.2"]
    {
        let (head, body) = fetch(&address, &format!("GET {path}"));
        assert!(head.contains("application/vnd.oci.image.manifest.v1+json"), "{path}: {head}");
        assert!(head.contains(&format!("Docker-Content-Digest: sha256:{}", Digest::of(&body))), "{head}");
        let manifest: Value = serde_json::from_slice(&body).unwrap();
        let layer = manifest["layers"][0]["digest"].as_str().unwrap();
        assert_eq!(fetch(&address, &format!("GET /v2/pause/blobs/{layer}")).1, b"the layer");
    }
    assert!(fetch(&address, "GET /v2/kube-apiserver/manifests/v1.36.4?ns=docker.io").0.contains(" 404 "));
    let tags: Value = serde_json::from_slice(&fetch(&address, "GET /v2/registry.k8s.io/pause/tags/list").1).unwrap();
    assert_eq!(tags["tags"], json!(["3.10.2"]));
    // An image of a registry keeps the hash of its manifest.
    let (head, body) = fetch(&address, &format!("GET /v2/{registry}/pause/manifests/3.99"));
    let source =
        site.listed("a.bundle").files.iter().find(|f| f.source.starts_with("docker://")).unwrap().source.clone();
    assert!(source.ends_with(&Digest::of(&body).to_string()), "{source}: {head}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn served_bundle_is_encrypted_and_proves_its_name() {
    let site = Site::new();
    site.create(&["a.bundle"]);
    let make = |name: &str, address: &str| {
        let (key, certificate) = (format!("{name}.key"), format!("{name}.crt"));
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=x",
        ]);
        openssl.args(["-addext", &format!("subjectAltName=IP:{address}"), "-keyout", &key, "-out", &certificate]);
        assert!(openssl.current_dir(site.folder.path()).stderr(Stdio::null()).status().unwrap().success());
    };
    make("own", "127.0.0.1");
    make("other", "127.0.0.1");
    make("elsewhere", "192.0.2.1");
    let runc = format!("{}/runc", site.path("mirror").display());
    let fetched = |authority: &str, address: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--noproxy", "*", "--cacert", authority]).arg(format!("https://{address}{runc}"));
        let output = curl.current_dir(site.folder.path()).output().unwrap();
        output.status.success().then_some(output.stdout)
    };

    let (mut child, address) = serving(&site, &["--tls-cert", "own.crt", "--tls-key", "own.key"]);
    assert_eq!(fetched("own.crt", &address).unwrap(), b"content of runc");
    assert_eq!(fetched("other.crt", &address), None);
    let mut plain = std::net::TcpStream::connect(&address).unwrap();
    // The server may close the connection meanwhile.
    let _ = write!(plain, "GET {runc} HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("runc"), "{answer:?}");
    child.kill().unwrap();
    child.wait().unwrap();

    // Nothing else may read the key by way of the server. Only root sees descriptors of a process that is not dumpable.
    let (mut child, address) = serving(&site, &["--tls-cert", "own.crt", "--tls-key", "-"]);
    assert_eq!(fetched("own.crt", &address).unwrap(), b"content of runc");
    if windlass_testing::has("root") {
        assert_eq!(fs::read_link(format!("/proc/{}/fd/0", child.id())).unwrap(), Path::new("/dev/null"));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let (mut child, address) = serving(&site, &["--tls-cert", "elsewhere.crt", "--tls-key", "elsewhere.key"]);
    assert_eq!(fetched("elsewhere.crt", &address), None);
    child.kill().unwrap();
    child.wait().unwrap();

    fs::write(site.path("text"), "no PEM").unwrap();
    for (certificate, key, reason) in [
        ("own.crt", "other.key", "`own.crt` and `other.key` cannot be used for TLS: "),
        ("text", "own.key", "`text` cannot be used for TLS: it has no certificate in PEM format"),
        ("own.crt", "text", "`text` cannot be used for TLS: it has no private key in PEM format"),
        ("own.crt", "none", "`none` cannot be used for TLS: No such file or directory"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["bundle", "serve", "a.bundle", "new", "--allow-unsigned", "--listen", "127.0.0.1:0"]);
        command.args(["--tls-cert", certificate, "--tls-key", key]).current_dir(site.folder.path());
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(reason), "{text}");
        assert!(!site.path("new").exists());
    }
}
