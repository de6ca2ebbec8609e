//! `windlass galaxy role init`: creates a new role.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use regex::Regex;
use windlass_template::{Context, Engine, LIBRARY, Options, TemplateOptions};
use windlass_yaml::{Key, Mapping, Node, Source, Span, Text};

use super::state::{Common, Galaxy};
use crate::error::{Error, Result};
use crate::playbook::StaticScope;

#[derive(Debug, Args)]
pub(super) struct Init {
    /// Name of the role
    #[arg(value_name = "ROLE")]
    name: String,
    /// Parent directory of the role
    #[arg(long, value_name = "DIR", default_value = "./")]
    init_path: PathBuf,
    /// Copy this directory instead of the built-in skeleton; files ending in .j2 are rendered
    #[arg(long, value_name = "DIR")]
    role_skeleton: Option<String>,
    /// Value of `role_type` in templates
    #[arg(long = "type", value_name = "TYPE", default_value = "default")]
    role_type: String,
    /// Variables for templates: `key=value`, YAML, JSON or @FILE; repeatable
    #[arg(short, long, value_name = "VARS")]
    extra_vars: Vec<String>,
    /// Replace an existing role
    #[arg(short, long)]
    force: bool,
    /// Accepted for compatibility; no server is contacted
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    common: Common,
}

impl Init {
    /// A role from the settings' skeleton, below a directory of roles.
    pub(super) fn new(name: &str, roles: &Path) -> Init {
        Init {
            name: name.to_owned(),
            init_path: roles.to_owned(),
            role_skeleton: None,
            role_type: "default".to_owned(),
            extra_vars: Vec::new(),
            force: false,
            offline: true,
            common: Common::default(),
        }
    }
}

/// Files of the built-in skeleton.
const SKELETON: &[(&str, &str)] = &[
    (
        "README.md",
        "# {{ role_name }}\n\nWhat the role does.\n\n## Variables\n\nThey are in `defaults/main.yml`, with what they mean.\n\n## Example\n\n    - hosts: servers\n      roles:\n        - {{ role_name }}\n",
    ),
    ("defaults/main.yml", "---\n# defaults file for {{ role_name }}\n"),
    ("handlers/main.yml", "---\n# handlers file for {{ role_name }}\n"),
    (
        "meta/main.yml",
        "galaxy_info:\n  author: {{ author }}\n  description: {{ description }}\n  company: {{ company }}\n  license: {{ license }}\n  min_ansible_version: {{ min_ansible_version }}\n  galaxy_tags: []\n\n# Other roles that run before this one.\ndependencies: []\n",
    ),
    ("tasks/main.yml", "---\n# tasks file for {{ role_name }}\n"),
    ("tests/inventory", "localhost\n"),
    ("tests/test.yml", "---\n- hosts: localhost\n  remote_user: root\n  roles:\n    - {{ role_name }}\n"),
    ("vars/main.yml", "---\n# vars file for {{ role_name }}\n"),
];

/// Empty directories of the built-in skeleton.
const EMPTY: &[&str] = &["files", "templates"];

/// Creates a role.
pub(super) fn run(init: &Init, galaxy: &Galaxy) -> Result<u8> {
    let target = init.init_path.join(&init.name);
    prepare(&target, init.force)?;
    let variables = variables(init, galaxy)?;
    let engine = Engine::new(&LIBRARY, Options { compat: galaxy.settings.compat, ..Options::default() });
    let scope = engine.scope(Arc::new(StaticScope { layers: vec![variables] }));
    let skeleton = match &init.role_skeleton {
        Some(path) => Some(path.clone()),
        None => galaxy.setting("GALAXY_ROLE_SKELETON")?.as_str().map(str::to_owned),
    };
    match skeleton {
        None => {
            for (name, text) in SKELETON {
                write(&target.join(name), render(&scope, text, name)?.as_bytes())?;
            }
            EMPTY.iter().try_for_each(|name| make_folder(&target.join(name)))?;
        }
        Some(path) => {
            let root = crate::settings::expand_home(&path);
            if !root.exists() {
                return Err(Error::new(format!("- the skeleton path '{path}' does not exist, cannot init role")));
            }
            let skeleton = Skeleton { root: &root, target: &target, ignored: ignored(galaxy)?, scope: &scope };
            skeleton.copy(Path::new(""))?;
        }
    }
    galaxy.say(&format!("- Role {} was created successfully", init.name));
    Ok(0)
}

/// Checks the target directory; with `force`, empties an existing one.
pub(super) fn prepare(target: &Path, force: bool) -> Result<()> {
    let shown = target.display();
    if target.is_file() {
        return Err(Error::new(format!("- the path {shown} already exists, but is a file - aborting")));
    }
    if target.exists() {
        if !force {
            return Err(Error::new(format!(
                "- the directory {shown} already exists. You can use --force to re-initialize this directory,\nhowever it will reset any main.yml files that may have\nbeen modified there already."
            )));
        }
        let fail = |error: std::io::Error| Error::new(format!("{shown} cannot be emptied: {error}"));
        for entry in std::fs::read_dir(target).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let removed = match path.is_dir() && !path.is_symlink() {
                true => std::fs::remove_dir_all(&path),
                false => std::fs::remove_file(&path),
            };
            removed.map_err(fail)?;
        }
    }
    make_folder(target)
}

fn variables(init: &Init, galaxy: &Galaxy) -> Result<Arc<Mapping>> {
    let span = Span::synthetic("the new role");
    let mut variables = Mapping::new();
    let fields = [
        ("author", "your name"),
        ("company", "your company (optional)"),
        ("description", "your role description"),
        ("license", "license (GPL-2.0-or-later, MIT, etc)"),
        ("role_name", &init.name),
        ("role_type", &init.role_type),
        ("issue_tracker_url", "http://example.com/issue/tracker"),
        ("repository_url", "http://example.com/repository"),
        ("documentation_url", "http://docs.example.com"),
        ("homepage_url", "http://example.com"),
        ("min_ansible_version", "2.1"),
    ];
    for (name, value) in fields {
        variables.insert(Key::string(name, span.clone()), Node::literal(value, span.clone()));
    }
    let empty = windlass_yaml::load_one(Source::new("the new role", "[]"), &windlass_yaml::Options::default())?;
    variables.insert(Key::string("dependencies", span.clone()), empty);
    for (key, value) in super::super::options::extra_vars(&init.extra_vars, &galaxy.files)?.iter() {
        variables.insert(key.clone(), value.clone());
    }
    Ok(Arc::new(variables))
}

/// Patterns for files of a skeleton to skip.
fn ignored(galaxy: &Galaxy) -> Result<Vec<Regex>> {
    let setting = galaxy.setting("GALAXY_ROLE_SKELETON_IGNORE")?;
    let patterns = setting.as_array().into_iter().flatten().filter_map(|pattern| pattern.as_str());
    let regex = |pattern: &str| {
        Regex::new(&format!("^(?:{pattern})"))
            .map_err(|error| Error::usage(format!("`role_skeleton_ignore` is not a valid regular expression: {error}")))
    };
    patterns.map(regex).collect()
}

/// A directory to copy as a new role.
struct Skeleton<'a> {
    root: &'a Path,
    target: &'a Path,
    ignored: Vec<Regex>,
    scope: &'a Context,
}

impl Skeleton<'_> {
    /// Copies one of its directories. Templates are rendered, except for the role's own ones.
    fn copy(&self, folder: &Path) -> Result<()> {
        let from = self.root.join(folder);
        let fail = |error: std::io::Error| Error::new(format!("{} cannot be copied: {error}", from.display()));
        make_folder(&self.target.join(folder))?;
        for entry in std::fs::read_dir(&from).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let (path, name) = (entry.path(), entry.file_name());
            let relative = folder.join(&name);
            let name = name.to_string_lossy();
            let is_ignored = |text: &str| self.ignored.iter().any(|regex| regex.is_match(text));
            if path.is_dir() && !path.is_symlink() {
                if !is_ignored(&name) {
                    self.copy(&relative)?;
                }
                continue;
            }
            let below = if folder == Path::new("") { Path::new(".") } else { folder };
            if is_ignored(&below.join(&*name).to_string_lossy()) {
                continue;
            }
            let target = self.target.join(&relative);
            if path.is_symlink() {
                let link = std::fs::read_link(&path).map_err(fail)?;
                std::os::unix::fs::symlink(link, &target).map_err(fail)?;
            } else if name.ends_with(".j2") && !folder.starts_with("templates") {
                let text = windlass_bounds::read_text(&path).map_err(fail)?;
                let text = render(self.scope, &text, &path.to_string_lossy())?;
                write(&target.with_extension(""), text.as_bytes())?;
            } else {
                write(&target, &windlass_bounds::read(&path).map_err(fail)?)?;
            }
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a skeleton is the user's own")]
fn render(scope: &Context, text: &str, name: &str) -> Result<String> {
    Ok(scope.template(&Text::of_project(text), name, &TemplateOptions::default())?)
}

pub(super) fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::new(format!("{} cannot be created: {error}", path.display())))
}

pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    path.parent().map_or(Ok(()), make_folder)?;
    std::fs::write(path, content).map_err(|error| Error::new(format!("{} cannot be written: {error}", path.display())))
}
