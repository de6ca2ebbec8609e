//! Rule for secret values that are not masked.
//!
//! Masking every `true`, `8080` or `localhost` would hide nothing and make the output unreadable.

/// Source of a secret, which determines whether trivial values are exempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A value of a vault or of a secret option, masked unless it is trivial.
    Value,
    /// A password, masked if it has at least [`SHORTEST`] bytes.
    Password,
}

/// Minimum length of a secret to mask, in bytes.
pub(super) const SHORTEST: usize = 4;

/// Minimum number of digits for a number to be masked.
const DIGITS: usize = 8;

/// Values too common to be secret, in lower case.
const COMMON: &[&str] = &[
    "absent",
    "admin",
    "administrator",
    "all",
    "ansible",
    "authenticated",
    "auto",
    "changed",
    "client",
    "cluster",
    "config",
    "debug",
    "default",
    "deploy",
    "development",
    "directory",
    "disabled",
    "enabled",
    "error",
    "failed",
    "false",
    "file",
    "files",
    "guest",
    "host",
    "hosts",
    "http",
    "https",
    "info",
    "json",
    "latest",
    "local",
    "localhost",
    "main",
    "master",
    "name",
    "nobody",
    "none",
    "null",
    "off",
    "password",
    "present",
    "private",
    "prod",
    "production",
    "public",
    "reloaded",
    "restarted",
    "root",
    "secret",
    "server",
    "service",
    "skipped",
    "staging",
    "started",
    "state",
    "static",
    "stopped",
    "string",
    "success",
    "system",
    "task",
    "tasks",
    "test",
    "testing",
    "text",
    "true",
    "undefined",
    "unreachable",
    "user",
    "username",
    "users",
    "value",
    "warning",
    "yaml",
];

/// Whether a secret is masked.
pub(super) fn is_masked(secret: &str, kind: Kind, is_exempt: impl Fn(&str) -> bool) -> bool {
    if secret.len() < SHORTEST {
        return false;
    }
    kind == Kind::Password || !(is_number(secret) || is_common(secret) || is_exempt(secret))
}

/// Whether a text is an address, or a number with too few digits to be secret.
fn is_number(secret: &str) -> bool {
    let digits = secret.bytes().filter(u8::is_ascii_digit).count();
    let is_plain = secret.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'_' | b':'));
    (is_plain && digits < DIGITS) || secret.parse::<std::net::IpAddr>().is_ok()
}

fn is_common(secret: &str) -> bool {
    let lower = secret.to_ascii_lowercase();
    COMMON.binary_search(&lower.as_str()).is_ok()
        || secret.bytes().all(|byte| matches!(byte, b'-' | b'=' | b'#' | b'*' | b'.' | b'_' | b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trivial_value_is_not_masked_unless_it_is_a_password() {
        let exempt = |name: &str| name == "web1";
        for trivial in ["abc", "true", "False", "8080", "-1.5", "10.0.0.1", "localhost", "web1", "root", "----"] {
            assert!(!is_masked(trivial, Kind::Value, exempt), "{trivial}");
        }
        for secret in ["hunter2", "31415926535", "localhost2", "web1!"] {
            assert!(is_masked(secret, Kind::Value, exempt), "{secret}");
        }
        assert!(is_masked("8080", Kind::Password, exempt));
        assert!(!is_masked("abc", Kind::Password, exempt));
        assert!(COMMON.is_sorted());
    }
}
