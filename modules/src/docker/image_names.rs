//! Names of images.

use crate::Failure;

/// Registry of image names without one.
pub(super) const DEFAULT_REGISTRY: &str = "docker.io";

/// Splits an image name into name and tag or digest.
pub(super) fn split_tag(name: &str) -> (&str, Option<&str>) {
    if let Some((name, digest)) = name.rsplit_once('@') {
        return (name, Some(digest));
    }
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (name, None),
    }
}

/// Splits an image name into registry and path.
pub(super) fn split_registry(name: &str) -> Result<(&str, &str), Failure> {
    let invalid = |why: &str| Failure::new(format!("An unexpected Docker error occurred: {why}"));
    if name.contains("://") {
        return Err(invalid(&format!("Repository name cannot contain a scheme ({name})")));
    }
    let (registry, rest) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => (DEFAULT_REGISTRY, name),
    };
    if registry.starts_with('-') || registry.ends_with('-') {
        return Err(invalid(&format!("Invalid index name ({registry}). Cannot begin or end with a hyphen.")));
    }
    let registry = if registry == "index.docker.io" { DEFAULT_REGISTRY } else { registry };
    Ok((registry, rest))
}

/// Whether the name is the hash of an image.
pub(super) fn is_id(name: &str) -> bool {
    name.strip_prefix("sha256:")
        .is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether the text is a valid tag.
pub(super) fn is_tag(tag: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    tag.len() <= 128 && tag.bytes().all(allowed) && !tag.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_names_split() {
        assert_eq!(split_tag("nginx"), ("nginx", None));
        assert_eq!(split_tag("localhost:5000/app"), ("localhost:5000/app", None));
        assert_eq!(split_tag("localhost:5000/app:1.2"), ("localhost:5000/app", Some("1.2")));
        assert_eq!(split_tag("app@sha256:00"), ("app", Some("sha256:00")));
        assert_eq!(split_registry("nginx").unwrap(), ("docker.io", "nginx"));
        assert_eq!(split_registry("some/nginx").unwrap(), ("docker.io", "some/nginx"));
        assert_eq!(split_registry("index.docker.io/nginx").unwrap(), ("docker.io", "nginx"));
        assert_eq!(split_registry("localhost:5000/a/b").unwrap(), ("localhost:5000", "a/b"));
        assert!(split_registry("https://x/y").is_err());
        assert!(is_tag("v1.2_x-3") && !is_tag(".x") && !is_tag("a/b") && is_tag(""));
        assert!(is_id(&format!("sha256:{}", "0".repeat(64))) && !is_id("sha256:00"));
    }
}
