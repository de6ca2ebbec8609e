//! Checks the links in an archive.

use std::{
    collections::{HashMap, VecDeque},
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use crate::{
    Failure,
    files::way::{Link, Place},
    process::reason,
};

/// Maximum number of links to follow, like the kernel.
const MAX_LINKS: usize = 40;

/// The destination with all links resolved.
pub(super) fn real(dest: &Path) -> Result<PathBuf, Failure> {
    let place = Place::to_write(dest, Link::Follow).map_err(|error| {
        Failure::new(format!("Destination '{}' cannot be entered: {}.", dest.display(), reason(&error)))
    })?;
    let real = place.real();
    // Only a path with `..` differs from the kernel's name for it.
    Ok(if real.components().any(|part| part == Component::ParentDir) {
        real.canonicalize().unwrap_or_else(|_| real.to_owned())
    } else {
        real.to_owned()
    })
}

/// Refuses links that lead out of the destination. Follows each link through other links of the archive and of the
/// host, as it will resolve after unpacking.
pub(super) fn check(links: &HashMap<PathBuf, PathBuf>, dest: &Path) -> Result<(), Failure> {
    let mut names: Vec<&PathBuf> = links.keys().collect();
    names.sort();
    for name in names {
        if end_of(name, links, dest).is_some_and(|end| !end.starts_with(dest)) {
            let target = links.get(name).map(|target| target.display().to_string()).unwrap_or_default();
            return Err(Failure::new(format!(
                "The archive has the link {} to {target}, which leads out of the destination. Leave it out with exclude, or allow such links with `--absolute-names` in extra_opts.",
                name.display(),
            )));
        }
    }
    Ok(())
}

/// Target of a link of the archive; `None` for a cycle.
fn end_of(name: &Path, links: &HashMap<PathBuf, PathBuf>, dest: &Path) -> Option<PathBuf> {
    let mut here = dest.join(name.parent().unwrap_or(Path::new("")));
    let mut pending: VecDeque<Option<OsString>> = VecDeque::new();
    let mut followed = 1;
    push(links.get(name)?, &mut here, &mut pending);
    while let Some(step) = pending.pop_front() {
        let Some(name) = step else {
            here.pop();
            continue;
        };
        let next = here.join(name);
        let own = next.strip_prefix(dest).ok().and_then(|inside| links.get(inside).cloned());
        match own.or_else(|| std::fs::read_link(&next).ok()) {
            Some(_) if followed == MAX_LINKS => return None,
            Some(target) => {
                followed += 1;
                push(&target, &mut here, &mut pending);
            }
            None => here = next,
        }
    }
    Some(here)
}

fn push(target: &Path, here: &mut PathBuf, pending: &mut VecDeque<Option<OsString>>) {
    if target.is_absolute() {
        *here = PathBuf::from("/");
    }
    for part in target.components().rev() {
        match part {
            Component::Normal(name) => pending.push_front(Some(name.to_owned())),
            Component::ParentDir => pending.push_front(None),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(links: &[(&str, &str)], dest: &str) -> Result<(), Failure> {
        let links = links.iter().map(|(name, target)| (PathBuf::from(name), PathBuf::from(target))).collect();
        check(&links, Path::new(dest))
    }

    #[test]
    fn links_inside_destination_accepted_in_any_notation() {
        for (name, target) in
            [("a/b", "../c"), ("a", "b"), ("a", "/no-such/d/b"), ("a", "../d/b"), ("a", "/x/../no-such/d"), ("a", "a")]
        {
            checked(&[(name, target)], "/no-such/d").unwrap();
        }
        checked(&[("a", "/etc"), ("b", "../b")], "/").unwrap();
    }

    #[test]
    fn links_leaving_destination_refused_by_name() {
        for (name, target) in [("a/b", "../../c"), ("a", "/etc"), ("a", "/no-such/d/../etc"), ("a", "/no-such/d2")] {
            let message = checked(&[(name, target)], "/no-such/d").unwrap_err().message;
            assert!(message.contains(&format!("the link {name} to {target}")), "{message}");
        }
    }

    #[test]
    fn links_that_only_together_lead_out_are_refused() {
        let message = checked(&[("here", "."), ("out", "here/../x")], "/no-such/d").unwrap_err().message;
        assert!(message.contains("the link out to"), "{message}");
        assert!(checked(&[("a/b/s", "../.."), ("t", "a/b/s/../x")], "/no-such/d").is_err());
    }
}
