//! `pip`: Python packages.

mod requirement;
mod version;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec, accounts,
    files::{
        scratch::Scratch,
        way::{self, Link, Place, Purpose},
    },
    process::{self, Command, Output, reason},
    secrets::without_passwords,
    version_control::git::{
        address::{Address, Login},
        program::variables,
    },
};
use requirement::Requirement;

/// The `pip` module.
pub struct Pip;

static SPEC: Spec = Spec {
    name: "pip",
    summary: "Manage Python packages",
    description: &[
        "Runs the host's pip, or the pip of a virtual environment, which is created if missing.",
        "Check mode predicts changes exactly for names with and without versions. With `requirements`, `extra_args` \
         and `latest`, it always reports a change.",
    ],
    options: &[
        Opt::new(
            "name",
            Kind::List(&Kind::Str),
            "Packages, with or without a version such as `django>1.11,<2`, URLs or files.",
        )
        .address()
        .word(),
        Opt::new("version", Kind::Str, "Version of the package, if only one is given.").line(),
        Opt::new("requirements", Kind::Str, "Requirements file on the host.").word(),
        Opt::new("state", Kind::Str, "State of the packages.").default("\"present\"").choices(&[
            "present",
            "absent",
            "latest",
            "forcereinstall",
        ]),
        Opt::new("virtualenv", Kind::Path, "Path of a virtual environment.").word(),
        Opt::new(
            "virtualenv_site_packages",
            Kind::Bool,
            "Give a new virtual environment access to the host's packages.",
        )
        .default("false"),
        Opt::new(
            "virtualenv_command",
            Kind::Path,
            "Command that creates a virtual environment, such as `python3 -m venv`.",
        )
        .default("\"virtualenv\""),
        Opt::new("virtualenv_python", Kind::Str, "Python for a new virtual environment."),
        Opt::new("extra_args", Kind::Str, "Additional arguments of pip.").address(),
        Opt::new("editable", Kind::Bool, "Install in editable mode (`-e`).").default("false"),
        Opt::new("chdir", Kind::Path, "Directory to run pip in."),
        Opt::new("executable", Kind::Path, "Path of pip."),
        Opt::new("umask", Kind::Str, "Mask for the permissions of new files, in octal digits."),
        Opt::new("break_system_packages", Kind::Bool, "Install even if the distribution manages Python packages.")
            .default("false"),
    ],
    required_one_of: &[&["name", "requirements"]],
    mutually_exclusive: &[&["name", "requirements"], &["executable", "virtualenv"]],
    examples: "- name: An application with its own packages\n  ansible.builtin.pip:\n    requirements: /srv/app/requirements.txt\n    \
               virtualenv: /srv/app/venv\n    virtualenv_command: python3 -m venv\n",
    returns: &[
        Return { name: "cmd", kind: "list", when: "success", doc: "Command that was run." },
        Return { name: "name", kind: "list", when: "success", doc: "Value of `name`." },
        Return { name: "version", kind: "str", when: "success", doc: "Value of `version`." },
        Return { name: "requirements", kind: "str", when: "success", doc: "Value of `requirements`." },
        Return { name: "virtualenv", kind: "str", when: "success", doc: "Path of the virtual environment." },
        Return { name: "stdout", kind: "str", when: "success", doc: "Output of pip." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Pip {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let mut task = Task::of(args, host)?;
        if task.state == "latest" && args.str("version").is_some() {
            return Err(Failure::new("version is incompatible with state=latest"));
        }
        let names = packages(args)?;
        let fresh = task.environment.as_ref().is_some_and(|folder| !folder.join("bin/activate").exists());
        if host.check() {
            return if fresh { Ok(Plan::change(|_, _| Ok(()))) } else { task.predict(args, &names, host) };
        }
        let mut data = Map::new();
        for key in ["name", "version", "state", "requirements"] {
            data.insert(key.into(), args.value(key).cloned().unwrap_or(Value::Null));
        }
        let shown = task.environment.as_ref().map(|folder| folder.display().to_string());
        data.insert("virtualenv".into(), shown.map_or(Value::Null, Value::from));
        let maker = if fresh { Some(task.maker(args, host)?) } else { None };
        let from_vcs = names.iter().any(|name| is_vcs(name));
        let compares = args.str("requirements").is_some() || from_vcs;
        let words = task.words(args, &names)?;
        Ok(Plan::change(move |host, outcome| {
            let (mut stdout, mut stderr) = (String::new(), String::new());
            if let Some(maker) = maker {
                let shown = maker.clone();
                let output = task.run(maker, host)?;
                stdout.push_str(&output.stdout_text());
                stderr.push_str(&output.stderr_text());
                if !output.success() {
                    return Err(failure(&shown, &stdout, &stderr));
                }
            }
            let pip = task.pip(host)?;
            let before = if compares { Some(task.installed(&pip, host)?.1) } else { None };
            let command: Vec<String> = pip.iter().chain(&words).cloned().collect();
            let output = task.run(command.clone(), host)?;
            let (said, errors) = (output.stdout_text(), output.stderr_text());
            stdout.push_str(&said);
            stderr.push_str(&errors);
            let gone = output.rc == 1
                && task.state == "absent"
                && (said.contains("not installed") || errors.contains("not installed"));
            if !output.success() && !gone {
                return Err(failure(&command, &stdout, &stderr));
            }
            let changed = match before {
                _ if task.state == "absent" => said.contains("Successfully uninstalled"),
                Some(before) => before.stdout != task.installed(&pip, host)?.1.stdout,
                None => said.contains("Successfully installed"),
            };
            outcome.changed = changed || fresh;
            outcome.set("cmd", command);
            outcome.set("stdout", stdout);
            outcome.set("stderr", stderr);
            Ok(())
        })
        .with_all(data))
    }
}

fn failure(words: &[String], stdout: &str, stderr: &str) -> Failure {
    let mut message = String::new();
    if !stdout.is_empty() {
        message.push_str(&format!("stdout: {stdout}"));
    }
    if !stderr.is_empty() {
        message.push_str(&format!("\n:stderr: {stderr}"));
    }
    Failure::new(message).with("cmd", words.to_vec())
}

/// Whether the package comes from a repository: `git+https://...`.
fn is_vcs(name: &str) -> bool {
    let Some((scheme, _)) = name.split_once('+') else { return false };
    matches!(scheme, "svn" | "git" | "hg" | "bzr")
}

/// The task's packages. Rejoins requirements that were split at the commas between versions.
fn packages(args: &Args) -> Result<Vec<String>, Failure> {
    let mut names: Vec<String> = Vec::new();
    let mut brackets = false;
    for part in args.list("name").into_iter().flat_map(|name| name.split(',')) {
        let starts_with_version = part.trim_start().starts_with(['=', '<', '>', '!', '~']);
        match names.last_mut() {
            Some(last) if starts_with_version || brackets => {
                last.push(',');
                last.push_str(part);
            }
            _ => names.push(part.to_owned()),
        }
        brackets = (brackets || part.contains('[')) && !part.contains(']');
    }
    let Some(version) = args.str("version") else { return Ok(names) };
    match names.as_mut_slice() {
        [one] if Requirement::parse(one).is_some_and(|known| !known.versions.is_empty()) => Err(Failure::new(
            "The 'version' argument conflicts with any version specifier provided along with a package name. Please keep the version \
             specifier, but remove the 'version' argument.",
        )),
        [one] => {
            let version = version.trim_start();
            let operator = if version.starts_with(|first: char| first.is_ascii_digit()) { "==" } else { "" };
            one.push_str(operator);
            one.push_str(version);
            Ok(names)
        }
        [] => Ok(names),
        _ => Err(Failure::new(
            "'version' argument is ambiguous when installing multiple package distributions. Please specify version restrictions next to \
             each package in 'name' argument.",
        )),
    }
}

/// Constant settings of a task.
struct Task {
    state: String,
    environment: Option<PathBuf>,
    executable: Option<String>,
    directory: PathBuf,
    umask: Option<String>,
    system_too: bool,
    /// Environment with the passwords of addresses.
    passwords: Vec<(String, String)>,
    /// Directory of a file with the packages whose addresses have passwords.
    secret: Option<Scratch>,
}

/// Moves options whose URL has a password from the command line, which every user of the host can read, to environment
/// variables.
fn without_urls(words: Vec<String>) -> (Vec<String>, Vec<(String, String)>) {
    const OPTIONS: [(&str, &str, &str); 4] = [
        ("--index-url", "-i", "PIP_INDEX_URL"),
        ("--extra-index-url", "", "PIP_EXTRA_INDEX_URL"),
        ("--find-links", "-f", "PIP_FIND_LINKS"),
        ("--proxy", "", "PIP_PROXY"),
    ];
    let (mut kept, mut variables): (Vec<String>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (name, inside) =
            word.split_once('=').map_or((word.as_str(), None), |(name, url)| (name, Some(url.to_owned())));
        let Some((_, _, variable)) = OPTIONS.iter().find(|(long, short, _)| name == *long || name == *short) else {
            kept.push(word);
            continue;
        };
        let apart = inside.is_none();
        let Some(url) = inside.or_else(|| words.next()) else {
            kept.push(word);
            continue;
        };
        if without_passwords(&url) == url {
            kept.push(word);
            kept.extend(apart.then_some(url));
            continue;
        }
        match variables.iter_mut().find(|(known, _)| known == variable) {
            Some((_, urls)) if matches!(*variable, "PIP_EXTRA_INDEX_URL" | "PIP_FIND_LINKS") => {
                urls.push_str(&format!(" {url}"));
            }
            Some((_, known)) => *known = url,
            None => variables.push(((*variable).to_owned(), url)),
        }
    }
    (kept, variables)
}

/// Moves the password of a repository, `git+https://user:password@server`, from a word to the logins.
fn without_login(word: String, logins: &mut Vec<Login>) -> Result<String, Failure> {
    let Some((before, url)) = word.split_once("git+") else { return Ok(word) };
    let Address { plain, login: Some(login) } = Address::of(url)? else { return Ok(word) };
    if logins.iter().any(|known| known.server == login.server && *known != login) {
        return Err(Failure::new(format!(
            "The packages have different passwords for {}: install them in separate tasks.",
            login.server
        )));
    }
    logins.push(login);
    Ok(format!("{before}git+{plain}"))
}

/// The user's home, or `/` if others may write there. `python -m` runs modules from its working directory, so it must
/// never be one like `/tmp`. Editable packages are stored below it.
fn own_directory() -> PathBuf {
    let home = accounts::user_by_id(rustix::process::geteuid().as_raw()).map(|user| PathBuf::from(user.home));
    home.filter(|home| Place::of(home, Link::Follow, Purpose::Run).is_ok()).unwrap_or_else(|| PathBuf::from("/"))
}

impl Task {
    fn of(args: &Args, host: &Host) -> Result<Task, Failure> {
        let directory = args.str("chdir").map_or_else(own_directory, PathBuf::from);
        if let Some(mask) = args.str("umask")
            && (mask.is_empty() || !mask.bytes().all(|digit| (b'0'..=b'7').contains(&digit)))
        {
            return Err(Failure::new("umask must be an octal integer").with("details", format!("{mask} is none.")));
        }
        let environment = args.str("virtualenv").map(|path| match args.str("chdir") {
            Some(directory) => Path::new(directory).join(path),
            None => PathBuf::from(path),
        });
        if let Some(environment) = &environment {
            way::check_below(environment)?;
        }
        if let Some(executable) = args.str("executable")
            && process::find(host, executable).is_none()
        {
            return Err(Failure::new(format!(
                "Unable to find any of {executable} to use.  pip needs to be installed."
            )));
        }
        Ok(Task {
            state: args.str("state").unwrap_or("present").to_owned(),
            environment,
            executable: args.str("executable").map(str::to_owned),
            directory,
            umask: args.str("umask").map(str::to_owned),
            system_too: args.bool("break_system_packages"),
            passwords: Vec::new(),
            secret: None,
        })
    }

    /// The command that starts pip.
    fn pip(&self, host: &Host) -> Result<Vec<String>, Failure> {
        if let Some(folder) = &self.environment {
            let named = ["pip3", "pip"].map(|name| folder.join("bin").join(name));
            let found = named.iter().find(|path| path.exists()).ok_or_else(|| {
                let folder = folder.display();
                Failure::new(format!(
                    "Unable to find pip in the virtualenv, {folder}, under any of these names: pip3, pip. Make sure pip is present in the \
                     virtualenv."
                ))
            })?;
            return Ok(vec![found.display().to_string()]);
        }
        if let Some(executable) = &self.executable {
            let found = process::find(host, executable).map(|path| path.display().to_string());
            return Ok(vec![found.unwrap_or_else(|| executable.clone())]);
        }
        if let Some(python) = process::find(host, "python3") {
            let module = Command::new(&python).args(["-c", "import pip"]).directory("/").run(host)?;
            if module.success() {
                return Ok(vec![python.display().to_string(), "-m".into(), "pip.__main__".into()]);
            }
        }
        let found = process::find(host, "pip3")
            .ok_or_else(|| Failure::new("Unable to find any of pip3 to use.  pip needs to be installed."))?;
        Ok(vec![found.display().to_string()])
    }

    fn run(&self, words: Vec<String>, host: &Host) -> Result<Output, Failure> {
        let (program, rest) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let mut command = Command::new(program).args(rest).directory(&self.directory).live();
        if self.system_too {
            command = command.variable("PIP_BREAK_SYSTEM_PACKAGES", "1");
        }
        if let Some(folder) = &self.environment {
            // A build may need programs from the same environment.
            let path = host.variable("PATH").unwrap_or_default();
            command = command.variable("PATH", format!("{}/bin:{path}", folder.display()));
        }
        for (name, value) in &self.passwords {
            command = command.variable(name, value);
        }
        if let Some(mask) = &self.umask {
            command = command.umask(mask);
        }
        command.run(host)
    }

    /// The installed packages as pip lists them, and the query's output.
    fn installed(&self, pip: &[String], host: &Host) -> Result<(String, Output), Failure> {
        let mut last = None;
        for verb in [&["list", "--format=freeze"][..], &["freeze"]] {
            let words: Vec<String> = pip.iter().cloned().chain(verb.iter().map(|word| (*word).to_owned())).collect();
            let output = self.run(words.clone(), host)?;
            if output.success() {
                return Ok((words.join(" "), output));
            }
            last = Some(failure(&words, &output.stdout_text(), &output.stderr_text()));
        }
        Err(last.unwrap_or_else(|| Failure::new("pip cannot tell what is installed.")))
    }

    /// The arguments of pip for the requested state. Passwords reach pip by the environment and a file.
    fn words(&mut self, args: &Args, names: &[String]) -> Result<Vec<String>, Failure> {
        let verb: &[&str] = match self.state.as_str() {
            "absent" => &["uninstall", "-y"],
            "latest" => &["install", "-U"],
            "forcereinstall" => &["install", "-U", "--force-reinstall"],
            _ => &["install"],
        };
        let mut words: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
        let extra = shell_words::split(args.str("extra_args").unwrap_or_default())
            .map_err(|error| Failure::new(format!("extra_args cannot be split into words: {error}.")))?;
        let (extra, passwords) = without_urls(extra);
        let editable = args.bool("editable") && !extra.iter().any(|word| word == "-e");
        let mut logins = Vec::new();
        for word in extra {
            words.push(without_login(word, &mut logins)?);
        }
        let names: Vec<String> =
            names.iter().map(|name| without_login(name.clone(), &mut logins)).collect::<Result<_, _>>()?;
        let (open, secret): (Vec<String>, Vec<String>) =
            names.into_iter().partition(|name| without_passwords(name) == *name);
        if editable && !open.is_empty() {
            words.push("-e".to_owned());
        }
        words.extend(open);
        if !secret.is_empty() {
            let directory = Scratch::new()?;
            let file = directory.path().join("requirements.txt").display().to_string();
            let option = if editable { "-e " } else { "" };
            let lines: String = secret.iter().map(|name| format!("{option}{name}\n")).collect();
            std::fs::write(&file, lines)
                .map_err(|error| Failure::new(format!("{file} could not be written: {}.", reason(&error))))?;
            words.extend(["-r".to_owned(), file]);
            self.secret = Some(directory);
        }
        self.passwords = passwords;
        self.passwords.extend(variables(&logins));
        if let Some(file) = args.str("requirements") {
            words.extend(["-r".to_owned(), file.to_owned()]);
        }
        Ok(words)
    }

    /// The command that creates the virtual environment.
    fn maker(&self, args: &Args, host: &Host) -> Result<Vec<String>, Failure> {
        let text = args.required("virtualenv_command")?;
        let mut words = super::super::commands::split(text)?;
        let program = words.first().cloned().unwrap_or_default();
        let found = process::find(host, &program).ok_or_else(|| {
            Failure::new(format!("Failed to find required executable \"{program}\", which virtualenv_command names."))
        })?;
        if let Some(first) = words.first_mut() {
            *first = found.display().to_string();
        }
        let venv = program.ends_with("pyvenv")
            || words.windows(2).any(|pair| matches!(pair, [m, name] if m == "-m" && name == "venv"));
        if args.bool("virtualenv_site_packages") {
            words.push("--system-site-packages".to_owned());
        } else {
            let help = Command::new(&found).arg("--help").run(host)?.stdout_text();
            if help.split_whitespace().any(|word| word == "--no-site-packages") {
                words.push("--no-site-packages".to_owned());
            }
        }
        match args.str("virtualenv_python") {
            Some(_) if venv => {
                return Err(Failure::new(
                    "virtualenv_python should not be used when using the venv module or pyvenv as virtualenv_command",
                ));
            }
            Some(python) => words.push(format!("-p{python}")),
            None if venv => {}
            None => {
                if let Some(python) = process::find(host, "python3") {
                    words.push(format!("-p{}", python.display()));
                }
            }
        }
        words.extend(self.environment.as_ref().map(|folder| folder.display().to_string()));
        Ok(words)
    }

    fn predict(&self, args: &Args, names: &[String], host: &Host) -> Result<Plan, Failure> {
        let open = args.str("extra_args").is_some() || args.bool("editable") || args.str("requirements").is_some();
        if open || self.state == "latest" || self.state == "forcereinstall" {
            return Ok(Plan::change(|_, _| Ok(())));
        }
        let (command, output) = self.installed(&self.pip(host)?, host)?;
        let text = output.stdout_text();
        let known: Vec<(String, &str)> = text
            .lines()
            .filter_map(|line| line.split_once("=="))
            .map(|(name, version)| (requirement::canonical(name), version.trim()))
            .collect();
        let there = |name: &String| {
            let wanted = Requirement::parse(name);
            wanted.is_some_and(|wanted| {
                known.iter().any(|(name, version)| *name == wanted.name && wanted.allows(version))
            })
        };
        let absent = self.state == "absent";
        let plan = if names.iter().any(|name| there(name) == absent) {
            Plan::change(|_, _| Ok(()))
        } else {
            Plan::unchanged()
        };
        Ok(plan.with("cmd", command).with("stdout", text).with("stderr", output.stderr_text()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(arguments: Value) -> Result<Vec<String>, String> {
        let args = Args::validate(&SPEC, &arguments, &Host::alone().with_check(true)).unwrap();
        packages(&args).map_err(|failure| failure.message)
    }

    #[test]
    fn index_with_password_moved_to_environment() {
        let words =
            ["-i", "https://u:p@a/x", "--extra-index-url=https://u:p@b", "--extra-index-url", "https://u:q@c", "-q"];
        let (kept, variables) = without_urls(words.map(str::to_owned).to_vec());
        assert_eq!(kept, ["-q"]);
        let expected = [("PIP_INDEX_URL", "https://u:p@a/x"), ("PIP_EXTRA_INDEX_URL", "https://u:p@b https://u:q@c")];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let plain = ["--index-url", "https://a/x", "-i=https://b"].map(str::to_owned).to_vec();
        assert_eq!(without_urls(plain.clone()), (plain, Vec::new()));
    }

    #[test]
    fn split_requirements_rejoined() {
        for (given, expected) in [
            (json!({"name": "django>1.11.1,<1.11.3,ipaddress"}), vec!["django>1.11.1,<1.11.3", "ipaddress"]),
            (json!({"name": ["a", "b[x,y]==1"]}), vec!["a", "b[x,y]==1"]),
            (json!({"name": "a", "version": "1.2"}), vec!["a==1.2"]),
            (json!({"name": "a", "version": ">=1"}), vec!["a>=1"]),
        ] {
            assert_eq!(names(given).unwrap(), expected);
        }
        assert!(names(json!({"name": ["a", "b"], "version": "1"})).unwrap_err().contains("ambiguous"));
        assert!(names(json!({"name": ["a>1"], "version": "1"})).unwrap_err().contains("conflicts"));
        assert!(is_vcs("git+https://x/y") && !is_vcs("https://x/c++"));
    }
}
