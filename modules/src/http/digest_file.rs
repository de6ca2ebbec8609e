//! Checksum files that projects publish beside their downloads.

/// Finds the checksum of a file name in the output of `sha256sum` or a BSD tool, or in a file with only a checksum.
pub(super) fn find<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let [only] = lines.as_slice()
        && !only.contains(char::is_whitespace)
    {
        return Some(only);
    }
    lines.into_iter().find_map(|line| {
        let (path, digest) = bsd(line).or_else(|| gnu(line))?;
        // A file beside its checksum file may be listed with a path.
        (path == name || path.trim_start_matches(['.', '/']) == name).then_some(digest)
    })
}

/// Parses `SHA256 (name) = digest`.
fn bsd(line: &str) -> Option<(&str, &str)> {
    let (front, digest) = line.rsplit_once('=')?;
    let (algorithm, name) = front.trim().strip_suffix(')')?.split_once('(')?;
    let one_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    (one_word(algorithm.trim()) && one_word(digest.trim())).then_some((name, digest.trim()))
}

/// Parses `digest  name`, with a star before the name in binary mode.
fn gnu(line: &str) -> Option<(&str, &str)> {
    let (digest, name) = line.split_once(char::is_whitespace)?;
    let name = name.trim_start();
    Some((name.strip_prefix('*').unwrap_or(name), digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_file_formats_parsed() {
        assert_eq!(find("abc\n", "x"), Some("abc"));
        assert_eq!(find("abc  a.tgz\ndef  b.tgz\n", "b.tgz"), Some("def"));
        assert_eq!(find("abc *a.tgz\n", "a.tgz"), Some("abc"));
        assert_eq!(find("abc  ./a.tgz\n", "a.tgz"), Some("abc"));
        assert_eq!(find("SHA256 (a.tgz) = abc\nSHA256(b.tgz)= def\n", "b.tgz"), Some("def"));
        assert_eq!(find("abc  other/a.tgz\n", "a.tgz"), None);
        assert_eq!(find("", "a"), None);
    }
}
