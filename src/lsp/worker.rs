//! The thread that checks, so that requests are answered meanwhile.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};

use super::names;
use super::server::Event;
use crate::error::{Error, Result};
use crate::foreign::Modules;
use crate::lint::{self, Finding, Index, Inventoried, Severity, Texts, Workspace};

/// Maximum number of files of a project.
const MOST_FILES: usize = 50_000;

/// Settings that checks of projects need.
#[derive(Debug)]
pub struct Environment {
    /// Finder of modules.
    pub modules: Arc<Modules>,
    /// Sources of the inventory.
    pub sources: Vec<String>,
    /// Directories with roles.
    pub roles_path: Vec<PathBuf>,
}

/// Reads the environment. It is called after the server has entered the directory of the editor's workspace, and
/// again when a file is saved.
pub type Load = Box<dyn Fn() -> Result<Environment> + Send>;

/// A check to make.
#[derive(Debug)]
pub(super) struct Job {
    /// Texts of all open documents.
    pub(super) buffers: HashMap<PathBuf, Arc<str>>,
    /// Documents to report on, with the version of each.
    pub(super) wanted: Vec<(PathBuf, i32)>,
    /// Whether files were saved, so that settings and inventories may have changed.
    pub(super) is_reload: bool,
}

/// Findings of one document.
#[derive(Debug)]
pub(super) struct OfDocument {
    pub(super) path: PathBuf,
    pub(super) version: i32,
    pub(super) findings: Vec<(Finding, Range<usize>)>,
    /// Whether the document is not valid YAML.
    pub(super) is_broken: bool,
}

/// Result of a check.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) documents: Vec<OfDocument>,
    pub(super) indexes: Vec<(PathBuf, Index)>,
    pub(super) inventory: Option<names::Inventoried>,
    pub(super) inventory_variables: std::collections::BTreeSet<String>,
    pub(super) modules: Vec<String>,
    pub(super) roles: std::collections::BTreeMap<String, PathBuf>,
    pub(super) problems: Vec<String>,
}

/// Starts the thread. It ends when the sender of jobs is dropped.
pub(super) fn start(load: Load, severity: Severity, events: SyncSender<Event>) -> std::io::Result<Sender<Job>> {
    let (jobs, received) = channel();
    let work = move || work(&load, severity, &received, &events);
    std::thread::Builder::new().name("check".to_owned()).stack_size(16 << 20).spawn(work)?;
    Ok(jobs)
}

fn work(load: &Load, severity: Severity, jobs: &Receiver<Job>, events: &SyncSender<Event>) {
    let mut worker =
        Worker { workspace: Workspace::with_limit(MOST_FILES), environment: None, inventory: None, severity };
    for job in jobs {
        let outcome = catch_unwind(AssertUnwindSafe(|| worker.check(load, job)));
        let checked = outcome.unwrap_or_else(|_| {
            worker.workspace = Workspace::with_limit(MOST_FILES);
            Err(Error::new("a check failed because of a bug in windlass; other documents are still checked"))
        });
        let checked = checked.unwrap_or_else(|error| {
            let place = error.span().filter(|span| span.is_located());
            let place = place.map(|span| format!(" ({}, line {})", span.source.name, span.line)).unwrap_or_default();
            let problems = vec![format!("{}{place}", error.message())];
            Checked { problems, ..Checked::default() }
        });
        if events.send(Event::Checked(Box::new(checked))).is_err() {
            return;
        }
    }
}

struct Worker {
    workspace: Workspace,
    environment: Option<Environment>,
    /// The inventory, and the texts of open documents among its files; `None` before it is read.
    inventory: Option<(Inventoried, Texts)>,
    severity: Severity,
}

impl Worker {
    /// The inventory with the texts of open documents, read again if these have changed.
    fn inventory_with(&mut self, sources: &[String], buffers: &HashMap<PathBuf, Arc<str>>) -> (Inventoried, Texts) {
        let folders: Vec<PathBuf> = sources.iter().map(|source| crate::paths::absolute(Path::new(source))).collect();
        let known = self.inventory.take();
        let is_of_inventory = |path: &PathBuf| {
            let is_included = known.as_ref().is_some_and(|(inventory, _)| inventory.files.contains(path));
            is_included || folders.iter().any(|folder| path.starts_with(folder))
        };
        let texts: HashMap<PathBuf, Arc<str>> = buffers
            .iter()
            .filter(|(path, _)| is_of_inventory(path))
            .map(|(path, text)| (path.clone(), Arc::clone(text)))
            .collect();
        match known {
            Some((inventory, former)) if *former == texts => (inventory, former),
            _ => {
                let texts = Texts::new(texts);
                let inventory = Inventoried::read(sources, &texts).unwrap_or_else(|error| Inventoried {
                    warnings: vec![error.message().to_owned()],
                    ..Inventoried::default()
                });
                (inventory, texts)
            }
        }
    }

    fn check(&mut self, load: &Load, job: Job) -> Result<Checked> {
        let environment = match self.environment.take().filter(|_| !job.is_reload) {
            Some(environment) => environment,
            None => {
                self.inventory = None;
                load()?
            }
        };
        let (inventory, texts) = self.inventory_with(&environment.sources, &job.buffers);
        self.workspace.set_buffers(job.buffers);
        let mut options = lint::Options {
            paths: job.wanted.iter().map(|(path, _)| path.clone()).collect(),
            inventory,
            rules: Vec::new(),
            skip: Vec::new(),
            modules: Arc::clone(&environment.modules),
            roles_path: environment.roles_path.clone(),
        };
        let report = lint::check_in(&mut self.workspace, &options);
        let mut inventoried = std::mem::take(&mut options.inventory);
        let inventory = inventoried.inventory.as_ref();
        let mut checked = Checked {
            inventory: inventory.map(names::of_inventory),
            inventory_variables: inventory.map(names::variables_of).unwrap_or_default(),
            modules: environment.modules.names(),
            roles: names::roles_in(&environment.roles_path),
            problems: std::mem::take(&mut inventoried.warnings),
            ..Checked::default()
        };
        self.environment = Some(environment);
        self.inventory = Some((inventoried, texts));
        let mut report = report?;
        let unplaced = report.unplaced().iter();
        checked.problems.extend(unplaced.map(|problem| format!("{}: {}", problem.span, problem.message)));
        report.keep_from(self.severity);
        checked.indexes = report.take_indexes();
        for (path, version) in job.wanted {
            let (findings, is_broken) = report.of_file(&path);
            checked.documents.push(OfDocument { path, version, findings, is_broken });
        }
        Ok(checked)
    }
}
