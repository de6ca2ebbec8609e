//! apt's source lists in the one-line format: sources.list and the files in sources.list.d.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{Failure, Host, process::Command};

/// Whether a word begins a source line.
fn is_type(word: &str) -> bool {
    matches!(word, "deb" | "deb-src")
}

/// A parsed source line, possibly commented out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) enabled: bool,
    /// Source with single blanks.
    pub(super) source: String,
}

impl Line {
    pub(super) fn parse(line: &str) -> Option<Line> {
        let line = line.trim();
        let (enabled, line) = match line.strip_prefix('#') {
            Some(rest) => (false, rest),
            None => (true, line),
        };
        let source = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = source.split_whitespace().collect();
        let valid = words.first().is_some_and(|first| is_type(first));
        valid.then(|| Line { enabled, source: words.join(" ") })
    }
}

/// Source files by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sources {
    pub(super) files: BTreeMap<PathBuf, String>,
}

/// Locations of apt's sources.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) list: PathBuf,
    pub(super) parts: PathBuf,
}

impl Places {
    /// The locations from apt's configuration.
    pub(super) fn of(host: &Host) -> Result<Places, Failure> {
        let command = Command::new("apt-config").plain_locale().args([
            "shell",
            "list",
            "Dir::Etc::sourcelist/f",
            "parts",
            "Dir::Etc::sourceparts/d",
        ]);
        let text = command.check_run(host)?.stdout_text();
        let value = |name: &str, usual: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            PathBuf::from(line.map_or(usual, |line| line.trim_matches('\'')))
        };
        Ok(Places { list: value("list", "/etc/apt/sources.list"), parts: value("parts", "/etc/apt/sources.list.d/") })
    }

    /// The path of a file name: `x.list` in the folder, or a path.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        if name.contains('/') { PathBuf::from(name) } else { self.parts.join(name) }
    }
}

impl Sources {
    pub(super) fn read(places: &Places) -> Sources {
        let mut paths = vec![places.list.clone()];
        let entries = std::fs::read_dir(&places.parts).into_iter().flatten().flatten();
        paths
            .extend(entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ext| ext == "list")));
        let read = |path: PathBuf| Some((path.clone(), std::fs::read_to_string(path).ok()?));
        Sources { files: paths.into_iter().filter_map(read).collect() }
    }

    fn each(&self) -> impl Iterator<Item = (&Path, &str, Line)> {
        self.files
            .iter()
            .flat_map(|(path, text)| text.lines().filter_map(|line| Some((path.as_path(), line, Line::parse(line)?))))
    }

    /// Whether an active line has this source.
    pub(super) fn has(&self, source: &str) -> bool {
        self.each().any(|(_, _, line)| line.enabled && line.source == source)
    }

    /// Adds a source to a file, or uncomments an existing line.
    pub(super) fn add(&mut self, source: &str, file: &Path) {
        if self.has(source) {
            return;
        }
        let known = self.each().find(|(_, _, line)| line.source == source);
        if let Some((path, line)) = known.map(|(path, line, _)| (path.to_owned(), line.to_owned())) {
            if let Some(text) = self.files.get_mut(&path) {
                *text =
                    lines(text, |found| if found == line { Some(source.to_owned()) } else { Some(found.to_owned()) });
            }
            return;
        }
        let text = self.files.entry(file.to_owned()).or_default();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(source);
        text.push('\n');
    }

    /// Removes a source from all files. Files that become empty are removed.
    pub(super) fn remove(&mut self, source: &str) {
        for text in self.files.values_mut() {
            let goes = |found: &str| Line::parse(found).is_some_and(|line| line.enabled && line.source == source);
            if text.lines().any(goes) {
                *text = lines(text, |found| (!goes(found)).then(|| found.to_owned()));
            }
        }
        self.files.retain(|_, text| !text.is_empty());
    }
}

fn lines(text: &str, keep: impl Fn(&str) -> Option<String>) -> String {
    text.lines().filter_map(keep).map(|line| line + "\n").collect()
}

/// File name derived from the URL of a source: `http://deb.debian.org/debian` becomes `deb_debian_org_debian.list`.
pub(super) fn suggested_name(source: &str) -> String {
    let mut text = String::new();
    let mut rest = source;
    // Options in brackets are not part of the URL.
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        rest = after.split_once(']').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let place = text.split_whitespace().find(|word| !is_type(word)).unwrap_or_default();
    let place = place.split_once("://").map_or(place, |(_, place)| place);
    let place = place.split_once('@').map_or(place, |(_, place)| place);
    let words: Vec<&str> = place.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!("{}.list", words.join("_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_derived_from_url() {
        for (source, name) in [
            ("deb http://deb.debian.org/debian bookworm main", "deb_debian_org_debian.list"),
            (
                "deb [arch=amd64 signed-by=/k] https://user:word@download.docker.com/linux/debian x stable",
                "download_docker_com_linux_debian.list",
            ),
            ("deb-src file:///srv/repo ./", "srv_repo.list"),
        ] {
            assert_eq!(suggested_name(source), name);
        }
    }

    #[test]
    fn source_added_uncommented_and_removed() {
        let list = PathBuf::from("/etc/apt/sources.list");
        let mut sources = Sources::default();
        sources.files.insert(list.clone(), "# mine\ndeb  http://a  b c # why\n#deb http://x y z\n".into());
        let same = sources.clone();
        sources.add("deb http://a b c", Path::new("/new.list"));
        assert_eq!(sources, same);
        sources.add("deb http://x y z", Path::new("/new.list"));
        assert_eq!(sources.files[&list], "# mine\ndeb  http://a  b c # why\ndeb http://x y z\n");
        sources.add("deb http://new s c", Path::new("/new.list"));
        assert_eq!(sources.files[Path::new("/new.list")], "deb http://new s c\n");
        sources.remove("deb http://new s c");
        sources.remove("deb http://a b c");
        assert_eq!(sources.files.len(), 1);
        assert_eq!(sources.files[&list], "# mine\ndeb http://x y z\n");
        assert_eq!(Line::parse("deb"), Some(Line { enabled: true, source: "deb".into() }));
        assert_eq!(Line::parse("# words"), None);
    }
}
