//! Checks playbooks, roles, variables and templates without running anything.
//!
//! A check reads the whole project ([`discover`], [`source`]), because a name can be defined anywhere. [`walk`] lists
//! its plays, blocks, tasks and texts, and [`names`] its variables. Then each group of [`rules`] looks at these lists
//! and adds findings. No template is rendered, no lookup and no inventory script runs.

mod context;
mod discover;
mod finding;
mod fix;
mod index;
mod inventory;
mod names;
mod own;
mod range;
mod reach;
mod report;
mod rule;
mod rules;
mod settings;
mod source;
mod suppress;
mod walk;
mod workspace;

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_inventory::Problem;
use windlass_template::uses::Form;

use self::context::{Context, Parsed};
use self::names::Names;
use self::own::OwnRule;
use self::rules::CHECKS;
use self::settings::Settings;
use self::source::SourceFile;
use crate::error::{Error, Result};
use crate::foreign::Modules;

pub(crate) use discover::{LARGEST, likely_kind, root_of};
pub use finding::{Edit, Finding, Place};
pub use index::{Index, Spot};
pub use inventory::{Inventoried, Texts, load as load_inventory};
pub(crate) use own::is_own;
pub use reach::{Inherited, Lead, Leads};
pub use report::Format;
pub use rule::{RULES, Rule, Severity};
pub use settings::{FILE, own_rules, rule};
pub use source::Kind;
pub(crate) use source::{is_template, role_of};
pub use workspace::Workspace;

/// Choices of a check.
#[derive(Debug)]
pub struct Options {
    /// Files and directories to report on; other files of the project are read for their definitions.
    pub paths: Vec<PathBuf>,
    /// Inventory to check, and to compare host patterns with.
    pub inventory: Inventoried,
    /// Rules to check; empty for all.
    pub rules: Vec<&'static Rule>,
    /// Rules to skip.
    pub skip: Vec<&'static Rule>,
    /// Finder of modules that are not built in.
    pub modules: Arc<Modules>,
    /// Directories of installed roles.
    pub roles_path: Vec<PathBuf>,
}

/// Result of a check.
#[derive(Debug)]
pub struct Report {
    files: Vec<SourceFile>,
    /// Findings by file and place.
    findings: Vec<Finding>,
    /// Names of each project by its directory, if the workspace lasts.
    indexes: Vec<(PathBuf, Index)>,
    /// Rules of the projects.
    own: Vec<&'static Rule>,
    /// Problems of the inventory in files that are not reported on.
    unplaced: Vec<Problem>,
}

/// Checks a project.
pub fn check(options: &Options) -> Result<Report> {
    check_in(&mut Workspace::default(), options)
}

/// Checks a project whose files an editor may hold.
pub fn check_in(workspace: &mut Workspace, options: &Options) -> Result<Report> {
    let report = report(workspace, options);
    // Also after a failure. Otherwise, a rule that fails while somebody types would keep every version of the text in
    // memory.
    workspace.end_check();
    report
}

fn report(workspace: &mut Workspace, options: &Options) -> Result<Report> {
    for path in &options.paths {
        if !path.exists() && workspace.buffer(path).is_none() {
            return Err(Error::new(format!("{} does not exist", path.display())));
        }
    }
    // Each project is read once, however many of its paths are given.
    let roots: BTreeSet<PathBuf> = options.paths.iter().map(|path| discover::root_of(path)).collect();
    let mut report =
        Report { files: Vec::new(), findings: Vec::new(), indexes: Vec::new(), own: Vec::new(), unplaced: Vec::new() };
    for root in &roots {
        let settings = Settings::read(root)?;
        let below = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_owned();
        let mut files = discover::read_all(root, &|path| settings.excludes(&below(path)), workspace)?;
        discover::mark_handlers(&mut files);
        let chosen: Vec<PathBuf> = options.paths.iter().map(|path| crate::paths::absolute(path)).collect();
        for file in &mut files {
            let path = crate::paths::absolute(&file.path);
            file.is_chosen = chosen.iter().any(|chosen| path.starts_with(chosen));
            add_modules(&options.modules, file);
        }
        let tree = walk::walk(&files, &options.modules);
        let parsed = parsed(&files, &tree, workspace);
        if workspace.is_lasting() {
            report.indexes.push((root.clone(), Index::read(&files, &tree, &parsed)));
        }
        let findings = findings(options, &settings.own, (files.as_slice(), &tree, parsed.as_slice()))?;
        report.own.extend(settings.own.iter().map(|own| own.rule));
        let is_wanted = |finding: &Finding| {
            files.get(finding.file).is_some_and(|file| {
                let path = below(&crate::paths::absolute(&file.path));
                file.is_chosen && !settings.skips(finding.rule, &path) && !suppress::is_suppressed(file, finding)
            })
        };
        let mut findings: Vec<Finding> = findings.into_iter().filter(is_wanted).collect();
        let first = report.files.len();
        findings.iter_mut().for_each(|finding| finding.file += first);
        report.findings.append(&mut findings);
        report.files.append(&mut files);
    }
    let chosen = report.files.iter().filter(|file| file.is_chosen);
    let chosen: HashSet<PathBuf> = chosen.map(|file| crate::paths::absolute(&file.path)).collect();
    let is_unplaced =
        |problem: &&Problem| !chosen.contains(&crate::paths::absolute(Path::new(&problem.span.source.name)));
    report.unplaced = options.inventory.problems.iter().filter(is_unplaced).cloned().collect();
    // An alias of YAML has the findings of its anchor.
    let key = |finding: &Finding| (finding.file, finding.place, finding.rule.id, finding.message.clone());
    report.findings.sort_by_key(key);
    report.findings.dedup_by_key(|finding| key(finding));
    Ok(report)
}

/// Makes the modules and actions in `library/` and `action_plugins/` of the project and its roles known.
fn add_modules(modules: &Modules, file: &SourceFile) {
    let path = crate::paths::absolute(&file.path);
    if file.path.extension().is_some_and(|extension| extension == "py") {
        let library = path.ancestors().find(|folder| folder.ends_with("library") || folder.ends_with("action_plugins"));
        if let Some(folder) = library.and_then(Path::parent) {
            modules.add_folder(folder);
        }
    }
}

fn findings<'p>(
    options: &'p Options,
    own: &[OwnRule],
    (files, tree, parsed): (&'p [SourceFile], &'p walk::Tree<'p>, &'p [Parsed<'p>]),
) -> Result<Vec<Finding>> {
    let of_inventory = files.iter().map(|file| (crate::paths::absolute(&file.path), file.index));
    let inventory_files = of_inventory.filter(|(path, _)| options.inventory.files.contains(path)).collect();
    let inventory = options.inventory.inventory.as_ref();
    let mut names = Names::read(files, tree, inventory, &inventory_files);
    for text in parsed {
        if let Ok(uses) = &*text.uses {
            names.note(uses, text.form);
        }
    }
    let roles: BTreeSet<&Path> = files.iter().filter_map(|file| file.role.as_deref()).collect();
    let roles: Vec<&Path> = roles.into_iter().collect();
    let context = Context {
        files,
        roles: &roles,
        tree,
        names: &names,
        parsed,
        modules: &options.modules,
        roles_path: &options.roles_path,
        inventory,
        problems: &options.inventory.problems,
        inventory_files: &inventory_files,
    };
    let mut findings = Vec::new();
    CHECKS.iter().for_each(|check| check(&context, &mut findings));
    findings.append(&mut own::check(&context, own)?);
    // Several projects may have rules of one name.
    let has = |rules: &[&Rule], rule: &Rule| rules.iter().any(|known| known.id == rule.id);
    let is_chosen = |rule: &Rule| (options.rules.is_empty() || has(&options.rules, rule)) && !has(&options.skip, rule);
    findings.retain(|finding| is_chosen(finding.rule));
    Ok(findings)
}

/// Parses every text of the project.
fn parsed<'p>(files: &'p [SourceFile], tree: &'p walk::Tree<'p>, workspace: &mut Workspace) -> Vec<Parsed<'p>> {
    let values = tree.texts.iter().map(|text| Parsed {
        file: text.file,
        node: Some(text.node),
        form: text.form,
        task_line: text.task_line,
        uses: workspace.uses(text.node.as_str().unwrap_or_default(), text.form),
    });
    let mut parsed: Vec<Parsed<'p>> = values.collect();
    let with_own_syntax = templates_with_own_syntax(tree);
    let is_usual = |file: &&SourceFile| {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy();
        file.kind == Kind::Template && !with_own_syntax.iter().any(|own| own.ends_with(&*name))
    };
    let templates = files.iter().filter(is_usual).map(|file| Parsed {
        file,
        node: None,
        form: Form::File,
        task_line: None,
        uses: workspace.uses(file.text(), Form::File),
    });
    parsed.extend(templates);
    parsed
}

/// Templates for which a task sets other delimiters.
fn templates_with_own_syntax(tree: &walk::Tree<'_>) -> Vec<String> {
    let actions = tree.tasks.iter().filter_map(|task| task.action.as_ref());
    let own = actions.filter(|action| action.args.keys().any(|key| key.to_text().ends_with("_string")));
    own.filter_map(|action| action.args.get("src")?.as_str().map(str::to_owned)).collect()
}

impl Report {
    /// Number of files that were checked.
    pub fn checked(&self) -> usize {
        self.files.iter().filter(|file| file.is_chosen && file.kind != Kind::Text).count()
    }

    /// Number of findings with a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Drops findings below a severity.
    pub fn keep_from(&mut self, least: Severity) {
        self.findings.retain(|finding| finding.severity >= least);
    }

    /// Corrects files in place, and returns the number of corrections and of changed files.
    pub fn fix(&self) -> Result<(usize, usize)> {
        let (mut corrections, mut changed) = (0, 0);
        for (index, file) in self.files.iter().enumerate() {
            let of_file = |finding: &&Finding| finding.file == index && finding.edit.is_some();
            let findings: Vec<&Finding> = self.findings.iter().filter(of_file).collect();
            if findings.is_empty() {
                continue;
            }
            if fix::write(file, &fix::edited(file.text(), &findings))? {
                corrections += findings.len();
                changed += 1;
            }
        }
        Ok((corrections, changed))
    }

    /// Findings of a file, given by its absolute path, with their ranges in bytes, and whether it is not valid YAML.
    pub fn of_file(&self, path: &Path) -> (Vec<(Finding, Range<usize>)>, bool) {
        let mut files = self.files.iter().enumerate();
        let Some((index, file)) = files.find(|(_, file)| crate::paths::absolute(&file.path) == path) else {
            return (Vec::new(), false);
        };
        let ranges = range::Ranges::new(file);
        let of_file = self.findings.iter().filter(|finding| finding.file == index);
        (of_file.map(|finding| (finding.clone(), ranges.of(finding))).collect(), file.error.is_some())
    }

    /// Problems of the inventory in files that are not reported on.
    pub fn unplaced(&self) -> &[Problem] {
        &self.unplaced
    }

    /// Names of each project by its directory; empty unless the workspace lasts.
    pub fn take_indexes(&mut self) -> Vec<(PathBuf, Index)> {
        std::mem::take(&mut self.indexes)
    }

    /// The findings in a format.
    pub fn render(&self, format: Format) -> String {
        report::render(format, &self.files, &self.findings, &self.own)
    }
}
