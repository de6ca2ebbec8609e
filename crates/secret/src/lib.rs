//! Passwords in memory: never printed, and zeroed on drop.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// A password or passphrase that must never be printed. `Debug` shows nothing; its memory, and that of every clone, is
/// zeroed on drop.
/// Serialising writes the text itself, because the other end of a connection needs it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps the text. A `String` is moved; borrowed text is copied.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself, for the one place that has to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The text with a line feed, as input for a prompt.
    pub fn line(&self) -> Zeroizing<Vec<u8>> {
        let mut line = Zeroizing::new(Vec::with_capacity(self.0.len() + 1));
        line.extend_from_slice(self.0.as_bytes());
        line.push(b'\n');
        line
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

impl std::hash::Hash for Secret {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_formatted_for_debugging_shows_nothing() {
        assert_eq!(format!("{:?}", Some(Secret::new("harbour"))), "Some(Secret(..))");
    }

    #[test]
    fn secret_serialised_round_trips() {
        let secret = Secret::new("it's \"a\" harbour");
        let json = serde_json::to_string(&secret).unwrap();
        assert_eq!(serde_json::from_str::<Secret>(&json).unwrap(), secret);
        assert_eq!(&**secret.line(), b"it's \"a\" harbour\n");
    }
}
