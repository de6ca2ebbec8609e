//! CA certificates that verify servers, and client certificates.

use std::path::{Path, PathBuf};

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, parse_pem};

use crate::{Failure, Host, process::reason};

/// Locations of the host's CA bundle in various distributions.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The CA certificates to trust: from `ca_path`, otherwise the host's.
pub(crate) fn authorities(ca_path: Option<&str>, host: &Host) -> Result<RootCerts, Failure> {
    if let Some(path) = ca_path {
        return Ok(RootCerts::from(certificates(Path::new(path))?));
    }
    let named = host.variable("SSL_CERT_FILE").map(PathBuf::from);
    let found = named.into_iter().chain(BUNDLES.iter().map(PathBuf::from)).find(|path| path.is_file());
    Ok(RootCerts::from(found.map(|path| certificates(&path)).transpose()?.unwrap_or_default()))
}

/// CA certificates of a [`super::client::Service`].
#[derive(Debug, Default)]
pub(crate) enum Trusted {
    /// The host's CA certificates.
    #[default]
    Host,
    /// CA certificates in a file.
    File(String),
    /// CA certificates in this PEM text.
    Pem(Vec<u8>),
}

impl Trusted {
    pub(super) fn roots(&self, host: &Host) -> Result<RootCerts, Failure> {
        match self {
            Trusted::Host => authorities(None, host),
            Trusted::File(path) => authorities(Some(path), host),
            Trusted::Pem(text) => Ok(RootCerts::from(of_pem(text))),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path)
        .map_err(|error| Failure::new(format!("{} could not be read: {}.", path.display(), reason(&error))))
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let mut found = Vec::new();
    for file in files(path)? {
        found.extend(of_pem(&read(&file)?));
    }
    Ok(found)
}

fn of_pem(text: &[u8]) -> Vec<Certificate<'static>> {
    let items = parse_pem(text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    items.collect()
}

/// A client certificate with its chain and key.
pub(super) fn identity(certificate: &[u8], key: &[u8]) -> Result<ClientCert, Failure> {
    let chain = of_pem(certificate);
    if chain.is_empty() {
        return Err(Failure::new("The client certificate is not in PEM form."));
    }
    let key = PrivateKey::from_pem(key)
        .map_err(|_| Failure::new("The client certificate's key is not in PEM form, or is encrypted."))?;
    Ok(ClientCert::new_with_certs(&chain, key))
}

/// The file itself, or the files of a directory.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path);
    let entries = entries
        .map_err(|error| Failure::new(format!("{} could not be listed: {}.", path.display(), reason(&error))))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

/// The certificate and key from `client_cert` and `client_key`. The certificate's file may contain the key too.
pub(crate) fn client(certificate: Option<&str>, key: Option<&str>) -> Result<Option<ClientCert>, Failure> {
    let Some(certificate) = certificate else { return Ok(None) };
    let chain = certificates(Path::new(certificate))?;
    if chain.is_empty() {
        return Err(Failure::new(format!("client_cert {certificate} has no certificate in PEM form.")));
    }
    let path = key.unwrap_or(certificate);
    let key = PrivateKey::from_pem(&read(Path::new(path))?)
        .map_err(|_| Failure::new(format!("{path} has no private key in PEM form, which client_cert needs.")))?;
    Ok(Some(ClientCert::new_with_certs(&chain, key)))
}
