//! `openssl_privatekey`: private keys for TLS.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{old::Old, options::BACKEND, target};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    files::{
        attributes::Attributes,
        backup,
        checksum::{self, ALGORITHMS, Hasher},
        mode::Mode,
        way::Link,
        write::{BACKUP, Source, Wanted},
    },
    process::{Command, Output},
    run, with_attributes,
};

/// The `openssl_privatekey` module.
pub struct OpensslPrivatekey;

const CURVES: &[&str] = &[
    "secp224r1",
    "secp256k1",
    "secp256r1",
    "secp384r1",
    "secp521r1",
    "secp192r1",
    "brainpoolP256r1",
    "brainpoolP384r1",
    "brainpoolP512r1",
    "sect163k1",
    "sect163r2",
    "sect233k1",
    "sect233r1",
    "sect283k1",
    "sect283r1",
    "sect409k1",
    "sect409r1",
    "sect571k1",
    "sect571r1",
];

static SPEC: Spec = Spec {
    name: "openssl_privatekey",
    collection: "community.crypto",
    summary: "Manage a private key",
    description: &[
        "Generates a key with `openssl`, and regenerates it if type, size or curve differ or the passphrase does not \
         match. Never passes the passphrase as a program argument.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::Path, "Path of the key."),
        Opt::new("state", Kind::Str, "`present` generates the key, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("type", Kind::Str, "Type of the key.")
            .default("\"RSA\"")
            .choices(&["DSA", "ECC", "Ed25519", "Ed448", "RSA", "X25519", "X448"]),
        Opt::new("size", Kind::Int, "Size of RSA and DSA keys in bits.").default("4096"),
        Opt::new("curve", Kind::Str, "Curve of ECC keys.").choices(CURVES),
        Opt::new("passphrase", Kind::Str, "Passphrase that encrypts the key.").secret(),
        Opt::new("cipher", Kind::Str, "Cipher for the encryption; `auto` means AES with 256 bits.").default("\"auto\""),
        Opt::new(
            "format",
            Kind::Str,
            "Format of the file; `auto` means PKCS 1 if the key type supports it, otherwise PKCS 8."
        )
        .default("\"auto_ignore\"")
        .choices(&["pkcs1", "pkcs8", "raw", "auto", "auto_ignore"]),
        Opt::new("format_mismatch", Kind::Str, "Handling of an existing key in another format.")
            .default("\"regenerate\"")
            .choices(&["regenerate", "convert"]),
        Opt::new("force", Kind::Bool, "Regenerate the key.").default("false"),
        Opt::new(
            "regenerate",
            Kind::Str,
            "Handling of an existing key: `partial_idempotence` regenerates it if it differs, `full_idempotence` \
             also if it is unreadable, `fail` fails in these cases.",
        )
        .default("\"full_idempotence\"")
        .choices(&["never", "fail", "partial_idempotence", "full_idempotence", "always"]),
        Opt::new("return_content", Kind::Bool, "Return the content of the key.").default("false"),
        BACKEND,
        BACKUP,
    ],
    required_if: &[("type", "ECC", &["curve"])],
    examples: "- name: The server's key\n  community.crypto.openssl_privatekey:\n    path: /etc/ssl/private/example.org.pem\n    type: ECC\n    curve: secp256r1\n",
    returns: &[
        Return { name: "filename", kind: "str", when: "always", doc: "Path of the key." },
        Return { name: "type", kind: "str", when: "always", doc: "Type of the key." },
        Return { name: "size", kind: "int", when: "always", doc: "Size of the key in bits." },
        Return { name: "curve", kind: "str", when: "type is ECC", doc: "Curve of the key." },
        Return {
            name: "fingerprint",
            kind: "dict",
            when: "present",
            doc: "Fingerprints of the public key by MD5, SHA-1 and SHA-2.",
        },
        Return { name: "privatekey", kind: "str", when: "return_content", doc: "Content of the key." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the backup of the old key.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for OpensslPrivatekey {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let task = Task::of(args)?;
        let keep_old = args.bool("backup");
        let folder = task.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) && !host.check() {
            return Err(Failure::new(format!(
                "The directory {} does not exist or the file is not a directory",
                folder.unwrap_or(Path::new("/")).display()
            )));
        }
        let mut data = Map::new();
        data.insert("filename".into(), task.path.display().to_string().into());
        data.insert("type".into(), task.kind.as_str().into());
        data.insert("size".into(), task.size.into());
        if let Some(curve) = &task.curve {
            data.insert("curve".into(), curve.as_str().into());
        }
        if args.str("state") == Some("absent") {
            if args.bool("return_content") {
                data.insert("privatekey".into(), Value::Null);
            }
            return Ok(target::removal(task.path, keep_old).with_all(data).with("fingerprint", Value::Null));
        }
        if task.path.is_dir() {
            let path = task.path.display();
            return Err(Failure::new(format!("{path} is a directory. Please specify a path to a file.")));
        }
        let attributes = Attributes::of(args, host)?;
        let return_content = args.bool("return_content");
        let old = Old::read(&task.path)?;
        let text = old.as_ref().map_or(&[][..], |old| &old.bytes);
        let found = task.look(text, host)?;
        let make = task.decide(args, found.as_ref())?;
        let finish = move |task: &Task, text: &[u8], host: &Host, data: &mut Map| -> Result<(), Failure> {
            data.insert("fingerprint".into(), task.fingerprints(text, host)?.into());
            if return_content {
                data.insert("privatekey".into(), String::from_utf8_lossy(text).into());
            }
            Ok(())
        };
        if make == Make::Nothing {
            if found.is_some() {
                finish(&task, text, host, &mut data)?;
            }
            if attributes.changes(&task.path, Link::Follow)?.is_empty() {
                return Ok(Plan::unchanged().with_all(data));
            }
            return Ok(Plan::change(move |_, _| attributes.apply(&task.path, Link::Follow).map(|_| ())).with_all(data));
        }
        let plan = Plan::change(move |host, outcome| {
            let (text, edited) = match old {
                Some(old) if make == Make::Convert => (task.converted(old.bytes, host)?, Some(old.file)),
                _ => (task.generated(host)?, None),
            };
            if keep_old && let Some(copy) = backup::make(&task.path)? {
                outcome.set("backup_file", copy.display().to_string());
            }
            let mut wanted = Wanted::new(&task.path, Source::Bytes(text.clone()));
            wanted.edited = edited;
            wanted.attributes = match attributes.mode {
                Some(_) => attributes,
                None => attributes.with_mode(Some(Mode::parse(&"0600".into())?)),
            };
            run::carry_out(wanted.plan(host)?, host)?;
            finish(&task, &text, host, &mut outcome.data)
        });
        Ok(plan.with_all(data))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Make {
    Nothing,
    New,
    Convert,
}

/// A key as `openssl` describes it.
struct Found {
    kind: &'static str,
    bits: i64,
    curve: Option<String>,
    format: &'static str,
}

struct Task {
    path: PathBuf,
    kind: String,
    size: i64,
    curve: Option<String>,
    passphrase: Option<String>,
    cipher: String,
    format: &'static str,
}

const SECRET: &str = "WINDLASS_PASSPHRASE";

impl Task {
    fn of(args: &Args) -> Result<Task, Failure> {
        let kind = args.required("type")?.to_owned();
        let cipher = args.str("cipher").unwrap_or("auto");
        let traditional = matches!(kind.as_str(), "RSA" | "DSA" | "ECC");
        let format = match args.str("format") {
            Some("pkcs8") => "pkcs8",
            Some("raw") => return Err(Failure::new("Keys in the format raw are not supported; use auto or pkcs8.")),
            Some("pkcs1") if !traditional => {
                return Err(Failure::new(format!("Keys of the type {kind} have no format pkcs1.")));
            }
            _ if traditional => "pkcs1",
            _ => "pkcs8",
        };
        Ok(Task {
            path: args.required("path")?.into(),
            size: args.int("size").unwrap_or(4096),
            curve: args.str("curve").filter(|_| kind == "ECC").map(str::to_owned),
            passphrase: args.filled("passphrase").map(str::to_owned),
            cipher: if cipher == "auto" { "aes256".to_owned() } else { cipher.to_owned() },
            format,
            kind,
        })
    }

    fn openssl(&self, words: &[&str], input: Option<Vec<u8>>, host: &Host) -> Result<Output, Failure> {
        let command = Command::new("openssl").plain_locale().args(words.iter().copied());
        let command = command.variable(SECRET, self.passphrase.as_deref().unwrap_or_default());
        match input {
            Some(bytes) => command.input(bytes),
            None => command,
        }
        .run(host)
    }

    fn must(&self, words: &[&str], input: Option<Vec<u8>>, host: &Host) -> Result<Vec<u8>, Failure> {
        let output = self.openssl(words, input, host)?;
        if output.success() {
            return Ok(output.stdout);
        }
        Err(output.failure(&["openssl".to_owned(), words.first().copied().unwrap_or_default().to_owned()]))
    }

    /// The existing key, if the passphrase can decrypt it.
    fn look(&self, key: &[u8], host: &Host) -> Result<Option<Found>, Failure> {
        let text = String::from_utf8_lossy(key);
        let encrypted = text.contains("ENCRYPTED");
        if encrypted != self.passphrase.is_some() {
            return Ok(None);
        }
        let pass = format!("env:{SECRET}");
        let output = self.openssl(&["pkey", "-passin", &pass, "-text", "-noout"], Some(key.to_vec()), host)?;
        Ok(output.success().then(|| parse(&output.stdout_text(), &text)).flatten())
    }

    fn decide(&self, args: &Args, found: Option<&Found>) -> Result<Make, Failure> {
        if !self.path.exists() || args.bool("force") {
            return Ok(Make::New);
        }
        let regenerate = args.required("regenerate")?;
        let Some(found) = found else {
            return match regenerate {
                "always" | "full_idempotence" => Ok(Make::New),
                "never" => Ok(Make::Nothing),
                _ => Err(Failure::new(format!(
                    "Unable to read the key {}. The key is protected with another passphrase / no passphrase / a passphrase, or broken. Will \
                     not proceed. To force regeneration, set regenerate to full_idempotence or always, or force.",
                    self.path.display()
                ))),
            };
        };
        let differs = found.kind != self.kind
            || matches!(self.kind.as_str(), "RSA" | "DSA") && found.bits != self.size
            || self.curve.as_deref().is_some_and(|curve| found.curve.as_deref() != Some(curve));
        if regenerate == "always" || differs && matches!(regenerate, "partial_idempotence" | "full_idempotence") {
            return Ok(Make::New);
        }
        if differs && regenerate == "fail" {
            return Err(Failure::new(
                "Key has wrong type and/or size. Will not proceed. To force regeneration, set regenerate to partial_idempotence, \
                 full_idempotence or always, or force.",
            ));
        }
        let other_format = args.str("format") != Some("auto_ignore") && found.format != self.format;
        Ok(match (other_format, regenerate, args.str("format_mismatch")) {
            (false, ..) | (_, "never", _) => Make::Nothing,
            (true, _, Some("convert")) => Make::Convert,
            (true, "fail", _) => {
                return Err(Failure::new("Key has wrong format. Will not proceed; set format_mismatch to convert."));
            }
            (true, ..) => Make::New,
        })
    }

    fn generated(&self, host: &Host) -> Result<Vec<u8>, Failure> {
        let bits = self.size.to_string();
        let key = match self.kind.as_str() {
            "RSA" => self.must(
                &["genpkey", "-algorithm", "RSA", "-pkeyopt", &format!("rsa_keygen_bits:{bits}")],
                None,
                host,
            )?,
            "DSA" => {
                let option = format!("dsa_paramgen_bits:{bits}");
                let parameters =
                    self.must(&["genpkey", "-genparam", "-algorithm", "DSA", "-pkeyopt", &option], None, host)?;
                self.must(&["genpkey", "-paramfile", "/dev/stdin"], Some(parameters), host)?
            }
            "ECC" => {
                let curve = format!("ec_paramgen_curve:{}", openssl_curve(self.curve.as_deref().unwrap_or_default()));
                self.must(
                    &["genpkey", "-algorithm", "EC", "-pkeyopt", &curve, "-pkeyopt", "ec_param_enc:named_curve"],
                    None,
                    host,
                )?
            }
            kind => self.must(&["genpkey", "-algorithm", kind], None, host)?,
        };
        self.formatted(key, host)
    }

    fn converted(&self, key: Vec<u8>, host: &Host) -> Result<Vec<u8>, Failure> {
        let key = self.must(&["pkey", "-passin", &format!("env:{SECRET}")], Some(key), host)?;
        self.formatted(key, host)
    }

    /// Converts a key to the requested format and encryption.
    fn formatted(&self, key: Vec<u8>, host: &Host) -> Result<Vec<u8>, Failure> {
        let (cipher, pass) = (format!("-{}", self.cipher), format!("env:{SECRET}"));
        let mut words = vec!["pkey"];
        if self.format == "pkcs1" {
            words.push("-traditional");
        }
        if self.passphrase.is_some() {
            words.extend([cipher.as_str(), "-passout", &pass]);
        }
        self.must(&words, Some(key), host)
    }

    /// Hashes of the public key, by hash method.
    fn fingerprints(&self, key: &[u8], host: &Host) -> Result<Map, Failure> {
        let pass = format!("env:{SECRET}");
        let der = self.must(&["pkey", "-passin", &pass, "-pubout", "-outform", "DER"], Some(key.to_vec()), host)?;
        let mut all = Map::new();
        for name in ALGORITHMS {
            let Some(hasher) = Hasher::named(name) else { continue };
            let digits = checksum::of_bytes(hasher, &der);
            let pairs: Vec<&str> = (0..digits.len()).step_by(2).filter_map(|at| digits.get(at..at + 2)).collect();
            all.insert((*name).to_owned(), Value::from(pairs.join(":")));
        }
        Ok(all)
    }
}

/// openssl has different names for two curves.
fn openssl_curve(curve: &str) -> &str {
    match curve {
        "secp256r1" => "prime256v1",
        "secp192r1" => "prime192v1",
        other => other,
    }
}

/// Parses `openssl pkey -text`, and the format from the file's first line.
fn parse(text: &str, file: &str) -> Option<Found> {
    let first = text.lines().next()?;
    let curve = text.lines().find_map(|line| line.trim().strip_prefix("ASN1 OID:")).map(|oid| match oid.trim() {
        "prime256v1" => "secp256r1".to_owned(),
        "prime192v1" => "secp192r1".to_owned(),
        other => other.to_owned(),
    });
    let kind = match first {
        _ if curve.is_some() => "ECC",
        _ if first.starts_with("ED25519") => "Ed25519",
        _ if first.starts_with("ED448") => "Ed448",
        _ if first.starts_with("X25519") => "X25519",
        _ if first.starts_with("X448") => "X448",
        _ if text.contains("modulus:") => "RSA",
        _ => "DSA",
    };
    let bits = first.split_once('(').and_then(|(_, rest)| rest.split(' ').next()).and_then(|bits| bits.parse().ok());
    let format = if file.contains("BEGIN PRIVATE KEY") || file.contains("BEGIN ENCRYPTED PRIVATE KEY") {
        "pkcs8"
    } else {
        "pkcs1"
    };
    Some(Found { kind, bits: bits.unwrap_or(0), curve, format })
}
