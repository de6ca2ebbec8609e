//! `openssl_publickey`: writes the public key of a private key to a file.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    der::Element,
    key::Key,
    names,
    options::BACKEND,
    public_key::{Prints, describe, fingerprints, from_pem, pem},
    target::{self, Target},
};
use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec, files::write::BACKUP, with_attributes,
};

/// The `openssl_publickey` module.
pub struct OpensslPublickey;

static SPEC: Spec = Spec {
    name: "openssl_publickey",
    collection: "community.crypto",
    summary: "Write the public key of a private key to a file",
    description: &["Writes the public key of a private key, in PEM or in OpenSSH's format."],
    options: with_attributes![
        Opt::required("path", Kind::Path, "Path of the public key."),
        Opt::new("state", Kind::Str, "`present` writes the file, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("format", Kind::Str, "Format of the public key.").default("\"PEM\"").choices(&["OpenSSH", "PEM"]),
        Opt::new("privatekey_path", Kind::Path, "Path of the private key."),
        Opt::new("privatekey_content", Kind::Str, "Content of the private key.").secret(),
        Opt::new("privatekey_passphrase", Kind::Str, "Passphrase of the private key.").secret(),
        Opt::new("force", Kind::Bool, "Rewrite the file even if nothing differs.").default("false"),
        Opt::new("return_content", Kind::Bool, "Return the public key.").default("false"),
        BACKEND,
        BACKUP,
    ],
    required_if_any: &[("state", "present", &["privatekey_path", "privatekey_content"])],
    mutually_exclusive: &[&["privatekey_path", "privatekey_content"]],
    examples: "- name: The public key beside the private one\n  community.crypto.openssl_publickey:\n    path: /etc/ssl/example.org.pub\n    \
               privatekey_path: /etc/ssl/private/example.org.pem\n",
    returns: &[
        Return { name: "filename", kind: "str", when: "always", doc: "Path of the public key." },
        Return { name: "format", kind: "str", when: "always", doc: "Format of the public key." },
        Return { name: "privatekey", kind: "str", when: "always", doc: "Path of the private key." },
        Return { name: "fingerprint", kind: "dict", when: "present", doc: "Fingerprints of the public key." },
        Return { name: "publickey", kind: "str", when: "return_content", doc: "Public key." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the backup of the old file.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for OpensslPublickey {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let (target, mut data) = Target::of_key(args, host)?;
        let return_content = args.bool("return_content");
        data.insert("format".into(), args.required("format")?.into());
        data.insert("fingerprint".into(), json!({}));
        let found = target.found()?;
        let shown = |bytes: Option<&[u8]>| Value::from(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
        if args.str("state") == Some("absent") {
            let plan = target::removal(target.path, args.bool("backup"));
            if return_content {
                let left = if host.check() { shown(found.as_deref()) } else { Value::Null };
                data.insert("publickey".into(), left);
            }
            return Ok(plan.with_all(data).with_diff(difference(json!({}), json!({}))));
        }
        let key = Key::required(args, host)?;
        let wanted = Form::of(args, &key)?;
        let before = found.as_deref().map_or_else(|| json!({}), info);
        if return_content {
            data.insert("publickey".into(), shown(found.as_deref()));
        }
        let prints = fingerprints(&key.public, Prints::All);
        let fits = !args.bool("force") && found.as_deref().is_some_and(|found| wanted.is(found));
        let plan = if fits {
            target.kept()?.with_diff(difference(before.clone(), before))
        } else {
            let text = wanted.text.clone();
            let diff = difference(before, info(text.as_bytes()));
            let plan = Plan::change(move |host, outcome| {
                if return_content {
                    outcome.set("publickey", text.as_str());
                }
                target.write(text, host, outcome)
            });
            plan.with_diff(diff)
        };
        if !host.check() {
            data.insert("fingerprint".into(), prints.into());
        }
        Ok(plan.with_all(data))
    }
}

fn difference(before: Value, after: Value) -> Diff {
    Diff { before, after, ..Diff::default() }
}

/// The public key in the requested format.
struct Form<'a> {
    text: String,
    is_openssh: bool,
    key: &'a [u8],
}

impl<'a> Form<'a> {
    fn of(args: &Args, key: &'a Key) -> Result<Form<'a>, Failure> {
        let is_openssh = args.str("format") == Some("OpenSSH");
        let text = match is_openssh {
            true => openssh(&key.public)
                .ok_or_else(|| Failure::new("OpenSSH has no form for public keys of this kind; use the format PEM."))?,
            false => pem("PUBLIC KEY", &key.public),
        };
        Ok(Form { text, is_openssh, key: &key.public })
    }

    /// Whether a file contains the key. The comment of an OpenSSH key is ignored.
    fn is(&self, found: &[u8]) -> bool {
        if !self.is_openssh {
            return from_pem(found, &["PUBLIC KEY"]).is_some_and(|found| found == self.key);
        }
        let found = String::from_utf8_lossy(found);
        found.split_whitespace().take(2).eq(self.text.split_whitespace())
    }
}

/// The content of a file, for the diff.
fn info(bytes: &[u8]) -> Value {
    let mut told = Map::new();
    let found = from_pem(bytes, &["PUBLIC KEY"]).and_then(|key| describe(&key, Prints::Sha256, &mut told));
    let mut info = Map::new();
    info.insert("can_parse_key".into(), found.is_some().into());
    for (key, short) in
        [("public_key_fingerprints", "fingerprints"), ("public_key_type", "type"), ("public_key_data", "public_data")]
    {
        info.extend(told.shift_remove(key).map(|value| (short.to_owned(), value)));
    }
    info.into()
}

/// A public key in OpenSSH's format, without a comment.
fn openssh(key: &[u8]) -> Option<String> {
    let parts = Element::first(key)?.0.parts()?;
    let algorithm = parts.first()?.parts()?;
    let bits = parts.get(1)?.body.get(1..)?;
    let (name, fields): (String, Vec<&[u8]>) = match algorithm.first()?.oid().as_str() {
        "1.2.840.113549.1.1.1" => {
            let numbers = Element::first(bits)?.0.parts()?;
            // DER and OpenSSH encode numbers with the same bytes.
            ("ssh-rsa".to_owned(), vec![numbers.get(1)?.body, numbers.first()?.body])
        }
        "1.2.840.10045.2.1" => {
            let oid = algorithm.get(1)?.oid();
            let curve = match names::of(&oid) {
                "secp256r1" => "nistp256",
                "secp384r1" => "nistp384",
                "secp521r1" => "nistp521",
                _ => return None,
            };
            (format!("ecdsa-sha2-{curve}"), vec![curve.as_bytes(), bits])
        }
        "1.3.101.112" => ("ssh-ed25519".to_owned(), vec![bits]),
        _ => return None,
    };
    let mut blob = Vec::new();
    for field in std::iter::once(name.as_bytes()).chain(fields) {
        blob.extend(u32::try_from(field.len()).ok()?.to_be_bytes());
        blob.extend(field);
    }
    Some(format!("{name} {}", STANDARD.encode(blob)))
}
