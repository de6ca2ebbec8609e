//! Requirements: source, version and name of roles.

use std::fmt;
use std::path::Path;

use windlass_yaml::{Node, Span};

use super::collection;
use crate::error::{Error, Result};
use crate::playbook::Files;

/// A role to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Requirement {
    /// Name to install it under.
    pub(super) name: String,
    /// A repository, an archive (a path or URL), or a name on a Galaxy server.
    pub(super) src: String,
    /// `git` for a repository.
    pub(super) scm: Option<String>,
    /// A branch, tag or commit; for an archive a mere label.
    pub(super) version: Option<String>,
}

/// Contents of a requirements file.
#[derive(Debug, Default)]
pub(super) struct Requirements {
    pub(super) roles: Vec<Requirement>,
    pub(super) collections: Vec<collection::Requirement>,
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(formatter, "{} ({version})", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}

impl Requirement {
    /// Parses `SOURCE[,VERSION[,NAME]]`.
    pub(super) fn of_word(word: &str) -> Result<Requirement> {
        let parts: Vec<&str> = word.trim().split(',').collect();
        let (src, version, name) = match parts.as_slice() {
            [src] => (*src, None, None),
            [src, version] => (*src, Some(*version), None),
            [src, version, name] => (*src, Some(*version), Some(*name)),
            _ => {
                return Err(Error::new(format!(
                    "Invalid role line ({word}). Proper format is 'role_name[,version[,name]]'"
                )));
            }
        };
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Ok(Requirement::new(src, None, version.and_then(given), name.and_then(given)))
    }

    fn new(src: &str, scm: Option<String>, version: Option<String>, name: Option<String>) -> Requirement {
        let name = name.unwrap_or_else(|| name_in(src));
        let (scm, src) = match src.split_once('+') {
            Some((prefix, rest)) if scm.is_none() && rest.contains([':', '/']) => (Some(prefix.to_owned()), rest),
            _ => (scm, src),
        };
        Requirement { name, src: src.to_owned(), scm, version }
    }

    /// Parses an entry of a requirements file or of a role's dependencies.
    pub(super) fn of_node(node: &Node) -> Result<Requirement> {
        if let Some(word) = node.as_str() {
            return Requirement::of_word(word);
        }
        let Some(map) = node.as_map() else {
            return Err(Error::parse("a required role must be a name, or a mapping with `src` or `name`", &node.span));
        };
        let field = |name: &str| map.get(name).and_then(Node::scalar_text).filter(|text| !text.is_empty());
        let name = field("role").or_else(|| field("name"));
        let Some(mut src) = field("src").or_else(|| name.clone()) else {
            return Err(Error::parse("Must specify name or src for role", &node.span));
        };
        let scm = field("scm");
        // A web page of GitHub stands for its repository.
        let is_page = src.starts_with("http") && src.contains("github.com") && !src.contains('+');
        if scm.is_none() && is_page && !src.ends_with(".tar.gz") {
            src = format!("git+{src}");
        }
        Ok(Requirement::new(&src, scm, field("version"), name))
    }

    /// Whether the requirement names a role of the project rather than something to download.
    pub(super) fn is_local(&self) -> bool {
        self.scm.is_none() && !self.name.contains('.') && !self.src.contains('.')
    }
}

/// Name of the role in a source.
fn name_in(src: &str) -> String {
    let is_address = src.contains("://") || src.contains('@');
    let is_archive = [".tar.gz", ".tgz", ".tar"].iter().any(|ending| src.ends_with(ending));
    if !is_address && !is_archive {
        return src.to_owned();
    }
    let last = src.rsplit('/').next().unwrap_or_default();
    let endings = [".git", ".tar.gz", ".tgz", ".tar"];
    endings.iter().find_map(|ending| last.strip_suffix(ending)).unwrap_or(last).to_owned()
}

/// Reads a requirements file: a list of roles, or a mapping with `roles` and `collections`.
pub(super) fn read(path: &Path, files: &Files) -> Result<Requirements> {
    if !path.exists() {
        return Err(Error::new(format!("The requirements file '{}' does not exist.", path.display())));
    }
    let node = files.yaml(path).map_err(Error::generic)?;
    if node.is_null() {
        return Err(Error::new(format!("No requirements found in file '{}'", path.display())));
    }
    if node.as_list().is_some() {
        return Ok(Requirements { roles: roles_in(&node, path, files)?, collections: Vec::new() });
    }
    let Some(map) = node.as_map() else {
        return Err(wrong(
            "a requirements file must be a list of roles, or a mapping with `roles` and `collections`",
            &node.span,
        ));
    };
    let mut unknown: Vec<&str> = map.keys().filter_map(|key| key.as_str()).collect();
    unknown.retain(|key| !["roles", "collections"].contains(key));
    if !unknown.is_empty() {
        return Err(Error::new(format!(
            "Expecting only 'roles' and/or 'collections' as base keys in the requirements file. Found: {}",
            unknown.join(", ")
        )));
    }
    let roles = match map.get("roles").filter(|roles| !roles.is_null()) {
        Some(roles) => roles_in(roles, path, files)?,
        None => Vec::new(),
    };
    let collections = match map.get("collections").filter(|collections| !collections.is_null()) {
        Some(collections) => {
            let listed =
                collections.as_list().ok_or_else(|| wrong("expected a list of collections", &collections.span))?;
            let listed = listed.iter().map(collection::Requirement::of_node);
            listed.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()
        }
        None => Vec::new(),
    };
    Ok(Requirements { roles, collections })
}

fn roles_in(node: &Node, path: &Path, files: &Files) -> Result<Vec<Requirement>> {
    let Some(items) = node.as_list() else {
        return Err(wrong("expected a list of roles", &node.span));
    };
    let mut found = Vec::new();
    for item in items {
        match item.as_map().and_then(|map| map.get("include")).and_then(Node::scalar_text) {
            None => found.push(Requirement::of_node(item).map_err(Error::generic)?),
            Some(name) => {
                let included = Path::new(&name);
                if !included.is_file() {
                    return Err(Error::new(format!(
                        "Failed to find include requirements file '{name}' in '{}'",
                        path.display()
                    )));
                }
                let list = files.yaml(included).map_err(Error::generic)?;
                for item in list.as_list().ok_or_else(|| wrong("expected a list of roles", &list.span))? {
                    found.push(Requirement::of_node(item).map_err(Error::generic)?);
                }
            }
        }
    }
    Ok(found)
}

fn wrong(message: &str, span: &Span) -> Error {
    Error::parse(message, span).generic()
}

/// Dependencies of a role from its metadata and requirements; `None` without metadata.
pub(super) fn dependencies(role: &Path, files: &Files) -> Result<Option<Vec<Requirement>>> {
    let first = |names: [&str; 2]| names.into_iter().map(|name| role.join(name)).find(|path| path.is_file());
    let meta = match first(["meta/main.yml", "meta/main.yaml"]) {
        Some(path) => files.yaml(&path).map_err(Error::generic)?,
        None => return Ok(None),
    };
    let Some(map) = meta.as_map().filter(|map| !map.is_empty()) else { return Ok(None) };
    let mut wanted = Vec::new();
    if let Some(listed) = map.get("dependencies").filter(|listed| !listed.is_null()) {
        let listed =
            listed.as_list().ok_or_else(|| wrong("the dependencies of a role must be a list", &listed.span))?;
        wanted.extend(listed.to_vec());
    }
    if let Some(path) = first(["meta/requirements.yml", "meta/requirements.yaml"]) {
        let listed = files.yaml(&path).map_err(Error::generic)?;
        wanted.extend(listed.as_list().unwrap_or_default().to_vec());
    }
    wanted.iter().map(|node| Requirement::of_node(node).map_err(Error::generic)).collect::<Result<_>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> (String, String, Option<String>, Option<String>) {
        let Requirement { name, src, scm, version } = Requirement::of_word(word).unwrap();
        (name, src, scm, version)
    }

    #[test]
    fn word_splits_into_source_version_and_name() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            of("git+https://x/y/role-z.git,v1"),
            ("role-z".into(), "https://x/y/role-z.git".into(), some("git"), some("v1"))
        );
        assert_eq!(
            of("https://x/z-1.0.tar.gz,1.0,z"),
            ("z".into(), "https://x/z-1.0.tar.gz".into(), None, some("1.0"))
        );
        assert_eq!(of("git+git@host:group/z.git"), ("z".into(), "git@host:group/z.git".into(), some("git"), None));
        assert_eq!(of("geerlingguy.docker"), ("geerlingguy.docker".into(), "geerlingguy.docker".into(), None, None));
        assert_eq!(of("/srv/z-1.0.tar.gz").0, "z-1.0");
        assert!(Requirement::of_word("a,b,c,d").is_err());
    }
}
