use std::process::Command;

use serde_json::{Value, json};

use crate::{case::Bench, has};

/// A certificate made by openssl with these options.
fn certificate(bench: &Bench, options: &[&str]) {
    let output = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "30"])
        .args(options)
        .current_dir(bench.directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn certificate_info_returned() {
    if !has("openssl") {
        return;
    }
    let bench = Bench::new();
    certificate(
        &bench,
        &[
            "-newkey",
            "rsa:2048",
            "-subj",
            "/C=DE/O=Example/CN=example.org",
            "-set_serial",
            "0x0102030405060708090a",
            "-addext",
            "subjectAltName=DNS:example.org,IP:192.0.2.1,IP:2001:db8::1,email:a@example.org,URI:http://x/",
            "-addext",
            "keyUsage=critical,digitalSignature,keyEncipherment",
            "-addext",
            "extendedKeyUsage=serverAuth,clientAuth",
            "-addext",
            "tlsfeature=status_request",
            "-addext",
            "authorityInfoAccess=OCSP;URI:http://ocsp.example.org/",
        ],
    );
    let args =
        json!({"path": "@/cert.pem", "valid_at": {"tomorrow": "+1d", "later": "+20w", "then": "20200101000000Z"}});
    let result = bench.rests("community.crypto.x509_certificate_info", args);
    let expected = json!({
        "version": 3,
        "serial_number": "4759477275222530853130",
        "signature_algorithm": "sha256WithRSAEncryption",
        "subject": {"countryName": "DE", "organizationName": "Example", "commonName": "example.org"},
        "issuer_ordered": [["countryName", "DE"], ["organizationName", "Example"], ["commonName", "example.org"]],
        "expired": false,
        "public_key_type": "RSA",
        "key_usage": ["Digital Signature", "Key Encipherment"],
        "key_usage_critical": true,
        "extended_key_usage": ["TLS Web Client Authentication", "TLS Web Server Authentication"],
        "extended_key_usage_critical": false,
        "basic_constraints": ["CA:TRUE"],
        "basic_constraints_critical": true,
        "ocsp_must_staple": true,
        "subject_alt_name": ["DNS:example.org", "IP:192.0.2.1", "IP:2001:db8::1", "email:a@example.org", "URI:http://x/"],
        "ocsp_uri": "http://ocsp.example.org/",
        "issuer_uri": null,
        "valid_at": {"tomorrow": true, "later": false, "then": false},
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&result[key], value, "{key} of {result}");
    }
    assert_eq!(
        (&result["public_key_data"]["size"], &result["public_key_data"]["exponent"]),
        (&json!(2048), &json!(65537))
    );
    let shown = Command::new("openssl")
        .args(["x509", "-in", "cert.pem", "-noout", "-fingerprint", "-sha256", "-pubkey"])
        .current_dir(bench.directory.path())
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let fingerprint = result["fingerprints"]["sha256"].as_str().unwrap().to_uppercase();
    assert!(shown.contains(&format!("={fingerprint}\n")), "{shown}");
    assert!(shown.contains(result["public_key"].as_str().unwrap()), "{shown}");
}

#[test]
fn curve_keys_described_invalid_certificate_refused() {
    if !has("openssl") {
        return;
    }
    let bench = Bench::new();
    certificate(&bench, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=x"]);
    let content = bench.read("cert.pem");
    let result = bench.rests("x509_certificate_info", json!({"content": content}));
    assert_eq!(
        (&result["public_key_type"], &result["public_key_data"]["curve"], &result["key_usage"]),
        (&json!("ECC"), &json!("secp256r1"), &json!(null))
    );
    bench.write("broken", "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n").write("none", "text");
    for (args, word) in [
        (json!({"path": "@/missing"}), "Error while reading certificate file from disk"),
        (json!({"path": "@/none"}), "Unable to load certificate"),
        (json!({"path": "@/broken"}), "Unable to load certificate"),
        (json!({}), "one of the following is required: path, content"),
        (json!({"path": "@/cert.pem", "valid_at": {"x": "soon"}}), "for valid_at.x is invalid"),
    ] {
        bench.refuses("x509_certificate_info", args, word);
    }
}

/// Runs openssl in the directory, and returns its output.
fn openssl(bench: &Bench, words: &[&str]) -> String {
    let output = Command::new("openssl").args(words).current_dir(bench.directory.path()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// A directory with a key of an elliptic curve.
fn with_key() -> Bench {
    let bench = Bench::new();
    openssl(&bench, &["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "key.pem"]);
    bench
}

fn csr(more: Value) -> Value {
    let mut args = json!({"path": "@/site.csr", "privatekey_path": "@/key.pem", "common_name": "example.org"});
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    args
}

#[test]
fn signing_request_contains_requested_values() {
    if !has("openssl") {
        return;
    }
    let bench = with_key();
    let result = bench.converges("openssl_csr", csr(json!({})));
    assert_eq!(result["subjectAltName"], json!(["DNS:example.org"]));
    assert_eq!(result["subject"], json!([["CN", "example.org"]]));
    assert_eq!((&result["diff"]["before"], &result["diff"]["after"]["can_parse_csr"]), (&json!({}), &json!(true)));
    let all = csr(json!({
        "subject": {"O": "Example", "OU": ["one", "two"], "emailAddress": "postmaster"},
        "C": "DE",
        "subject_alt_name": [
            "DNS:example.org", "IP:192.0.2.1", "IP:2001:db8::1", "URI:https://example.org/", "RID:1.2.3.4",
            "dirName:CN = x, O = y", "otherName:1.3.6.1.4.1.311.20.2.3;UTF8:ada",
        ],
        "subject_alt_name_critical": true,
        "key_usage": ["digitalSignature", "Key Encipherment"],
        "key_usage_critical": true,
        "extended_key_usage": ["serverAuth", "TLS Web Client Authentication", "1.3.6.1.5.5.7.3.17"],
        "basic_constraints": ["CA:TRUE", "pathlen:2"],
        "basic_constraints_critical": true,
        "ocsp_must_staple": true,
        "name_constraints_permitted": ["DNS:.example.org", "IP:10.0.0.0/8"],
        "name_constraints_excluded": ["DNS:.example.com"],
        "create_subject_key_identifier": true,
        "authority_key_identifier": "00:11:22:33",
        "authority_cert_issuer": ["dirName:CN=ca"],
        "authority_cert_serial_number": "1461501637330902918203684832716283019655932542975",
        "crl_distribution_points": [
            {"full_name": ["URI:https://ca.example.org/list.crl"], "reasons": ["key_compromise", "superseded"],
             "crl_issuer": ["dirName:CN=ca"]},
            {"relative_name": ["CN=list"], "crl_issuer": ["dirName:CN=ca"]},
        ],
    }));
    bench.converges("openssl_csr", all);
    let text = openssl(&bench, &["req", "-in", "site.csr", "-noout", "-text", "-verify"]);
    for part in [
        "Subject: C = DE, CN = example.org, O = Example, OU = one, OU = two, emailAddress = postmaster",
        "X509v3 Subject Alternative Name: critical",
        "DNS:example.org, IP Address:192.0.2.1, IP Address:2001:DB8:0:0:0:0:0:1, URI:https://example.org/",
        "Digital Signature, Key Encipherment",
        "TLS Web Server Authentication, TLS Web Client Authentication, ipsec Internet Key Exchange",
        "CA:TRUE, pathlen:2",
        "status_request",
        "IP:10.0.0.0/255.0.0.0",
        "keyid:00:11:22:33",
        "URI:https://ca.example.org/list.crl",
        "Key Compromise, Superseded",
        "verify OK",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let told = bench.rests("openssl_csr_info", json!({"path": "@/site.csr"}));
    assert_eq!(told["name_constraints_permitted"], json!(["DNS:.example.org", "IP:10.0.0.0/8"]));
    assert_eq!(told["authority_cert_serial_number"], json!("1461501637330902918203684832716283019655932542975"));
    assert_eq!(told["subject_alt_name"][5], json!("dirName:CN=x,O=y"));
    assert_eq!(told["signature_valid"], true);
    // Without the extensions, the request differs.
    bench.converges("openssl_csr", csr(json!({"use_common_name_for_san": false, "backup": true})));
}

#[test]
fn equivalent_signing_request_unchanged() {
    if !has("openssl") {
        return;
    }
    let bench = with_key();
    openssl(
        &bench,
        &[
            "req",
            "-new",
            "-key",
            "key.pem",
            "-out",
            "site.csr",
            "-subj",
            "/O=Example/CN=example.org",
            "-addext",
            "subjectAltName=DNS:b.example.org,DNS:a.example.org",
            "-addext",
            "keyUsage=keyEncipherment,digitalSignature",
        ],
    );
    let args = csr(json!({
        "organization_name": "Example",
        "subject_alt_name": ["DNS:a.example.org", "DNS:b.example.org"],
        "key_usage": ["digitalSignature", "keyEncipherment"],
    }));
    bench.rests("openssl_csr", args.clone());
    let ordered = json!({"path": "@/site.csr", "privatekey_path": "@/key.pem", "use_common_name_for_san": false,
        "subject_ordered": [{"CN": "example.org"}, {"O": "Example"}]});
    bench.converges("openssl_csr", ordered);
    // With another key, the certificate is signed again.
    openssl(&bench, &["genpkey", "-algorithm", "ED25519", "-out", "key.pem"]);
    bench.converges("openssl_csr", args);
    assert!(openssl(&bench, &["req", "-in", "site.csr", "-noout", "-verify"]).contains("verify OK"));
}

#[test]
fn invalid_signing_request_refused() {
    if !has("openssl") {
        return;
    }
    let bench = with_key();
    openssl(&bench, &["genpkey", "-algorithm", "X25519", "-out", "exchange.pem"]);
    openssl(&bench, &["pkey", "-in", "key.pem", "-aes256", "-passout", "pass:secret", "-out", "closed.pem"]);
    bench.converges("openssl_csr", csr(json!({"privatekey_path": "@/closed.pem", "privatekey_passphrase": "secret"})));
    for (more, part) in [
        (json!({"subject_alt_name": ["example.org"]}), "forgot \"DNS:\" prefix?"),
        (json!({"subject_alt_name": ["IP:1.2.3"]}), "IP:1.2.3"),
        (json!({"key_usage": ["all"]}), "Unknown key usage \"all\""),
        (json!({"extended_key_usage": ["all"]}), "Cannot find OID for \"all\""),
        (json!({"basic_constraints": ["CA:YES"]}), "Unknown basic constraint value"),
        (json!({"subject": {"none": "x"}}), "Cannot find OID for \"none\""),
        (json!({"country_name": "Germany"}), "countryName"),
        (json!({"digest": "sha0"}), "Unsupported digest"),
        (json!({"privatekey_path": "@/none.pem"}), "cannot be read"),
        (json!({"privatekey_path": "@/exchange.pem"}), "X25519"),
        (json!({"privatekey_passphrase": "secret"}), "passphrase"),
        (json!({"privatekey_path": "@/closed.pem", "privatekey_passphrase": "wrong"}), "Wrong passphrase"),
        (json!({"path": "@/none/site.csr"}), "does not exist"),
        (json!({"authority_cert_issuer": ["dirName:CN=x"]}), "authority_cert_serial_number"),
        (json!({"crl_distribution_points": [{"reasons": ["superseded"]}]}), "one of the following is required"),
    ] {
        bench.refuses("openssl_csr", csr(more), part);
    }
    bench.refuses("openssl_csr", json!({"path": "@/site.csr"}), "privatekey_path, privatekey_content");
    bench.converges("openssl_csr", json!({"path": "@/site.csr", "state": "absent", "backup": true}));
}

#[test]
fn certificate_self_signed_or_signed_by_ca() {
    if !has("openssl") {
        return;
    }
    let bench = with_key();
    let alone = json!({"path": "@/alone.crt", "provider": "selfsigned", "privatekey_path": "@/key.pem"});
    bench.converges("x509_certificate", alone);
    let ca_request = json!({"path": "@/ca.csr", "privatekey_path": "@/key.pem", "common_name": "ca", "use_common_name_for_san": false,
        "basic_constraints": ["CA:TRUE"], "basic_constraints_critical": true, "key_usage": ["keyCertSign"]});
    bench.converges("openssl_csr", ca_request);
    let authority = json!({"path": "@/ca.crt", "csr_path": "@/ca.csr", "provider": "selfsigned", "privatekey_path": "@/key.pem",
        "selfsigned_not_before": "20200101000000Z", "selfsigned_not_after": "20600101000000Z"});
    let result = bench.converges("x509_certificate", authority.clone());
    assert_eq!((&result["notBefore"], &result["notAfter"]), (&json!("20200101000000Z"), &json!("20600101000000Z")));
    openssl(&bench, &["genpkey", "-algorithm", "RSA", "-out", "site.pem"]);
    bench.converges("openssl_csr", csr(json!({"privatekey_path": "@/site.pem", "extended_key_usage": ["serverAuth"]})));
    let site = json!({"path": "@/site.crt", "csr_path": "@/site.csr", "provider": "ownca", "ownca_path": "@/ca.crt",
        "ownca_privatekey_path": "@/key.pem", "mode": "0640", "return_content": true});
    let result = bench.converges("x509_certificate", site.clone());
    assert_eq!(result["certificate"], bench.read("site.crt"));
    assert_eq!(
        (&result["diff"]["after"]["extended_key_usage"], bench.mode("site.crt")),
        (&json!(["TLS Web Server Authentication"]), 0o640)
    );
    assert!(openssl(&bench, &["verify", "-CAfile", "ca.crt", "site.crt"]).contains("site.crt: OK"));
    let text = openssl(&bench, &["x509", "-in", "site.crt", "-noout", "-text"]);
    assert!(text.contains("DNS:example.org") && text.contains("X509v3 Authority Key Identifier"), "{text}");
    // Validity is compared only with `ignore_timestamps: false`.
    bench.rests("x509_certificate", with(&site, json!({"ownca_not_after": "20500101000000Z"})));
    let dated = json!({"ignore_timestamps": false, "ownca_not_before": "20240101000000Z", "ownca_not_after": "20500101000000Z"});
    bench.converges("x509_certificate", with(&site, dated));
    bench.converges("x509_certificate", with(&site, json!({"ownca_create_subject_key_identifier": "never_create"})));
    // Another CA of the same name does not match.
    openssl(&bench, &["genpkey", "-algorithm", "ED448", "-out", "key.pem"]);
    bench.converges(
        "openssl_csr",
        json!({"path": "@/ca.csr", "privatekey_path": "@/key.pem", "common_name": "ca",
        "basic_constraints": ["CA:TRUE"]}),
    );
    bench.converges("x509_certificate", authority);
    bench.converges("x509_certificate", with(&site, json!({"backup": true})));
    assert!(openssl(&bench, &["verify", "-CAfile", "ca.crt", "site.crt"]).contains("site.crt: OK"));
    for (more, part) in [
        (json!({"ownca_privatekey_path": "@/site.pem"}), "does not belong to the CA certificate"),
        (json!({"ownca_path": "@/none"}), "does not exist"),
        (json!({"csr_path": "@/none"}), "does not exist"),
        (json!({"csr_path": "@/key.pem"}), "certificate signing request"),
        (json!({"ownca_not_after": "soon"}), "The time spec \"soon\" for ownca_not_after is invalid"),
        (json!({"provider": "acme"}), "acme_certificate"),
        (json!({"provider": "selfsigned"}), "One of privatekey_path and privatekey_content"),
        (json!({"provider": null}), "provider"),
    ] {
        bench.refuses("x509_certificate", with(&site, more), part);
    }
    bench.converges("x509_certificate", json!({"path": "@/site.crt", "state": "absent"}));
}

fn with(args: &Value, more: Value) -> Value {
    let mut args = args.clone();
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    args
}
