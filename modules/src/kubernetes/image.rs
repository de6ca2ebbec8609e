//! `image`: container images of a node's runtime.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Read, Seek},
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

use super::deadline::run_within;
use crate::{
    Args, Check, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    process::{self, Command},
};

/// The `image` module.
pub struct Image;

static SPEC: Spec = Spec {
    name: "image",
    collection: "windlass.kubernetes",
    summary: "Import, pull, list and remove container images",
    description: &[
        "Queries the node's runtime first and does not import or pull an existing image again. With `src`, reads the \
         image names from the archive and replaces an image whose content differs.",
    ],
    options: &[
        Opt::new("name", Kind::List(&Kind::Str), "References of the images.").word().default("[]"),
        Opt::new(
            "src",
            Kind::Path,
            "Archive on the host, as `docker save` or `ctr images export` writes it, optionally compressed with gzip.",
        ),
        Opt::new(
            "state",
            Kind::Str,
            "`present` imports or pulls missing images, `absent` removes images, `list` only reports them.",
        )
        .default("\"present\"")
        .choices(&["present", "absent", "list"]),
        Opt::new("runtime", Kind::Str, "Container runtime; `auto` selects the first one whose program is installed.")
            .default("\"auto\"")
            .choices(&["auto", "containerd", "docker", "crio"]),
        Opt::new("namespace", Kind::Str, "Namespace of containerd.").default("\"k8s.io\""),
        Opt::new("address", Kind::Str, "Socket of containerd or of the CRI runtime. Default: the runtime's own."),
        Opt::new("snapshotter", Kind::Str, "Snapshotter of containerd. Default: containerd's own."),
        Opt::new("platform", Kind::Str, "Platform to import or pull, such as `linux/amd64`."),
        Opt::new("program", Kind::Str, "Program of the runtime (`ctr`, `docker`, `crictl`), if it is not in `PATH`."),
        Opt::new("force", Kind::Bool, "Import or pull even if the image exists.").default("false"),
        Opt::new("timeout", Kind::Int, "Seconds to allow for an import or a pull.").default("600"),
    ],
    check: Check::Full,
    examples: "- name: Import the images of a control plane\n  windlass.kubernetes.image:\n    src: /opt/images/kube-apiserver.tar\n\n- name: Have the pause image\n  windlass.kubernetes.image:\n    name: registry.k8s.io/pause:3.9\n    runtime: containerd\n",
    returns: &[
        Return {
            name: "images",
            kind: "list",
            when: "always",
            doc: "References of the requested images. With `list`, all images with their digests.",
        },
        Return {
            name: "imported",
            kind: "list",
            when: "changed with src",
            doc: "References of images that were missing or different.",
        },
        Return {
            name: "pulled",
            kind: "list",
            when: "changed without src",
            doc: "References of images that were missing.",
        },
        Return { name: "removed", kind: "list", when: "changed", doc: "References of images that existed." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Image {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let runtime = match Runtime::of(args, host) {
            Ok(runtime) => runtime,
            Err(failure) => return super::guess_without("ctr", host).ok_or(failure),
        };
        if let Some(guess) = super::guess_without(&runtime.program, host) {
            return Ok(guess);
        }
        let names: Vec<String> = args.list("name").into_iter().map(full_name).collect();
        match args.str("state") {
            Some("list") => {
                let all = runtime.images(host)?;
                let wanted = all.iter().filter(|(name, _)| names.is_empty() || names.contains(name));
                let listed: Vec<Value> =
                    wanted.map(|(name, digest)| json!({ "name": name, "digest": digest })).collect();
                Ok(Plan::unchanged().with("images", listed).with("runtime", runtime.kind.name()))
            }
            Some("absent") => remove(runtime, names, host),
            _ => match args.str("src") {
                Some(path) => import(runtime, path, &names, args.bool("force"), host),
                None => pull(runtime, names, args.bool("force"), host),
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuntimeKind {
    Containerd,
    Docker,
    Crio,
}

impl RuntimeKind {
    fn name(self) -> &'static str {
        match self {
            RuntimeKind::Containerd => "containerd",
            RuntimeKind::Docker => "docker",
            RuntimeKind::Crio => "crio",
        }
    }

    fn program(self) -> &'static str {
        match self {
            RuntimeKind::Containerd => "ctr",
            RuntimeKind::Docker => "docker",
            RuntimeKind::Crio => "crictl",
        }
    }
}

struct Runtime {
    kind: RuntimeKind,
    program: String,
    options: Vec<String>,
    snapshotter: Option<String>,
    platform: Option<String>,
    limit: Duration,
}

impl Runtime {
    fn of(args: &Args, host: &Host) -> Result<Runtime, Failure> {
        let all = [RuntimeKind::Containerd, RuntimeKind::Docker, RuntimeKind::Crio];
        let wanted = args.str("runtime").unwrap_or("auto");
        let given = args.str("program");
        let kind = match all.into_iter().find(|kind| kind.name() == wanted) {
            Some(kind) => kind,
            None => all.into_iter().find(|kind| process::find(host, kind.program()).is_some()).ok_or_else(|| {
                Failure::new("No container runtime was found: neither ctr, nor docker, nor crictl is in the path. Set program or runtime.")
            })?,
        };
        let program = given.unwrap_or(kind.program()).to_owned();
        let mut options = Vec::new();
        match (kind, args.str("address")) {
            (RuntimeKind::Containerd, Some(address)) => options.extend(["--address".to_owned(), address.to_owned()]),
            (RuntimeKind::Docker, Some(address)) => options.extend(["--host".to_owned(), address.to_owned()]),
            (RuntimeKind::Crio, Some(address)) => options.extend(["--runtime-endpoint".to_owned(), address.to_owned()]),
            (_, None) => {}
        }
        if kind == RuntimeKind::Containerd {
            options.extend(["--namespace".to_owned(), args.str("namespace").unwrap_or("k8s.io").to_owned()]);
        }
        Ok(Runtime {
            kind,
            program,
            options,
            snapshotter: args.str("snapshotter").map(str::to_owned),
            platform: args.str("platform").map(str::to_owned),
            limit: args.seconds("timeout", 600),
        })
    }

    fn command(&self, words: &[&str]) -> Command {
        Command::new(&self.program).plain_locale().args(&self.options).args(words.iter().copied())
    }

    /// The images of the runtime: digests by reference.
    fn images(&self, host: &Host) -> Result<BTreeMap<String, String>, Failure> {
        let words: &[&str] = match self.kind {
            RuntimeKind::Containerd => &["images", "ls"],
            RuntimeKind::Docker => &["image", "ls", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}"],
            RuntimeKind::Crio => &["images", "-o", "json"],
        };
        let text = self.command(words).check_run(host)?.stdout_text();
        Ok(match self.kind {
            RuntimeKind::Containerd => containerd_images(&text),
            RuntimeKind::Docker => docker_images(&text),
            RuntimeKind::Crio => cri_images(&text),
        })
    }

    /// The digest of an image's configuration. It is the same for equal images from different archives.
    fn configuration(&self, digest: &str, host: &Host) -> Option<String> {
        if self.kind != RuntimeKind::Containerd {
            return Some(digest.to_owned());
        }
        let output = self.command(&["content", "get", digest]).run(host).ok().filter(process::Output::success)?;
        let manifest: Value = serde_json::from_slice(&output.stdout).ok()?;
        manifest["config"]["digest"].as_str().map(str::to_owned)
    }

    fn change(&self, words: &[&str], host: &Host) -> Result<(), Failure> {
        let command = self.command(words);
        let shown = command.words();
        let output = run_within(command, host, self.limit)?;
        if output.success() { Ok(()) } else { Err(output.failure(&shown)) }
    }
}

/// A complete reference with registry, path and tag, as runtimes store it.
fn full_name(name: &str) -> String {
    let (first, rest) = name.split_once('/').unwrap_or(("", name));
    let registry = first.contains(['.', ':']) || first == "localhost";
    let path = match (registry, first.is_empty()) {
        (true, _) => name.to_owned(),
        (false, true) => format!("docker.io/library/{rest}"),
        (false, false) => format!("docker.io/{name}"),
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) { path } else { format!("{path}:latest") }
}

/// Parses the table of `ctr images ls`: reference, type, digest, and more.
fn containerd_images(text: &str) -> BTreeMap<String, String> {
    let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter_map(|words| Some(((*words.first()?).to_owned(), (*words.get(2)?).to_owned()))).collect()
}

fn docker_images(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter(|(name, _)| !name.contains("<none>")).map(|(name, id)| (full_name(name), id.to_owned())).collect()
}

fn cri_images(text: &str) -> BTreeMap<String, String> {
    let parsed: Value = serde_json::from_str(text).unwrap_or_default();
    let mut images = BTreeMap::new();
    for image in parsed["images"].as_array().into_iter().flatten() {
        let id = image["id"].as_str().unwrap_or_default();
        let id = if id.starts_with("sha256:") { id.to_owned() } else { format!("sha256:{id}") };
        for name in image["repoTags"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            images.insert(name.to_owned(), id.clone());
        }
    }
    images
}

/// The references in an archive, with the digests of their configurations if the archive lists them.
fn in_archive(path: &str) -> Result<BTreeMap<String, Option<String>>, Failure> {
    let unreadable =
        |error: &dyn std::fmt::Display| Failure::new(format!("The image archive {path} cannot be read: {error}."));
    let mut file = File::open(path).map_err(|error| unreadable(&error))?;
    let mut magic = [0u8; 2];
    let compressed = file.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    file.rewind().map_err(|error| unreadable(&error))?;
    let file = BufReader::with_capacity(1 << 20, file);
    if compressed {
        names_in(tar::Archive::new(flate2::read::MultiGzDecoder::new(file))).map_err(|error| unreadable(&error))
    } else {
        names_in(tar::Archive::new(file)).map_err(|error| unreadable(&error))
    }
}

fn names_in(mut archive: tar::Archive<impl Read>) -> std::io::Result<BTreeMap<String, Option<String>>> {
    let (mut manifest, mut index) = (Value::Null, Value::Null);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        let target = match name.as_str() {
            "manifest.json" => &mut manifest,
            "index.json" => &mut index,
            _ => continue,
        };
        // These files are short; a huge one does not belong to an image archive.
        let mut text = String::new();
        entry.by_ref().take(16 << 20).read_to_string(&mut text)?;
        *target = serde_json::from_str(&text).unwrap_or_default();
    }
    let mut names = BTreeMap::new();
    for image in manifest.as_array().into_iter().flatten() {
        let config = image["Config"].as_str().and_then(|config| {
            let hash = config.rsplit('/').next()?.trim_end_matches(".json");
            (hash.len() == 64).then(|| format!("sha256:{hash}"))
        });
        for name in image["RepoTags"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            names.insert(full_name(name), config.clone());
        }
    }
    for image in index["manifests"].as_array().into_iter().flatten() {
        let annotation = |key: &str| image["annotations"][key].as_str();
        let name = annotation("io.containerd.image.name")
            .or_else(|| annotation("org.opencontainers.image.ref.name").filter(|name| name.contains('/')));
        if let Some(name) = name {
            names.entry(full_name(name)).or_insert(None);
        }
    }
    Ok(names)
}

fn import(runtime: Runtime, path: &str, wanted: &[String], force: bool, host: &Host) -> Result<Plan, Failure> {
    if runtime.kind == RuntimeKind::Crio {
        return Err(Failure::new(
            "crictl cannot import an archive. Give the image to the node with podman or skopeo, or pull it from a registry.",
        ));
    }
    if !Path::new(path).is_file() {
        return Err(Failure::new(format!("The image archive {path} does not exist on the host.")));
    }
    let carried = in_archive(path)?;
    if carried.is_empty() {
        return Err(Failure::new(format!(
            "{path} is not an archive of named images: it has neither a manifest.json nor an index.json that names one."
        )));
    }
    if let Some(missing) = wanted.iter().find(|name| !carried.contains_key(*name)) {
        let names: Vec<&str> = carried.keys().map(String::as_str).collect();
        return Err(Failure::new(format!("{path} does not contain {missing}, but {}.", names.join(", "))));
    }
    let there = runtime.images(host)?;
    let differs = |name: &String, config: &Option<String>| {
        let Some(digest) = there.get(name) else { return true };
        let Some(config) = config else { return false };
        runtime.configuration(digest, host).is_some_and(|own| own != *config)
    };
    let missing: Vec<String> =
        carried.iter().filter(|(name, config)| force || differs(name, config)).map(|(name, _)| name.clone()).collect();
    let names: Vec<&String> = carried.keys().collect();
    if missing.is_empty() {
        return Ok(Plan::unchanged().with("images", json!(names)));
    }
    let path = path.to_owned();
    let imported = missing.clone();
    Ok(Plan::change(move |host, _| {
        let mut words = match runtime.kind {
            RuntimeKind::Docker => vec!["load", "--input"],
            _ => vec!["images", "import"],
        };
        if let (RuntimeKind::Containerd, Some(snapshotter)) = (runtime.kind, &runtime.snapshotter) {
            words.extend(["--snapshotter", snapshotter]);
        }
        if let (RuntimeKind::Containerd, Some(platform)) = (runtime.kind, &runtime.platform) {
            words.extend(["--platform", platform]);
        }
        words.push(&path);
        runtime.change(&words, host)?;
        let there = runtime.images(host)?;
        match imported.iter().find(|name| !there.contains_key(*name)) {
            Some(name) => {
                Err(Failure::new(format!("{path} was imported, but {} does not list {name} now.", runtime.kind.name())))
            }
            None => Ok(()),
        }
    })
    .with("images", json!(names))
    .with("imported", missing))
}

fn pull(runtime: Runtime, names: Vec<String>, force: bool, host: &Host) -> Result<Plan, Failure> {
    if names.is_empty() {
        return Err(Failure::new("Name the image with name, or its archive with src."));
    }
    let there = runtime.images(host)?;
    let missing: Vec<String> = names.iter().filter(|name| force || !there.contains_key(*name)).cloned().collect();
    if missing.is_empty() {
        return Ok(Plan::unchanged().with("images", names));
    }
    let wanted = missing.clone();
    Ok(Plan::change(move |host, _| {
        for name in &wanted {
            let mut words = match runtime.kind {
                RuntimeKind::Containerd => vec!["images", "pull"],
                _ => vec!["pull"],
            };
            if let (RuntimeKind::Containerd, Some(snapshotter)) = (runtime.kind, &runtime.snapshotter) {
                words.extend(["--snapshotter", snapshotter]);
            }
            if let (RuntimeKind::Containerd | RuntimeKind::Docker, Some(platform)) = (runtime.kind, &runtime.platform) {
                words.extend(["--platform", platform]);
            }
            words.push(name);
            runtime.change(&words, host)?;
        }
        Ok(())
    })
    .with("images", names)
    .with("pulled", missing))
}

fn remove(runtime: Runtime, names: Vec<String>, host: &Host) -> Result<Plan, Failure> {
    if names.is_empty() {
        return Err(Failure::new("Name the image to remove with name."));
    }
    let there = runtime.images(host)?;
    let found: Vec<String> = names.iter().filter(|name| there.contains_key(*name)).cloned().collect();
    if found.is_empty() {
        return Ok(Plan::unchanged().with("images", names));
    }
    let gone = found.clone();
    let apply = move |host: &Host, _: &mut Outcome| {
        for name in &gone {
            match runtime.kind {
                RuntimeKind::Containerd => runtime.change(&["images", "rm", "--sync", name], host)?,
                RuntimeKind::Docker | RuntimeKind::Crio => runtime.change(&["rmi", name], host)?,
            }
        }
        Ok(())
    };
    Ok(Plan::change(apply).with("images", names).with("removed", found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_completed_with_registry_and_tag() {
        assert_eq!(full_name("nginx"), "docker.io/library/nginx:latest");
        assert_eq!(full_name("flannel/flannel:v0.28"), "docker.io/flannel/flannel:v0.28");
        assert_eq!(full_name("registry.k8s.io/pause:3.9"), "registry.k8s.io/pause:3.9");
        assert_eq!(full_name("localhost:5000/app"), "localhost:5000/app:latest");
        assert_eq!(full_name("quay.io/a/b@sha256:00"), "quay.io/a/b@sha256:00");
    }

    #[test]
    fn runtime_image_lists_parsed() {
        // Printed by ctr 1.6.20.
        let table = "REF                       TYPE                                                 DIGEST                                                                  SIZE      PLATFORMS   LABELS \nk8s.gcr.io/pause:3.2      application/vnd.docker.distribution.manifest.v2+json sha256:5027b5a4108214de6098919b5758c233dc2a923113a87870c6c60e38e8a9860a 670.7 KiB linux/amd64 -      \n";
        let images = containerd_images(table);
        assert_eq!(
            images["k8s.gcr.io/pause:3.2"],
            "sha256:5027b5a4108214de6098919b5758c233dc2a923113a87870c6c60e38e8a9860a"
        );
        assert!(containerd_images("REF TYPE DIGEST SIZE PLATFORMS LABELS \n").is_empty());
        assert_eq!(
            docker_images("nginx:1.25 sha256:aa\n<none>:<none> sha256:bb\n"),
            [("docker.io/library/nginx:1.25".into(), "sha256:aa".into())].into()
        );
        let cri = r#"{"images":[{"id":"abc","repoTags":["registry.k8s.io/pause:3.9"],"repoDigests":[]},{"id":"sha256:def","repoTags":[]}]}"#;
        assert_eq!(cri_images(cri), [("registry.k8s.io/pause:3.9".into(), "sha256:abc".into())].into());
    }

    #[test]
    fn archive_images_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.tar");
        let config = "68bed1bd44ed69db73165e498f69be3431945ddff263e13fa0944b82becf54c8";
        let manifest = format!(
            r#"[{{"Config":"{config}.json","RepoTags":["k8s.gcr.io/pause:3.2","pause:latest"],"Layers":["layer.tar"]}}]"#
        );
        let mut builder = tar::Builder::new(File::create(&path).unwrap());
        for (name, content) in [("layer.tar", "x".repeat(5000)), ("manifest.json", manifest)] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, content.as_bytes()).unwrap();
        }
        builder.finish().unwrap();
        let carried = in_archive(&path.to_string_lossy()).unwrap();
        assert_eq!(carried.len(), 2);
        assert_eq!(carried["docker.io/library/pause:latest"].as_deref(), Some(format!("sha256:{config}").as_str()));
        assert!(in_archive("/etc/hostname").is_err() || in_archive("/etc/hostname").unwrap().is_empty());
    }
}
