//! Helm: its program on the host, and code common to its modules.

mod chart;
mod deploy;
pub mod release;
pub mod repository;

use std::path::Path;

use serde_json::{Value, json};

use super::{access::unusable, documents};
use crate::{
    Args, Failure, Host, Kind, Map, Opt,
    args::{expand_path, is_true},
    files::{scratch::Scratch, way},
    kubernetes::configuration::Secret,
    process::{self, Command, Output},
};

/// Options that select the cluster and the program.
const OPTIONS: [Opt; 7] = [
    Opt::new("binary_path", Kind::Path, "Path of the program. Default: `helm` in `PATH`."),
    Opt::new("context", Kind::Str, "Context of the kubeconfig.").aliases(&["kube_context"]),
    Opt::new("kubeconfig", Kind::Raw, "Kubeconfig: its path, or its content as a mapping.")
        .aliases(&["kubeconfig_path"])
        .secret_unless_path(),
    Opt::new("host", Kind::Str, "URL of the API server; overrides the kubeconfig."),
    Opt::new("ca_cert", Kind::Path, "File with the CA certificates that may have issued the server's certificate.")
        .aliases(&["ssl_ca_cert"]),
    Opt::new("validate_certs", Kind::Bool, "Verify the server's certificate. Default: true.").aliases(&["verify_ssl"]),
    Opt::new("api_key", Kind::Str, "Bearer token for authentication.").secret(),
];

/// Options of a module, followed by [`OPTIONS`].
macro_rules! with_program {
    ($($option:expr),* $(,)?) => {
        &[
            $($option,)*
            super::OPTIONS[0],
            super::OPTIONS[1],
            super::OPTIONS[2],
            super::OPTIONS[3],
            super::OPTIONS[4],
            super::OPTIONS[5],
            super::OPTIONS[6],
        ]
    };
}
use with_program;

/// The program, and the environment that selects the cluster.
struct Helm {
    program: String,
    environment: Vec<(&'static str, String)>,
    /// A temporary kubeconfig for the program.
    _kubeconfig: Option<Secret>,
    /// The downloaded chart, or the configuration of its repository.
    files: Option<Scratch>,
}

impl Helm {
    fn of(args: &Args, host: &Host) -> Result<Helm, Failure> {
        let given = |name: &str| args.filled(name).map(str::to_owned);
        let program = match given("binary_path") {
            Some(path) => path,
            None => process::find(host, "helm").map(|path| path.display().to_string()).ok_or_else(|| {
                Failure::new("Failed to find required executable \"helm\" on the host: install Helm, or name it with binary_path.")
            })?,
        };
        let mut helm = Helm { program, environment: Vec::new(), _kubeconfig: None, files: None };
        let text = |name: &str, variable: &str| {
            given(name).or_else(|| host.variable(variable).filter(|text| !text.is_empty()))
        };
        let server = text("host", "K8S_AUTH_HOST");
        let named = [
            ("HELM_KUBECONTEXT", text("context", "K8S_AUTH_CONTEXT")),
            ("HELM_NAMESPACE", given("release_namespace")),
            ("HELM_KUBETOKEN", text("api_key", "K8S_AUTH_API_KEY")),
            ("HELM_KUBEAPISERVER", server.clone()),
        ];
        helm.environment.extend(named.into_iter().filter_map(|(name, value)| Some((name, value?))));
        let mut config = match args.value("kubeconfig") {
            Some(config @ Value::Object(_)) => Some(config.clone()),
            Some(Value::String(path)) => Some(json!(expand_path(path, host))),
            _ => host.variable("K8S_AUTH_KUBECONFIG").map(|path| json!(expand_path(&path, host))),
        };
        let authority = text("ca_cert", "K8S_AUTH_SSL_CA_CERT");
        let verify = args
            .maybe_bool("validate_certs")
            .or_else(|| host.variable("K8S_AUTH_VERIFY_SSL").map(|text| is_true(&text.into())));
        if authority.is_some() || verify == Some(false) {
            // Older versions read these settings from a kubeconfig only.
            let version = helm.version(host)?;
            let old = |minor: u32| version < [3, minor, 0];
            if let Some(authority) = &authority {
                if old(5) {
                    config =
                        Some(changed(config, server.as_deref(), "certificate-authority", authority.as_str().into())?);
                } else {
                    helm.environment.push(("HELM_KUBECAFILE", authority.clone()));
                }
            }
            if verify == Some(false) {
                if old(10) {
                    config = Some(changed(config, server.as_deref(), "insecure-skip-tls-verify", true.into())?);
                } else {
                    helm.environment.push(("HELM_KUBEINSECURE_SKIP_TLS_VERIFY", "true".into()));
                }
            }
        }
        match config {
            None => {}
            Some(Value::String(path)) => helm.environment.push(("KUBECONFIG", path)),
            Some(config) => {
                let file = Secret::write(&config.to_string())?;
                helm.environment.push(("KUBECONFIG", file.path()));
                helm._kubeconfig = Some(file);
            }
        }
        Ok(helm)
    }

    /// Runs the program; a failing status is not an error.
    fn ask(&self, words: &[String], host: &Host) -> Result<Output, Failure> {
        self.ask_with(words, None, host)
    }

    /// Like `ask`, with `input` on standard input.
    fn ask_with(&self, words: &[String], input: Option<&str>, host: &Host) -> Result<Output, Failure> {
        let mut command = Command::new(&self.program).args(words);
        if let Some(input) = input {
            command = command.input(format!("{input}\n"));
        }
        for (name, value) in &self.environment {
            command = command.variable(*name, value);
        }
        command.run(host)
    }

    /// Runs the program; fails with `shown` as the command if it fails.
    fn run(&self, words: &[String], shown: &str, host: &Host) -> Result<Output, Failure> {
        let output = self.ask(words, host)?;
        if output.success() { Ok(output) } else { Err(failed(&output, shown)) }
    }

    /// Runs the program and parses the YAML that it prints.
    fn read(&self, words: &[&str], host: &Host) -> Result<Value, Failure> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let output = self.run(&words, &format!("{} {}", self.program, words.join(" ")), host)?;
        of_yaml(&output.stdout_text())
    }

    fn version(&self, host: &Host) -> Result<[u32; 3], Failure> {
        let output = self.ask(&["version".to_owned()], host)?;
        let text = output.stdout_text();
        let version = text.split("ersion:\"v").nth(1).or_else(|| text.split("SemVer:\"v").nth(1)).unwrap_or_default();
        Ok(numbers(version))
    }

    /// Fails if the program is too old for an option.
    fn require(&self, option: &str, minor: u32, host: &Host) -> Result<(), Failure> {
        let [major, own, patch] = self.version(host)?;
        if [major, own] >= [3, minor] {
            return Ok(());
        }
        Err(Failure::new(format!("{option} requires helm >= 3.{minor}.0, current version is {major}.{own}.{patch}")))
    }
}

/// The first three numbers of a version.
fn numbers(text: &str) -> [u32; 3] {
    let mut found = [0; 3];
    let parts = text.split(|character: char| !character.is_ascii_digit());
    for (place, part) in found.iter_mut().zip(parts) {
        *place = part.parse().unwrap_or(0);
    }
    found
}

fn of_yaml(text: &str) -> Result<Value, Failure> {
    let documents = documents("the output of helm", text)
        .map_err(|error| Failure::new(format!("The output of helm cannot be read: {error}")))?;
    Ok(documents.into_iter().next().unwrap_or_default())
}

fn failed(output: &Output, shown: &str) -> Failure {
    let (stdout, stderr) = (output.stdout_text(), output.stderr_text());
    let message =
        format!("Failure when executing Helm command. Exited {}.\nstdout: {stdout}\nstderr: {stderr}", output.rc);
    Failure { message, data: output_keys(&stdout, &stderr) }.with("command", shown)
}

/// The output of a command as keys of a result.
fn output_keys(stdout: &str, stderr: &str) -> Map {
    let mut keys = Map::new();
    for (name, text) in [("stdout", stdout), ("stderr", stderr)] {
        keys.insert(name.to_owned(), text.into());
    }
    keys
}

/// Sets a key in all clusters of a kubeconfig; without a kubeconfig, builds one that only names the server.
fn changed(config: Option<Value>, server: Option<&str>, key: &str, value: Value) -> Result<Value, Failure> {
    let mut config = match config {
        Some(Value::String(path)) => {
            let text = way::read_text(Path::new(&path))
                .map_err(|error| unusable(&format!("{path} could not be read: {}", process::reason(&error))))?;
            let read = documents(&path, &text).map_err(|error| unusable(error.trim_end_matches('.')))?;
            read.into_iter().next().unwrap_or_default()
        }
        Some(config) => config,
        None => json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "generated-cluster", "cluster": {} }],
            "contexts": [{ "name": "generated-context", "context": { "cluster": "generated-cluster" } }],
            "current-context": "generated-context",
        }),
    };
    for cluster in config["clusters"].as_array_mut().into_iter().flatten() {
        if let Some(cluster) = cluster["cluster"].as_object_mut() {
            if let Some(server) = server {
                cluster.insert("server".into(), server.into());
            }
            cluster.insert(key.to_owned(), value.clone());
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helm_versions_compared_as_numbers() {
        assert_eq!(numbers("3.8.1\", GitCommit"), [3, 8, 1]);
        assert!(numbers("3.10.0") > numbers("3.9.4") && numbers("3.17") == [3, 17, 0] && numbers("") == [0; 3]);
    }

    #[test]
    fn kubeconfig_created_or_changed() {
        let made = changed(None, Some("https://a"), "insecure-skip-tls-verify", true.into()).unwrap();
        assert_eq!(made["clusters"][0]["cluster"], json!({ "server": "https://a", "insecure-skip-tls-verify": true }));
        let given = json!({ "clusters": [{ "name": "c", "cluster": { "server": "https://b" } }] });
        let changed = changed(Some(given), None, "certificate-authority", "/ca".into()).unwrap();
        assert_eq!(changed["clusters"][0]["cluster"], json!({ "server": "https://b", "certificate-authority": "/ca" }));
    }
}
