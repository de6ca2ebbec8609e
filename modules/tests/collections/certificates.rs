use std::process::Command;

use serde_json::json;

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
fn a_certificate_is_told_in_parts() {
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
fn keys_of_curves_are_told_and_what_is_no_certificate_is_refused() {
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
