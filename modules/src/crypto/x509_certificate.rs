//! `x509_certificate`: certificates, self-signed or signed by your own CA.

use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    der::{Element, number},
    encode,
    extension::{self, AUTHORITY_KEY, Extension, SUBJECT_KEY},
    key::{self, Key, Method},
    options::BACKEND,
    public_key::{self, Prints},
    signed::{Certificate, SigningRequest},
    target::{self, Target},
    times::{moment, shown},
};
use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    files::{way, write::BACKUP},
    process::reason,
    with_attributes,
};

/// The `x509_certificate` module.
pub struct X509Certificate;

const fn identifier(name: &'static str) -> Opt {
    Opt::new(name, Kind::Str, "Include the subject key identifier.").default("\"create_if_not_provided\"").choices(&[
        "create_if_not_provided",
        "always_create",
        "never_create",
    ])
}

const fn time(name: &'static str, default: &'static str, aliases: &'static [&'static str], doc: &'static str) -> Opt {
    Opt::new(name, Kind::Str, doc).default(default).aliases(aliases)
}

const FROM: &str = "Start of validity: relative to now as `-1d`, or absolute as `20300101000000Z`.";
const UNTIL: &str = "End of validity: relative to now as `+52w`, or absolute as `20300101000000Z`.";
const DIGEST: &str = "Digest for the signature.";
const VERSION: &str = "Version of the certificate.";

static SPEC: Spec = Spec {
    name: "x509_certificate",
    collection: "community.crypto",
    summary: "Manage a certificate",
    description: &[
        "Creates a certificate from a request, signed with its own key (`selfsigned`) or by a CA (`ownca`). Leaves \
         an existing certificate unchanged if it matches request, key and CA. Compares validity only with \
         `ignore_timestamps: false`.",
        "The provider `acme` is not supported, because it runs acme-tiny, an external program with its own account.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::Path, "Path of the certificate."),
        Opt::new("state", Kind::Str, "`present` creates the certificate, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("provider", Kind::Str, "Signer of the certificate.").choices(&["acme", "ownca", "selfsigned"]),
        Opt::new("csr_path", Kind::Path, "Path of the signing request."),
        Opt::new("csr_content", Kind::Str, "Content of the signing request."),
        Opt::new("privatekey_path", Kind::Path, "Path of the private key."),
        Opt::new("privatekey_content", Kind::Str, "Content of the private key.").secret(),
        Opt::new("privatekey_passphrase", Kind::Str, "Passphrase of the private key.").secret(),
        Opt::new("ignore_timestamps", Kind::Bool, "Ignore differences in the validity period.").default("true"),
        Opt::new("selfsigned_version", Kind::Int, VERSION).default("3").choices(&["3"]),
        Opt::new("selfsigned_digest", Kind::Str, DIGEST).default("\"sha256\""),
        time("selfsigned_not_before", "\"+0s\"", &["selfsigned_notBefore"], FROM),
        time("selfsigned_not_after", "\"+3650d\"", &["selfsigned_notAfter"], UNTIL),
        identifier("selfsigned_create_subject_key_identifier"),
        Opt::new("ownca_path", Kind::Path, "Path of the CA certificate."),
        Opt::new("ownca_content", Kind::Str, "Content of the CA certificate."),
        Opt::new("ownca_privatekey_path", Kind::Path, "Path of the CA's private key."),
        Opt::new("ownca_privatekey_content", Kind::Str, "Content of the CA's private key.").secret(),
        Opt::new("ownca_privatekey_passphrase", Kind::Str, "Passphrase of the CA's private key.").secret(),
        Opt::new("ownca_digest", Kind::Str, DIGEST).default("\"sha256\""),
        Opt::new("ownca_version", Kind::Int, VERSION).default("3").choices(&["3"]),
        time("ownca_not_before", "\"+0s\"", &[], FROM),
        time("ownca_not_after", "\"+3650d\"", &[], UNTIL),
        identifier("ownca_create_subject_key_identifier"),
        Opt::new("ownca_create_authority_key_identifier", Kind::Bool, "Include the authority key identifier.")
            .default("true"),
        Opt::new("acme_accountkey_path", Kind::Path, "Option of the unsupported provider `acme`."),
        Opt::new("acme_challenge_path", Kind::Path, "Option of the unsupported provider `acme`."),
        Opt::new("acme_chain", Kind::Bool, "Option of the unsupported provider `acme`.").default("false"),
        Opt::new("acme_directory", Kind::Str, "Option of the unsupported provider `acme`.")
            .default("\"https://acme-v02.api.letsencrypt.org/directory\""),
        Opt::new("force", Kind::Bool, "Recreate the certificate even if nothing differs.").default("false"),
        Opt::new("return_content", Kind::Bool, "Return the content of the certificate.").default("false"),
        BACKEND,
        BACKUP,
    ],
    mutually_exclusive: &[
        &["csr_path", "csr_content"],
        &["privatekey_path", "privatekey_content"],
        &["ownca_path", "ownca_content"],
        &["ownca_privatekey_path", "ownca_privatekey_content"],
    ],
    required_if: &[("state", "present", &["provider"])],
    examples: "- name: A certificate of the house's authority\n  community.crypto.x509_certificate:\n    path: /etc/ssl/example.org.crt\n    \
               csr_path: /etc/ssl/example.org.csr\n    provider: ownca\n    ownca_path: /etc/ssl/ca.crt\n    ownca_privatekey_path: \
               /etc/ssl/private/ca.pem\n    ownca_not_after: +90d\n",
    returns: &[
        Return { name: "filename", kind: "str", when: "always", doc: "Path of the certificate." },
        Return { name: "privatekey", kind: "str", when: "always", doc: "Path of the private key." },
        Return { name: "csr", kind: "str", when: "always", doc: "Path of the signing request." },
        Return { name: "ca_cert", kind: "str", when: "ownca", doc: "Path of the CA certificate." },
        Return { name: "ca_privatekey", kind: "str", when: "ownca", doc: "Path of the CA's private key." },
        Return { name: "notBefore", kind: "str", when: "present", doc: "Start of validity." },
        Return { name: "notAfter", kind: "str", when: "present", doc: "End of validity." },
        Return {
            name: "serial_number",
            kind: "int",
            when: "present",
            doc: "Serial number; text if it exceeds 64 bits.",
        },
        Return { name: "certificate", kind: "str", when: "return_content", doc: "Content of the certificate." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the backup of the old certificate.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for X509Certificate {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let target = Target::of(args, host)?;
        let return_content = args.bool("return_content");
        let mut data = Map::new();
        data.insert("filename".into(), target.path.display().to_string().into());
        data.insert("privatekey".into(), args.str("privatekey_path").into());
        data.insert("csr".into(), args.str("csr_path").into());
        if args.str("state") == Some("absent") {
            if return_content {
                data.insert("certificate".into(), Value::Null);
            }
            return Ok(target::removal(target.path, args.bool("backup")).with_all(data));
        }
        target.needs_folder()?;
        let task = Task::of(args, host)?;
        if task.authority.is_some() {
            data.insert("ca_cert".into(), args.str("ownca_path").into());
            data.insert("ca_privatekey".into(), args.str("ownca_privatekey_path").into());
        }
        let found = target.found()?;
        let before = found.as_deref().map_or_else(|| json!({}), info);
        let diff = Diff { before: before.clone(), after: before, ..Diff::default() };
        if return_content {
            data.insert("certificate".into(), json!(found.as_deref().map(String::from_utf8_lossy)));
        }
        data.insert("notBefore".into(), shown(task.from).into());
        data.insert("notAfter".into(), shown(task.until).into());
        data.insert("serial_number".into(), number(&task.serial));
        let certificate = found.as_deref().and_then(Certificate::read);
        let fits = match &certificate {
            Some(certificate) if !args.bool("force") => task.fits(certificate, args, host)?,
            _ => false,
        };
        if let Some(certificate) = certificate.filter(|_| fits) {
            if !host.check() {
                data.extend(validity(&certificate));
            }
            return Ok(target.kept()?.with_all(data).with_diff(diff));
        }
        let plan = Plan::change(move |host, outcome| {
            let text = public_key::pem("CERTIFICATE", &task.sign(host)?);
            if let Some(diff) = outcome.diff.first_mut() {
                diff.after = info(text.as_bytes());
            }
            if let Some(certificate) = Certificate::read(text.as_bytes()) {
                outcome.data.extend(validity(&certificate));
            }
            if return_content {
                outcome.set("certificate", text.as_str());
            }
            target.write(text, host, outcome)
        });
        Ok(plan.with_all(data).with_diff(diff))
    }
}

/// Validity and serial number of a certificate.
fn validity(certificate: &Certificate) -> Map {
    let [from, until] = &certificate.validity;
    let mut data = Map::new();
    data.insert("notBefore".into(), from.as_str().into());
    data.insert("notAfter".into(), until.as_str().into());
    data.insert("serial_number".into(), certificate.serial.clone());
    data
}

/// The content of a certificate, for the diff.
fn info(bytes: &[u8]) -> Value {
    match Certificate::read(bytes).and_then(|certificate| certificate.describe(Prints::Sha256, Timestamp::now())) {
        Some(mut info) => {
            info.insert("can_parse_certificate".to_owned(), true.into());
            info.into()
        }
        None => json!({"can_parse_certificate": false}),
    }
}

/// A requested certificate.
struct Task {
    /// The certificate's own private key, if given.
    key: Option<Key>,
    request: Option<SigningRequest>,
    /// Certificate and key of the CA; `None` for a self-signed certificate.
    authority: Option<(Certificate, Key)>,
    method: Method,
    from: Timestamp,
    until: Timestamp,
    /// `create_subject_key_identifier`.
    call_key: String,
    /// `ownca_create_authority_key_identifier`.
    call_authority: bool,
    serial: Vec<u8>,
}

impl Task {
    fn of(args: &Args, host: &Host) -> Result<Task, Failure> {
        let provider = args.required("provider")?;
        let given = |options: [&str; 2]| options.iter().any(|option| args.str(option).is_some());
        let needs = |options: [&'static str; 2]| match given(options) {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "One of {} and {} must be specified for the {provider} provider.",
                options[0], options[1]
            ))),
        };
        match provider {
            "acme" => {
                return Err(Failure::new(
                    "The provider acme is not supported. Use community.crypto.acme_certificate, which runs as a Python module, or a client such \
                     as certbot or acme-tiny by ansible.builtin.command.",
                ));
            }
            "ownca" => {
                needs(["ownca_path", "ownca_content"])?;
                needs(["ownca_privatekey_path", "ownca_privatekey_content"])?;
                if !given(["csr_path", "csr_content"]) {
                    return Err(Failure::new("csr_path or csr_content is required for ownca provider"));
                }
            }
            _ => needs(["privatekey_path", "privatekey_content"])?,
        }
        let request = match text_of(args, "csr", "certificate signing request")? {
            Some(text) => Some(SigningRequest::read(&text).ok_or_else(|| {
                Failure::new("Unable to load the certificate signing request: there is none in PEM, or it is broken.")
            })?),
            None => None,
        };
        let key = Key::of(args, "privatekey", host)?;
        let authority = if provider == "ownca" { Some(authority(args, host)?) } else { None };
        let signer = authority.as_ref().map(|(_, key)| key).or(key.as_ref());
        let signer = signer.ok_or_else(|| Failure::new("Private key has not been provided"))?;
        let now = Timestamp::now();
        let time = |option: &str| {
            let option = format!("{provider}_{option}");
            let text = args.str(&option).unwrap_or_default();
            moment(text, now).ok_or_else(|| Failure::new(format!("The time spec \"{text}\" for {option} is invalid")))
        };
        let mut serial = vec![0; 20];
        getrandom::fill(&mut serial)
            .map_err(|error| Failure::new(format!("The system provided no random bytes: {error}.")))?;
        if let Some(first) = serial.first_mut() {
            *first &= 0x7f;
        }
        Ok(Task {
            method: signer.method(args.required(&format!("{provider}_digest"))?)?,
            from: time("not_before")?,
            until: time("not_after")?,
            call_key: args.required(&format!("{provider}_create_subject_key_identifier"))?.to_owned(),
            call_authority: provider == "ownca" && args.bool("ownca_create_authority_key_identifier"),
            key,
            request,
            authority,
            serial,
        })
    }

    fn requested(&self) -> &[Extension] {
        self.request.as_ref().map_or(&[], |request| &request.extensions)
    }

    /// The encoded subject from the request; empty without a request.
    fn subject(&self) -> Vec<u8> {
        self.request.as_ref().map_or_else(|| encode::sequence([]), |request| request.subject.der.clone())
    }

    /// The public key to certify: with a CA the request's, otherwise the signing key's.
    fn public(&self) -> Vec<u8> {
        match (&self.authority, &self.request, &self.key) {
            (Some(_), Some(request), _) => request.key.clone(),
            (_, _, Some(key)) => key.public.clone(),
            _ => Vec::new(),
        }
    }

    /// The authority key identifier: from the CA certificate, otherwise a hash of its key.
    fn authority_key(&self) -> Option<Vec<u8>> {
        let (certificate, _) = self.authority.as_ref().filter(|_| self.call_authority)?;
        let id = extension::subject_key(&certificate.extensions)
            .map(<[u8]>::to_vec)
            .or_else(|| public_key::identifier(&certificate.key))?;
        Some(encode::sequence([encode::element(0x80, &id)]))
    }

    fn sign(&self, host: &Host) -> Result<Vec<u8>, Failure> {
        let public = self.public();
        let mut extensions = Vec::new();
        for extension in self.requested() {
            let again = extension.oid == SUBJECT_KEY && self.call_key == "always_create"
                || extension.oid == AUTHORITY_KEY && self.call_authority;
            if !again {
                extensions.push(extension.clone());
            }
        }
        if extension::find(&extensions, SUBJECT_KEY).is_none()
            && self.call_key != "never_create"
            && let Some(id) = public_key::identifier(&public)
        {
            extensions.push(Extension::uncritical(SUBJECT_KEY, encode::element(0x04, &id)));
        }
        if let Some(value) = self.authority_key() {
            extensions.push(Extension::uncritical(AUTHORITY_KEY, value));
        }
        let extensions = match extensions.as_slice() {
            [] => Vec::new(),
            all => encode::element(0xa3, &extension::encode_all(all)),
        };
        let issuer =
            self.authority.as_ref().map_or_else(|| self.subject(), |(certificate, _)| certificate.subject.der.clone());
        let content = encode::sequence([
            encode::element(0xa0, &encode::integer(&[2])),
            encode::integer(&self.serial),
            self.method.identifier(),
            issuer,
            encode::sequence([encode::time(self.from), encode::time(self.until)]),
            self.subject(),
            public,
            extensions,
        ]);
        let signer = self.authority.as_ref().map(|(_, key)| key).or(self.key.as_ref());
        let signer = signer.ok_or_else(|| Failure::new("Private key has not been provided"))?;
        signer.sign(content, self.method, host)
    }

    /// Whether an existing certificate matches the task.
    fn fits(&self, found: &Certificate, args: &Args, host: &Host) -> Result<bool, Failure> {
        if self.key.as_ref().is_some_and(|key| key.public != found.key) || !self.fits_request(found, host)? {
            return Ok(false);
        }
        if self.call_key != "never_create" {
            let requested =
                extension::subject_key(self.requested()).filter(|_| self.call_key == "create_if_not_provided");
            let wanted = requested.map(<[u8]>::to_vec).or_else(|| public_key::identifier(&found.key));
            if extension::subject_key(&found.extensions) != wanted.as_deref() {
                return Ok(false);
            }
        }
        let [from, until] = &found.validity;
        if !args.bool("ignore_timestamps") && (*from != shown(self.from) || *until != shown(self.until)) {
            return Ok(false);
        }
        let (signer, issuer) = match (&self.authority, &self.key) {
            (Some((authority, _)), _) => (&authority.key, Some(&authority.subject.parts)),
            (None, Some(key)) => (&key.public, None),
            (None, None) => return Ok(false),
        };
        if issuer.is_some_and(|issuer| *issuer != found.issuer.parts) {
            return Ok(false);
        }
        if let Some(wanted) = self.authority_key()
            && extension::find(&found.extensions, AUTHORITY_KEY).is_none_or(|extension| extension.value != wanted)
        {
            return Ok(false);
        }
        key::verify(&found.signed, signer, host)
    }

    fn fits_request(&self, found: &Certificate, host: &Host) -> Result<bool, Failure> {
        let compared = |all: &[Extension]| -> Vec<Extension> {
            let own = |extension: &&Extension| {
                !(extension.oid == SUBJECT_KEY && self.call_key != "never_create"
                    || extension.oid == AUTHORITY_KEY && self.call_authority)
            };
            let mut kept: Vec<Extension> = all.iter().filter(own).cloned().collect();
            kept.sort_by(|one, other| one.oid.cmp(&other.oid));
            kept
        };
        let same = compared(&found.extensions) == compared(self.requested());
        match &self.request {
            None => Ok(same && found.subject.parts.is_empty()),
            Some(request) => Ok(same
                && request.key == found.key
                && request.subject.parts == found.subject.parts
                && key::verify(&request.signed, &request.key, host)?),
        }
    }
}

/// The text from `PREFIX_content`, or from the file in `PREFIX_path`.
fn text_of(args: &Args, prefix: &str, what: &str) -> Result<Option<Vec<u8>>, Failure> {
    let (content, path) = (args.str(&format!("{prefix}_content")), args.str(&format!("{prefix}_path")));
    match (content, path) {
        (Some(content), _) => Ok(Some(content.as_bytes().to_vec())),
        (None, Some(path)) if !std::path::Path::new(path).exists() => {
            Err(Failure::new(format!("The {what} file {path} does not exist")))
        }
        (None, Some(path)) => way::read(Path::new(path))
            .map(Some)
            .map_err(|error| Failure::new(format!("The {what} file {path} cannot be read: {}", reason(&error)))),
        (None, None) => Ok(None),
    }
}

fn authority(args: &Args, host: &Host) -> Result<(Certificate, Key), Failure> {
    let text = text_of(args, "ownca", "CA certificate")?.unwrap_or_default();
    let certificate = Certificate::read(&text)
        .filter(|certificate| Element::first(&certificate.key).is_some())
        .ok_or_else(|| Failure::new("Unable to load the CA certificate: there is none in PEM, or it is broken."))?;
    let key = Key::of(args, "ownca_privatekey", host)?
        .ok_or_else(|| Failure::new("The CA private key has not been provided"))?;
    if key.public != certificate.key {
        return Err(Failure::new("The CA private key does not belong to the CA certificate"));
    }
    Ok((certificate, key))
}
