//! `apt_key`: keys that apt trusts for all repositories.

use std::path::PathBuf;

use serde_json::Value;

use super::key::{self, Download};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    files::scratch::Scratch,
    process::{self, Command, Output, reason},
};

/// The `apt_key` module.
pub struct AptKey;

static SPEC: Spec = Spec {
    name: "apt_key",
    summary: "Manage apt's trusted keys",
    description: &[
        "Adds and removes keys with `apt-key`. Newer releases of Debian and Ubuntu lack that program: write the key \
         to a file there and name it in `signed-by`, as `deb822_repository` does.",
    ],
    options: &[
        Opt::new(
            "id",
            Kind::Str,
            "Id of the key: 8, 16 or more hexadecimal digits. If given, an installed key is not downloaded.",
        )
        .word(),
        Opt::new("url", Kind::Str, "URL of the key.").address(),
        Opt::new("data", Kind::Str, "Content of the key."),
        Opt::new("file", Kind::Path, "File on the host that contains the key."),
        Opt::new("keyserver", Kind::Str, "Keyserver to query for the `id`.").address().word(),
        Opt::new("keyring", Kind::Path, "File to store the key in. Default: apt's own keyring."),
        Opt::new("validate_certs", Kind::Bool, "Verify the server's certificate.").default("true"),
        Opt::new("state", Kind::Str, "`present` adds the key, `absent` removes it.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
    ],
    mutually_exclusive: &[&["data", "file", "keyserver", "url"]],
    examples: "- name: Trust a key\n  ansible.builtin.apt_key:\n    url: https://packages.example.org/key.asc\n    id: 9FED2BCBDCD29CDF762678CBAED4B06F473041FA\n",
    returns: &[
        Return { name: "id", kind: "str", when: "always", doc: "Id of the key." },
        Return { name: "short_id", kind: "str", when: "always", doc: "Last eight digits of the id." },
        Return { name: "fp", kind: "str", when: "always", doc: "Last sixteen digits of the id." },
        Return { name: "key_id", kind: "str", when: "always", doc: "Id in upper case, without `0x`." },
        Return { name: "before", kind: "list", when: "always", doc: "Ids of all keys before the task." },
        Return { name: "after", kind: "list", when: "changed", doc: "Ids of all keys after the task." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// A key id in its comparable forms.
#[derive(Debug, PartialEq, Eq)]
struct Id {
    short: String,
    fingerprint: String,
    whole: String,
}

impl Id {
    fn parse(text: &str) -> Option<Id> {
        let upper = text.trim().to_uppercase();
        let whole = upper.strip_prefix("0X").unwrap_or(&upper).to_owned();
        let hexadecimal = !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_hexdigit());
        let last = |count: usize| whole.get(whole.len().saturating_sub(count)..).unwrap_or_default().to_owned();
        let usual = matches!(whole.len(), 8 | 16) || whole.len() > 16;
        (hexadecimal && usual).then(|| Id { short: last(8), fingerprint: last(16), whole: whole.clone() })
    }

    /// Whether the id is among these ids of sixteen digits.
    fn is_in(&self, keys: &[String]) -> bool {
        keys.iter().any(|key| *key == self.fingerprint || self.whole.len() == 8 && key.ends_with(&self.short))
    }
}

/// The key's source, or its content if it had to be downloaded to learn its id.
enum Material {
    File(PathBuf),
    Bytes(Vec<u8>),
    Address(String),
    Server(String),
    None,
}

impl Module for AptKey {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        for program in ["apt-key", "gpg"] {
            if process::find(host, program).is_none() {
                return Err(Failure::new(format!(
                    "Failed to find required executable \"{program}\": this release has no apt-key, or gnupg is not installed. Name the \
                     key of a repository in signed-by instead."
                )));
            }
        }
        let mut material = match (args.str("file"), args.str("data"), args.str("url"), args.str("keyserver")) {
            (Some(file), ..) => Material::File(file.into()),
            (_, Some(data), ..) => Material::Bytes(data.as_bytes().to_vec()),
            (_, _, Some(url), _) => Material::Address(url.to_owned()),
            (.., Some(server)) => Material::Server(server.to_owned()),
            _ => Material::None,
        };
        let id = match args.filled("id") {
            Some(id) => id.to_owned(),
            None => {
                if let Material::Address(url) = &material {
                    material = Material::Bytes(Download { url, what: "key" }.read(args, host)?);
                }
                first_id(&material, host)?
            }
        };
        let key = Id::parse(&id).ok_or_else(|| Failure::new("Invalid key_id").with("id", id.as_str()))?;
        let keyring = args.str("keyring").map(str::to_owned);
        let before = keys(keyring.as_deref(), host)?;
        let present = args.str("state") != Some("absent");
        let shown = |keys: &[String]| -> Vec<String> {
            let short = key.whole.len() == 8;
            keys.iter()
                .map(|id| if short { id.get(id.len().saturating_sub(8)..).unwrap_or(id).into() } else { id.clone() })
                .collect()
        };
        let mut data = Map::new();
        data.insert("id".into(), id.into());
        data.insert("short_id".into(), key.short.as_str().into());
        data.insert("fp".into(), key.fingerprint.as_str().into());
        data.insert("key_id".into(), key.whole.as_str().into());
        data.insert("before".into(), shown(&before).into());
        if key.is_in(&before) == present {
            return Ok(Plan::unchanged().with_all(data));
        }
        if present && matches!(material, Material::None) {
            return Err(Failure::new("A key to add needs one of data, file, keyserver and url."));
        }
        let material = match material {
            // A download is checked before anything is changed.
            Material::Address(url) if !host.check() => {
                Material::Bytes(Download { url: &url, what: "key" }.read(args, host)?)
            }
            other => other,
        };
        let plan = Plan::change(move |host, outcome| {
            if present {
                add(&material, &key, keyring.as_deref(), host)?;
            } else {
                checked(
                    apt_key(keyring.as_deref()).args(["del", &key.short]),
                    &format!("Unable to remove a key with id {}", key.short),
                    host,
                )?;
            }
            let after = keys(keyring.as_deref(), host)?;
            let done = key.is_in(&after) == present;
            outcome.set("after", after);
            if done {
                return Ok(());
            }
            let what = if present { "failed to add the key" } else { "the key was not removed" };
            Err(Failure::new(format!(
                "apt-key did not return an error, but {what} (check that the id is correct and *not* a subkey)"
            )))
        });
        Ok(plan.with_all(data))
    }
}

fn apt_key(keyring: Option<&str>) -> Command {
    let command = Command::new("apt-key").plain_locale().variable("APT_KEY_DONT_WARN_ON_DANGEROUS_USAGE", "1");
    match keyring {
        Some(keyring) => command.args(["--keyring", keyring]),
        None => command,
    }
}

fn checked(command: Command, what: &str, host: &Host) -> Result<Output, Failure> {
    let words = command.words().join(" ");
    let output = command.run(host)?;
    if output.success() {
        return Ok(output);
    }
    Err(Failure::new(what)
        .with("cmd", words)
        .with("rc", output.rc)
        .with("stdout", output.stdout_text())
        .with("stderr", output.stderr_text()))
}

/// The ids of all keys that apt trusts.
fn keys(keyring: Option<&str>, host: &Host) -> Result<Vec<String>, Failure> {
    let command = apt_key(keyring).args(["adv", "--list-public-keys", "--keyid-format=long"]);
    let output = checked(command, "Unable to list public keys", host)?;
    Ok(listed(&output.stdout_text()))
}

/// Parses lines such as `pub   rsa4096/605C66F00D6C9793 2021-02-13 [SC]`.
fn listed(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with("pub") || line.starts_with("sub"));
    let current = lines.filter(|line| !line.contains("expired"));
    current.filter_map(|line| Some(line.split_whitespace().nth(1)?.split_once('/')?.1.to_owned())).collect()
}

/// The id of the first key in the given material.
fn first_id(material: &Material, host: &Host) -> Result<String, Failure> {
    let keys = match material {
        Material::File(path) => key::listed(path, host)?,
        Material::Bytes(bytes) => {
            let scratch = Scratch::new()?;
            let path = scratch.path().join("key");
            let wrote = std::fs::write(&path, bytes);
            wrote.map_err(|error| Failure::new(format!("The key could not be examined: {}.", reason(&error))))?;
            key::listed(&path, host)?
        }
        Material::Server(_) => return Err(Failure::new("Missing key_id, required with keyserver.")),
        Material::Address(_) | Material::None => {
            return Err(Failure::new("Without an id, one of data, file and url must be given.").with("id", Value::Null));
        }
    };
    keys.into_iter().next().map(|key| key.id).ok_or_else(|| Failure::new("Invalid key_id").with("id", Value::Null))
}

fn add(material: &Material, key: &Id, keyring: Option<&str>, host: &Host) -> Result<(), Failure> {
    match material {
        Material::File(path) => {
            let what = format!("Unable to add a key from file {}", path.display());
            checked(apt_key(keyring).arg("add").arg(path), &what, host)
        }
        Material::Bytes(bytes) => {
            let command = apt_key(keyring).args(["add", "-"]).input(bytes.clone());
            checked(command, "Unable to add a key from binary data", host)
        }
        Material::Server(server) => {
            let mut command = apt_key(keyring).args(["adv", "--no-tty", "--keyserver", server]);
            let proxies = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
            if let Some(proxy) = proxies.iter().find_map(|name| host.variable(name)).filter(|proxy| !proxy.is_empty()) {
                command = command.args(["--keyserver-options".to_owned(), format!("http-proxy={proxy}")]);
            }
            let what = format!("Error fetching key {} from keyserver: {server}", key.whole);
            checked(command.args(["--recv", key.whole.as_str()]), &what, host)
        }
        Material::Address(_) | Material::None => Err(Failure::new("There is no key to add.")),
    }
    .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_ids_normalised() {
        let id = Id::parse("0x9fed2bcbdcd29cdf762678cbaed4b06f473041fa").unwrap();
        assert_eq!((id.short.as_str(), id.fingerprint.as_str()), ("473041FA", "AED4B06F473041FA"));
        assert!(id.is_in(&["AED4B06F473041FA".into()]) && !id.is_in(&["0000000000000000".into()]));
        assert!(Id::parse("473041FA").unwrap().is_in(&["AED4B06F473041FA".into()]));
        for bad in ["", "12345", "XYZ45678", "123456789012"] {
            assert_eq!(Id::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn apt_key_listing_parsed() {
        let text = "/etc/apt/trusted.gpg.d/a.asc\n---\npub   rsa4096/605C66F00D6C9793 2021-02-13 [SC] [expires: 2029-02-11]\n      F9\nuid  X\nsub   rsa4096/648ACFD622F3D138 2021 [S]\npub   rsa1024/1111111111111111 2001 [expired: 2002]\n";
        assert_eq!(listed(text), ["605C66F00D6C9793", "648ACFD622F3D138"]);
    }
}
