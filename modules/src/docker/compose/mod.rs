//! `docker_compose_v2`: Compose projects, through `docker compose`.

mod events;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::events::{Event, Ignored};
use super::{REQUIRED_TOGETHER, plain_text};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    files::scratch::Scratch,
    process::{self, Command, Output},
};

/// The `docker_compose_v2` module.
pub struct DockerComposeV2;

/// Default names of a Compose file.
const FILES: [&str; 4] = ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];

static SPEC: Spec = Spec {
    name: "docker_compose_v2",
    collection: "community.docker",
    summary: "Manage Docker Compose projects",
    description: &["Runs `docker compose` (2.18 or later) with `up`, `stop`, `restart` or `down`."],
    options: &[
        Opt::new("project_src", Kind::Path, "Folder of the project."),
        Opt::new("project_name", Kind::Str, "Name of the project. Default: name of the folder."),
        Opt::new("files", Kind::List(&Kind::Path), "Compose files. Default: the standard names in the folder."),
        Opt::new("definition", Kind::Dict, "Content of the Compose file, instead of a folder; needs `project_name`."),
        Opt::new("env_files", Kind::List(&Kind::Path), "Files with environment variables."),
        Opt::new("profiles", Kind::List(&Kind::Str), "Profiles to enable."),
        Opt::new("check_files_existing", Kind::Bool, "Fail if the folder contains no Compose file.").default("true"),
        Opt::new("state", Kind::Str, "State of the project.").default("\"present\"").choices(&[
            "absent",
            "present",
            "stopped",
            "restarted",
        ]),
        Opt::new("services", Kind::List(&Kind::Str), "Services to manage. Default: all."),
        Opt::new("dependencies", Kind::Bool, "Include services that the given ones depend on.").default("true"),
        Opt::new("pull", Kind::Str, "Policy for pulling images.")
            .default("\"policy\"")
            .choices(&["always", "missing", "never", "policy"]),
        Opt::new("build", Kind::Str, "Policy for building images.")
            .default("\"policy\"")
            .choices(&["always", "never", "policy"]),
        Opt::new("ignore_build_events", Kind::Bool, "Do not count a build alone as a change.").default("true"),
        Opt::new("recreate", Kind::Str, "Recreation of containers; `auto` recreates those that differ.")
            .default("\"auto\"")
            .choices(&["always", "never", "auto"]),
        Opt::new("renew_anon_volumes", Kind::Bool, "Recreate anonymous volumes.").default("false"),
        Opt::new("remove_images", Kind::Str, "With `absent`: images to remove.").choices(&["all", "local"]),
        Opt::new("remove_volumes", Kind::Bool, "With `absent`: remove volumes.").default("false"),
        Opt::new("remove_orphans", Kind::Bool, "Remove containers of services that the project no longer defines.")
            .default("false"),
        Opt::new("scale", Kind::Dict, "Number of containers of each service."),
        Opt::new("timeout", Kind::Int, "Seconds to wait for containers to stop."),
        Opt::new("wait", Kind::Bool, "Wait until the services are running and healthy.").default("false"),
        Opt::new("wait_timeout", Kind::Int, "Seconds to wait before failing."),
        Opt::new("assume_yes", Kind::Bool, "Answer yes to all questions; needs Compose 2.32.").default("false"),
        Opt::new("docker_cli", Kind::Path, "Path of the docker program. Default: `docker` in `PATH`."),
        Opt::new("cli_context", Kind::Str, "Docker context to use."),
        Opt::new("docker_host", Kind::Str, "Address of the engine. Default: `DOCKER_HOST`.").aliases(&["docker_url"]),
        Opt::new("tls_hostname", Kind::Str, "Name in the engine's certificate."),
        Opt::new("api_version", Kind::Str, "API version.").aliases(&["docker_api_version"]).default("\"auto\""),
        Opt::new("ca_path", Kind::Path, "File with trusted CA certificates.").aliases(&[
            "ca_cert",
            "tls_ca_cert",
            "cacert_path",
        ]),
        Opt::new("client_cert", Kind::Path, "Client certificate for authentication.")
            .aliases(&["tls_client_cert", "cert_path"]),
        Opt::new("client_key", Kind::Path, "Key of the client certificate.").aliases(&["tls_client_key", "key_path"]),
        Opt::new("tls", Kind::Bool, "Use TLS without verifying the engine's certificate.").default("false"),
        Opt::new("validate_certs", Kind::Bool, "Use TLS and verify the engine's certificate.")
            .aliases(&["tls_verify"])
            .default("false"),
    ],
    mutually_exclusive: &[&["docker_host", "cli_context"], &["definition", "project_src"], &["definition", "files"]],
    required_one_of: &[&["definition", "project_src"]],
    required_by: &[("definition", &["project_name"])],
    required_together: REQUIRED_TOGETHER,
    examples: "- name: The application\n  community.docker.docker_compose_v2:\n    project_src: /srv/app\n    pull: missing\n    wait: true\n\n\
               - name: Without it\n  community.docker.docker_compose_v2:\n    project_src: /srv/app\n    state: absent\n",
    returns: &[
        Return { name: "containers", kind: "list", when: "success", doc: "Containers of the project." },
        Return { name: "images", kind: "list", when: "success", doc: "Images of the project's containers." },
        Return {
            name: "actions",
            kind: "list",
            when: "success",
            doc: "Performed actions, each with `what`, `id` and `status`.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for DockerComposeV2 {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let args = args.clone();
        // Compose itself predicts (`--dry-run`), so check mode makes the same calls.
        Plan::steps(host, move |host, outcome| run(&args, host, outcome))
    }
}

/// Version such as 2.26.1.
type Version = (u32, u32, u32);

const OLDEST: Version = (2, 18, 0);

/// A project, and the program that manages it.
struct Project<'a> {
    args: &'a Args,
    host: &'a Host,
    docker: String,
    engine: Vec<String>,
    folder: PathBuf,
    version: Version,
    /// Holds the Compose file from `definition`.
    _written: Option<Scratch>,
}

/// Results of the calls so far.
#[derive(Default)]
struct Progress {
    changed: bool,
    actions: Vec<Value>,
    stdout: Vec<String>,
    stderr: Vec<String>,
    warnings: Vec<String>,
    /// The failure; the result describes the project nevertheless.
    failure: Option<Failure>,
}

/// State of the containers after `up`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Created,
    Started,
}

fn run(args: &Args, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
    let project = Project::find(args, host)?;
    let mut progress = Progress::default();
    match args.required("state")? {
        "absent" => project.call(&project.down(), &mut progress)?,
        "restarted" => project.call(&project.restart(), &mut progress)?,
        "stopped" => {
            // `stop` reports stopped containers as changed, so it is called only for running ones.
            project.up(Goal::Created, &mut progress)?;
            let stopped = |container: &Value| {
                matches!(container["State"].as_str(), Some("created" | "exited" | "stopped" | "killed"))
            };
            if progress.failure.is_none() && !project.containers()?.iter().all(stopped) {
                project.call(&project.stop(), &mut progress)?;
            }
        }
        _ => project.up(Goal::Started, &mut progress)?,
    }
    let containers: Vec<Value> = project.containers()?.into_iter().map(shown).collect();
    let images = project.images()?;
    if let Some(failure) = progress.failure {
        return Err(failure
            .with("changed", progress.changed)
            .with("actions", progress.actions)
            .with("containers", containers)
            .with("images", images));
    }
    outcome.changed = progress.changed;
    outcome.set("actions", progress.actions);
    for (key, texts) in [("stdout", progress.stdout), ("stderr", progress.stderr)] {
        let text = texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        if !text.is_empty() {
            outcome.set(key, text);
        }
    }
    outcome.set("containers", containers);
    outcome.set("images", images);
    outcome.warnings.extend(progress.warnings);
    Ok(())
}

/// A container in the result's format, with lists where Compose prints text.
fn shown(mut container: Value) -> Value {
    let text = |key: &str| container[key].as_str().unwrap_or_default().to_owned();
    let split = |text: &str| -> Value { text.split(',').collect() };
    let labels: Map = text("Labels")
        .split(',')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect();
    let names = if container.get("Names").is_some() { text("Names") } else { text("Name") };
    let networks = text("Networks");
    container["Labels"] = labels.into();
    container["Names"] = split(&names);
    container["Networks"] = split(&networks);
    if !container["Publishers"].is_array() {
        container["Publishers"] = json!([]);
    }
    container
}

impl<'a> Project<'a> {
    fn find(args: &'a Args, host: &'a Host) -> Result<Project<'a>, Failure> {
        let docker = match args.str("docker_cli") {
            Some(program) => program.to_owned(),
            None => process::find(host, "docker").map(|path| path.to_string_lossy().into_owned()).ok_or_else(|| {
                Failure::new(
                    "Cannot find docker CLI in path. Please provide it explicitly with the docker_cli parameter",
                )
            })?,
        };
        let mut written = None;
        let folder = match args.value("definition") {
            None => std::path::absolute(args.required("project_src")?)
                .map_err(|error| Failure::new(format!("project_src is not a path: {error}.")))?,
            Some(definition) => {
                let scratch = Scratch::new()?;
                let path = scratch.path().join("compose.yaml");
                // JSON is valid YAML.
                std::fs::write(&path, definition.to_string()).map_err(|error| {
                    Failure::new(format!("Error writing to {} - {}", path.display(), process::reason(&error)))
                })?;
                let folder = scratch.path().to_owned();
                written = Some(scratch);
                folder
            }
        };
        let mut project = Project {
            args,
            host,
            docker,
            engine: engine_options(args, host),
            folder,
            version: OLDEST,
            _written: written,
        };
        project.version = project.ask_version()?;
        if project.version < OLDEST {
            let (major, minor, patch) = project.version;
            return Err(Failure::new(format!(
                "Docker CLI {} has the compose plugin with version {major}.{minor}.{patch}; need version 2.18.0 or later",
                project.docker
            )));
        }
        project.check_files()?;
        Ok(project)
    }

    fn check_files(&self) -> Result<(), Failure> {
        let folder = self.folder.display();
        let files = self.args.list("files");
        if let Some(missing) = files.iter().find(|file| !self.folder.join(Path::new(file)).exists()) {
            return Err(Failure::new(format!(
                "Cannot find Compose file \"{missing}\" relative to project directory \"{folder}\""
            )));
        }
        let any = FILES.iter().any(|file| self.folder.join(file).exists());
        if files.is_empty() && self.args.bool("check_files_existing") && !any {
            return Err(Failure::new(format!(
                "\"{folder}\" does not contain compose.yaml, compose.yml, docker-compose.yaml, or docker-compose.yml"
            )));
        }
        Ok(())
    }

    fn ask_version(&self) -> Result<Version, Failure> {
        let words = ["compose", "version", "--format", "json"].map(str::to_owned);
        let output = self.command(&words).run(self.host)?;
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let text = answer["version"].as_str().filter(|_| output.success()).unwrap_or_default();
        let mut numbers = text.trim_start_matches('v').split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor), patch) => Ok((major, minor, patch.unwrap_or(0))),
            _ => Err(Failure::new(format!("Docker CLI {} does not have the compose plugin installed", self.docker))
                .with("stderr", output.stderr_text())),
        }
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(&self.docker).args(&self.engine).args(words).directory(&self.folder);
        if let Some(name) = self.args.str("tls_hostname") {
            command = command.variable("DOCKER_TLS_HOSTNAME", name);
        }
        if let Some(version) = self.args.str("api_version").filter(|version| *version != "auto") {
            command = command.variable("DOCKER_API_VERSION", version);
        }
        command
    }

    fn speaks_json(&self) -> bool {
        self.version >= (2, 29, 0)
    }

    /// Words that begin every call.
    fn words(&self, rest: &[&str]) -> Vec<String> {
        let mut words: Vec<String> = ["compose", "--ansi", "never"].map(str::to_owned).into();
        let mut add = |option: &str, value: &str| words.extend([option.to_owned(), value.to_owned()]);
        if self.speaks_json() {
            add("--progress", "json");
        } else if self.version >= (2, 19, 0) {
            add("--progress", "plain");
        }
        add("--project-directory", &self.folder.to_string_lossy());
        if let Some(name) = self.args.str("project_name") {
            add("--project-name", name);
        }
        for (list, option) in [("files", "--file"), ("env_files", "--env-file"), ("profiles", "--profile")] {
            for value in self.args.list(list) {
                add(option, value);
            }
        }
        words.extend(rest.iter().map(|word| (*word).to_owned()));
        words
    }

    /// Adds the common end of a call: time limit, dry run, services.
    fn ended(&self, mut words: Vec<String>) -> Vec<String> {
        if let Some(seconds) = self.args.int("timeout") {
            words.extend(["--timeout".to_owned(), seconds.to_string()]);
        }
        if self.host.check() {
            words.push("--dry-run".to_owned());
        }
        words.push("--".to_owned());
        words.extend(self.args.list("services").into_iter().map(str::to_owned));
        words
    }

    /// Brings the services up. Pulled images, and if requested built ones, do not count as changes.
    fn up(&self, goal: Goal, progress: &mut Progress) -> Result<(), Failure> {
        let ignored = Ignored { pulls: true, builds: self.args.bool("ignore_build_events") };
        self.call_ignoring(ignored, &self.up_words(goal)?, progress)
    }

    fn up_words(&self, goal: Goal) -> Result<Vec<String>, Failure> {
        let args = self.args;
        let mut words = self.words(&["up", "--detach", "--no-color", "--quiet-pull"]);
        if let Some(pull) = args.str("pull").filter(|pull| *pull != "policy") {
            words.extend(["--pull".to_owned(), pull.to_owned()]);
        }
        let mut switch = |on: bool, option: &str| words.extend(on.then(|| option.to_owned()));
        switch(args.bool("remove_orphans"), "--remove-orphans");
        switch(args.str("recreate") == Some("always"), "--force-recreate");
        switch(args.str("recreate") == Some("never"), "--no-recreate");
        switch(args.bool("renew_anon_volumes"), "--renew-anon-volumes");
        switch(!args.bool("dependencies"), "--no-deps");
        switch(args.str("build") == Some("always"), "--build");
        switch(args.str("build") == Some("never"), "--no-build");
        switch(args.bool("wait"), "--wait");
        switch(goal == Goal::Created, "--no-start");
        if args.bool("assume_yes") {
            if self.version < (2, 32, 0) {
                return Err(Failure::new("assume_yes=true needs Docker Compose 2.32.0 or newer"));
            }
            switch(true, if self.version < (2, 34, 0) { "-y" } else { "--yes" });
        }
        if let Some(seconds) = args.int("wait_timeout").filter(|_| args.bool("wait")) {
            words.extend(["--wait-timeout".to_owned(), seconds.to_string()]);
        }
        let mut scale: Vec<(&String, &Value)> =
            args.value("scale").and_then(Value::as_object).into_iter().flatten().collect();
        scale.sort_by_key(|(service, _)| service.as_str());
        for (service, count) in scale {
            let number = count.as_u64().or_else(|| count.as_str().and_then(|text| text.trim().parse().ok()));
            let number = number.ok_or_else(|| {
                Failure::new(format!(
                    "The value {} for `scale['{service}']` is not an integer that is not negative",
                    plain_text(count)
                ))
            })?;
            words.extend(["--scale".to_owned(), format!("{service}={number}")]);
        }
        Ok(self.ended(words))
    }

    fn stop(&self) -> Vec<String> {
        self.ended(self.words(&["stop"]))
    }

    fn restart(&self) -> Vec<String> {
        let mut words = self.words(&["restart"]);
        words.extend((!self.args.bool("dependencies")).then(|| "--no-deps".to_owned()));
        self.ended(words)
    }

    fn down(&self) -> Vec<String> {
        let mut words = self.words(&["down"]);
        words.extend(self.args.bool("remove_orphans").then(|| "--remove-orphans".to_owned()));
        if let Some(images) = self.args.str("remove_images") {
            words.extend(["--rmi".to_owned(), images.to_owned()]);
        }
        words.extend(self.args.bool("remove_volumes").then(|| "--volumes".to_owned()));
        self.ended(words)
    }

    /// Calls Compose and parses its messages.
    fn call(&self, words: &[String], progress: &mut Progress) -> Result<(), Failure> {
        self.call_ignoring(Ignored::default(), words, progress)
    }

    /// Like [`Project::call`], without the ignored events among the changes.
    fn call_ignoring(&self, ignored: Ignored, words: &[String], progress: &mut Progress) -> Result<(), Failure> {
        let output = self.command(words).live().run(self.host)?;
        let said = output.stderr_text();
        let events = match self.speaks_json() {
            true => events::from_json(&said, &mut progress.warnings),
            false => events::from_words(&said, self.host.check(), !output.success(), &mut progress.warnings),
        };
        if !output.success() {
            progress.failure = Some(self.failure(words, &output, &events));
        }
        progress.warnings.extend(events.iter().filter_map(Event::warning));
        progress.changed |= events::changes(&events, ignored);
        progress.actions.extend(events::actions(&events));
        progress.stdout.push(output.stdout_text());
        progress.stderr.push(said);
        Ok(())
    }

    fn failure(&self, words: &[String], output: &Output, events: &[Event]) -> Failure {
        let mut errors: Vec<String> = events.iter().filter(|event| event.is_error()).map(Event::error).collect();
        if errors.is_empty() {
            errors.push(format!("Return code {} is non-zero", output.rc));
        }
        self.failure_saying(errors.join("\n"), words, output)
    }

    fn failure_saying(&self, message: String, words: &[String], output: &Output) -> Failure {
        let command = std::iter::once(&self.docker).chain(words);
        Failure::new(message)
            .with("cmd", shell_words::join(command))
            .with("stdout", output.stdout_text())
            .with("stderr", output.stderr_text())
            .with("rc", output.rc)
    }

    fn ask(&self, words: &[String]) -> Result<Output, Failure> {
        let output = self.command(words).run(self.host)?;
        if output.success() {
            return Ok(output);
        }
        let said = output.stderr_text();
        if !self.speaks_json() {
            return Err(self.failure_saying(said.trim_end().to_owned(), words, &output));
        }
        let events = events::from_json(&said, &mut Vec::new());
        Err(self.failure(words, &output, &events))
    }

    fn containers(&self) -> Result<Vec<Value>, Failure> {
        let mut words = self.words(&["ps", "--format", "json", "--all"]);
        words.extend((self.version >= (2, 23, 0)).then(|| "--no-trunc".to_owned()));
        let output = self.ask(&words)?;
        // A list before 2.21, one line per container since.
        let mut all = Vec::new();
        for line in output.stdout_text().lines().filter(|line| line.starts_with(['{', '['])) {
            match serde_json::from_str(line) {
                Ok(Value::Array(list)) => all.extend(list),
                Ok(container) => all.push(container),
                Err(error) => {
                    return Err(Failure::new(format!("The output of docker compose ps is not valid JSON: {error}."))
                        .with("stdout", output.stdout_text()));
                }
            }
        }
        Ok(all)
    }

    fn images(&self) -> Result<Value, Failure> {
        let output = self.ask(&self.words(&["images", "--format", "json"]))?;
        match serde_json::from_slice(&output.stdout) {
            // A mapping since 2.37.
            Ok(Value::Object(map)) => Ok(map.into_iter().map(|(_, image)| image).collect()),
            Ok(images) => Ok(images),
            Err(error) => Err(Failure::new(format!("The output of docker compose images is not valid JSON: {error}."))
                .with("stdout", output.stdout_text())),
        }
    }
}

fn engine_options(args: &Args, host: &Host) -> Vec<String> {
    let mut words = Vec::new();
    let given = args.str("docker_host").map(str::to_owned).or_else(|| host.variable("DOCKER_HOST"));
    let engine = given.or_else(|| args.str("cli_context").is_none().then(|| "unix:///var/run/docker.sock".to_owned()));
    if let Some(engine) = engine {
        words.extend(["--host".to_owned(), engine]);
    }
    if args.bool("validate_certs") {
        words.push("--tlsverify".to_owned());
    } else if args.bool("tls") {
        words.push("--tls".to_owned());
    }
    for (option, word) in [
        ("ca_path", "--tlscacert"),
        ("client_cert", "--tlscert"),
        ("client_key", "--tlskey"),
        ("cli_context", "--context"),
    ] {
        words.extend(args.str(option).into_iter().flat_map(|value| [word.to_owned(), value.to_owned()]));
    }
    words
}
