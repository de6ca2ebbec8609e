//! The inventory of a check: its files, its problems, and its groups and hosts. No script and no plugin is started.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_inventory::{Inventory, LoadOptions, Problem, Warning};

use crate::error::{Error, Result};

/// Texts that replace files, by absolute path.
pub type Texts = Arc<HashMap<PathBuf, Arc<str>>>;

/// Maximum depth of directories that are searched for inventories.
const DEEPEST: usize = 8;

/// An inventory that was read without running anything.
#[derive(Debug, Default)]
pub struct Inventoried {
    /// Groups and hosts; `None` if some are unknown: a program would make them, or a source cannot be read.
    pub inventory: Option<Inventory>,
    /// Absolute paths of its files.
    pub files: BTreeSet<PathBuf>,
    /// Problems at their positions.
    pub problems: Vec<Problem>,
    /// Other problems, as sentences.
    pub warnings: Vec<String>,
}

impl Inventoried {
    /// Reads sources without running programs. If a script or plugin adds to the inventory, its groups and hosts are
    /// unknown.
    pub fn read(sources: &[String], texts: &Texts) -> Result<Inventoried> {
        let mut files = BTreeSet::new();
        let mut program = None;
        for source in sources {
            program = program.or(files_of(Path::new(source), texts, 0, Named::Given, &mut files));
        }
        let mut inventoried = Inventoried { files, ..Inventoried::default() };
        if let Some(program) = program {
            let name = program.display();
            inventoried.warnings.push(format!(
                "{name} is not started, so groups and hosts are unknown and names of them are not checked"
            ));
            return Ok(inventoried);
        }
        let options = LoadOptions { keep_places: true, texts: Arc::clone(texts), ..LoadOptions::default() };
        let (inventory, warnings) = match load(sources, options)? {
            Ok(Some((inventory, warnings))) => (Some(inventory), warnings),
            Ok(None) => (None, Vec::new()),
            Err(windlass_inventory::Error::NoInventory { reasons })
                if reasons.iter().any(|reason| reason.problems().is_some()) =>
            {
                (None, reasons)
            }
            Err(error) => return Err(error.into()),
        };
        let is_whole = !warnings.iter().any(|warning| matches!(warning, Warning::Unparsed { .. }));
        for warning in warnings {
            match warning.problems() {
                Some(problems) => inventoried.problems.extend(problems),
                None => inventoried.warnings.push(warning.to_string()),
            }
        }
        inventoried.inventory = inventory.filter(|_| is_whole);
        Ok(inventoried)
    }
}

/// An inventory with the warnings about it.
type Loaded = std::result::Result<Option<(Inventory, Vec<Warning>)>, windlass_inventory::Error>;

/// Loads an inventory by the kinds of sources that start no program; `None` without sources.
pub fn load(sources: &[String], options: LoadOptions) -> Result<Loaded> {
    if sources.is_empty() {
        return Ok(Ok(None));
    }
    let missing = sources.iter().find(|source| !source.contains(',') && !Path::new(source).exists());
    if let Some(source) = missing {
        return Err(Error::new(format!("the inventory {source} does not exist")));
    }
    let enabled = ["host_list", "windlass.group", "yaml", "ini", "toml"].map(str::to_owned).to_vec();
    let options = LoadOptions { enabled, nothing_is_error: true, ..options };
    Ok(Inventory::load(sources, &options).map(Some))
}

/// How an inventory source is named.
#[derive(Clone, Copy, PartialEq)]
enum Named {
    Given,
    /// Named by a source that includes it. An included source does not include others.
    Included,
}

/// Adds the files of a source. Returns the first one that is a script, or that configures an inventory plugin.
fn files_of(path: &Path, texts: &Texts, depth: usize, named: Named, files: &mut BTreeSet<PathBuf>) -> Option<PathBuf> {
    let metadata = path.metadata().ok()?;
    if metadata.is_dir() && depth < DEEPEST {
        let mut entries: Vec<PathBuf> = path.read_dir().ok()?.flatten().map(|entry| entry.path()).collect();
        entries.retain(|entry| !entry.ends_with("group_vars") && !entry.ends_with("host_vars"));
        entries.sort();
        let mut programs = entries.iter().filter_map(|entry| files_of(entry, texts, depth + 1, named, files));
        let first = programs.next();
        programs.for_each(drop);
        return first;
    }
    if !metadata.is_file() {
        return None;
    }
    let absolute = crate::paths::absolute(path);
    let text = match texts.get(&absolute) {
        Some(text) => text.to_string(),
        None => windlass_bounds::read_text(path).unwrap_or_default(),
    };
    files.insert(absolute);
    if metadata.permissions().mode() & 0o111 != 0 {
        return Some(path.to_owned());
    }
    if let Some(included) = windlass_inventory::sources_included_by(path, &text) {
        let mut first = None;
        for source in included.iter().filter(|_| named == Named::Given) {
            first = first.or(files_of(Path::new(source), texts, depth, Named::Included, files));
        }
        return first;
    }
    let is_program = text.starts_with("#!") || text.lines().any(|line| line.starts_with("plugin:"));
    is_program.then(|| path.to_owned())
}
