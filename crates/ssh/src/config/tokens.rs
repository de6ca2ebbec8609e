//! Expands `%h` and other tokens, `${VARIABLE}` and `~`.

use crate::account::{Account, local_host_name};

/// Values of the tokens.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    /// `%h`: name to connect to.
    pub(crate) host: String,
    /// `%n`: name as the user gave it.
    pub(crate) original: String,
    /// `%k`: name under which host keys are stored.
    pub(crate) key_alias: String,
    /// `%p`.
    pub(crate) port: u16,
    /// `%r`: remote user.
    pub(crate) user: String,
    /// `%j`: value of ProxyJump.
    pub(crate) jump: String,
    /// `%u`, `%i` and `%d`: local user.
    pub(crate) account: Account,
}

impl Tokens {
    /// Replaces percent tokens; an error names an unknown token.
    pub(crate) fn expand(&self, text: &str) -> Result<String, String> {
        let mut expanded = String::with_capacity(text.len());
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                expanded.push(character);
                continue;
            }
            match characters.next() {
                Some('%') => expanded.push('%'),
                Some('h') => expanded.push_str(&self.host),
                Some('n') => expanded.push_str(&self.original),
                Some('k') => expanded.push_str(&self.key_alias),
                Some('p') => expanded.push_str(&self.port.to_string()),
                Some('r') => expanded.push_str(&self.user),
                Some('j') => expanded.push_str(&self.jump),
                Some('u') => expanded.push_str(&self.account.name),
                Some('i') => expanded.push_str(&self.account.uid.to_string()),
                Some('d') => expanded.push_str(&self.account.home.to_string_lossy()),
                Some('l') => expanded.push_str(&local_host_name()),
                Some('L') => expanded.push_str(local_host_name().split('.').next().unwrap_or_default()),
                Some('C') => expanded.push_str(&self.connection_hash()),
                other => {
                    let token: String = other.into_iter().collect();
                    return Err(format!("the token `%{token}` in `{text}` is not known"));
                }
            }
        }
        Ok(expanded)
    }

    /// Replaces percent tokens, `${VARIABLE}` and a leading `~`, as in options that are paths.
    pub(crate) fn expand_path(&self, text: &str) -> Result<String, String> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            expanded.push_str(before);
            let Some((name, tail)) = after.split_once('}') else {
                return Err(format!("a `${{` is not closed in `{text}`"));
            };
            let value =
                std::env::var(name).map_err(|_| format!("the environment variable `{name}` in `{text}` is not set"))?;
            expanded.push_str(&value);
            rest = tail;
        }
        expanded.push_str(rest);
        let expanded = self.expand(&expanded)?;
        Ok(match expanded.strip_prefix('~') {
            Some(tail) if tail.is_empty() || tail.starts_with('/') => format!("{}{tail}", self.account.home.display()),
            _ => expanded,
        })
    }

    fn connection_hash(&self) -> String {
        use sha1::Digest as _;
        let text = format!("{}{}{}{}{}", local_host_name(), self.host, self.port, self.user, self.jump);
        sha1::Sha1::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
