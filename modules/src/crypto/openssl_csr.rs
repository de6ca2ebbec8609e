//! `openssl_csr`: a request for a certificate.

use serde_json::{Value, json};

use super::{
    key::{self, Key},
    options::BACKEND,
    public_key,
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
    Opt::new("full_name", Kind::List(&Kind::Str), "Where the list is."),
    Opt::new("relative_name", Kind::List(&Kind::Str), "Where it is, relative to the authority's name."),
    Opt::new("crl_issuer", Kind::List(&Kind::Str), "Who signs it."),
    Opt::new("reasons", Kind::List(&Kind::Str), "The reasons for which it lists certificates.")
        .choices(REASONS.split_at(1).1),
];

static SPEC: Spec = Spec {
    name: "openssl_csr",
    collection: "community.crypto",
    summary: "Manage a request for a certificate",
    description: &[
        "Makes a request and signs it with its private key. One that says what is asked for, signed with that key, is left alone, \
         whoever made it.",
        "Names of hosts are written with their kind: `DNS:example.org`, `IP:192.0.2.1`, `email:`, `URI:`, `RID:`, `dirName:`, \
         `otherName:`; those with letters that are not ASCII must be written with `xn--`.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::Path, "The request."),
        Opt::new("state", Kind::Str, "Whether the request is there.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("privatekey_path", Kind::Path, "The private key."),
        Opt::new("privatekey_content", Kind::Str, "The private key itself.").secret(),
        Opt::new("privatekey_passphrase", Kind::Str, "What the key is encrypted with.").secret(),
        Opt::new("digest", Kind::Str, "What is signed: a hash of this kind.").default("\"sha256\""),
        Opt::new("version", Kind::Int, "There is only this one.").default("1").choices(&["1"]),
        Opt::new("subject", Kind::Dict, "Parts of the name; a list of texts is several parts."),
        Opt::new(
            "subject_ordered",
            Kind::List(&Kind::Dict),
            "Parts of the name in this order, each a mapping with one key."
        ),
        part("country_name", &["C", "countryName"], "The part C of the name."),
        part("state_or_province_name", &["ST", "stateOrProvinceName"], "The part ST of the name."),
        part("locality_name", &["L", "localityName"], "The part L of the name."),
        part("organization_name", &["O", "organizationName"], "The part O of the name."),
        part("organizational_unit_name", &["OU", "organizationalUnitName"], "The part OU of the name."),
        part("common_name", &["CN", "commonName"], "The part CN of the name."),
        part("email_address", &["E", "emailAddress"], "The part emailAddress of the name."),
        texts("subject_alt_name", &["subjectAltName"], "The names of hosts."),
        flag("subject_alt_name_critical", &["subjectAltName_critical"], "Who does not understand this must refuse."),
        Opt::new(
            "use_common_name_for_san",
            Kind::Bool,
            "Without `subject_alt_name` the common name is the name of the host."
        )
        .default("true")
        .aliases(&["useCommonNameForSAN"]),
        texts("key_usage", &["keyUsage"], "What the key may be used for."),
        flag("key_usage_critical", &["keyUsage_critical"], "Who does not understand this must refuse."),
        texts("extended_key_usage", &["extKeyUsage", "extendedKeyUsage"], "What else it may be used for."),
        flag(
            "extended_key_usage_critical",
            &["extKeyUsage_critical", "extendedKeyUsage_critical"],
            "Who does not understand this must refuse."
        ),
        texts("basic_constraints", &["basicConstraints"], "`CA:TRUE` for an authority, and `pathlen:N`."),
        flag("basic_constraints_critical", &["basicConstraints_critical"], "Who does not understand this must refuse."),
        flag("ocsp_must_staple", &["ocspMustStaple"], "A server must send a fresh answer of its authority along."),
        flag("ocsp_must_staple_critical", &["ocspMustStaple_critical"], "Who does not understand this must refuse."),
        texts("name_constraints_permitted", &[], "The names an authority may speak for."),
        texts("name_constraints_excluded", &[], "The names it may not speak for."),
        flag("name_constraints_critical", &[], "Who does not understand this must refuse."),
        flag("create_subject_key_identifier", &[], "Say what the key is called: its hash."),
        Opt::new("subject_key_identifier", Kind::Str, "What the key is called, in pairs of hexadecimal digits."),
        Opt::new("authority_key_identifier", Kind::Str, "What the authority's key is called."),
        texts("authority_cert_issuer", &[], "Who made the authority's certificate."),
        Opt::new(
            "authority_cert_serial_number",
            Kind::Raw,
            "The number of the authority's certificate; one of more than 64 bits in quotes."
        ),
        Opt::new("crl_distribution_points", Kind::List(&Kind::Dict), "Where lists of revoked certificates are.")
            .options(CRL_POINT),
        Opt::new("force", Kind::Bool, "Make the request anew.").default("false"),
        Opt::new("return_content", Kind::Bool, "Return the request itself.").default("false"),
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
        Return { name: "filename", kind: "str", when: "always", doc: "The request." },
        Return { name: "privatekey", kind: "str", when: "always", doc: "The private key's path." },
        Return {
            name: "subject",
            kind: "list",
            when: "always",
            doc: "The parts of the name, each a list of its name and text.",
        },
        Return { name: "subjectAltName", kind: "list", when: "always", doc: "The names of hosts." },
        Return { name: "keyUsage", kind: "list", when: "always", doc: "What the key may be used for." },
        Return { name: "extendedKeyUsage", kind: "list", when: "always", doc: "What else it may be used for." },
        Return { name: "basicConstraints", kind: "list", when: "always", doc: "Whether it is an authority's." },
        Return { name: "ocspMustStaple", kind: "bool", when: "always", doc: "Whether answers must be sent along." },
        Return { name: "csr", kind: "str", when: "return_content", doc: "The request itself." },
        Return { name: "backup_file", kind: "str", when: "a backup was made", doc: "The old request." },
    ],
    ..Spec::EMPTY
};

impl Module for OpensslCsr {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let (target, mut data) = Target::of_key(args, host)?;
        let return_content = args.bool("return_content");
        if args.str("state") == Some("absent") {
            // What was asked for is told as far as it can be read; none of it matters.
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
        // What is refused must be refused before anything is done.
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

/// The keys of the result that repeat what was asked for.
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

/// What a request says, for the difference.
fn info(bytes: &[u8], host: &Host) -> Result<Value, Failure> {
    let found = SigningRequest::read(bytes).and_then(|request| Some((request.describe(false)?, request)));
    let Some((mut info, request)) = found else { return Ok(json!({"can_parse_csr": false})) };
    info.insert("signature_valid".to_owned(), key::verify(&request.signed, &request.key, host)?.into());
    info.insert("can_parse_csr".to_owned(), true.into());
    Ok(info.into())
}
