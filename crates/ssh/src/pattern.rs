//! OpenSSH's patterns: `*`, `?`, comma-separated lists and negation with `!`.

/// Result of matching a name against a list of patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// No pattern matches.
    No,
    /// A pattern matches and no negated one does.
    Yes,
    /// A negated pattern matches, which overrules every other.
    Negated,
}

/// Whether `text` matches one pattern of `*` (any run) and `?` (any one character).
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // If the text after the last `*` does not match, resume one character further on.
    let mut resume: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                resume = Some((p + 1, t));
                p += 1;
            }
            Some(&wanted) if wanted == '?' || Some(&wanted) == text.get(t) => {
                p += 1;
                t += 1;
            }
            _ => match resume {
                Some((after_star, from)) => {
                    p = after_star;
                    t = from + 1;
                    resume = Some((after_star, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|&rest| rest == '*')
}

/// Whether a name matches a pattern, ignoring case. Most patterns are plain names, and known_hosts may have thousands,
/// so these are compared directly.
fn fits(pattern: &str, name: &str) -> bool {
    let is_plain = pattern.is_ascii() && !pattern.contains(['*', '?']);
    pattern.eq_ignore_ascii_case(name) || (!is_plain && wildcard(&pattern.to_lowercase(), &name.to_lowercase()))
}

/// Matches a name, in lower case, against a list of patterns.
pub(crate) fn list<'a>(patterns: impl IntoIterator<Item = &'a str>, name: &str) -> Match {
    let mut answer = Match::No;
    for pattern in patterns {
        let (negated, pattern) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        if fits(pattern, name) {
            if negated {
                return Match::Negated;
            }
            answer = Match::Yes;
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match() {
        assert!(wildcard("web*.example.com", "web12.example.com"));
        assert!(wildcard("10.0.0.?", "10.0.0.7"));
        assert!(wildcard("*a*b", "xxaxxbxxb"));
        assert!(!wildcard("10.0.0.?", "10.0.0.17"));
        assert!(!wildcard("web*.com", "web1.org"));
        assert!(wildcard("**", ""));
    }

    #[test]
    fn a_negated_pattern_overrules() {
        assert_eq!(list(["*.example.com", "!db.example.com"], "web.example.com"), Match::Yes);
        assert_eq!(list(["*.example.com", "!db.example.com"], "DB.example.com"), Match::Negated);
        assert_eq!(list(["!db.example.com"], "web.example.com"), Match::No);
    }
}
