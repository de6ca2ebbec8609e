//! Options of one host; the first value of an option wins.

use std::time::Duration;

use super::keywords;
use crate::pattern;

/// Host key policy (`StrictHostKeyChecking`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostKeyChecking {
    /// Accepts known keys only.
    Yes,
    /// Accepts known keys only, and asks the [`crate::HostKeyUser`], if any, about unknown ones.
    Ask,
    /// Accepts and records unknown keys; refuses changed ones.
    AcceptNew,
    /// Accepts every key, but never sends a password to a host whose key has changed.
    No,
}

/// Address families to use (`AddressFamily`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressFamily {
    Any,
    V4,
    V6,
}

/// The options this client supports, with their tokens not yet replaced.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostOptions {
    pub(crate) host_name: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) user: Option<String>,
    pub(crate) identity_files: Vec<String>,
    pub(crate) certificate_files: Vec<String>,
    pub(crate) identities_only: Option<bool>,
    pub(crate) identity_agent: Option<String>,
    /// `none` is kept, because it blocks a later value.
    pub(crate) proxy_jump: Option<String>,
    /// `none` is kept, because it blocks a later value.
    pub(crate) proxy_command: Option<String>,
    pub(crate) user_known_hosts: Option<Vec<String>>,
    pub(crate) global_known_hosts: Option<Vec<String>>,
    pub(crate) host_key_checking: Option<HostKeyChecking>,
    pub(crate) host_key_alias: Option<String>,
    pub(crate) hash_known_hosts: Option<bool>,
    pub(crate) host_key_algorithms: Option<String>,
    pub(crate) kex_algorithms: Option<String>,
    pub(crate) ciphers: Option<String>,
    pub(crate) macs: Option<String>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) connection_attempts: Option<u32>,
    pub(crate) alive_interval: Option<Duration>,
    pub(crate) alive_count: Option<usize>,
    pub(crate) preferred_authentications: Option<Vec<String>>,
    pub(crate) password_authentication: Option<bool>,
    pub(crate) keyboard_interactive: Option<bool>,
    pub(crate) public_key_authentication: Option<bool>,
    pub(crate) address_family: Option<AddressFamily>,
    pub(crate) bind_address: Option<String>,
    pub(crate) rekey_limit: Option<usize>,
    /// `none` is kept, because it blocks a later value.
    pub(crate) revoked_host_keys: Option<String>,
    pub(crate) required_rsa_size: Option<u32>,
    pub(crate) ca_signature_algorithms: Option<String>,
    /// Patterns of keywords that may be unknown.
    pub(crate) ignored: Option<String>,
}

impl HostOptions {
    /// Sets one option. Skips those that this client does not support (forwardings, ControlMaster, ...), and fails for
    /// those that ssh does not have either.
    pub(crate) fn set(&mut self, keyword: &str, rest: &str, words: &[String]) -> Result<(), String> {
        let first = || first(keyword, words);
        match keyword {
            "hostname" => once(&mut self.host_name, first()?),
            "port" => once(&mut self.port, port(&first()?)?),
            "user" => once(&mut self.user, first()?),
            "identityfile" => push(&mut self.identity_files, first()?),
            "certificatefile" => push(&mut self.certificate_files, first()?),
            "identitiesonly" => once(&mut self.identities_only, boolean(keyword, &first()?)?),
            "identityagent" => once(&mut self.identity_agent, first()?),
            // The first of the two wins: a ProxyCommand blocks a later ProxyJump, and vice versa.
            "proxyjump" if self.proxy_command.is_none() => once(&mut self.proxy_jump, first()?),
            "proxycommand" if self.proxy_jump.is_none() => once(&mut self.proxy_command, rest.to_owned()),
            "proxyjump" | "proxycommand" => {}
            "userknownhostsfile" => once(&mut self.user_known_hosts, words.to_vec()),
            "globalknownhostsfile" => once(&mut self.global_known_hosts, words.to_vec()),
            "stricthostkeychecking" => once(&mut self.host_key_checking, host_key_checking(&first()?)?),
            "hostkeyalias" => once(&mut self.host_key_alias, first()?),
            "hashknownhosts" => once(&mut self.hash_known_hosts, boolean(keyword, &first()?)?),
            "hostkeyalgorithms" => once(&mut self.host_key_algorithms, first()?),
            "kexalgorithms" => once(&mut self.kex_algorithms, first()?),
            "ciphers" => once(&mut self.ciphers, first()?),
            "macs" => once(&mut self.macs, first()?),
            "connecttimeout" => {
                let text = first()?;
                if text != "none" && text != "0" {
                    once(&mut self.connect_timeout, duration(&text)?);
                }
            }
            "connectionattempts" => once(&mut self.connection_attempts, number(keyword, &first()?)?),
            "serveraliveinterval" => once(&mut self.alive_interval, duration(&first()?)?),
            "serveralivecountmax" => once(&mut self.alive_count, number(keyword, &first()?)?),
            "preferredauthentications" => {
                let list = first()?.split(',').map(str::to_owned).collect();
                once(&mut self.preferred_authentications, list);
            }
            "passwordauthentication" => once(&mut self.password_authentication, boolean(keyword, &first()?)?),
            "kbdinteractiveauthentication" | "challengeresponseauthentication" => {
                once(&mut self.keyboard_interactive, boolean(keyword, &first()?)?);
            }
            "pubkeyauthentication" => {
                // `unbound` and `host-bound` only select the extension used with the agent.
                let text = first()?.to_lowercase();
                let on = matches!(text.as_str(), "unbound" | "host-bound") || boolean(keyword, &text)?;
                once(&mut self.public_key_authentication, on);
            }
            "addressfamily" => {
                let family = match first()?.to_lowercase().as_str() {
                    "inet" => AddressFamily::V4,
                    "inet6" => AddressFamily::V6,
                    "any" => AddressFamily::Any,
                    other => return Err(format!("AddressFamily is `any`, `inet` or `inet6`, not `{other}`")),
                };
                once(&mut self.address_family, family);
            }
            "bindaddress" => once(&mut self.bind_address, first()?),
            "rekeylimit" => {
                if let Some(limit) = size(&first()?)? {
                    once(&mut self.rekey_limit, limit);
                }
            }
            "revokedhostkeys" => once(&mut self.revoked_host_keys, first()?),
            // Fedora's builds had the option under another name first.
            "requiredrsasize" | "rsaminsize" => once(&mut self.required_rsa_size, number(keyword, &first()?)?),
            "casignaturealgorithms" => once(&mut self.ca_signature_algorithms, first()?),
            "ignoreunknown" => once(&mut self.ignored, first()?),
            _ if keywords::is_known(keyword) || self.ignores(keyword) => {
                tracing::debug!(keyword, "an ssh option is not used by this client");
            }
            _ => {
                return Err(format!(
                    "ssh has no option `{keyword}`; ssh_config(5) lists them, and IgnoreUnknown permits others"
                ));
            }
        }
        Ok(())
    }

    fn ignores(&self, keyword: &str) -> bool {
        self.ignored.as_deref().is_some_and(|list| pattern::list(list.split(','), keyword) == pattern::Match::Yes)
    }
}

/// Value of an option that has one.
fn first(keyword: &str, words: &[String]) -> Result<String, String> {
    match words {
        [] => Err(format!("the option `{keyword}` has no value")),
        // As in ssh: a value that is silently ignored could be the one that protects.
        [_, second, ..] if !matches!(keyword, "proxyjump" | "rekeylimit") => {
            Err(format!("the option `{keyword}` has one value; `{second}` is too many, unless quotes join them"))
        }
        [first, ..] => Ok(first.clone()),
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|&port| port != 0).ok_or_else(|| format!("`{text}` is not a port"))
}

/// Whether an option is switched off. ssh compares this word without regard to case, except for IdentityAgent.
pub(crate) fn is_none(text: &str) -> bool {
    text.eq_ignore_ascii_case("none")
}

fn once<T>(slot: &mut Option<T>, value: T) {
    slot.get_or_insert(value);
}

fn push(list: &mut Vec<String>, value: String) {
    if !list.contains(&value) {
        list.push(value);
    }
}

fn boolean(keyword: &str, text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err(format!("the option `{keyword}` is `yes` or `no`, not `{text}`")),
    }
}

fn number<N: std::str::FromStr>(keyword: &str, text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("the option `{keyword}` is a number, not `{text}`"))
}

fn host_key_checking(text: &str) -> Result<HostKeyChecking, String> {
    match text.to_lowercase().as_str() {
        "yes" | "true" => Ok(HostKeyChecking::Yes),
        "ask" => Ok(HostKeyChecking::Ask),
        "accept-new" => Ok(HostKeyChecking::AcceptNew),
        "no" | "false" | "off" => Ok(HostKeyChecking::No),
        _ => Err(format!("StrictHostKeyChecking is `yes`, `ask`, `accept-new` or `no`, not `{text}`")),
    }
}

/// Parses a time: seconds, or numbers with the units s, m, h, d and w (sshd_config(5), TIME FORMATS).
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time such as `30` or `1m30s`");
    let mut seconds = 0;
    let mut digits = String::new();
    for character in text.chars() {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        let unit = match character.to_ascii_lowercase() {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86400,
            'w' => 604_800,
            _ => return Err(wrong()),
        };
        seconds += digits.parse::<u64>().map_err(|_| wrong())?.saturating_mul(unit);
        digits.clear();
    }
    if !digits.is_empty() {
        seconds += digits.parse::<u64>().map_err(|_| wrong())?;
    } else if text.is_empty() {
        return Err(wrong());
    }
    Ok(Duration::from_secs(seconds))
}

/// Parses bytes with the units K, M and G; `None` for `default` and `none`.
fn size(text: &str) -> Result<Option<usize>, String> {
    if matches!(text, "default" | "none") {
        return Ok(None);
    }
    let (digits, unit) = match text.to_ascii_uppercase().chars().last() {
        Some('K') => (&text[..text.len() - 1], 1 << 10),
        Some('M') => (&text[..text.len() - 1], 1 << 20),
        Some('G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let count: usize = digits.parse().map_err(|_| format!("`{text}` is not a size such as `512M`"))?;
    Ok(Some(count.saturating_mul(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_parsed() {
        assert_eq!(duration("90").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("1m30s").unwrap(), Duration::from_secs(90));
        assert!(duration("soon").is_err());
        assert_eq!(size("512M").unwrap(), Some(512 << 20));
        assert_eq!(size("default").unwrap(), None);
    }
}
