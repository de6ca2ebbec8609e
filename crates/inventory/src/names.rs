//! Group names that are also valid variable names.

use std::borrow::Cow;

/// Treatment of group names that are not valid variable names (`force_valid_group_names`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupNames {
    /// Keep them, with a warning.
    #[default]
    Never,
    /// Keep them.
    Ignore,
    /// Replace invalid characters with underscores, with a warning.
    Always,
    /// Replace invalid characters with underscores.
    Silently,
}

impl GroupNames {
    /// The name that a group gets.
    pub(crate) fn usable(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Always | Self::Silently if !is_variable_name(name) => Cow::Owned(safe_name(name)),
            _ => Cow::Borrowed(name),
        }
    }
}

/// Replaces characters that are invalid in variable names with underscores.
pub(crate) fn safe_name(name: &str) -> String {
    let replaced = |(index, character): (usize, char)| {
        let is_usable = character == '_' || character.is_alphanumeric();
        if is_usable && !(index == 0 && character.is_numeric()) { character } else { '_' }
    };
    name.chars().enumerate().map(replaced).collect()
}

pub(crate) fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_numeric()) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_replaced_one_by_one() {
        assert_eq!(safe_name("1a-b.c d"), "_a_b_c_d");
        assert_eq!(GroupNames::Never.usable("a-b"), "a-b");
        assert_eq!(GroupNames::Silently.usable("a-b"), "a_b");
    }
}
