//! Requirements of Python packages: names (PEP 503) and version specifiers (PEP 440). Extras and markers are ignored.

use super::version::Version;

/// A package with its permitted versions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    /// Normalised name, for comparison.
    pub(super) name: String,
    /// Pairs of operator and version, such as `>=` and `1.2`.
    pub(super) versions: Vec<(String, String)>,
}

/// Normalises a name, which is independent of case, `-`, `_` and `.`.
pub(super) fn canonical(name: &str) -> String {
    let mut canonical = String::new();
    for character in name.trim().to_lowercase().chars() {
        match character {
            '-' | '_' | '.' if canonical.ends_with('-') => {}
            '-' | '_' | '.' => canonical.push('-'),
            other => canonical.push(other),
        }
    }
    canonical
}

impl Requirement {
    /// Parses `name[extra]>=1,<2`; `None` for a URL or a file.
    pub(super) fn parse(text: &str) -> Option<Requirement> {
        let text = text.split(';').next().unwrap_or(text).trim();
        let operator = |character: char| matches!(character, '=' | '<' | '>' | '!' | '~');
        let at = text.find(operator).unwrap_or(text.len());
        let (name, versions) = text.split_at(at);
        let name = name.split('[').next().unwrap_or(name).trim();
        let valid = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if !valid {
            return None;
        }
        let versions = versions.split(',').map(str::trim).filter(|part| !part.is_empty());
        let split = versions.map(|part| {
            let at = part.find(|character| !operator(character))?;
            let (operator, version) = part.split_at(at);
            (!operator.is_empty()).then(|| (operator.to_owned(), version.trim().to_owned()))
        });
        Some(Requirement { name: canonical(name), versions: split.collect::<Option<_>>()? })
    }

    /// Whether a version satisfies the whole requirement.
    pub(super) fn allows(&self, version: &str) -> bool {
        let Some(found) = Version::parse(version) else { return self.versions.is_empty() };
        self.versions.iter().all(|(operator, wanted)| {
            if operator == "===" {
                return version == wanted;
            }
            if let Some(prefix) = wanted.strip_suffix(".*") {
                let within = Version::parse(prefix).is_some_and(|prefix| found.starts_with(&prefix));
                return within == (operator != "!=");
            }
            let Some(wanted) = Version::parse(wanted) else { return false };
            match operator.as_str() {
                "==" => found.equals(&wanted),
                "!=" => !found.equals(&wanted),
                "<=" => found <= wanted,
                ">=" => found >= wanted,
                "<" => found < wanted,
                ">" => found > wanted,
                "~=" => found >= wanted && found.starts_with(&wanted.without_last()),
                _ => false,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_parsed_and_compared() {
        assert_eq!(Requirement::parse("Foo.Bar[x]").unwrap().name, "foo-bar");
        assert_eq!(Requirement::parse("git+https://x/y"), None);
        assert_eq!(Requirement::parse("./dist/a.whl"), None);
        for (requirement, version, allowed) in [
            ("a", "1", true),
            ("a==1.0", "1", true),
            ("a==1.0", "1.0+local", true),
            ("a>=1,<2", "2", false),
            ("a>=1,<2", "1.99", true),
            ("a~=1.4.2", "1.4.9", true),
            ("a~=1.4.2", "1.5", false),
            ("a==1.4.*", "1.4.9", true),
            ("a!=1.4.*", "1.4.9", false),
            ("a<2", "2.0rc1", true),
            ("a>1.0", "1.0.post1", true),
            ("a>=2.0.dev1", "2.0a1", true),
            ("a===1.0", "1", false),
        ] {
            assert_eq!(Requirement::parse(requirement).unwrap().allows(version), allowed, "{requirement} {version}");
        }
    }
}
