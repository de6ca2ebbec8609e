//! Permissions in octal or symbolic notation.

use serde_json::Value;

use crate::Failure;

/// A parsed `mode` option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Exactly these bits.
    Bits(u32),
    /// Changes to the existing bits, such as `u=rwX,g-w`.
    Symbolic(String),
    /// The permissions of the source.
    Preserve,
}

/// Kind of file that a mode applies to; the meaning of `X` depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// A file.
    File,
    /// A directory.
    Directory,
}

impl Mode {
    /// Parses a `mode`. A text is octal or symbolic; a number is the bits themselves, as YAML reads `0644`.
    pub fn parse(value: &Value) -> Result<Mode, Failure> {
        match value {
            Value::Number(number) => number
                .as_u64()
                .and_then(|bits| u32::try_from(bits).ok())
                .filter(|bits| *bits <= 0o7777)
                .map(Mode::Bits)
                .ok_or_else(|| invalid(&number.to_string())),
            Value::String(text) if text == "preserve" => Ok(Mode::Preserve),
            Value::String(text) => match u32::from_str_radix(text.strip_prefix("0o").unwrap_or(text), 8) {
                Ok(bits) if bits <= 0o7777 => Ok(Mode::Bits(bits)),
                Ok(_) => Err(invalid(text)),
                Err(_) => {
                    symbolic(text, 0, Of::File, 0)?;
                    Ok(Mode::Symbolic(text.clone()))
                }
            },
            other => Err(invalid(&other.to_string())),
        }
    }

    /// Resulting permission bits, starting from `current`.
    pub fn bits(&self, current: u32, of: Of) -> Result<u32, Failure> {
        match self {
            Mode::Bits(bits) => Ok(*bits),
            Mode::Symbolic(text) => symbolic(text, current, of, umask()),
            Mode::Preserve => Ok(current),
        }
    }
}

fn invalid(text: &str) -> Failure {
    Failure::new(format!("mode must be in octal or symbolic form; '{text}' is neither."))
}

/// Bits of a new file or directory after applying the umask.
pub fn masked(bits: u32) -> u32 {
    bits & !umask()
}

/// The umask, read from /proc, because the system call that returns it also changes it for all threads.
pub fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

fn symbolic(text: &str, current: u32, of: Of, umask: u32) -> Result<u32, Failure> {
    let bad = || Failure::new(format!("bad symbolic permission for mode: '{text}'."));
    let mut mode = current & 0o7777;
    for clause in text.split(',') {
        let start = clause.find(['+', '-', '=']).ok_or_else(|| invalid(text))?;
        let (users, mut rest) = clause.split_at(start);
        let masked = users.is_empty();
        let users = if masked || users == "a" { "ugo" } else { users };
        if !users.chars().all(|user| "ugo".contains(user)) {
            return Err(bad());
        }
        while let Some(operator) = rest.chars().next() {
            let after = rest.get(1..).unwrap_or_default();
            let end = after.find(['+', '-', '=']).unwrap_or(after.len());
            let (permissions, next) = after.split_at(end);
            for user in users.chars() {
                let previous = mode;
                let mut bits = 0;
                for permission in permissions.chars() {
                    bits |= permission_bits(permission, user, previous, of).ok_or_else(bad)?;
                }
                if masked {
                    bits &= !umask;
                }
                mode = match operator {
                    '+' => mode | bits,
                    '-' => mode & !bits,
                    _ => (mode & !reach(user)) | bits,
                };
            }
            rest = next;
        }
    }
    Ok(mode)
}

/// The bits of a user class.
fn reach(user: char) -> u32 {
    match user {
        'u' => 0o4700,
        'g' => 0o2070,
        _ => 0o1007,
    }
}

fn permission_bits(permission: char, user: char, previous: u32, of: Of) -> Option<u32> {
    let shift = match user {
        'u' => 6,
        'g' => 3,
        _ => 0,
    };
    let class = match permission {
        'r' => 4,
        'w' => 2,
        'x' => 1,
        'X' => u32::from(of == Of::Directory || previous & 0o111 != 0),
        'u' => previous >> 6 & 7,
        'g' => previous >> 3 & 7,
        'o' => previous & 7,
        's' => return Some(reach(user) & 0o6000),
        't' => return Some(reach(user) & 0o1000),
        _ => return None,
    };
    Some(class << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str, current: u32, of: Of) -> u32 {
        symbolic(text, current, of, 0o022).unwrap()
    }

    #[test]
    fn octal_modes_parsed() {
        assert_eq!(Mode::parse(&"0644".into()).unwrap(), Mode::Bits(0o644));
        assert_eq!(Mode::parse(&"1777".into()).unwrap(), Mode::Bits(0o1777));
        assert_eq!(Mode::parse(&420.into()).unwrap(), Mode::Bits(0o644));
        assert!(Mode::parse(&"0999".into()).is_err());
        assert!(Mode::parse(&"u+q".into()).is_err());
        assert!(Mode::parse(&"".into()).is_err());
    }

    #[test]
    fn symbolic_modes_applied() {
        assert_eq!(from("u=rw,g=r,o=", 0o777, Of::File), 0o640);
        assert_eq!(from("u=rwX,g=rX,o=rX", 0o600, Of::Directory), 0o755);
        assert_eq!(from("u=rwX,go=rX", 0o600, Of::File), 0o644);
        assert_eq!(from("a+X", 0o644, Of::File), 0o644);
        assert_eq!(from("a+X", 0o744, Of::File), 0o755);
        assert_eq!(from("+w", 0o444, Of::File), 0o644);
        assert_eq!(from("g=u,o-rwx", 0o754, Of::File), 0o770);
        assert_eq!(from("u+s,g+s,o+t", 0o755, Of::Directory), 0o7755);
        assert_eq!(from("u+x-w", 0o644, Of::File), 0o544);
    }
}
