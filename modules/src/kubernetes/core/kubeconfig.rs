//! Kubeconfig files: clusters, users, and the contexts that combine them.

use std::path::{Path, PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{
    access::{Access, file, unusable},
    documents,
};
use crate::{Failure, Host, args::expand_path, http::certificates::Trusted};

/// Sections of a kubeconfig that are lists of named entries.
const LISTS: [&str; 3] = ["clusters", "users", "contexts"];

/// A named entry, and the folder that its relative paths start from.
#[derive(Clone)]
struct Entry {
    list: &'static str,
    name: String,
    value: Value,
    folder: PathBuf,
}

/// Several merged files; of entries with the same name, the first wins.
#[derive(Default)]
struct Config {
    entries: Vec<Entry>,
    current: Option<String>,
}

/// Access settings from the files of a `:`-separated list; missing files are skipped.
pub(super) fn of_files(paths: &str, context: Option<&str>, host: &Host) -> Result<Access, Failure> {
    let paths: Vec<String> =
        paths.split(':').filter(|path| !path.is_empty()).map(|path| expand_path(path, host)).collect();
    let mut config = Config::default();
    let mut found = false;
    for path in paths.iter().filter(|path| Path::new(path).exists()) {
        let text = String::from_utf8_lossy(&file(path)?).into_owned();
        let document =
            documents(path, &text).map_err(|error| unusable(error.trim_end_matches('.')))?.into_iter().next();
        let document = document.filter(Value::is_object);
        let document = document.ok_or_else(|| unusable(&format!("{path} is empty or not a kubeconfig")))?;
        config.add(&document, Path::new(path).parent().unwrap_or(Path::new("/")))?;
        found = true;
    }
    if !found {
        return Err(unusable(&format!(
            "there is no kubeconfig: {} does not exist on the host. Name one with kubeconfig, or give host and api_key",
            paths.join(", ")
        )));
    }
    config.access(context)
}

/// Access settings from a kubeconfig given as a mapping.
pub(super) fn of_mapping(config: &Value, context: Option<&str>) -> Result<Access, Failure> {
    let mut merged = Config::default();
    merged.add(config, Path::new(""))?;
    merged.access(context)
}

impl Config {
    fn add(&mut self, document: &Value, folder: &Path) -> Result<(), Failure> {
        for list in LISTS {
            for item in document[list].as_array().map(Vec::as_slice).unwrap_or_default() {
                let name = item["name"]
                    .as_str()
                    .ok_or_else(|| unusable(&format!("invalid kubeconfig: an entry of {list} has no name")))?;
                if self.find(list, name).is_none() {
                    let value = item[list.trim_end_matches('s')].clone();
                    self.entries.push(Entry { list, name: name.to_owned(), value, folder: folder.to_owned() });
                }
            }
        }
        if let Some(current) = document["current-context"].as_str() {
            self.current = Some(current.to_owned());
        }
        Ok(())
    }

    fn find(&self, list: &str, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.list == list && entry.name == name)
    }

    fn access(&self, context: Option<&str>) -> Result<Access, Failure> {
        let name = context.or(self.current.as_deref().filter(|name| !name.is_empty()));
        let name = name.ok_or_else(|| unusable("the kubeconfig has no current-context, and none was asked for"))?;
        let missing = |list: &str, name: &str| {
            let names: Vec<_> =
                self.entries.iter().filter(|entry| entry.list == list).map(|entry| entry.name.as_str()).collect();
            unusable(&format!("the kubeconfig has no {name:?} among its {list} (it has: {})", names.join(", ")))
        };
        let context = self.find("contexts", name).ok_or_else(|| missing("contexts", name))?;
        let cluster = context.value["cluster"].as_str().unwrap_or_default();
        let cluster = self.find("clusters", cluster).ok_or_else(|| missing("clusters", cluster))?;
        let mut access = Access::default();
        cluster.describe_server(&mut access)?;
        if let Some(user) = context.value["user"].as_str().and_then(|user| self.find("users", user)) {
            user.log_in(&mut access)?;
        }
        Ok(access)
    }
}

impl Entry {
    fn text(&self, key: &str) -> Option<&str> {
        self.value[key].as_str().filter(|text| !text.is_empty())
    }

    /// The content of `key-data`, or of the file that `key` names.
    fn bytes(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        if let Some(data) = self.text(&format!("{key}-data")) {
            let data: String = data.split_whitespace().collect();
            let bytes = STANDARD
                .decode(data)
                .map_err(|_| unusable(&format!("{key}-data of {:?} in the kubeconfig is not base64", self.name)))?;
            return Ok(Some(bytes));
        }
        match self.text(key) {
            None => Ok(None),
            Some(path) => file(&self.folder.join(path).display().to_string()).map(Some),
        }
    }

    fn describe_server(&self, access: &mut Access) -> Result<(), Failure> {
        let server = self.text("server");
        let server =
            server.ok_or_else(|| unusable(&format!("the cluster {:?} of the kubeconfig has no server", self.name)))?;
        access.server = server.trim_end_matches('/').to_owned();
        if let Some(text) = self.bytes("certificate-authority")? {
            access.authorities = Trusted::Pem(text);
        }
        access.insecure = self.value["insecure-skip-tls-verify"].as_bool().unwrap_or(false);
        access.server_name = self.text("tls-server-name").map(str::to_owned);
        access.proxy = self.text("proxy-url").map(str::to_owned);
        Ok(())
    }

    fn log_in(&self, access: &mut Access) -> Result<(), Failure> {
        access.certificate = self.bytes("client-certificate")?;
        access.key = self.bytes("client-key")?;
        let provided = &self.value["auth-provider"]["config"];
        let token = [&self.value["token"], &provided["id-token"], &provided["access-token"]];
        access.token =
            token.into_iter().find_map(|token| token.as_str().filter(|token| !token.is_empty()).map(str::to_owned));
        if let (None, Some(path)) = (&access.token, self.text("tokenFile")) {
            let bytes = file(&self.folder.join(path).display().to_string())?;
            access.token = Some(String::from_utf8_lossy(&bytes).trim().to_owned());
        }
        if let (Some(user), Some(password)) = (self.text("username"), self.text("password")) {
            access.login = Some((user.to_owned(), password.to_owned()));
        }
        let knows = access.certificate.is_some() || access.token.is_some() || access.login.is_some();
        if !knows && self.value["exec"].is_object() {
            return Err(unusable(&format!(
                "the user {:?} of the kubeconfig logs in by a program (exec), which is not supported: give a token with api_key, or a user with a certificate",
                self.name
            )));
        }
        for (key, header) in [("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")] {
            access.headers.extend(self.text(key).map(|value| (header.to_owned(), value.to_owned())));
        }
        let groups = self.value["as-groups"].as_array().map(Vec::as_slice).unwrap_or_default();
        access.headers.extend(
            groups.iter().filter_map(|group| Some(("Impersonate-Group".to_owned(), group.as_str()?.to_owned()))),
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config() -> Value {
        json!({
            "clusters": [
                { "name": "east", "cluster": { "server": "https://east:6443/", "certificate-authority-data": "Y2E=", "tls-server-name": "api" } },
                { "name": "west", "cluster": { "server": "https://west:6443", "insecure-skip-tls-verify": true } },
            ],
            "users": [
                { "name": "admin", "user": { "client-certificate-data": "Y2VydA==", "client-key-data": "a2V5" } },
                { "name": "robot", "user": { "token": "secret", "as": "jane", "as-groups": ["dev"] } },
                { "name": "cloud", "user": { "exec": { "command": "aws" } } },
            ],
            "contexts": [
                { "name": "e", "context": { "cluster": "east", "user": "admin" } },
                { "name": "w", "context": { "cluster": "west", "user": "robot" } },
                { "name": "c", "context": { "cluster": "west", "user": "cloud" } },
                { "name": "lost", "context": { "cluster": "south", "user": "admin" } },
            ],
            "current-context": "e",
        })
    }

    #[test]
    fn context_combines_cluster_and_user() {
        let east = of_mapping(&config(), None).unwrap();
        assert_eq!((east.server.as_str(), east.server_name.as_deref()), ("https://east:6443", Some("api")));
        assert!(matches!(&east.authorities, Trusted::Pem(text) if text == b"ca"));
        assert_eq!((east.certificate.as_deref(), east.key.as_deref()), (Some(&b"cert"[..]), Some(&b"key"[..])));
        let west = of_mapping(&config(), Some("w")).unwrap();
        assert!(west.insecure && west.token.as_deref() == Some("secret") && west.headers.len() == 2);
    }

    #[test]
    fn unusable_kubeconfig_named_in_failure() {
        let message = |context| of_mapping(&config(), Some(context)).unwrap_err().message;
        assert!(message("c").contains("exec"));
        assert!(message("nope").contains("no \"nope\" among its contexts (it has: e, w, c, lost)"));
        assert!(message("lost").contains("no \"south\" among its clusters"));
    }

    #[test]
    fn paths_relative_to_file_first_file_wins() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("ca.pem", "authority");
        write(
            "a",
            "clusters: [{name: c, cluster: {server: 'https://one', certificate-authority: ca.pem}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
        );
        write(
            "b",
            "clusters: [{name: c, cluster: {server: 'https://two'}}]\nusers: [{name: u, user: {tokenFile: token}}]\n",
        );
        write("token", "abc\n");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let access = of_files(&format!("{}:{}:{}", at("a"), at("missing"), at("b")), None, &Host::alone()).unwrap();
        assert_eq!((access.server.as_str(), access.token.as_deref()), ("https://one", Some("abc")));
        assert!(matches!(&access.authorities, Trusted::Pem(text) if text == b"authority"));
        let missing = of_files(&at("missing"), None, &Host::alone()).unwrap_err();
        assert!(missing.message.contains("does not exist on the host"), "{}", missing.message);
    }
}
