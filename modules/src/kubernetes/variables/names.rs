//! Names of the variables that roles know, read from their files.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use windlass_yaml::{Mapping, Options, Source};

use crate::Failure;

/// Names of variables that roles know.
#[derive(Debug, Default)]
pub struct Names {
    /// Variables with a default or a specification, which the inventory may set.
    pub settable: BTreeSet<String>,
    /// Variables that the roles derive themselves.
    pub derived: BTreeSet<String>,
}

/// Deepest nesting of folders to search.
const DEPTH: usize = 6;

/// Names of the variables that the roles in and below a folder set or specify.
pub fn names_of_roles(folder: &Path) -> Result<Names, Failure> {
    let mut files = Vec::new();
    search(folder, None, DEPTH, &mut files)
        .map_err(|error| Failure::new(format!("The roles in {} cannot be listed: {error}.", folder.display())))?;
    let mut names = Names::default();
    for (path, kind) in files {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Failure::new(format!("{} cannot be read: {error}.", path.display())))?;
        let options = Options { trusted: false, ..Options::default() };
        let loaded = windlass_yaml::parse(Source::new(path.display().to_string(), text), &options)
            .map_err(|error| Failure::new(format!("{} cannot be read: {error}", path.display())))?;
        let Some(top) = loaded.documents.first().and_then(|document| document.as_map()) else { continue };
        let at_the_top = top.string_entries().map(|(name, _)| name.to_owned());
        match kind {
            // The catalog defines more variables than the roles use, so the table decides.
            _ if path.starts_with(folder.join("catalog")) => names.derived.extend(at_the_top),
            Kind::Defaults => names.settable.extend(at_the_top),
            Kind::Vars => names.derived.extend(at_the_top),
            Kind::Specification => names.settable.extend(specified(top)),
        }
    }
    Ok(names)
}

/// Kind of file that names variables.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Defaults,
    Vars,
    Specification,
}

/// Collects files that name variables. `inside` is the kind of all files in this folder.
fn search(folder: &Path, inside: Option<Kind>, depth: usize, files: &mut Vec<(PathBuf, Kind)>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            let kind = match &*name {
                "defaults" => Some(Kind::Defaults),
                "vars" => Some(Kind::Vars),
                _ => None,
            };
            if depth > 0 {
                search(&path, inside.or(kind), depth - 1, files)?;
            }
        } else if matches!(&*name, "argument_specs.yml" | "argument_specs.yaml") {
            files.push((path, Kind::Specification));
        } else if let Some(kind) = inside.filter(|_| name.ends_with(".yml") || name.ends_with(".yaml")) {
            files.push((path, kind));
        }
    }
    Ok(())
}

/// Options of all entry points of an argument specification.
fn specified(top: &Mapping) -> Vec<String> {
    let entries = top.get("argument_specs").and_then(|specs| specs.as_map());
    let options = entries.into_iter().flat_map(|entries| entries.values());
    let options = options.filter_map(|entry| entry.get("options").and_then(|options| options.as_map()));
    options.flat_map(|options| options.string_entries().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_roles_reads_defaults_vars_and_specifications() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("cluster/defaults/main/a.yml", "---\ncluster_name: x\n# nothing: else\n"),
            ("cluster/vars/main.yml", "derived_name: \"{{ cluster_name }}\"\n"),
            (
                "network/calico/meta/argument_specs.yml",
                "argument_specs:\n  install:\n    options:\n      calico_mtu: {type: int}\n",
            ),
            ("catalog/defaults/main/calico.yml", "calico_version: 3.31.7\n"),
            ("network/calico/tasks/main.yml", "- task: is_none\n"),
            ("network/calico/files/defaults.txt", "text: x\n"),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let names = names_of_roles(folder.path()).unwrap();
        assert_eq!(names.settable.iter().map(String::as_str).collect::<Vec<_>>(), ["calico_mtu", "cluster_name"]);
        assert_eq!(names.derived.iter().collect::<Vec<_>>(), ["calico_version", "derived_name"]);
        assert!(names_of_roles(&folder.path().join("missing")).unwrap_err().message.contains("cannot be listed"));
    }
}
