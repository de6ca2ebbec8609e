//! `docker_image`: images of Docker.

mod archive;
mod build;
mod context;
mod load;
mod push;

use std::{io, path::Path};

use serde_json::Value;

use super::{
    ENGINE_OPTIONS, REQUIRED_TOGETHER, Task,
    engine::{Patience, Request, Version, in_path},
    image_names::{is_id, is_tag, split_tag},
    lookup, plan, with_engine,
};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::{attributes::Attributes, staged::Staged},
    process::reason,
};

/// The `docker_image` module.
pub struct DockerImage;

const OWN: [Opt; 13] = [
    Opt::required("name", Kind::Str, "Name of the image, with or without registry and tag, or its hash."),
    Opt::new("tag", Kind::Str, "Tag of the image, if the name has none.").default("\"latest\""),
    Opt::new("state", Kind::Str, "`present` provides the image from `source`, `absent` removes it.")
        .default("\"present\"")
        .choices(&["absent", "present"]),
    Opt::new(
        "source",
        Kind::Str,
        "Source of a missing image; required with `present`. `local` uses only existing images.",
    )
    .choices(&["build", "load", "pull", "local"]),
    Opt::new("build", Kind::Dict, "Options of the build.").options(&[
        Opt::required("path", Kind::Path, "Folder with the Dockerfile."),
        Opt::new("cache_from", Kind::List(&Kind::Str), "Images whose layers the build may use."),
        Opt::new("container_limits", Kind::Dict, "Limits of each build step.").options(&[
            Opt::new("memory", Kind::Str, "Limit of memory."),
            Opt::new("memswap", Kind::Str, "Limit of memory and swap together; `unlimited` or -1 removes it."),
            Opt::new("cpushares", Kind::Int, "Relative share of CPU time."),
            Opt::new("cpusetcpus", Kind::Str, "CPUs that build steps may use."),
        ]),
        Opt::new("dockerfile", Kind::Str, "Path of the Dockerfile. Default: `Dockerfile` in the folder."),
        Opt::new("http_timeout", Kind::Int, "Seconds that the engine may be silent during the build."),
        Opt::new("network", Kind::Str, "Network of RUN instructions."),
        Opt::new("nocache", Kind::Bool, "Do not use layers of earlier builds.").default("false"),
        Opt::new("pull", Kind::Bool, "Pull the base image.").default("false"),
        Opt::new("rm", Kind::Bool, "Remove intermediate containers.").default("true"),
        Opt::new("args", Kind::Dict, "Build arguments of the Dockerfile."),
        Opt::new("use_config_proxy", Kind::Bool, "Use the proxy from Docker's configuration."),
        Opt::new("target", Kind::Str, "Stage to build."),
        Opt::new("etc_hosts", Kind::Dict, "Host names and addresses for build steps."),
        Opt::new("platform", Kind::Str, "Platform of the image."),
        Opt::new("shm_size", Kind::Str, "Size of /dev/shm in build steps."),
        Opt::new("labels", Kind::Dict, "Labels of the image."),
    ]),
    Opt::new("archive_path", Kind::Path, "Tar file to save the image to."),
    Opt::new("load_path", Kind::Path, "Tar file to load the image from."),
    Opt::new("force_source", Kind::Bool, "Build, load or pull the image even if it exists.").default("false"),
    Opt::new("force_absent", Kind::Bool, "Remove the image even if it is in use.").default("false"),
    Opt::new("force_tag", Kind::Bool, "Move the name in `repository` from another image.").default("false"),
    Opt::new("pull", Kind::Dict, "Options of the pull.").options(&[Opt::new(
        "platform",
        Kind::Str,
        "Platform to request.",
    )]),
    Opt::new("push", Kind::Bool, "Push the image to its registry.").default("false"),
    Opt::new("repository", Kind::Str, "Additional name for the image."),
];
static OPTIONS: [Opt; OWN.len() + ENGINE_OPTIONS.len()] = with_engine(OWN);

static SPEC: Spec = Spec {
    name: "docker_image",
    collection: "community.docker",
    summary: "Manage Docker images",
    description: &[
        "Pulls, builds, loads, tags, saves, pushes and removes images. Leaves an existing image unchanged unless \
         `force_source` is set.",
        "Builds run in the engine itself, without BuildKit.",
    ],
    options: &OPTIONS,
    required_together: REQUIRED_TOGETHER,
    required_if: &[
        ("state", "present", &["source"]),
        ("source", "build", &["build"]),
        ("source", "load", &["load_path"]),
    ],
    examples: "- name: An image\n  community.docker.docker_image:\n    name: postgres:16\n    source: pull\n\n\
               - name: One of our own, and to the registry\n  community.docker.docker_image:\n    name: registry.example.org/app\n    tag: \"1.2\"\n    source: build\n    build:\n      path: /srv/app\n    push: true\n",
    returns: &[
        Return { name: "image", kind: "dict", when: "success", doc: "Image as Docker describes it." },
        Return { name: "actions", kind: "list", when: "success", doc: "Descriptions of the performed actions." },
        Return { name: "stdout", kind: "str", when: "the image was built", doc: "Output of the build." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for DockerImage {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        plan(args, host, run)
    }
}

/// The image of a task: name and tag, or hash.
#[derive(Clone)]
struct Image {
    name: String,
    tag: String,
}

impl Image {
    fn is_id(&self) -> bool {
        is_id(&self.name)
    }

    /// The usual notation.
    fn full(&self) -> String {
        if self.tag.is_empty() || self.is_id() { self.name.clone() } else { format!("{}:{}", self.name, self.tag) }
    }

    fn find(&self, task: &Task) -> Result<Option<Value>, Failure> {
        if self.is_id() {
            lookup::image_by_id(&task.engine, &self.name)
        } else {
            lookup::image(&task.engine, &self.name, &self.tag)
        }
    }
}

fn run(task: &mut Task, host: &Host) -> Result<(), Failure> {
    let args = &task.args;
    for (section, option, version) in [
        ("build", "etc_hosts", Version(1, 27)),
        ("build", "platform", Version(1, 32)),
        ("pull", "platform", Version(1, 32)),
    ] {
        let used = args.value(section).is_some_and(|options| !options[option].is_null());
        task.needs_version(used, &format!("{section}.{option}"), version)?;
    }
    let tag = args.str("tag").unwrap_or_default();
    if !is_tag(tag) {
        return Err(Failure::new(format!("\"{tag}\" is not a valid docker tag!")));
    }
    let mut image = Image { name: args.required("name")?.to_owned(), tag: tag.to_owned() };
    if !image.is_id()
        && let (name, Some(tag)) = split_tag(&image.name.clone())
    {
        image = Image { name: name.to_owned(), tag: tag.to_owned() };
    }
    let repository = args.filled("repository").map(str::to_owned);
    if let Some(repository) = repository.as_ref().filter(|repository| is_id(repository)) {
        return Err(Failure::new(format!("`repository` must not be an image ID; got: {repository}")));
    }
    if repository.is_none() && args.bool("push") && image.is_id() {
        return Err(Failure::new(format!(
            "Cannot push an image by ID; specify `repository` to tag and push the image with ID {} instead",
            image.name
        )));
    }
    task.data.insert("image".into(), serde_json::json!({}));
    if task.args.str("state") == Some("absent") {
        absent(task, &image)?;
    } else {
        present(task, &image, host)?;
        if let Some(path) = task.args.str("archive_path").map(str::to_owned) {
            save(task, &image, &path, host)?;
        }
        match repository {
            Some(repository) => tag_as(task, &image, &repository, host)?,
            None if task.args.bool("push") => push::push(task, &image, host)?,
            None => {}
        }
    }
    task.list_actions();
    Ok(())
}

/// Whether two descriptions refer to the same image.
fn same(one: Option<&Value>, other: &Value) -> bool {
    one.is_some_and(|one| one["Id"] == other["Id"])
}

fn present(task: &mut Task, image: &Image, host: &Host) -> Result<(), Failure> {
    let there = image.find(task)?;
    if let Some(there) = there.as_ref().filter(|_| !task.args.bool("force_source")) {
        task.data.insert("image".into(), there.clone());
        return Ok(());
    }
    let source = task.args.str("source").unwrap_or_default().to_owned();
    if image.is_id() && matches!(source.as_str(), "build" | "pull") {
        return Err(Failure::new(format!(
            "Image name must not be an image ID for source={source}; got: {}",
            image.name
        )));
    }
    let now = match source.as_str() {
        "build" => build::build(task, image, host)?,
        "load" => load::load(task, image, host)?,
        "pull" => {
            task.act(format!("Pulled image {}:{}", image.name, image.tag));
            let platform = task.args.value("pull").and_then(|pull| pull["platform"].as_str()).map(str::to_owned);
            if task.check {
                None
            } else {
                Some(lookup::pull(&task.engine, &image.name, &image.tag, platform.as_deref(), host)?.0)
            }
        }
        _ if there.is_none() => {
            return Err(Failure::new(format!("Cannot find the image {} locally.", image.full())));
        }
        _ => there.clone(),
    };
    if let Some(now) = now {
        // The fetched image may be the existing one.
        if same(there.as_ref(), &now) {
            task.changed = false;
        }
        task.data.insert("image".into(), now);
    }
    Ok(())
}

fn absent(task: &mut Task, image: &Image) -> Result<(), Failure> {
    if image.find(task)?.is_none() {
        return Ok(());
    }
    let name = image.full();
    if !task.check {
        let force = task.args.bool("force_absent");
        let removed = task.engine.call(Request::delete(format!("/images/{}", in_path(&name))).switch("force", force));
        match removed {
            Err(error) if !error.is_missing() => {
                return Err(Failure::new(format!("Error removing image {name} - {error}")));
            }
            _ => {}
        }
    }
    task.act(format!("Removed image {name}"));
    task.data.insert("image".into(), serde_json::json!({ "state": "Deleted" }));
    Ok(())
}

/// Saves the image to a tar file, unless the file already contains it.
fn save(task: &mut Task, image: &Image, path: &str, host: &Host) -> Result<(), Failure> {
    let image =
        Image { name: image.name.clone(), tag: if image.tag.is_empty() { "latest".into() } else { image.tag.clone() } };
    let Some(found) = image.find(task)? else { return Ok(()) };
    let name = image.full();
    let why = archive::outdated(Path::new(path), &name, found["Id"].as_str().unwrap_or_default());
    task.changed = false;
    if let Some(why) = why {
        task.act(format!("Archived image {name} to {path}, {why}"));
        if !task.check {
            let request = Request::get(format!("/images/{}/get", in_path(&name))).patience(Patience::Endless);
            let mut answer = task
                .engine
                .open(request)
                .map_err(|error| Failure::new(format!("Error getting image {name} - {error}")))?;
            let unwritable =
                |error: io::Error| Failure::new(format!("Error writing image archive {path} - {}", reason(&error)));
            let attributes = Attributes::default();
            if !Path::new(path).parent().is_some_and(Path::is_dir) {
                return Err(Failure::new(format!(
                    "Error writing image archive {path} - [Errno 2] No such file or directory: '{path}'"
                )));
            }
            let mut staged = Staged::beside(Path::new(path), &attributes)?;
            let mut buffer = vec![0; 1 << 18];
            loop {
                host.check_cancelled()?;
                let count = io::Read::read(&mut answer, &mut buffer).map_err(unwritable)?;
                let Some(piece) = buffer.get(..count).filter(|piece| !piece.is_empty()) else { break };
                io::Write::write_all(staged.file(), piece).map_err(unwritable)?;
            }
            staged.commit(&attributes)?;
        }
    }
    task.data.insert("image".into(), found);
    Ok(())
}

/// Adds another name to the image, and pushes the image under it if requested.
fn tag_as(task: &mut Task, image: &Image, repository: &str, host: &Host) -> Result<(), Failure> {
    let (name, tag) = split_tag(repository);
    let tag = tag.unwrap_or(if image.tag.is_empty() { "latest" } else { &image.tag });
    let other = Image { name: name.to_owned(), tag: tag.to_owned() };
    let there = other.find(task)?;
    if there.is_none() || task.args.bool("force_tag") {
        let full = image.full();
        task.act(format!("Tagged image {full} to {name}:{tag}"));
        if !task.check {
            task.engine
                .call(
                    Request::post(format!("/images/{}/tag", in_path(&full)))
                        .query("tag", tag)
                        .query("repo", name)
                        .switch("force", true),
                )
                .map_err(|error| Failure::new(format!("Error: failed to tag image - {error}")))?;
            let now = other.find(task)?.unwrap_or_default();
            if same(there.as_ref(), &now) {
                task.changed = false;
            }
            task.data.insert("image".into(), now);
        }
    }
    if task.args.bool("push") { push::push(task, &other, host) } else { Ok(()) }
}

/// Output lines from a progress message.
fn lines_of(message: &Value, lines: &mut Vec<String>) {
    let text = message["stream"].as_str().filter(|text| !text.is_empty()).or_else(|| message["status"].as_str());
    lines.extend(text.unwrap_or_default().lines().map(str::to_owned));
}
