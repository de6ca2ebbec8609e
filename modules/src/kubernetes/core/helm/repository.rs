//! `helm_repository`: manages chart repositories.

use serde_json::Value;

use super::{Helm, failed, of_yaml, output_keys, with_program};
use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, net::address::Address};

/// The `helm_repository` module.
pub struct HelmRepository;

/// Specification of `helm_repository`.
pub static SPEC: Spec = Spec {
    name: "helm_repository",
    collection: "kubernetes.core",
    summary: "Manage the chart repositories of Helm",
    description: &["Runs `helm repo` on the host as the task's user. Each user has separate repositories."],
    options: with_program![
        Opt::required("repo_name", Kind::Str, "Name of the repository.").word().aliases(&["name"]),
        Opt::new("repo_url", Kind::Str, "URL of the repository.").address().word().aliases(&["url"]),
        Opt::new("repo_username", Kind::Str, "User name for authentication.").aliases(&["username"]),
        Opt::new("repo_password", Kind::Str, "Password for authentication.").aliases(&["password"]).secret(),
        Opt::new("repo_state", Kind::Str, "`present` adds the repository, `absent` removes it.")
            .aliases(&["state"])
            .choices(&["present", "absent"])
            .default("\"present\""),
        Opt::new("pass_credentials", Kind::Bool, "Send the credentials to all domains that serve charts.")
            .default("false"),
        Opt::new("force_update", Kind::Bool, "Replace an existing repository of this name.")
            .aliases(&["force"])
            .default("false"),
        Opt::new("insecure_skip_tls_verify", Kind::Bool, "Skip verification of the repository's certificate.")
            .aliases(&["skip_tls_certs_check"])
            .default("false"),
    ],
    required_together: &[&["repo_username", "repo_password"]],
    required_if: &[("repo_state", "present", &["repo_url"])],
    mutually_exclusive: &[&["context", "ca_cert"], &["context", "validate_certs"]],
    check: Check::Full,
    examples: "- name: A repository\n  kubernetes.core.helm_repository:\n    name: stable\n    repo_url: https://charts.example.com\n",
    returns: &[
        Return { name: "command", kind: "str", when: "changed", doc: "Command that was run." },
        Return { name: "stdout", kind: "str", when: "changed", doc: "Standard output of the command." },
        Return { name: "stderr", kind: "str", when: "changed", doc: "Standard error of the command." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for HelmRepository {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let helm = Helm::of(args, host)?;
        let name = args.required("repo_name")?.to_owned();
        let known = known(&helm, &name, host)?;
        let url = args.str("repo_url").unwrap_or_default();
        // Credentials in the URL would appear on the command line, so they are passed like the options.
        let address = Address::parse(url);
        let login =
            address.as_ref().and_then(|address| address.credentials.clone()).filter(|login| !login.1.is_empty());
        let url = address.filter(|_| login.is_some()).map_or_else(|| url.to_owned(), |address| address.url());
        let given = args.str("repo_username").zip(args.str("repo_password"));
        let login = given.map(|(user, password)| (user.to_owned(), password.to_owned())).or(login);
        let mut password = None;
        let mut words: Vec<String> = vec!["repo".into()];
        if args.required("repo_state")? == "absent" {
            if known.is_none() {
                return Ok(unchanged(args, &name, host));
            }
            words.extend(["rm".into(), name]);
        } else {
            if let (Some(known), false) = (&known, args.bool("force_update")) {
                if known["url"] != url.as_str() {
                    return Err(Failure::new(format!("Repository already have a repository named {name}")));
                }
                return Ok(unchanged(args, &name, host));
            }
            words.extend(["add".into(), name, url]);
            if let Some((user, given)) = login {
                // Passed on standard input, because every user of the host can read command lines.
                words.extend([format!("--username={user}"), "--password-stdin".to_owned()]);
                password = Some(given);
            }
            let flags = [
                ("pass_credentials", "--pass-credentials"),
                ("force_update", "--force-update"),
                ("insecure_skip_tls_verify", "--insecure-skip-tls-verify"),
            ];
            words.extend(flags.iter().filter(|(option, _)| args.bool(option)).map(|(_, flag)| (*flag).to_owned()));
        }
        let shown = format!("{} {}", helm.program, words.join(" ")).replace("--password-stdin", "--password=******");
        Ok(Plan::change(move |host, outcome| {
            let output = helm.ask_with(&words, password.as_deref(), host)?;
            if !output.success() {
                return Err(failed(&output, &shown));
            }
            outcome.data.extend(output_keys(&output.stdout_text(), &output.stderr_text()));
            outcome.set("command", shown);
            Ok(())
        }))
    }
}

fn unchanged(args: &Args, name: &str, host: &Host) -> Plan {
    if host.check() {
        return Plan::unchanged();
    }
    Plan::unchanged().with("repo_name", name).with("repo_url", args.str("repo_url"))
}

/// The repository of this name.
fn known(helm: &Helm, name: &str, host: &Host) -> Result<Option<Value>, Failure> {
    let words = ["repo", "list", "--output=yaml"].map(str::to_owned);
    let output = helm.ask(&words, host)?;
    if output.rc == 1 && output.stderr_text().contains("no repositories to show") {
        return Ok(None);
    }
    if !output.success() {
        return Err(failed(&output, &format!("{} {}", helm.program, words.join(" "))));
    }
    let list = of_yaml(&output.stdout_text())?;
    Ok(list.as_array().into_iter().flatten().find(|repository| repository["name"] == name).cloned())
}
