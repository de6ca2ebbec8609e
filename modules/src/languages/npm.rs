//! `npm`: Node.js packages.

use serde_json::Value;

use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Spec, files::directory, process::Command, secrets::without_passwords,
};

/// The `npm` module.
pub struct Npm;

static SPEC: Spec = Spec {
    name: "npm",
    collection: "community.general",
    summary: "Manage Node.js packages with npm",
    description: &["Installs a package, or the dependencies in a folder's package.json, globally or in a folder."],
    options: &[
        Opt::new("name", Kind::Str, "Name of the package. Default: the dependencies in package.json.").address().word(),
        Opt::new("path", Kind::Path, "Folder to install in; required unless `global` is set."),
        Opt::new("version", Kind::Str, "Version of the package."),
        Opt::new("global", Kind::Bool, "Install globally.").default("false"),
        Opt::new("executable", Kind::Path, "Path of an alternative npm."),
        Opt::new("ignore_scripts", Kind::Bool, "Do not run scripts of packages.").default("false"),
        Opt::new("unsafe_perm", Kind::Bool, "Run scripts of packages as the current user.").default("false"),
        Opt::new("ci", Kind::Bool, "Install exactly the versions in the lock file; always a change.").default("false"),
        Opt::new("production", Kind::Bool, "Skip development dependencies.").default("false"),
        Opt::new("registry", Kind::Str, "URL of an alternative registry.").address(),
        Opt::new("state", Kind::Str, "`present` installs missing packages, `latest` also updates, `absent` removes.")
            .default("\"present\"")
            .choices(&["present", "absent", "latest"]),
        Opt::new("no_optional", Kind::Bool, "Skip optional dependencies.").default("false"),
        Opt::new("no_bin_links", Kind::Bool, "Do not create links to programs.").default("false"),
        Opt::new("force", Kind::Bool, "Download packages even if they are cached.").default("false"),
    ],
    required_if: &[("state", "absent", &["name"])],
    examples: "- name: A server of static files\n  community.general.npm:\n    name: http-server\n    version: 14.1.1\n    global: true\n\n\
               - name: What the application needs\n  community.general.npm:\n    path: /srv/app\n    ci: true\n",
    ..Spec::EMPTY
}
.compiled();

impl Module for Npm {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        if args.str("path").is_none() && !args.bool("global") {
            return Err(Failure::new("path must be specified when not using global"));
        }
        let task = Task::of(args)?;
        if args.bool("ci") {
            return Ok(task.change(&["ci"]));
        }
        let (installed, missing) = task.list(host)?;
        match args.required("state")? {
            "absent" if task.name.as_ref().is_some_and(|name| installed.contains(name)) => {
                Ok(task.change(&["uninstall"]))
            }
            "present" if missing => Ok(task.change(&["install"])),
            "latest" => {
                let outdated =
                    !task.npm("outdated", task.package.as_deref()).run(host)?.stdout_text().trim().is_empty();
                let verbs: Vec<&str> =
                    [missing.then_some("install"), outdated.then_some("update")].into_iter().flatten().collect();
                Ok(if verbs.is_empty() { Plan::unchanged() } else { task.change(&verbs) })
            }
            _ => Ok(Plan::unchanged()),
        }
    }
}

#[derive(Clone)]
struct Task {
    program: Vec<String>,
    name: Option<String>,
    /// Name with version.
    package: Option<String>,
    path: Option<String>,
    production: bool,
    /// Registry URL that contains a password.
    registry: Option<String>,
    /// Options common to all calls, before and after the package.
    before: Vec<String>,
    after: Vec<String>,
}

impl Task {
    fn of(args: &Args) -> Result<Task, Failure> {
        let program = match args.str("executable") {
            Some(program) => program.split(' ').map(str::to_owned).collect(),
            None => vec!["npm".to_owned()],
        };
        let name = args.filled("name").map(str::to_owned);
        let version = args.str("version").filter(|_| args.str("state") != Some("absent"));
        let package = match (&name, version) {
            (Some(name), Some(version)) => Some(format!("{name}@{version}")),
            (name, _) => name.clone(),
        };
        let switches = |names: &[&str]| -> Vec<String> {
            let given = names.iter().filter(|name| args.bool(name));
            given.map(|name| format!("--{}", name.replace('_', "-"))).collect()
        };
        // A registry URL with a password stays off the command line, which every user of the host can read.
        let (secret, registry): (Option<&str>, Option<&str>) = match args.str("registry") {
            Some(registry) if without_passwords(registry) != registry => (Some(registry), None),
            registry => (None, registry),
        };
        let registry = registry.map(|registry| vec!["--registry".to_owned(), registry.to_owned()]);
        let mut after = registry.unwrap_or_default();
        after.extend(switches(&["no_optional", "no_bin_links", "force"]));
        let path = args.str("path").map(str::to_owned);
        if let Some(path) = path.as_ref().filter(|path| std::path::Path::new(path).is_file()) {
            return Err(Failure::new(format!("path {path} is not a directory")));
        }
        if let Some(path) = &path {
            crate::files::way::check_below(std::path::Path::new(path))?;
        }
        Ok(Task {
            program,
            name,
            package,
            path,
            production: args.bool("production"),
            registry: secret.map(str::to_owned),
            before: switches(&["global", "ignore_scripts", "unsafe_perm"]),
            after,
        })
    }

    fn npm(&self, verb: &str, package: Option<&str>) -> Command {
        let (program, arguments) =
            self.program.split_first().map_or(("npm", &[][..]), |(program, rest)| (program.as_str(), rest));
        let mut words: Vec<String> = arguments.to_vec();
        words.extend(verb.split(' ').map(str::to_owned));
        let global = self.before.iter().position(|word| word == "--global").map_or(0, |at| at + 1);
        let (first, rest) = self.before.split_at(global);
        words.extend_from_slice(first);
        if self.production && matches!(verb, "install" | "update" | "ci") {
            words.push("--production".to_owned());
        }
        words.extend_from_slice(rest);
        words.extend(package.map(str::to_owned));
        words.extend_from_slice(&self.after);
        let mut command = Command::new(program).args(words);
        if let Some(registry) = &self.registry {
            command = command.variable("npm_config_registry", registry);
        }
        match self.path.as_ref().filter(|path| std::path::Path::new(path).is_dir()) {
            Some(path) => command.directory(path),
            None => command,
        }
    }

    /// Installed names, with and without versions, and whether any package is missing.
    fn list(&self, host: &Host) -> Result<(Vec<String>, bool), Failure> {
        if self.path.as_ref().is_some_and(|path| !std::path::Path::new(path).exists()) {
            return Ok((Vec::new(), true));
        }
        let text = self.npm("list --json --long", None).run(host)?.stdout_text();
        let text = if text.trim().is_empty() { "{}" } else { &text };
        let listed: Value = serde_json::from_str(text)
            .map_err(|error| Failure::new(format!("Failed to parse NPM output with error {error}")))?;
        let Some(packages) = listed.get("dependencies").and_then(Value::as_object) else {
            return Ok((Vec::new(), true));
        };
        let mut installed = Vec::new();
        let mut missing = false;
        for (name, package) in packages {
            // npm marks an invalid package with a reason or with true.
            let is = |key: &str| match package.get(key) {
                Some(Value::Bool(flag)) => *flag,
                Some(Value::String(text)) => !text.is_empty(),
                _ => false,
            };
            if is("missing") || is("invalid") {
                missing = true;
                continue;
            }
            installed.push(name.clone());
            if let Some(version) = package.get("version").and_then(Value::as_str) {
                installed.push(format!("{name}@{version}"));
            }
        }
        missing |= self.package.as_ref().is_some_and(|package| !installed.contains(package));
        Ok((installed, missing))
    }

    fn change(&self, verbs: &[&str]) -> Plan {
        let (task, verbs) = (self.clone(), verbs.iter().map(|verb| (*verb).to_owned()).collect::<Vec<_>>());
        Plan::change(move |host, _| {
            if let Some(path) = &task.path {
                directory::make(std::path::Path::new(path), &Default::default())?;
            }
            for verb in verbs {
                task.npm(&verb, task.package.as_deref()).check_run(host)?;
            }
            Ok(())
        })
    }
}
