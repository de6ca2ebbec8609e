//! Users of the pages, their roles and their tokens.
//!
//! A token has 256 random bits, so a fast hash of it can be in a file that others read.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::error::{Error, Result};

/// Start of a token's hash in the configuration.
const PREFIX: &str = "sha256:";

/// Rule for names of users.
pub(super) const NAMES: &str = "use up to 64 letters, digits, `.`, `_`, `@` and `-`, and no name of a role";

/// Rights of a user. Each role has the rights of the roles before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Role {
    /// Reads the pages.
    Viewer,
    /// Starts playbooks, and cancels its own runs.
    Operator,
    /// Starts all playbooks, cancels all runs, and reads the audit trail.
    Admin,
}

impl Role {
    pub(super) const WORDS: [&str; 3] = ["viewer", "operator", "admin"];

    pub(super) fn of(word: &str) -> Option<Role> {
        [Role::Viewer, Role::Operator, Role::Admin].into_iter().find(|role| role.word() == word)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

/// A user of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) hash: [u8; 32],
}

/// A random word of 256 bits.
pub(super) fn random() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::new(format!("no token can be made: {error}")))?;
    Ok(hex::encode(bytes))
}

/// A new token, and the line of its user.
#[derive(Debug)]
pub struct Line {
    /// The token.
    pub token: String,
    /// The line for the configuration, with the hash of the token.
    pub text: String,
}

/// Makes a token for a user.
pub fn user_line(name: &str, role: Role) -> Result<Line> {
    if !is_name(name) {
        return Err(Error::usage(format!("`{name}` is not a name of a user: {NAMES}")));
    }
    let (token, hash) = new_token()?;
    let text = format!("- {{name: {name}, role: {}, token: \"{hash}\"}}", role.word());
    Ok(Line { token, text })
}

/// A new token, and its hash as the configuration has it.
fn new_token() -> Result<(String, String)> {
    let token = random()?;
    let hash = format!("{PREFIX}{}", hex::encode(hash(&token)));
    Ok((token, hash))
}

pub(super) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The hash that a configuration has for a token.
pub(super) fn hash_of(text: &str) -> Option<[u8; 32]> {
    hex::decode(text.strip_prefix(PREFIX)?).ok()?.try_into().ok()
}

/// The user with a token. Compares it with all users' tokens, in a time that depends on no token.
pub(super) fn holder<'a>(users: &'a [User], token: &str) -> Option<&'a User> {
    let given = hash(token);
    users.iter().fold(None, |found, user| if bool::from(user.hash.ct_eq(&given)) { Some(user) } else { found })
}

/// Compares two words in a time that depends on neither.
pub(super) fn is_same(given: &str, known: &str) -> bool {
    given.as_bytes().ct_eq(known.as_bytes()).into()
}

/// Whether a name may be that of a user: it is a plain word, and no role.
pub(super) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte))
        && Role::of(name).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_known_by_its_hash_alone() {
        let (token, text) = new_token().unwrap();
        let user =
            |name: &str, text: &str| User { name: name.to_owned(), role: Role::Viewer, hash: hash_of(text).unwrap() };
        let users = [user("a", &new_token().unwrap().1), user("b", &text), user("c", &new_token().unwrap().1)];
        assert_eq!(holder(&users, &token).map(|user| user.name.as_str()), Some("b"));
        for wrong in ["", &token[1..], &text, &text[7..]] {
            assert_eq!(holder(&users, wrong), None, "{wrong}");
        }
        assert!(!text.contains(&token));
    }

    #[test]
    fn only_plain_words_are_names() {
        assert!(is_name("ana") && is_name("a.b-c_d@example.com"));
        for name in ["", "admin", "viewer", "-a", "a b", "a\nb", "<b>", "ü", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn roles_are_ordered() {
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
        assert!(Role::WORDS.iter().all(|word| Role::of(word).is_some_and(|role| role.word() == *word)));
    }
}
