//! Reads the content of an image's tar file.

use std::{io::Read, path::Path};

use serde_json::Value;

use crate::files::way;

/// Reason why the file must be rewritten; `None` if it already contains this image under this name.
pub(super) fn outdated(path: &Path, name: &str, id: &str) -> Option<String> {
    if !path.is_file() {
        return Some("since none present".to_owned());
    }
    let Some((hash, names)) = held(path) else { return Some("overwriting an unreadable archive file".to_owned()) };
    if id == format!("sha256:{hash}") && names == [name] {
        return None;
    }
    Some(format!("overwriting archive with image {hash} named {}", names.join(", ")))
}

/// Hash and names of the single image in a file; `None` if the file is not such an archive.
fn held(path: &Path) -> Option<(String, Vec<String>)> {
    let mut archive = tar::Archive::new(way::open(path).ok()?);
    for entry in archive.entries().ok()? {
        let entry = entry.ok()?;
        if entry.path().ok()?.as_ref() != Path::new("manifest.json") {
            continue;
        }
        let mut text = String::new();
        entry.take(16 << 20).read_to_string(&mut text).ok()?;
        let manifest: Value = serde_json::from_str(&text).ok()?;
        let [image] = manifest.as_array()?.as_slice() else { return None };
        let config = image["Config"].as_str()?.trim_end_matches(".json");
        let hash = config.strip_prefix("blobs/sha256/").unwrap_or(config);
        let names = image.get("RepoTags")?.as_array().into_iter().flatten().filter_map(Value::as_str);
        return Some((hash.to_owned(), names.map(str::to_owned).collect()));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn image_file_compared_by_name_and_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.tar");
        assert_eq!(outdated(&path, "a:1", "sha256:00").unwrap(), "since none present");
        std::fs::write(&path, "no archive").unwrap();
        assert_eq!(outdated(&path, "a:1", "sha256:00").unwrap(), "overwriting an unreadable archive file");
        let manifest = br#"[{"Config":"blobs/sha256/00","RepoTags":["a:1"]}]"#;
        let mut builder = tar::Builder::new(File::create(&path).unwrap());
        let mut header = tar::Header::new_gnu();
        header.set_size(manifest.len() as u64);
        builder.append_data(&mut header, "manifest.json", &manifest[..]).unwrap();
        builder.finish().unwrap();
        assert_eq!(outdated(&path, "a:1", "sha256:00"), None);
        assert_eq!(outdated(&path, "a:2", "sha256:00").unwrap(), "overwriting archive with image 00 named a:1");
    }
}
