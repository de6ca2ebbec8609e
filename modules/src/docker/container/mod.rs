//! `docker_container`: containers of Docker.
//!
//! `prepare` turns the options into the engine's values, `state` compares them with a container, `request` builds
//! requests, and `calls` sends them.

mod calls;
mod fields;
mod mounts;
mod networks;
mod options;
mod ports;
mod prepare;
mod request;
mod state;

pub(super) use self::prepare::bytes;

use serde_json::{Value, json};

use self::{
    calls::{Awaited, Removes},
    fields::{Change, Comparisons},
    state::{Surroundings, compare},
};
use super::{
    Differences, REQUIRED_TOGETHER, Task,
    compare::Strictness,
    engine::{Engine, Request, Version},
    image_names::{is_id, split_tag},
    lookup, plan,
    platform::Platform,
};
use crate::{Args, Failure, Host, Map, Module, Plan, Return, Spec, args::is_true};

/// The `docker_container` module.
pub struct DockerContainer;

static OPTIONS: [crate::Opt; options::OPTIONS.len()] = options::OPTIONS;

static SPEC: Spec = Spec {
    name: "docker_container",
    collection: "community.docker",
    summary: "Manage Docker containers",
    description: &[
        "Creates, starts, stops and removes containers. Recreates a container that differs, except for limits and \
         the restart policy, which are changed in place.",
        "Compares only options that are given. Lists and mappings of the container may have additional entries, \
         unless `comparisons` says otherwise.",
    ],
    options: &OPTIONS,
    required_together: REQUIRED_TOGETHER,
    required_if: &[("state", "present", &["image"])],
    required_by: &[("log_options", &["log_driver"]), ("restart_retries", &["restart_policy"])],
    examples: "- name: A database\n  community.docker.docker_container:\n    name: db\n    image: postgres:16\n    restart_policy: unless-stopped\n    env:\n      POSTGRES_PASSWORD: \"{{ password }}\"\n    volumes:\n      - data:/var/lib/postgresql/data\n    networks:\n      - name: backend\n        aliases: [postgres]\n\n\
               - name: A job, and what it prints\n  community.docker.docker_container:\n    name: job\n    image: busybox\n    command: [date]\n    detach: false\n    cleanup: true\n  register: job\n",
    returns: &[
        Return {
            name: "container",
            kind: "dict",
            when: "the container exists",
            doc: "Container as Docker describes it. With `detach: false`, `Output` contains its output.",
        },
        Return { name: "status", kind: "int", when: "detach is false", doc: "Exit status of the container." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for DockerContainer {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        plan(args, host, run)
    }
}

/// A container, or its absence.
struct Container {
    raw: Value,
}

impl Container {
    fn find(engine: &Engine, name: &str) -> Result<Container, Failure> {
        Ok(Container { raw: lookup::container(engine, name)?.unwrap_or_default() })
    }

    fn exists(&self) -> bool {
        !self.raw.is_null()
    }

    fn id(&self) -> String {
        self.raw["Id"].as_str().unwrap_or_default().to_owned()
    }

    fn is_removing(&self) -> bool {
        self.raw["State"]["Status"] == "removing"
    }

    fn runs(&self) -> bool {
        self.raw["State"]["Running"] == true && self.raw["State"]["Ghost"] != true
    }

    fn is_paused(&self) -> bool {
        self.raw["State"]["Paused"] == true
    }

    fn image(&self) -> &str {
        self.raw["Image"].as_str().unwrap_or_default()
    }
}

/// Images needed for comparisons.
struct Images {
    /// Requested image, if the task names one.
    wanted: Option<Value>,
    /// Image of the container, if needed.
    container: Option<Value>,
    /// Image whose defaults are expected.
    compared: Option<Value>,
}

impl Images {
    /// Context of a comparison with these images.
    fn around<'a>(&'a self, args: &'a Args, engine: &'a Platform) -> Surroundings<'a> {
        Surroundings { args, container_image: self.container.as_ref(), image: self.compared.as_ref(), engine }
    }
}

fn run(task: &mut Task, host: &Host) -> Result<(), Failure> {
    check_versions(task)?;
    let comparisons = Comparisons::of(&task.args, &SPEC)?;
    ports::check_default_address(&task.args)?;
    let mut diff = Map::new();
    let facts = match task.args.required("state")? {
        "absent" => {
            absent(task)?;
            Value::Null
        }
        _ => present(task, &comparisons, &mut diff, host)?,
    };
    if task.lists_actions() {
        task.list_actions();
    }
    if task.diff || task.args.bool("debug") {
        diff.extend(task.differences.before_and_after());
        task.data.insert("diff".into(), diff.into());
    }
    if facts.as_object().is_some_and(|facts| !facts.is_empty()) {
        task.data.insert("container".into(), facts);
    }
    Ok(())
}

fn check_versions(task: &Task) -> Result<(), Failure> {
    let args = &task.args;
    for (option, version) in [
        ("device_requests", Version(1, 40)),
        ("device_cgroup_rules", Version(1, 28)),
        ("cgroupns_mode", Version(1, 41)),
        ("platform", Version(1, 41)),
    ] {
        task.needs_version(args.value(option).is_some(), option, version)?;
    }
    let start_interval = args.value("healthcheck").is_some_and(|check| !check["start_interval"].is_null());
    task.needs_version(start_interval, "healthcheck.start_interval", Version(1, 44))?;
    let entries = |option: &str| args.value(option).and_then(Value::as_array).cloned().unwrap_or_default();
    let mac_address = entries("networks").iter().any(|network| !network["mac_address"].is_null());
    task.needs_version(mac_address, "networks.mac_address", Version(1, 44))?;
    let mounts = entries("mounts");
    for (key, version) in [
        ("non_recursive", Version(1, 40)),
        ("create_mountpoint", Version(1, 42)),
        ("read_only_non_recursive", Version(1, 44)),
        ("read_only_force_recursive", Version(1, 44)),
        ("subpath", Version(1, 45)),
        ("tmpfs_options", Version(1, 46)),
    ] {
        task.needs_version(mounts.iter().any(|mount| !mount[key].is_null()), &format!("mounts.{key}"), version)?;
    }
    for (kind, version) in [("cluster", Version(1, 42)), ("image", Version(1, 47))] {
        task.needs_version(mounts.iter().any(|mount| mount["type"] == kind), &format!("mounts.type={kind}"), version)?;
    }
    Ok(())
}

fn absent(task: &mut Task) -> Result<(), Failure> {
    let name = task.args.required("name")?.to_owned();
    let container = Container::find(&task.engine, &name)?;
    if !container.exists() {
        return Ok(());
    }
    if container.runs() {
        task.differences.add("running", false, true);
        calls::stop(task, &container.id())?;
    }
    task.differences.add("exists", false, true);
    calls::remove(task, &container.id(), Removes::Stopped)
}

/// The container to create, in the engine's format.
struct Wanted {
    name: String,
    image: Option<String>,
    values: Map,
    networks: Option<Vec<Map>>,
}

/// Brings the container to the requested state, and returns it.
fn present(task: &mut Task, comparisons: &Comparisons, diff: &mut Map, host: &Host) -> Result<Value, Failure> {
    let name = task.args.required("name")?.to_owned();
    let state = task.args.required("state")?.to_owned();
    let mut warnings = Vec::new();
    let values = prepare::values(&task.args, &task.engine, host, &mut warnings)?;
    task.warnings.append(&mut warnings);
    let networks = networks::wanted(&task.args, &task.engine)?;
    let mut container = Container::find(&task.engine, &name)?;
    let was_running = container.runs();
    let was_paused = container.is_paused();
    let mut images = find_images(task, &container, &values, host)?;
    let engine = describe_engine(task, &values)?;
    let wanted = Wanted { name, image: task.args.str("image").map(str::to_owned), values, networks };
    let comparison = Comparison { comparisons, wanted: &wanted, engine: &engine };
    let mut legacy: Vec<Value> = Vec::new();
    let mut created = false;
    if !container.exists() || container.is_removing() {
        container = create_missing(task, &wanted, container, host)?;
        created = true;
    } else if let Some(reasons) = comparison.reasons_to_recreate(task, &images, &container)? {
        task.differences.extend(&reasons.differences);
        legacy = legacy_form(&reasons.differences);
        diff.insert("differences".into(), Value::Null);
        if reasons.image_differs {
            diff.insert("image_different".into(), true.into());
        }
        container = recreate(task, &wanted, container, host)?;
        created = true;
        images.compared = images.wanted.clone();
    }
    // In check mode, a container to recreate is still the old one, so the following steps do not apply.
    let outdated = created && task.check;
    if container.exists() && !outdated {
        container = comparison.update_limits(task, &images, container)?;
        container = networks::update(task, container, wanted.networks.as_deref(), comparisons, created, &mut legacy)?;
    }
    if !legacy.is_empty() || diff.contains_key("differences") {
        diff.insert("differences".into(), legacy.into());
    }
    if container.exists() {
        container = set_state(task, container, &state, was_running, was_paused)?;
    }
    if state == "healthy" && !task.check {
        let limit = task.args.float("healthy_wait_timeout").filter(|limit| *limit > 0.0);
        return calls::wait(task, &container.id(), &Awaited::Health, limit, host);
    }
    Ok(container.raw)
}

/// Creates a container that is missing, or about to be.
fn create_missing(task: &mut Task, wanted: &Wanted, old: Container, host: &Host) -> Result<Container, Failure> {
    let Some(image) = &wanted.image else {
        return Err(Failure::new("Cannot create container when image is not specified!"));
    };
    task.differences.add("exists", true, false);
    if old.is_removing() {
        wait_for_removal(task, &old, host)?;
    }
    create(task, wanted, image, old)
}

/// Removes a container and creates it again.
fn recreate(task: &mut Task, wanted: &Wanted, old: Container, host: &Host) -> Result<Container, Failure> {
    let image = wanted.image.clone().unwrap_or_else(|| old.image().to_owned());
    if image.is_empty() {
        return Err(Failure::new(
            "Cannot recreate container when image is not specified or cannot be extracted from current container!",
        ));
    }
    if old.runs() {
        calls::stop(task, &old.id())?;
    }
    calls::remove(task, &old.id(), Removes::Stopped)?;
    wait_for_removal(task, &old, host)?;
    create(task, wanted, &image, old)
}

fn wait_for_removal(task: &Task, old: &Container, host: &Host) -> Result<(), Failure> {
    if !task.check {
        calls::wait(task, &old.id(), &Awaited::Removal, task.args.float("removal_wait_timeout"), host)?;
    }
    Ok(())
}

/// Creates the container and returns it; in check mode, returns the old one.
fn create(task: &mut Task, wanted: &Wanted, image: &str, old: Container) -> Result<Container, Failure> {
    let parameters = request::create(&wanted.values, image);
    Ok(calls::create(task, &wanted.name, parameters, wanted.networks.as_deref())?.unwrap_or(old))
}

/// Reasons to recreate a container.
struct Reasons {
    differences: Differences,
    image_differs: bool,
}

/// Compares the requested container with an existing one.
struct Comparison<'a> {
    comparisons: &'a Comparisons,
    wanted: &'a Wanted,
    engine: &'a Platform,
}

impl Comparison<'_> {
    fn reasons_to_recreate(
        &self,
        task: &mut Task,
        images: &Images,
        container: &Container,
    ) -> Result<Option<Reasons>, Failure> {
        let Comparison { comparisons, wanted, engine } = *self;
        let around = images.around(&task.args, engine);
        let mut differences = compare(&wanted.values, &container.raw, comparisons, &around, Change::Recreation)?;
        let mut different = !differences.is_empty();
        if different {
            // The container is recreated anyway, so these differences are reported too.
            differences.extend(&compare(&wanted.values, &container.raw, comparisons, &around, Change::InPlace)?);
        }
        let image_differs = self.image_is_different(task, images, container, &mut different);
        let is_reason = image_differs || different || task.args.bool("recreate");
        Ok(is_reason.then_some(Reasons { differences, image_differs }))
    }

    fn update_limits(&self, task: &mut Task, images: &Images, container: Container) -> Result<Container, Failure> {
        let Comparison { comparisons, wanted: Wanted { values, .. }, engine } = *self;
        let around = images.around(&task.args, engine);
        let limits = compare(values, &container.raw, comparisons, &around, Change::InPlace)?;
        if limits.is_empty() {
            return Ok(container);
        }
        task.differences.extend(&limits);
        calls::update(task, &container.id(), request::update(values))?;
        Container::find(&task.engine, &container.id())
    }

    /// Whether the container's image differs from the requested one, or has another name.
    fn image_is_different(
        &self,
        task: &mut Task,
        images: &Images,
        container: &Container,
        different: &mut bool,
    ) -> bool {
        if self.comparisons.get("image") != Strictness::Strict {
            return false;
        }
        let wanted = images.wanted.as_ref().and_then(|image| image["Id"].as_str()).unwrap_or_default();
        let other = !wanted.is_empty() && !container.image().is_empty() && wanted != container.image();
        if other {
            task.differences.add("image", wanted, container.image());
        }
        let known = &container.raw["Config"]["Image"];
        if let Some(name) = self.wanted.image.as_deref().filter(|name| *known != **name)
            && task.args.str("image_name_mismatch") == Some("recreate")
        {
            *different = true;
            task.differences.add("image_name", name, known.clone());
        }
        other
    }
}

/// Starts, restarts, stops and pauses the container.
fn set_state(
    task: &mut Task,
    mut container: Container,
    state: &str,
    was_running: bool,
    was_paused: bool,
) -> Result<Container, Failure> {
    let running = matches!(state, "started" | "healthy");
    if running && !container.runs() {
        task.differences.add("running", true, was_running);
        container = calls::start(task, &container.id())?;
    } else if running && task.args.bool("restart") {
        task.differences.add("running", true, was_running);
        task.differences.add("restarted", true, false);
        container = calls::restart(task, &container.id())?;
    } else if state == "stopped" && container.runs() {
        task.differences.add("running", false, was_running);
        calls::stop(task, &container.id())?;
        container = Container::find(&task.engine, &container.id())?;
    }
    let compatible = task.args.str("container_default_behavior") == Some("compatibility");
    let paused = task.args.maybe_bool("paused").or(compatible.then_some(false));
    if let Some(paused) = paused.filter(|paused| running && *paused != container.is_paused()) {
        task.differences.add("paused", paused, was_paused);
        calls::pause(task, &container.id(), paused)?;
        if !task.check {
            container = Container::find(&task.engine, &container.id())?;
        }
    }
    Ok(container)
}

fn legacy_form(differences: &Differences) -> Vec<Value> {
    let form = |difference: &super::Difference| {
        let pair = json!({ "parameter": difference.wanted, "container": difference.there });
        Value::from(Map::from_iter([(difference.name.clone(), pair)]))
    };
    differences.0.iter().map(form).collect()
}

/// Finds the images, and pulls the requested one according to `pull`.
fn find_images(task: &mut Task, container: &Container, values: &Map, host: &Host) -> Result<Images, Failure> {
    let empty_command = values.get("command").and_then(Value::as_array).is_some_and(Vec::is_empty);
    let Some(name) = task.args.filled("image").map(str::to_owned) else {
        let image = image_of(task, container)?;
        return Ok(Images { wanted: None, compared: image.clone(), container: image });
    };
    let current = task.args.str("image_comparison") == Some("current-image");
    let needed = empty_command || values.contains_key("platform") || current;
    let of_container = if needed { image_of(task, container)? } else { None };
    let wanted = if is_id(&name) {
        let found = lookup::image_by_id(&task.engine, &name)?;
        Some(found.ok_or_else(|| Failure::new(format!("Cannot find image with ID {name}")))?)
    } else {
        let (repository, tag) = split_tag(&name);
        find_or_pull(task, repository, tag.unwrap_or("latest"), host)?
    };
    let compared = if current { of_container.clone() } else { wanted.clone() };
    Ok(Images { wanted, container: of_container, compared })
}

fn image_of(task: &Task, container: &Container) -> Result<Option<Value>, Failure> {
    if !container.exists() || container.is_removing() {
        return Ok(None);
    }
    let image = container.image();
    if is_id(image) {
        return lookup::image_by_id(&task.engine, image);
    }
    let (repository, tag) = split_tag(image);
    lookup::image(&task.engine, repository, tag.unwrap_or("latest"))
}

fn find_or_pull(task: &mut Task, repository: &str, tag: &str, host: &Host) -> Result<Option<Value>, Failure> {
    let found = lookup::image(&task.engine, repository, tag)?;
    let pull = task.args.value("pull").cloned().unwrap_or_default();
    let always = pull == "always" || is_true(&pull);
    if found.is_none() && pull == "never" {
        return Err(Failure::new(format!("Cannot find image with name {repository}:{tag}, and pull=never")));
    }
    if found.is_some() && !always {
        return Ok(found);
    }
    let pulled = format!("{repository}:{tag}");
    if task.check {
        if found.is_none() {
            task.act(json!({ "pulled_image": pulled, "changed": true }));
        } else if task.args.str("pull_check_mode_behavior") == Some("always") {
            task.act(json!({ "pulled_image": pulled }));
        }
        return Ok(found);
    }
    let platform = task.args.str("platform").map(str::to_owned);
    let (image, same) = lookup::pull(&task.engine, repository, tag, platform.as_deref(), host)?;
    let changed = task.changed;
    task.act(json!({ "pulled_image": pulled, "changed": !same }));
    task.changed = changed || !same;
    Ok(Some(image).filter(|image| !image.is_null()))
}

fn describe_engine(task: &Task, values: &Map) -> Result<Platform, Failure> {
    if !values.contains_key("platform") {
        return Ok(Platform::default());
    }
    let info = task.engine.call(Request::get("/info"))?;
    let text = |key: &str| info[key].as_str().unwrap_or_default().to_owned();
    Ok(Platform::of_engine(&text("OSType"), &text("Architecture")))
}
