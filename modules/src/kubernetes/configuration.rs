//! Reads single values of a kubeadm configuration, line by line. Writes configurations with secrets to private files,
//! so that no process list shows them.

use std::{io::Write, os::unix::fs::OpenOptionsExt, path::PathBuf};

use crate::Failure;

/// A value at the top of a document, such as `certificatesDir`.
pub(crate) fn top_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':').and_then(scalar))
}

/// A value inside a mapping at the top of a document, such as `name` of `nodeRegistration`.
pub(crate) fn inner_value(text: &str, section: &str, key: &str) -> Option<String> {
    let mut lines = text.lines();
    loop {
        let line = lines.find(|line| line.strip_prefix(section).is_some_and(|rest| rest.starts_with(':')))?;
        let rest = line.get(section.len() + 1..).unwrap_or_default().trim();
        if let Some(flow) = rest.strip_prefix('{') {
            let found = flow.trim_end_matches('}').split(',').find_map(|pair| {
                let (name, value) = pair.split_once(':')?;
                (name.trim() == key).then(|| scalar(value)).flatten()
            });
            if found.is_some() {
                return found;
            }
            continue;
        }
        let mut block = lines
            .clone()
            .take_while(|line| line.trim().is_empty() || line.starts_with([' ', '\t']) || line.starts_with('#'));
        let indent =
            block.clone().find(|line| !line.trim().is_empty()).map_or(0, |line| line.len() - line.trim_start().len());
        let found = block.find_map(|line| {
            let own = line.len() - line.trim_start().len() == indent;
            line.trim_start().strip_prefix(key)?.strip_prefix(':').filter(|_| own).and_then(scalar)
        });
        if found.is_some() {
            return found;
        }
    }
}

fn scalar(text: &str) -> Option<String> {
    let text = text.split(" #").next().unwrap_or_default().trim();
    let bare = text.trim_matches(['"', '\'']);
    (!bare.is_empty()).then(|| bare.to_owned())
}

/// The newest configuration API version that a kubeadm release accepts without complaint.
pub(crate) fn api_version(release: &str) -> &'static str {
    let minor =
        release.trim_start_matches('v').split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok()).unwrap_or(22);
    if minor < 22 { "kubeadm.k8s.io/v1beta2" } else { "kubeadm.k8s.io/v1beta3" }
}

/// A single-use file that only its owner can read. Dropping it removes the file.
pub(crate) struct Secret {
    path: PathBuf,
}

impl Secret {
    /// Writes the file. `/run` is in memory, so the secret does not touch a disk.
    pub(crate) fn write(content: &str) -> Result<Secret, Failure> {
        let mut random = [0u8; 16];
        getrandom::fill(&mut random)
            .map_err(|error| Failure::new(format!("No random number could be had for a file name: {error}.")))?;
        let folder = ["/run", "/tmp"]
            .into_iter()
            .find(|folder| rustix::fs::access(*folder, rustix::fs::Access::WRITE_OK).is_ok());
        let path = PathBuf::from(folder.unwrap_or("/tmp")).join(format!(".windlass-{}", hex::encode(random)));
        let wrote = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(content.as_bytes()));
        let secret = Secret { path };
        wrote.map_err(|error| Failure::new(format!("{} could not be written: {error}.", secret.path.display())))?;
        Ok(secret)
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: &str = "apiVersion: kubeadm.k8s.io/v1beta2\nkind: InitConfiguration\nnodeRegistration:\n  # ours\n  name: \"node1\"\n  kubeletExtraArgs:\n    name: wrong\n---\nkind: ClusterConfiguration\ncertificatesDir: /etc/kubernetes/ssl # not pki\n";

    #[test]
    fn values_read_at_top_and_in_section() {
        assert_eq!(inner_value(INIT, "nodeRegistration", "name").as_deref(), Some("node1"));
        assert_eq!(inner_value(INIT, "nodeRegistration", "criSocket"), None);
        assert_eq!(top_value(INIT, "certificatesDir").as_deref(), Some("/etc/kubernetes/ssl"));
        assert_eq!(top_value(INIT, "name"), None);
        assert_eq!(
            inner_value("nodeRegistration: {name: art2, taints: []}\n", "nodeRegistration", "name").as_deref(),
            Some("art2")
        );
    }

    #[test]
    fn secret_file_private_and_removed() {
        use std::os::unix::fs::PermissionsExt;
        let secret = Secret::write("token").unwrap();
        let path = secret.path();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(secret);
        assert!(!std::path::Path::new(&path).exists());
    }
}
