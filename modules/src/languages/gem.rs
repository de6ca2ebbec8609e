//! `gem`: Ruby packages.

use std::{path::Path, sync::Arc};

use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::{scratch::Scratch, way},
    process::{Command, reason},
    secrets::without_passwords,
};

/// The `gem` module.
pub struct Gem;

static SPEC: Spec = Spec {
    name: "gem",
    collection: "community.general",
    summary: "Manage Ruby packages with gem",
    description: &["Installs and removes gems, for one user or for all."],
    options: &[
        Opt::required("name", Kind::Str, "Name of the gem.").address().word(),
        Opt::new("state", Kind::Str, "`present` installs the gem, `latest` also upgrades it, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent", "latest"]),
        Opt::new("gem_source", Kind::Path, "File to install the gem from.").address().word(),
        Opt::new("include_dependencies", Kind::Bool, "Install dependencies too.").default("true"),
        Opt::new("repository", Kind::Str, "URL of an alternative repository.").address().line().aliases(&["source"]),
        Opt::new("user_install", Kind::Bool, "Install for the current user only.").default("true"),
        Opt::new("executable", Kind::Path, "Path of an alternative gem program."),
        Opt::new("install_dir", Kind::Path, "Folder to install into; requires `user_install: false`."),
        Opt::new("bindir", Kind::Path, "Folder for programs."),
        Opt::new("norc", Kind::Bool, "Do not read `.gemrc`.").default("true"),
        Opt::new("env_shebang", Kind::Bool, "Start scripts with `/usr/bin/env`.").default("false"),
        Opt::new("version", Kind::Str, "Version of the gem."),
        Opt::new("pre_release", Kind::Bool, "Allow prerelease versions.").default("false"),
        Opt::new("include_doc", Kind::Bool, "Install documentation.").default("false"),
        Opt::new("build_flags", Kind::Str, "Flags for compiling extensions."),
        Opt::new("force", Kind::Bool, "Ignore dependencies when installing and removing.").default("false"),
        Opt::new("override_platform_install_dir", Kind::Bool, "Pass the user's folder instead of `--user-install`.")
            .default("false"),
    ],
    mutually_exclusive: &[&["gem_source", "repository"], &["gem_source", "version"]],
    examples: "- name: A tool for everybody\n  community.general.gem:\n    name: bundler\n    user_install: false\n",
    returns: &[
        Return { name: "name", kind: "str", when: "success", doc: "Name of the gem." },
        Return { name: "state", kind: "str", when: "success", doc: "Value of `state`." },
        Return { name: "version", kind: "str", when: "the version is known", doc: "Version of the gem." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Gem {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let mut task = Task::of(args, host)?;
        let state = args.required("state")?.to_owned();
        if state == "latest"
            && let Some(newest) = task.versions(Listed::Offered, host)?.into_iter().next()
        {
            task.version = Some(newest);
        }
        let installed = task.is_installed(host)?;
        let plan = match state.as_str() {
            "absent" if installed => {
                let (words, task) = (task.removal(), task.clone());
                Plan::change(move |host, _| {
                    let output = task.gem().args(words).check_run(host)?;
                    if !task.is_installed(host)? {
                        return Ok(());
                    }
                    let text = format!(
                        "Failed to uninstall gem '{}': it is still present after 'gem uninstall'. This usually happens with default or \
                         system gems provided by the OS, which cannot be removed with the gem command.",
                        task.name
                    );
                    let failure = Failure::new(text).with("rc", output.rc).with("stdout", output.stdout_text());
                    Err(failure.with("stderr", output.stderr_text()))
                })
            }
            "absent" => Plan::unchanged(),
            _ if installed => Plan::unchanged(),
            _ => {
                let (words, task) = (task.installation(args), task.clone());
                Plan::change(move |host, _| task.gem().args(words).check_run(host).map(drop))
            }
        };
        let plan = plan.with("name", task.name.as_str()).with("state", state);
        Ok(match task.version {
            Some(version) => plan.with("version", version),
            None => plan,
        })
    }
}

/// Source of a list of versions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    Installed,
    /// The versions that the repository offers.
    Offered,
}

#[derive(Clone)]
struct Task {
    program: Vec<String>,
    name: String,
    version: Option<String>,
    repository: Option<String>,
    home: Option<String>,
    /// Folders for gems and for programs.
    folders: [Option<String>; 2],
    norc: bool,
    force: bool,
    user_install: bool,
    /// Directory of a configuration file, and the value of `GEMRC` that names the file.
    config: Option<(Arc<Scratch>, String)>,
}

impl Task {
    fn of(args: &Args, host: &Host) -> Result<Task, Failure> {
        let text = |name: &str| args.filled(name).map(str::to_owned);
        let latest = args.str("state") == Some("latest");
        let (user_install, install_dir) = (args.bool("user_install"), text("install_dir"));
        let override_folder = args.bool("override_platform_install_dir");
        for (wrong, sentence) in [
            (latest && text("version").is_some(), "Cannot specify version when state=latest"),
            (latest && text("gem_source").is_some(), "Cannot maintain state=latest when installing from local source"),
            (user_install && install_dir.is_some(), "install_dir requires user_install=false"),
            (override_folder && !user_install, "override_platform_install_dir requires user_install=true"),
        ] {
            if wrong {
                return Err(Failure::new(sentence));
            }
        }
        let program = match args.str("executable") {
            Some(program) => program.split_whitespace().map(str::to_owned).collect(),
            None => vec!["gem".to_owned()],
        };
        let folders = [install_dir.clone(), text("bindir")];
        folders.iter().flatten().try_for_each(|folder| way::check_below(Path::new(folder)))?;
        let mut task = Task {
            program,
            name: args.required("name")?.to_owned(),
            version: text("version"),
            repository: text("repository"),
            home: install_dir,
            folders,
            norc: false,
            force: args.bool("force"),
            user_install,
            config: None,
        };
        let version = task.gem().arg("--version").check_run(host)?.stdout_text();
        let mut numbers = version.trim().split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        task.norc = args.bool("norc") && version >= (2, 5, 2);
        // A repository with a password stays off the command line, which every user of the host can read.
        if let Some(source) = task.repository.take_if(|source| without_passwords(source) != *source) {
            let directory = Scratch::new()?;
            let mut file = directory.path().join("gemrc").display().to_string();
            std::fs::write(&file, format!(":sources:\n- {source}\n"))
                .map_err(|error| Failure::new(format!("{file} could not be written: {}.", reason(&error))))?;
            // `--norc` would ignore this file too; `GEMRC` replaces the file of the user.
            if !std::mem::take(&mut task.norc)
                && let Some(home) = host.variable("HOME")
            {
                file = format!("{home}/.gemrc:{file}");
            }
            task.config = Some((Arc::new(directory), file));
        }
        if override_folder {
            let said = task.gem().arg("environment").check_run(host)?.stdout_text();
            let folder = said.lines().find_map(|line| line.split_once("USER INSTALLATION DIRECTORY:"));
            if let Some((_, folder)) = folder {
                let folder = folder.trim().to_owned();
                let [_, programs] = task.folders;
                task.folders = [Some(folder.clone()), programs.or(Some(format!("{folder}/bin")))];
                task.user_install = false;
            }
        }
        Ok(task)
    }

    fn gem(&self) -> Command {
        let (program, arguments) =
            self.program.split_first().map_or(("gem", &[][..]), |(program, rest)| (program.as_str(), rest));
        let mut command = Command::new(program).args(arguments.iter().map(String::as_str));
        if let Some((_, files)) = &self.config {
            command = command.variable("GEMRC", files);
        }
        match &self.home {
            Some(home) => command.variable("GEM_HOME", home),
            None => command,
        }
    }

    fn first(&self, verb: &str) -> Vec<String> {
        let mut words = vec![verb.to_owned()];
        words.extend(self.norc.then(|| "--norc".to_owned()));
        words
    }

    /// Versions of the gem.
    fn versions(&self, listed: Listed, host: &Host) -> Result<Vec<String>, Failure> {
        let mut words = self.first("list");
        if listed == Listed::Offered {
            words.push("--remote".to_owned());
            words.extend(self.repository.iter().flat_map(|source| ["--source".to_owned(), source.clone()]));
        }
        words.push(format!("^{}$", self.name));
        let said = self.gem().args(words).check_run(host)?.stdout_text();
        let lists = said.lines().filter_map(|line| {
            let (_, versions) = line.split_once(" (")?;
            Some(versions.trim_end_matches(')').trim_start_matches("default: ").to_owned())
        });
        let versions = lists.flat_map(|list| {
            list.split(", ")
                .filter_map(|version| version.split_whitespace().next().map(str::to_owned))
                .collect::<Vec<_>>()
        });
        Ok(versions.collect())
    }

    fn is_installed(&self, host: &Host) -> Result<bool, Failure> {
        let versions = self.versions(Listed::Installed, host)?;
        Ok(match &self.version {
            Some(version) => versions.contains(version),
            None => !versions.is_empty(),
        })
    }

    fn in_folders(&self) -> Vec<String> {
        let named = ["--install-dir", "--bindir"].into_iter().zip(&self.folders);
        named.filter_map(|(option, folder)| Some([option.to_owned(), folder.clone()?])).flatten().collect()
    }

    fn installation(&self, args: &Args) -> Vec<String> {
        let mut words = self.first("install");
        let mut add = |when: bool, more: &[&str]| {
            if when {
                words.extend(more.iter().map(|word| (*word).to_owned()));
            }
        };
        add(self.version.is_some(), &["--version", self.version.as_deref().unwrap_or_default()]);
        add(self.repository.is_some(), &["--source", self.repository.as_deref().unwrap_or_default()]);
        add(!args.bool("include_dependencies"), &["--ignore-dependencies"]);
        add(true, &[if self.user_install { "--user-install" } else { "--no-user-install" }]);
        words.extend(self.in_folders());
        let mut add = |when: bool, more: &[&str]| {
            if when {
                words.extend(more.iter().map(|word| (*word).to_owned()));
            }
        };
        add(args.bool("pre_release"), &["--pre"]);
        add(!args.bool("include_doc"), &["--no-document"]);
        add(args.bool("env_shebang"), &["--env-shebang"]);
        add(self.force, &["--force"]);
        add(true, &[args.str("gem_source").unwrap_or(&self.name)]);
        add(args.str("build_flags").is_some(), &["--", args.str("build_flags").unwrap_or_default()]);
        words
    }

    fn removal(&self) -> Vec<String> {
        let mut words = self.first("uninstall");
        words.extend(self.in_folders());
        match &self.version {
            Some(version) => words.extend(["--version".to_owned(), version.clone()]),
            None => words.push("--all".to_owned()),
        }
        words.push("--executable".to_owned());
        words.extend(self.force.then(|| "--force".to_owned()));
        words.push(self.name.clone());
        words
    }
}
