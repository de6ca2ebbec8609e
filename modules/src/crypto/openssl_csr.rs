//! `openssl_csr`: certificate signing requests.

use serde_json::{Value, json};

use super::{
    key::{self, Key},
    options::BACKEND,
    public_key::{self, Prints},
    request::{REASONS, WantedRequest},
    signed::SigningRequest,
    target::{self, Target},
};
use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec, files::write::BACKUP, with_attributes,
};

/// The `openssl_csr` module.
pub struct OpensslCsr;

const fn flag(name: &'static str, aliases: &'static [&'static str], doc: &'static str) -> Opt {
    Opt::new(name, Kind::Bool, doc).default("false").aliases(aliases)
}

const fn texts(name: &'static str, aliases: &'static [&'static str], doc: &'static str) -> Opt {
    Opt::new(name, Kind::List(&Kind::Str), doc).aliases(aliases)
}

const fn part(name: &'static str, aliases: &'static [&'static str], doc: &'static str) -> Opt {
    Opt::new(name, Kind::Str, doc).aliases(aliases)
}

const CRL_POINT: &[Opt] = &[
    Opt::new("full_name", Kind::List(&Kind::Str), "Full name of the list's location."),
    Opt::new("relative_name", Kind::List(&Kind::Str), "Name of the list's location, relative to the CRL issuer."),
    Opt::new("crl_issuer", Kind::List(&Kind::Str), "Issuer that signs the list."),
    Opt::new("reasons", Kind::List(&Kind::Str), "Revocation reasons that the list covers.")
        .choices(REASONS.split_at(1).1),
];

static SPEC: Spec = Spec {
    name: "openssl_csr",
    collection: "community.crypto",
    summary: "Manage a certificate signing request",
    description: &[
        "Creates a request and signs it with its private key. Leaves an existing request unchanged if its content \
         and key match the options.",
        "Alternative names have a type prefix: `DNS:example.org`, `IP:192.0.2.1`, `email:`, `URI:`, `RID:`, \
         `dirName:` or `otherName:`. Write names with non-ASCII letters in their `xn--` form.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::Path, "Path of the request."),
        Opt::new("state", Kind::Str, "`present` creates the request, `absent` removes it.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("privatekey_path", Kind::Path, "Path of the private key."),
        Opt::new("privatekey_content", Kind::Str, "Content of the private key.").secret(),
        Opt::new("privatekey_passphrase", Kind::Str, "Passphrase of the private key.").secret(),
        Opt::new("digest", Kind::Str, "Digest for the signature.").default("\"sha256\""),
        Opt::new("version", Kind::Int, "Version of the request.").default("1").choices(&["1"]),
        Opt::new("subject", Kind::Dict, "Attributes of the subject; a list adds several attributes of the same type."),
        Opt::new(
            "subject_ordered",
            Kind::List(&Kind::Dict),
            "Attributes of the subject in this order, each a mapping with one key."
        ),
        part("country_name", &["C", "countryName"], "Attribute C (country) of the subject."),
        part(
            "state_or_province_name",
            &["ST", "stateOrProvinceName"],
            "Attribute ST (state or province) of the subject."
        ),
        part("locality_name", &["L", "localityName"], "Attribute L (locality) of the subject."),
        part("organization_name", &["O", "organizationName"], "Attribute O (organization) of the subject."),
        part(
            "organizational_unit_name",
            &["OU", "organizationalUnitName"],
            "Attribute OU (organizational unit) of the subject."
        ),
        part("common_name", &["CN", "commonName"], "Attribute CN (common name) of the subject."),
        part("email_address", &["E", "emailAddress"], "Attribute emailAddress of the subject."),
        texts("subject_alt_name", &["subjectAltName"], "Subject alternative names."),
        flag(
            "subject_alt_name_critical",
            &["subjectAltName_critical"],
            "Mark the subject alternative names as critical."
        ),
        Opt::new(
            "use_common_name_for_san",
            Kind::Bool,
            "Without `subject_alt_name`: use the common name as alternative name."
        )
        .default("true")
        .aliases(&["useCommonNameForSAN"]),
        texts("key_usage", &["keyUsage"], "Usages of the key."),
        flag("key_usage_critical", &["keyUsage_critical"], "Mark the key usage as critical."),
        texts("extended_key_usage", &["extKeyUsage", "extendedKeyUsage"], "Extended usages of the key."),
        flag(
            "extended_key_usage_critical",
            &["extKeyUsage_critical", "extendedKeyUsage_critical"],
            "Mark the extended key usage as critical."
        ),
        texts("basic_constraints", &["basicConstraints"], "Basic constraints: `CA:TRUE` for a CA, and `pathlen:N`."),
        flag("basic_constraints_critical", &["basicConstraints_critical"], "Mark the basic constraints as critical."),
        flag("ocsp_must_staple", &["ocspMustStaple"], "Require servers to staple an OCSP response."),
        flag(
            "ocsp_must_staple_critical",
            &["ocspMustStaple_critical"],
            "Mark the OCSP must-staple extension as critical."
        ),
        texts("name_constraints_permitted", &[], "Names for which the CA may issue certificates."),
        texts("name_constraints_excluded", &[], "Names for which the CA may not issue certificates."),
        flag("name_constraints_critical", &[], "Mark the name constraints as critical."),
        flag("create_subject_key_identifier", &[], "Include a subject key identifier computed from the public key."),
        Opt::new("subject_key_identifier", Kind::Str, "Subject key identifier, as pairs of hexadecimal digits."),
        Opt::new("authority_key_identifier", Kind::Str, "Authority key identifier, as pairs of hexadecimal digits."),
        texts("authority_cert_issuer", &[], "Issuer of the CA certificate."),
        Opt::new(
            "authority_cert_serial_number",
            Kind::Raw,
            "Serial number of the CA certificate; quote numbers above 64 bits."
        ),
        Opt::new("crl_distribution_points", Kind::List(&Kind::Dict), "CRL distribution points.").options(CRL_POINT),
        Opt::new("force", Kind::Bool, "Recreate the request even if nothing differs.").default("false"),
        Opt::new("return_content", Kind::Bool, "Return the content of the request.").default("false"),
        BACKEND,
        BACKUP,
    ],
    required_together: &[&["authority_cert_issuer", "authority_cert_serial_number"]],
    required_if_any: &[("state", "present", &["privatekey_path", "privatekey_content"])],
    mutually_exclusive: &[&["privatekey_path", "privatekey_content"], &["subject", "subject_ordered"]],
    examples: "- name: A request for the server's certificate\n  community.crypto.openssl_csr:\n    path: /etc/ssl/example.org.csr\n    \
               privatekey_path: /etc/ssl/private/example.org.pem\n    common_name: example.org\n    subject_alt_name: \
               [\"DNS:example.org\", \"DNS:www.example.org\"]\n",
    returns: &[
        Return { name: "filename", kind: "str", when: "always", doc: "Path of the request." },
        Return { name: "privatekey", kind: "str", when: "always", doc: "Path of the private key." },
        Return {
            name: "subject",
            kind: "list",
            when: "always",
            doc: "Attributes of the subject, each a list of its name and text.",
        },
        Return { name: "subjectAltName", kind: "list", when: "always", doc: "Subject alternative names." },
        Return { name: "keyUsage", kind: "list", when: "always", doc: "Usages of the key." },
        Return { name: "extendedKeyUsage", kind: "list", when: "always", doc: "Extended usages of the key." },
        Return { name: "basicConstraints", kind: "list", when: "always", doc: "Basic constraints." },
        Return {
            name: "ocspMustStaple",
            kind: "bool",
            when: "always",
            doc: "Whether servers must staple an OCSP response.",
        },
        Return { name: "csr", kind: "str", when: "return_content", doc: "Content of the request." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the backup of the old request.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for OpensslCsr {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let (target, mut data) = Target::of_key(args, host)?;
        let return_content = args.bool("return_content");
        if args.str("state") == Some("absent") {
            // `absent` reports as many requested values as possible, but ignores errors in them.
            if let Ok(wanted) = Key::required(args, host).and_then(|key| WantedRequest::of(args, &key)) {
                data.extend(described(&wanted, args));
            }
            if return_content {
                data.insert("csr".into(), Value::Null);
            }
            return Ok(target::removal(target.path, args.bool("backup")).with_all(data));
        }
        let key = Key::required(args, host)?;
        let method = key.method(args.required("digest")?)?;
        let wanted = WantedRequest::of(args, &key)?;
        data.extend(described(&wanted, args));
        let found = target.found()?;
        let before = found.as_deref().map_or_else(|| Ok(json!({})), |bytes| info(bytes, host))?;
        let diff = |after: &Value| Diff { before: before.clone(), after: after.clone(), ..Diff::default() };
        if return_content {
            data.insert("csr".into(), json!(found.as_deref().map(String::from_utf8_lossy)));
        }
        let request = found.as_deref().and_then(SigningRequest::read);
        let fits = match &request {
            Some(request) if !args.bool("force") => {
                wanted.is_said_by(request)
                    && request.key == key.public
                    && key::verify(&request.signed, &request.key, host)?
            }
            _ => false,
        };
        if fits {
            let diff = diff(&before);
            return Ok(target.kept()?.with_all(data).with_diff(diff));
        }
        // Reject invalid options before any change.
        let content = wanted.content(&key.public)?;
        let unchanged = diff(&before);
        let plan = Plan::change(move |host, outcome| {
            let text = public_key::pem("CERTIFICATE REQUEST", &key.sign(content, method, host)?);
            if let Some(diff) = outcome.diff.first_mut() {
                diff.after = info(text.as_bytes(), host)?;
            }
            if return_content {
                outcome.set("csr", text.as_str());
            }
            target.write(text, host, outcome)
        });
        Ok(plan.with_all(data).with_diff(unchanged))
    }
}

/// Result keys that repeat the requested values.
fn described(wanted: &WantedRequest, args: &Args) -> Map {
    let given = |option: &str| args.value(option).cloned().unwrap_or(Value::Null);
    let list = |option: &str| args.value(option).cloned().unwrap_or_else(|| json!([]));
    let mut data = Map::new();
    let subject: Vec<Value> = wanted.subject.iter().map(|(name, text)| json!([name, text])).collect();
    data.insert("subject".into(), subject.into());
    data.insert("subjectAltName".into(), json!(wanted.alternative_names));
    data.insert("keyUsage".into(), given("key_usage"));
    data.insert("extendedKeyUsage".into(), given("extended_key_usage"));
    data.insert("basicConstraints".into(), given("basic_constraints"));
    data.insert("ocspMustStaple".into(), args.bool("ocsp_must_staple").into());
    data.insert("name_constraints_permitted".into(), list("name_constraints_permitted"));
    data.insert("name_constraints_excluded".into(), list("name_constraints_excluded"));
    data
}

/// The content of a request, for the diff.
fn info(bytes: &[u8], host: &Host) -> Result<Value, Failure> {
    let found = SigningRequest::read(bytes).and_then(|request| Some((request.describe(Prints::Sha256)?, request)));
    let Some((mut info, request)) = found else { return Ok(json!({"can_parse_csr": false})) };
    info.insert("signature_valid".to_owned(), key::verify(&request.signed, &request.key, host)?.into());
    info.insert("can_parse_csr".to_owned(), true.into());
    Ok(info.into())
}
