//! Rules by which sops chooses the values that it encrypts.

use regex::Regex;
use windlass_yaml::Node;

use crate::Error;

/// A rule about names. It applies to a value if the value's own name, or a name above it, matches.
pub(crate) enum Rules {
    /// Values are encrypted, except below names with this ending.
    ExceptSuffix(String),
    /// Only values below names with this ending are encrypted.
    OnlySuffix(String),
    /// Values are encrypted, except below names that match.
    ExceptRegex(Regex),
    /// Only values below names that match are encrypted.
    OnlyRegex(Regex),
}

impl Rules {
    /// The rule of a file; `None` if comments choose the values.
    pub(crate) fn of(metadata: &Node) -> Result<Option<Rules>, Error> {
        let field = |name: &str| metadata.get(name).and_then(Node::as_str).filter(|text| !text.is_empty());
        let regex = |text: &str| {
            let invalid =
                |_| Error::new(&metadata.span, format!("the rule `{text}` of sops is not a regular expression"));
            Regex::new(text).map_err(invalid)
        };
        if field("encrypted_comment_regex").or_else(|| field("unencrypted_comment_regex")).is_some() {
            return Ok(None);
        }
        Ok(Some(if let Some(suffix) = field("encrypted_suffix") {
            Rules::OnlySuffix(suffix.to_owned())
        } else if let Some(text) = field("unencrypted_regex") {
            Rules::ExceptRegex(regex(text)?)
        } else if let Some(text) = field("encrypted_regex") {
            Rules::OnlyRegex(regex(text)?)
        } else {
            Rules::ExceptSuffix(field("unencrypted_suffix").unwrap_or("_unencrypted").to_owned())
        }))
    }

    /// Whether the value with these names has to be encrypted.
    pub(crate) fn apply_to(&self, path: &[String]) -> bool {
        match self {
            Rules::ExceptSuffix(suffix) => !path.iter().any(|name| name.ends_with(suffix)),
            Rules::OnlySuffix(suffix) => path.iter().any(|name| name.ends_with(suffix)),
            Rules::ExceptRegex(regex) => !path.iter().any(|name| regex.is_match(name)),
            Rules::OnlyRegex(regex) => path.iter().any(|name| regex.is_match(name)),
        }
    }
}
