//! Calls of kubeadm and kubectl on a node, with the settings that all states share. Masks tokens and keys in results.

use std::{path::Path, time::Duration};

use regex::Regex;

use super::{
    super::{certificate, configuration, configuration::Secret, deadline::run_within},
    seconds,
};
use crate::{
    Args, Failure, Host, Outcome,
    process::{Command, Output},
};

/// Settings of kubeadm and kubectl calls for a node.
#[derive(Clone)]
pub(super) struct Tool {
    pub(super) kubeadm: String,
    pub(super) kubectl: String,
    pub(super) etcdctl: String,
    /// Time limit of a kubeadm command.
    pub(super) limit: Duration,
    /// Time to wait for an answer of the API server.
    pub(super) api_limit: Duration,
    /// Name of the node in the cluster.
    pub(super) node: String,
    pub(super) cert_dir: String,
    pub(super) cri_socket: Option<String>,
    /// Text of the configuration, if given.
    pub(super) configuration: Option<String>,
    config_path: Option<String>,
}

impl Tool {
    pub(super) fn of(args: &Args, host: &Host) -> Result<Tool, Failure> {
        let config_path = args.str("config").map(str::to_owned);
        let configuration =
            match (&config_path, args.str("config_content")) {
                (_, Some(content)) => Some(content.to_owned()),
                // In check mode, an earlier task may be about to write the file.
                (Some(path), None) if host.dry_run() && !Path::new(path).exists() => None,
                (Some(path), None) => Some(std::fs::read_to_string(path).map_err(|error| {
                    Failure::new(format!("The kubeadm configuration {path} cannot be read: {error}."))
                })?),
                (None, None) => None,
            };
        let text = configuration.as_deref().unwrap_or_default();
        let hostname = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        let node = args
            .str("node_name")
            .map(str::to_owned)
            .or_else(|| configuration::inner_value(text, "nodeRegistration", "name"));
        let beside_ca =
            configuration::top_value(text, "caCertPath").and_then(|path| Some(path.rsplit_once('/')?.0.to_owned()));
        let cert_dir = args
            .str("cert_dir")
            .map(str::to_owned)
            .or_else(|| configuration::top_value(text, "certificatesDir"))
            .or(beside_ca);
        Ok(Tool {
            kubeadm: args.required("kubeadm")?.to_owned(),
            kubectl: args.required("kubectl")?.to_owned(),
            etcdctl: args.required("etcdctl")?.to_owned(),
            limit: seconds(args, "timeout", 900),
            api_limit: seconds(args, "api_timeout", 120),
            node: node.unwrap_or(hostname),
            cert_dir: cert_dir.unwrap_or_else(|| "/etc/kubernetes/pki".to_owned()),
            cri_socket: args
                .str("cri_socket")
                .map(str::to_owned)
                .or_else(|| configuration::inner_value(text, "nodeRegistration", "criSocket")),
            configuration,
            config_path,
        })
    }

    /// Hash of the cluster's CA, once its certificate is on the node.
    pub(super) fn ca_cert_hash(&self) -> Option<String> {
        let folders = [self.cert_dir.as_str(), "/etc/kubernetes/pki", "/etc/kubernetes/ssl"];
        let pem = folders.iter().find_map(|folder| std::fs::read_to_string(format!("{folder}/ca.crt")).ok())?;
        certificate::public_key_hash(&pem)
    }

    /// Version of kubeadm itself, such as `v1.20.2`.
    pub(super) fn release(&self, host: &Host) -> Result<String, Failure> {
        let output = Command::new(&self.kubeadm).args(["version", "-o", "short"]).plain_locale().check_run(host)?;
        Ok(output.stdout_text().trim().to_owned())
    }

    /// Path of the configuration file; writes a temporary one if only the text was given.
    pub(super) fn config(&self) -> Result<Option<(String, Option<Secret>)>, Failure> {
        match (&self.config_path, &self.configuration) {
            (Some(path), _) => Ok(Some((path.clone(), None))),
            (None, Some(text)) => {
                let secret = Secret::write(text)?;
                Ok(Some((secret.path(), Some(secret))))
            }
            (None, None) => Ok(None),
        }
    }

    /// Runs a long kubeadm command. Its output, without secrets, becomes part of the result.
    pub(super) fn run(&self, words: &[String], host: &Host, outcome: &mut Outcome) -> Result<Output, Failure> {
        let command = Command::new(&self.kubeadm).args(words);
        let shown = command.words();
        let output = self.finish(command, words, host)?;
        outcome.set("stdout", without_secrets(&output.stdout_text()));
        outcome.set("cmd", shown);
        Ok(output)
    }

    /// Runs a command that calls kubeadm with these words, and fails with its reason if it fails.
    pub(super) fn finish(&self, command: Command, words: &[String], host: &Host) -> Result<Output, Failure> {
        let shown = command.words();
        let output = run_within(command.plain_locale(), host, self.limit)?;
        if !output.success() {
            let mut failure = output.failure(&shown);
            failure.message = format!(
                "kubeadm {} failed: {}",
                words.iter().take(2).filter(|word| !word.starts_with('-')).cloned().collect::<Vec<_>>().join(" "),
                without_secrets(&reason(&output))
            );
            failure.data.insert("stdout".into(), without_secrets(&output.stdout_text()).into());
            failure.data.insert("stderr".into(), without_secrets(&output.stderr_text()).into());
            return Err(failure);
        }
        Ok(output)
    }

    /// Queries the API server; a silent server is a valid answer.
    pub(super) fn ask(&self, kubeconfig: &str, words: &[&str], host: &Host) -> Result<Output, Failure> {
        self.send(kubeconfig, words, "", host)
    }

    /// Sends the API server a request with the object in `input`.
    pub(super) fn send(&self, kubeconfig: &str, words: &[&str], input: &str, host: &Host) -> Result<Output, Failure> {
        Command::new(&self.kubectl)
            .plain_locale()
            .args(["--kubeconfig", kubeconfig, "--request-timeout=10s"])
            .args(words.iter().copied())
            .input(input)
            .run(host)
    }
}

/// Options of kubeadm for phases to skip and preflight errors to ignore, each a list separated by commas or empty.
pub(super) fn phase_options(skip: &str, ignored: &str) -> Vec<String> {
    let option = |name: &str, value: &str| (!value.is_empty()).then(|| format!("--{name}={value}"));
    [option("skip-phases", skip), option("ignore-preflight-errors", ignored)].into_iter().flatten().collect()
}

/// The lines in which kubeadm reports the error.
fn reason(output: &Output) -> String {
    let text = output.stderr_text();
    let mut lines = text.lines().skip_while(|line| !line.contains("[ERROR") && !line.starts_with("error")).peekable();
    let told: Vec<&str> = if lines.peek().is_some() {
        lines
            .filter(|line| !line.starts_with("To see the stack trace") && !line.starts_with("[preflight] If you know"))
            .collect()
    } else {
        let all: Vec<&str> = text.lines().collect();
        all.get(all.len().saturating_sub(5)..).unwrap_or_default().to_vec()
    };
    told.join("\n").trim().to_owned()
}

/// Output with tokens and certificate keys masked.
pub(super) fn without_secrets(text: &str) -> String {
    // Both patterns are constant and valid.
    let patterns = [r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", r"\b[0-9a-f]{64}\b"].map(|pattern| Regex::new(pattern).ok());
    let [token, key] = patterns;
    let lines = text.lines().map(|line| {
        let line =
            token.as_ref().map_or_else(|| line.to_owned(), |token| token.replace_all(line, "********").into_owned());
        if line.contains("sha256:") {
            return line;
        }
        key.as_ref().map_or_else(|| line.clone(), |key| key.replace_all(&line, "********").into_owned())
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_tokens_and_keys_masked() {
        let text = "kubeadm join 127.0.0.1:8443 --token 8mlkbz.swuzecdtz481e0dc \\\n    --discovery-token-ca-cert-hash sha256:8d30c60cce5f404d2f9a5a0cd45335c5f9a5a08a490640dd006b96e57af5b53a \\\n    --control-plane --certificate-key 6000a04716c78a178127b89085cb18df4200d4a8d195cf0fbd44b97a1f93108d";
        let shown = without_secrets(text);
        assert!(!shown.contains("8mlkbz") && !shown.contains("6000a047"), "{shown}");
        assert!(shown.contains("sha256:8d30c60c"), "{shown}");
    }

    #[test]
    fn failure_reason_taken_from_kubeadm_error_lines() {
        let output = Output {
            rc: 1,
            stdout: Vec::new(),
            stderr: b"[preflight] Running pre-flight checks\nerror execution phase preflight: [preflight] Some fatal errors occurred:\n\t[ERROR Port-6443]: Port 6443 is in use\n[preflight] If you know what you are doing, you can make a check non-fatal\nTo see the stack trace of this error execute with --v=5 or higher\n".to_vec(),
            overlong: None,
        };
        let reason = reason(&output);
        assert!(reason.ends_with("[ERROR Port-6443]: Port 6443 is in use"), "{reason}");
    }
}
