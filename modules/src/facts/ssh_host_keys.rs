//! Public keys of the host's SSH server.

use super::{Facts, Root};

/// `ssh_host_key_*_public`.
pub(crate) fn collect(root: &Root, facts: &mut Facts) {
    for folder in ["/etc/ssh", "/etc/openssh", "/etc"] {
        let mut found = false;
        for kind in ["dsa", "rsa", "ecdsa", "ed25519"] {
            let Some(line) = root.line(&format!("{folder}/ssh_host_{kind}_key.pub")) else { continue };
            let mut words = line.split_whitespace();
            if let (Some(key_type), Some(key)) = (words.next(), words.next()) {
                facts.set(&format!("ssh_host_key_{kind}_public"), key);
                facts.set(&format!("ssh_host_key_{kind}_public_keytype"), key_type);
                found = true;
            }
        }
        if found {
            return;
        }
    }
}
