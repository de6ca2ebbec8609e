//! Modules for keys and certificates. `openssl` and `ssh-keygen` create and use keys, because they support all key
//! types and encryptions. This crate itself encodes requests and certificates.

pub(crate) mod der;
mod encode;
mod extension;
mod general_name;
mod key;
mod names;
mod old;
pub mod openssh_keypair;
pub mod openssl_csr;
pub mod openssl_csr_info;
pub mod openssl_privatekey;
pub mod openssl_privatekey_info;
pub mod openssl_publickey;
mod options;
mod public_key;
mod request;
mod signed;
mod target;
mod times;
pub mod x509_certificate;
pub mod x509_certificate_info;

/// Subject alternative names of a certificate in PEM, with their type prefixes: `DNS:name`, `IP:address`.
pub(crate) fn alternative_names(pem: &[u8]) -> Option<Vec<String>> {
    extension::alternative_names(&signed::Certificate::read(pem)?.extensions)
}
