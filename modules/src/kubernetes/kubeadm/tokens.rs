//! `state: token`, `certificate_key` and `token_absent` of `kubeadm`: the secrets with which further nodes join.
//!
//! Whoever has a token can register nodes, and nodes keep what they got. So each run has tokens of its own.

use jiff::{Timestamp, ToSpan};
use serde_json::{Deserializer, Value, json};

use super::{
    super::configuration::{Secret, api_version},
    node::ADMIN,
    tool::Tool,
};
use crate::{Args, Failure, Host, Outcome, Plan, process::Command};

/// Minimum remaining lifetime, in minutes, of the caller's own token that exists already.
const ENOUGH_MINUTES: i64 = 30;

/// `state: token`.
pub(super) fn plan_token(tool: Tool, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let hash = tool.ca_cert_hash();
    let wanted = args.str("token").map(str::to_owned);
    if let Some(wanted) = &wanted {
        let command =
            Command::new(&tool.kubeadm).plain_locale().args(["token", "list", "--kubeconfig", ADMIN, "-o", "json"]);
        if is_usable(&command.check_run(host)?.stdout_text(), wanted, Timestamp::now()) {
            let token = wanted.as_str();
            return Ok(Plan::unchanged().with("action", "none").with("token", token).with("ca_cert_hash", hash));
        }
    }
    let ttl = args.str("token_ttl").unwrap_or("30m0s").to_owned();
    let apply = move |host: &Host, outcome: &mut Outcome| {
        // A token given by the user goes into a file, because everyone on the host can see arguments.
        let mut words = ["token", "create", "--kubeconfig", ADMIN].map(str::to_owned).to_vec();
        let _secret = match &wanted {
            Some(token) => {
                let configuration = json!({
                    "apiVersion": api_version(&tool.release(host)?),
                    "kind": "InitConfiguration",
                    "bootstrapTokens": [{
                        "token": token,
                        "ttl": ttl,
                        "usages": ["signing", "authentication"],
                        "groups": ["system:bootstrappers:kubeadm:default-node-token"],
                    }],
                });
                let secret = Secret::write(&configuration.to_string())?;
                words.extend(["--config".to_owned(), secret.path()]);
                Some(secret)
            }
            None => {
                words.push(format!("--ttl={ttl}"));
                None
            }
        };
        let output = tool.run(&words, host, outcome)?;
        let text = output.stdout_text();
        let token = last_line(&text).ok_or_else(|| Failure::new("kubeadm created a token but did not print it."))?;
        outcome.set("token", token);
        Ok(())
    };
    Ok(Plan::change(apply).with("action", "create").with("ca_cert_hash", hash))
}

/// `state: certificate_key`: uploads the certificates again, because an earlier upload expires after two hours and its
/// key is lost.
pub(super) fn plan_certificate_key(tool: Tool) -> Result<Plan, Failure> {
    let hash = tool.ca_cert_hash();
    let apply = move |host: &Host, outcome: &mut Outcome| {
        let mut words = ["init", "phase", "upload-certs", "--upload-certs"].map(str::to_owned).to_vec();
        let config = tool.config()?;
        if let Some((path, _)) = &config {
            words.extend(["--config".to_owned(), path.clone()]);
        }
        let output = tool.run(&words, host, outcome)?;
        let text = output.stdout_text();
        let key = last_line(&text).filter(|line| line.len() == 64 && line.bytes().all(|byte| byte.is_ascii_hexdigit()));
        outcome.set(
            "certificate_key",
            key.ok_or_else(|| Failure::new("kubeadm uploaded the certificates but did not print their key."))?,
        );
        Ok(())
    };
    Ok(Plan::change(apply).with("action", "create").with("ca_cert_hash", hash))
}

/// `state: token_absent`: deletes a token, and with a certificate key the uploaded certificates.
pub(super) fn plan_token_absent(tool: Tool, args: &Args) -> Result<Plan, Failure> {
    let id = args.str("token").and_then(id_of).ok_or_else(|| Failure::new("`token` must be a bootstrap token."))?;
    let uploaded = args.str("certificate_key").is_some();
    Ok(Plan::change(move |host: &Host, _: &mut Outcome| {
        let mut secrets = vec![secret_of(&id)];
        if uploaded {
            // The certificates belong to a token without rights, which ends two hours later.
            let words = ["-n", "kube-system", "get", "secret", UPLOADED, "--ignore-not-found", "-o", "json"];
            let answer = tool.ask(ADMIN, &words, host)?;
            let found: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
            let owners = found["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let owners = owners
                .filter_map(|owner| owner["name"].as_str())
                .filter_map(|name| name.strip_prefix(SECRET).filter(|id| is_id(id)).map(secret_of));
            secrets.extend(owners);
            secrets.push(UPLOADED.to_owned());
        }
        delete(&tool, &secrets, host)
    })
    .with("action", "delete"))
}

/// Deletes the tokens that `kubeadm init` has created and printed.
pub(super) fn delete_printed(tool: &Tool, output: &str, host: &Host) -> Result<(), Failure> {
    let words: Vec<&str> = output.split_whitespace().collect();
    let tokens = words.windows(2).filter(|pair| pair.first() == Some(&"--token")).filter_map(|pair| pair.last());
    let mut secrets: Vec<String> = tokens.filter_map(|token| id_of(token)).map(|id| secret_of(&id)).collect();
    secrets.dedup();
    if secrets.is_empty() { Ok(()) } else { delete(tool, &secrets, host) }
}

/// The Secret of uploaded certificates, and the beginning of a token's Secret.
const UPLOADED: &str = "kubeadm-certs";
const SECRET: &str = "bootstrap-token-";

fn secret_of(id: &str) -> String {
    format!("{SECRET}{id}")
}

fn is_id(id: &str) -> bool {
    id.len() == 6 && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// The public part of a token.
fn id_of(token: &str) -> Option<String> {
    token.split_once('.').map(|(id, _)| id).filter(|id| is_id(id)).map(str::to_owned)
}

fn delete(tool: &Tool, secrets: &[String], host: &Host) -> Result<(), Failure> {
    let mut words = vec!["-n", "kube-system", "delete", "secret", "--ignore-not-found"];
    words.extend(secrets.iter().map(String::as_str));
    let answer = tool.ask(ADMIN, &words, host)?;
    if answer.success() { Ok(()) } else { Err(answer.failure(&["kubectl delete secret".to_owned()])) }
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// Whether a token is valid for long enough and is for joining, by the output of `kubeadm token list -o json`, which
/// prints one object after another.
fn is_usable(list: &str, wanted: &str, now: Timestamp) -> bool {
    let Ok(enough) = now.checked_add(ENOUGH_MINUTES.minutes()) else { return false };
    let tokens = Deserializer::from_str(list).into_iter::<Value>().map_while(Result::ok);
    tokens.filter(|token| token["token"] == wanted).any(|token| {
        let has =
            |key: &str, wanted: &str| token[key].as_array().is_some_and(|list| list.iter().any(|item| item == wanted));
        let lasts = match token["expires"].as_str() {
            Some(time) => time.parse::<Timestamp>().is_ok_and(|expires| expires > enough),
            None => true,
        };
        lasts
            && has("usages", "authentication")
            && has("usages", "signing")
            && has("groups", "system:bootstrappers:kubeadm:default-node-token")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_token_kept_only_if_long_lived_and_for_joining() {
        let one = |token: &str, expires: &str, usages: &str| {
            format!(
                "{{\n    \"kind\": \"BootstrapToken\",\n    \"token\": \"{token}\",\n    \"expires\": \"{expires}\",\n    \"usages\": {usages},\n    \"groups\": [\n        \"system:bootstrappers:kubeadm:default-node-token\"\n    ]\n}}\n"
            )
        };
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let both = r#"["authentication", "signing"]"#;
        let list = one("aaaaaa.0000000000000000", "2026-11-21T10:10:00Z", both)
            + &one("bbbbbb.0000000000000000", "2026-11-22T10:00:00Z", r#"["signing"]"#)
            + &one("cccccc.0000000000000000", "2026-11-22T10:00:00Z", both);
        let kept = |token: &str| is_usable(&list, token, now);
        assert!(kept("cccccc.0000000000000000"));
        assert!(
            !kept("aaaaaa.0000000000000000") && !kept("bbbbbb.0000000000000000") && !kept("dddddd.0000000000000000")
        );
        assert!(!is_usable("", "aaaaaa.0000000000000000", now));
    }
}
