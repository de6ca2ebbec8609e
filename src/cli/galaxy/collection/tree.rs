//! Sources of a collection: a directory with `galaxy.yml`.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::{Map, Value};

use super::archive::{write_file, write_manifest};
use super::manifest::{Entry, FILES, MANIFEST, Manifest, file_sha256};
use crate::cli::galaxy::state::Galaxy;
use crate::error::{Error, Result};

/// Fields of `galaxy.yml` in the order of `collection_info`.
const FIELDS: &[&str] = &[
    "namespace",
    "name",
    "version",
    "authors",
    "readme",
    "tags",
    "description",
    "license",
    "license_file",
    "dependencies",
    "repository",
    "documentation",
    "homepage",
    "issues",
];
const REQUIRED: &[&str] = &["namespace", "name", "version", "readme", "authors"];
const LISTS: &[&str] = &["authors", "tags", "license"];
/// Directories and files that are never part of a collection, as with ansible-core.
const IGNORED_FOLDERS: &[&str] = &["CVS", ".bzr", ".git", ".hg", ".svn", ".tox", "__pycache__"];
const IGNORED: &[&str] = &[MANIFEST, FILES, "galaxy.yml", "galaxy.yaml", "*.pyc", "*.retry", "tests/output"];

/// Files of a collection's sources with their manifest.
pub(super) struct Tree {
    pub(super) root: PathBuf,
    pub(super) manifest: Manifest,
    /// Kinds of the manifest's entries, in their order.
    pub(super) kinds: Vec<Kind>,
}

pub(super) enum Kind {
    Directory,
    File {
        is_executable: bool,
    },
    /// A link within the collection, to this relative path.
    Link(PathBuf),
}

/// Path of a collection's `galaxy.yml`.
pub(super) fn metadata(root: &Path) -> Option<PathBuf> {
    ["galaxy.yml", "galaxy.yaml"].iter().map(|name| root.join(name)).find(|path| path.is_file())
}

/// Reads `galaxy.yml`. Returns `collection_info` and the patterns of `build_ignore`.
pub(super) fn description(root: &Path, galaxy: &Galaxy) -> Result<(Map<String, Value>, Vec<String>)> {
    let Some(path) = metadata(root) else {
        return Err(Error::new(format!(
            "The collection galaxy.yml path '{}' does not exist.",
            root.join("galaxy.yml").display()
        )));
    };
    let node = galaxy.files.yaml(&path).map_err(Error::generic)?;
    let Value::Object(given) = node.to_json() else {
        return Err(Error::parse("galaxy.yml must be a mapping", &node.span).generic());
    };
    let shown = path.display();
    let missing: Vec<&str> = REQUIRED.iter().copied().filter(|key| !given.contains_key(*key)).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(Error::new(format!(
            "The collection galaxy.yml at '{shown}' is missing the following mandatory keys: {missing}"
        )));
    }
    if given.get("manifest").is_some_and(|directives| !directives.is_null()) {
        return Err(Error::new(format!("{shown}: `manifest` directives are not supported, only `build_ignore`")));
    }
    let known = |key: &str| FIELDS.contains(&key) || ["build_ignore", "manifest"].contains(&key);
    let unknown: Vec<&str> = given.keys().map(String::as_str).filter(|key| !known(key)).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        galaxy.printer.warning(&format!("Found unknown keys in collection galaxy.yml at '{shown}': {unknown}"));
    }
    let ignored = list(given.get("build_ignore")).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let field = |key: &&str| {
        let value = given.get(*key);
        let value = match *key {
            key if LISTS.contains(&key) => Value::Array(list(value)),
            "dependencies" => value.filter(|value| value.is_object()).cloned().unwrap_or_else(|| Map::new().into()),
            _ => value.filter(|value| value.as_str() != Some("")).cloned().unwrap_or_default(),
        };
        ((*key).to_owned(), value)
    };
    Ok((FIELDS.iter().map(field).collect(), ignored))
}

/// A list, or the one value that stands for it.
fn list(value: Option<&Value>) -> Vec<Value> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items.clone(),
        Some(one) => vec![one.clone()],
    }
}

impl Tree {
    /// Reads the sources below a directory.
    pub(super) fn read(root: &Path, galaxy: &Galaxy) -> Result<Tree> {
        let (info, ignored) = description(root, galaxy)?;
        let text = |key: &str| info.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let own_archives = format!("{}-{}-*.tar.gz", text("namespace"), text("name"));
        let ignored =
            patterns(IGNORED.iter().copied().chain(ignored.iter().map(String::as_str)).chain([&*own_archives]))?;
        let fail = |error: io::Error| Error::new(format!("{} cannot be read: {error}", root.display()));
        let canonical = root.canonicalize().map_err(fail)?;
        let mut walk = Walk { root: canonical, ignored, found: Vec::new(), galaxy };
        walk.folder(Path::new("")).map_err(fail)?;
        let (entries, kinds) = walk.found.into_iter().unzip();
        Ok(Tree { root: walk.root, manifest: Manifest::new(info, entries)?, kinds })
    }

    /// Copies the collection into an existing, empty directory.
    pub(super) fn copy(&self, to: &Path) -> io::Result<()> {
        for (entry, kind) in self.manifest.entries.iter().zip(&self.kinds) {
            let target = to.join(&entry.path);
            match kind {
                Kind::Directory => std::fs::create_dir_all(&target)?,
                Kind::Link(link) => std::os::unix::fs::symlink(link, &target)?,
                Kind::File { is_executable } => {
                    let mut content = windlass_bounds::open(self.root.join(&entry.path))?;
                    write_file(&mut content, &target, *is_executable)?;
                }
            }
        }
        write_manifest(&self.manifest, to)
    }
}

/// Compiles patterns as Python's `fnmatch` reads them: `*` also matches `/`, and braces have no meaning.
fn patterns<'a>(texts: impl Iterator<Item = &'a str>) -> Result<GlobSet> {
    let fail = |error: globset::Error| Error::new(format!("`build_ignore` of galaxy.yml: {error}"));
    let mut set = GlobSetBuilder::new();
    for text in texts {
        let text = text.trim_end_matches('/').replace('{', "[{]").replace('}', "[}]");
        set.add(GlobBuilder::new(&text).backslash_escape(false).build().map_err(fail)?);
    }
    set.build().map_err(fail)
}

struct Walk<'a> {
    root: PathBuf,
    ignored: GlobSet,
    found: Vec<(Entry, Kind)>,
    galaxy: &'a Galaxy,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path) -> io::Result<()> {
        let mut names: Vec<_> = std::fs::read_dir(self.root.join(folder))?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<_>>()?;
        names.sort();
        for name in names {
            let path = folder.join(&name);
            if self.ignored.is_match(&path) {
                continue;
            }
            let full = self.root.join(&path);
            let is_ignored_folder = IGNORED_FOLDERS.iter().any(|ignored| name == *ignored);
            match self.link(&full)? {
                Link::Outside if full.is_dir() => self.galaxy.printer.warning(&format!(
                    "Skipping '{}' as it is a symbolic link to a directory outside the collection",
                    full.display()
                )),
                Link::Inside(target) => {
                    let sha256 = if full.is_dir() { None } else { Some(file_sha256(&full)?) };
                    self.found.push((Entry { path, sha256 }, Kind::Link(target)));
                }
                _ if full.is_dir() && !is_ignored_folder => {
                    self.found.push((Entry { path: path.clone(), sha256: None }, Kind::Directory));
                    self.folder(&path)?;
                }
                _ if full.is_dir() => {}
                // The content of a linked file outside takes the link's place.
                Link::None | Link::Outside => {
                    let sha256 = Some(file_sha256(&full)?);
                    let is_executable = full.metadata()?.permissions().mode() & 0o100 != 0;
                    self.found.push((Entry { path, sha256 }, Kind::File { is_executable }));
                }
            }
        }
        Ok(())
    }

    fn link(&self, path: &Path) -> io::Result<Link> {
        if !path.is_symlink() {
            return Ok(Link::None);
        }
        let target = path.canonicalize()?;
        let (true, Some(parent)) = (target.starts_with(&self.root), path.parent()) else { return Ok(Link::Outside) };
        let parent = parent.canonicalize()?;
        let shared = parent.components().zip(target.components()).take_while(|(a, b)| a == b).count();
        let up = parent.components().skip(shared).map(|_| Component::ParentDir);
        Ok(Link::Inside(up.chain(target.components().skip(shared)).collect()))
    }
}

enum Link {
    None,
    /// The link leads to this path within the collection, relative to its directory.
    Inside(PathBuf),
    Outside,
}
