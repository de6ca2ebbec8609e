//! `state: token` and `certificate_key` of `kubeadm`: the secrets with which further nodes join.

use jiff::{Timestamp, ToSpan};
use serde_json::{Deserializer, Value, json};

use super::{
    super::configuration::{Secret, api_version},
    node::ADMIN,
    tool::Tool,
};
use crate::{Args, Failure, Host, Outcome, Plan, process::Command};

/// Minimum remaining lifetime, in minutes, of a token that is reused.
const ENOUGH_MINUTES: i64 = 30;

/// `state: token`.
pub(super) fn plan_token(tool: Tool, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let hash = tool.ca_cert_hash();
    let command =
        Command::new(&tool.kubeadm).plain_locale().args(["token", "list", "--kubeconfig", ADMIN, "-o", "json"]);
    let text = command.check_run(host)?.stdout_text();
    let wanted = args.str("token").map(str::to_owned);
    if let Some(token) = usable(&text, wanted.as_deref(), Timestamp::now()) {
        return Ok(Plan::unchanged().with("action", "none").with("token", token).with("ca_cert_hash", hash));
    }
    let ttl = args.str("token_ttl").unwrap_or("24h0m0s").to_owned();
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

fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// A usable token from the output of `kubeadm token list -o json`, which prints one object after another.
fn usable(list: &str, wanted: Option<&str>, now: Timestamp) -> Option<String> {
    let enough = now.checked_add(ENOUGH_MINUTES.minutes()).ok()?;
    let tokens = Deserializer::from_str(list).into_iter::<Value>().map_while(Result::ok);
    tokens
        .filter(|token| {
            let has = |key: &str, wanted: &str| {
                token[key].as_array().is_some_and(|list| list.iter().any(|item| item == wanted))
            };
            let lasts = match token["expires"].as_str() {
                Some(time) => time.parse::<Timestamp>().is_ok_and(|expires| expires > enough),
                None => true,
            };
            lasts
                && has("usages", "authentication")
                && has("usages", "signing")
                && has("groups", "system:bootstrappers:kubeadm:default-node-token")
        })
        .filter_map(|token| token["token"].as_str().map(str::to_owned))
        .find(|token| wanted.is_none_or(|wanted| wanted == token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_reused_only_if_long_lived_and_for_joining() {
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
        assert_eq!(usable(&list, None, now).as_deref(), Some("cccccc.0000000000000000"));
        assert_eq!(usable(&list, Some("aaaaaa.0000000000000000"), now), None);
        assert_eq!(usable("", None, now), None);
    }
}
