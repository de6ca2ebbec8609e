//! `tools/catalog`: checks roles/catalog, and refreshes checksums from a mirror with upstream's layout. Also
//! lab/artifacts/build, which makes the lab's mirror from its list.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of roles/catalog with an empty mirror. `None` without Python and its `yaml`, which the tool needs.
struct Catalog {
    folder: tempfile::TempDir,
}

impl Catalog {
    fn new() -> Option<Self> {
        if !windlass_testing::has("python3-yaml") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/catalog/defaults/main");
        let to = folder.path().join("roles/catalog/defaults/main");
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(from).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
        fs::create_dir(folder.path().join("mirror")).unwrap();
        Some(Self { folder })
    }

    fn file(&self, program: &str) -> PathBuf {
        self.folder.path().join(format!("roles/catalog/defaults/main/{program}.yml"))
    }

    fn publish(&self, path: &str, content: &str) {
        let file = self.folder.path().join("mirror").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    /// Replaces the table at the end of a program's file.
    fn set_table(&self, program: &str, name: &str, table: &str) {
        let text = fs::read_to_string(self.file(program)).unwrap();
        let (head, _) = text.split_once(&format!("\n{name}:\n")).unwrap();
        fs::write(self.file(program), format!("{head}\n{name}:\n{table}")).unwrap();
    }

    /// Exit code, and the tool's output on both streams.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/catalog"))
            .arg("--roles")
            .arg(self.folder.path().join("roles"))
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    }

    fn refresh(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let base = format!("file://{}/mirror", self.folder.path().display());
        self.run(&[&["refresh", "--base", &base], arguments].concat())
    }
}

#[test]
fn catalog_of_the_repository_passes_check() {
    let Some(catalog) = Catalog::new() else { return };
    let (code, text) = catalog.run(&["check"]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn refresh_with_a_list_for_all_architectures_writes_a_sorted_table() {
    let Some(catalog) = Catalog::new() else { return };
    catalog.set_table("runc", "runc_checksums", "  amd64: {}\n  arm64: {}\n");
    for (version, digit) in [("9.9.0", 'a'), ("9.10.0", 'b')] {
        let (amd64, arm64) = (digit.to_string().repeat(64), digit.to_string().repeat(63) + "0");
        let list = format!("{amd64}  runc.amd64\n{arm64} *runc.arm64\n{amd64}  runc.tar.xz\n");
        catalog.publish(&format!("github.com/opencontainers/runc/releases/download/v{version}/runc.sha256sum"), &list);
    }
    let arguments = ["runc", "--version", "9.9.0", "--version", "9.10.0"];
    let before = fs::read_to_string(catalog.file("runc")).unwrap();
    let (code, text) = catalog.refresh(&arguments);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(&format!("+ runc amd64 9.10.0 sha256:{}", "b".repeat(64))), "{text}");
    assert_eq!(fs::read_to_string(catalog.file("runc")).unwrap(), before, "changed without --write");

    let (code, text) = catalog.refresh(&[&arguments[..], &["--write"]].concat());
    assert_eq!(code, Some(0), "{text}");
    let after = fs::read_to_string(catalog.file("runc")).unwrap();
    let table = format!(
        "runc_checksums:\n  amd64:\n    \"9.10.0\": \"sha256:{b}b\"\n    \"9.9.0\": \"sha256:{a}a\"\n  arm64:\n    \"9.10.0\": \"sha256:{b}0\"\n    \"9.9.0\": \"sha256:{a}0\"\n",
        a = "a".repeat(63),
        b = "b".repeat(63),
    );
    assert!(after.ends_with(&table), "{after}");
    let (code, text) = catalog.refresh(&arguments);
    assert_eq!((code, text.as_str()), (Some(0), ""), "a second refresh finds a difference");
}

#[test]
fn refresh_with_a_bare_checksum_takes_it() {
    let Some(catalog) = Catalog::new() else { return };
    for architecture in ["amd64", "arm64"] {
        catalog.publish(&format!("dl.k8s.io/release/v9.9.9/bin/linux/{architecture}/kubeadm.sha256"), &"c".repeat(64));
    }
    let (code, text) = catalog.refresh(&["kubeadm", "--version", "9.9.9"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.matches(&format!("9.9.9 sha256:{}", "c".repeat(64))).count(), 2, "{text}");
}

#[test]
fn refresh_without_a_list_hashes_the_file() {
    let Some(catalog) = Catalog::new() else { return };
    for architecture in ["amd64", "arm64"] {
        catalog.publish(
            &format!("github.com/containers/crun/releases/download/9.9/crun-9.9-linux-{architecture}"),
            "hello\n",
        );
    }
    let (code, text) = catalog.refresh(&["crun", "--version", "9.9"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"), "{text}");
}

#[test]
fn refresh_with_a_checksum_that_changed_refuses_it() {
    let Some(catalog) = Catalog::new() else { return };
    let table = |digit: &str| {
        let line = format!("    \"9.9.9\": \"sha256:{}\"\n", digit.repeat(64));
        format!("  amd64:\n{line}  arm64:\n{line}")
    };
    catalog.set_table("kubeadm", "kubeadm_checksums", &table("a"));
    for architecture in ["amd64", "arm64"] {
        catalog.publish(&format!("dl.k8s.io/release/v9.9.9/bin/linux/{architecture}/kubeadm.sha256"), &"c".repeat(64));
    }
    let (code, text) = catalog.refresh(&["kubeadm", "--version", "9.9.9", "--write"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("changed"), "{text}");
    assert!(fs::read_to_string(catalog.file("kubeadm")).unwrap().ends_with(&table("a")));
    let (code, text) = catalog.refresh(&["kubeadm", "--version", "9.9.9", "--write", "--accept-changed"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(fs::read_to_string(catalog.file("kubeadm")).unwrap().ends_with(&table("c")));
}

#[test]
fn refresh_with_one_architecture_missing_writes_neither() {
    let Some(catalog) = Catalog::new() else { return };
    catalog.publish("dl.k8s.io/release/v9.9.9/bin/linux/amd64/kubeadm.sha256", &"c".repeat(64));
    let before = fs::read_to_string(catalog.file("kubeadm")).unwrap();
    let (code, text) = catalog.refresh(&["kubeadm", "--version", "9.9.9", "--write"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("left out"), "{text}");
    assert_eq!(fs::read_to_string(catalog.file("kubeadm")).unwrap(), before);
}

#[test]
fn check_of_a_damaged_catalog_names_every_problem() {
    let Some(catalog) = Catalog::new() else { return };
    let short = "  amd64:\n    \"1.0.0\": \"sha256:abc\"\n    \"2.0.0\": \"sha256:abc\"\n  arm64: {}\n";
    catalog.set_table("runc", "runc_checksums", short);
    let text = fs::read_to_string(catalog.file("helm")).unwrap();
    fs::write(catalog.file("helm"), text.replace("{{ get_helm_url }}", "{{ nowhere }}")).unwrap();
    let component = catalog.folder.path().join("roles/network/none/meta/component.yml");
    fs::create_dir_all(component.parent().unwrap()).unwrap();
    fs::write(component, "summary: none\nartifacts: [kubelet, absent]\n").unwrap();
    let (code, text) = catalog.run(&["check"]);
    assert_eq!(code, Some(1), "{text}");
    for part in [
        "runc.yml: `runc_checksums.amd64` is not sorted",
        "runc.yml: The checksum of 1.0.0 for amd64 is not `sha256:` and 64 hex digits",
        "runc.yml: 1.0.0 has no checksum for arm64",
        "has no checksum, and is a default",
        "helm.yml: The address or the version cannot be resolved: `nowhere` is not a variable",
        "roles/network/none/meta/component.yml: Artifact `absent` is not in catalog_artifacts",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[test]
fn refresh_of_an_unknown_program_names_the_known_ones() {
    let Some(catalog) = Catalog::new() else { return };
    let (code, text) = catalog.refresh(&["kubeadmin"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("kubeadm, kubectl"), "{text}");
}

#[test]
fn mirror_without_releases_has_the_default_and_the_minor_before() {
    let Some(catalog) = Catalog::new() else { return };
    let names = ["mirror", "kubeadm", "cni-plugins", "--image", "kube-proxy", "--image", "pause"];
    let (code, text) = catalog.run(&names);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.lines().count(), 8, "{text}");
    let minor = |line: &str| line.split('.').nth(1).unwrap().parse::<u32>().unwrap();
    assert_eq!(minor(&text) + 1, minor(text.lines().last().unwrap()), "{text}");
    let release = text.split(' ').next().unwrap();
    let address = format!("{release} file dl.k8s.io/release/v{release}/bin/linux/amd64/kubeadm 0755 sha256:");
    assert!(text.starts_with(&address), "{address} is not in:\n{text}");
    let image = format!("{release} image kube-proxy registry.k8s.io/kube-proxy v{release}\n");
    assert!(text.contains(&image), "{image} is not in:\n{text}");
}

#[test]
fn mirror_of_a_release_without_checksums_is_refused() {
    let Some(catalog) = Catalog::new() else { return };
    let (code, text) = catalog.run(&["mirror", "kubeadm", "--release", "1.20.2"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("Kubernetes 1.20.2 is not in releases.yml"), "{text}");
    let (code, text) = catalog.run(&["mirror", "kubeadm", "--release", "1.36.999"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("kubeadm.yml has no checksum of 1.36.999"), "{text}");
}

/// Content of every stand-in for upstream's files, and its checksum.
const STAND_IN: &str = "hello\n";
const STAND_IN_CHECKSUM: &str = "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

impl Catalog {
    /// Publishes stand-ins for all files of the lab's mirror, with their checksum in the catalog, and copies the
    /// scripts that make it. Returns the lines of the list.
    fn stand_ins(&self) -> Vec<String> {
        let files = ["kubeadm", "kubelet", "kubectl", "containerd", "runc", "crun", "cni-plugins", "etcd", "crictl"];
        let (code, text) = self.run(&[&["mirror"], &files[..]].concat());
        assert_eq!(code, Some(0), "{text}");
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let tables = self.folder.path().join("roles/catalog/defaults/main");
        for file in fs::read_dir(tables).unwrap() {
            let file = file.unwrap().path();
            let mut text = fs::read_to_string(&file).unwrap();
            for line in &lines {
                text = text.replace(line.rsplit(' ').next().unwrap(), STAND_IN_CHECKSUM);
            }
            fs::write(file, text).unwrap();
        }
        self.publish("dl.k8s.io/release/stable.txt", "v9.9.9\n");
        for line in &lines {
            self.publish(line.split(' ').nth(2).unwrap(), STAND_IN);
        }
        let copied = Command::new("cp")
            .args(["-r", "lab", "tools"])
            .arg(self.folder.path())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(copied.success());
        lines
    }

    /// Runs lab/artifacts/build with stand-ins for the programs that it would install: exit code, and both streams.
    fn build_mirror(&self, releases: &str) -> (Option<i32>, String, String) {
        let programs = self.folder.path().join("bin");
        fs::create_dir_all(&programs).unwrap();
        for (name, script) in [
            ("dpkg-query", "echo installed"),
            ("gcc", "while [ $# -gt 0 ]; do [ \"$1\" != -o ] || echo program > \"$2\"; shift; done"),
            (
                "skopeo",
                "for last; do :; done
                folder=$(mktemp -d) && rest=${last#docker-archive:}
                printf '[{\"RepoTags\":[\"%s\"]}]' \"${rest#*:}\" > \"$folder/manifest.json\"
                tar -cf \"${rest%%:*}\" -C \"$folder\" manifest.json && rm -r \"$folder\"",
            ),
        ] {
            let program = programs.join(name);
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let output = Command::new(self.folder.path().join("lab/artifacts/build"))
            .env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()))
            .env("WINDLASS_UPSTREAM_BASE", format!("file://{}/mirror", self.folder.path().display()))
            .env("WINDLASS_CACHE", self.folder.path().join("cache"))
            .env("WINDLASS_KUBE_VERSIONS", releases)
            .env_remove("WINDLASS_ARTIFACTS_FROM")
            .output()
            .unwrap();
        let text = |stream: &[u8]| String::from_utf8_lossy(stream).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }
}

#[test]
fn mirror_of_the_lab_where_upstream_answers_has_releases_of_the_catalog() {
    let Some(catalog) = Catalog::new() else { return };
    let lines = catalog.stand_ins();
    let mirror = catalog.folder.path().join("cache/upstream");
    let (code, place, text) = catalog.build_mirror("");
    assert_eq!((code, place), (Some(0), format!("{}\n", mirror.display())), "{text}");
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        let file = mirror.join("files").join(words[2]);
        assert_eq!(fs::read_to_string(&file).unwrap(), STAND_IN, "{line}");
        assert_eq!(format!("{:04o}", fs::metadata(file).unwrap().mode() & 0o7777), words[3], "{line}");
    }
    let releases = [&lines[0], lines.last().unwrap()].map(|line| line.split(' ').next().unwrap());
    for release in releases {
        let described = fs::read_to_string(mirror.join(format!("releases/{release}.yml"))).unwrap();
        for part in [
            format!("kube_version: \"{release}\""),
            format!("names: [\"registry.k8s.io/kube-apiserver:v{release}\"]"),
            "docker.io/windlass/hello:1.0".to_owned(),
        ] {
            assert!(described.contains(&part), "{part} is not in:\n{described}");
        }
        assert_eq!(described.matches("kube-apiserver_").count(), 1, "{described}");
    }
    let versions = fs::read_to_string(mirror.join("versions.yml")).unwrap();
    assert!(versions.contains(&format!("kube_version: \"{}\"", releases[0])), "{versions}");

    let (code, _, text) = catalog.build_mirror("");
    assert_eq!((code, text.lines().count()), (Some(0), 1), "a second run does something: {text}");
    let (code, _, text) = catalog.build_mirror("1.20.2");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("Kubernetes 1.20.2 is not in releases.yml"), "{text}");
}

#[test]
fn mirror_of_the_lab_with_an_altered_file_is_refused() {
    let Some(catalog) = Catalog::new() else { return };
    let lines = catalog.stand_ins();
    let altered = lines.iter().find(|line| line.contains("/runc.")).unwrap().split(' ').nth(2).unwrap();
    catalog.publish(altered, "another\n");
    let (code, place, text) = catalog.build_mirror("");
    assert_eq!((code, place.as_str()), (Some(1), ""), "{text}");
    let sentence =
        format!("{altered} is not the file that roles/catalog names: expected {STAND_IN_CHECKSUM}, found sha256:");
    assert!(text.contains(&sentence), "{text}");
    let files = catalog.folder.path().join("cache/upstream/files").join(altered);
    assert_eq!(fs::read_dir(files.parent().unwrap()).unwrap().count(), 0, "the file was kept");
}
