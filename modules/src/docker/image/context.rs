//! The build context: files of a folder, without the exclusions in `.dockerignore`.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Seek},
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use crate::{
    Failure,
    files::{
        glob,
        scratch::Scratch,
        way::{self, Link, Place, Purpose, handle},
    },
    process::reason,
};

/// A tar file of the folder, and the name of the Dockerfile in it. The scratch directory keeps the file alive.
pub(super) struct Context {
    pub(super) file: File,
    pub(super) dockerfile: Option<String>,
    _place: Scratch,
}

/// Packs a folder.
pub(super) fn pack(root: &Path, dockerfile: Option<&str>) -> Result<Context, Failure> {
    let place = Scratch::new()?;
    let failed = |error: &io::Error| {
        Failure::new(format!("The build context {} could not be packed: {}.", root.display(), reason(error)))
    };
    let ignore = match way::read_text(&root.join(".dockerignore")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(&error)),
    };
    let mut patterns: Vec<Pattern> = ignore
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(Pattern::parse)
        .collect();
    let outside = dockerfile.and_then(|name| outside_of(root, name));
    let name = match (&outside, dockerfile) {
        (Some(_), _) => {
            Some(format!(".dockerfile.{}", crate::files::scratch::random_name().map_err(|error| failed(&error))?))
        }
        (None, Some(name)) => Some(relative(root, name)),
        (None, None) => None,
    };
    // The engine needs these two files regardless of exclusions.
    patterns.extend(Pattern::parse(&format!("!{}", name.as_deref().unwrap_or("Dockerfile"))));
    patterns.extend(Pattern::parse("!.dockerignore"));
    let pack = || -> io::Result<File> {
        let file = File::options().read(true).write(true).create_new(true).open(place.path().join("context.tar"))?;
        let mut builder = tar::Builder::new(io::BufWriter::new(file));
        builder.follow_symlinks(false);
        walk(root, Path::new(""), &patterns, &mut builder)?;
        if let (Some(path), Some(name)) = (&outside, &name) {
            builder.append_file(name, &mut way::open(path)?)?;
        }
        let mut file = builder.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(file)
    };
    let file = pack().map_err(|error| failed(&error))?;
    Ok(Context { file, dockerfile: name, _place: place })
}

/// The absolute path of a Dockerfile outside the folder.
fn outside_of(root: &Path, name: &str) -> Option<PathBuf> {
    let path = plain(&root.join(name));
    (!path.starts_with(plain(root))).then_some(path)
}

fn relative(root: &Path, name: &str) -> String {
    let path = plain(&root.join(name));
    path.strip_prefix(plain(root)).unwrap_or(&path).to_string_lossy().into_owned()
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            part => result.push(part),
        }
    }
    result
}

fn walk(
    root: &Path,
    below: &Path,
    patterns: &[Pattern],
    builder: &mut tar::Builder<io::BufWriter<File>>,
) -> io::Result<()> {
    // Opened by the rule of `way`, because the owner of a folder may replace its entries while they are packed.
    let follow = Link::follow_if(below.as_os_str().is_empty());
    let folder = Place::of(&root.join(below), follow, Purpose::Read)?;
    let mut entries: Vec<_> = std::fs::read_dir(handle(folder.existing()?))?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = below.join(entry.file_name());
        let place = Place::of(&root.join(&name), Link::NoFollow, Purpose::Read)?;
        let (node, found) = (place.existing()?, place.metadata()?);
        let kind = found.file_type();
        let ignored = is_ignored(patterns, &name.to_string_lossy());
        let named =
            || patterns.iter().any(|pattern| pattern.exception && pattern.text.starts_with(&*name.to_string_lossy()));
        if kind.is_dir() {
            if !ignored {
                builder.append_dir(&name, handle(node))?;
            }
            if !ignored || named() {
                walk(root, &name, patterns, builder)?;
            }
        } else if !ignored && kind.is_file() {
            builder.append_file(&name, &mut place.open()?)?;
        } else if !ignored && kind.is_symlink() {
            let target = rustix::fs::readlinkat(node, c"", Vec::new())?;
            let mut header = tar::Header::new_gnu();
            header.set_metadata(&found);
            builder.append_link(&mut header, &name, OsStr::from_bytes(target.as_bytes()))?;
        }
    }
    Ok(())
}

/// A line of `.dockerignore`.
#[derive(Debug)]
struct Pattern {
    exception: bool,
    text: String,
    depth: usize,
}

impl Pattern {
    fn parse(line: &str) -> Option<Pattern> {
        let (exception, rest) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let text = plain(Path::new(rest.trim().trim_start_matches('/'))).to_string_lossy().into_owned();
        let depth = text.split('/').count();
        (!text.is_empty()).then_some(Pattern { exception, text, depth })
    }
}

/// Whether a path is ignored. The last pattern that matches the path or a parent folder decides.
fn is_ignored(patterns: &[Pattern], path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let mut ignored = false;
    for pattern in patterns {
        let above = parts.get(..pattern.depth).filter(|_| pattern.depth < parts.len()).map(|parts| parts.join("/"));
        if glob::matches(&pattern.text, path) || above.is_some_and(|above| glob::matches(&pattern.text, &above)) {
            ignored = !pattern.exception;
        }
    }
    ignored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dockerignored_files_not_packed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["Dockerfile", "a.txt", "secret.key", "target/x", "target/keep/y", ".dockerignore"] {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        std::fs::write(root.join(".dockerignore"), "# secrets\n*.key\ntarget\n!target/keep\nDockerfile\n").unwrap();
        let names = |dockerfile: Option<&str>| {
            let mut context = pack(root, dockerfile).unwrap();
            let mut names: Vec<String> = tar::Archive::new(&mut context.file)
                .entries()
                .unwrap()
                .map(|entry| entry.unwrap().path().unwrap().to_string_lossy().trim_end_matches('/').to_owned())
                .collect();
            names.sort();
            (names, context.dockerfile)
        };
        let (packed, _) = names(None);
        assert_eq!(packed, [".dockerignore", "Dockerfile", "a.txt", "target/keep", "target/keep/y"]);
        assert_eq!(names(Some("./a.txt")).1.as_deref(), Some("a.txt"));
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        let (packed, dockerfile) = names(Some(elsewhere.path().to_str().unwrap()));
        assert!(dockerfile.unwrap().starts_with(".dockerfile."));
        assert!(packed.iter().any(|name| name.starts_with(".dockerfile.")), "{packed:?}");
    }
}
