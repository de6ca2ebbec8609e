//! The certificate and the key of a server with TLS.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Largest file of a key, in bytes.
const LARGEST: u64 = 64 << 10;

/// A server that proves its name with these PEM files. The key comes from the standard input if its file is `-`.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let unusable = |path: &Path, reason: &dyn std::fmt::Display| {
        Error::new(format!("`{}` cannot be used for TLS: {reason}", path.display()))
    };
    let text = windlass_bounds::read(certificate).map_err(|error| unusable(certificate, &error))?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&text)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| unusable(certificate, &error))?;
    if chain.is_empty() {
        return Err(unusable(certificate, &"it has no certificate in PEM format"));
    }
    let text = read_key(key).map_err(|error| unusable(key, &error))?;
    let key_of_chain = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| unusable(key, &"it has no private key in PEM format, or an encrypted one"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key_of_chain))
        .map_err(|error| {
            let (certificate, key) = (certificate.display(), key.display());
            Error::new(format!("`{certificate}` and `{key}` cannot be used for TLS: {error}"))
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Reads the key. The standard input is closed afterwards, since it may be the file itself.
fn read_key(path: &Path) -> std::io::Result<Zeroizing<Vec<u8>>> {
    // A vector that grows leaves copies behind.
    let mut content = Zeroizing::new(Vec::with_capacity(LARGEST as usize + 1));
    if path == Path::new("-") {
        std::io::stdin().take(LARGEST + 1).read_to_end(&mut content)?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    } else {
        File::open(path)?.take(LARGEST + 1).read_to_end(&mut content)?;
    }
    match content.len() as u64 > LARGEST {
        true => Err(std::io::Error::new(ErrorKind::InvalidData, format!("it is larger than {} KiB", LARGEST >> 10))),
        false => Ok(content),
    }
}
