//! Registry credentials from `docker login`.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE};
use serde_json::{Value, json};

use super::image_names::DEFAULT_REGISTRY;
use crate::{Failure, Host, Map, args::expand_path, process::Command};

/// Docker Hub's key in the credentials file.
const HUB: &str = "https://index.docker.io/v1/";

/// Header with the credentials for a registry, if any exist.
pub(super) fn for_registry(registry: &str, host: &Host) -> Result<Option<String>, Failure> {
    let config = configuration(host);
    let key = if registry == DEFAULT_REGISTRY { HUB } else { registry };
    let helper = config["credHelpers"][key].as_str().or_else(|| config["credsStore"].as_str());
    if let Some(helper) = helper
        && let Some(login) = from_helper(helper, key, host)?
    {
        return Ok(Some(header(&login)));
    }
    let logins = config["auths"].as_object();
    let named = logins.and_then(|logins| logins.get(registry).map(|entry| (registry, entry)));
    let similar = || {
        let mut all = logins.into_iter().flatten();
        all.find(|(known, _)| host_name(known) == registry).map(|(known, entry)| (known.as_str(), entry))
    };
    let login = named.or_else(similar).map(|(known, entry)| from_entry(known, entry));
    Ok(login.map(|login| header(&login)))
}

/// Credentials for all registries, for a build, which may pull from any of them.
pub(super) fn for_all(host: &Host) -> Result<Option<String>, Failure> {
    let config = configuration(host);
    let mut all = Map::new();
    for (registry, entry) in config["auths"].as_object().into_iter().flatten() {
        all.insert(registry.clone(), from_entry(registry, entry));
    }
    for (registry, helper) in config["credHelpers"].as_object().into_iter().flatten() {
        if let Some(login) = from_helper(helper.as_str().unwrap_or_default(), registry, host)? {
            all.insert(registry.clone(), login);
        }
    }
    Ok((!all.is_empty()).then(|| header(&all.into())))
}

/// Proxy variables for builds from Docker's configuration.
pub(super) fn proxies(host: &Host) -> Map {
    let config = configuration(host);
    let mut all = Map::new();
    let names = [
        ("httpProxy", "http_proxy"),
        ("httpsProxy", "https_proxy"),
        ("ftpProxy", "ftp_proxy"),
        ("noProxy", "no_proxy"),
    ];
    for (key, variable) in names {
        if let Some(proxy) = config["proxies"]["default"][key].as_str() {
            all.insert(variable.to_owned(), proxy.into());
            all.insert(variable.to_ascii_uppercase(), proxy.into());
        }
    }
    all
}

/// Docker's configuration; empty if it cannot be read.
fn configuration(host: &Host) -> Value {
    let folder = match host.variable("DOCKER_CONFIG") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(expand_path("~/.docker", host)),
    };
    let text = std::fs::read_to_string(folder.join("config.json")).unwrap_or_default();
    let config: Value = serde_json::from_str(&text).unwrap_or_default();
    let known = ["auths", "credsStore", "credHelpers", "proxies", "HttpHeaders"];
    // The oldest format of the file is a plain map of credentials.
    if config.is_object() && !config.as_object().is_some_and(|map| known.iter().any(|key| map.contains_key(*key))) {
        return json!({ "auths": config });
    }
    config
}

fn from_entry(registry: &str, entry: &Value) -> Value {
    if let Some(token) = entry["identitytoken"].as_str() {
        return json!({ "IdentityToken": token });
    }
    let decoded = entry["auth"].as_str().and_then(|auth| STANDARD.decode(auth).ok());
    let text = decoded.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    match text.as_deref().and_then(|text| text.split_once(':')) {
        Some((user, password)) => {
            json!({ "username": user, "password": password, "email": entry.get("email"), "serveraddress": registry })
        }
        None => json!({}),
    }
}

/// Queries a credential helper by the protocol of `docker-credential-*`.
fn from_helper(helper: &str, registry: &str, host: &Host) -> Result<Option<Value>, Failure> {
    let program = format!("docker-credential-{helper}");
    let output = Command::new(&program).arg("get").input(registry.as_bytes().to_vec()).run(host)?;
    if !output.success() {
        let said = output.stdout_text();
        return match said.contains("credentials not found") {
            true => Ok(None),
            false => Err(Failure::new(format!("{program} could not give the login for {registry}: {}", said.trim()))),
        };
    }
    let found: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::new(format!("The output of {program} is not a login: {error}.")))?;
    Ok(Some(if found["Username"] == "<token>" {
        json!({ "ServerAddress": registry, "IdentityToken": found["Secret"] })
    } else {
        json!({ "ServerAddress": registry, "Username": found["Username"], "Password": found["Secret"] })
    }))
}

fn host_name(registry: &str) -> &str {
    let name =
        registry.trim_start_matches("https://").trim_start_matches("http://").split('/').next().unwrap_or_default();
    if name == "index.docker.io" { DEFAULT_REGISTRY } else { name }
}

fn header(login: &Value) -> String {
    URL_SAFE.encode(login.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn credentials_found_by_registry() {
        let folder = tempfile::tempdir().unwrap();
        let auth = STANDARD.encode("me:secret:word");
        let config = json!({ "auths": { "https://index.docker.io/v1/": { "auth": auth }, "db:5000": { "identitytoken": "t" } } });
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let environment = BTreeMap::from([("DOCKER_CONFIG".to_owned(), folder.path().display().to_string())]);
        let host = Host::alone().with_environment(environment);
        let login = |registry: &str| -> Value {
            let header = for_registry(registry, &host).unwrap().unwrap();
            serde_json::from_slice(&URL_SAFE.decode(header).unwrap()).unwrap()
        };
        assert_eq!(login("docker.io")["password"], "secret:word");
        assert_eq!(login("db:5000"), json!({ "IdentityToken": "t" }));
        assert_eq!(for_registry("quay.io", &host).unwrap(), None);
    }
}
