//! `extra_opts` of `unarchive`: the options of tar and unzip that have a meaning without these programs.

use crate::Failure;

/// Parsed `extra_opts`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extra {
    /// Number of leading path parts to strip.
    pub(super) strip: usize,
    /// Unpack all files into one directory.
    pub(super) flat: bool,
    /// Keep the accounts of the archive. Default: only for root.
    pub(super) same_owner: Option<bool>,
    /// Use the numeric ids of the archive instead of its names.
    pub(super) numeric_owner: bool,
    /// Keep permissions without applying the umask. Default: only for root.
    pub(super) same_permissions: Option<bool>,
    /// Leave existing files unchanged.
    pub(super) keep_old: bool,
    /// Allow links that lead out of the destination. Nothing is written through them.
    pub(super) free_links: bool,
    /// Do not restore modification times.
    pub(super) touch: bool,
    pub(super) exclude: Vec<String>,
}

const SUPPORTED: &str = "--strip-components=N, --exclude=PATTERN, --same-owner, --no-same-owner, --numeric-owner, --same-permissions, \
                         --no-same-permissions, --touch, --keep-old-files, --skip-old-files, --overwrite, --absolute-names, and for zip archives -j, -n, -o and -q";

impl Extra {
    /// Parses options of tar and unzip.
    pub(super) fn parse(words: &[&str], zip: bool) -> Result<Extra, Failure> {
        let mut extra = Extra::default();
        let mut words = words.iter().copied().filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            let (name, given) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let mut value = || {
                given
                    .or_else(|| words.next())
                    .ok_or_else(|| Failure::new(format!("The option {name} in extra_opts needs a value.")))
            };
            match name {
                "--strip-components" | "--strip" | "--strip-path" => {
                    let text = value()?;
                    extra.strip = text
                        .parse()
                        .map_err(|_| Failure::new(format!("{name} in extra_opts needs a number, not '{text}'.")))?;
                }
                "--exclude" => extra.exclude.push(value()?.to_owned()),
                "--same-owner" => extra.same_owner = Some(true),
                "--no-same-owner" => extra.same_owner = Some(false),
                "--numeric-owner" => extra.numeric_owner = true,
                "-p" | "--same-permissions" | "--preserve-permissions" => extra.same_permissions = Some(true),
                "--no-same-permissions" => extra.same_permissions = Some(false),
                "-m" | "--touch" => extra.touch = true,
                "-k" | "--keep-old-files" | "--skip-old-files" => extra.keep_old = true,
                "--absolute-names" => extra.free_links = true,
                "-P" if !zip => extra.free_links = true,
                "-o" if !zip => extra.same_owner = Some(false),
                "-n" if zip => extra.keep_old = true,
                "-j" if zip => extra.flat = true,
                "-o" | "-q" | "-qq" if zip => {}
                // Options that describe the default behaviour.
                "--overwrite"
                | "--show-transformed-names"
                | "--wildcards"
                | "--no-overwrite-dir"
                | "-v"
                | "--verbose" => {}
                other => {
                    return Err(Failure::new(format!(
                        "extra_opts has {other}, which is not supported. Supported are {SUPPORTED}."
                    )));
                }
            }
        }
        Ok(extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_options_parsed() {
        let extra = Extra::parse(&["--strip-components=2", "--exclude", "*.md", "-o"], false).unwrap();
        assert_eq!((extra.strip, extra.same_owner), (2, Some(false)));
        assert_eq!(extra.exclude, ["*.md"]);
        assert_eq!(Extra::parse(&["--strip-components", "1"], false).unwrap().strip, 1);
        assert!(Extra::parse(&["-j", "-o"], true).unwrap().flat);
    }

    #[test]
    fn unknown_options_refused_by_name() {
        let message = Extra::parse(&["--transform=s/a/b/"], false).unwrap_err().message;
        assert!(message.contains("--transform") && message.contains("--strip-components=N"), "{message}");
        assert!(Extra::parse(&["--strip-components=x"], false).is_err());
        assert!(Extra::parse(&["--exclude"], false).is_err());
        assert!(Extra::parse(&["-j"], false).is_err());
    }
}
